//! Reads: partitions by key from their owners in the order asked, ranges from all shards merged by token.

use std::rc::Rc;

use crate::base::ids::{ShardId, Token};
use crate::base::local::Permit;
use crate::mutation::read::{Partitions, ReadCommand, ReadPage};
use crate::plan::select::READ_PAGE_BYTES;
use crate::protocol::{Consistency, CqlError};
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Reply, Request};
use crate::schema::{Table, system};
use crate::shard::ReadError;

/// What the pages of ranges may hold that one shard has asked for and not merged yet: the next waits, first come, first
/// served. One page of every shard that are larger together are read alone.
pub(super) const RANGE_PAGES_BYTES_MAX: u64 = 64 << 20;

/// So many may wait for that: the next is answered OVERLOADED.
const RANGES_WAITING_MAX: usize = 4096;

/// Every shard may give so much of a range's page, however many shards there are.
const RANGE_PART_BYTES_MIN: usize = 64 << 10;

/// A page ends after a row, so a part may be larger by one: by so much it is expected to be.
const LAST_ROW_BYTES: usize = 64 << 10;

/// What a shard gives that was asked for a page of a limited size.
pub(super) enum Given {
    Page(ReadPage),
    /// It has so many bytes.
    TooLarge {
        bytes: usize,
    },
}

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

    /// Whether this shard owns the partition and its keyspace has replicas enough for the level: what may be done at once.
    pub fn is_here(&self, table: &Table, token: Token, level: Consistency) -> bool {
        self.owner(table, token) == self.here() && self.check_consistency(table, level).is_ok()
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
                self.read_from(owner, command, deadline_ns, room).await
            }
            // Drivers begin with these, which are small: they do not wait for ranges of users' tables.
            _ if system::is_system(&table.keyspace) => self.read_from(ShardId(0), command, deadline_ns, room).await,
            Partitions::Keys(_) if self.sharding.shards == 1 => {
                self.read_from(self.here(), command, deadline_ns, room).await
            }
            Partitions::Keys(keys) => self.read_keys(keys, command, deadline_ns, room).await,
            Partitions::Range(_) => Box::pin(self.read_range(command, deadline_ns, room)).await,
        }
    }

    /// A page of a range, once there is room for what every shard may give. Where one has more, all is let go before
    /// there is a wait for room for that: those who hold some and wait for more would wait for each other.
    async fn read_range(
        self: &Rc<Self>,
        command: &ReadCommand,
        deadline_ns: u64,
        room: &dyn PageRoom,
    ) -> Result<ReadPage, CqlError> {
        let shards = usize::from(self.sharding.shards);
        let part_bytes = (READ_PAGE_BYTES / shards).max(RANGE_PART_BYTES_MIN);
        let mut sizes = vec![part_bytes + (part_bytes / 4).max(LAST_ROW_BYTES); shards];
        loop {
            let _room = self.range_room(sizes.iter().sum(), deadline_ns).await?;
            if shards == 1 {
                return self.read_from(self.here(), command, deadline_ns, room).await;
            }
            if let Some(page) = self.scan_all(command, part_bytes, &mut sizes, deadline_ns).await? {
                return Ok(page);
            }
        }
    }

    /// Room for the parts of a range's page. Those that are larger than all the room are read alone.
    async fn range_room(&self, bytes: usize, deadline_ns: u64) -> Result<Permit, CqlError> {
        match self.range_pages.try_acquire(bytes as u64) {
            Some(room) => Ok(room),
            None if self.range_pages.waiting() >= RANGES_WAITING_MAX => Err(errors::too_many_ranges()),
            None => {
                let room = self.before(deadline_ns, self.range_pages.acquire(bytes as u64)).await;
                room.ok_or_else(errors::read_timeout)
            }
        }
    }

    /// Reads from one shard.
    pub(super) async fn read_from(
        self: &Rc<Self>,
        owner: ShardId,
        command: &ReadCommand,
        deadline_ns: u64,
        room: &dyn PageRoom,
    ) -> Result<ReadPage, CqlError> {
        if owner == self.here() {
            return self.read_here(command, deadline_ns).await;
        }
        let mut bytes_max = room.expect()?;
        loop {
            match self.read_at_most(owner, command, bytes_max, deadline_ns).await? {
                Given::Page(page) => return Ok(page),
                Given::TooLarge { bytes } => {
                    room.take(bytes)?;
                    bytes_max = bytes;
                }
            }
        }
    }

    /// Reads a page of at most `bytes_max` from one shard.
    pub(super) async fn read_at_most(
        self: &Rc<Self>,
        owner: ShardId,
        command: &ReadCommand,
        bytes_max: usize,
        deadline_ns: u64,
    ) -> Result<Given, CqlError> {
        if owner == self.here() {
            let page = self.read_here(command, deadline_ns).await?;
            let bytes = page.bytes.len();
            return Ok(if bytes > bytes_max { Given::TooLarge { bytes } } else { Given::Page(page) });
        }
        let request = Request::Read { command: command.clone(), deadline_ns, bytes_max };
        match self.call(owner, request, deadline_ns).await {
            Some(Ok(Reply::Page(page))) => Ok(Given::Page(page)),
            Some(Ok(Reply::PageTooLarge { bytes })) => Ok(Given::TooLarge { bytes }),
            Some(Err(error)) => Err(error),
            _ => Err(errors::read_timeout()),
        }
    }

    async fn read_here(&self, command: &ReadCommand, deadline_ns: u64) -> Result<ReadPage, CqlError> {
        let read = self.shard.read(command, deadline_ns);
        match command.partitions {
            Partitions::Keys(_) => read.await.map_err(errors::read_error),
            // It may wait for its turn behind many others.
            Partitions::Range(_) => {
                let page = self.before(deadline_ns, read).await;
                page.unwrap_or(Err(ReadError::Timeout)).map_err(errors::read_error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::time::Duration;

    use super::*;
    use crate::io::sim::{Faults, Simulation};
    use crate::io::{Io, Mesh, TaskClass};
    use crate::router::Timeouts;
    use crate::router::message::Message;
    use crate::schema::partitioner::Sharding;
    use crate::shard::tests::{command, schema, start};

    const PATIENCE: Duration = Duration::from_secs(30);
    const LARGE_BYTES: usize = 9 << 20;

    /// The pages of another shard that are on their way to shard 0.
    #[derive(Default)]
    struct Elsewhere {
        allowed_bytes: Cell<u64>,
        most_allowed_bytes: Cell<u64>,
        given: Cell<usize>,
        asker: RefCell<Option<Rc<Router>>>,
    }

    impl Elsewhere {
        /// Answers a read after some time, as a shard does whose page has `LARGE_BYTES`.
        async fn answer(&self, io: &Io, bytes_max: usize) -> Reply {
            let allowed_bytes = self.allowed_bytes.get() + bytes_max as u64;
            self.allowed_bytes.set(allowed_bytes);
            self.most_allowed_bytes.set(self.most_allowed_bytes.get().max(allowed_bytes));
            let counted_bytes = self.asker.borrow().as_ref().map(|asker| asker.range_pages.taken());
            assert!(counted_bytes.is_some_and(|counted_bytes| counted_bytes >= allowed_bytes), "{counted_bytes:?}");
            io.sleep(Duration::from_millis(10)).await;
            self.allowed_bytes.set(self.allowed_bytes.get() - bytes_max as u64);
            if bytes_max < LARGE_BYTES {
                return Reply::PageTooLarge { bytes: LARGE_BYTES };
            }
            self.given.set(self.given.get() + 1);
            Reply::Page(ReadPage::default())
        }

        async fn serve(self: Rc<Self>, io: Io, mesh: Mesh<Message>) {
            let mesh = Rc::new(mesh);
            loop {
                let mut received = Vec::new();
                mesh.recv(&mut received).await;
                for (from, message) in received {
                    let Message::Request { number, request: Request::Read { bytes_max, .. } } = message else {
                        continue;
                    };
                    let (elsewhere, clock, mesh) = (self.clone(), io.clone(), mesh.clone());
                    io.spawn(TaskClass::Foreground, async move {
                        let reply = Ok(elsewhere.answer(&clock, bytes_max).await);
                        mesh.send(from, Message::Reply { number, reply }).await;
                    });
                }
            }
        }
    }

    /// Parts of ranges are asked for within what was counted for them; where they are larger, so much is counted first,
    /// and however many ranges find that out at once, all are answered.
    #[test]
    fn parts_of_ranges_that_are_larger_than_expected_wait_for_room() {
        const RANGES: usize = 60;
        let sim = Simulation::new(1, Faults::NONE);
        let (elsewhere, answered) = (Rc::new(Elsewhere::default()), Rc::new(Cell::new(0)));
        let (others, count) = (elsewhere.clone(), answered.clone());
        let _outside = sim.start(2, move |io: Io, mesh: Mesh<Message>| {
            let (others, count) = (others.clone(), count.clone());
            async move {
                if io.shard_id() == ShardId(1) {
                    return others.serve(io, mesh).await;
                }
                let (sharding, timeouts) = (Sharding::new(2), Timeouts::all(PATIENCE));
                let shard = start(io.clone()).await;
                let router = Router::new(io.clone(), shard, mesh, sharding, timeouts, Rc::new(schema()));
                *others.asker.borrow_mut() = Some(router.clone());
                io.spawn(TaskClass::Foreground, router.clone().run(Vec::new()));
                for _ in 0..RANGES {
                    let (router, count) = (router.clone(), count.clone());
                    io.spawn(TaskClass::Foreground, async move {
                        let page = router.read_range(&command(10), u64::MAX, &NoRoom).await;
                        assert_eq!(page.map(|page| page.rows), Ok(0));
                        count.set(count.get() + 1);
                    });
                }
                io.sleep(PATIENCE).await;
                assert_eq!(router.range_pages.taken(), 0);
            }
        });
        sim.run_for(PATIENCE / 2).expect("runs");
        assert_eq!((answered.get(), elsewhere.given.get()), (RANGES, RANGES));
        let most = elsewhere.most_allowed_bytes.get();
        assert!((RANGE_PAGES_BYTES_MAX / 2..=RANGE_PAGES_BYTES_MAX).contains(&most), "{most} bytes at once");
        elsewhere.asker.take();
    }

    /// Ranges over several shards are counted elsewhere.
    struct NoRoom;

    impl PageRoom for NoRoom {
        fn expect(&self) -> Result<usize, CqlError> {
            Err(CqlError::server_error("not asked for"))
        }

        fn take(&self, _: usize) -> Result<(), CqlError> {
            self.expect().map(drop)
        }
    }
}
