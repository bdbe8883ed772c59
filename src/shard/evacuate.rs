//! Evacuations: where most of a memtable is dead when memory is short, what is live moves to fresh memory instead of into
//! an SSTable.
//!
//! Nothing on disk changes: the evacuated data is still covered by no SSTable, so the log keeps its oldest record, and a
//! flush that the log asks for takes it. Between two steps others have their turn; writes go into the fresh memtable, and
//! reads see both. One that is broken off leaves a memtable that the next flush writes.

use std::rc::Rc;

use crate::memtable::Evacuation;
use crate::shard::Shard;
use crate::shard::report::add;
use crate::shard::tables::{TableStore, bump};

/// How much one step moves: a fraction of a millisecond's work.
const STEP_BYTES: usize = 64 << 10;

impl Shard {
    /// Whether moving what is live gives back more memory than it copies, and finds the memory to.
    pub(super) fn wants_evacuation(&self, store: &TableStore) -> bool {
        let active = store.active();
        active.is_worth_evacuating()
            && store.flushing.borrow().is_empty()
            && self.memory.has_room(active.bytes_evacuated() as u64)
    }

    /// Moves what is live in the table's memtable into a fresh one, and gives the old one's memory back.
    pub(super) async fn evacuate(&self, store: &Rc<TableStore>) {
        let _turn = store.turn.acquire(1).await;
        if store.dropped.get() || !self.wants_evacuation(store) {
            return;
        }
        let (live_bytes, taken_bytes) = (store.active().bytes_live() as u64, store.active().bytes_evacuated() as u64);
        self.freeze(store);
        let Some(old) = store.flushing.borrow().last().map(|frozen| frozen.memtable.clone()) else { return };
        // Held for what is still to be moved, so that no write is admitted into it.
        let mut held_bytes = taken_bytes;
        self.memory.resize(0, held_bytes);
        let mut evacuation = Evacuation::new();
        let is_whole = loop {
            let (is_over, grown_bytes) = {
                let mut active = store.active.borrow_mut();
                let before = active.bytes_allocated();
                (evacuation.step(&old, &mut active, STEP_BYTES), (active.bytes_allocated() - before) as u64)
            };
            let given_bytes = held_bytes.min(grown_bytes);
            held_bytes -= given_bytes;
            self.memory.resize(given_bytes, grown_bytes);
            if is_over {
                break true;
            }
            self.io.yield_now().await;
            if store.dropped.get() {
                break false;
            }
        };
        self.memory.resize(held_bytes, 0);
        if !is_whole {
            return;
        }
        store.flushing.borrow_mut().retain(|frozen| !Rc::ptr_eq(&frozen.memtable, &old));
        self.memory.resize(old.bytes_allocated() as u64, 0);
        bump(&self.counts.evacuations);
        add(&self.counts.evacuated_bytes, live_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;
    use crate::commitlog::{LogConfig, SyncMode};
    use crate::io::Io;
    use crate::io::sim::{Faults, Simulation};
    use crate::shard::ShardConfig;
    use crate::shard::tests::{TABLE, all_rows, config, log, put_value, schema, start_with, write};

    const PARTITIONS: i32 = 10;

    /// Memory for a memtable of two slabs before a flush is wanted.
    fn small() -> ShardConfig {
        ShardConfig { memtable_bytes_max: 4 << 20, compact: false, ..config() }
    }

    async fn start_small(io: Io, log: LogConfig) -> Rc<Shard> {
        start_with(io, small(), log, &schema()).await
    }

    /// Writes the same few rows again, with values of another size than the last: the old ones are dead.
    async fn overwrite(shard: &Shard, round: i32) {
        let mut value = round.to_be_bytes().to_vec();
        value.resize(if round % 2 == 0 { 1_000 } else { 2_000 }, 7);
        write(shard, (0..PARTITIONS).map(|k| put_value(k, 0, &value)).collect()).await;
    }

    fn rows_of(round: i32) -> Vec<(i32, i32, i32)> {
        (0..PARTITIONS).map(|k| (k, 0, round)).collect()
    }

    #[test]
    fn rows_overwritten_far_beyond_the_budget_are_never_flushed_and_survive_a_kill() {
        const ROUNDS: i32 = 500;
        let sim = Simulation::new(1, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let shard = start_small(io, log(SyncMode::Batch)).await;
            shard.start_tasks();
            for round in 0..=ROUNDS {
                overwrite(&shard, round).await;
                if round % 50 == 0 {
                    assert_eq!(all_rows(&shard, 3).await, rows_of(round));
                }
            }
            let store = shard.store(TABLE).expect("the table");
            let evacuations = shard.counts.evacuations.get();
            assert!(evacuations >= 2, "{evacuations} evacuations");
            assert!(shard.counts.evacuated_bytes.get() < evacuations * 60_000);
            assert_eq!((store.sstables().len(), store.counts.flushes.get()), (0, 0));
            assert_eq!(shard.memory.used_bytes(), store.memtable_bytes());
            assert_eq!(all_rows(&shard, 3).await, rows_of(ROUNDS));
        });
        ran.expect("runs");
        sim.kill();
        let ran = sim.run_on_node(|io| async move {
            let shard = start_small(io, log(SyncMode::Batch)).await;
            assert_eq!(all_rows(&shard, 3).await, rows_of(ROUNDS));
        });
        ran.expect("runs");
    }

    /// The log may not grow for what is moved within memory: its oldest record is kept, and asked for in time.
    #[test]
    fn log_pressure_flushes_what_was_evacuated() {
        let sim = Simulation::new(2, Faults::NONE);
        let tight = || LogConfig { total_bytes: 3 << 20, ..log(SyncMode::Batch) };
        let ran = sim.run_on_node(|io| async move {
            let shard = start_small(io.clone(), tight()).await;
            shard.start_tasks();
            for round in 0..=600 {
                overwrite(&shard, round).await;
                let live = shard.log().live_bytes();
                assert!(live < 4 << 20, "{live} bytes of log");
            }
            assert!(shard.counts.evacuations.get() >= 1);
            assert!(shard.store(TABLE).expect("the table").counts.flushes.get() >= 1);
            assert_eq!(all_rows(&shard, 3).await, rows_of(600));
        });
        ran.expect("runs");
        sim.crash();
        let ran = sim.run_on_node(|io| async move {
            let shard = start_small(io, tight()).await;
            assert_eq!(all_rows(&shard, 3).await, rows_of(600));
        });
        ran.expect("runs");
    }

    /// Writes so many rows over several partitions again, with values of another size than the last.
    async fn rewrite(shard: &Shard, rows: i32, round: i32) {
        for c in 0..rows {
            let mut value = round.to_be_bytes().to_vec();
            value.resize(if round % 2 == 0 { 1_000 } else { 1_500 }, 7);
            write(shard, vec![put_value(c % 7, c, &value)]).await;
        }
    }

    /// A memtable most of which is dead, with `rows` live rows: several steps' worth.
    async fn mostly_dead(io: Io, rows: i32) -> Rc<Shard> {
        let shard = start_small(io, log(SyncMode::Batch)).await;
        for round in -2..4 {
            rewrite(&shard, rows, round).await;
        }
        assert!(shard.wants_evacuation(&shard.store(TABLE).expect("the table")));
        shard
    }

    fn mostly_dead_rows(rows: i32) -> Vec<(i32, i32, i32)> {
        let mut all: Vec<_> = (0..rows).map(|c| (c % 7, c, 3)).collect();
        all.sort_unstable();
        all
    }

    /// Reads and writes between any two steps, then a crash.
    #[test]
    fn reads_and_writes_go_on_between_the_steps() {
        for seed in 0..8 {
            let sim = Simulation::new(seed, Faults::NONE);
            let ran = sim.run_on_node(|io| async move {
                let shard = mostly_dead(io, 200).await;
                let store = shard.store(TABLE).expect("the table");
                let mut evacuating = Box::pin(shard.evacuate(&store));
                let (mut want, mut steps) = (mostly_dead_rows(200), 0_usize);
                while poll_fn(|context| Poll::Ready(evacuating.as_mut().poll(context))).await.is_pending() {
                    assert_eq!(all_rows(&shard, 50).await, want, "seed {seed}, step {steps}");
                    let at = (steps * 29 + seed as usize) % want.len();
                    want[at].2 = 100 + steps as i32;
                    write(&shard, vec![put_value(want[at].0, want[at].1, &want[at].2.to_be_bytes())]).await;
                    steps += 1;
                }
                assert_eq!(all_rows(&shard, 50).await, want, "seed {seed}");
                assert!(store.flushing.borrow().is_empty() && shard.counts.evacuations.get() == 1);
                assert_eq!(shard.memory.used_bytes(), store.memtable_bytes());
                drop(evacuating);
                (want, steps)
            });
            let (want, steps) = ran.expect("runs");
            assert!(steps >= 4, "{steps} turns for others");
            sim.crash();
            let ran = sim.run_on_node(|io| async move {
                let shard = start_small(io, log(SyncMode::Batch)).await;
                assert_eq!(all_rows(&shard, 50).await, want, "seed {seed}");
            });
            ran.expect("runs");
        }
    }

    /// TRUNCATE waits for the step's end, DROP breaks the evacuation off: no memory is left behind by either.
    #[test]
    fn truncate_and_drop_during_an_evacuation_leave_nothing() {
        for drops in [false, true] {
            let sim = Simulation::new(3, Faults::NONE);
            let ran = sim.run_on_node(|io| async move {
                let shard = mostly_dead(io, 200).await;
                let store = shard.store(TABLE).expect("the table");
                let ends =
                    async { if drops { shard.drop_table(TABLE).await } else { shard.truncate(TABLE, None).await } };
                let (_, ended) = futures_util::future::join(shard.evacuate(&store), ends).await;
                ended.expect("no fault");
                assert_eq!(shard.counts.evacuations.get(), u64::from(!drops));
                assert_eq!(shard.memory.used_bytes(), if drops { 0 } else { store.memtable_bytes() });
                if !drops {
                    assert_eq!(all_rows(&shard, 50).await, []);
                }
            });
            ran.expect("runs");
        }
    }

    /// Most of it is dead, and what is live would take as many slabs again.
    #[test]
    fn what_would_give_no_slab_back_is_flushed() {
        let sim = Simulation::new(5, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let shard = start_small(io, log(SyncMode::Batch)).await;
            let store = shard.store(TABLE).expect("the table");
            for round in 0..3 {
                rewrite(&shard, 200, round).await;
            }
            let (dead, live) = (store.active().bytes_dead(), store.active().bytes_live());
            assert!(dead > 2 * live, "{dead} bytes dead, {live} live");
            assert!(!shard.wants_evacuation(&store));
            for round in 3..7 {
                rewrite(&shard, 200, round).await;
            }
            let before = store.memtable_bytes();
            assert!(shard.wants_evacuation(&store));
            shard.evacuate(&store).await;
            assert_eq!(store.memtable_bytes(), before - (1 << 20));
        });
        ran.expect("runs");
    }

    #[test]
    fn what_is_mostly_live_or_finds_no_memory_is_flushed() {
        let sim = Simulation::new(4, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let shard = mostly_dead(io, 200).await;
            let store = shard.store(TABLE).expect("the table");
            shard.memory.resize(0, 4 << 20);
            assert!(!shard.wants_evacuation(&store), "no room for the copy");
            shard.memory.resize(4 << 20, 0);
            shard.flush(None).await.expect("flushed");
            overwrite(&shard, 1).await;
            assert!(!shard.wants_evacuation(&store), "all of it is live");
        });
        ran.expect("runs");
    }
}
