//! The mesh of one process: a ring for each ordered pair of shards, a queue to oneself, a locked queue a shard for
//! ordinary threads; doorbells tell of news.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use super::core::Core;
use super::doorbell::Doorbell;
use super::spsc::{Consumer, Producer, ring};
use crate::base::ids::ShardId;

/// Most messages that one receive takes from one sender, so that no sender starves the others or the task's turn.
const BATCH_PER_SENDER: usize = 64;

/// A shard's ends of all rings, before the shard has a core.
pub(super) struct Ends<M> {
    to: Vec<Option<Producer<M>>>,
    from: Vec<Option<Consumer<M>>>,
}

/// The ends of `shards` shards, each pair with room for `capacity` messages.
pub(super) fn ends<M>(shards: u16, capacity: usize) -> Vec<Ends<M>> {
    let none = || Ends { to: Vec::new(), from: Vec::new() };
    let mut all: Vec<Ends<M>> = (0..shards).map(|_| none()).collect();
    for from in 0..usize::from(shards) {
        for to in 0..usize::from(shards) {
            // Pushed in this order, `all[from].to[to]` and `all[to].from[from]` are the two ends of one ring.
            let (producer, consumer) = if from == to {
                (None, None)
            } else {
                let (producer, consumer) = ring(capacity);
                (Some(producer), Some(consumer))
            };
            all[from].to.push(producer);
            all[to].from.push(consumer);
        }
    }
    all
}

pub struct Mesh<M>(Rc<Inner<M>>);

struct Inner<M> {
    core: Core,
    ends: Ends<M>,
    to_self: RefCell<VecDeque<M>>,
    capacity: usize,
    outside: Outside<M>,
    /// Where the next receive starts, so that the first sender is not always the same.
    first_sender: Cell<usize>,
}

impl<M> Clone for Mesh<M> {
    fn clone(&self) -> Self {
        Mesh(self.0.clone())
    }
}

impl<M: Send + 'static> Mesh<M> {
    pub(super) fn new(core: &Core, ends: Ends<M>, capacity: usize, outside: Outside<M>) -> Self {
        Mesh(Rc::new(Inner {
            core: core.clone(),
            ends,
            to_self: RefCell::default(),
            capacity,
            outside,
            first_sender: Cell::new(0),
        }))
    }

    pub fn shard_id(&self) -> ShardId {
        self.0.core.shard_id()
    }

    pub fn shard_count(&self) -> u16 {
        self.0.core.shard_count()
    }

    pub fn try_send(&self, to: ShardId, message: M) -> Result<(), M> {
        match &self.0.ends.to[usize::from(to.0)] {
            Some(producer) => producer.push(message)?,
            None => {
                let mut to_self = self.0.to_self.borrow_mut();
                if to_self.len() >= self.0.capacity {
                    return Err(message);
                }
                to_self.push_back(message);
            }
        }
        self.0.core.ring_later(to);
        Ok(())
    }

    pub async fn send(&self, to: ShardId, message: M) {
        let mut held = Some(message);
        std::future::poll_fn(|context| {
            for announced in [false, true] {
                let message = held.take().expect("not polled after it was sent");
                match self.try_send(to, message) {
                    Ok(()) => return Poll::Ready(()),
                    Err(back) => held = Some(back),
                }
                if !announced && let Some(producer) = &self.0.ends.to[usize::from(to.0)] {
                    producer.announce_wait();
                }
            }
            self.0.core.wait_at_the_door(context.waker());
            Poll::Pending
        })
        .await;
    }

    pub fn flush(&self) {
        self.0.core.ring_now();
    }

    pub async fn recv(&self, into: &mut Vec<(ShardId, M)>) {
        std::future::poll_fn(|context| {
            if self.take_batch(into) {
                return Poll::Ready(());
            }
            self.0.core.wait_at_the_door(context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Takes at most [`BATCH_PER_SENDER`] of each sender, and tells those that wait for room.
    fn take_batch(&self, into: &mut Vec<(ShardId, M)>) -> bool {
        let before = into.len();
        let senders = self.0.ends.from.len();
        let first = self.0.first_sender.get();
        self.0.first_sender.set((first + 1) % senders);
        for at in 0..senders {
            let sender = (first + at) % senders;
            let id = ShardId(u16::try_from(sender).expect("a shard's number"));
            match &self.0.ends.from[sender] {
                Some(consumer) => {
                    let took = consumer.take(BATCH_PER_SENDER, |message| into.push((id, message)));
                    if took > 0 && consumer.producer_waits() {
                        self.0.core.ring_later(id);
                    }
                }
                None => self.take_own(id, into),
            }
        }
        self.0.outside.take(self.shard_id(), into);
        into.len() > before
    }

    fn take_own(&self, id: ShardId, into: &mut Vec<(ShardId, M)>) {
        let mut to_self = self.0.to_self.borrow_mut();
        let was_full = to_self.len() >= self.0.capacity;
        let count = to_self.len().min(BATCH_PER_SENDER);
        into.extend(to_self.drain(..count).map(|message| (id, message)));
        if was_full && count > 0 {
            self.0.core.ring_later(id);
        }
    }
}

/// The queues of messages from ordinary threads.
pub struct Outside<M> {
    queues: Arc<[OutsideQueue<M>]>,
    doorbells: Arc<[Doorbell]>,
}

struct OutsideQueue<M> {
    /// Spares the shard the lock where nothing is queued.
    filled: AtomicBool,
    messages: Mutex<VecDeque<M>>,
}

impl<M> Clone for Outside<M> {
    fn clone(&self) -> Self {
        Outside { queues: self.queues.clone(), doorbells: self.doorbells.clone() }
    }
}

impl<M> Outside<M> {
    pub(super) fn new(doorbells: Arc<[Doorbell]>) -> Self {
        let queue = |_: &Doorbell| OutsideQueue { filled: AtomicBool::new(false), messages: Mutex::default() };
        Outside { queues: doorbells.iter().map(queue).collect(), doorbells }
    }

    pub fn send(&self, to: ShardId, message: M) {
        let at = usize::from(to.0);
        let queue = &self.queues[at];
        {
            let mut messages = queue.messages.lock().unwrap_or_else(PoisonError::into_inner);
            messages.push_back(message);
            queue.filled.store(true, Ordering::Release);
        }
        self.doorbells[at].ring_from_thread();
    }

    /// Takes what came for a shard. `filled` changes under the lock only, so it never hides a message that was rung for.
    fn take(&self, of: ShardId, into: &mut Vec<(ShardId, M)>) {
        let queue = &self.queues[usize::from(of.0)];
        if queue.filled.load(Ordering::Acquire) {
            let mut messages = queue.messages.lock().unwrap_or_else(PoisonError::into_inner);
            queue.filled.store(false, Ordering::Relaxed);
            into.extend(messages.drain(..).map(|message| (ShardId(u16::MAX), message)));
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::testing::{config, on_one_shard_with_mesh, on_shards};
    use crate::base::ids::ShardId;
    use crate::io::{Io, Mesh, TaskClass, start_real};
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// Every shard sends `count` numbers to every shard, itself too, and checks what it gets from each.
    async fn exchange(io: &Io, mesh: &Mesh<u64>, count: u64, pause_every: u64) {
        let shards = mesh.shard_count();
        let sent = Rc::new(Cell::new(0u16));
        for to in 0..shards {
            let (mesh, io, sent) = (mesh.clone(), io.clone(), sent.clone());
            io.clone().spawn(TaskClass::Foreground, async move {
                for n in 0..count {
                    mesh.send(ShardId(to), n).await;
                    if pause_every > 0 && n % pause_every == 0 {
                        io.sleep(Duration::from_micros(50)).await; // lets both sides fall asleep
                    }
                }
                sent.set(sent.get() + 1);
            });
        }
        let mut next = vec![0u64; usize::from(shards)];
        let mut got = Vec::new();
        while next.iter().any(|next| *next < count) {
            mesh.recv(&mut got).await;
            assert!(!got.is_empty());
            for (from, n) in got.drain(..) {
                assert_eq!(n, next[usize::from(from.0)], "in order from {from:?}");
                next[usize::from(from.0)] += 1;
            }
        }
        while sent.get() < shards {
            io.yield_now().await;
        }
    }

    #[test]
    fn all_pairs_under_load_in_full_rings() {
        on_shards(3, |io: Io, mesh: Mesh<u64>| async move { exchange(&io, &mesh, 20_000, 0).await });
    }

    #[test]
    fn no_wake_is_lost_when_shards_park_between_messages() {
        on_shards(2, |io: Io, mesh: Mesh<u64>| async move { exchange(&io, &mesh, 3_000, 3).await });
    }

    #[test]
    fn a_hot_destination_slows_those_who_send_to_it_and_nobody_else() {
        const COUNT: u64 = 2_000;
        // Taken by the hot shard; the cold one takes all.
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        on_shards(3, |io: Io, mesh: Mesh<u64>| async move {
            let (hot, cold) = (ShardId(1), ShardId(2));
            let mut got = Vec::new();
            let mut expected = if io.shard_id() == ShardId(0) { 0 } else { COUNT };
            if expected == 0 {
                // In the ring, and in the batch that was taken last.
                let room = (config(3).mesh_capacity + super::BATCH_PER_SENDER) as u64;
                let sent = Rc::new(Cell::new(0u64));
                for sender in 0..8 {
                    let (mesh, sent) = (mesh.clone(), sent.clone());
                    io.spawn(TaskClass::Foreground, async move {
                        for n in 0..COUNT / 8 {
                            mesh.send(hot, n * 8 + sender).await;
                            sent.set(sent.get() + 1);
                            let waiting = sent.get() - TAKEN.load(Ordering::Acquire);
                            assert!(waiting <= room, "{waiting} messages under way, where there is room for {room}");
                        }
                    });
                }
                for n in 0..COUNT {
                    mesh.send(cold, n).await;
                }
                assert!(sent.get() < COUNT, "the hot shard, which takes its time, is far behind");
                while sent.get() < COUNT {
                    io.sleep(Duration::from_millis(1)).await;
                }
            }
            while expected > 0 {
                if io.shard_id() == hot {
                    io.sleep(Duration::from_millis(20)).await;
                }
                mesh.recv(&mut got).await;
                expected -= got.len() as u64;
                if io.shard_id() == hot {
                    TAKEN.fetch_add(got.len() as u64, Ordering::Release);
                }
                got.clear();
            }
        });
    }

    #[test]
    fn a_ball_between_two_sleepers() {
        on_shards(2, |io: Io, mesh: Mesh<u64>| async move {
            let other = ShardId(1 - io.shard_id().0);
            let mut got = Vec::new();
            if io.shard_id() == ShardId(0) {
                mesh.send(other, 0).await;
            }
            loop {
                mesh.recv(&mut got).await;
                let (from, n) = got.pop().unwrap();
                assert_eq!(from, other);
                if n < 5_000 {
                    mesh.send(other, n + 1).await;
                }
                if n >= 4_999 {
                    return;
                }
            }
        });
    }

    #[test]
    fn a_full_ring_gives_the_message_back() {
        on_one_shard_with_mesh(|io: Io, mesh: Mesh<u64>| async move {
            let mut sent = 0;
            while mesh.try_send(ShardId(0), sent).is_ok() {
                sent += 1;
            }
            assert_eq!(sent, config(1).mesh_capacity as u64);
            let mut got = Vec::new();
            while (got.len() as u64) < sent {
                mesh.recv(&mut got).await;
            }
            assert!(got.iter().map(|(_, n)| *n).eq(0..sent));
            assert_eq!(io.shard_count(), 1);
        });
    }

    #[test]
    fn threads_outside_reach_every_shard_awake_or_asleep() {
        const COUNT: u64 = 200;
        let running = start_real(config(2), |io: Io, mesh: Mesh<u64>| async move {
            let mut got = Vec::new();
            let mut next = 0;
            while next < COUNT {
                mesh.recv(&mut got).await;
                for (from, n) in got.drain(..) {
                    assert_eq!((from, n), (Mesh::<u64>::OUTSIDE, next));
                    next += 1;
                }
            }
            assert!(io.now_ns() > 0);
        })
        .unwrap();
        let outside = running.outside();
        for n in 0..COUNT {
            outside.send(ShardId(0), n);
            outside.send(ShardId(1), n);
            if n % 10 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        running.join().unwrap();
        outside.send(ShardId(0), 1); // to nobody: no harm
    }
}
