//! Opening: the manifest, the tables' SSTables, schema changes, and the clean stop.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use crate::base::collections::{HashMap, hasher};
use crate::base::ids::{LogPosition, StreamId, TableId, Token};
use crate::base::local::{Notify, Semaphore};
use crate::io::Io;
use crate::memtable::SlabPool;
use crate::mutation::read::TokenRange;
use crate::schema::{Schema, SchemaOp, Table};
use crate::shard::clock::TimestampClock;
use crate::shard::disk::DiskReserve;
use crate::shard::flush::sstable_error;
use crate::shard::manifest::{LiveSstable, Manifest, TokenSpan};
use crate::shard::manifest_store::ManifestStore;
use crate::shard::memory::MemoryBudget;
use crate::shard::report::Counts;
use crate::shard::tables::TableStore;
use crate::shard::{Shard, ShardConfig, ShardError};
use crate::sstable::{BlockCache, Reader};

impl Shard {
    /// A shard over its manifest, with no table opened and no log.
    pub async fn open(io: Io, config: ShardConfig, stream: StreamId) -> Result<Rc<Shard>, ShardError> {
        assert!(config.read_turn_places >= 2, "a turn goes on past the deleted range that it begins within");
        let manifest = Manifest::load(&io, &config.data_dir, config.layout, io.shard_id()).await?;
        let clock = TimestampClock::default();
        clock.observe(manifest.timestamp_high_water);
        Ok(Rc::new(Shard {
            log: OnceCell::new(),
            own_stream: Cell::new(stream),
            replayed_to: Cell::new(LogPosition::ZERO),
            tables: RefCell::new(HashMap::with_hasher(hasher())),
            undurable_keyspaces: RefCell::default(),
            // What memtables give back is for the next ones: all of it together is within the limit.
            pool: SlabPool::keeping(usize::try_from(config.memtable_bytes_max).unwrap_or(usize::MAX)),
            cache: BlockCache::new(config.cache_bytes_max),
            memory: MemoryBudget::new(config.memtable_bytes_max),
            clock,
            manifest: ManifestStore::new(io.clone(), config.data_dir.clone(), config.planted, manifest),
            disk: DiskReserve::new(config.disk_reserve_bytes),
            flush_turn: Semaphore::new(1),
            scan_turns: Semaphore::new(super::read::SCANS_AT_ONCE),
            compaction_wanted: Notify::new(),
            stop_compactions: Cell::new(false),
            open_intents: RefCell::default(),
            purge_holds: RefCell::default(),
            stopping: Cell::new(false),
            counts: Counts::default(),
            io,
            config,
        }))
    }

    /// Opens every table of `schema` that is not open yet, with its live SSTables.
    pub async fn open_tables(&self, schema: &Schema) -> Result<(), ShardError> {
        for keyspace in schema.keyspaces.values() {
            self.note_durability(&keyspace.name, keyspace.durable_writes);
            for table in keyspace.tables.values() {
                if self.store(table.id).is_none() {
                    let readers = self.open_sstables(table).await?;
                    let flushed_to = self.flushed_to(table.id);
                    let store = TableStore::new(table.clone(), self.pool.clone(), readers, flushed_to);
                    self.memory.resize(0, store.memtable_bytes());
                    self.tables.borrow_mut().insert(table.id, store);
                }
            }
        }
        Ok(())
    }

    fn flushed_to(&self, table: TableId) -> LogPosition {
        let manifest = self.manifest.current();
        let flushed = manifest.tables.get(&table).and_then(|entry| entry.flushed.get(&self.own_stream.get()));
        flushed.and_then(|set| set.intervals().last()).map_or(LogPosition::ZERO, |interval| interval.to)
    }

    async fn open_sstables(&self, table: &Table) -> Result<Vec<Rc<Reader>>, ShardError> {
        let live: Vec<LiveSstable> = {
            let manifest = self.manifest.current();
            manifest.tables.get(&table.id).map_or_else(Vec::new, |entry| entry.sstables.clone())
        };
        let mut readers = Vec::with_capacity(live.len());
        for file in live {
            let path = self.config.sstables_dir.join(&file.file);
            let opened = Reader::open(&self.io, file.id, &path, table).await;
            let mut reader = opened.map_err(sstable_error)?;
            if file.spans != [TokenSpan::ALL] {
                reader.restrict(file.spans.iter().map(range_of).collect());
            }
            readers.push(Rc::new(reader));
        }
        Ok(readers)
    }

    fn note_durability(&self, keyspace: &str, durable_writes: bool) {
        let mut undurable = self.undurable_keyspaces.borrow_mut();
        undurable.retain(|name| name != keyspace);
        if !durable_writes {
            undurable.push(keyspace.to_owned());
        }
    }

    /// From now on this shard can apply and read under these changes. What they drop stays.
    pub fn expect_schema(&self, ops: &[SchemaOp]) {
        for op in ops {
            match op {
                SchemaOp::PutTable(table) => {
                    let table = Rc::new((**table).clone());
                    match self.store(table.id) {
                        Some(store) => store.set_table(table),
                        None => {
                            let store =
                                TableStore::new(table.clone(), self.pool.clone(), Vec::new(), LogPosition::ZERO);
                            self.memory.resize(0, store.memtable_bytes());
                            self.tables.borrow_mut().insert(table.id, store);
                        }
                    }
                }
                SchemaOp::PutKeyspace { name, durable_writes, .. } => self.note_durability(name, *durable_writes),
                _ => {}
            }
        }
    }

    /// Forgets what these changes drop: durable when it returns.
    pub async fn adopt_schema(&self, ops: &[SchemaOp]) -> Result<(), ShardError> {
        let mut gone = Vec::new();
        for op in ops {
            match op {
                SchemaOp::DropTable { id, .. } => gone.push(*id),
                SchemaOp::DropKeyspace { name } => {
                    let of_keyspace = |store: &Rc<TableStore>| store.table().keyspace == *name;
                    gone.extend(
                        self.tables.borrow().values().filter(|store| of_keyspace(store)).map(|store| store.id()),
                    );
                    self.note_durability(name, true);
                }
                _ => {}
            }
        }
        gone.sort_unstable();
        for table in gone {
            self.drop_table(table).await?;
        }
        Ok(())
    }

    /// Syncs and closes the log and records its end: the clean stop.
    pub async fn close(&self) -> Result<(), ShardError> {
        self.stopping.set(true);
        self.stop_compactions.set(true);
        let log = self.log();
        let end = log.close().await.map_err(|error| ShardError::LogFailed(error.to_string()))?;
        let (stream, high_water) = (log.stream(), self.clock.last());
        self.manifest
            .change(|manifest| {
                manifest.log_ends.insert(stream, end);
                manifest.timestamp_high_water = manifest.timestamp_high_water.max(high_water);
            })
            .await
    }
}

/// A manifest's span as a reader takes it.
fn range_of(span: &TokenSpan) -> TokenRange {
    TokenRange { start_exclusive: span.first.0.checked_sub(1).map(Token), end_inclusive: Some(span.last) }
}

/// The tables that stand in a schema by id, for the log's segments.
pub(super) struct LoggedSchemas(pub std::rc::Weak<Shard>);

impl crate::commitlog::TableSchemas for LoggedSchemas {
    fn table_schema(&self, table: crate::commitlog::TableRef) -> Option<Rc<[u8]>> {
        let store = self.0.upgrade()?.store(table.table)?;
        (store.table().version == table.schema_version).then(|| store.encoded())
    }
}

/// The manifests that a fresh directory starts with.
pub async fn create_manifests(io: &Io, config: &ShardConfig) -> Result<(), ShardError> {
    for shard in 0..config.sharding.shards {
        let mut manifest = Manifest::new(config.layout, crate::base::ids::ShardId(shard));
        manifest.store(io, &config.data_dir, config.planted).await?;
    }
    Ok(())
}
