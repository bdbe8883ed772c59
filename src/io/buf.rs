//! Aligned buffers, as direct I/O wants them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of buffers, offsets and lengths of direct I/O: a page, and the largest logical sector in use.
pub const ALIGN_BYTES: usize = 4096;

/// Owned memory that starts on a multiple of [`ALIGN_BYTES`]. It derefs to its first `len` bytes; its capacity is
/// a multiple of [`ALIGN_BYTES`], at least one. All of it is initialised from the start (zeroed).
pub struct AlignedBuf {
    start: NonNull<u8>,
    capacity_bytes: usize,
    len_bytes: usize,
}

// SAFETY: the buffer owns its memory alone, as a `Vec<u8>` does; nothing about it is tied to a thread.
unsafe impl Send for AlignedBuf {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// A zeroed buffer of `len_bytes`, its capacity rounded up to whole [`ALIGN_BYTES`].
    pub fn new(len_bytes: usize) -> Self {
        let layout = Self::layout(len_bytes.max(1).next_multiple_of(ALIGN_BYTES));
        // SAFETY: the layout's size is at least ALIGN_BYTES, so not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        AlignedBuf { start, capacity_bytes: layout.size(), len_bytes }
    }

    pub fn capacity(&self) -> usize {
        self.capacity_bytes
    }

    /// Changes how much of the buffer is in use. Bytes past the old length are what was last written there.
    ///
    /// # Panics
    /// Where `len_bytes` is more than the capacity.
    pub fn set_len(&mut self, len_bytes: usize) {
        assert!(len_bytes <= self.capacity_bytes, "{len_bytes} bytes in a buffer of {}", self.capacity_bytes);
        self.len_bytes = len_bytes;
    }

    /// The length rounded up to whole [`ALIGN_BYTES`]: what a direct write of it moves.
    pub fn len_aligned(&self) -> usize {
        self.len_bytes.next_multiple_of(ALIGN_BYTES)
    }

    fn layout(capacity_bytes: usize) -> Layout {
        Layout::from_size_align(capacity_bytes, ALIGN_BYTES).expect("a buffer of less than isize::MAX bytes")
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with exactly this layout, and is freed only here.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity_bytes)) }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len_bytes <= capacity_bytes`, all of which is allocated, initialised (zeroed at first) and borrowed
        // through `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len_bytes) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len_bytes) }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len_bytes, self.capacity_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_zeroed_and_rounded_up() {
        for len in [0, 1, 4095, 4096, 4097, 1 << 20] {
            let buf = AlignedBuf::new(len);
            assert_eq!(buf.as_ptr() as usize % ALIGN_BYTES, 0);
            assert_eq!(buf.len(), len);
            assert_eq!(buf.capacity() % ALIGN_BYTES, 0);
            assert!(buf.capacity() >= len.max(1));
            assert!(buf.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn its_length_moves_within_its_capacity() {
        let mut buf = AlignedBuf::new(10);
        buf.copy_from_slice(b"0123456789");
        buf.set_len(4);
        assert_eq!(&buf[..], b"0123");
        assert_eq!(buf.len_aligned(), 4096);
        buf.set_len(4096);
        assert_eq!(&buf[..11], b"0123456789\0");
    }

    #[test]
    fn a_buffer_may_cross_threads() {
        let mut buf = AlignedBuf::new(8);
        buf[0] = 7;
        let back = std::thread::spawn(move || buf).join().expect("no panic");
        assert_eq!(back[0], 7);
    }
}
