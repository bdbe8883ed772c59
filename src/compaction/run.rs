//! Running a compaction: several files in, one out, or none where nothing stays.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use crate::base::ids::{ColumnId, Token};
use crate::compaction::gate::PurgeGate;
use crate::compaction::merge::{Chosen, MergeCounts, PartitionMerge, Rules};
use crate::io::{Io, IoClass};
use crate::mutation::purge::Purger;
use crate::schema::{ClusteringOrder, Table};
use crate::sstable::{HeadKey, Reader, SSTableError, SSTableId, SSTableInfo, Scanner, Writer, WriterOptions};

/// Partitions between two looks at the stop flag and two turns for other tasks, where little is written.
const PARTITIONS_A_TURN: u32 = 256;
/// Rows likewise.
const ROWS_A_TURN: u32 = 1024;

/// What to merge, and how.
pub struct Job<'a> {
    pub table: &'a Table,
    pub inputs: &'a [Rc<Reader>],
    /// The new file; it must not exist.
    pub output: SSTableId,
    pub output_path: PathBuf,
    pub now_s: i64,
    pub gate: &'a dyn PurgeGate,
    /// Set from elsewhere, it ends the compaction at its next turn with `SSTableError::Cancelled`; the output is
    /// removed and the inputs stay.
    pub stop: &'a Cell<bool>,
}

/// What a compaction did. The caller syncs the directory, swaps the files in its manifest, and removes the inputs.
#[derive(Debug)]
pub struct Outcome {
    /// `None` where nothing stays.
    pub output: Option<SSTableInfo>,
    pub input_bytes: u64,
    pub partitions_read: u64,
    pub partitions_written: u64,
    pub rows_read: u64,
    pub rows_written: u64,
}

/// Merges the inputs into one file. Tombstones and expired data go where gc_grace is over and the gate allows it;
/// partitions that an input holds for other owners are left out.
pub async fn compact(io: &Io, job: Job<'_>) -> Result<Outcome, SSTableError> {
    let mut scanners = Vec::with_capacity(job.inputs.len());
    for input in job.inputs {
        scanners.push(Scanner::open(io, input).await?);
    }
    let writer = Writer::create(io, &job.output_path, output_options(&job)).await?;
    let mut dropped: Vec<ColumnId> = job.table.dropped.iter().map(|column| column.id).collect();
    dropped.sort_unstable();
    let (order, dropped) = (job.table.clustering_order(), dropped.as_slice());
    let mut run = Run { job, order, dropped, scanners, writer, counts: MergeCounts::default(), read: 0, turn: 0 };
    match run.merge_all(io).await {
        Ok(()) => run.finish().await,
        Err(error) => {
            // The first failure is the one to report; an orphan that stays is removed at the next start.
            let _ = run.writer.abandon().await;
            Err(error)
        }
    }
}

fn output_options(job: &Job<'_>) -> WriterOptions {
    let statistics = || job.inputs.iter().map(|input| input.statistics());
    let partitions = statistics().map(|statistics| statistics.partitions).sum();
    let mut options = WriterOptions::of_table(job.table, job.output, IoClass::Compaction, partitions);
    let versions = statistics().flat_map(|statistics| statistics.schema_versions.iter().copied());
    options.schema_versions.extend(versions);
    options.schema_versions.sort_unstable();
    options.schema_versions.dedup();
    options.generation_level = statistics().map(|statistics| statistics.generation_level).max().unwrap_or(0) + 1;
    options.origin_host = statistics().next().map_or([0; 16], |statistics| statistics.origin_host);
    options
}

struct Run<'a> {
    job: Job<'a>,
    order: &'a ClusteringOrder,
    dropped: &'a [ColumnId],
    scanners: Vec<Scanner>,
    writer: Writer,
    counts: MergeCounts,
    read: u64,
    /// Work since the last turn for others.
    turn: u32,
}

impl Run<'_> {
    async fn merge_all(&mut self, io: &Io) -> Result<(), SSTableError> {
        let mut key = Vec::new();
        for scanner in &mut self.scanners {
            scanner.settle().await?;
        }
        while let Some((token, chosen)) = self.least(&mut key)? {
            self.turn(io, ROWS_A_TURN / PARTITIONS_A_TURN).await?;
            if chosen.is_empty() {
                self.skip(HeadKey { token, key: &key }).await?;
                continue;
            }
            self.read += chosen.len() as u64;
            self.partition(io, HeadKey { token, key: &key }, chosen).await?;
        }
        Ok(())
    }

    /// The least partition that any scanner stands at, its key into `key`, and which of those scanners may read it.
    fn least(&self, key: &mut Vec<u8>) -> Result<Option<(Token, Chosen)>, SSTableError> {
        let mut least: Option<HeadKey<'_>> = None;
        for scanner in &self.scanners {
            if let Some(here) = scanner.key()?
                && least.is_none_or(|least| here < least)
            {
                least = Some(here);
            }
        }
        let Some(least) = least else { return Ok(None) };
        let mut chosen = Chosen::new();
        for (at, scanner) in self.scanners.iter().enumerate() {
            if scanner.key()? == Some(least) && self.job.inputs[at].owns(least.token) {
                chosen.push(at);
            }
        }
        key.clear();
        key.extend_from_slice(least.key);
        Ok(Some((least.token, chosen)))
    }

    async fn partition(&mut self, io: &Io, key: HeadKey<'_>, chosen: Chosen) -> Result<(), SSTableError> {
        let purger = Purger {
            now_s: self.job.now_s,
            gc_before_s: self.job.now_s - i64::from(self.job.table.options.gc_grace_seconds),
            max_purgeable_timestamp: self.job.gate.max_purgeable_timestamp(key.token, key.key),
        };
        let rules = Rules { order: self.order, purger, dropped: self.dropped };
        let mut merge = PartitionMerge::begin(rules, key, chosen.clone(), &mut self.scanners, &mut self.writer)?;
        loop {
            for &at in &chosen {
                self.scanners[at].settle().await?;
            }
            self.turn(io, 1).await?;
            if !merge.step(key, &mut self.scanners, &mut self.writer)? {
                break;
            }
        }
        let (counts, _) = merge.end(&mut self.writer);
        self.counts.rows_read += counts.rows_read;
        self.counts.rows_written += counts.rows_written;
        // Inputs that hold the partition for other owners still stand at it.
        self.skip(key).await
    }

    /// Goes past the partition in every scanner that stands in it.
    async fn skip(&mut self, key: HeadKey<'_>) -> Result<(), SSTableError> {
        for scanner in &mut self.scanners {
            while scanner.key()? == Some(key) {
                scanner.step();
                scanner.settle().await?;
            }
        }
        Ok(())
    }

    /// Writes what is full, and lets other tasks run after enough work.
    async fn turn(&mut self, io: &Io, work: u32) -> Result<(), SSTableError> {
        self.turn += work;
        if self.writer.wants_settle() {
            self.writer.settle().await?;
        } else if self.turn >= ROWS_A_TURN {
            io.yield_now().await;
        } else {
            return Ok(());
        }
        self.turn = 0;
        if self.job.stop.get() { Err(SSTableError::Cancelled) } else { Ok(()) }
    }

    async fn finish(self) -> Result<Outcome, SSTableError> {
        let partitions_written = self.writer.partitions();
        let output = if partitions_written > 0 {
            Some(self.writer.finish().await?)
        } else {
            self.writer.abandon().await?;
            None
        };
        Ok(Outcome {
            output,
            input_bytes: self.job.inputs.iter().map(|input| input.info().file_bytes).sum(),
            partitions_read: self.read,
            partitions_written,
            rows_read: self.counts.rows_read,
            rows_written: self.counts.rows_written,
        })
    }
}
