//! Writes: split by owning shard, one timestamp for all, acknowledged when every owner has.

use std::rc::Rc;
use std::task::{Context, Poll};

use futures_util::future::join_all;

use crate::base::ids::{LogPosition, ShardId, TimestampMicros};
use crate::commitlog::Wait;
use crate::mutation::{set_server_timestamp, set_timestamp};
use crate::plan::{PlannedMutation, WritePlan};
use crate::protocol::{CqlError, WriteType};
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Reply, Request};
use crate::shard::{Applied, BatchId, ExpectedBatch, Write};

/// The timestamp of a batch over several shards. An owner that knows of it gives none up to it, so that whatever it
/// answers afterwards is newer than the batch, though the part comes late.
pub(super) struct Agreed {
    pub timestamp: TimestampMicros,
    is_servers: bool,
    /// The owners that have reserved a lower one.
    lower: Vec<ShardId>,
}

impl Agreed {
    pub fn expected(&self, logged: Option<BatchId>) -> ExpectedBatch {
        ExpectedBatch { timestamp: self.timestamp, is_servers: self.is_servers, logged }
    }

    pub fn stamp(&self, groups: &mut [(ShardId, Vec<Vec<u8>>)]) {
        let set = if self.is_servers { set_server_timestamp } else { set_timestamp };
        groups.iter_mut().flat_map(|(_, group)| group).for_each(|mutation| set(mutation, self.timestamp));
    }
}

impl Router {
    /// Makes a write and waits until it is acknowledged as the sync mode promises.
    pub async fn write(self: &Rc<Self>, plan: WritePlan) -> Result<(), CqlError> {
        let deadline_ns = self.deadline(self.timeouts.write);
        let is_counter = plan.mutations.iter().any(|mutation| mutation.table.is_counter);
        let mut groups = self.by_owner(plan.mutations);
        let logged = plan.logged_batch;
        if groups.len() > 1 && !is_counter {
            self.check_drafts(&mut groups, plan.timestamp, logged, deadline_ns).await?;
        }
        match groups.len() {
            0 => Ok(()),
            1 => {
                let (owner, mutations) = groups.into_iter().next().expect("there is one");
                let write = Write { mutations, timestamp: plan.timestamp };
                self.apply(owner, write, is_counter, deadline_ns).await.map(|_| ())
            }
            _ if logged => self.write_logged_batch(groups, plan.timestamp, deadline_ns).await,
            _ => self.write_groups(groups, plan.timestamp, is_counter, deadline_ns).await,
        }
    }

    /// The mutations by the shard that owns them, shards in the order of their first mutation.
    fn by_owner(&self, mutations: Vec<PlannedMutation>) -> Vec<(ShardId, Vec<Vec<u8>>)> {
        let mut groups: Vec<(ShardId, Vec<Vec<u8>>)> = Vec::new();
        for mutation in mutations {
            let owner = self.owner(&mutation.table, mutation.token);
            match groups.iter_mut().find(|(shard, _)| *shard == owner) {
                Some((_, group)) => group.push(mutation.bytes),
                None => groups.push((owner, vec![mutation.bytes])),
            }
        }
        groups
    }

    /// What a batch over several shards changes of lists must be there, or none of it is made. The parts of a logged batch
    /// are taken as they are resolved here: another write may come before them, as in Cassandra. The others are resolved
    /// where and when they are applied.
    async fn check_drafts(
        self: &Rc<Self>,
        groups: &mut [(ShardId, Vec<Vec<u8>>)],
        timestamp: Option<TimestampMicros>,
        logged: bool,
        deadline_ns: u64,
    ) -> Result<(), CqlError> {
        for (owner, mutations) in groups {
            let write = Write { mutations: mutations.clone(), timestamp };
            if !write.has_drafts() {
                continue;
            }
            let request = Request::Resolve { write, deadline_ns };
            let reply = if *owner == self.here() {
                Some(self.serve(request).await)
            } else {
                self.call(*owner, request, deadline_ns).await
            };
            match reply {
                Some(Ok(Reply::Mutations(resolved))) if logged => *mutations = resolved,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Err(errors::write_timeout(WriteType::Batch)),
            }
        }
        Ok(())
    }

    /// An unlogged batch over several shards: each part stands for itself, under one timestamp.
    async fn write_groups(
        self: &Rc<Self>,
        mut groups: Vec<(ShardId, Vec<Vec<u8>>)>,
        timestamp: Option<TimestampMicros>,
        is_counter: bool,
        deadline_ns: u64,
    ) -> Result<(), CqlError> {
        let owners: Vec<ShardId> = groups.iter().map(|(owner, _)| *owner).collect();
        let agreed = self.agree(&owners, timestamp, deadline_ns).await?;
        self.announce(&agreed.lower, agreed.expected(None), deadline_ns).await?;
        agreed.stamp(&mut groups);
        let parts = groups.into_iter().map(|(owner, mutations)| {
            let write = Write { mutations, timestamp: Some(agreed.timestamp) };
            self.apply(owner, write, is_counter, deadline_ns)
        });
        join_all(parts).await.into_iter().collect::<Result<Vec<_>, _>>().map(|_| ())
    }

    /// Settles a batch's timestamp with its owners: the client's, or one that none of them has reached.
    pub(super) async fn agree(
        self: &Rc<Self>,
        owners: &[ShardId],
        given: Option<TimestampMicros>,
        deadline_ns: u64,
    ) -> Result<Agreed, CqlError> {
        let (timestamp, lower) = match given {
            Some(timestamp) => (timestamp, Vec::new()),
            None => self.reserve_timestamp(owners, deadline_ns).await?,
        };
        Ok(Agreed { timestamp, is_servers: given.is_none(), lower })
    }

    /// Tells owners of a batch before any of its parts is sent, and waits until they know.
    pub(super) async fn announce(
        self: &Rc<Self>,
        owners: &[ShardId],
        expected: ExpectedBatch,
        deadline_ns: u64,
    ) -> Result<(), CqlError> {
        let late = || errors::write_timeout(WriteType::BatchLog);
        self.ask(owners.iter().copied(), || Request::ExpectBatch(expected), deadline_ns, late).await.map(|_| ())
    }

    /// The lowest timestamp that every owner allows, and the owners that have reserved a lower one.
    async fn reserve_timestamp(
        self: &Rc<Self>,
        owners: &[ShardId],
        deadline_ns: u64,
    ) -> Result<(TimestampMicros, Vec<ShardId>), CqlError> {
        let now_us = self.io.wall_us();
        let late = || errors::write_timeout(WriteType::BatchLog);
        let request = || Request::ReserveTimestamp(now_us);
        let replies = self.ask(owners.iter().copied(), request, deadline_ns, late).await?;
        let reserved: Vec<TimestampMicros> = replies
            .iter()
            .map(|reply| match reply {
                Reply::Timestamp(timestamp) => *timestamp,
                other => unreachable!("a reservation is answered with a timestamp, not {other:?}"),
            })
            .collect();
        let greatest = reserved.iter().copied().max().expect("a batch has owners");
        let lower = owners.iter().zip(reserved).filter(|(_, timestamp)| *timestamp < greatest);
        Ok((greatest, lower.map(|(owner, _)| *owner).collect()))
    }

    /// Applies a write on its owner and waits for the acknowledgement.
    pub(super) async fn apply(
        self: &Rc<Self>,
        owner: ShardId,
        write: Write,
        is_counter: bool,
        deadline_ns: u64,
    ) -> Result<Applied, CqlError> {
        let write_type = match write.mutations.len() {
            _ if is_counter => WriteType::Counter,
            0 | 1 => WriteType::Simple,
            _ => WriteType::UnloggedBatch,
        };
        if owner == self.here() {
            return self.apply_here(write, deadline_ns).await;
        }
        match self.call(owner, Request::Apply { write, deadline_ns }, deadline_ns).await {
            Some(Ok(Reply::Applied(applied))) => Ok(applied),
            Some(Err(error)) => Err(error),
            _ => Err(errors::write_timeout(write_type)),
        }
    }

    /// Up to where this shard's log is acknowledged.
    pub fn acknowledged_position(&self) -> LogPosition {
        self.shard.acknowledged_position()
    }

    /// Whether a write of this shard that ends there in the log is acknowledged; `wait` as for `Shard::poll_acknowledged`.
    pub fn poll_acknowledged(
        &self,
        end: LogPosition,
        wait: &mut Option<Wait>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), CqlError>> {
        self.shard.poll_acknowledged(end, wait, context).map_err(errors::write_error)
    }

    /// The owner's half of a write.
    pub(super) async fn apply_here(&self, mut write: Write, deadline_ns: u64) -> Result<Applied, CqlError> {
        self.shard.admit(&write, deadline_ns).await.map_err(errors::write_error)?;
        let applied = if write.has_drafts() {
            self.shard.resolve_and_apply(&write, deadline_ns).await
        } else {
            self.shard.when_room(deadline_ns, || self.shard.apply(&mut write)).await
        };
        let applied = applied.map_err(errors::write_error)?;
        self.shard.acknowledged(applied).await.map_err(errors::write_error)?;
        Ok(applied)
    }
}
