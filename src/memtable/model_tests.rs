//! The memtable against the plain list of writes: whatever the order, the direction and the division among memtables.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::base::ids::{ColumnId, SegmentId};
use crate::mutation::cell::{Cell, NEVER_S};
use crate::mutation::cursor::{Fragment, PartitionCursor};
use crate::mutation::encode::MutationBuilder;
use crate::mutation::entry::Stamp;
use crate::mutation::live::LiveRows;
use crate::mutation::merge::Merge;
use crate::mutation::testing::{
    COLLECTION, Found, KEY, Op, Part, TABLE, any_op, any_slices, collect, encode, expect, order, prefix,
};
use crate::schema::{Column, ColumnKind, Columns, Position, TableOptions, partitioner};
use crate::types::CqlType;

fn table() -> Rc<Table> {
    let column = |id, name: &str, ty, kind| Column { id: ColumnId(id), name: name.into(), ty, kind };
    let clustering = |position, descending| ColumnKind::Clustering { position, descending };
    Rc::new(Table {
        id: TABLE,
        keyspace: "k".into(),
        name: "t".into(),
        version: 1,
        columns: Columns::new(vec![
            column(10, "p", CqlType::Blob, ColumnKind::PartitionKey(0)),
            column(11, "c", CqlType::Int, clustering(0, false)),
            column(12, "d", CqlType::Int, clustering(1, true)),
            column(1, "a", CqlType::Blob, ColumnKind::Regular),
            column(2, "b", CqlType::Blob, ColumnKind::Regular),
            column(3, "s", CqlType::map(CqlType::Blob, CqlType::Blob), ColumnKind::Regular),
        ]),
        dropped: vec![],
        next_column_id: 13,
        options: TableOptions::default(),
        is_counter: false,
    })
}

fn at(offset_bytes: u32) -> LogPosition {
    LogPosition { segment: SegmentId(1), offset_bytes }
}

fn memtable() -> Memtable {
    Memtable::new(table(), SlabPool::new())
}

fn apply(memtable: &mut Memtable, bytes: &[u8]) {
    memtable.apply(&MutationView::parse(bytes).unwrap(), at(0));
}

fn filled(ops: &[Op]) -> Memtable {
    let mut memtable = memtable();
    ops.iter().for_each(|op| apply(&mut memtable, &encode(std::slice::from_ref(op))));
    memtable
}

fn read(memtables: &[&Memtable], slices: &[Slice], reversed: bool) -> Found {
    let order = order();
    let token = partitioner::token_of(KEY);
    let cursors = memtables.iter().filter_map(|memtable| memtable.partition(token, KEY, slices, reversed));
    collect(Merge::new(&order, reversed, cursors), slices, reversed)
}

proptest! {
    /// What is read within any slices, in either direction, is what the writes say.
    #[test]
    fn a_memtable_is_what_its_writes_say(ops in prop::collection::vec(any_op(), 1..40), slices in any_slices()) {
        let memtable = filled(&ops);
        let want = expect(&ops, &slices);
        prop_assert_eq!(&read(&[&memtable], &slices, false), &want);
        prop_assert_eq!(&read(&[&memtable], &slices, true), &want);
        prop_assert!(memtable.bytes_live() <= memtable.bytes_allocated());
    }

    /// One mutation of all writes, and the writes in another order, and twice: all the same.
    #[test]
    fn order_and_repetition_do_not_matter(ops in prop::collection::vec(any_op(), 1..30)) {
        let slices = [Slice::all()];
        let want = expect(&ops, &slices);
        let mut batch = memtable();
        apply(&mut batch, &encode(&ops));
        prop_assert_eq!(&read(&[&batch], &slices, false), &want);
        let backwards: Vec<Op> = ops.iter().rev().cloned().collect();
        let mut backwards = filled(&backwards);
        prop_assert_eq!(&read(&[&backwards], &slices, false), &want);
        let (live, used) = (backwards.bytes_live(), backwards.arena.used_bytes());
        ops.iter().for_each(|op| apply(&mut backwards, &encode(std::slice::from_ref(op))));
        prop_assert_eq!(&read(&[&backwards], &slices, false), &want);
        let dropped = ops.iter().any(|op| matches!(op, Op::Partition(..)));
        prop_assert!(dropped || (live, used) == (backwards.bytes_live(), backwards.arena.used_bytes()));
    }

    /// An evacuation in steps of any size loses nothing, with the two read together at every step.
    #[test]
    fn evacuation_keeps_what_is_read(
        ops in prop::collection::vec(any_op(), 1..30),
        budget_bytes in 1usize..2_000,
        slices in any_slices(),
    ) {
        let (old, mut new) = (filled(&ops), memtable());
        let want = expect(&ops, &slices);
        let mut evacuation = Evacuation::new();
        while !evacuation.step(&old, &mut new, budget_bytes) {
            prop_assert_eq!(&read(&[&old, &new], &slices, false), &want);
        }
        prop_assert_eq!(&read(&[&new], &slices, false), &want);
        prop_assert!(new.bytes_live() <= old.bytes_live());
        prop_assert_eq!((new.stats().log_min, new.stats().timestamp_min), (Some(at(0)), old.stats().timestamp_min));
    }

    /// Writes divided between two memtables and merged are the writes in one.
    #[test]
    fn two_memtables_merged_are_one(
        ops in prop::collection::vec((any_op(), any::<bool>()), 2..30),
        slices in any_slices(),
        reversed: bool,
    ) {
        let all: Vec<Op> = ops.iter().map(|(op, _)| op.clone()).collect();
        let part = |which| -> Vec<Op> { ops.iter().filter(|(_, to)| *to == which).map(|(op, _)| op.clone()).collect() };
        let (left, right) = (filled(&part(true)), filled(&part(false)));
        prop_assert_eq!(read(&[&left, &right], &slices, reversed), expect(&all, &slices));
    }
}

/// One cell as it is written: column, timestamp, when it expires, value.
type ColumnWrite = (u16, i64, Option<i64>, Vec<u8>);

fn any_column_write() -> impl Strategy<Value = ColumnWrite> {
    let value = prop::collection::vec(0u8..3, 0..12);
    (1u16..45, 1i64..4, prop::option::weighted(0.2, 1i64..3), value)
}

proptest! {
    /// A row of more columns than a node has places for, written in parts and in any order of columns, in rows that are
    /// there and in new ones: the winners are those of the plain rules.
    #[test]
    fn columns_in_any_order_meet_their_like(
        writes in prop::collection::vec((prop::collection::vec(any_column_write(), 1..50), any::<bool>()), 1..8),
    ) {
        let key = prefix(&[1, 1]);
        let mut memtable = memtable();
        let mut winners: std::collections::BTreeMap<u16, Cell<'_>> = Default::default();
        let mut sorted = writes.clone();
        for (cells, in_order) in &mut sorted {
            if *in_order {
                cells.sort_by_key(|cell| cell.0);
            }
        }
        for (cells, _) in &sorted {
            apply(&mut memtable, &mutation(|m| {
                m.row(&key);
                for (column, timestamp, expires_s, value) in cells {
                    let expiry = expires_s.map(|expires_s| (10, expires_s));
                    m.cell(ColumnId(*column), None, Stamp::At(*timestamp), expiry, value);
                }
                m
            }));
            for (column, timestamp, expires_s, value) in cells {
                let (ttl_s, local_deletion_s) = expires_s.map_or((0, NEVER_S), |expires_s| (10, expires_s));
                let column = ColumnId(*column);
                let new = Cell { column, path: None, timestamp: *timestamp, ttl_s, local_deletion_s, value };
                let winner = winners.entry(column.0).or_insert(new);
                if new.reconcile(winner).is_gt() {
                    *winner = new;
                }
            }
        }
        let slices = [Slice::all()];
        let mut cursor = memtable.partition(partitioner::token_of(KEY), KEY, &slices, false).unwrap();
        let Some(Fragment::Row(row)) = cursor.next().unwrap() else { panic!("a row") };
        prop_assert_eq!(row.cells.to_vec(), winners.into_values().collect::<Vec<_>>());
    }
}

fn mutation(build: impl for<'b, 'o> FnOnce(&'b mut MutationBuilder<'o>) -> &'b mut MutationBuilder<'o>) -> Vec<u8> {
    let mut bytes = Vec::new();
    build(&mut MutationBuilder::begin(&mut bytes, TABLE, 1, KEY));
    bytes
}

fn live_rows(memtable: &Memtable) -> usize {
    let (order, slices) = (order(), [Slice::all()]);
    let cursor = memtable.partition(partitioner::token_of(KEY), KEY, &slices, false).unwrap();
    let mut rows = LiveRows::new(Merge::new(&order, false, [cursor]), 0);
    let mut count = 0;
    while let Some(row) = rows.next_row().unwrap() {
        count += row.cells.len().max(1);
    }
    count
}

#[test]
fn a_wide_partition_is_ordered_and_deletable() {
    const ROWS: i32 = 100_000;
    let mut memtable = memtable();
    for n in 0..ROWS {
        let n = (i64::from(n) * 48_271 % i64::from(ROWS)) as i32;
        let key = prefix(&[n, 0]);
        apply(&mut memtable, &mutation(|m| m.row(&key).cell(ColumnId(1), None, Stamp::At(5), None, b"v")));
    }
    assert_eq!(memtable.stats().rows, ROWS as u64);
    assert_eq!(live_rows(&memtable), ROWS as usize);
    let slices = [Slice::all()];
    let mut cursor = memtable.partition(partitioner::token_of(KEY), KEY, &slices, true).unwrap();
    for n in (0..ROWS).rev() {
        let Some(Fragment::Row(row)) = cursor.next().unwrap() else { panic!("row {n}") };
        assert_eq!(row.clustering, prefix(&[n, 0]));
    }
    let live = memtable.bytes_live();
    apply(&mut memtable, &mutation(|m| m.partition_deletion(Stamp::At(6), 0)));
    assert_eq!(live_rows(&memtable), 0);
    assert!(memtable.bytes_live() < live / 1_000, "{} of {live} bytes live", memtable.bytes_live());
}

#[test]
fn a_large_collection_takes_single_elements_and_is_replaced_whole() {
    let mut memtable = memtable();
    let key = prefix(&[1, 1]);
    for n in 0..100_000u32 {
        let path = n.wrapping_mul(2_654_435_761).to_be_bytes();
        let write = mutation(|m| m.row(&key).cell(COLLECTION, Some(&path), Stamp::At(5), None, b"v"));
        apply(&mut memtable, &write);
    }
    assert_eq!(live_rows(&memtable), 100_000);
    let replace = mutation(|m| {
        m.row(&key).complex_deletion(COLLECTION, Stamp::At(9), 0);
        m.cell(COLLECTION, Some(b"x"), Stamp::At(10), None, b"v")
    });
    apply(&mut memtable, &replace);
    assert_eq!(live_rows(&memtable), 1);
    assert!(memtable.bytes_live() < 1_000, "{} bytes live", memtable.bytes_live());
}

#[test]
fn an_overwrite_of_equal_size_takes_no_memory() {
    let mut memtable = memtable();
    let key = prefix(&[1, 1]);
    let write =
        |timestamp, value: &[u8]| mutation(|m| m.row(&key).cell(ColumnId(1), None, Stamp::At(timestamp), None, value));
    apply(&mut memtable, &write(1, b"first"));
    let used = memtable.arena.used_bytes();
    for timestamp in 2..100 {
        apply(&mut memtable, &write(timestamp, b"other"));
        apply(&mut memtable, &write(timestamp - 1, b"late"));
    }
    assert_eq!((memtable.arena.used_bytes(), memtable.bytes_dead()), (used, 0));
    apply(&mut memtable, &write(100, b"much longer than before"));
    assert!(memtable.bytes_dead() > 0);
}

/// Collections overwritten again and again leave dead bytes, which an evacuation leaves behind, partition by partition.
#[test]
fn an_evacuation_frees_what_is_dead() {
    let (mut old, mut new) = (memtable(), memtable());
    let row = prefix(&[0, 0]);
    for timestamp in (0..2_000).step_by(2) {
        let mut bytes = Vec::new();
        let key = (timestamp % 100).to_string();
        let mut builder = MutationBuilder::begin(&mut bytes, TABLE, 1, key.as_bytes());
        builder.row(&row).complex_deletion(COLLECTION, Stamp::At(timestamp), 0);
        for n in 0..20 {
            builder.cell(COLLECTION, Some(&[n]), Stamp::At(timestamp + 1), None, &vec![n; timestamp as usize % 50]);
        }
        apply(&mut old, &bytes);
    }
    assert!(old.is_worth_evacuating());
    let mut evacuation = Evacuation::new();
    let mut steps = 1;
    while !evacuation.step(&old, &mut new, 4_096) {
        steps += 1;
    }
    assert!(steps > 5, "{steps} steps");
    assert!(new.bytes_dead() <= new.bytes_live());
    assert_eq!(new.stats().partitions, old.stats().partitions);
    assert!(new.bytes_live() + new.bytes_dead() < old.bytes_live() + old.bytes_dead());
}

/// What is left behind takes time as well: a step over rows and ranges that a deletion covers, or over many ranges, ends
/// though it moves little or nothing.
#[test]
fn a_step_is_bounded_in_what_it_passes() {
    let row = |memtable: &mut Memtable, n: i32| {
        let key = prefix(&[n, 0]);
        apply(memtable, &mutation(|m| m.row(&key).cell(ColumnId(1), None, Stamp::At(5), None, b"v")));
    };
    let range = |memtable: &mut Memtable, from: i32, to: i32, timestamp| {
        let (from, to) = (prefix(&[from]), prefix(&[to]));
        let (start, end) = (Position::before(&from), Position::after(&to));
        apply(memtable, &mutation(|m| m.range_tombstone(start, end, Stamp::At(timestamp), 0)));
    };
    let mut covered = memtable();
    (0..10_000).for_each(|n| row(&mut covered, n));
    range(&mut covered, 10, 9_989, 6);
    let mut ranges = memtable();
    (0..10_000).filter(|n| n % 100 == 7).for_each(|n| row(&mut ranges, n));
    (0..10_000).for_each(|n| range(&mut ranges, n, n, 4 + i64::from(n % 2)));
    for old in [covered, ranges] {
        let (mut new, mut evacuation, mut steps) = (memtable(), Evacuation::new(), 1);
        while !evacuation.step(&old, &mut new, usize::MAX / 2) {
            steps += 1;
            assert!(steps < 100, "it does not come to an end");
        }
        assert!(steps >= 10, "{steps} steps");
        let slices = [Slice::all()];
        assert_eq!(read(&[&new], &slices, false), read(&[&old], &slices, false));
    }
}

#[test]
fn numbers_are_kept() {
    let mut memtable = memtable();
    assert!(memtable.is_empty() && memtable.stats().log_min.is_none());
    let key = prefix(&[1, 1]);
    for (timestamp, position) in [(7, at(500)), (-3, at(900)), (4, at(700))] {
        let bytes = mutation(|m| m.row(&key).liveness(Stamp::At(timestamp), None));
        memtable.apply(&MutationView::parse(&bytes).unwrap(), position);
    }
    let stats = memtable.stats();
    assert_eq!((stats.mutations, stats.partitions, stats.rows), (3, 1, 1));
    assert_eq!((stats.timestamp_min, stats.timestamp_max), (-3, 7));
    assert_eq!((stats.log_min, stats.log_max), (Some(at(500)), Some(at(900))));
    assert!(memtable.contains(partitioner::token_of(KEY), KEY));
    assert!(!memtable.contains(partitioner::token_of(b"other"), b"other"));
}

#[test]
fn partitions_come_in_token_order() {
    let mut memtable = memtable();
    let mut keys: Vec<Vec<u8>> = (0..500u32).map(|n| n.to_be_bytes().to_vec()).collect();
    for key in &keys {
        let mut bytes = Vec::new();
        let row = prefix(&[0, 0]);
        MutationBuilder::begin(&mut bytes, TABLE, 1, key).row(&row).liveness(Stamp::At(1), None);
        apply(&mut memtable, &bytes);
    }
    keys.sort_by_key(|key| partitioner::token_of(key));
    let walked: Vec<Vec<u8>> =
        memtable.partitions_from(PartitionBound::Start).map(|partition| partition.key().to_vec()).collect();
    assert_eq!(walked, keys);
    let middle = &keys[250];
    let after = PartitionBound::After(partitioner::token_of(middle), middle);
    let next = memtable.first_partition(after).unwrap();
    assert_eq!((next.token(), next.key()), (partitioner::token_of(&keys[251]), &keys[251][..]));
    let slices = [Slice::all()];
    assert!(matches!(next.cursor(&slices, false).next(), Ok(Some(Fragment::Row(_)))));
    let last = partitioner::token_of(&keys[499]);
    assert!(memtable.first_partition(PartitionBound::AfterToken(last)).is_none());
}

/// A regression: the partition's deletion covers everything by timestamp, yet a collection's deletion of the same timestamp
/// and a later local time is the stronger one and stays.
#[test]
fn a_stronger_deletion_survives_the_partitions_own() {
    let ops = [Op::Row { key: None, parts: vec![Part::Complex(7, 1)] }, Op::Partition(7, 0)];
    let slices = [Slice::all()];
    let want = expect(&ops, &slices);
    assert!(want.static_row.is_some());
    assert_eq!(read(&[&filled(&ops)], &slices, false), want);
}

/// A slice that starts or ends at a row within a deleted range takes the row, and the range with it.
#[test]
fn a_range_is_clipped_to_its_slice() {
    let mut memtable = memtable();
    let (from, to, row) = (prefix(&[0]), prefix(&[3]), prefix(&[1, 1]));
    let (start, end) = (Position::before(&from), Position::after(&to));
    apply(&mut memtable, &mutation(|m| m.range_tombstone(start, end, Stamp::At(5), 0)));
    let bound = crate::mutation::read::OwnedPosition { prefix: row.clone(), weight: 0 };
    let slices = [Slice { start: bound.clone(), end: bound }];
    for reversed in [false, true] {
        let mut cursor = memtable.partition(partitioner::token_of(KEY), KEY, &slices, reversed).unwrap();
        let mut weights = Vec::new();
        while let Some(Fragment::Change(change)) = cursor.next().unwrap() {
            weights.push((change.position.weight, change.deletion.is_live()));
        }
        let want = if reversed { [(1, false), (-1, true)] } else { [(-1, false), (1, true)] };
        assert_eq!(weights, want);
    }
}
