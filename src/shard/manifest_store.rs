//! The shard's manifest in memory and on disk: changed as a copy, stored, then taken over. One change at a time.

use std::cell::{Cell, Ref, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use crate::base::local::Semaphore;
use crate::base::plants::Planted;
use crate::io::Io;
use crate::shard::ShardError;
use crate::shard::manifest::{Manifest, ManifestError};
use crate::sstable::SSTableId;

pub struct ManifestStore {
    io: Io,
    /// The data directory.
    dir: PathBuf,
    planted: Planted,
    current: RefCell<Manifest>,
    /// The next SSTable's number. Apart from the manifest, of which a changed copy may be on its way to the disk.
    next_sstable: Cell<SSTableId>,
    turn: Rc<Semaphore>,
}

impl ManifestStore {
    pub fn new(io: Io, dir: PathBuf, planted: Planted, current: Manifest) -> Self {
        let next_sstable = Cell::new(current.next_sstable);
        ManifestStore { io, dir, planted, current: RefCell::new(current), next_sstable, turn: Semaphore::new(1) }
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
        next.next_sstable = self.next_sstable.get();
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
    pub fn next_sstable(&self) -> SSTableId {
        let id = self.next_sstable.get();
        self.next_sstable.set(id.next());
        id
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::ids::ShardId;
    use crate::io::sim::{Faults, Simulation};

    /// A number that is taken while another change is on its way to the disk is not given again.
    #[test]
    fn a_number_is_given_once_whatever_is_being_stored() {
        let sim = Simulation::new(1, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let store =
                Rc::new(ManifestStore::new(io.clone(), "/".into(), Planted::default(), Manifest::new(1, ShardId(0))));
            let first = store.next_sstable();
            let mut storing = Box::pin(store.change(|_| {}));
            std::future::poll_fn(|context| {
                let _ = storing.as_mut().poll(context);
                std::task::Poll::Ready(())
            })
            .await;
            let second = store.next_sstable();
            storing.await.expect("no fault");
            let third = store.next_sstable();
            assert!(first.0 < second.0 && second.0 < third.0, "{first:?} {second:?} {third:?}");
            store.change(|_| {}).await.expect("no fault");
            let stored = Manifest::load(&io, Path::new("/"), 1, ShardId(0)).await.expect("stored");
            assert_eq!(stored.next_sstable.0, third.0 + 1);
        });
        ran.expect("runs");
    }
}
