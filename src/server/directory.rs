//! The data directory, before anything of it is read: whose it is, what stands in it, and the lock.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::io::{self, FileLock};
use crate::server::node::NodeError;
use crate::shard::root::{COMMITLOG_DIR, LOCK_FILE, ROOT_FILE, SNAPSHOTS_DIR, SSTABLES_DIR};

/// A file system's own directory, where it is mounted.
const LOST_AND_FOUND: &str = "lost+found";

/// Makes the directory this process's own. A directory that Helenus did not make is refused untouched.
pub fn take_directory(dir: &Path) -> Result<FileLock, NodeError> {
    let refused = |reason: String| NodeError::Directory(format!("{}: {reason}", dir.display()));
    match std::fs::symlink_metadata(dir) {
        Ok(found) if found.is_symlink() => {
            return Err(refused("is a symbolic link; give the directory itself".into()));
        }
        Ok(found) if !found.is_dir() => return Err(refused("is not a directory".into())),
        Ok(found) if found.uid() != io::effective_user() => {
            let (owner, user) = (found.uid(), io::effective_user());
            return Err(refused(format!("belongs to user {owner}, and this process runs as user {user}")));
        }
        Ok(_) => refuse_foreign(dir)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::create_dir_all(dir).map_err(|error| refused(format!("cannot be created: {error}")))?;
        }
        Err(error) => return Err(refused(error.to_string())),
    }
    let lock = dir.join(LOCK_FILE);
    io::lock_file(&lock).map_err(|error| match error.kind {
        std::io::ErrorKind::WouldBlock => refused("is in use by another process".into()),
        _ => refused(format!("cannot be used: {error}")),
    })
}

fn refuse_foreign(dir: &Path) -> Result<(), NodeError> {
    let refused = |reason: String| NodeError::Directory(format!("{}: {reason}", dir.display()));
    let entries = std::fs::read_dir(dir).map_err(|error| refused(format!("cannot be read: {error}")))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| refused(format!("cannot be read: {error}")))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = match entry.metadata() {
            Ok(found) => found.uid(),
            // Another process works here, as the lock will show.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(refused(format!("`{name}` cannot be read: {error}"))),
        };
        if owner != io::effective_user() && name != LOST_AND_FOUND {
            return Err(refused(format!("`{name}` in it belongs to user {owner}")));
        }
        names.push(name);
    }
    // A start that was killed may have left its probe.
    names.retain(|name| !name.starts_with(io::PROBE_PREFIX));
    let ours = [ROOT_FILE, LOCK_FILE, COMMITLOG_DIR, SSTABLES_DIR, SNAPSHOTS_DIR, LOST_AND_FOUND];
    if names.iter().any(|name| name == ROOT_FILE) || names.iter().all(|name| ours.contains(&name.as_str())) {
        return Ok(());
    }
    names.retain(|name| !ours.contains(&name.as_str()) && !crate::shard::manifest::is_manifest_file_name(name));
    names.sort_unstable();
    match names.first() {
        None => Ok(()),
        Some(first) => Err(refused(format!("is not empty and not a data directory of Helenus (it holds `{first}`)"))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("helenus-node-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        dir
    }

    fn reason(dir: &Path) -> String {
        match take_directory(dir) {
            Err(NodeError::Directory(reason)) => reason,
            other => panic!("not refused: {:?}", other.err()),
        }
    }

    #[test]
    fn a_fresh_directory_is_made_and_locked_once() {
        let dir = directory("fresh");
        let lock = take_directory(&dir).expect("free");
        assert!(reason(&dir).contains("in use by another process"));
        drop(lock);
        take_directory(&dir).expect("free again");
    }

    /// A start that was killed while it probed the directory leaves the next one a probe, and nothing else.
    #[test]
    fn a_probe_that_was_left_is_no_strangers() {
        let dir = directory("probed");
        std::fs::create_dir_all(&dir).expect("made");
        std::fs::write(dir.join(format!("{}77", io::PROBE_PREFIX)), "").expect("written");
        drop(take_directory(&dir).expect("ours"));
        std::fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn what_is_not_ours_is_refused_untouched() {
        let dir = directory("foreign");
        std::fs::create_dir_all(&dir).expect("made");
        std::fs::write(dir.join("thesis.tex"), "x").expect("written");
        assert!(reason(&dir).contains("thesis.tex"));
        assert_eq!(std::fs::read_dir(&dir).expect("readable").count(), 1);
        let link = directory("link");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&dir, &link).expect("linked");
        assert!(reason(&link).contains("symbolic link"));
        std::fs::remove_file(&link).expect("removed");
        assert!(reason(&dir.join("thesis.tex")).contains("not a directory"));
    }

    #[test]
    fn what_belongs_to_another_user_is_refused_untouched() {
        use std::os::unix::fs::chown;
        let dir = directory("owned");
        std::fs::create_dir_all(dir.join(SSTABLES_DIR)).expect("made");
        const OTHER: Option<u32> = Some(12_345);
        if chown(&dir, OTHER, None).is_err() {
            // Who may not give a directory away finds one of another user here.
            return assert!(reason(Path::new("/")).contains("belongs to user 0"));
        }
        assert!(reason(&dir).contains("belongs to user 12345"), "{}", reason(&dir));
        chown(&dir, Some(io::effective_user()), None).expect("taken back");
        chown(dir.join(SSTABLES_DIR), OTHER, None).expect("given away");
        assert!(reason(&dir).contains("`sstables` in it belongs to user 12345"), "{}", reason(&dir));
        assert_eq!(std::fs::read_dir(&dir).expect("readable").count(), 1);
        std::fs::create_dir(dir.join(LOST_AND_FOUND)).expect("made");
        chown(dir.join(LOST_AND_FOUND), OTHER, None).expect("given away");
        std::fs::remove_dir(dir.join(SSTABLES_DIR)).expect("removed");
        drop(take_directory(&dir).expect("a file system's own directory may be root's"));
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
