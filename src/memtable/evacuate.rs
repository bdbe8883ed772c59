//! Moves what a memtable still holds into another one, in bounded steps, where most of it is dead: cheaper than a flush,
//! and the old slabs go back to the pool.
//!
//! The old memtable takes no more writes and is read beside the new one until the last step; rows that are in both then
//! reconcile with themselves. What deletions cover stays behind. A row moves whole; all else can stop anywhere.

use crate::base::ids::Token;
use crate::memtable::arena::Ref;
use crate::memtable::partitions::PartitionBound;
use crate::memtable::record::{partition, range, row};
use crate::memtable::{Memtable, PartitionRef, apply, ranges};
use crate::mutation::cursor::{Fragment, PartitionCursor, ReadStop};
use crate::mutation::entry::Entry;
use crate::mutation::merge::Merge;
use crate::mutation::read::{OwnedPosition, Slice};
use crate::mutation::row::Row;

/// How many partitions, rows and ends of ranges one step looks at, moved or left behind.
const STEP_VISITS_MAX: usize = 1_024;

/// How far an evacuation has come.
#[derive(Debug, Default)]
pub struct Evacuation {
    /// The partition being moved or moved last, and what of it is still to be moved.
    at: Option<(Token, Vec<u8>, Option<Rest>)>,
}

/// What of a partition is still to be moved: from this position on.
#[derive(Debug)]
enum Rest {
    /// Its deleted ranges, and then all its rows.
    Ranges(OwnedPosition),
    Rows(OwnedPosition),
}

impl Evacuation {
    pub fn new() -> Self {
        Evacuation::default()
    }

    /// Moves about `budget_bytes` from `from` into `into`. Whether that was the last of it. `into` has the log interval
    /// and the timestamps of `from` from the first step on.
    pub fn step(&mut self, from: &Memtable, into: &mut Memtable, budget_bytes: usize) -> bool {
        inherit(from, into);
        let (place, mut rest) = self.at.take().map_or((None, None), |(token, key, rest)| (Some((token, key)), rest));
        let bound = match &place {
            None => PartitionBound::Start,
            Some((token, key)) if rest.is_none() => PartitionBound::After(*token, key),
            Some((token, key)) => PartitionBound::At(*token, key),
        };
        let until_bytes = into.arena.live_bytes() + budget_bytes;
        let mut step = Step { into, target: Ref::NULL, until_bytes, visits_left: STEP_VISITS_MAX };
        for next in from.partitions_from(bound) {
            rest = step.partition(next, rest);
            if rest.is_some() || step.is_over() {
                self.at = Some((next.token(), next.key().to_vec(), rest));
                return false;
            }
        }
        true
    }
}

/// What `into` must answer for, so that the log it came from is kept and purges heed it.
fn inherit(from: &Memtable, into: &mut Memtable) {
    let stats = &mut into.stats;
    stats.timestamp_min = stats.timestamp_min.min(from.stats.timestamp_min);
    stats.timestamp_max = stats.timestamp_max.max(from.stats.timestamp_max);
    stats.log_min = [stats.log_min, from.stats.log_min].into_iter().flatten().min();
    stats.log_max = stats.log_max.max(from.stats.log_max);
}

/// One step under way.
struct Step<'t> {
    into: &'t mut Memtable,
    /// The partition that is moved, in `into`.
    target: Ref,
    /// The step ends when `into` has so many live bytes.
    until_bytes: usize,
    visits_left: usize,
}

impl Step<'_> {
    fn is_over(&self) -> bool {
        self.visits_left == 0 || self.into.arena.live_bytes() >= self.until_bytes
    }

    fn visit(&mut self) {
        self.visits_left = self.visits_left.saturating_sub(1);
    }

    /// Moves a partition, or the rest of one. What is still left of it where the step is over.
    fn partition(&mut self, moved: PartitionRef<'_>, rest: Option<Rest>) -> Option<Rest> {
        self.visit();
        self.target = self.into.partitions.find_or_create(&mut self.into.arena, moved.token(), moved.key()).0;
        let ranges_from = match rest {
            Some(Rest::Rows(start)) => return self.rows(moved, start),
            Some(Rest::Ranges(start)) => start,
            None => {
                self.head(moved);
                OwnedPosition::start()
            }
        };
        self.ranges(moved, &ranges_from).or_else(|| self.rows(moved, OwnedPosition::start()))
    }

    /// Moves the partition's deletion and its static row.
    fn head(&mut self, moved: PartitionRef<'_>) {
        let (arena, at) = (&moved.memtable.arena, moved.at);
        let head = partition::read(arena, at);
        let (deletion, static_row) = (head.deletion(), head.static_row());
        if !deletion.is_live() {
            self.put(std::iter::once(Entry::PartitionDeletion(deletion)));
        }
        if !static_row.is_null() {
            self.put(entries_of(Entry::StaticRow, &row::read(arena, static_row)));
        }
    }

    /// Moves the deleted ranges that end behind `start`.
    fn ranges(&mut self, moved: PartitionRef<'_>, start: &OwnedPosition) -> Option<Rest> {
        let (arena, order) = (&moved.memtable.arena, moved.memtable.table.clustering_order());
        let mut path = ranges::seek(arena, order, partition::read(arena, moved.at).ranges(), start.borrow());
        while let Some(element) = path.element(arena) {
            let range::Range { start, end, deletion } = range::read(arena, element);
            self.visit();
            self.put(std::iter::once(Entry::RangeTombstone { start, end, deletion }));
            if self.is_over() {
                return Some(Rest::Ranges(OwnedPosition::of(end)));
            }
            path.step(arena);
        }
        None
    }

    /// Moves the rows from `start` on.
    fn rows(&mut self, moved: PartitionRef<'_>, start: OwnedPosition) -> Option<Rest> {
        let slices = [Slice { start, end: OwnedPosition::end() }];
        let cursor = moved.cursor(&slices, false);
        let mut rows = Merge::new(moved.memtable.table.clustering_order(), false, [cursor]).with_turn(self.visits_left);
        let rest = loop {
            match rows.next() {
                Ok(Some(Fragment::Row(row))) => {
                    self.put(entries_of(Entry::Row { clustering: row.clustering }, &row));
                    if self.is_over() {
                        break Some(OwnedPosition { prefix: row.clustering.to_vec(), weight: 1 });
                    }
                }
                Ok(Some(Fragment::Change(_))) => {}
                Ok(None) => break None,
                Err(ReadStop::Corrupt(what)) => unreachable!("a memtable's cursor finds no damage: {what}"),
                Err(ReadStop::Turn | ReadStop::Miss) => {
                    break Some(rows.place().map_or_else(|| slices[0].start.clone(), OwnedPosition::of));
                }
            }
        };
        self.visits_left = rows.turn_left();
        rest.map(Rest::Rows)
    }

    fn put<'e>(&mut self, entries: impl Iterator<Item = Entry<'e>>) {
        let into = &mut *self.into;
        let order = into.table.clustering_order();
        into.stats.rows += apply::apply(&mut into.arena, order, self.target, entries).rows_new;
    }
}

/// A row as the entries that write it, `begin` first.
fn entries_of<'a>(begin: Entry<'a>, row: &Row<'a>) -> impl Iterator<Item = Entry<'a>> {
    let liveness = (!row.liveness.is_none()).then_some(Entry::Liveness(row.liveness));
    let deletion = (!row.deletion.is_live()).then_some(Entry::RowDeletion(row.deletion));
    let complex = row.complex.iter().map(|(column, deletion)| Entry::ComplexDeletion(*column, *deletion));
    let cells = row.cells.iter().map(|cell| Entry::Cell(*cell));
    std::iter::once(begin).chain(liveness).chain(deletion).chain(complex).chain(cells)
}
