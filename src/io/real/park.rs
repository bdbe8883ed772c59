//! The protocol by which a shard goes to sleep without losing a wake. Two flags, and on each side a sequentially
//! consistent fence between the store to one and the look at the other:
//!
//! - whoever has put something in sets `rang`, then looks at `sleeping`; if it was the first to set and finds the shard
//!   asleep, it must send one wake;
//! - the shard, before it blocks, sets `sleeping`, then looks at `rang`; if that is set it stays awake.
//!
//! Whichever fence came first in their one order, the side of the other sees what was stored before it: so either the
//! shard does not block, or it gets a wake. Taking `rang` is a read-modify-write, so what was put in before it was set is visible
//! to the taker, also where several set it.

use super::sync::{AtomicBool, Ordering, fence};

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
        if self.rang.swap(true, Ordering::AcqRel) {
            return false;
        }
        fence(Ordering::SeqCst);
        // Read before it is written: most rings find the shard awake and leave its cache line alone.
        self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::Relaxed)
    }

    /// Whether someone rang since the last take.
    pub(super) fn take(&self) -> bool {
        self.rang.load(Ordering::Relaxed) && self.rang.swap(false, Ordering::AcqRel)
    }

    /// Announces sleep. False where someone rang: then the shard must not block.
    #[must_use = "a false answer forbids to block"]
    pub(super) fn try_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.rang.load(Ordering::Relaxed) {
            self.awake();
            return false;
        }
        true
    }

    /// The shard is awake again, whatever woke it.
    pub(super) fn awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
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

    /// Whether the shard may block only where a wake is on its way or it saw all that was put in, with so many ringers.
    fn check(ringers: usize, preemptions: Option<usize>) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = preemptions;
        model.check(move || {
            let park = Arc::new(Park::new());
            let put = Arc::new(AtomicUsize::new(0));
            let wakes = Arc::new(AtomicUsize::new(0));
            let ringing: Vec<_> = (0..ringers)
                .map(|_| {
                    let (park, put, wakes) = (park.clone(), put.clone(), wakes.clone());
                    loom::thread::spawn(move || {
                        put.fetch_add(1, Ordering::Relaxed);
                        if park.ring() {
                            wakes.fetch_add(1, Ordering::Relaxed);
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
            for ringer in ringing {
                ringer.join().unwrap();
            }
            if asleep && seen < ringers {
                assert_eq!(wakes.load(Ordering::Relaxed), 1, "asleep with something put in: exactly one wake");
            }
        });
    }

    /// Two messages through a ring, each rung for, to a shard that may take the first before it goes to sleep.
    #[test]
    fn what_is_put_into_a_ring_is_taken_with_at_most_one_wake() {
        loom::model(|| {
            let park = Arc::new(Park::new());
            let (producer, consumer) = super::super::spsc::ring(2);
            let ringing = {
                let park = park.clone();
                loom::thread::spawn(move || {
                    let mut wakes = 0;
                    for message in 0..2 {
                        producer.push(message).unwrap();
                        wakes += u32::from(park.ring());
                    }
                    (producer, wakes)
                })
            };
            let mut next = 0;
            let mut take = || {
                if park.take() {
                    consumer.take(2, |message| {
                        assert_eq!(message, next);
                        next += 1;
                    });
                }
                next
            };
            let before = take();
            let asleep = park.try_sleep();
            let (_producer, wakes) = ringing.join().unwrap();
            if asleep && before < 2 {
                assert_eq!(wakes, 1, "asleep, and not all was taken: exactly one wake");
            }
            park.awake();
            assert_eq!(take(), 2, "awake, it finds all");
        });
    }

    #[test]
    fn no_wake_of_one_ringer_is_lost() {
        check(1, None);
    }

    #[test]
    fn no_wake_of_two_ringers_is_lost() {
        check(2, Some(2)); // all interleavings of three threads take hours
    }
}
