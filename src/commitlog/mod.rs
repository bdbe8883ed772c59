//! One shard's commit log: what is acknowledged is in it, until it is in an SSTable.
#![doc = include_str!("FORMAT.md")]

pub mod format;
mod intervals;

pub use format::RecordKind;
pub use intervals::{Interval, IntervalSet};
