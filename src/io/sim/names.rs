//! Operations on names: open, create, rename, link, remove, list, and the sync that makes names durable. Each takes
//! effect when its virtual delay ends.

use std::path::Path;

use super::disk::{Disk, Listed};
use super::faults::DiskOp;
use super::file::{File, NAME_US, OpenFile, SYNC_US};
use super::handle::Core;
use super::trace::Kind;
use crate::io::{AlignedBuf, DirEntry, IoClass, IoError, OpenHow};

impl Core {
    pub async fn open(&self, path: &Path, how: OpenHow, _class: IoClass) -> Result<File, IoError> {
        let node = self.on_path("open", DiskOp::Name, path, |disk| match how {
            OpenHow::Read | OpenHow::ReadWrite => disk.open(path),
            OpenHow::CreateNew => disk.create(path, true),
            OpenHow::CreateOrTruncate => disk.create(path, false),
        });
        let node = node.await?;
        let writable = how != OpenHow::Read;
        Ok(File::new(OpenFile::new(self.world().clone(), node, path, writable), self.owner()))
    }

    pub async fn create_dir_all(&self, path: &Path) -> Result<(), IoError> {
        self.change("create_dir", path, |disk| disk.create_dir_all(path)).await
    }

    pub async fn remove_file(&self, path: &Path) -> Result<(), IoError> {
        self.change("remove", path, |disk| disk.remove_file(path)).await
    }

    pub async fn remove_dir(&self, path: &Path) -> Result<(), IoError> {
        self.change("remove_dir", path, |disk| disk.remove_dir(path)).await
    }

    pub async fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        self.change("rename", from, |disk| disk.rename(from, to)).await
    }

    pub async fn hard_link(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        self.change("hard_link", from, |disk| disk.hard_link(from, to)).await
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
        let entry = |listed: Listed| DirEntry { name: listed.name, is_dir: listed.is_dir, len_bytes: listed.len_bytes };
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

    /// A change of names. One that failed by fault was made or not.
    async fn change(
        &self,
        verb: &'static str,
        path: &Path,
        change: impl FnOnce(&mut Disk) -> Result<(), i32>,
    ) -> Result<(), IoError> {
        let world = self.world();
        let half = |disk: &mut Disk| match world.disk_fault(DiskOp::Name, path) {
            Some(errno) => {
                if world.disk_random.coin() {
                    // Whether it could be made is hidden by the fault.
                    let _ = change(disk);
                }
                Err(errno)
            }
            None => change(disk),
        };
        self.after_delay(verb, DiskOp::Name, path, half).await
    }

    /// An operation on a path which, where it fails by fault, has no effect.
    async fn on_path<T>(
        &self,
        verb: &'static str,
        op: DiskOp,
        path: &Path,
        change: impl FnOnce(&mut Disk) -> Result<T, i32>,
    ) -> Result<T, IoError> {
        let world = self.world();
        let whole = |disk: &mut Disk| world.disk_fault(op, path).map_or_else(|| change(disk), Err);
        self.after_delay(verb, op, path, whole).await
    }

    async fn after_delay<T>(
        &self,
        verb: &'static str,
        op: DiskOp,
        path: &Path,
        change: impl FnOnce(&mut Disk) -> Result<T, i32>,
    ) -> Result<T, IoError> {
        let world = self.world();
        world.sleep(self.owner(), world.disk_delay_ns(NAME_US)).await;
        world.note(Kind::Name, u64::from(crc32c::crc32c(path.as_os_str().as_encoded_bytes())), op as u64);
        let result = change(&mut world.disk.borrow_mut());
        result.map_err(|errno| IoError::os(verb, Some(path), errno))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DiskOp, Faults, Planned, Simulation};
    use crate::io::Io;
    use std::future::Future;
    use std::path::Path;

    fn p(path: &str) -> &Path {
        Path::new(path)
    }

    fn on_node<F, Fut>(sim: &Simulation, task: F) -> Fut::Output
    where
        F: FnOnce(Io) -> Fut,
        Fut: Future + 'static,
    {
        sim.run_on_node(task).expect("runs to its end")
    }

    #[test]
    fn small_files_and_names() {
        let sim = Simulation::new(2, Faults::NONE);
        let listed = on_node(&sim, |io| async move {
            io.create_dir_all(p("/d/e")).await.expect("made");
            io.write_file_synced(p("/d/b"), b"12345").await.expect("written");
            io.write_file_synced(p("/d/b"), b"123").await.expect("written over");
            io.rename(p("/d/b"), p("/d/a")).await.expect("renamed");
            io.hard_link(p("/d/a"), p("/d/c")).await.expect("linked");
            io.remove_file(p("/d/c")).await.expect("removed");
            assert_eq!(io.read_file(p("/d/a")).await, Ok(b"123".to_vec()));
            assert_eq!(io.exists(p("/d/b")).await, Ok(false));
            let missing = io.read_file(p("/d/b")).await.expect_err("missing");
            assert_eq!(missing.to_string(), "open of /d/b: No such file or directory (os error 2)");
            let listed = io.list_dir(p("/d")).await.expect("listed");
            io.remove_dir(p("/d/e")).await.expect("removed");
            listed.into_iter().map(|entry| (entry.name, entry.is_dir, entry.len_bytes)).collect::<Vec<_>>()
        });
        assert_eq!(listed, [("a".to_string(), false, 3), ("e".to_string(), true, 0)]);
    }

    #[test]
    fn a_rename_is_durable_after_the_sync_of_its_directory() {
        let mut undone = 0;
        for seed in 0..60 {
            let sim = Simulation::new(seed, Faults::NONE);
            on_node(&sim, |io| async move {
                io.write_file_synced(p("/current"), b"old").await.expect("written");
                io.sync_dir(p("/")).await.expect("synced");
                io.write_file_synced(p("/tmp"), b"new").await.expect("written");
                io.rename(p("/tmp"), p("/current")).await.expect("renamed");
            });
            if seed % 2 == 0 {
                on_node(&sim, |io| async move { io.sync_dir(p("/")).await.expect("synced") });
            }
            sim.crash();
            let current = sim.disk().read(p("/current")).expect("one or the other, always whole");
            match current.as_slice() {
                b"new" => {}
                b"old" if seed % 2 == 1 => undone += 1,
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        assert!((5..30).contains(&undone), "{undone}");
    }

    #[test]
    fn a_failed_sync_of_a_directory_is_an_error() {
        let sim = Simulation::new(0, Faults::NONE);
        sim.plan_fault(Planned { op: DiskOp::SyncDir, path_contains: "/".into(), after: 1, errno: libc::EIO });
        let synced = on_node(&sim, |io| async move { (io.sync_dir(p("/")).await, io.sync_dir(p("/")).await) });
        assert!(synced.0.is_ok());
        assert_eq!(
            synced.1.map_err(|error| error.to_string()),
            Err("sync_dir of /: Input/output error (os error 5)".into())
        );
    }

    #[test]
    fn a_change_that_failed_was_made_or_not() {
        let made = |seed| {
            let sim = Simulation::new(seed, Faults::NONE);
            sim.disk().write(p("/a"), b"").expect("written");
            sim.plan_fault(Planned { op: DiskOp::Name, path_contains: "/a".into(), after: 0, errno: libc::EIO });
            let failed = on_node(&sim, |io| async move { io.rename(p("/a"), p("/b")).await });
            assert_eq!(failed.map_err(|error| error.raw_os), Err(Some(libc::EIO)));
            sim.disk().read(p("/b")).is_some()
        };
        let made: std::collections::BTreeSet<bool> = (0..20).map(made).collect();
        assert_eq!(made.len(), 2);
    }

    #[test]
    fn a_rename_between_directories_may_leave_the_name_in_both_or_neither() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let sim = Simulation::new(seed, Faults::NONE);
            sim.disk().write(p("/from/f"), b"bytes").expect("written");
            sim.disk().write(p("/to/other"), b"").expect("written");
            on_node(&sim, |io| async move { io.rename(p("/from/f"), p("/to/f")).await.expect("renamed") });
            sim.crash();
            seen.insert((sim.disk().read(p("/from/f")).is_some(), sim.disk().read(p("/to/f")).is_some()));
        }
        assert_eq!(seen.len(), 4, "sync the directory that gains the name first: {seen:?}");
    }
}
