//! A memtable's partitions: found by token and key, and in token order where a scan or a flush needs it.
//!
//! 256 slices by the token's highest eight bits, each a hash table of places in the arena. One large table would stop its
//! shard while it grows or is put in order; a slice does so in a fraction of a millisecond. A slice's order is made when
//! it is asked for and kept until the slice gets another partition. The next 32 bits of the token stand beside the place:
//! growing and ordering seldom look into the arena.
//!
//! The slices of a memtable that is flushed wait, empty, for the next memtable of their table: it then finds room for as
//! many partitions.

use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;

use hashbrown::HashTable;

use crate::base::ids::{TableId, Token};
use crate::memtable::arena::{Arena, Ref, SlabPool};
use crate::memtable::record::partition;

const SLICES: usize = 256;
/// What a slice has room for at its first partition.
const SLICE_PARTITIONS_MIN: usize = 14;
/// Of a walk: in order of tokens, every partition is somewhere else in memory.
const PREFETCHED_AHEAD: usize = 4;
/// Of how many tables slices are kept for the next memtable.
const KEPT_MAX: usize = 16;

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

/// A partition's place, and the bits of its token that follow those which choose the slice.
#[derive(Clone, Copy, Debug)]
struct Place {
    token_part: u32,
    at: Ref,
}

#[derive(Default)]
struct TokenSlice {
    table: HashTable<Place>,
    /// Its partitions in order, from when that was asked for until there is one more.
    order: OnceCell<Vec<Place>>,
    /// Memory for the next order.
    spare: Cell<Vec<Place>>,
}

impl TokenSlice {
    fn order(&self, arena: &Arena) -> &[Place] {
        self.order.get_or_init(|| {
            let mut order = self.spare.take();
            order.extend(&self.table);
            order.sort_unstable_by(|a, b| a.token_part.cmp(&b.token_part).then_with(|| compare(arena, *a, *b)));
            order
        })
    }

    fn forget_order(&mut self) {
        if let Some(mut order) = self.order.take() {
            order.clear();
            self.spare.set(order);
        }
    }

    /// Forgets everything but the memory.
    fn clear(&mut self) {
        self.table.clear();
        self.forget_order();
    }
}

impl fmt::Debug for TokenSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenSlice({} partitions)", self.table.len())
    }
}

/// Slices of memtables that are no more, by table.
#[derive(Debug, Default)]
pub struct KeptSlices {
    /// The longest kept first.
    kept: RefCell<Vec<(TableId, Vec<TokenSlice>)>>,
}

impl KeptSlices {
    fn take(&self, table: TableId) -> Option<Vec<TokenSlice>> {
        let mut kept = self.kept.borrow_mut();
        let at = kept.iter().position(|(of, _)| *of == table)?;
        Some(kept.remove(at).1)
    }

    /// The largest of a table's are kept, and those of the tables that gave theirs last.
    fn give_back(&self, table: TableId, mut slices: Vec<TokenSlice>) {
        let capacity = |slices: &[TokenSlice]| slices.iter().map(|slice| slice.table.capacity()).sum::<usize>();
        if let Some(kept) = self.take(table)
            && capacity(&kept) > capacity(&slices)
        {
            slices = kept;
        } else {
            slices.iter_mut().for_each(TokenSlice::clear);
        }
        let mut kept = self.kept.borrow_mut();
        if kept.len() == KEPT_MAX {
            kept.remove(0);
        }
        kept.push((table, slices));
    }
}

/// The partitions of one memtable.
#[derive(Debug)]
pub struct Partitions {
    table: TableId,
    pool: Rc<SlabPool>,
    /// None until there is a partition: most tables of most shards never have one.
    slices: Vec<TokenSlice>,
    len: usize,
}

impl Partitions {
    pub fn new(table: TableId, pool: Rc<SlabPool>) -> Self {
        Partitions { table, pool, slices: Vec::new(), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn find(&self, arena: &Arena, token: Token, key: &[u8]) -> Option<Ref> {
        let slice = self.slices.get(slice_of(token))?;
        let part = token_part(token);
        let is = |place: &Place| place.token_part == part && partition::read(arena, place.at).is(token, key);
        slice.table.find(hash(part), is).map(|place| place.at)
    }

    /// The partition's place, made where it is new, and whether it is.
    #[inline]
    pub fn find_or_create(&mut self, arena: &mut Arena, token: Token, key: &[u8]) -> (Ref, bool) {
        match self.find(arena, token, key) {
            Some(at) => (at, false),
            None => (self.create(arena, token, key), true),
        }
    }

    #[inline]
    fn create(&mut self, arena: &mut Arena, token: Token, key: &[u8]) -> Ref {
        if self.slices.is_empty() {
            self.make_slices();
        }
        let slice = &mut self.slices[slice_of(token)];
        if slice.table.capacity() == 0 {
            slice.table.reserve(SLICE_PARTITIONS_MIN, |place| hash(place.token_part));
        }
        let at = partition::create(arena, token, key);
        let place = Place { token_part: token_part(token), at };
        slice.table.insert_unique(hash(place.token_part), place, |place| hash(place.token_part));
        slice.forget_order();
        self.len += 1;
        at
    }

    #[cold]
    fn make_slices(&mut self) {
        match self.pool.slices().take(self.table) {
            Some(slices) => self.slices = slices,
            None => self.slices.resize_with(SLICES, TokenSlice::default),
        }
    }

    /// The partitions from `bound` on, by token, then key.
    pub fn walk<'a>(&'a self, arena: &'a Arena, bound: PartitionBound<'_>) -> Walk<'a> {
        let slice = bound.first_slice();
        let order = self.slices.get(slice).map_or(&[][..], |slice| slice.order(arena));
        let at = order.partition_point(|place| {
            let head = partition::read(arena, place.at);
            bound.is_after(head.token(), head.key())
        });
        Walk { slices: &self.slices, arena, slice, order, at }
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        if !self.slices.is_empty() {
            self.pool.slices().give_back(self.table, std::mem::take(&mut self.slices));
        }
    }
}

/// Partitions in order.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    slices: &'a [TokenSlice],
    arena: &'a Arena,
    slice: usize,
    order: &'a [Place],
    at: usize,
}

impl Iterator for Walk<'_> {
    type Item = Ref;

    fn next(&mut self) -> Option<Ref> {
        loop {
            if let Some(place) = self.order.get(self.at) {
                if let Some(later) = self.order.get(self.at + PREFETCHED_AHEAD) {
                    self.arena.prefetch(later.at);
                }
                self.at += 1;
                return Some(place.at);
            }
            self.slice = (self.slice + 1..self.slices.len()).find(|slice| !self.slices[*slice].table.is_empty())?;
            self.order = self.slices[self.slice].order(self.arena);
            self.at = 0;
        }
    }
}

fn compare(arena: &Arena, a: Place, b: Place) -> Ordering {
    let (a, b) = (partition::read(arena, a.at), partition::read(arena, b.at));
    a.token().cmp(&b.token()).then_with(|| a.key().cmp(b.key()))
}

fn biased(token: Token) -> u64 {
    token.0.cast_unsigned() ^ (1 << 63)
}

#[inline]
fn slice_of(token: Token) -> usize {
    (biased(token) >> 56) as usize
}

#[inline]
fn token_part(token: Token) -> u32 {
    (biased(token) >> 24) as u32
}

/// The token is a hash already, but a shard's tokens share some of these bits: multiply and fold.
#[inline]
fn hash(token_part: u32) -> u64 {
    let product = u128::from(token_part) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::arena::SlabPool;
    use proptest::prelude::*;

    const TABLE: TableId = TableId([1; 16]);

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
            let pool = SlabPool::new();
            let (mut arena, mut partitions) = (Arena::new(pool.clone()), Partitions::new(TABLE, pool));
            let mut model = std::collections::BTreeSet::new();
            for (at, &(token, key)) in keys.iter().enumerate() {
                prop_assert_eq!(partitions.find(&arena, token, &[key]).is_some(), model.contains(&(token, key)));
                let (made, is_new) = partitions.find_or_create(&mut arena, token, &[key]);
                prop_assert_eq!(is_new, !model.contains(&(token, key)));
                prop_assert_eq!(partitions.find(&arena, token, &[key]), Some(made));
                model.insert((token, key));
                if at % 50 == 0 {
                    prop_assert_eq!(partitions.walk(&arena, PartitionBound::Start).count(), model.len());
                }
            }
            prop_assert_eq!(partitions.len(), model.len());
            let walked = |bound: PartitionBound<'_>| -> Vec<(Token, u8)> {
                let heads = partitions.walk(&arena, bound).map(|at| partition::read(&arena, at));
                heads.map(|head| (head.token(), head.key()[0])).collect()
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

    fn filled(pool: &Rc<SlabPool>, table: TableId, len: u64) -> (Arena, Partitions) {
        let (mut arena, mut partitions) = (Arena::new(pool.clone()), Partitions::new(table, pool.clone()));
        for n in 0..len {
            let token = Token(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).cast_signed());
            partitions.find_or_create(&mut arena, token, &n.to_be_bytes());
        }
        assert_eq!(partitions.walk(&arena, PartitionBound::Start).count() as u64, len);
        (arena, partitions)
    }

    fn memory(slices: &[TokenSlice]) -> Vec<(usize, usize)> {
        slices.iter().map(|slice| (slice.table.capacity(), slice.order.get().map_or(0, Vec::capacity))).collect()
    }

    /// The next memtable of a table finds room for as many partitions, and for their order; another table's does not.
    #[test]
    fn slices_are_used_again_by_their_table() {
        let pool = SlabPool::new();
        let (_, first) = filled(&pool, TABLE, 20_000);
        let taken = memory(&first.slices);
        drop(first);
        let (_, other) = filled(&pool, TableId([2; 16]), 10);
        assert!(memory(&other.slices).iter().map(|(room, _)| room).sum::<usize>() < 1_000);
        let (_, second) = filled(&pool, TABLE, 20_000);
        assert_eq!(memory(&second.slices), taken);
        let (_, small) = filled(&pool, TABLE, 10);
        drop((second, small));
        let (_, third) = filled(&pool, TABLE, 20_000);
        assert_eq!(memory(&third.slices), taken, "the smaller of two sets is the one that goes");
    }

    #[test]
    fn only_so_many_tables_have_slices_kept() {
        let pool = SlabPool::new();
        (0..2 * KEPT_MAX as u8).for_each(|n| drop(filled(&pool, TableId([n; 16]), 1)));
        assert_eq!(pool.slices().kept.borrow().len(), KEPT_MAX);
        assert!(pool.slices().take(TableId([2 * KEPT_MAX as u8 - 1; 16])).is_some());
        assert!(pool.slices().take(TableId([0; 16])).is_none());
    }
}
