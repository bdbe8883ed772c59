//! What no purge may forget: deletions that could cover a part of a batch which a crash would redo.

use crate::base::ids::{ShardId, TimestampMicros};
use crate::shard::Shard;

/// A logged batch over several shards, while the process runs. Never used again: a hold that never came may be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchId {
    pub coordinator: ShardId,
    /// Among the coordinator's.
    pub number: u64,
}

/// That an owner keeps what could cover its part of a batch. Ordered by timestamp, which batches may share where clients
/// give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PurgeHold {
    pub timestamp: TimestampMicros,
    pub batch: BatchId,
}

impl Shard {
    /// The oldest timestamp of a batch that a crash would redo, here or with a part here.
    pub(super) fn oldest_open_batch(&self) -> TimestampMicros {
        let own = self.open_intents.borrow().values().map(|open| open.timestamp).min();
        let held = self.purge_holds.borrow().first().map(|hold| hold.timestamp);
        own.into_iter().chain(held).min().unwrap_or(TimestampMicros::MAX)
    }

    /// A part of a batch coordinated elsewhere will be applied: until it is released, no purge forgets what could cover
    /// it.
    pub(super) fn hold_purges(&self, hold: PurgeHold) {
        self.purge_holds.borrow_mut().insert(hold);
    }

    /// The completions of these batches are durable, or they were never begun. One that is not held is passed over.
    pub fn release_purges(&self, released: &[PurgeHold]) {
        let mut holds = self.purge_holds.borrow_mut();
        for hold in released {
            holds.remove(hold);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::{Faults, Simulation};
    use crate::shard::ExpectedBatch;
    use crate::shard::tests::start;

    /// Clients may give two batches one timestamp. What releases one, twice or though it never came, leaves the other.
    #[test]
    fn a_hold_is_released_for_its_own_batch_alone() {
        let sim = Simulation::new(1, Faults::NONE);
        let ran = sim.run_on_node(|io| async move {
            let shard = start(io).await;
            let batch = |coordinator, number| BatchId { coordinator: ShardId(coordinator), number };
            let hold = |batch| PurgeHold { timestamp: 7, batch };
            let expect =
                |batch| shard.expect_batch(ExpectedBatch { timestamp: 7, is_servers: false, logged: Some(batch) });
            expect(batch(1, 0));
            expect(batch(1, 1));
            expect(batch(2, 0));
            shard.release_purges(&[hold(batch(1, 0)), hold(batch(1, 0)), hold(batch(2, 9))]);
            assert_eq!(shard.oldest_open_batch(), 7);
            shard.release_purges(&[hold(batch(2, 0))]);
            assert_eq!(shard.oldest_open_batch(), 7);
            shard.release_purges(&[hold(batch(1, 1))]);
            assert_eq!(shard.oldest_open_batch(), TimestampMicros::MAX);
        });
        ran.expect("runs");
    }
}
