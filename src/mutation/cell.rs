//! Cells, deletions and row liveness, and which of two wins. The rules are Cassandra's (`Cells.resolveRegular`,
//! CASSANDRA-14592): the greater timestamp; at equal ones a tombstone beats an expiring cell beats a plain cell;
//! then the later expiry or deletion time, the smaller TTL (the more recent write), the greater value by unsigned bytes.

use std::cmp::{Ordering, Reverse};

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

    /// The one that wins (`LivenessInfo.supersedes`): greater timestamp, then expiring over not, then the later expiry;
    /// then, so that the order of arrival never matters, the smaller TTL as with cells.
    pub fn max(self, other: Liveness) -> Liveness {
        let key = |l: Liveness| (l.timestamp, l.ttl_s != 0, l.expires_s, Reverse(l.ttl_s));
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
            .then_with(|| self.local_deletion_s.cmp(&other.local_deletion_s))
            .then_with(|| other.ttl_s.cmp(&self.ttl_s))
            .then_with(|| self.value.cmp(other.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LATER_S: i64 = 2_000;

    fn cell(timestamp: TimestampMicros, ttl_s: u32, local_deletion_s: i64, value: &[u8]) -> Cell<'_> {
        Cell { column: ColumnId(1), path: None, timestamp, ttl_s, local_deletion_s, value }
    }

    fn plain(timestamp: TimestampMicros, value: &[u8]) -> Cell<'_> {
        cell(timestamp, 0, NEVER_S, value)
    }

    /// `winner` wins over `loser`, asked either way.
    fn check(winner: Cell<'_>, loser: Cell<'_>) {
        assert_eq!(winner.reconcile(&loser), Ordering::Greater, "{winner:?} over {loser:?}");
        assert_eq!(loser.reconcile(&winner), Ordering::Less, "{winner:?} over {loser:?}");
    }

    #[test]
    fn the_greater_timestamp_wins_whatever_the_rest() {
        check(plain(2, b""), plain(1, b"z"));
        check(plain(2, b""), cell(1, 0, LATER_S, b""));
        check(cell(2, 0, 5, b""), plain(1, b"z"));
    }

    #[test]
    fn ties_go_tombstone_expiring_plain_then_value() {
        check(cell(1, 0, 5, b""), plain(1, b"\xff"));
        check(cell(1, 0, 5, b""), cell(1, 10, LATER_S, b"\xff"));
        check(cell(1, 10, LATER_S, b"a"), plain(1, b"z"));
        check(cell(1, 10, LATER_S + 1, b"a"), cell(1, 10, LATER_S, b"z"));
        check(cell(1, 9, LATER_S, b"a"), cell(1, 10, LATER_S, b"z"));
        check(cell(1, 0, 6, b""), cell(1, 0, 5, b""));
        check(plain(1, b"b"), plain(1, b"a"));
        check(plain(1, b"ab"), plain(1, b"a"));
    }

    /// Values compare as unsigned bytes: int -1 beats 2, double -2 beats 1.
    #[test]
    fn values_tie_as_unsigned_bytes() {
        check(plain(1, &(-1i32).to_be_bytes()), plain(1, &2i32.to_be_bytes()));
        check(plain(1, &(-2f64).to_be_bytes()), plain(1, &1f64.to_be_bytes()));
    }

    #[test]
    fn liveness_ties_go_to_the_expiring_then_the_later() {
        let liveness = |timestamp, ttl_s, expires_s| Liveness { timestamp, ttl_s, expires_s };
        let check = |winner: Liveness, loser: Liveness| {
            assert_eq!(winner.max(loser), winner);
            assert_eq!(loser.max(winner), winner);
        };
        check(liveness(2, 0, NEVER_S), liveness(1, 10, 20));
        check(liveness(1, 10, 20), liveness(1, 0, NEVER_S));
        check(liveness(1, 10, 21), liveness(1, 10, 20));
        check(liveness(1, 0, NEVER_S), Liveness::NONE);
        assert!(!liveness(1, 10, 20).is_live(20));
        assert!(liveness(1, 10, 20).is_live(19));
    }

    #[test]
    fn a_deletion_covers_its_own_timestamp_and_live_covers_nothing() {
        let deletion = DeletionTime { timestamp: 5, local_deletion_s: 1 };
        assert!(deletion.deletes(5) && deletion.deletes(4) && !deletion.deletes(6));
        assert!(!DeletionTime::LIVE.deletes(i64::MIN) && !DeletionTime::LIVE.deletes(5));
        assert_eq!(DeletionTime::LIVE.max(deletion), deletion);
        let later = DeletionTime { timestamp: 5, local_deletion_s: 2 };
        assert_eq!(later.max(deletion), later);
        assert_eq!(deletion.max(later), later);
    }

    fn any_cell() -> impl Strategy<Value = (i64, u32, i64, u8)> {
        (0i64..3, 0u32..3, prop_oneof![Just(NEVER_S), 0i64..3], 0u8..3)
            .prop_filter("an expiring cell has its time", |(_, ttl, at, _)| *ttl == 0 || *at != NEVER_S)
    }

    proptest! {
        /// A total order, so that three replicas agree in whatever order they hear of the writes.
        #[test]
        fn reconciling_is_a_total_order(a in any_cell(), b in any_cell(), c in any_cell()) {
            let values = [[a.3], [b.3], [c.3]];
            let made: Vec<Cell<'_>> = [a, b, c].iter().zip(&values).map(|(x, v)| cell(x.0, x.1, x.2, v)).collect();
            let (a, b, c) = (made[0], made[1], made[2]);
            prop_assert_eq!(a.reconcile(&b), b.reconcile(&a).reverse());
            prop_assert_eq!(a.reconcile(&b).is_eq(), a == b);
            if a.reconcile(&b).is_ge() && b.reconcile(&c).is_ge() {
                prop_assert!(a.reconcile(&c).is_ge());
            }
        }
    }
}
