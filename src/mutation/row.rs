//! A row as every source hands it out: borrowed bytes, cells in order.

use std::cmp::Ordering;

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

    /// The deletion of all of one collection, `LIVE` where there is none.
    pub fn complex_deletion(&self, column: ColumnId) -> DeletionTime {
        match self.complex.binary_search_by_key(&column, |entry| entry.0) {
            Ok(at) => self.complex[at].1,
            Err(_) => DeletionTime::LIVE,
        }
    }

    /// Adds a collection's deletion, the stronger one staying.
    pub fn add_complex_deletion(&mut self, column: ColumnId, deletion: DeletionTime) {
        match self.complex.binary_search_by_key(&column, |entry| entry.0) {
            Ok(at) => self.complex[at].1 = self.complex[at].1.max(deletion),
            Err(at) => self.complex.insert(at, (column, deletion)),
        }
    }

    /// Brings cells that were pushed in any order into order, the winner staying where two share a place.
    pub fn order_cells(&mut self) {
        self.cells.sort_by(|a, b| a.order(b).then_with(|| b.reconcile(a)));
        self.cells.dedup_by(|later, first| later.order(first).is_eq());
    }

    /// Reconciles `other`, the same row of another source, into this one. Nothing is shadowed yet: see `shadow`.
    pub fn reconcile(&mut self, other: &Row<'a>) {
        self.liveness = self.liveness.max(other.liveness);
        self.deletion = self.deletion.max(other.deletion);
        for &(column, deletion) in &other.complex {
            self.add_complex_deletion(column, deletion);
        }
        if other.cells.is_empty() {
            return;
        }
        if self.cells.is_empty() {
            self.cells.clone_from(&other.cells);
            return;
        }
        let mut merged = SmallVec::with_capacity(self.cells.len().max(other.cells.len()));
        let (mut left, mut right) = (self.cells.iter().peekable(), other.cells.iter().peekable());
        while let (Some(&a), Some(&b)) = (left.peek(), right.peek()) {
            match a.order(b) {
                Ordering::Less => merged.extend(left.next().copied()),
                Ordering::Greater => merged.extend(right.next().copied()),
                Ordering::Equal => {
                    merged.push(if a.reconcile(b).is_ge() { *a } else { *b });
                    left.next();
                    right.next();
                }
            }
        }
        merged.extend(left.copied());
        merged.extend(right.copied());
        self.cells = merged;
    }

    /// Takes away what `active` (of the partition and its ranges), the row's own deletion and its collections'
    /// deletions cover; deletions that a stronger one covers go too.
    pub fn shadow(&mut self, active: DeletionTime) {
        if active.max(self.deletion) == active {
            self.deletion = DeletionTime::LIVE;
        }
        let covering = active.max(self.deletion);
        if covering.is_live() && self.complex.is_empty() {
            return;
        }
        if covering.deletes(self.liveness.timestamp) {
            self.liveness = Liveness::NONE;
        }
        self.complex.retain(|(_, deletion)| covering.max(*deletion) != covering);
        if self.complex.is_empty() {
            self.cells.retain(|cell| !covering.deletes(cell.timestamp));
            return;
        }
        let mut deletions = self.complex.iter().copied().peekable();
        self.cells.retain(|cell| {
            while deletions.next_if(|(column, _)| *column < cell.column).is_some() {}
            let own = deletions.peek().filter(|(column, _)| *column == cell.column);
            !covering.deletes(cell.timestamp) && !own.is_some_and(|(_, deletion)| deletion.deletes(cell.timestamp))
        });
    }

    /// Leaves only what is live at `now_s`. Whether anything is.
    pub fn retain_live(&mut self, now_s: i64) -> bool {
        if !self.liveness.is_live(now_s) {
            self.liveness = Liveness::NONE;
        }
        self.deletion = DeletionTime::LIVE;
        self.complex.clear();
        self.cells.retain(|cell| cell.is_live(now_s));
        !self.is_empty()
    }
}
