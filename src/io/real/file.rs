//! Files: reads, writes and syncs through the ring, within the budget of the file's class.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::core::Core;
use super::fd::Fd;
use super::fs::{empty_stat, file_len};
use super::ops::Work;
use crate::io::{ALIGN_BYTES, AlignedBuf, IoClass, IoError};

/// Zeros are written in pieces of this size.
const ZERO_CHUNK_BYTES: usize = 1 << 20;

/// An open file; a cheap clone.
#[derive(Clone)]
pub struct File(Rc<Inner>);

struct Inner {
    core: Core,
    fd: Fd,
    path: PathBuf,
    class: IoClass,
    /// Whether the filesystem took O_DIRECT.
    direct: bool,
}

impl File {
    pub(super) fn new(core: &Core, fd: Fd, path: &Path, class: IoClass, direct: bool) -> Self {
        File(Rc::new(Inner { core: core.clone(), fd, path: path.to_path_buf(), class, direct }))
    }

    pub fn path(&self) -> &Path {
        &self.0.path
    }

    pub async fn read_at(&self, buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<usize, IoError>) {
        assert_aligned(buf.len(), offset_bytes);
        if buf.is_empty() {
            return (buf, Ok(0));
        }
        let permit = Some(self.0.core.admit(self.0.class).await);
        let mut work = Work::Read { fd: self.0.fd.clone(), buf, from: 0, offset: offset_bytes, permit };
        loop {
            let (back, result) = self.0.core.run(work).await;
            let Work::Read { fd, buf, from, offset, permit } = back else { unreachable!("a read comes back as one") };
            let got = match result {
                Ok(got) => got as usize,
                Err(errno) => return (buf, Err(self.error("read", errno))),
            };
            let filled = from + got;
            assert!(filled <= buf.len(), "{filled} bytes read into a buffer of {}", buf.len());
            // Only the end of the file stops a read inside a block.
            if got == 0 || filled == buf.len() || !filled.is_multiple_of(ALIGN_BYTES) {
                return (buf, Ok(filled));
            }
            work = Work::Read { fd, buf, from: filled, offset: offset + got as u64, permit };
        }
    }

    pub async fn write_at(&self, buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<(), IoError>) {
        assert_aligned(buf.len(), offset_bytes);
        self.write(buf, offset_bytes, false).await
    }

    pub async fn write_at_synced(&self, buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<(), IoError>) {
        assert_aligned(buf.len(), offset_bytes);
        self.write(buf, offset_bytes, true).await
    }

    /// Writes all of `buf`, of any length where the file is not open for direct I/O.
    pub(super) async fn write(&self, buf: AlignedBuf, at: u64, synced: bool) -> (AlignedBuf, Result<(), IoError>) {
        if buf.is_empty() {
            return (buf, Ok(()));
        }
        let permit = Some(self.0.core.admit(self.0.class).await);
        let mut work = Work::Write { fd: self.0.fd.clone(), buf, from: 0, offset: at, synced, permit };
        loop {
            let (back, result) = self.0.core.run(work).await;
            let Work::Write { fd, buf, from, permit, .. } = back else { unreachable!("a write comes back as one") };
            let put = match result {
                Ok(put) => put as usize,
                Err(errno) => return (buf, Err(self.error("write", errno))),
            };
            assert!(from + put <= buf.len(), "{put} bytes written of {}", buf.len() - from);
            if from + put == buf.len() {
                return (buf, Ok(()));
            }
            // Short: direct I/O goes on at a block's start. The next attempt meets what stopped this one.
            let next = if self.0.direct { (from + put) / ALIGN_BYTES * ALIGN_BYTES } else { from + put };
            if next <= from {
                let error = IoError::kind("write", Some(&self.0.path), std::io::ErrorKind::WriteZero);
                return (buf, Err(error));
            }
            work = Work::Write { fd, buf, from: next, offset: at + next as u64, synced, permit };
        }
    }

    pub async fn sync_data(&self) -> Result<(), IoError> {
        let (_, result) = self.0.core.run(Work::SyncData { fd: self.0.fd.clone() }).await;
        result.map(drop).map_err(|errno| self.error("sync", errno))
    }

    pub async fn allocate_zeroed(&self, len_bytes: u64) -> Result<(), IoError> {
        let (_, reserved) = self.0.core.run(Work::Allocate { fd: self.0.fd.clone(), len: len_bytes }).await;
        match reserved {
            // A filesystem without fallocate gets its blocks from the zeros alone.
            Ok(_) | Err(libc::EOPNOTSUPP) => {}
            Err(errno) => return Err(self.error("allocate", errno)),
        }
        let mut at = 0;
        let mut zeros = AlignedBuf::new(ZERO_CHUNK_BYTES);
        while at < len_bytes {
            let rest = usize::try_from(len_bytes - at).unwrap_or(usize::MAX);
            zeros.set_len(rest.min(ZERO_CHUNK_BYTES));
            let step = zeros.len() as u64;
            let (back, result) = self.write_at(zeros, at).await;
            result?;
            zeros = back;
            at += step;
        }
        self.sync_data().await
    }

    pub async fn set_len(&self, len_bytes: u64) -> Result<(), IoError> {
        let fd = self.0.fd.clone();
        if self.0.core.shard().ring.borrow().has_ftruncate() {
            let (_, result) = self.0.core.run(Work::SetLen { fd, len: len_bytes }).await;
            return result.map(drop).map_err(|errno| self.error("set length", errno));
        }
        let raw = fd.raw();
        let len = i64::try_from(len_bytes).map_err(|_| self.error("set length", libc::EFBIG))?;
        let result = self.0.core.blocking(move || {
            // SAFETY: ftruncate takes no pointers; `fd` keeps the descriptor open until this was awaited.
            match unsafe { libc::ftruncate(raw, len) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
        result.await.map_err(|error| IoError::from_std("set length", Some(&self.0.path), &error))
    }

    pub async fn len(&self) -> Result<u64, IoError> {
        let work = Work::Stat { fd: Some(self.0.fd.clone()), path: c"".into(), out: empty_stat() };
        let (work, result) = self.0.core.run(work).await;
        result.map_err(|errno| self.error("stat", errno))?;
        Ok(file_len(&work))
    }

    fn error(&self, op: &'static str, errno: i32) -> IoError {
        IoError::os(op, Some(&self.0.path), errno)
    }
}

fn assert_aligned(len_bytes: usize, offset_bytes: u64) {
    assert!(len_bytes.is_multiple_of(ALIGN_BYTES), "{len_bytes} bytes are not whole blocks");
    assert!(offset_bytes.is_multiple_of(ALIGN_BYTES as u64), "offset {offset_bytes} is not at a block's start");
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::testing::{on_one_shard, scratch};
    use crate::io::{ALIGN_BYTES, AlignedBuf, IoClass, OpenHow};

    fn filled(len: usize, seed: u8) -> AlignedBuf {
        let mut buf = AlignedBuf::new(len);
        buf.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7) as u8 ^ seed);
        buf
    }

    #[test]
    fn what_is_written_is_read_back() {
        let dir = scratch("read-back");
        on_one_shard(async move |io| {
            let path = dir.join("a");
            let file = io.open(&path, OpenHow::CreateNew, IoClass::Flush).await.unwrap();
            for (at, synced) in [(0, false), (3, true)] {
                let buf = filled(ALIGN_BYTES * 3, at as u8);
                let offset = at * ALIGN_BYTES as u64;
                let (_, result) =
                    if synced { file.write_at_synced(buf, offset).await } else { file.write_at(buf, offset).await };
                result.unwrap();
            }
            file.sync_data().await.unwrap();
            assert_eq!(file.len().await.unwrap(), 6 * ALIGN_BYTES as u64);
            assert_eq!(file.path(), path);
            drop(file);

            let file = io.open(&path, OpenHow::Read, IoClass::Read).await.unwrap();
            let (buf, got) = file.read_at(AlignedBuf::new(ALIGN_BYTES * 6), 0).await;
            assert_eq!(got.unwrap(), ALIGN_BYTES * 6);
            assert_eq!(buf[..ALIGN_BYTES * 3], filled(ALIGN_BYTES * 3, 0)[..]);
            assert_eq!(buf[ALIGN_BYTES * 3..], filled(ALIGN_BYTES * 3, 3)[..]);
        });
    }

    #[test]
    fn a_read_over_the_end_is_short() {
        let dir = scratch("short-read");
        on_one_shard(async move |io| {
            let path = dir.join("a");
            io.write_file_synced(&path, &[7; 5000]).await.unwrap();
            let file = io.open(&path, OpenHow::ReadWrite, IoClass::Read).await.unwrap();
            let (buf, got) = file.read_at(AlignedBuf::new(ALIGN_BYTES * 4), 0).await;
            assert_eq!(got.unwrap(), 5000);
            assert!(buf[..5000].iter().all(|byte| *byte == 7));
            let (_, got) = file.read_at(AlignedBuf::new(ALIGN_BYTES), 8 * ALIGN_BYTES as u64).await;
            assert_eq!(got.unwrap(), 0);
            file.set_len(ALIGN_BYTES as u64).await.unwrap();
            let (_, got) = file.read_at(AlignedBuf::new(ALIGN_BYTES * 2), 0).await;
            assert_eq!(got.unwrap(), ALIGN_BYTES);
        });
    }

    #[test]
    fn allocated_space_is_zeros_of_the_asked_length() {
        let dir = scratch("allocate");
        on_one_shard(async move |io| {
            let file = io.open(&dir.join("a"), OpenHow::CreateNew, IoClass::Log).await.unwrap();
            let len = super::ZERO_CHUNK_BYTES as u64 * 2 + ALIGN_BYTES as u64;
            file.allocate_zeroed(len).await.unwrap();
            assert_eq!(file.len().await.unwrap(), len);
            let (buf, got) = file.read_at(AlignedBuf::new(len as usize), 0).await;
            assert_eq!(got.unwrap() as u64, len);
            assert!(buf.iter().all(|byte| *byte == 0));
        });
    }

    #[test]
    fn how_a_file_is_opened_decides() {
        let dir = scratch("open-how");
        on_one_shard(async move |io| {
            let path = dir.join("a");
            let open = |how| io.open(&path, how, IoClass::Read);
            let missing = open(OpenHow::Read).await.err().unwrap();
            assert!(missing.is_not_found());
            assert_eq!(
                missing.to_string(),
                format!("open of {}: No such file or directory (os error 2)", path.display())
            );
            assert!(open(OpenHow::ReadWrite).await.is_err());
            let file = open(OpenHow::CreateNew).await.unwrap();
            file.write_at(filled(ALIGN_BYTES, 1), 0).await.1.unwrap();
            assert_eq!(open(OpenHow::CreateNew).await.err().unwrap().kind, std::io::ErrorKind::AlreadyExists);
            let emptied = open(OpenHow::CreateOrTruncate).await.unwrap();
            assert_eq!(emptied.len().await.unwrap(), 0);
            let read_only = open(OpenHow::Read).await.unwrap();
            assert!(read_only.write_at(filled(ALIGN_BYTES, 1), 0).await.1.is_err());
        });
    }

    #[test]
    fn more_operations_than_the_budget_all_complete() {
        let dir = scratch("budget");
        on_one_shard(async move |io| {
            let file = io.open(&dir.join("a"), OpenHow::CreateNew, IoClass::Compaction).await.unwrap();
            let done = std::rc::Rc::new(std::cell::Cell::new(0u64));
            let count = IoClass::Compaction.in_flight_max() * 5;
            for at in 0..count {
                let (file, done) = (file.clone(), done.clone());
                io.spawn(crate::io::TaskClass::Compaction, async move {
                    file.write_at(filled(ALIGN_BYTES, at as u8), at * ALIGN_BYTES as u64).await.1.unwrap();
                    done.set(done.get() + 1);
                });
            }
            while done.get() < count {
                io.yield_now().await;
            }
            assert_eq!(file.len().await.unwrap(), count * ALIGN_BYTES as u64);
        });
    }

    #[test]
    fn dropped_futures_leave_their_buffers_to_the_kernel() {
        let dir = scratch("dropped");
        on_one_shard(async move |io| {
            let path = dir.join("a");
            let file = io.open(&path, OpenHow::CreateNew, IoClass::Log).await.unwrap();
            file.allocate_zeroed(ALIGN_BYTES as u64 * 64).await.unwrap();
            for at in 0..64u64 {
                let mut write = Box::pin(file.write_at(filled(ALIGN_BYTES, 9), at * ALIGN_BYTES as u64));
                let waker = std::task::Waker::noop();
                let polled = write.as_mut().poll(&mut std::task::Context::from_waker(waker));
                assert!(polled.is_pending());
                if at % 2 == 0 {
                    io.yield_now().await; // some are in the kernel, some are not, when they are dropped
                }
            }
            drop(file);
            let file = io.open(&path, OpenHow::Read, IoClass::Read).await.unwrap();
            for at in 0..64u64 {
                // Dropped writes still complete: nobody waits, so look until it is there.
                loop {
                    let (buf, got) = file.read_at(AlignedBuf::new(ALIGN_BYTES), at * ALIGN_BYTES as u64).await;
                    assert_eq!(got.unwrap(), ALIGN_BYTES);
                    if buf[..] == filled(ALIGN_BYTES, 9)[..] {
                        break;
                    }
                }
            }
        });
    }
}
