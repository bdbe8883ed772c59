//! Cells, rows, tombstones: what they are, which wins, and the one encoded form of a write.

pub mod cell;
pub mod cursor;
pub mod read;
pub mod row;

pub use cell::{Cell, DeletionTime, Liveness, NEVER_S};
pub use cursor::{Fragment, PartitionCursor, PartitionStart, RangeChange, ReadStop};
pub use row::Row;
