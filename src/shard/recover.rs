//! Recovery: what the logs hold and no SSTable covers is applied again.
//!
//! A shard reads its own stream, and every other stream for batches: a batch whose completion is missing is redone by
//! the owners of its parts. Where the shard count has changed, each shard reads all old streams and takes what it owns
//! now. Three steps, with all shards waiting for one another between them: `replay`; `open_log`, after which every part
//! of an open batch is durable here; `finish_recovery`, which completes those batches.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::base::collections::{HashMap, hasher};
use crate::base::ids::{LogPosition, ShardId, StreamId, Token};
use crate::base::plants::Plant;
use crate::commitlog::{
    CommitLog, Inherited, LogConfig, Record, RecordKind, Replay, ReplayOptions, Replayed, Tail, sync_stream,
};
use crate::io::Io;
use crate::mutation::{MutationView, timestamp};
use crate::schema::system;
use crate::shard::open::LoggedSchemas;
use crate::shard::write::{Part, completed_intent, intent_parts};
use crate::shard::{NO_DEADLINE, Shard, ShardError, TableStore, Write, WriteError};

/// The logs that a shard starts from.
#[derive(Clone, Debug)]
pub struct LogStreams {
    pub dir: PathBuf,
    /// The stream that this shard appends to.
    pub own: StreamId,
    /// Streams that other shards append to: read for open batches.
    pub others: Vec<StreamId>,
    /// Streams of an earlier shard count: read whole.
    pub old: Vec<StreamId>,
}

/// What a shard recovered, for the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    pub applied: u64,
    /// Records whose table is dropped.
    pub dropped: u64,
    /// One line for each lost tail or damaged place.
    pub notes: Vec<String>,
}

/// Between the steps of a recovery.
pub struct Recovery {
    streams: LogStreams,
    inherited: Inherited,
    /// Parts of other shards' open batches that this shard owns.
    redo: Vec<Vec<u8>>,
    /// This shard's own open batches.
    open: Vec<(LogPosition, i64)>,
    pub recovered: Recovered,
}

/// How one stream is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Own,
    Other,
    Old,
}

/// A batch of which no completion was seen yet.
struct SeenIntent {
    /// Parts that went to other shards and are owned by this one now.
    remote: Vec<Vec<u8>>,
    timestamp: i64,
    has_remote: bool,
}

/// Reads one stream for one shard.
struct StreamReader<'s> {
    shard: &'s Shard,
    stream: StreamId,
    reading: Reading,
    intents: HashMap<LogPosition, SeenIntent>,
    recovered: &'s mut Recovered,
}

impl Shard {
    /// Reads the logs and applies what no SSTable covers. Nothing on disk changes but what was
    /// written becomes durable, and flushes, where memory is short.
    pub async fn replay(&self, streams: LogStreams, options: ReplayOptions) -> Result<Recovery, ShardError> {
        let mut recovered = Recovered::default();
        let mut redo = Vec::new();
        // What a kill left unsynced is replayed, and some of it flushed or redone elsewhere before the log goes on: then a
        // crash must find the rest too.
        for &stream in streams.old.iter().chain([&streams.own]) {
            sync_stream(&self.io, &streams.dir, stream).await?;
        }
        for &stream in &streams.old {
            let (_, intents) = self.read_stream(&streams.dir, stream, Reading::Old, options, &mut recovered).await?;
            redo.extend(intents.into_values().flat_map(|intent| intent.remote));
        }
        for &stream in &streams.others {
            let (_, intents) = self.read_stream(&streams.dir, stream, Reading::Other, options, &mut recovered).await?;
            redo.extend(intents.into_values().flat_map(|intent| intent.remote));
        }
        let (replayed, intents) =
            self.read_stream(&streams.dir, streams.own, Reading::Own, options, &mut recovered).await?;
        let mut open: Vec<(LogPosition, i64)> = intents
            .into_iter()
            .filter(|(_, intent)| intent.has_remote)
            .map(|(position, intent)| (position, intent.timestamp))
            .collect();
        open.sort_unstable();
        Ok(Recovery { streams, inherited: replayed.inherited, redo, open, recovered })
    }

    /// Opens the log, and makes this shard's parts of other shards' open batches durable in it.
    pub async fn open_log(self: &Rc<Self>, recovery: &mut Recovery, config: LogConfig) -> Result<(), ShardError> {
        let inherited = std::mem::replace(&mut recovery.inherited, Inherited::nothing());
        let schemas = Rc::new(LoggedSchemas(Rc::downgrade(self)));
        let streams = &recovery.streams;
        let log = CommitLog::open(self.io.clone(), &streams.dir, streams.own, config, schemas, inherited)
            .await
            .map_err(|error| ShardError::LogFailed(error.to_string()))?;
        for (position, timestamp) in &recovery.open {
            self.keep_intent(&log, *position, *timestamp);
        }
        assert!(self.log.set(log).is_ok(), "a shard opens its log once");
        for store in self.chosen(None) {
            self.mark_flushed(store.id(), LogPosition::ZERO, store.flushed_to.get());
        }
        for part in std::mem::take(&mut recovery.redo) {
            let timestamp = timestamp(&part);
            let mut write = Write { mutations: vec![part], timestamp };
            match self.when_room(NO_DEADLINE, || self.apply(&mut write)).await {
                Ok(_) | Err(WriteError::UnknownTable(_)) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.sync().await.map_err(failed)?;
        if !recovery.streams.old.is_empty() {
            self.flush(None).await?;
        }
        Ok(())
    }

    /// Every shard has done `open_log`: this shard's open batches are complete.
    pub async fn finish_recovery(&self, recovery: &mut Recovery) -> Result<(), ShardError> {
        let mut open: Vec<LogPosition> = recovery.open.drain(..).map(|(position, _)| position).collect();
        self.when_room(NO_DEADLINE, || self.complete_batches(&mut open)).await.map_err(failed)?;
        self.sync().await.map_err(failed)
    }

    async fn read_stream(
        &self,
        dir: &Path,
        stream: StreamId,
        reading: Reading,
        options: ReplayOptions,
        recovered: &mut Recovered,
    ) -> Result<(Replayed, HashMap<LogPosition, SeenIntent>), ShardError> {
        let known_end = self.manifest.current().log_ends.get(&stream).copied();
        let options = ReplayOptions { known_end, ..options };
        let mut replay = Replay::open(self.io.clone(), dir, stream, options).await?;
        let intents = HashMap::with_hasher(hasher());
        let mut reader = StreamReader { shard: self, stream, reading, intents, recovered };
        let mut dirty = Vec::new();
        loop {
            let position = match replay.next().await? {
                None => break,
                Some(record) => {
                    reader.record(&record, &mut dirty)?;
                    record.position
                }
            };
            for store in dirty.drain(..) {
                if reading == Reading::Own {
                    replay.mark_dirty(TableStore::id(&store), position);
                }
            }
            if reading == Reading::Own {
                let offset_bytes = position.offset_bytes + 1;
                self.replayed_to.set(LogPosition { segment: position.segment, offset_bytes });
            }
            reader.relieve().await?;
        }
        let intents = reader.intents;
        let replayed = replay.finish();
        if let Tail::Lost(report) = &replayed.tail {
            recovered.notes.push(format!(
                "{} ends at offset {} ({}): what was behind it had not been synced and is dropped",
                report.path.display(),
                report.offset_bytes,
                report.damage
            ));
        }
        for report in &replayed.damage {
            recovered.notes.push(format!(
                "{} is damaged at offset {}: {}; it is kept",
                report.path.display(),
                report.offset_bytes,
                report.damage
            ));
        }
        Ok((replayed, intents))
    }

    /// Whether this shard owns a partition of the table.
    fn owns(&self, store: &TableStore, token: Token) -> bool {
        let here = self.io.shard_id();
        if system::is_system(&store.table().keyspace) {
            here == ShardId(0)
        } else {
            self.config.sharding.shard_of(token) == here
        }
    }
}

impl StreamReader<'_> {
    /// Takes one record; `dirty` gets the tables that it was applied to.
    fn record(&mut self, record: &Record<'_>, dirty: &mut Vec<Rc<TableStore>>) -> Result<(), ShardError> {
        match record.kind {
            RecordKind::Mutation if self.reading != Reading::Other => {
                self.mutation(record.body, record.position, dirty)
            }
            RecordKind::BatchIntent => self.intent(record, dirty),
            RecordKind::BatchCompletion => {
                let intent = completed_intent(record.body)
                    .ok_or_else(|| self.malformed(record.position, "a batch completion"))?;
                self.intents.remove(&intent);
                Ok(())
            }
            RecordKind::Mutation | RecordKind::TableSchema | RecordKind::End => Ok(()),
        }
    }

    fn intent(&mut self, record: &Record<'_>, dirty: &mut Vec<Rc<TableStore>>) -> Result<(), ShardError> {
        let mut seen = SeenIntent { remote: Vec::new(), timestamp: i64::MAX, has_remote: false };
        for part in intent_parts(record.body) {
            let (local, bytes) = part.ok_or_else(|| self.malformed(record.position, "a batch"))?;
            seen.timestamp = timestamp(bytes).unwrap_or(i64::MAX).min(seen.timestamp);
            if local {
                if self.reading != Reading::Other {
                    self.mutation(bytes, record.position, dirty)?;
                }
                continue;
            }
            seen.has_remote = true;
            let view = self.parse(bytes, record.position)?;
            let Some(store) = self.shard.store(view.table()) else { continue };
            let discarded = {
                let manifest = self.shard.manifest.current();
                let before =
                    manifest.tables.get(&view.table()).and_then(|entry| entry.discarded_before.get(&self.stream));
                before.is_some_and(|before| record.position < *before)
            };
            if !discarded && self.shard.owns(&store, view.token()) {
                seen.remote.push(bytes.to_vec());
            }
        }
        if seen.has_remote {
            self.intents.insert(record.position, seen);
        }
        Ok(())
    }

    fn mutation(
        &mut self,
        bytes: &[u8],
        position: LogPosition,
        dirty: &mut Vec<Rc<TableStore>>,
    ) -> Result<(), ShardError> {
        let view = self.parse(bytes, position)?;
        let Some(store) = self.shard.store(view.table()) else {
            self.recovered.dropped += 1;
            return Ok(());
        };
        let covered = self.shard.manifest.current().skips(view.table(), self.stream, position);
        if covered && !self.shard.config.planted.is(Plant::ReplayFlushed) {
            return Ok(());
        }
        let token = view.token();
        if !self.shard.owns(&store, token) {
            return Ok(());
        }
        if view.schema_version() > store.table().version {
            let what = format!("a record under version {} of table {}", view.schema_version(), view.table());
            return Err(self.malformed(position, &what));
        }
        if let Some(given) = view.server_timestamp() {
            self.shard.clock.observe(given);
        }
        self.shard.apply_part(&Part { view, token, store: store.clone(), durable: true }, position);
        self.recovered.applied += 1;
        dirty.push(store);
        Ok(())
    }

    fn parse<'m>(&self, bytes: &'m [u8], position: LogPosition) -> Result<MutationView<'m>, ShardError> {
        MutationView::parse(bytes).map_err(|error| self.malformed(position, &error.to_string()))
    }

    fn malformed(&self, position: LogPosition, what: &str) -> ShardError {
        ShardError::Corrupt(format!(
            "commit log stream {}, segment {}, offset {}: {what} that this server cannot read",
            self.stream.0, position.segment.0, position.offset_bytes
        ))
    }

    /// Flushes while memory is short, so that a log larger than memory can be replayed.
    async fn relieve(&self) -> Result<(), ShardError> {
        while self.shard.memory.wants_flush() {
            match self.shard.largest_in_memory() {
                Some(store) => self.shard.flush_table(&store).await?,
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

fn failed(error: WriteError) -> ShardError {
    ShardError::LogFailed(error.to_string())
}

/// Removes the streams of an earlier shard count: every shard has flushed what it took from them.
pub async fn remove_old_streams(io: &Io, dir: &Path, old: &[StreamId]) -> Result<(), ShardError> {
    for stream in old {
        crate::commitlog::remove_stream(io, dir, *stream).await?;
    }
    Ok(())
}
