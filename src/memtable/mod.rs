//! One shard's unflushed writes of one table: ordered rows in memory of its own.
//!
//! A mutation is applied whole, with the rules of `mutation`, straight from its encoded bytes; all that is kept of it is
//! copied into the arena. Readers get cursors that borrow the memtable, so one must never be held across an await.

use std::rc::Rc;

use crate::base::ids::{LogPosition, TimestampMicros, Token};
use crate::memtable::arena::{Arena, Ref};
use crate::memtable::partitions::Partitions;
use crate::memtable::record::partition;
use crate::mutation::read::Slice;
use crate::mutation::view::MutationView;
use crate::schema::Table;

mod apply;
mod arena;
mod cursor;
mod evacuate;
#[cfg(test)]
mod model_tests;
mod partitions;
mod point;
mod ranges;
mod record;
mod tree;

pub use arena::SlabPool;
pub use cursor::MemtableCursor;
pub use evacuate::Evacuation;
pub use partitions::PartitionBound;
pub use point::Point;

/// What a memtable holds, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemtableStats {
    pub mutations: u64,
    pub partitions: u64,
    /// Rows made, static rows not counted, deleted ones included.
    pub rows: u64,
    /// The least and the greatest timestamp of anything applied, deletions included; greatest < least where nothing was.
    pub timestamp_min: TimestampMicros,
    pub timestamp_max: TimestampMicros,
    /// The log positions of the first and the last mutation; `None` where there is none.
    pub log_min: Option<LogPosition>,
    pub log_max: Option<LogPosition>,
}

/// Which mutations of a partition a memtable holds: equal as long as none is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The memtable's number, within its pool.
    memtable: u64,
    /// The last mutation's number, within the memtable.
    mutation: u64,
}

/// One table's unflushed writes.
#[derive(Debug)]
pub struct Memtable {
    /// Among those of the pool.
    number: u64,
    table: Rc<Table>,
    arena: Arena,
    partitions: Partitions,
    stats: MemtableStats,
}

impl Memtable {
    /// An empty one, which takes its memory from `pool` and gives it back when dropped.
    pub fn new(table: Rc<Table>, pool: Rc<SlabPool>) -> Self {
        Memtable {
            number: pool.next_memtable(),
            partitions: Partitions::new(table.id, pool.clone()),
            table,
            arena: Arena::new(pool),
            stats: MemtableStats {
                mutations: 0,
                partitions: 0,
                rows: 0,
                timestamp_min: TimestampMicros::MAX,
                timestamp_max: TimestampMicros::MIN,
                log_min: None,
                log_max: None,
            },
        }
    }

    pub fn table(&self) -> &Rc<Table> {
        &self.table
    }

    /// Takes the altered table. ALTER never changes a table's clustering columns, so what is here stays in order.
    pub fn set_table(&mut self, table: Rc<Table>) {
        debug_assert_eq!(table.id, self.table.id);
        self.table = table;
    }

    /// Applies a mutation of this table that stands in the log at `position`.
    pub fn apply(&mut self, mutation: &MutationView<'_>, position: LogPosition) {
        self.apply_to(mutation.token(), mutation, position);
    }

    /// The same where the partition's token is known.
    pub fn apply_to(&mut self, token: Token, mutation: &MutationView<'_>, position: LogPosition) {
        debug_assert_eq!(mutation.table(), self.table.id);
        let (partition, is_new) = self.partitions.find_or_create(&mut self.arena, token, mutation.key());
        let stats = &mut self.stats;
        stats.mutations += 1;
        let (order, number) = (self.table.clustering_order(), stats.mutations);
        let applied = apply::apply_mutation(&mut self.arena, order, (partition, is_new), number, mutation.entries());
        stats.rows += applied.rows_new;
        stats.timestamp_min = stats.timestamp_min.min(applied.timestamp_min);
        stats.timestamp_max = stats.timestamp_max.max(applied.timestamp_max);
        stats.log_min = Some(stats.log_min.map_or(position, |log_min| log_min.min(position)));
        stats.log_max = Some(stats.log_max.map_or(position, |log_max| log_max.max(position)));
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.len() == 0
    }

    pub fn stats(&self) -> MemtableStats {
        MemtableStats { partitions: self.partitions.len() as u64, ..self.stats }
    }

    /// Bytes of memory taken, whole slabs.
    pub fn bytes_allocated(&self) -> usize {
        self.arena.allocated_bytes()
    }

    /// Bytes in use that a flush would still write or need.
    pub fn bytes_live(&self) -> usize {
        self.arena.live_bytes()
    }

    /// Bytes in use by what was overwritten or deleted since.
    pub fn bytes_dead(&self) -> usize {
        self.arena.dead_bytes()
    }

    /// Bytes of memory that an `Evacuation` takes, about: whole slabs for what is live.
    pub fn bytes_evacuated(&self) -> usize {
        arena::packed_bytes(self.bytes_live())
    }

    /// Whether more than half of what is in use is dead, and an `Evacuation` gives more memory back than it copies: memory
    /// comes back in whole slabs.
    pub fn is_worth_evacuating(&self) -> bool {
        let freed_bytes = self.bytes_allocated().saturating_sub(self.bytes_evacuated());
        self.bytes_dead() > self.bytes_live() && freed_bytes > self.bytes_live()
    }

    /// Whether the partition is here, so that a purge elsewhere must heed `stats().timestamp_min`.
    pub fn contains(&self, token: Token, key: &[u8]) -> bool {
        self.partitions.find(&self.arena, token, key).is_some()
    }

    /// Its number among those of its pool: no two have the same.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What of the partition is here; `None` where no mutation of it was applied. What an evacuation moves here keeps the
    /// version that it has where it came from.
    pub fn version(&self, token: Token, key: &[u8]) -> Option<Version> {
        let at = self.partitions.find(&self.arena, token, key)?;
        let mutation = partition::read(&self.arena, at).last_mutation();
        (mutation > 0).then_some(Version { memtable: self.number, mutation })
    }

    /// A partition, restricted to `slices` (ascending and disjoint, also where `reversed`); `None` where it is not here.
    pub fn partition<'a>(
        &'a self,
        token: Token,
        key: &[u8],
        slices: &'a [Slice],
        reversed: bool,
    ) -> Option<MemtableCursor<'a>> {
        let at = self.partitions.find(&self.arena, token, key)?;
        Some(MemtableCursor::new(&self.arena, self.table.clustering_order(), at, slices, reversed))
    }

    /// The first partition from `bound` on.
    pub fn first_partition(&self, bound: PartitionBound<'_>) -> Option<PartitionRef<'_>> {
        self.partitions_from(bound).next()
    }

    /// The partitions from `bound` on, by token, then key.
    pub fn partitions_from<'a>(&'a self, bound: PartitionBound<'_>) -> impl Iterator<Item = PartitionRef<'a>> {
        self.partitions.walk(&self.arena, bound).map(|at| PartitionRef { memtable: self, at })
    }
}

/// One partition of a borrowed memtable.
#[derive(Clone, Copy, Debug)]
pub struct PartitionRef<'a> {
    memtable: &'a Memtable,
    at: Ref,
}

impl<'a> PartitionRef<'a> {
    pub fn token(&self) -> Token {
        partition::read(&self.memtable.arena, self.at).token()
    }

    pub fn key(&self) -> &'a [u8] {
        partition::read(&self.memtable.arena, self.at).key()
    }

    /// Its content within `slices`, as `Memtable::partition` gives it.
    pub fn cursor(&self, slices: &'a [Slice], reversed: bool) -> MemtableCursor<'a> {
        MemtableCursor::new(&self.memtable.arena, self.memtable.table.clustering_order(), self.at, slices, reversed)
    }
}
