//! A shard's figures for the operator: plain integers, read between requests.

use std::cell::Cell;

use crate::shard::Shard;

/// Counters that belong to no table.
#[derive(Default)]
pub struct Counts {
    pub compacted_bytes: Cell<u64>,
    pub compactions_failed: Cell<u64>,
    pub evacuations: Cell<u64>,
    pub evacuated_bytes: Cell<u64>,
    pub replayed_records: Cell<u64>,
    pub skipped_records: Cell<u64>,
}

/// Adds to a counter.
pub fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}

/// One table's figures on one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableReport {
    pub keyspace: String,
    pub table: String,
    pub sstables: u64,
    pub sstable_bytes: u64,
    pub partitions_estimate: u64,
    pub memtable_bytes: u64,
    pub memtable_partitions: u64,
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub compactions: u64,
}

impl TableReport {
    /// Adds another shard's figures of the same table.
    pub fn add(&mut self, other: &TableReport) {
        self.sstables += other.sstables;
        self.sstable_bytes += other.sstable_bytes;
        self.partitions_estimate += other.partitions_estimate;
        self.memtable_bytes += other.memtable_bytes;
        self.memtable_partitions += other.memtable_partitions;
        self.reads += other.reads;
        self.writes += other.writes;
        self.flushes += other.flushes;
        self.compactions += other.compactions;
    }
}

impl Shard {
    /// Every table's figures, by keyspace and name.
    pub fn table_reports(&self) -> Vec<TableReport> {
        let mut reports: Vec<_> = self
            .chosen(None)
            .iter()
            .map(|store| {
                let table = store.table();
                let sstables = store.sstables();
                let in_files: u64 = sstables.iter().map(|reader| reader.statistics().partitions).sum();
                let in_memory = store.active().stats().partitions;
                TableReport {
                    keyspace: table.keyspace.clone(),
                    table: table.name.clone(),
                    sstables: sstables.len() as u64,
                    sstable_bytes: sstables.iter().map(|reader| reader.info().file_bytes).sum(),
                    partitions_estimate: in_files + in_memory,
                    memtable_bytes: store.memtable_bytes(),
                    memtable_partitions: in_memory,
                    reads: store.counts.reads.get(),
                    writes: store.counts.writes.get(),
                    flushes: store.counts.flushes.get(),
                    compactions: store.counts.compactions.get(),
                }
            })
            .collect();
        reports.sort_by(|a, b| (&a.keyspace, &a.table).cmp(&(&b.keyspace, &b.table)));
        reports
    }

    /// This shard's counters and gauges by metric name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let cache = self.cache.stats();
        let log = self.log().stats();
        let io = self.io.stats();
        let mut counters = vec![
            ("helenus_memtable_bytes", self.memory.used_bytes()),
            ("helenus_memtable_limit_bytes", self.memory.limit_bytes()),
            ("helenus_writes_waited_for_memory_total", self.memory.waited()),
            ("helenus_memtable_evacuations_total", self.counts.evacuations.get()),
            ("helenus_memtable_evacuated_bytes_total", self.counts.evacuated_bytes.get()),
            ("helenus_block_cache_hits_total", cache.hits),
            ("helenus_block_cache_misses_total", cache.misses),
            ("helenus_block_cache_bytes", cache.bytes as u64),
            ("helenus_commitlog_bytes", self.log().live_bytes()),
            ("helenus_commitlog_records_total", log.records),
            ("helenus_commitlog_syncs_total", log.syncs),
            ("helenus_compacted_bytes_total", self.counts.compacted_bytes.get()),
            ("helenus_compactions_failed_total", self.counts.compactions_failed.get()),
            ("helenus_replayed_records_total", self.counts.replayed_records.get()),
            ("helenus_skipped_records_total", self.counts.skipped_records.get()),
            ("helenus_disk_free_bytes", self.disk.free_bytes()),
            ("helenus_range_reads", self.scan_turns.taken() + self.scan_turns.waiting() as u64),
            ("helenus_stalls_total", io.stalls),
            ("helenus_minor_faults_total", io.minor_faults),
        ];
        if cfg!(feature = "count") {
            counters.push(("helenus_allocations_total", io.allocated.allocations));
            counters.push(("helenus_allocated_bytes_total", io.allocated.bytes));
        }
        counters
    }
}
