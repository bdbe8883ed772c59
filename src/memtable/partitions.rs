//! A memtable's partitions: found by token and key, and in token order where a scan or a flush needs it.
//!
//! 256 slices by the token's highest eight bits, each a hash table of places in the arena. One large table would stop its
//! shard while it grows or is put in order; a slice does so in a fraction of a millisecond. A slice's order is made when
//! it is asked for and kept until the slice gets another partition.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::rc::Rc;

use hashbrown::HashTable;

use crate::base::ids::Token;
use crate::memtable::arena::{Arena, Ref};
use crate::memtable::record::partition;

const SLICES: usize = 256;

/// Where a walk in order starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionBound<'k> {
    /// At the first partition.
    Start,
    /// At the first whose token is greater.
    AfterToken(Token),
    /// At this partition, or the first after it.
    At(Token, &'k [u8]),
    /// At the first after this partition.
    After(Token, &'k [u8]),
}

impl PartitionBound<'_> {
    /// Whether a partition stands before the bound.
    fn is_after(&self, token: Token, key: &[u8]) -> bool {
        match self {
            PartitionBound::Start => false,
            PartitionBound::AfterToken(bound) => token <= *bound,
            PartitionBound::At(bound, bound_key) => (token, key) < (*bound, bound_key),
            PartitionBound::After(bound, bound_key) => (token, key) <= (*bound, bound_key),
        }
    }

    fn first_slice(&self) -> usize {
        match self {
            PartitionBound::Start => 0,
            PartitionBound::AfterToken(token) | PartitionBound::At(token, _) | PartitionBound::After(token, _) => {
                slice_of(*token)
            }
        }
    }
}

#[derive(Debug, Default)]
struct TokenSlice {
    table: HashTable<Ref>,
    order: RefCell<Option<Rc<[Ref]>>>,
}

/// The partitions of one memtable.
#[derive(Debug)]
pub struct Partitions {
    /// None until there is a partition: most tables of most shards never have one.
    slices: Vec<TokenSlice>,
    len: usize,
}

impl Partitions {
    pub fn new() -> Self {
        Partitions { slices: Vec::new(), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn find(&self, arena: &Arena, token: Token, key: &[u8]) -> Option<Ref> {
        let slice = self.slices.get(slice_of(token))?;
        slice.table.find(hash(token), |at| is(arena, *at, token, key)).copied()
    }

    /// The partition's place, made where it is new.
    pub fn find_or_create(&mut self, arena: &mut Arena, token: Token, key: &[u8]) -> Ref {
        if self.slices.is_empty() {
            self.slices.resize_with(SLICES, TokenSlice::default);
        }
        let slice = &mut self.slices[slice_of(token)];
        if let Some(at) = slice.table.find(hash(token), |at| is(arena, *at, token, key)) {
            return *at;
        }
        let at = partition::create(arena, token, key);
        slice.table.insert_unique(hash(token), at, |other| hash(partition::token(arena, *other)));
        *slice.order.get_mut() = None;
        self.len += 1;
        at
    }

    /// The partitions from `bound` on, by token, then key.
    pub fn walk<'a>(&'a self, arena: &'a Arena, bound: PartitionBound<'_>) -> Walk<'a> {
        let slice = bound.first_slice();
        let order = self.order(arena, slice);
        let at = order.partition_point(|at| bound.is_after(partition::token(arena, *at), partition::key(arena, *at)));
        Walk { partitions: self, arena, slice, order, at }
    }

    fn order(&self, arena: &Arena, slice: usize) -> Rc<[Ref]> {
        let Some(slice) = self.slices.get(slice) else { return Rc::new([]) };
        let mut kept = slice.order.borrow_mut();
        let order = kept.get_or_insert_with(|| {
            let mut order: Vec<(Token, Ref)> =
                slice.table.iter().map(|at| (partition::token(arena, *at), *at)).collect();
            order.sort_unstable_by(|(a, x), (b, y)| a.cmp(b).then_with(|| compare_keys(arena, *x, *y)));
            order.into_iter().map(|(_, at)| at).collect()
        });
        order.clone()
    }
}

/// Partitions in order.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    partitions: &'a Partitions,
    arena: &'a Arena,
    slice: usize,
    order: Rc<[Ref]>,
    at: usize,
}

impl Iterator for Walk<'_> {
    type Item = Ref;

    fn next(&mut self) -> Option<Ref> {
        loop {
            if let Some(at) = self.order.get(self.at) {
                self.at += 1;
                return Some(*at);
            }
            let slices = &self.partitions.slices;
            self.slice = (self.slice + 1..slices.len()).find(|slice| !slices[*slice].table.is_empty())?;
            self.order = self.partitions.order(self.arena, self.slice);
            self.at = 0;
        }
    }
}

fn compare_keys(arena: &Arena, a: Ref, b: Ref) -> Ordering {
    partition::key(arena, a).cmp(partition::key(arena, b))
}

fn is(arena: &Arena, at: Ref, token: Token, key: &[u8]) -> bool {
    partition::token(arena, at) == token && partition::key(arena, at) == key
}

fn biased(token: Token) -> u64 {
    token.0.cast_unsigned() ^ (1 << 63)
}

fn slice_of(token: Token) -> usize {
    (biased(token) >> 56) as usize
}

/// The token is a hash already, but a slice's tokens share their highest bits: multiply and fold.
fn hash(token: Token) -> u64 {
    let product = u128::from(biased(token)) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::arena::SlabPool;
    use proptest::prelude::*;

    fn any_token() -> impl Strategy<Value = Token> {
        prop_oneof![any::<i64>(), -3i64..3, Just(i64::MIN), Just(i64::MAX)].prop_map(Token)
    }

    proptest! {
        /// Against a sorted list: found, never twice, walked from every kind of bound.
        #[test]
        fn partitions_are_found_and_walked_in_order(
            keys in prop::collection::vec((any_token(), 0u8..3), 1..200),
            bound in (any_token(), 0u8..3),
        ) {
            let (mut arena, mut partitions) = (Arena::new(SlabPool::new()), Partitions::new());
            let mut model = std::collections::BTreeSet::new();
            for (at, &(token, key)) in keys.iter().enumerate() {
                prop_assert_eq!(partitions.find(&arena, token, &[key]).is_some(), model.contains(&(token, key)));
                let made = partitions.find_or_create(&mut arena, token, &[key]);
                prop_assert_eq!(partitions.find(&arena, token, &[key]), Some(made));
                model.insert((token, key));
                if at % 50 == 0 {
                    prop_assert_eq!(partitions.walk(&arena, PartitionBound::Start).count(), model.len());
                }
            }
            prop_assert_eq!(partitions.len(), model.len());
            let walked = |bound: PartitionBound<'_>| -> Vec<(Token, u8)> {
                let read = |at| (partition::token(&arena, at), partition::key(&arena, at)[0]);
                partitions.walk(&arena, bound).map(read).collect()
            };
            let want = |keep: &dyn Fn(&(Token, u8)) -> bool| -> Vec<(Token, u8)> {
                model.iter().copied().filter(|entry| keep(entry)).collect()
            };
            prop_assert_eq!(walked(PartitionBound::Start), want(&|_| true));
            prop_assert_eq!(walked(PartitionBound::AfterToken(bound.0)), want(&|entry| entry.0 > bound.0));
            prop_assert_eq!(walked(PartitionBound::At(bound.0, &[bound.1])), want(&|entry| *entry >= bound));
            prop_assert_eq!(walked(PartitionBound::After(bound.0, &[bound.1])), want(&|entry| *entry > bound));
        }
    }
}
