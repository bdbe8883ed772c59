//! Reads: tried over what is in memory, and tried again after what was missing has been loaded.
//!
//! A try borrows memtables and cached blocks and never waits. A partition is taken whole or not at all: on a miss the
//! page goes back to where its current partition began, the missing blocks are loaded and held, and the partition is
//! read again against the table as it then is.

use std::rc::Rc;

use crate::base::ids::{ColumnId, Token};
use crate::base::local::Permit;
use crate::mutation::ReadStop;
use crate::mutation::live::LiveRows;
use crate::mutation::merge::Merge;
use crate::mutation::page::PageWriter;
use crate::mutation::read::{Partitions, ReadCommand, ReadPage, TokenRange};
use crate::schema::{Table, system};
use crate::shard::page::{Ended, Progress, slices_after, take_partition};
use crate::shard::source::{Cursors, Sources};
use crate::shard::tables::bump;
use crate::shard::{ReadError, Shard};
use crate::sstable::{Misses, Pins, View};

/// After so long a read lets others have a turn, between two partitions.
const TURN_NS: u64 = 1_000_000;

/// Reads of ranges that may have turns at the same time, their waits for blocks included: the others wait, first come,
/// first served, and after each turn a read goes to the end of the queue. So other work has every second turn at least
/// of those that take this long, however many ranges are read.
pub(super) const SCANS_AT_ONCE: u64 = 4;

/// How a try ended.
enum Tried {
    /// The page is done: full, or nothing follows.
    Page { full: bool },
    /// The turn is over; go on from the progress.
    Turn,
}

impl Shard {
    /// One page of a read. The deadline is checked at each turn.
    pub async fn read(&self, command: &ReadCommand, deadline_ns: u64) -> Result<ReadPage, ReadError> {
        let store = self.store(command.table).ok_or(ReadError::UnknownTable(command.table))?;
        bump(&store.counts.reads);
        let table = store.table();
        let is_scan = matches!(command.partitions, Partitions::Range(_)) && !system::is_system(&table.keyspace);
        let mut scan = self.scan_turn(is_scan).await;
        let mut progress = Progress::begin(command);
        let dropped = dropped_columns(&table);
        let mut bytes = Vec::new();
        let mut misses = Misses::new();
        loop {
            let tried = {
                let pins = Pins::new();
                let sources = Sources::of(&store, store.sstables());
                let view = View { cache: &self.cache, pins: &pins, misses: &misses };
                let turn_ends_ns = self.io.now_ns() + TURN_NS;
                let (dropped, sources) = (dropped.as_ref(), &sources);
                let mut attempt = Attempt { shard: self, table: &table, dropped, command, sources, view, turn_ends_ns };
                attempt.run(&mut progress, &mut bytes)
            };
            match tried {
                Ok(Tried::Page { full }) => {
                    let resume = if full { progress.resume } else { None };
                    return Ok(ReadPage { bytes, rows: progress.rows, resume });
                }
                Ok(Tried::Turn) => {
                    misses.release();
                    drop(scan.take());
                    self.io.yield_now().await;
                    scan = self.scan_turn(is_scan).await;
                }
                Err(ReadStop::Miss) => {
                    misses.load(&self.cache).await.map_err(|error| sstable_error(&error))?;
                }
                Err(ReadStop::Corrupt(what)) => return Err(ReadError::Corrupt(what)),
            }
            if self.io.now_ns() > deadline_ns {
                return Err(ReadError::Timeout);
            }
        }
    }

    async fn scan_turn(&self, is_scan: bool) -> Option<Permit> {
        if !is_scan {
            return None;
        }
        if let Some(turn) = self.scan_turns.try_acquire(1) {
            return Some(turn);
        }
        let turn = self.scan_turns.acquire(1).await;
        // The one before may have been polled by the task that polls this one too: that task's own turn ends first.
        self.io.yield_now().await;
        Some(turn)
    }
}

/// One try at (the rest of) a page.
struct Attempt<'a, 's> {
    shard: &'a Shard,
    table: &'a Table,
    dropped: Option<&'a Rc<[ColumnId]>>,
    command: &'a ReadCommand,
    sources: &'a Sources<'s>,
    view: View<'a>,
    turn_ends_ns: u64,
}

impl<'a> Attempt<'a, '_> {
    fn run(&mut self, progress: &mut Progress, bytes: &mut Vec<u8>) -> Result<Tried, ReadStop> {
        match &self.command.partitions {
            Partitions::Keys(_) => self.keys(progress, bytes),
            Partitions::Range(range) => self.range(*range, progress, bytes),
        }
    }

    fn turn_is_over(&self) -> bool {
        self.shard.io.now_ns() > self.turn_ends_ns
    }

    fn keys(&mut self, progress: &mut Progress, bytes: &mut Vec<u8>) -> Result<Tried, ReadStop> {
        let Partitions::Keys(keys) = &self.command.partitions else { return Ok(Tried::Page { full: false }) };
        while let Some(key) = keys.get(progress.key_at) {
            let within = progress.resume.as_ref().filter(|resume| resume.partition == *key);
            let slices = slices_after(self.command, within, self.table);
            let cursors = self.sources.partition(self.view, key.token, &key.key, &slices, self.command.reversed)?;
            let ended = self.take(cursors, progress, bytes)?;
            progress.key_at += 1;
            let is_last = progress.key_at == keys.len();
            if ended == Ended::Page {
                let full = !is_last || progress.resume.as_ref().is_some_and(|resume| resume.after.is_some());
                return Ok(Tried::Page { full });
            }
            if !is_last && self.turn_is_over() {
                return Ok(Tried::Turn);
            }
        }
        Ok(Tried::Page { full: false })
    }

    fn range(&mut self, range: TokenRange, progress: &mut Progress, bytes: &mut Vec<u8>) -> Result<Tried, ReadStop> {
        let begun = progress.resume.clone();
        let rest = slices_after(self.command, begun.as_ref(), self.table);
        let (token, key, behind) = match &begun {
            Some(resume) => (resume.partition.token, resume.partition.key.as_slice(), resume.after.is_none()),
            None => match range.start_exclusive {
                Some(Token(i64::MAX)) => return Ok(Tried::Page { full: false }),
                Some(Token(start)) => (Token(start + 1), &[][..], false),
                None => (Token(i64::MIN), &[][..], false),
            },
        };
        let mut scan = self.sources.scan(self.view, token, key, behind);
        while let Some((token, key)) = scan.peek()? {
            if range.end_inclusive.is_some_and(|end| token > end) {
                break;
            }
            let resumed = begun.as_ref().is_some_and(|begun| {
                begun.after.is_some() && begun.partition.token == token && begun.partition.key == key
            });
            let slices: &[_] = if resumed { &rest } else { &self.command.slices };
            let cursors = scan.partition(token, key, slices, self.command.reversed)?;
            if self.take(cursors, progress, bytes)? == Ended::Page {
                return Ok(Tried::Page { full: true });
            }
            scan.advance(token, key)?;
            if self.turn_is_over() {
                return Ok(Tried::Turn);
            }
        }
        Ok(Tried::Page { full: false })
    }

    /// Takes one partition, or goes back to where it began.
    fn take(&self, cursors: Cursors<'_>, progress: &mut Progress, bytes: &mut Vec<u8>) -> Result<Ended, ReadStop> {
        if cursors.is_empty() {
            return Ok(Ended::Partition);
        }
        let (len_before, before) = (bytes.len(), progress.clone());
        let merge = Merge::new(self.table.clustering_order(), self.command.reversed, cursors);
        let mut rows = LiveRows::new(merge, self.command.now_s).without(self.dropped.cloned());
        let taken = take_partition(&mut rows, self.table, self.command, progress, &mut PageWriter::new(bytes));
        if taken.is_err() {
            bytes.truncate(len_before);
            *progress = before;
        }
        taken
    }
}

/// The ids of the columns that are no more, ascending; none where no column was dropped.
fn dropped_columns(table: &Table) -> Option<Rc<[ColumnId]>> {
    let mut dropped: Vec<ColumnId> = table.dropped.iter().map(|column| column.id).collect();
    dropped.sort_unstable();
    (!dropped.is_empty()).then(|| dropped.into())
}

fn sstable_error(error: &crate::sstable::SSTableError) -> ReadError {
    if error.is_corrupt() { ReadError::Corrupt(error.to_string()) } else { ReadError::Io(error.to_string()) }
}
