//! Compaction: which files to merge (pure functions of their sizes), and the merge that runs them.
//!
//! A tombstone goes only where nothing older that it covers can exist: the [`PurgeGate`] knows.

mod gate;
mod merge;
mod run;
mod strategy;

#[cfg(test)]
mod tests;

pub use gate::{KeepAll, PurgeGate, oldest_in};
pub use run::{Job, Outcome, compact};
pub use strategy::{
    Chosen, CompactionOptionError, MIN_THRESHOLD_MIN, SizeTiered, all, of_option, pending, size_tiered,
};
