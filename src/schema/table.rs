//! The schema's values: what a keyspace, a table and a column are, and the ordered changes between two schemas.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::base::collections::{HashMap, hasher};
use crate::base::ids::{ColumnId, TableId, TimestampMicros};
use crate::schema::clustering::ClusteringOrder;
use crate::schema::columns::{Column, Columns};
use crate::types::{CqlType, UdtType};

/// A column that DROP took away. Its id stays taken, so its old cells stay gone whatever is added under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedColumn {
    pub id: ColumnId,
    pub name: String,
    pub ty: CqlType,
    pub is_static: bool,
    pub dropped_at: TimestampMicros,
}

/// The options of CREATE TABLE … WITH, with Cassandra 5.0's defaults. Those without effect here are stored and shown.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    pub additional_write_policy: String,
    pub allow_auto_snapshot: bool,
    pub bloom_filter_fp_chance: f64,
    pub caching: BTreeMap<String, String>,
    pub cdc: bool,
    pub comment: String,
    /// With `class` fully qualified.
    pub compaction: BTreeMap<String, String>,
    pub compression: BTreeMap<String, String>,
    pub crc_check_chance: f64,
    pub default_time_to_live_s: i32,
    pub extensions: BTreeMap<String, Vec<u8>>,
    pub gc_grace_seconds: i32,
    pub incremental_backups: bool,
    pub max_index_interval: i32,
    pub memtable: String,
    pub memtable_flush_period_in_ms: i32,
    pub min_index_interval: i32,
    pub read_repair: String,
    pub speculative_retry: String,
}

impl Default for TableOptions {
    /// What Cassandra 5.0 shows for a table created without options.
    fn default() -> Self {
        let map = |entries: &[(&str, &str)]| {
            entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        TableOptions {
            additional_write_policy: "99p".into(),
            allow_auto_snapshot: true,
            bloom_filter_fp_chance: 0.01,
            caching: map(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
            cdc: false,
            comment: String::new(),
            compaction: map(&[
                ("class", "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"),
                ("max_threshold", "32"),
                ("min_threshold", "4"),
            ]),
            compression: map(&[
                ("chunk_length_in_kb", "16"),
                ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
            ]),
            crc_check_chance: 1.0,
            default_time_to_live_s: 0,
            extensions: BTreeMap::new(),
            gc_grace_seconds: 864_000,
            incremental_backups: true,
            max_index_interval: 2048,
            memtable: "default".into(),
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            read_repair: "BLOCKING".into(),
            speculative_retry: "99p".into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub id: TableId,
    pub keyspace: String,
    pub name: String,
    /// Raised by every change of this table; records in the log and SSTables carry it.
    pub version: u32,
    pub columns: Columns,
    pub dropped: Vec<DroppedColumn>,
    pub next_column_id: u16,
    pub options: TableOptions,
    pub is_counter: bool,
}

impl Table {
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.get(self.columns.place(name)?)
    }

    pub fn column_by_id(&self, id: ColumnId) -> Option<&Column> {
        self.columns.by_id(id)
    }

    /// In key order.
    pub fn partition_key(&self) -> std::slice::Iter<'_, Column> {
        self.columns.partition_key().iter()
    }

    /// In clustering order.
    pub fn clustering(&self) -> std::slice::Iter<'_, Column> {
        self.columns.clustering().iter()
    }

    pub fn statics(&self) -> std::slice::Iter<'_, Column> {
        self.columns.statics().iter()
    }

    pub fn regulars(&self) -> std::slice::Iter<'_, Column> {
        self.columns.regulars().iter()
    }

    pub fn has_statics(&self) -> bool {
        self.statics().next().is_some()
    }

    /// How the rows of a partition are ordered.
    pub fn clustering_order(&self) -> &ClusteringOrder {
        self.columns.clustering_order()
    }
}

#[derive(Clone, Debug)]
pub struct Keyspace {
    pub name: String,
    pub durable_writes: bool,
    /// With `class` fully qualified, verbatim otherwise.
    pub replication: BTreeMap<String, String>,
    pub types: BTreeMap<String, UdtType>,
    pub tables: BTreeMap<String, Rc<Table>>,
}

/// One ordered change of a schema. A DDL statement is a list of them; ids are fixed within, so that every shard gets
/// the same schema.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaOp {
    PutKeyspace { name: String, durable_writes: bool, replication: BTreeMap<String, String> },
    DropKeyspace { name: String },
    PutType(UdtType),
    DropType { keyspace: String, name: String },
    PutTable(Box<Table>),
    DropTable { keyspace: String, name: String, id: TableId },
}

/// All that is defined, system keyspaces included.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Raised by every change.
    pub epoch: u64,
    pub keyspaces: BTreeMap<String, Keyspace>,
    by_id: HashMap<TableId, Rc<Table>>,
}

impl Default for Schema {
    fn default() -> Self {
        Schema { epoch: 0, keyspaces: BTreeMap::new(), by_id: HashMap::with_hasher(hasher()) }
    }
}

impl Schema {
    pub fn keyspace(&self, name: &str) -> Option<&Keyspace> {
        self.keyspaces.get(name)
    }

    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Rc<Table>> {
        self.keyspaces.get(keyspace)?.tables.get(name)
    }

    pub fn table_by_id(&self, id: TableId) -> Option<&Rc<Table>> {
        self.by_id.get(&id)
    }

    /// Applies one change. Ops name existing keyspaces: a table or type of an unknown keyspace is ignored, since its
    /// keyspace was dropped before it.
    pub fn apply(&mut self, op: &SchemaOp) {
        match op {
            SchemaOp::PutKeyspace { name, durable_writes, replication } => {
                let keyspace = self.keyspaces.entry(name.clone()).or_insert_with(|| Keyspace {
                    name: name.clone(),
                    durable_writes: true,
                    replication: BTreeMap::new(),
                    types: BTreeMap::new(),
                    tables: BTreeMap::new(),
                });
                keyspace.durable_writes = *durable_writes;
                keyspace.replication.clone_from(replication);
            }
            SchemaOp::DropKeyspace { name } => {
                if let Some(keyspace) = self.keyspaces.remove(name) {
                    for table in keyspace.tables.values() {
                        self.by_id.remove(&table.id);
                    }
                }
            }
            SchemaOp::PutType(udt) => {
                if let Some(keyspace) = self.keyspaces.get_mut(&udt.keyspace) {
                    keyspace.types.insert(udt.name.clone(), udt.clone());
                }
            }
            SchemaOp::DropType { keyspace, name } => {
                if let Some(keyspace) = self.keyspaces.get_mut(keyspace) {
                    keyspace.types.remove(name);
                }
            }
            SchemaOp::PutTable(table) => {
                if let Some(keyspace) = self.keyspaces.get_mut(&table.keyspace) {
                    let table = Rc::new((**table).clone());
                    if let Some(before) = keyspace.tables.insert(table.name.clone(), table.clone()) {
                        self.by_id.remove(&before.id);
                    }
                    self.by_id.insert(table.id, table);
                }
            }
            SchemaOp::DropTable { keyspace, name, id } => {
                if let Some(keyspace) = self.keyspaces.get_mut(keyspace) {
                    keyspace.tables.remove(name);
                }
                self.by_id.remove(id);
            }
        }
        self.epoch += 1;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::schema::columns::ColumnKind;

    fn column(name: &str, ty: CqlType, kind: ColumnKind) -> Column {
        Column { id: ColumnId(0), name: name.to_owned(), ty, kind }
    }

    fn table(id: u8, name: &str, mut columns: Vec<Column>) -> Table {
        for (id, column) in (0..).zip(&mut columns) {
            column.id = ColumnId(id);
        }
        Table {
            id: TableId([id; 16]),
            keyspace: "ks".to_owned(),
            name: name.to_owned(),
            version: 1,
            next_column_id: 100,
            columns: Columns::new(columns),
            dropped: Vec::new(),
            options: TableOptions::default(),
            is_counter: false,
        }
    }

    fn put_keyspace(durable_writes: bool) -> SchemaOp {
        SchemaOp::PutKeyspace { name: "ks".to_owned(), durable_writes, replication: BTreeMap::new() }
    }

    fn put(id: u8, name: &str) -> SchemaOp {
        SchemaOp::PutTable(Box::new(table(id, name, Vec::new())))
    }

    #[test]
    fn columns_are_found_by_kind_name_and_id() {
        let clustering = |position, descending| ColumnKind::Clustering { position, descending };
        let table = table(
            1,
            "t",
            vec![
                column("z", CqlType::Int, ColumnKind::Regular),
                column("l", CqlType::list(CqlType::Int), ColumnKind::Regular),
                column("s", CqlType::Int, ColumnKind::Static),
                column("c", CqlType::Int, clustering(1, false)),
                column("d", CqlType::Int, clustering(0, true)),
                column("k", CqlType::Int, ColumnKind::PartitionKey(1)),
                column("p", CqlType::Int, ColumnKind::PartitionKey(0)),
            ],
        );
        let of =
            |columns: Vec<&Column>| columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(" ");
        assert_eq!(of(table.partition_key().collect()), "p k");
        assert_eq!(of(table.clustering().collect()), "d c");
        assert_eq!(of(table.statics().collect()), "s");
        assert_eq!(of(table.regulars().collect()), "l z");
        assert!(table.has_statics());
        assert_eq!(*table.clustering_order(), ClusteringOrder::new([(CqlType::Int, true), (CqlType::Int, false)]));
        assert_eq!(table.column("l").map(|column| column.id), Some(ColumnId(1)));
        assert_eq!(table.column_by_id(ColumnId(1)).map(|column| column.name.as_str()), Some("l"));
        assert_eq!(table.column("nosuch"), None);
    }

    #[test]
    fn changes_apply_in_order() {
        let mut schema = Schema::default();
        for op in [put_keyspace(true), put(1, "a"), put(2, "b"), put_keyspace(false)] {
            schema.apply(&op);
        }
        let keyspace = schema.keyspace("ks").unwrap();
        assert!(!keyspace.durable_writes && keyspace.tables.len() == 2, "a changed keyspace keeps its tables");
        assert_eq!(schema.epoch, 4);
        assert_eq!(schema.table_by_id(TableId([1; 16])).unwrap().name, "a");
        schema.apply(&SchemaOp::DropTable { keyspace: "ks".to_owned(), name: "a".to_owned(), id: TableId([1; 16]) });
        assert!(schema.table("ks", "a").is_none() && schema.table_by_id(TableId([1; 16])).is_none());
        schema.apply(&put(3, "b"));
        assert!(schema.table_by_id(TableId([2; 16])).is_none(), "a table made anew takes the place of the old");
        schema.apply(&SchemaOp::DropKeyspace { name: "ks".to_owned() });
        assert!(schema.keyspace("ks").is_none() && schema.table_by_id(TableId([3; 16])).is_none());
    }

    #[test]
    fn what_belongs_to_no_keyspace_is_ignored() {
        let mut schema = Schema::default();
        let udt = UdtType { keyspace: "ks".to_owned(), name: "ty".to_owned(), fields: Vec::new() };
        schema.apply(&put(1, "a"));
        schema.apply(&SchemaOp::PutType(udt.clone()));
        schema.apply(&SchemaOp::DropKeyspace { name: "ks".to_owned() });
        assert!(schema.keyspaces.is_empty() && schema.table_by_id(TableId([1; 16])).is_none());
        schema.apply(&put_keyspace(true));
        schema.apply(&SchemaOp::PutType(udt));
        assert!(schema.keyspace("ks").unwrap().types.contains_key("ty"));
        schema.apply(&SchemaOp::DropType { keyspace: "ks".to_owned(), name: "ty".to_owned() });
        assert!(schema.keyspace("ks").unwrap().types.is_empty());
    }
}
