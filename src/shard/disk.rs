//! The disk reserve: writes stop before the device is full, so that flushes, compactions and the manifest still find
//! room.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::shard::{Shard, WriteError};

/// How often free space is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

pub struct DiskReserve {
    reserve_bytes: u64,
    free_bytes: Cell<u64>,
}

impl DiskReserve {
    pub fn new(reserve_bytes: u64) -> Self {
        DiskReserve { reserve_bytes, free_bytes: Cell::new(u64::MAX) }
    }

    pub fn check(&self) -> Result<(), WriteError> {
        let free_bytes = self.free_bytes.get();
        if free_bytes >= self.reserve_bytes {
            return Ok(());
        }
        Err(WriteError::DiskFull { free_bytes, reserve_bytes: self.reserve_bytes })
    }

    pub fn free_bytes(&self) -> u64 {
        self.free_bytes.get()
    }
}

impl Shard {
    /// Looks at the free space from time to time, and says when writes stop and when they go on. Has the flushes look
    /// at the log's size as often.
    pub(super) async fn run_disk_watch(self: Rc<Self>) {
        loop {
            if let Ok(free_bytes) = self.io.free_bytes(&self.config.sstables_dir).await {
                let before = self.disk.check().is_ok();
                self.disk.free_bytes.set(free_bytes);
                match (before, self.disk.check()) {
                    (true, Err(error)) => tracing::error!(shard = self.io.shard_id().0, %error, "writes stop"),
                    (false, Ok(())) => tracing::info!(shard = self.io.shard_id().0, free_bytes, "writes go on"),
                    _ => {}
                }
            }
            if !self.log().pressure().is_empty() {
                self.memory.look_again();
            }
            self.io.sleep(LOOK_PERIOD).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_stop_under_the_reserve() {
        let disk = DiskReserve::new(100);
        assert_eq!(disk.check(), Ok(()));
        disk.free_bytes.set(99);
        assert_eq!(disk.check(), Err(WriteError::DiskFull { free_bytes: 99, reserve_bytes: 100 }));
        disk.free_bytes.set(100);
        assert_eq!(disk.check(), Ok(()));
    }
}
