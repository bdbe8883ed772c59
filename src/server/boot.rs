//! Bringing a node up, in either half of `io`: the directory, the stored schema, replay, and the steps between which
//! every shard waits for the others. Shard 0 leads.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use uuid::Uuid;

use crate::base::ids::{ShardId, Token};
use crate::base::plants::Planted;
use crate::commitlog::{DamagePolicy, LogConfig, ReplayOptions};
use crate::io::{Io, Mesh, TaskClass};
use crate::mutation::page::{PageItem, PageView};
use crate::mutation::read::{Limits, Partitions, ReadCommand, Slice, TokenRange};
use crate::plan::system_rows::{self, Addresses, LocalInfo};
use crate::router::message::{BootStep, Message};
use crate::router::{Router, Timeouts};
use crate::schema::partitioner::{Sharding, token_of};
use crate::schema::{Schema, SchemaOp, stored, system};
use crate::shard::root::{COMMITLOG_DIR, Examined, LogStream, Root, RootError, SNAPSHOTS_DIR, SSTABLES_DIR};
use crate::shard::{
    LogStreams, NO_DEADLINE, READ_TURN_PLACES, Shard, ShardConfig, ShardError, Write, create_manifests, reshard,
};

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub data_dir: PathBuf,
    pub cluster_name: String,
    /// Each shard's log; `total_bytes` is for all shards together.
    pub log: LogConfig,
    pub damage: DamagePolicy,
    /// For all shards together.
    pub memtable_bytes: u64,
    /// For all shards together.
    pub cache_bytes: u64,
    /// What a read takes of one partition in a turn (`ShardConfig`).
    pub read_turn_places: usize,
    pub disk_reserve_bytes: u64,
    pub auto_snapshot: bool,
    pub compact: bool,
    pub timeouts: Timeouts,
    pub addresses: Addresses,
    pub num_tokens: u32,
    pub planted: Planted,
}

impl NodeConfig {
    /// A node of the simulation, on a disk of its own, that waits so long for everything.
    pub fn simulated(log: LogConfig, patience: Duration) -> NodeConfig {
        NodeConfig {
            data_dir: PathBuf::from("/data"),
            cluster_name: "Simulated".into(),
            log,
            damage: DamagePolicy::Refuse,
            memtable_bytes: 256 << 20,
            cache_bytes: 1 << 20,
            read_turn_places: READ_TURN_PLACES,
            disk_reserve_bytes: 0,
            auto_snapshot: true,
            compact: true,
            timeouts: Timeouts::all(patience),
            addresses: Addresses::one(IpAddr::from([127, 0, 0, 1]), 9042),
            num_tokens: 1,
            planted: Planted::default(),
        }
    }
}

/// Why a node did not come up.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The directory is not ours to use: nothing in it was touched.
    #[error("{0}")]
    Directory(RootError),
    #[error(transparent)]
    Shard(#[from] ShardError),
    #[error("the stored schema cannot be read: {0}")]
    Schema(String),
    #[error("another shard failed to start")]
    Elsewhere,
}

impl From<RootError> for BootError {
    fn from(error: RootError) -> Self {
        BootError::Directory(error)
    }
}

impl From<crate::io::IoError> for BootError {
    fn from(error: crate::io::IoError) -> Self {
        BootError::Shard(ShardError::Io(error))
    }
}

/// A shard that serves, with the messages that came while it started.
pub struct Booted {
    pub router: Rc<Router>,
    /// The node as its clients see it.
    pub local: LocalInfo,
    pub early: Vec<(ShardId, Message)>,
}

/// The steps that every shard does before any does the next.
const REPLAYED: u8 = 1;
const LOGS_OPEN: u8 = 2;
const BATCHES_COMPLETE: u8 = 3;

/// Brings this shard up. The caller runs the router's tasks.
pub async fn boot(io: Io, mesh: Mesh<Message>, config: &NodeConfig) -> Result<Booted, BootError> {
    let mut gathering = Gathering::new(io.clone(), mesh);
    let booted = start(&io, &mut gathering, config).await;
    if booted.is_err() && io.shard_id() == ShardId(0) {
        gathering.tell_all(&BootStep::Abort).await;
    }
    let (router, root) = booted?;
    let local = local_info(config, &root);
    Ok(Booted { router, local, early: gathering.early })
}

async fn start(io: &Io, gathering: &mut Gathering, config: &NodeConfig) -> Result<(Rc<Router>, Root), BootError> {
    let sharding = Sharding::new(io.shard_count());
    let system = system::schema();
    let mut schema = system.clone();
    let (mut root, shard, ops) = if io.shard_id() == ShardId(0) {
        let root = prepare_directory(io, config, sharding).await?;
        let shard = open_shard(io, config, &root, sharding).await?;
        shard.open_tables(&system).await?;
        let ops = stored_schema(&shard, &system).await?;
        gathering.tell_all(&BootStep::Start { root: Box::new(root.clone()), ops: ops.clone() }).await;
        (root, shard, ops)
    } else {
        let (root, ops) = gathering.wait_for_start().await?;
        let shard = open_shard(io, config, &root, sharding).await?;
        (root, shard, ops)
    };
    ops.iter().for_each(|op| schema.apply(op));
    shard.open_tables(&schema).await?;
    recover(gathering, &shard, config, &root).await?;
    let schema = settle_schema(gathering, &shard, system, schema, &ops).await?;
    shard.discard_unknown(&schema).await?;
    if io.shard_id() == ShardId(0) {
        forget_old_streams(io, config, &mut root).await?;
    }
    let schema = Rc::new(schema);
    let router =
        Router::new(io.clone(), shard.clone(), gathering.mesh.clone(), sharding, config.timeouts, schema.clone());
    if io.shard_id() == ShardId(0) {
        write_system_rows(&shard, &schema, config, &root, &router).await?;
    }
    shard.start_tasks();
    io.spawn(TaskClass::Foreground, router.clone().run_completions());
    Ok((router, root))
}

/// Shard 0's first work: the directory becomes this node's, under this shard count.
async fn prepare_directory(io: &Io, config: &NodeConfig, sharding: Sharding) -> Result<Root, BootError> {
    let dir = &config.data_dir;
    let sstables_dir = dir.join(SSTABLES_DIR);
    let mut root = match Root::examine(io, dir).await? {
        Examined::Fresh => {
            for dir in [dir.clone(), dir.join(COMMITLOG_DIR), sstables_dir.clone(), dir.join(SNAPSHOTS_DIR)] {
                io.create_dir_all(&dir).await?;
            }
            io.sync_dir(dir).await?;
            if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                io.sync_dir(parent).await?;
            }
            let (cluster_id, host_id) = (fresh_uuid(io), fresh_uuid(io));
            let mut root = Root::new(cluster_id, host_id, sharding.shards, sharding.ignore_msb);
            root.cluster_name.clone_from(&config.cluster_name);
            create_manifests(io, &shard_config(config, &root, sharding)).await?;
            root
        }
        Examined::Existing(root) => *root,
    };
    if root.shards != sharding.shards {
        tracing::info!(from = root.shards, to = sharding.shards, "opening under another shard count");
        let system = system::schema();
        let is_system = |table| system.table_by_id(table).is_some();
        root = reshard::reshard(io, dir, &sstables_dir, &root, sharding.shards, is_system, config.planted).await?;
    }
    root.boot_generation += 1;
    root.store(io, dir, config.planted).await?;
    for path in reshard::remove_orphans(io, dir, &sstables_dir, &root).await? {
        tracing::info!(path = %path.display(), "removed what no manifest names");
    }
    Ok(root)
}

fn fresh_uuid(io: &Io) -> Uuid {
    uuid::Builder::from_random_bytes(((u128::from(io.random_u64()) << 64) | u128::from(io.random_u64())).to_be_bytes())
        .into_uuid()
}

fn shard_config(config: &NodeConfig, root: &Root, sharding: Sharding) -> ShardConfig {
    let shards = u64::from(sharding.shards);
    ShardConfig {
        data_dir: config.data_dir.clone(),
        sstables_dir: config.data_dir.join(SSTABLES_DIR),
        snapshots_dir: config.data_dir.join(SNAPSHOTS_DIR),
        sharding,
        layout: root.layout,
        memtable_bytes_max: config.memtable_bytes / shards,
        cache_bytes_max: usize::try_from(config.cache_bytes / shards).unwrap_or(usize::MAX),
        read_turn_places: config.read_turn_places,
        disk_reserve_bytes: config.disk_reserve_bytes,
        mutation_bytes_max: config.log.record_bytes_max(),
        host_id: root.host_id.into_bytes(),
        auto_snapshot: config.auto_snapshot,
        compact: config.compact,
        planted: config.planted,
    }
}

async fn open_shard(io: &Io, config: &NodeConfig, root: &Root, sharding: Sharding) -> Result<Rc<Shard>, BootError> {
    let stream = own_stream(io, root)?;
    Ok(Shard::open(io.clone(), shard_config(config, root, sharding), stream).await?)
}

fn own_stream(io: &Io, root: &Root) -> Result<crate::base::ids::StreamId, BootError> {
    let missing = || ShardError::Corrupt(format!("the root file names no log stream for shard {}", io.shard_id().0));
    Ok(root.live_stream(io.shard_id()).ok_or_else(missing)?)
}

/// The changes that make the users' part of the schema.
async fn stored_schema(shard: &Rc<Shard>, builtin: &Schema) -> Result<Vec<SchemaOp>, BootError> {
    let rows = stored_rows(shard, builtin).await?;
    let definitions = rows.iter().filter(|(kind, _)| kind != stored::ROWS_KIND.as_bytes());
    stored::ops_of(definitions.map(|(_, definition)| &**definition))
        .map_err(|error| BootError::Schema(error.to_string()))
}

/// Kind and definition of every row of the stored schema.
async fn stored_rows(shard: &Rc<Shard>, builtin: &Schema) -> Result<Vec<(Vec<u8>, Vec<u8>)>, BootError> {
    let table = builtin
        .table("system", system::STORED_SCHEMA)
        .ok_or_else(|| BootError::Schema("its table is not among the system tables".into()))?;
    let command = ReadCommand {
        table: table.id,
        now_s: 0,
        partitions: Partitions::Range(TokenRange { start_exclusive: None, end_inclusive: None }),
        slices: vec![Slice::all()],
        reversed: false,
        columns: table.regulars().map(|column| column.id).collect(),
        filter: Vec::new(),
        distinct: false,
        static_only_rows: false,
        limits: Limits { rows: u64::MAX, per_partition: u64::MAX, page_bytes: usize::MAX },
        resume: None,
    };
    let page = shard.read(&command, u64::MAX).await.map_err(|error| BootError::Schema(error.to_string()))?;
    let (mut rows, mut kind) = (Vec::new(), Vec::new());
    let mut view = PageView::new(&page.bytes);
    while let Some(item) = view.next_item().map_err(|error| BootError::Schema(error.to_string()))? {
        match item {
            PageItem::Partition { key, .. } => kind = key.to_vec(),
            PageItem::Static(_) => {}
            PageItem::Row(row) => rows.extend(row.cells.first().map(|cell| (kind.clone(), cell.value.to_vec()))),
        }
    }
    Ok(rows)
}

/// A schema change whose record had reached the log, while its tables were not flushed yet, was not loaded but has been
/// replayed: it is made now, so that the next start finds no other schema than this one.
async fn settle_schema(
    gathering: &mut Gathering,
    shard: &Rc<Shard>,
    system: Schema,
    loaded: Schema,
    loaded_ops: &[SchemaOp],
) -> Result<Schema, BootError> {
    let mut schema = system;
    let ops = if gathering.io.shard_id() == ShardId(0) {
        let ops = stored_schema(shard, &schema).await?;
        if ops != loaded_ops {
            tracing::info!("a schema change that was under way is made");
            // Records under the changed schema may be logged from here on: the next start must load it before replay.
            let stored = schema.table("system", system::STORED_SCHEMA).map(|table| table.id);
            shard.flush(stored.as_ref().map(std::slice::from_ref)).await?;
        }
        gathering.tell_all(&BootStep::Schema { ops: ops.clone() }).await;
        ops
    } else {
        gathering.wait_for_schema().await?
    };
    if ops == loaded_ops {
        return Ok(loaded);
    }
    ops.iter().for_each(|op| schema.apply(op));
    shard.expect_schema(&ops);
    shard.adopt_schema(&dropped_between(&loaded, &schema)).await?;
    Ok(schema)
}

/// The changes that drop what stands in `before` and not in `after`.
fn dropped_between(before: &Schema, after: &Schema) -> Vec<SchemaOp> {
    let mut ops = Vec::new();
    for keyspace in before.keyspaces.values() {
        if after.keyspace(&keyspace.name).is_none() {
            ops.push(SchemaOp::DropKeyspace { name: keyspace.name.clone() });
            continue;
        }
        let gone = keyspace.tables.values().filter(|table| after.table_by_id(table.id).is_none());
        ops.extend(gone.map(|table| SchemaOp::DropTable {
            keyspace: table.keyspace.clone(),
            name: table.name.clone(),
            id: table.id,
        }));
    }
    ops
}

/// The tokens that this node shows as its own: as many as `num_tokens`, the same at every start. They say nothing of
/// where data is: one node owns all.
fn tokens(root: &Root, num_tokens: u32) -> Vec<Token> {
    let mut seed = root.host_id.into_bytes().to_vec();
    let token = |at: u32| {
        seed.truncate(16);
        seed.extend_from_slice(&at.to_be_bytes());
        token_of(&seed)
    };
    let mut tokens: Vec<Token> = (0..num_tokens).map(token).collect();
    tokens.sort_unstable();
    tokens
}

/// Replay, open logs, redo batches: each step is done by every shard before any does the next.
async fn recover(
    gathering: &mut Gathering,
    shard: &Rc<Shard>,
    config: &NodeConfig,
    root: &Root,
) -> Result<(), BootError> {
    let own = own_stream(&gathering.io, root)?;
    let others = |live: bool| {
        let wanted = move |stream: &&LogStream| stream.live == live && stream.stream != own;
        root.streams.iter().filter(wanted).map(|stream| stream.stream).collect()
    };
    let streams =
        LogStreams { dir: config.data_dir.join(COMMITLOG_DIR), own, others: others(true), old: others(false) };
    let options = ReplayOptions { damage: config.damage, planted: config.planted, ..ReplayOptions::default() };
    let replayed = shard.replay(streams, options).await;
    let mut recovery = gathering.step(REPLAYED, replayed).await?;
    report(&gathering.io, &recovery.recovered);
    let total_bytes = config.log.total_bytes / u64::from(gathering.io.shard_count());
    let opened = shard.open_log(&mut recovery, LogConfig { total_bytes, ..config.log.clone() }).await;
    gathering.step(LOGS_OPEN, opened).await?;
    let finished = shard.finish_recovery(&mut recovery).await;
    gathering.step(BATCHES_COMPLETE, finished).await?;
    Ok(())
}

fn report(io: &Io, recovered: &crate::shard::Recovered) {
    for note in &recovered.notes {
        tracing::warn!(shard = io.shard_id().0, "{note}");
    }
    if recovered.applied > 0 || recovered.dropped > 0 {
        let (applied, dropped) = (recovered.applied, recovered.dropped);
        tracing::info!(shard = io.shard_id().0, applied, of_dropped_tables = dropped, "replayed the commit log");
    }
}

/// Everything of the old streams is flushed on every shard: they go.
async fn forget_old_streams(io: &Io, config: &NodeConfig, root: &mut Root) -> Result<(), BootError> {
    let old: Vec<_> = root.streams.iter().filter(|stream| !stream.live).map(|stream| stream.stream).collect();
    if old.is_empty() {
        return Ok(());
    }
    root.streams.retain(|stream| stream.live);
    root.store(io, &config.data_dir, config.planted).await?;
    Ok(crate::shard::remove_old_streams(io, &config.data_dir.join(COMMITLOG_DIR), &old).await?)
}

/// What the configuration and the directory say of the node.
fn local_info(config: &NodeConfig, root: &Root) -> LocalInfo {
    LocalInfo {
        host_id: root.host_id.into_bytes(),
        tokens: tokens(root, config.num_tokens),
        generation: i32::try_from(root.boot_generation).unwrap_or(i32::MAX),
        data_center: root.data_center.clone(),
        rack: root.rack.clone(),
        cluster_name: root.cluster_name.clone(),
        addresses: config.addresses,
    }
}

/// The rows of the system tables that describe this node and the schema.
async fn write_system_rows(
    shard: &Rc<Shard>,
    schema: &Schema,
    config: &NodeConfig,
    root: &Root,
    router: &Rc<Router>,
) -> Result<(), BootError> {
    let local = local_info(config, root);
    let stored = stored_rows(shard, schema).await?;
    let mark = stored.iter().find(|(kind, _)| kind == stored::ROWS_KIND.as_bytes()).map(|(_, mark)| &**mark);
    let rows = system_rows::of_boot(schema, mark, &local, &router.context());
    for mutation in rows {
        let mut write = Write { mutations: vec![mutation.bytes], ..Write::default() };
        let applied = shard.when_room(NO_DEADLINE, || shard.apply(&mut write)).await;
        applied.map_err(|error| ShardError::LogFailed(error.to_string()))?;
    }
    Ok(())
}

/// The shards' waiting for one another.
struct Gathering {
    io: Io,
    mesh: Mesh<Message>,
    /// Steps that came and were not waited for yet.
    steps: VecDeque<BootStep>,
    early: Vec<(ShardId, Message)>,
}

impl Gathering {
    fn new(io: Io, mesh: Mesh<Message>) -> Gathering {
        Gathering { io, mesh, steps: VecDeque::new(), early: Vec::new() }
    }

    async fn tell_all(&self, step: &BootStep) {
        for shard in (1..self.io.shard_count()).map(ShardId) {
            self.mesh.send(shard, Message::Boot(step.clone())).await;
        }
    }

    /// The next message that belongs to the start; others are kept for later.
    async fn next(&mut self) -> BootStep {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return step;
            }
            let mut received = Vec::new();
            self.mesh.recv(&mut received).await;
            for (from, message) in received {
                match message {
                    Message::Boot(step) => self.steps.push_back(step),
                    other => self.early.push((from, other)),
                }
            }
        }
    }

    async fn wait_for_start(&mut self) -> Result<(Root, Vec<SchemaOp>), BootError> {
        loop {
            match self.next().await {
                BootStep::Start { root, ops } => return Ok((*root, ops)),
                BootStep::Abort => return Err(BootError::Elsewhere),
                BootStep::Schema { .. } | BootStep::Done { .. } | BootStep::Go { .. } => {}
            }
        }
    }

    async fn wait_for_schema(&mut self) -> Result<Vec<SchemaOp>, BootError> {
        loop {
            match self.next().await {
                BootStep::Schema { ops } => return Ok(ops),
                BootStep::Abort => return Err(BootError::Elsewhere),
                BootStep::Start { .. } | BootStep::Done { .. } | BootStep::Go { .. } => {}
            }
        }
    }

    /// Says how this step went here, and waits until every shard has done it.
    async fn step<T>(&mut self, step: u8, outcome: Result<T, ShardError>) -> Result<T, BootError> {
        if self.io.shard_id() == ShardId(0) {
            let value = outcome?;
            let mut left = self.io.shard_count() - 1;
            while left > 0 {
                if let BootStep::Done { step: done, failed } = self.next().await {
                    debug_assert_eq!(done, step, "a shard is a step ahead");
                    if let Some(reason) = failed {
                        tracing::error!("a shard could not start: {reason}");
                        return Err(BootError::Elsewhere);
                    }
                    left -= 1;
                }
            }
            self.tell_all(&BootStep::Go { step }).await;
            return Ok(value);
        }
        let failed = outcome.as_ref().err().map(ToString::to_string);
        self.mesh.send(ShardId(0), Message::Boot(BootStep::Done { step, failed })).await;
        let value = outcome?;
        loop {
            match self.next().await {
                BootStep::Go { step: gone } if gone == step => return Ok(value),
                BootStep::Abort => return Err(BootError::Elsewhere),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn keyspace(name: &str) -> SchemaOp {
        SchemaOp::PutKeyspace { name: name.into(), durable_writes: true, replication: BTreeMap::new() }
    }

    #[test]
    fn what_a_change_under_way_dropped_is_dropped_by_name_and_id() {
        let table = |keyspace: &str, id: u8| {
            let local = system::schema().table("system", "local").map(|table| (**table).clone());
            let mut table = local.expect("a system table");
            (table.keyspace, table.name) = (keyspace.into(), format!("t{id}"));
            table.id = crate::base::ids::TableId([id; 16]);
            SchemaOp::PutTable(Box::new(table))
        };
        let schema = |ops: &[SchemaOp]| {
            let mut schema = system::schema();
            ops.iter().for_each(|op| schema.apply(op));
            schema
        };
        let before = schema(&[keyspace("a"), keyspace("b"), table("a", 1), table("a", 2), table("b", 3)]);
        let after = schema(&[keyspace("a"), table("a", 2), table("a", 4)]);
        let id = crate::base::ids::TableId([1; 16]);
        let gone = SchemaOp::DropTable { keyspace: "a".into(), name: "t1".into(), id };
        assert_eq!(dropped_between(&before, &after), [gone, SchemaOp::DropKeyspace { name: "b".into() }]);
        assert!(dropped_between(&after, &after).is_empty());
    }
}
