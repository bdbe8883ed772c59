//! The tasks of a simulation: those that wait, and those that are ready, of which any may run next. Wakers may be held
//! anywhere (also in ordinary threads), so they write to a list behind a lock, which each step drains.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use super::random::Random;

pub(super) type BoxedFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Whose task, file or connection something is. What a node's boot owns ends with it; the client outlives every crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Node { boot: u32, shard: u16 },
    Client,
}

/// A task: its place, and a number that is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskKey {
    slot: u32,
    pub id: u64,
}

/// What came from wakers and from other threads since the last step.
#[derive(Default)]
pub(super) struct Inbox {
    woken: Vec<TaskKey>,
    /// Accepted connections that were dropped before any shard adopted them.
    dropped_connections: Vec<u64>,
}

/// The list that wakers write to.
#[derive(Default)]
pub(super) struct Wakes(Mutex<Inbox>);

impl Wakes {
    pub fn drop_connection(&self, id: u64) {
        self.lock().dropped_connections.push(id);
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct TaskWake {
    key: TaskKey,
    /// Woken and not yet polled: further wakes change nothing.
    queued: AtomicBool,
    wakes: Arc<Wakes>,
}

impl Wake for TaskWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.wakes.lock().woken.push(self.key);
        }
    }
}

struct Task {
    id: u64,
    /// Absent while it is polled.
    future: Option<BoxedFuture>,
    wake: Arc<TaskWake>,
    owner: Owner,
    spawned_at: &'static Location<'static>,
}

/// A task taken out to be polled. Give it back with `Scheduler::pending`, or `Scheduler::finished`.
pub(super) struct Turn {
    pub key: TaskKey,
    pub future: BoxedFuture,
    pub waker: Waker,
}

#[derive(Default)]
pub(super) struct Scheduler {
    tasks: Vec<Option<Task>>,
    free: Vec<u32>,
    ready: Vec<u32>,
    next_id: u64,
    wakes: Arc<Wakes>,
}

impl Scheduler {
    pub fn wakes(&self) -> &Arc<Wakes> {
        &self.wakes
    }

    /// Adds a task, ready to run.
    pub fn spawn(&mut self, owner: Owner, future: BoxedFuture, spawned_at: &'static Location<'static>) -> TaskKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.tasks.push(None);
            (self.tasks.len() - 1) as u32
        });
        let id = self.next_id;
        self.next_id += 1;
        let key = TaskKey { slot, id };
        let wake = Arc::new(TaskWake { key, queued: AtomicBool::new(true), wakes: self.wakes.clone() });
        self.tasks[slot as usize] = Some(Task { id, future: Some(future), wake, owner, spawned_at });
        self.ready.push(slot);
        key
    }

    /// Makes ready what was woken; gives the accepted connections that were dropped.
    pub fn take_inbox(&mut self) -> Vec<u64> {
        let mut inbox = self.wakes.lock();
        for key in inbox.woken.drain(..) {
            if matches!(&self.tasks[key.slot as usize], Some(task) if task.id == key.id) {
                self.ready.push(key.slot);
            }
        }
        std::mem::take(&mut inbox.dropped_connections)
    }

    /// Takes any ready task whose owner is alive; the others are passed over for good.
    pub fn pick(&mut self, random: &Random, alive: impl Fn(Owner) -> bool) -> Option<Turn> {
        while !self.ready.is_empty() {
            let slot = self.ready.swap_remove(random.index(self.ready.len()));
            let Some(task) = &mut self.tasks[slot as usize] else { continue };
            if !alive(task.owner) {
                continue;
            }
            let Some(future) = task.future.take() else { continue };
            task.wake.queued.store(false, Ordering::Relaxed);
            let waker = Waker::from(task.wake.clone());
            return Some(Turn { key: TaskKey { slot, id: task.id }, future, waker });
        }
        None
    }

    /// The task waits on.
    pub fn pending(&mut self, key: TaskKey, future: BoxedFuture) {
        if let Some(task) = &mut self.tasks[key.slot as usize] {
            debug_assert_eq!(task.id, key.id);
            task.future = Some(future);
        }
    }

    pub fn finished(&mut self, key: TaskKey) {
        self.tasks[key.slot as usize] = None;
        self.free.push(key.slot);
    }

    /// Takes away every task whose owner `ends` names. The caller drops them while nothing of the world is borrowed.
    pub fn take_tasks(&mut self, ends: impl Fn(Owner) -> bool) -> Vec<BoxedFuture> {
        let mut taken = Vec::new();
        for (slot, task) in self.tasks.iter_mut().enumerate() {
            if task.as_ref().is_some_and(|task| ends(task.owner))
                && let Some(task) = task.take()
            {
                self.free.push(slot as u32);
                taken.extend(task.future);
            }
        }
        self.ready.retain(|slot| self.tasks[*slot as usize].is_some());
        taken
    }

    /// Who waits, and where each was spawned; at most `most` of them.
    pub fn describe(&self, most: usize) -> String {
        let waiting: Vec<&Task> = self.tasks.iter().flatten().collect();
        let mut text: Vec<String> = waiting.iter().take(most).map(|task| describe(task)).collect();
        if waiting.len() > most {
            text.push(format!("{} more", waiting.len() - most));
        }
        text.join(", ")
    }
}

fn describe(task: &Task) -> String {
    match task.owner {
        Owner::Node { shard, .. } => format!("shard {shard} task spawned at {}", task.spawned_at),
        Owner::Client => format!("client task spawned at {}", task.spawned_at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::task::Context;

    fn here() -> &'static Location<'static> {
        Location::caller()
    }

    fn forever(scheduler: &mut Scheduler, owner: Owner) -> TaskKey {
        scheduler.spawn(owner, Box::pin(std::future::pending()), here())
    }

    const SHARD: Owner = Owner::Node { boot: 1, shard: 0 };

    #[test]
    fn any_ready_task_may_be_next() {
        let first = |seed| {
            let mut scheduler = Scheduler::default();
            for _ in 0..4 {
                forever(&mut scheduler, SHARD);
            }
            scheduler.pick(&Random::new(seed), |_| true).expect("ready").key.id
        };
        assert_eq!((0..100).map(first).collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2, 3]));
    }

    #[test]
    fn a_task_is_queued_once_however_often_it_is_woken() {
        let random = Random::new(0);
        let mut scheduler = Scheduler::default();
        forever(&mut scheduler, SHARD);
        let turn = scheduler.pick(&random, |_| true).expect("ready");
        turn.waker.wake_by_ref();
        turn.waker.wake_by_ref();
        scheduler.pending(turn.key, turn.future);
        scheduler.take_inbox();
        assert!(scheduler.pick(&random, |_| true).is_some());
        assert!(scheduler.pick(&random, |_| true).is_none());
    }

    #[test]
    fn a_stale_waker_never_wakes_the_next_task_in_its_place() {
        let random = Random::new(0);
        let mut scheduler = Scheduler::default();
        forever(&mut scheduler, SHARD);
        let old = scheduler.pick(&random, |_| true).expect("ready");
        scheduler.finished(old.key);
        forever(&mut scheduler, SHARD);
        let new = scheduler.pick(&random, |_| true).expect("ready");
        assert_eq!(new.key.slot, old.key.slot);
        scheduler.pending(new.key, new.future);
        old.waker.wake();
        scheduler.take_inbox();
        assert!(scheduler.pick(&random, |_| true).is_none());
    }

    #[test]
    fn the_tasks_of_one_owner_end_and_the_others_stay() {
        let random = Random::new(0);
        let mut scheduler = Scheduler::default();
        forever(&mut scheduler, SHARD);
        let client = forever(&mut scheduler, Owner::Client);
        assert_eq!(scheduler.take_tasks(|owner| owner != Owner::Client).len(), 1);
        let mut turn = scheduler.pick(&random, |_| true).expect("the client's");
        assert_eq!(turn.key, client);
        assert!(turn.future.as_mut().poll(&mut Context::from_waker(&turn.waker)).is_pending());
        assert!(scheduler.describe(4).contains("client task spawned at src/io/sim/scheduler.rs"));
    }

    #[test]
    fn the_dead_are_passed_over() {
        let mut scheduler = Scheduler::default();
        forever(&mut scheduler, SHARD);
        assert!(scheduler.pick(&Random::new(0), |owner| owner == Owner::Client).is_none());
    }
}
