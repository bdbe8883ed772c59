//! One shard's commit log: what is acknowledged is in it, until it is in an SSTable.
#![doc = include_str!("FORMAT.md")]

mod append;
mod attempts;
mod block;
mod chain;
mod config;
mod error;
pub mod format;
mod intervals;
mod live;
mod log;
mod prepare;
mod progress;
mod reader;
mod replay;
mod segment;
mod state;
mod sync;
mod wait;
mod waiters;
mod writer;

pub use config::{LogConfig, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SyncMethod, SyncMode};
pub use error::{Damage, LogError, ReplayError};
pub use format::RecordKind;
pub use intervals::{Interval, IntervalSet};
pub use live::{DirtySpan, LiveSegment};
pub use log::{CommitLog, Inherited, LogStats, TableRef, TableSchemas, Ticket};
pub use replay::{DamagePolicy, DamageReport, Record, Replay, ReplayOptions, Replayed, Tail};
pub use segment::{list_streams, remove_stream, sync_stream};
pub use wait::{SegmentPin, Wait};

#[cfg(test)]
mod tests;
