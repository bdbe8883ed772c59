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
    pub async fn read(self: &Rc<Self>, table: &Table, command: ReadCommand) -> Result<ReadPage, CqlError> {
        match &command.partitions {
            Partitions::Keys(keys) if keys.len() == 1 => {
                let deadline_ns = self.deadline(self.timeouts.read);
                let owner = self.owner(table, keys[0].token);
                self.read_from(owner, command, deadline_ns).await
            }
            Partitions::Keys(_) => self.read_keys(table, command).await,
            Partitions::Range(_) => {
                let deadline_ns = self.deadline(self.timeouts.range);
                if system::is_system(&table.keyspace) {
                    self.read_from(ShardId(0), command, deadline_ns).await
                } else if self.sharding.shards == 1 {
                    self.read_from(self.here(), command, deadline_ns).await
                } else {
                    self.scan_all(command, deadline_ns).await
                }
            }
        }
    }

    /// Reads from one shard.
    pub(super) async fn read_from(
        self: &Rc<Self>,
        owner: ShardId,
        command: ReadCommand,
        deadline_ns: u64,
    ) -> Result<ReadPage, CqlError> {
        if owner == self.here() {
            return self.shard.read(&command, deadline_ns).await.map_err(errors::read_error);
        }
        match self.call(owner, Request::Read { command, deadline_ns }, deadline_ns).await {
            Some(Ok(Reply::Page(page))) => Ok(page),
            Some(Err(error)) => Err(error),
            _ => Err(errors::read_timeout()),
        }
    }

    /// Several keys, one after another, until the page is full. A command's resume names the key to go on from.
    async fn read_keys(self: &Rc<Self>, table: &Table, command: ReadCommand) -> Result<ReadPage, CqlError> {
        let deadline_ns = self.deadline(self.timeouts.read);
        let Partitions::Keys(keys) = &command.partitions else { return Ok(ReadPage::default()) };
        let (mut at, mut within) = match &command.resume {
            None => (0, None),
            Some(resume) => match keys.iter().position(|key| *key == resume.partition) {
                Some(at) if resume.after.is_some() => (at, Some(resume.clone())),
                Some(at) => (at + 1, None),
                None => return Ok(ReadPage::default()),
            },
        };
        let mut page = ReadPage::default();
        while at < keys.len() {
            let key = &keys[at];
            let mut part = command.clone();
            part.partitions = Partitions::Keys(vec![key.clone()]);
            part.resume = within.take();
            part.limits.rows = command.limits.rows - page.rows;
            part.limits.page_bytes = command.limits.page_bytes.saturating_sub(page.bytes.len()).max(1);
            let read = self.read_from(self.owner(table, key.token), part, deadline_ns).await?;
            page.bytes.extend_from_slice(&read.bytes);
            page.rows += read.rows;
            let full = page.rows >= command.limits.rows || page.bytes.len() >= command.limits.page_bytes;
            if let Some(resume) = read.resume {
                let partition_is_done = resume.after.is_none();
                page.resume = Some(resume);
                if !partition_is_done || full {
                    return Ok(page);
                }
            }
            if full && at + 1 < keys.len() {
                page.resume =
                    Some(crate::mutation::read::Resume { partition: key.clone(), after: None, partition_rows: 0 });
                return Ok(page);
            }
            page.resume = None;
            at += 1;
        }
        Ok(page)
    }
}
