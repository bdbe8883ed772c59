//! The gate that every purge asks: how old the oldest thing outside the compaction may be.

use std::rc::Rc;

use crate::base::ids::{TimestampMicros, Token};
use crate::sstable::Reader;

/// Knows what may hold data older than a tombstone of the compaction: other SSTables, unflushed memtables, uncovered
/// log, open batch intents. Given by the shard, which asks its state of the moment at each call.
pub trait PurgeGate {
    /// The least timestamp that anything of this partition outside the compaction may have; `i64::MAX` where nothing
    /// of it is there. Only what is older than this may be forgotten.
    fn max_purgeable_timestamp(&self, token: Token, key: &[u8]) -> TimestampMicros;
}

/// Forgets nothing: a merge that must keep all tombstones.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepAll;

impl PurgeGate for KeepAll {
    fn max_purgeable_timestamp(&self, _token: Token, _key: &[u8]) -> TimestampMicros {
        TimestampMicros::MIN
    }
}

/// The SSTables' part of the answer: files that are not in the compaction and may hold the partition.
pub fn oldest_in<'r>(others: impl IntoIterator<Item = &'r Rc<Reader>>, token: Token) -> TimestampMicros {
    others
        .into_iter()
        .filter(|reader| reader.may_contain(token))
        .map(|reader| reader.statistics().min_timestamp)
        .min()
        .unwrap_or(TimestampMicros::MAX)
}
