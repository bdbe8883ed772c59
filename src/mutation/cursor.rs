//! How every source of rows (memtable, SSTable, a merge of them) is walked, one partition at a time.

use crate::base::ids::Token;
use crate::mutation::cell::DeletionTime;
use crate::mutation::row::Row;
use crate::schema::Position;

/// What stands at the head of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStart<'a> {
    pub token: Token,
    pub key: &'a [u8],
    pub deletion: DeletionTime,
    pub static_row: Option<Row<'a>>,
}

/// From this position on (in the direction of the walk), rows are under this range deletion; `LIVE` ends it. It stands
/// between rows. Only where a walk starts or ends at a row may a source give that row's own position for it; a `Merge` puts
/// it beside the row (`RangeChange::opening` and `closing`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeChange<'a> {
    pub position: Position<'a>,
    pub deletion: DeletionTime,
}

impl<'a> RangeChange<'a> {
    /// Where a deletion opens when a walk starts at `bound`, a row included.
    pub fn opening(bound: Position<'a>, reversed: bool) -> Position<'a> {
        let outside = if reversed { 1 } else { -1 };
        Position { weight: if bound.weight == 0 { outside } else { bound.weight }, ..bound }
    }

    /// Where a deletion closes when a walk ends at `bound`, a row included.
    pub fn closing(bound: Position<'a>, reversed: bool) -> Position<'a> {
        RangeChange::opening(bound, !reversed)
    }
}

/// What follows in a partition, in clustering order or its reverse.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every fragment is a row, and a box each would be an allocation")]
pub enum Fragment<'a> {
    Row(Row<'a>),
    Change(RangeChange<'a>),
}

impl<'a> Fragment<'a> {
    pub fn position(&self) -> Position<'a> {
        match self {
            Fragment::Row(row) => Position::row(row.clustering),
            Fragment::Change(change) => change.position,
        }
    }
}

/// Why a walk stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadStop {
    /// A block is not in memory. The source has noted which; load it and start the page again.
    Miss,
    /// The walk has taken as many fragments as it may in one turn (`Merge::with_turn`).
    Turn,
    /// What was read is damaged; the text names file and offset.
    Corrupt(String),
}

/// One partition of one source, restricted to the slices it was opened with. A cursor that starts within a range
/// deletion gives a change at the slice's start first, and one that leaves a slice within one closes it at the slice's
/// end. Reversed, positions descend and a change says which deletion covers what follows in that direction.
pub trait PartitionCursor<'a> {
    /// The partition's head; the same at each call.
    fn start(&mut self) -> Result<PartitionStart<'a>, ReadStop>;

    /// The next fragment, `None` at the end.
    fn next(&mut self) -> Result<Option<Fragment<'a>>, ReadStop>;
}

impl<'a, C: PartitionCursor<'a> + ?Sized> PartitionCursor<'a> for Box<C> {
    fn start(&mut self) -> Result<PartitionStart<'a>, ReadStop> {
        (**self).start()
    }

    fn next(&mut self) -> Result<Option<Fragment<'a>>, ReadStop> {
        (**self).next()
    }
}

impl<'a, C: PartitionCursor<'a> + ?Sized> PartitionCursor<'a> for &mut C {
    fn start(&mut self) -> Result<PartitionStart<'a>, ReadStop> {
        (**self).start()
    }

    fn next(&mut self) -> Result<Option<Fragment<'a>>, ReadStop> {
        (**self).next()
    }
}
