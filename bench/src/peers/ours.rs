//! Helenus's engine behind the calls: one shard over the real half of `io`.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use helenus::base::ids::ColumnId;
use helenus::commitlog::SyncMode;
use helenus::mutation::page::{PageItem, PageView};
use helenus::mutation::point::PointKey;
use helenus::mutation::read::{Limits, OwnedPosition, PartitionKey, Partitions, ReadCommand, Slice};
use helenus::mutation::{MutationBuilder, Stamp};
use helenus::schema::clustering::push_component;
use helenus::schema::partitioner::token_of;
use helenus::schema::{Position, Table};
use helenus::shard::{Applied, NO_DEADLINE, Write};

use super::CACHE_BYTES;
use super::workload::{COLUMNS, Cost, Key, KeyValue, Row, costs as costs_of};
use crate::engine::{self, Engine, Options};
use crate::micro::rows::{clustered_table, flat_table};

/// Of the memory for memtables, a flush begins when so many hundredths are full.
const FLUSH_AT_PERCENT: u64 = 40;

struct Ours<'a> {
    engine: &'a Engine,
    flat: Rc<Table>,
    clustered: Rc<Table>,
    /// The last write that is not waited for.
    last: Option<Applied>,
    mutation: Vec<u8>,
    prefix: Vec<u8>,
    at: PointKey,
    slice: ReadCommand,
}

/// What every call costs.
pub fn costs(rows: u64, core: Option<usize>, dir: &Path, memtable_bytes: u64) -> Result<Vec<Cost>, String> {
    let options = Options {
        data_dir: dir.join("helenus"),
        core,
        mode: SyncMode::Periodic { period: Duration::from_secs(10) },
        memtable_bytes_max: memtable_bytes * 100 / FLUSH_AT_PERCENT,
        cache_bytes_max: CACHE_BYTES,
    };
    let tables = || vec![flat_table(COLUMNS as u16), clustered_table(COLUMNS as u16)];
    engine::run(options, tables, async move |engine: &Engine| costs_of(&mut Ours::new(engine), rows).await)
}

impl<'a> Ours<'a> {
    fn new(engine: &'a Engine) -> Ours<'a> {
        let (flat, clustered) = (flat_table(COLUMNS as u16), clustered_table(COLUMNS as u16));
        let slice = ReadCommand {
            table: clustered.id,
            now_s: 0,
            partitions: Partitions::Keys(Vec::new()),
            slices: Vec::new(),
            reversed: false,
            columns: clustered.regulars().map(|column| column.id).collect(),
            filter: Vec::new(),
            distinct: false,
            static_only_rows: false,
            limits: Limits { rows: 0, per_partition: u64::MAX, page_bytes: 1 << 20 },
            resume: None,
        };
        let (mutation, prefix, at) = (Vec::new(), Vec::new(), PointKey::default());
        Ours { engine, flat, clustered, last: None, mutation, prefix, at, slice }
    }
}

impl KeyValue for Ours<'_> {
    async fn put(&mut self, key: &Key, rows: &[Row<'_>]) -> Result<(), String> {
        let table = if rows[0].clustering.is_some() { &self.clustered } else { &self.flat };
        self.mutation.clear();
        let mut builder = MutationBuilder::begin(&mut self.mutation, table.id, table.version, key);
        for row in rows {
            self.prefix.clear();
            if let Some(clustering) = &row.clustering {
                push_component(&mut self.prefix, clustering);
            }
            builder.row(&self.prefix).liveness(Stamp::Base(0), None);
            for (value, column) in row.values.iter().zip(1..) {
                builder.cell(ColumnId(column), None, Stamp::Base(0), None, value);
            }
        }
        let shard = &self.engine.shard;
        self.last = shard.apply_at_once(&mut self.mutation, token_of(key), None, self.engine.io.wall_us());
        if self.last.is_none() {
            // Memory or log are full: it waits, as the server's does.
            let mut write = Write { mutations: vec![self.mutation.clone()], timestamp: None };
            shard.admit(&write, NO_DEADLINE).await.map_err(|error| error.to_string())?;
            let applied = shard.when_room(NO_DEADLINE, || shard.apply(&mut write)).await;
            self.last = Some(applied.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    async fn logged(&mut self) -> Result<(), String> {
        match self.last.take() {
            Some(applied) => self.engine.shard.acknowledged(applied).await.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    async fn get(&mut self, key: &Key, out: &mut Vec<u8>) -> Result<bool, String> {
        self.at.clear();
        self.at.key.extend_from_slice(key);
        self.at.token = token_of(key);
        let mut is_there = false;
        let is_taken = self.engine.shard.read_point(self.flat.id, &self.at, 0, |row| {
            is_there = row.is_some();
            row.iter().flat_map(|row| &row.cells).for_each(|(_, value)| out.extend_from_slice(value));
            true
        });
        if is_taken {
            return Ok(is_there);
        }
        // A block is missing.
        let partitions = Partitions::Keys(vec![PartitionKey { token: self.at.token, key: key.to_vec() }]);
        let limits = Limits { rows: 1, ..self.slice.limits };
        let (table, slices) = (self.flat.id, vec![Slice::all()]);
        let command = ReadCommand { table, partitions, slices, limits, ..self.slice.clone() };
        Ok(take_rows(&read(self.engine, &command).await?, out)? == 1)
    }

    async fn slice(&mut self, key: &Key, from: &Key, count: u64, out: &mut Vec<u8>) -> Result<u64, String> {
        self.prefix.clear();
        push_component(&mut self.prefix, from);
        let start = OwnedPosition::of(Position::before(&self.prefix));
        self.slice.partitions = Partitions::Keys(vec![PartitionKey { token: token_of(key), key: key.to_vec() }]);
        self.slice.slices = vec![Slice { start, end: OwnedPosition::end() }];
        self.slice.limits.rows = count;
        take_rows(&read(self.engine, &self.slice).await?, out)
    }

    async fn settle(&mut self) -> Result<(), String> {
        let shard = &self.engine.shard;
        shard.flush(None).await.map_err(|error| error.to_string())?;
        shard.compact(None).await.map_err(|error| error.to_string())
    }
}

async fn read(engine: &Engine, command: &ReadCommand) -> Result<Vec<u8>, String> {
    let page = engine.shard.read(command, NO_DEADLINE).await.map_err(|error| error.to_string())?;
    Ok(page.bytes)
}

/// Appends the values of a page's rows: how many rows there are.
fn take_rows(page: &[u8], out: &mut Vec<u8>) -> Result<u64, String> {
    let (mut view, mut rows) = (PageView::new(page), 0);
    while let Some(item) = view.next_item().map_err(|error| error.to_string())? {
        if let PageItem::Row(row) = item {
            row.cells.iter().for_each(|cell| out.extend_from_slice(cell.value));
            rows += 1;
        }
    }
    Ok(rows)
}
