//! A directory for what a run writes.

use std::path::{Path, PathBuf};

/// A directory beside the programs, on the disk that a server would use; removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Result<Scratch, String> {
        let path = programs()?.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} stays: {error}", self.0.display());
        }
    }
}

/// Where this program stands, with those that were built with it.
pub fn programs() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(exe.parent().unwrap_or(Path::new(".")).to_owned())
}
