//! One life of the simulated node: it boots, workers write and read, and it ends by a crash, a kill or a clean stop.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use helenus::base::plants::Planted;
use helenus::commitlog::{LogConfig, SyncMode};
use helenus::io::sim::{Halted, Simulation};
use helenus::io::{Io, TaskClass};
use helenus::plan::select::READ_PAGE_BYTES;
use helenus::protocol::CqlError;
use helenus::router::message::{Message, Operation};
use helenus::router::{PageRoom, Router};
use helenus::schema::Table;
use helenus::server::boot::{NodeConfig, boot};

use super::features::{Features, Kind};
use super::model::{Model, Op, State, Times, Value};
use super::stream;
use super::table::{CREATE_KEYSPACE, create_table, read_of, scan_of, take_rows, write_of};
use crate::dice::Dice;

/// Workers that write at once, each its own partitions.
pub const WORKERS: i32 = 3;
/// More rows than there are.
const SCANNED_ROWS: u64 = 10_000;
/// Partitions of each worker.
const PARTITIONS: i32 = 3;
/// Clustering keys of each partition.
const CLUSTERINGS: u64 = 12;

/// What outlives the node: the models, and what was counted.
pub struct World {
    pub features: Features,
    sim: Weak<Simulation>,
    pub models: Vec<RefCell<Model>>,
    pub operations: Cell<u64>,
    /// Memtables that were evacuated.
    pub evacuations: Cell<u64>,
    /// Whether every operation is printed.
    is_told: bool,
    next_value: Cell<i32>,
    /// How often the power went.
    pub crashes: Cell<u64>,
    /// Whether the log is in `periodic` mode.
    pub is_periodic: Cell<bool>,
    /// Whether since the last check the power went, or a disk lost what it should have saved, while `periodic` had
    /// acknowledged more than it had synced.
    pub may_have_lost: Cell<bool>,
    /// The first violation.
    pub violation: RefCell<Option<String>>,
}

impl World {
    pub fn new(features: Features, sim: &Rc<Simulation>, is_told: bool) -> Rc<Self> {
        Rc::new(World {
            features,
            sim: Rc::downgrade(sim),
            is_told,
            models: (0..WORKERS).map(|_| RefCell::default()).collect(),
            operations: Cell::new(0),
            evacuations: Cell::new(0),
            next_value: Cell::new(0),
            crashes: Cell::new(0),
            is_periodic: Cell::new(false),
            may_have_lost: Cell::new(false),
            violation: RefCell::default(),
        })
    }

    /// The power went.
    pub fn power_went(&self) {
        self.crashes.set(self.crashes.get() + 1);
        self.loses_unsynced();
    }

    /// The power went, or a sync failed: `periodic` may have lost what it acknowledged last.
    pub fn loses_unsynced(&self) {
        self.may_have_lost.set(self.may_have_lost.get() || self.is_periodic.get());
    }

    /// Prints what is done, where asked to.
    pub fn say(&self, what: impl FnOnce() -> String) {
        if self.is_told {
            eprintln!("{}", what());
        }
    }

    fn violate(&self, what: String) {
        self.violation.borrow_mut().get_or_insert(what);
    }

    fn value(&self) -> Value {
        self.next_value.set(self.next_value.get() + 1);
        Value { v: self.next_value.get(), expires_s: None }
    }

    /// The clocks after a read as of `now_s`.
    fn times(&self, now_s: i64) -> Times {
        let latest_us = self.sim.upgrade().map_or(i64::MAX, |sim| sim.wall_latest_us());
        Times { now_s, latest_s: latest_us.div_euclid(1_000_000) }
    }
}

/// The worker that owns a partition.
fn worker_of(k: i32) -> usize {
    usize::try_from(k / PARTITIONS).expect("partitions are not negative")
}

/// A started node.
pub struct Node {
    pub shards: u16,
    routers: Rc<RefCell<Vec<Rc<Router>>>>,
    failed: Rc<RefCell<Option<String>>>,
}

/// Memory that no seed's rows fill.
const MEMTABLE_BYTES: u64 = 64 << 20;

pub fn config(mode: SyncMode, segment_bytes: u32, features: Features, planted: Planted) -> NodeConfig {
    let total_bytes = 4 * u64::from(segment_bytes);
    let log = LogConfig { segment_bytes, total_bytes, mode, planted, ..LogConfig::default() };
    NodeConfig {
        memtable_bytes: features.memtable_bytes.unwrap_or(MEMTABLE_BYTES),
        read_turn_places: features.read_turn_places(),
        planted,
        ..NodeConfig::simulated(log, Duration::from_secs(30))
    }
}

impl Node {
    /// Starts a node and runs it until every shard serves. An error where it could not start.
    pub fn start(sim: &Simulation, shards: u16, config: &NodeConfig) -> Result<Node, String> {
        let routers: Rc<RefCell<Vec<Rc<Router>>>> = Rc::default();
        let failed: Rc<RefCell<Option<String>>> = Rc::default();
        let (started, gone, config) = (routers.clone(), failed.clone(), config.clone());
        sim.start::<Message, _, _>(shards, move |io, mesh| {
            let (started, gone, config) = (started.clone(), gone.clone(), config.clone());
            async move {
                match boot(io.clone(), mesh, &config).await {
                    Ok(booted) => {
                        io.spawn(TaskClass::Foreground, booted.router.clone().run(booted.early));
                        started.borrow_mut().push(booted.router.clone());
                        booted.router.closed().await;
                    }
                    Err(error) => drop(gone.borrow_mut().get_or_insert(error.to_string())),
                }
            }
        });
        let node = Node { shards, routers, failed };
        let up = sim.run_until(|| node.is_up() || node.failed.borrow().is_some());
        match (up, node.failed.borrow().clone()) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(reason)) => Err(reason),
            (Err(halted), _) => Err(halted.to_string()),
        }?;
        Ok(node)
    }

    fn is_up(&self) -> bool {
        self.routers.borrow().len() == usize::from(self.shards)
    }

    fn router(&self, dice: &mut Dice) -> Rc<Router> {
        dice.pick(&self.routers.borrow()).clone()
    }
}

/// The table under test, as this router knows it.
fn table(router: &Router) -> Option<Rc<Table>> {
    router.schema().table("sim", "t").cloned()
}

/// Makes keyspace and table where they are not there.
pub fn create(sim: &Simulation, node: &Node, features: Features) -> Result<(), String> {
    let router = node.routers.borrow()[0].clone();
    let made = sim.run_on_node(|_| async move {
        for text in [CREATE_KEYSPACE, create_table(features)] {
            match router.ddl(text, None).await {
                Ok(_) => {}
                Err(error) if error.message().contains("already exists") => {}
                Err(error) => return Err(error.message().to_owned()),
            }
        }
        Ok(())
    });
    made.map_err(|halted| halted.to_string())?
}

/// Starts the workers, the operator and the one who changes the schema. They run until the node ends or `operations`
/// are done.
pub fn start_work(sim: &Simulation, node: &Node, world: &Rc<World>, dice: &mut Dice, operations: u64) {
    let until = world.operations.get() + operations;
    for worker in 0..WORKERS {
        let (router, world, dice) = (node.router(dice), world.clone(), stream(dice.next()));
        let routers = node.routers.clone();
        let io = router_io(sim, &router);
        io.spawn(TaskClass::Foreground, work(routers, world, worker, dice, until));
    }
    let (router, dice) = (node.router(dice), stream(dice.next()));
    let io = router_io(sim, &router);
    io.clone().spawn(TaskClass::Foreground, operate(io, router, world.clone(), dice, until));
}

/// The `io` of the shard that a router serves.
fn router_io(_sim: &Simulation, router: &Rc<Router>) -> Io {
    router.io().clone()
}

/// One worker: writes and reads its own partitions, one operation at a time, through any shard.
async fn work(routers: Rc<RefCell<Vec<Rc<Router>>>>, world: Rc<World>, worker: i32, mut dice: Dice, until: u64) {
    // All calls of a worker go through the router of the shard that its task runs on: a router belongs to its shard.
    let router = routers.borrow()[usize::try_from(worker).expect("small") % routers.borrow().len()].clone();
    let mut features_dice = dice.part(1);
    while world.operations.get() < until && world.violation.borrow().is_none() {
        world.operations.set(world.operations.get() + 1);
        let Some(table) = table(&router) else { return };
        if dice.one_in(4) {
            check_partition(&router, &table, &world, worker, &mut dice).await;
            continue;
        }
        let model = &world.models[usize::try_from(worker).expect("small")];
        if model.borrow().is_too_doubtful() {
            return;
        }
        let now_s = now_s(&router);
        let op = world.features.alter(next_op(&world, worker, &mut dice), now_s, &mut features_dice);
        // In doubt until the answer, so that a crash at any moment finds the model right.
        let before = model.borrow().clone();
        model.borrow_mut().doubtful(&op);
        let outcome = router.write(write_of(&table, world.features, &op, now_s - 1)).await;
        world.say(|| format!("{} worker {worker}: {op:?}: {outcome:?}", router.context().now_us));
        match outcome {
            Ok(()) => {
                *model.borrow_mut() = before;
                model.borrow_mut().acknowledged(&op);
            }
            Err(error) if names_what_is_not_there(&error) => {
                *model.borrow_mut() = before;
                model.borrow_mut().refused(&op);
            }
            // A part of a batch may come to its owner later, and an index then mean another element: the worker rests.
            Err(_) if world.features.kind == Kind::Lists => return,
            Err(_) => {}
        }
    }
}

/// Whether an operation was refused because an element of a list is not there.
fn names_what_is_not_there(error: &CqlError) -> bool {
    error.message().starts_with("List index ") || error.message().starts_with("Attempted to ")
}

/// The second that a statement is given on this shard.
fn now_s(router: &Router) -> i64 {
    router.context().now_us.div_euclid(1_000_000)
}

/// The second that a read is made as of. Where nothing expires it is any, and the node's clock is left alone.
fn read_s(router: &Router, features: Features) -> i64 {
    if features.ttls { now_s(router) } else { 0 }
}

fn next_op(world: &World, worker: i32, dice: &mut Dice) -> Op {
    let mut k = || worker * PARTITIONS + i32::try_from(dice.below(PARTITIONS as u64)).expect("small");
    let (first, second) = (k(), k());
    let mut c = || i32::try_from(dice.below(CLUSTERINGS)).expect("small");
    let (from, to) = (c(), c());
    match dice.below(20) {
        0 => Op::DeletePartition(first),
        1 | 2 => Op::DeleteRange(first, from.min(to), from.max(to)),
        3..=5 => Op::DeleteRow(first, from),
        6..=8 if first != second => {
            let value = world.value();
            Op::Put(vec![((first, from), value), ((second, to), value)])
        }
        9 | 10 if from != to => {
            let value = world.value();
            Op::Put(vec![((first, from), value), ((first, to), value)])
        }
        _ => Op::Put(vec![((first, from), world.value())]),
    }
}

async fn check_partition(router: &Rc<Router>, table: &Rc<Table>, world: &World, worker: i32, dice: &mut Dice) {
    let k = worker * PARTITIONS + i32::try_from(dice.below(PARTITIONS as u64)).expect("small");
    let (reversed, page_rows, now_s) = (dice.one_in(2), 1 + dice.below(6), read_s(router, world.features));
    // A scan in one page: what others write meanwhile may differ from page to page.
    let is_scan = world.features.short_turns && dice.one_in(3);
    let mut command = match is_scan {
        true => scan_of(table, SCANNED_ROWS, now_s),
        false => read_of(table, k, reversed, page_rows, now_s),
    };
    let mut read = State::new();
    loop {
        // A read may fail while the disk does; it may never be wrong.
        let Ok(page) = router.read(table, &command, router.read_deadline(&command), &AnyRoom).await else { return };
        if let Err(what) = take_rows(table, world.features, &page, &mut read) {
            return world.violate(what);
        }
        match page.resume {
            Some(resume) => command.resume = Some(resume),
            None => break,
        }
    }
    read.retain(|(partition, _), _| *partition == k);
    let model = world.models[usize::try_from(worker).expect("small")].borrow();
    let times = world.times(now_s);
    if !model.allows_partition(k, &read, times) {
        let direction = match (is_scan, reversed) {
            (true, _) => "scanned",
            (false, true) => "descending",
            (false, false) => "ascending",
        };
        let how = format!("{direction}, in pages of {page_rows} rows, at {times:?}");
        world.violate(format!("partition {k} while running, {how}: {}", model.nearest_partition(k, &read)));
    }
}

/// Room for pages of any size.
struct AnyRoom;

impl PageRoom for AnyRoom {
    fn expect(&self) -> Result<usize, CqlError> {
        Ok(READ_PAGE_BYTES)
    }

    fn take(&self, _bytes: usize) -> Result<(), CqlError> {
        Ok(())
    }
}

/// The operator: flushes, compactions, schema changes beside the writes.
async fn operate(io: Io, router: Rc<Router>, world: Rc<World>, mut dice: Dice, until: u64) {
    let mut has_extra = router.schema().table("sim", "t").is_some_and(|table| table.column("x").is_some());
    while world.operations.get() < until && world.violation.borrow().is_none() {
        let patience_us = (100 + dice.below(20_000)) * world.features.operator_patience();
        io.sleep(Duration::from_micros(patience_us)).await;
        world.operations.set(world.operations.get() + 1);
        let operation = match dice.below(8) {
            0..=3 => Operation::Flush { keyspace: Some("sim".into()), tables: vec![] },
            4 | 5 => Operation::Compact { keyspace: Some("sim".into()), tables: vec![] },
            _ => {
                let text = match (has_extra, world.features.kind) {
                    (true, _) => "ALTER TABLE sim.t DROP x",
                    (false, Kind::Counters) => "ALTER TABLE sim.t ADD x counter",
                    (false, _) => "ALTER TABLE sim.t ADD x int",
                };
                let outcome = router.ddl(text, None).await;
                world.say(|| format!("{} {text}: {}", router.context().now_us, outcome.is_ok()));
                if outcome.is_ok() {
                    has_extra = !has_extra;
                }
                continue;
            }
        };
        let done = router.operate_everywhere(operation.clone()).await.is_ok();
        world.say(|| format!("{} {operation:?}: {done}", router.context().now_us));
    }
}

/// Truncates, with no worker at work.
pub fn truncate(sim: &Simulation, node: &Node, world: &Rc<World>) -> Result<(), Halted> {
    let router = node.routers.borrow()[0].clone();
    let world = world.clone();
    sim.run_on_node(|_| async move {
        let Some(table) = table(&router) else { return };
        world.models.iter().for_each(|model| model.borrow_mut().doubtful(&Op::Truncate));
        if router.truncate(table.id).await.is_ok() {
            world.models.iter().for_each(|model| model.borrow_mut().acknowledged(&Op::Truncate));
        }
    })
}

/// Reads everything, checks it, and takes it as what is there. An error is a violation.
pub fn check_all(sim: &Simulation, node: &Node, world: &Rc<World>, page_rows: u64) -> Result<(), String> {
    let router = node.routers.borrow()[0].clone();
    let features = world.features;
    let now_s = read_s(&router, features);
    let read = sim.run_on_node(|_| async move {
        let Some(table) = table(&router) else { return Err("the table is gone".to_owned()) };
        let mut command = scan_of(&table, page_rows, now_s);
        let mut read = State::new();
        loop {
            let page = router.read(&table, &command, router.read_deadline(&command), &AnyRoom).await;
            let page = page.map_err(|error| error.message().to_owned())?;
            take_rows(&table, features, &page, &mut read)?;
            match page.resume {
                Some(resume) => command.resume = Some(resume),
                None => return Ok(read),
            }
        }
    });
    let read = read.map_err(|halted| halted.to_string())??;
    let times = world.times(now_s);
    world.say(|| format!("read after a start, at {times:?}: {read:?}"));
    for (worker, model) in world.models.iter().enumerate() {
        let part: State =
            read.iter().filter(|((k, _), _)| worker_of(*k) == worker).map(|(key, v)| (*key, *v)).collect();
        let allowed = if world.may_have_lost.get() { Model::allows_after_loss } else { Model::allows };
        if !allowed(&model.borrow(), &part, times) {
            return Err(format!("worker {worker}: {}", model.borrow().nearest(&part)));
        }
        model.borrow_mut().settle(part, times, world.may_have_lost.get());
    }
    world.may_have_lost.set(false);
    Ok(())
}

/// Counts what the node did in its life.
pub fn count(node: &Node, world: &World) {
    for router in node.routers.borrow().iter() {
        let counters = router.shard().counters();
        let evacuations = counters.iter().find(|(name, _)| *name == "helenus_memtable_evacuations_total");
        world.evacuations.set(world.evacuations.get() + evacuations.map_or(0, |(_, count)| *count));
    }
}

/// Stops cleanly: every shard closes its log.
pub fn stop(sim: &Simulation, node: &Node) -> Result<(), String> {
    let routers = node.routers.borrow().clone();
    for router in routers {
        let closed = sim.run_on_node(|_| async move { router.shard().close().await });
        closed.map_err(|halted| halted.to_string())?.map_err(|error| error.to_string())?;
    }
    Ok(())
}
