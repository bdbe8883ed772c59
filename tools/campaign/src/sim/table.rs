//! The table under test, its mutations and reads, without CQL on the way.

use std::rc::Rc;

use helenus::mutation::page::{PageItem, PageView};
use helenus::mutation::read::{Limits, PartitionKey, Partitions, ReadCommand, ReadPage, Slice, TokenRange};
use helenus::mutation::{MutationBuilder, Stamp};
use helenus::plan::{PlannedMutation, WritePlan};
use helenus::schema::partitioner::token_of;
use helenus::schema::{Position, Table, clustering};

use super::model::{Op, State};

/// `(k int, c int, v int, PRIMARY KEY (k, c))`, without grace: what may be purged is purged at once.
pub const CREATE_KEYSPACE: &str =
    "CREATE KEYSPACE sim WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
pub const CREATE_TABLE: &str = "CREATE TABLE sim.t (k int, c int, v int, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0";

fn key(k: i32) -> Vec<u8> {
    k.to_be_bytes().to_vec()
}

fn clustering_key(c: i32) -> Vec<u8> {
    let mut key = Vec::new();
    clustering::push_component(&mut key, &c.to_be_bytes());
    key
}

/// The write that an operation is. Truncation is none.
pub fn write_of(table: &Rc<Table>, op: &Op, now_s: i64) -> WritePlan {
    let value = table.column("v").expect("the table under test has v").id;
    let mut mutations: Vec<PlannedMutation> = Vec::new();
    let mut partition = |k: i32, fill: &dyn Fn(&mut MutationBuilder<'_>)| {
        let mut bytes = Vec::new();
        let mut builder = MutationBuilder::begin(&mut bytes, table.id, table.version, &key(k));
        fill(&mut builder);
        mutations.push(PlannedMutation { table: table.clone(), token: token_of(&key(k)), bytes });
    };
    match op {
        Op::Put(rows) => {
            let mut keys: Vec<i32> = rows.iter().map(|((k, _), _)| *k).collect();
            keys.dedup();
            for k in keys {
                partition(k, &|builder| {
                    for ((_, c), v) in rows.iter().filter(|((key, _), _)| *key == k) {
                        builder.row(&clustering_key(*c)).liveness(Stamp::Base(0), None);
                        builder.cell(value, None, Stamp::Base(0), None, &v.to_be_bytes());
                    }
                });
            }
        }
        Op::DeleteRow(k, c) => partition(*k, &|builder| {
            builder.row(&clustering_key(*c)).row_deletion(Stamp::Base(0), now_s);
        }),
        Op::DeleteRange(k, from, to) => partition(*k, &|builder| {
            let (from, to) = (clustering_key(*from), clustering_key(*to));
            builder.range_tombstone(Position::before(&from), Position::after(&to), Stamp::Base(0), now_s);
        }),
        Op::DeletePartition(k) => partition(*k, &|builder| {
            builder.partition_deletion(Stamp::Base(0), now_s);
        }),
        Op::Truncate => {}
    }
    let logged_batch = mutations.len() > 1;
    WritePlan { mutations, logged_batch, timestamp: None, warnings: Vec::new() }
}

fn command(table: &Table, partitions: Partitions, reversed: bool, page_rows: u64) -> ReadCommand {
    ReadCommand {
        table: table.id,
        now_s: 0,
        partitions,
        slices: vec![Slice::all()],
        reversed,
        columns: table.regulars().map(|column| column.id).collect(),
        filter: Vec::new(),
        distinct: false,
        static_only_rows: false,
        limits: Limits { rows: page_rows, per_partition: u64::MAX, page_bytes: usize::MAX },
        resume: None,
    }
}

/// A read of one partition.
pub fn read_of(table: &Table, k: i32, reversed: bool, page_rows: u64) -> ReadCommand {
    let partition = PartitionKey { token: token_of(&key(k)), key: key(k) };
    command(table, Partitions::Keys(vec![partition]), reversed, page_rows)
}

/// A read of everything.
pub fn scan_of(table: &Table, page_rows: u64) -> ReadCommand {
    let everything = TokenRange { start_exclusive: None, end_inclusive: None };
    command(table, Partitions::Range(everything), false, page_rows)
}

/// Adds a page's rows. An error where a row comes twice, or is not one that was ever written.
pub fn take_rows(table: &Table, page: &ReadPage, state: &mut State) -> Result<(), String> {
    let int = |bytes: &[u8]| bytes.try_into().map(i32::from_be_bytes).map_err(|_| format!("not an int: {bytes:?}"));
    let value = table.column("v").ok_or("no column v")?.id;
    let mut view = PageView::new(&page.bytes);
    let mut k = 0;
    while let Some(item) = view.next_item().map_err(|error| error.to_string())? {
        match item {
            PageItem::Partition { key, .. } => k = int(key)?,
            PageItem::Static(_) => return Err("a static row in a table without".into()),
            PageItem::Row(row) => {
                let c = int(clustering::components(row.clustering).next().unwrap_or_default())?;
                let cell = row.cells.iter().find(|cell| cell.column == value);
                let v = int(cell.ok_or_else(|| format!("row ({k}, {c}) without its value"))?.value)?;
                if state.insert((k, c), v).is_some() {
                    return Err(format!("row ({k}, {c}) came twice"));
                }
            }
        }
    }
    Ok(())
}
