//! Tables and encoded writes for what stands below the router.

use std::rc::Rc;

use helenus::base::ids::{ColumnId, LogPosition, TableId, Token};
use helenus::mutation::{MutationBuilder, Stamp, set_timestamp};
use helenus::schema::clustering::push_component;
use helenus::schema::partitioner::token_of;
use helenus::schema::{Column, ColumnKind, Columns, Table, TableOptions};
use helenus::types::CqlType;

use crate::calibration::poorly_compressible;

/// Where all writes stand in the log; nothing here asks for more.
pub const POSITION: LogPosition = LogPosition::ZERO;

/// A table of a blob key and so many blob columns, the ids of which are 1 and up.
pub fn flat_table(columns: u16) -> Rc<Table> {
    table(TableId([9; 16]), "flat", columns, &[])
}

/// The same, its rows ordered by one text.
pub fn clustered_table(columns: u16) -> Rc<Table> {
    let kind = ColumnKind::Clustering { position: 0, descending: false };
    let clustering = Column { id: ColumnId(101), name: "ck".into(), ty: CqlType::Text, kind };
    table(TableId([8; 16]), "clustered", columns, &[clustering])
}

fn table(id: TableId, name: &str, columns: u16, clustering: &[Column]) -> Rc<Table> {
    let regular = (1..=columns).map(|id| column(id, &format!("c{id}"), ColumnKind::Regular));
    let key = column(100, "k", ColumnKind::PartitionKey(0));
    Rc::new(Table {
        id,
        keyspace: "k".into(),
        name: name.into(),
        version: 1,
        columns: Columns::new(regular.chain([key]).chain(clustering.iter().cloned()).collect()),
        dropped: Vec::new(),
        next_column_id: 102,
        options: TableOptions::default(),
        is_counter: false,
    })
}

fn column(id: u16, name: &str, kind: ColumnKind) -> Column {
    Column { id: ColumnId(id), name: name.into(), ty: CqlType::Blob, kind }
}

/// Encoded mutations, one behind the other.
#[derive(Default)]
pub struct Writes {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    tokens: Vec<Token>,
}

impl Writes {
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    /// Of their partitions.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    pub fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Rows of one partition: clustering keys, and so many values of so many bytes each.
    pub fn push(&mut self, table: &Table, key: &[u8], rows: &[Vec<u8>], values: (u16, usize), timestamp: i64) {
        let start = self.bytes.len();
        self.tokens.push(token_of(key));
        let mut value = vec![0; values.1];
        let mut builder = MutationBuilder::begin(&mut self.bytes, table.id, table.version, key);
        for (clustering, row) in rows.iter().zip(0..) {
            builder.row(clustering).liveness(Stamp::Base(0), None);
            for column in 1..=values.0 {
                poorly_compressible(&mut value, timestamp as u64 * 1_000 + row * 10 + u64::from(column));
                builder.cell(ColumnId(column), None, Stamp::Base(0), None, &value);
            }
        }
        set_timestamp(&mut self.bytes[start..], timestamp);
        self.ends.push(self.bytes.len());
    }
}

/// A partition key of 10 bytes.
pub fn key(number: u64) -> Vec<u8> {
    format!("{number:010X}").into_bytes()
}

/// The clustering key of a row: a text of 10 characters.
pub fn clustering(row: u64) -> Vec<u8> {
    let mut prefix = Vec::new();
    push_component(&mut prefix, format!("{row:010}").as_bytes());
    prefix
}
