//! Descriptors that outlive every operation on them, and close through the ring.

use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::rc::{Rc, Weak};

use io_uring::types;

use super::core::{Core, Shard};
use super::ops::Work;

/// A shared descriptor of this shard. It closes when the last holder is gone; each operation under way is a holder.
#[derive(Clone)]
pub(super) struct Fd(Rc<Closing>);

struct Closing {
    raw: RawFd,
    shard: Weak<Shard>,
}

impl Fd {
    pub(super) fn new(core: &Core, owned: OwnedFd) -> Self {
        Fd(Rc::new(Closing { raw: owned.into_raw_fd(), shard: core.downgrade() }))
    }

    pub(super) fn raw(&self) -> RawFd {
        self.0.raw
    }

    pub(super) fn target(&self) -> types::Fd {
        types::Fd(self.0.raw)
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        match self.shard.upgrade().map(Core::from) {
            // The last close of a removed file frees its blocks, which takes long: not on this thread.
            Some(core) if !core.is_closed() => core.submit_detached(Work::Close { raw: self.raw }),
            // SAFETY: `raw` came from an `OwnedFd` that gave up its ownership, and this is the only place that closes.
            _ => unsafe {
                libc::close(self.raw);
            },
        }
    }
}
