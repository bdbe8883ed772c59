//! The merge of one partition from several files into one, row by row, with what may go left out.
//!
//! It works on what the scanners stand at, borrowed from their blocks, and hands each row on before it steps them: no
//! row is copied, and a partition of any size takes no more memory than a block of each file.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::base::ids::ColumnId;
use crate::mutation::purge::Purger;
use crate::mutation::{DeletionTime, Fragment, PartitionStart, RangeChange, Row};
use crate::schema::ClusteringOrder;
use crate::sstable::{HeadKey, SSTableError, ScanItem, Scanner, Writer};

/// Which of the scanners take part in a partition.
pub type Chosen = SmallVec<[usize; 8]>;

/// What a partition's merge follows.
pub struct Rules<'a> {
    pub order: &'a ClusteringOrder,
    pub purger: Purger,
    /// Columns that are no more, ascending.
    pub dropped: &'a [ColumnId],
}

/// What a merge read and wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    pub rows_read: u64,
    pub rows_written: u64,
}

impl Rules<'_> {
    fn deletion(&self, deletion: DeletionTime) -> DeletionTime {
        let gone = !deletion.is_live() && self.purger.may_purge(deletion.timestamp, deletion.local_deletion_s);
        if gone { DeletionTime::LIVE } else { deletion }
    }

    /// Takes from a row what is covered, dropped or purged; whether anything is left.
    fn row(&self, row: &mut Row<'_>, covered_by: DeletionTime) -> bool {
        row.shadow(covered_by);
        if !self.dropped.is_empty() {
            let is_dropped = |column: ColumnId| self.dropped.binary_search(&column).is_ok();
            row.cells.retain(|cell| !is_dropped(cell.column));
            row.complex.retain(|(column, _)| !is_dropped(*column));
        }
        self.purger.row(row)
    }
}

/// One partition on its way from the scanners to the writer. Its head is written with the first thing that stays.
pub struct PartitionMerge<'r> {
    rules: Rules<'r>,
    chosen: Chosen,
    /// The range deletion that each of `chosen` is under.
    open: SmallVec<[DeletionTime; 8]>,
    /// The partition's deletion, before purging: it covers what is older either way.
    deletion: DeletionTime,
    /// The range deletion that rows are under, before purging.
    open_strongest: DeletionTime,
    /// The same as it was written.
    open_written: DeletionTime,
    started: bool,
    counts: MergeCounts,
}

impl<'r> PartitionMerge<'r> {
    /// Of the scanners in `chosen`, which all stand at the head of the same partition. Steps them past it.
    pub fn begin(
        rules: Rules<'r>,
        key: HeadKey<'_>,
        chosen: Chosen,
        scanners: &mut [Scanner],
        writer: &mut Writer,
    ) -> Result<Self, SSTableError> {
        let live = DeletionTime::LIVE;
        let open = chosen.iter().map(|_| live).collect();
        let mut merge = PartitionMerge {
            rules,
            chosen,
            open,
            deletion: live,
            open_strongest: live,
            open_written: live,
            started: false,
            counts: MergeCounts::default(),
        };
        merge.read_heads(key, scanners, writer)?;
        merge.chosen.iter().for_each(|at| scanners[*at].step());
        Ok(merge)
    }

    /// Merges the heads, and writes the result where anything of it stays.
    fn read_heads(&mut self, key: HeadKey<'_>, scanners: &[Scanner], writer: &mut Writer) -> Result<(), SSTableError> {
        let mut static_row: Option<Row<'_>> = None;
        for &at in &self.chosen {
            let ScanItem::Partition(start) = scanners[at].item()? else { continue };
            self.deletion = self.deletion.max(start.deletion);
            match (&mut static_row, start.static_row) {
                (Some(row), Some(other)) => row.reconcile(&other),
                (None, other) => static_row = other,
                (Some(_), None) => {}
            }
        }
        let static_row = static_row.and_then(|mut row| self.rules.row(&mut row, self.deletion).then_some(row));
        if static_row.is_some() || !self.rules.deletion(self.deletion).is_live() {
            self.head(key, static_row, writer);
        }
        Ok(())
    }

    /// Merges what stands foremost and steps past it; false at the partition's end. All of `chosen` are settled before
    /// each call.
    pub fn step(
        &mut self,
        key: HeadKey<'_>,
        scanners: &mut [Scanner],
        writer: &mut Writer,
    ) -> Result<bool, SSTableError> {
        let foremost = self.foremost(scanners);
        let Some(&first) = foremost.first() else { return Ok(false) };
        match scanners[self.chosen[first]].item()? {
            ScanItem::Row(mut row) => {
                for &n in &foremost[1..] {
                    if let ScanItem::Row(other) = scanners[self.chosen[n]].item()? {
                        row.reconcile(&other);
                    }
                }
                self.counts.rows_read += foremost.len() as u64;
                if self.rules.row(&mut row, self.deletion.max(self.open_strongest)) {
                    self.head(key, None, writer);
                    self.counts.rows_written += 1;
                    writer.fragment(&Fragment::Row(row));
                }
            }
            ScanItem::Change(change) => {
                for &n in &foremost {
                    if let ScanItem::Change(other) = scanners[self.chosen[n]].item()? {
                        self.open[n] = other.after;
                    }
                }
                if let Some(deletion) = self.changed() {
                    self.head(key, None, writer);
                    writer.fragment(&Fragment::Change(RangeChange { position: change.position, deletion }));
                }
            }
            ScanItem::Partition(_) | ScanItem::End => return Ok(false),
        }
        foremost.iter().for_each(|n| scanners[self.chosen[*n]].step());
        Ok(true)
    }

    /// Ends the partition; what it read and wrote, and whether anything of it stays.
    pub fn end(self, writer: &mut Writer) -> (MergeCounts, bool) {
        if self.started {
            writer.end_partition();
        }
        (self.counts, self.started)
    }

    /// Writes the partition's head, once.
    fn head<'k>(&mut self, HeadKey { token, key }: HeadKey<'k>, static_row: Option<Row<'k>>, writer: &mut Writer) {
        if !self.started {
            let deletion = self.rules.deletion(self.deletion);
            writer.begin_partition(&PartitionStart { token, key, deletion, static_row });
            self.started = true;
        }
    }

    /// After an open deletion changed: the one to write, where that differs from what was written.
    fn changed(&mut self) -> Option<DeletionTime> {
        let strongest = self.open.iter().fold(DeletionTime::LIVE, |a, b| a.max(*b));
        let covered = self.deletion.max(strongest) == self.deletion;
        self.open_strongest = if covered { DeletionTime::LIVE } else { strongest };
        let written = self.rules.deletion(self.open_strongest);
        (written != self.open_written).then(|| {
            self.open_written = written;
            written
        })
    }

    /// Which of `chosen` stand at the least position; none at the partition's end.
    fn foremost(&self, scanners: &[Scanner]) -> Chosen {
        let mut foremost = Chosen::new();
        let mut least = None;
        for (n, &at) in self.chosen.iter().enumerate() {
            let Some(position) = scanners[at].row_position() else { continue };
            let order = least.map_or(Ordering::Less, |least| self.rules.order.compare(position, least));
            if order.is_lt() {
                foremost.clear();
                least = Some(position);
            }
            if order.is_le() {
                foremost.push(n);
            }
        }
        foremost
    }
}
