//! Compactions of whole files on the simulated disk.

#![expect(clippy::unwrap_used, reason = "tests")]

mod faults;
mod merging;

use std::cell::Cell as Flag;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::base::ids::{TimestampMicros, Token};
use crate::io::Io;
use crate::io::sim::{Faults, Simulation};
use crate::mutation::merge::Merge;
use crate::mutation::owned::{OwnedFragment, OwnedPartition, OwnedRow};
use crate::mutation::read::TokenRange;
use crate::mutation::{Cell, DeletionTime, Fragment, Row};
use crate::schema::{DroppedColumn, Table};
use crate::sstable::tests::{
    PLAIN, SET, cell, change, deletion, open, partition, partitions, row, scan, simulate, sorted, table, text, texts,
    written,
};
use crate::sstable::{BlockCache, Reader, SSTableError, SSTableId, verify};
use crate::types::CqlType;

/// Long after everything in the tests expired and gc_grace passed.
const LATE_S: i64 = 10_000_000;

/// All files outside the compaction.
struct Others(Vec<Rc<Reader>>);

impl PurgeGate for Others {
    fn max_purgeable_timestamp(&self, token: Token, _key: &[u8]) -> TimestampMicros {
        oldest_in(&self.0, token)
    }
}

async fn run(
    io: &Io,
    (table, inputs): (&Table, &[Rc<Reader>]),
    output: u64,
    now_s: i64,
    gate: &dyn PurgeGate,
) -> Result<Outcome, SSTableError> {
    let (output_path, stop) = (format!("/{output}.sst").into(), Flag::new(false));
    compact(io, Job { table, inputs, output: SSTableId(output), output_path, now_s, gate, stop: &stop }).await
}

/// The output's reader, checked, and all that is in it.
async fn contents(io: &Io, outcome: &Outcome) -> (Option<Rc<Reader>>, Vec<OwnedPartition>) {
    let Some(info) = &outcome.output else { return (None, Vec::new()) };
    let reader = open(io, info.id.0, &info.path.to_string_lossy()).await.unwrap();
    verify(io, &reader).await.unwrap();
    let all = scan(&reader, &BlockCache::new(1 << 20), (Token(i64::MIN), b""), false).await.unwrap();
    (Some(Rc::new(reader)), all)
}

/// Each key's partition, merged from all that hold it; without what is empty.
fn merged(files: &[Vec<OwnedPartition>]) -> Vec<OwnedPartition> {
    let keys: BTreeSet<_> = files.iter().flatten().map(|partition| (partition.token, partition.key.clone())).collect();
    let table = table();
    let order = table.clustering_order();
    let of_key = |(_, key): &(Token, Vec<u8>)| {
        let sources = files.iter().flatten().filter(|partition| partition.key == *key).map(OwnedPartition::cursor);
        OwnedPartition::read(Merge::new(order, false, sources)).unwrap()
    };
    let is_empty = |partition: &OwnedPartition| {
        partition.deletion.is_live() && partition.static_row.is_none() && partition.fragments.is_empty()
    };
    keys.iter().map(of_key).filter(|partition| !is_empty(partition)).collect()
}

/// What a read of all files at `LATE_S` shows: live rows with their live cells.
fn visible(files: &[Vec<OwnedPartition>]) -> Vec<String> {
    let mut shown = Vec::new();
    let mut show = |key: &[u8], mut row: Row<'_>| {
        row.cells.retain(|cell| cell.is_live(LATE_S));
        if row.is_live(LATE_S) {
            let liveness = row.liveness.is_live(LATE_S).then_some(row.liveness);
            shown.push(format!("{key:?} {:?} {liveness:?} {:?}", row.clustering, row.cells));
        }
    };
    for partition in merged(files) {
        if let Some(row) = &partition.static_row {
            show(&partition.key, row.borrow());
        }
        for fragment in &partition.fragments {
            if let Fragment::Row(row) = fragment.borrow() {
                show(&partition.key, row);
            }
        }
    }
    shown
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_compaction_that_keeps_all_is_the_merge(files in proptest::collection::vec(partitions(), 1..4)) {
        simulate(async move |io| {
            let mut inputs = Vec::new();
            for (n, file) in files.iter().enumerate() {
                inputs.push(written(&io, n as u64, file).await.unwrap());
            }
            let outcome = run(&io, (&table(), &inputs), 9, 0, &KeepAll).await.unwrap();
            let (_, got) = contents(&io, &outcome).await;
            assert_eq!(texts(&got), texts(&merged(&files)));
        });
    }

    #[test]
    fn compactions_of_some_files_resurrect_nothing(
        mut files in proptest::collection::vec(partitions(), 2..5),
        picks in proptest::collection::vec(any::<u8>(), 3),
    ) {
        simulate(async move |io| {
            let wanted = visible(&files);
            let mut readers = Vec::new();
            for (n, file) in files.iter().enumerate() {
                readers.push(written(&io, n as u64, file).await.unwrap());
            }
            for (round, pick) in picks.into_iter().enumerate() {
                let is_chosen = |n: usize| pick & (1 << n) != 0;
                let split = |chosen: bool| readers.iter().enumerate().filter(move |(n, _)| is_chosen(*n) == chosen);
                let inputs: Vec<_> = split(true).map(|(_, reader)| reader.clone()).collect();
                let others = Others(split(false).map(|(_, reader)| reader.clone()).collect());
                let outcome = run(&io, (&table(), &inputs), 10 + round as u64, LATE_S, &others).await.unwrap();
                let (reader, got) = contents(&io, &outcome).await;
                files = (0..files.len()).filter(|n| !is_chosen(*n)).map(|n| std::mem::take(&mut files[n])).collect();
                readers = others.0;
                readers.extend(reader);
                if outcome.output.is_some() {
                    files.push(got);
                }
                assert_eq!(visible(&files), wanted, "after round {round}");
            }
            let outcome = run(&io, (&table(), &readers), 99, LATE_S, &Others(Vec::new())).await.unwrap();
            let (reader, got) = contents(&io, &outcome).await;
            assert_eq!(visible(&[got]), wanted);
            if let Some(reader) = reader {
                let statistics = reader.statistics();
                assert_eq!((statistics.tombstones, statistics.expiring), (0, 0), "nothing older is anywhere");
            }
        });
    }
}

fn late_table() -> Table {
    let mut table = table();
    table.options.gc_grace_seconds = 100;
    table
}

fn tombstone(components: &[i32], timestamp: i64, local_deletion_s: i64) -> OwnedFragment {
    let clustering = crate::sstable::tests::prefix(components);
    let mut row = Row::new(&clustering);
    row.deletion = DeletionTime { timestamp, local_deletion_s };
    OwnedFragment::Row(OwnedRow::copy(&row))
}

#[test]
fn a_tombstone_waits_for_gc_grace_and_for_what_is_older_elsewhere() {
    simulate(async |io| {
        let dead = written(&io, 1, &[partition(b"k", vec![tombstone(&[1, 1], 50, 1000)])]).await.unwrap();
        let older = written(&io, 2, &[partition(b"k", vec![row(&[1, 1], 40, b"old")])]).await.unwrap();
        let newer = written(&io, 3, &[partition(b"k", vec![row(&[1, 1], 60, b"new")])]).await.unwrap();
        let elsewhere = written(&io, 4, &[partition(b"other", vec![row(&[1, 1], 1, b"old")])]).await.unwrap();
        let table = late_table();
        let mut output = 10;
        let mut stays = async |others: &[&Rc<Reader>], now_s| {
            output += 1;
            let gate = Others(others.iter().map(|reader| Rc::clone(reader)).collect());
            run(&io, (&table, std::slice::from_ref(&dead)), output, now_s, &gate).await.unwrap().output.is_some()
        };
        assert!(stays(&[], 1000).await, "just deleted");
        assert!(stays(&[], 1100).await, "the last second of gc_grace");
        assert!(!stays(&[], 1101).await);
        assert!(stays(&[&older], 5000).await, "something older may hide below it");
        assert!(!stays(&[&newer], 5000).await);
        assert!(!stays(&[&elsewhere], 5000).await, "the filter knows that the partition is not there");
    });
}

#[test]
fn a_purged_tombstone_still_covers_the_inputs() {
    simulate(async |io| {
        let fragments = vec![change(&[1], -1, deletion(50)), change(&[1], 1, DeletionTime::LIVE)];
        let newer = written(&io, 1, &[partition(b"k", fragments)]).await.unwrap();
        let older = vec![row(&[1, 1], 40, b"covered"), row(&[2, 1], 40, b"free")];
        let older = written(&io, 2, &[partition(b"k", older)]).await.unwrap();
        let outcome = run(&io, (&table(), &[newer, older]), 9, LATE_S, &Others(Vec::new())).await.unwrap();
        let (_, got) = contents(&io, &outcome).await;
        assert_eq!(texts(&got), [text(&partition(b"k", vec![row(&[2, 1], 40, b"free")]))]);
        assert_eq!((outcome.rows_read, outcome.rows_written, outcome.partitions_written), (2, 1, 1));
    });
}

#[test]
fn what_expired_becomes_a_tombstone_until_it_may_go() {
    simulate(async |io| {
        let clustering = crate::sstable::tests::prefix(&[1, 1]);
        let mut expiring = Row::new(&clustering);
        expiring.cells.push(Cell { ttl_s: 60, local_deletion_s: 1060, ..cell(PLAIN, 5, b"value") });
        let file = partition(b"k", vec![OwnedFragment::Row(OwnedRow::copy(&expiring))]);
        let input = [written(&io, 1, &[file]).await.unwrap()];
        let table = late_table();
        let at = async |output, now_s| {
            let outcome = run(&io, (&table, &input), output, now_s, &Others(Vec::new())).await.unwrap();
            let (_, got) = contents(&io, &outcome).await;
            got.first().map(|partition| match partition.fragments[0].borrow() {
                Fragment::Row(row) => (row.cells[0].ttl_s, row.cells[0].local_deletion_s, row.cells[0].value.len()),
                Fragment::Change(_) => unreachable!("only a row went in"),
            })
        };
        assert_eq!(at(10, 1059).await, Some((60, 1060, 5)), "alive");
        assert_eq!(at(11, 1060).await, Some((0, 1000, 0)), "expired: a tombstone from when it was written");
        assert_eq!(at(12, 1101).await, None, "gc_grace counts from when it was written");
    });
}

#[test]
fn cells_of_a_dropped_column_go_and_those_of_an_unknown_one_stay() {
    simulate(async |io| {
        let clustering = crate::sstable::tests::prefix(&[1, 1]);
        let mut both = Row::new(&clustering);
        both.complex.push((SET, deletion(3)));
        both.cells.push(cell(PLAIN, 5, b"dropped"));
        both.cells.push(Cell { path: Some(b"p"), ..cell(SET, 5, b"") });
        both.cells.push(cell(crate::base::ids::ColumnId(500), 5, b"added since"));
        let input =
            [written(&io, 1, &[partition(b"k", vec![OwnedFragment::Row(OwnedRow::copy(&both))])]).await.unwrap()];
        let mut table = table();
        let dropped = |id, name: &str, ty| DroppedColumn { id, name: name.into(), ty, is_static: false, dropped_at: 1 };
        table.dropped =
            vec![dropped(SET, "c", CqlType::Set(Box::new(CqlType::Blob))), dropped(PLAIN, "v", CqlType::Blob)];
        let outcome = run(&io, (&table, &input), 9, 0, &KeepAll).await.unwrap();
        let (_, got) = contents(&io, &outcome).await;
        let Fragment::Row(row) = got[0].fragments[0].borrow() else { panic!("a row") };
        assert!(row.complex.is_empty());
        assert_eq!(row.cells.iter().map(|cell| cell.value).collect::<Vec<_>>(), [b"added since"]);
    });
}

#[test]
fn partitions_of_other_owners_are_left_out() {
    simulate(async |io| {
        let all = sorted((0..30u8).map(|key| partition(&[key], vec![row(&[1, 1], 5, &[key; 50])])).collect());
        written(&io, 1, &all).await.unwrap();
        let mut shared = open(&io, 1, "/1.sst").await.unwrap();
        shared.restrict(vec![TokenRange { start_exclusive: Some(all[9].token), end_inclusive: Some(all[19].token) }]);
        let own = written(&io, 2, &[all[5].clone(), all[15].clone()]).await.unwrap();
        let outcome = run(&io, (&table(), &[Rc::new(shared), own]), 9, 0, &KeepAll).await.unwrap();
        let (_, got) = contents(&io, &outcome).await;
        let mut wanted = texts(&all[5..6]);
        wanted.extend(texts(&all[10..20]));
        assert_eq!(texts(&got), wanted);
    });
}

fn many() -> Vec<OwnedPartition> {
    sorted((0..60u8).map(|key| partition(&[key], (0..40).map(|a| row(&[a, 1], 5, &[key; 50])).collect())).collect())
}

#[test]
fn a_stopped_compaction_leaves_its_inputs_and_nothing_else() {
    simulate(async |io| {
        let inputs = [written(&io, 1, &many()).await.unwrap()];
        let stop = Flag::new(true);
        let job = Job {
            table: &table(),
            inputs: &inputs,
            output: SSTableId(9),
            output_path: "/9.sst".into(),
            now_s: 0,
            gate: &KeepAll,
            stop: &stop,
        };
        assert!(matches!(compact(&io, job).await, Err(SSTableError::Cancelled)));
        assert!(!io.exists(Path::new("/9.sst")).await.unwrap());
        verify(&io, &inputs[0]).await.unwrap();
    });
}

#[test]
fn a_damaged_input_stops_the_compaction_and_stays() {
    let sim = Simulation::new(3, Faults::NONE);
    let inputs = sim.run_on_node(async |io| [written(&io, 1, &many()).await.unwrap()]).unwrap();
    assert!(sim.disk().flip(Path::new("/1.sst"), 700, 0x10));
    let error = sim
        .run_on_node(async move |io| {
            let error = run(&io, (&table(), &inputs), 9, 0, &KeepAll).await.unwrap_err();
            assert!(!io.exists(Path::new("/9.sst")).await.unwrap());
            error
        })
        .unwrap();
    assert!(error.is_corrupt() && error.to_string().contains("/1.sst"), "{error}");
}

#[test]
fn a_full_disk_stops_the_compaction_and_the_inputs_stay() {
    let sim = Simulation::new(4, Faults::NONE);
    let inputs = sim.run_on_node(async |io| [written(&io, 1, &many()).await.unwrap()]).unwrap();
    sim.disk().set_capacity_bytes(sim.disk().used_bytes() + 4096);
    sim.run_on_node(async move |io| {
        let error = run(&io, (&table(), &inputs), 9, 0, &KeepAll).await.unwrap_err();
        assert!(matches!(&error, SSTableError::Io(io) if io.is_no_space()), "{error}");
        verify(&io, &inputs[0]).await.unwrap();
    })
    .unwrap();
}

#[test]
fn the_output_says_what_it_came_from() {
    simulate(async |io| {
        let inputs = [written(&io, 1, &many()).await.unwrap(), written(&io, 2, &many()).await.unwrap()];
        let outcome = run(&io, (&Table { version: 7, ..table() }, &inputs), 9, 0, &KeepAll).await.unwrap();
        let statistics = outcome.output.unwrap().statistics;
        assert_eq!(statistics.schema_versions, [3, 7]);
        assert_eq!((statistics.generation_level, statistics.partitions, statistics.rows), (1, 60, 2400));
        assert_eq!((outcome.partitions_read, outcome.partitions_written, outcome.rows_read), (120, 60, 4800));
    });
}
