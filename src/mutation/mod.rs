//! Cells, rows, tombstones: what they are, which wins, and the one encoded form of a write.
#![doc = include_str!("FORMAT.md")]

pub mod cell;
pub mod condition;
pub mod counter;
pub mod cursor;
pub mod digest;
pub mod draft;
pub mod encode;
pub mod entry;
pub mod live;
pub mod merge;
pub mod owned;
pub mod page;
pub mod point;
pub mod purge;
pub mod read;
pub mod resolve;
pub mod row;
#[cfg(test)]
pub(crate) mod testing;
pub mod view;

pub use cell::{Cell, DeletionTime, Liveness, NEVER_S, NO_TIMESTAMP};
pub use cursor::{Fragment, PartitionCursor, PartitionStart, RangeChange, ReadStop};
pub use encode::{MutationBuilder, set_server_timestamp, set_timestamp, timestamp};
pub use entry::{Entry, Stamp};
pub use live::LiveRows;
pub use merge::Merge;
pub use purge::{Purge, Purger};
pub use row::Row;
pub use view::{Item, MutationError, MutationView};
