//! Which byte of which file is flipped, and to what.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::dice::Dice;

/// The kinds of file in a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Root,
    Manifest,
    Sstable,
    Log,
}

impl Kind {
    /// In this order they come in turn; the root file and the manifests are small.
    pub const TURN: [Kind; 6] = [Kind::Sstable, Kind::Log, Kind::Root, Kind::Sstable, Kind::Log, Kind::Manifest];

    pub const ALL: [Kind; 4] = [Kind::Root, Kind::Manifest, Kind::Sstable, Kind::Log];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Root => "root",
            Kind::Manifest => "manifest",
            Kind::Sstable => "sstable",
            Kind::Log => "log",
        }
    }

    /// By its path in the data directory; none for the lock file, which holds nothing.
    fn of(path: &Path) -> Option<Kind> {
        let name = path.file_name()?.to_str()?;
        match path.parent()?.to_str()? {
            "sstables" => Some(Kind::Sstable),
            "commitlog" => Some(Kind::Log),
            "" if name == "ROOT" => Some(Kind::Root),
            "" if name.starts_with("manifest-") => Some(Kind::Manifest),
            _ => None,
        }
    }
}

/// One byte that becomes another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flip {
    pub kind: Kind,
    /// Below the data directory.
    pub file: PathBuf,
    pub offset_bytes: u64,
    pub from: u8,
    pub to: u8,
}

impl std::fmt::Display for Flip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Flip { file, offset_bytes, from, to, .. } = self;
        write!(f, "{} at byte {offset_bytes}, 0x{from:02x} to 0x{to:02x}", file.display())
    }
}

impl Flip {
    /// Chooses one in a file of this kind below `data`. Half of them lie where the file is not just zeros at its end.
    pub fn choose(data: &Path, kind: Kind, dice: &mut Dice) -> io::Result<Flip> {
        let mut files = files_below(data)?;
        files.retain(|file| Kind::of(file) == Some(kind));
        if files.is_empty() {
            return Err(io::Error::other(format!("{} has no {}", data.display(), kind.name())));
        }
        let file = dice.pick(&files).clone();
        let bytes = fs::read(data.join(&file))?;
        if bytes.is_empty() {
            return Err(io::Error::other(format!("{} is empty", file.display())));
        }
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(bytes.len(), |last| last + 1);
        let within = if dice.one_in(2) { bytes.len() } else { used };
        let at = dice.index(within);
        let from = bytes[at];
        let change = if dice.one_in(2) { 1 << dice.index(8) } else { 1 + dice.index(255) };
        let to = from ^ u8::try_from(change).expect("it is one to 255");
        Ok(Flip { kind, file, offset_bytes: at as u64, from, to })
    }

    /// Flips it in the copy of the directory at `data`.
    pub fn apply(&self, data: &Path) -> io::Result<()> {
        let file = File::options().read(true).write(true).open(data.join(&self.file))?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, self.offset_bytes)?;
        assert_eq!(byte[0], self.from, "the copy is that of the directory that was chosen from");
        file.write_all_at(&[self.to], self.offset_bytes)
    }
}

/// Every file below `dir`, sorted, relative to it.
fn files_below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(below) = left.pop() {
        for entry in fs::read_dir(dir.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() { left.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

/// Makes `to` a copy of the directory `from`.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    // Empty directories belong to a data directory too.
    let mut left = vec![PathBuf::new()];
    while let Some(below) = left.pop() {
        for entry in fs::read_dir(from.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                fs::create_dir(to.join(&path))?;
                left.push(path);
            } else {
                fs::copy(from.join(&path), to.join(&path))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::scratch::Scratch;

    fn directory(name: &str) -> Scratch {
        let scratch = Scratch::new(name).unwrap();
        let data = scratch.path().join("data");
        for dir in ["sstables", "commitlog", "snapshots"] {
            fs::create_dir_all(data.join(dir)).unwrap();
        }
        let mut log = vec![7; 100];
        log.resize(1000, 0);
        for (file, bytes) in [
            ("ROOT", vec![1; 10]),
            ("LOCK", vec![]),
            ("manifest-1-0", vec![2; 10]),
            ("sstables/sst-1-0-1.db", vec![3; 10]),
            ("commitlog/log-1", log),
        ] {
            fs::write(data.join(file), bytes).unwrap();
        }
        scratch
    }

    #[test]
    fn every_kind_is_found_and_the_lock_file_is_none() {
        let scratch = directory("flip-kinds");
        let data = scratch.path().join("data");
        for kind in Kind::ALL {
            assert!(Kind::TURN.contains(&kind));
            assert_eq!(Flip::choose(&data, kind, &mut Dice::new(1)).unwrap().kind, kind);
        }
        assert_eq!(Kind::of(Path::new("LOCK")), None);
        assert_eq!(Kind::of(Path::new("snapshots/a/sst-1-0-1.db")), None);
    }

    #[test]
    fn a_flip_changes_one_byte_of_the_copy_alone() {
        let scratch = directory("flip-copy");
        let (data, other) = (scratch.path().join("data"), scratch.path().join("copy"));
        let flip = Flip::choose(&data, Kind::Sstable, &mut Dice::new(2)).unwrap();
        copy(&data, &other).unwrap();
        flip.apply(&other).unwrap();
        let (before, after) = (fs::read(data.join(&flip.file)).unwrap(), fs::read(other.join(&flip.file)).unwrap());
        let changed: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0] as u64, flip.offset_bytes);
        assert!(other.join("snapshots").is_dir());
    }

    #[test]
    fn flips_change_the_byte_and_lie_mostly_where_something_is() {
        let scratch = directory("flip-place");
        let data = scratch.path().join("data");
        let flips: Vec<Flip> =
            (0..200).map(|seed| Flip::choose(&data, Kind::Log, &mut Dice::new(seed)).unwrap()).collect();
        assert!(flips.iter().all(|flip| flip.from != flip.to));
        let in_use = flips.iter().filter(|flip| flip.offset_bytes < 100).count();
        assert!((80..150).contains(&in_use), "{in_use}");
    }
}
