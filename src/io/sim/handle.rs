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

/// What a look at the clock takes.
const ASK_NS: u64 = 20;

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

    /// Asking takes time too, so that a loop that waits for a time to come ends.
    pub fn now_ns(&self) -> u64 {
        self.world.advance_to(self.world.now_ns() + ASK_NS);
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

    /// Nothing: what the counters count is the real driver's.
    pub fn stats(&self) -> IoStats {
        IoStats::default()
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

#[cfg(test)]
mod tests {
    use super::super::{Faults, Halted, Simulation};
    use crate::io::TaskClass;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn sleeps_end_in_the_order_of_their_times() {
        for seed in 0..20 {
            let sim = Simulation::new(seed, Faults::NONE);
            let woken = Rc::new(RefCell::new(Vec::new()));
            for millis in [30u32, 10, 20, 0] {
                let (io, woken) = (sim.client_io(), woken.clone());
                sim.client_io().spawn(TaskClass::Foreground, async move {
                    let began = io.now_ns();
                    io.sleep(MS * millis).await;
                    assert!(io.now_ns() - began >= u64::from(millis) * 1_000_000);
                    woken.borrow_mut().push(millis);
                });
            }
            assert_eq!(sim.run_until_idle(), Ok(()));
            assert_eq!(*woken.borrow(), [0, 10, 20, 30]);
            assert!(sim.now_ns() < 31_000_000, "virtual time jumps to the next timer, and no further");
        }
    }

    #[test]
    fn a_dropped_sleep_moves_no_time() {
        let sim = Simulation::new(0, Faults::NONE);
        let io = sim.client_io();
        drop(io.sleep(Duration::from_secs(100)));
        let mut long = Box::pin(io.sleep(Duration::from_secs(100)));
        let slept = sim.run_client(async move {
            let short = io.sleep(MS);
            let polled = std::future::poll_fn(|context| std::task::Poll::Ready(long.as_mut().poll(context)));
            assert!(polled.await.is_pending());
            short.await;
            drop(long);
        });
        assert_eq!(slept, Ok(()));
        assert_eq!(sim.run_until_idle(), Ok(()));
        assert!(sim.now_ns() < 2_000_000);
    }

    #[test]
    fn a_yield_lets_others_run_and_a_spin_on_the_clock_ends() {
        let sim = Simulation::new(3, Faults::NONE);
        let flag = Rc::new(Cell::new(false));
        let (io, set) = (sim.client_io(), flag.clone());
        sim.client_io().spawn(TaskClass::Foreground, async move { set.set(true) });
        let yields = sim.run_client(async move {
            while !flag.get() {
                io.yield_now().await;
            }
            let until = io.now_ns() + 10_000;
            while io.now_ns() < until {}
        });
        assert_eq!(yields, Ok(()));
    }

    #[test]
    fn the_wall_clock_jumps_and_the_monotonic_one_does_not() {
        let sim = Simulation::new(0, Faults::NONE);
        let io = sim.client_io();
        let (wall, mono) = (io.wall_us(), io.now_ns());
        sim.jump_wall_us(-3_600_000_000);
        assert!(io.wall_us() < wall - 3_599_000_000);
        assert!(sim.wall_latest_us() >= wall);
        assert!(io.now_ns() >= mono && io.now_ns() < mono + 1_000);
        let faults = Faults { wall_jump_ppm: 100_000, ..Faults::NONE };
        let jumpy = Simulation::new(5, faults);
        let io = jumpy.client_io();
        let backwards = jumpy.run_client(async move {
            let (mut last_wall, mut last_mono, mut back) = (io.wall_us(), io.now_ns(), 0);
            for _ in 0..200 {
                io.sleep(MS).await;
                back += u32::from(io.wall_us() < last_wall);
                assert!(io.now_ns() > last_mono);
                (last_wall, last_mono) = (io.wall_us(), io.now_ns());
            }
            back
        });
        assert!(backwards.is_ok_and(|back| back > 2));
    }

    #[test]
    fn a_node_that_stops_itself_does_nothing_more_and_says_why() {
        let sim = Simulation::new(0, Faults::NONE);
        let after = Rc::new(Cell::new(0));
        let seen = after.clone();
        let result = sim.run_on_node(|io| async move {
            io.fail_stop("sync of /log failed");
            io.spawn(TaskClass::Foreground, async move { unreachable!("spawned after the end") });
            seen.set(1);
            io.yield_now().await;
            seen.set(2);
        });
        assert_eq!(result, Err(Halted::FailStop { reason: "sync of /log failed".into() }));
        assert!(!sim.is_running());
        assert_eq!(sim.run_for(MS), Ok(()), "clients run on");
        assert_eq!(after.get(), 1, "the turn it was in ends, and no other begins");
        sim.crash();
        assert_eq!(sim.run_on_node(|io| async move { io.shard_count() }), Ok(1));
    }

    #[test]
    fn random_numbers_and_blocking_work_are_the_seeds() {
        let draw = |seed| {
            let sim = Simulation::new(seed, Faults::NONE);
            sim.run_on_node(|io| async move { (io.random_u64(), io.blocking(|| 7).await, io.random_u64()) })
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(1).is_ok_and(|(a, work, b)| work == 7 && a != b));
    }
}
