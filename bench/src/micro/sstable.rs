//! SSTables on the simulated disk: flush, get and scan, nothing of which waits for a device.

use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;

use helenus::base::ids::Token;
use helenus::io::sim::{Faults, Simulation};
use helenus::io::{Io, IoClass};
use helenus::memtable::{Memtable, PartitionBound, SlabPool};
use helenus::mutation::read::Slice;
use helenus::mutation::{PartitionCursor, ReadStop};
use helenus::schema::Table;
use helenus::schema::partitioner::token_of;
use helenus::sstable::{
    BlockCache, Compression, Misses, Pins, Reader, SSTableError, SSTableId, View, Writer, WriterOptions,
};

use super::memtable::filled;
use super::rows::{Writes, flat_table, key};
use super::{ROUNDS, ns_each};
use crate::calibration::median;
use crate::counters::Counters;

const PARTITIONS: u64 = 200_000;
const PATH: &str = "/flushed.sst";
const CACHE_BYTES: usize = 256 << 20;

/// What a flush costs: order, encode, snappy, CRC32C, and the simulated disk's copy of what was compressed.
pub struct Flushed {
    pub gb_per_s: f64,
}

/// A memtable written.
pub struct Written {
    pub cpu_ns: f64,
    simulation: Simulation,
}

/// A flush of standard1 rows; raw data are the bytes of the encoded writes.
pub fn flush() -> Result<Flushed, String> {
    let (table, writes) = standard1();
    let pool = SlabPool::new();
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let written = flush_memtable(&table, filled(&table, &pool, &writes))?;
        rates.push(writes.bytes() as f64 / written.cpu_ns);
    }
    Ok(Flushed { gb_per_s: median(rates.into_iter()) })
}

pub fn all(tell: &mut impl FnMut(&str, f64, &str)) -> Result<(), String> {
    tell("flush: order, encode, snappy, CRC32C, of raw data", flush()?.gb_per_s, "GB/s");
    let (table, writes) = standard1();
    let pool = SlabPool::new();
    let written = flush_memtable(&table, filled(&table, &pool, &writes))?;
    let told = written.simulation.run_on_node(async move |io| {
        let reader =
            Reader::open(&io, SSTableId(1), Path::new(PATH), &table).await.map_err(|error| error.to_string())?;
        let cache = BlockCache::new(CACHE_BYTES);
        warm(&reader, &cache).await.map_err(|error| error.to_string())?;
        Ok::<_, String>((get_ns(&reader, &cache), scan_ns(&reader, &cache)))
    });
    let (get, scan) = told.map_err(|halted| halted.to_string())??;
    tell("SSTable: get, standard1, blocks cached", get, "ns");
    tell("SSTable: scan, standard1, blocks cached", scan, "ns a row");
    Ok(())
}

fn standard1() -> (Rc<Table>, Writes) {
    let table = flat_table(5);
    let mut writes = Writes::default();
    (0..PARTITIONS).for_each(|at| writes.push(&table, &key(at), &[Vec::new()], (5, 34), 1 + at as i64));
    (table, writes)
}

/// Writes a memtable out, as a shard's flush does.
pub fn flush_memtable(table: &Rc<Table>, memtable: Memtable) -> Result<Written, String> {
    let simulation = Simulation::new(1, Faults::NONE);
    simulation.set_steps_max(u64::MAX);
    let table = table.clone();
    let done = simulation.run_on_node(async move |io| {
        let options = WriterOptions::of_table(&table, SSTableId(1), IoClass::Flush, memtable.stats().partitions);
        let options = WriterOptions { compression: Compression::Snappy, ..options };
        let before = Counters::now();
        let written = write(&io, options, &memtable).await;
        written.map(|()| Counters::now().since(before).cpu_ns).map_err(|error| error.to_string())
    });
    let cpu_ns = done.map_err(|halted| halted.to_string())??;
    Ok(Written { cpu_ns: cpu_ns as f64, simulation })
}

async fn write(io: &Io, options: WriterOptions, memtable: &Memtable) -> Result<(), SSTableError> {
    let all = [Slice::all()];
    let mut writer = Writer::create(io, Path::new(PATH), options).await?;
    for partition in memtable.partitions_from(PartitionBound::Start) {
        let mut cursor = partition.cursor(&all, false);
        writer.begin_partition(&cursor.start().expect("memory has no damage"));
        while let Some(fragment) = cursor.next().expect("memory has no damage") {
            writer.fragment(&fragment);
        }
        writer.end_partition();
        if writer.wants_settle() {
            writer.settle().await?;
        }
    }
    writer.finish().await.map(|_| ())
}

/// Reads everything once, so that every block is in the cache.
async fn warm(reader: &Reader, cache: &BlockCache) -> Result<(), SSTableError> {
    let mut misses = Misses::new();
    loop {
        match scan(reader, cache, &misses) {
            Ok(_) => return Ok(()),
            Err(ReadStop::Miss) => misses.load(cache).await?,
            Err(stop) => panic!("a file that was just written: {stop:?}"),
        }
    }
}

/// Rows in the file.
fn scan(reader: &Reader, cache: &BlockCache, misses: &Misses) -> Result<u64, ReadStop> {
    let (pins, slices) = (Pins::new(), [Slice::all()]);
    let view = View { cache, pins: &pins, misses };
    let mut scan = reader.scan(view, Token(i64::MIN), b"");
    let mut rows = 0;
    while let Some(mut cursor) = scan.partition(&slices, false)? {
        black_box(cursor.start()?);
        while let Some(fragment) = cursor.next()? {
            black_box(fragment);
            rows += 1;
        }
        scan.advance()?;
    }
    Ok(rows)
}

fn scan_ns(reader: &Reader, cache: &BlockCache) -> f64 {
    let misses = Misses::new();
    ns_each(PARTITIONS, || assert_eq!(scan(reader, cache, &misses), Ok(PARTITIONS), "all is cached"))
}

fn get_ns(reader: &Reader, cache: &BlockCache) -> f64 {
    const GETS: u64 = 50_000;
    let (misses, slices) = (Misses::new(), [Slice::all()]);
    let keys: Vec<Vec<u8>> = (0..GETS).map(|at| key(at * 7919 % PARTITIONS)).collect();
    let mut pins = Pins::new();
    ns_each(GETS, || {
        for key in &keys {
            pins.clear();
            let view = View { cache, pins: &pins, misses: &misses };
            let cursor = reader.partition(view, token_of(key), key, &slices, false).expect("all is cached");
            let mut cursor = cursor.expect("it was written");
            black_box(cursor.start().expect("all is cached"));
            black_box(cursor.next().expect("all is cached").expect("a row"));
        }
    })
}
