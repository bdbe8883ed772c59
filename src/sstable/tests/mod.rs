//! Tests of whole files, on the simulated disk: what the tests share.

mod crafted;
mod damage;
mod faults;
mod fuzz;
mod golden;
mod round_trip;
mod scanning;
mod walks;

use std::path::Path;
use std::rc::Rc;

use proptest::prelude::*;

use crate::base::ids::{ColumnId, TableId, Token};
use crate::io::sim::{Faults, Simulation};
use crate::io::{Io, IoClass};
use crate::mutation::owned::{OwnedFragment, OwnedPartition, OwnedRow};
use crate::mutation::read::{OwnedPosition, Slice};
use crate::mutation::{Cell, DeletionTime, Fragment, Liveness, NEVER_S, PartitionCursor, ReadStop, Row};
use crate::schema::clustering::push_component;
use crate::schema::partitioner::token_of;
use crate::schema::{Column, ColumnKind, Columns, Table, TableOptions};
use crate::sstable::{BlockCache, Misses, Pins, Reader, SSTableError, SSTableId, SSTableInfo, View};
use crate::sstable::{Writer, WriterOptions};
use crate::types::CqlType;

pub(crate) const STATIC: ColumnId = ColumnId(1);
pub(crate) const PLAIN: ColumnId = ColumnId(2);
pub(crate) const SET: ColumnId = ColumnId(3);

/// `k blob, a int, b int DESC, s static, v, c set`, keyed by k, clustered by a and b.
pub(crate) fn table() -> Table {
    let column = |id, name: &str, ty, kind| Column { id: ColumnId(id), name: name.into(), ty, kind };
    let clustering = |position, descending| ColumnKind::Clustering { position, descending };
    Table {
        id: TableId([9; 16]),
        keyspace: "ks".into(),
        name: "t".into(),
        version: 3,
        columns: Columns::new(vec![
            column(10, "k", CqlType::Blob, ColumnKind::PartitionKey(0)),
            column(11, "a", CqlType::Int, clustering(0, false)),
            column(12, "b", CqlType::Int, clustering(1, true)),
            column(STATIC.0, "s", CqlType::Blob, ColumnKind::Static),
            column(PLAIN.0, "v", CqlType::Blob, ColumnKind::Regular),
            column(SET.0, "c", CqlType::Set(Box::new(CqlType::Blob)), ColumnKind::Regular),
        ]),
        dropped: Vec::new(),
        next_column_id: 13,
        options: TableOptions::default(),
        is_counter: false,
    }
}

/// An encoded prefix of int components.
pub(crate) fn prefix(components: &[i32]) -> Vec<u8> {
    let mut prefix = Vec::new();
    components.iter().for_each(|value| push_component(&mut prefix, &value.to_be_bytes()));
    prefix
}

pub(crate) fn position(components: &[i32], weight: i8) -> OwnedPosition {
    OwnedPosition { prefix: prefix(components), weight }
}

pub(crate) fn deletion(timestamp: i64) -> DeletionTime {
    DeletionTime { timestamp, local_deletion_s: 1_000 + timestamp }
}

pub(crate) fn change(components: &[i32], weight: i8, deletion: DeletionTime) -> OwnedFragment {
    OwnedFragment::Change { position: position(components, weight), deletion }
}

pub(crate) fn cell(column: ColumnId, timestamp: i64, value: &[u8]) -> Cell<'_> {
    Cell { column, path: None, timestamp, ttl_s: 0, local_deletion_s: NEVER_S, value }
}

/// A row of one live cell under a liveness of the same timestamp.
pub(crate) fn row(components: &[i32], timestamp: i64, value: &[u8]) -> OwnedFragment {
    let clustering = prefix(components);
    let mut row = Row::new(&clustering);
    row.liveness = Liveness { timestamp, ttl_s: 0, expires_s: NEVER_S };
    row.cells.push(cell(PLAIN, timestamp, value));
    OwnedFragment::Row(OwnedRow::copy(&row))
}

pub(crate) fn partition(key: &[u8], fragments: Vec<OwnedFragment>) -> OwnedPartition {
    let (deletion, static_row) = (DeletionTime::LIVE, None);
    OwnedPartition { token: token_of(key), key: key.to_vec(), deletion, static_row, fragments }
}

/// In the order of files.
pub(crate) fn sorted(mut partitions: Vec<OwnedPartition>) -> Vec<OwnedPartition> {
    partitions.sort_by(|a, b| (a.token, &a.key).cmp(&(b.token, &b.key)));
    partitions.dedup_by(|a, b| a.key == b.key);
    partitions
}

pub(crate) fn options(id: u64, block_bytes: usize) -> WriterOptions {
    let options = WriterOptions::of_table(&table(), SSTableId(id), IoClass::Flush, 16);
    WriterOptions { block_bytes, ..options }
}

pub(crate) async fn write(
    io: &Io,
    path: &str,
    options: WriterOptions,
    partitions: &[OwnedPartition],
) -> Result<SSTableInfo, SSTableError> {
    let mut writer = Writer::create(io, Path::new(path), options).await?;
    for partition in partitions {
        writer.begin_partition(&partition.cursor().start().map_err(crate::sstable::scanner::to_error)?);
        for fragment in &partition.fragments {
            writer.fragment(&fragment.borrow());
            if writer.wants_settle() {
                writer.settle().await?;
            }
        }
        writer.end_partition();
    }
    writer.finish().await
}

pub(crate) async fn open(io: &Io, id: u64, path: &str) -> Result<Reader, SSTableError> {
    Reader::open(io, SSTableId(id), Path::new(path), &table()).await
}

pub(crate) async fn read(
    reader: &Reader,
    cache: &BlockCache,
    key: &[u8],
    slices: &[Slice],
    reversed: bool,
) -> Result<Option<OwnedPartition>, SSTableError> {
    let mut misses = Misses::new();
    loop {
        let pins = Pins::new();
        let view = View { cache, pins: &pins, misses: &misses };
        let found = reader.partition(view, token_of(key), key, slices, reversed);
        match found.and_then(|cursor| cursor.map(OwnedPartition::read).transpose()) {
            Ok(partition) => return Ok(partition),
            Err(ReadStop::Miss) => misses.load(cache).await?,
            Err(stop) => return Err(crate::sstable::scanner::to_error(stop)),
        }
    }
}

/// Every partition by an ordered scan from a place.
pub(crate) async fn scan(
    reader: &Reader,
    cache: &BlockCache,
    from: (Token, &[u8]),
    after: bool,
) -> Result<Vec<OwnedPartition>, SSTableError> {
    let mut misses = Misses::new();
    let slices = [Slice::all()];
    loop {
        let pins = Pins::new();
        let view = View { cache, pins: &pins, misses: &misses };
        let read = || -> Result<Vec<OwnedPartition>, ReadStop> {
            let mut scan =
                if after { reader.scan_after(view, from.0, from.1) } else { reader.scan(view, from.0, from.1) };
            let mut all = Vec::new();
            while let Some(cursor) = scan.partition(&slices, false)? {
                all.push(OwnedPartition::read(cursor)?);
                scan.advance()?;
            }
            Ok(all)
        };
        match read() {
            Ok(all) => return Ok(all),
            Err(ReadStop::Miss) => misses.load(cache).await?,
            Err(stop) => return Err(crate::sstable::scanner::to_error(stop)),
        }
    }
}

/// What a partition says, in a form that compares.
pub(crate) fn text(partition: &OwnedPartition) -> String {
    let OwnedPartition { token, key, deletion, static_row, fragments } = partition;
    let static_row = static_row.as_ref().map(OwnedRow::borrow);
    let fragments: Vec<Fragment<'_>> = fragments.iter().map(OwnedFragment::borrow).collect();
    format!("{token:?} {key:?} {deletion:?} {static_row:?} {fragments:#?}")
}

pub(crate) fn texts(partitions: &[OwnedPartition]) -> Vec<String> {
    partitions.iter().map(text).collect()
}

/// Runs a task on a simulated node and disk.
pub(crate) fn simulate<F, Fut>(task: F) -> Fut::Output
where
    F: FnOnce(Io) -> Fut,
    Fut: Future + 'static,
{
    let sim = Simulation::new(11, Faults::NONE);
    match sim.run_on_node(task) {
        Ok(output) => output,
        Err(halted) => panic!("{halted}"),
    }
}

/// Rows and changes on a small grid of positions.
fn fragments() -> impl Strategy<Value = Vec<OwnedFragment>> {
    let rows = proptest::collection::btree_map((0..6i32, 0..4i32), (1..9i64, any::<u8>(), 0..5usize), 0..16);
    let ends =
        prop_oneof![Just(vec![]), (0..6i32).prop_map(|a| vec![a]), (0..6i32, 0..4i32).prop_map(|(a, b)| vec![a, b])];
    let changes = proptest::collection::vec((ends, prop_oneof![Just(-1i8), Just(1)], 0..4i64), 0..8);
    (rows, changes).prop_map(|(rows, changes)| {
        let table = table();
        let order = table.clustering_order();
        let mut all: Vec<OwnedFragment> = rows.iter().map(|(at, content)| grid_row(*at, *content)).collect();
        let live_or = |n: i64| if n == 0 { DeletionTime::LIVE } else { deletion(n) };
        let mut edges: Vec<_> = changes.iter().map(|(at, weight, n)| (position(at, *weight), live_or(*n))).collect();
        edges.sort_by(|a, b| order.compare(a.0.borrow(), b.0.borrow()));
        edges.dedup_by(|a, b| order.compare(a.0.borrow(), b.0.borrow()).is_eq());
        let mut open = DeletionTime::LIVE;
        for (position, deletion) in edges {
            if deletion != open {
                open = deletion;
                all.push(OwnedFragment::Change { position, deletion });
            }
        }
        if !open.is_live() {
            // Everything closes at the partition's end; a change that stands there already gives way.
            all.retain(|fragment| order.compare(fragment.borrow().position(), OwnedPosition::end().borrow()).is_lt());
            let was_open = all.iter().rev().find_map(|fragment| match fragment {
                OwnedFragment::Change { deletion, .. } => Some(!deletion.is_live()),
                OwnedFragment::Row(_) => None,
            });
            if was_open == Some(true) {
                all.push(OwnedFragment::Change { position: OwnedPosition::end(), deletion: DeletionTime::LIVE });
            }
        }
        all.sort_by(|a, b| order.compare(a.borrow().position(), b.borrow().position()));
        all
    })
}

/// A row of a few shapes: plain, expiring, deleted, with a collection, long.
fn grid_row((a, b): (i32, i32), (timestamp, byte, shape): (i64, u8, usize)) -> OwnedFragment {
    let clustering = prefix(&[a, b]);
    let long = [byte; 300];
    let mut row = Row::new(&clustering);
    row.liveness = Liveness { timestamp, ttl_s: 0, expires_s: NEVER_S };
    match shape {
        0 => row.cells.push(cell(PLAIN, timestamp, &long[..5])),
        1 => {
            row.liveness = Liveness { timestamp, ttl_s: 60, expires_s: 5_000 };
            row.cells.push(Cell { ttl_s: 60, local_deletion_s: 5_000, ..cell(PLAIN, timestamp, &long[..2]) });
        }
        2 => {
            row.liveness = Liveness::NONE;
            row.deletion = deletion(timestamp);
        }
        3 => {
            row.complex.push((SET, deletion(timestamp)));
            for n in 1..4u8 {
                let path: &[u8] = &long[..usize::from(n)];
                row.cells.push(Cell { path: Some(path), ..cell(SET, timestamp + i64::from(n), &[]) });
            }
        }
        _ => row.cells.push(cell(PLAIN, timestamp, &long)),
    }
    OwnedFragment::Row(OwnedRow::copy(&row))
}

pub(crate) fn partitions() -> impl Strategy<Value = Vec<OwnedPartition>> {
    let one = (1..40u8, prop_oneof![3 => Just(0i64), 1 => 1..5i64], any::<bool>(), fragments());
    proptest::collection::vec(one, 0..8).prop_map(|all| {
        let of = |(key, deleted, has_static, fragments): (u8, i64, bool, Vec<OwnedFragment>)| {
            let mut partition = partition(&[key], fragments);
            if deleted > 0 {
                partition.deletion = deletion(deleted);
            }
            if has_static {
                let mut row = Row::new(&[]);
                row.cells.push(cell(STATIC, 4, b"static"));
                partition.static_row = Some(OwnedRow::copy(&row));
            }
            partition
        };
        sorted(all.into_iter().map(of).collect())
    })
}

/// A file with this content, open.
pub(crate) async fn written(io: &Io, id: u64, partitions: &[OwnedPartition]) -> Result<Rc<Reader>, SSTableError> {
    let path = format!("/{id}.sst");
    write(io, &path, options(id, 256), partitions).await?;
    open(io, id, &path).await.map(Rc::new)
}
