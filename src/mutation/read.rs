//! What a replica is asked to read, without a word of CQL, and the page it answers with.

use crate::base::ids::{ColumnId, TableId, Token};
use crate::schema::Position;

/// A position with its own bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedPosition {
    pub prefix: Vec<u8>,
    pub weight: i8,
}

impl OwnedPosition {
    pub fn start() -> Self {
        OwnedPosition { prefix: Vec::new(), weight: -1 }
    }

    pub fn end() -> Self {
        OwnedPosition { prefix: Vec::new(), weight: 1 }
    }

    pub fn of(position: Position<'_>) -> Self {
        OwnedPosition { prefix: position.prefix.to_vec(), weight: position.weight }
    }

    pub fn borrow(&self) -> Position<'_> {
        Position { prefix: &self.prefix, weight: self.weight }
    }
}

/// Rows from `start` to `end`; both are positions between rows or (a full key at weight 0) a row itself, included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub start: OwnedPosition,
    pub end: OwnedPosition,
}

impl Slice {
    pub fn all() -> Self {
        Slice { start: OwnedPosition::start(), end: OwnedPosition::end() }
    }

    /// Of one row by its whole clustering key; where that is empty, of all there is.
    pub fn of_row(clustering: &[u8]) -> Self {
        let beside = |weight| OwnedPosition { prefix: clustering.to_vec(), weight };
        Slice { start: beside(-1), end: beside(1) }
    }
}

/// A partition key with its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionKey {
    pub token: Token,
    pub key: Vec<u8>,
}

/// A range of tokens: `start` exclusive, `end` inclusive; `None` is the end of the ring on that side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRange {
    pub start_exclusive: Option<Token>,
    pub end_inclusive: Option<Token>,
}

/// Which partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// In this order, as given.
    Keys(Vec<PartitionKey>),
    /// In token order, then key order.
    Range(TokenRange),
}

/// A column as a filter names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterColumn {
    /// A component of the partition key.
    PartitionKey(u16),
    /// A clustering component.
    Clustering(u16),
    /// A static or regular column.
    Column(ColumnId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// The value is a serialised list of the candidates.
    In,
    Contains,
    ContainsKey,
    /// `column[key] = value`; the key stands in `element`.
    Element,
}

/// One condition of ALLOW FILTERING. A row passes where all do. A null column passes none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterExpression {
    pub column: FilterColumn,
    pub operator: FilterOperator,
    pub element: Vec<u8>,
    pub value: Vec<u8>,
}

/// What one page may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rows as CQL counts them (a partition of which only the static row is live counts one, where asked for).
    pub rows: u64,
    /// Rows within each partition.
    pub per_partition: u64,
    /// Bytes of the page's encoded rows after which it ends, always with one row at least.
    pub page_bytes: usize,
}

/// Where a page starts: after this row of this partition, or after the whole partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    pub partition: PartitionKey,
    /// The last row's clustering; `None`: the partition is done.
    pub after: Option<Vec<u8>>,
    /// How many rows of this partition went before, for the per-partition limit.
    pub partition_rows: u64,
}

/// One read of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCommand {
    pub table: TableId,
    pub now_s: i64,
    pub partitions: Partitions,
    /// Ascending, disjoint, also where `reversed`.
    pub slices: Vec<Slice>,
    pub reversed: bool,
    /// The columns whose cells the answer needs, ascending; filters add theirs themselves.
    pub columns: Vec<ColumnId>,
    pub filter: Vec<FilterExpression>,
    /// Only the partition and its static row (SELECT DISTINCT, or only statics and keys asked of an unrestricted
    /// partition): a partition counts one row.
    pub distinct: bool,
    /// Whether a partition whose only live part is its static row is answered (no clustering restriction).
    pub static_only_rows: bool,
    pub limits: Limits,
    pub resume: Option<Resume>,
}

/// A page of a read: partitions in the order of the command, each with its live rows, deletions applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPage {
    /// Partition after partition in the encoded form of `mutation::page`.
    pub bytes: Vec<u8>,
    /// CQL rows in it.
    pub rows: u64,
    /// Where the next page starts; `None` where nothing follows.
    pub resume: Option<Resume>,
}
