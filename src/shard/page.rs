//! One partition's part of a page: which live rows are answered, how they are counted, where the next page starts.
//! Pure: the sources stand behind a cursor.

use std::borrow::Cow;

use crate::mutation::live::LiveRows;
use crate::mutation::page::PageWriter;
use crate::mutation::read::{OwnedPosition, PartitionKey, Partitions, ReadCommand, Resume, Slice};
use crate::mutation::{PartitionCursor, PartitionStart, ReadStop, Row};
use crate::schema::Table;
use crate::shard::filter::{Candidate, passes};

/// Where a page stands while it is made.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Rows so far.
    pub rows: u64,
    /// The place to go on from: the last row taken, or the last partition done.
    pub resume: Option<Resume>,
    /// Which of the keys asked for is the next.
    pub key_at: usize,
}

impl Progress {
    /// Before the first row of a page.
    pub fn begin(command: &ReadCommand) -> Progress {
        let key_at = match (&command.partitions, &command.resume) {
            (Partitions::Keys(keys), Some(resume)) => match keys.iter().position(|key| *key == resume.partition) {
                Some(at) if resume.after.is_some() => at,
                Some(at) => at + 1,
                None => keys.len(),
            },
            _ => 0,
        };
        Progress { rows: 0, resume: command.resume.clone(), key_at }
    }
}

/// How a partition's part ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The partition has no more to give.
    Partition,
    /// The page is full; there may be more.
    Page,
}

/// The slices of `command` that are left after `resume` within its partition.
pub fn slices_after<'c>(command: &'c ReadCommand, resume: Option<&Resume>, table: &Table) -> Cow<'c, [Slice]> {
    let Some(after) = resume.and_then(|resume| resume.after.as_ref()) else { return Cow::Borrowed(&command.slices) };
    let order = table.clustering_order();
    let mut slices = Vec::with_capacity(command.slices.len());
    for slice in &command.slices {
        let mut slice = slice.clone();
        if command.reversed {
            let edge = OwnedPosition { prefix: after.clone(), weight: -1 };
            if order.compare(edge.borrow(), slice.end.borrow()).is_lt() {
                slice.end = edge;
            }
        } else {
            let edge = OwnedPosition { prefix: after.clone(), weight: 1 };
            if order.compare(edge.borrow(), slice.start.borrow()).is_gt() {
                slice.start = edge;
            }
        }
        if order.compare(slice.start.borrow(), slice.end.borrow()).is_le() {
            slices.push(slice);
        }
    }
    Cow::Owned(slices)
}

/// Appends what `rows` has for the page, until the partition or the page ends.
pub fn take_partition<'a, C: PartitionCursor<'a>>(
    rows: &mut LiveRows<C>,
    table: &Table,
    command: &ReadCommand,
    progress: &mut Progress,
    out: &mut PageWriter<'_>,
) -> Result<Ended, ReadStop> {
    let start = rows.start()?;
    let key = PartitionKey { token: start.token, key: start.key.to_vec() };
    let before = match &progress.resume {
        Some(resume) if resume.partition == key && resume.after.is_some() => resume.partition_rows,
        _ => 0,
    };
    let mut part = Part { table, command, start, key, taken: before, headed: false };
    if command.distinct { part.take_distinct(rows, progress, out) } else { part.take_rows(rows, progress, out) }
}

struct Part<'a, 'c> {
    table: &'c Table,
    command: &'c ReadCommand,
    start: PartitionStart<'a>,
    key: PartitionKey,
    /// Rows of this partition so far, those of earlier pages too.
    taken: u64,
    /// Whether the partition stands in the page.
    headed: bool,
}

impl<'a> Part<'a, '_> {
    fn take_rows<C: PartitionCursor<'a>>(
        &mut self,
        rows: &mut LiveRows<C>,
        progress: &mut Progress,
        out: &mut PageWriter<'_>,
    ) -> Result<Ended, ReadStop> {
        let mut any_live = self.taken > 0;
        while self.taken < self.command.limits.per_partition {
            let Some(row) = rows.next_row()? else { break };
            any_live = true;
            if !self.passes(Some(&row)) {
                continue;
            }
            self.head(out);
            out.row(&row, Some(&self.command.columns));
            self.count(progress, Some(row.clustering));
            if self.page_is_full(progress, out) {
                return Ok(Ended::Page);
            }
        }
        if !any_live && self.command.static_only_rows && self.start.static_row.is_some() && self.passes(None) {
            self.head(out);
            self.count(progress, None);
        }
        self.done(progress, out)
    }

    fn take_distinct<C: PartitionCursor<'a>>(
        &mut self,
        rows: &mut LiveRows<C>,
        progress: &mut Progress,
        out: &mut PageWriter<'_>,
    ) -> Result<Ended, ReadStop> {
        let live = self.start.static_row.is_some() || rows.next_row()?.is_some();
        if live && self.passes(None) {
            self.head(out);
            self.count(progress, None);
        }
        self.done(progress, out)
    }

    fn passes(&self, row: Option<&Row<'a>>) -> bool {
        let candidate = Candidate {
            table: self.table,
            partition_key: self.start.key,
            static_row: self.start.static_row.as_ref(),
            row,
            now_s: self.command.now_s,
        };
        passes(&self.command.filter, &candidate)
    }

    /// Writes the partition and its static row, once.
    fn head(&mut self, out: &mut PageWriter<'_>) {
        if !self.headed {
            self.headed = true;
            out.partition(self.start.token, self.start.key);
            if let Some(row) = &self.start.static_row {
                out.static_row(row, Some(&self.command.columns));
            }
        }
    }

    fn count(&mut self, progress: &mut Progress, clustering: Option<&[u8]>) {
        self.taken += 1;
        progress.rows += 1;
        progress.resume = Some(Resume {
            partition: self.key.clone(),
            after: clustering.map(<[u8]>::to_vec),
            partition_rows: self.taken,
        });
    }

    fn page_is_full(&self, progress: &Progress, out: &PageWriter<'_>) -> bool {
        progress.rows >= self.command.limits.rows || out.len_bytes() >= self.command.limits.page_bytes
    }

    fn done(&self, progress: &mut Progress, out: &PageWriter<'_>) -> Result<Ended, ReadStop> {
        progress.resume = Some(Resume { partition: self.key.clone(), after: None, partition_rows: 0 });
        Ok(if self.headed && self.page_is_full(progress, out) { Ended::Page } else { Ended::Partition })
    }
}
