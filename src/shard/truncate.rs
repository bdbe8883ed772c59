//! TRUNCATE and DROP: the position up to which everything is gone is durable before they are answered.

use std::rc::Rc;

use crate::base::ids::TableId;
use crate::schema::Schema;
use crate::shard::manifest::LiveSstable;
use crate::shard::tables::TableStore;
use crate::shard::{Shard, ShardError};
use crate::sstable::Reader;

impl Shard {
    /// Everything written to the table before this call is gone. With the tag of a snapshot it is all in that snapshot
    /// first; where that fails, nothing is gone.
    pub async fn truncate(&self, table: TableId, snapshot: Option<&str>) -> Result<(), ShardError> {
        let store = self.store(table).ok_or(ShardError::UnknownTable(table))?;
        let _turn = store.turn.acquire(1).await;
        // From here on writes go into the fresh memtable, at or behind `until`.
        let until = self.freeze(&store);
        if let Some(tag) = snapshot {
            self.flush_all_frozen(&store).await?;
            self.link_sstables(tag, &store).await?;
        }
        let doomed = store.sstables();
        let (stream, now_us) = (self.log().stream(), self.io.wall_us());
        let high_water = self.clock.last();
        self.manifest
            .change(|manifest| {
                let entry = manifest.tables.entry(table).or_default();
                entry.sstables.retain(|live| !doomed.iter().any(|reader| reader.id() == live.id));
                entry.discard(stream, until);
                entry.truncated_at = Some(now_us);
                manifest.timestamp_high_water = manifest.timestamp_high_water.max(high_water);
            })
            .await?;
        self.forget_memory(&store);
        store.switch_sstables(None, |reader| doomed.iter().any(|other| other.id() == reader.id()));
        self.log().mark_flushed(table, store.flushed_to.get(), until);
        store.flushed_to.set(until);
        self.remove_files(&doomed).await
    }

    /// The table is gone, with its files, for good.
    pub(super) async fn drop_table(&self, table: TableId) -> Result<(), ShardError> {
        let Some(store) = self.store(table) else { return Ok(()) };
        store.dropped.set(true);
        self.tables.borrow_mut().remove(&table);
        let _turn = store.turn.acquire(1).await;
        self.freeze(&store);
        self.forget_memory(&store);
        self.memory.resize(store.active().bytes_allocated() as u64, 0);
        let doomed = store.sstables();
        // A dropped table's id is never used again, and replay skips tables that no schema has.
        self.manifest.change(|manifest| drop(manifest.tables.remove(&table))).await?;
        store.switch_sstables(None, |_| true);
        self.log().forget_table(table);
        self.remove_files(&doomed).await
    }

    /// A crash may fall between a schema that is durable without a table and that table's `drop_table`: what the
    /// manifest still names of tables that are not in `schema` goes, with its files.
    pub async fn discard_unknown(&self, schema: &Schema) -> Result<(), ShardError> {
        let unknown = |table: &TableId| schema.table_by_id(*table).is_none();
        let doomed: Vec<LiveSstable> = {
            let manifest = self.manifest.current();
            let gone = manifest.tables.iter().filter(|(table, _)| unknown(table));
            if gone.clone().next().is_none() {
                return Ok(());
            }
            gone.flat_map(|(_, entry)| entry.sstables.iter().cloned()).collect()
        };
        self.manifest.change(|manifest| manifest.tables.retain(|table, _| !unknown(table))).await?;
        for sstable in doomed {
            self.io.remove_file(&self.config.sstables_dir.join(sstable.file)).await?;
        }
        Ok(())
    }

    fn forget_memory(&self, store: &TableStore) {
        for frozen in store.flushing.borrow_mut().drain(..) {
            self.memory.resize(frozen.memtable.bytes_allocated() as u64, 0);
        }
    }

    /// Removes files that no manifest names any more. Readers that still use them keep them open.
    pub(super) async fn remove_files(&self, files: &[Rc<Reader>]) -> Result<(), ShardError> {
        for reader in files {
            self.cache.forget(reader.id());
            self.io.remove_file(reader.path()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::commitlog::SyncMode;
    use crate::io::sim::{DiskOp, Faults, Planned, Simulation};
    use crate::io::{Io, TaskClass};
    use crate::shard::tests::{TABLE, all_rows, config, expected, fill, log, schema, start, start_with, table};

    const TAG: &str = "truncated-1-t";

    fn table_dir(tag: &str) -> PathBuf {
        config().snapshots_dir.join(tag).join("ks").join(format!("t-{}", "09".repeat(16)))
    }

    /// How many rows a snapshot's files hold, each read from its footer on; `None` where there is no such snapshot.
    async fn rows_in(io: &Io, tag: &str) -> Option<u64> {
        let dir = table_dir(tag);
        if !io.exists(&dir).await.expect("no fault") {
            return None;
        }
        let mut rows = 0;
        for (at, entry) in io.list_dir(&dir).await.expect("there").into_iter().enumerate() {
            let id = crate::sstable::SSTableId(at as u64 + 1);
            let reader = Reader::open(io, id, &dir.join(entry.name), &table()).await.expect("whole");
            rows += reader.statistics().rows;
        }
        Some(rows)
    }

    #[test]
    fn truncate_is_durable_and_later_writes_stay() {
        for seed in 0..20 {
            let sim = Simulation::new(seed, Faults::NONE);
            sim.run_on_node(|io| async move {
                let shard = start(io).await;
                fill(&shard, 0..4).await;
                shard.flush(None).await.expect("flushed");
                fill(&shard, 4..8).await;
                shard.truncate(TABLE, None).await.expect("truncated");
                assert_eq!(all_rows(&shard, 10).await, []);
                fill(&shard, 20..22).await;
            })
            .expect("runs");
            sim.crash();
            sim.run_on_node(|io| async move {
                let shard = start(io).await;
                assert_eq!(all_rows(&shard, 10).await, expected(20..22), "seed {seed}");
            })
            .expect("runs");
        }
    }

    /// Wherever the power goes during a TRUNCATE with a snapshot, the table is whole, or it is empty and the snapshot has
    /// everything.
    #[test]
    fn a_crash_leaves_a_table_whole_or_truncated_with_its_snapshot() {
        let (mut whole, mut truncated) = (0, 0);
        for steps in (0..).step_by(3) {
            let sim = Simulation::new(steps, Faults::NONE);
            let ran = sim.run_on_node(|io| async move {
                let shard = start(io).await;
                fill(&shard, 0..4).await;
                shard.flush(None).await.expect("flushed");
                fill(&shard, 4..6).await;
                shard
            });
            let shard = ran.expect("runs");
            let done = Rc::new(Cell::new(false));
            let tells = done.clone();
            let ran = sim.run_on_node(|io| async move {
                io.clone().spawn(TaskClass::Foreground, async move {
                    shard.truncate(TABLE, Some(TAG)).await.expect("truncated");
                    tells.set(true);
                });
            });
            ran.expect("runs");
            sim.run_steps(steps).expect("runs");
            sim.crash();
            let ran = sim.run_on_node(|io| async move {
                let shard = start(io.clone()).await;
                let rows = all_rows(&shard, 10).await;
                if rows.is_empty() {
                    assert_eq!(rows_in(&io, TAG).await, Some(18), "{steps} steps");
                    return true;
                }
                assert_eq!(rows, expected(0..6), "{steps} steps");
                false
            });
            if ran.expect("runs") {
                truncated += 1
            } else {
                whole += 1
            }
            if done.get() {
                break;
            }
        }
        assert!(whole > 5 && truncated > 0, "{whole} whole, {truncated} truncated");
    }

    #[test]
    fn writes_during_the_snapshot_stay_in_the_table() {
        let sim = Simulation::new(2, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let shard = start(io.clone()).await;
            fill(&shard, 0..4).await;
            let mut truncating = Box::pin(shard.truncate(TABLE, Some(TAG)));
            let begun = std::future::poll_fn(|context| std::task::Poll::Ready(truncating.as_mut().poll(context))).await;
            assert!(begun.is_pending());
            fill(&shard, 7..8).await;
            truncating.await.expect("truncated");
            assert_eq!(all_rows(&shard, 10).await, expected(7..8));
            assert_eq!(rows_in(&io, TAG).await, Some(12));
        });
        ran.expect("runs");
        sim.crash();
        let ran = sim.run_on_node(|io| async move {
            let shard = start(io).await;
            assert_eq!(all_rows(&shard, 10).await, expected(7..8));
        });
        ran.expect("runs");
    }

    /// No room for the flush, the links or their directory: the table is as it was, in memory and after a crash.
    #[test]
    fn a_snapshot_that_fails_takes_nothing_away() {
        for (op, path, after) in [(DiskOp::Write, "sst-", 0), (DiskOp::Name, "snapshots", 0), (DiskOp::Name, "sst-", 1)]
        {
            let sim = Simulation::new(3, Faults::NONE);
            let shard = sim.run_on_node(|io| async move {
                let shard = start(io).await;
                fill(&shard, 0..4).await;
                shard
            });
            let shard = shard.expect("runs");
            sim.plan_fault(Planned { op, path_contains: path.into(), after, errno: 28 });
            let ran = sim.run_on_node(|_| async move {
                let error = shard.truncate(TABLE, Some(TAG)).await.expect_err("no space");
                assert!(error.to_string().contains("No space left"), "{error}");
                assert_eq!(all_rows(&shard, 10).await, expected(0..4));
                shard.truncate(TABLE, Some(TAG)).await.expect("there is space again");
                assert_eq!(all_rows(&shard, 10).await, []);
            });
            ran.expect("runs");
        }
    }

    /// The power goes between a schema that is durable without the table and the shard's part of the DROP.
    #[test]
    fn what_a_dropped_table_left_is_removed_at_the_next_start() {
        let sim = Simulation::new(4, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let shard = start(io.clone()).await;
            fill(&shard, 0..4).await;
            shard.snapshot(TAG, &[TABLE]).await.expect("linked");
            shard.discard_unknown(&schema()).await.expect("no fault");
            assert_eq!(all_rows(&shard, 10).await, expected(0..4), "a table of the schema stays");
        });
        ran.expect("runs");
        sim.crash();
        let ran = sim.run_on_node(|io| async move {
            let without = crate::schema::Schema::default();
            let shard = start_with(io.clone(), config(), log(SyncMode::Batch), &without).await;
            assert_eq!(io.list_dir(Path::new("/data/sstables")).await.expect("there").len(), 1);
            shard.discard_unknown(&without).await.expect("no fault");
            assert!(shard.manifest.current().tables.is_empty());
            assert_eq!(io.list_dir(Path::new("/data/sstables")).await.expect("there").len(), 0);
            assert_eq!(rows_in(&io, TAG).await, Some(12), "the snapshot is the operator's");
        });
        ran.expect("runs");
    }
}
