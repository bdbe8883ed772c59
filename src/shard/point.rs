//! One row by its whole primary key, where all that is needed is in memory: what most reads are. It waits for nothing,
//! and what it cannot answer is read by `Shard::read`.

use crate::base::ids::TableId;
use crate::memtable::Point;
use crate::mutation::ReadStop;
use crate::mutation::point::{PointKey, PointMerge, PointRow};
use crate::mutation::read::Slice;
use crate::shard::Shard;
use crate::shard::source::Sources;
use crate::shard::tables::{TableStore, bump};
use crate::sstable::{Misses, Pins, View};

impl Shard {
    /// Gives `take` what is live of the row at `now_s`, `None` where that is nothing. Whether it was taken: not where
    /// `take` says so, nor where a block has to be loaded first or anything else needs the long way. The table has
    /// neither static nor dropped columns.
    pub fn read_point(
        &self,
        table: TableId,
        at: &PointKey,
        now_s: i64,
        take: impl FnOnce(Option<&PointRow<'_>>) -> bool,
    ) -> bool {
        let tables = self.tables.borrow();
        let Some(store) = tables.get(&table) else { return false };
        let is_taken = if store.is_in_memtable() {
            match store.active().point(at, now_s) {
                Point::None => take(None),
                Point::Row(row) => take(Some(&row)),
                Point::Deletions => self.merge_point(store, at, now_s, take).unwrap_or(false),
            }
        } else {
            self.merge_point(store, at, now_s, take).unwrap_or(false)
        };
        if is_taken {
            bump(&store.counts.reads);
        }
        is_taken
    }

    /// The same from every source that has the partition.
    fn merge_point(
        &self,
        store: &TableStore,
        at: &PointKey,
        now_s: i64,
        take: impl FnOnce(Option<&PointRow<'_>>) -> bool,
    ) -> Result<bool, ReadStop> {
        let (pins, misses) = (Pins::new(), Misses::new());
        let view = View { cache: &self.cache, pins: &pins, misses: &misses };
        let sources = Sources::of(store, store.sstables());
        let mut merge = PointMerge::default();
        if sources.add_point(view, at, &mut merge)? {
            return Ok(merge.finish(now_s, take));
        }
        let (table, slices) = (store.table(), [Slice::of_row(&at.clustering)]);
        let row = sources.row(view, at.token, &at.key, &slices, table.clustering_order())?;
        let Some(row) = row.and_then(|mut row| row.retain_live(now_s).then_some(row)) else { return Ok(take(None)) };
        let cells = row.cells.iter().filter(|cell| cell.path.is_none()).map(|cell| (cell.column, cell.value));
        Ok(take(Some(&PointRow { clustering: row.clustering, cells: cells.collect() })))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::base::ids::{ColumnId, Token};
    use crate::io::sim::{Faults, Simulation};
    use crate::mutation::page::{PageItem, PageView};
    use crate::mutation::read::{PartitionKey, Partitions, ReadCommand};
    use crate::mutation::{MutationBuilder, Stamp};
    use crate::schema::{clustering, partitioner};
    use crate::shard::tests::{TABLE, command, delete_row, put, start, write};

    const NOW_S: i64 = 1_000;

    fn key(k: i32, c: i32) -> PointKey {
        let mut at = PointKey { key: k.to_be_bytes().to_vec(), ..PointKey::default() };
        clustering::push_component(&mut at.clustering, &c.to_be_bytes());
        at.token = partitioner::token_of(&at.key);
        at
    }

    fn mutation(k: i32, write: impl FnOnce(MutationBuilder<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(MutationBuilder::begin(&mut bytes, TABLE, 1, &k.to_be_bytes()));
        bytes
    }

    /// A value that expires; `lives`: after the reads.
    fn put_expiring(k: i32, c: i32, lives: bool) -> Vec<u8> {
        let expiry = Some((10, if lives { NOW_S + 5 } else { NOW_S - 5 }));
        mutation(k, |mut builder| {
            let _row = builder.row(&key(k, c).clustering).cell(ColumnId(2), None, Stamp::Base(0), expiry, b"soon");
        })
    }

    fn delete_range(k: i32, from: i32, to: i32) -> Vec<u8> {
        let (from, to) = (key(k, from).clustering, key(k, to).clustering);
        mutation(k, |mut builder| {
            let (start, end) = (crate::schema::Position::before(&from), crate::schema::Position::after(&to));
            let _rest = builder.range_tombstone(start, end, Stamp::Base(0), NOW_S);
        })
    }

    fn delete_partition(k: i32) -> Vec<u8> {
        mutation(k, |mut builder| {
            let _rest = builder.partition_deletion(Stamp::Base(0), NOW_S);
        })
    }

    fn at_once(shard: &Shard, k: i32, c: i32) -> Option<Option<Vec<u8>>> {
        let mut found = None;
        let is_taken = shard.read_point(TABLE, &key(k, c), NOW_S, |row| {
            found = row.map(|row| row.cells.first().map_or(&[][..], |c| c.1).to_vec());
            true
        });
        is_taken.then_some(found)
    }

    /// The same by the long way.
    async fn read(shard: &Shard, k: i32, c: i32) -> Option<Vec<u8>> {
        let at = key(k, c);
        let partition = PartitionKey { token: at.token, key: at.key };
        let partitions = Partitions::Keys(vec![partition]);
        let slices = vec![Slice::of_row(&at.clustering)];
        let command = ReadCommand { partitions, slices, now_s: NOW_S, ..command(10) };
        let page = shard.read(&command, u64::MAX).await.expect("a page");
        let rows = PageView::new(&page.bytes).filter_map(|item| match item.expect("whole") {
            PageItem::Row(row) => Some(row.cells.first().map_or(Vec::new(), |cell| cell.value.to_vec())),
            _ => None,
        });
        rows.last()
    }

    /// Whatever was written and deleted, in memory and on disk: what is given at once is what the long way reads.
    #[test]
    fn a_point_is_what_the_long_way_reads() {
        const KEYS: i32 = 3;
        for seed in 0..40 {
            let sim = Simulation::new(seed, Faults::NONE);
            let ran = sim.run_on_node(move |io| async move {
                let shard: Rc<Shard> = start(io.clone()).await;
                let mut given = 0;
                for step in 0..60 {
                    let below = |bound: u64| (io.random_u64() % bound) as i32;
                    let (k, c) = (below(KEYS as u64), below(4));
                    let mutation = match below(9) {
                        0 => delete_row(k, c, NOW_S),
                        1 => delete_range(k, c, c + 1),
                        2 => delete_partition(k),
                        3 => put_expiring(k, c, true),
                        4 => put_expiring(k, c, false),
                        _ => put(k, c, step),
                    };
                    write(&shard, vec![mutation]).await;
                    if below(15) == 0 {
                        shard.flush(None).await.expect("flushed");
                    }
                    for (k, c) in (0..KEYS).flat_map(|k| (0..4).map(move |c| (k, c))) {
                        let long = read(&shard, k, c).await;
                        // The long way has loaded what was missing.
                        assert_eq!(at_once(&shard, k, c), Some(long.clone()), "seed {seed}, step {step}: ({k}, {c})");
                        given += i32::from(long.is_some());
                    }
                }
                given
            });
            assert!(ran.expect("runs") > 0, "seed {seed} read nothing");
        }
    }

    #[test]
    fn what_is_not_in_memory_is_left_to_the_long_way() {
        let sim = Simulation::new(1, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let shard = start(io).await;
            write(&shard, vec![put(1, 1, 7)]).await;
            assert_eq!(at_once(&shard, 1, 1), Some(Some(7i32.to_be_bytes().to_vec())));
            shard.flush(None).await.expect("flushed");
            assert_eq!(at_once(&shard, 1, 1), None, "its block has not been read yet");
            assert_eq!(read(&shard, 1, 1).await, Some(7i32.to_be_bytes().to_vec()));
            assert_eq!(at_once(&shard, 1, 1), Some(Some(7i32.to_be_bytes().to_vec())));
            let reads = shard.store(TABLE).expect("there").counts.reads.get();
            assert!(!shard.read_point(TableId([1; 16]), &key(1, 1), NOW_S, |_| true), "there is no such table");
            assert!(!shard.read_point(TABLE, &key(1, 1), NOW_S, |_| false), "it was not taken");
            assert_eq!(shard.store(TABLE).expect("there").counts.reads.get(), reads, "nor counted");
            assert_ne!(key(1, 1).token, Token(0));
        });
        ran.expect("runs");
    }

    /// Rows in several memtables and SSTables are merged in place, deleted ones too; deleted ranges are left to the long way.
    #[test]
    fn sources_without_ranges_are_merged_in_place() {
        let sim = Simulation::new(2, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let shard = start(io).await;
            for mutation in [put(1, 1, 7), put(1, 2, 7), delete_row(1, 1, NOW_S), put(1, 2, 8), delete_partition(2)] {
                write(&shard, vec![mutation]).await;
                shard.flush(None).await.expect("flushed");
            }
            write(&shard, vec![put(1, 3, 9), put(2, 1, 10)]).await;
            let merged = |k: i32, c: i32| {
                let store = shard.store(TABLE).expect("there");
                let (pins, misses) = (Pins::new(), Misses::new());
                let view = View { cache: &shard.cache, pins: &pins, misses: &misses };
                let sources = Sources::of(&store, store.sstables());
                let mut merge = PointMerge::default();
                let is_added = sources.add_point(view, &key(k, c), &mut merge).expect("in the cache");
                is_added.then(|| merge.finish(NOW_S, |row| row.map(|row| row.cells.len())))
            };
            for k in 1..3 {
                for c in 1..5 {
                    read(&shard, k, c).await;
                }
            }
            let of_one: Vec<_> = (1..5).map(|c| merged(1, c)).collect();
            assert_eq!(of_one, [Some(None), Some(Some(1)), Some(Some(1)), Some(None)]);
            assert_eq!((merged(2, 1), merged(2, 2)), (Some(Some(1)), Some(None)));
            write(&shard, vec![delete_range(1, 5, 6)]).await;
            assert_eq!((merged(1, 2), merged(2, 1)), (None, Some(Some(1))));
            shard.flush(None).await.expect("flushed");
            read(&shard, 1, 2).await;
            assert_eq!(merged(1, 2), None);
        });
        ran.expect("runs");
    }
}
