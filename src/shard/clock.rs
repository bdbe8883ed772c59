//! Server timestamps: microseconds of the wall clock that never go back and never repeat, whatever the clock does.

use std::cell::Cell;

use crate::base::ids::TimestampMicros;

/// The last timestamp that this shard gave, over all its partitions: a bound that is at least each partition's own.
#[derive(Debug, Default)]
pub struct TimestampClock {
    last: Cell<TimestampMicros>,
}

impl TimestampClock {
    /// The next timestamp: now (for a batch over several shards, the coordinator's now), or one more than the last where
    /// the clock stands or went back.
    pub fn next(&self, wall_us: TimestampMicros) -> TimestampMicros {
        let next = wall_us.max(self.last.get() + 1);
        self.last.set(next);
        next
    }

    /// Raises the clock past a timestamp that was given elsewhere or before a restart.
    pub fn observe(&self, timestamp: TimestampMicros) {
        self.last.set(self.last.get().max(timestamp));
    }

    pub fn last(&self) -> TimestampMicros {
        self.last.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_rise_though_the_clock_goes_back() {
        let clock = TimestampClock::default();
        assert_eq!(clock.next(100), 100);
        assert_eq!(clock.next(100), 101);
        assert_eq!(clock.next(50), 102);
        assert_eq!(clock.next(200), 200);
        clock.observe(500);
        assert_eq!(clock.next(300), 501);
    }
}
