//! The simulated half of `io`: the types that the dispatch in `crate::io` names. They have no values until the
//! simulation fills them in.

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
