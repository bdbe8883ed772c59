//! One row by its whole primary key: where it stands, and what is live of it.

use smallvec::SmallVec;

use crate::base::ids::{ColumnId, Token};
use crate::mutation::cell::{Cell, DeletionTime, Liveness};

/// A row's place, in memory that is used again for the next.
#[derive(Debug)]
pub struct PointKey {
    pub token: Token,
    pub key: Vec<u8>,
    /// Encoded (`schema::clustering`); empty where the table has no clustering columns.
    pub clustering: Vec<u8>,
}

/// A live row.
#[derive(Debug, PartialEq, Eq)]
pub struct PointRow<'a> {
    pub clustering: &'a [u8],
    /// The live cells that have no path, ascending by column.
    pub cells: SmallVec<[(ColumnId, &'a [u8]); 16]>,
}

impl Default for PointKey {
    fn default() -> Self {
        PointKey { token: Token(0), key: Vec::new(), clustering: Vec::new() }
    }
}

impl PointKey {
    /// Forgets the place and keeps the memory.
    pub fn clear(&mut self) {
        self.key.clear();
        self.clustering.clear();
    }
}

/// A row without multi-cell columns out of several sources, which are added one after the other.
#[derive(Debug)]
pub struct PointMerge<'a> {
    clustering: &'a [u8],
    /// The strongest deletion that covers it: its own, its partition's, a range's.
    covering: DeletionTime,
    liveness: Liveness,
    /// Ascending by column, tombstones and what is covered among them.
    cells: SmallVec<[Cell<'a>; 16]>,
    /// Where the next cell of the source that is being added may stand.
    at: usize,
}

impl Default for PointMerge<'_> {
    /// Of no source yet.
    fn default() -> Self {
        PointMerge {
            clustering: &[],
            covering: DeletionTime::LIVE,
            liveness: Liveness::NONE,
            cells: SmallVec::new(),
            at: 0,
        }
    }
}

impl<'a> PointMerge<'a> {
    /// A deletion of more than the row, which covers it.
    pub fn cover(&mut self, deletion: DeletionTime) {
        self.covering = self.covering.max(deletion);
    }

    /// Begins the row of one source; its cells follow.
    pub fn row(&mut self, clustering: &'a [u8], liveness: Liveness, deletion: DeletionTime) {
        self.clustering = clustering;
        self.liveness = self.liveness.max(liveness);
        self.cover(deletion);
        self.at = 0;
    }

    /// The next cell of the row that was begun, in the order of columns.
    #[inline]
    pub fn cell(&mut self, cell: Cell<'a>) {
        debug_assert!(cell.path.is_none(), "a row of several cells a column is merged otherwise");
        while self.cells.get(self.at).is_some_and(|other| other.column < cell.column) {
            self.at += 1;
        }
        match self.cells.get_mut(self.at) {
            None => self.cells.push(cell),
            Some(other) if other.column == cell.column => {
                if other.reconcile(&cell).is_lt() {
                    *other = cell;
                }
            }
            Some(_) => self.cells.insert(self.at, cell),
        }
        self.at += 1;
    }

    /// Gives `take` what is live of the row at `now_s`; `None`: nothing.
    pub fn finish<T>(&self, now_s: i64, take: impl FnOnce(Option<&PointRow<'_>>) -> T) -> T {
        let mut live = PointRow { clustering: self.clustering, cells: SmallVec::new() };
        for cell in &self.cells {
            if cell.is_live(now_s) && !self.covering.deletes(cell.timestamp) {
                live.cells.push((cell.column, cell.value));
            }
        }
        let is_live = self.liveness.is_live(now_s) && !self.covering.deletes(self.liveness.timestamp);
        take((is_live || !live.cells.is_empty()).then_some(&live))
    }
}
