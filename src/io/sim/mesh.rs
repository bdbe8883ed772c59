//! The mesh of a simulated node: a bounded queue for every two shards. A message arrives a seeded time after it was
//! sent, never before one that the same shard sent earlier to the same receiver.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::trace::Kind;
use super::world::World;
use crate::base::ids::ShardId;

/// From a send to its arrival.
const HOP_NS: (u64, u64) = (100, 20_000);

/// The most messages that one receive takes.
const BATCH_MESSAGES_MAX: usize = 256;

struct Pair<M> {
    /// With the time of arrival, which never decreases along the queue.
    queue: VecDeque<(u64, M)>,
    last_arrival_ns: u64,
    /// Senders that wait for room.
    senders: Vec<Waker>,
}

struct Shared<M> {
    world: Rc<World>,
    shards: usize,
    capacity: usize,
    /// By sender, then receiver.
    pairs: RefCell<Vec<Pair<M>>>,
    receivers: RefCell<Vec<Option<Waker>>>,
    outside: Outside<M>,
}

pub struct Mesh<M> {
    shard: ShardId,
    shared: Rc<Shared<M>>,
}

impl<M> Clone for Mesh<M> {
    fn clone(&self) -> Self {
        Mesh { shard: self.shard, shared: self.shared.clone() }
    }
}

impl<M> Mesh<M> {
    /// The ends of a new mesh, one a shard, and the way in from outside.
    pub(super) fn new(world: &Rc<World>, shards: u16, capacity: usize) -> (Vec<Mesh<M>>, Outside<M>) {
        let count = usize::from(shards);
        let pair = || Pair { queue: VecDeque::new(), last_arrival_ns: 0, senders: Vec::new() };
        let outside = Outside::new(count);
        let shared = Rc::new(Shared {
            world: world.clone(),
            shards: count,
            capacity: capacity.max(1),
            pairs: RefCell::new((0..count * count).map(|_| pair()).collect()),
            receivers: RefCell::new((0..count).map(|_| None).collect()),
            outside: outside.clone(),
        });
        ((0..shards).map(|shard| Mesh { shard: ShardId(shard), shared: shared.clone() }).collect(), outside)
    }

    pub fn shard_id(&self) -> ShardId {
        self.shard
    }

    pub fn shard_count(&self) -> u16 {
        self.shared.shards as u16
    }

    pub fn try_send(&self, to: ShardId, message: M) -> Result<(), M> {
        let shared = &*self.shared;
        let world = &shared.world;
        let mut pairs = shared.pairs.borrow_mut();
        let pair = &mut pairs[self.pair(self.shard, to)];
        if pair.queue.len() >= shared.capacity {
            return Err(message);
        }
        let delay_ns = world.network_random.between(HOP_NS.0, HOP_NS.1);
        pair.last_arrival_ns = pair.last_arrival_ns.max(world.now_ns() + delay_ns);
        pair.queue.push_back((pair.last_arrival_ns, message));
        world.note(Kind::MeshSend, u64::from(self.shard.0) << 16 | u64::from(to.0), pair.last_arrival_ns);
        if let Some(waker) = &shared.receivers.borrow()[usize::from(to.0)] {
            world.wake_at(pair.last_arrival_ns, waker.clone());
        }
        Ok(())
    }

    pub async fn send(&self, to: ShardId, message: M) {
        let mut waiting = Some(message);
        poll_fn(|context| {
            let Some(message) = waiting.take() else { return Poll::Ready(()) };
            match self.try_send(to, message) {
                Ok(()) => Poll::Ready(()),
                Err(message) => {
                    waiting = Some(message);
                    let mut pairs = self.shared.pairs.borrow_mut();
                    pairs[self.pair(self.shard, to)].senders.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
    }

    /// Messages arrive in their time also without it, as the real driver flushes once a pass.
    pub fn flush(&self) {}

    pub async fn recv(&self, into: &mut Vec<(ShardId, M)>) {
        poll_fn(|context| self.poll_recv(into, context)).await;
    }

    fn poll_recv(&self, into: &mut Vec<(ShardId, M)>, context: &Context<'_>) -> Poll<()> {
        let shared = &*self.shared;
        let me = usize::from(self.shard.0);
        let had = into.len();
        self.drain_arrived(into);
        shared.outside.take(me, into, context.waker());
        if into.len() > had {
            shared.receivers.borrow_mut()[me] = None;
            shared.world.note(Kind::MeshReceive, me as u64, (into.len() - had) as u64);
            return Poll::Ready(());
        }
        shared.receivers.borrow_mut()[me] = Some(context.waker().clone());
        let pairs = shared.pairs.borrow();
        let arrivals =
            (0..shared.shards).filter_map(|from| pairs[from * shared.shards + me].queue.front().map(|(at, _)| *at));
        if let Some(at_ns) = arrivals.min() {
            shared.world.wake_at(at_ns, context.waker().clone());
        }
        Poll::Pending
    }

    /// Takes what has arrived, beginning with any sender.
    fn drain_arrived(&self, into: &mut Vec<(ShardId, M)>) {
        let shared = &*self.shared;
        let now_ns = shared.world.now_ns();
        let me = usize::from(self.shard.0);
        let first = shared.world.network_random.index(shared.shards);
        let mut pairs = shared.pairs.borrow_mut();
        let mut left = BATCH_MESSAGES_MAX;
        for at in 0..shared.shards {
            let from = (first + at) % shared.shards;
            let pair = &mut pairs[from * shared.shards + me];
            let arrived = pair.queue.iter().take(left).take_while(|(arrival_ns, _)| *arrival_ns <= now_ns).count();
            into.extend(pair.queue.drain(..arrived).map(|(_, message)| (ShardId(from as u16), message)));
            left -= arrived;
            if arrived > 0 {
                pair.senders.drain(..).for_each(Waker::wake);
            }
        }
    }

    fn pair(&self, from: ShardId, to: ShardId) -> usize {
        assert!(usize::from(to.0) < self.shared.shards, "no shard {}", to.0);
        usize::from(from.0) * self.shared.shards + usize::from(to.0)
    }
}

struct Door<M> {
    queue: VecDeque<M>,
    waker: Option<Waker>,
}

/// Unbounded queues into the shards, from any thread.
pub struct Outside<M>(Arc<Mutex<Vec<Door<M>>>>);

impl<M> Clone for Outside<M> {
    fn clone(&self) -> Self {
        Outside(self.0.clone())
    }
}

impl<M> Outside<M> {
    fn new(shards: usize) -> Self {
        let doors = (0..shards).map(|_| Door { queue: VecDeque::new(), waker: None });
        Outside(Arc::new(Mutex::new(doors.collect())))
    }

    pub fn send(&self, to: ShardId, message: M) {
        let waker = {
            let mut doors = self.lock();
            let door = &mut doors[usize::from(to.0)];
            door.queue.push_back(message);
            door.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes all that is there for a shard, or leaves its waker.
    fn take(&self, shard: usize, into: &mut Vec<(ShardId, M)>, waker: &Waker) {
        let mut doors = self.lock();
        let door = &mut doors[shard];
        if door.queue.is_empty() {
            door.waker = Some(waker.clone());
        }
        into.extend(door.queue.drain(..).map(|message| (ShardId(u16::MAX), message)));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Door<M>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Faults, Halted, Simulation};
    use crate::base::ids::ShardId;
    use crate::io::{Io, Mesh, TaskClass};
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::rc::Rc;

    /// What one shard received, in order.
    type Received = Vec<(ShardId, u32)>;

    /// Every shard sends `each` numbers to every shard; gives what each received, in order, and the trace.
    fn all_to_all(seed: u64, shards: u16, each: u32) -> (Vec<Received>, u64) {
        let sim = Simulation::new(seed, Faults::NONE);
        sim.set_mesh_capacity(4);
        let got: Rc<RefCell<Vec<Received>>> = Rc::new(RefCell::new(vec![Vec::new(); usize::from(shards)]));
        let all = got.clone();
        let _outside = sim.start(shards, move |io: Io, mesh: Mesh<u32>| {
            let got = got.clone();
            let sender = mesh.clone();
            io.spawn(TaskClass::Foreground, async move {
                for number in 0..each {
                    for to in 0..sender.shard_count() {
                        sender.send(ShardId(to), number).await;
                    }
                    sender.flush();
                }
            });
            async move {
                let expected = each as usize * usize::from(mesh.shard_count());
                let mut received = Vec::new();
                while received.len() < expected {
                    mesh.recv(&mut received).await;
                }
                got.borrow_mut()[usize::from(mesh.shard_id().0)] = received;
            }
        });
        assert_eq!(sim.run_until(|| sim.has_returned()), Ok(()));
        let received = all.borrow().clone();
        (received, sim.trace_hash())
    }

    #[test]
    fn messages_of_a_pair_keep_their_order_whatever_the_delays() {
        let mut mixes = BTreeSet::new();
        for seed in 0..30 {
            let (received, _) = all_to_all(seed, 3, 40);
            for got in &received {
                for from in 0..3 {
                    let numbers: Vec<u32> = got.iter().filter(|(f, _)| f.0 == from).map(|(_, n)| *n).collect();
                    assert_eq!(numbers, (0..40).collect::<Vec<_>>(), "seed {seed}");
                }
            }
            mixes.insert(format!("{:?}", received[0]));
        }
        assert!(mixes.len() > 25, "seeds mix the senders differently");
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        assert_eq!(all_to_all(9, 4, 20), all_to_all(9, 4, 20));
        assert_ne!(all_to_all(9, 4, 20).1, all_to_all(10, 4, 20).1);
    }

    #[test]
    fn a_full_ring_gives_the_message_back() {
        let sim = Simulation::new(0, Faults::NONE);
        sim.set_mesh_capacity(2);
        let _outside = sim.start(2, |_, mesh: Mesh<String>| async move {
            if mesh.shard_id().0 == 0 {
                let sent: Vec<_> = (0..3).map(|n: u32| mesh.try_send(ShardId(1), n.to_string())).collect();
                assert_eq!(sent, [Ok(()), Ok(()), Err("2".to_string())]);
                assert_eq!(mesh.try_send(ShardId(0), "self".into()), Ok(()), "each pair has its own");
            }
        });
        assert_eq!(sim.stop_clean(), Ok(()));
    }

    #[test]
    fn what_comes_from_outside_wakes_a_shard_that_waits() {
        let sim = Simulation::new(0, Faults::NONE);
        let outside = sim.start(2, |_, mesh: Mesh<u32>| async move {
            let mut got = Vec::new();
            mesh.recv(&mut got).await;
            assert_eq!(got, [(Mesh::<u32>::OUTSIDE, 7 + u32::from(mesh.shard_id().0))]);
        });
        assert_eq!(sim.run_until_idle(), Ok(()));
        assert!(!sim.has_returned());
        let sender = outside.clone();
        std::thread::spawn(move || sender.send(ShardId(1), 8)).join().expect("sent");
        outside.send(ShardId(0), 7);
        assert_eq!(sim.stop_clean(), Ok(()));
    }

    #[test]
    fn two_shards_that_wait_for_each_other_are_a_deadlock_by_name() {
        let sim = Simulation::new(0, Faults::NONE);
        let _outside = sim.start(2, |_, mesh: Mesh<u32>| async move { mesh.recv(&mut Vec::new()).await });
        let Err(Halted::Deadlock { waiting, .. }) = sim.stop_clean() else { panic!("no deadlock was found") };
        assert!(waiting.contains("shard 0 task spawned at src/io/sim/mesh.rs"), "{waiting}");
        assert!(waiting.contains("shard 1 task"), "{waiting}");
    }
}
