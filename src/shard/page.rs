//! One partition's part of a page: which live rows are answered, how they are counted, where the next page starts.
//! Pure: the sources stand behind a cursor.

use std::borrow::Cow;

use crate::base::ids::Token;
use crate::mutation::live::LiveRows;
use crate::mutation::merge::Merge;
use crate::mutation::page::{Mark, PageWriter};
use crate::mutation::read::{OwnedPosition, PartitionKey, Partitions, ReadCommand, Resume, Slice};
use crate::mutation::{PartitionCursor, PartitionStart, ReadStop, Row};
use crate::schema::Table;
use crate::shard::filter::{Candidate, passes};
use crate::shard::source::Versions;

/// Where a page stands while it is made.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Rows so far.
    pub rows: u64,
    /// The place to go on from: the last row taken, or the last partition done.
    pub resume: Option<Resume>,
    /// Which of the keys asked for is the next.
    pub key_at: usize,
    /// The partition that a stop cut in two, if one did.
    pub within: Option<Box<Within>>,
    /// How often the current partition was begun anew because it had changed.
    pub restarts: u32,
}

/// A partition of which a part stands in the page, and the rest is still to be looked at.
#[derive(Clone, Debug)]
pub struct Within {
    pub partition: PartitionKey,
    /// All before it, in the direction of the walk, has been looked at.
    pub place: OwnedPosition,
    /// What of the partition was in memory: its rest is taken only while that is so.
    pub versions: Versions,
    part: PartState,
    /// Where the page ends.
    mark: Mark,
    /// The page before the partition, to go back to.
    before: Progress,
    bytes_before: usize,
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
        Progress { rows: 0, resume: command.resume.clone(), key_at, within: None, restarts: 0 }
    }

    /// Where the next try begins: another one once anything has been taken or passed over.
    pub fn place(&self) -> (usize, Option<Resume>, Option<OwnedPosition>) {
        (self.key_at, self.resume.clone(), self.within.as_ref().map(|within| within.place.clone()))
    }

    /// Goes on within the partition that was cut in two; where that has changed since, from its beginning.
    pub fn check_within(&mut self, versions: impl FnOnce(&PartitionKey) -> Versions, bytes: &mut Vec<u8>) {
        let is_changed = |within: &Within| versions(&within.partition) != within.versions;
        if self.within.as_deref().is_some_and(is_changed) {
            let restarts = self.restarts + 1;
            self.back_to_before(bytes);
            self.restarts = restarts;
        }
    }

    /// The walk has come to this partition, or to its end. One that was cut in two and is not there any more was deleted:
    /// nothing of it stays.
    pub fn come_to(&mut self, partition: Option<(Token, &[u8])>, bytes: &mut Vec<u8>) {
        let is_gone = |within: &Within| partition != Some((within.partition.token, within.partition.key.as_slice()));
        if self.within.as_deref().is_some_and(is_gone) {
            self.back_to_before(bytes);
        }
    }

    fn back_to_before(&mut self, bytes: &mut Vec<u8>) {
        let Some(within) = self.within.take() else { return };
        assert!(within.bytes_before <= bytes.len(), "what stood before a partition stands there still");
        bytes.truncate(within.bytes_before);
        *self = within.before;
        self.restarts = 0;
    }

    /// The slices of `command` that are still to be looked at in the partition where the page stands.
    pub fn slices<'c>(&self, command: &'c ReadCommand, key: &PartitionKey, table: &Table) -> Cow<'c, [Slice]> {
        match (&self.within, &self.resume) {
            (Some(within), _) => slices_from(command, &within.place, table),
            (None, Some(Resume { partition, after: Some(after), .. })) if partition == key => {
                slices_from(command, &behind(command, after), table)
            }
            _ => Cow::Borrowed(&command.slices),
        }
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

/// The place behind a row, in the direction of the walk.
fn behind(command: &ReadCommand, clustering: &[u8]) -> OwnedPosition {
    OwnedPosition { prefix: clustering.to_vec(), weight: if command.reversed { -1 } else { 1 } }
}

/// The slices of `command` from `place` on, in the direction of the walk.
fn slices_from<'c>(command: &'c ReadCommand, place: &OwnedPosition, table: &Table) -> Cow<'c, [Slice]> {
    let order = table.clustering_order();
    let mut slices = Vec::with_capacity(command.slices.len());
    for slice in &command.slices {
        let mut slice = slice.clone();
        if command.reversed {
            if order.compare(place.borrow(), slice.end.borrow()).is_lt() {
                slice.end = place.clone();
            }
        } else if order.compare(place.borrow(), slice.start.borrow()).is_gt() {
            slice.start = place.clone();
        }
        if order.compare(slice.start.borrow(), slice.end.borrow()).is_le() {
            slices.push(slice);
        }
    }
    Cow::Owned(slices)
}

/// Appends what `rows` has for the page, until the partition or the page ends. Where the walk stops before that, what was
/// taken stays, with the place in `progress.within`, if `versions` gives any and there is a place; else the page is as it
/// was before the partition.
pub fn take_partition<'a, C: PartitionCursor<'a>>(
    rows: &mut LiveRows<Merge<'a, '_, C>>,
    table: &Table,
    command: &ReadCommand,
    progress: &mut Progress,
    bytes: &mut Vec<u8>,
    versions: impl FnOnce() -> Option<Versions>,
) -> Result<Ended, ReadStop> {
    let start = rows.start()?;
    let key = PartitionKey { token: start.token, key: start.key.to_vec() };
    let (state, before, bytes_before, mut out) = match progress.within.take().map(|within| *within) {
        Some(within) => {
            assert_eq!(within.partition, key, "the rest of a partition is its own");
            (within.part, within.before, within.bytes_before, PageWriter::resume(bytes, within.mark))
        }
        None => (PartState::begin(progress, &key), progress.clone(), bytes.len(), PageWriter::new(bytes)),
    };
    let mut part = Part { table, command, start, key, state };
    let taken = if command.distinct {
        part.take_distinct(rows, progress, &mut out)
    } else {
        part.take_rows(rows, progress, &mut out)
    };
    let Err(stop) = taken else {
        progress.restarts = 0;
        return taken;
    };
    match (versions(), rows.cursor().place()) {
        (Some(versions), Some(place)) if !matches!(stop, ReadStop::Corrupt(_)) => {
            let (partition, part, place, mark) = (part.key, part.state, OwnedPosition::of(place), out.mark());
            progress.within = Some(Box::new(Within { partition, place, versions, part, mark, before, bytes_before }));
        }
        _ => {
            bytes.truncate(bytes_before);
            *progress = before;
        }
    }
    Err(stop)
}

struct Part<'a, 'c> {
    table: &'c Table,
    command: &'c ReadCommand,
    start: PartitionStart<'a>,
    key: PartitionKey,
    state: PartState,
}

/// How far a partition has come.
#[derive(Clone, Copy, Debug)]
struct PartState {
    /// Rows of this partition so far, those of earlier pages too.
    taken: u64,
    /// Whether the partition stands in the page.
    headed: bool,
    /// Whether a row of it is live, those of earlier pages too.
    any_live: bool,
}

impl PartState {
    fn begin(progress: &Progress, key: &PartitionKey) -> PartState {
        let taken = match &progress.resume {
            Some(resume) if resume.partition == *key && resume.after.is_some() => resume.partition_rows,
            _ => 0,
        };
        PartState { taken, headed: false, any_live: taken > 0 }
    }
}

impl<'a> Part<'a, '_> {
    fn take_rows<C: PartitionCursor<'a>>(
        &mut self,
        rows: &mut LiveRows<C>,
        progress: &mut Progress,
        out: &mut PageWriter<'_>,
    ) -> Result<Ended, ReadStop> {
        while self.state.taken < self.command.limits.per_partition {
            let Some(row) = rows.next_row()? else { break };
            self.state.any_live = true;
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
        if !self.state.any_live && self.command.static_only_rows && self.start.static_row.is_some() && self.passes(None)
        {
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
        if !self.state.headed {
            self.state.headed = true;
            out.partition(self.start.token, self.start.key);
            if let Some(row) = &self.start.static_row {
                out.static_row(row, Some(&self.command.columns));
            }
        }
    }

    fn count(&mut self, progress: &mut Progress, clustering: Option<&[u8]>) {
        self.state.taken += 1;
        progress.rows += 1;
        progress.resume = Some(Resume {
            partition: self.key.clone(),
            after: clustering.map(<[u8]>::to_vec),
            partition_rows: self.state.taken,
        });
    }

    fn page_is_full(&self, progress: &Progress, out: &PageWriter<'_>) -> bool {
        progress.rows >= self.command.limits.rows || out.len_bytes() >= self.command.limits.page_bytes
    }

    fn done(&self, progress: &mut Progress, out: &PageWriter<'_>) -> Result<Ended, ReadStop> {
        progress.resume = Some(Resume { partition: self.key.clone(), after: None, partition_rows: 0 });
        Ok(if self.state.headed && self.page_is_full(progress, out) { Ended::Page } else { Ended::Partition })
    }
}
