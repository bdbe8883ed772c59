//! Writes: admitted, logged, applied; visible on return, acknowledged as the sync mode promises.

use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::base::ids::{LogPosition, SegmentId, TimestampMicros, Token};
use crate::commitlog::{CommitLog, LogError, RecordKind, SegmentPin, TableRef, Ticket, Wait};
use crate::mutation::{MutationView, set_server_timestamp, set_timestamp};
use crate::shard::tables::{TableStore, bump};
use crate::shard::{BatchId, PurgeHold, Shard, WriteError};

/// Encoded mutations of partitions that this shard owns, under one timestamp.
#[derive(Clone, Debug, Default)]
pub struct Write {
    pub mutations: Vec<Vec<u8>>,
    /// `None`: the shard gives the next one. One that another shard's clock gave is marked as such in the mutations.
    pub timestamp: Option<TimestampMicros>,
}

/// A batch over several shards of which this one owns a part that has not come yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedBatch {
    pub timestamp: TimestampMicros,
    /// The servers' clocks gave the timestamp, not a client.
    pub is_servers: bool,
    /// Where it is logged a crash would redo it: until it is released, no purge forgets what could cover its part.
    pub logged: Option<BatchId>,
}

/// A write that is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    pub timestamp: TimestampMicros,
    /// Behind its last record; `None` where nothing was logged (durable_writes = false).
    pub logged: Option<LogPosition>,
}

impl Write {
    pub fn bytes(&self) -> usize {
        self.mutations.iter().map(Vec::len).sum()
    }
}

/// The deadline of a write that is to be done however long that takes.
pub const NO_DEADLINE: u64 = u64::MAX;

/// What a batch's intent record holds for each mutation before its bytes: their length, little-endian, and whether it
/// was applied here under the intent's position (1) or sent to its owner (0).
const PART_HEAD_BYTES: usize = 5;

impl Shard {
    /// Waits until the write may start: memory, disk, a working log.
    pub async fn admit(&self, write: &Write, deadline_ns: u64) -> Result<(), WriteError> {
        self.admit_bytes(write.bytes(), deadline_ns).await
    }

    /// The same for so many bytes of mutations.
    pub async fn admit_bytes(&self, bytes: usize, deadline_ns: u64) -> Result<(), WriteError> {
        if self.admits_at_once(bytes)? {
            return Ok(());
        }
        let room = pin!(self.memory.wait_for_room(bytes as u64));
        let failure = pin!(self.log().failed());
        match self.in_time(deadline_ns, select(room, failure)).await? {
            Either::Left(((), _)) => Ok(()),
            // No flush gives memory back any more.
            Either::Right((failure, _)) => Err(log_error(failure)),
        }
    }

    /// Whether so many bytes of mutations may start without waiting for memory; an error where they may not at all.
    fn admits_at_once(&self, bytes: usize) -> Result<bool, WriteError> {
        if self.stopping.get() {
            return Err(WriteError::Stopping);
        }
        if bytes > self.config.mutation_bytes_max {
            return Err(WriteError::TooLarge { bytes, bytes_max: self.config.mutation_bytes_max });
        }
        self.disk.check()?;
        Ok(self.memory.has_room(bytes as u64))
    }

    /// Reserves a timestamp for a batch over several shards: at least `at_least`, and above all that this shard gave. It
    /// gives none up to it from now on.
    pub fn reserve_timestamp(&self, at_least: TimestampMicros) -> TimestampMicros {
        self.clock.next(at_least)
    }

    /// A part of a batch will come. What the clients of this shard are told from now on is newer, so it must win.
    pub fn expect_batch(&self, expected: ExpectedBatch) {
        if expected.is_servers {
            self.clock.observe(expected.timestamp);
        }
        if let Some(batch) = expected.logged {
            self.hold_purges(PurgeHold { timestamp: expected.timestamp, batch });
        }
    }

    /// Whether there is room for the write without waiting.
    pub(super) fn has_room_for(&self, write: &Write) -> bool {
        write.bytes() <= self.config.mutation_bytes_max && self.memory.has_room(write.bytes() as u64)
    }

    /// Logs and applies a write in one step that no read sees half done: one record, all of it or nothing. On `Busy`
    /// nothing was done: try it in `when_room`. A write with drafts goes to `resolve_and_apply`.
    pub fn apply(&self, write: &mut Write) -> Result<Applied, WriteError> {
        let timestamp = write.timestamp.unwrap_or_else(|| self.clock.next(self.io.wall_us()));
        self.apply_at(write, timestamp)
    }

    /// Logs and applies one mutation of the partition with this token, just built and no draft, where that needs no wait;
    /// `None` and nothing done where it does, or where it is refused. `now_us` is what the wall clock says, or said shortly
    /// before.
    pub fn apply_at_once(
        &self,
        mutation: &mut [u8],
        token: Token,
        timestamp: Option<TimestampMicros>,
        now_us: TimestampMicros,
    ) -> Option<Applied> {
        if !self.admits_at_once(mutation.len()).ok()? {
            return None;
        }
        let at = timestamp.unwrap_or_else(|| self.clock.next(now_us));
        stamp(mutation, timestamp.is_some(), at);
        let view = MutationView::built(mutation).ok()?;
        let tables = self.tables.borrow();
        let store = tables.get(&view.table())?;
        self.log_and_apply(store, &view, token, at).ok()
    }

    /// The same with this timestamp: the write's, or one that the shard gave for it.
    pub(super) fn apply_at(&self, write: &mut Write, timestamp: TimestampMicros) -> Result<Applied, WriteError> {
        write.mutations.iter_mut().for_each(|mutation| stamp(mutation, write.timestamp.is_some(), timestamp));
        if let [mutation] = write.mutations.as_slice() {
            let part = self.part(mutation)?;
            self.observe(std::slice::from_ref(&part));
            return self.log_and_apply(&part.store, &part.view, part.token, timestamp);
        }
        let parts = write.mutations.iter().map(|bytes| self.part(bytes)).collect::<Result<Vec<_>, _>>()?;
        self.observe(&parts);
        let durable: Vec<&[u8]> = parts.iter().filter(|part| part.durable).map(|part| part.view.bytes()).collect();
        let ticket = if durable.is_empty() { None } else { Some(self.log_intent(&durable, &[], &parts)?) };
        Ok(self.apply_logged(&parts, ticket, timestamp))
    }

    /// The same of one mutation in which its timestamp stands, and that this shard's clock has seen.
    fn log_and_apply(
        &self,
        store: &TableStore,
        view: &MutationView<'_>,
        token: Token,
        timestamp: TimestampMicros,
    ) -> Result<Applied, WriteError> {
        if !self.is_durable(store) {
            self.apply_view(store, view, token, self.log().position());
            return Ok(Applied { timestamp, logged: None });
        }
        let ticket =
            self.log().append(RecordKind::Mutation, &[table_ref(store)], &[view.bytes()]).map_err(log_error)?;
        self.apply_view(store, view, token, ticket.position);
        Ok(Applied { timestamp, logged: Some(ticket.end) })
    }

    fn apply_logged(&self, parts: &[Part<'_>], ticket: Option<Ticket>, timestamp: TimestampMicros) -> Applied {
        let position = ticket.map_or_else(|| self.log().position(), |ticket| ticket.position);
        parts.iter().for_each(|part| self.apply_part(part, position));
        Applied { timestamp, logged: ticket.map(|ticket| ticket.end) }
    }

    /// Logs the whole of a batch over several shards and applies this shard's own part. Its segment stays until
    /// `complete_batches`. On `Busy` nothing was done.
    pub fn begin_batch(
        &self,
        own: &[Vec<u8>],
        others: &[&[u8]],
        timestamp: TimestampMicros,
    ) -> Result<Intent, WriteError> {
        let parts = own.iter().map(|bytes| self.part(bytes)).collect::<Result<Vec<_>, _>>()?;
        self.observe(&parts);
        let local: Vec<&[u8]> = own.iter().map(Vec::as_slice).collect();
        let ticket = self.log_intent(&local, others, &parts)?;
        self.keep_intent(self.log(), ticket.position, timestamp);
        parts.iter().for_each(|part| self.apply_part(part, ticket.position));
        Ok(Intent { position: ticket.position, end: ticket.end })
    }

    /// Logs that every part of these batches is durable, and lets go of their segments. On `Busy` those that were not
    /// completed are given back.
    pub fn complete_batches(&self, intents: &mut Vec<LogPosition>) -> Result<(), WriteError> {
        while let Some(intent) = intents.last() {
            let body = completion_body(*intent);
            self.log().append(RecordKind::BatchCompletion, &[], &[&body]).map_err(log_error)?;
            self.open_intents.borrow_mut().remove(intent);
            intents.pop();
        }
        Ok(())
    }

    /// Tries until the answer is another than `Busy`, each time again once the log takes records. Not after the deadline:
    /// what is told that it came too late is not done.
    pub async fn when_room<T>(
        &self,
        deadline_ns: u64,
        mut attempt: impl FnMut() -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        loop {
            match attempt() {
                Err(WriteError::Busy) => self.room_in_log(deadline_ns).await?,
                outcome => return outcome,
            }
        }
    }

    /// Waits until the log takes records again.
    pub(super) async fn room_in_log(&self, deadline_ns: u64) -> Result<(), WriteError> {
        self.in_time(deadline_ns, self.log().room()).await?.map_err(log_error)
    }

    /// The future's value, or `Overloaded` once the deadline is over, whatever comes then.
    async fn in_time<F: Future>(&self, deadline_ns: u64, future: F) -> Result<F::Output, WriteError> {
        let patience = Duration::from_nanos(deadline_ns.saturating_sub(self.io.now_ns()));
        let output = self.io.within(patience, future).await;
        output.filter(|_| self.io.now_ns() <= deadline_ns).ok_or(WriteError::Overloaded)
    }

    /// Waits until a write is acknowledged as the sync mode promises.
    pub async fn acknowledged(&self, applied: Applied) -> Result<(), WriteError> {
        match applied.logged {
            Some(position) => self.log().wait_acknowledged(position).await.map_err(log_error),
            None => Ok(()),
        }
    }

    /// Up to where the log is acknowledged.
    pub fn acknowledged_position(&self) -> LogPosition {
        self.log().acknowledged_position()
    }

    /// Whether a write that ends at `end` is acknowledged, polled; `wait` is for nobody else, and for one write after the other.
    pub fn poll_acknowledged(
        &self,
        end: LogPosition,
        wait: &mut Option<Wait>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), WriteError>> {
        let log = self.log();
        if end <= log.acknowledged_position() {
            // It was this write's, and would tell the next one's waiter what is true of this one.
            *wait = None;
            return Poll::Ready(Ok(()));
        }
        let acknowledged = Pin::new(wait.get_or_insert_with(|| log.wait_acknowledged(end)));
        let polled = acknowledged.poll(context).map_err(log_error);
        if polled.is_ready() {
            *wait = None;
        }
        polled
    }

    /// Waits until the log is synced up to `end`.
    pub async fn synced(&self, end: LogPosition) -> Result<(), WriteError> {
        self.log().wait_synced(end).await.map_err(log_error)
    }

    /// Syncs the log: all that was applied before is durable.
    pub async fn sync(&self) -> Result<(), WriteError> {
        self.log().sync().await.map(|_| ()).map_err(log_error)
    }

    /// What another shard's clock gave is behind this shard's from now on. A client's timestamps move no clock.
    fn observe(&self, parts: &[Part<'_>]) {
        parts.iter().filter_map(|part| part.view.server_timestamp()).for_each(|given| self.clock.observe(given));
    }

    fn part<'m>(&self, bytes: &'m [u8]) -> Result<Part<'m>, WriteError> {
        let view = MutationView::parse(bytes).map_err(|error| WriteError::Malformed(error.to_string()))?;
        let store = self.store(view.table()).ok_or(WriteError::UnknownTable(view.table()))?;
        let durable = self.is_durable(&store);
        Ok(Part { view, token: view.token(), store, durable })
    }

    fn log_intent(&self, local: &[&[u8]], remote: &[&[u8]], own: &[Part<'_>]) -> Result<Ticket, WriteError> {
        let references: Vec<TableRef> =
            own.iter().filter(|part| part.durable).map(|part| table_ref(&part.store)).collect();
        let tagged = local.iter().map(|part| (1, part)).chain(remote.iter().map(|part| (0, part)));
        let mut body = Vec::with_capacity(tagged.clone().map(|(_, part)| part.len() + PART_HEAD_BYTES).sum());
        for (applied_here, part) in tagged {
            write_intent_part(&mut body, applied_here, part);
        }
        self.log().append(RecordKind::BatchIntent, &references, &[&body]).map_err(log_error)
    }

    /// Keeps the intent's segment, and what a purge must know, until the batch is complete.
    pub(super) fn keep_intent(&self, log: &Rc<CommitLog>, position: LogPosition, timestamp: TimestampMicros) {
        let pin = log.pin(position);
        self.open_intents.borrow_mut().insert(position, OpenIntent { pin, timestamp });
    }

    pub(super) fn apply_part(&self, part: &Part<'_>, position: LogPosition) {
        self.apply_view(&part.store, &part.view, part.token, position);
    }

    fn apply_view(&self, store: &TableStore, view: &MutationView<'_>, token: Token, position: LogPosition) {
        let mut memtable = store.active.borrow_mut();
        let before = memtable.bytes_allocated();
        memtable.apply_to(token, view, position);
        let after = memtable.bytes_allocated();
        if after != before {
            self.memory.resize(before as u64, after as u64);
        }
        bump(&store.counts.writes);
    }
}

/// The schema version is that of the table as it is here: what the log can describe. The mutation's own may be older, or
/// (between two steps of a schema change) newer; column ids mean the same under all of them.
fn table_ref(store: &TableStore) -> TableRef {
    let table = store.table();
    TableRef { table: table.id, schema_version: table.version }
}

/// Fills in a mutation's timestamp, which a client gave or this shard.
fn stamp(mutation: &mut [u8], is_given: bool, timestamp: TimestampMicros) {
    if is_given { set_timestamp(mutation, timestamp) } else { set_server_timestamp(mutation, timestamp) }
}

/// One mutation of a write, found to be right.
pub(super) struct Part<'m> {
    pub view: MutationView<'m>,
    pub token: Token,
    pub store: Rc<TableStore>,
    pub durable: bool,
}

/// What `Shard::begin_batch` logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    pub position: LogPosition,
    /// Sync up to here before any part is sent away.
    pub end: LogPosition,
}

/// A batch whose completion is not logged.
pub(super) struct OpenIntent {
    #[expect(dead_code, reason = "held: dropping it lets go of the segment")]
    pub pin: Option<SegmentPin>,
    /// What its parts may still write, so that no purge forgets a deletion of it.
    pub timestamp: TimestampMicros,
}

/// The body of a completion record: the position of its intent.
fn completion_body(intent: LogPosition) -> [u8; 12] {
    let mut body = [0; 12];
    body[..8].copy_from_slice(&intent.segment.0.to_le_bytes());
    body[8..].copy_from_slice(&intent.offset_bytes.to_le_bytes());
    body
}

/// The intent that a completion record names.
pub(super) fn completed_intent(body: &[u8]) -> Option<LogPosition> {
    let (segment, offset) = body.split_first_chunk::<8>()?;
    let offset: [u8; 4] = offset.try_into().ok()?;
    Some(LogPosition { segment: SegmentId(u64::from_le_bytes(*segment)), offset_bytes: u32::from_le_bytes(offset) })
}

fn write_intent_part(body: &mut Vec<u8>, applied_here: u8, part: &[u8]) {
    let len = u32::try_from(part.len()).expect("a batch is at most half a segment");
    body.extend_from_slice(&len.to_le_bytes());
    body.push(applied_here);
    body.extend_from_slice(part);
}

/// The mutations of a batch's intent record, each with whether it was applied under the intent's position; `None` at
/// the first that its length belies.
pub(super) fn intent_parts(mut body: &[u8]) -> impl Iterator<Item = Option<(bool, &[u8])>> {
    std::iter::from_fn(move || {
        if body.is_empty() {
            return None;
        }
        let part = body.split_first_chunk::<PART_HEAD_BYTES>().and_then(|(head, rest)| {
            let [a, b, c, d, applied_here] = *head;
            let len = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?;
            Some((applied_here == 1, rest.get(..len)?, rest.get(len..)?))
        });
        body = part.map_or(&[], |(_, _, rest)| rest);
        Some(part.map(|(applied_here, part, _)| (applied_here, part)))
    })
}

pub(super) fn log_error(error: LogError) -> WriteError {
    match error {
        LogError::Busy => WriteError::Busy,
        LogError::NoSpace { .. } => WriteError::NoSpace(error.to_string()),
        LogError::TooLarge { bytes, bytes_max } => WriteError::TooLarge { bytes, bytes_max },
        LogError::Closed => WriteError::Stopping,
        other => WriteError::LogFailed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_gives_its_parts_back_and_a_lie_ends_it() {
        let mut body = Vec::new();
        let parts = [(true, b"one".as_slice()), (false, b""), (true, b"three")];
        for (applied_here, part) in parts {
            write_intent_part(&mut body, u8::from(applied_here), part);
        }
        assert_eq!(intent_parts(&body).collect::<Vec<_>>(), parts.map(Some));
        body.extend_from_slice(&[9, 0, 0, 0, 1, 7]);
        assert_eq!(intent_parts(&body).last(), Some(None));
        assert_eq!(intent_parts(&[1]).collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn a_completion_names_its_intent() {
        let intent = LogPosition { segment: SegmentId(7), offset_bytes: 4096 };
        assert_eq!(completed_intent(&completion_body(intent)), Some(intent));
        assert_eq!(completed_intent(&[0; 11]), None);
    }
}
