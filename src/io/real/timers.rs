//! Timers: a sorted map of deadlines, which bounds how long the driver blocks in the ring.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::core::Core;

/// When a timer fires, then which was set first.
type Key = (u64, u64);

#[derive(Default)]
pub(super) struct Timers {
    waiting: BTreeMap<Key, Waker>,
    next_number: u64,
}

impl Timers {
    fn set(&mut self, deadline_ns: u64, waker: Waker) -> Key {
        let key = (deadline_ns, self.next_number);
        self.next_number += 1;
        self.waiting.insert(key, waker);
        key
    }

    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|((deadline_ns, _), _)| *deadline_ns)
    }

    /// The earliest timer that is due.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Waker> {
        let entry = self.waiting.first_entry()?;
        (entry.key().0 <= now_ns).then(|| entry.remove())
    }
}

/// Completes at its deadline.
pub struct Sleep {
    core: Core,
    deadline_ns: u64,
    set: Option<Key>,
}

impl Sleep {
    pub(super) fn until(core: &Core, deadline_ns: u64) -> Self {
        Sleep { core: core.clone(), deadline_ns, set: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.core.now_ns() >= self.deadline_ns {
            return Poll::Ready(());
        }
        let mut timers = self.core.shard().timers.borrow_mut();
        let key = match self.set.and_then(|key| timers.waiting.get_mut(&key).map(|waker| (key, waker))) {
            Some((key, waker)) => {
                waker.clone_from(context.waker());
                key
            }
            None => timers.set(self.deadline_ns, context.waker().clone()),
        };
        drop(timers);
        self.set = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.set {
            let forgotten = self.core.shard().timers.borrow_mut().waiting.remove(&key);
            drop(forgotten);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_due_by_deadline_then_by_age() {
        let mut timers = Timers::default();
        assert_eq!(timers.next_deadline_ns(), None);
        let late = timers.set(30, Waker::noop().clone());
        let first = timers.set(10, Waker::noop().clone());
        let second = timers.set(10, Waker::noop().clone());
        assert!(first < second && second < late);
        assert_eq!(timers.next_deadline_ns(), Some(10));
        assert!(timers.pop_due(9).is_none());
        assert!(timers.pop_due(10).is_some());
        assert!(timers.pop_due(10).is_some());
        assert!(timers.pop_due(29).is_none());
        assert_eq!(timers.next_deadline_ns(), Some(30));
    }
}
