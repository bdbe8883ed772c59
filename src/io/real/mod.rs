//! The real half of `io`.
//!
//! Each shard is one thread with one glommio executor, which gives it its core, its task queues with shares, and
//! cooperative yields; and with one io_uring of our own, in which every wait completes. What belongs to what:
//!
//! | file | owns |
//! | --- | --- |
//! | `boot` | threads, from start to join |
//! | `core` | the state of one shard |
//! | `driver` | the one task that reaps, wakes, and blocks in the ring when nothing can run |
//! | `task` | the count of runnable tasks, by which the driver knows |
//! | `ring` | the io_uring: setup, submission, enter |
//! | `ops`, `fd` | operations under way, with their buffers and descriptors |
//! | `file`, `fs`, `socket`, `timers` | what is waited for |
//! | `mesh`, `spsc` | messages between shards |
//! | `doorbell`, `park`, `eventfd` | wakes between shards, none lost |
//! | `helper`, `cpus` | blocking work, on a thread beside the shard |
//! | `watch` | the thread that logs the stack of a shard whose turn is too long |
//! | `probe`, `signal`, `lock`, `random` | small things of the system |
//!
//! Invariants. Nothing waits on glommio's own reactor: while a shard blocks in its ring, that sleeps. The driver blocks
//! only when no task is runnable, and stands aside only when one is. The kernel never holds memory that we freed: an
//! operation's slot owns it until its completion was reaped. No task is made for a request.

mod boot;
mod core;
mod cpus;
mod doorbell;
mod driver;
mod eventfd;
mod fd;
mod file;
mod fs;
mod helper;
mod lock;
mod mesh;
mod ops;
mod park;
mod probe;
mod random;
mod ring;
mod signal;
mod socket;
mod spsc;
mod sync;
mod task;
#[cfg(test)]
mod testing;
mod timers;
mod watch;

pub use boot::{RealConfig, Running, allowed_cores, start_real};
pub use core::Core;
pub use file::File;
pub use lock::{FileLock, effective_user, lock_file};
pub use mesh::{Mesh, Outside};
pub use probe::{PROBE_PREFIX, ProbeError, ProbeReport, probe};
pub use signal::{Signal, wait_for_signal};
pub use socket::{Accepted, Listener, Stream};
pub use task::Yield;
pub use timers::Sleep;
