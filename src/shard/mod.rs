//! One core's tables: apply, read, flush, memory budget. No lock stands here: everything is this core's own.

mod clock;
mod envelope;
mod error;
mod filter;
pub mod manifest;
mod memory;
pub mod root;

pub use clock::TimestampClock;
pub use error::{ReadError, ShardError, WriteError};
