//! Directories that a campaign works in: below the build's `target`, on the disk that a server would use, removed
//! when done with unless something failed there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The `target` directory that this program was built into; where it was moved elsewhere, the one under the
/// working directory.
pub fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let built_in = exe.ancestors().find(|dir| dir.file_name().is_some_and(|name| name == "target"));
    match built_in {
        Some(dir) => dir.to_path_buf(),
        None => std::env::current_dir().unwrap_or_default().join("target"),
    }
}

/// A directory of its own, removed on drop unless kept.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// A new, empty directory `target/campaign/NAME-PID-N`.
    pub fn new(name: &str) -> io::Result<Scratch> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = target_dir().join("campaign").join(format!("{name}-{}-{number}", std::process::id()));
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir_all(&path)?;
        Ok(Scratch { path, keep: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it on disk, for someone to look at.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            eprintln!("{} stays: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn two_directories_of_one_name_are_apart_and_go_when_dropped() {
        let (one, two) = (Scratch::new("same").unwrap(), Scratch::new("same").unwrap());
        assert_ne!(one.path(), two.path());
        let path = one.path().to_path_buf();
        std::fs::write(path.join("file"), "x").unwrap();
        drop(one);
        assert!(!path.exists());
        assert!(two.path().is_dir());
    }

    #[test]
    fn a_kept_directory_stays() {
        let mut kept = Scratch::new("kept").unwrap();
        kept.keep();
        let path = kept.path().to_path_buf();
        drop(kept);
        assert!(path.is_dir());
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_test_binary_lies_in_the_target_directory() {
        assert!(std::env::current_exe().unwrap().starts_with(target_dir()));
    }
}
