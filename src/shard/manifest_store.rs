//! The shard's manifest in memory and on disk: changed as a copy, stored, then taken over. One change at a time.

use std::cell::{Ref, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use crate::base::local::Semaphore;
use crate::base::plants::Planted;
use crate::io::Io;
use crate::shard::ShardError;
use crate::shard::manifest::{Manifest, ManifestError};

pub struct ManifestStore {
    io: Io,
    /// The data directory.
    dir: PathBuf,
    planted: Planted,
    current: RefCell<Manifest>,
    turn: Rc<Semaphore>,
}

impl ManifestStore {
    pub fn new(io: Io, dir: PathBuf, planted: Planted, current: Manifest) -> Self {
        ManifestStore { io, dir, planted, current: RefCell::new(current), turn: Semaphore::new(1) }
    }

    pub fn current(&self) -> Ref<'_, Manifest> {
        self.current.borrow()
    }

    /// Makes a change durable. Without space nothing has changed and it can be tried again; any other error ends the
    /// process, since only a restart tells which content the disk holds.
    pub async fn change(&self, change: impl FnOnce(&mut Manifest)) -> Result<(), ShardError> {
        let _turn = self.turn.acquire(1).await;
        let mut next = self.current.borrow().clone();
        change(&mut next);
        match next.store(&self.io, &self.dir, self.planted).await {
            Ok(()) => {
                *self.current.borrow_mut() = next;
                Ok(())
            }
            Err(ManifestError::Io(error)) if error.is_no_space() => Err(ShardError::Io(error)),
            Err(error) => {
                self.io.fail_stop(&format!("the manifest cannot be stored: {error}"));
                Err(ShardError::Corrupt(error.to_string()))
            }
        }
    }

    /// A number for a new SSTable. It becomes durable with the change that names the file; a number taken by a file
    /// that no manifest names is taken again after a restart, which removes such files first.
    pub fn next_sstable(&self) -> crate::sstable::SSTableId {
        let mut current = self.current.borrow_mut();
        let id = current.next_sstable;
        current.next_sstable.0 += 1;
        crate::sstable::SSTableId(id.0)
    }
}
