//! Names: open, make, link, rename, remove, list, sync.

use std::ffi::CString;
use std::io::ErrorKind;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::core::Core;
use super::fd::Fd;
use super::file::File;
use super::ops::Work;
use crate::io::{ALIGN_BYTES, AlignedBuf, DirEntry, IoClass, IoError, OpenHow};

impl Core {
    pub async fn open(&self, path: &Path, how: OpenHow, class: IoClass) -> Result<File, IoError> {
        let flags = match how {
            OpenHow::Read => libc::O_RDONLY,
            OpenHow::ReadWrite => libc::O_RDWR,
            OpenHow::CreateNew => libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
            OpenHow::CreateOrTruncate => libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
        };
        let fd = self.open_fd(path, flags).await?;
        let direct = make_direct(&fd);
        Ok(File::new(self, fd, path, class, direct))
    }

    async fn open_fd(&self, path: &Path, flags: i32) -> Result<Fd, IoError> {
        let work = Work::Open { path: c_path("open", path)?, flags };
        let (_, result) = self.run(work).await;
        let raw = result.map_err(|errno| IoError::os("open", Some(path), errno))?;
        let raw = i32::try_from(raw).expect("the kernel gave a descriptor, which is an int");
        // SAFETY: the kernel just made this descriptor for us; nothing else knows it.
        Ok(Fd::new(self, unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    pub async fn create_dir_all(&self, path: &Path) -> Result<(), IoError> {
        // From the path upwards to what exists, then downwards again.
        let mut missing = vec![path];
        while let Some(&at) = missing.last() {
            match self.make_dir(at).await {
                Ok(()) => {
                    missing.pop();
                }
                Err(error) if error.kind == ErrorKind::AlreadyExists && self.is_dir(at).await? => {
                    missing.pop();
                }
                Err(error) if error.is_not_found() => match at.parent() {
                    Some(parent) if parent != Path::new("") => missing.push(parent),
                    _ => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn make_dir(&self, path: &Path) -> Result<(), IoError> {
        self.run_on_name("create directory", path, Work::MakeDir { path: c_path("create directory", path)? }).await
    }

    pub async fn remove_file(&self, path: &Path) -> Result<(), IoError> {
        self.run_on_name("remove", path, Work::Unlink { path: c_path("remove", path)?, flags: 0 }).await
    }

    pub async fn remove_dir(&self, path: &Path) -> Result<(), IoError> {
        let work = Work::Unlink { path: c_path("remove", path)?, flags: libc::AT_REMOVEDIR };
        self.run_on_name("remove", path, work).await
    }

    pub async fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        let work = Work::Rename { from: c_path("rename", from)?, to: c_path("rename", to)? };
        self.run_on_name("rename", from, work).await
    }

    pub async fn hard_link(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        let work = Work::Link { from: c_path("link", from)?, to: c_path("link", to)? };
        self.run_on_name("link", from, work).await
    }

    async fn run_on_name(&self, op: &'static str, path: &Path, work: Work) -> Result<(), IoError> {
        let (_, result) = self.run(work).await;
        result.map(drop).map_err(|errno| IoError::os(op, Some(path), errno))
    }

    pub async fn sync_dir(&self, path: &Path) -> Result<(), IoError> {
        let fd = self.open_fd(path, libc::O_RDONLY | libc::O_DIRECTORY).await?;
        self.run_on_name("sync", path, Work::SyncData { fd }).await
    }

    pub async fn list_dir(&self, path: &Path) -> Result<Vec<DirEntry>, IoError> {
        let owned = path.to_path_buf();
        let listed = self.blocking(move || list(&owned)).await;
        listed.map_err(|error| IoError::from_std("list", Some(path), &error))
    }

    pub async fn exists(&self, path: &Path) -> Result<bool, IoError> {
        match self.stat(path).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn is_dir(&self, path: &Path) -> Result<bool, IoError> {
        Ok(u32::from(self.stat(path).await?.stx_mode) & libc::S_IFMT == libc::S_IFDIR)
    }

    async fn stat(&self, path: &Path) -> Result<Box<libc::statx>, IoError> {
        let work = Work::Stat { fd: None, path: c_path("stat", path)?, out: empty_stat() };
        match self.run(work).await {
            (Work::Stat { out, .. }, Ok(_)) => Ok(out),
            (_, Err(errno)) => Err(IoError::os("stat", Some(path), errno)),
            (_, Ok(_)) => unreachable!("a stat comes back as one"),
        }
    }

    pub async fn read_file(&self, path: &Path) -> Result<Vec<u8>, IoError> {
        let file = self.open(path, OpenHow::Read, IoClass::Read).await?;
        let len = usize::try_from(file.len().await?).map_err(|_| IoError::os("read", Some(path), libc::EFBIG))?;
        let (buf, result) = file.read_at(AlignedBuf::new(len.next_multiple_of(ALIGN_BYTES)), 0).await;
        let got = result?;
        Ok(buf[..got].to_vec())
    }

    pub async fn write_file_synced(&self, path: &Path, bytes: &[u8]) -> Result<(), IoError> {
        // Not direct: the length is any.
        let fd = self.open_fd(path, libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC).await?;
        let file = File::new(self, fd, path, IoClass::Log, false);
        let mut buf = AlignedBuf::new(bytes.len());
        buf.copy_from_slice(bytes);
        file.write(buf, 0, false).await.1?;
        file.sync_data().await
    }

    pub async fn free_bytes(&self, path: &Path) -> Result<u64, IoError> {
        let owned = c_path("statvfs", path)?;
        let free = self.blocking(move || statvfs_free(&owned)).await;
        free.map_err(|error| IoError::from_std("statvfs", Some(path), &error))
    }
}

/// Turns on direct I/O where the filesystem takes it. Set after the open, because a create that is refused for its
/// O_DIRECT has made the file all the same.
fn make_direct(fd: &Fd) -> bool {
    // SAFETY: these commands take and give integers; the descriptor is ours.
    unsafe {
        let flags = libc::fcntl(fd.raw(), libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd.raw(), libc::F_SETFL, flags | libc::O_DIRECT) == 0
    }
}

fn c_path(op: &'static str, path: &Path) -> Result<CString, IoError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| IoError::kind(op, Some(path), ErrorKind::InvalidInput))
}

pub(super) fn empty_stat() -> Box<libc::statx> {
    // SAFETY: a statx is plain integers, for which zero is a value.
    Box::new(unsafe { std::mem::zeroed() })
}

/// The length that a finished stat found.
pub(super) fn file_len(work: &Work) -> u64 {
    match work {
        Work::Stat { out, .. } => out.stx_size,
        _ => unreachable!("a stat comes back as one"),
    }
}

fn list(path: &Path) -> std::io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // Removed since the directory was read.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        entries.push(DirEntry {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_dir: metadata.is_dir(),
            len_bytes: metadata.len(),
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn statvfs_free(path: &CString) -> std::io::Result<u64> {
    // SAFETY: a statvfs is plain integers, for which zero is a value.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with NUL and `stat` is whole; both live for the length of the call.
    match unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) } {
        0 => Ok(stat.f_bavail.saturating_mul(stat.f_frsize)),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::testing::{on_one_shard, scratch};
    use crate::io::{DirEntry, IoClass, OpenHow};
    use std::io::ErrorKind;
    use std::path::Path;

    #[test]
    fn small_files_are_written_and_read_whole() {
        let dir = scratch("small-files");
        on_one_shard(async move |io| {
            let path = dir.join("root");
            for content in [&b"hello"[..], &[9; 10_000], b"", &[1; 4096]] {
                io.write_file_synced(&path, content).await.unwrap();
                assert_eq!(io.read_file(&path).await.unwrap(), content);
            }
            assert!(io.read_file(&dir.join("none")).await.err().unwrap().is_not_found());
        });
    }

    #[test]
    fn names_are_made_linked_renamed_listed_and_removed() {
        let dir = scratch("names");
        on_one_shard(async move |io| {
            let deep = dir.join("a/b/c");
            io.create_dir_all(&deep).await.unwrap();
            io.create_dir_all(&deep).await.unwrap();
            io.write_file_synced(&deep.join("z"), b"123").await.unwrap();
            io.hard_link(&deep.join("z"), &deep.join("y")).await.unwrap();
            io.rename(&deep.join("z"), &deep.join("x")).await.unwrap();
            io.create_dir_all(&deep.join("w")).await.unwrap();
            io.sync_dir(&deep).await.unwrap();
            let entry = |name: &str, is_dir, len_bytes| DirEntry { name: name.into(), is_dir, len_bytes };
            let mut listed = io.list_dir(&deep).await.unwrap();
            listed[0].len_bytes = 0; // a directory's own length is the filesystem's affair
            assert_eq!(listed, [entry("w", true, 0), entry("x", false, 3), entry("y", false, 3)]);
            assert!(io.exists(&deep.join("x")).await.unwrap());
            assert!(!io.exists(&deep.join("z")).await.unwrap());
            assert!(!io.exists(&deep.join("x/under-a-file")).await.unwrap());
            assert!(io.remove_dir(&deep).await.is_err(), "not empty");
            for name in ["x", "y"] {
                io.remove_file(&deep.join(name)).await.unwrap();
            }
            io.remove_dir(&deep.join("w")).await.unwrap();
            io.remove_dir(&deep).await.unwrap();
            assert!(io.list_dir(&deep).await.err().unwrap().is_not_found());
        });
    }

    #[test]
    fn a_file_in_the_way_of_a_directory_is_an_error() {
        let dir = scratch("in-the-way");
        on_one_shard(async move |io| {
            io.write_file_synced(&dir.join("f"), b"").await.unwrap();
            let error = io.create_dir_all(&dir.join("f")).await.err().unwrap();
            assert_eq!(error.kind, ErrorKind::AlreadyExists);
            assert!(io.create_dir_all(&dir.join("f/g")).await.is_err());
            let error = io.rename(&dir.join("none"), &dir.join("other")).await.err().unwrap();
            assert!(error.is_not_found());
            let error = io.exists(Path::new("a\0b")).await.err().unwrap();
            assert_eq!(error.kind, ErrorKind::InvalidInput);
        });
    }

    #[test]
    fn free_space_is_told() {
        let dir = scratch("free");
        on_one_shard(async move |io| {
            assert!(io.free_bytes(&dir).await.unwrap() > 0);
            assert!(io.free_bytes(&dir.join("none")).await.is_err());
        });
    }

    #[test]
    fn a_filesystem_without_direct_io_works_too() {
        let dir = Path::new("/dev/shm");
        if !dir.is_dir() {
            return;
        }
        on_one_shard(async move |io| {
            let path = dir.join(format!("helenus-io-{}", std::process::id()));
            let file = io.open(&path, OpenHow::CreateNew, IoClass::Log).await.unwrap();
            file.write_at_synced(io.buffer(8192), 0).await.1.unwrap();
            let (_, got) = file.read_at(io.buffer(16384), 0).await;
            assert_eq!(got.unwrap(), 8192);
            io.remove_file(&path).await.unwrap();
        });
    }
}
