//! Flushes: a memtable becomes an SSTable, the manifest says so with the log interval it covers, and the log lets go.

use std::path::Path;
use std::rc::Rc;

use crate::base::ids::{LogPosition, TableId};
use crate::base::local::Permit;
use crate::base::plants::Plant;
use crate::io::{IoClass, TaskClass};
use crate::memtable::{Memtable, PartitionBound};
use crate::mutation::PartitionCursor;
use crate::mutation::read::Slice;
use crate::schema::Table;
use crate::shard::manifest::{LiveSstable, TokenSpan};
use crate::shard::tables::{TableStore, bump};
use crate::shard::{Shard, ShardError};
use crate::sstable::{Reader, SSTableError, SSTableId, Writer, WriterOptions};

/// A memtable that takes no more writes, until it is an SSTable.
#[derive(Clone)]
pub struct Frozen {
    pub memtable: Rc<Memtable>,
    /// Every record of the table before this position is in it or in an earlier one.
    pub until: LogPosition,
}

/// What makes room in memory, or in the log.
enum Relief {
    Flush(Rc<TableStore>),
    Evacuate(Rc<TableStore>),
}

/// How long a flush that failed waits before the next try.
const RETRY_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

impl Shard {
    /// Flushes these tables, or all.
    pub async fn flush(&self, tables: Option<&[TableId]>) -> Result<(), ShardError> {
        for store in self.chosen(tables) {
            self.flush_table(&store).await?;
        }
        Ok(())
    }

    /// The stores of these tables (those that exist), or of all.
    pub(super) fn chosen(&self, tables: Option<&[TableId]>) -> Vec<Rc<TableStore>> {
        let stores = self.tables.borrow();
        let mut chosen: Vec<_> = match tables {
            Some(ids) => ids.iter().filter_map(|id| stores.get(id).cloned()).collect(),
            None => stores.values().cloned().collect(),
        };
        chosen.sort_by_key(|store| store.id());
        chosen
    }

    /// Makes all of one table durable in SSTables.
    pub(super) async fn flush_table(&self, store: &Rc<TableStore>) -> Result<(), ShardError> {
        let _turn = store.turn.acquire(1).await;
        self.freeze(store);
        self.flush_all_frozen(store).await
    }

    /// Makes SSTables of what takes no more writes. The caller has the table's turn.
    pub(super) async fn flush_all_frozen(&self, store: &TableStore) -> Result<(), ShardError> {
        loop {
            let next = store.flushing.borrow().first().cloned();
            match next {
                Some(frozen) if !store.dropped.get() => self.flush_frozen(store, &frozen).await?,
                _ => return Ok(()),
            }
        }
    }

    /// Puts a fresh memtable in the place of the active one, unless that is empty. Every record of the table before the
    /// position that it gives is in what takes no more writes.
    pub(super) fn freeze(&self, store: &TableStore) -> LogPosition {
        let until = self.log_position();
        if store.active.borrow().is_empty() {
            if store.flushing.borrow().is_empty() {
                self.mark_flushed(store.id(), store.flushed_to.get(), until);
            }
            return until;
        }
        let fresh = Memtable::new(store.table(), store.pool.clone());
        self.memory.resize(0, fresh.bytes_allocated() as u64);
        let full = std::mem::replace(&mut *store.active.borrow_mut(), fresh);
        store.flushing.borrow_mut().push(Frozen { memtable: Rc::new(full), until });
        until
    }

    async fn flush_frozen(&self, store: &TableStore, frozen: &Frozen) -> Result<(), ShardError> {
        let table = store.table();
        let id = self.manifest.next_sstable();
        let name = self.sstable_name(id);
        let path = self.config.sstables_dir.join(&name);
        self.check_log()?;
        let turn = self.flush_turn.acquire(1).await;
        self.write_memtable(&path, id, store, &frozen.memtable).await?;
        let opened = self.open_flushed(id, &path, &table, turn, frozen.until).await;
        let reader = self.kept(&path, opened).await?;
        let from = store.flushed_to.get();
        let (stream, high_water) = (self.own_stream.get(), self.clock.last());
        let live = LiveSstable { id, file: name, spans: vec![TokenSpan::ALL], level: 0 };
        self.manifest
            .change(|manifest| {
                let entry = manifest.tables.entry(table.id).or_default();
                entry.sstables.push(live);
                entry.add_flushed(stream, from, frozen.until);
                manifest.timestamp_high_water = manifest.timestamp_high_water.max(high_water);
            })
            .await?;
        store.switch_sstables(Some(reader), |_| false);
        store.flushing.borrow_mut().retain(|other| !Rc::ptr_eq(&other.memtable, &frozen.memtable));
        store.flushed_to.set(frozen.until);
        self.memory.resize(frozen.memtable.bytes_allocated() as u64, 0);
        self.mark_flushed(table.id, from, frozen.until);
        bump(&store.counts.flushes);
        tracing::debug!(shard = self.io.shard_id().0, table = %format!("{}.{}", table.keyspace, table.name), "flushed");
        self.compaction_wanted.notify_all();
        Ok(())
    }

    /// Makes a file that is written durable by its name, and opens it once the log is as far.
    async fn open_flushed(
        &self,
        id: SSTableId,
        path: &Path,
        table: &Rc<Table>,
        turn: Permit,
        until: LogPosition,
    ) -> Result<Rc<Reader>, ShardError> {
        self.sync_sstables_dir().await?;
        drop(turn);
        self.sync_log(until).await?;
        Ok(Rc::new(Reader::open(&self.io, id, path, table).await.map_err(sstable_error)?))
    }

    /// What became of a file that no manifest names yet: where it failed the file goes, since the next try writes another.
    pub(super) async fn kept<T>(&self, path: &Path, outcome: Result<T, ShardError>) -> Result<T, ShardError> {
        if outcome.is_err()
            && let Err(left) = self.io.remove_file(path).await
        {
            tracing::warn!(path = %path.display(), error = %left, "an unfinished SSTable stays until the next start");
        }
        outcome
    }

    async fn write_memtable(
        &self,
        path: &Path,
        id: SSTableId,
        store: &TableStore,
        memtable: &Memtable,
    ) -> Result<(), ShardError> {
        let options = WriterOptions::of_table(&store.table(), id, IoClass::Flush, memtable.stats().partitions);
        let mut writer = Writer::create(&self.io, path, options).await.map_err(sstable_error)?;
        match fill(&mut writer, memtable).await {
            Ok(()) => writer.finish().await.map(|_| ()).map_err(sstable_error),
            Err(error) => {
                // The next try finds the room again.
                if let Err(left) = writer.abandon().await {
                    tracing::warn!(path = %path.display(), error = %left, "a part of a flush stays until the next start");
                }
                Err(error)
            }
        }
    }

    /// Tells the log, once it is open, what a flush made durable.
    pub(super) fn mark_flushed(&self, table: TableId, from: LogPosition, to: LogPosition) {
        if let Some(log) = self.log.get() {
            log.mark_flushed(table, from, to);
        }
    }

    /// The file of an SSTable, within the directory of SSTables.
    pub(super) fn sstable_name(&self, id: SSTableId) -> String {
        let manifest = self.manifest.current();
        format!("sst-{}-{}-{}.db", manifest.layout, manifest.shard.0, id.0)
    }

    /// Nothing becomes durable in an SSTable before it is so in the log: a crash would leave one shard's part of a batch
    /// whose intent is lost. During replay the log has been synced as a whole.
    async fn sync_log(&self, until: LogPosition) -> Result<(), ShardError> {
        match self.log.get() {
            Some(log) => log.wait_synced(until).await.map_err(|error| ShardError::LogFailed(error.to_string())),
            None => Ok(()),
        }
    }

    /// Once the log has failed nothing that it holds becomes durable any more, and so nothing may be flushed.
    fn check_log(&self) -> Result<(), ShardError> {
        let failure = self.log.get().and_then(|log| log.failure());
        failure.map_or(Ok(()), |error| Err(ShardError::LogFailed(error.to_string())))
    }

    pub(super) async fn sync_sstables_dir(&self) -> Result<(), ShardError> {
        if self.config.planted.is(Plant::SkipDirectorySync) {
            return Ok(());
        }
        Ok(self.io.sync_dir(&self.config.sstables_dir).await?)
    }

    /// Makes room when memory or the log asks for it. One task a shard runs it.
    pub async fn run_flushes(self: Rc<Self>) {
        loop {
            match self.next_relief() {
                None => {
                    self.memory.wait_for_pressure().await;
                    continue;
                }
                Some(Relief::Evacuate(store)) => self.evacuate(&store).await,
                Some(Relief::Flush(store)) => {
                    if let Err(error) = self.flush_table(&store).await {
                        if self.check_log().is_err() {
                            tracing::error!(shard = self.io.shard_id().0, %error, "no flushes until a restart");
                            return;
                        }
                        tracing::error!(shard = self.io.shard_id().0, %error, "a flush failed; it is tried again");
                        self.io.sleep(RETRY_AFTER).await;
                    }
                }
            }
            self.io.yield_now().await;
        }
    }

    /// What makes room now, if any is wanted. Under log pressure the table that pins the oldest segment is flushed: moved
    /// within memory it would pin it still. Where memory is short it is the largest table's turn.
    fn next_relief(&self) -> Option<Relief> {
        for (table, _) in self.log().pressure() {
            match self.store(table) {
                Some(store) => return Some(Relief::Flush(store)),
                None => self.log().forget_table(table),
            }
        }
        if !self.memory.wants_flush() {
            return None;
        }
        let largest = self.largest_in_memory()?;
        Some(if self.wants_evacuation(&largest) { Relief::Evacuate(largest) } else { Relief::Flush(largest) })
    }

    /// The table whose memtables take the most, those of a flush that failed among them; `None` where all are empty.
    pub(super) fn largest_in_memory(&self) -> Option<Rc<TableStore>> {
        let stores = self.chosen(None).into_iter();
        let filled = stores.filter(|store| !store.active().is_empty() || !store.flushing.borrow().is_empty());
        filled.max_by_key(|store| store.memtable_bytes())
    }

    /// Starts the shard's own tasks.
    pub fn start_tasks(self: &Rc<Self>) {
        self.io.spawn(TaskClass::Flush, self.clone().run_flushes());
        self.io.spawn(TaskClass::Compaction, self.clone().run_compactions());
        self.io.spawn(TaskClass::Flush, self.clone().run_disk_watch());
    }
}

/// Writes every partition of a memtable.
async fn fill(writer: &mut Writer, memtable: &Memtable) -> Result<(), ShardError> {
    let all = [Slice::all()];
    for partition in memtable.partitions_from(PartitionBound::Start) {
        let mut cursor = partition.cursor(&all, false);
        writer.begin_partition(&cursor.start().map_err(stop_error)?);
        while let Some(fragment) = cursor.next().map_err(stop_error)? {
            writer.fragment(&fragment);
            if writer.wants_settle() {
                writer.settle().await.map_err(sstable_error)?;
            }
        }
        writer.end_partition();
        if writer.wants_settle() {
            writer.settle().await.map_err(sstable_error)?;
        }
    }
    Ok(())
}

pub(super) fn sstable_error(error: SSTableError) -> ShardError {
    if error.is_corrupt() { ShardError::Corrupt(error.to_string()) } else { ShardError::Storage(error.to_string()) }
}

pub(super) fn stop_error(stop: crate::mutation::ReadStop) -> ShardError {
    ShardError::Corrupt(format!("{stop:?}"))
}
