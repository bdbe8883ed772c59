//! The simulated disk from a test's side: look at it, damage it, copy it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::disk::Disk;

/// The disk of a simulation. What it changes is durable at once, as if the hardware had done it.
pub struct DiskView<'a> {
    disk: &'a RefCell<Disk>,
}

/// A copy of a whole disk: what is durable and what is pending.
#[derive(Clone)]
pub struct DiskImage(Disk);

impl<'a> DiskView<'a> {
    pub(super) fn new(disk: &'a RefCell<Disk>) -> Self {
        DiskView { disk }
    }

    /// Every file, in order of path.
    pub fn files(&self) -> Vec<PathBuf> {
        self.disk.borrow().list_all()
    }

    /// All bytes of a file as a reader sees them; `None` where there is no such file.
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.disk.borrow();
        let node = disk.resolve(path).ok()?;
        disk.file(node).ok().map(|file| file.to_vec())
    }

    pub fn len_bytes(&self, path: &Path) -> Option<u64> {
        let disk = self.disk.borrow();
        let node = disk.resolve(path).ok()?;
        disk.file(node).ok().map(|file| file.len() as u64)
    }

    /// Overwrites bytes of a file, or adds to its end. False where there is no such file.
    pub fn overwrite(&self, path: &Path, offset_bytes: u64, bytes: &[u8]) -> bool {
        let mut disk = self.disk.borrow_mut();
        let Ok(offset) = usize::try_from(offset_bytes) else { return false };
        match disk.resolve(path).and_then(|node| disk.file_mut(node)) {
            Ok(file) => {
                file.overwrite(offset, bytes);
                true
            }
            Err(_) => false,
        }
    }

    /// Flips the bits of `mask` in one byte. False where the file has no such byte.
    pub fn flip(&self, path: &Path, offset_bytes: u64, mask: u8) -> bool {
        let byte = usize::try_from(offset_bytes).ok().and_then(|at| self.read(path)?.get(at).copied());
        byte.is_some_and(|byte| self.overwrite(path, offset_bytes, &[byte ^ mask]))
    }

    /// Cuts a file, or adds zeros. False where there is no such file.
    pub fn truncate(&self, path: &Path, len_bytes: u64) -> bool {
        let mut disk = self.disk.borrow_mut();
        let Ok(len) = usize::try_from(len_bytes) else { return false };
        match disk.resolve(path).and_then(|node| disk.file_mut(node)) {
            Ok(file) => {
                file.set_len(len);
                file.sync(file.mark());
                true
            }
            Err(_) => false,
        }
    }

    /// Gives a file these bytes; creates it, and its directories, where it is missing.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), i32> {
        let mut disk = self.disk.borrow_mut();
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        if let Some(directory) = above.first() {
            disk.create_dir_all(directory)?;
        }
        let node = disk.create(path, false)?;
        disk.write(node, 0, bytes, true)?;
        disk.close(node);
        above.reverse();
        above.into_iter().try_for_each(|directory| disk.sync_dir(directory))
    }

    /// Removes a file. False where there is none.
    pub fn remove(&self, path: &Path) -> bool {
        let mut disk = self.disk.borrow_mut();
        let removed = disk.remove_file(path).is_ok();
        removed && path.parent().is_some_and(|parent| disk.sync_dir(parent).is_ok())
    }

    pub fn set_capacity_bytes(&self, bytes: u64) {
        self.disk.borrow_mut().set_capacity(bytes);
    }

    /// What the files take, in whole blocks.
    pub fn used_bytes(&self) -> u64 {
        self.disk.borrow().used_bytes()
    }

    /// A copy of the disk. Take it while the node is down: open files are not part of it.
    pub fn image(&self) -> DiskImage {
        let mut disk = self.disk.borrow().clone();
        disk.forget_handles();
        DiskImage(disk)
    }

    /// Replaces the disk by a copy taken before, of this or of another simulation.
    ///
    /// # Panics
    /// Where a file is open: take the node down first.
    pub fn restore(&self, image: &DiskImage) {
        assert!(!self.disk.borrow().has_handles(), "a file is open on the disk that is replaced");
        *self.disk.borrow_mut() = image.0.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::{Faults, Simulation};

    fn p(path: &str) -> &Path {
        Path::new(path)
    }

    #[test]
    fn a_disk_is_written_read_damaged_and_cut() {
        let sim = Simulation::new(1, Faults::NONE);
        let disk = sim.disk();
        assert_eq!(disk.write(p("/a/b/c"), b"hello"), Ok(()));
        assert_eq!(disk.files(), [PathBuf::from("/a/b/c")]);
        assert!(disk.flip(p("/a/b/c"), 0, 0x20));
        assert!(disk.overwrite(p("/a/b/c"), 4, b"O!"));
        assert_eq!(disk.read(p("/a/b/c")).as_deref(), Some(&b"HellO!"[..]));
        assert!(disk.truncate(p("/a/b/c"), 2));
        assert_eq!(disk.len_bytes(p("/a/b/c")), Some(2));
        assert!(!disk.flip(p("/a/b/c"), 2, 1));
        assert!(!disk.flip(p("/a/none"), 0, 1));
        sim.crash();
        assert_eq!(disk.read(p("/a/b/c")).as_deref(), Some(&b"He"[..]), "all of it was durable");
        assert!(disk.remove(p("/a/b/c")));
        assert!(!disk.remove(p("/a/b/c")));
        assert_eq!(disk.used_bytes(), 0);
    }

    #[test]
    fn an_image_is_a_copy_that_another_simulation_can_take() {
        let sim = Simulation::new(1, Faults::NONE);
        sim.disk().write(p("/f"), b"one").expect("written");
        let image = sim.disk().image();
        sim.disk().write(p("/f"), b"two").expect("written");
        let other = Simulation::new(2, Faults::NONE);
        other.disk().restore(&image);
        assert_eq!(other.disk().read(p("/f")).as_deref(), Some(&b"one"[..]));
        assert_eq!(sim.disk().read(p("/f")).as_deref(), Some(&b"two"[..]));
    }
}
