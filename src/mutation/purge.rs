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
