//! A shard's commit log, open for appending. `append` copies a record into the block in memory and returns at once;
//! writer tasks take blocks to the disk, several at a time; acknowledgements leave in log order whatever order the
//! writes complete in. One pass of the shard's tasks fills one block: a writer that was woken by the first record runs
//! after the tasks that were ready before it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::block::{ClosedBlock, OpenBlock, record_bytes};
use super::config::{LogConfig, SyncMode};
use super::error::LogError;
use super::format::{BLOCK_HEADER_BYTES, Place, RecordKind, padded, table_schema_front};
use super::live::{LiveSegment, LiveSegments};
use super::segment::{self, ReadySegment};
use super::waiters::{Idle, Waiters};
use crate::base::collections::{HashSet, hasher};
use crate::base::ids::{LogPosition, SegmentId, StreamId, TableId};
use crate::base::local::Notify;
use crate::base::plants::Plant;
use crate::io::{AlignedBuf, File, Io, IoClass, IoError, OpenHow, TaskClass};

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

/// How far a log must be for a wait to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Acknowledged,
    Synced,
}

/// One shard's log. Its tasks keep it alive until [`CommitLog::close`].
pub struct CommitLog {
    pub(super) io: Io,
    pub(super) dir: PathBuf,
    pub(super) stream: StreamId,
    pub(super) config: LogConfig,
    schemas: Rc<dyn TableSchemas>,
    pub(super) state: RefCell<State>,
    acknowledged: Waiters,
    synced: Waiters,
    pub(super) idle_writers: Idle,
    pub(super) sync_wanted: Notify,
    pub(super) segments_wanted: Notify,
    room: Notify,
}

pub(super) struct State {
    pub active: Active,
    open: Option<OpenBlock>,
    queue: VecDeque<Block>,
    /// Closed blocks that are not written, oldest first, from number `first_flight`.
    flights: VecDeque<Flight>,
    first_flight: u64,
    /// The bytes of those.
    flight_bytes: usize,
    /// The largest body that was refused for want of room.
    bytes_wanted: usize,
    buffers: Vec<AlignedBuf>,
    /// Behind the last record.
    pub appended: LogPosition,
    pub written: LogPosition,
    pub synced: LogPosition,
    pub acknowledged: LogPosition,
    /// Somebody waits for a sync up to here.
    pub sync_demand: LogPosition,
    /// Files with blocks that may not be synced, oldest first; the last is the active one.
    pub unsynced_files: VecDeque<(SegmentId, File)>,
    pub live: LiveSegments,
    pub spare: Option<ReadySegment>,
    pub no_space: Option<IoError>,
    segment_wanted: bool,
    syncer_idle: bool,
    pub released: VecDeque<LiveSegment>,
    pub next_segment: SegmentId,
    failed: Option<LogError>,
    closing: bool,
    stopped: bool,
    pub stats: LogStats,
}

/// The segment that is written.
pub(super) struct Active {
    pub id: SegmentId,
    file: File,
    /// Where the next block will start; the open block starts there.
    next_bytes: usize,
    previous_end: LogPosition,
    schemas: HashSet<TableRef>,
}

/// A block on its way to the disk.
pub(super) struct Block {
    pub number: u64,
    pub closed: ClosedBlock,
    pub file: File,
}

struct Flight {
    end: LogPosition,
    bytes: usize,
    done: bool,
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
        let ready = match segment::create(&io, dir, stream, inherited.next_segment, &config).await {
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

    /// Copies a record into the log. It is visible to replay once it is written; wait for the ticket's end before
    /// telling anyone. `tables` are those that the record uses: each keeps the segment until it is flushed, and its
    /// schema goes in front of the record where the segment lacks it. On `Busy`, wait for [`CommitLog::room`] and
    /// append again; nothing was appended on any error.
    pub fn append(&self, kind: RecordKind, tables: &[TableRef], body: &[&[u8]]) -> Result<Ticket, LogError> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.check_open()?;
        let body_bytes: usize = body.iter().map(|part| part.len()).sum();
        let bytes_max = self.config.record_bytes_max();
        if body_bytes > bytes_max {
            return Err(LogError::TooLarge { bytes: body_bytes, bytes_max });
        }
        if !state.takes(body_bytes, self.config.pending_bytes_max) {
            state.bytes_wanted = state.bytes_wanted.max(body_bytes);
            return Err(LogError::Busy);
        }
        let opened = self.make_room(state, tables, record_bytes(body_bytes))?;
        let open = state.open.as_mut().expect("room was made in an open block");
        let position = open.next_place().position();
        open.push(kind, body);
        state.appended = open.next_place().position();
        state.stats.records += 1;
        state.stats.record_bytes += body_bytes as u64;
        for table in tables {
            state.live.touch(table.table, position.offset_bytes);
        }
        if opened {
            self.idle_writers.wake_one();
        }
        if std::mem::take(&mut state.syncer_idle) {
            self.sync_wanted.notify_all();
        }
        Ok(Ticket { position, end: state.appended })
    }

    /// Leaves an open block in which a record of `bytes` fits, behind the schemas of `tables` that its segment lacked.
    /// Whether it opened that block.
    fn make_room(&self, state: &mut State, tables: &[TableRef], bytes: usize) -> Result<bool, LogError> {
        let missing = self.missing_schemas(&state.active.schemas, tables)?;
        let needed = bytes + missing.iter().map(|(_, schema)| schema_bytes(schema)).sum::<usize>();
        let opens = !state.open.as_ref().is_some_and(|open| open.fits(needed));
        if opens {
            let next_bytes = state.active.next_bytes + state.open.as_ref().map_or(0, OpenBlock::block_bytes);
            let room_bytes = self.config.segment_bytes as usize - next_bytes;
            if room_bytes < BLOCK_HEADER_BYTES + needed {
                self.next_segment(state, tables, bytes)?;
                return Ok(true);
            }
            self.open_block(state, needed);
        }
        push_schemas(state, &missing);
        Ok(opens)
    }

    /// Goes on in the spare segment, which needs every schema anew.
    fn next_segment(&self, state: &mut State, tables: &[TableRef], bytes: usize) -> Result<(), LogError> {
        let missing = self.missing_schemas(&HashSet::with_hasher(hasher()), tables)?;
        let needed = bytes + missing.iter().map(|(_, schema)| schema_bytes(schema)).sum::<usize>();
        let bytes_max = self.config.payload_bytes_max();
        if needed > bytes_max {
            return Err(LogError::TooLarge { bytes: needed, bytes_max });
        }
        let Some(spare) = state.spare.take() else {
            state.segment_wanted = true;
            self.segments_wanted.notify_all();
            return Err(state.no_space.clone().map_or(LogError::Busy, |cause| LogError::NoSpace { cause }));
        };
        Self::close_block(state);
        self.idle_writers.wake_one();
        let end = state.active.end();
        state.live.push(LiveSegment::new(spare.id, spare.path, u64::from(self.config.segment_bytes)));
        state.unsynced_files.push_back((spare.id, spare.file.clone()));
        state.active = Active::new(spare.id, spare.file, 0, end);
        self.segments_wanted.notify_all();
        self.open_block(state, needed);
        push_schemas(state, &missing);
        Ok(())
    }

    fn missing_schemas(
        &self,
        known: &HashSet<TableRef>,
        tables: &[TableRef],
    ) -> Result<Vec<(TableRef, Rc<[u8]>)>, LogError> {
        let mut missing: Vec<(TableRef, Rc<[u8]>)> = Vec::new();
        for &table in tables {
            if known.contains(&table) || missing.iter().any(|(other, _)| *other == table) {
                continue;
            }
            let unknown = LogError::UnknownSchema { table: table.table, version: table.schema_version };
            missing.push((table, self.schemas.table_schema(table).ok_or(unknown)?));
        }
        Ok(missing)
    }

    /// Closes the open block, if any, and opens one that takes `needed` bytes of records. The segment has the room.
    fn open_block(&self, state: &mut State, needed: usize) {
        if state.open.is_some() {
            Self::close_block(state);
            self.idle_writers.wake_one();
        }
        let place =
            Place { stream: self.stream, segment: state.active.id, offset_bytes: 0 }.plus(state.active.next_bytes);
        let room_bytes = self.config.segment_bytes as usize - state.active.next_bytes;
        let wanted = padded((BLOCK_HEADER_BYTES + needed).max(self.config.block_bytes));
        let standard = padded(self.config.block_bytes);
        let buf = match state.buffers.pop() {
            Some(buf) if wanted == standard => buf,
            Some(buf) => {
                state.buffers.push(buf);
                self.io.buffer(wanted)
            }
            None => self.io.buffer(wanted),
        };
        let open = OpenBlock::new(place, buf, room_bytes);
        debug_assert!(open.fits(needed));
        state.open = Some(open);
    }

    /// Closes the open block and queues it for a writer.
    fn close_block(state: &mut State) {
        let Some(open) = state.open.take() else { return };
        let closed = open.close(state.synced, state.active.previous_end);
        state.active.next_bytes += closed.buf.len();
        state.stats.blocks += 1;
        state.stats.block_bytes += closed.buf.len() as u64;
        let (number, bytes) = (state.first_flight + state.flights.len() as u64, closed.buf.len());
        state.flight_bytes += bytes;
        state.flights.push_back(Flight { end: closed.end, bytes, done: false });
        state.queue.push_back(Block { number, closed, file: state.active.file.clone() });
    }

    /// The next block for a writer; `None` once there will be none.
    pub(super) fn poll_block(&self, context: &mut Context<'_>) -> Poll<Option<Block>> {
        let mut state = self.state.borrow_mut();
        if state.failed.is_some() {
            return Poll::Ready(None);
        }
        if state.queue.is_empty() {
            Self::close_block(&mut state);
        }
        match state.queue.pop_front() {
            Some(block) => Poll::Ready(Some(block)),
            None if state.stopped => Poll::Ready(None),
            None => {
                self.idle_writers.wait(context.waker());
                Poll::Pending
            }
        }
    }

    /// A block was written (in batch mode: and synced).
    pub(super) fn finish_block(&self, number: u64, buf: AlignedBuf, took_ns: u64) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if state.failed.is_some() {
            return;
        }
        if buf.capacity() == padded(self.config.block_bytes) && state.buffers.len() <= self.config.writes_in_flight {
            state.buffers.push(buf);
        }
        let at = usize::try_from(number - state.first_flight).expect("a flight is among those in memory");
        state.flights[at].done = true;
        let own_end = state.flights[at].end;
        while let Some(first) = state.flights.front().filter(|first| first.done) {
            state.written = first.end;
            state.flight_bytes -= first.bytes;
            state.flights.pop_front();
            state.first_flight += 1;
        }
        if self.config.mode == SyncMode::Batch {
            state.synced = state.written;
            state.note_sync(took_ns);
            self.drop_synced_files(state);
        }
        self.acknowledge(state);
        if self.config.planted.is(Plant::AcknowledgeOutOfOrder) {
            state.acknowledged = state.acknowledged.max(own_end);
            self.acknowledged.wake_up_to(state.acknowledged);
        }
        if state.sync_demand > state.synced && state.written >= state.sync_demand {
            self.sync_wanted.notify_all();
        }
        if state.bytes_wanted > 0 {
            self.room.notify_all();
        }
    }

    /// Everything before `position` is synced.
    pub(super) fn finish_sync(&self, position: LogPosition, took_ns: u64) {
        let mut state = self.state.borrow_mut();
        if state.failed.is_some() {
            return;
        }
        state.synced = state.synced.max(position);
        state.note_sync(took_ns);
        self.drop_synced_files(&mut state);
        self.acknowledge(&mut state);
    }

    fn drop_synced_files(&self, state: &mut State) {
        while state.unsynced_files.len() > 1 && state.unsynced_files[0].0 < state.synced.segment {
            state.unsynced_files.pop_front();
        }
        self.synced.wake_up_to(state.synced);
        self.release(state);
    }

    fn acknowledge(&self, state: &mut State) {
        let before_sync = self.config.planted.is(Plant::AcknowledgeBeforeSync);
        let reached = match self.config.mode {
            SyncMode::Periodic { .. } => state.written,
            SyncMode::Batch | SyncMode::Group { .. } if before_sync => state.written,
            SyncMode::Batch | SyncMode::Group { .. } => state.synced,
        };
        state.acknowledged = state.acknowledged.max(reached);
        self.acknowledged.wake_up_to(state.acknowledged);
    }

    /// Hands segments that nothing needs to the task that uses them again.
    fn release(&self, state: &mut State) {
        let mut any = false;
        while let Some(segment) = state.live.take_released(state.synced) {
            state.released.push_back(segment);
            any = true;
        }
        if any {
            self.segments_wanted.notify_all();
        }
    }

    /// The end of the log as such: nothing is acknowledged after this.
    pub(super) fn fail(&self, cause: IoError) {
        let mut state = self.state.borrow_mut();
        if state.failed.is_none() {
            state.failed = Some(LogError::Failed { stream: self.stream, cause });
        }
        drop(state);
        self.wake_everyone();
    }

    fn wake_everyone(&self) {
        self.acknowledged.wake_all();
        self.synced.wake_all();
        self.idle_writers.wake_all();
        self.sync_wanted.notify_all();
        self.segments_wanted.notify_all();
        self.room.notify_all();
    }

    /// A spare segment is there, or there is no space for one.
    pub(super) fn finish_spare(&self, made: Result<ReadySegment, IoError>, recycled: bool) {
        let mut state = self.state.borrow_mut();
        match made {
            Ok(spare) => {
                state.stats.segments_created += u64::from(!recycled);
                state.stats.segments_recycled += u64::from(recycled);
                state.spare = Some(spare);
                state.no_space = None;
                state.segment_wanted = false;
            }
            Err(cause) => state.no_space = Some(cause),
        }
        drop(state);
        self.room.notify_all();
    }

    /// Waits until an append that was refused with `Busy` may go through.
    pub async fn room(&self) -> Result<(), LogError> {
        loop {
            let changed = self.room.notified();
            {
                let mut state = self.state.borrow_mut();
                state.check_open()?;
                if let (true, Some(cause)) = (state.segment_wanted, &state.no_space) {
                    return Err(LogError::NoSpace { cause: cause.clone() });
                }
                let wanted = state.bytes_wanted;
                if !state.segment_wanted && state.takes(wanted, self.config.pending_bytes_max) {
                    state.bytes_wanted = 0;
                    return Ok(());
                }
            }
            changed.await;
        }
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

impl State {
    fn new(ready: ReadySegment, end: LogPosition, inherited: Inherited, config: &LogConfig) -> State {
        let mut live = LiveSegments::new(config.planted);
        for segment in inherited.segments {
            live.push(segment);
        }
        live.push(LiveSegment::new(ready.id, ready.path, u64::from(config.segment_bytes)));
        let next_bytes = end.offset_bytes as usize;
        State {
            open: None,
            queue: VecDeque::new(),
            flights: VecDeque::new(),
            first_flight: 0,
            flight_bytes: 0,
            bytes_wanted: 0,
            buffers: Vec::new(),
            appended: end,
            written: end,
            synced: end,
            acknowledged: end,
            sync_demand: end,
            unsynced_files: VecDeque::from([(ready.id, ready.file.clone())]),
            live,
            spare: None,
            no_space: None,
            segment_wanted: false,
            syncer_idle: false,
            released: inherited.dropped.into(),
            next_segment: SegmentId(ready.id.0 + 1),
            failed: None,
            closing: false,
            stopped: false,
            stats: LogStats::default(),
            active: Active::new(ready.id, ready.file, next_bytes, inherited.end),
        }
    }

    fn check_open(&self) -> Result<(), LogError> {
        match &self.failed {
            Some(failure) => Err(failure.clone()),
            None if self.closing => Err(LogError::Closed),
            None => Ok(()),
        }
    }

    /// Whether a body of this size may be added to what waits for its write. An empty log takes any.
    fn takes(&self, body_bytes: usize, pending_bytes_max: usize) -> bool {
        let pending_bytes = self.flight_bytes + self.open.as_ref().map_or(0, OpenBlock::block_bytes);
        pending_bytes == 0 || pending_bytes + body_bytes <= pending_bytes_max
    }

    /// Whether anything is not synced; where not, the next append wakes the syncer.
    pub fn has_unsynced(&mut self) -> bool {
        self.syncer_idle = self.appended <= self.synced && !self.is_over();
        !self.syncer_idle
    }

    /// Somebody waits for a sync of what is written, or the log is over.
    pub fn sync_is_due(&self) -> bool {
        self.is_over() || (self.sync_demand > self.synced && self.written >= self.sync_demand)
    }

    /// How far the log is written, and the files to sync so that it is durable up to there; none where it is already.
    pub fn written_files(&self) -> (LogPosition, Vec<File>) {
        let files = self.unsynced_files.iter().filter(|(id, _)| *id <= self.written.segment);
        let any = self.written > self.synced;
        (self.written, files.filter(|_| any).map(|(_, file)| file.clone()).collect())
    }

    pub fn take_segment_id(&mut self) -> SegmentId {
        let id = self.next_segment;
        self.next_segment.0 += 1;
        id
    }

    /// The log's tasks end.
    pub fn is_over(&self) -> bool {
        self.stopped || self.failed.is_some()
    }

    pub fn note_sync(&mut self, took_ns: u64) {
        let mean = self.stats.sync_ns_mean;
        self.stats.sync_ns_mean = if self.stats.syncs == 0 { took_ns } else { mean - mean / 8 + took_ns / 8 };
        self.stats.syncs += 1;
    }
}

impl Active {
    fn new(id: SegmentId, file: File, next_bytes: usize, previous_end: LogPosition) -> Active {
        Active { id, file, next_bytes, previous_end, schemas: HashSet::with_hasher(hasher()) }
    }

    fn end(&self) -> LogPosition {
        let offset_bytes = u32::try_from(self.next_bytes).expect("a segment is smaller than 4 GiB");
        LogPosition { segment: self.id, offset_bytes }
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

fn schema_bytes(schema: &[u8]) -> usize {
    record_bytes(table_schema_front(TableId([0; 16]), 0).len() + schema.len())
}

fn push_schemas(state: &mut State, missing: &[(TableRef, Rc<[u8]>)]) {
    let open = state.open.as_mut().expect("room was made in an open block");
    for (table, schema) in missing {
        let front = table_schema_front(table.table, table.schema_version);
        open.push(RecordKind::TableSchema, &[&front, schema]);
        state.active.schemas.insert(*table);
    }
}

/// Holds a segment; dropping it lets go.
pub struct SegmentPin {
    log: Rc<CommitLog>,
    position: LogPosition,
}

impl SegmentPin {
    pub fn position(&self) -> LogPosition {
        self.position
    }
}

impl Drop for SegmentPin {
    fn drop(&mut self) {
        let mut state = self.log.state.borrow_mut();
        state.live.unpin(self.position);
        self.log.release(&mut state);
    }
}

/// Completes when the log is far enough, or has failed before it was.
#[must_use = "a wait does nothing unless awaited"]
pub struct Wait {
    log: Rc<CommitLog>,
    end: LogPosition,
    level: Level,
    number: Option<u64>,
}

impl Future for Wait {
    type Output = Result<(), LogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let log = self.log.clone();
        let mut state = log.state.borrow_mut();
        let reached = match self.level {
            Level::Acknowledged => state.acknowledged,
            Level::Synced => state.synced,
        };
        if self.end <= reached {
            return Poll::Ready(Ok(()));
        }
        if let Some(failure) = &state.failed {
            return Poll::Ready(Err(failure.clone()));
        }
        assert!(self.end <= state.appended, "nobody waits for what was not appended");
        let waiters = match self.level {
            Level::Acknowledged => &log.acknowledged,
            Level::Synced => &log.synced,
        };
        self.number = Some(waiters.wait(self.end, self.number, context.waker()));
        if self.level == Level::Synced && self.end > state.sync_demand {
            state.sync_demand = self.end;
            if state.written >= self.end {
                log.sync_wanted.notify_all();
            }
        }
        Poll::Pending
    }
}
