//! The value of a counter's cell: what each host has added to it, with a clock that says which of two totals of one host
//! is later. `FORMAT.md` states the bytes.
//!
//! An addition is resolved at the counter's owner, under the partition's queue, into the new total; so the record in the
//! log says what the counter is, not what was added.

use std::borrow::Cow;
use std::cmp::Ordering;

/// One host's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub host: [u8; 16],
    /// Raised by each of the host's additions; microseconds since 1970 where that is more, so that it is never given again
    /// for a counter that was deleted.
    pub clock: i64,
    /// The sum of the host's additions.
    pub count: i64,
}

pub(super) const SHARE_BYTES: usize = 32;

impl Share {
    fn from_bytes(bytes: &[u8; SHARE_BYTES]) -> Self {
        let part = |at: usize| -> [u8; 8] {
            let mut part = [0; 8];
            part.copy_from_slice(&bytes[at..at + 8]);
            part
        };
        let mut host = [0; 16];
        host.copy_from_slice(&bytes[..16]);
        Share { host, clock: i64::from_le_bytes(part(16)), count: i64::from_le_bytes(part(24)) }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.host);
        out.extend_from_slice(&self.clock.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
    }
}

/// The shares of a counter cell's value, ascending by host. Bytes after the last whole share are not looked at.
pub fn shares(value: &[u8]) -> impl Iterator<Item = Share> + '_ {
    value.as_chunks::<SHARE_BYTES>().0.iter().map(Share::from_bytes)
}

/// What a reader is shown. Sums wrap, as Cassandra's do.
pub fn total(value: &[u8]) -> i64 {
    shares(value).fold(0, |sum, share| sum.wrapping_add(share.count))
}

/// Appends to `out` the value after `host` has added `delta` to `before` (empty where the counter was not set), at `now_us`.
pub fn add(before: &[u8], host: [u8; 16], delta: i64, now_us: i64, out: &mut Vec<u8>) {
    let mut added = false;
    for share in shares(before) {
        if !added && share.host >= host {
            added = true;
            let (clock, count) = if share.host == host { (share.clock, share.count) } else { (0, 0) };
            Share { host, clock: now_us.max(clock.saturating_add(1)), count: count.wrapping_add(delta) }.write(out);
            if share.host == host {
                continue;
            }
        }
        share.write(out);
    }
    if !added {
        Share { host, clock: now_us, count: delta }.write(out);
    }
}

/// The later share of every host of either value. Borrowed where one of them has it all.
pub fn merge<'a>(left: &'a [u8], right: &'a [u8]) -> Cow<'a, [u8]> {
    let mut out = Vec::with_capacity(left.len().max(right.len()));
    let (mut a, mut b) = (shares(left).peekable(), shares(right).peekable());
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        let order = x.host.cmp(&y.host);
        let later = match order {
            Ordering::Less => x,
            Ordering::Greater => y,
            // A host never gives one clock to two sums; were it so, both orders must still agree.
            Ordering::Equal => std::cmp::max_by_key(x, y, |share| (share.clock, share.count)),
        };
        later.write(&mut out);
        if order.is_le() {
            a.next();
        }
        if order.is_ge() {
            b.next();
        }
    }
    a.chain(b).for_each(|share| share.write(&mut out));
    match out {
        out if out == left => Cow::Borrowed(left),
        out if out == right => Cow::Borrowed(right),
        out => Cow::Owned(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: [u8; 16] = [1; 16];
    const B: [u8; 16] = [2; 16];

    fn after(before: &[u8], host: [u8; 16], delta: i64) -> Vec<u8> {
        let mut out = Vec::new();
        add(before, host, delta, 1, &mut out);
        out
    }

    #[test]
    fn additions_add_up_by_host() {
        let value = after(&after(&after(&[], B, 5), A, 7), B, -2);
        let want = [Share { host: A, clock: 1, count: 7 }, Share { host: B, clock: 2, count: 3 }];
        assert_eq!(shares(&value).collect::<Vec<_>>(), want);
        assert_eq!((total(&value), total(&[])), (10, 0));
        assert_eq!(total(&after(&after(&[], A, i64::MAX), A, 1)), i64::MIN);
    }

    #[test]
    fn the_later_share_of_each_host_stays() {
        let common = after(&after(&[], A, 1), B, 1);
        let (left, right) = (after(&common, A, 10), after(&common, B, 100));
        assert_eq!(total(&merge(&left, &right)), 112);
        assert!(matches!(merge(&left, &common), Cow::Borrowed(value) if value == left));
        assert!(matches!(merge(&[], &left), Cow::Borrowed(value) if value == left));
    }

    proptest! {
        /// However the hosts' additions are spread and merged, nothing is lost and nothing counts twice.
        #[test]
        fn merging_is_what_all_hosts_added(adds in prop::collection::vec((0u8..4, -9i64..9, 0usize..3), 0..40)) {
            let mut views = [const { Vec::new() }; 3];
            for (host, delta, _) in &adds {
                // A host adds on top of its own latest, which stands in its own view.
                let own = usize::from(*host) % 3;
                views[own] = after(&views[own], [*host; 16], *delta);
            }
            let [x, y, z] = &views;
            let one = merge(&merge(x, y), z).into_owned();
            let other = merge(x, &merge(z, y)).into_owned();
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(&merge(&one, y)[..], &one[..]);
            prop_assert_eq!(total(&one), adds.iter().map(|(_, delta, _)| delta).sum::<i64>());
        }
    }
}
