//! Reads of several keys from the shards that own them: some keys at a time, all their owners at once, put together in the
//! order asked. What a key costs does not depend on how many there are.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::join_all;

use crate::base::collections::{HashMap, hasher};
use crate::base::ids::ShardId;
use crate::mutation::read::{Limits, PartitionKey, Partitions, ReadCommand, ReadPage, Resume};
use crate::protocol::CqlError;
use crate::router::scan::{Wanted, merge_pages};
use crate::router::{PageRoom, Router};

/// How many keys are asked for first: their rows may fill the page, and what the owners of others read then is for
/// nothing.
const FIRST_KEYS: usize = 8;

/// How many are asked for at once, at most.
const KEYS_AT_ONCE_MAX: usize = 256;

impl Router {
    /// One page of a read of `keys`, which are those of `command`. A resume names the key to go on from.
    pub(super) async fn read_keys(
        self: &Rc<Self>,
        keys: &[PartitionKey],
        command: &ReadCommand,
        deadline_ns: u64,
        room: &dyn PageRoom,
    ) -> Result<ReadPage, CqlError> {
        let (mut at, mut within) = match &command.resume {
            None => (0, None),
            Some(resume) => match keys.iter().position(|key| *key == resume.partition) {
                Some(at) if resume.after.is_some() => (at, Some(resume.clone())),
                Some(at) => (at + 1, None),
                None => (keys.len(), None),
            },
        };
        let mut page = ReadPage::default();
        let mut count = FIRST_KEYS;
        while let Some(some) = keys.get(at..).filter(|left| !left.is_empty()) {
            let some = &some[..count.min(some.len())];
            let limits = Limits {
                rows: command.limits.rows - page.rows,
                page_bytes: command.limits.page_bytes - page.bytes.len(),
                ..command.limits
            };
            let room = Beside::new(room, page.bytes.len());
            let read = self.read_some(some, command, limits, within.take(), deadline_ns, &room).await?;
            page.bytes.extend_from_slice(&read.bytes);
            page.rows += read.rows;
            at += some.len();
            count = KEYS_AT_ONCE_MAX.min(2 * count);
            let is_full = page.rows >= command.limits.rows || page.bytes.len() >= command.limits.page_bytes;
            if read.resume.is_some() || is_full {
                page.resume = read.resume;
                return Ok(page);
            }
            // Where this shard owns them all, they were answered without a wait.
            self.io.yield_now().await;
            self.check_deadline(deadline_ns)?;
        }
        Ok(page)
    }

    /// One page of these few keys, within `limits`.
    async fn read_some(
        self: &Rc<Self>,
        keys: &[PartitionKey],
        command: &ReadCommand,
        limits: Limits,
        within: Option<Resume>,
        deadline_ns: u64,
        room: &Beside<'_>,
    ) -> Result<ReadPage, CqlError> {
        let mut owned: Vec<(ShardId, Vec<PartitionKey>)> = Vec::new();
        for key in keys {
            let owner = self.sharding.shard_of(key.token);
            match owned.iter_mut().find(|(shard, _)| *shard == owner) {
                Some((_, keys)) => keys.push(key.clone()),
                None => owned.push((owner, vec![key.clone()])),
            }
        }
        // Others are asked before this shard begins with its own.
        owned.sort_by_key(|(owner, _)| *owner == self.here());
        let parts: Vec<(ShardId, ReadCommand)> = owned
            .into_iter()
            .map(|(owner, keys)| {
                let is_resumed = within.as_ref().is_some_and(|within| keys.first() == Some(&within.partition));
                let resume = within.clone().filter(|_| is_resumed);
                (owner, part_of(command, Partitions::Keys(keys), limits, resume))
            })
            .collect();
        let rooms: Vec<PartRoom<'_>> = parts.iter().map(|_| room.part()).collect();
        let asked =
            parts.iter().zip(&rooms).map(|((owner, part), room)| self.read_from(*owner, part, deadline_ns, room));
        let pages = join_all(asked).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut places: HashMap<&[u8], usize> = HashMap::with_hasher(hasher());
        places.extend(keys.iter().enumerate().map(|(at, key)| (key.key.as_slice(), at)));
        let wanted = Wanted { limits, distinct: command.distinct, resume: within.as_ref() };
        merge_pages(&pages, &wanted, |_, key| places.get(key).copied())
    }
}

/// The same read of other partitions.
fn part_of(command: &ReadCommand, partitions: Partitions, limits: Limits, resume: Option<Resume>) -> ReadCommand {
    ReadCommand {
        table: command.table,
        now_s: command.now_s,
        partitions,
        slices: command.slices.clone(),
        reversed: command.reversed,
        columns: command.columns.clone(),
        filter: command.filter.clone(),
        distinct: command.distinct,
        static_only_rows: command.static_only_rows,
        limits,
        resume,
    }
}

/// Room for parts of a page that are asked for at once, beside the parts that are there.
struct Beside<'r> {
    room: &'r dyn PageRoom,
    /// Of all parts.
    bytes: Cell<usize>,
}

impl<'r> Beside<'r> {
    fn new(room: &'r dyn PageRoom, bytes: usize) -> Beside<'r> {
        Beside { room, bytes: Cell::new(bytes) }
    }

    fn part(&self) -> PartRoom<'_> {
        PartRoom { beside: self, bytes: Cell::new(0) }
    }
}

struct PartRoom<'b> {
    beside: &'b Beside<'b>,
    bytes: Cell<usize>,
}

impl PageRoom for PartRoom<'_> {
    fn expect(&self) -> Result<usize, CqlError> {
        let bytes = self.beside.room.expect()?;
        self.take(bytes).map(|()| bytes)
    }

    fn take(&self, bytes: usize) -> Result<(), CqlError> {
        let all = self.beside.bytes.get() - self.bytes.replace(bytes) + bytes;
        self.beside.bytes.set(all);
        self.beside.room.take(all)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    struct Counted(Cell<usize>);

    impl PageRoom for Counted {
        fn expect(&self) -> Result<usize, CqlError> {
            self.take(100).map(|()| 100)
        }

        fn take(&self, bytes: usize) -> Result<(), CqlError> {
            self.0.set(bytes);
            if bytes > 1_000 { Err(CqlError::overloaded("full")) } else { Ok(()) }
        }
    }

    #[test]
    fn parts_asked_for_at_once_are_counted_together() {
        let counted = Counted(Cell::new(0));
        let beside = Beside::new(&counted, 50);
        let (one, other) = (beside.part(), beside.part());
        assert_eq!((one.expect().unwrap(), other.expect().unwrap()), (100, 100));
        assert_eq!(counted.0.get(), 250);
        one.take(700).unwrap();
        assert_eq!(counted.0.get(), 850);
        assert!(other.take(300).is_err());
    }
}
