//! The simulated half of `io`: a node, its disk and its clients in one thread, all of it a function of a seed.
//!
//! A [`Simulation`] runs N logical shards. Any task that is ready may run next; every turn, disk operation, message and
//! socket byte takes a seeded virtual time, so work under way overlaps and completes in any order. The disk tells
//! durable from pending and outlives the node: [`Simulation::crash`] takes the power away, [`Simulation::kill`] the
//! process. Faults come by seed at the rates of [`Faults`], or one by one where a test plans them.
//!
//! A test drives it: start a node, run until something holds, crash, look at the disk, start again.
//!
//! ```
//! use helenus::io::sim::{Faults, Simulation};
//! use helenus::io::{IoClass, OpenHow};
//! use std::path::Path;
//!
//! let sim = Simulation::new(7, Faults::NONE);
//! let written = sim.run_on_node(|io| async move {
//!     let file = io.open(Path::new("/log"), OpenHow::CreateNew, IoClass::Log).await?;
//!     let (_, result) = file.write_at_synced(io.buffer(4096), 0).await;
//!     result?;
//!     io.sync_dir(Path::new("/")).await
//! });
//! assert_eq!(written, Ok(Ok(())));
//! sim.crash();
//! assert_eq!(sim.disk().read(Path::new("/log")).map(|bytes| bytes.len()), Some(4096));
//! ```
//!
//! Two runs of a seed give the same [`Simulation::trace_hash`], or the code under test is not deterministic.

mod disk;
mod events;
mod faults;
mod file;
mod handle;
mod inspect;
mod mesh;
mod names;
mod random;
mod scheduler;
mod socket;
mod trace;
mod world;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

pub use faults::{DiskOp, Faults, Planned};
pub use file::File;
pub use handle::{Core, Sleep, Yield};
pub use inspect::{DiskImage, DiskView};
pub use mesh::{Mesh, Outside};
pub use random::Random;
pub use socket::{Accepted, Listener, Stream};
pub use trace::{Event as TraceEvent, Kind as TraceKind};

use super::{Io, IoError, IoHalf};
use scheduler::Owner;
use world::{Down, Step, World};

/// Why a run ended before what it waited for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halted {
    #[error("deadlock at {at_ns} ns: no task can run and no timer is set; waiting: {waiting}")]
    Deadlock { at_ns: u64, waiting: String },
    #[error("the node stopped itself: {reason}")]
    FailStop { reason: String },
    #[error("the power went at {at_ns} ns, as the faults have it")]
    Crashed { at_ns: u64 },
    #[error("no end after {steps} steps; waiting: {waiting}")]
    TooLong { steps: u64, waiting: String },
}

/// The most steps of one run, unless `Simulation::set_steps_max` says otherwise.
const STEPS_MAX: u64 = 50_000_000;

/// Tasks named in an error.
const NAMED_TASKS_MAX: usize = 16;

/// The mesh's messages from one shard to another, unless `Simulation::set_mesh_capacity` says otherwise.
const MESH_CAPACITY: usize = 64;

/// A node, its disk, its clients. Dropped, it drops every task and waits for nothing.
pub struct Simulation {
    world: Rc<World>,
    shards: Cell<u16>,
    mesh_capacity: Cell<usize>,
    steps_max: Cell<u64>,
    /// Entries of this life of the node that have not returned.
    entries: Rc<Cell<u32>>,
}

impl Simulation {
    pub fn new(seed: u64, faults: Faults) -> Self {
        Simulation {
            world: World::new(seed, faults),
            shards: Cell::new(0),
            mesh_capacity: Cell::new(MESH_CAPACITY),
            steps_max: Cell::new(STEPS_MAX),
            entries: Rc::default(),
        }
    }

    /// Starts the node: `entry` once a shard. Nothing runs before one of the `run` functions.
    ///
    /// # Panics
    /// Where the node runs already, or `shards` is 0.
    #[track_caller]
    pub fn start<M, F, Fut>(&self, shards: u16, entry: F) -> super::Outside<M>
    where
        M: Send + 'static,
        F: Fn(Io, super::Mesh<M>) -> Fut,
        Fut: Future<Output = ()> + 'static,
    {
        assert!(shards > 0, "a node has at least one shard");
        let spawned_at = Location::caller();
        let boot = self.world.boot(shards);
        self.shards.set(shards);
        self.entries.set(u32::from(shards));
        let (ends, outside) = Mesh::new(&self.world, shards, self.mesh_capacity.get());
        for (shard, mesh) in (0..shards).zip(ends) {
            let owner = Owner::Node { boot, shard };
            let task = entry(self.io(owner), super::Mesh::sim(mesh));
            let entries = self.entries.clone();
            let counted = async move {
                task.await;
                entries.set(entries.get() - 1);
            };
            self.world.spawn(owner, Box::pin(counted), spawned_at);
        }
        super::Outside::sim(outside)
    }

    /// Runs a task on shard 0 to its end; starts a node of one shard where none runs. The node runs on afterwards: its
    /// detached tasks go on with the next run.
    #[track_caller]
    pub fn run_on_node<F, Fut>(&self, task: F) -> Result<Fut::Output, Halted>
    where
        F: FnOnce(Io) -> Fut,
        Fut: Future + 'static,
    {
        if !self.is_running() {
            let _: super::Outside<()> = self.start(1, |_, _| std::future::pending());
        }
        let owner = Owner::Node { boot: self.world.boots(), shard: 0 };
        self.run_to_end(owner, task(self.io(owner)), Location::caller())
    }

    /// Runs a client's task to its end.
    #[track_caller]
    pub fn run_client<Fut: Future + 'static>(&self, task: Fut) -> Result<Fut::Output, Halted> {
        self.run_to_end(Owner::Client, task, Location::caller())
    }

    fn run_to_end<Fut>(
        &self,
        owner: Owner,
        task: Fut,
        spawned_at: &'static Location<'static>,
    ) -> Result<Fut::Output, Halted>
    where
        Fut: Future + 'static,
    {
        let output = Rc::new(RefCell::new(None));
        let slot = output.clone();
        let task = async move {
            let value = task.await;
            *slot.borrow_mut() = Some(value);
        };
        self.world.spawn(owner, Box::pin(task), spawned_at);
        self.run_until(|| output.borrow().is_some())?;
        let output = output.borrow_mut().take();
        Ok(output.expect("the run ended because it is there"))
    }

    /// Runs until `done` holds, which is asked before every step.
    pub fn run_until(&self, mut done: impl FnMut() -> bool) -> Result<(), Halted> {
        for _ in 0..self.steps_max.get() {
            if done() {
                return Ok(());
            }
            self.step()?.then_some(()).ok_or_else(|| self.deadlock())?;
        }
        Err(Halted::TooLong { steps: self.steps_max.get(), waiting: self.waiting() })
    }

    /// Runs until no task can run and no timer is set.
    pub fn run_until_idle(&self) -> Result<(), Halted> {
        for _ in 0..self.steps_max.get() {
            if !self.step()? {
                return Ok(());
            }
        }
        Err(Halted::TooLong { steps: self.steps_max.get(), waiting: self.waiting() })
    }

    /// Runs for a virtual time.
    pub fn run_for(&self, duration: Duration) -> Result<(), Halted> {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = self.world.now_ns().saturating_add(duration_ns);
        let alarm = Rc::new(Cell::new(false));
        let rings = alarm.clone();
        let wait = self.world.sleep(Owner::Client, duration_ns);
        let task = async move {
            wait.await;
            rings.set(true);
        };
        self.world.spawn(Owner::Client, Box::pin(task), Location::caller());
        self.run_until(|| alarm.get())?;
        debug_assert!(self.world.now_ns() >= until_ns);
        Ok(())
    }

    /// Runs one task once. False where nothing can run and nothing is to come.
    pub fn step(&self) -> Result<bool, Halted> {
        let step = self.world.step();
        match self.world.take_halted() {
            Some(halted) => Err(halted),
            None => Ok(step == Step::Ran),
        }
    }

    /// Runs so many steps. False where nothing could run any more.
    pub fn run_steps(&self, steps: u64) -> Result<bool, Halted> {
        for _ in 0..steps {
            if !self.step()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The power goes: every task of the node is dropped unpolled, and of what is pending on the disk a seeded part is
    /// lost. Also right where the node is down already.
    pub fn crash(&self) {
        self.world.take_down(Down::Power);
    }

    /// `kill -9`: every task of the node is dropped unpolled. Writes that had completed stay, pending as they were.
    pub fn kill(&self) {
        self.world.take_down(Down::Kill);
    }

    /// Waits until every shard's entry has returned (the test asks them to, by a message), then ends the process.
    pub fn stop_clean(&self) -> Result<(), Halted> {
        self.run_until(|| self.has_returned())?;
        self.kill();
        Ok(())
    }

    /// Every shard's entry has returned.
    pub fn has_returned(&self) -> bool {
        self.entries.get() == 0
    }

    /// A node runs: it was started, and neither crashed nor stopped since.
    pub fn is_running(&self) -> bool {
        self.world.is_running()
    }

    /// A handle for a client's tasks: they outlive every crash of the node.
    pub fn client_io(&self) -> Io {
        self.io(Owner::Client)
    }

    /// A handle with which clients connect to the node.
    pub fn client(&self) -> Client {
        Client { core: Core::new(self.world.clone(), Owner::Client, self.shards.get()) }
    }

    pub fn now_ns(&self) -> u64 {
        self.world.now_ns()
    }

    /// Moves the wall clock, back or forward; the monotonic one goes on.
    pub fn jump_wall_us(&self, by_us: i64) {
        self.world.jump_wall(by_us);
    }

    /// The latest that the wall clock has shown, whatever jumped since.
    pub fn wall_latest_us(&self) -> i64 {
        self.world.wall_latest_us()
    }

    pub fn set_faults(&self, faults: Faults) {
        self.world.faults.set(faults);
        self.disk().set_capacity_bytes(faults.disk_capacity_bytes);
    }

    /// Plans one fault of the disk.
    pub fn plan_fault(&self, planned: Planned) {
        self.world.plan.borrow_mut().add(planned);
    }

    /// For the next start.
    pub fn set_mesh_capacity(&self, messages: usize) {
        self.mesh_capacity.set(messages);
    }

    pub fn set_steps_max(&self, steps: u64) {
        self.steps_max.set(steps);
    }

    /// The disk, to look at and to damage.
    pub fn disk(&self) -> DiskView<'_> {
        DiskView::new(&self.world.disk)
    }

    /// A hash over every scheduling decision, operation and completion so far.
    pub fn trace_hash(&self) -> u64 {
        self.world.trace.hash()
    }

    /// How many events the trace has so far.
    pub fn trace_len(&self) -> u64 {
        self.world.trace.events()
    }

    /// From here on the trace's events are kept, for `take_trace`.
    pub fn keep_trace(&self) {
        self.world.trace.keep();
    }

    /// The events kept so far: where two runs of a seed differ, the first difference says where to look.
    pub fn take_trace(&self) -> Vec<TraceEvent> {
        self.world.trace.take()
    }

    fn io(&self, owner: Owner) -> Io {
        Io(IoHalf::Sim(Core::new(self.world.clone(), owner, self.shards.get())))
    }

    fn deadlock(&self) -> Halted {
        Halted::Deadlock { at_ns: self.world.now_ns(), waiting: self.waiting() }
    }

    fn waiting(&self) -> String {
        self.world.scheduler.borrow().describe(NAMED_TASKS_MAX)
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.world.end();
    }
}

/// What a client's tasks connect with; a cheap clone.
#[derive(Clone)]
pub struct Client {
    core: Core,
}

impl Client {
    pub fn io(&self) -> Io {
        Io(IoHalf::Sim(self.core.clone()))
    }

    /// Connects; refused where nobody listens there.
    pub fn connect(&self, to: SocketAddr) -> Result<super::Stream, IoError> {
        self.core.connect(to).map(super::Stream::sim)
    }
}

#[cfg(test)]
mod tests;
