//! Reading a whole file once, in order, for compaction and verification: large reads ahead of the walk, around the
//! cache.

use std::rc::Rc;

use crate::io::{ALIGN_BYTES, AlignedBuf, File, Io, IoClass, IoError, OpenHow};
use crate::mutation::{PartitionStart, ReadStop, Row};
use crate::schema::Position;
use crate::sstable::block::Block;
use crate::sstable::entry::{self, Change, EntryKind, HeadKey};
use crate::sstable::error::SSTableError;
use crate::sstable::footer::HEADER_BYTES;
use crate::sstable::frame::{self, FRAME_HEADER_BYTES, FrameKind};
use crate::sstable::in_flight::InFlight;
use crate::sstable::reader::Reader;

/// One read.
const SPAN_BYTES: u64 = 512 * 1024;
/// Reads on their way.
const READS_AHEAD: usize = 2;
/// Blocks that are expanded before other tasks get a turn.
const BLOCKS_A_TURN: usize = 4;

/// What a scanner stands at.
#[derive(Debug)]
pub enum ScanItem<'a> {
    Partition(PartitionStart<'a>),
    Row(Row<'a>),
    Change(Change<'a>),
    End,
}

/// A walk over all entries of a file. `settle` makes the current one available; `step` goes past it.
pub struct Scanner {
    io: Io,
    file: File,
    name: Rc<str>,
    data_end_bytes: u64,
    reads: InFlight<(AlignedBuf, Result<usize, IoError>)>,
    /// Where the next read starts.
    read_from: u64,
    /// Bytes read and not yet used up: `window[used..]` stands at `position`.
    window: Vec<u8>,
    used: usize,
    position: u64,
    block: Option<Block>,
    /// The current entry, and the head that it belongs to.
    entry: usize,
    head: usize,
    blocks_this_turn: usize,
}

impl Scanner {
    /// Opens the reader's file anew, with compaction's I/O class, at its first entry.
    pub async fn open(io: &Io, reader: &Reader) -> Result<Self, SSTableError> {
        let file = io.open(reader.path(), OpenHow::Read, IoClass::Compaction).await?;
        Ok(Scanner {
            io: io.clone(),
            file,
            name: reader.name().clone(),
            data_end_bytes: reader.footer().data_end_bytes,
            reads: InFlight::default(),
            read_from: 0,
            window: Vec::new(),
            used: 0,
            position: 0,
            block: None,
            entry: 0,
            head: 0,
            blocks_this_turn: 0,
        })
    }

    /// Makes the current entry available: loads the next block where the last one is used up, and goes over the head
    /// that a block repeats.
    pub async fn settle(&mut self) -> Result<(), SSTableError> {
        while self.block.as_ref().is_none_or(|block| self.entry >= block.entries()) {
            let Some(block) = self.next_block().await? else {
                self.block = None;
                return Ok(());
            };
            let continued = block.heads() > 0 && block.head(0).map_err(to_error)?.continued;
            (self.entry, self.head) = (usize::from(continued), 0);
            self.block = Some(block);
        }
        Ok(())
    }

    /// Goes past the current entry. `settle` comes next.
    pub fn step(&mut self) {
        self.entry += 1;
        if let Some(block) = &self.block
            && self.head + 1 < block.heads()
            && block.head_entry(self.head + 1) == self.entry
        {
            self.head += 1;
        }
    }

    /// The partition of the current entry; `None` at the end.
    pub fn key(&self) -> Result<Option<HeadKey<'_>>, SSTableError> {
        self.block.as_ref().map(|block| block.head_key(self.head).map_err(to_error)).transpose()
    }

    /// Whether the current entry starts a partition.
    pub fn at_head(&self) -> bool {
        self.block.as_ref().is_some_and(|block| block.heads() > 0 && block.head_entry(self.head) == self.entry)
    }

    /// Where the current row or change stands; `None` at a partition's start and at the end.
    pub fn row_position(&self) -> Option<Position<'_>> {
        entry::position_of(self.block.as_ref()?.entry(self.entry))
    }

    /// The current entry.
    pub fn item(&self) -> Result<ScanItem<'_>, SSTableError> {
        let Some(block) = &self.block else { return Ok(ScanItem::End) };
        match block.kind(self.entry).map_err(to_error)? {
            EntryKind::Head => {
                let head = block.head(self.head).map_err(to_error)?;
                let static_row =
                    entry::static_row(&head, block.base()).ok_or_else(|| block.damage_error("a static row"))?;
                let (token, key, deletion) = (head.token, head.key, head.deletion);
                Ok(ScanItem::Partition(PartitionStart { token, key, deletion, static_row }))
            }
            EntryKind::Row => entry::row(block.entry(self.entry), block.base())
                .map(ScanItem::Row)
                .ok_or_else(|| block.damage_error("a row")),
            EntryKind::Change => block.change(self.entry).map(ScanItem::Change).map_err(to_error),
        }
    }

    /// The next data block; `None` at the end of the data.
    pub(crate) async fn next_block(&mut self) -> Result<Option<Block>, SSTableError> {
        self.blocks_this_turn += 1;
        if self.blocks_this_turn >= BLOCKS_A_TURN {
            self.blocks_this_turn = 0;
            self.io.yield_now().await;
        }
        if self.position == 0 {
            self.fill(HEADER_BYTES).await?;
            self.take(HEADER_BYTES);
        }
        if self.position >= self.data_end_bytes {
            return Ok(None);
        }
        self.fill(FRAME_HEADER_BYTES).await?;
        let offset = self.position;
        let corrupt = |what: String| SSTableError::corrupt(&self.name, offset, what);
        let framed = match frame::lengths(&self.window[self.used..]) {
            Some(lengths) if offset + lengths.framed <= self.data_end_bytes => lengths.framed,
            _ => return Err(corrupt("a block longer than the data".into())),
        };
        let framed = usize::try_from(framed).map_err(|_| corrupt("a block's length".into()))?;
        self.fill(framed).await?;
        let body = frame::open(FrameKind::Data, &self.window[self.used..self.used + framed], offset)
            .map_err(|damage| SSTableError::corrupt(&self.name, offset, damage.to_string()))?;
        let block = Block::parse(&self.name, offset, body)?;
        if block.heads() == 0 || block.head_entry(0) != 0 {
            return Err(block.damage_error("a data block that does not begin with a partition's head"));
        }
        self.take(framed);
        Ok(Some(block))
    }

    fn take(&mut self, len: usize) {
        self.used += len;
        self.position += len as u64;
    }

    /// Makes sure that `len` bytes from `position` are in the window.
    async fn fill(&mut self, len: usize) -> Result<(), SSTableError> {
        while self.window.len() - self.used < len {
            let data_pages = self.data_end_bytes.next_multiple_of(ALIGN_BYTES as u64);
            while self.reads.len() < READS_AHEAD && self.read_from < data_pages {
                let (file, from) = (self.file.clone(), self.read_from);
                let span = SPAN_BYTES.min(data_pages - from);
                let buf = AlignedBuf::new(usize::try_from(span).expect("a span is below a megabyte"));
                self.reads.start(async move { file.read_at(buf, from).await }).await;
                self.read_from += span;
            }
            let Some((buf, read)) = self.reads.next().await else {
                return Err(SSTableError::corrupt(&self.name, self.position, "the data ends within a block"));
            };
            let read = read?;
            if read == 0 {
                return Err(SSTableError::corrupt(&self.name, self.position, "the file ends before its data does"));
            }
            self.window.drain(..self.used);
            self.used = 0;
            self.window.extend_from_slice(&buf[..read.min(buf.len())]);
        }
        Ok(())
    }
}

/// A walk over a block that is in memory stops only at damage.
pub(crate) fn to_error(stop: ReadStop) -> SSTableError {
    match stop {
        ReadStop::Corrupt(what) => SSTableError::Damaged(what),
        ReadStop::Miss | ReadStop::Turn => SSTableError::Damaged("a block that was in memory is not".into()),
    }
}
