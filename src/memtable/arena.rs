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

use crate::memtable::partitions::KeptSlices;

const GRANULE_BYTES: usize = 8;
const SLOT_BYTES: usize = 64 << 10;
const SLOT_GRANULES: usize = SLOT_BYTES / GRANULE_BYTES;
/// The first slab of an arena: most tables are small.
const FIRST_SLAB_SLOTS: usize = 1;
/// Every later one.
const SLAB_SLOTS: usize = 16;
/// What is taken from a slab's allocator at a time.
const PIECE_BYTES: usize = 4 << 10;
/// What is larger than this has a slab of its own.
const SHARED_BYTES_MAX: usize = 256 << 10;
/// A line of the processor's cache.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;
/// What a partition of one small row takes.
#[cfg(target_arch = "x86_64")]
const PREFETCHED_LINES: usize = 6;
/// What a pool keeps of free slabs unless it is told otherwise; the rest goes back to the system.
const KEPT_BYTES_MAX: usize = 256 << 20;

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

    /// Takes at least `bytes` (a multiple of the granule), and a piece where there is one: how far behind the base they begin,
    /// just before what was taken last, and how many they are. `None` where they do not fit. Never at offset 0.
    fn take(&self, bytes: usize) -> Option<(usize, usize)> {
        let room = self.bump.chunk_capacity() - self.slack_bytes - GRANULE_BYTES;
        if bytes > room {
            return None;
        }
        let taken = bytes.max(PIECE_BYTES).min(room);
        let layout = Layout::from_size_align(taken, GRANULE_BYTES).ok()?;
        let start = self.bump.try_alloc_layout(layout).ok()?;
        Some((start.addr().get() - self.base.addr().get(), taken))
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slab({} slots)", self.slots)
    }
}

/// One shard's free slabs, shared by its memtables, and what else one memtable leaves to the next.
#[derive(Debug)]
pub struct SlabPool {
    kept_bytes_max: usize,
    first: RefCell<Vec<Slab>>,
    later: RefCell<Vec<Slab>>,
    slices: KeptSlices,
    /// Memtables made so far.
    memtables: Cell<u64>,
}

impl SlabPool {
    pub fn new() -> Rc<Self> {
        SlabPool::keeping(KEPT_BYTES_MAX)
    }

    /// One that keeps so much of what memtables give back, for the next ones: they meet no page fault then.
    pub fn keeping(kept_bytes_max: usize) -> Rc<Self> {
        Rc::new(SlabPool {
            kept_bytes_max,
            first: RefCell::default(),
            later: RefCell::default(),
            slices: KeptSlices::default(),
            memtables: Cell::new(0),
        })
    }

    /// Makes slabs ahead, so that about `bytes` of writes meet no page fault.
    pub fn prefill(&self, bytes: usize) {
        let slabs = bytes.min(self.kept_bytes_max) / (SLAB_SLOTS * SLOT_BYTES);
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

    /// Slices of partitions that no memtable uses.
    pub(super) fn slices(&self) -> &KeptSlices {
        &self.slices
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

    /// A slab of a size of its own takes the place of free ones, so that both together stay within what is allowed.
    fn take(&self, slots: usize) -> Slab {
        let Some(list) = self.list(slots) else {
            let mut later = self.later.borrow_mut();
            let left = later.len().saturating_sub(slots.div_ceil(SLAB_SLOTS));
            later.truncate(left);
            return Slab::new(slots);
        };
        list.borrow_mut().pop().unwrap_or_else(|| Slab::new(slots))
    }

    fn give_back(&self, mut slab: Slab) {
        if let Some(list) = self.list(slab.slots)
            && self.free_bytes() + slab.slots * SLOT_BYTES <= self.kept_bytes_max
        {
            slab.bump.reset();
            list.borrow_mut().push(slab);
        }
    }
}

/// From one slot's first byte to the end of its slab.
#[derive(Clone, Copy, Debug)]
struct Slot {
    base: NonNull<u8>,
    len: usize,
}

/// What was taken from a slab and is not handed out: from `low` to `high` behind the slab's base.
#[derive(Debug)]
struct Piece {
    base: NonNull<u8>,
    first_slot: usize,
    low: usize,
    high: usize,
}

/// A memtable's memory.
#[derive(Debug)]
pub struct Arena {
    slots: Vec<Slot>,
    slabs: Vec<Slab>,
    /// The slab that shared allocations come from.
    current: Option<usize>,
    /// Of that one.
    piece: Piece,
    used_bytes: usize,
    dead_bytes: usize,
    pool: Rc<SlabPool>,
}

impl Arena {
    pub fn new(pool: Rc<SlabPool>) -> Self {
        let piece = Piece { base: NonNull::dangling(), first_slot: 0, low: 0, high: 0 };
        Arena { slots: Vec::new(), slabs: Vec::new(), current: None, piece, used_bytes: 0, dead_bytes: 0, pool }
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

    /// A place for `len` bytes, whose content is arbitrary, and those bytes.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> (Ref, &mut [u8]) {
        let bytes = footprint(len.max(1));
        self.used_bytes += bytes;
        if bytes > self.piece.high - self.piece.low {
            if bytes > SHARED_BYTES_MAX {
                return self.alloc_alone(bytes, len);
            }
            self.enlarge_piece(bytes);
        }
        let piece = &mut self.piece;
        piece.high -= bytes;
        // SAFETY: `low..high` of the piece is memory that the bump allocator of a slab of this arena has given and nothing
        // else has; `low <= high` still holds, so the result is in it, with `bytes` behind it that are in it too.
        let start = unsafe { piece.base.add(piece.high) };
        let at = place(piece.first_slot, piece.high);
        // SAFETY: at least `len` bytes from `start` on are in the piece, and no longer once `high` is lowered, so nobody is
        // given them again; all of a slab's bytes are initialised, and the exclusive borrow of the arena makes this the only
        // reference to them.
        (at, unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) })
    }

    /// Makes the piece so large, of the current slab or of another.
    #[cold]
    fn enlarge_piece(&mut self, bytes: usize) {
        let missing = bytes - (self.piece.high - self.piece.low);
        let taken = self.current.and_then(|current| self.slabs[current].take(missing));
        if let Some((low, taken_bytes)) = taken {
            assert_eq!(low + taken_bytes, self.piece.low, "a bump allocator goes downwards without gaps");
            self.piece.low = low;
            return;
        }
        let needed = (bytes + GRANULE_BYTES).div_ceil(SLOT_BYTES);
        let slots = if self.current.is_none() { needed.max(FIRST_SLAB_SLOTS) } else { SLAB_SLOTS };
        let (slab, first_slot) = self.add_slab(slots);
        let (low, taken_bytes) = self.slabs[slab].take(bytes).expect("a slab is made for what it is to hold");
        self.piece = Piece { base: self.slabs[slab].base, first_slot, low, high: low + taken_bytes };
        self.current = Some(slab);
    }

    /// What is too large to share a slab.
    #[cold]
    fn alloc_alone(&mut self, bytes: usize, len: usize) -> (Ref, &mut [u8]) {
        let (slab, first_slot) = self.add_slab((bytes + GRANULE_BYTES).div_ceil(SLOT_BYTES));
        let slab = &self.slabs[slab];
        let (offset, _) = slab.take(bytes).expect("a slab is made for what it is to hold");
        // SAFETY: `offset` is where the slab's bump allocator has just given at least `bytes` bytes, which are within it.
        let start = unsafe { slab.base.add(offset) };
        // SAFETY: they are at least `len`, nobody else is given them, all of a slab's bytes are initialised, and the
        // exclusive borrow of the arena makes this the only reference to them.
        (place(first_slot, offset), unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) })
    }

    /// One more slab, and its first slot.
    fn add_slab(&mut self, slots: usize) -> (usize, usize) {
        let slab = self.pool.take(slots);
        let first_slot = self.slots.len();
        for at in 0..slots {
            let offset = at * SLOT_BYTES;
            // SAFETY: `offset` is less than the `slots * SLOT_BYTES` bytes that follow the slab's base.
            let base = unsafe { slab.base.add(offset) };
            self.slots.push(Slot { base, len: slots * SLOT_BYTES - offset });
        }
        self.slabs.push(slab);
        (self.slabs.len() - 1, first_slot)
    }

    /// All bytes from `at` to the end of its slab. A record begins them: whoever reads it takes it off their front.
    #[inline]
    pub fn tail(&self, at: Ref) -> &[u8] {
        let (start, len) = self.start_of(at);
        // SAFETY: `start_of` gives `len` bytes within a slab that this arena owns; all of a slab's bytes are initialised, and
        // they are written only through exclusive borrows of the arena.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// The same to write to.
    #[inline]
    pub fn tail_mut(&mut self, at: Ref) -> &mut [u8] {
        let (start, len) = self.start_of(at);
        // SAFETY: as in `tail`; the exclusive borrow of the arena, which alone owns its slabs, makes this the only
        // reference to any of their bytes.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// Where the bytes of `at` are, and how many there are to the end of its slab.
    #[inline]
    fn start_of(&self, at: Ref) -> (NonNull<u8>, usize) {
        let granule = at.0 as usize;
        let slot = self.slots[granule / SLOT_GRANULES];
        let start = granule % SLOT_GRANULES * GRANULE_BYTES;
        // SAFETY: `start` is less than `SLOT_BYTES`, and every slot has at least so many bytes from its base to its slab's
        // end, which is `slot.len`.
        (unsafe { slot.base.add(start) }, slot.len - start)
    }

    /// Has the processor fetch a record that is soon to be read, and what was made just after it, which lies below.
    #[inline]
    pub fn prefetch(&self, at: Ref) {
        let (start, _) = self.start_of(at);
        #[cfg(target_arch = "x86_64")]
        for line in 0..PREFETCHED_LINES {
            let line = start.as_ptr().wrapping_sub(line * LINE_BYTES).cast_const().cast();
            // SAFETY: a prefetch reads nothing that can be seen, and an address that is nowhere does it no harm.
            unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = start;
    }

    /// A record's head of fixed size, and all that follows it in the slab.
    ///
    /// # Panics
    /// Where it does not fit into the slab.
    #[inline]
    pub fn record<const N: usize>(&self, at: Ref) -> (&[u8; N], &[u8]) {
        self.tail(at).split_first_chunk().expect("a record's head is within its slab")
    }

    /// The same to write to.
    #[inline]
    pub fn record_mut<const N: usize>(&mut self, at: Ref) -> (&mut [u8; N], &mut [u8]) {
        self.tail_mut(at).split_first_chunk_mut().expect("a record's head is within its slab")
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

#[inline]
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
            assert!(!arena.alloc(1).0.is_null());
        }
        assert_eq!(arena.slabs.len(), 1);
        arena.alloc(1);
        assert_eq!(arena.slabs.len(), 2);
    }

    #[test]
    fn something_large_has_its_own_slab_and_the_shared_one_goes_on() {
        let mut arena = Arena::new(SlabPool::new());
        let small = arena.alloc(8).0;
        let (large, bytes) = arena.alloc(3 << 20);
        bytes.fill(7);
        let next = arena.alloc(8).0;
        *arena.record_mut(small).0 = [1; 8];
        *arena.record_mut(next).0 = [2; 8];
        assert_eq!(arena.slabs.len(), 2);
        assert!(arena.tail(large)[..3 << 20].iter().all(|byte| *byte == 7));
        assert_eq!((arena.record(small).0, arena.record(next).0), (&[1; 8], &[2; 8]));
    }

    #[test]
    #[should_panic(expected = "within its slab")]
    fn beyond_the_slab_is_a_panic() {
        let mut arena = Arena::new(SlabPool::new());
        let (at, _) = arena.alloc(8);
        arena.record::<{ SLOT_BYTES + 1 }>(at);
    }

    /// Whatever a place says, what it gives is within its slab, to its end.
    #[test]
    fn a_wrong_place_stays_within_its_slab() {
        let mut arena = Arena::new(SlabPool::new());
        for bytes in [8, SLOT_BYTES, 3 * SLOT_BYTES] {
            arena.alloc(bytes);
        }
        let slots = FIRST_SLAB_SLOTS + SLAB_SLOTS;
        for granule in (0..slots * SLOT_GRANULES).step_by(SLOT_GRANULES / 4) {
            let at = Ref(granule as u32);
            let tail = arena.tail(at).as_ptr_range();
            let within = |slab: &Slab| {
                let start = slab.base.as_ptr().cast_const();
                start <= tail.start && tail.end == start.wrapping_add(slab.slots * SLOT_BYTES)
            };
            assert!(arena.slabs.iter().any(within), "{at:?}");
            assert!(!tail.is_empty());
        }
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn a_place_of_no_slab_is_a_panic() {
        let mut arena = Arena::new(SlabPool::new());
        arena.alloc(8);
        arena.tail(Ref((FIRST_SLAB_SLOTS * SLOT_GRANULES) as u32));
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

    #[test]
    fn a_slab_of_its_own_size_takes_the_place_of_free_ones() {
        let pool = SlabPool::new();
        pool.prefill(4 * SLAB_SLOTS * SLOT_BYTES);
        let mut arena = Arena::new(pool.clone());
        arena.alloc(2 * SLAB_SLOTS * SLOT_BYTES - GRANULE_BYTES);
        assert_eq!(pool.free_bytes() + arena.allocated_bytes(), 4 * SLAB_SLOTS * SLOT_BYTES);
        arena.alloc(8 * SLAB_SLOTS * SLOT_BYTES);
        assert_eq!(pool.free_bytes(), 0);
        drop(arena);
        assert_eq!(pool.free_bytes(), 0, "it goes back to the system");
    }

    #[test]
    fn a_pool_keeps_so_much_and_no_more() {
        let pool = SlabPool::keeping(2 * SLAB_SLOTS * SLOT_BYTES);
        let mut arena = Arena::new(pool.clone());
        for _ in 0..4 * SLAB_SLOTS {
            arena.alloc(SLOT_BYTES - GRANULE_BYTES);
        }
        assert!(arena.allocated_bytes() > 3 * SLAB_SLOTS * SLOT_BYTES);
        drop(arena);
        assert!(pool.free_bytes() > SLAB_SLOTS * SLOT_BYTES && pool.free_bytes() <= 2 * SLAB_SLOTS * SLOT_BYTES);
    }

    proptest! {
        /// Allocations never overlap.
        #[test]
        fn allocations_are_apart(lens in prop::collection::vec(1usize..40_000, 1..60)) {
            let mut arena = Arena::new(SlabPool::new());
            let made: Vec<(Ref, usize)> = lens.iter().map(|&len| (arena.alloc(len).0, len)).collect();
            for (at, &(place, len)) in made.iter().enumerate() {
                arena.tail_mut(place)[..len].fill(at as u8);
            }
            for (at, &(place, len)) in made.iter().enumerate() {
                prop_assert!(arena.tail(place)[..len].iter().all(|byte| *byte == at as u8));
            }
            prop_assert!(arena.used_bytes() <= arena.allocated_bytes());
        }
    }
}
