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
    /// Links what these tables hold now. A tag that exists already gains this shard's files: whether one may be used again
    /// is asked above, once for all shards.
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

    /// Whether a table has a snapshot of this tag, on whatever shard.
    pub async fn has_snapshot(&self, tag: &str, table: &Table) -> Result<bool, ShardError> {
        Ok(self.io.exists(&self.snapshot_dir(tag, table)).await?)
    }

    /// Removes what the snapshot of this tag holds of a table. Shard 0 removes for every shard.
    pub async fn discard_snapshot(&self, tag: &str, table: &Table) -> Result<(), ShardError> {
        if !self.io.exists(&self.config.snapshots_dir).await? {
            return Ok(());
        }
        let dir = self.snapshot_dir(tag, table);
        if self.io.exists(&dir).await? {
            self.remove_all_in(&dir).await?;
            for dir in dir.ancestors().take_while(|dir| *dir != self.config.snapshots_dir) {
                self.remove_if_empty(dir).await?;
            }
        }
        Ok(self.io.sync_dir(&self.config.snapshots_dir).await?)
    }

    /// Removes snapshots. Shard 0 removes for every shard. A name is only compared with what is there, whatever it holds.
    pub async fn clear_snapshots(&self, cleared: &Cleared) -> Result<(), ShardError> {
        if let Some(tag) = &cleared.tag {
            check_tag(tag)?;
        }
        let snapshots_dir = &self.config.snapshots_dir;
        if !self.io.exists(snapshots_dir).await? {
            return Ok(());
        }
        let is_chosen = |names: &[String], name: &str| names.is_empty() || names.iter().any(|chosen| chosen == name);
        for tag in self.directories(snapshots_dir).await? {
            if cleared.spared.contains(&tag) || cleared.tag.as_ref().is_some_and(|chosen| *chosen != tag) {
                continue;
            }
            let tag_dir = snapshots_dir.join(&tag);
            for keyspace in self.directories(&tag_dir).await? {
                if !is_chosen(&cleared.keyspaces, &keyspace) {
                    continue;
                }
                let keyspace_dir = tag_dir.join(&keyspace);
                for table in self.directories(&keyspace_dir).await? {
                    let name = table.rsplit_once('-').map_or(table.as_str(), |(name, _)| name);
                    if is_chosen(&cleared.tables, name) {
                        let table_dir = keyspace_dir.join(&table);
                        self.remove_all_in(&table_dir).await?;
                        self.remove_if_empty(&table_dir).await?;
                    }
                }
                self.remove_if_empty(&keyspace_dir).await?;
            }
            self.remove_if_empty(&tag_dir).await?;
        }
        Ok(self.io.sync_dir(snapshots_dir).await?)
    }

    async fn directories(&self, dir: &Path) -> Result<Vec<String>, ShardError> {
        let entries = self.io.list_dir(dir).await?;
        Ok(entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect())
    }

    /// Removes the files of a table's directory.
    async fn remove_all_in(&self, dir: &Path) -> Result<(), ShardError> {
        for entry in self.io.list_dir(dir).await?.iter().filter(|entry| !entry.is_dir) {
            self.io.remove_file(&dir.join(&entry.name)).await?;
        }
        Ok(())
    }

    async fn remove_if_empty(&self, dir: &Path) -> Result<(), ShardError> {
        if self.io.list_dir(dir).await?.is_empty() {
            self.io.remove_dir(dir).await?;
        }
        Ok(())
    }
}

/// Which snapshots to clear. What is empty leaves nothing out.
#[derive(Clone, Debug, Default)]
pub struct Cleared {
    pub tag: Option<String>,
    pub keyspaces: Vec<String>,
    pub tables: Vec<String>,
    /// The tags that stay: of snapshots that are being taken.
    pub spared: Vec<String>,
}

/// A tag is one name of a directory that is shown in lists.
pub fn check_tag(tag: &str) -> Result<(), ShardError> {
    const TAG_BYTES_MAX: usize = 255;
    let is_name = !tag.is_empty() && !tag.starts_with('.') && !tag.contains('/') && !tag.contains(char::is_control);
    if is_name && tag.len() <= TAG_BYTES_MAX {
        return Ok(());
    }
    let tag = tag.escape_debug();
    Err(ShardError::Invalid(format!(
        "`{tag}` cannot be the name of a snapshot: 1 to {TAG_BYTES_MAX} bytes, without `/`, control characters and a first `.`"
    )))
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
            let cleared = |tag: &str| Cleared { tag: Some(tag.into()), ..Cleared::default() };
            shard.clear_snapshots(&cleared("before")).await.expect("cleared");
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
        let longest = "x".repeat(255);
        for tag in ["2026-11-30", "before the move", "vor dem Ümzug", &longest] {
            assert!(check_tag(tag).is_ok(), "{tag}");
        }
        let too_long = "x".repeat(256);
        for tag in ["", ".", "..", "../x", "a/b", "/", ".hidden", "a\nb", "a\0b", "\u{7f}", &too_long] {
            assert!(matches!(check_tag(tag), Err(ShardError::Invalid(_))), "{tag}");
        }
    }

    /// The file names in each table's directory, by tag, keyspace and table.
    async fn listed(shard: &Shard) -> Vec<(String, String, String)> {
        let mut found = Vec::new();
        let root = &shard.config.snapshots_dir;
        for tag in shard.directories(root).await.expect("listed") {
            for keyspace in shard.directories(&root.join(&tag)).await.expect("listed") {
                for table in shard.directories(&root.join(&tag).join(&keyspace)).await.expect("listed") {
                    let name = table.split_once('-').map_or("", |(name, _)| name).to_owned();
                    found.push((tag.clone(), keyspace.clone(), name));
                }
            }
        }
        found.sort_unstable();
        found
    }

    #[test]
    fn only_what_is_named_is_cleared() {
        let sim = Simulation::new(9, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let shard = start(io.clone()).await;
            fill(&shard, 0..2).await;
            for tag in ["one", "other", "third"] {
                shard.snapshot(tag, &[TABLE]).await.expect("linked");
            }
            let strings = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            let clear = async |tag: Option<&str>, keyspaces: &[&str], tables: &[&str], spared: &[&str]| {
                let (keyspaces, tables, spared) = (strings(keyspaces), strings(tables), strings(spared));
                let cleared = Cleared { tag: tag.map(str::to_owned), keyspaces, tables, spared };
                shard.clear_snapshots(&cleared).await.expect("cleared");
                listed(&shard).await.into_iter().map(|(tag, ..)| tag).collect::<Vec<_>>()
            };
            let all = ["one", "other", "third"];
            // No name leads out of the directory, nor to another's.
            for keyspace in ["..", "../..", "../../sstables", "/data", "/data/sstables", ".", "", "k"] {
                assert_eq!(clear(None, &[keyspace], &[], &[]).await, all, "{keyspace}");
            }
            assert!(!io.list_dir(&config().sstables_dir).await.expect("there").is_empty());
            assert_eq!(clear(None, &["ks"], &["u"], &[]).await, all);
            assert_eq!(clear(Some("on"), &[], &[], &[]).await, all);
            assert_eq!(clear(Some("one"), &["ks"], &["u", "t"], &[]).await, ["other", "third"]);
            assert!(!io.exists(&config().snapshots_dir.join("one")).await.expect("no fault"));
            assert_eq!(clear(None, &[], &[], &["third"]).await, ["third"]);
            assert_eq!(clear(None, &[], &[], &[]).await, Vec::<String>::new());
        });
        ran.expect("runs");
    }

    #[test]
    fn what_is_discarded_of_a_tag_is_one_table() {
        let sim = Simulation::new(10, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let shard = start(io.clone()).await;
            fill(&shard, 0..2).await;
            shard.snapshot("s", &[TABLE]).await.expect("linked");
            let other = Table { id: TableId([1; 16]), ..table() };
            assert!(shard.has_snapshot("s", &table()).await.expect("no fault"));
            assert!(!shard.has_snapshot("s", &other).await.expect("no fault"));
            shard.discard_snapshot("s", &other).await.expect("nothing is there");
            assert_eq!(listed(&shard).await.len(), 1);
            shard.discard_snapshot("s", &table()).await.expect("discarded");
            assert!(io.list_dir(&config().snapshots_dir).await.expect("there").is_empty());
        });
        ran.expect("runs");
    }
}
