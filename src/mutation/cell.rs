//! Cells, deletions and row liveness, and which of two wins. The rules are Cassandra's (`Cells.resolveRegular`,
//! CASSANDRA-14592): the greater timestamp; at equal ones a tombstone beats an expiring cell beats a plain cell;
//! then the later expiry, the greater value by unsigned bytes.

use std::cmp::Ordering;

use crate::base::ids::{ColumnId, TimestampMicros};

/// A local deletion time, in seconds since 1970, that never comes.
pub const NEVER_S: i64 = i64::MAX;

/// The timestamp of what was never written.
pub const NO_TIMESTAMP: TimestampMicros = TimestampMicros::MIN;

/// A deletion of a partition, a range, a row or a collection: everything at or below the timestamp is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionTime {
    pub timestamp: TimestampMicros,
    /// When it was made, in seconds: gc_grace counts from here.
    pub local_deletion_s: i64,
}

impl DeletionTime {
    /// No deletion.
    pub const LIVE: DeletionTime = DeletionTime { timestamp: NO_TIMESTAMP, local_deletion_s: NEVER_S };

    pub fn is_live(self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    /// Whether something written at `timestamp` is gone.
    pub fn deletes(self, timestamp: TimestampMicros) -> bool {
        !self.is_live() && timestamp <= self.timestamp
    }

    /// The stronger of the two: the greater timestamp, then the later local time.
    pub fn max(self, other: DeletionTime) -> DeletionTime {
        let key = |d: DeletionTime| (d.timestamp, if d.is_live() { i64::MIN } else { d.local_deletion_s });
        if key(other) > key(self) { other } else { self }
    }
}

/// A row's primary-key liveness: INSERT sets it, UPDATE does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    pub timestamp: TimestampMicros,
    /// 0 where it does not expire.
    pub ttl_s: u32,
    /// When it expires, `NEVER_S` where it does not.
    pub expires_s: i64,
}

impl Liveness {
    /// Not set.
    pub const NONE: Liveness = Liveness { timestamp: NO_TIMESTAMP, ttl_s: 0, expires_s: NEVER_S };

    pub fn is_none(self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    pub fn is_live(self, now_s: i64) -> bool {
        !self.is_none() && now_s < self.expires_s
    }

    /// The one that wins: greater timestamp, then expiring over not, then the later expiry, then the greater TTL.
    pub fn max(self, other: Liveness) -> Liveness {
        let key = |l: Liveness| (l.timestamp, l.ttl_s != 0, l.expires_s, l.ttl_s);
        if key(other) > key(self) { other } else { self }
    }
}

/// One cell. A tombstone has a local deletion time and no TTL; an expiring cell has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    pub column: ColumnId,
    /// The element's key in a multi-cell collection or field number in a user type; `None` for a simple cell.
    pub path: Option<&'a [u8]>,
    pub timestamp: TimestampMicros,
    /// 0 where it does not expire.
    pub ttl_s: u32,
    /// When it was deleted or expires; `NEVER_S` for a plain live cell.
    pub local_deletion_s: i64,
    pub value: &'a [u8],
}

impl<'a> Cell<'a> {
    pub fn is_tombstone(&self) -> bool {
        self.local_deletion_s != NEVER_S && self.ttl_s == 0
    }

    pub fn is_expiring(&self) -> bool {
        self.ttl_s != 0
    }

    pub fn is_live(&self, now_s: i64) -> bool {
        self.local_deletion_s == NEVER_S || (self.ttl_s != 0 && now_s < self.local_deletion_s)
    }

    /// Where the cell stands in its row: by column, then path. A collection's paths are ordered by their bytes here;
    /// the order of values in an answer is the reader's to make.
    pub fn order(&self, other: &Cell<'_>) -> Ordering {
        self.column.cmp(&other.column).then_with(|| self.path.cmp(&other.path))
    }

    /// `Greater` where `self` wins over `other` at the same place. A cell that has expired is still an expiring cell
    /// here, as in Cassandra, so that the answer does not depend on when it is asked.
    pub fn reconcile(&self, other: &Cell<'_>) -> Ordering {
        self.timestamp
            .cmp(&other.timestamp)
            .then_with(|| (self.local_deletion_s != NEVER_S).cmp(&(other.local_deletion_s != NEVER_S)))
            .then_with(|| self.is_tombstone().cmp(&other.is_tombstone()))
            .then_with(|| {
                if self.local_deletion_s == NEVER_S || self.is_tombstone() {
                    Ordering::Equal
                } else {
                    self.local_deletion_s.cmp(&other.local_deletion_s).then(other.ttl_s.cmp(&self.ttl_s))
                }
            })
            .then_with(|| self.value.cmp(other.value))
            .then_with(|| self.local_deletion_s.cmp(&other.local_deletion_s))
    }
}
