//! Snapshots: hard links to a table's SSTables, after a flush, under `snapshots/TAG/KEYSPACE/TABLE-ID`.

use std::path::{Path, PathBuf};

use crate::base::ids::TableId;
use crate::schema::Table;
use crate::shard::{Shard, ShardError};

impl Shard {
    /// Links what these tables hold now. A tag that exists already gains this shard's files.
    pub async fn snapshot(&self, tag: &str, tables: &[TableId]) -> Result<(), ShardError> {
        check_tag(tag)?;
        self.flush(Some(tables)).await?;
        for store in self.chosen(Some(tables)) {
            let table = store.table();
            let dir = self.snapshot_dir(tag, &table);
            let sstables = store.sstables();
            if sstables.is_empty() {
                continue;
            }
            self.io.create_dir_all(&dir).await?;
            for reader in sstables.iter() {
                let name = reader.path().file_name().unwrap_or_default();
                let link = dir.join(name);
                if !self.io.exists(&link).await? {
                    self.io.hard_link(reader.path(), &link).await?;
                }
            }
            self.io.sync_dir(&dir).await?;
        }
        Ok(())
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
    use super::*;

    #[test]
    fn a_tag_stays_within_the_directory() {
        assert!(check_tag("2026-11-30").is_ok());
        for tag in ["", ".", "..", "../x", "a/b", ".hidden"] {
            assert!(check_tag(tag).is_err(), "{tag}");
        }
    }
}
