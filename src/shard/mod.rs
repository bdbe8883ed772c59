//! One core's tables: apply, read, flush, memory budget. No lock stands here: everything is this core's own.

mod clock;
mod error;
mod filter;
mod memory;

pub use clock::TimestampClock;
pub use error::{ReadError, ShardError, WriteError};
