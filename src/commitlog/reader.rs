//! Reads one segment's file block by block through a window. Checks headers and checksums; what a bad block means is
//! for replay to judge.

use std::path::PathBuf;

use super::error::ReplayError;
use super::format::{BLOCK_ALIGN_BYTES, BLOCK_HEADER_BYTES, BadBlock, BlockHeader, Place, padded};
use super::segment::SegmentFile;
use crate::base::ids::{LogPosition, StreamId};
use crate::base::plants::{Plant, Planted};
use crate::io::{AlignedBuf, File, Io, IoClass, IoError, OpenHow};

/// What one read fetches.
const WINDOW_BYTES: usize = 256 << 10;

/// A segment's file, open for reading.
pub struct SegmentReader {
    pub path: PathBuf,
    pub len_bytes: usize,
    place: Place,
    file: File,
    /// `window_bytes` of the file from `window_at` on.
    window: AlignedBuf,
    window_at: usize,
    window_bytes: usize,
    planted: Planted,
}

impl SegmentReader {
    pub async fn open(
        io: &Io,
        stream: StreamId,
        segment: &SegmentFile,
        planted: Planted,
    ) -> Result<SegmentReader, IoError> {
        let file = io.open(&segment.path, OpenHow::Read, IoClass::Log).await?;
        // Offsets are 32 bits: nothing behind that is part of a segment.
        let len_bytes = usize::try_from(segment.len_bytes).unwrap_or(usize::MAX).min(u32::MAX as usize);
        Ok(SegmentReader {
            path: segment.path.clone(),
            len_bytes,
            place: Place { stream, segment: segment.id, offset_bytes: 0 },
            file,
            window: AlignedBuf::new(0),
            window_at: 0,
            window_bytes: 0,
            planted,
        })
    }

    fn place(&self, offset_bytes: usize) -> Place {
        self.place.plus(offset_bytes)
    }

    /// Has `bytes` from `offset_bytes` on in the window, or what the file has of them.
    async fn fill(&mut self, offset_bytes: usize, bytes: usize) -> Result<(), IoError> {
        let end = (offset_bytes + bytes).min(self.len_bytes);
        if self.window_at <= offset_bytes && end <= self.window_at + self.window_bytes {
            return Ok(());
        }
        // The first header alone tells whether there is more to read.
        let ahead = if self.window_bytes == 0 { 0 } else { self.len_bytes.saturating_sub(offset_bytes) };
        let wanted = padded(bytes).max(WINDOW_BYTES.min(padded(ahead)));
        let mut window = std::mem::replace(&mut self.window, AlignedBuf::new(0));
        if window.capacity() < wanted {
            window = AlignedBuf::new(wanted);
        }
        window.set_len(wanted);
        let (window, read) = self.file.read_at(window, offset_bytes as u64).await;
        self.window = window;
        self.window_at = offset_bytes;
        self.window_bytes = 0;
        self.window_bytes = read?;
        Ok(())
    }

    fn at(&self, offset_bytes: usize) -> &[u8] {
        self.window[..self.window_bytes].get(offset_bytes - self.window_at..).unwrap_or_default()
    }

    /// The header at `offset_bytes`, where a block of this segment stands there that ends within the file.
    pub async fn header(&mut self, offset_bytes: usize) -> Result<Result<BlockHeader, BadBlock>, IoError> {
        self.fill(offset_bytes, BLOCK_ALIGN_BYTES).await?;
        let place = self.place(offset_bytes);
        let header = match BlockHeader::decode(self.at(offset_bytes), place) {
            Err(BadBlock::Foreign(other)) if self.planted.is(Plant::AcceptStaleRecords) => {
                let stale = BlockHeader::decode_anywhere(self.at(offset_bytes));
                stale.ok().filter(|_| other.offset_bytes == place.offset_bytes).ok_or(BadBlock::Foreign(other))
            }
            header => header,
        };
        let room_bytes = self.len_bytes - offset_bytes.min(self.len_bytes);
        Ok(header.and_then(|header| match header.block_bytes() <= room_bytes {
            true => Ok(header),
            false => Err(BadBlock::Length { payload_bytes: header.payload_bytes, room_bytes }),
        }))
    }

    /// The whole block at `offset_bytes`: its header, and whether its records are what was written. They are in the
    /// window afterwards, for [`SegmentReader::payload`].
    pub async fn block(&mut self, offset_bytes: usize) -> Result<(Option<BlockHeader>, Result<(), BadBlock>), IoError> {
        let header = match self.header(offset_bytes).await? {
            Ok(header) => header,
            Err(bad) => return Ok((None, Err(bad))),
        };
        self.fill(offset_bytes, header.block_bytes()).await?;
        Ok((Some(header), header.payload(self.at(offset_bytes)).map(|_| ())))
    }

    /// The records of the block that was read last, good or bad.
    pub fn payload(&self, header: &BlockHeader, offset_bytes: usize) -> &[u8] {
        let from = self.at(offset_bytes + BLOCK_HEADER_BYTES);
        &from[..from.len().min(header.payload_bytes as usize)]
    }

    /// The first block at or behind `offset_bytes` whose header is this segment's own. A newer format's block is an
    /// error: what cannot be read must not pass for nothing.
    pub async fn next_header(&mut self, offset_bytes: usize) -> Result<Option<BlockHeader>, ReplayError> {
        for at in (offset_bytes..self.len_bytes).step_by(BLOCK_ALIGN_BYTES) {
            match self.header(at).await? {
                Ok(header) => return Ok(Some(header)),
                Err(BadBlock::NewerVersion(version)) => return Err(self.newer_version(at, version)),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    pub fn newer_version(&self, offset_bytes: usize, version: u16) -> ReplayError {
        let offset_bytes = self.place(offset_bytes).offset_bytes;
        ReplayError::NewerVersion { path: self.path.clone(), offset_bytes, version }
    }

    /// The highest position that any header at or behind `offset_bytes` names as synced.
    pub async fn highest_synced(&mut self, offset_bytes: usize) -> Result<Option<LogPosition>, IoError> {
        let mut highest = None;
        for at in (offset_bytes..self.len_bytes).step_by(BLOCK_ALIGN_BYTES) {
            if let Ok(header) = self.header(at).await? {
                highest = highest.max(Some(header.synced));
            }
        }
        Ok(highest)
    }
}
