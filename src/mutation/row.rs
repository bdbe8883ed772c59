//! A row as every source hands it out: borrowed bytes, cells in order.

use smallvec::SmallVec;

use crate::base::ids::ColumnId;
use crate::mutation::cell::{Cell, DeletionTime, Liveness};

/// One row, or a partition's static row (with an empty clustering).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The encoded clustering key (see `schema::clustering`); empty for a static row and for a table without
    /// clustering columns.
    pub clustering: &'a [u8],
    pub liveness: Liveness,
    pub deletion: DeletionTime,
    /// Deletions of whole multi-cell collections, by column, ascending.
    pub complex: SmallVec<[(ColumnId, DeletionTime); 2]>,
    /// Ascending by `Cell::order`, no two at one place.
    pub cells: SmallVec<[Cell<'a>; 8]>,
}

impl<'a> Row<'a> {
    pub fn new(clustering: &'a [u8]) -> Self {
        Row {
            clustering,
            liveness: Liveness::NONE,
            deletion: DeletionTime::LIVE,
            complex: SmallVec::new(),
            cells: SmallVec::new(),
        }
    }

    /// Nothing in it, neither live nor deleted.
    pub fn is_empty(&self) -> bool {
        self.liveness.is_none() && self.deletion.is_live() && self.complex.is_empty() && self.cells.is_empty()
    }

    /// Whether an answer shows it: its liveness or any cell is live at `now_s`. Deletions have been applied before.
    pub fn is_live(&self, now_s: i64) -> bool {
        self.liveness.is_live(now_s) || self.cells.iter().any(|cell| cell.is_live(now_s))
    }
}
