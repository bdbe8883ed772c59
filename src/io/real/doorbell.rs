//! How a shard is told that something waits for it: a park (the protocol), and two ways to end its sleep: a message
//! from another shard's ring, or its eventfd, which a read in its own ring always watches.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use super::park::Park;

pub(super) struct Doorbell {
    pub(super) park: Park,
    eventfd: OwnedFd,
    /// The shard's ring, once it has one; -1 before.
    ring_fd: AtomicI32,
}

impl Doorbell {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers.
        let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` is a fresh descriptor that nothing else owns.
        let eventfd = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Doorbell { park: Park::new(), eventfd, ring_fd: AtomicI32::new(-1) })
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    pub(super) fn publish_ring(&self, ring_fd: RawFd) {
        self.ring_fd.store(ring_fd, Ordering::Release);
    }

    pub(super) fn ring_fd(&self) -> Option<RawFd> {
        let raw = self.ring_fd.load(Ordering::Acquire);
        (raw >= 0).then_some(raw)
    }

    /// Announces something from an ordinary thread, and wakes the shard if it sleeps.
    pub(super) fn ring_from_thread(&self) {
        if self.park.ring() {
            self.wake();
        }
    }

    /// Ends the shard's sleep by its eventfd.
    pub(super) fn wake(&self) {
        let one = 1u64;
        loop {
            // SAFETY: `one` is 8 readable bytes for the length of the call.
            let written = unsafe { libc::write(self.raw_fd(), (&raw const one).cast(), 8) };
            // The counter cannot be full: it would take 2^64 - 1 wakes without a read. Only a signal can get between.
            if written == 8 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                debug_assert_eq!(written, 8, "a write to an eventfd of ours");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(doorbell: &Doorbell) -> u64 {
        let mut count = 0u64;
        // SAFETY: `count` is 8 writable bytes for the length of the call.
        let read = unsafe { libc::read(doorbell.raw_fd(), (&raw mut count).cast(), 8) };
        assert_eq!(read, 8);
        count
    }

    #[test]
    fn a_sleeper_gets_one_wake_for_many_rings() {
        let doorbell = Doorbell::new().expect("eventfd");
        assert!(doorbell.park.try_sleep());
        for _ in 0..5 {
            doorbell.ring_from_thread();
        }
        assert_eq!(reads(&doorbell), 1);
        assert!(doorbell.park.take());
    }

    #[test]
    fn a_ring_is_published_once_it_stands() {
        let doorbell = Doorbell::new().expect("eventfd");
        assert_eq!(doorbell.ring_fd(), None);
        doorbell.publish_ring(7);
        assert_eq!(doorbell.ring_fd(), Some(7));
    }
}
