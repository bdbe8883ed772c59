//! How fast this machine is beside the one that design.md's times were taken on: the median of three parts, each
//! measured over its reference.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::hint::black_box;
use std::ptr::NonNull;

use hashbrown::HashTable;

use crate::counters::clock_ns;

/// The reference's times: a copy of `ROW_BYTES` into a faulted-in arena; the same with its entry in a hash table that is
/// reserved and touched; and snap, compressing what compresses poorly.
const COPY_NS: f64 = 3.5;
const INSERT_NS: f64 = 16.0;
const SNAP_GB_PER_S: f64 = 1.25;

const ROW_BYTES: usize = 120;
const ARENA_BYTES: usize = 64 << 20;
const ROWS: usize = ARENA_BYTES / ROW_BYTES;
const ROUNDS: usize = 5;
const HUGE_PAGE_BYTES: usize = 2 << 20;
const SNAP_BLOCK_BYTES: usize = 64 << 10;
const SNAP_BLOCKS: usize = 128;

pub struct Calibration {
    pub copy_ns: f64,
    pub insert_ns: f64,
    pub snap_gb_per_s: f64,
}

impl Calibration {
    pub fn measure() -> Calibration {
        let mut arena = Arena::new();
        let bytes = arena.bytes();
        bytes.fill(1);
        let copy_ns = median((0..ROUNDS).map(|_| copy_ns(bytes)));
        let mut table: HashTable<u32> = HashTable::with_capacity(ROWS);
        insert_ns(bytes, &mut table); // touches the table
        let insert_ns = median((0..ROUNDS).map(|_| insert_ns(bytes, &mut table)));
        let snap_gb_per_s = median((0..ROUNDS).map(|_| snap_gb_per_s(bytes)));
        Calibration { copy_ns, insert_ns, snap_gb_per_s }
    }

    /// Times here over times of the reference: above one, this machine is slower.
    pub fn factor(&self) -> f64 {
        let parts = [self.copy_ns / COPY_NS, self.insert_ns / INSERT_NS, SNAP_GB_PER_S / self.snap_gb_per_s];
        median(parts.into_iter())
    }
}

/// Measures, prints, and gives the factor.
pub fn shown() -> f64 {
    let calibration = Calibration::measure();
    let Calibration { copy_ns, insert_ns, snap_gb_per_s } = calibration;
    let factor = calibration.factor();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    println!(
        "calibration: copy of {ROW_BYTES} B {copy_ns:.1} ns ({COPY_NS}), hashbrown insert {insert_ns:.1} ns ({INSERT_NS}), \
         snap {snap_gb_per_s:.2} GB/s ({SNAP_GB_PER_S}): times × {factor:.2}; load average {load}\n"
    );
    factor
}

pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// CPU time, which a neighbour on the core leaves alone as far as anything does.
fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn copy_ns(arena: &mut [u8]) -> f64 {
    let row = black_box([7u8; ROW_BYTES]);
    let started = cpu_ns();
    for place in arena.chunks_exact_mut(ROW_BYTES) {
        place.copy_from_slice(black_box(&row));
    }
    black_box(&*arena);
    (cpu_ns() - started) as f64 / ROWS as f64
}

/// Tokens are spread evenly by themselves: a multiplication is hash enough.
fn hash_of(number: u32) -> u64 {
    u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn insert_ns(arena: &mut [u8], table: &mut HashTable<u32>) -> f64 {
    table.clear();
    let row = black_box([7u8; ROW_BYTES]);
    let started = cpu_ns();
    for (place, number) in arena.chunks_exact_mut(ROW_BYTES).zip(0u32..) {
        place.copy_from_slice(black_box(&row));
        table.insert_unique(hash_of(number), number, |number| hash_of(*number));
    }
    black_box(&*table);
    (cpu_ns() - started) as f64 / ROWS as f64
}

fn snap_gb_per_s(arena: &mut [u8]) -> f64 {
    let input = &mut arena[..SNAP_BLOCK_BYTES];
    poorly_compressible(input, 1);
    let mut encoder = snap::raw::Encoder::new();
    let mut out = vec![0; snap::raw::max_compress_len(SNAP_BLOCK_BYTES)];
    let started = cpu_ns();
    for _ in 0..SNAP_BLOCKS {
        let length = encoder.compress(black_box(input), &mut out).expect("the output has room for the worst case");
        black_box(length);
    }
    (SNAP_BLOCK_BYTES * SNAP_BLOCKS) as f64 / (cpu_ns() - started) as f64
}

/// Rows of random values behind heads that repeat.
pub fn poorly_compressible(out: &mut [u8], seed: u64) {
    let mut state = seed | 1;
    for row in out.chunks_mut(ROW_BYTES) {
        for (at, word) in row.chunks_mut(8).enumerate() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let value = if at % 5 == 0 { at as u64 } else { state };
            let length = word.len();
            word.copy_from_slice(&value.to_le_bytes()[..length]);
        }
    }
}

/// Memory in huge pages, where the system has them.
struct Arena {
    start: NonNull<u8>,
}

impl Arena {
    fn layout() -> Layout {
        Layout::from_size_align(ARENA_BYTES, HUGE_PAGE_BYTES).expect("a size below isize::MAX and a power of two")
    }

    fn new() -> Arena {
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc_zeroed(Self::layout()) };
        let start = NonNull::new(start).unwrap_or_else(|| std::alloc::handle_alloc_error(Self::layout()));
        // SAFETY: the range is ours, and the advice changes nothing that can be seen of it; that it fails is no harm.
        let _advised = unsafe { libc::madvise(start.as_ptr().cast(), ARENA_BYTES, libc::MADV_HUGEPAGE) };
        Arena { start }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: so many zeroed bytes were allocated there, and the borrow of self is the only way to them.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), ARENA_BYTES) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout and is freed only here.
        unsafe { dealloc(self.start.as_ptr(), Self::layout()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_is_the_middle_one_of_the_parts() {
        let like = |copy, insert, snap| Calibration { copy_ns: copy, insert_ns: insert, snap_gb_per_s: snap }.factor();
        assert_eq!(like(3.5, 16.0, 1.25), 1.0);
        assert_eq!(like(7.0, 16.0, 0.125), 2.0);
    }

    #[test]
    fn the_data_compresses_poorly() {
        let mut block = vec![0; SNAP_BLOCK_BYTES];
        poorly_compressible(&mut block, 9);
        let compressed = snap::raw::Encoder::new().compress_vec(&block).expect("it fits");
        assert!(compressed.len() > block.len() * 6 / 10 && compressed.len() < block.len(), "{}", compressed.len());
    }
}
