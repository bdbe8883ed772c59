//! For tests: random writes of one partition, and what a reader must find after them, worked out the slow and plain way
//! from the list of writes. The merge and the memtable are held against it.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::base::ids::{ColumnId, TableId};
use crate::mutation::cell::{Cell, DeletionTime, Liveness, NEVER_S};
use crate::mutation::cursor::{Fragment, PartitionCursor};
use crate::mutation::encode::{MutationBuilder, set_timestamp};
use crate::mutation::entry::Stamp;
use crate::mutation::owned::OwnedRow;
use crate::mutation::read::Slice;
use crate::mutation::row::Row;
use crate::schema::clustering::push_component;
use crate::schema::{ClusteringOrder, Position};
use crate::types::CqlType;

pub const KEY: &[u8] = b"key";
pub const TABLE: TableId = TableId([7; 16]);
/// The collection among the columns 1 to 3.
pub const COLLECTION: ColumnId = ColumnId(3);
/// Clustering components are 0 to this, exclusively.
pub const SPAN: i32 = 4;

pub type Expiry = Option<(u32, i64)>;

/// What a write does to one row.
#[derive(Clone, Debug)]
pub enum Part {
    Liveness(i64, Expiry),
    Deletion(i64, i64),
    Complex(i64, i64),
    Cell { column: u16, path: u8, timestamp: i64, expiry: Expiry, value: Vec<u8> },
    Tombstone { column: u16, path: u8, timestamp: i64, at_s: i64 },
}

/// One write.
#[derive(Clone, Debug)]
pub enum Op {
    Partition(i64, i64),
    Range { start: Bound, end: Bound, deletion: (i64, i64) },
    Row { key: Option<(i32, i32)>, parts: Vec<Part> },
}

/// A prefix and a weight.
pub type Bound = (Vec<i32>, i8);

/// Two int clustering columns, the second descending.
pub fn order() -> ClusteringOrder {
    ClusteringOrder::new([(CqlType::Int, false), (CqlType::Int, true)])
}

pub fn prefix(components: &[i32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for component in components {
        push_component(&mut bytes, &component.to_be_bytes());
    }
    bytes
}

pub fn any_bound() -> impl Strategy<Value = Bound> {
    (prop::collection::vec(0..SPAN, 0..3), prop_oneof![Just(-1i8), Just(1i8)])
}

fn any_expiry() -> impl Strategy<Value = Expiry> {
    prop_oneof![3 => Just(None), 1 => (1u32..4, 0i64..20).prop_map(Some)]
}

fn any_part() -> impl Strategy<Value = Part> {
    let timestamp = 1i64..8;
    let value = prop::collection::vec(0u8..3, 0..12);
    prop_oneof![
        2 => (timestamp.clone(), any_expiry()).prop_map(|(t, e)| Part::Liveness(t, e)),
        1 => (timestamp.clone(), 0i64..20).prop_map(|(t, s)| Part::Deletion(t, s)),
        1 => (timestamp.clone(), 0i64..20).prop_map(|(t, s)| Part::Complex(t, s)),
        6 => (1u16..4, 0u8..3, timestamp.clone(), any_expiry(), value)
            .prop_map(|(column, path, timestamp, expiry, value)| Part::Cell { column, path, timestamp, expiry, value }),
        2 => (1u16..4, 0u8..3, timestamp, 0i64..20)
            .prop_map(|(column, path, timestamp, at_s)| Part::Tombstone { column, path, timestamp, at_s }),
    ]
}

pub fn any_op() -> impl Strategy<Value = Op> {
    let parts = || prop::collection::vec(any_part(), 0..5);
    prop_oneof![
        1 => (1i64..8, 0i64..20).prop_map(|(t, s)| Op::Partition(t, s)),
        3 => (any_bound(), any_bound(), (1i64..8, 0i64..20))
            .prop_map(|(start, end, deletion)| Op::Range { start, end, deletion }),
        1 => parts().prop_map(|parts| Op::Row { key: None, parts }),
        12 => (0..SPAN, 0..SPAN, parts()).prop_map(|(a, b, parts)| Op::Row { key: Some((a, b)), parts }),
    ]
}

/// Disjoint ascending slices, some of them bounded by rows.
pub fn any_slices() -> impl Strategy<Value = Vec<Slice>> {
    let bound = prop_oneof![2 => any_bound(), 1 => (0..SPAN, 0..SPAN).prop_map(|(a, b)| (vec![a, b], 0i8))];
    prop_oneof![
        1 => Just(vec![Slice::all()]),
        2 => prop::collection::vec(bound, 2..7).prop_map(|mut bounds| {
            let order = order();
            let compare = |a: &Bound, b: &Bound| {
                let (x, y) = (prefix(&a.0), prefix(&b.0));
                order.compare(Position { prefix: &x, weight: a.1 }, Position { prefix: &y, weight: b.1 })
            };
            bounds.sort_by(compare);
            bounds.dedup_by(|a, b| compare(a, b).is_eq());
            bounds.chunks_exact(2).map(|pair| Slice { start: owned(&pair[0]), end: owned(&pair[1]) }).collect()
        }),
    ]
}

fn owned(bound: &Bound) -> crate::mutation::read::OwnedPosition {
    crate::mutation::read::OwnedPosition { prefix: prefix(&bound.0), weight: bound.1 }
}

/// Encodes `ops` as one mutation; every second timestamp is relative to the base of 4.
pub fn encode(ops: &[Op]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut builder = MutationBuilder::begin(&mut out, TABLE, 1, KEY);
    for op in ops {
        match op {
            Op::Partition(t, s) => {
                builder.partition_deletion(stamp(*t), *s);
            }
            Op::Range { start, end, deletion } => {
                let (a, b) = (prefix(&start.0), prefix(&end.0));
                let (a, b) = (Position { prefix: &a, weight: start.1 }, Position { prefix: &b, weight: end.1 });
                builder.range_tombstone(a, b, stamp(deletion.0), deletion.1);
            }
            Op::Row { key, parts } => {
                match key {
                    None => builder.static_row(),
                    Some((a, b)) => builder.row(&prefix(&[*a, *b])),
                };
                parts.iter().for_each(|part| encode_part(&mut builder, part));
            }
        }
    }
    set_timestamp(&mut out, 4);
    out
}

fn stamp(timestamp: i64) -> Stamp {
    if timestamp % 2 == 0 { Stamp::Base(timestamp - 4) } else { Stamp::At(timestamp) }
}

fn encode_part(builder: &mut MutationBuilder<'_>, part: &Part) {
    match part {
        Part::Liveness(t, expiry) => builder.liveness(stamp(*t), *expiry),
        Part::Deletion(t, s) => builder.row_deletion(stamp(*t), *s),
        Part::Complex(t, s) => builder.complex_deletion(COLLECTION, stamp(*t), *s),
        Part::Cell { column, path, timestamp, expiry, value } => {
            let (column, path) = place(*column, path);
            builder.cell(column, path, stamp(*timestamp), *expiry, value)
        }
        Part::Tombstone { column, path, timestamp, at_s } => {
            let (column, path) = place(*column, path);
            builder.cell_tombstone(column, path, stamp(*timestamp), *at_s)
        }
    };
}

fn place(column: u16, path: &u8) -> (ColumnId, Option<&[u8]>) {
    let column = ColumnId(column);
    (column, (column == COLLECTION).then(|| std::slice::from_ref(path)))
}

/// What a merged reader finds in a partition.
#[derive(Debug, PartialEq)]
pub struct Found {
    pub partition: DeletionTime,
    pub static_row: Option<String>,
    pub rows: BTreeMap<(i32, i32), String>,
    /// The range deletion that each possible row is under, where there is one.
    pub ranges: BTreeMap<(i32, i32), DeletionTime>,
}

/// What a reader must find within `slices` after `ops`.
pub fn expect(ops: &[Op], slices: &[Slice]) -> Found {
    let mut partition = DeletionTime::LIVE;
    for op in ops {
        if let Op::Partition(timestamp, local_deletion_s) = op {
            let (timestamp, local_deletion_s) = (*timestamp, *local_deletion_s);
            partition = partition.max(DeletionTime { timestamp, local_deletion_s });
        }
    }
    let mut found = Found {
        partition,
        static_row: expect_row(ops, None, partition),
        rows: BTreeMap::new(),
        ranges: BTreeMap::new(),
    };
    for key in places(slices) {
        let range = strongest_range(ops, key);
        let range = if partition.max(range) == partition { DeletionTime::LIVE } else { range };
        if !range.is_live() {
            found.ranges.insert(key, range);
        }
        if let Some(row) = expect_row(ops, Some(key), partition.max(range)) {
            found.rows.insert(key, row);
        }
    }
    found
}

fn places(slices: &[Slice]) -> Vec<(i32, i32)> {
    let order = order();
    let all = (0..SPAN).flat_map(|a| (0..SPAN).map(move |b| (a, b)));
    all.filter(|&(a, b)| {
        let key = prefix(&[a, b]);
        let at = Position::row(&key);
        let within =
            |s: &Slice| order.compare(s.start.borrow(), at).is_le() && order.compare(at, s.end.borrow()).is_le();
        slices.iter().any(within)
    })
    .collect()
}

fn strongest_range(ops: &[Op], key: (i32, i32)) -> DeletionTime {
    let (order, row) = (order(), prefix(&[key.0, key.1]));
    let mut strongest = DeletionTime::LIVE;
    for op in ops {
        if let Op::Range { start, end, deletion: (timestamp, local_deletion_s) } = op {
            let (a, b) = (prefix(&start.0), prefix(&end.0));
            let (a, b) = (Position { prefix: &a, weight: start.1 }, Position { prefix: &b, weight: end.1 });
            let at = Position::row(&row);
            if order.compare(a, at).is_lt() && order.compare(at, b).is_lt() {
                let (timestamp, local_deletion_s) = (*timestamp, *local_deletion_s);
                strongest = strongest.max(DeletionTime { timestamp, local_deletion_s });
            }
        }
    }
    strongest
}

fn expect_row(ops: &[Op], key: Option<(i32, i32)>, active: DeletionTime) -> Option<String> {
    let clustering = key.map(|(a, b)| prefix(&[a, b])).unwrap_or_default();
    let mut row = Row::new(&clustering);
    for op in ops {
        match op {
            Op::Row { key: of, parts } if *of == key => parts.iter().for_each(|part| add(&mut row, part)),
            _ => {}
        }
    }
    let kept = |deletion: DeletionTime, over: DeletionTime| deletion != over && deletion.max(over) == deletion;
    if !kept(row.deletion, active) {
        row.deletion = DeletionTime::LIVE;
    }
    let covering = active.max(row.deletion);
    if covering.deletes(row.liveness.timestamp) {
        row.liveness = Liveness::NONE;
    }
    row.complex.retain(|(_, deletion)| kept(*deletion, covering));
    let collection = row.complex_deletion(COLLECTION);
    row.cells.retain(|cell| {
        let own = if cell.column == COLLECTION { covering.max(collection) } else { covering };
        !own.deletes(cell.timestamp)
    });
    (!row.is_empty()).then(|| format!("{row:?}"))
}

fn add<'a>(row: &mut Row<'a>, part: &'a Part) {
    match part {
        Part::Liveness(timestamp, expiry) => {
            let (ttl_s, expires_s) = expiry.unwrap_or((0, NEVER_S));
            row.liveness = row.liveness.max(Liveness { timestamp: *timestamp, ttl_s, expires_s });
        }
        Part::Deletion(timestamp, at_s) => {
            row.deletion = row.deletion.max(DeletionTime { timestamp: *timestamp, local_deletion_s: *at_s });
        }
        Part::Complex(timestamp, at_s) => {
            row.add_complex_deletion(COLLECTION, DeletionTime { timestamp: *timestamp, local_deletion_s: *at_s });
        }
        Part::Cell { column, path, timestamp, expiry, value } => {
            let (column, path) = place(*column, path);
            let (ttl_s, local_deletion_s) = expiry.unwrap_or((0, NEVER_S));
            add_cell(row, Cell { column, path, timestamp: *timestamp, ttl_s, local_deletion_s, value });
        }
        Part::Tombstone { column, path, timestamp, at_s } => {
            let (column, path) = place(*column, path);
            let timestamp = *timestamp;
            add_cell(row, Cell { column, path, timestamp, ttl_s: 0, local_deletion_s: *at_s, value: &[] });
        }
    }
}

fn add_cell<'a>(row: &mut Row<'a>, cell: Cell<'a>) {
    match row.cells.iter_mut().find(|other| other.order(&cell).is_eq()) {
        Some(other) if cell.reconcile(other).is_gt() => *other = cell,
        Some(_) => {}
        None => {
            row.cells.push(cell);
            row.cells.sort_by(|a, b| a.order(b));
        }
    }
}

/// Reads a merged cursor to its end, checking that it is in order.
pub fn collect<'a>(mut cursor: impl PartitionCursor<'a>, slices: &[Slice], reversed: bool) -> Found {
    let order = order();
    let start = cursor.start().unwrap();
    assert_eq!(start.key, KEY);
    let mut found = Found {
        partition: start.deletion,
        static_row: start.static_row.map(|row| format!("{row:?}")),
        rows: BTreeMap::new(),
        ranges: BTreeMap::new(),
    };
    let mut changes = Vec::new();
    let mut last: Option<(Vec<u8>, i8)> = None;
    let mut open = DeletionTime::LIVE;
    while let Some(fragment) = cursor.next().unwrap() {
        let at = fragment.position();
        if let Some((prefix, weight)) = &last {
            let step = order.compare(Position { prefix, weight: *weight }, at);
            assert!(if reversed { step.is_gt() } else { step.is_lt() }, "out of order at {at:?}");
        }
        last = Some((at.prefix.to_vec(), at.weight));
        match fragment {
            Fragment::Row(row) => {
                let row = OwnedRow::copy(&row);
                found.rows.insert(key_of(row.borrow().clustering), format!("{:?}", row.borrow()));
            }
            Fragment::Change(change) => {
                assert_ne!(change.position.weight, 0);
                assert_ne!(change.deletion, open, "a change changes something");
                open = change.deletion;
                changes.push((change.position.prefix.to_vec(), change.position.weight, change.deletion));
            }
        }
    }
    assert!(open.is_live(), "a range stays open at the end");
    for key in places(slices) {
        let row = prefix(&[key.0, key.1]);
        let mut under = DeletionTime::LIVE;
        for (prefix, weight, deletion) in &changes {
            let step = order.compare(Position { prefix, weight: *weight }, Position::row(&row));
            if if reversed { step.is_gt() } else { step.is_lt() } {
                under = *deletion;
            }
        }
        if !under.is_live() {
            found.ranges.insert(key, under);
        }
    }
    found
}

pub fn key_of(clustering: &[u8]) -> (i32, i32) {
    let ints: Vec<i32> = crate::schema::clustering::components(clustering)
        .map(|component| i32::from_be_bytes(component.try_into().unwrap()))
        .collect();
    (ints[0], ints[1])
}
