//! The log as a whole over the simulated disk: crashes, torn and lost blocks, damage at every byte, failed syncs, a full
//! disk, recycled segments.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::base::ids::{LogPosition, SegmentId, StreamId, TableId};
use crate::io::Io;
use crate::io::sim::{DiskOp, Faults, Planned, Simulation};

mod crashes;
mod damage;
mod real;
mod trouble;

const STREAM: StreamId = StreamId(3);
const TABLE: TableId = TableId([9; 16]);
const TABLES: [TableRef; 1] = [TableRef { table: TABLE, schema_version: 1 }];

fn dir() -> &'static Path {
    Path::new("/commitlog")
}

struct OneSchema;

impl TableSchemas for OneSchema {
    fn table_schema(&self, table: TableRef) -> Option<Rc<[u8]>> {
        (table.schema_version == 1).then(|| Rc::from(b"a schema".as_slice()))
    }
}

/// Small segments, so that a test crosses many.
fn config(mode: SyncMode) -> LogConfig {
    LogConfig { segment_bytes: 16384, block_bytes: 4096, mode, ..LogConfig::default() }
}

fn periodic() -> SyncMode {
    SyncMode::Periodic { period: Duration::from_secs(10) }
}

/// What a replay gave: the mutations' positions and bodies, and the rest.
struct Recovered {
    mutations: Vec<(LogPosition, Vec<u8>)>,
    schemas: usize,
    replayed: Replayed,
}

impl Recovered {
    fn bodies(&self) -> Vec<Vec<u8>> {
        self.mutations.iter().map(|(_, body)| body.clone()).collect()
    }
}

async fn recover(io: Io, options: ReplayOptions) -> Result<Recovered, ReplayError> {
    let mut replay = Replay::open(io, dir(), STREAM, options).await?;
    let (mut mutations, mut schemas) = (Vec::new(), 0);
    while let Some(record) = replay.next().await? {
        match record.kind {
            RecordKind::Mutation => mutations.push((record.position, record.body.to_vec())),
            RecordKind::TableSchema => schemas += 1,
            RecordKind::End => continue,
            other => panic!("nobody wrote a {other:?}"),
        }
        let position = record.position;
        if mutations.last().is_some_and(|(last, _)| *last == position) {
            replay.mark_dirty(TABLE, position);
        }
    }
    Ok(Recovered { mutations, schemas, replayed: replay.finish() })
}

async fn open(io: Io, config: LogConfig, inherited: Inherited) -> Result<Rc<CommitLog>, LogError> {
    io.create_dir_all(dir()).await?;
    io.sync_dir(Path::new("/")).await?;
    CommitLog::open(io, dir(), STREAM, config, Rc::new(OneSchema), inherited).await
}

/// Appends, waiting for room as often as it takes.
async fn append(log: &CommitLog, body: &[u8]) -> Result<Ticket, LogError> {
    loop {
        match log.append(RecordKind::Mutation, &TABLES, &[body]) {
            Err(LogError::Busy) => log.room().await?,
            other => return other,
        }
    }
}

fn recovered(sim: &Simulation, options: ReplayOptions) -> Result<Recovered, ReplayError> {
    sim.run_on_node(move |io| recover(io, options)).unwrap()
}

/// A log that was written and closed: its records, and where it ends.
fn written_and_closed(sim: &Simulation, config: LogConfig, bodies: Vec<Vec<u8>>) -> LogPosition {
    let end = sim
        .run_on_node(|io| async move {
            let log = open(io, config, Inherited::nothing()).await.unwrap();
            for body in &bodies {
                let ticket = append(&log, body).await.unwrap();
                log.wait_acknowledged(ticket.end).await.unwrap();
            }
            log.close().await.unwrap()
        })
        .unwrap();
    sim.run_until_idle().unwrap();
    sim.crash();
    end
}

#[test]
fn what_is_written_is_read_back_in_order() {
    for mode in [periodic(), SyncMode::Batch, SyncMode::Group { window: Duration::from_millis(10) }] {
        let sim = Simulation::new(1, Faults::NONE);
        let bodies: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n; usize::from(n) * 50]).collect();
        let end = written_and_closed(&sim, config(mode), bodies.clone());
        let options = ReplayOptions { known_end: Some(end), ..ReplayOptions::default() };
        let back = recovered(&sim, options).unwrap();
        assert_eq!(back.bodies(), bodies);
        assert_eq!(back.replayed.tail, Tail::Clean);
        assert_eq!(back.replayed.inherited.end, end);
        let segments = back.replayed.inherited.segments.len();
        assert!(segments > 2 && back.schemas == segments, "each segment brings its schema: {}", back.schemas);
    }
}

/// CASSANDRA-13282 and its like: a record that ends anywhere near the end of a block or of a segment.
#[test]
fn records_of_every_size_around_the_ends_of_blocks_and_segments() {
    let header = format::BLOCK_HEADER_BYTES + format::RECORD_HEADER_BYTES;
    let sizes = [4096 - header, 2 * 4096 - header].into_iter().flat_map(|edge| edge - 60..edge + 8);
    for size in sizes.chain([8192]) {
        let sim = Simulation::new(size as u64, Faults::NONE);
        let bodies: Vec<Vec<u8>> = (0..9u8).map(|n| vec![n; size]).collect();
        written_and_closed(&sim, config(periodic()), bodies.clone());
        let back = recovered(&sim, ReplayOptions::default()).unwrap();
        assert_eq!(back.bodies(), bodies, "size {size}");
    }
}

#[test]
fn limits_and_unknown_schemas_are_errors_and_append_nothing() {
    let sim = Simulation::new(5, Faults::NONE);
    let (bodies, refused) = sim
        .run_on_node(|io| async move {
            let log = open(io.clone(), config(periodic()), Inherited::nothing()).await.unwrap();
            let before = log.position();
            let too_large = log.append(RecordKind::Mutation, &TABLES, &[&[0; 8000], &[0; 193]]).unwrap_err();
            let newer = TableRef { table: TABLE, schema_version: 2 };
            let unknown = log.append(RecordKind::Mutation, &[newer], &[b"x"]).unwrap_err();
            assert_eq!(log.position(), before);
            append(&log, b"fine").await.unwrap();
            log.close().await.unwrap();
            let closed = log.append(RecordKind::Mutation, &TABLES, &[b"late"]).unwrap_err();
            (recover(io, ReplayOptions::default()).await.unwrap().bodies(), [too_large, unknown, closed])
        })
        .unwrap();
    assert_eq!(bodies, [b"fine".to_vec()]);
    assert!(matches!(refused[0], LogError::TooLarge { bytes: 8193, bytes_max: 8192 }));
    assert!(matches!(refused[1], LogError::UnknownSchema { version: 2, .. }));
    assert!(matches!(refused[2], LogError::Closed));
}

#[test]
fn records_of_one_pass_share_a_block() {
    let sim = Simulation::new(6, Faults::NONE);
    let blocks = sim
        .run_on_node(|io| async move {
            let log = open(io, config(periodic()), Inherited::nothing()).await.unwrap();
            let mut last = None;
            for n in 0..20u8 {
                last = Some(log.append(RecordKind::Mutation, &TABLES, &[&[n; 20]]).unwrap());
            }
            log.wait_acknowledged(last.unwrap().end).await.unwrap();
            let blocks = log.stats().blocks;
            log.close().await.unwrap();
            blocks
        })
        .unwrap();
    assert_eq!(blocks, 1);
}

#[test]
fn a_wait_for_a_sync_does_not_wait_for_the_period() {
    let sim = Simulation::new(7, Faults::NONE);
    let took_ns = sim
        .run_on_node(|io| async move {
            let log = open(io.clone(), config(periodic()), Inherited::nothing()).await.unwrap();
            let started_ns = io.now_ns();
            let ticket = append(&log, b"serial").await.unwrap();
            log.wait_synced(ticket.end).await.unwrap();
            assert!(log.durable_position() >= ticket.end);
            io.now_ns() - started_ns
        })
        .unwrap();
    assert!(took_ns < 1_000_000_000, "{took_ns} ns");
}

#[test]
fn flushed_segments_are_used_again_and_an_idle_table_is_named() {
    let sim = Simulation::new(8, Faults::NONE);
    sim.run_on_node(|io| async move {
        let config = LogConfig { total_bytes: 4 * 16384, ..config(periodic()) };
        let log = open(io, config, Inherited::nothing()).await.unwrap();
        let idle = TableRef { table: TableId([1; 16]), schema_version: 1 };
        let first = log.append(RecordKind::Mutation, &[idle], &[b"idle"]).unwrap();
        let mut from = LogPosition::ZERO;
        for n in 0..60u8 {
            append(&log, &[n; 3000]).await.unwrap();
            log.sync().await.unwrap();
            log.mark_flushed(TABLE, from, log.position());
            from = log.position();
        }
        assert_eq!(log.pressure(), [(idle.table, first.position)]);
        let pin = log.pin(first.position).unwrap();
        log.mark_flushed(idle.table, first.position, first.end);
        assert!(log.live_bytes() > 4 * 16384, "an open intent holds its segment");
        drop(pin);
        assert!(log.pressure().is_empty() && log.live_bytes() <= 2 * 16384);
        for n in 0..60u8 {
            append(&log, &[n; 3000]).await.unwrap();
            log.sync().await.unwrap();
            log.mark_flushed(TABLE, from, log.position());
        }
        assert!(log.stats().segments_recycled > 5, "{:?}", log.stats());
        log.close().await.unwrap();
    })
    .unwrap();
    sim.run_until_idle().unwrap();
    assert!(sim.disk().files().len() <= 6, "{:?}", sim.disk().files());
}
