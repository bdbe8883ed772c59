//! How partitions of several files become one: heads, static rows, range deletions that overlap, purging at each of
//! these places.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::mutation::read::Slice;
use crate::sstable::tests::{STATIC, prefix, read};

fn with_static(mut partition: OwnedPartition, timestamp: i64, value: &[u8]) -> OwnedPartition {
    let mut row = Row::new(&[]);
    row.cells.push(cell(STATIC, timestamp, value));
    partition.static_row = Some(OwnedRow::copy(&row));
    partition
}

fn deleted(mut partition: OwnedPartition, timestamp: i64) -> OwnedPartition {
    partition.deletion = deletion(timestamp);
    partition
}

/// Compacts these files, one partition each, at a time when nothing is purged.
fn merge(files: Vec<OwnedPartition>, wanted: Option<OwnedPartition>) {
    purge(files, 0, i64::MAX, wanted);
}

/// The same at `now_s` where everything outside is at or above `outside`.
fn purge(files: Vec<OwnedPartition>, now_s: i64, outside: TimestampMicros, wanted: Option<OwnedPartition>) {
    simulate(async move |io| {
        let mut inputs = Vec::new();
        for (n, file) in files.into_iter().enumerate() {
            inputs.push(written(&io, n as u64, &[file]).await.unwrap());
        }
        let outcome = run(&io, (&table(), &inputs), 90, now_s, &AtLeast(outside)).await.unwrap();
        let (_, got) = contents(&io, &outcome).await;
        assert_eq!(texts(&got), wanted.iter().map(text).collect::<Vec<_>>());
    });
}

/// Whatever is outside has this timestamp or a later one.
struct AtLeast(TimestampMicros);

impl PurgeGate for AtLeast {
    fn max_purgeable_timestamp(&self, _token: Token, _key: &[u8]) -> TimestampMicros {
        self.0
    }
}

fn open_at(at: &[i32], timestamp: i64) -> OwnedFragment {
    change(at, -1, deletion(timestamp))
}

fn close_at(at: &[i32]) -> OwnedFragment {
    change(at, 1, DeletionTime::LIVE)
}

#[test]
fn static_rows_reconcile_and_stand_alone() {
    let old = with_static(partition(b"k", vec![]), 3, b"old");
    let new = with_static(partition(b"k", vec![row(&[1, 1], 5, b"v")]), 4, b"new");
    merge(vec![old.clone(), new.clone()], Some(new.clone()));
    merge(vec![new.clone(), old.clone()], Some(new));
    merge(vec![old.clone(), old.clone()], Some(old));
}

#[test]
fn the_strongest_partition_deletion_covers_what_is_older_everywhere() {
    let gone = deleted(with_static(partition(b"k", vec![row(&[2, 1], 9, b"newer")]), 2, b"covered"), 5);
    let other = deleted(partition(b"k", vec![row(&[1, 1], 5, b"equal"), row(&[2, 1], 4, b"older")]), 3);
    let wanted = deleted(partition(b"k", vec![row(&[2, 1], 9, b"newer")]), 5);
    merge(vec![gone.clone(), other.clone()], Some(wanted.clone()));
    merge(vec![other, gone], Some(wanted));
}

#[test]
fn overlapping_range_deletions_become_one_sequence() {
    let first = partition(b"k", vec![open_at(&[1], 3), close_at(&[4])]);
    let second = partition(b"k", vec![open_at(&[2], 5), close_at(&[3]), row(&[5, 1], 4, b"v")]);
    let wanted = partition(
        b"k",
        vec![open_at(&[1], 3), open_at(&[2], 5), change(&[3], 1, deletion(3)), close_at(&[4]), row(&[5, 1], 4, b"v")],
    );
    merge(vec![first.clone(), second.clone()], Some(wanted.clone()));
    merge(vec![second, first], Some(wanted));
}

#[test]
fn a_weaker_range_deletion_within_a_stronger_one_disappears() {
    let strong = partition(b"k", vec![open_at(&[1], 7), close_at(&[4])]);
    let weak = partition(b"k", vec![open_at(&[2], 5), row(&[2, 1], 6, b"covered"), close_at(&[3])]);
    merge(vec![weak.clone(), strong.clone()], Some(strong.clone()));
    merge(vec![deleted(strong, 8), weak], Some(deleted(partition(b"k", vec![]), 8)));
}

#[test]
fn changes_of_two_files_at_one_place_are_one() {
    let first = partition(b"k", vec![open_at(&[1], 3), change(&[2], -1, DeletionTime::LIVE)]);
    let second = partition(b"k", vec![change(&[2], -1, deletion(3)), close_at(&[3])]);
    merge(vec![first, second], Some(partition(b"k", vec![open_at(&[1], 3), close_at(&[3])])));
}

#[test]
fn a_row_takes_its_cells_from_all_files() {
    let clustering = prefix(&[1, 1]);
    let of = |cells: Vec<Cell<'_>>| {
        let mut row = Row::new(&clustering);
        row.cells.extend(cells);
        partition(b"k", vec![OwnedFragment::Row(OwnedRow::copy(&row))])
    };
    let element = |path: &'static [u8], timestamp| Cell { path: Some(path), ..cell(SET, timestamp, b"") };
    merge(
        vec![
            of(vec![cell(PLAIN, 5, b"five"), element(b"a", 2)]),
            of(vec![cell(PLAIN, 7, b"seven")]),
            of(vec![cell(PLAIN, 6, b"six"), element(b"b", 3)]),
        ],
        Some(of(vec![cell(PLAIN, 7, b"seven"), element(b"a", 2), element(b"b", 3)])),
    );
}

#[test]
fn each_kind_of_deletion_is_purged_where_nothing_older_is_outside() {
    let kept = || row(&[9, 9], 100, b"kept");
    let only_kept = || Some(partition(b"k", vec![kept()]));
    let of_partition = deleted(partition(b"k", vec![kept()]), 50);
    let of_range = partition(b"k", vec![open_at(&[1], 50), close_at(&[1]), kept()]);
    let of_row = partition(b"k", vec![tombstone(&[1, 1], 50, 1050), kept()]);
    for file in [of_partition, of_range, of_row] {
        purge(vec![file.clone()], LATE_S, 51, only_kept());
        purge(vec![file.clone()], LATE_S, 50, Some(file.clone()));
        purge(vec![file.clone()], 1050 + 864_000, i64::MAX, Some(file.clone()));
        purge(vec![file], 1051 + 864_000, i64::MAX, only_kept());
    }
}

#[test]
fn a_purged_partition_deletion_still_covers_the_inputs() {
    let gone = deleted(partition(b"k", vec![]), 50);
    let rows = with_static(partition(b"k", vec![row(&[1, 1], 40, b"covered")]), 30, b"covered");
    purge(vec![gone, rows], LATE_S, i64::MAX, None);
}

#[test]
fn a_purged_range_gives_way_to_the_weaker_one_that_stays_covered() {
    // The stronger deletion covers the weaker one; once it is purged, the weaker one, older still, is purged with it.
    let strong = partition(b"k", vec![open_at(&[1], 50), close_at(&[4])]);
    let weak = partition(b"k", vec![open_at(&[2], 20), close_at(&[3]), row(&[3, 1], 30, b"covered")]);
    purge(vec![strong, weak], LATE_S, i64::MAX, None);
}

#[test]
fn a_partition_larger_than_a_block_of_any_file_is_merged_in_order() {
    simulate(async |io| {
        let part = |step: usize, first: i32| {
            let mut fragments = vec![open_at(&[0], 1)];
            fragments.extend((first..3000).step_by(step).map(|a| row(&[a, 1], 5, &[a as u8; 60])));
            fragments.push(change(&[3000], 1, DeletionTime::LIVE));
            partition(b"k", fragments)
        };
        let files = [vec![part(2, 0)], vec![part(3, 0)], vec![part(2, 1)]];
        let mut inputs = Vec::new();
        for (n, file) in files.iter().enumerate() {
            inputs.push(written(&io, n as u64, file).await.unwrap());
        }
        let outcome = run(&io, (&table(), &inputs), 90, 0, &KeepAll).await.unwrap();
        assert_eq!((outcome.rows_read, outcome.rows_written), (4000, 3000));
        let (reader, got) = contents(&io, &outcome).await;
        assert_eq!(texts(&got), texts(&merged(&files)));
        let cache = BlockCache::new(1 << 20);
        let back = read(&reader.unwrap(), &cache, b"k", &[Slice::all()], true).await.unwrap().unwrap();
        assert_eq!(back.fragments.len(), got[0].fragments.len());
    });
}

#[test]
fn the_oldest_outside_is_asked_of_files_that_may_hold_the_partition() {
    simulate(async |io| {
        let here = written(&io, 1, &[partition(b"k", vec![row(&[1, 1], 40, b"v")])]).await.unwrap();
        let older = written(&io, 2, &[partition(b"k", vec![row(&[1, 1], 30, b"v")])]).await.unwrap();
        let absent = written(&io, 3, &[partition(b"z", vec![row(&[1, 1], 1, b"v")])]).await.unwrap();
        let token = crate::schema::partitioner::token_of(b"k");
        assert_eq!(oldest_in(&[here.clone(), absent.clone()], token), 40);
        assert_eq!(oldest_in(&[here.clone(), older.clone(), absent.clone()], token), 30);
        assert_eq!(oldest_in(&[absent], token), TimestampMicros::MAX);
        let mut elsewhere = open(&io, 2, "/2.sst").await.unwrap();
        elsewhere.restrict(vec![TokenRange { start_exclusive: Some(token), end_inclusive: None }]);
        assert_eq!(oldest_in(&[here, Rc::new(elsewhere)], token), 40, "another owner's rows do not count");
        assert_eq!(KeepAll.max_purgeable_timestamp(token, b"k"), TimestampMicros::MIN);
    });
}
