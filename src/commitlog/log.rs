//! A shard's commit log, open for appending. `append` copies a record into the block in memory and returns at once;
//! writer tasks take blocks to the disk, several at a time; acknowledgements leave in log order whatever order the
//! writes complete in. One pass of the shard's tasks fills one block: a writer that was woken by the first record runs
//! after the tasks that were ready before it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::block::OpenBlock;
use super::config::{LogConfig, SyncMode};
use super::error::LogError;
use super::format::{BLOCK_HEADER_BYTES, Place, RecordKind, padded};
use super::live::LiveSegment;
use super::segment;
use super::state::State;
use super::wait::{Level, SegmentPin, Wait};
use super::waiters::{Idle, Waiters};
use crate::base::ids::{LogPosition, SegmentId, StreamId, TableId};
use crate::base::local::Notify;
use crate::io::{Io, IoClass, IoError, OpenHow, TaskClass};

/// The segment that a log is opened in is this small, since a start waits for its zeros; the next ones are made meanwhile.
const FIRST_SEGMENT_BYTES: u32 = 1 << 20;

/// A table that a record uses, and the schema version it is encoded under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableRef {
    pub table: TableId,
    pub schema_version: u32,
}

/// Gives the log the schemas that it must hold: the first record of a table and version in a segment brings its schema
/// along.
pub trait TableSchemas {
    /// The encoded schema, opaque to the log. `None` where there is none.
    fn table_schema(&self, table: TableRef) -> Option<Rc<[u8]>>;
}

/// Where an appended record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The record's position.
    pub position: LogPosition,
    /// Just behind it: wait for this.
    pub end: LogPosition,
}

/// What replay found and an open log goes on from.
#[derive(Debug)]
pub struct Inherited {
    /// Where the recovered log ends.
    pub end: LogPosition,
    /// Above all segments that exist or ever did.
    pub next_segment: SegmentId,
    /// Segments that hold records, lowest first, each with the tables that still need it.
    pub segments: Vec<LiveSegment>,
    /// Segments in which nothing counts: never written, or cut off.
    pub dropped: Vec<LiveSegment>,
    /// Everything before this was synced already.
    pub synced: LogPosition,
}

impl Inherited {
    /// A log that does not exist yet.
    pub fn nothing() -> Inherited {
        Inherited {
            end: LogPosition::ZERO,
            next_segment: SegmentId(1),
            segments: Vec::new(),
            dropped: Vec::new(),
            synced: LogPosition::ZERO,
        }
    }
}

/// Counters since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    pub records: u64,
    pub record_bytes: u64,
    pub blocks: u64,
    pub block_bytes: u64,
    pub syncs: u64,
    /// The running mean of a sync's time.
    pub sync_ns_mean: u64,
    pub segments_created: u64,
    pub segments_recycled: u64,
}
/// One shard's log. Its tasks keep it alive until [`CommitLog::close`].
pub struct CommitLog {
    pub(super) io: Io,
    pub(super) dir: PathBuf,
    pub(super) stream: StreamId,
    pub(super) config: LogConfig,
    pub(super) schemas: Rc<dyn TableSchemas>,
    pub(super) state: RefCell<State>,
    pub(super) acknowledged: Waiters,
    pub(super) synced: Waiters,
    pub(super) idle_writers: Idle,
    pub(super) sync_wanted: Notify,
    pub(super) segments_wanted: Notify,
    pub(super) room: Notify,
}

impl CommitLog {
    /// Opens the log in a new segment that seals what was recovered: when this returns, every later recovery ends
    /// where `inherited` ends. `dir` must be durable itself.
    pub async fn open(
        io: Io,
        dir: &Path,
        stream: StreamId,
        config: LogConfig,
        schemas: Rc<dyn TableSchemas>,
        inherited: Inherited,
    ) -> Result<Rc<CommitLog>, LogError> {
        config.check().map_err(LogError::Config)?;
        io.create_dir_all(dir).await?;
        sync_inherited(&io, &inherited).await?;
        let first_bytes = FIRST_SEGMENT_BYTES.min(config.segment_bytes);
        let ready = match segment::create(&io, dir, stream, inherited.next_segment, first_bytes, &config).await {
            Ok(ready) => ready,
            Err(cause) if cause.is_no_space() => return Err(LogError::NoSpace { cause }),
            Err(cause) => return Err(cause.into()),
        };
        let place = Place { stream, segment: ready.id, offset_bytes: 0 };
        let seal = OpenBlock::new(place, io.buffer(padded(BLOCK_HEADER_BYTES)), usize::MAX)
            .close(inherited.end, inherited.end);
        let (_, written) = ready.file.write_at_synced(seal.buf, 0).await;
        written?;
        let state = State::new(ready, seal.end, inherited, &config);
        let log = Rc::new(CommitLog {
            io,
            dir: dir.to_owned(),
            stream,
            config,
            schemas,
            state: RefCell::new(state),
            acknowledged: Waiters::default(),
            synced: Waiters::default(),
            idle_writers: Idle::default(),
            sync_wanted: Notify::new(),
            segments_wanted: Notify::new(),
            room: Notify::new(),
        });
        for _ in 0..log.config.writes_in_flight {
            log.io.spawn(TaskClass::Foreground, super::writer::run(log.clone()));
        }
        if log.config.mode != SyncMode::Batch {
            log.io.spawn(TaskClass::Foreground, super::sync::run(log.clone()));
        }
        log.io.spawn(TaskClass::Foreground, super::prepare::run(log.clone()));
        Ok(log)
    }
    /// Completes once everything before `end` (a ticket's) is acknowledged, in log order.
    pub fn wait_acknowledged(self: &Rc<Self>, end: LogPosition) -> Wait {
        Wait { log: self.clone(), end, level: Level::Acknowledged, number: None }
    }

    /// Completes once everything before `end` is synced, and has the sync begin at once.
    pub fn wait_synced(self: &Rc<Self>, end: LogPosition) -> Wait {
        Wait { log: self.clone(), end, level: Level::Synced, number: None }
    }

    /// Syncs all that was appended before this call. Gives the durable position.
    pub async fn sync(self: &Rc<Self>) -> Result<LogPosition, LogError> {
        let end = self.state.borrow().appended;
        self.wait_synced(end).await?;
        Ok(self.durable_position())
    }

    /// Behind the last appended record: the next record's position is not before it.
    pub fn position(&self) -> LogPosition {
        self.state.borrow().appended
    }

    /// Everything before it is synced.
    pub fn durable_position(&self) -> LogPosition {
        self.state.borrow().synced
    }

    /// Everything before it is acknowledged.
    pub fn acknowledged_position(&self) -> LogPosition {
        self.state.borrow().acknowledged
    }

    pub fn stream(&self) -> StreamId {
        self.stream
    }

    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    pub fn stats(&self) -> LogStats {
        self.state.borrow().stats
    }

    /// Why the log takes no more writes, if it does not.
    pub fn failure(&self) -> Option<LogError> {
        self.state.borrow().failed.clone()
    }

    /// Bytes of all live segments.
    pub fn live_bytes(&self) -> u64 {
        self.state.borrow().live.bytes()
    }

    /// Where the oldest live segment starts: nothing before it will be replayed.
    pub fn start(&self) -> LogPosition {
        self.state.borrow().live.start().unwrap_or(LogPosition::ZERO)
    }

    /// A flush of `table` made `[from, to)` durable, and the manifest that says so is synced.
    pub fn mark_flushed(&self, table: TableId, from: LogPosition, to: LogPosition) {
        let mut state = self.state.borrow_mut();
        state.live.mark_flushed(table, from, to);
        self.release(&mut state);
    }

    /// `table` was dropped, and the manifest that says so is synced.
    pub fn forget_table(&self, table: TableId) {
        let mut state = self.state.borrow_mut();
        state.live.forget_table(table);
        self.release(&mut state);
    }

    /// The tables that the oldest segment with anything unflushed waits for: to release it, flush these.
    pub fn oldest_dirty(&self) -> Vec<(TableId, LogPosition)> {
        self.state.borrow().live.oldest_dirty()
    }

    /// What to flush because the log has outgrown its share of the disk; nothing while it has not.
    pub fn pressure(&self) -> Vec<(TableId, LogPosition)> {
        let state = self.state.borrow();
        if state.live.bytes() > self.config.total_bytes { state.live.oldest_dirty() } else { Vec::new() }
    }

    /// Holds the segment of an open batch intent. `None` where that segment is gone.
    pub fn pin(self: &Rc<Self>, position: LogPosition) -> Option<SegmentPin> {
        let pinned = self.state.borrow_mut().live.pin(position);
        pinned.then(|| SegmentPin { log: self.clone(), position })
    }

    /// A clean stop: all that was appended is synced, and a last record says that the log ends there. Gives the end,
    /// for the manifest. Appends are refused from the moment the last record is in.
    pub async fn close(self: &Rc<Self>) -> Result<LogPosition, LogError> {
        self.sync().await?;
        loop {
            match self.append(RecordKind::End, &[], &[]) {
                Ok(_) | Err(LogError::NoSpace { .. }) => break,
                Err(LogError::Busy) => match self.room().await {
                    Ok(()) | Err(LogError::NoSpace { .. }) => {}
                    Err(error) => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
        self.state.borrow_mut().closing = true;
        self.sync().await?;
        self.state.borrow_mut().stopped = true;
        self.wake_everyone();
        Ok(self.state.borrow().written)
    }
}

/// What replay saw may not be durable yet; the seal will say that it is.
async fn sync_inherited(io: &Io, inherited: &Inherited) -> Result<(), IoError> {
    for segment in inherited.segments.iter().filter(|segment| segment.id >= inherited.synced.segment) {
        let file = io.open(&segment.path, OpenHow::ReadWrite, IoClass::Log).await?;
        file.sync_data().await?;
    }
    Ok(())
}
