//! One core's tables: apply, read, flush, memory budget. No lock stands here: everything is this core's own.
//!
//! A shard is reached only through the calls of `Shard`, which know no CQL.
#![doc = include_str!("FORMAT.md")]

mod clock;
mod compact;
pub mod device;
mod disk;
mod envelope;
mod error;
mod evacuate;
mod filter;
mod flush;
mod holds;
pub mod manifest;
mod manifest_store;
mod memory;
mod open;
mod page;
mod point;
mod read;
mod recover;
mod report;
pub mod reshard;
mod resolve;
pub mod root;
mod snapshot;
mod source;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod truncate;
mod write;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;

use crate::base::collections::HashMap;
use crate::base::ids::{LogPosition, StreamId, TableId};
use crate::base::local::{Notify, Semaphore};
use crate::base::plants::Planted;
use crate::commitlog::CommitLog;
use crate::io::Io;
use crate::memtable::SlabPool;
use crate::schema::partitioner::Sharding;
use crate::sstable::BlockCache;

pub use clock::TimestampClock;
pub use error::{ReadError, ShardError, WriteError};
pub use holds::{BatchId, PurgeHold};
pub use open::create_manifests;
pub use read::READ_TURN_PLACES;
pub use recover::{LogStreams, Recovered, Recovery, remove_old_streams};
pub use report::TableReport;
pub use snapshot::{AutoSnapshot, Cleared, check_tag};
pub use tables::TableStore;
pub use write::{Applied, ExpectedBatch, Intent, NO_DEADLINE, Write};

/// What one shard is given.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// The data directory, where manifests stand.
    pub data_dir: PathBuf,
    pub sstables_dir: PathBuf,
    pub snapshots_dir: PathBuf,
    pub sharding: Sharding,
    /// Which manifests are current.
    pub layout: u64,
    pub memtable_bytes_max: u64,
    pub cache_bytes_max: usize,
    /// Rows, deleted ones too, and ends of deleted ranges that a read takes of one partition before others have a turn; at
    /// least two, as a turn may begin with the deleted range that it is within.
    pub read_turn_places: usize,
    /// Writes stop when the device has less left.
    pub disk_reserve_bytes: u64,
    /// The largest mutation or batch: half a commit log segment.
    pub mutation_bytes_max: usize,
    /// Which host this is: what it adds to counters is kept under this id.
    pub host_id: [u8; 16],
    /// Whether TRUNCATE and DROP snapshot a table first, if the table allows it.
    pub auto_snapshot: bool,
    /// Whether compactions start by themselves.
    pub compact: bool,
    pub planted: Planted,
}

/// One core's tables.
pub struct Shard {
    io: Io,
    config: ShardConfig,
    /// Set once replay is over.
    log: OnceCell<Rc<CommitLog>>,
    /// The stream that this shard appends to.
    own_stream: Cell<StreamId>,
    /// Where replay stands, while there is no log to ask for a position.
    replayed_to: Cell<LogPosition>,
    tables: RefCell<HashMap<TableId, Rc<TableStore>>>,
    /// Keyspaces whose writes are not logged.
    undurable_keyspaces: RefCell<Vec<String>>,
    pool: Rc<SlabPool>,
    cache: BlockCache,
    memory: memory::MemoryBudget,
    clock: TimestampClock,
    manifest: manifest_store::ManifestStore,
    disk: disk::DiskReserve,
    /// One flush at a time writes; others wait in turn.
    flush_turn: Rc<Semaphore>,
    /// Reads of ranges have theirs.
    scan_turns: Rc<Semaphore>,
    compaction_wanted: Notify,
    /// Ends what compacts.
    stop_compactions: Cell<bool>,
    /// Batches that this shard coordinates.
    open_intents: RefCell<BTreeMap<LogPosition, write::OpenIntent>>,
    /// For batches coordinated elsewhere of which a part is or will be applied here.
    purge_holds: RefCell<BTreeSet<PurgeHold>>,
    stopping: Cell<bool>,
    counts: report::Counts,
}

impl Shard {
    fn log(&self) -> &Rc<CommitLog> {
        self.log.get().expect("the log is open once the shard serves")
    }

    /// The table's store, where the table exists.
    pub fn store(&self, table: TableId) -> Option<Rc<TableStore>> {
        self.tables.borrow().get(&table).cloned()
    }

    fn is_durable(&self, store: &TableStore) -> bool {
        let undurable = self.undurable_keyspaces.borrow();
        undurable.is_empty() || !undurable.contains(&store.table().keyspace)
    }

    /// The position before which every record has been applied.
    fn log_position(&self) -> LogPosition {
        self.log.get().map_or(self.replayed_to.get(), |log| log.position())
    }
}
