//! A whole shard over the simulated half of `io`: what was acknowledged is there after every kind of stop.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use super::*;
use crate::base::ids::{ColumnId, ShardId, StreamId};
use crate::commitlog::{LogConfig, ReplayOptions, SyncMode};
use crate::io::TaskClass;
use crate::io::sim::{DiskOp, Faults, Planned, Simulation};
use crate::mutation::page::{PageItem, PageView};
use crate::mutation::read::{Limits, Partitions, ReadCommand, Slice, TokenRange};
use crate::mutation::{MutationBuilder, MutationView, Stamp, set_server_timestamp};
use crate::schema::{Column, ColumnKind, Columns, SchemaOp, Table, TableOptions, clustering};
use crate::types::CqlType;

pub(super) const TABLE: TableId = TableId([9; 16]);

const PERIOD: Duration = Duration::from_secs(10);

/// `CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))` with gc_grace_seconds = 0.
pub(super) fn table() -> Table {
    let column = |id, name: &str, kind| Column { id: ColumnId(id), name: name.into(), ty: CqlType::Int, kind };
    Table {
        id: TABLE,
        keyspace: "ks".into(),
        name: "t".into(),
        version: 1,
        columns: Columns::new(vec![
            column(0, "k", ColumnKind::PartitionKey(0)),
            column(1, "c", ColumnKind::Clustering { position: 0, descending: false }),
            column(2, "v", ColumnKind::Regular),
        ]),
        dropped: Vec::new(),
        next_column_id: 3,
        options: TableOptions { gc_grace_seconds: 0, ..TableOptions::default() },
        is_counter: false,
    }
}

pub(super) fn config() -> ShardConfig {
    ShardConfig {
        data_dir: PathBuf::from("/data"),
        sstables_dir: PathBuf::from("/data/sstables"),
        snapshots_dir: PathBuf::from("/data/snapshots"),
        sharding: Sharding::new(1),
        layout: 1,
        memtable_bytes_max: 64 << 20,
        cache_bytes_max: 1 << 20,
        read_turn_places: READ_TURN_PLACES,
        disk_reserve_bytes: 0,
        mutation_bytes_max: 1 << 15,
        host_id: [7; 16],
        auto_snapshot: true,
        compact: true,
        planted: Planted::default(),
    }
}

pub(crate) async fn start(io: Io) -> Rc<Shard> {
    start_in(io, SyncMode::Batch).await
}

pub(super) async fn start_in(io: Io, mode: SyncMode) -> Rc<Shard> {
    start_with(io, config(), log(mode), &schema()).await
}

pub(super) fn log(mode: SyncMode) -> LogConfig {
    LogConfig { segment_bytes: 1 << 16, mode, ..LogConfig::default() }
}

/// The keyspace with the table.
pub(crate) fn schema() -> crate::schema::Schema {
    let mut schema = crate::schema::Schema::default();
    let replication = BTreeMap::new();
    schema.apply(&SchemaOp::PutKeyspace { name: "ks".into(), durable_writes: true, replication });
    schema.apply(&SchemaOp::PutTable(Box::new(table())));
    schema
}

pub(super) async fn start_with(
    io: Io,
    config: ShardConfig,
    log: LogConfig,
    schema: &crate::schema::Schema,
) -> Rc<Shard> {
    let fresh = !io.exists(&config.sstables_dir).await.expect("no fault");
    if fresh {
        io.create_dir_all(&config.sstables_dir).await.expect("no fault");
        io.create_dir_all(&PathBuf::from("/data/commitlog")).await.expect("no fault");
        io.create_dir_all(&config.snapshots_dir).await.expect("no fault");
        io.sync_dir(&PathBuf::from("/")).await.expect("no fault");
        io.sync_dir(&config.data_dir).await.expect("no fault");
        create_manifests(&io, &config).await.expect("no fault");
    }
    let shard = Shard::open(io, config, StreamId(1)).await.expect("a manifest");
    shard.open_tables(schema).await.expect("the SSTables open");
    let streams = LogStreams { dir: PathBuf::from("/data/commitlog"), own: StreamId(1), others: vec![], old: vec![] };
    let mut recovery = shard.replay(streams, ReplayOptions::default()).await.expect("the log replays");
    shard.open_log(&mut recovery, log).await.expect("the log opens");
    shard.finish_recovery(&mut recovery).await.expect("the batches complete");
    shard
}

fn clustering_key(c: i32) -> Vec<u8> {
    let mut key = Vec::new();
    clustering::push_component(&mut key, &c.to_be_bytes());
    key
}

pub(super) fn put(k: i32, c: i32, v: i32) -> Vec<u8> {
    put_value(k, c, &v.to_be_bytes())
}

/// A value may be longer than an int: `all_rows` reads its first four bytes.
pub(super) fn put_value(k: i32, c: i32, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    MutationBuilder::begin(&mut bytes, TABLE, 1, &k.to_be_bytes())
        .row(&clustering_key(c))
        .liveness(Stamp::Base(0), None)
        .cell(ColumnId(2), None, Stamp::Base(0), None, value);
    bytes
}

pub(super) fn delete_row(k: i32, c: i32, now_s: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    MutationBuilder::begin(&mut bytes, TABLE, 1, &k.to_be_bytes())
        .row(&clustering_key(c))
        .row_deletion(Stamp::Base(0), now_s);
    bytes
}

fn delete(k: i32, now_s: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    MutationBuilder::begin(&mut bytes, TABLE, 1, &k.to_be_bytes()).partition_deletion(Stamp::Base(0), now_s);
    bytes
}

pub(super) async fn write(shard: &Shard, mutations: Vec<Vec<u8>>) {
    let mut write = Write { mutations, ..Write::default() };
    shard.admit(&write, u64::MAX).await.expect("admitted");
    let applied = shard.when_room(NO_DEADLINE, || shard.apply(&mut write)).await.expect("applied");
    shard.acknowledged(applied).await.expect("acknowledged");
}

pub(crate) fn command(page_rows: u64) -> ReadCommand {
    ReadCommand {
        table: TABLE,
        now_s: 0,
        partitions: Partitions::Range(TokenRange { start_exclusive: None, end_inclusive: None }),
        slices: vec![Slice::all()],
        reversed: false,
        columns: vec![ColumnId(2)],
        filter: Vec::new(),
        distinct: false,
        static_only_rows: false,
        limits: Limits { rows: page_rows, per_partition: u64::MAX, page_bytes: usize::MAX },
        resume: None,
    }
}

/// Every row as (k, c, v), in pages of `page_rows`, sorted.
pub(super) async fn all_rows(shard: &Shard, page_rows: u64) -> Vec<(i32, i32, i32)> {
    let int = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().expect("an int"));
    let mut rows = Vec::new();
    let mut command = command(page_rows);
    loop {
        let page = shard.read(&command, u64::MAX).await.expect("a page");
        let mut view = PageView::new(&page.bytes);
        let mut k = 0;
        while let Some(item) = view.next_item().expect("whole") {
            match item {
                PageItem::Partition { key, .. } => k = int(key),
                PageItem::Static(_) => unreachable!("no statics"),
                PageItem::Row(row) => {
                    let c = clustering::components(row.clustering).next().map(int).expect("one component");
                    rows.push((k, c, int(&row.cells[0].value[..4])));
                }
            }
        }
        match page.resume {
            Some(resume) => command.resume = Some(resume),
            None => break,
        }
    }
    rows.sort_unstable();
    rows
}

pub(super) fn expected(ks: std::ops::Range<i32>) -> Vec<(i32, i32, i32)> {
    ks.flat_map(|k| (0..3).map(move |c| (k, c, k * 10 + c))).collect()
}

pub(super) async fn fill(shard: &Shard, ks: std::ops::Range<i32>) {
    for k in ks {
        write(shard, (0..3).map(|c| put(k, c, k * 10 + c)).collect()).await;
    }
}

#[test]
fn what_was_acknowledged_survives_a_crash_flushed_or_not() {
    for seed in 0..20 {
        let sim = Simulation::new(seed, Faults::NONE);
        sim.run_on_node(|io| async move {
            let shard = start(io).await;
            fill(&shard, 0..10).await;
            shard.flush(None).await.expect("flushed");
            fill(&shard, 10..20).await;
            assert_eq!(all_rows(&shard, 7).await, expected(0..20));
        })
        .expect("runs");
        sim.crash();
        sim.run_on_node(|io| async move {
            let shard = start(io).await;
            assert_eq!(all_rows(&shard, 4).await, expected(0..20), "seed {seed}");
            fill(&shard, 20..30).await;
        })
        .expect("runs");
        sim.crash();
        sim.run_on_node(|io| async move {
            let shard = start(io).await;
            assert_eq!(all_rows(&shard, 1000).await, expected(0..30), "seed {seed}");
        })
        .expect("runs");
    }
}

#[test]
fn what_was_deleted_stays_deleted_through_compaction_and_crash() {
    for seed in 0..20 {
        let sim = Simulation::new(seed, Faults::NONE);
        sim.run_on_node(|io| async move {
            let shard = start(io.clone()).await;
            fill(&shard, 0..10).await;
            shard.flush(None).await.expect("flushed");
            for k in 0..5 {
                write(&shard, vec![delete(k, io.wall_us() / 1_000_000 - 10)]).await;
            }
            shard.compact(None).await.expect("compacted");
            let store = shard.store(TABLE).expect("the table");
            assert_eq!(store.sstables().len(), 1);
            assert_eq!(store.sstables()[0].statistics().tombstones, 0, "gc_grace is 0 and nothing older is left");
            assert_eq!(all_rows(&shard, 3).await, expected(5..10));
        })
        .expect("runs");
        sim.crash();
        sim.run_on_node(|io| async move {
            let shard = start(io).await;
            assert_eq!(all_rows(&shard, 3).await, expected(5..10), "seed {seed}");
        })
        .expect("runs");
    }
}

#[test]
fn a_clean_stop_records_the_logs_end() {
    let sim = Simulation::new(3, Faults::NONE);
    sim.run_on_node(|io| async move {
        let shard = start(io).await;
        fill(&shard, 0..4).await;
        shard.close().await.expect("closed");
        let mut late = Write { mutations: vec![put(1, 1, 1)], ..Write::default() };
        assert_eq!(shard.admit(&late, u64::MAX).await, Err(WriteError::Stopping));
        assert_eq!(shard.apply(&mut late), Err(WriteError::Stopping));
    })
    .expect("runs");
    sim.crash();
    sim.run_on_node(|io| async move {
        let shard = start(io).await;
        assert!(shard.manifest.current().log_ends.contains_key(&StreamId(1)));
        assert_eq!(all_rows(&shard, 10).await, expected(0..4));
    })
    .expect("runs");
}

#[test]
fn a_batch_on_one_shard_is_one_record() {
    let sim = Simulation::new(4, Faults::NONE);
    sim.run_on_node(|io| async move {
        let shard = start(io).await;
        let before = shard.log().stats().records;
        write(&shard, (0..5).map(|k| put(k, 0, k * 10)).collect()).await;
        assert_eq!(shard.log().stats().records, before + 1);
    })
    .expect("runs");
}

/// A batch over several shards is stamped by whichever clock is ahead. The other owners give no lower timestamp after
/// it, before a restart and after; what a client's clock says moves none.
#[test]
fn no_clock_falls_behind_what_another_shard_gave() {
    const AHEAD_US: i64 = 9_000_000_000_000_000;
    let sim = Simulation::new(6, Faults::NONE);
    sim.run_on_node(|io| async move {
        let shard = start(io).await;
        let mut part = put(1, 1, 1);
        set_server_timestamp(&mut part, AHEAD_US);
        let mut part = Write { mutations: vec![part], timestamp: Some(AHEAD_US) };
        shard.apply(&mut part).expect("applied");
        let mut clients = Write { mutations: vec![put(2, 1, 2)], timestamp: Some(i64::MAX) };
        shard.apply(&mut clients).expect("applied");
        let mut deletion = Write { mutations: vec![delete(1, 0)], ..Write::default() };
        let applied = shard.apply(&mut deletion).expect("applied");
        assert_eq!(applied.timestamp, AHEAD_US + 1);
        shard.acknowledged(applied).await.expect("acknowledged");
        assert_eq!(all_rows(&shard, 10).await, [(2, 1, 2)]);
    })
    .expect("runs");
    sim.crash();
    sim.run_on_node(|io| async move { assert_eq!(start(io).await.reserve_timestamp(0), AHEAD_US + 2) }).expect("runs");
}

/// Between a batch's timestamp and its part's coming, what this shard's clients are told is newer than the batch, and a
/// tombstone that could cover the part is kept.
#[test]
fn a_part_that_comes_late_does_not_win_over_what_was_answered_before_it() {
    let sim = Simulation::new(8, Faults::NONE);
    sim.run_on_node(|io| async move {
        let shard = start(io.clone()).await;
        let timestamp = shard.reserve_timestamp(io.wall_us() + 1_000_000);
        let batch = BatchId { coordinator: ShardId(1), number: 0 };
        shard.expect_batch(ExpectedBatch { timestamp, is_servers: true, logged: Some(batch) });
        let mut deletion = Write { mutations: vec![delete(1, 0)], ..Write::default() };
        assert_eq!(shard.apply(&mut deletion).expect("applied").timestamp, timestamp + 1);
        shard.compact(Some(&[TABLE])).await.expect("compacted");
        let mut part = Write { mutations: vec![put(1, 0, 1)], timestamp: Some(timestamp) };
        shard.apply(&mut part).expect("applied");
        assert_eq!(all_rows(&shard, 10).await, [], "the deletion was answered after the batch got its timestamp");
        shard.release_purges(&[PurgeHold { timestamp, batch }]);
        shard.compact(Some(&[TABLE])).await.expect("compacted");
        assert_eq!(all_rows(&shard, 10).await, []);
    })
    .expect("runs");
}

/// A flush that overtakes the log's sync waits for it: else a crash would lose the intent of a batch and keep the part
/// that was flushed.
#[test]
fn nothing_is_durable_in_an_sstable_before_the_log() {
    let sim = Simulation::new(7, Faults::NONE);
    let seen = sim.run_on_node(|io| async move {
        let shard = start_in(io, SyncMode::Periodic { period: std::time::Duration::from_secs(10) }).await;
        let mut batch = Write { mutations: vec![put(1, 0, 1), put(2, 0, 2)], ..Write::default() };
        let applied = shard.apply(&mut batch).expect("applied");
        let end = applied.logged.expect("logged");
        assert!(shard.log().durable_position() < end, "not synced yet");
        let sstables = shard.store(TABLE).expect("there").sstables().len();
        let mut flush = Box::pin(shard.flush(Some(&[TABLE])));
        std::future::poll_fn(|context| {
            let done = flush.as_mut().poll(context);
            let flushed = shard.store(TABLE).expect("there").sstables().len() > sstables;
            assert!(!flushed || shard.log().durable_position() >= end, "the SSTable counts before its log is synced");
            done
        })
        .await
        .expect("flushed");
        shard.manifest.current().tables[&TABLE].sstables.len()
    });
    assert_eq!(seen.expect("runs"), 1);
}

#[test]
fn an_attempt_is_made_again_while_the_log_is_behind_and_only_then() {
    let sim = Simulation::new(12, Faults::NONE);
    let ran = sim.run_on_node(|io| async move {
        let shard = start(io).await;
        let mut answers = vec![Ok(3), Err(WriteError::Busy), Err(WriteError::Busy)];
        assert_eq!(shard.when_room(NO_DEADLINE, || answers.pop().expect("not asked after an answer")).await, Ok(3));
        let mut answers = vec![Ok(3), Err(WriteError::Stopping), Err(WriteError::Busy)];
        assert_eq!(
            shard.when_room(NO_DEADLINE, || answers.pop().expect("not asked after an answer")).await,
            Err(WriteError::Stopping)
        );
    });
    ran.expect("runs");
}

fn apply_at_once(shard: &Shard, mutation: &mut [u8]) -> Option<Applied> {
    let token = MutationView::parse(mutation).expect("a mutation").token();
    shard.apply_at_once(mutation, token, None, shard.io.wall_us())
}

/// Writes that are done at once are told acknowledged one after the other, none before the log has it.
#[test]
fn what_is_written_at_once_is_acknowledged_in_order() {
    for (seed, mode) in
        (0..30).flat_map(|seed| [(seed, SyncMode::Batch), (seed, SyncMode::Periodic { period: PERIOD })])
    {
        let sim = Simulation::new(seed, Faults::NONE);
        let ran = sim.run_on_node(move |io| async move {
            let shard = start_in(io.clone(), mode).await;
            let (mut wait, mut told) = (None, 0);
            let mut ends = std::collections::VecDeque::new();
            for v in 0..200 {
                let mut mutation = put(1, v, v);
                let applied = loop {
                    match apply_at_once(&shard, &mut mutation) {
                        Some(applied) => break applied,
                        // The log has no room yet.
                        None => io.yield_now().await,
                    }
                };
                ends.push_back(applied.logged.expect("logged"));
                if io.random_u64() % 3 > 0 {
                    continue;
                }
                std::future::poll_fn(|context| {
                    while let Some(end) = ends.front().copied()
                        && let Poll::Ready(outcome) = shard.poll_acknowledged(end, &mut wait, context)
                    {
                        outcome.expect("no fault");
                        assert!(end <= shard.log().acknowledged_position(), "told before the log has it");
                        ends.pop_front();
                        told += 1;
                    }
                    let is_enough = ends.len() < 5;
                    if is_enough { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
            assert!(told >= 150, "{told} were told");
            assert_eq!(all_rows(&shard, 50).await.len(), 200);
        });
        ran.expect("runs");
    }
}

/// What would have to wait, or is refused, is not begun.
#[test]
fn what_cannot_be_written_at_once_is_left() {
    let sim = Simulation::new(4, Faults::NONE);
    let ran = sim.run_on_node(|io| async move {
        let config = ShardConfig { memtable_bytes_max: 1, ..config() };
        let shard = start_with(io, config, log(SyncMode::Batch), &schema()).await;
        assert!(apply_at_once(&shard, &mut put_value(1, 1, &[7; 40_000])).is_none(), "larger than a mutation may be");
        fill(&shard, 0..1).await;
        assert!(apply_at_once(&shard, &mut put(1, 1, 1)).is_none(), "there is no room in memory");
        assert_eq!(all_rows(&shard, 10).await, expected(0..1));
        shard.close().await.expect("closed");
        assert!(apply_at_once(&shard, &mut put(1, 1, 1)).is_none(), "the shard stops");
    });
    ran.expect("runs");
}

/// Writes that wait for memory wait for flushes: they do not wait past their deadline, nor once the log has failed, after
/// which nothing is flushed. What is told so is not done later.
#[test]
fn nothing_waits_for_memory_for_ever() {
    let sim = Simulation::new(21, Faults::NONE);
    let write = || Write { mutations: vec![put(1, 1, 1)], ..Write::default() };
    let started = sim.run_on_node(|io| async move {
        let config = ShardConfig { memtable_bytes_max: 1, ..config() };
        let shard = start_with(io.clone(), config, log(SyncMode::Batch), &schema()).await;
        fill(&shard, 0..1).await;
        let deadline_ns = io.now_ns() + 1_000_000;
        assert_eq!(shard.admit(&write(), deadline_ns).await, Err(WriteError::Overloaded));
        assert!(io.now_ns() >= deadline_ns);
        let busy = || Err::<(), _>(WriteError::Busy);
        assert_eq!(shard.when_room(deadline_ns, busy).await, Err(WriteError::Overloaded));
        shard
    });
    let shard = started.expect("runs");
    sim.plan_fault(Planned { op: DiskOp::Write, path_contains: "commitlog".into(), after: 0, errno: 5 });
    let ran = sim.run_on_node(|io| async move {
        let failing = shard.clone();
        io.spawn(TaskClass::Foreground, async move {
            failing.apply(&mut write()).expect("in memory");
        });
        assert!(matches!(shard.admit(&write(), NO_DEADLINE).await, Err(WriteError::LogFailed(_))));
        assert!(matches!(shard.flush(None).await, Err(ShardError::LogFailed(_))));
        let left = io.list_dir(&shard.config.sstables_dir).await.expect("no fault");
        assert!(left.is_empty(), "{left:?}");
    });
    ran.expect("runs");
}

/// A flush that cannot be finished leaves no file behind, however often it is tried.
#[test]
fn flushes_that_fail_leave_no_files() {
    for op in [DiskOp::Write, DiskOp::Sync, DiskOp::SyncDir, DiskOp::Read] {
        let sim = Simulation::new(22, Faults::NONE);
        let started = sim.run_on_node(|io| async move {
            let shard = start(io).await;
            fill(&shard, 0..3).await;
            shard
        });
        let shard = started.expect("runs");
        sim.plan_fault(Planned { op, path_contains: "/data/sstables".into(), after: 0, errno: 28 });
        let ran = sim.run_on_node(|io| async move {
            assert!(shard.flush(None).await.is_err(), "{op:?}");
            let left = io.list_dir(&shard.config.sstables_dir).await.expect("no fault");
            assert!(left.is_empty(), "{op:?}: {left:?}");
            shard.flush(None).await.expect("there is space again");
            assert_eq!(all_rows(&shard, 10).await, expected(0..3));
        });
        ran.expect("runs");
    }
}

/// What a flush that failed has frozen still takes memory: once there is space it is what makes room.
#[test]
fn memory_that_a_failed_flush_holds_is_flushed_again() {
    let sim = Simulation::new(9, Faults::NONE);
    sim.plan_fault(Planned { op: DiskOp::Write, path_contains: "sst-".into(), after: 0, errno: 28 });
    sim.run_on_node(|io| async move {
        let shard = start(io).await;
        fill(&shard, 0..3).await;
        let store = shard.store(TABLE).expect("the table");
        assert!(shard.flush_table(&store).await.is_err(), "no space");
        assert!(store.active().is_empty());
        let largest = shard.largest_in_memory().expect("the frozen memtable is there");
        assert_eq!(largest.id(), TABLE);
        shard.flush_table(&largest).await.expect("there is space again");
        assert!(shard.largest_in_memory().is_none());
        assert_eq!(all_rows(&shard, 10).await, expected(0..3));
    })
    .expect("runs");
}
