//! What an open log knows: its blocks on their way, how far it is, its segments. Its methods touch memory only.

use std::collections::VecDeque;

use super::block::{ClosedBlock, OpenBlock};
use super::config::LogConfig;
use super::error::LogError;
use super::live::{LiveSegment, LiveSegments};
use super::log::{Inherited, LogStats, TableRef};
use super::segment::ReadySegment;
use crate::base::collections::{HashSet, hasher};
use crate::base::ids::{LogPosition, SegmentId};
use crate::io::{AlignedBuf, File, IoError};

pub struct State {
    pub active: Active,
    pub open: Option<OpenBlock>,
    pub queue: VecDeque<Block>,
    /// Closed blocks that are not written, oldest first, from number `first_flight`.
    pub flights: VecDeque<Flight>,
    pub first_flight: u64,
    /// The bytes of those.
    pub flight_bytes: usize,
    /// The largest body that was refused for want of room.
    pub bytes_wanted: usize,
    pub buffers: Vec<AlignedBuf>,
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
    pub segment_wanted: bool,
    pub syncer_idle: bool,
    pub released: VecDeque<LiveSegment>,
    pub next_segment: SegmentId,
    pub failed: Option<LogError>,
    pub closing: bool,
    pub stopped: bool,
    pub stats: LogStats,
}

/// The segment that is written.
pub struct Active {
    pub id: SegmentId,
    pub file: File,
    /// Its whole size.
    pub bytes: usize,
    /// Where the next block will start; the open block starts there.
    pub next_bytes: usize,
    pub previous_end: LogPosition,
    pub schemas: HashSet<TableRef>,
    /// The one of them that the last record used, where it used one: most records use the same.
    pub last_schema: Option<TableRef>,
}

/// A block on its way to the disk.
pub struct Block {
    pub number: u64,
    pub closed: ClosedBlock,
    pub file: File,
}

pub struct Flight {
    pub end: LogPosition,
    pub bytes: usize,
    pub done: bool,
}

impl State {
    pub fn new(ready: ReadySegment, end: LogPosition, inherited: Inherited, config: &LogConfig) -> State {
        let mut live = LiveSegments::new(config.planted);
        for segment in inherited.segments {
            live.push(segment);
        }
        let active = Active::new(&ready, end.offset_bytes as usize, inherited.end);
        live.push(ready.live());
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
            unsynced_files: VecDeque::from([(active.id, active.file.clone())]),
            live,
            spare: None,
            no_space: None,
            segment_wanted: false,
            syncer_idle: false,
            released: inherited.dropped.into(),
            next_segment: SegmentId(active.id.0 + 1),
            failed: None,
            closing: false,
            stopped: false,
            stats: LogStats::default(),
            active,
        }
    }

    pub fn check_open(&self) -> Result<(), LogError> {
        match &self.failed {
            Some(failure) => Err(failure.clone()),
            None if self.closing => Err(LogError::Closed),
            None => Ok(()),
        }
    }

    /// Whether a body of this size may be added to what waits for its write. An empty log takes any.
    pub fn takes(&self, body_bytes: usize, pending_bytes_max: usize) -> bool {
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
    pub fn new(ready: &ReadySegment, next_bytes: usize, previous_end: LogPosition) -> Active {
        Active {
            id: ready.id,
            file: ready.file.clone(),
            bytes: ready.bytes as usize,
            next_bytes,
            previous_end,
            schemas: HashSet::with_hasher(hasher()),
            last_schema: None,
        }
    }

    pub fn end(&self) -> LogPosition {
        let offset_bytes = u32::try_from(self.next_bytes).expect("a segment is smaller than 4 GiB");
        LogPosition { segment: self.id, offset_bytes }
    }
}
