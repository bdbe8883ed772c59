//! The table under test, its mutations and reads, without CQL on the way.

use std::rc::Rc;

use helenus::base::ids::ColumnId;
use helenus::mutation::draft::ElementChange;
use helenus::mutation::page::{PageItem, PageView};
use helenus::mutation::read::{Limits, PartitionKey, Partitions, ReadCommand, ReadPage, Slice, TokenRange};
use helenus::mutation::row::Row;
use helenus::mutation::{MutationBuilder, Stamp, counter};
use helenus::plan::{PlannedMutation, WritePlan};
use helenus::schema::partitioner::token_of;
use helenus::schema::{Position, Table, clustering};

use super::features::{Features, Kind};
use super::model::{Key, ListChange, Op, STATIC, State, Value};

/// `(k int, c int, v int, PRIMARY KEY (k, c))`, without grace: what may be purged is purged at once.
pub const CREATE_KEYSPACE: &str =
    "CREATE KEYSPACE sim WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const CREATE_TABLE: &str = "CREATE TABLE sim.t (k int, c int, v int, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0";
/// The same with a static column, and one for bytes that fill memtables.
const CREATE_WIDER_TABLE: &str =
    "CREATE TABLE sim.t (k int, c int, s int static, v int, p blob, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0";

const CREATE_COUNTERS: &str =
    "CREATE TABLE sim.t (k int, c int, s counter static, v counter, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0";
/// A list for each partition.
const CREATE_LISTS: &str = "CREATE TABLE sim.t (k int PRIMARY KEY, v list<int>) WITH gc_grace_seconds = 0";

/// The statement that makes the table under test.
pub fn create_table(features: Features) -> &'static str {
    match features.kind {
        Kind::Counters => return CREATE_COUNTERS,
        Kind::Lists => return CREATE_LISTS,
        Kind::Rows => {}
    }
    if features.statics || features.memtable_bytes.is_some() { CREATE_WIDER_TABLE } else { CREATE_TABLE }
}

fn key(k: i32) -> Vec<u8> {
    k.to_be_bytes().to_vec()
}

fn clustering_key(c: i32) -> Vec<u8> {
    let mut key = Vec::new();
    clustering::push_component(&mut key, &c.to_be_bytes());
    key
}

/// What stands in `p` beside a value: of another length than with the next.
fn padding(v: i32) -> Vec<u8> {
    let [low, ..] = v.to_le_bytes();
    vec![low; 2_000 + usize::from(low) * 37 % 6_000]
}

/// The write that an operation is. Truncation is none.
pub fn write_of(table: &Rc<Table>, features: Features, op: &Op, now_s: i64) -> WritePlan {
    let mut mutations: Vec<PlannedMutation> = Vec::new();
    let mut partition = |k: i32, fill: &dyn Fn(&mut MutationBuilder<'_>)| {
        let mut bytes = Vec::new();
        let mut builder = MutationBuilder::begin(&mut bytes, table.id, table.version, &key(k));
        fill(&mut builder);
        mutations.push(PlannedMutation { table: table.clone(), token: token_of(&key(k)), bytes });
    };
    match op {
        Op::Put(rows) | Op::Unlogged(rows) => {
            let mut keys: Vec<i32> = rows.iter().map(|((k, _), _)| *k).collect();
            keys.dedup();
            for k in keys {
                partition(k, &|builder| {
                    for ((_, c), value) in rows.iter().filter(|((key, _), _)| *key == k) {
                        put(builder, table, features, *c, *value, now_s);
                    }
                });
            }
        }
        Op::DeleteRow(k, STATIC) => partition(*k, &|builder| {
            builder.static_row().cell_tombstone(column(table, "s"), None, Stamp::Base(0), now_s);
        }),
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
        Op::Count(additions) => {
            let keys: std::collections::BTreeSet<i32> = additions.iter().map(|((k, _), _)| *k).collect();
            for k in keys {
                partition(k, &|builder| {
                    for ((_, c), delta) in additions.iter().filter(|((key, _), _)| *key == k) {
                        count(builder, table, *c, *delta);
                    }
                });
            }
        }
        Op::List(changes) => {
            for (k, change) in changes {
                partition(*k, &|builder| change_list(builder, column(table, "v"), change, now_s));
            }
        }
    }
    let logged_batch = mutations.len() > 1 && !matches!(op, Op::Unlogged(_) | Op::Count(_));
    WritePlan { mutations, logged_batch, timestamp: None, warnings: Vec::new() }
}

fn column(table: &Table, name: &str) -> ColumnId {
    table.column(name).expect("the table under test has it").id
}

fn put(builder: &mut MutationBuilder<'_>, table: &Table, features: Features, c: i32, value: Value, now_s: i64) {
    let ttl_s = |expires_s: i64| u32::try_from(expires_s - now_s).expect("it expires later");
    let expiry = value.expires_s.map(|expires_s| (ttl_s(expires_s), expires_s));
    let bytes = value.v.to_be_bytes();
    if c == STATIC {
        builder.static_row().cell(column(table, "s"), None, Stamp::Base(0), expiry, &bytes);
        return;
    }
    builder.row(&clustering_key(c)).liveness(Stamp::Base(0), expiry);
    builder.cell(column(table, "v"), None, Stamp::Base(0), expiry, &bytes);
    if features.memtable_bytes.is_some() {
        builder.cell(column(table, "p"), None, Stamp::Base(0), expiry, &padding(value.v));
    }
}

fn count(builder: &mut MutationBuilder<'_>, table: &Table, c: i32, delta: i32) {
    if c == STATIC {
        builder.static_row().counter_addition(column(table, "s"), delta.into());
    } else {
        builder.row(&clustering_key(c)).counter_addition(column(table, "v"), delta.into());
    }
}

fn change_list(builder: &mut MutationBuilder<'_>, column: ColumnId, change: &ListChange, now_s: i64) {
    let base = Stamp::Base(0);
    builder.row(&[]);
    // Later elements are greater: appended ones stand behind all others, prepended ones before.
    let mut element = |path: i64, value: i32| {
        builder.cell(column, Some(&path.cast_unsigned().to_be_bytes()), base, None, &value.to_be_bytes());
    };
    const MIDDLE: i64 = 1 << 40;
    match change {
        ListChange::Append(value) => element(MIDDLE + i64::from(*value), *value),
        ListChange::Prepend(value) => element(MIDDLE - i64::from(*value), *value),
        ListChange::Whole(values) => {
            builder.complex_deletion(column, Stamp::Base(-1), now_s);
            for value in values {
                let path = (MIDDLE + i64::from(*value)).cast_unsigned();
                builder.cell(column, Some(&path.to_be_bytes()), base, None, &value.to_be_bytes());
            }
        }
        ListChange::Set(index, value) => {
            let value = value.to_be_bytes();
            builder.list_element(column, at(*index), &ElementChange::Value(&value, None), base, now_s);
        }
        ListChange::Delete(index) => {
            builder.list_element(column, at(*index), &ElementChange::Delete, base, now_s);
        }
        ListChange::Remove(value) => {
            builder.list_removal(column, std::iter::once(&value.to_be_bytes()[..]), base, now_s);
        }
    }
}

fn at(index: u64) -> i32 {
    i32::try_from(index).expect("small")
}

fn command(table: &Table, partitions: Partitions, reversed: bool, page_rows: u64, now_s: i64) -> ReadCommand {
    let mut columns: Vec<ColumnId> = table.statics().chain(table.regulars()).map(|column| column.id).collect();
    columns.sort_unstable();
    ReadCommand {
        table: table.id,
        now_s,
        partitions,
        slices: vec![Slice::all()],
        reversed,
        columns,
        filter: Vec::new(),
        distinct: false,
        static_only_rows: table.has_statics(),
        limits: Limits { rows: page_rows, per_partition: u64::MAX, page_bytes: usize::MAX },
        resume: None,
    }
}

/// A read of one partition.
pub fn read_of(table: &Table, k: i32, reversed: bool, page_rows: u64, now_s: i64) -> ReadCommand {
    let partition = PartitionKey { token: token_of(&key(k)), key: key(k) };
    command(table, Partitions::Keys(vec![partition]), reversed, page_rows, now_s)
}

/// A read of everything.
pub fn scan_of(table: &Table, page_rows: u64, now_s: i64) -> ReadCommand {
    let everything = TokenRange { start_exclusive: None, end_inclusive: None };
    command(table, Partitions::Range(everything), false, page_rows, now_s)
}

fn int(bytes: &[u8]) -> Result<i32, String> {
    bytes.try_into().map(i32::from_be_bytes).map_err(|_| format!("not an int: {bytes:?}"))
}

/// The value of this column; `None` where it has none.
fn value_of(features: Features, row: &Row<'_>, column: ColumnId) -> Result<Option<Value>, String> {
    let Some(cell) = row.cells.iter().find(|cell| cell.column == column) else { return Ok(None) };
    if features.kind == Kind::Counters {
        let v = i32::try_from(counter::total(cell.value)).map_err(|_| "a counter counts too far".to_owned())?;
        return Ok(Some(Value { v, expires_s: None }));
    }
    Ok(Some(Value { v: int(cell.value)?, expires_s: cell.is_expiring().then_some(cell.local_deletion_s) }))
}

/// Adds a page's rows. An error where a row comes twice, or is not one that was ever written.
pub fn take_rows(table: &Table, features: Features, page: &ReadPage, state: &mut State) -> Result<(), String> {
    let mut view = PageView::new(&page.bytes);
    let mut k = 0;
    while let Some(item) = view.next_item().map_err(|error| error.to_string())? {
        match item {
            PageItem::Partition { key, .. } => k = int(key)?,
            // Every page of a partition begins with its static row.
            PageItem::Static(row) => {
                let statics = table.column("s").ok_or("a static row in a table without")?;
                let Some(value) = value_of(features, &row, statics.id)? else { continue };
                if state.insert((k, STATIC), value).is_some_and(|before| before != value) {
                    return Err(format!("the static row of {k} is another in the next page"));
                }
            }
            PageItem::Row(row) if features.kind == Kind::Lists => {
                for (c, element) in (0..).zip(&row.cells) {
                    let value = Value { v: int(element.value)?, expires_s: None };
                    if state.insert((k, c), value).is_some() {
                        return Err(format!("the list of {k} came twice"));
                    }
                }
            }
            PageItem::Row(row) => {
                let c = int(clustering::components(row.clustering).next().unwrap_or_default())?;
                let Some(value) = row_value(table, features, &row, (k, c))? else { continue };
                if state.insert((k, c), value).is_some() {
                    return Err(format!("row ({k}, {c}) came twice"));
                }
            }
        }
    }
    Ok(())
}

/// A row's value, the bytes beside it being right. `None` where all but the row's own liveness has expired: a compaction
/// made tombstones of the cells before the clock was set back.
fn row_value(table: &Table, features: Features, row: &Row<'_>, key: Key) -> Result<Option<Value>, String> {
    let Some(value) = value_of(features, row, column(table, "v"))? else {
        let has_expired = row.liveness.ttl_s != 0;
        return if has_expired { Ok(None) } else { Err(format!("row {key:?} without its value")) };
    };
    if features.memtable_bytes.is_some() {
        let cell = row.cells.iter().find(|cell| cell.column == column(table, "p"));
        if cell.is_none_or(|cell| cell.value != padding(value.v)) {
            return Err(format!("row {key:?} has its value and other bytes beside it"));
        }
    }
    Ok(Some(value))
}
