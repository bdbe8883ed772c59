//! Looks before the start whether this system gives what a shard needs, and says in plain words what to change.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use io_uring::opcode;

use super::ring::{self, Setup};

/// Every opcode that the real half cannot do without.
const OPCODES: [(u8, &str); 15] = [
    (opcode::Read::CODE, "read"),
    (opcode::Write::CODE, "write"),
    (opcode::Fsync::CODE, "fsync"),
    (opcode::Fallocate::CODE, "fallocate"),
    (opcode::Statx::CODE, "statx"),
    (opcode::OpenAt::CODE, "openat"),
    (opcode::Close::CODE, "close"),
    (opcode::MkDirAt::CODE, "mkdirat"),
    (opcode::UnlinkAt::CODE, "unlinkat"),
    (opcode::RenameAt::CODE, "renameat"),
    (opcode::LinkAt::CODE, "linkat"),
    (opcode::Accept::CODE, "accept"),
    (opcode::Recv::CODE, "recv"),
    (opcode::Send::CODE, "send"),
    (opcode::PollAdd::CODE, "poll_add"),
];

/// What the system gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    pub kernel: String,
    /// Whether the kernel runs completions only when a shard asks (single issuer, deferred task run; Linux 6.1).
    pub deferred_completions: bool,
    /// Whether the directory's filesystem takes direct I/O.
    pub direct_io: bool,
    /// RLIMIT_MEMLOCK; `None` is unlimited.
    pub memlock_bytes: Option<u64>,
}

impl ProbeReport {
    /// What works, but not as well as it could, with the remedy: a line each for the log.
    pub fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.deferred_completions {
            let kernel = &self.kernel;
            lines.push(format!("Linux {kernel} has no deferred completions for io_uring: 6.1 or newer is faster"));
        }
        if !self.direct_io {
            lines.push(
                "the data directory's filesystem refuses O_DIRECT, so that every block passes the page cache: \
                        put it on ext4 or XFS"
                    .to_owned(),
            );
        }
        lines
    }
}

/// What is missing, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    #[error("this kernel (Linux {kernel}) has no io_uring; run Linux 5.15 or newer (6.1 is better)")]
    NoIoUring { kernel: String },
    #[error("io_uring is forbidden on this system: set it free with `sysctl -w kernel.io_uring_disabled=0`")]
    DisabledBySysctl,
    #[error(
        "io_uring is forbidden for this process's group: set `sysctl -w kernel.io_uring_disabled=0`, or put its user \
         into the group that kernel.io_uring_group names"
    )]
    DisabledForGroup,
    #[error(
        "io_uring is forbidden, most likely by a container's seccomp profile: allow io_uring_setup, io_uring_enter and \
         io_uring_register in it (docker: --security-opt seccomp=PROFILE; systemd: SystemCallFilter=@io-event @default)"
    )]
    Forbidden,
    #[error(
        "io_uring got no memory (limit of locked memory: {memlock_bytes:?} bytes): raise it with `ulimit -l` or \
         systemd's LimitMEMLOCK=infinity"
    )]
    NoMemory { memlock_bytes: Option<u64> },
    #[error("this kernel (Linux {kernel}) lacks these io_uring operations: {missing}; run Linux 5.15 or newer")]
    TooOld { kernel: String, missing: String },
    #[error("io_uring cannot be set up: {error}")]
    Failed { error: String },
    #[error("{dir} cannot be written: {error}")]
    Directory { dir: String, error: String },
}

/// Looks at io_uring, the limit of locked memory, and direct I/O in `dir`, which must exist.
pub fn probe(dir: &Path) -> Result<ProbeReport, ProbeError> {
    let kernel = kernel_release();
    let memlock_bytes = memlock_bytes();
    let (setup, ext_arg, mut missing) =
        ring::trial(&OPCODES).map_err(|error| explain(&error, kernel.clone(), memlock_bytes, io_uring_disabled()))?;
    if !ext_arg {
        missing.push("timed waits");
    }
    if !missing.is_empty() {
        return Err(ProbeError::TooOld { kernel, missing: missing.join(", ") });
    }
    let direct_io = try_direct_io(dir)
        .map_err(|error| ProbeError::Directory { dir: dir.display().to_string(), error: error.to_string() })?;
    Ok(ProbeReport { kernel, deferred_completions: setup == Setup::DeferredSingleIssuer, direct_io, memlock_bytes })
}

/// Why io_uring could not be set up; `disabled` is the sysctl kernel.io_uring_disabled.
fn explain(error: &io::Error, kernel: String, memlock_bytes: Option<u64>, disabled: Option<u8>) -> ProbeError {
    match (error.raw_os_error(), disabled) {
        (Some(libc::EPERM), Some(2)) => ProbeError::DisabledBySysctl,
        (Some(libc::EPERM), Some(1)) => ProbeError::DisabledForGroup,
        (Some(libc::EPERM | libc::EACCES), _) => ProbeError::Forbidden,
        // A seccomp profile may also answer ENOSYS; a kernel that has the sysctl has io_uring.
        (Some(libc::ENOSYS), Some(_)) => ProbeError::Forbidden,
        (Some(libc::ENOSYS), None) => ProbeError::NoIoUring { kernel },
        (Some(libc::ENOMEM), _) => ProbeError::NoMemory { memlock_bytes },
        _ => ProbeError::Failed { error: error.to_string() },
    }
}

fn io_uring_disabled() -> Option<u8> {
    fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?.trim().parse().ok()
}

fn kernel_release() -> String {
    // SAFETY: a utsname is plain bytes, for which zero is a value.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is whole for the length of the call, which ends each of its strings with NUL.
    let release = unsafe {
        libc::uname(&raw mut name);
        CStr::from_ptr(name.release.as_ptr())
    };
    release.to_string_lossy().into_owned()
}

fn memlock_bytes() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is whole for the length of the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// How the names of files begin that only live while a directory is probed: one may be left where the process was killed.
pub const PROBE_PREFIX: &str = ".probe-";

/// Whether a file in `dir` can be opened for direct I/O. Fails where no file can be made there at all.
fn try_direct_io(dir: &Path) -> io::Result<bool> {
    let path = dir.join(format!("{PROBE_PREFIX}{}", std::process::id()));
    fs::File::create(&path)?;
    let direct = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
    fs::remove_file(&path)?;
    match direct {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::testing::scratch;
    use super::*;

    #[test]
    fn this_system_passes() {
        let dir = scratch("probe");
        let report = probe(&dir).unwrap();
        assert!(report.kernel.contains('.'));
        assert!(fs::read_dir(&*dir).unwrap().next().is_none(), "nothing is left behind");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = probe(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(matches!(&error, ProbeError::Directory { dir, .. } if dir == "/nowhere/at/all"), "{error}");
    }

    #[test]
    fn each_cause_has_its_remedy() {
        let explained =
            |errno, disabled| explain(&io::Error::from_raw_os_error(errno), "5.4.0".into(), Some(65536), disabled);
        assert_eq!(explained(libc::EPERM, Some(2)), ProbeError::DisabledBySysctl);
        assert_eq!(explained(libc::EPERM, Some(1)), ProbeError::DisabledForGroup);
        assert_eq!(explained(libc::EPERM, Some(0)), ProbeError::Forbidden);
        assert_eq!(explained(libc::EPERM, None), ProbeError::Forbidden);
        assert_eq!(explained(libc::ENOSYS, Some(0)), ProbeError::Forbidden);
        assert_eq!(explained(libc::ENOSYS, None), ProbeError::NoIoUring { kernel: "5.4.0".into() });
        assert_eq!(explained(libc::ENOMEM, None), ProbeError::NoMemory { memlock_bytes: Some(65536) });
        assert!(explained(libc::EMFILE, None).to_string().contains("Too many open files"));
    }

    #[test]
    fn what_is_slow_is_said() {
        let report = |deferred_completions, direct_io| {
            ProbeReport { kernel: "5.15.0".into(), deferred_completions, direct_io, memlock_bytes: None }.warnings()
        };
        assert!(report(true, true).is_empty());
        assert!(report(false, true)[0].contains("5.15.0"));
        assert!(report(true, false)[0].contains("O_DIRECT"));
        assert_eq!(report(false, false).len(), 2);
    }
}
