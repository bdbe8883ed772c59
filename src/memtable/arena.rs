//! The memtable's own memory: slabs, each one `bumpalo` chunk that is faulted in when made, never grows, and is recycled
//! whole after the flush.
//!
//! A place in the arena is a `Ref`, a 32-bit number of 8-byte granules, so that trees of places stay small. Slabs are made
//! of slots of 64 KiB; a `Ref` is a slot and a granule within it. All access goes through bounds-checked byte slices, and
//! every byte of a slab is initialised from the start, so that a wrong `Ref` can read wrong bytes but nothing worse.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;

use bumpalo::Bump;

const GRANULE_BYTES: usize = 8;
const SLOT_BYTES: usize = 64 << 10;
const SLOT_GRANULES: usize = SLOT_BYTES / GRANULE_BYTES;
/// The first slab of an arena: most tables are small.
const FIRST_SLAB_SLOTS: usize = 1;
/// Every later one.
const SLAB_SLOTS: usize = 16;
/// What is larger than this has a slab of its own.
const SHARED_BYTES_MAX: usize = 256 << 10;
/// How many free slabs of each size a pool keeps; the rest goes back to the system.
const POOL_SLABS_MAX: usize = 256;

/// A place in one arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ref(u32);

impl Ref {
    /// No place. Never allocated.
    pub const NULL: Ref = Ref(0);

    pub fn is_null(self) -> bool {
        self == Ref::NULL
    }

    pub fn from_bytes(bytes: [u8; 4]) -> Self {
        Ref(u32::from_le_bytes(bytes))
    }

    pub fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
}

/// What an allocation of `len` bytes takes.
pub fn footprint(len: usize) -> usize {
    len.next_multiple_of(GRANULE_BYTES)
}

/// Bytes of the slabs that a new arena takes for so many bytes of small allocations.
pub fn packed_bytes(used_bytes: usize) -> usize {
    let (first, later) = (FIRST_SLAB_SLOTS * SLOT_BYTES, SLAB_SLOTS * SLOT_BYTES);
    if used_bytes == 0 {
        return 0;
    }
    let behind_first = used_bytes.saturating_sub(first - GRANULE_BYTES);
    first + behind_first.div_ceil(later - GRANULE_BYTES) * later
}

/// One chunk, its bytes all initialised.
struct Slab {
    bump: Bump,
    /// The first of `slots * SLOT_BYTES` bytes at the chunk's upper end, which is where a bump allocator begins.
    base: NonNull<u8>,
    /// Bytes of the chunk below `base`, unused.
    slack_bytes: usize,
    slots: usize,
}

impl Slab {
    fn new(slots: usize) -> Self {
        let bytes = slots * SLOT_BYTES;
        let mut bump = Bump::with_capacity(bytes);
        let capacity = bump.chunk_capacity();
        let slack_bytes = capacity - bytes;
        let layout = Layout::from_size_align(capacity, 1).expect("a chunk of this size exists");
        let start = bump.alloc_layout(layout);
        // SAFETY: `start` is the start of an allocation of `capacity` bytes that nothing else refers to.
        unsafe { start.write_bytes(0, capacity) };
        // SAFETY: `slack_bytes <= capacity`, so the result is within the chunk or at its end.
        let base = unsafe { start.add(slack_bytes) };
        assert!(base.addr().get().is_multiple_of(GRANULE_BYTES), "a chunk ends at a multiple of 16");
        bump.reset();
        bump.set_allocation_limit(Some(bump.allocated_bytes()));
        Slab { bump, base, slack_bytes, slots }
    }

    /// The offset of `bytes` new bytes (a multiple of the granule); `None` where they do not fit. Offset 0 is never given.
    fn alloc(&self, bytes: usize) -> Option<usize> {
        let room = self.bump.chunk_capacity() - self.slack_bytes - GRANULE_BYTES;
        if bytes > room {
            return None;
        }
        let layout = Layout::from_size_align(bytes, GRANULE_BYTES).ok()?;
        let place = self.bump.try_alloc_layout(layout).ok()?;
        Some(place.addr().get() - self.base.addr().get())
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slab({} slots)", self.slots)
    }
}

/// One shard's free slabs, shared by its memtables.
#[derive(Debug, Default)]
pub struct SlabPool {
    first: RefCell<Vec<Slab>>,
    later: RefCell<Vec<Slab>>,
    /// Memtables made so far.
    memtables: Cell<u64>,
}

impl SlabPool {
    pub fn new() -> Rc<Self> {
        Rc::new(SlabPool::default())
    }

    /// Makes slabs ahead, so that about `bytes` of writes meet no page fault.
    pub fn prefill(&self, bytes: usize) {
        let slabs = (bytes / (SLAB_SLOTS * SLOT_BYTES)).min(POOL_SLABS_MAX);
        let mut later = self.later.borrow_mut();
        while later.len() < slabs {
            later.push(Slab::new(SLAB_SLOTS));
        }
    }

    /// The number of the next memtable: no two have the same.
    pub(super) fn next_memtable(&self) -> u64 {
        self.memtables.set(self.memtables.get() + 1);
        self.memtables.get()
    }

    /// Bytes in free slabs.
    pub fn free_bytes(&self) -> usize {
        let slots = self.first.borrow().len() * FIRST_SLAB_SLOTS + self.later.borrow().len() * SLAB_SLOTS;
        slots * SLOT_BYTES
    }

    fn list(&self, slots: usize) -> Option<&RefCell<Vec<Slab>>> {
        match slots {
            FIRST_SLAB_SLOTS => Some(&self.first),
            SLAB_SLOTS => Some(&self.later),
            _ => None,
        }
    }

    fn take(&self, slots: usize) -> Slab {
        let free = self.list(slots).and_then(|list| list.borrow_mut().pop());
        free.unwrap_or_else(|| Slab::new(slots))
    }

    fn give_back(&self, mut slab: Slab) {
        if let Some(list) = self.list(slab.slots) {
            let mut list = list.borrow_mut();
            if list.len() < POOL_SLABS_MAX {
                slab.bump.reset();
                list.push(slab);
            }
        }
    }
}

/// From one slot's first byte to the end of its slab.
#[derive(Clone, Copy, Debug)]
struct Slot {
    base: NonNull<u8>,
    len: usize,
}

/// A memtable's memory.
#[derive(Debug)]
pub struct Arena {
    slots: Vec<Slot>,
    slabs: Vec<Slab>,
    /// The slab that shared allocations come from, and its first slot.
    current: Option<(usize, usize)>,
    used_bytes: usize,
    dead_bytes: usize,
    pool: Rc<SlabPool>,
}

impl Arena {
    pub fn new(pool: Rc<SlabPool>) -> Self {
        Arena { slots: Vec::new(), slabs: Vec::new(), current: None, used_bytes: 0, dead_bytes: 0, pool }
    }

    /// Bytes of all slabs.
    pub fn allocated_bytes(&self) -> usize {
        self.slots.len() * SLOT_BYTES
    }

    /// Bytes handed out.
    #[cfg(test)]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Bytes handed out and no longer needed.
    pub fn dead_bytes(&self) -> usize {
        self.dead_bytes
    }

    /// Bytes handed out and still needed.
    pub fn live_bytes(&self) -> usize {
        self.used_bytes - self.dead_bytes
    }

    /// Says that an allocation of `len` bytes is no longer needed.
    pub fn note_dead(&mut self, len: usize) {
        self.dead_bytes += footprint(len);
        debug_assert!(self.dead_bytes <= self.used_bytes);
    }

    /// A place for `len` bytes, whose content is arbitrary.
    pub fn alloc(&mut self, len: usize) -> Ref {
        let bytes = footprint(len.max(1));
        self.used_bytes += bytes;
        if let Some((slab, first_slot)) = self.current
            && let Some(offset) = self.slabs[slab].alloc(bytes)
        {
            return place(first_slot, offset);
        }
        self.alloc_in_new_slab(bytes)
    }

    #[cold]
    fn alloc_in_new_slab(&mut self, bytes: usize) -> Ref {
        let shared = bytes <= SHARED_BYTES_MAX;
        let needed = (bytes + GRANULE_BYTES).div_ceil(SLOT_BYTES);
        let slots = match (shared, self.current) {
            (false, _) => needed,
            (true, None) => needed.max(FIRST_SLAB_SLOTS),
            (true, Some(_)) => SLAB_SLOTS,
        };
        let slab = self.pool.take(slots);
        let first_slot = self.slots.len();
        for at in 0..slots {
            let offset = at * SLOT_BYTES;
            // SAFETY: `offset` is less than the `slots * SLOT_BYTES` bytes that follow the slab's base.
            let base = unsafe { slab.base.add(offset) };
            self.slots.push(Slot { base, len: slots * SLOT_BYTES - offset });
        }
        let offset = slab.alloc(bytes).expect("a slab is made for what it is to hold");
        self.slabs.push(slab);
        if shared {
            self.current = Some((self.slabs.len() - 1, first_slot));
        }
        place(first_slot, offset)
    }

    /// `len` bytes at `offset` from `at`.
    ///
    /// # Panics
    /// Where they are not within the slab of `at`.
    #[inline]
    pub fn bytes(&self, at: Ref, offset: usize, len: usize) -> &[u8] {
        let start = self.check(at, offset, len);
        // SAFETY: `check` has shown that `len` bytes from `start` lie within a slab that this arena owns; all of a slab's
        // bytes are initialised, and they are written only through `bytes_mut`, which borrows the arena exclusively.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// `len` bytes at `offset` from `at`, to write to.
    ///
    /// # Panics
    /// Where they are not within the slab of `at`.
    #[inline]
    pub fn bytes_mut(&mut self, at: Ref, offset: usize, len: usize) -> &mut [u8] {
        let start = self.check(at, offset, len);
        // SAFETY: as in `bytes`; the exclusive borrow of the arena, which alone owns its slabs, makes this the only
        // reference to any of their bytes.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    #[inline]
    fn check(&self, at: Ref, offset: usize, len: usize) -> NonNull<u8> {
        let granule = at.0 as usize;
        let slot = &self.slots[granule / SLOT_GRANULES];
        let start = granule % SLOT_GRANULES * GRANULE_BYTES + offset;
        assert!(start <= slot.len && len <= slot.len - start, "{len} bytes at {offset} from {at:?}");
        // SAFETY: `start` is at most `slot.len`, the bytes from the slot's base to its slab's end.
        unsafe { slot.base.add(start) }
    }

    #[inline]
    pub fn array<const N: usize>(&self, at: Ref, offset: usize) -> &[u8; N] {
        self.bytes(at, offset, N).try_into().expect("N bytes")
    }

    #[inline]
    pub fn i64(&self, at: Ref, offset: usize) -> i64 {
        i64::from_le_bytes(*self.array(at, offset))
    }

    #[inline]
    pub fn u32(&self, at: Ref, offset: usize) -> u32 {
        u32::from_le_bytes(*self.array(at, offset))
    }

    #[inline]
    pub fn get_ref(&self, at: Ref, offset: usize) -> Ref {
        Ref::from_bytes(*self.array(at, offset))
    }

    #[inline]
    pub fn set(&mut self, at: Ref, offset: usize, bytes: &[u8]) {
        self.bytes_mut(at, offset, bytes.len()).copy_from_slice(bytes);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.slots.clear();
        for slab in self.slabs.drain(..) {
            self.pool.give_back(slab);
        }
    }
}

fn place(first_slot: usize, offset: usize) -> Ref {
    let granule = first_slot * SLOT_GRANULES + offset / GRANULE_BYTES;
    Ref(u32::try_from(granule).expect("a memtable is flushed long before 32 GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slab_never_grows_and_is_recycled_whole() {
        let pool = SlabPool::new();
        let mut arena = Arena::new(pool.clone());
        for _ in 0..3 * SLOT_BYTES / 1024 {
            arena.alloc(1024);
        }
        assert_eq!(arena.slabs.len(), 2);
        assert_eq!(arena.allocated_bytes(), (FIRST_SLAB_SLOTS + SLAB_SLOTS) * SLOT_BYTES);
        let bases: Vec<_> = arena.slabs.iter().map(|slab| slab.base).collect();
        drop(arena);
        assert_eq!(pool.free_bytes(), (FIRST_SLAB_SLOTS + SLAB_SLOTS) * SLOT_BYTES);
        let mut again = Arena::new(pool.clone());
        again.alloc(8);
        again.alloc(SLOT_BYTES);
        assert_eq!(again.slabs.iter().map(|slab| slab.base).collect::<Vec<_>>(), bases);
        assert_eq!(pool.free_bytes(), 0);
    }

    #[test]
    fn what_packed_bytes_take_is_what_an_arena_takes() {
        let mut arena = Arena::new(SlabPool::new());
        assert_eq!(packed_bytes(0), arena.allocated_bytes());
        for _ in 0..3 * SLAB_SLOTS * SLOT_GRANULES / 16 {
            arena.alloc(16 * GRANULE_BYTES);
            arena.alloc(1);
            // What does not fit at the end of a slab begins the next.
            let (used, allocated) = (arena.used_bytes(), arena.allocated_bytes());
            assert!((packed_bytes(used)..=packed_bytes(used + 16 * 16 * GRANULE_BYTES)).contains(&allocated));
        }
    }

    #[test]
    fn the_whole_of_a_slab_is_usable_but_its_first_granule() {
        let mut arena = Arena::new(SlabPool::new());
        let granules = SLOT_GRANULES - 1;
        for _ in 0..granules {
            assert!(!arena.alloc(1).is_null());
        }
        assert_eq!(arena.slabs.len(), 1);
        arena.alloc(1);
        assert_eq!(arena.slabs.len(), 2);
    }

    #[test]
    fn something_large_has_its_own_slab_and_the_shared_one_goes_on() {
        let mut arena = Arena::new(SlabPool::new());
        let small = arena.alloc(8);
        let large = arena.alloc(3 << 20);
        arena.bytes_mut(large, 0, 3 << 20).fill(7);
        let next = arena.alloc(8);
        arena.set(small, 0, &[1; 8]);
        arena.set(next, 0, &[2; 8]);
        assert_eq!(arena.slabs.len(), 2);
        assert!(arena.bytes(large, 0, 3 << 20).iter().all(|byte| *byte == 7));
        assert_eq!((arena.u32(small, 4), arena.u32(next, 4)), (0x0101_0101, 0x0202_0202));
    }

    #[test]
    #[should_panic(expected = "bytes at")]
    fn beyond_the_slab_is_a_panic() {
        let mut arena = Arena::new(SlabPool::new());
        let at = arena.alloc(8);
        arena.bytes(at, 0, SLOT_BYTES + 1);
    }

    #[test]
    fn prefilled_slabs_are_used() {
        let pool = SlabPool::new();
        pool.prefill(2 * SLAB_SLOTS * SLOT_BYTES);
        assert_eq!(pool.free_bytes(), 2 * SLAB_SLOTS * SLOT_BYTES);
        let mut arena = Arena::new(pool.clone());
        arena.alloc(8);
        arena.alloc(SLOT_BYTES);
        assert_eq!(pool.free_bytes(), SLAB_SLOTS * SLOT_BYTES);
    }

    proptest! {
        /// Allocations never overlap.
        #[test]
        fn allocations_are_apart(lens in prop::collection::vec(1usize..40_000, 1..60)) {
            let mut arena = Arena::new(SlabPool::new());
            let made: Vec<(Ref, usize)> = lens.iter().map(|&len| (arena.alloc(len), len)).collect();
            for (at, &(place, len)) in made.iter().enumerate() {
                arena.bytes_mut(place, 0, len).fill(at as u8);
            }
            for (at, &(place, len)) in made.iter().enumerate() {
                prop_assert!(arena.bytes(place, 0, len).iter().all(|byte| *byte == at as u8));
            }
            prop_assert!(arena.used_bytes() <= arena.allocated_bytes());
        }
    }
}
