//! Writes: split by owning shard, one timestamp for all, acknowledged when every owner has.

use std::rc::Rc;

use futures_util::future::join_all;

use crate::base::ids::{ShardId, TimestampMicros};
use crate::mutation::{set_server_timestamp, set_timestamp};
use crate::plan::{PlannedMutation, WritePlan};
use crate::protocol::{CqlError, WriteType};
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Reply, Request};
use crate::shard::{Applied, Write};

impl Router {
    /// Makes a write and waits until it is acknowledged as the sync mode promises.
    pub async fn write(self: &Rc<Self>, plan: WritePlan) -> Result<(), CqlError> {
        let deadline_ns = self.deadline(self.timeouts.write);
        let groups = self.by_owner(plan.mutations);
        let logged = plan.logged_batch;
        match groups.len() {
            0 => Ok(()),
            1 => {
                let (owner, mutations) = groups.into_iter().next().expect("there is one");
                let write = Write { mutations, timestamp: plan.timestamp, hold_purges: false };
                self.apply(owner, write, deadline_ns).await.map(|_| ())
            }
            _ if logged => self.write_logged_batch(groups, plan.timestamp, deadline_ns).await,
            _ => self.write_groups(groups, plan.timestamp, deadline_ns).await,
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

    /// An unlogged batch over several shards: each part stands for itself, under one timestamp.
    async fn write_groups(
        self: &Rc<Self>,
        groups: Vec<(ShardId, Vec<Vec<u8>>)>,
        timestamp: Option<TimestampMicros>,
        deadline_ns: u64,
    ) -> Result<(), CqlError> {
        let (groups, timestamp) = self.stamped(groups, timestamp, deadline_ns).await?;
        let parts = groups.into_iter().map(|(owner, mutations)| {
            let write = Write { mutations, timestamp: Some(timestamp), hold_purges: false };
            self.apply(owner, write, deadline_ns)
        });
        join_all(parts).await.into_iter().collect::<Result<Vec<_>, _>>().map(|_| ())
    }

    /// The mutations under one timestamp, with it: the client's, or the lowest that every owner allows.
    pub(super) async fn stamped(
        self: &Rc<Self>,
        mut groups: Vec<(ShardId, Vec<Vec<u8>>)>,
        given: Option<TimestampMicros>,
        deadline_ns: u64,
    ) -> Result<(Vec<(ShardId, Vec<Vec<u8>>)>, TimestampMicros), CqlError> {
        let timestamp = match given {
            Some(timestamp) => timestamp,
            None => self.lowest_timestamp(groups.iter().map(|(owner, _)| *owner), deadline_ns).await?,
        };
        let set = if given.is_some() { set_timestamp } else { set_server_timestamp };
        groups.iter_mut().flat_map(|(_, group)| group).for_each(|mutation| set(mutation, timestamp));
        Ok((groups, timestamp))
    }

    /// The lowest timestamp that every owner allows.
    async fn lowest_timestamp(
        self: &Rc<Self>,
        owners: impl Iterator<Item = ShardId>,
        deadline_ns: u64,
    ) -> Result<TimestampMicros, CqlError> {
        let asked = owners.map(|owner| self.call(owner, Request::LowestTimestamp, deadline_ns));
        let mut greatest = TimestampMicros::MIN;
        for reply in join_all(asked).await {
            match reply {
                Some(Ok(Reply::Timestamp(lowest))) => greatest = greatest.max(lowest),
                Some(Err(error)) => return Err(error),
                _ => return Err(errors::write_timeout(WriteType::UnloggedBatch)),
            }
        }
        Ok(greatest)
    }

    /// Applies a write on its owner and waits for the acknowledgement.
    pub(super) async fn apply(
        self: &Rc<Self>,
        owner: ShardId,
        write: Write,
        deadline_ns: u64,
    ) -> Result<Applied, CqlError> {
        let write_type = if write.mutations.len() > 1 { WriteType::UnloggedBatch } else { WriteType::Simple };
        if owner == self.here() {
            return self.apply_here(write, deadline_ns).await;
        }
        match self.call(owner, Request::Apply { write, deadline_ns }, deadline_ns).await {
            Some(Ok(Reply::Applied(applied))) => Ok(applied),
            Some(Err(error)) => Err(error),
            _ => Err(errors::write_timeout(write_type)),
        }
    }

    /// The owner's half of a write.
    pub(super) async fn apply_here(&self, mut write: Write, deadline_ns: u64) -> Result<Applied, CqlError> {
        self.shard.admit(&write, deadline_ns).await.map_err(errors::write_error)?;
        let applied = self.shard.when_room(|| self.shard.apply(&mut write)).await.map_err(errors::write_error)?;
        self.shard.acknowledged(applied).await.map_err(errors::write_error)?;
        Ok(applied)
    }
}
