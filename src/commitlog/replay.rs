//! Reads a log back after a stop of any kind, record by record, in log order, with bounded memory. Decides at each bad
//! block whether it is corruption or the lost tail; FORMAT.md states how. What it decides depends on the files alone,
//! so that a recovery that was interrupted comes out the same the next time.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::attempts::{Attempt, Attempts};
use super::chain::{Found, Link, chain};
use super::error::{Damage, ReplayError};
use super::format::{
    BLOCK_ALIGN_BYTES, BLOCK_HEADER_BYTES, BadBlock, BlockHeader, Place, RECORD_HEADER_BYTES, RecordKind, read_record,
};
use super::live::LiveSegment;
use super::log::Inherited;
use super::reader::SegmentReader;
use super::segment::{SegmentFile, list_segments};
use crate::base::ids::{LogPosition, SegmentId, StreamId, TableId};
use crate::base::plants::Planted;
use crate::io::Io;

/// What to do about corruption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DamagePolicy {
    /// Stop with an error that names file and offset. Nothing is changed.
    #[default]
    Refuse,
    /// Report it, take what is whole, go on behind it; the file is set aside once its records are flushed, never
    /// removed.
    Quarantine,
}

/// How to replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayOptions {
    pub damage: DamagePolicy,
    /// Where a clean stop ended this log, as the manifest has it: everything before it was synced.
    pub known_end: Option<LogPosition>,
    /// The log goes on in this segment or a later one.
    pub next_segment_min: u64,
    /// Keep a mark on disk, so that a record that kills the process twice is set aside at the next start.
    pub mark_attempts: bool,
    pub planted: Planted,
}

/// A record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub position: LogPosition,
    pub kind: RecordKind,
    pub body: &'a [u8],
}

/// A place that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamageReport {
    pub path: PathBuf,
    pub offset_bytes: u32,
    pub damage: Damage,
}

/// How the log ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// It was closed.
    Clean,
    /// It was not closed; nothing stands behind its last block.
    Open,
    /// A block that was not known to be synced was lost or torn. It and all behind it are dropped.
    Lost(DamageReport),
}

/// What replay found.
#[derive(Debug)]
pub struct Replayed {
    /// What [`super::CommitLog::open`] goes on from.
    pub inherited: Inherited,
    pub tail: Tail,
    /// Places below what was synced that could not be read; empty unless the policy is to go on.
    pub damage: Vec<DamageReport>,
    /// Records that were set aside because they killed the process, each kept in a file of its own; now or earlier.
    pub set_aside: Vec<LogPosition>,
    pub records: u64,
}

/// A replay under way.
pub struct Replay {
    io: Io,
    stream: StreamId,
    options: ReplayOptions,
    files: Vec<SegmentFile>,
    links: VecDeque<Link>,
    dropped: BTreeSet<SegmentId>,
    current: Option<Current>,
    segments: Vec<LiveSegment>,
    /// The end of the last segment that was read to its end.
    end: LogPosition,
    /// The highest position that a header so far, or the manifest, names as synced.
    synced: LogPosition,
    /// `synced` also covers the headers behind the first bad block.
    looked_ahead: bool,
    tail: Option<Tail>,
    closed: bool,
    damage: Vec<DamageReport>,
    attempts: Option<Attempts>,
    set_aside: Vec<LogPosition>,
    records: u64,
}

/// The segment that is read.
struct Current {
    link: Link,
    reader: SegmentReader,
    next_bytes: usize,
    block: Option<OpenedBlock>,
}

/// The block whose records are given out.
struct OpenedBlock {
    header: BlockHeader,
    at_bytes: usize,
    used_bytes: usize,
    /// Where the last record given out starts in the payload, and its body's length.
    last: (usize, usize),
    /// Its checksum is wrong: the records in front that are whole are taken.
    salvaged: bool,
}

impl Replay {
    /// Finds the segments of `stream` in `dir` and how they hang together.
    pub async fn open(io: Io, dir: &Path, stream: StreamId, options: ReplayOptions) -> Result<Replay, ReplayError> {
        let files = list_segments(&io, dir, stream).await?;
        let mut found = Vec::with_capacity(files.len());
        for file in &files {
            let mut reader = SegmentReader::open(&io, stream, file, options.planted).await?;
            let header = reader.next_header(0).await?;
            found.push(Found { id: file.id, previous_end: header.map(|header| header.previous_end) });
        }
        let chain = chain(stream, &found)?;
        let marked = options.mark_attempts && !chain.links.is_empty();
        let attempts = if marked { Some(Attempts::begin(&io, dir, stream).await?) } else { None };
        Ok(Replay {
            io,
            stream,
            options,
            files,
            links: chain.links.into(),
            dropped: chain.dropped.into_iter().collect(),
            current: None,
            segments: Vec::new(),
            end: LogPosition::ZERO,
            synced: options.known_end.unwrap_or(LogPosition::ZERO),
            looked_ahead: false,
            tail: None,
            closed: false,
            damage: Vec::new(),
            attempts,
            set_aside: Vec::new(),
            records: 0,
        })
    }

    /// The next record, or `None` at the end of the log.
    pub async fn next(&mut self) -> Result<Option<Record<'_>>, ReplayError> {
        match self.advance_marked().await {
            Ok(Some((position, kind))) => {
                self.records += 1;
                Ok(Some(Record { position, kind, body: self.last_body() }))
            }
            ended => {
                if let Some(attempts) = self.attempts.take() {
                    attempts.end().await?;
                }
                ended.map(|_| None)
            }
        }
    }

    /// Goes to the next record that may be given out.
    async fn advance_marked(&mut self) -> Result<Option<(LogPosition, RecordKind)>, ReplayError> {
        while let Some((position, kind)) = self.advance().await? {
            let Some(mut attempts) = self.attempts.take() else { return Ok(Some((position, kind))) };
            let attempt = attempts.before(position, self.last_body()).await;
            self.attempts = Some(attempts);
            match attempt? {
                Attempt::Apply => return Ok(Some((position, kind))),
                Attempt::Skip => self.set_aside.push(position),
            }
        }
        Ok(None)
    }

    /// The body of the record that was gone to last.
    fn last_body(&self) -> &[u8] {
        let current = self.current.as_ref().expect("a record stands in a segment");
        let block = current.block.as_ref().expect("a record stands in a block");
        let (start, bytes) = block.last;
        &current.reader.payload(&block.header, block.at_bytes)[start..start + bytes]
    }

    /// The segment of `position` is needed until `table` is flushed. To be said of every record that was applied.
    pub fn mark_dirty(&mut self, table: TableId, position: LogPosition) {
        let segment = self.segments.iter_mut().rev().find(|segment| segment.id == position.segment);
        segment.expect("a record's segment was read").touch(table, position.offset_bytes);
    }

    /// What was found, once [`Replay::next`] has given `None`.
    ///
    /// # Panics
    /// Before that.
    pub fn finish(self) -> Replayed {
        let tail = self.tail.expect("finish is called at the end of the log");
        let last = self.files.last().map_or(0, |file| file.id.0);
        let as_live = |file: &SegmentFile| LiveSegment::new(file.id, file.path.clone(), file.len_bytes);
        let next = (last + 1).max(self.options.next_segment_min).max(self.end.segment.0 + 1);
        Replayed {
            inherited: Inherited {
                end: self.end,
                next_segment: SegmentId(next),
                segments: self.segments,
                dropped: self.files.iter().filter(|file| self.dropped.contains(&file.id)).map(as_live).collect(),
                synced: self.synced,
            },
            tail,
            damage: self.damage,
            set_aside: self.set_aside,
            records: self.records,
        }
    }

    async fn advance(&mut self) -> Result<Option<(LogPosition, RecordKind)>, ReplayError> {
        while self.tail.is_none() {
            if let Some(record) = self.next_in_block()? {
                return Ok(Some(record));
            }
            match &self.current {
                None => self.next_segment().await?,
                Some(_) => self.next_block().await?,
            }
        }
        Ok(None)
    }

    /// The next record of the open block, if any.
    fn next_in_block(&mut self) -> Result<Option<(LogPosition, RecordKind)>, ReplayError> {
        let Some(current) = &mut self.current else { return Ok(None) };
        let Some(block) = &mut current.block else { return Ok(None) };
        let payload = current.reader.payload(&block.header, block.at_bytes);
        let rest = &payload[block.used_bytes..];
        let place = records_place(&block.header, block.used_bytes);
        let record = match (rest.is_empty(), read_record(rest, place, block.header.version)) {
            (false, Ok(record)) => record,
            (false, Err(bad)) if !block.salvaged => {
                current.block = None;
                let damage = Damage::Record(bad);
                return self.corrupt(place.offset_bytes, damage).map(|()| None);
            }
            _ => {
                current.block = None;
                return Ok(None);
            }
        };
        let Some(kind) = RecordKind::from_code(record.kind) else {
            let path = current.reader.path.clone();
            return Err(ReplayError::UnknownKind { path, offset_bytes: place.offset_bytes, kind: record.kind });
        };
        let header_bytes = RECORD_HEADER_BYTES;
        block.last = (block.used_bytes + header_bytes, record.body.len());
        block.used_bytes += header_bytes + record.body.len();
        self.closed = kind == RecordKind::End;
        Ok(Some((LogPosition { segment: current.link.id, offset_bytes: place.offset_bytes }, kind)))
    }

    async fn next_segment(&mut self) -> Result<(), ReplayError> {
        let Some(link) = self.links.pop_front() else {
            self.finish_at_last_segment()?;
            return Ok(());
        };
        let file = self.files.iter().find(|file| file.id == link.id).expect("a link is a file that was found");
        let reader = SegmentReader::open(&self.io, self.stream, file, self.options.planted).await?;
        self.segments.push(LiveSegment::new(file.id, file.path.clone(), file.len_bytes));
        self.closed = false;
        self.current = Some(Current { link, reader, next_bytes: 0, block: None });
        Ok(())
    }

    /// The last segment was read to its end. Where the manifest knows of more, that is gone.
    fn finish_at_last_segment(&mut self) -> Result<(), ReplayError> {
        if let (true, Some(last)) = (self.synced > self.end, self.files.last()) {
            let report =
                DamageReport { path: last.path.clone(), offset_bytes: self.end.offset_bytes, damage: Damage::FileEnds };
            self.report(report)?;
        }
        self.tail = Some(if self.closed { Tail::Clean } else { Tail::Open });
        Ok(())
    }

    async fn next_block(&mut self) -> Result<(), ReplayError> {
        let current = self.current.as_mut().expect("a block is read in a segment");
        let at_bytes = current.next_bytes;
        let end_bytes = current.link.end_bytes.map(|end| end as usize);
        let known_bytes = if self.synced.segment == current.link.id { self.synced.offset_bytes as usize } else { 0 };
        if at_bytes >= end_bytes.unwrap_or(current.reader.len_bytes.max(known_bytes)) {
            self.end = position(current.link.id, at_bytes);
            self.current = None;
            return Ok(());
        }
        if at_bytes >= current.reader.len_bytes {
            return self.judge(at_bytes, None, Damage::FileEnds).await;
        }
        let (header, whole) = current.reader.block(at_bytes).await?;
        match (header, whole) {
            (Some(header), Ok(())) => {
                self.synced = self.synced.max(header.synced);
                current.next_bytes = at_bytes + header.block_bytes();
                current.block = Some(OpenedBlock { header, at_bytes, used_bytes: 0, last: (0, 0), salvaged: false });
                Ok(())
            }
            (_, Err(BadBlock::NewerVersion(version))) => Err(current.reader.newer_version(at_bytes, version)),
            (header, Err(bad)) => self.judge(at_bytes, header, Damage::Block(bad)).await,
            (None, Ok(())) => unreachable!("a good block has a header"),
        }
    }

    /// A bad block: corruption where any header behind it names it as synced, else the lost tail.
    async fn judge(&mut self, at_bytes: usize, header: Option<BlockHeader>, damage: Damage) -> Result<(), ReplayError> {
        let current = self.current.as_mut().expect("a block is judged in a segment");
        let here = position(current.link.id, at_bytes);
        let behind = current.reader.next_header(at_bytes + BLOCK_ALIGN_BYTES).await?;
        if !self.looked_ahead {
            self.look_ahead(at_bytes).await?;
        }
        if self.synced <= here {
            self.cut(at_bytes, damage, behind.is_some());
            return Ok(());
        }
        self.corrupt(offset(at_bytes), damage)?;
        let current = self.current.as_mut().expect("a block is judged in a segment");
        match header {
            Some(header) => {
                current.block = Some(OpenedBlock { header, at_bytes, used_bytes: 0, last: (0, 0), salvaged: true });
                current.next_bytes = at_bytes + header.block_bytes();
            }
            None => {
                let end = current.link.end_bytes.map_or(current.reader.len_bytes, |end| end as usize);
                current.next_bytes = behind.map_or(end, |header| (header.place.offset_bytes as usize).min(end));
                // Nothing is known behind the last good block of the last segment: the log ends at the bad one.
                if behind.is_none() && current.link.end_bytes.is_none() {
                    self.end = here;
                    self.current = None;
                }
            }
        }
        Ok(())
    }

    /// Reads what every header behind the bad block names as synced.
    async fn look_ahead(&mut self, at_bytes: usize) -> Result<(), ReplayError> {
        self.looked_ahead = true;
        let current = self.current.as_mut().expect("a block is judged in a segment");
        let id = current.link.id;
        let mut highest = current.reader.highest_synced(at_bytes + BLOCK_ALIGN_BYTES).await?;
        for file in self.files.iter().filter(|file| file.id > id) {
            let mut reader = SegmentReader::open(&self.io, self.stream, file, self.options.planted).await?;
            highest = highest.max(reader.highest_synced(0).await?);
        }
        self.synced = self.synced.max(highest.unwrap_or(LogPosition::ZERO));
        Ok(())
    }

    /// The log ends here. Everything behind is dropped.
    fn cut(&mut self, at_bytes: usize, damage: Damage, more_behind: bool) {
        let current = self.current.take().expect("a log is cut in a segment");
        let never_written = matches!(
            damage,
            Damage::FileEnds | Damage::Block(BadBlock::Blank | BadBlock::NoHeader | BadBlock::Foreign(_))
        );
        let more = more_behind || current.link.end_bytes.is_some() || !self.links.is_empty();
        self.tail = Some(match never_written && !more {
            true if self.closed => Tail::Clean,
            true => Tail::Open,
            false => {
                Tail::Lost(DamageReport { path: current.reader.path.clone(), offset_bytes: offset(at_bytes), damage })
            }
        });
        self.dropped.extend(self.links.drain(..).map(|link| link.id));
        if at_bytes == 0 {
            // Nothing of this segment counts: the log ends where the one before it ends.
            self.dropped.insert(current.link.id);
            self.segments.pop();
        } else {
            self.end = position(current.link.id, at_bytes);
        }
    }

    fn corrupt(&mut self, offset_bytes: u32, damage: Damage) -> Result<(), ReplayError> {
        let current = self.current.as_ref().expect("corruption stands in a segment");
        let report = DamageReport { path: current.reader.path.clone(), offset_bytes, damage };
        self.segments.last_mut().expect("the segment that is read").damaged = true;
        self.report(report)
    }

    fn report(&mut self, report: DamageReport) -> Result<(), ReplayError> {
        match self.options.damage {
            DamagePolicy::Refuse => {
                let DamageReport { path, offset_bytes, damage } = report;
                Err(ReplayError::Corrupt { path, offset_bytes, damage })
            }
            DamagePolicy::Quarantine => {
                self.damage.push(report);
                Ok(())
            }
        }
    }
}

/// Where the record stands that starts `used_bytes` into a block's payload.
fn records_place(header: &BlockHeader, used_bytes: usize) -> Place {
    header.place.plus(BLOCK_HEADER_BYTES + used_bytes)
}

fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a segment is smaller than 4 GiB")
}

fn position(segment: SegmentId, bytes: usize) -> LogPosition {
    LogPosition { segment, offset_bytes: offset(bytes) }
}
