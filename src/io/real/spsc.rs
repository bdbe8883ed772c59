//! A bounded ring between exactly two shards: one produces, one consumes. `tail` counts what was ever put in, `head`
//! what was ever taken out; slot `n & mask` belongs to the producer while `tail - head` leaves it free, else to the
//! consumer. Each side keeps its own count plainly and a copy of the other's, so that a message costs at most one
//! cache line in each direction, and a batch shares it.

use std::cell::Cell;
use std::mem::MaybeUninit;

use super::sync::{Arc, AtomicBool, AtomicUsize, Ordering, UnsafeCell, fence};

/// A cache line of its own (two, as processors fetch them in pairs).
#[repr(align(128))]
struct Padded<T>(T);

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    head: Padded<AtomicUsize>,
    tail: Padded<AtomicUsize>,
    /// The producer found it full and waits for room.
    producer_waits: Padded<AtomicBool>,
}

// SAFETY: a slot is touched by one side at a time: by the producer before the release store of `tail` that hands it
// over, by the consumer after the acquire load that sees it and before the release store of `head` that hands it back.
// The values themselves move between threads, hence `T: Send`.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; nothing in it is tied to a thread.
unsafe impl<T: Send> Send for Shared<T> {}

/// The putting side; one a ring.
pub(super) struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: Cell<usize>,
    head_seen: Cell<usize>,
}

/// The taking side; one a ring.
pub(super) struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: Cell<usize>,
    tail_seen: Cell<usize>,
}

/// A ring for at least `capacity` messages (rounded up to a power of two).
pub(super) fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.max(1).next_power_of_two();
    let shared = Arc::new(Shared {
        slots: (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        head: Padded(AtomicUsize::new(0)),
        tail: Padded(AtomicUsize::new(0)),
        producer_waits: Padded(AtomicBool::new(false)),
    });
    let producer = Producer { shared: shared.clone(), tail: Cell::new(0), head_seen: Cell::new(0) };
    (producer, Consumer { shared, head: Cell::new(0), tail_seen: Cell::new(0) })
}

impl<T> Shared<T> {
    fn slot(&self, count: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[count & (self.slots.len() - 1)]
    }
}

impl<T> Producer<T> {
    /// Puts a message in, or gives it back where the ring is full.
    pub(super) fn push(&self, message: T) -> Result<(), T> {
        let tail = self.tail.get();
        if tail.wrapping_sub(self.head_seen.get()) == self.shared.slots.len() {
            self.head_seen.set(self.shared.head.0.load(Ordering::Acquire));
            if tail.wrapping_sub(self.head_seen.get()) == self.shared.slots.len() {
                return Err(message);
            }
        }
        self.shared.slot(tail).with_mut(|slot| {
            // SAFETY: `tail - head < capacity`, so the consumer has handed this slot back (the acquire load of `head`
            // saw that) and does not touch it until the store of `tail` below.
            unsafe { (*slot).write(message) };
        });
        self.tail.set(tail.wrapping_add(1));
        self.shared.tail.0.store(self.tail.get(), Ordering::Release);
        Ok(())
    }

    /// Announces that this side waits for room. The caller must try once more to push before it waits: either that
    /// finds room, or the consumer sees the announcement after its next take.
    pub(super) fn announce_wait(&self) {
        self.shared.producer_waits.0.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}

impl<T> Consumer<T> {
    /// Takes up to `most` messages in order, and says how many.
    pub(super) fn take(&self, most: usize, mut each: impl FnMut(T)) -> usize {
        let head = self.head.get();
        if self.tail_seen.get() == head {
            self.tail_seen.set(self.shared.tail.0.load(Ordering::Acquire));
        }
        let count = self.tail_seen.get().wrapping_sub(head).min(most);
        for at in 0..count {
            let message = self.shared.slot(head.wrapping_add(at)).with(|slot| {
                // SAFETY: `head + at < tail`, so the producer has written this slot (the acquire load of `tail` saw
                // that) and does not touch it until the store of `head` below. `head` moves past it, so it is read
                // once.
                unsafe { (*slot).assume_init_read() }
            });
            self.head.set(head.wrapping_add(at + 1));
            each(message);
        }
        if count > 0 {
            self.shared.head.0.store(self.head.get(), Ordering::Release);
        }
        count
    }

    /// Whether the producer is gone. What it put in before that is still to be taken.
    pub(super) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.shared) == 1 && {
            fence(Ordering::Acquire);
            true
        }
    }

    /// Whether the producer waits for the room that was just made; asks once.
    pub(super) fn producer_waits(&self) -> bool {
        fence(Ordering::SeqCst);
        self.shared.producer_waits.0.load(Ordering::Relaxed)
            && self.shared.producer_waits.0.swap(false, Ordering::SeqCst)
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // What was never taken; a message that is put in later is dropped with the producer's hold on the ring.
        while self.take(usize::MAX, drop) > 0 {}
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Both sides are gone, so these loads see their last stores (the counts of `Arc` order them).
        let (mut at, tail) = (self.head.0.load(Ordering::Acquire), self.tail.0.load(Ordering::Acquire));
        while at != tail {
            self.slot(at).with_mut(|slot| {
                // SAFETY: between `head` and `tail` every slot was written and not read.
                unsafe { (*slot).assume_init_drop() };
            });
            at = at.wrapping_add(1);
        }
    }
}

#[cfg(all(test, not(helenus_loom)))]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn a_full_ring_gives_the_message_back() {
        let (producer, consumer) = ring(3); // rounded up to 4
        for n in 0..4 {
            assert_eq!(producer.push(n), Ok(()));
        }
        assert_eq!(producer.push(4), Err(4));
        let mut taken = Vec::new();
        assert_eq!(consumer.take(2, |n| taken.push(n)), 2);
        assert_eq!(producer.push(4), Ok(()));
        consumer.take(usize::MAX, |n| taken.push(n));
        consumer.take(usize::MAX, |n| taken.push(n));
        assert_eq!(taken, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn messages_left_behind_are_dropped_once() {
        let counted = Rc::new(());
        let (producer, consumer) = ring(8);
        for _ in 0..5 {
            producer.push(counted.clone()).expect("room");
        }
        consumer.take(2, drop);
        drop(consumer);
        assert_eq!(Rc::strong_count(&counted), 1);
        producer.push(counted.clone()).expect("room");
        drop(producer);
        assert_eq!(Rc::strong_count(&counted), 1);
    }

    #[test]
    fn the_wait_for_room_is_announced_once() {
        let (producer, consumer) = ring(1);
        producer.push(1).expect("room");
        assert!(!consumer.producer_waits());
        producer.announce_wait();
        assert_eq!(producer.push(2), Err(2));
        consumer.take(1, drop);
        assert!(consumer.producer_waits());
        assert!(!consumer.producer_waits());
    }

    #[test]
    fn two_threads_keep_the_order() {
        const COUNT: u64 = 300_000;
        let (producer, consumer) = ring(64);
        let producing = std::thread::spawn(move || {
            for mut n in 0..COUNT {
                while let Err(back) = producer.push(n) {
                    n = back;
                    std::thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < COUNT {
            let taken = consumer.take(16, |n| {
                assert_eq!(n, next);
                next += 1;
            });
            if taken == 0 {
                std::thread::yield_now();
            }
        }
        producing.join().expect("no panic");
    }
}

#[cfg(all(test, helenus_loom))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod loom_tests {
    use super::*;

    #[test]
    fn every_interleaving_keeps_order_and_room() {
        loom::model(|| {
            let (producer, consumer) = ring(2);
            let producing = loom::thread::spawn(move || {
                let mut sent = 0;
                for n in 0..3 {
                    if producer.push(n).is_err() {
                        break;
                    }
                    sent += 1;
                }
                (producer, sent)
            });
            let mut next = 0;
            for _ in 0..2 {
                consumer.take(2, |n| {
                    assert_eq!(n, next);
                    next += 1;
                });
            }
            let (_producer, sent) = producing.join().unwrap();
            while consumer.take(2, |n| {
                assert_eq!(n, next);
                next += 1;
            }) > 0
            {}
            assert_eq!(next, sent);
        });
    }

    #[test]
    fn a_wait_for_room_is_seen_or_finds_room() {
        loom::model(|| {
            let (producer, consumer) = ring(1);
            producer.push(0).unwrap();
            let waiting = loom::thread::spawn(move || {
                producer.announce_wait();
                let found_room = producer.push(1).is_ok();
                (producer, found_room)
            });
            consumer.take(1, drop);
            let told = consumer.producer_waits();
            let (_producer, found_room) = waiting.join().unwrap();
            assert!(told || found_room, "the producer would wait for ever");
        });
    }
}
