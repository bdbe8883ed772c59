//! Planted faults: bugs that the simulation must catch, chosen at run time and compiled in only with the feature
//! `plants`. Without the feature every question is a constant `false`.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The log acknowledges as if every write were synced.
    AcknowledgeBeforeSync,
    /// The log acknowledges a block when it is written, whatever older blocks do.
    AcknowledgeOutOfOrder,
    /// Replay takes records that a recycled segment still holds from its last use.
    AcceptStaleRecords,
    /// A segment is released though a table in it is not flushed.
    ReleaseBeforeFlush,
    /// Replay applies what an SSTable already holds.
    ReplayFlushed,
    /// A directory is not synced after a name in it changed.
    SkipDirectorySync,
}

impl Plant {
    pub const ALL: [Plant; 6] = [
        Plant::AcknowledgeBeforeSync,
        Plant::AcknowledgeOutOfOrder,
        Plant::AcceptStaleRecords,
        Plant::ReleaseBeforeFlush,
        Plant::ReplayFlushed,
        Plant::SkipDirectorySync,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Plant::AcknowledgeBeforeSync => "acknowledge-before-sync",
            Plant::AcknowledgeOutOfOrder => "acknowledge-out-of-order",
            Plant::AcceptStaleRecords => "accept-stale-records",
            Plant::ReleaseBeforeFlush => "release-before-flush",
            Plant::ReplayFlushed => "replay-flushed",
            Plant::SkipDirectorySync => "skip-directory-sync",
        }
    }

    pub fn named(name: &str) -> Option<Plant> {
        Plant::ALL.into_iter().find(|plant| plant.name() == name)
    }
}

/// The bug that this run carries, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planted(pub Option<Plant>);

impl Planted {
    /// Whether this run carries `plant`.
    pub fn is(self, plant: Plant) -> bool {
        cfg!(feature = "plants") && self.0 == Some(plant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        assert_eq!(Plant::ALL.map(|plant| Plant::named(plant.name())), Plant::ALL.map(Some));
        assert_eq!(Plant::named("nosuch"), None);
    }

    #[test]
    fn a_plant_is_there_only_with_the_feature() {
        for plant in Plant::ALL {
            assert_eq!(Planted(Some(plant)).is(plant), cfg!(feature = "plants"));
            assert!(!Planted(None).is(plant));
        }
        assert!(!Planted(Some(Plant::ReplayFlushed)).is(Plant::SkipDirectorySync));
    }
}
