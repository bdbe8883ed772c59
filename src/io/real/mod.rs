//! The real half of `io`: the types that the dispatch in `crate::io` names. They have no values until the
//! ring is in place.

use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{AlignedBuf, DirEntry, IoClass, IoError, IoStats, OpenHow, TaskClass};
use crate::base::ids::{ShardId, TimestampMicros};

#[derive(Clone)]
pub struct Core(Infallible);

impl Core {
    pub fn shard_id(&self) -> ShardId {
        match self.0 {}
    }
    pub fn shard_count(&self) -> u16 {
        match self.0 {}
    }
    pub fn now_ns(&self) -> u64 {
        match self.0 {}
    }
    pub fn wall_us(&self) -> TimestampMicros {
        match self.0 {}
    }
    pub fn random_u64(&self) -> u64 {
        match self.0 {}
    }
    pub fn spawn(&self, _class: TaskClass, _task: impl Future<Output = ()> + 'static) {
        match self.0 {}
    }
    pub fn sleep(&self, _duration: Duration) -> Sleep {
        match self.0 {}
    }
    pub fn yield_now(&self) -> Yield {
        match self.0 {}
    }
    pub async fn open(&self, _path: &Path, _how: OpenHow, _class: IoClass) -> Result<File, IoError> {
        match self.0 {}
    }
    pub async fn create_dir_all(&self, _path: &Path) -> Result<(), IoError> {
        match self.0 {}
    }
    pub async fn remove_file(&self, _path: &Path) -> Result<(), IoError> {
        match self.0 {}
    }
    pub async fn remove_dir(&self, _path: &Path) -> Result<(), IoError> {
        match self.0 {}
    }
    pub async fn rename(&self, _from: &Path, _to: &Path) -> Result<(), IoError> {
        match self.0 {}
    }
    pub async fn hard_link(&self, _from: &Path, _to: &Path) -> Result<(), IoError> {
        match self.0 {}
    }
    pub async fn sync_dir(&self, _path: &Path) -> Result<(), IoError> {
        match self.0 {}
    }
    pub async fn list_dir(&self, _path: &Path) -> Result<Vec<DirEntry>, IoError> {
        match self.0 {}
    }
    pub async fn exists(&self, _path: &Path) -> Result<bool, IoError> {
        match self.0 {}
    }
    pub async fn read_file(&self, _path: &Path) -> Result<Vec<u8>, IoError> {
        match self.0 {}
    }
    pub async fn write_file_synced(&self, _path: &Path, _bytes: &[u8]) -> Result<(), IoError> {
        match self.0 {}
    }
    pub async fn free_bytes(&self, _path: &Path) -> Result<u64, IoError> {
        match self.0 {}
    }
    pub async fn blocking<T: Send + 'static>(&self, _work: impl FnOnce() -> T + Send + 'static) -> T {
        match self.0 {}
    }
    pub async fn listen(&self, _addr: SocketAddr) -> Result<Listener, IoError> {
        match self.0 {}
    }
    pub fn adopt(&self, _accepted: Accepted) -> Result<Stream, IoError> {
        match self.0 {}
    }
    pub fn stats(&self) -> IoStats {
        match self.0 {}
    }
}

pub struct Sleep(Infallible);

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        match self.0 {}
    }
}

pub struct Yield(Infallible);

impl Future for Yield {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        match self.0 {}
    }
}

#[derive(Clone)]
pub struct File(Infallible);

impl File {
    pub async fn read_at(&self, _buf: AlignedBuf, _offset_bytes: u64) -> (AlignedBuf, Result<usize, IoError>) {
        match self.0 {}
    }
    pub async fn write_at(&self, _buf: AlignedBuf, _offset_bytes: u64) -> (AlignedBuf, Result<(), IoError>) {
        match self.0 {}
    }
    pub async fn write_at_synced(&self, _buf: AlignedBuf, _offset_bytes: u64) -> (AlignedBuf, Result<(), IoError>) {
        match self.0 {}
    }
    pub async fn sync_data(&self) -> Result<(), IoError> {
        match self.0 {}
    }
    pub async fn allocate_zeroed(&self, _len_bytes: u64) -> Result<(), IoError> {
        match self.0 {}
    }
    pub async fn set_len(&self, _len_bytes: u64) -> Result<(), IoError> {
        match self.0 {}
    }
    #[expect(clippy::len_without_is_empty, reason = "a length that is asked of the system")]
    pub async fn len(&self) -> Result<u64, IoError> {
        match self.0 {}
    }
    pub fn path(&self) -> &Path {
        match self.0 {}
    }
}

pub struct Listener(Infallible);

impl Listener {
    pub fn local_addr(&self) -> SocketAddr {
        match self.0 {}
    }
    pub async fn accept(&self) -> Result<Accepted, IoError> {
        match self.0 {}
    }
}

pub struct Accepted(Infallible);

impl Accepted {
    pub fn peer_addr(&self) -> SocketAddr {
        match self.0 {}
    }
    pub fn local_addr(&self) -> SocketAddr {
        match self.0 {}
    }
}

#[derive(Clone)]
pub struct Stream(Infallible);

impl Stream {
    pub async fn recv(&self, _buf: Vec<u8>) -> (Vec<u8>, Result<usize, IoError>) {
        match self.0 {}
    }
    pub async fn send_all(&self, _buf: Vec<u8>) -> (Vec<u8>, Result<(), IoError>) {
        match self.0 {}
    }
    pub fn peer_addr(&self) -> SocketAddr {
        match self.0 {}
    }
    pub fn local_addr(&self) -> SocketAddr {
        match self.0 {}
    }
    pub fn shutdown(&self) {
        match self.0 {}
    }
}

pub struct Mesh<M>(Infallible, PhantomData<fn(M)>);

impl<M> Clone for Mesh<M> {
    fn clone(&self) -> Self {
        match self.0 {}
    }
}

impl<M: Send + 'static> Mesh<M> {
    pub fn shard_id(&self) -> ShardId {
        match self.0 {}
    }
    pub fn shard_count(&self) -> u16 {
        match self.0 {}
    }
    pub fn try_send(&self, _to: ShardId, _message: M) -> Result<(), M> {
        match self.0 {}
    }
    pub async fn send(&self, _to: ShardId, _message: M) {
        match self.0 {}
    }
    pub fn flush(&self) {
        match self.0 {}
    }
    pub async fn recv(&self, _into: &mut Vec<(ShardId, M)>) {
        match self.0 {}
    }
}

pub struct Outside<M>(Infallible, PhantomData<fn(M)>);

impl<M> Clone for Outside<M> {
    fn clone(&self) -> Self {
        match self.0 {}
    }
}

impl<M: Send + 'static> Outside<M> {
    pub fn send(&self, _to: ShardId, _message: M) {
        match self.0 {}
    }
}

/// How many shards to start, and where.
#[derive(Clone, Debug)]
pub struct RealConfig {
    pub shards: u16,
    /// The cores to take, in this order; `None` takes those that this process may use.
    pub cpus: Option<Vec<usize>>,
    /// Whether each shard keeps to one core.
    pub pin: bool,
    /// Messages that each ordered pair of shards may have under way; rounded up to a power of two.
    pub mesh_capacity: usize,
}

/// The running shards.
pub struct Running<M> {
    outside: super::Outside<M>,
}

impl<M: Send + 'static> Running<M> {
    pub fn outside(&self) -> super::Outside<M> {
        self.outside.clone()
    }

    /// Blocks until the entries of all shards have returned.
    pub fn join(self) -> Result<(), IoError> {
        Ok(())
    }
}

/// Starts the shards: each runs `entry` with its own [`super::Io`] and its end of the mesh.
pub fn start_real<M, F, Fut>(_config: RealConfig, _entry: F) -> Result<Running<M>, IoError>
where
    F: Fn(super::Io, super::Mesh<M>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
    M: Send + 'static,
{
    Err(IoError::kind("start", None, std::io::ErrorKind::Unsupported))
}

/// What the system gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    pub kernel: String,
    /// Lines for the log.
    pub notes: Vec<String>,
}

/// What is missing, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct ProbeError {
    pub what: String,
    pub remedy: String,
}

pub fn probe(_dir: &Path) -> Result<ProbeReport, ProbeError> {
    Ok(ProbeReport { kernel: String::new(), notes: Vec::new() })
}

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Terminate,
    Interrupt,
}

/// Blocks an ordinary thread until SIGTERM or SIGINT.
pub fn wait_for_signal() -> Signal {
    loop {
        std::thread::park();
    }
}

/// Holds a lock file until dropped.
pub struct FileLock(std::fs::File);

pub fn lock_file(path: &Path) -> Result<FileLock, IoError> {
    std::fs::File::create(path).map(FileLock).map_err(|error| IoError::from_std("lock", Some(path), &error))
}
