//! Reads: partitions by key from their owners in the order asked, ranges from all shards merged by token.

use std::rc::Rc;

use crate::base::ids::ShardId;
use crate::mutation::read::{Partitions, ReadCommand, ReadPage};
use crate::protocol::CqlError;
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Reply, Request};
use crate::schema::{Table, system};

impl Router {
    /// One page of a read.
    pub async fn read(self: &Rc<Self>, table: &Table, command: &ReadCommand) -> Result<ReadPage, CqlError> {
        let timeout = match command.partitions {
            Partitions::Keys(_) => self.timeouts.read,
            Partitions::Range(_) => self.timeouts.range,
        };
        let deadline_ns = self.deadline(timeout);
        match &command.partitions {
            Partitions::Keys(keys) if keys.len() == 1 => {
                self.read_from(self.owner(table, keys[0].token), command, deadline_ns).await
            }
            _ if system::is_system(&table.keyspace) => self.read_from(ShardId(0), command, deadline_ns).await,
            _ if self.sharding.shards == 1 => self.read_from(self.here(), command, deadline_ns).await,
            Partitions::Keys(keys) => self.read_keys(keys, command, deadline_ns).await,
            Partitions::Range(_) => self.scan_all(command, deadline_ns).await,
        }
    }

    /// Reads from one shard.
    pub(super) async fn read_from(
        self: &Rc<Self>,
        owner: ShardId,
        command: &ReadCommand,
        deadline_ns: u64,
    ) -> Result<ReadPage, CqlError> {
        if owner == self.here() {
            return self.shard.read(command, deadline_ns).await.map_err(errors::read_error);
        }
        let request = Request::Read { command: command.clone(), deadline_ns };
        match self.call(owner, request, deadline_ns).await {
            Some(Ok(Reply::Page(page))) => Ok(page),
            Some(Err(error)) => Err(error),
            _ => Err(errors::read_timeout()),
        }
    }
}
