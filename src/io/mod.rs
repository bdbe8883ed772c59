//! The one seam to the outside: files, sockets, clocks, random numbers, tasks, timers, the mesh between shards.
//!
//! Each type here is an enum over two halves, matched per operation: the real one (one io_uring a shard, driven by one
//! glommio task) and the simulated one (a seeded scheduler, virtual time, a disk that tells durable from pending).
//! Nothing above this module names the operating system.
//!
//! An [`Io`] belongs to one shard and never leaves it; it is a cheap clone. What crosses shards goes over the [`Mesh`];
//! what comes from ordinary threads goes through [`Outside`].
//!
//! Dispatch is mechanical: each half has `Core`, `File`, `Listener`, `Accepted`, `Stream`, `Mesh`, `Outside`, `Sleep`
//! and `Yield` with the same methods.

mod buf;
mod count;
mod error;
mod file;
mod mesh;
mod real;
pub mod sim;
mod socket;

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub use buf::{ALIGN_BYTES, AlignedBuf};
pub use count::{Allocated, CountingAllocator, allocated};
pub use error::IoError;
pub use file::{DirEntry, File, OpenHow};
pub use mesh::{Mesh, Outside};
pub use real::{
    FileLock, PROBE_PREFIX, ProbeError, ProbeReport, RealConfig, Running, Signal, allowed_cores, effective_user,
    lock_file, probe, start_real, wait_for_signal,
};
pub use socket::{Accepted, Listener, Stream};

use crate::base::ids::{ShardId, TimestampMicros};

/// What a task works for. Each class is one task queue, and the processor is shared between those that have work in
/// the ratio of [`TaskClass::shares`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskClass {
    Foreground,
    Flush,
    Compaction,
}

impl TaskClass {
    pub const ALL: [TaskClass; 3] = [TaskClass::Foreground, TaskClass::Flush, TaskClass::Compaction];

    pub fn shares(self) -> usize {
        match self {
            TaskClass::Foreground => 1000,
            TaskClass::Flush => 300,
            TaskClass::Compaction => 100,
        }
    }
}

/// What a file's operations work for; given when it is opened. In order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoClass {
    Log,
    Read,
    Flush,
    Compaction,
}

impl IoClass {
    pub const ALL: [IoClass; 4] = [IoClass::Log, IoClass::Read, IoClass::Flush, IoClass::Compaction];

    /// How many operations of this class may be in the device at once from one shard; the next waits in order.
    /// The background classes are held below the depth at which a device starts to queue (8 operations of 128 KiB keep
    /// one busy), so that a log write or a read never stands behind a crowd of theirs.
    pub fn in_flight_max(self) -> u64 {
        match self {
            IoClass::Log => 64,
            IoClass::Read => 128,
            IoClass::Flush => 16,
            IoClass::Compaction => 8,
        }
    }
}

/// Counters of one shard's io since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStats {
    /// Turns that kept the driver from a pass for longer than the stall threshold.
    pub stalls: u64,
    /// Calls of io_uring_enter.
    pub ring_enters: u64,
    /// Operations that completed.
    pub operations: u64,
    /// What the shard's thread has allocated; nothing where the process does not count it.
    pub allocated: Allocated,
    /// Pages of memory that were not there when the shard's thread touched them, and came without a read.
    pub minor_faults: u64,
}

/// One shard's handle to the outside.
#[derive(Clone)]
pub struct Io(IoHalf);

#[derive(Clone)]
enum IoHalf {
    Real(real::Core),
    Sim(sim::Core),
}

impl Io {
    pub fn shard_id(&self) -> ShardId {
        match &self.0 {
            IoHalf::Real(core) => core.shard_id(),
            IoHalf::Sim(core) => core.shard_id(),
        }
    }

    pub fn shard_count(&self) -> u16 {
        match &self.0 {
            IoHalf::Real(core) => core.shard_count(),
            IoHalf::Sim(core) => core.shard_count(),
        }
    }

    /// The monotonic clock, the same for all shards. Only differences mean something.
    pub fn now_ns(&self) -> u64 {
        match &self.0 {
            IoHalf::Real(core) => core.now_ns(),
            IoHalf::Sim(core) => core.now_ns(),
        }
    }

    /// The wall clock. It may jump, also backwards.
    pub fn wall_us(&self) -> TimestampMicros {
        match &self.0 {
            IoHalf::Real(core) => core.wall_us(),
            IoHalf::Sim(core) => core.wall_us(),
        }
    }

    pub fn random_u64(&self) -> u64 {
        match &self.0 {
            IoHalf::Real(core) => core.random_u64(),
            IoHalf::Sim(core) => core.random_u64(),
        }
    }

    /// Ends the node at once, without unwinding, because going on would break a promise: a failed sync, a broken
    /// invariant. In the simulation it returns, and what this task still does has no effect: no task of the node is
    /// polled again, and the run says why.
    pub fn fail_stop(&self, reason: &str) {
        match &self.0 {
            IoHalf::Real(_) => {
                tracing::error!(reason, "the node stops itself");
                std::process::abort();
            }
            IoHalf::Sim(core) => core.fail_stop(reason),
        }
    }

    /// Starts a task on this shard that nobody waits for.
    #[track_caller]
    pub fn spawn(&self, class: TaskClass, task: impl Future<Output = ()> + 'static) {
        match &self.0 {
            IoHalf::Real(core) => core.spawn(class, task),
            IoHalf::Sim(core) => core.spawn(class, task),
        }
    }

    pub fn sleep(&self, duration: Duration) -> Sleep {
        match &self.0 {
            IoHalf::Real(core) => Sleep::Real(core.sleep(duration)),
            IoHalf::Sim(core) => Sleep::Sim(core.sleep(duration)),
        }
    }

    /// The future's value, or `None` where it takes longer than `patience`.
    pub async fn within<F: Future>(&self, patience: Duration, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let mut sleep = std::pin::pin!(self.sleep(patience));
        std::future::poll_fn(|context| {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                return std::task::Poll::Ready(Some(value));
            }
            sleep.as_mut().poll(context).map(|()| None)
        })
        .await
    }

    /// Lets every other runnable task have a turn first, and completions be reaped.
    pub fn yield_now(&self) -> Yield {
        match &self.0 {
            IoHalf::Real(core) => Yield::Real(core.yield_now()),
            IoHalf::Sim(core) => Yield::Sim(core.yield_now()),
        }
    }

    /// A zeroed buffer for file operations.
    pub fn buffer(&self, len_bytes: usize) -> AlignedBuf {
        AlignedBuf::new(len_bytes)
    }

    /// Opens a file, with direct I/O where its filesystem takes it.
    pub async fn open(&self, path: &Path, how: OpenHow, class: IoClass) -> Result<File, IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.open(path, how, class).await.map(File::real),
            IoHalf::Sim(core) => core.open(path, how, class).await.map(File::sim),
        }
    }

    /// Makes a directory and its missing parents. Durable only after [`Io::sync_dir`] of each parent.
    pub async fn create_dir_all(&self, path: &Path) -> Result<(), IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.create_dir_all(path).await,
            IoHalf::Sim(core) => core.create_dir_all(path).await,
        }
    }

    pub async fn remove_file(&self, path: &Path) -> Result<(), IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.remove_file(path).await,
            IoHalf::Sim(core) => core.remove_file(path).await,
        }
    }

    /// Removes an empty directory.
    pub async fn remove_dir(&self, path: &Path) -> Result<(), IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.remove_dir(path).await,
            IoHalf::Sim(core) => core.remove_dir(path).await,
        }
    }

    /// Renames, replacing what stood at `to`.
    pub async fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.rename(from, to).await,
            IoHalf::Sim(core) => core.rename(from, to).await,
        }
    }

    pub async fn hard_link(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.hard_link(from, to).await,
            IoHalf::Sim(core) => core.hard_link(from, to).await,
        }
    }

    /// Makes the names in a directory durable.
    pub async fn sync_dir(&self, path: &Path) -> Result<(), IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.sync_dir(path).await,
            IoHalf::Sim(core) => core.sync_dir(path).await,
        }
    }

    /// A directory's entries, sorted by name.
    pub async fn list_dir(&self, path: &Path) -> Result<Vec<DirEntry>, IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.list_dir(path).await,
            IoHalf::Sim(core) => core.list_dir(path).await,
        }
    }

    pub async fn exists(&self, path: &Path) -> Result<bool, IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.exists(path).await,
            IoHalf::Sim(core) => core.exists(path).await,
        }
    }

    /// A small file whole.
    pub async fn read_file(&self, path: &Path) -> Result<Vec<u8>, IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.read_file(path).await,
            IoHalf::Sim(core) => core.read_file(path).await,
        }
    }

    /// Creates or replaces the content of a small file and syncs its data. Its name is durable after
    /// [`Io::sync_dir`].
    pub async fn write_file_synced(&self, path: &Path, bytes: &[u8]) -> Result<(), IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.write_file_synced(path, bytes).await,
            IoHalf::Sim(core) => core.write_file_synced(path, bytes).await,
        }
    }

    /// What the filesystem of `path` has left for us.
    pub async fn free_bytes(&self, path: &Path) -> Result<u64, IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.free_bytes(path).await,
            IoHalf::Sim(core) => core.free_bytes(path).await,
        }
    }

    /// Runs blocking work on this shard's helper thread, one at a time (in the simulation: inline).
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match &self.0 {
            IoHalf::Real(core) => core.blocking(work).await,
            IoHalf::Sim(core) => core.blocking(work).await,
        }
    }

    /// Gives memory that the allocator keeps and nobody uses back to the system.
    pub async fn give_back_memory(&self) {
        match &self.0 {
            IoHalf::Real(core) => core.give_back_memory().await,
            IoHalf::Sim(_) => {}
        }
    }

    pub async fn listen(&self, addr: SocketAddr) -> Result<Listener, IoError> {
        match &self.0 {
            IoHalf::Real(core) => core.listen(addr).await.map(Listener::real),
            IoHalf::Sim(core) => core.listen(addr).await.map(Listener::sim),
        }
    }

    /// Makes an accepted connection, perhaps of another shard's listener, this shard's.
    pub fn adopt(&self, accepted: Accepted) -> Result<Stream, IoError> {
        socket::adopt(self, accepted)
    }

    pub fn stats(&self) -> IoStats {
        match &self.0 {
            IoHalf::Real(core) => core.stats(),
            IoHalf::Sim(core) => core.stats(),
        }
    }

    /// How often a turn kept the driver from a pass for longer than the stall threshold.
    pub fn stalls(&self) -> u64 {
        self.stats().stalls
    }
}

/// Completes when its time has come. Dropping it forgets it.
#[must_use = "a sleep does nothing unless awaited"]
pub enum Sleep {
    Real(real::Sleep),
    Sim(sim::Sleep),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.get_mut() {
            Sleep::Real(sleep) => Pin::new(sleep).poll(context),
            Sleep::Sim(sleep) => Pin::new(sleep).poll(context),
        }
    }
}

/// Completes after the other runnable tasks had a turn.
#[must_use = "a yield does nothing unless awaited"]
pub enum Yield {
    Real(real::Yield),
    Sim(sim::Yield),
}

impl Future for Yield {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.get_mut() {
            Yield::Real(turn) => Pin::new(turn).poll(context),
            Yield::Sim(turn) => Pin::new(turn).poll(context),
        }
    }
}
