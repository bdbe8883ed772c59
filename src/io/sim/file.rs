//! Files of a simulation, and the operations on paths. An operation takes effect when its virtual delay ends, so those
//! under way at once complete in any order.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::disk::{Disk, NodeId};
use super::events::{Event, EventKey, WriteInFlight};
use super::faults::DiskOp;
use super::handle::Core;
use super::scheduler::Owner;
use super::trace::Kind;
use super::world::World;
use crate::io::{ALIGN_BYTES, AlignedBuf, DirEntry, IoClass, IoError, OpenHow};

/// How long operations take, in microseconds.
const READ_US: (u64, u64) = (20, 150);
const WRITE_US: (u64, u64) = (20, 300);
const SYNC_US: (u64, u64) = (50, 2_000);
const NAME_US: (u64, u64) = (5, 100);

/// An open file, shared by its handles and its writes under way. It closes with the last of them.
pub(super) struct OpenFile {
    world: Rc<World>,
    node: NodeId,
    path: PathBuf,
    writable: bool,
}

impl OpenFile {
    pub fn node(&self) -> NodeId {
        self.node
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.world.disk.borrow_mut().close(self.node);
    }
}

#[derive(Clone)]
pub struct File {
    open: Rc<OpenFile>,
    owner: Owner,
}

impl File {
    pub fn path(&self) -> &Path {
        &self.open.path
    }

    /// As `crate::io::File::read_at`.
    pub async fn read_at(&self, mut buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<usize, IoError>) {
        assert_aligned(buf.len(), offset_bytes);
        let result = self.read(&mut buf, offset_bytes).await;
        (buf, result)
    }

    pub async fn write_at(&self, buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<(), IoError>) {
        assert_aligned(buf.len(), offset_bytes);
        self.write(buf, offset_bytes, false).await
    }

    pub async fn write_at_synced(&self, buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<(), IoError>) {
        assert_aligned(buf.len(), offset_bytes);
        self.write(buf, offset_bytes, true).await
    }

    /// A sync covers the writes that had completed when it began. Those that complete while it runs it covers or not.
    pub async fn sync_data(&self) -> Result<(), IoError> {
        let (world, node) = (self.world(), self.open.node);
        let began = self.mark();
        self.delay(SYNC_US).await;
        let mark = if world.disk_random.coin() { began } else { self.mark() };
        world.note(Kind::Sync, u64::from(node), mark);
        if let Some(errno) = world.disk_fault(DiskOp::Sync, &self.open.path) {
            self.with_contents("sync", |file| file.fail_sync(mark, &world.disk_random))?;
            return Err(self.error("sync", errno));
        }
        self.with_contents("sync", |file| file.sync(mark))
    }

    /// Durable when it returns; a crash before that leaves any part of the length, or nothing.
    pub async fn allocate_zeroed(&self, len_bytes: u64) -> Result<(), IoError> {
        self.check_writable("allocate")?;
        let world = self.world();
        self.delay(WRITE_US).await;
        self.fault("allocate", DiskOp::Write)?;
        let old_bytes = self.with_contents("allocate", |file| file.len() as u64)?;
        let room = world.disk.borrow().free_bytes();
        if len_bytes > old_bytes && room >= len_bytes - old_bytes {
            let reached = old_bytes + world.disk_random.below(len_bytes - old_bytes + 1);
            self.apply("allocate", |disk, node| disk.set_len(node, reached))?;
        }
        self.delay(SYNC_US).await;
        self.fault("allocate", DiskOp::Sync)?;
        world.note(Kind::Resize, u64::from(self.open.node), len_bytes);
        self.apply("allocate", |disk, node| disk.allocate_zeroed(node, len_bytes))
    }

    pub async fn set_len(&self, len_bytes: u64) -> Result<(), IoError> {
        self.check_writable("set_len")?;
        self.delay(NAME_US).await;
        self.fault("set_len", DiskOp::Write)?;
        self.world().note(Kind::Resize, u64::from(self.open.node), len_bytes);
        self.apply("set_len", |disk, node| disk.set_len(node, len_bytes))
    }

    #[expect(clippy::len_without_is_empty, reason = "a length that is asked of the system")]
    pub async fn len(&self) -> Result<u64, IoError> {
        self.delay(NAME_US).await;
        self.with_contents("len", |file| file.len() as u64)
    }

    async fn read(&self, into: &mut [u8], offset_bytes: u64) -> Result<usize, IoError> {
        self.delay(READ_US).await;
        self.fault("read", DiskOp::Read)?;
        let offset = usize::try_from(offset_bytes).map_err(|_| self.error("read", libc::EINVAL))?;
        let count = self.with_contents("read", |file| file.read(offset, into))?;
        let sum = u64::from(crc32c::crc32c(&into[..count]));
        self.world().note(Kind::Read, u64::from(self.open.node) << 40 ^ offset_bytes, sum);
        Ok(count)
    }

    async fn write(&self, buf: AlignedBuf, offset_bytes: u64, synced: bool) -> (AlignedBuf, Result<(), IoError>) {
        if let Err(error) = self.check_writable("write") {
            return (buf, Err(error));
        }
        let world = self.world();
        world.note(Kind::WriteStart, u64::from(self.open.node) << 40 ^ offset_bytes, buf.len() as u64);
        let state = if world.is_alive(self.owner) {
            let (low, high) = if synced { (WRITE_US.0 + SYNC_US.0, WRITE_US.1 + SYNC_US.1) } else { WRITE_US };
            let at_ns = world.now_ns() + world.disk_delay_ns((low, high));
            let (owner, file) = (self.owner, self.open.clone());
            let write = WriteInFlight { owner, file, offset_bytes, buf, synced, waker: None, detached: false };
            WriteState::Started(world.events.borrow_mut().add(at_ns, Event::Write(write)))
        } else {
            WriteState::Never { _buf: buf }
        };
        let (buf, result) = Write { world: world.clone(), state }.await;
        (buf, result.map_err(|errno| self.error("write", errno)))
    }

    fn world(&self) -> &Rc<World> {
        &self.open.world
    }

    fn mark(&self) -> u64 {
        self.world().disk.borrow().file(self.open.node).map_or(0, |file| file.mark())
    }

    async fn delay(&self, range_us: (u64, u64)) {
        let world = self.world();
        world.sleep(self.owner, world.disk_delay_ns(range_us)).await;
    }

    fn fault(&self, verb: &'static str, op: DiskOp) -> Result<(), IoError> {
        self.world().disk_fault(op, &self.open.path).map_or(Ok(()), |errno| Err(self.error(verb, errno)))
    }

    fn apply<T>(
        &self,
        verb: &'static str,
        change: impl FnOnce(&mut Disk, NodeId) -> Result<T, i32>,
    ) -> Result<T, IoError> {
        let result = change(&mut self.world().disk.borrow_mut(), self.open.node);
        result.map_err(|errno| self.error(verb, errno))
    }

    fn with_contents<T>(
        &self,
        verb: &'static str,
        with: impl FnOnce(&mut super::disk::Contents) -> T,
    ) -> Result<T, IoError> {
        self.apply(verb, |disk, node| disk.file_mut(node).map(with))
    }

    fn check_writable(&self, verb: &'static str) -> Result<(), IoError> {
        if self.open.writable { Ok(()) } else { Err(self.error(verb, libc::EBADF)) }
    }

    fn error(&self, verb: &'static str, errno: i32) -> IoError {
        IoError::os(verb, Some(&self.open.path), errno)
    }
}

fn assert_aligned(len_bytes: usize, offset_bytes: u64) {
    assert!(len_bytes.is_multiple_of(ALIGN_BYTES), "direct I/O of {len_bytes} bytes");
    assert!(offset_bytes.is_multiple_of(ALIGN_BYTES as u64), "direct I/O at {offset_bytes}");
}

enum WriteState {
    Started(EventKey),
    /// The node was down already: it never starts.
    Never {
        _buf: AlignedBuf,
    },
    Ended,
}

/// A write under way. Dropped, it still completes.
struct Write {
    world: Rc<World>,
    state: WriteState,
}

impl Future for Write {
    type Output = (AlignedBuf, Result<(), i32>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let WriteState::Started(key) = self.state else { return Poll::Pending };
        let mut events = self.world.events.borrow_mut();
        match events.get_mut(key) {
            Some(Event::Write(write)) => {
                write.waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => match events.remove(key) {
                Some(Event::Written(buf, result)) => {
                    drop(events);
                    self.state = WriteState::Ended;
                    Poll::Ready((buf, result))
                }
                _ => Poll::Pending,
            },
        }
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        let WriteState::Started(key) = self.state else { return };
        let mut events = self.world.events.borrow_mut();
        match events.get_mut(key) {
            Some(Event::Write(write)) => (write.detached, write.waker) = (true, None),
            _ => drop(events.remove(key)),
        }
    }
}

impl Core {
    pub async fn open(&self, path: &Path, how: OpenHow, _class: IoClass) -> Result<File, IoError> {
        let node = self.on_path("open", DiskOp::Name, path, |disk| match how {
            OpenHow::Read | OpenHow::ReadWrite => disk.open(path),
            OpenHow::CreateNew => disk.create(path, true),
            OpenHow::CreateOrTruncate => disk.create(path, false),
        });
        let node = node.await?;
        let writable = how != OpenHow::Read;
        let open = Rc::new(OpenFile { world: self.world().clone(), node, path: path.to_path_buf(), writable });
        Ok(File { open, owner: self.owner() })
    }

    pub async fn create_dir_all(&self, path: &Path) -> Result<(), IoError> {
        self.on_path("create_dir", DiskOp::Name, path, |disk| disk.create_dir_all(path)).await
    }

    pub async fn remove_file(&self, path: &Path) -> Result<(), IoError> {
        self.on_path("remove", DiskOp::Name, path, |disk| disk.remove_file(path)).await
    }

    pub async fn remove_dir(&self, path: &Path) -> Result<(), IoError> {
        self.on_path("remove_dir", DiskOp::Name, path, |disk| disk.remove_dir(path)).await
    }

    pub async fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        self.on_path("rename", DiskOp::Name, from, |disk| disk.rename(from, to)).await
    }

    pub async fn hard_link(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        self.on_path("hard_link", DiskOp::Name, from, |disk| disk.hard_link(from, to)).await
    }

    pub async fn sync_dir(&self, path: &Path) -> Result<(), IoError> {
        let world = self.world();
        world.sleep(self.owner(), world.disk_delay_ns(SYNC_US)).await;
        world.note(Kind::Sync, u64::from(crc32c::crc32c(path.as_os_str().as_encoded_bytes())), u64::MAX);
        if let Some(errno) = world.disk_fault(DiskOp::SyncDir, path) {
            world.disk.borrow_mut().fail_sync_dir(path, &world.disk_random);
            return Err(IoError::os("sync_dir", Some(path), errno));
        }
        let result = world.disk.borrow_mut().sync_dir(path);
        result.map_err(|errno| IoError::os("sync_dir", Some(path), errno))
    }

    pub async fn list_dir(&self, path: &Path) -> Result<Vec<DirEntry>, IoError> {
        let listed = self.on_path("list", DiskOp::Read, path, |disk| disk.list(path)).await?;
        let entry = |listed: super::disk::Listed| DirEntry {
            name: listed.name,
            is_dir: listed.is_dir,
            len_bytes: listed.len_bytes,
        };
        Ok(listed.into_iter().map(entry).collect())
    }

    pub async fn exists(&self, path: &Path) -> Result<bool, IoError> {
        self.on_path("exists", DiskOp::Read, path, |disk| disk.exists(path)).await
    }

    pub async fn read_file(&self, path: &Path) -> Result<Vec<u8>, IoError> {
        let file = self.open(path, OpenHow::Read, IoClass::Read).await?;
        let mut bytes = vec![0; file.with_contents("read", |file| file.len())?];
        let count = file.read(&mut bytes, 0).await?;
        bytes.truncate(count);
        Ok(bytes)
    }

    pub async fn write_file_synced(&self, path: &Path, bytes: &[u8]) -> Result<(), IoError> {
        let file = self.open(path, OpenHow::CreateOrTruncate, IoClass::Flush).await?;
        let mut buf = AlignedBuf::new(bytes.len());
        buf.copy_from_slice(bytes);
        file.write(buf, 0, false).await.1?;
        file.sync_data().await
    }

    pub async fn free_bytes(&self, path: &Path) -> Result<u64, IoError> {
        self.on_path("statvfs", DiskOp::Read, path, |disk| disk.resolve(path).map(|_| disk.free_bytes())).await
    }

    async fn on_path<T>(
        &self,
        verb: &'static str,
        op: DiskOp,
        path: &Path,
        change: impl FnOnce(&mut Disk) -> Result<T, i32>,
    ) -> Result<T, IoError> {
        let world = self.world();
        world.sleep(self.owner(), world.disk_delay_ns(NAME_US)).await;
        world.note(Kind::Name, u64::from(crc32c::crc32c(path.as_os_str().as_encoded_bytes())), op as u64);
        if let Some(errno) = world.disk_fault(op, path) {
            return Err(IoError::os(verb, Some(path), errno));
        }
        let result = change(&mut world.disk.borrow_mut());
        result.map_err(|errno| IoError::os(verb, Some(path), errno))
    }
}
