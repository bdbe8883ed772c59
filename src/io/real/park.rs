//! The protocol by which a shard goes to sleep without losing a wake. Two flags, sequentially consistent:
//!
//! - whoever has put something in sets `rang`, then looks at `sleeping`; if it was the first to set and finds the shard
//!   asleep, it must send one wake;
//! - the shard, before it blocks, sets `sleeping`, then looks at `rang`; if that is set it stays awake.
//!
//! Whichever of the two came first in the one order of these operations, the other sees it: so either the shard does
//! not block, or it gets a wake. Taking `rang` is a read-modify-write, so what was put in before it was set is visible
//! to the taker, also where several set it.

use super::sync::{AtomicBool, Ordering};

pub(super) struct Park {
    rang: AtomicBool,
    sleeping: AtomicBool,
}

impl Park {
    pub(super) fn new() -> Self {
        Park { rang: AtomicBool::new(false), sleeping: AtomicBool::new(false) }
    }

    /// Announces that something was put in. True where the caller must now send a wake.
    #[must_use = "a true answer is the duty to wake the shard"]
    pub(super) fn ring(&self) -> bool {
        // Already rung and not taken: the shard looks before it sleeps, or the first ringer wakes it.
        !self.rang.swap(true, Ordering::SeqCst) && self.sleeping.swap(false, Ordering::SeqCst)
    }

    /// Whether someone rang since the last take.
    pub(super) fn take(&self) -> bool {
        self.rang.load(Ordering::Relaxed) && self.rang.swap(false, Ordering::SeqCst)
    }

    /// Announces sleep. False where someone rang: then the shard must not block.
    #[must_use = "a false answer forbids to block"]
    pub(super) fn try_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        if self.rang.load(Ordering::SeqCst) {
            self.sleeping.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// The shard is awake again, whatever woke it.
    pub(super) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(helenus_loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_ring_of_a_sleeper_wakes() {
        let park = Park::new();
        assert!(!park.ring(), "awake: no wake needed");
        assert!(!park.try_sleep(), "rung: no sleep");
        assert!(park.take());
        assert!(!park.take());
        assert!(park.try_sleep());
        assert!(park.ring());
        assert!(!park.ring());
        park.awake();
        assert!(park.take());
    }

    #[test]
    fn a_sleeper_woken_by_something_else_needs_no_wake() {
        let park = Park::new();
        assert!(park.try_sleep());
        park.awake();
        assert!(!park.ring());
        assert!(!park.try_sleep());
    }
}

#[cfg(all(test, helenus_loom))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// Two ringers, one sleeper: when the sleeper may block, a wake is on its way or nothing was put in.
    #[test]
    fn no_wake_is_lost() {
        loom::model(|| {
            let park = Arc::new(Park::new());
            let put = Arc::new(AtomicUsize::new(0));
            let wakes = Arc::new(AtomicUsize::new(0));
            let ringers: Vec<_> = (0..2)
                .map(|_| {
                    let (park, put, wakes) = (park.clone(), put.clone(), wakes.clone());
                    loom::thread::spawn(move || {
                        put.fetch_add(1, Ordering::Relaxed);
                        if park.ring() {
                            wakes.fetch_add(1, Ordering::SeqCst);
                        }
                    })
                })
                .collect();
            let mut seen = 0;
            if park.take() {
                seen = put.load(Ordering::Relaxed);
                assert!(seen > 0, "what was put in before the ring is visible to the taker");
            }
            let asleep = park.try_sleep();
            for ringer in ringers {
                ringer.join().unwrap();
            }
            if asleep && seen < 2 {
                assert_eq!(wakes.load(Ordering::SeqCst), 1, "asleep with something put in: exactly one wake");
            }
        });
    }
}
