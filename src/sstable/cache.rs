//! One shard's cache of expanded blocks: a budget in bytes, evicted by CLOCK. Plain integers: it belongs to one core.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hashbrown::hash_map::Entry;

use crate::base::collections::{HashMap, hasher};
use crate::base::local::Semaphore;
use crate::sstable::SSTableId;
use crate::sstable::block::Block;

/// Memory of a slot and its map entry beside the block.
const SLOT_BYTES: usize = 96;

/// What reads may load at once, and hold of it until they have gone on, as it is stored; the next wait, first come, first
/// served. What is larger is loaded alone.
const LOAD_BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    sstable: SSTableId,
    offset_bytes: u64,
}

/// A block and its slot.
struct Cached {
    block: Rc<Block>,
    slot: u32,
}

/// Where the hand goes round.
#[derive(Default)]
struct Slots {
    keys: Vec<Option<Key>>,
    /// Used since the hand was last there.
    used: Vec<bool>,
    free: Vec<u32>,
    hand: usize,
    bytes: usize,
}

/// What the cache did since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    pub blocks: usize,
    pub bytes: usize,
    pub bytes_max: usize,
}

/// Blocks by file and offset. A block that anyone else holds is not evicted, so what a read has loaded is there when it
/// starts again; the budget may be exceeded by what is held, for which reads wait until there is room.
pub struct BlockCache {
    map: RefCell<HashMap<Key, Cached>>,
    slots: RefCell<Slots>,
    bytes_max: Cell<usize>,
    hits: Cell<u64>,
    misses: Cell<u64>,
    evictions: Cell<u64>,
    loads: Rc<Semaphore>,
}

impl BlockCache {
    pub fn new(bytes_max: usize) -> Self {
        BlockCache::with_loads(bytes_max, LOAD_BYTES_MAX)
    }

    /// A cache for which so much may be loaded at once.
    pub(crate) fn with_loads(bytes_max: usize, load_bytes_max: u64) -> Self {
        BlockCache {
            map: RefCell::new(HashMap::with_hasher(hasher())),
            slots: RefCell::default(),
            bytes_max: Cell::new(bytes_max),
            hits: Cell::new(0),
            misses: Cell::new(0),
            evictions: Cell::new(0),
            loads: Semaphore::new(load_bytes_max),
        }
    }

    /// Room for what reads load and hold.
    pub(crate) fn loads(&self) -> &Rc<Semaphore> {
        &self.loads
    }

    #[inline]
    pub fn get(&self, sstable: SSTableId, offset_bytes: u64) -> Option<Rc<Block>> {
        let map = self.map.borrow();
        let Some(cached) = map.get(&Key { sstable, offset_bytes }) else {
            self.misses.set(self.misses.get() + 1);
            return None;
        };
        self.hits.set(self.hits.get() + 1);
        self.slots.borrow_mut().used[cached.slot as usize] = true;
        Some(cached.block.clone())
    }

    /// Whether a block is there, without using it.
    pub fn contains(&self, sstable: SSTableId, offset_bytes: u64) -> bool {
        self.map.borrow().contains_key(&Key { sstable, offset_bytes })
    }

    /// A block that is there, without using it.
    pub(crate) fn peek(&self, sstable: SSTableId, offset_bytes: u64) -> Option<Rc<Block>> {
        self.map.borrow().get(&Key { sstable, offset_bytes }).map(|cached| cached.block.clone())
    }

    /// Adds a block. Where another read loaded it meanwhile, that one stays and is given back.
    pub fn insert(&self, sstable: SSTableId, block: Rc<Block>) -> Rc<Block> {
        let key = Key { sstable, offset_bytes: block.offset_bytes() };
        if let Some(cached) = self.map.borrow().get(&key) {
            return cached.block.clone();
        }
        let cost = block.memory_bytes() + SLOT_BYTES;
        self.make_room(cost);
        let slots = &mut *self.slots.borrow_mut();
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.keys.push(None);
            slots.used.push(false);
            u32::try_from(slots.keys.len() - 1).expect("fewer blocks than 2^32 fit any memory")
        });
        (slots.keys[slot as usize], slots.used[slot as usize]) = (Some(key), false);
        slots.bytes += cost;
        match self.map.borrow_mut().entry(key) {
            Entry::Vacant(vacant) => vacant.insert(Cached { block: block.clone(), slot }),
            Entry::Occupied(_) => unreachable!("looked up above, and nothing awaited since"),
        };
        block
    }

    /// Drops the blocks of a file that is no longer read.
    pub fn forget(&self, sstable: SSTableId) {
        let slots = &mut *self.slots.borrow_mut();
        for at in 0..slots.keys.len() {
            if let Some(key) = slots.keys[at].filter(|key| key.sstable == sstable) {
                self.remove(slots, at, key);
            }
        }
    }

    /// Changes the budget; what is over it goes with the next block that comes.
    pub fn set_bytes_max(&self, bytes_max: usize) {
        self.bytes_max.set(bytes_max);
        self.make_room(0);
    }

    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.get(),
            misses: self.misses.get(),
            evictions: self.evictions.get(),
            blocks: self.map.borrow().len(),
            bytes: self.slots.borrow().bytes,
            bytes_max: self.bytes_max.get(),
        }
    }

    /// Turns the hand until `cost` more bytes fit, at most twice around: once to take marks, once to evict.
    fn make_room(&self, cost: usize) {
        let slots = &mut *self.slots.borrow_mut();
        let mut turns = 2 * slots.keys.len();
        while slots.bytes + cost > self.bytes_max.get() && turns > 0 {
            turns -= 1;
            slots.hand = if slots.hand + 1 < slots.keys.len() { slots.hand + 1 } else { 0 };
            let hand = slots.hand;
            let Some(key) = slots.keys[hand] else { continue };
            if std::mem::take(&mut slots.used[hand]) || self.is_held(&key) {
                continue;
            }
            self.evictions.set(self.evictions.get() + 1);
            self.remove(slots, hand, key);
        }
    }

    /// Whether anyone else holds the block.
    fn is_held(&self, key: &Key) -> bool {
        self.map.borrow().get(key).is_some_and(|cached| Rc::strong_count(&cached.block) > 1)
    }

    fn remove(&self, slots: &mut Slots, at: usize, key: Key) {
        slots.keys[at] = None;
        let cached = self.map.borrow_mut().remove(&key).expect("a slot in use names a block");
        slots.bytes -= cached.block.memory_bytes() + SLOT_BYTES;
        slots.free.push(u32::try_from(at).expect("slots are counted in 32 bits"));
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::sstable::block::BlockBuilder;

    const FILE: SSTableId = SSTableId(1);

    fn block(offset_bytes: u64) -> Rc<Block> {
        let body = BlockBuilder::default().finish().to_vec();
        Rc::new(Block::parse(&Rc::from("f"), offset_bytes, body).unwrap())
    }

    fn cost() -> usize {
        block(0).memory_bytes() + SLOT_BYTES
    }

    #[test]
    fn it_keeps_what_is_used_and_stays_within_its_budget() {
        let cache = BlockCache::new(10 * cost());
        (0..10).for_each(|offset| drop(cache.insert(FILE, block(offset))));
        assert!(cache.get(FILE, 3).is_some());
        (10..18).for_each(|offset| drop(cache.insert(FILE, block(offset))));
        assert!(cache.get(FILE, 3).is_some(), "used, so it stayed");
        let stats = cache.stats();
        assert_eq!((stats.blocks, stats.bytes, stats.evictions), (10, 10 * cost(), 8));
        assert_eq!(cache.get(SSTableId(2), 3).map(|_| ()), None);
        assert_eq!((cache.stats().hits, cache.stats().misses), (2, 1));
    }

    #[test]
    fn what_is_held_is_not_evicted() {
        let cache = BlockCache::new(2 * cost());
        let held: Vec<_> = (0..4).map(|offset| cache.insert(FILE, block(offset))).collect();
        assert_eq!(cache.stats().blocks, 4, "over its budget by what is held");
        drop(held);
        drop(cache.insert(FILE, block(9)));
        assert_eq!(cache.stats().blocks, 2);
    }

    #[test]
    fn a_block_that_came_first_stays() {
        let cache = BlockCache::new(1 << 20);
        let first = cache.insert(FILE, block(5));
        let second = cache.insert(FILE, block(5));
        assert!(Rc::ptr_eq(&first, &second));
        assert_eq!(cache.stats().blocks, 1);
    }

    #[test]
    fn a_forgotten_file_leaves_its_room() {
        let cache = BlockCache::new(1 << 20);
        (0..5).for_each(|offset| drop(cache.insert(FILE, block(offset))));
        drop(cache.insert(SSTableId(2), block(0)));
        cache.forget(FILE);
        assert_eq!(cache.stats().blocks, 1);
        assert_eq!(cache.stats().bytes, cost());
        (5..9).for_each(|offset| drop(cache.insert(FILE, block(offset))));
        assert_eq!(cache.stats().blocks, 5);
        cache.set_bytes_max(0);
        assert_eq!(cache.stats().blocks, 0);
    }
}
