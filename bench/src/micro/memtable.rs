//! The memtable alone: encoded writes in, rows out.

use std::hint::black_box;
use std::rc::Rc;

use helenus::memtable::{Memtable, SlabPool};
use helenus::mutation::read::Slice;
use helenus::mutation::{MutationView, PartitionCursor};
use helenus::schema::Table;
use helenus::schema::partitioner::token_of;

use super::rows::{POSITION, Writes, clustered_table, clustering, flat_table, key};
use super::{ROUNDS, ns_each, sstable};
use crate::calibration::median;
use crate::counters::Counters;

/// What applying costs.
#[derive(Clone, Copy, Debug)]
pub struct Applied {
    pub ns_per_row: f64,
    pub allocations_per_mutation: f64,
}

const PARTITIONS: u64 = 200_000;
/// Memory that is there before anything is applied.
const POOL_BYTES: usize = 256 << 20;
pub const BATCH_ROWS: u64 = 10;

pub fn all(tell: &mut impl FnMut(&str, f64, &str)) {
    let writes = flat_writes(5, 34);
    let parse = ns_each(writes.len(), || writes.iter().for_each(|bytes| drop(black_box(MutationView::parse(bytes)))));
    tell("mutation: check of a standard1 row", parse, "ns");
    tell("memtable: apply, 100 B in one cell, by key alone", apply_flat().ns_per_row, "ns a row");
    let standard1 = applied(&flat_table(5), &writes, 1);
    tell("memtable: apply, standard1 (five cells of 34 B)", standard1.ns_per_row, "ns a row");
    tell("memtable: apply, clustered, each row written twice", apply_clustered().ns_per_row, "ns a row");
    let batches = apply_batches();
    tell("memtable: apply, batches of 10 rows of one partition", batches.ns_per_row, "ns a row");
    tell("memtable: allocations a batch", batches.allocations_per_mutation, "allocations");
    tell("memtable: get, standard1", get_ns(), "ns");
}

/// A row of 100 bytes in one cell, under a key of 10, each in a partition of its own.
pub fn apply_flat() -> Applied {
    applied(&flat_table(1), &flat_writes(1, 100), 1)
}

/// Rows of 100-row partitions, one a mutation, in mixed order, each written twice.
pub fn apply_clustered() -> Applied {
    const ROWS: u64 = 100;
    let table = clustered_table(1);
    let mut writes = Writes::default();
    for (time, row) in (0..2 * ROWS).map(|at| (at, at * 37 % ROWS)) {
        for partition in 0..PARTITIONS / ROWS {
            writes.push(&table, &key(partition), &[clustering(row)], (1, 80), 1 + time as i64);
        }
    }
    applied(&table, &writes, 1)
}

/// W2: 10 rows of five texts of 10 characters, all of one partition, one mutation.
pub fn apply_batches() -> Applied {
    applied(&clustered_table(5), &batch_writes(PARTITIONS / BATCH_ROWS), BATCH_ROWS)
}

/// The same, with a flush for each 16 MiB of it: rows a second.
pub fn apply_sustained() -> Result<f64, String> {
    let table = clustered_table(5);
    let writes = batch_writes(PARTITIONS / BATCH_ROWS);
    let pool = SlabPool::new();
    pool.prefill(POOL_BYTES);
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let before = Counters::now();
        let memtable = filled(&table, &pool, &writes);
        let applied = Counters::now().since(before).cpu_ns;
        let flushed = sstable::flush_memtable(&table, memtable)?;
        rates.push((writes.len() * BATCH_ROWS) as f64 / ((applied as f64 + flushed.cpu_ns) / 1e9));
    }
    Ok(median(rates.into_iter()))
}

fn flat_writes(columns: u16, value_bytes: usize) -> Writes {
    let table = flat_table(columns);
    let mut writes = Writes::default();
    (0..PARTITIONS).for_each(|at| writes.push(&table, &key(at), &[Vec::new()], (columns, value_bytes), 1 + at as i64));
    writes
}

fn batch_writes(count: u64) -> Writes {
    let table = clustered_table(5);
    let rows: Vec<Vec<u8>> = (0..BATCH_ROWS).map(clustering).collect();
    let mut writes = Writes::default();
    (0..count).for_each(|at| writes.push(&table, &key(at), &rows, (5, 10), 1 + at as i64));
    writes
}

/// The cost of applying writes of so many rows each, into memory that is there: as a shard applies what it has encoded
/// itself, the partition's token known.
fn applied(table: &Rc<Table>, writes: &Writes, rows: u64) -> Applied {
    let pool = SlabPool::new();
    pool.prefill(POOL_BYTES);
    drop(filled(table, &pool, writes)); // touches what the tables of partitions take
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        let before = Counters::now();
        let memtable = filled(table, &pool, writes);
        costs.push(Counters::now().since(before));
        drop(memtable);
    }
    let all = writes.len() as f64;
    Applied {
        ns_per_row: median(costs.iter().map(|cost| cost.cpu_ns as f64)) / (all * rows as f64),
        allocations_per_mutation: median(costs.iter().map(|cost| cost.allocations as f64)) / all,
    }
}

pub fn filled(table: &Rc<Table>, pool: &Rc<SlabPool>, writes: &Writes) -> Memtable {
    let mut memtable = Memtable::new(table.clone(), pool.clone());
    for (bytes, token) in writes.iter().zip(writes.tokens()) {
        let view = MutationView::built(bytes).expect("it was encoded here");
        memtable.apply_to(*token, &view, POSITION);
    }
    memtable
}

fn get_ns() -> f64 {
    let table = flat_table(5);
    let pool = SlabPool::new();
    let memtable = filled(&table, &pool, &flat_writes(5, 34));
    let slices = [Slice::all()];
    let keys: Vec<Vec<u8>> = (0..PARTITIONS).map(|at| key(at * 7919 % PARTITIONS)).collect();
    ns_each(PARTITIONS, || {
        for key in &keys {
            let mut cursor = memtable.partition(token_of(key), key, &slices, false).expect("it was written");
            black_box(cursor.start().expect("memory has no damage"));
            black_box(cursor.next().expect("memory has no damage").expect("a row"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_their_rows() {
        let table = clustered_table(5);
        let memtable = filled(&table, &SlabPool::new(), &batch_writes(7));
        assert_eq!((memtable.stats().partitions, memtable.stats().rows), (7, 70));
    }
}
