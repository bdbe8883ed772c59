//! Logged batches over several shards: all of it survives a crash, or none.
//!
//! The coordinator logs the whole batch (its intent) and syncs it before it sends any part away. Once every part is
//! durable at its owner, it logs the completion. An intent without a completion pins its segment, and is redone at
//! start or, where a part could not be delivered, by `complete_open_batches`.

use std::cell::RefCell;
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
use crate::shard::{Intent, Write};

/// How often completions are logged: until then an intent would be redone, which changes nothing.
const COMPLETION_PERIOD: Duration = Duration::from_secs(1);

/// One batch whose completion is not durable yet.
struct OpenBatch {
    intent: LogPosition,
    timestamp: TimestampMicros,
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
    /// Purges that owners hold back and need not any more: for batches that are complete or were never begun.
    released: RefCell<Vec<(ShardId, TimestampMicros)>>,
}

/// The purges that the owners of a batch hold back. Dropped before the batch stands among the open ones, as on every
/// error and where the client has gone, it is released.
struct PurgeHold<'b> {
    batches: &'b OpenBatches,
    owners: Vec<ShardId>,
    timestamp: TimestampMicros,
}

impl PurgeHold<'_> {
    /// The batch is open: its completion releases them.
    fn keep(mut self) {
        self.owners.clear();
    }
}

impl Drop for PurgeHold<'_> {
    fn drop(&mut self) {
        self.batches.release(&self.owners, self.timestamp);
    }
}

impl Default for OpenBatches {
    fn default() -> Self {
        OpenBatches { list: RefCell::default(), turn: Semaphore::new(1), released: RefCell::default() }
    }
}

impl OpenBatches {
    pub fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    fn release(&self, owners: &[ShardId], timestamp: TimestampMicros) {
        self.released.borrow_mut().extend(owners.iter().map(|owner| (*owner, timestamp)));
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
        let hold = PurgeHold { batches: &self.open_batches, owners: others.clone(), timestamp };
        self.announce(&others, agreed.expected(true), deadline_ns).await?;
        agreed.stamp(&mut groups);
        let (own, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(|(owner, _)| *owner == self.here());
        let own: Vec<Vec<u8>> = own.into_iter().flat_map(|(_, mutations)| mutations).collect();
        let intent = self.log_intent(&own, &others, timestamp, deadline_ns).await?;
        let batch = Rc::new(OpenBatch {
            intent: intent.position,
            timestamp,
            owners,
            undelivered: RefCell::new(others),
            delivery: Semaphore::new(1),
        });
        self.open_batches.list.borrow_mut().push(batch.clone());
        hold.keep();
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
        self.shard.when_room(begin).await.map_err(errors::write_error)
    }

    /// Sends each owner the part that it has not acknowledged.
    async fn deliver(self: &Rc<Self>, batch: &OpenBatch, deadline_ns: u64) -> Result<(), CqlError> {
        let _delivering = batch.delivery.acquire(1).await;
        let parts = batch.undelivered.borrow().clone();
        let sent = parts.into_iter().map(|(owner, mutations)| async move {
            let write = Write { mutations, timestamp: Some(batch.timestamp) };
            (owner, self.apply(owner, write, deadline_ns).await)
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
        self.shard.when_room(complete).await.map_err(errors::write_error)?;
        self.shard.sync().await.map_err(errors::write_error)?;
        self.open_batches.list.borrow_mut().retain(|open| !batches.iter().any(|done| Rc::ptr_eq(open, done)));
        for batch in batches {
            let others: Vec<ShardId> = batch.owners.iter().copied().filter(|owner| *owner != self.here()).collect();
            self.open_batches.release(&others, batch.timestamp);
        }
        self.release_purges().await;
        Ok(())
    }

    /// Tells owners which purges they need not hold back any more.
    async fn release_purges(self: &Rc<Self>) {
        let mut by_owner: BTreeMap<ShardId, Vec<TimestampMicros>> = BTreeMap::new();
        for (owner, timestamp) in self.open_batches.released.take() {
            by_owner.entry(owner).or_default().push(timestamp);
        }
        for (owner, timestamps) in by_owner {
            self.hand_over(owner, Request::ReleasePurges(timestamps)).await;
        }
    }
}
