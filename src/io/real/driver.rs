//! The driver: one task a shard through which every wait of that shard completes. A pass tells other shards, hands
//! operations over, reaps, fires timers, answers the doorbell. Where tasks can run it then stands aside until one has;
//! where none can, its next pass blocks in the ring until a completion, a timer or a wake.

use std::time::Duration;

use super::core::Core;
use super::ops::{Completed, NOBODY, RINGING, RUNG, Work};
use super::ring::Wait;
use crate::io::IoError;

/// A turn of tasks between two passes that takes longer counts as a stall. Unoptimised code is given more.
pub(super) const STALL_NS: u64 = if cfg!(debug_assertions) { 100_000_000 } else { 10_000_000 };
/// At most one warning in this time, whatever stalls.
const STALL_WARNING_INTERVAL_NS: u64 = 10_000_000_000;

/// Watches how long tasks keep the driver away.
#[derive(Default)]
struct StallDetector {
    last_warning_ns: Option<u64>,
    since_warning: u64,
}

impl StallDetector {
    fn turn_took(&mut self, core: &Core, from_ns: u64, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(from_ns);
        if took_ns <= STALL_NS {
            return;
        }
        core.shard().stalls.set(core.shard().stalls.get() + 1);
        self.since_warning += 1;
        if self.last_warning_ns.is_none_or(|last| now_ns.saturating_sub(last) >= STALL_WARNING_INTERVAL_NS) {
            let (shard, stalls) = (core.shard_id().0, self.since_warning);
            tracing::warn!(shard, stalls, took_ms = took_ns / 1_000_000, "a turn kept this shard from its ring");
            self.last_warning_ns = Some(now_ns);
            self.since_warning = 0;
        }
    }
}

/// Drives the shard until its entry has returned, then takes everything down. Fails only where the ring does.
pub(super) async fn drive(core: Core) -> Result<(), IoError> {
    let mut reaped = Vec::new();
    let mut stalls = StallDetector::default();
    listen(&core);
    while !core.shard().ending.get() {
        pass(&core, &mut reaped)?;
        if core.shard().tasks.runnable() > 0 {
            let from_ns = core.now_ns();
            core.heartbeat().turn_begins(from_ns);
            core.shard().tasks.until_another_ran().await;
            core.heartbeat().turn_ends();
            stalls.turn_took(&core, from_ns, core.now_ns());
        }
    }
    take_down(&core, &mut reaped)
}

/// Arms the read of this shard's eventfd.
fn listen(core: &Core) {
    let eventfd = core.shard().doorbells[usize::from(core.shard_id().0)].raw_fd();
    core.submit_detached(Work::Listen { eventfd, count: Box::new(0) });
}

fn pass(core: &Core, reaped: &mut Vec<(u64, i32)>) -> Result<(), IoError> {
    core.ring_now();
    let park = &core.shard().doorbells[usize::from(core.shard_id().0)].park;
    let wait = if core.shard().tasks.runnable() == 0 && park.try_sleep() {
        Wait::Completion(until_next_timer(core))
    } else {
        Wait::No
    };
    let entered = core.shard().ring.borrow_mut().enter(wait);
    if wait != Wait::No {
        park.awake();
    }
    entered.map_err(|error| IoError::from_std("io_uring_enter", None, &error))?;
    reap(core, reaped);
    fire_timers(core);
    if park.take() {
        core.answer_the_door();
    }
    Ok(())
}

fn until_next_timer(core: &Core) -> Option<Duration> {
    let deadline_ns = core.shard().timers.borrow().next_deadline_ns()?;
    Some(Duration::from_nanos(deadline_ns.saturating_sub(core.now_ns())))
}

fn fire_timers(core: &Core) {
    if core.shard().timers.borrow().next_deadline_ns().is_none() {
        return;
    }
    let now_ns = core.now_ns();
    loop {
        let due = core.shard().timers.borrow_mut().pop_due(now_ns);
        match due {
            Some(waker) => waker.wake(),
            None => return,
        }
    }
}

/// Gives each completion to its slot. Nothing is borrowed while a waker or a drop runs: either may submit.
fn reap(core: &Core, reaped: &mut Vec<(u64, i32)>) {
    core.shard().ring.borrow_mut().reap(reaped);
    for (user_data, result) in reaped.drain(..) {
        match user_data {
            NOBODY | RUNG => {}
            ringing if ringing >= RINGING => {
                // Another shard could not be told through the rings (it may have ended): its eventfd is always there.
                let to = usize::try_from(ringing - RINGING).expect("a shard's number");
                core.shard().doorbells[to].wake();
            }
            slot => {
                let completed = core.shard().ops.borrow_mut().complete(slot, result);
                match completed {
                    Completed::Wake(Some(waker)) => waker.wake(),
                    Completed::Wake(None) => {}
                    Completed::Drop(Work::Listen { .. }, _) if !core.shard().ending.get() => listen(core),
                    Completed::Drop(work, result) => core.discard(work, result),
                }
            }
        }
    }
}

/// How long teardown waits before it asks again to end what waits for others.
const CANCEL_AGAIN: Duration = Duration::from_millis(100);

/// Drops all tasks, ends what waits for others, and stays until the kernel holds nothing of ours.
fn take_down(core: &Core, reaped: &mut Vec<(u64, i32)>) -> Result<(), IoError> {
    core.shard().tasks.close();
    core.ring_now();
    cancel_everything(core);
    while core.shard().ops.borrow().in_flight() > 0 {
        let before = core.shard().ops.borrow().in_flight();
        let entered = core.shard().ring.borrow_mut().enter(Wait::Completion(Some(CANCEL_AGAIN)));
        entered.map_err(|error| IoError::from_std("io_uring_enter", None, &error))?;
        reap(core, reaped);
        if core.shard().ops.borrow().in_flight() == before {
            cancel_everything(core);
        }
    }
    core.close();
    Ok(())
}

fn cancel_everything(core: &Core) {
    let everything = io_uring::types::CancelBuilder::any();
    let entry = io_uring::opcode::AsyncCancel2::new(everything).build().user_data(NOBODY);
    // SAFETY: a cancellation names no memory.
    unsafe { core.shard().ring.borrow_mut().push(entry) };
}
