//! Logged batches over several shards: all of it survives a crash, or none.
//!
//! The coordinator logs the whole batch (its intent) and syncs it before it sends any part away. Once every part is
//! durable at its owner, it logs the completion. An intent without a completion pins its segment, and is redone at
//! start or, where a part could not be delivered, by `complete_open_batches`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::base::ids::{LogPosition, ShardId, TimestampMicros};
use crate::protocol::{CqlError, WriteType};
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Reply, Request};
use crate::shard::{Intent, Write, WriteError};

/// How often completions are logged: until then an intent would be redone, which changes nothing.
const COMPLETION_PERIOD: Duration = Duration::from_secs(1);

/// One batch whose completion is not logged yet.
struct OpenBatch {
    intent: LogPosition,
    timestamp: TimestampMicros,
    /// Shards whose log must be synced before the completion.
    owners: Vec<ShardId>,
    /// What has not been acknowledged by its owner.
    undelivered: Vec<(ShardId, Vec<Vec<u8>>)>,
}

/// The batches that this shard coordinates and has not completed, oldest first.
#[derive(Default)]
pub struct OpenBatches(RefCell<VecDeque<OpenBatch>>);

impl OpenBatches {
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Router {
    pub(super) async fn write_logged_batch(
        self: &Rc<Self>,
        groups: Vec<(ShardId, Vec<Vec<u8>>)>,
        timestamp: Option<TimestampMicros>,
        deadline_ns: u64,
    ) -> Result<(), CqlError> {
        let owners: Vec<ShardId> = groups.iter().map(|(owner, _)| *owner).collect();
        let (groups, timestamp) = self.stamped(groups, timestamp, deadline_ns).await?;
        let (own, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(|(owner, _)| *owner == self.here());
        let own: Vec<Vec<u8>> = own.into_iter().flat_map(|(_, mutations)| mutations).collect();
        let intent = self.log_intent(&own, &others, timestamp, deadline_ns).await?;
        // Where the sync fails, the intent may be durable none the less: it stays open, and holds up TRUNCATE and DROP.
        let outcome = match self.shard.synced(intent.end).await {
            Ok(()) => self.deliver(others, deadline_ns).await,
            Err(error) => Err((others, errors::write_error(error))),
        };
        let (undelivered, error) = match outcome {
            Ok(()) => (Vec::new(), None),
            Err((undelivered, error)) => (undelivered, Some(error)),
        };
        self.open_batches.0.borrow_mut().push_back(OpenBatch {
            intent: intent.position,
            timestamp,
            owners,
            undelivered,
        });
        error.map_or(Ok(()), Err)
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
        loop {
            match self.shard.begin_batch(own, &remote, timestamp) {
                Ok(intent) => return Ok(intent),
                Err(WriteError::Busy) => self.shard.log_room().await.map_err(errors::write_error)?,
                Err(error) => return Err(errors::write_error(error)),
            }
        }
    }

    /// Sends each owner its part. Gives back what was not acknowledged.
    async fn deliver(
        self: &Rc<Self>,
        parts: Vec<(ShardId, Vec<Vec<u8>>)>,
        deadline_ns: u64,
    ) -> Result<(), Undelivered> {
        let sent = parts.into_iter().map(|(owner, mutations)| async move {
            let timestamp = mutations.first().and_then(|mutation| crate::mutation::timestamp(mutation));
            let write = Write { mutations: mutations.clone(), timestamp, hold_purges: true };
            match self.apply(owner, write, deadline_ns).await {
                Ok(_) => Ok(()),
                Err(error) => Err(((owner, mutations), error)),
            }
        });
        let mut undelivered = Vec::new();
        let mut first_error = None;
        for outcome in join_all(sent).await {
            if let Err((part, error)) = outcome {
                undelivered.push(part);
                first_error.get_or_insert(error);
            }
        }
        match first_error {
            None => Ok(()),
            Some(_) => Err((undelivered, errors::write_timeout(WriteType::Batch))),
        }
    }

    /// Logs completions from time to time. One task a shard runs it.
    pub async fn run_completions(self: Rc<Self>) {
        loop {
            self.io.sleep(COMPLETION_PERIOD).await;
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
        self.shard.sync().await.map_err(errors::write_error)?;
        let count = self.open_batches.len();
        let mut owners = Vec::new();
        for at in 0..count {
            let undelivered = match self.open_batches.0.borrow_mut().get_mut(at) {
                Some(batch) => {
                    owners.extend_from_slice(&batch.owners);
                    std::mem::take(&mut batch.undelivered)
                }
                None => break,
            };
            if let Err((undelivered, error)) = self.deliver(undelivered, deadline_ns).await {
                if let Some(batch) = self.open_batches.0.borrow_mut().get_mut(at) {
                    batch.undelivered = undelivered;
                }
                return Err(error);
            }
        }
        owners.sort_unstable();
        owners.dedup();
        let synced = owners.iter().copied().map(|owner| self.call(owner, Request::Sync, deadline_ns));
        for reply in join_all(synced).await {
            match reply {
                Some(Ok(Reply::Done)) => {}
                Some(Err(error)) => return Err(error),
                _ => return Err(errors::write_timeout(WriteType::BatchLog)),
            }
        }
        self.log_completions(count, owners, deadline_ns).await
    }

    /// Logs and syncs the completion of the oldest `count` batches, then lets their owners purge.
    async fn log_completions(
        self: &Rc<Self>,
        count: usize,
        owners: Vec<ShardId>,
        deadline_ns: u64,
    ) -> Result<(), CqlError> {
        let batches: Vec<OpenBatch> = {
            let mut open = self.open_batches.0.borrow_mut();
            let count = count.min(open.len());
            open.drain(..count).collect()
        };
        if batches.is_empty() {
            return Ok(());
        }
        let mut intents: Vec<LogPosition> = batches.iter().map(|batch| batch.intent).collect();
        loop {
            match self.shard.complete_batches(&mut intents) {
                Ok(()) => break,
                Err(WriteError::Busy) => self.shard.log_room().await.map_err(errors::write_error)?,
                Err(error) => return Err(errors::write_error(error)),
            }
        }
        self.shard.sync().await.map_err(errors::write_error)?;
        for owner in owners.into_iter().filter(|owner| *owner != self.here()) {
            let of_owner = batches.iter().filter(|batch| batch.owners.contains(&owner));
            let timestamps = of_owner.map(|batch| batch.timestamp).collect();
            self.call(owner, Request::ReleasePurges(timestamps), deadline_ns).await;
        }
        Ok(())
    }
}

type Undelivered = (Vec<(ShardId, Vec<Vec<u8>>)>, CqlError);
