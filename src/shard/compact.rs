//! Compactions of this shard: when they run, what they may forget, how their output takes the inputs' place.

use std::rc::Rc;
use std::time::Duration;

use crate::base::ids::{TableId, TimestampMicros, Token};
use crate::compaction::{Job, MIN_THRESHOLD_MIN, Outcome, PurgeGate, all, compact, of_option, oldest_in, size_tiered};
use crate::shard::flush::sstable_error;
use crate::shard::manifest::{LiveSstable, TokenSpan};
use crate::shard::report::add;
use crate::shard::tables::{SstableSet, TableStore, bump};
use crate::shard::{Shard, ShardError};
use crate::sstable::{Reader, SSTableError, SSTableId, SSTableInfo};

/// How long a compaction that failed waits before any other starts.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// What stands outside a compaction and may hold what its tombstones cover. Asked anew for each partition.
struct Outside<'a> {
    shard: &'a Shard,
    store: &'a TableStore,
    inputs: &'a [Rc<Reader>],
}

impl PurgeGate for Outside<'_> {
    fn max_purgeable_timestamp(&self, token: Token, key: &[u8]) -> TimestampMicros {
        let sstables = self.store.sstables();
        let others = sstables.iter().filter(|reader| !self.inputs.iter().any(|input| input.id() == reader.id()));
        oldest_in(others, token).min(self.store.oldest_in_memory(token, key)).min(self.shard.oldest_open_batch())
    }
}

impl Shard {
    /// Merges all SSTables of these tables, or of all, into one each, after a flush.
    pub async fn compact(&self, tables: Option<&[TableId]>) -> Result<(), ShardError> {
        self.flush(tables).await?;
        for store in self.chosen(tables) {
            let _turn = store.compaction_turn.acquire(1).await;
            let sstables = store.sstables();
            let infos: Vec<SSTableInfo> = sstables.iter().map(|reader| reader.info().clone()).collect();
            if let Some(ids) = all(&infos) {
                self.run_compaction(&store, &ids).await?;
            }
        }
        Ok(())
    }

    /// Compacts where the tables' strategies ask for it. One task a shard runs it.
    pub(super) async fn run_compactions(self: Rc<Self>) {
        loop {
            let changed = self.compaction_wanted.notified();
            let Some((store, ids)) = self.next_compaction() else {
                changed.await;
                continue;
            };
            let _turn = store.compaction_turn.acquire(1).await;
            if let Err(error) = self.run_compaction(&store, &ids).await {
                bump(&self.counts.compactions_failed);
                tracing::error!(shard = self.io.shard_id().0, %error, "a compaction failed; its inputs stay");
                self.io.sleep(RETRY_AFTER).await;
            }
            if self.stopping.get() {
                return;
            }
        }
    }

    fn next_compaction(&self) -> Option<(Rc<TableStore>, Vec<SSTableId>)> {
        if !self.config.compact || self.stopping.get() {
            return None;
        }
        self.chosen(None).into_iter().find_map(|store| {
            if store.compaction_turn.available() == 0 {
                return None;
            }
            if store.sstables().len() < MIN_THRESHOLD_MIN {
                return None;
            }
            let infos: Vec<SSTableInfo> = store.sstables().iter().map(|reader| reader.info().clone()).collect();
            let strategy = of_option(&store.table().options.compaction).ok()?.strategy;
            size_tiered(&infos, &strategy).map(|ids| (store, ids))
        })
    }

    /// Merges `ids` (those that are still live) into one file that takes their place.
    async fn run_compaction(&self, store: &Rc<TableStore>, ids: &[SSTableId]) -> Result<(), ShardError> {
        let inputs: SstableSet =
            store.sstables().iter().filter(|reader| ids.contains(&reader.id())).cloned().collect::<Vec<_>>().into();
        if inputs.is_empty() || store.dropped.get() {
            return Ok(());
        }
        let table = store.table();
        let output = self.manifest.next_sstable();
        let output_path = self.config.sstables_dir.join(self.sstable_name(output));
        let gate = Outside { shard: self, store, inputs: &inputs };
        let now_s = self.io.wall_us().div_euclid(1_000_000);
        let job = Job {
            table: &table,
            inputs: &inputs,
            output,
            output_path,
            now_s,
            gate: &gate,
            stop: &self.stop_compactions,
        };
        match compact(&self.io, job).await {
            Ok(outcome) => self.install(store, &inputs, output, outcome).await,
            Err(SSTableError::Cancelled) => Ok(()),
            Err(error) => Err(sstable_error(error)),
        }
    }

    /// Puts a compaction's output in the place of its inputs.
    async fn install(
        &self,
        store: &Rc<TableStore>,
        inputs: &SstableSet,
        output: SSTableId,
        outcome: Outcome,
    ) -> Result<(), ShardError> {
        let table = store.table();
        let reader = match &outcome.output {
            Some(info) => {
                let opened = async {
                    self.sync_sstables_dir().await?;
                    Reader::open(&self.io, output, &info.path, &table).await.map_err(sstable_error)
                };
                Some(Rc::new(self.kept(&info.path, opened.await).await?))
            }
            None => None,
        };
        let turn = store.turn.acquire(1).await;
        let all_live = inputs.iter().all(|input| store.sstables().iter().any(|live| live.id() == input.id()));
        if store.dropped.get() || !all_live {
            // TRUNCATE or DROP took the inputs away meanwhile: what was made of them is nothing.
            return match reader {
                Some(reader) => Ok(self.io.remove_file(reader.path()).await?),
                None => Ok(()),
            };
        }
        let live = reader.as_ref().map(|_| LiveSstable {
            id: output,
            file: self.sstable_name(output),
            spans: vec![TokenSpan::ALL],
            level: 0,
        });
        self.manifest
            .change(|manifest| {
                let entry = manifest.tables.entry(table.id).or_default();
                entry.sstables.retain(|file| !inputs.iter().any(|input| input.id() == file.id));
                entry.sstables.extend(live);
            })
            .await?;
        store.switch_sstables(reader, |reader| inputs.iter().any(|input| input.id() == reader.id()));
        drop(turn);
        bump(&store.counts.compactions);
        add(&self.counts.compacted_bytes, outcome.input_bytes);
        self.compaction_wanted.notify_all();
        self.remove_files(inputs).await
    }
}
