//! TRUNCATE and DROP: the position up to which everything is gone is durable before they are answered.

use std::rc::Rc;

use crate::base::ids::TableId;
use crate::shard::tables::TableStore;
use crate::shard::{Shard, ShardError};
use crate::sstable::Reader;

impl Shard {
    /// Everything written to the table before this call is gone.
    pub async fn truncate(&self, table: TableId) -> Result<(), ShardError> {
        let store = self.store(table).ok_or(ShardError::UnknownTable(table))?;
        let _turn = store.turn.acquire(1).await;
        let until = self.log_position();
        // From here on writes go into the fresh memtable, at or behind `until`.
        self.freeze(&store);
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
