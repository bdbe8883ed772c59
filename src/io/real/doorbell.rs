//! How a shard is told that something waits for it: a park (the protocol), and two ways to end its sleep: a message
//! from another shard's ring, or its eventfd, which a read in its own ring always watches.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use super::eventfd::Eventfd;
use super::park::Park;

pub(super) struct Doorbell {
    pub(super) park: Park,
    eventfd: Eventfd,
    /// The shard's ring, once it has one; -1 before.
    ring_fd: AtomicI32,
}

impl Doorbell {
    pub(super) fn new() -> io::Result<Self> {
        let eventfd = Eventfd::new()?;
        Ok(Doorbell { park: Park::new(), eventfd, ring_fd: AtomicI32::new(-1) })
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.eventfd.raw_fd()
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
        self.eventfd.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_gets_one_wake_for_many_rings() {
        let doorbell = Doorbell::new().expect("eventfd");
        assert!(doorbell.park.try_sleep());
        for _ in 0..5 {
            doorbell.ring_from_thread();
        }
        assert_eq!(doorbell.eventfd.read().expect("rung"), 1);
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
