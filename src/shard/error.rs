//! What a shard answers when it cannot do what it was asked. CQL error codes are chosen above, in `router`.

use crate::base::ids::TableId;
use crate::commitlog::ReplayError;
use crate::io::IoError;
use crate::mutation::resolve::Unmet;
use crate::shard::manifest::ManifestError;

/// Why a write was not made, or not made durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    #[error("table {0} does not exist here")]
    UnknownTable(TableId),
    #[error("a mutation of {bytes} bytes is larger than the limit of {bytes_max} (half a commit log segment)")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("malformed mutation: {0}")]
    Malformed(String),
    #[error("the disk has {free_bytes} bytes left, under the reserve of {reserve_bytes}; reads go on, writes stop")]
    DiskFull { free_bytes: u64, reserve_bytes: u64 },
    #[error("no space for the commit log; reads go on, writes stop: {0}")]
    NoSpace(String),
    /// The log is behind: wait for room and try again.
    #[error("the commit log is behind")]
    Busy,
    #[error("the write waited for memory longer than its deadline: flushes do not keep up")]
    Overloaded,
    #[error("the commit log has failed and acknowledges nothing more until a restart: {0}")]
    LogFailed(String),
    #[error("the shard is stopping")]
    Stopping,
    /// What it changes is not there.
    #[error(transparent)]
    Unmet(#[from] Unmet),
    /// What it needs could not be read.
    #[error(transparent)]
    Read(ReadError),
    /// What it needs was not read in time; nothing was written.
    #[error("what the write needs was not read in time")]
    Late { is_counter: bool },
}

/// Why a read gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("table {0} does not exist here")]
    UnknownTable(TableId),
    #[error("damaged data: {0}")]
    Corrupt(String),
    #[error("{0}")]
    Io(String),
    #[error("the read took longer than its deadline")]
    Timeout,
    #[error(
        "a partition is written to faster than its {places} rows and tombstones can be read as of one moment: read less of it \
         at a time, by clustering columns or in smaller pages"
    )]
    Unsteady { places: usize },
}

/// Why a flush, a compaction, a snapshot or an opening did not finish. What was there before is still there.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    #[error(transparent)]
    Io(#[from] IoError),
    #[error("{0}")]
    Corrupt(String),
    #[error("{0}")]
    Storage(String),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{0}")]
    Refused(String),
    /// Asked for what cannot be.
    #[error("{0}")]
    Invalid(String),
    #[error("table {0} does not exist here")]
    UnknownTable(TableId),
    #[error("the commit log has failed: {0}")]
    LogFailed(String),
}
