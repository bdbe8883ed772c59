//! A counter of the kernel's whose read ends a sleep.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

pub(super) struct Eventfd(OwnedFd);

impl Eventfd {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers.
        let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` is a fresh descriptor that nothing else owns.
        Ok(Eventfd(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Ends a read, the one under way or the next.
    pub(super) fn ring(&self) {
        let one = 1u64;
        loop {
            // SAFETY: `one` is 8 readable bytes for the length of the call.
            let written = unsafe { libc::write(self.raw_fd(), (&raw const one).cast(), 8) };
            // The counter cannot be full: it would take 2^64 - 1 rings without a read. Only a signal can get between.
            if written == 8 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                debug_assert_eq!(written, 8, "a write to an eventfd of ours");
                return;
            }
        }
    }

    /// Waits until it is rung, and gives how often it was since the last read; an error where a signal came between.
    pub(super) fn read(&self) -> io::Result<u64> {
        let mut count = 0u64;
        // SAFETY: `count` is 8 writable bytes for the length of the call.
        let read = unsafe { libc::read(self.raw_fd(), (&raw mut count).cast(), 8) };
        if read == 8 { Ok(count) } else { Err(io::Error::last_os_error()) }
    }
}
