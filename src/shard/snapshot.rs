//! Snapshots: hard links to a table's SSTables, after a flush, under `snapshots/TAG/KEYSPACE/TABLE-ID`. A table that
//! holds nothing leaves no trace in one.
//!
//! TRUNCATE and DROP take one first, where `auto_snapshot` and the table's `allow_auto_snapshot` say so, under Cassandra's
//! names: `truncated-MILLIS-TABLE` and `dropped-MILLIS-TABLE`.

use std::path::{Path, PathBuf};

use crate::base::ids::TableId;
use crate::schema::Table;
use crate::shard::tables::TableStore;
use crate::shard::{Shard, ShardError};

/// What takes a snapshot without being told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoSnapshot {
    Truncate,
    Drop,
}

impl Shard {
    /// Links what these tables hold now. A tag that exists already gains this shard's files.
    pub async fn snapshot(&self, tag: &str, tables: &[TableId]) -> Result<(), ShardError> {
        check_tag(tag)?;
        for store in self.chosen(Some(tables)) {
            // In turn with compactions: none removes a file of which the link is still to be made.
            let _turn = store.turn.acquire(1).await;
            self.freeze(&store);
            self.flush_all_frozen(&store).await?;
            if !store.dropped.get() {
                self.link_sstables(tag, &store).await?;
            }
        }
        Ok(())
    }

    /// Links a table's SSTables, those that are not linked yet; durable when it returns. The caller has the table's turn.
    pub(super) async fn link_sstables(&self, tag: &str, store: &TableStore) -> Result<(), ShardError> {
        let dir = self.snapshot_dir(tag, &store.table());
        let sstables = store.sstables();
        for reader in sstables.iter() {
            let link = dir.join(reader.path().file_name().unwrap_or_default());
            if self.io.exists(&link).await? {
                continue;
            }
            self.io.create_dir_all(&dir).await?;
            self.io.hard_link(reader.path(), &link).await?;
        }
        // Links of an earlier attempt that failed may not be durable either.
        if !sstables.is_empty() {
            for dir in dir.ancestors().take_while(|dir| dir.starts_with(&self.config.snapshots_dir)) {
                self.io.sync_dir(dir).await?;
            }
        }
        Ok(())
    }

    /// The tag of the snapshot that `taker` takes of a table now; `None` where it takes none.
    pub fn auto_snapshot_tag(&self, taker: AutoSnapshot, table: &Table) -> Option<String> {
        if !self.config.auto_snapshot || !table.options.allow_auto_snapshot {
            return None;
        }
        let prefix = match taker {
            AutoSnapshot::Truncate => "truncated",
            AutoSnapshot::Drop => "dropped",
        };
        Some(format!("{prefix}-{}-{}", self.io.wall_us().div_euclid(1_000), table.name))
    }

    fn snapshot_dir(&self, tag: &str, table: &Table) -> PathBuf {
        let table_dir = format!("{}-{}", table.name, table.id.to_string().replace('-', ""));
        self.config.snapshots_dir.join(tag).join(&table.keyspace).join(table_dir)
    }

    /// Removes snapshots: of this tag or all, of this keyspace or all. Shard 0 removes for every shard.
    pub async fn clear_snapshot(&self, tag: Option<&str>, keyspace: Option<&str>) -> Result<(), ShardError> {
        if let Some(tag) = tag {
            check_tag(tag)?;
        }
        if self.io.shard_id().0 != 0 || !self.io.exists(&self.config.snapshots_dir).await? {
            return Ok(());
        }
        for entry in self.io.list_dir(&self.config.snapshots_dir).await? {
            if !entry.is_dir || tag.is_some_and(|tag| tag != entry.name) {
                continue;
            }
            let dir = self.config.snapshots_dir.join(&entry.name);
            match keyspace {
                None => self.remove_tree(&dir).await?,
                Some(keyspace) => {
                    let within = dir.join(keyspace);
                    if self.io.exists(&within).await? {
                        self.remove_tree(&within).await?;
                    }
                    if self.io.list_dir(&dir).await?.is_empty() {
                        self.io.remove_dir(&dir).await?;
                    }
                }
            }
        }
        Ok(self.io.sync_dir(&self.config.snapshots_dir).await?)
    }

    /// Removes a directory of a snapshot: three levels deep at most.
    async fn remove_tree(&self, dir: &Path) -> Result<(), ShardError> {
        let mut pending = vec![dir.to_owned()];
        let mut emptied = Vec::new();
        while let Some(dir) = pending.pop() {
            for entry in self.io.list_dir(&dir).await? {
                let path = dir.join(&entry.name);
                if entry.is_dir {
                    pending.push(path);
                } else {
                    self.io.remove_file(&path).await?;
                }
            }
            emptied.push(dir);
        }
        for dir in emptied.iter().rev() {
            self.io.remove_dir(dir).await?;
        }
        Ok(())
    }
}

/// A tag is one name of a directory.
fn check_tag(tag: &str) -> Result<(), ShardError> {
    let fits = !tag.is_empty() && tag.len() <= 255 && !tag.starts_with('.') && !tag.contains(['/', '\0']);
    if fits { Ok(()) } else { Err(ShardError::Refused(format!("`{tag}` cannot be the name of a snapshot"))) }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;
    use std::time::Duration;

    use futures_util::future::{Either, select};

    use super::*;
    use crate::io::sim::{Faults, Simulation};
    use crate::shard::tests::{TABLE, config, fill, start, table};

    #[test]
    fn a_snapshot_outlives_the_table() {
        let sim = Simulation::new(5, Faults::NONE);
        sim.run_on_node(|io| async move {
            let shard = start(io.clone()).await;
            fill(&shard, 0..2).await;
            shard.snapshot("before", &[TABLE]).await.expect("linked");
            shard.truncate(TABLE, None).await.expect("truncated");
            let dir = config().snapshots_dir.join("before/ks").join(format!("t-{}", "09".repeat(16)));
            assert_eq!(io.list_dir(&dir).await.expect("there").len(), 1);
            shard.clear_snapshot(Some("before"), None).await.expect("cleared");
            assert!(!io.exists(&config().snapshots_dir.join("before")).await.expect("no fault"));
        })
        .expect("runs");
    }

    #[test]
    fn a_snapshot_is_durable_and_a_table_without_data_leaves_no_trace() {
        let sim = Simulation::new(6, Faults::NONE);
        let dir = |tag: &str| config().snapshots_dir.join(tag).join("ks").join(format!("t-{}", "09".repeat(16)));
        let ran = sim.run_on_node(|io| async move {
            let shard = start(io.clone()).await;
            shard.snapshot("none", &[TABLE]).await.expect("nothing to link");
            assert!(!io.exists(&config().snapshots_dir.join("none")).await.expect("no fault"));
            for round in 1..4 {
                fill(&shard, 0..2).await;
                shard.snapshot("same", &[TABLE]).await.expect("linked");
                assert_eq!(io.list_dir(&dir("same")).await.expect("there").len(), round);
            }
        });
        ran.expect("runs");
        sim.crash();
        let ran =
            sim.run_on_node(|io| async move { assert_eq!(io.list_dir(&dir("same")).await.expect("there").len(), 3) });
        ran.expect("runs");
    }

    /// However far a snapshot has come when a compaction is let run as long as it likes, no file goes of which the link is
    /// still to be made.
    #[test]
    fn a_snapshot_beside_a_compaction_is_whole() {
        for polls in 0..12 {
            let sim = Simulation::new(8, Faults::NONE);
            let ran = sim.run_on_node(|io| async move {
                let shard = start(io.clone()).await;
                for at in 0..4 {
                    fill(&shard, at..at + 1).await;
                    shard.flush(None).await.expect("flushed");
                }
                let mut linking = Box::pin(shard.snapshot("s", &[TABLE]));
                for _ in 0..polls {
                    if poll_fn(|context| Poll::Ready(linking.as_mut().poll(context))).await.is_ready() {
                        return;
                    }
                    io.sleep(Duration::from_millis(1)).await;
                }
                let compacting = Box::pin(shard.compact(None));
                match select(compacting, Box::pin(io.sleep(Duration::from_secs(1)))).await {
                    Either::Left((compacted, _)) => {
                        compacted.expect("compacted");
                        linking.await.expect("linked");
                    }
                    Either::Right((_, compacting)) => {
                        linking.await.expect("linked");
                        compacting.await.expect("compacted");
                    }
                }
            });
            ran.expect("runs");
        }
    }

    #[test]
    fn tags_are_cassandras_and_the_table_may_decline() {
        let sim = Simulation::new(7, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let shard = start(io.clone()).await;
            let millis = io.wall_us() / 1_000;
            let mut table = table();
            let tag = |taker, table: &Table| shard.auto_snapshot_tag(taker, table);
            assert_eq!(tag(AutoSnapshot::Truncate, &table), Some(format!("truncated-{millis}-t")));
            assert_eq!(tag(AutoSnapshot::Drop, &table), Some(format!("dropped-{millis}-t")));
            table.options.allow_auto_snapshot = false;
            assert_eq!(tag(AutoSnapshot::Drop, &table), None);
        });
        ran.expect("runs");
    }

    #[test]
    fn a_tag_stays_within_the_directory() {
        assert!(check_tag("2026-11-30").is_ok());
        for tag in ["", ".", "..", "../x", "a/b", ".hidden"] {
            assert!(check_tag(tag).is_err(), "{tag}");
        }
    }
}
