//! The calls that every engine gets, and what they cost.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::calibration::poorly_compressible;
use crate::counters::clock_ns;

/// Values of a row.
pub const COLUMNS: usize = 5;
/// Rows of a batch, of a slice, and of a partition that slices are read of.
pub const BATCH_ROWS: u64 = 10;
const PARTITION_ROWS: u64 = 100;
/// Writes that are made before the first of them is waited for, as a server does with the requests of one receive.
const AT_A_TIME: u64 = 64;

const VALUE_BYTES: usize = 34;
const POOL_BYTES: usize = 1 << 20;
/// No divisor of how many rows there are: steps of it come by all of them.
const STEP: u64 = 999_983;

/// 10 bytes, of a partition or of a row within it.
pub type Key = [u8; 10];

/// A row of W1's shape.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// Its place in its partition, where it is not the only one.
    pub clustering: Option<Key>,
    pub values: [&'a [u8]; COLUMNS],
}

/// An engine. A write is visible and in the log once `logged` has returned: a killed process does not lose it.
pub trait KeyValue {
    /// Writes rows of one partition, all or none.
    async fn put(&mut self, key: &Key, rows: &[Row<'_>]) -> Result<(), String>;

    /// Waits until all that was put is in the log.
    async fn logged(&mut self) -> Result<(), String>;

    /// Appends the values of a row that is alone in its partition. Whether it is there.
    async fn get(&mut self, key: &Key, out: &mut Vec<u8>) -> Result<bool, String>;

    /// Appends the values of the rows of a partition from one on, at most so many: how many there are.
    async fn slice(&mut self, key: &Key, from: &Key, count: u64, out: &mut Vec<u8>) -> Result<u64, String>;

    /// Writes out what is in memory, and merges all files.
    async fn settle(&mut self) -> Result<(), String>;
}

/// What one call costs: time, and CPU of all threads of the process.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    pub name: String,
    pub elapsed_ns: f64,
    pub cpu_ns: f64,
}

impl Cost {
    pub fn line(&self) -> String {
        format!("{}\t{}\t{}", self.name, self.elapsed_ns, self.cpu_ns)
    }

    pub fn parse(line: &str) -> Result<Cost, String> {
        let wrong = || format!("no cost: `{line}`");
        let mut fields = line.split('\t');
        let name = fields.next().ok_or_else(wrong)?.to_owned();
        let mut number = || fields.next().and_then(|text| text.parse().ok()).ok_or_else(wrong);
        Ok(Cost { name, elapsed_ns: number()?, cpu_ns: number()? })
    }
}

/// What is written.
struct Rows {
    values: Vec<u8>,
}

impl Rows {
    fn new() -> Rows {
        let mut values = vec![0; POOL_BYTES + COLUMNS * VALUE_BYTES];
        poorly_compressible(&mut values, 1);
        Rows { values }
    }

    fn row(&self, number: u64, clustering: Option<Key>) -> Row<'_> {
        let start = (number.wrapping_mul(STEP) % POOL_BYTES as u64) as usize;
        let value = |column: usize| &self.values[start + column * VALUE_BYTES..][..VALUE_BYTES];
        Row { clustering, values: std::array::from_fn(value) }
    }
}

/// Rows alone in their partitions are apart from those that are written one at a time, and from partitions of many.
const ALONE: u64 = 0;
const ONE_BY_ONE: u64 = 1;
const TOGETHER: u64 = 2;
const TOGETHER_ONE_BY_ONE: u64 = 3;

/// Ten hexadecimal digits.
fn key(region: u64, number: u64) -> Key {
    let mut bits = (region << 36) | number;
    let mut key = [0; 10];
    for digit in key.iter_mut().rev() {
        *digit = b"0123456789ABCDEF"[(bits & 15) as usize];
        bits >>= 4;
    }
    key
}

/// All calls, over so many rows.
pub async fn costs<E: KeyValue>(engine: &mut E, rows: u64) -> Result<Vec<Cost>, String> {
    let made = Rows::new();
    let (few, batches, slices) = (rows.div_ceil(10), rows.div_ceil(BATCH_ROWS), rows.div_ceil(4));
    let mut costs = Vec::new();
    let mut tell = |name: &str, count: u64, meter: Meter| costs.push(meter.cost(name, count));

    let meter = Meter::start();
    writes(engine, &made, ONE_BY_ONE, few, 1).await?;
    tell("write, one at a time", few, meter);
    let meter = Meter::start();
    writes(engine, &made, ALONE, rows, AT_A_TIME).await?;
    tell("write, 64 at a time", rows, meter);
    let meter = Meter::start();
    batch_writes(engine, &made, TOGETHER_ONE_BY_ONE, few.div_ceil(BATCH_ROWS), 1).await?;
    tell("batch of 10 rows, one at a time", few.div_ceil(BATCH_ROWS), meter);
    let meter = Meter::start();
    batch_writes(engine, &made, TOGETHER, batches, AT_A_TIME).await?;
    tell("batch of 10 rows, 64 at a time", batches, meter);
    for place in ["in memory", "in a cached SSTable"] {
        if place != "in memory" {
            let meter = Meter::start();
            engine.settle().await?;
            tell("flush and compaction, a row", rows + few + batches * BATCH_ROWS + few, meter);
            reads(engine, rows).await?;
            slices_read(engine, batches, slices).await?;
        }
        let meter = Meter::start();
        reads(engine, rows).await?;
        tell(&format!("read, {place}"), rows, meter);
        let meter = Meter::start();
        slices_read(engine, batches, slices).await?;
        tell(&format!("slice of 10 rows, {place}"), slices, meter);
    }
    Ok(costs)
}

async fn writes<E: KeyValue>(
    engine: &mut E,
    made: &Rows,
    region: u64,
    count: u64,
    at_a_time: u64,
) -> Result<(), String> {
    for at in 0..count {
        let number = at * STEP % count;
        engine.put(&key(region, number), &[made.row(number, None)]).await?;
        if (at + 1) % at_a_time == 0 {
            engine.logged().await?;
        }
    }
    engine.logged().await
}

/// Each partition in pieces, which come in mixed order.
async fn batch_writes<E: KeyValue>(
    engine: &mut E,
    made: &Rows,
    region: u64,
    count: u64,
    at_a_time: u64,
) -> Result<(), String> {
    const PIECES: u64 = PARTITION_ROWS / BATCH_ROWS;
    let mut rows = Vec::new();
    for at in 0..count {
        let number = at * STEP % count;
        let (partition, first) = (number / PIECES, number % PIECES * BATCH_ROWS);
        rows.clear();
        rows.extend((first..first + BATCH_ROWS).map(|row| made.row(number * BATCH_ROWS + row, Some(key(0, row)))));
        engine.put(&key(region, partition), &rows).await?;
        if (at + 1) % at_a_time == 0 {
            engine.logged().await?;
        }
    }
    engine.logged().await
}

async fn reads<E: KeyValue>(engine: &mut E, rows: u64) -> Result<(), String> {
    let mut out = Vec::new();
    for at in 0..rows {
        let number = (at * STEP + rows / 2) % rows;
        out.clear();
        let is_there = engine.get(&key(ALONE, number), &mut out).await?;
        if !is_there || out.len() != COLUMNS * VALUE_BYTES {
            return Err(format!("row {number} has {} bytes", out.len()));
        }
    }
    Ok(())
}

async fn slices_read<E: KeyValue>(engine: &mut E, batches: u64, slices: u64) -> Result<(), String> {
    let partitions = batches * BATCH_ROWS / PARTITION_ROWS;
    let mut out = Vec::new();
    for at in 0..slices {
        let number = at * STEP;
        let (partition, from) = (number % partitions.max(1), number % (PARTITION_ROWS - BATCH_ROWS));
        out.clear();
        let count = engine.slice(&key(TOGETHER, partition), &key(0, from), BATCH_ROWS, &mut out).await?;
        if count != BATCH_ROWS || out.len() != BATCH_ROWS as usize * COLUMNS * VALUE_BYTES {
            return Err(format!("a slice of {count} rows and {} bytes", out.len()));
        }
    }
    Ok(())
}

struct Meter {
    elapsed_ns: u64,
    cpu_ns: u64,
}

impl Meter {
    fn start() -> Meter {
        Meter { elapsed_ns: clock_ns(libc::CLOCK_MONOTONIC), cpu_ns: clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) }
    }

    fn cost(&self, name: &str, count: u64) -> Cost {
        let now = Meter::start();
        let each = |now: u64, before: u64| (now - before) as f64 / count as f64;
        let (elapsed_ns, cpu_ns) = (each(now.elapsed_ns, self.elapsed_ns), each(now.cpu_ns, self.cpu_ns));
        Cost { name: name.to_owned(), elapsed_ns, cpu_ns }
    }
}

/// The value of a future that waits for nothing: those of engines that block.
#[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "for the engines of the feature"))]
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("every call of such an engine returns when it is done"),
    }
}

/// A row's values as one, each with its length before it: what an engine of keys and values stores.
#[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "for the engines of the feature"))]
pub fn pack(row: &Row<'_>, out: &mut Vec<u8>) {
    out.clear();
    for value in row.values {
        out.push(value.len() as u8);
        out.extend_from_slice(value);
    }
}

#[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "for the engines of the feature"))]
pub fn unpack(mut packed: &[u8], out: &mut Vec<u8>) {
    while let Some((length, rest)) = packed.split_first() {
        let (value, rest) = rest.split_at(usize::from(*length));
        out.extend_from_slice(value);
        packed = rest;
    }
}

/// A row's key: its partition's, and its place in it.
#[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "for the engines of the feature"))]
pub fn put_key(key: &Key, clustering: Option<&Key>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(key);
    out.extend(clustering.into_iter().flatten());
}
