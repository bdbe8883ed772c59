//! Reads: tried over what is in memory, and tried again after what was missing has been loaded.
//!
//! A try borrows memtables and cached blocks and never waits. It ends when its turn is over, between two partitions or
//! within a long one, and where a block is missing, which is then loaded and held. The next try goes on from there against
//! the table as it then is. A partition's mutation is seen whole or not at all: where the partition has changed meanwhile,
//! it is begun anew, and after some times of that it is read in one turn, or refused where that would be too long.

use std::rc::Rc;

use crate::base::ids::{ColumnId, Token};
use crate::base::local::Permit;
use crate::mutation::ReadStop;
use crate::mutation::live::LiveRows;
use crate::mutation::merge::Merge;
use crate::mutation::read::{Partitions, ReadCommand, ReadPage, TokenRange};
use crate::schema::{Table, system};
use crate::shard::page::{Ended, Progress, take_partition};
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

/// After so many rows, deleted ones too, and ends of deleted ranges it does within a partition: a few hundred microseconds.
pub const READ_TURN_PLACES: usize = 2_048;

/// A partition that changes between turns is begun anew so often; then it is read in one turn.
const RESTARTS_MAX: u32 = 2;

/// How many times as much as in any other may be read in such a turn, some tens of milliseconds: beyond it the read fails.
const UNCUT_TURNS_MAX: usize = 64;

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
        let is_scan = self.is_scan(command);
        let mut scan = self.scan_turn(is_scan).await;
        let mut progress = Progress::begin(command);
        let dropped = dropped_columns(&table);
        let mut bytes = Vec::new();
        let mut misses = Misses::new();
        let mut missed_at = None;
        let mut turn_ends_ns = self.io.now_ns() + TURN_NS;
        loop {
            let tried = {
                let pins = Pins::new();
                let sources = Sources::of(&store, store.sstables());
                let view = View { cache: &self.cache, pins: &pins, misses: &misses };
                let (dropped, sources) = (dropped.as_ref(), &sources);
                let mut attempt = Attempt { shard: self, table: &table, dropped, command, sources, view, turn_ends_ns };
                attempt.run(&mut progress, &mut bytes)
            };
            match tried {
                Ok(Tried::Page { full }) => {
                    let resume = if full { progress.resume } else { None };
                    return Ok(ReadPage { bytes, rows: progress.rows, resume });
                }
                Err(ReadStop::Turn) if progress.within.is_none() => {
                    return Err(ReadError::Unsteady { places: self.config.read_turn_places * UNCUT_TURNS_MAX });
                }
                Ok(Tried::Turn) | Err(ReadStop::Turn) => {
                    misses.release();
                    turn_ends_ns = 0;
                }
                Err(ReadStop::Miss) => {
                    // What was loaded for an earlier place is not needed any more.
                    let place = Some(progress.place());
                    if place != missed_at {
                        misses.release();
                    }
                    missed_at = place;
                    misses.load(&self.cache).await.map_err(|error| sstable_error(&error))?;
                }
                Err(ReadStop::Corrupt(what)) => return Err(ReadError::Corrupt(what)),
            }
            if self.io.now_ns() > turn_ends_ns {
                if is_scan {
                    misses.give_up_room();
                }
                drop(scan.take());
                self.io.yield_now().await;
                scan = self.scan_turn(is_scan).await;
                turn_ends_ns = self.io.now_ns() + TURN_NS;
            }
            if self.io.now_ns() > deadline_ns {
                return Err(ReadError::Timeout);
            }
        }
    }

    /// Whether a read takes turns with others of its kind: of a range, but for those of the system's tables, which are
    /// small, and without which no client gets further.
    pub fn is_scan(&self, command: &ReadCommand) -> bool {
        matches!(command.partitions, Partitions::Range(_))
            && self.store(command.table).is_some_and(|store| !system::is_system(&store.table().keyspace))
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
        progress.check_within(|partition| self.sources.versions(partition.token, &partition.key), bytes);
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
            let slices = progress.slices(self.command, key, self.table);
            let cursors = self.sources.partition(self.view, key.token, &key.key, &slices, self.command.reversed)?;
            if cursors.is_empty() {
                progress.come_to(None, bytes);
            }
            let ended = self.take(key.token, &key.key, cursors, progress, bytes)?;
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
        let begun = match (&progress.within, &progress.resume) {
            (Some(within), _) => Some((within.partition.clone(), false)),
            (None, Some(resume)) => Some((resume.partition.clone(), resume.after.is_none())),
            (None, None) => None,
        };
        let rest = begun.as_ref().map(|(partition, _)| progress.slices(self.command, partition, self.table));
        let (token, key, behind) = match &begun {
            Some((partition, behind)) => (partition.token, partition.key.as_slice(), *behind),
            None => match range.start_exclusive {
                Some(Token(i64::MAX)) => return Ok(Tried::Page { full: false }),
                Some(Token(start)) => (Token(start + 1), &[][..], false),
                None => (Token(i64::MIN), &[][..], false),
            },
        };
        let mut scan = self.sources.scan(self.view, token, key, behind);
        loop {
            let next = scan.peek()?;
            progress.come_to(next, bytes);
            let Some((token, key)) = next else { break };
            if range.end_inclusive.is_some_and(|end| token > end) {
                break;
            }
            let is_begun = begun.as_ref().is_some_and(|(begun, _)| begun.token == token && begun.key == key);
            let slices = rest.as_deref().filter(|_| is_begun).unwrap_or(&self.command.slices);
            let cursors = scan.partition(token, key, slices, self.command.reversed)?;
            if self.take(token, key, cursors, progress, bytes)? == Ended::Page {
                return Ok(Tried::Page { full: true });
            }
            scan.advance(token, key)?;
            if self.turn_is_over() {
                return Ok(Tried::Turn);
            }
        }
        Ok(Tried::Page { full: false })
    }

    /// Takes one partition, or as much of it as can be taken now.
    fn take(
        &self,
        token: Token,
        key: &[u8],
        cursors: Cursors<'_>,
        progress: &mut Progress,
        bytes: &mut Vec<u8>,
    ) -> Result<Ended, ReadStop> {
        if cursors.is_empty() {
            return Ok(Ended::Partition);
        }
        let may_be_cut = progress.restarts < RESTARTS_MAX;
        let versions = || may_be_cut.then(|| self.sources.versions(token, key));
        let turn = self.shard.config.read_turn_places;
        let places = if may_be_cut { turn } else { turn * UNCUT_TURNS_MAX };
        let merge = Merge::new(self.table.clustering_order(), self.command.reversed, cursors).with_turn(places);
        let mut rows = LiveRows::new(merge, self.command.now_s).without(self.dropped.cloned());
        take_partition(&mut rows, self.table, self.command, progress, bytes, versions)
    }
}

/// The ids of the columns that are no more, ascending; none where no column was dropped.
fn dropped_columns(table: &Table) -> Option<Rc<[ColumnId]>> {
    let mut dropped: Vec<ColumnId> = table.dropped.iter().map(|column| column.id).collect();
    dropped.sort_unstable();
    (!dropped.is_empty()).then(|| dropped.into())
}

pub(super) fn sstable_error(error: &crate::sstable::SSTableError) -> ReadError {
    if error.is_corrupt() { ReadError::Corrupt(error.to_string()) } else { ReadError::Io(error.to_string()) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use crate::commitlog::SyncMode;
    use crate::io::sim::{Faults, Simulation};
    use crate::io::{Io, TaskClass};
    use crate::mutation::page::{PageItem, PageView};
    use crate::mutation::read::{PartitionKey, Partitions, ReadCommand, ReadPage};
    use crate::schema::partitioner;
    use crate::shard::tests::{
        TABLE, all_rows, command, config, delete_row, log, put, put_value, schema, start_with, write,
    };
    use crate::shard::{ReadError, Shard, ShardConfig};

    /// A shard whose reads take so few places in a turn.
    async fn shard(io: Io, read_turn_places: usize) -> Rc<Shard> {
        let config = ShardConfig { read_turn_places, compact: false, cache_bytes_max: 64 << 10, ..config() };
        start_with(io, config, log(SyncMode::Batch), &schema()).await
    }

    /// Partition 1, by its key or by a scan, forward or backward.
    fn commands(page_rows: u64) -> Vec<ReadCommand> {
        let key = 1i32.to_be_bytes().to_vec();
        let keys = Partitions::Keys(vec![PartitionKey { token: partitioner::token_of(&key), key }]);
        let all = command(page_rows);
        let mut commands = vec![all.clone(), ReadCommand { partitions: keys, ..all }];
        commands.extend(commands.clone().into_iter().map(|command| ReadCommand { reversed: true, ..command }));
        commands
    }

    /// The pages of a read, each with its (clustering key, first bytes of the value).
    async fn pages(shard: &Shard, mut command: ReadCommand) -> Vec<Vec<(i32, i32)>> {
        let int = |bytes: &[u8]| i32::from_be_bytes(bytes[..4].try_into().expect("an int"));
        let mut pages = Vec::new();
        loop {
            let page = shard.read(&command, u64::MAX).await.expect("a page");
            let rows = PageView::new(&page.bytes).filter_map(|item| match item.expect("whole") {
                PageItem::Row(row) => Some((row.clustering.to_vec(), int(row.cells[0].value))),
                _ => None,
            });
            pages.push(rows.map(|(key, v)| (int(&key[key.len() - 4..]), v)).collect());
            match page.resume {
                Some(resume) => command.resume = Some(resume),
                None => return pages,
            }
        }
    }

    /// Counts the turns of others.
    fn ticker(io: &Io) -> (Rc<Cell<u64>>, Rc<Cell<bool>>) {
        let (ticks, is_over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let (counted, ends, clock) = (ticks.clone(), is_over.clone(), io.clone());
        io.spawn(TaskClass::Foreground, async move {
            while !ends.get() {
                counted.set(counted.get() + 1);
                clock.yield_now().await;
            }
        });
        (ticks, is_over)
    }

    /// Deleted rows without end, in memory and on disk, and a few that live: others have turns meanwhile, and the answer
    /// is the same at every page size, in both directions.
    #[test]
    fn a_flood_of_tombstones_gives_way() {
        const ROWS: i32 = 6_000;
        let sim = Simulation::new(3, Faults::NONE);
        sim.run_on_node(|io| async move {
            let shard = shard(io.clone(), 64).await;
            let mut want = Vec::new();
            for c in 0..ROWS {
                let lives = c % 1_000 == 999;
                write(&shard, vec![if lives { put(1, c, c) } else { delete_row(1, c, i64::MAX / 2) }]).await;
                want.extend(lives.then_some((c, c)));
                if c == ROWS / 2 {
                    shard.flush(None).await.expect("flushed");
                }
            }
            for page_rows in [1, 2, 100] {
                for command in commands(page_rows) {
                    let (ticks, is_over) = ticker(&io);
                    let reversed = command.reversed;
                    let mut rows = pages(&shard, command).await.concat();
                    is_over.set(true);
                    if reversed {
                        rows.reverse();
                    }
                    assert_eq!(rows, want);
                    assert!(ticks.get() >= u64::try_from(ROWS).expect("small") / 64, "{} turns", ticks.get());
                }
            }
        })
        .expect("no fault");
    }

    /// A mutation of two rows far apart is seen whole or not at all, though a read has many turns between them.
    #[test]
    fn a_partition_that_changes_between_turns_is_read_as_it_was_at_one_moment() {
        const ROWS: i32 = 100;
        for (seed, writes_a_flush) in [(0, 1), (1, 1), (2, 50), (3, 50)] {
            let sim = Simulation::new(seed, Faults::NONE);
            sim.run_on_node(|io| async move {
                let shard = shard(io.clone(), 16).await;
                for c in 0..ROWS {
                    write(&shard, vec![put(1, c, 0)]).await;
                }
                let (writer, is_over) = (shard.clone(), Rc::new(Cell::new(false)));
                let (ends, clock) = (is_over.clone(), io.clone());
                io.spawn(TaskClass::Foreground, async move {
                    let mut v = 0;
                    while !ends.get() {
                        v += 1;
                        write(&writer, vec![put(1, 0, v), put(1, ROWS - 1, v)]).await;
                        if v % writes_a_flush == 0 {
                            writer.flush(None).await.expect("flushed");
                        }
                        clock.yield_now().await;
                    }
                });
                let mut seen = Vec::new();
                while seen.last().is_none_or(|last| *last < 5) {
                    for command in commands(1_000) {
                        let mut rows = pages(&shard, command.clone()).await.concat();
                        if command.reversed {
                            rows.reverse();
                        }
                        assert_eq!(rows.len(), usize::try_from(ROWS).expect("small"));
                        assert_eq!(rows[0].1, rows[rows.len() - 1].1, "seed {seed}");
                        seen.push(rows[0].1);
                    }
                }
                is_over.set(true);
                assert!(seen.is_sorted());
            })
            .expect("no fault");
        }
    }

    /// A partition that goes while it is read, and another that comes: no row stands under another's key.
    #[test]
    fn what_is_gone_between_turns_leaves_nothing_to_the_next() {
        const ROWS: i32 = 200;
        // In the order of their tokens.
        let mut keys: Vec<i32> = (1..20).collect();
        keys.sort_by_key(|k| partitioner::token_of(&k.to_be_bytes()));
        let (first, later) = (keys[0], keys[10]);
        let (mut overtaken, mut ahead) = (0, 0);
        for delay in 0..60 {
            let sim = Simulation::new(delay, Faults::NONE);
            let rows = sim
                .run_on_node(move |io| async move {
                    let shard = shard(io.clone(), 2).await;
                    for c in 0..ROWS {
                        write(&shard, vec![put(first, c, first)]).await;
                    }
                    shard.flush(None).await.expect("flushed");
                    let other = shard.clone();
                    io.spawn(TaskClass::Foreground, async move {
                        other.truncate(TABLE, None).await.expect("truncated");
                        for c in 0..ROWS {
                            write(&other, vec![put(later, c, later)]).await;
                        }
                    });
                    io.sleep(std::time::Duration::from_micros(40 * delay)).await;
                    all_rows(&shard, u64::MAX).await
                })
                .expect("no fault");
            assert!(rows.iter().all(|(k, _, v)| k == v), "delay {delay}: {rows:?}");
            let of_first = rows.iter().filter(|(k, ..)| *k == first).count();
            assert!([0, usize::try_from(ROWS).expect("small")].contains(&of_first), "delay {delay}: {of_first}");
            if of_first == 0 { overtaken += 1 } else { ahead += 1 }
        }
        assert!(overtaken > 0 && ahead > 0, "{overtaken} and {ahead}");
    }

    /// What is written to all the time, and too long for one turn, is refused, and answered once there is time.
    #[test]
    fn a_long_partition_that_never_rests_is_refused() {
        let sim = Simulation::new(1, Faults::NONE);
        sim.run_on_node(|io| async move {
            let shard = shard(io.clone(), 4).await;
            for c in 0..400 {
                write(&shard, vec![put(1, c, 0)]).await;
            }
            let is_over = Rc::new(Cell::new(false));
            for c in 0..20 {
                let (writer, ends) = (shard.clone(), is_over.clone());
                io.spawn(TaskClass::Foreground, async move {
                    while !ends.get() {
                        write(&writer, vec![put(1, c, 1)]).await;
                    }
                });
            }
            let rows = |page: Result<ReadPage, ReadError>| page.map(|page| page.rows);
            let long = command(1_000);
            assert_eq!(rows(shard.read(&long, u64::MAX).await), Err(ReadError::Unsteady { places: 256 }));
            assert_eq!(rows(shard.read(&command(100), u64::MAX).await), Ok(100));
            is_over.set(true);
            io.sleep(std::time::Duration::from_secs(1)).await;
            assert_eq!(rows(shard.read(&long, u64::MAX).await), Ok(400));
        })
        .expect("no fault");
    }

    /// What is not in memory is loaded once, however long the partition: twice the rows ask for twice the blocks.
    #[test]
    fn a_long_partition_that_is_not_cached_costs_what_it_holds() {
        let asked = |rows: i32| {
            let sim = Simulation::new(5, Faults::NONE);
            sim.run_on_node(move |io| async move {
                let shard = shard(io.clone(), 2_048).await;
                for c in 0..rows {
                    // Hardly to be compressed.
                    let mut value = c.to_be_bytes().to_vec();
                    value.extend((0..60).flat_map(|_| io.random_u64().to_be_bytes()));
                    write(&shard, vec![put_value(1, c, &value)]).await;
                }
                shard.flush(None).await.expect("flushed");
                let found = pages(&shard, commands(u64::MAX).swap_remove(1)).await.concat();
                assert_eq!(found.len(), usize::try_from(rows).expect("small"));
                let stats = shard.cache.stats();
                stats.hits + stats.misses
            })
            .expect("no fault")
        };
        let (once, twice) = (asked(1_500), asked(3_000));
        assert!(once > 50 && twice < 3 * once, "{once} and {twice} blocks were asked for");
    }
}
