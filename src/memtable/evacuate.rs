//! Moves what a memtable still holds into another one, in bounded steps, where most of it is dead: cheaper than a flush,
//! and the old slabs go back to the pool.
//!
//! The old memtable takes no more writes and is read beside the new one until the last step; rows that are in both then
//! reconcile with themselves. What deletions cover stays behind.

use crate::base::ids::Token;
use crate::memtable::partitions::PartitionBound;
use crate::memtable::record::{partition, range, row};
use crate::memtable::{Memtable, PartitionRef, apply, tree};
use crate::mutation::cursor::{Fragment, PartitionCursor};
use crate::mutation::entry::Entry;
use crate::mutation::merge::Merge;
use crate::mutation::read::{OwnedPosition, Slice};
use crate::mutation::row::Row;

/// How far an evacuation has come.
#[derive(Debug, Default)]
pub struct Evacuation {
    /// The partition being moved or moved last, and the last of its rows that has been (`None`: all).
    at: Option<(Token, Vec<u8>, Option<Vec<u8>>)>,
}

impl Evacuation {
    pub fn new() -> Self {
        Evacuation::default()
    }

    /// Moves about `budget_bytes` from `from` into `into`. Whether that was the last of it. `into` has the log interval
    /// and the timestamps of `from` from the first step on.
    pub fn step(&mut self, from: &Memtable, into: &mut Memtable, budget_bytes: usize) -> bool {
        inherit(from, into);
        let until = into.arena.live_bytes() + budget_bytes;
        loop {
            let bound = match &self.at {
                None => PartitionBound::Start,
                Some((token, key, None)) => PartitionBound::After(*token, key),
                Some((token, key, Some(_))) => PartitionBound::At(*token, key),
            };
            let Some(next) = from.first_partition(bound) else { return true };
            let resume = self.at.take().and_then(|(_, _, after)| after);
            let stopped_after = move_partition(next, resume, into, until);
            let is_over = stopped_after.is_some() || into.arena.live_bytes() >= until;
            self.at = Some((next.token(), next.key().to_vec(), stopped_after));
            if is_over {
                return false;
            }
        }
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

/// Moves a partition's rows after `resume` until `into` has `until` live bytes. The row after which it stopped, `None`
/// where all is moved.
fn move_partition(
    moved: PartitionRef<'_>,
    resume: Option<Vec<u8>>,
    into: &mut Memtable,
    until: usize,
) -> Option<Vec<u8>> {
    let target = into.partitions.find_or_create(&mut into.arena, moved.token(), moved.key());
    let mut put = |entries: &mut dyn Iterator<Item = Entry<'_>>| {
        into.stats.rows += apply::apply(&mut into.arena, into.table.clustering_order(), target, entries) as u64;
        into.arena.live_bytes() >= until
    };
    if resume.is_none() {
        move_head(moved, &mut put);
    }
    let start = resume.map_or(OwnedPosition::start(), |prefix| OwnedPosition { prefix, weight: 1 });
    let slices = [Slice { start, end: OwnedPosition::end() }];
    let mut rows = Merge::new(moved.memtable.table.clustering_order(), false, [moved.cursor(&slices, false)]);
    while let Some(fragment) = rows.next().expect("a memtable's cursor neither misses nor finds damage") {
        if let Fragment::Row(row) = fragment
            && put(&mut entries_of(Entry::Row { clustering: row.clustering }, &row))
        {
            return Some(row.clustering.to_vec());
        }
    }
    None
}

/// Moves the partition's deletion, its deleted ranges and its static row.
fn move_head(moved: PartitionRef<'_>, put: &mut impl FnMut(&mut dyn Iterator<Item = Entry<'_>>) -> bool) {
    let (arena, at) = (&moved.memtable.arena, moved.at);
    let deletion = partition::deletion(arena, at);
    if !deletion.is_live() {
        put(&mut std::iter::once(Entry::PartitionDeletion(deletion)));
    }
    let mut path = tree::seek(arena, arena.get_ref(at, partition::RANGES), |_| false);
    while let Some(element) = path.element(arena) {
        let range::Range { start, end, deletion } = range::read(arena, element);
        put(&mut std::iter::once(Entry::RangeTombstone { start, end, deletion }));
        path.step(arena);
    }
    let static_row = arena.get_ref(at, partition::STATIC_ROW);
    if !static_row.is_null() {
        put(&mut entries_of(Entry::StaticRow, &row::read(arena, static_row)));
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
