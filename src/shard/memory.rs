//! The memory that a shard's memtables may take. A write is admitted before it starts and never fails in the middle:
//! over the limit it waits for a flush to give memory back.

use std::cell::Cell;

use crate::base::local::Notify;

/// Plain counters of one shard's memtables against a limit.
pub struct MemoryBudget {
    limit_bytes: u64,
    used_bytes: Cell<u64>,
    freed: Notify,
    /// Woken when a flush should start.
    pressure: Notify,
    waited: Cell<u64>,
}

/// Over this share of the limit, a flush starts.
const FLUSH_SHARE_PERCENT: u64 = 40;

impl MemoryBudget {
    pub fn new(limit_bytes: u64) -> Self {
        MemoryBudget {
            limit_bytes,
            used_bytes: Cell::new(0),
            freed: Notify::new(),
            pressure: Notify::new(),
            waited: Cell::new(0),
        }
    }

    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.get()
    }

    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// How many writes had to wait.
    pub fn waited(&self) -> u64 {
        self.waited.get()
    }

    /// Whether `bytes` more fit now. A write larger than the whole fits when nothing else is held.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.used_bytes.get() == 0 || self.used_bytes.get().saturating_add(bytes) <= self.limit_bytes
    }

    /// Whether a flush should run.
    pub fn wants_flush(&self) -> bool {
        self.used_bytes.get() > self.limit_bytes / 100 * FLUSH_SHARE_PERCENT
    }

    /// Waits until `bytes` fit.
    pub async fn wait_for_room(&self, bytes: u64) {
        if self.has_room(bytes) {
            return;
        }
        self.waited.set(self.waited.get() + 1);
        while !self.has_room(bytes) {
            self.pressure.notify_all();
            self.freed.notified().await;
        }
    }

    /// Waits until a flush is wanted.
    pub async fn wait_for_pressure(&self) {
        self.pressure.notified().await;
    }

    /// Has whoever flushes look again, for another reason than memory.
    pub fn look_again(&self) {
        self.pressure.notify_all();
    }

    /// A memtable went from `before` to `after` bytes.
    pub fn resize(&self, before: u64, after: u64) {
        let used = self.used_bytes.get();
        debug_assert!(used + after >= before, "released more than was taken");
        self.used_bytes.set((used + after).saturating_sub(before));
        if after < before {
            self.freed.notify_all();
        } else if self.wants_flush() {
            self.pressure.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_write_over_the_limit_waits_for_memory_to_come_back() {
        let budget = MemoryBudget::new(1000);
        budget.resize(0, 900);
        assert!(budget.wants_flush());
        let mut waiting = pin!(budget.wait_for_room(200));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        budget.resize(900, 850);
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        budget.resize(850, 0);
        assert!(waiting.as_mut().poll(&mut context).is_ready());
        assert_eq!(budget.waited(), 1);
    }

    #[test]
    fn what_is_larger_than_the_whole_is_admitted_alone() {
        let budget = MemoryBudget::new(10);
        assert!(budget.has_room(1000));
        budget.resize(0, 1000);
        assert!(!budget.has_room(1));
    }
}
