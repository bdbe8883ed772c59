//! Collects rows and deletions of system tables and encodes them, one mutation a partition.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::base::ids::{ColumnId, TableId};
use crate::mutation::{MutationBuilder, Stamp};
use crate::plan::{Context, PlannedMutation};
use crate::schema::{Position, Schema, Table, clustering, partitioner};
use crate::types::CqlType;
use crate::types::collection::{pack_list, pack_map, pack_set};

/// One cell's value, or a collection's elements each in a cell of its own.
enum Content {
    Simple(Vec<u8>),
    /// Paths without values: a set that is not frozen.
    Elements(Vec<Vec<u8>>),
}

/// One row of a system table by the names of its columns. A name that the table does not have is a mistake of this module.
pub struct Row {
    clustering: Vec<u8>,
    cells: Vec<(&'static str, Content)>,
}

impl Row {
    /// The row with these text clustering values; none for a table without clustering.
    pub fn new(clustering_texts: &[&str]) -> Row {
        Row { clustering: prefix(clustering_texts), cells: Vec::new() }
    }

    pub fn bytes(mut self, column: &'static str, value: impl Into<Vec<u8>>) -> Row {
        self.cells.push((column, Content::Simple(value.into())));
        self
    }

    pub fn text(self, column: &'static str, value: &str) -> Row {
        self.bytes(column, value)
    }

    pub fn boolean(self, column: &'static str, value: bool) -> Row {
        self.bytes(column, [u8::from(value)])
    }

    pub fn int(self, column: &'static str, value: i32) -> Row {
        self.bytes(column, value.to_be_bytes())
    }

    pub fn double(self, column: &'static str, value: f64) -> Row {
        self.bytes(column, value.to_be_bytes())
    }

    /// A frozen map of texts.
    pub fn text_map<'a>(
        self,
        column: &'static str,
        entries: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Row {
        let entries = entries.into_iter().map(|(key, value)| (key.as_bytes(), value.as_bytes()));
        self.bytes(column, pack_map(&CqlType::Text, entries))
    }

    /// A frozen list of texts.
    pub fn text_list(self, column: &'static str, texts: &[String]) -> Row {
        self.bytes(column, pack_list(texts.iter().map(|text| Some(text.as_bytes()))))
    }

    /// A frozen set of texts.
    pub fn text_set(self, column: &'static str, texts: &[&str]) -> Row {
        self.bytes(column, pack_set(&CqlType::Text, texts.iter().map(|text| text.as_bytes())))
    }

    /// A set of texts whose elements are cells.
    pub fn text_elements(mut self, column: &'static str, texts: impl IntoIterator<Item = String>) -> Row {
        self.cells.push((column, Content::Elements(texts.into_iter().map(String::into_bytes).collect())));
        self
    }
}

enum Entry {
    DeletePartition,
    /// Everything that starts with the prefix.
    Delete(Vec<u8>),
    Row(Row),
}

struct Partition {
    table: Rc<Table>,
    key: Vec<u8>,
    entries: Vec<Entry>,
}

/// What is written to the system tables of a schema.
pub struct Writer<'s> {
    schema: &'s Schema,
    now_s: i64,
    partitions: Vec<Partition>,
    /// Where each partition stands in the list.
    places: BTreeMap<(TableId, Vec<u8>), usize>,
}

impl<'s> Writer<'s> {
    /// `schema` has the system tables; `context` says when deletions happen.
    pub fn new(schema: &'s Schema, context: &Context) -> Self {
        Writer { schema, now_s: context.now_us.div_euclid(1_000_000), partitions: Vec::new(), places: BTreeMap::new() }
    }

    pub fn put(&mut self, keyspace: &str, table: &str, key: &str, row: Row) {
        self.add(keyspace, table, key, Entry::Row(row));
    }

    pub fn delete_partition(&mut self, keyspace: &str, table: &str, key: &str) {
        self.add(keyspace, table, key, Entry::DeletePartition);
    }

    /// Deletes the rows whose clustering key starts with these texts.
    pub fn delete(&mut self, keyspace: &str, table: &str, key: &str, clustering_texts: &[&str]) {
        self.add(keyspace, table, key, Entry::Delete(prefix(clustering_texts)));
    }

    fn add(&mut self, keyspace: &str, table: &str, key: &str, entry: Entry) {
        let table = self.schema.table(keyspace, table).expect("every schema has the system's tables");
        let key = key.as_bytes().to_vec();
        let place = *self.places.entry((table.id, key.clone())).or_insert_with(|| {
            self.partitions.push(Partition { table: table.clone(), key, entries: Vec::new() });
            self.partitions.len() - 1
        });
        self.partitions[place].entries.push(entry);
    }

    pub fn finish(self) -> Vec<PlannedMutation> {
        let now_s = self.now_s;
        self.partitions.into_iter().map(|partition| partition.encode(now_s)).collect()
    }
}

impl Partition {
    fn encode(self, now_s: i64) -> PlannedMutation {
        let Partition { table, key, entries } = self;
        let mut bytes = Vec::new();
        let mut builder = MutationBuilder::begin(&mut bytes, table.id, table.version, &key);
        for entry in &entries {
            match entry {
                Entry::DeletePartition => {
                    builder.partition_deletion(BEFORE, now_s);
                }
                Entry::Delete(prefix) => {
                    builder.range_tombstone(Position::before(prefix), Position::after(prefix), BEFORE, now_s);
                }
                Entry::Row(row) => encode_row(&mut builder, &table, row, now_s),
            }
        }
        let token = partitioner::token_of(&key);
        PlannedMutation { table, token, bytes }
    }
}

const NOW: Stamp = Stamp::Base(0);
const BEFORE: Stamp = Stamp::Base(-1);

fn encode_row(builder: &mut MutationBuilder<'_>, table: &Table, row: &Row, now_s: i64) {
    let mut cells: Vec<(ColumnId, &Content)> = Vec::with_capacity(row.cells.len());
    for (name, content) in &row.cells {
        let column = table.column(name).expect("rows name columns of their table; the tests write every one");
        cells.push((column.id, content));
    }
    cells.sort_by_key(|(id, _)| *id);
    builder.row(&row.clustering).liveness(NOW, None);
    for (id, content) in cells {
        match content {
            Content::Simple(value) => {
                builder.cell(id, None, NOW, None, value);
            }
            Content::Elements(paths) => {
                builder.complex_deletion(id, BEFORE, now_s);
                for path in paths {
                    builder.cell(id, Some(path), NOW, None, b"");
                }
            }
        }
    }
}

fn prefix(texts: &[&str]) -> Vec<u8> {
    let mut prefix = Vec::new();
    texts.iter().for_each(|text| clustering::push_component(&mut prefix, text.as_bytes()));
    prefix
}
