//! Appending: records go into the block in memory, blocks into segments.

use std::rc::Rc;

use super::block::{OpenBlock, record_bytes};
use super::error::LogError;
use super::format::{BLOCK_HEADER_BYTES, Place, RecordKind, padded, table_schema_front};
use super::log::{CommitLog, TableRef, Ticket};
use super::state::{Active, Block, Flight, State};
use crate::base::collections::{HashSet, hasher};
use crate::base::ids::TableId;

/// Tables with their schemas, as the log holds them.
type Schemas = Vec<(TableRef, Rc<[u8]>)>;

impl CommitLog {
    /// Copies a record into the log. It is visible to replay once it is written; wait for the ticket's end before
    /// telling anyone. `tables` are those that the record uses: each keeps the segment until it is flushed, and its
    /// schema goes in front of the record where the segment lacks it. On `Busy`, wait for [`CommitLog::room`] and
    /// append again; nothing was appended on any error.
    pub fn append(&self, kind: RecordKind, tables: &[TableRef], body: &[&[u8]]) -> Result<Ticket, LogError> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.check_open()?;
        let body_bytes: usize = body.iter().map(|part| part.len()).sum();
        let bytes_max = self.config.record_bytes_max();
        if body_bytes > bytes_max {
            return Err(LogError::TooLarge { bytes: body_bytes, bytes_max });
        }
        if !state.takes(body_bytes, self.config.pending_bytes_max) {
            state.bytes_wanted = state.bytes_wanted.max(body_bytes);
            return Err(LogError::Busy);
        }
        let opened = self.make_room(state, tables, record_bytes(body_bytes))?;
        let open = state.open.as_mut().expect("room was made in an open block");
        let position = open.next_place().position();
        open.push(kind, body);
        state.appended = open.next_place().position();
        state.stats.records += 1;
        state.stats.record_bytes += body_bytes as u64;
        for table in tables {
            state.live.touch(table.table, position.offset_bytes);
        }
        if opened {
            self.idle_writers.wake_one();
        }
        if std::mem::take(&mut state.syncer_idle) {
            self.sync_wanted.notify_all();
        }
        Ok(Ticket { position, end: state.appended })
    }

    /// Leaves an open block in which a record of `bytes` fits, behind the schemas of `tables` that its segment lacked.
    /// Whether it opened that block.
    fn make_room(&self, state: &mut State, tables: &[TableRef], bytes: usize) -> Result<bool, LogError> {
        let is_same = state.active.last_schema.as_slice() == tables;
        if is_same && state.open.as_ref().is_some_and(|open| open.fits(bytes)) {
            return Ok(false);
        }
        let missing = if is_same { Schemas::new() } else { self.missing_schemas(&state.active.schemas, tables)? };
        let needed = bytes + missing.iter().map(|(_, schema)| schema_bytes(schema)).sum::<usize>();
        let opens = !state.open.as_ref().is_some_and(|open| open.fits(needed));
        if opens {
            let next_bytes = state.active.next_bytes + state.open.as_ref().map_or(0, OpenBlock::block_bytes);
            let room_bytes = state.active.bytes - next_bytes;
            if room_bytes < BLOCK_HEADER_BYTES + needed {
                self.next_segment(state, tables, bytes)?;
                return Ok(true);
            }
            self.open_block(state, needed);
        }
        push_schemas(state, &missing);
        if let ([table], false) = (tables, is_same) {
            state.active.last_schema = Some(*table);
        }
        Ok(opens)
    }

    /// Goes on in the spare segment, which needs every schema anew.
    fn next_segment(&self, state: &mut State, tables: &[TableRef], bytes: usize) -> Result<(), LogError> {
        let missing = self.missing_schemas(&HashSet::with_hasher(hasher()), tables)?;
        let needed = bytes + missing.iter().map(|(_, schema)| schema_bytes(schema)).sum::<usize>();
        let bytes_max = self.config.payload_bytes_max();
        if needed > bytes_max {
            return Err(LogError::TooLarge { bytes: needed, bytes_max });
        }
        let Some(spare) = state.spare.take() else {
            state.segment_wanted = true;
            self.segments_wanted.notify_all();
            return Err(state.no_space.clone().map_or(LogError::Busy, |cause| LogError::NoSpace { cause }));
        };
        Self::close_block(state);
        self.idle_writers.wake_one();
        let end = state.active.end();
        state.unsynced_files.push_back((spare.id, spare.file.clone()));
        state.active = Active::new(&spare, 0, end);
        state.live.push(spare.live());
        self.segments_wanted.notify_all();
        self.open_block(state, needed);
        push_schemas(state, &missing);
        Ok(())
    }

    fn missing_schemas(&self, known: &HashSet<TableRef>, tables: &[TableRef]) -> Result<Schemas, LogError> {
        let mut missing = Schemas::new();
        for &table in tables {
            if known.contains(&table) || missing.iter().any(|(other, _)| *other == table) {
                continue;
            }
            let unknown = LogError::UnknownSchema { table: table.table, version: table.schema_version };
            missing.push((table, self.schemas.table_schema(table).ok_or(unknown)?));
        }
        Ok(missing)
    }

    /// Closes the open block, if any, and opens one that takes `needed` bytes of records. The segment has the room.
    fn open_block(&self, state: &mut State, needed: usize) {
        if state.open.is_some() {
            Self::close_block(state);
            self.idle_writers.wake_one();
        }
        let place =
            Place { stream: self.stream, segment: state.active.id, offset_bytes: 0 }.plus(state.active.next_bytes);
        let room_bytes = state.active.bytes - state.active.next_bytes;
        let wanted = padded((BLOCK_HEADER_BYTES + needed).max(self.config.block_bytes));
        let standard = padded(self.config.block_bytes);
        let buf = match state.buffers.pop() {
            Some(buf) if wanted == standard => buf,
            Some(buf) => {
                state.buffers.push(buf);
                self.io.buffer(wanted)
            }
            None => self.io.buffer(wanted),
        };
        let open = OpenBlock::new(place, buf, room_bytes);
        debug_assert!(open.fits(needed));
        state.open = Some(open);
    }

    /// Closes the open block and queues it for a writer.
    pub(super) fn close_block(state: &mut State) {
        let Some(open) = state.open.take() else { return };
        let closed = open.close(state.synced, state.active.previous_end);
        state.active.next_bytes += closed.buf.len();
        state.stats.blocks += 1;
        state.stats.block_bytes += closed.buf.len() as u64;
        let (number, bytes) = (state.first_flight + state.flights.len() as u64, closed.buf.len());
        state.flight_bytes += bytes;
        state.flights.push_back(Flight { end: closed.end, bytes, done: false });
        state.queue.push_back(Block { number, closed, file: state.active.file.clone() });
    }

    /// Waits until the log fails, which most never do.
    pub async fn failed(&self) -> LogError {
        loop {
            let changed = self.room.notified();
            if let Some(failure) = self.failure() {
                return failure;
            }
            changed.await;
        }
    }

    /// Waits until an append that was refused with `Busy` may go through.
    pub async fn room(&self) -> Result<(), LogError> {
        loop {
            let changed = self.room.notified();
            {
                let mut state = self.state.borrow_mut();
                state.check_open()?;
                if let (true, Some(cause)) = (state.segment_wanted, &state.no_space) {
                    return Err(LogError::NoSpace { cause: cause.clone() });
                }
                let wanted = state.bytes_wanted;
                if !state.segment_wanted && state.takes(wanted, self.config.pending_bytes_max) {
                    state.bytes_wanted = 0;
                    return Ok(());
                }
            }
            changed.await;
        }
    }
}

fn schema_bytes(schema: &[u8]) -> usize {
    record_bytes(table_schema_front(TableId([0; 16]), 0).len() + schema.len())
}

fn push_schemas(state: &mut State, missing: &Schemas) {
    let open = state.open.as_mut().expect("room was made in an open block");
    for (table, schema) in missing {
        let front = table_schema_front(table.table, table.schema_version);
        open.push(RecordKind::TableSchema, &[&front, schema]);
        state.active.schemas.insert(*table);
    }
}
