//! What a thread has allocated, where the process counts it: the server under its feature `count`, and the benchmarks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting each thread's allocations. It counts where a program makes it its own
/// (`#[global_allocator]`).
pub struct CountingAllocator;

/// What one thread has allocated so far; nothing of it is taken off when memory is freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Calls of the allocator for memory, those that enlarge or move it included.
    pub allocations: u64,
    pub bytes: u64,
}

thread_local! {
    static ALLOCATED: Cell<Allocated> = const { Cell::new(Allocated { allocations: 0, bytes: 0 }) };
}

/// What the calling thread has allocated; nothing where the process does not count.
pub fn allocated() -> Allocated {
    ALLOCATED.with(Cell::get)
}

fn count(bytes: usize) {
    // A thread that ends counts no more.
    let _ = ALLOCATED.try_with(|allocated| {
        let Allocated { allocations, bytes: before } = allocated.get();
        allocated.set(Allocated { allocations: allocations + 1, bytes: before + bytes as u64 });
    });
}

// SAFETY: every call is passed on to the system's allocator as it came; the counts are plain cells that need neither
// allocation nor destructor, and are left alone where the thread is already ending.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(start, layout, new_size) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(start, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_for_memory_is_counted_on_its_thread_with_its_bytes() {
        let before = allocated();
        let (small, large) = (Layout::new::<[u8; 100]>(), Layout::new::<[u8; 300]>());
        // SAFETY: the layouts are not empty, and each block is enlarged and freed with what it was made with.
        unsafe {
            let start = CountingAllocator.alloc(small);
            let moved = CountingAllocator.realloc(start, small, large.size());
            CountingAllocator.dealloc(moved, large);
            CountingAllocator.dealloc(CountingAllocator.alloc_zeroed(small), small);
        }
        let after = allocated();
        assert_eq!((after.allocations - before.allocations, after.bytes - before.bytes), (3, 500));
        assert_eq!(std::thread::spawn(allocated).join().ok(), Some(Allocated::default()));
    }
}
