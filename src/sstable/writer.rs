//! Writing a file. The synchronous half takes partitions in order and fills aligned buffers; `settle` hands full buffers
//! to the device, several at a time, and lets other tasks run. So a memtable can be written from borrows that never
//! cross an await.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::base::ids::{TableId, Token};
use crate::io::{AlignedBuf, File, Io, IoClass, IoError, OpenHow};
use crate::mutation::{DeletionTime, Fragment, PartitionStart, RangeChange, Row};
use crate::schema::{Position, Table};
use crate::sstable::SSTableId;
use crate::sstable::block::BlockBuilder;
use crate::sstable::compression::{Compression, Compressor};
use crate::sstable::entry::{write_change, write_head, write_row};
use crate::sstable::error::SSTableError;
use crate::sstable::filter::Filter;
use crate::sstable::footer::{FOOTER_BYTES, Footer, HEADER_BYTES, write_header};
use crate::sstable::frame::{FrameKind, seal, sealed_len_max};
use crate::sstable::in_flight::InFlight;
use crate::sstable::index::{Handle, IndexEntry, Place, Within, write_index_entry};
use crate::sstable::output::Output;
use crate::sstable::statistics::Statistics;

/// Writes on their way at once.
const WRITES_IN_FLIGHT_MAX: usize = 4;
/// The size at which an index leaf ends, before compression.
const LEAF_BYTES: usize = 8 * 1024;
/// Blocks that are built before other tasks get a turn: about 100 µs of work.
const BLOCKS_A_TURN: usize = 4;

/// How a file is to be written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    pub id: SSTableId,
    pub table: TableId,
    pub compression: Compression,
    /// The size at which a data block ends, before compression.
    pub block_bytes: usize,
    pub filter_fp_chance: f64,
    /// What the filter is sized for; more partitions only make it less sharp.
    pub expected_partitions: u64,
    pub class: IoClass,
    /// The table's versions that the rows were written under.
    pub schema_versions: Vec<u32>,
    /// As the manifest encodes them.
    pub log_intervals: Vec<u8>,
    pub generation_level: u32,
    pub origin_host: [u8; 16],
}

impl WriterOptions {
    /// What the table's options ask for. A compression option that CREATE TABLE would refuse means the default.
    pub fn of_table(table: &Table, id: SSTableId, class: IoClass, expected_partitions: u64) -> Self {
        let (compression, block_bytes) = Compression::of_option(&table.options.compression)
            .unwrap_or((Compression::Snappy, super::compression::BLOCK_BYTES_DEFAULT));
        WriterOptions {
            id,
            table: table.id,
            compression,
            block_bytes,
            filter_fp_chance: table.options.bloom_filter_fp_chance,
            expected_partitions,
            class,
            schema_versions: vec![table.version],
            log_intervals: Vec::new(),
            generation_level: 0,
            origin_host: [0; 16],
        }
    }
}

/// A finished file, as strategies and the manifest know it.
#[derive(Clone, Debug)]
pub struct SSTableInfo {
    pub id: SSTableId,
    pub path: PathBuf,
    pub file_bytes: u64,
    pub statistics: Rc<Statistics>,
}

/// The partition being written.
#[derive(Default)]
struct Current {
    token: i64,
    key: Vec<u8>,
    deletion: Option<DeletionTime>,
    open: Option<DeletionTime>,
    started: bool,
}

impl Current {
    fn open(&self) -> DeletionTime {
        self.open.unwrap_or(DeletionTime::LIVE)
    }
}

/// A place with its own bytes: where a block begins.
#[derive(Default)]
struct First {
    token: i64,
    key: Vec<u8>,
    within: Option<(Vec<u8>, i8)>,
}

impl First {
    fn set(&mut self, token: i64, key: &[u8], position: Option<Position<'_>>) {
        self.token = token;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.within = position.map(|position| (position.prefix.to_vec(), position.weight));
    }

    fn place(&self) -> Place<'_> {
        let within = match &self.within {
            None => Within::Head,
            Some((prefix, weight)) => Within::At(Position { prefix, weight: *weight }),
        };
        Place { token: Token(self.token), key: &self.key, within }
    }
}

/// Builds the bytes of a file; no I/O.
struct Builder {
    options: WriterOptions,
    output: Output,
    compressor: Compressor,
    block: BlockBuilder,
    block_first: First,
    leaf: BlockBuilder,
    leaf_first: First,
    leaves: Vec<(First, Vec<u8>)>,
    current: Current,
    filter: Filter,
    statistics: Statistics,
    blocks_this_turn: usize,
}

impl Builder {
    fn new(options: WriterOptions) -> Self {
        let mut output = Output::new();
        let mut header = [0; HEADER_BYTES];
        write_header(options.table, &mut header);
        output.append(&header);
        let statistics = Statistics {
            schema_versions: options.schema_versions.clone(),
            log_intervals: options.log_intervals.clone(),
            generation_level: options.generation_level,
            origin_host: options.origin_host,
            ..Statistics::default()
        };
        Builder {
            filter: Filter::new(options.expected_partitions, options.filter_fp_chance),
            options,
            output,
            compressor: Compressor::default(),
            block: BlockBuilder::default(),
            block_first: First::default(),
            leaf: BlockBuilder::default(),
            leaf_first: First::default(),
            leaves: Vec::new(),
            current: Current::default(),
            statistics,
            blocks_this_turn: 0,
        }
    }

    fn begin_partition(&mut self, start: &PartitionStart<'_>) {
        assert!(!self.current.started, "the partition before has ended");
        let ascends = (self.statistics.last.0, self.statistics.last.1.as_slice()) < (start.token, start.key);
        assert!(self.statistics.partitions == 0 || ascends, "partitions come in token and key order, each once");
        self.current.token = start.token.0;
        self.current.key.clear();
        self.current.key.extend_from_slice(start.key);
        self.current.deletion = Some(start.deletion);
        self.current.open = None;
        self.current.started = true;
        self.note_partition(start);
        self.cut_if_full();
        if self.block.is_empty() {
            self.block_first.set(start.token.0, start.key, None);
        }
        let (out, base) = self.block.start_entry(true);
        write_head(out, base, (start.token, start.key), start.deletion, start.static_row.as_ref(), None);
    }

    fn note_partition(&mut self, start: &PartitionStart<'_>) {
        let statistics = &mut self.statistics;
        if statistics.partitions == 0 {
            statistics.first = (start.token, start.key.to_vec());
        }
        statistics.partitions += 1;
        statistics.last.0 = start.token;
        statistics.last.1.clear();
        statistics.last.1.extend_from_slice(start.key);
        statistics.note_deletion(start.deletion);
        if let Some(row) = start.static_row.as_ref().filter(|row| !row.is_empty()) {
            statistics.static_rows += 1;
            statistics.note_row(row);
        }
        self.filter.insert(start.token);
    }

    fn row(&mut self, row: &Row<'_>) {
        self.make_room(Position::row(row.clustering));
        self.statistics.rows += 1;
        self.statistics.note_row(row);
        let (out, base) = self.block.start_entry(false);
        write_row(out, base, row);
    }

    fn change(&mut self, change: &RangeChange<'_>) {
        self.make_room(change.position);
        let before = self.current.open();
        self.current.open = Some(change.deletion);
        self.statistics.note_deletion(change.deletion);
        self.block.note_ranges();
        let (out, base) = self.block.start_entry(false);
        write_change(out, base, change.position, before, change.deletion);
    }

    fn end_partition(&mut self) {
        assert!(self.current.started, "a partition was begun");
        if !self.current.open().is_live() {
            self.change(&RangeChange { position: Position::END, deletion: DeletionTime::LIVE });
        }
        self.current.started = false;
    }

    /// Makes sure that the next entry of the current partition has a block: a fresh one repeats the partition's head.
    fn make_room(&mut self, position: Position<'_>) {
        assert!(self.current.started, "rows belong to a partition");
        self.cut_if_full();
        if !self.block.is_empty() {
            return;
        }
        let current = &self.current;
        self.block_first.set(current.token, &current.key, Some(position));
        if !current.open().is_live() {
            self.block.note_ranges();
        }
        let (out, base) = self.block.start_entry(true);
        let deletion = current.deletion.unwrap_or(DeletionTime::LIVE);
        write_head(out, base, (Token(current.token), &current.key), deletion, None, Some(current.open()));
    }

    fn cut_if_full(&mut self) {
        if self.block.len_bytes() >= self.options.block_bytes && !self.block.is_empty() {
            self.cut();
        }
    }

    /// Ends the data block and enters it in the index.
    fn cut(&mut self) {
        let body = self.block.finish();
        self.statistics.raw_bytes += body.len() as u64;
        let how = self.options.compression;
        let handle = put_frame(&mut self.output, &mut self.compressor, FrameKind::Data, how, body);
        self.block.clear();
        self.blocks_this_turn += 1;
        if self.leaf.len_bytes() >= LEAF_BYTES {
            self.cut_leaf();
        }
        if self.leaf.is_empty() {
            std::mem::swap(&mut self.leaf_first, &mut self.block_first);
            write_index_entry(&mut self.leaf, &IndexEntry { first: self.leaf_first.place(), handle });
        } else {
            write_index_entry(&mut self.leaf, &IndexEntry { first: self.block_first.place(), handle });
        }
    }

    fn cut_leaf(&mut self) {
        let body = self.leaf.finish().to_vec();
        self.leaf.clear();
        self.leaves.push((std::mem::take(&mut self.leaf_first), body));
    }

    /// Appends all that follows the data.
    fn finish(&mut self) -> u64 {
        assert!(!self.current.started, "the last partition has ended");
        if !self.block.is_empty() {
            self.cut();
        }
        let mut footer = Footer { data_end_bytes: self.output.offset_bytes(), ..Footer::default() };
        if !self.leaf.is_empty() {
            self.cut_leaf();
        }
        let how = self.options.compression;
        let mut root = BlockBuilder::default();
        for (first, body) in self.leaves.drain(..) {
            let handle = put_frame(&mut self.output, &mut self.compressor, FrameKind::Leaf, how, &body);
            write_index_entry(&mut root, &IndexEntry { first: first.place(), handle });
        }
        footer.root = put_frame(&mut self.output, &mut self.compressor, FrameKind::Root, how, root.finish());
        let mut body = Vec::new();
        self.filter.encode(&mut body);
        footer.filter = put_frame(&mut self.output, &mut self.compressor, FrameKind::Filter, Compression::None, &body);
        body.clear();
        self.statistics.encode(&mut body);
        footer.statistics = put_frame(&mut self.output, &mut self.compressor, FrameKind::Statistics, how, &body);
        self.output.pad_for(FOOTER_BYTES);
        footer.file_bytes = self.output.offset_bytes() + FOOTER_BYTES as u64;
        let mut bytes = [0; FOOTER_BYTES];
        footer.encode(&mut bytes);
        self.output.append(&bytes);
        self.output.finish();
        footer.file_bytes
    }
}

fn put_frame(
    output: &mut Output,
    compressor: &mut Compressor,
    kind: FrameKind,
    how: Compression,
    body: &[u8],
) -> Handle {
    let offset_bytes = output.offset_bytes();
    let len = seal(kind, how, compressor, body, offset_bytes, output.room(sealed_len_max(how, body.len())));
    output.advance(len);
    Handle { offset_bytes, len_bytes: u32::try_from(len).expect("seal has seen that a frame is below 4 GiB") }
}

/// Writes one file.
pub struct Writer {
    io: Io,
    file: File,
    path: PathBuf,
    builder: Builder,
    writes: InFlight<(AlignedBuf, Result<(), IoError>)>,
}

impl Writer {
    /// Creates the file, which must not exist.
    pub async fn create(io: &Io, path: &Path, options: WriterOptions) -> Result<Self, SSTableError> {
        let file = io.open(path, OpenHow::CreateNew, options.class).await?;
        let builder = Builder::new(options);
        Ok(Writer { io: io.clone(), file, path: path.to_owned(), builder, writes: InFlight::default() })
    }

    /// Starts a partition, after `end_partition` of the one before it.
    ///
    /// # Panics
    /// Where partitions do not come in token and key order, each once.
    pub fn begin_partition(&mut self, start: &PartitionStart<'_>) {
        self.builder.begin_partition(start);
    }

    /// Appends a row or a change of the range deletion, forward in the table's clustering order.
    pub fn fragment(&mut self, fragment: &Fragment<'_>) {
        match fragment {
            Fragment::Row(row) => self.builder.row(row),
            Fragment::Change(change) => self.builder.change(change),
        }
    }

    pub fn end_partition(&mut self) {
        self.builder.end_partition();
    }

    /// Whether enough was built that `settle` should be called before more.
    #[inline]
    pub fn wants_settle(&self) -> bool {
        self.builder.blocks_this_turn >= BLOCKS_A_TURN
    }

    /// What the file has grown to.
    pub fn len_bytes(&self) -> u64 {
        self.builder.output.offset_bytes()
    }

    pub fn partitions(&self) -> u64 {
        self.builder.statistics.partitions
    }

    /// Starts the writes of full buffers, waits where too many are on their way, and lets other tasks run.
    pub async fn settle(&mut self) -> Result<(), SSTableError> {
        self.builder.blocks_this_turn = 0;
        self.write_full().await?;
        self.io.yield_now().await;
        Ok(())
    }

    async fn write_full(&mut self) -> Result<(), SSTableError> {
        while let Some((buf, offset_bytes)) = self.builder.output.take_full() {
            if self.writes.len() >= WRITES_IN_FLIGHT_MAX {
                self.reap().await?;
            }
            let file = self.file.clone();
            self.writes.start(async move { file.write_at(buf, offset_bytes).await }).await;
        }
        Ok(())
    }

    async fn reap(&mut self) -> Result<(), SSTableError> {
        if let Some((buf, written)) = self.writes.next().await {
            written?;
            self.builder.output.recycle(buf);
        }
        Ok(())
    }

    /// Completes the file and syncs its data. Its name is durable after the caller has synced the directory.
    pub async fn finish(mut self) -> Result<SSTableInfo, SSTableError> {
        let file_bytes = self.builder.finish();
        self.write_full().await?;
        while self.writes.len() > 0 {
            self.reap().await?;
        }
        self.file.sync_data().await?;
        let statistics = Rc::new(self.builder.statistics);
        Ok(SSTableInfo { id: self.builder.options.id, path: self.path, file_bytes, statistics })
    }

    /// Gives up: waits for what is on its way and removes the file.
    pub async fn abandon(mut self) -> Result<(), SSTableError> {
        while self.writes.next().await.is_some() {}
        self.io.remove_file(&self.path).await?;
        Ok(())
    }
}
