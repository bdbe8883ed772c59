//! Writes that must read first: counters, elements of lists by index, removals from lists.
//!
//! What a draft (`mutation::draft`) needs is read, the mutation made of it (`mutation::resolve`), logged and applied in one
//! turn: nothing comes between, and no queue is needed. Where a block is missing, or the log or the memory has no room, it
//! is waited for and all is done anew.

use std::collections::BTreeMap;

use crate::base::ids::TimestampMicros;
use crate::mutation::draft::{Draft, is_draft};
use crate::mutation::read::Slice;
use crate::mutation::resolve::{Place, Resolver, places};
use crate::mutation::{ReadStop, Row};
use crate::schema::partitioner;
use crate::shard::read::sstable_error;
use crate::shard::source::Sources;
use crate::shard::{Applied, ReadError, Shard, Write, WriteError};
use crate::sstable::{Misses, Pins, View};

/// Why drafts are not resolved yet.
enum Stop {
    /// A block is missing.
    Miss,
    Failed(WriteError),
}

impl From<WriteError> for Stop {
    fn from(error: WriteError) -> Self {
        Stop::Failed(error)
    }
}

impl From<ReadStop> for Stop {
    fn from(stop: ReadStop) -> Self {
        match stop {
            ReadStop::Miss => Stop::Miss,
            ReadStop::Corrupt(what) => Stop::Failed(WriteError::Read(ReadError::Corrupt(what))),
            ReadStop::Turn => unreachable!("these reads are not cut"),
        }
    }
}

impl Write {
    /// Whether it must read first.
    pub fn has_drafts(&self) -> bool {
        self.mutations.iter().any(|mutation| is_draft(mutation))
    }
}

impl Shard {
    /// Reads what the write's drafts need, and logs and applies what comes of them, in one step that nothing comes between.
    pub async fn resolve_and_apply(&self, write: &Write, deadline_ns: u64) -> Result<Applied, WriteError> {
        let mut misses = Misses::new();
        let mut is_admitted = false;
        loop {
            let timestamp = write.timestamp.unwrap_or_else(|| self.clock.next(self.io.wall_us()));
            match self.try_resolve(&write.mutations, timestamp, &misses) {
                Ok(mutations) => {
                    let mut resolved = Write { mutations, timestamp: write.timestamp };
                    if is_admitted || self.has_room_for(&resolved) {
                        match self.apply_at(&mut resolved, timestamp) {
                            Err(WriteError::Busy) => self.room_in_log(deadline_ns).await?,
                            outcome => return outcome,
                        }
                    } else {
                        misses.release();
                        self.admit(&resolved, deadline_ns).await?;
                        is_admitted = true;
                    }
                }
                Err(Stop::Miss) => self.load(&mut misses).await?,
                Err(Stop::Failed(error)) => return Err(error),
            }
            if self.io.now_ns() > deadline_ns {
                return Err(self.late(write));
            }
        }
    }

    /// The mutations as they would be now, drafts resolved. Another write may come before they are applied.
    pub async fn resolve(&self, write: &Write, deadline_ns: u64) -> Result<Vec<Vec<u8>>, WriteError> {
        let mut misses = Misses::new();
        loop {
            let timestamp = write.timestamp.unwrap_or_else(|| self.io.wall_us().max(self.clock.last() + 1));
            match self.try_resolve(&write.mutations, timestamp, &misses) {
                Ok(mutations) => return Ok(mutations),
                Err(Stop::Miss) => self.load(&mut misses).await?,
                Err(Stop::Failed(error)) => return Err(error),
            }
            if self.io.now_ns() > deadline_ns {
                return Err(self.late(write));
            }
        }
    }

    fn late(&self, write: &Write) -> WriteError {
        let counts = |draft: &Draft<'_>| self.store(draft.table()).is_some_and(|store| store.table().is_counter);
        let mut drafts = write.mutations.iter().filter_map(|mutation| Draft::parse(mutation).ok());
        WriteError::Late { is_counter: drafts.any(|draft| counts(&draft)) }
    }

    async fn load(&self, misses: &mut Misses) -> Result<(), WriteError> {
        misses.load(&self.cache).await.map_err(|error| WriteError::Read(sstable_error(&error)))
    }

    /// All mutations with their drafts resolved, without waiting. Every block that is missing is noted before it gives up.
    fn try_resolve(
        &self,
        mutations: &[Vec<u8>],
        timestamp: TimestampMicros,
        misses: &Misses,
    ) -> Result<Vec<Vec<u8>>, Stop> {
        let mut resolved = Vec::with_capacity(mutations.len());
        let mut missed = false;
        for mutation in mutations {
            if !is_draft(mutation) {
                resolved.push(mutation.clone());
                continue;
            }
            match self.try_resolve_one(mutation, timestamp, misses) {
                Ok(mutation) => resolved.push(mutation),
                Err(Stop::Miss) => missed = true,
                Err(stop) => return Err(stop),
            }
        }
        if missed { Err(Stop::Miss) } else { Ok(resolved) }
    }

    fn try_resolve_one(&self, bytes: &[u8], timestamp: TimestampMicros, misses: &Misses) -> Result<Vec<u8>, Stop> {
        let draft = Draft::parse(bytes).map_err(|error| WriteError::Malformed(error.to_string()))?;
        let store = self.store(draft.table()).ok_or(WriteError::UnknownTable(draft.table()))?;
        let table = store.table();
        let pins = Pins::new();
        let sources = Sources::of(&store, store.sstables());
        let view = View { cache: &self.cache, pins: &pins, misses };
        let token = partitioner::token_of(draft.key());
        let wanted: Vec<(Place<'_>, Vec<Slice>)> =
            places(&draft, table.is_counter).into_iter().map(|place| (place, slices(place))).collect();
        let mut rows: BTreeMap<Place<'_>, Row<'_>> = BTreeMap::new();
        let mut missed = false;
        for (place, slices) in &wanted {
            match sources.row(view, token, draft.key(), slices, table.clustering_order()) {
                Ok(row) => rows.extend(row.map(|row| (*place, row))),
                Err(ReadStop::Miss) => missed = true,
                Err(stop) => return Err(stop.into()),
            }
        }
        if missed {
            return Err(Stop::Miss);
        }
        let host = self.config.host_id;
        let resolver = Resolver { host, now_us: self.io.wall_us(), timestamp, is_counter: table.is_counter };
        resolver.resolve(&draft, &rows).map_err(|unmet| Stop::Failed(unmet.into()))
    }
}

/// The slices that hold this row; none for the static row, which comes with the partition.
fn slices(place: Place<'_>) -> Vec<Slice> {
    place.iter().map(|row| Slice::of_row(row)).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use crate::base::ids::ColumnId;
    use crate::commitlog::SyncMode;
    use crate::io::sim::{Faults, Simulation};
    use crate::io::{Io, TaskClass};
    use crate::mutation::draft::ElementChange;
    use crate::mutation::page::{PageItem, PageView};
    use crate::mutation::resolve::Unmet;
    use crate::mutation::{MutationBuilder, Stamp, counter};
    use crate::schema::{Column, ColumnKind, Columns, Schema, SchemaOp, Table};
    use crate::shard::tests::{TABLE, command, config, log, schema, start_with, table};
    use crate::shard::{Applied, Shard, ShardConfig, Write, WriteError};
    use crate::types::CqlType;

    const COLUMN: ColumnId = ColumnId(2);
    const BASE: Stamp = Stamp::Base(0);

    /// `CREATE TABLE ks.t (k int, c int, v TYPE, PRIMARY KEY (k, c))`
    fn schema_of(ty: CqlType) -> Schema {
        let mut columns: Vec<Column> = table().columns.iter().cloned().collect();
        let is_counter = ty.is_counter();
        columns[2].ty = ty;
        assert_eq!(columns[2].kind, ColumnKind::Regular);
        let mut schema = schema();
        let table = Table { columns: Columns::new(columns), is_counter, ..table() };
        schema.apply(&SchemaOp::PutTable(Box::new(table)));
        schema
    }

    /// A shard whose cache holds hardly a block.
    async fn start(io: Io, ty: CqlType) -> Rc<Shard> {
        let config = ShardConfig { cache_bytes_max: 16 << 10, ..config() };
        start_with(io, config, log(SyncMode::Batch), &schema_of(ty)).await
    }

    fn mutation(k: i32, c: i32, write: impl FnOnce(&mut MutationBuilder<'_>)) -> Vec<u8> {
        let (mut bytes, mut clustering) = (Vec::new(), Vec::new());
        crate::schema::clustering::push_component(&mut clustering, &c.to_be_bytes());
        let mut builder = MutationBuilder::begin(&mut bytes, TABLE, 1, &k.to_be_bytes());
        write(builder.row(&clustering));
        bytes
    }

    fn addition(k: i32, c: i32, delta: i64) -> Vec<u8> {
        mutation(k, c, |builder| {
            builder.counter_addition(COLUMN, delta);
        })
    }

    async fn try_write(shard: &Shard, mutations: Vec<Vec<u8>>) -> Result<Applied, WriteError> {
        let mut write = Write { mutations, timestamp: None };
        let applied = if write.has_drafts() {
            shard.resolve_and_apply(&write, u64::MAX).await?
        } else {
            shard.when_room(u64::MAX, || shard.apply(&mut write)).await?
        };
        shard.acknowledged(applied).await?;
        Ok(applied)
    }

    /// The values of each row's cells, rows by key.
    async fn rows(shard: &Shard) -> Vec<Vec<Vec<u8>>> {
        let page = shard.read(&command(u64::MAX), u64::MAX).await.expect("a page");
        let mut rows = Vec::new();
        let mut k = Vec::new();
        for item in PageView::new(&page.bytes) {
            match item.expect("whole") {
                PageItem::Partition { key, .. } => k = key.to_vec(),
                PageItem::Static(_) => unreachable!("no statics"),
                PageItem::Row(row) => {
                    let values = row.cells.iter().map(|cell| cell.value.to_vec()).collect();
                    rows.push(((k.clone(), row.clustering.to_vec()), values));
                }
            }
        }
        rows.sort();
        rows.into_iter().map(|(_, values)| values).collect()
    }

    async fn totals(shard: &Shard) -> Vec<i64> {
        rows(shard).await.iter().map(|values| counter::total(&values[0])).collect()
    }

    /// Many add to the same counters while these are flushed and read back from disk: no addition is lost, none counts
    /// twice, and a crash changes nothing.
    #[test]
    fn counters_are_exact_among_many_through_flushes_and_crashes() {
        const WRITERS: i64 = 6;
        const TIMES: i64 = 40;
        for seed in 0..8 {
            let sim = Simulation::new(seed, Faults::NONE);
            let run = |expected: i64| {
                sim.run_on_node(move |io| async move {
                    let shard = start(io.clone(), CqlType::Counter).await;
                    let left = Rc::new(Cell::new(WRITERS));
                    for writer in 0..WRITERS {
                        let (shard, left) = (shard.clone(), left.clone());
                        io.spawn(TaskClass::Foreground, async move {
                            for time in 0..TIMES {
                                let (k, c) = ((time % 3) as i32, (time % 2) as i32);
                                let other = addition(k + 3, c, -1);
                                let delta = writer + 1;
                                try_write(&shard, vec![addition(k, c, delta), other]).await.expect("written");
                            }
                            left.set(left.get() - 1);
                        });
                    }
                    while left.get() > 0 {
                        shard.flush(None).await.expect("flushed");
                        io.sleep(std::time::Duration::from_micros(300)).await;
                    }
                    assert!(shard.cache.stats().misses > 0, "some were read from disk");
                    let totals = totals(&shard).await;
                    let (added, taken): (i64, i64) = (totals[..6].iter().sum(), totals[6..].iter().sum());
                    assert_eq!(totals.len(), 12);
                    assert_eq!(
                        (added, taken),
                        (expected * (1..=WRITERS).sum::<i64>(), -expected * WRITERS),
                        "seed {seed}"
                    );
                })
                .expect("no fault");
                sim.crash();
            };
            run(TIMES);
            run(2 * TIMES);
        }
    }

    #[test]
    fn a_resolved_addition_applied_twice_counts_once() {
        let sim = Simulation::new(1, Faults::NONE);
        sim.run_on_node(|io| async move {
            let shard = start(io, CqlType::Counter).await;
            try_write(&shard, vec![addition(1, 1, 5)]).await.expect("written");
            let write = Write { mutations: vec![addition(1, 1, 7)], timestamp: None };
            let mutations = shard.resolve(&write, u64::MAX).await.expect("resolved");
            for _ in 0..2 {
                try_write(&shard, mutations.clone()).await.expect("written");
            }
            assert_eq!(totals(&shard).await, [12]);
        })
        .expect("no fault");
    }

    #[test]
    fn a_deleted_row_counts_anew_and_a_deleted_counter_not_at_all() {
        let sim = Simulation::new(1, Faults::NONE);
        sim.run_on_node(|io| async move {
            let shard = start(io, CqlType::Counter).await;
            let delete_row = || {
                mutation(1, 1, |builder| {
                    builder.row_deletion(BASE, i64::MAX / 2);
                })
            };
            let delete = || {
                mutation(1, 1, |builder| {
                    builder.cell_tombstone(COLUMN, None, BASE, i64::MAX / 2).mark_draft();
                })
            };
            for flush in [false, true] {
                for (mutation, wanted) in [
                    (addition(1, 1, 5), &[5][..]),
                    (delete_row(), &[]),
                    (addition(1, 1, 3), &[3]),
                    (delete(), &[]),
                    (addition(1, 1, 3), &[]),
                    (delete_row(), &[]),
                    (addition(1, 1, 2), &[2]),
                    (delete_row(), &[]),
                ] {
                    try_write(&shard, vec![mutation]).await.expect("written");
                    if flush {
                        shard.flush(None).await.expect("flushed");
                    }
                    assert_eq!(totals(&shard).await, wanted);
                }
            }
        })
        .expect("no fault");
    }

    /// Each takes the first element away, whichever that is then: each takes one.
    #[test]
    fn nothing_comes_between_the_look_at_a_list_and_its_change() {
        const WRITERS: i32 = 5;
        const EACH: i32 = 8;
        for seed in 0..8 {
            let sim = Simulation::new(seed, Faults::NONE);
            sim.run_on_node(|io| async move {
                let shard = start(io.clone(), CqlType::list(CqlType::Int)).await;
                let all = mutation(1, 1, |builder| {
                    for n in 0..WRITERS * EACH + 1 {
                        builder.cell(COLUMN, Some(&n.to_be_bytes()), BASE, None, &n.to_be_bytes());
                    }
                });
                try_write(&shard, vec![all]).await.expect("written");
                let first = |change: &ElementChange<'_>| {
                    mutation(1, 1, |builder| {
                        builder.list_element(COLUMN, 0, change, BASE, 0);
                    })
                };
                let left = Rc::new(Cell::new(WRITERS));
                for _ in 0..WRITERS {
                    let (shard, left) = (shard.clone(), left.clone());
                    let delete = first(&ElementChange::Delete);
                    io.spawn(TaskClass::Foreground, async move {
                        for _ in 0..EACH {
                            try_write(&shard, vec![delete.clone()]).await.expect("written");
                        }
                        left.set(left.get() - 1);
                    });
                }
                while left.get() > 0 {
                    shard.flush(None).await.expect("flushed");
                    io.sleep(std::time::Duration::from_micros(300)).await;
                }
                let last = (WRITERS * EACH).to_be_bytes();
                assert_eq!(rows(&shard).await, [[last]], "seed {seed}");
                try_write(&shard, vec![first(&ElementChange::Value(b"last", None))]).await.expect("written");
                let removal = mutation(1, 1, |builder| {
                    builder.list_removal(COLUMN, std::iter::once(&b"last"[..]), BASE, 0);
                });
                try_write(&shard, vec![removal]).await.expect("written");
                let outcome = try_write(&shard, vec![addition_to_other(), first(&ElementChange::Null)]).await;
                assert_eq!(outcome, Err(WriteError::Unmet(Unmet::SetOnNull)));
                assert!(rows(&shard).await.is_empty(), "what stood beside it is not written either");
            })
            .expect("no fault");
        }
    }

    fn addition_to_other() -> Vec<u8> {
        mutation(2, 1, |builder| {
            builder.cell(COLUMN, Some(b"path"), BASE, None, &[]);
        })
    }
}
