//! The bytes of a file from its partitions, in order: entries into blocks, blocks into frames, frames into the output,
//! each block entered in the index. No I/O and no await.

use crate::base::ids::Token;
use crate::mutation::{DeletionTime, PartitionStart, RangeChange, Row};
use crate::schema::Position;
use crate::sstable::block::BlockBuilder;
use crate::sstable::compression::{Compression, Compressor};
use crate::sstable::entry::{write_change, write_head, write_row};
use crate::sstable::filter::Filter;
use crate::sstable::footer::{FOOTER_BYTES, Footer, HEADER_BYTES, write_header};
use crate::sstable::frame::{FrameKind, seal, sealed_len_max};
use crate::sstable::index::{Handle, IndexEntry, Place, Within, write_index_entry};
use crate::sstable::output::Output;
use crate::sstable::statistics::Statistics;
use crate::sstable::writer::WriterOptions;

/// The size at which an index leaf ends, before compression.
const LEAF_BYTES: usize = 8 * 1024;

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
    prefix: Vec<u8>,
    /// That of the position whose prefix this is; `None` at the partition's head.
    weight: Option<i8>,
}

impl First {
    fn set(&mut self, token: i64, key: &[u8], position: Option<Position<'_>>) {
        self.token = token;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.prefix.clear();
        self.prefix.extend_from_slice(position.map_or(&[], |position| position.prefix));
        self.weight = position.map(|position| position.weight);
    }

    fn place(&self) -> Place<'_> {
        let within = match self.weight {
            None => Within::Head,
            Some(weight) => Within::At(Position { prefix: &self.prefix, weight }),
        };
        Place { token: Token(self.token), key: &self.key, within }
    }
}

/// Builds the bytes of a file; no I/O.
pub(super) struct Builder {
    pub options: WriterOptions,
    pub output: Output,
    compressor: Compressor,
    block: BlockBuilder,
    block_first: First,
    leaf: BlockBuilder,
    leaf_first: First,
    leaves: Vec<(First, Vec<u8>)>,
    current: Current,
    filter: Filter,
    pub statistics: Statistics,
    /// Data blocks that were built since this was last set to 0.
    pub blocks_this_turn: usize,
}

impl Builder {
    pub fn new(options: WriterOptions) -> Self {
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

    pub fn begin_partition(&mut self, start: &PartitionStart<'_>) {
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

    pub fn row(&mut self, row: &Row<'_>) {
        self.make_room(Position::row(row.clustering));
        self.statistics.rows += 1;
        self.statistics.note_row(row);
        let (out, base) = self.block.start_entry(false);
        write_row(out, base, row);
    }

    pub fn change(&mut self, change: &RangeChange<'_>) {
        self.make_room(change.position);
        let before = self.current.open();
        self.current.open = Some(change.deletion);
        self.statistics.note_deletion(change.deletion);
        self.block.note_ranges();
        let (out, base) = self.block.start_entry(false);
        write_change(out, base, change.position, before, change.deletion);
    }

    pub fn end_partition(&mut self) {
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
    pub fn finish(&mut self) -> u64 {
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
