//! What a log answers where it cannot do what was asked.

use std::path::PathBuf;

use super::format::{BadBlock, BadRecord, RecordKind};
use crate::base::ids::{SegmentId, StreamId, TableId};
use crate::io::IoError;

/// Why an append, a wait or a sync failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// Final: a write or a sync failed. Nothing is acknowledged any more, and nothing is tried again.
    #[error("the commit log, stream {}, has failed and takes no more writes: {cause}", .stream.0)]
    Failed { stream: StreamId, cause: IoError },
    #[error("no space for another commit log segment: {cause}")]
    NoSpace { cause: IoError },
    /// Wait with [`super::CommitLog::room`], then append again.
    #[error("the commit log is behind")]
    Busy,
    #[error("a record of {bytes} bytes; the commit log takes {bytes_max}, half a segment")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("no schema of table {table} in version {version}")]
    UnknownSchema { table: TableId, version: u32 },
    #[error("the commit log is closed")]
    Closed,
    #[error("{0}")]
    Config(String),
    /// The log could not be opened.
    #[error("cannot open the commit log: {0}")]
    Open(#[from] IoError),
}

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("corruption in {path} at offset {offset_bytes}, in what is known to have been synced: {damage}")]
    Corrupt { path: PathBuf, offset_bytes: u32, damage: Damage },
    #[error(
        "{path} is newer than this version of Helenus: at offset {offset_bytes} a block of format version {version}"
    )]
    NewerVersion { path: PathBuf, offset_bytes: u32, version: u16 },
    #[error(
        "{path} holds at offset {offset_bytes} a record of kind {kind} ({}), which this version of Helenus does not know",
        RecordKind::reserved_name(*.kind)
    )]
    UnknownKind { path: PathBuf, offset_bytes: u32, kind: u8 },
    #[error("segment {} of commit log stream {} is missing; segment {} follows it", .segment.0, .stream.0, .next.0)]
    MissingSegment { stream: StreamId, segment: SegmentId, next: SegmentId },
    #[error(transparent)]
    Io(#[from] IoError),
}

/// What is wrong with a place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error(transparent)]
    Block(#[from] BadBlock),
    #[error(transparent)]
    Record(#[from] BadRecord),
    #[error("the file ends here")]
    FileEnds,
}
