//! What the server must hold by now: every partition's possible states, whatever was killed in between.
//!
//! A write that was not answered is in doubt: the partition is then in one of two states, and nothing more is written
//! to it until a check after the next start has told which. The locks order what must be ordered: a partition's own
//! changes, TRUNCATE against all writes of its table, ALTER against writes of the column that comes and goes.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use super::model::{Change, Partition};
use super::tables::{PARTITIONS, SPECS, Spec};

/// The column `x` of a table, which ALTER adds and drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XColumn {
    pub present: bool,
    /// Counts how often it was dropped.
    pub life: u32,
    /// An ALTER was not answered.
    pub in_doubt: bool,
}

impl XColumn {
    /// The life it is in, where it is there.
    pub fn current(self) -> Option<u32> {
        self.present.then_some(self.life)
    }

    /// After an ALTER that was made: ADD where it was absent, DROP where it was present.
    pub fn altered(self) -> XColumn {
        XColumn { present: !self.present, life: self.life + u32::from(self.present), in_doubt: false }
    }
}

/// One partition and what is known of it.
#[derive(Debug)]
pub struct Tracked {
    /// One of these is what it holds. The first is the one without the last write in doubt.
    states: Vec<Partition>,
    /// A write is in doubt since the last check: nothing more is written.
    frozen: bool,
    /// The batch that the write in doubt belongs to, where `states` are those without and with it.
    batch: Option<u64>,
}

impl Tracked {
    fn new() -> Tracked {
        Tracked { states: vec![Partition::default()], frozen: false, batch: None }
    }

    pub fn states(&self) -> &[Partition] {
        &self.states
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    pub fn batch(&self) -> Option<u64> {
        self.batch
    }

    /// These changes were acknowledged.
    pub fn acknowledge(&mut self, changes: &[Change], x_life: u32) {
        for state in &mut self.states {
            changes.iter().for_each(|change| state.apply(change, x_life));
        }
        self.states.dedup();
    }

    /// These changes, of batch `batch` where they belong to one, were sent and not acknowledged.
    pub fn doubt(&mut self, changes: &[Change], x_life: u32, batch: Option<u64>) {
        self.batch = batch.filter(|_| self.states.len() == 1);
        for mut state in self.states.clone() {
            changes.iter().for_each(|change| state.apply(change, x_life));
            self.states.push(state);
        }
        self.frozen = true;
    }

    /// A TRUNCATE of the table was acknowledged.
    pub fn truncate(&mut self) {
        *self = Tracked::new();
    }

    /// A TRUNCATE of the table was sent and not acknowledged.
    pub fn doubt_truncate(&mut self) {
        self.states.push(Partition::default());
        self.batch = None;
        self.frozen = true;
    }

    /// A check has seen what only the states for which `holds` can show. At least one must be left.
    pub fn settle(&mut self, holds: impl Fn(&Partition) -> bool) {
        self.states.retain(holds);
        self.states.dedup();
        assert!(!self.states.is_empty(), "a partition is in some state");
        self.frozen = false;
        self.batch = None;
    }
}

/// One table.
#[derive(Debug)]
pub struct Table {
    pub spec: &'static Spec,
    /// Held shared by writes, alone by TRUNCATE.
    writes: RwLock<()>,
    /// Held shared by what reads or writes the column, alone by ALTER.
    x: RwLock<XColumn>,
    partitions: Vec<Mutex<Tracked>>,
}

impl Table {
    fn new(spec: &'static Spec) -> Table {
        let x = RwLock::new(XColumn { present: !spec.counts, life: 0, in_doubt: false });
        let partitions = (0..PARTITIONS).map(|_| Mutex::new(Tracked::new())).collect();
        Table { spec, writes: RwLock::new(()), x, partitions }
    }

    pub fn writing(&self) -> RwLockReadGuard<'_, ()> {
        self.writes.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn truncating(&self) -> RwLockWriteGuard<'_, ()> {
        self.writes.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn x(&self) -> RwLockReadGuard<'_, XColumn> {
        self.x.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn altering(&self) -> RwLockWriteGuard<'_, XColumn> {
        self.x.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every partition, by its key from 0.
    pub fn partitions(&self) -> impl Iterator<Item = (i32, MutexGuard<'_, Tracked>)> {
        (0..PARTITIONS).map(|pk| (pk, self.partition(pk)))
    }

    /// Locked until the change to it is known.
    pub fn partition(&self, pk: i32) -> MutexGuard<'_, Tracked> {
        let at = usize::try_from(pk).expect("partition keys count from 0");
        self.partitions[at].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All tables of one data directory.
#[derive(Debug)]
pub struct World {
    pub tables: Vec<Table>,
    last_timestamp: AtomicI64,
    last_batch: AtomicU64,
}

impl World {
    /// Tables without rows.
    pub fn new() -> World {
        let tables = SPECS.iter().map(Table::new).collect();
        World { tables, last_timestamp: AtomicI64::new(0), last_batch: AtomicU64::new(0) }
    }

    /// Microseconds of the clock, or one more than the last that was given.
    pub fn timestamp(&self) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let next = |last: i64| Some(now.max(last + 1));
        let last = self.last_timestamp.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        last.map_or(now, |last| now.max(last + 1))
    }

    /// A number for a batch, never given before.
    pub fn batch(&self) -> u64 {
        self.last_batch.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kill9::model::Cells;

    fn insert(ck: i32) -> Change {
        Change::Insert { ck, cells: Cells { v: Some(ck), ..Cells::default() } }
    }

    fn keys(partition: &Partition) -> Vec<i32> {
        partition.rows.keys().copied().collect()
    }

    #[test]
    fn a_write_in_doubt_leaves_two_states_and_a_check_tells_which() {
        let mut tracked = Tracked::new();
        tracked.acknowledge(&[insert(1)], 0);
        tracked.doubt(&[insert(2)], 0, Some(7));
        assert!(tracked.is_frozen());
        assert_eq!(tracked.batch(), Some(7));
        assert_eq!(tracked.states().iter().map(keys).collect::<Vec<_>>(), [vec![1], vec![1, 2]]);
        tracked.settle(|state| state.rows.len() == 2);
        assert_eq!((tracked.states().len(), tracked.is_frozen(), tracked.batch()), (1, false, None));
    }

    #[test]
    fn states_that_a_check_cannot_tell_apart_go_on_together() {
        let mut tracked = Tracked::new();
        let cells = Cells { v: Some(1), ..Cells::default() };
        tracked.acknowledge(&[Change::Update { ck: 1, cells: cells.clone() }], 0);
        tracked.doubt(&[Change::Insert { ck: 1, cells }], 0, None);
        tracked.settle(|_| true);
        assert_eq!(tracked.states().len(), 2);
        tracked.acknowledge(&[Change::DeletePartition], 0);
        assert_eq!(tracked.states(), [Partition::default()]);
    }

    #[test]
    fn a_truncate_in_doubt_may_have_emptied_the_partition() {
        let mut tracked = Tracked::new();
        tracked.acknowledge(&[insert(1)], 0);
        tracked.doubt_truncate();
        assert_eq!(tracked.states().iter().map(keys).collect::<Vec<_>>(), [vec![1], vec![]]);
        tracked.truncate();
        assert_eq!(tracked.states(), [Partition::default()]);
    }

    #[test]
    fn dropping_a_column_ends_its_life() {
        let first = XColumn { present: true, life: 0, in_doubt: false };
        let dropped = first.altered();
        assert_eq!((first.current(), dropped.current(), dropped.altered().current()), (Some(0), None, Some(1)));
    }

    #[test]
    fn timestamps_only_grow() {
        let world = World::new();
        let stamps: Vec<i64> = (0..1000).map(|_| world.timestamp()).collect();
        assert!(stamps.is_sorted_by(|a, b| a < b));
    }
}
