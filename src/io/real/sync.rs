//! The atomics and cells of `park` and `spsc`: the standard library's, or loom's where the interleavings are checked
//! (`.ci/run loom`).

#[cfg(not(helenus_loom))]
pub(super) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};

#[cfg(helenus_loom)]
pub(super) use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
};

/// The standard cell with loom's way of access.
#[cfg(not(helenus_loom))]
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(helenus_loom))]
impl<T> UnsafeCell<T> {
    pub(super) fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
