//! One shard's state, and the handle to it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::doorbell::Doorbell;
use super::helper::Helper;
use super::ops::{Ops, RINGING};
use super::random::RandomPool;
use super::ring::Ring;
use super::task::{Tasks, Yield};
use super::timers::{Sleep, Timers};
use super::watch::Heartbeat;
use crate::base::ids::{ShardId, TimestampMicros};
use crate::base::local::{Permit, Semaphore, WakerList};
use crate::io::{IoClass, IoStats, TaskClass, allocated};

/// All that one shard's half of `io` keeps.
pub(super) struct Shard {
    id: ShardId,
    started: Instant,
    pub(super) ring: RefCell<Ring>,
    pub(super) ops: RefCell<Ops>,
    pub(super) timers: RefCell<Timers>,
    pub(super) tasks: Rc<Tasks>,
    /// Every shard's doorbell, this one's too.
    pub(super) doorbells: Arc<[Doorbell]>,
    /// Shards for which something was put in since the last flush.
    to_ring: RefCell<Vec<ShardId>>,
    /// Tasks that wait for this shard's doorbell.
    at_the_door: WakerList,
    pub(super) helper: RefCell<Option<Helper>>,
    /// Every shard's heartbeat, this one's too.
    heartbeats: Arc<[Heartbeat]>,
    budgets: [Rc<Semaphore>; IoClass::ALL.len()],
    random: RefCell<RandomPool>,
    pub(super) stalls: Cell<u64>,
    pub(super) ending: Cell<bool>,
    closed: Cell<bool>,
}

/// A handle to this shard; a cheap clone.
#[derive(Clone)]
pub struct Core(Rc<Shard>);

impl From<Rc<Shard>> for Core {
    fn from(shard: Rc<Shard>) -> Self {
        Core(shard)
    }
}

impl Core {
    /// Makes the shard's state, its ring included; must run inside its executor.
    /// All shards get the same `started`, so that a time of one means the same to another.
    pub(super) fn new(
        id: ShardId,
        started: Instant,
        doorbells: Arc<[Doorbell]>,
        heartbeats: Arc<[Heartbeat]>,
        ring: Ring,
    ) -> Self {
        doorbells[usize::from(id.0)].publish_ring(ring.raw_fd());
        Core(Rc::new(Shard {
            id,
            started,
            ring: RefCell::new(ring),
            ops: RefCell::default(),
            timers: RefCell::default(),
            tasks: Tasks::new(),
            doorbells,
            to_ring: RefCell::default(),
            at_the_door: WakerList::default(),
            helper: RefCell::default(),
            heartbeats,
            budgets: IoClass::ALL.map(|class| Semaphore::new(class.in_flight_max())),
            random: RefCell::default(),
            stalls: Cell::new(0),
            ending: Cell::new(false),
            closed: Cell::new(false),
        }))
    }

    pub(super) fn shard(&self) -> &Shard {
        &self.0
    }

    pub(super) fn heartbeat(&self) -> &Heartbeat {
        &self.0.heartbeats[usize::from(self.0.id.0)]
    }

    pub(super) fn downgrade(&self) -> Weak<Shard> {
        Rc::downgrade(&self.0)
    }

    /// Whether the ring takes nothing any more.
    pub(super) fn is_closed(&self) -> bool {
        self.0.closed.get()
    }

    pub(super) fn close(&self) {
        self.0.closed.set(true);
    }

    pub fn shard_id(&self) -> ShardId {
        self.0.id
    }

    pub fn shard_count(&self) -> u16 {
        u16::try_from(self.0.doorbells.len()).expect("as many doorbells as shards, which a u16 counted")
    }

    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.0.started.elapsed().as_nanos()).expect("fewer than 584 years since the start")
    }

    pub fn wall_us(&self) -> TimestampMicros {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => micros(since),
            Err(before) => -micros(before.duration()),
        }
    }

    pub fn random_u64(&self) -> u64 {
        self.0.random.borrow_mut().next()
    }

    pub fn spawn(&self, class: TaskClass, task: impl Future<Output = ()> + 'static) {
        self.0.tasks.spawn(class, task);
    }

    pub fn sleep(&self, duration: Duration) -> Sleep {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Sleep::until(self, self.now_ns().saturating_add(duration_ns))
    }

    pub fn yield_now(&self) -> Yield {
        Yield::new()
    }

    pub fn stats(&self) -> IoStats {
        IoStats {
            stalls: self.0.stalls.get(),
            ring_enters: self.0.ring.borrow().enters(),
            operations: self.0.ops.borrow().completed(),
            allocated: allocated(),
            minor_faults: minor_faults(),
        }
    }

    /// Waits for a place among the operations of a class.
    pub(super) async fn admit(&self, class: IoClass) -> Permit {
        self.0.budgets[class as usize].acquire(1).await
    }

    /// Remembers that a shard must be told of something new.
    pub(super) fn ring_later(&self, to: ShardId) {
        let mut to_ring = self.0.to_ring.borrow_mut();
        if !to_ring.contains(&to) {
            to_ring.push(to);
        }
    }

    /// Tells every shard that has something new, waking those that sleep.
    pub(super) fn ring_now(&self) {
        let mut to_ring = self.0.to_ring.borrow_mut();
        for to in to_ring.drain(..) {
            let doorbell = &self.0.doorbells[usize::from(to.0)];
            if doorbell.park.ring() {
                self.wake_shard(to, doorbell);
            }
        }
    }

    fn wake_shard(&self, to: ShardId, doorbell: &Doorbell) {
        let mut ring = self.0.ring.borrow_mut();
        match doorbell.ring_fd() {
            Some(fd) if ring.has_msg_ring() => {
                let entry = io_uring::opcode::MsgRingData::new(io_uring::types::Fd(fd), 0, super::ops::RUNG, None)
                    .build()
                    .flags(io_uring::squeue::Flags::SKIP_SUCCESS)
                    .user_data(RINGING + u64::from(to.0));
                // SAFETY: the entry names no memory; a descriptor that is no ring any more only fails it.
                unsafe { ring.push(entry) };
            }
            _ => doorbell.wake(),
        }
    }

    /// Wakes `waker` the next time that this shard's doorbell rings.
    pub(super) fn wait_at_the_door(&self, waker: &Waker) {
        self.0.at_the_door.wait(waker);
    }

    /// Wakes those who wait for the doorbell.
    pub(super) fn answer_the_door(&self) {
        self.0.at_the_door.wake_all();
    }
}

/// Of the calling thread.
fn minor_faults() -> u64 {
    // SAFETY: rusage is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is whole for the length of the call.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    assert_eq!(result, 0, "a thread has its usage");
    u64::try_from(usage.ru_minflt).expect("a count")
}

impl Drop for Shard {
    fn drop(&mut self) {
        // Only an executor that ended without its driver's teardown gets here with work in flight; the kernel may still
        // write into it.
        let mut ops = self.ops.borrow_mut();
        if ops.in_flight() > 0 {
            std::mem::forget(std::mem::take(&mut *ops));
        }
    }
}
