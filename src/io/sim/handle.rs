//! One shard's handle in a simulation: clocks, random numbers, tasks, timers.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::scheduler::Owner;
use super::trace::Kind;
use super::world::{Wait, World};
use crate::base::ids::{ShardId, TimestampMicros};
use crate::io::{IoStats, TaskClass};

#[derive(Clone)]
pub struct Core {
    world: Rc<World>,
    owner: Owner,
    shard_count: u16,
}

impl Core {
    pub(super) fn new(world: Rc<World>, owner: Owner, shard_count: u16) -> Self {
        Core { world, owner, shard_count }
    }

    pub(super) fn world(&self) -> &Rc<World> {
        &self.world
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// The client of a test is no shard: its handle says `u16::MAX`.
    pub fn shard_id(&self) -> ShardId {
        match self.owner {
            Owner::Node { shard, .. } => ShardId(shard),
            Owner::Client => ShardId(u16::MAX),
        }
    }

    pub fn shard_count(&self) -> u16 {
        self.shard_count
    }

    pub fn now_ns(&self) -> u64 {
        self.world.now_ns()
    }

    pub fn wall_us(&self) -> TimestampMicros {
        self.world.wall_us()
    }

    pub fn random_u64(&self) -> u64 {
        let drawn = self.world.engine_random.next();
        self.world.note(Kind::Random, drawn, 0);
        drawn
    }

    #[track_caller]
    pub fn spawn(&self, _class: TaskClass, task: impl Future<Output = ()> + 'static) {
        self.world.spawn(self.owner, Box::pin(task), Location::caller());
    }

    pub fn sleep(&self, duration: Duration) -> Sleep {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Sleep(self.world.sleep(self.owner, duration_ns))
    }

    pub fn yield_now(&self) -> Yield {
        Yield { yielded: false }
    }

    /// Runs the work here and now; the task that waits goes on a little later.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let took_us = self.world.engine_random.between(20, 500);
        self.world.sleep(self.owner, took_us * 1_000).await;
        work()
    }

    /// Marks the node as failed: none of its tasks is polled again.
    pub fn fail_stop(&self, reason: &str) {
        self.world.fail_stop(self.owner, reason);
    }

    pub fn stats(&self) -> IoStats {
        IoStats { operations: self.world.trace.events(), ..IoStats::default() }
    }
}

pub struct Sleep(Wait);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context)
    }
}

pub struct Yield {
    yielded: bool,
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
