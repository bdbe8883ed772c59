//! The simulated disk: files and directories, each with what is durable and what is pending. It outlives every crash of
//! the node; `crash` decides over what was pending.
//!
//! What it promises is what POSIX and a disk with a volatile cache promise, and no more. Data is durable after a sync of
//! its file (or a synced write); a name is durable after a sync of its directory, and never because its file was synced.
//! A rename within one directory is atomic; between two directories it is a link in the one and an unlink in the other,
//! each durable with its own directory. Errors are errno values; the layer above adds operation and path.

mod contents;
mod directory;

use std::path::{Component, Path, PathBuf};

pub(super) use contents::{Contents, Fate};
use directory::Directory;

use super::random::Random;

/// A file's or directory's number, reused only after nothing can lead to it any more.
pub(super) type NodeId = u32;

const ROOT: NodeId = 0;

/// The unit in which a disk that has a limit accounts for space.
const BLOCK_BYTES: u64 = 4096;

type Errno = i32;

#[derive(Clone, Debug)]
enum Body {
    File(Contents),
    Directory(Directory),
}

#[derive(Clone, Debug)]
struct Node {
    body: Body,
    /// Open handles.
    opens: u32,
}

/// What `list` tells of a name.
pub(super) struct Listed {
    pub name: String,
    pub is_dir: bool,
    pub len_bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Disk {
    nodes: Vec<Option<Node>>,
    free: Vec<NodeId>,
    capacity_bytes: u64,
}

impl Disk {
    pub fn new(capacity_bytes: u64) -> Self {
        let root = Node { body: Body::Directory(Directory::default()), opens: 0 };
        Disk { nodes: vec![Some(root)], free: Vec::new(), capacity_bytes }
    }

    pub fn set_capacity(&mut self, capacity_bytes: u64) {
        self.capacity_bytes = capacity_bytes;
    }

    pub fn free_bytes(&self) -> u64 {
        if self.capacity_bytes == u64::MAX {
            return u64::MAX >> 1;
        }
        self.capacity_bytes.saturating_sub(self.used_bytes())
    }

    /// What every file that a visible name or an open handle leads to takes, in whole blocks.
    pub fn used_bytes(&self) -> u64 {
        let mut named = vec![false; self.nodes.len()];
        for directory in self.directories() {
            for node in directory.visible().values() {
                named[*node as usize] = true;
            }
        }
        let used = self.nodes.iter().zip(named).filter_map(|(node, named)| match node {
            Some(Node { body: Body::File(file), opens }) if named || *opens > 0 => {
                Some((file.len() as u64).next_multiple_of(BLOCK_BYTES))
            }
            _ => None,
        });
        used.sum()
    }

    /// The node that `path` leads to.
    pub fn resolve(&self, path: &Path) -> Result<NodeId, Errno> {
        path.components().try_fold(ROOT, |at, component| match component {
            Component::RootDir | Component::CurDir => Ok(at),
            Component::Normal(name) => self.directory(at)?.get(name.to_str().ok_or(libc::EINVAL)?).ok_or(libc::ENOENT),
            Component::ParentDir | Component::Prefix(_) => Err(libc::EINVAL),
        })
    }

    /// The node of the directory that holds `path`, and the name in it.
    fn parent<'a>(&self, path: &'a Path) -> Result<(NodeId, &'a str), Errno> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(libc::EINVAL)?;
        let directory = self.resolve(path.parent().unwrap_or(Path::new("/")))?;
        self.directory(directory)?;
        Ok((directory, name))
    }

    pub fn exists(&self, path: &Path) -> Result<bool, Errno> {
        match self.resolve(path) {
            Ok(_) => Ok(true),
            Err(libc::ENOENT | libc::ENOTDIR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Opens a file that exists.
    pub fn open(&mut self, path: &Path) -> Result<NodeId, Errno> {
        let node = self.resolve(path)?;
        self.file(node)?;
        self.opened(node);
        Ok(node)
    }

    /// Creates a file and opens it; with `exclusive` it must not exist, else it is emptied.
    pub fn create(&mut self, path: &Path, exclusive: bool) -> Result<NodeId, Errno> {
        let (directory, name) = self.parent(path)?;
        let node = match self.directory(directory)?.get(name) {
            Some(_) if exclusive => return Err(libc::EEXIST),
            Some(node) => {
                self.file_mut(node)?.set_len(0);
                node
            }
            None => {
                self.needs_bytes(BLOCK_BYTES)?;
                let node = self.add(Body::File(Contents::default()));
                self.directory_mut(directory)?.link(name, node);
                node
            }
        };
        self.opened(node);
        Ok(node)
    }

    pub fn close(&mut self, node: NodeId) {
        if let Some(Some(node)) = self.nodes.get_mut(node as usize) {
            debug_assert!(node.opens > 0);
            node.opens -= 1;
        }
    }

    pub fn create_dir_all(&mut self, path: &Path) -> Result<(), Errno> {
        let mut at = ROOT;
        for component in path.components() {
            let name = match component {
                Component::RootDir | Component::CurDir => continue,
                Component::Normal(name) => name.to_str().ok_or(libc::EINVAL)?,
                Component::ParentDir | Component::Prefix(_) => return Err(libc::EINVAL),
            };
            at = match self.directory(at)?.get(name) {
                Some(next) => next,
                None => {
                    self.needs_bytes(BLOCK_BYTES)?;
                    let next = self.add(Body::Directory(Directory::default()));
                    self.directory_mut(at)?.link(name, next);
                    next
                }
            };
        }
        self.directory(at).map(|_| ())
    }

    pub fn remove_file(&mut self, path: &Path) -> Result<(), Errno> {
        let (directory, name) = self.parent(path)?;
        let node = self.directory(directory)?.get(name).ok_or(libc::ENOENT)?;
        self.file(node)?;
        self.directory_mut(directory)?.unlink(name);
        Ok(())
    }

    pub fn remove_dir(&mut self, path: &Path) -> Result<(), Errno> {
        let (directory, name) = self.parent(path)?;
        let node = self.directory(directory)?.get(name).ok_or(libc::ENOENT)?;
        if !self.directory(node)?.visible().is_empty() {
            return Err(libc::ENOTEMPTY);
        }
        self.directory_mut(directory)?.unlink(name);
        Ok(())
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let (from_directory, from_name) = self.parent(from)?;
        let (to_directory, to_name) = self.parent(to)?;
        let node = self.directory(from_directory)?.get(from_name).ok_or(libc::ENOENT)?;
        match self.directory(to_directory)?.get(to_name) {
            Some(existing) if existing == node => return Ok(()),
            Some(existing) => match (self.directory(node), self.directory(existing)) {
                (Ok(_), Err(_)) => return Err(libc::ENOTDIR),
                (Err(_), Ok(_)) => return Err(libc::EISDIR),
                (Ok(_), Ok(existing)) if !existing.visible().is_empty() => return Err(libc::ENOTEMPTY),
                _ => {}
            },
            None => {}
        }
        if from_directory == to_directory {
            self.directory_mut(from_directory)?.rename(from_name, to_name, node);
        } else {
            self.directory_mut(to_directory)?.link(to_name, node);
            self.directory_mut(from_directory)?.unlink(from_name);
        }
        Ok(())
    }

    pub fn hard_link(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let node = self.resolve(from)?;
        self.file(node).map_err(|_| libc::EPERM)?;
        let (directory, name) = self.parent(to)?;
        if self.directory(directory)?.get(name).is_some() {
            return Err(libc::EEXIST);
        }
        self.directory_mut(directory)?.link(name, node);
        Ok(())
    }

    pub fn sync_dir(&mut self, path: &Path) -> Result<(), Errno> {
        let node = self.resolve(path)?;
        let directory = self.directory_mut(node)?;
        if directory.is_pending() {
            directory.sync();
            self.sweep();
        }
        Ok(())
    }

    pub fn fail_sync_dir(&mut self, path: &Path, random: &Random) {
        if let Ok(directory) = self.resolve(path).and_then(|node| self.directory_mut(node)) {
            directory.fail_sync(random);
        }
    }

    /// The names in a directory, in order.
    pub fn list(&self, path: &Path) -> Result<Vec<Listed>, Errno> {
        let directory = self.directory(self.resolve(path)?)?;
        let listed = directory.visible().iter().map(|(name, node)| {
            let file = self.file(*node).ok();
            Listed {
                name: name.to_string(),
                is_dir: file.is_none(),
                len_bytes: file.map_or(0, |file| file.len() as u64),
            }
        });
        Ok(listed.collect())
    }

    /// Every file, with its whole path, in order.
    pub fn list_all(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        self.list_under(ROOT, Path::new("/"), &mut found);
        found
    }

    fn list_under(&self, node: NodeId, path: &Path, found: &mut Vec<PathBuf>) {
        match self.directory(node) {
            Ok(directory) => {
                for (name, node) in directory.visible() {
                    self.list_under(*node, &path.join(&**name), found);
                }
            }
            Err(_) => found.push(path.to_path_buf()),
        }
    }

    pub fn file(&self, node: NodeId) -> Result<&Contents, Errno> {
        match self.nodes.get(node as usize) {
            Some(Some(Node { body: Body::File(file), .. })) => Ok(file),
            Some(Some(Node { body: Body::Directory(_), .. })) => Err(libc::EISDIR),
            _ => Err(libc::EBADF),
        }
    }

    pub fn file_mut(&mut self, node: NodeId) -> Result<&mut Contents, Errno> {
        match self.nodes.get_mut(node as usize) {
            Some(Some(Node { body: Body::File(file), .. })) => Ok(file),
            Some(Some(Node { body: Body::Directory(_), .. })) => Err(libc::EISDIR),
            _ => Err(libc::EBADF),
        }
    }

    /// Writes to a file as far as there is room, and says ENOSPC where that is not all.
    pub fn write(&mut self, node: NodeId, offset: u64, data: &[u8], synced: bool) -> Result<(), Errno> {
        let room = self.room_for(node, offset + data.len() as u64)?;
        let fits = usize::try_from(room.saturating_sub(offset)).unwrap_or(usize::MAX).min(data.len());
        let file = self.file_mut(node)?;
        if fits > 0 {
            let at = usize::try_from(offset).map_err(|_| libc::EFBIG)?;
            match synced && fits == data.len() {
                true => file.write_durable(at, &data[..fits]),
                false => file.write(at, &data[..fits]),
            }
        }
        if fits < data.len() { Err(libc::ENOSPC) } else { Ok(()) }
    }

    pub fn set_len(&mut self, node: NodeId, len: u64) -> Result<(), Errno> {
        self.file_mut(node)?.set_len(usize::try_from(len).map_err(|_| libc::EFBIG)?);
        Ok(())
    }

    /// Makes a file of `len` durable zeros, or says ENOSPC and changes nothing.
    pub fn allocate_zeroed(&mut self, node: NodeId, len: u64) -> Result<(), Errno> {
        if self.room_for(node, len)? < len {
            return Err(libc::ENOSPC);
        }
        self.file_mut(node)?.zero_durable(usize::try_from(len).map_err(|_| libc::EFBIG)?);
        Ok(())
    }

    pub fn has_handles(&self) -> bool {
        self.nodes.iter().flatten().any(|node| node.opens > 0)
    }

    /// As if every handle were closed.
    pub fn forget_handles(&mut self) {
        self.nodes.iter_mut().flatten().for_each(|node| node.opens = 0);
    }

    /// The power is gone: what was pending meets a fate drawn for the whole disk, then nothing is pending.
    pub fn crash(&mut self, random: &Random) -> Fate {
        let fate = Fate::draw(random);
        for node in self.nodes.iter_mut().flatten() {
            match &mut node.body {
                Body::File(file) if file.is_pending() => file.crash(fate, random),
                Body::Directory(directory) if directory.is_pending() => directory.crash(fate, random),
                _ => {}
            }
        }
        self.sweep();
        fate
    }

    /// How far the file may reach, `end` at most.
    fn room_for(&self, node: NodeId, end: u64) -> Result<u64, Errno> {
        let len = self.file(node)?.len() as u64;
        if end <= len || self.capacity_bytes == u64::MAX {
            return Ok(end);
        }
        let reach = len.next_multiple_of(BLOCK_BYTES) + self.free_bytes() / BLOCK_BYTES * BLOCK_BYTES;
        Ok(end.min(reach))
    }

    fn needs_bytes(&self, bytes: u64) -> Result<(), Errno> {
        if self.free_bytes() < bytes { Err(libc::ENOSPC) } else { Ok(()) }
    }

    fn add(&mut self, body: Body) -> NodeId {
        let node = Some(Node { body, opens: 0 });
        match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as NodeId
            }
        }
    }

    fn opened(&mut self, node: NodeId) {
        if let Some(Some(node)) = self.nodes.get_mut(node as usize) {
            node.opens += 1;
        }
    }

    /// Frees the nodes to which nothing leads: no name now, none that a crash could bring back, no open handle.
    fn sweep(&mut self) {
        let mut reached = vec![false; self.nodes.len()];
        let mut walk = vec![ROOT];
        while let Some(node) = walk.pop() {
            if !std::mem::replace(&mut reached[node as usize], true)
                && let Ok(directory) = self.directory(node)
            {
                walk.extend(directory.referenced());
            }
        }
        for (id, reached) in reached.into_iter().enumerate() {
            if !reached && self.nodes[id].as_ref().is_some_and(|node| node.opens == 0) {
                self.nodes[id] = None;
                self.free.push(id as NodeId);
            }
        }
    }

    fn directories(&self) -> impl Iterator<Item = &Directory> {
        self.nodes.iter().flatten().filter_map(|node| match &node.body {
            Body::Directory(directory) => Some(directory),
            Body::File(_) => None,
        })
    }

    fn directory(&self, node: NodeId) -> Result<&Directory, Errno> {
        match self.nodes.get(node as usize) {
            Some(Some(Node { body: Body::Directory(directory), .. })) => Ok(directory),
            _ => Err(libc::ENOTDIR),
        }
    }

    fn directory_mut(&mut self, node: NodeId) -> Result<&mut Directory, Errno> {
        match self.nodes.get_mut(node as usize) {
            Some(Some(Node { body: Body::Directory(directory), .. })) => Ok(directory),
            _ => Err(libc::ENOTDIR),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(path: &str) -> &Path {
        Path::new(path)
    }

    fn disk() -> Disk {
        let mut disk = Disk::new(u64::MAX);
        disk.create_dir_all(p("/data/log")).expect("made");
        for directory in ["/", "/data"] {
            disk.sync_dir(p(directory)).expect("synced");
        }
        disk
    }

    /// A crash that keeps nothing pending: tries seeds until the drawn fate is that.
    fn crash_dropping(disk: &Disk) -> Disk {
        for seed in 0.. {
            let mut after = disk.clone();
            if after.crash(&Random::new(seed)) == Fate::Dropped {
                return after;
            }
        }
        unreachable!("one fate in six is Dropped")
    }

    #[test]
    fn errors_are_those_of_the_system() {
        let mut disk = disk();
        assert_eq!(disk.open(p("/data/none")), Err(libc::ENOENT));
        assert_eq!(disk.open(p("/data")), Err(libc::EISDIR));
        assert_eq!(disk.create(p("/none/a"), true), Err(libc::ENOENT));
        disk.create(p("/data/a"), true).expect("made");
        assert_eq!(disk.create(p("/data/a"), true), Err(libc::EEXIST));
        assert_eq!(disk.create(p("/data/a/b"), true), Err(libc::ENOTDIR));
        assert_eq!(disk.remove_dir(p("/data")), Err(libc::ENOTEMPTY));
        assert_eq!(disk.remove_file(p("/data/log")), Err(libc::EISDIR));
        assert_eq!(disk.hard_link(p("/data/a"), p("/data/log")), Err(libc::EEXIST));
        assert_eq!(disk.rename(p("/data/a"), p("/data/log")), Err(libc::EISDIR));
        assert_eq!(disk.resolve(p("/data/../x")), Err(libc::EINVAL));
        assert_eq!(disk.exists(p("/data/a/b")), Ok(false));
        assert_eq!(disk.exists(p("./data/a")), Ok(true));
    }

    #[test]
    fn a_synced_file_whose_name_was_never_synced_vanishes() {
        let mut disk = disk();
        let node = disk.create(p("/data/log/1"), true).expect("made");
        disk.write(node, 0, &[1; 4096], true).expect("written");
        assert!(disk.exists(p("/data/log/1")).expect("known"));
        disk.close(node);
        let after = crash_dropping(&disk);
        assert!(!after.exists(p("/data/log/1")).expect("known"));
        disk.sync_dir(p("/data/log")).expect("synced");
        let after = crash_dropping(&disk);
        let node = after.resolve(p("/data/log/1")).expect("there");
        assert_eq!(after.file(node).expect("file").to_vec(), [1; 4096]);
    }

    #[test]
    fn a_directory_whose_name_was_never_synced_vanishes_with_what_is_in_it() {
        let mut disk = disk();
        disk.create_dir_all(p("/data/tables/t")).expect("made");
        let node = disk.create(p("/data/tables/t/f"), true).expect("made");
        disk.close(node);
        disk.sync_dir(p("/data/tables/t")).expect("synced");
        disk.sync_dir(p("/data/tables")).expect("synced");
        let after = crash_dropping(&disk);
        assert_eq!(after.list_all(), Vec::<PathBuf>::new());
        assert_eq!(after.nodes.iter().flatten().count(), 3, "the lost nodes are free again");
    }

    #[test]
    fn a_removal_never_synced_can_come_back_with_its_bytes() {
        let mut disk = disk();
        let node = disk.create(p("/data/a"), true).expect("made");
        disk.write(node, 0, &[7; 512], true).expect("written");
        disk.sync_dir(p("/data")).expect("synced");
        disk.close(node);
        disk.remove_file(p("/data/a")).expect("removed");
        let after = crash_dropping(&disk);
        let back = after.resolve(p("/data/a")).expect("back");
        assert_eq!(after.file(back).expect("file").to_vec(), [7; 512]);
        disk.sync_dir(p("/data")).expect("synced");
        assert!(!crash_dropping(&disk).exists(p("/data/a")).expect("known"));
        assert_eq!(disk.file(node).err(), Some(libc::EBADF), "freed once nothing leads to it");
    }

    #[test]
    fn an_open_file_outlives_its_name() {
        let mut disk = disk();
        let node = disk.create(p("/data/a"), true).expect("made");
        disk.write(node, 0, &[7; 512], false).expect("written");
        disk.remove_file(p("/data/a")).expect("removed");
        disk.sync_dir(p("/data")).expect("synced");
        assert_eq!(disk.file(node).expect("open").len(), 512);
    }

    #[test]
    fn hard_links_share_their_bytes_and_directories_rename_whole() {
        let mut disk = disk();
        let node = disk.create(p("/data/log/a"), true).expect("made");
        disk.hard_link(p("/data/log/a"), p("/data/b")).expect("linked");
        disk.write(node, 0, &[3; 512], false).expect("written");
        disk.remove_file(p("/data/log/a")).expect("removed");
        assert_eq!(disk.file(disk.resolve(p("/data/b")).expect("there")).expect("file").len(), 512);
        disk.rename(p("/data/b"), p("/data/log/c")).expect("renamed");
        disk.rename(p("/data/log"), p("/data/old")).expect("renamed");
        assert_eq!(disk.list_all(), [PathBuf::from("/data/old/c")]);
        let listed = disk.list(p("/data/old")).expect("listed");
        assert_eq!((listed[0].name.as_str(), listed[0].is_dir, listed[0].len_bytes), ("c", false, 512));
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_recovers_when_raised() {
        let mut disk = disk();
        disk.set_capacity(3 * BLOCK_BYTES);
        let node = disk.create(p("/data/a"), true).expect("made");
        disk.write(node, 0, &[1; 8192], false).expect("fits");
        assert_eq!(disk.write(node, 8192, &[2; 8192], false), Err(libc::ENOSPC));
        assert_eq!(disk.file(node).expect("file").len(), 12288, "what fitted was written");
        assert_eq!(disk.free_bytes(), 0);
        assert_eq!(disk.write(node, 0, &[3; 4096], true), Ok(()), "overwriting needs no room");
        assert_eq!(disk.create(p("/data/b"), true), Err(libc::ENOSPC));
        assert_eq!(disk.allocate_zeroed(node, 16384), Err(libc::ENOSPC));
        disk.set_capacity(4 * BLOCK_BYTES);
        assert_eq!(disk.allocate_zeroed(node, 16384), Ok(()));
        disk.remove_file(p("/data/a")).expect("removed");
        assert_eq!(disk.used_bytes(), 16384, "still open");
        disk.close(node);
        assert_eq!(disk.used_bytes(), 0);
    }
}
