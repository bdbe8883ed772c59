//! What every part of a simulation shares: virtual time, the tasks, the events to come, the disk, the network, the
//! faults. One step runs one task once.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::Location;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::Halted;
use super::disk::Disk;
use super::events::{Event, EventKey, Events, Fired, WriteInFlight};
use super::faults::{DiskOp, Faults, Plan};
use super::random::Random;
use super::scheduler::{BoxedFuture, Owner, Scheduler, Turn, Wakes};
use super::socket::Network;
use super::trace::{Kind, Trace};

/// The wall clock at virtual time 0: 2026-01-01 00:00 UTC.
const WALL_START_US: i64 = 1_767_225_600_000_000;

/// How long one turn of a task takes.
const TURN_NS: (u64, u64) = (100, 1_000);

const HOUR_US: u64 = 3_600_000_000;

pub(super) struct World {
    pub scheduler: RefCell<Scheduler>,
    pub events: RefCell<Events>,
    pub disk: RefCell<Disk>,
    pub network: RefCell<Network>,
    pub plan: RefCell<Plan>,
    pub faults: Cell<Faults>,
    pub trace: Trace,
    pub wakes: Arc<Wakes>,
    pub disk_random: Random,
    pub network_random: Random,
    pub engine_random: Random,
    schedule_random: Random,
    now_ns: Cell<u64>,
    wall_offset_us: Cell<i64>,
    /// The latest that the wall clock showed before it was set back.
    wall_left_us: Cell<i64>,
    /// Counts the starts of the node.
    boot: Cell<u32>,
    running: Cell<bool>,
    /// Why the node went down by itself; not reported yet.
    halted: RefCell<Option<Halted>>,
}

/// How the node goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Down {
    /// The power goes: what is pending on the disk meets its fate.
    Power,
    /// The process is killed: what the system was given stays, pending.
    Kill,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Ran,
    /// No task can run and nothing is to come.
    Stuck,
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Rc<Self> {
        let scheduler = Scheduler::default();
        let wakes = scheduler.wakes().clone();
        Rc::new(World {
            scheduler: RefCell::new(scheduler),
            events: RefCell::default(),
            disk: RefCell::new(Disk::new(faults.disk_capacity_bytes)),
            network: RefCell::default(),
            plan: RefCell::default(),
            faults: Cell::new(faults),
            trace: Trace::default(),
            wakes,
            disk_random: Random::stream(seed, 1),
            network_random: Random::stream(seed, 2),
            engine_random: Random::stream(seed, 3),
            schedule_random: Random::stream(seed, 4),
            now_ns: Cell::new(0),
            wall_offset_us: Cell::new(0),
            wall_left_us: Cell::new(WALL_START_US),
            boot: Cell::new(0),
            running: Cell::new(false),
            halted: RefCell::default(),
        })
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    pub fn advance_to(&self, at_ns: u64) {
        self.now_ns.set(self.now_ns.get().max(at_ns));
    }

    pub fn wall_us(&self) -> i64 {
        WALL_START_US + (self.now_ns.get() / 1_000).cast_signed() + self.wall_offset_us.get()
    }

    pub fn wall_latest_us(&self) -> i64 {
        self.wall_left_us.get().max(self.wall_us())
    }

    pub fn jump_wall(&self, by_us: i64) {
        self.wall_left_us.set(self.wall_latest_us());
        self.note(Kind::WallJump, by_us.cast_unsigned(), 0);
        self.wall_offset_us.set(self.wall_offset_us.get() + by_us);
    }

    pub fn note(&self, kind: Kind, a: u64, b: u64) {
        self.trace.note(kind, self.now_ns.get(), a, b);
    }

    pub fn is_running(&self) -> bool {
        self.running.get()
    }

    pub fn is_alive(&self, owner: Owner) -> bool {
        match owner {
            Owner::Client => true,
            Owner::Node { boot, .. } => self.running.get() && boot == self.boot.get(),
        }
    }

    /// The number of the node's present or last life.
    pub fn boots(&self) -> u32 {
        self.boot.get()
    }

    /// A new life of the node; its number.
    pub fn boot(&self, shards: u16) -> u32 {
        assert!(!self.running.get(), "a node that runs cannot be started");
        self.boot.set(self.boot.get() + 1);
        self.running.set(true);
        self.note(Kind::Start, u64::from(self.boot.get()), u64::from(shards));
        self.boot.get()
    }

    /// The node gave up: none of its tasks runs again, and nothing it still does has an effect. Its writes under way end
    /// with the turn: the kernel waits for a process's io_uring requests before it releases its files and their locks.
    pub fn fail_stop(&self, owner: Owner, reason: &str) {
        if self.is_alive(owner) && owner != Owner::Client {
            self.note(Kind::FailStop, u64::from(crc32c::crc32c(reason.as_bytes())), 0);
            self.running.set(false);
            *self.halted.borrow_mut() = Some(Halted::FailStop { reason: reason.to_string() });
        }
    }

    pub fn take_halted(&self) -> Option<Halted> {
        self.halted.borrow_mut().take()
    }

    pub fn spawn(&self, owner: Owner, future: BoxedFuture, spawned_at: &'static Location<'static>) {
        if self.is_alive(owner) {
            let key = self.scheduler.borrow_mut().spawn(owner, future, spawned_at);
            self.note(Kind::Spawn, key.id, 0);
        }
    }

    /// Waits on behalf of `owner`; for ever where that is down.
    pub fn sleep(self: &Rc<Self>, owner: Owner, duration_ns: u64) -> Wait {
        let key = self.is_alive(owner).then(|| {
            let at_ns = self.now_ns().saturating_add(duration_ns);
            self.events.borrow_mut().add(at_ns, Event::Sleep(None))
        });
        Wait { world: self.clone(), key, done: false }
    }

    pub fn wake_at(&self, at_ns: u64, waker: Waker) {
        self.events.borrow_mut().add(at_ns, Event::Wake(waker));
    }

    /// How long a disk operation takes: from `low_us` to `high_us`, or by fault up to half a second.
    pub fn disk_delay_ns(&self, (low_us, high_us): (u64, u64)) -> u64 {
        let high_us = if self.disk_random.chance(self.faults.get().slow_io_ppm) { 500_000 } else { high_us };
        self.disk_random.between(low_us * 1_000, high_us * 1_000)
    }

    /// The errno with which a disk operation fails, where it does.
    pub fn disk_fault(&self, op: DiskOp, path: &Path) -> Option<i32> {
        let faults = self.faults.get();
        let rate = match op {
            DiskOp::Read => faults.read_error_ppm,
            DiskOp::Write | DiskOp::Name => faults.write_error_ppm,
            DiskOp::Sync | DiskOp::SyncDir => faults.sync_error_ppm,
        };
        let planned = self.plan.borrow_mut().take(op, path);
        let errno = planned.or_else(|| self.disk_random.chance(rate).then_some(libc::EIO))?;
        self.note(Kind::Fault, op as u64, errno.cast_unsigned().into());
        Some(errno)
    }

    /// Runs one task once; moves time on where none is ready.
    pub fn step(self: &Rc<Self>) -> Step {
        self.step_faults();
        loop {
            self.fire_due();
            let (dropped, turn) = {
                let mut scheduler = self.scheduler.borrow_mut();
                let dropped = scheduler.take_inbox();
                let turn = scheduler.pick(&self.schedule_random, |owner| self.is_alive(owner));
                (dropped, turn)
            };
            // Those at the other end are woken, and found at the next look.
            let ended = !dropped.is_empty();
            dropped.into_iter().for_each(|id| self.network.borrow_mut().drop_unadopted(id));
            if let Some(turn) = turn {
                self.poll(turn);
                if matches!(*self.halted.borrow(), Some(Halted::FailStop { .. })) {
                    self.take_down(Down::Kill);
                }
                return Step::Ran;
            }
            if ended {
                continue;
            }
            let next_at_ns = self.events.borrow_mut().next_at_ns();
            match next_at_ns {
                Some(at_ns) => self.advance_to(at_ns),
                None => return Step::Stuck,
            }
        }
    }

    fn poll(&self, Turn { key, mut future, waker }: Turn) {
        self.note(Kind::Poll, key.id, 0);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        self.now_ns.set(self.now_ns.get() + self.schedule_random.between(TURN_NS.0, TURN_NS.1));
        match polled {
            Poll::Pending => self.scheduler.borrow_mut().pending(key, future),
            Poll::Ready(()) => {
                drop(future);
                self.note(Kind::Done, key.id, 0);
                self.scheduler.borrow_mut().finished(key);
            }
        }
    }

    fn step_faults(self: &Rc<Self>) {
        let faults = self.faults.get();
        if self.schedule_random.chance(faults.wall_jump_ppm) {
            let by_us = self.schedule_random.below(HOUR_US).cast_signed();
            self.jump_wall(if self.schedule_random.coin() { by_us } else { -by_us });
        }
        if self.running.get() && self.schedule_random.chance(faults.crash_ppm) {
            self.take_down(Down::Power);
            *self.halted.borrow_mut() = Some(Halted::Crashed { at_ns: self.now_ns() });
        }
    }

    fn fire_due(&self) {
        loop {
            let due = self.events.borrow_mut().pop_due(self.now_ns());
            let Some(key) = due else { return };
            let fired = self.events.borrow_mut().fire(key);
            match fired {
                Fired::Wake(waker) => {
                    self.note(Kind::Timer, 0, 0);
                    waker.wake();
                }
                Fired::Slept(waker) => {
                    self.note(Kind::Timer, 1, 0);
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
                Fired::Write(write) => self.complete_write(key, write),
                Fired::Nothing => {}
            }
        }
    }

    fn complete_write(&self, key: EventKey, write: WriteInFlight) {
        let result = self.apply_write(&write);
        let sum = u64::from(crc32c::crc32c(&write.buf));
        self.note(Kind::WriteDone, u64::from(write.file.node()) << 40 ^ write.offset_bytes, sum);
        let WriteInFlight { buf, waker, detached, file, .. } = write;
        if detached {
            self.events.borrow_mut().remove(key);
        } else {
            self.events.borrow_mut().put(key, Event::Written(buf, result));
        }
        // The file may close here, which borrows the disk: nothing else is borrowed by now.
        drop(file);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn apply_write(&self, write: &WriteInFlight) -> Result<(), i32> {
        let (node, path) = (write.file.node(), write.file.path());
        if let Some(errno) = self.disk_fault(DiskOp::Write, path) {
            let some = self.disk_random.index(write.buf.len() / 512 + 1) * 512;
            // What a failed write leaves behind is nobody's promise, and neither is whether it fits.
            let _ = self.disk.borrow_mut().write(node, write.offset_bytes, &write.buf[..some], false);
            return Err(errno);
        }
        let sync_fault = if write.synced { self.disk_fault(DiskOp::Sync, path) } else { None };
        let synced = write.synced && sync_fault.is_none();
        self.disk.borrow_mut().write(node, write.offset_bytes, &write.buf, synced)?;
        sync_fault.map_or(Ok(()), Err)
    }

    /// Takes the node down: drops its tasks without polling any, closes its connections, and lets its writes under way
    /// and, without power, all that was pending meet their fate.
    pub fn take_down(self: &Rc<Self>, down: Down) {
        self.running.set(false);
        let tasks = self.scheduler.borrow_mut().take_tasks(|owner| owner != Owner::Client);
        drop(tasks);
        self.network.borrow_mut().take_down();
        let mut writes = self.events.borrow_mut().take_writes(|owner| owner != Owner::Client);
        while !writes.is_empty() {
            let write = writes.swap_remove(self.disk_random.index(writes.len()));
            if self.disk_random.coin() {
                // Nobody learns how a write under way ended.
                let _ = self.disk.borrow_mut().write(write.file.node(), write.offset_bytes, &write.buf, false);
            }
        }
        let fate = match down {
            Down::Power => self.disk.borrow_mut().crash(&self.disk_random) as u64,
            Down::Kill => u64::MAX,
        };
        self.note(Kind::Crash, u64::from(self.boot.get()), fate);
    }

    /// Ends everything, so that no cycle of owners keeps the world alive.
    pub fn end(self: &Rc<Self>) {
        self.take_down(Down::Kill);
        let tasks = self.scheduler.borrow_mut().take_tasks(|_| true);
        drop(tasks);
        let events = self.events.borrow_mut().take_all();
        drop(events);
    }
}

/// A wait until a virtual time. Dropped, it is forgotten.
pub(super) struct Wait {
    world: Rc<World>,
    /// Absent where its owner was down already: it never ends.
    key: Option<EventKey>,
    done: bool,
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.done {
            return Poll::Ready(());
        }
        let Some(key) = self.key else { return Poll::Pending };
        let mut events = self.world.events.borrow_mut();
        match events.get_mut(key) {
            Some(Event::Sleep(waker)) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => {
                events.remove(key);
                drop(events);
                (self.key, self.done) = (None, true);
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let event = self.world.events.borrow_mut().remove(key);
            drop(event);
        }
    }
}
