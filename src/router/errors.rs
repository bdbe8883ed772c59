//! Where a shard's errors become CQL's, code and text.

use crate::protocol::{Consistency, CqlError, WriteType};
use crate::shard::{ReadError, ShardError, WriteError};

/// What a failed write answers. One node: one replica was asked and none acknowledged.
pub fn write_error(error: WriteError) -> CqlError {
    match error {
        WriteError::UnknownTable(_) => CqlError::invalid("unconfigured table"),
        WriteError::TooLarge { bytes, bytes_max } => {
            CqlError::invalid(format!("Rejected an oversized mutation of size {bytes}; the limit is {bytes_max} bytes"))
        }
        WriteError::Unmet(_) => CqlError::invalid(error.to_string()),
        WriteError::Read(error) => read_error(error),
        WriteError::Late { is_counter: true } => write_timeout(WriteType::Counter),
        WriteError::Late { is_counter: false } => write_timeout(WriteType::Simple),
        WriteError::Malformed(_) | WriteError::LogFailed(_) | WriteError::Stopping => {
            CqlError::server_error(error.to_string())
        }
        WriteError::DiskFull { .. } | WriteError::NoSpace(_) | WriteError::Overloaded | WriteError::Busy => {
            CqlError::overloaded(error.to_string())
        }
    }
}

/// What a failed read answers.
pub fn read_error(error: ReadError) -> CqlError {
    match error {
        ReadError::UnknownTable(_) => CqlError::invalid("unconfigured table"),
        ReadError::Corrupt(_) | ReadError::Io(_) | ReadError::Unsteady { .. } => {
            CqlError::server_error(error.to_string())
        }
        ReadError::Timeout => read_timeout(),
    }
}

/// What a failed operation answers.
pub fn shard_error(error: &ShardError) -> CqlError {
    match error {
        ShardError::Invalid(reason) => CqlError::invalid(reason.clone()),
        _ => CqlError::server_error(error.to_string()),
    }
}

/// The write was sent to its shard, which did not answer in time: it may still be made.
pub fn write_timeout(write_type: WriteType) -> CqlError {
    CqlError::write_timeout(Consistency::One, 0, 1, write_type)
}

/// More reads of ranges wait than may.
pub fn too_many_ranges() -> CqlError {
    CqlError::overloaded("Server is in overloaded state: too many reads of ranges wait")
}

/// The read did not come to its end in time: it has ended on every shard.
pub fn read_timeout() -> CqlError {
    CqlError::read_timeout(Consistency::One, 0, 1, false)
}
