//! Writing a file. The synchronous half takes partitions in order and fills aligned buffers; `settle` hands full buffers
//! to the device, several at a time, and lets other tasks run. So a memtable can be written from borrows that never
//! cross an await.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::base::ids::TableId;
use crate::io::{AlignedBuf, File, Io, IoClass, IoError, OpenHow};
use crate::mutation::{Fragment, PartitionStart};
use crate::schema::Table;
use crate::sstable::SSTableId;
use crate::sstable::builder::Builder;
use crate::sstable::compression::{BLOCK_BYTES_DEFAULT, Compression};
use crate::sstable::error::SSTableError;
use crate::sstable::in_flight::InFlight;
use crate::sstable::statistics::Statistics;

/// Writes on their way at once.
const WRITES_IN_FLIGHT_MAX: usize = 4;
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
        let (compression, block_bytes) =
            Compression::of_option(&table.options.compression).unwrap_or((Compression::Snappy, BLOCK_BYTES_DEFAULT));
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
        if let Err(error) = self.write_rest().await {
            // The first failure is the one to report; a file that stays is removed at the next start.
            let _ = self.abandon().await;
            return Err(error);
        }
        let statistics = Rc::new(self.builder.statistics);
        Ok(SSTableInfo { id: self.builder.options.id, path: self.path, file_bytes, statistics })
    }

    /// Writes and syncs what is left of a finished table.
    async fn write_rest(&mut self) -> Result<(), SSTableError> {
        self.write_full().await?;
        while self.writes.len() > 0 {
            self.reap().await?;
        }
        Ok(self.file.sync_data().await?)
    }

    /// Gives up: waits for what is on its way and removes the file.
    pub async fn abandon(mut self) -> Result<(), SSTableError> {
        while self.writes.next().await.is_some() {}
        self.io.remove_file(&self.path).await?;
        Ok(())
    }
}
