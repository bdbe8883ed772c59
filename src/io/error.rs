//! The error of every operation on the outside: what was tried, on what, and what the system said.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A failed operation. Displays as `write of /data/x: No space left on device (os error 28)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoError {
    pub kind: ErrorKind,
    /// errno, where the operating system failed the operation.
    pub raw_os: Option<i32>,
    /// The operation's verb: `open`, `read`, `write`, `sync` …
    pub op: &'static str,
    pub path: Option<PathBuf>,
}

impl IoError {
    /// A failure that the operating system names by errno.
    pub fn os(op: &'static str, path: Option<&Path>, errno: i32) -> Self {
        Self::from_std(op, path, &std::io::Error::from_raw_os_error(errno))
    }

    /// A failure that has no errno, such as a write of zero bytes.
    pub fn kind(op: &'static str, path: Option<&Path>, kind: ErrorKind) -> Self {
        IoError { kind, raw_os: None, op, path: path.map(Path::to_path_buf) }
    }

    pub fn from_std(op: &'static str, path: Option<&Path>, error: &std::io::Error) -> Self {
        IoError { kind: error.kind(), raw_os: error.raw_os_error(), op, path: path.map(Path::to_path_buf) }
    }

    /// The device or a quota is full: the one failure that goes away by itself when space is made.
    pub fn is_no_space(&self) -> bool {
        matches!(self.kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
    }

    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op)?;
        if let Some(path) = &self.path {
            write!(f, " of {}", path.display())?;
        }
        match self.raw_os {
            Some(errno) => write!(f, ": {}", std::io::Error::from_raw_os_error(errno)),
            None => write!(f, ": {}", self.kind),
        }
    }
}

impl std::error::Error for IoError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_operation_path_and_cause() {
        let error = IoError::os("write", Some(Path::new("/p/x")), libc::ENOSPC);
        assert_eq!(error.to_string(), "write of /p/x: No space left on device (os error 28)");
        assert!(error.is_no_space());
        assert!(!error.is_not_found());
    }

    #[test]
    fn an_error_without_errno_names_its_kind() {
        let error = IoError::kind("recv", None, ErrorKind::ConnectionReset);
        assert_eq!(error.to_string(), "recv: connection reset");
        assert_eq!(error.raw_os, None);
    }

    #[test]
    fn quota_and_file_size_limits_count_as_no_space() {
        assert!(IoError::os("write", None, libc::EDQUOT).is_no_space());
        assert!(IoError::os("write", None, libc::EFBIG).is_no_space());
        assert!(!IoError::os("write", None, libc::EIO).is_no_space());
    }
}
