//! One table's data on this shard: the memtable that takes writes, those that are being flushed, the SSTables.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use crate::base::ids::{LogPosition, TableId, TimestampMicros, Token};
use crate::base::local::Semaphore;
use crate::memtable::{Memtable, SlabPool};
use crate::schema::{Table, codec};
use crate::shard::flush::Frozen;
use crate::sstable::Reader;

/// The SSTables of a table at one moment; replaced as a whole, so that a reader keeps the set it began with.
pub type SstableSet = Rc<[Rc<Reader>]>;

pub struct TableStore {
    table: RefCell<Rc<Table>>,
    /// The definition as the log's segments carry it, once one has asked for it: most system tables are never written.
    encoded: RefCell<Option<Rc<[u8]>>>,
    pub(super) pool: Rc<SlabPool>,
    pub(super) active: RefCell<Memtable>,
    /// Oldest first.
    pub(super) flushing: RefCell<Vec<Frozen>>,
    sstables: RefCell<SstableSet>,
    /// Where the last flush ended: the next one covers the log from here.
    pub(super) flushed_to: Cell<LogPosition>,
    /// Flushes, truncations and the switch of files by compactions, one at a time.
    pub(super) turn: Rc<Semaphore>,
    /// One compaction of this table at a time.
    pub(super) compaction_turn: Rc<Semaphore>,
    pub(super) dropped: Cell<bool>,
    pub(super) counts: TableCounts,
}

/// Plain counters of one table.
#[derive(Default)]
pub struct TableCounts {
    pub reads: Cell<u64>,
    pub writes: Cell<u64>,
    pub flushes: Cell<u64>,
    pub compactions: Cell<u64>,
}

/// Adds one to a counter.
pub fn bump(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

impl TableStore {
    pub fn new(table: Rc<Table>, pool: Rc<SlabPool>, sstables: Vec<Rc<Reader>>, flushed_to: LogPosition) -> Rc<Self> {
        Rc::new(TableStore {
            active: RefCell::new(Memtable::new(table.clone(), pool.clone())),
            encoded: RefCell::default(),
            table: RefCell::new(table),
            pool,
            flushing: RefCell::new(Vec::new()),
            sstables: RefCell::new(sstables.into()),
            flushed_to: Cell::new(flushed_to),
            turn: Semaphore::new(1),
            compaction_turn: Semaphore::new(1),
            dropped: Cell::new(false),
            counts: TableCounts::default(),
        })
    }

    pub fn table(&self) -> Rc<Table> {
        self.table.borrow().clone()
    }

    pub fn id(&self) -> TableId {
        self.table.borrow().id
    }

    /// The table's definition is another; its key and clustering stay.
    pub fn set_table(&self, table: Rc<Table>) {
        self.active.borrow_mut().set_table(table.clone());
        *self.encoded.borrow_mut() = None;
        *self.table.borrow_mut() = table;
    }

    /// The definition as the log's segments carry it.
    pub fn encoded(&self) -> Rc<[u8]> {
        self.encoded.borrow_mut().get_or_insert_with(|| codec::encode_table(&self.table()).into()).clone()
    }

    pub fn sstables(&self) -> SstableSet {
        self.sstables.borrow().clone()
    }

    /// Adds `new` and takes `gone` away, in one step that no read sees half done.
    pub fn switch_sstables(&self, new: Option<Rc<Reader>>, gone: impl Fn(&Reader) -> bool) {
        let mut set: Vec<Rc<Reader>> = self.sstables().iter().filter(|reader| !gone(reader)).cloned().collect();
        set.extend(new);
        *self.sstables.borrow_mut() = set.into();
    }

    pub fn active(&self) -> Ref<'_, Memtable> {
        self.active.borrow()
    }

    /// Whether the active memtable holds all that the table has.
    pub(super) fn is_in_memtable(&self) -> bool {
        self.sstables.borrow().is_empty() && self.flushing.borrow().is_empty()
    }

    /// Bytes of all memtables, those being flushed too.
    pub fn memtable_bytes(&self) -> u64 {
        let flushing: usize = self.flushing.borrow().iter().map(|frozen| frozen.memtable.bytes_allocated()).sum();
        (self.active.borrow().bytes_allocated() + flushing) as u64
    }

    /// The least timestamp that any memtable with this partition holds; `MAX` where none has it.
    pub fn oldest_in_memory(&self, token: Token, key: &[u8]) -> TimestampMicros {
        let of = |memtable: &Memtable| {
            if memtable.contains(token, key) { memtable.stats().timestamp_min } else { TimestampMicros::MAX }
        };
        let active = of(&self.active.borrow());
        self.flushing.borrow().iter().map(|frozen| of(&frozen.memtable)).fold(active, TimestampMicros::min)
    }
}
