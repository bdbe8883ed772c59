//! What a compaction may forget, by Cassandra's `PurgeFunction`: a tombstone, or what has expired, once gc_grace is over
//! and nothing older that it covers can exist elsewhere. What has expired but may not go yet becomes a tombstone.

use crate::base::ids::TimestampMicros;
use crate::mutation::cell::{Cell, DeletionTime, Liveness};
use crate::mutation::cursor::{Fragment, PartitionCursor, PartitionStart, RangeChange, ReadStop};
use crate::mutation::row::Row;

/// What may go from one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purger {
    pub now_s: i64,
    /// What was deleted before this is past gc_grace.
    pub gc_before_s: i64,
    /// Only what is older than this may go: the least timestamp of the partition in any source outside the merge
    /// (other SSTables, unflushed memtables, uncovered log, open batch intents). `i64::MAX` where there is none.
    pub max_purgeable_timestamp: TimestampMicros,
}

impl Purger {
    /// Whether a tombstone of this timestamp and local deletion time may go.
    pub fn may_purge(&self, timestamp: TimestampMicros, local_deletion_s: i64) -> bool {
        local_deletion_s < self.gc_before_s && timestamp < self.max_purgeable_timestamp
    }

    fn deletion(&self, deletion: DeletionTime) -> DeletionTime {
        if !deletion.is_live() && self.may_purge(deletion.timestamp, deletion.local_deletion_s) {
            DeletionTime::LIVE
        } else {
            deletion
        }
    }

    /// The cell as it stays, if it does.
    pub fn cell<'a>(&self, cell: Cell<'a>) -> Option<Cell<'a>> {
        if cell.is_live(self.now_s) {
            return Some(cell);
        }
        if self.may_purge(cell.timestamp, cell.local_deletion_s) {
            return None;
        }
        if !cell.is_expiring() {
            return Some(cell);
        }
        let local_deletion_s = cell.local_deletion_s - i64::from(cell.ttl_s);
        let tombstone = Cell { ttl_s: 0, local_deletion_s, value: &[], ..cell };
        (!self.may_purge(tombstone.timestamp, tombstone.local_deletion_s)).then_some(tombstone)
    }

    /// Takes from a row what may go. Whether anything is left.
    pub fn row(&self, row: &mut Row<'_>) -> bool {
        let expired = !row.liveness.is_none() && !row.liveness.is_live(self.now_s);
        if expired && self.may_purge(row.liveness.timestamp, row.liveness.expires_s) {
            row.liveness = Liveness::NONE;
        }
        row.deletion = self.deletion(row.deletion);
        row.complex.retain(|(_, deletion)| !self.deletion(*deletion).is_live());
        row.cells.retain(|cell| match self.cell(*cell) {
            Some(kept) => {
                *cell = kept;
                true
            }
            None => false,
        });
        !row.is_empty()
    }
}

/// A merged partition without what may go.
#[derive(Debug)]
pub struct Purge<C> {
    cursor: C,
    purger: Purger,
    open: DeletionTime,
}

impl<C> Purge<C> {
    pub fn new(cursor: C, purger: Purger) -> Self {
        Purge { cursor, purger, open: DeletionTime::LIVE }
    }
}

impl<'a, C: PartitionCursor<'a>> PartitionCursor<'a> for Purge<C> {
    fn start(&mut self) -> Result<PartitionStart<'a>, ReadStop> {
        let mut start = self.cursor.start()?;
        start.deletion = self.purger.deletion(start.deletion);
        start.static_row = start.static_row.take().and_then(|mut row| self.purger.row(&mut row).then_some(row));
        Ok(start)
    }

    fn next(&mut self) -> Result<Option<Fragment<'a>>, ReadStop> {
        while let Some(fragment) = self.cursor.next()? {
            match fragment {
                Fragment::Row(mut row) => {
                    if self.purger.row(&mut row) {
                        return Ok(Some(Fragment::Row(row)));
                    }
                }
                Fragment::Change(change) => {
                    let deletion = self.purger.deletion(change.deletion);
                    if deletion != self.open {
                        self.open = deletion;
                        return Ok(Some(Fragment::Change(RangeChange { deletion, ..change })));
                    }
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::base::ids::{ColumnId, Token};
    use crate::mutation::cell::NEVER_S;
    use crate::mutation::owned::{OwnedFragment, OwnedPartition, OwnedRow};
    use crate::mutation::read::OwnedPosition;

    const PURGER: Purger = Purger { now_s: 1_000, gc_before_s: 900, max_purgeable_timestamp: 50 };

    fn cell(timestamp: i64, ttl_s: u32, local_deletion_s: i64) -> Cell<'static> {
        Cell { column: ColumnId(1), path: None, timestamp, ttl_s, local_deletion_s, value: b"value" }
    }

    #[test]
    fn a_live_cell_stays() {
        assert_eq!(PURGER.cell(cell(1, 0, NEVER_S)), Some(cell(1, 0, NEVER_S)));
        assert_eq!(PURGER.cell(cell(1, 10, 1_001)), Some(cell(1, 10, 1_001)));
    }

    #[test]
    fn a_tombstone_goes_after_grace_where_nothing_older_is_elsewhere() {
        let tombstone = |timestamp, at_s| Cell { value: &[], ..cell(timestamp, 0, at_s) };
        assert_eq!(PURGER.cell(tombstone(49, 899)), None);
        assert_eq!(PURGER.cell(tombstone(49, 900)), Some(tombstone(49, 900)));
        assert_eq!(PURGER.cell(tombstone(50, 899)), Some(tombstone(50, 899)));
    }

    /// An expired cell becomes a tombstone of the time it was written, which may be old enough to go at once.
    #[test]
    fn an_expired_cell_becomes_a_tombstone_of_its_writing() {
        let tombstone = Cell { value: &[], ..cell(60, 0, 940) };
        assert_eq!(PURGER.cell(cell(60, 20, 960)), Some(tombstone));
        assert_eq!(PURGER.cell(cell(10, 20, 960)), Some(Cell { timestamp: 10, ..tombstone }));
        assert_eq!(PURGER.cell(cell(10, 100, 960)), None);
        assert_eq!(PURGER.cell(cell(10, 20, 899)), None);
    }

    #[test]
    fn a_row_loses_what_may_go() {
        let mut row = Row::new(b"");
        row.liveness = Liveness { timestamp: 1, ttl_s: 5, expires_s: 800 };
        row.deletion = DeletionTime { timestamp: 2, local_deletion_s: 800 };
        row.add_complex_deletion(ColumnId(2), DeletionTime { timestamp: 3, local_deletion_s: 800 });
        row.cells.push(cell(4, 5, 800));
        let kept = Purger { max_purgeable_timestamp: 0, ..PURGER };
        let mut same = row.clone();
        assert!(kept.row(&mut same));
        assert_eq!((same.liveness, same.deletion, same.complex.len()), (row.liveness, row.deletion, 1));
        assert!(same.cells[0].is_tombstone());
        assert!(!PURGER.row(&mut row));
    }

    #[test]
    fn ranges_go_without_a_trace_and_rows_stay() {
        let position = |weight| OwnedPosition { prefix: vec![], weight };
        let mut row = Row::new(b"");
        row.cells.push(cell(60, 0, NEVER_S));
        let partition = |at_s| OwnedPartition {
            token: Token(1),
            key: b"k".to_vec(),
            deletion: DeletionTime { timestamp: 1, local_deletion_s: at_s },
            static_row: None,
            fragments: vec![
                OwnedFragment::Change {
                    position: position(-1),
                    deletion: DeletionTime { timestamp: 2, local_deletion_s: at_s },
                },
                OwnedFragment::Row(OwnedRow::copy(&row)),
                OwnedFragment::Change { position: position(1), deletion: DeletionTime::LIVE },
            ],
        };
        let purged = OwnedPartition::read(Purge::new(partition(800).cursor(), PURGER)).unwrap();
        assert!(purged.deletion.is_live());
        assert!(matches!(purged.fragments[..], [OwnedFragment::Row(_)]));
        let kept = OwnedPartition::read(Purge::new(partition(950).cursor(), PURGER)).unwrap();
        assert!(!kept.deletion.is_live());
        assert_eq!(kept.fragments.len(), 3);
    }
}
