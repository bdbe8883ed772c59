//! The lock of a data directory: one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use crate::io::IoError;

/// Holds a lock until dropped, or until the process ends in whatever way.
#[derive(Debug)]
pub struct FileLock {
    _held: File,
}

/// Takes the lock on `path`, which is made where it is missing. Fails at once, with `WouldBlock`, where another has it.
pub fn lock_file(path: &Path) -> Result<FileLock, IoError> {
    let failed = |error: std::io::Error| IoError::from_std("lock", Some(path), &error);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(FileLock { _held: file }),
        Err(TryLockError::WouldBlock) => Err(IoError::kind("lock", Some(path), std::io::ErrorKind::WouldBlock)),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// The user as whom this process makes files.
pub fn effective_user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::testing::scratch;
    use super::*;

    #[test]
    fn one_at_a_time() {
        let dir = scratch("lock");
        let path = dir.join("LOCK");
        let held = lock_file(&path).unwrap();
        assert_eq!(lock_file(&path).unwrap_err().kind, std::io::ErrorKind::WouldBlock);
        drop(held);
        lock_file(&path).unwrap();
        assert!(lock_file(&dir.join("none/LOCK")).unwrap_err().is_not_found());
    }
}
