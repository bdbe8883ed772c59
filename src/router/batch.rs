//! Logged batches over several shards: all of it survives a crash, or none.
//!
//! The coordinator logs the whole batch (its intent) and syncs it before it sends any part away. Once every part is
//! durable at its owner, it logs the completion. An intent without a completion pins its segment, and is redone at
//! start or, where a part could not be delivered, by `complete_open_batches`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::base::ids::{LogPosition, ShardId, TimestampMicros};
use crate::base::local::Semaphore;
use crate::protocol::{CqlError, WriteType};
use crate::router::Router;
use crate::router::errors;
use crate::router::message::Request;
use crate::shard::{BatchId, Intent, NO_DEADLINE, PurgeHold, Write};

/// How often completions are logged: until then an intent would be redone, which changes nothing.
const COMPLETION_PERIOD: Duration = Duration::from_secs(1);

/// One batch whose completion is not durable yet.
struct OpenBatch {
    intent: LogPosition,
    hold: PurgeHold,
    /// Shards whose log must be synced before the completion.
    owners: Vec<ShardId>,
    /// What has not been acknowledged by its owner.
    undelivered: RefCell<Vec<(ShardId, Vec<Vec<u8>>)>>,
    /// One delivers at a time: the write itself, or who completes what the write left.
    delivery: Rc<Semaphore>,
}

/// The batches that this shard coordinates and has not completed, oldest first. A batch stands here from the moment its
/// intent is in the log until its completion is synced: a crash between the two redoes it.
pub struct OpenBatches {
    list: RefCell<Vec<Rc<OpenBatch>>>,
    /// One completes at a time.
    turn: Rc<Semaphore>,
    next_number: Cell<u64>,
    /// What owners hold back and need not any more: for batches that are complete or were never begun.
    released: RefCell<BTreeMap<ShardId, Vec<PurgeHold>>>,
}

/// Owners that may hold purges back for a batch. Dropped before the batch stands among the open ones, as on every error
/// and where the client has gone, they are told to let go.
struct Holding<'b> {
    batches: &'b OpenBatches,
    owners: Vec<ShardId>,
    hold: PurgeHold,
}

impl Holding<'_> {
    /// The batch is open: its completion releases them.
    fn keep(mut self) {
        self.owners.clear();
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.batches.release(&self.owners, self.hold);
    }
}

/// Releases on their way to the owners. What is left of them when it is dropped is sent another time.
struct Releasing<'b> {
    batches: &'b OpenBatches,
    left: BTreeMap<ShardId, Vec<PurgeHold>>,
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        let mut released = self.batches.released.borrow_mut();
        for (owner, holds) in std::mem::take(&mut self.left) {
            released.entry(owner).or_default().extend(holds);
        }
    }
}

impl Default for OpenBatches {
    fn default() -> Self {
        OpenBatches {
            list: RefCell::default(),
            turn: Semaphore::new(1),
            next_number: Cell::new(0),
            released: RefCell::default(),
        }
    }
}

impl OpenBatches {
    pub fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    fn next_number(&self) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        number
    }

    fn release(&self, owners: &[ShardId], hold: PurgeHold) {
        let mut released = self.released.borrow_mut();
        owners.iter().for_each(|owner| released.entry(*owner).or_default().push(hold));
    }
}

impl Router {
    pub(super) async fn write_logged_batch(
        self: &Rc<Self>,
        mut groups: Vec<(ShardId, Vec<Vec<u8>>)>,
        timestamp: Option<TimestampMicros>,
        deadline_ns: u64,
    ) -> Result<(), CqlError> {
        let owners: Vec<ShardId> = groups.iter().map(|(owner, _)| *owner).collect();
        let others: Vec<ShardId> = owners.iter().copied().filter(|owner| *owner != self.here()).collect();
        let agreed = self.agree(&owners, timestamp, deadline_ns).await?;
        let timestamp = agreed.timestamp;
        let batch = BatchId { coordinator: self.here(), number: self.open_batches.next_number() };
        let hold = PurgeHold { timestamp, batch };
        let holding = Holding { batches: &self.open_batches, owners: others.clone(), hold };
        self.announce(&others, agreed.expected(Some(batch)), deadline_ns).await?;
        agreed.stamp(&mut groups);
        let (own, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(|(owner, _)| *owner == self.here());
        let own: Vec<Vec<u8>> = own.into_iter().flat_map(|(_, mutations)| mutations).collect();
        let intent = self.log_intent(&own, &others, timestamp, deadline_ns).await?;
        let batch = Rc::new(OpenBatch {
            intent: intent.position,
            hold,
            owners,
            undelivered: RefCell::new(others),
            delivery: Semaphore::new(1),
        });
        self.open_batches.list.borrow_mut().push(batch.clone());
        holding.keep();
        // Where the sync fails, the intent may be durable none the less: it stays open, and holds up TRUNCATE and DROP.
        self.shard.synced(intent.end).await.map_err(errors::write_error)?;
        self.deliver(&batch, deadline_ns).await
    }

    async fn log_intent(
        &self,
        own: &[Vec<u8>],
        others: &[(ShardId, Vec<Vec<u8>>)],
        timestamp: TimestampMicros,
        deadline_ns: u64,
    ) -> Result<Intent, CqlError> {
        let remote: Vec<&[u8]> = others.iter().flat_map(|(_, group)| group.iter().map(Vec::as_slice)).collect();
        let bytes = own.iter().map(Vec::len).chain(remote.iter().map(|part| part.len())).sum();
        self.shard.admit_bytes(bytes, deadline_ns).await.map_err(errors::write_error)?;
        let begin = || self.shard.begin_batch(own, &remote, timestamp);
        self.shard.when_room(deadline_ns, begin).await.map_err(errors::write_error)
    }

    /// Sends each owner the part that it has not acknowledged.
    async fn deliver(self: &Rc<Self>, batch: &OpenBatch, deadline_ns: u64) -> Result<(), CqlError> {
        let _delivering = batch.delivery.acquire(1).await;
        let parts = batch.undelivered.borrow().clone();
        let sent = parts.into_iter().map(|(owner, mutations)| async move {
            let write = Write { mutations, timestamp: Some(batch.hold.timestamp) };
            (owner, self.apply(owner, write, false, deadline_ns).await)
        });
        for (owner, outcome) in join_all(sent).await {
            if outcome.is_ok() {
                batch.undelivered.borrow_mut().retain(|(other, _)| *other != owner);
            }
        }
        if batch.undelivered.borrow().is_empty() { Ok(()) } else { Err(errors::write_timeout(WriteType::Batch)) }
    }

    /// Logs completions from time to time. One task a shard runs it.
    pub async fn run_completions(self: Rc<Self>) {
        loop {
            self.io.sleep(COMPLETION_PERIOD).await;
            self.release_purges().await;
            if self.open_batches.is_empty() {
                continue;
            }
            let deadline_ns = self.deadline(self.timeouts.operation);
            if let Err(error) = self.complete_open_batches(deadline_ns).await {
                tracing::warn!(shard = self.here().0, %error, "batches stay open and are tried again");
            }
        }
    }

    /// Delivers what is missing of the batches begun before now, syncs their owners, and logs their completion. Fails
    /// where this shard's log has: intents in it that a restart may find are then not complete.
    pub(super) async fn complete_open_batches(self: &Rc<Self>, deadline_ns: u64) -> Result<(), CqlError> {
        let _turn = self.open_batches.turn.acquire(1).await;
        let batches = self.open_batches.list.borrow().clone();
        self.shard.sync().await.map_err(errors::write_error)?;
        for batch in &batches {
            self.deliver(batch, deadline_ns).await?;
        }
        let mut owners: Vec<ShardId> = batches.iter().flat_map(|batch| batch.owners.iter().copied()).collect();
        owners.sort_unstable();
        owners.dedup();
        let late = || errors::write_timeout(WriteType::BatchLog);
        self.ask(owners, || Request::Sync, deadline_ns, late).await?;
        if batches.is_empty() { Ok(()) } else { self.log_completions(&batches).await }
    }

    /// Logs and syncs the completion of these batches, then lets their owners purge.
    async fn log_completions(self: &Rc<Self>, batches: &[Rc<OpenBatch>]) -> Result<(), CqlError> {
        let mut intents: Vec<LogPosition> = batches.iter().map(|batch| batch.intent).collect();
        let complete = || self.shard.complete_batches(&mut intents);
        self.shard.when_room(NO_DEADLINE, complete).await.map_err(errors::write_error)?;
        self.shard.sync().await.map_err(errors::write_error)?;
        self.open_batches.list.borrow_mut().retain(|open| !batches.iter().any(|done| Rc::ptr_eq(open, done)));
        for batch in batches {
            let others: Vec<ShardId> = batch.owners.iter().copied().filter(|owner| *owner != self.here()).collect();
            self.open_batches.release(&others, batch.hold);
        }
        self.release_purges().await;
        Ok(())
    }

    /// Tells owners which purges they need not hold back any more.
    async fn release_purges(self: &Rc<Self>) {
        let left = self.open_batches.released.take();
        let mut releasing = Releasing { batches: &self.open_batches, left };
        while let Some((owner, holds)) = releasing.left.first_key_value() {
            self.hand_over(*owner, Request::ReleasePurges(holds.clone())).await;
            releasing.left.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;
    use crate::io::sim::{Faults, Simulation};
    use crate::io::{Io, Mesh};
    use crate::router::Timeouts;
    use crate::router::message::Message;
    use crate::schema::partitioner::Sharding;
    use crate::shard::tests::{schema, start};

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Shard 0 of three runs `task` with its router. The others receive nothing before `serve` is set, and then keep what
    /// they were asked. A ring holds one message.
    fn with_router<T, F>(task: T) -> Vec<Vec<Request>>
    where
        T: Fn(Rc<Router>, Rc<Cell<bool>>) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        let sim = Simulation::new(1, Faults::NONE);
        sim.set_mesh_capacity(1);
        let (serve, asked) =
            (Rc::new(Cell::new(false)), Rc::new(RefCell::new(vec![Vec::new(), Vec::new(), Vec::new()])));
        let (serves, kept, task) = (serve.clone(), asked.clone(), Rc::new(task));
        let _outside = sim.start(3, move |io: Io, mesh: Mesh<Message>| {
            let (serve, asked, task) = (serves.clone(), kept.clone(), task.clone());
            async move {
                if io.shard_id() == ShardId(0) {
                    let shard = start(io.clone()).await;
                    let (sharding, timeouts) = (Sharding::new(3), Timeouts::all(PATIENCE));
                    let router = Router::new(io.clone(), shard, mesh, sharding, timeouts, Rc::new(schema()));
                    task(router, serve).await;
                    return io.sleep(PATIENCE).await;
                }
                while !serve.get() {
                    io.sleep(Duration::from_millis(1)).await;
                }
                loop {
                    let mut received = Vec::new();
                    mesh.recv(&mut received).await;
                    let requests = received.into_iter().filter_map(|(_, message)| match message {
                        Message::Request { request, .. } => Some(request),
                        _ => None,
                    });
                    asked.borrow_mut()[usize::from(io.shard_id().0)].extend(requests);
                }
            }
        });
        sim.run_for(PATIENCE / 2).expect("runs");
        asked.take()
    }

    /// Takes the only place in the ring to this shard.
    fn fill(router: &Router, to: ShardId) {
        let message = Message::Request { number: u64::MAX, request: Request::Report };
        assert!(router.mesh.try_send(to, message).is_ok());
    }

    /// Polls once, and gives up where that does not end it.
    async fn begin_and_give_up(future: impl Future) {
        let mut future = Box::pin(future);
        let ended = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
        assert!(!ended, "it waits for a ring");
    }

    fn released_to(requests: &[Request]) -> Vec<PurgeHold> {
        let holds = requests.iter().filter_map(|request| match request {
            Request::ReleasePurges(holds) => Some(holds.clone()),
            _ => None,
        });
        holds.flatten().collect()
    }

    fn hold(number: u64, timestamp: TimestampMicros) -> PurgeHold {
        PurgeHold { timestamp, batch: BatchId { coordinator: ShardId(0), number } }
    }

    #[test]
    fn releases_broken_off_halfway_are_sent_another_time() {
        let asked = with_router(|router, serve| async move {
            router.open_batches.release(&[ShardId(1), ShardId(2)], hold(3, 7));
            fill(&router, ShardId(1));
            begin_and_give_up(router.release_purges()).await;
            router.open_batches.release(&[ShardId(2)], hold(4, 7));
            serve.set(true);
            router.release_purges().await;
            assert!(router.open_batches.released.borrow().is_empty());
        });
        assert_eq!(released_to(&asked[1]), [hold(3, 7)]);
        let mut second = released_to(&asked[2]);
        second.sort_unstable();
        assert_eq!(second, [hold(3, 7), hold(4, 7)]);
    }

    /// The clients of two batches under one timestamp go before their owners were told: what is released is each batch's
    /// own, and nothing waits for answers that will not come.
    #[test]
    fn a_batch_whose_client_goes_releases_its_own_holds() {
        with_router(|router, _| async move {
            fill(&router, ShardId(1));
            fill(&router, ShardId(2));
            for _ in 0..2 {
                let groups = vec![(ShardId(1), vec![]), (ShardId(2), vec![])];
                begin_and_give_up(router.write_logged_batch(groups, Some(7), u64::MAX)).await;
            }
            let holds = vec![hold(0, 7), hold(1, 7)];
            let want = BTreeMap::from([(ShardId(1), holds.clone()), (ShardId(2), holds)]);
            assert_eq!(*router.open_batches.released.borrow(), want);
            assert!(router.places.is_empty());
        });
    }
}
