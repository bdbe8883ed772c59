//! Reads: partitions by key from their owners in the order asked, ranges from all shards merged by token.

use std::rc::Rc;

use crate::base::ids::ShardId;
use crate::mutation::read::{Partitions, ReadCommand, ReadPage};
use crate::plan::select::READ_PAGE_BYTES;
use crate::protocol::CqlError;
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Reply, Request};
use crate::schema::{Table, system};
use crate::shard::ReadError;

/// What the pages of ranges may hold that one shard has asked for and not merged yet: the next waits, first come, first
/// served.
pub(super) const RANGE_PAGES_BYTES_MAX: u64 = 64 << 20;

/// So many may wait for that: the next is answered OVERLOADED.
const RANGES_WAITING_MAX: usize = 4096;

/// Every shard may give so much of a range's page, however many shards there are.
const RANGE_PART_BYTES_MIN: usize = 64 << 10;

/// Where the pages that a read asks of other shards are counted before they are there.
pub trait PageRoom {
    /// Takes room for a page as large as it may be expected, and says how large that is.
    fn expect(&self) -> Result<usize, CqlError>;
    /// Takes room for a page of so many bytes instead.
    fn take(&self, bytes: usize) -> Result<(), CqlError>;
}

impl Router {
    /// When a read that begins now is too late, with all of its pages.
    pub fn read_deadline(&self, command: &ReadCommand) -> u64 {
        self.deadline(match command.partitions {
            Partitions::Keys(_) => self.timeouts.read,
            Partitions::Range(_) => self.timeouts.range,
        })
    }

    /// A timeout, where the deadline has passed.
    pub fn check_deadline(&self, deadline_ns: u64) -> Result<(), CqlError> {
        if self.io.now_ns() > deadline_ns { Err(errors::read_timeout()) } else { Ok(()) }
    }

    /// One page of a read.
    pub async fn read(
        self: &Rc<Self>,
        table: &Table,
        command: &ReadCommand,
        deadline_ns: u64,
        room: &dyn PageRoom,
    ) -> Result<ReadPage, CqlError> {
        match &command.partitions {
            Partitions::Keys(keys) if keys.len() == 1 => {
                let owner = self.owner(table, keys[0].token);
                self.read_from(owner, command, deadline_ns, Some(room)).await
            }
            // Drivers begin with these, which are small: they do not wait for ranges of users' tables.
            _ if system::is_system(&table.keyspace) => {
                self.read_from(ShardId(0), command, deadline_ns, Some(room)).await
            }
            Partitions::Keys(_) if self.sharding.shards == 1 => {
                self.read_from(self.here(), command, deadline_ns, Some(room)).await
            }
            Partitions::Keys(keys) => self.read_keys(keys, command, deadline_ns, room).await,
            Partitions::Range(_) => Box::pin(self.read_range(command, deadline_ns)).await,
        }
    }

    /// A page of a range, once there is room for what every shard may give.
    async fn read_range(self: &Rc<Self>, command: &ReadCommand, deadline_ns: u64) -> Result<ReadPage, CqlError> {
        let shards = usize::from(self.sharding.shards);
        let part_bytes = (READ_PAGE_BYTES / shards).max(RANGE_PART_BYTES_MIN);
        let bytes = (part_bytes * shards) as u64;
        let _room = match self.range_pages.try_acquire(bytes) {
            Some(room) => room,
            None if self.range_pages.waiting() >= RANGES_WAITING_MAX => return Err(errors::too_many_ranges()),
            None => {
                let room = self.before(deadline_ns, self.range_pages.acquire(bytes)).await;
                room.ok_or_else(errors::read_timeout)?
            }
        };
        if shards == 1 {
            return self.read_from(self.here(), command, deadline_ns, None).await;
        }
        self.scan_all(command, part_bytes, deadline_ns).await
    }

    /// Reads from one shard. Without `room` the page's bytes are counted already.
    pub(super) async fn read_from(
        self: &Rc<Self>,
        owner: ShardId,
        command: &ReadCommand,
        deadline_ns: u64,
        room: Option<&dyn PageRoom>,
    ) -> Result<ReadPage, CqlError> {
        if owner == self.here() {
            let read = self.shard.read(command, deadline_ns);
            return match command.partitions {
                Partitions::Keys(_) => read.await.map_err(errors::read_error),
                // It may wait for its turn behind many others.
                Partitions::Range(_) => {
                    let page = self.before(deadline_ns, read).await;
                    page.unwrap_or(Err(ReadError::Timeout)).map_err(errors::read_error)
                }
            };
        }
        let mut bytes_max = room.map_or(Ok(usize::MAX), PageRoom::expect)?;
        loop {
            let request = Request::Read { command: command.clone(), deadline_ns, bytes_max };
            match self.call(owner, request, deadline_ns).await {
                Some(Ok(Reply::Page(page))) => return Ok(page),
                Some(Ok(Reply::PageTooLarge { bytes })) => {
                    room.map_or(Ok(()), |room| room.take(bytes))?;
                    bytes_max = bytes;
                }
                Some(Err(error)) => return Err(error),
                _ => return Err(errors::read_timeout()),
            }
        }
    }
}
