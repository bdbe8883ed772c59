//! How a log gets on: blocks are taken, written and synced; what was promised is acknowledged, in log order; segments
//! that nothing needs are released.

use std::task::{Context, Poll};

use super::config::SyncMode;
use super::error::LogError;
use super::format::padded;
use super::log::CommitLog;
use super::segment::ReadySegment;
use super::state::{Block, State};
use crate::base::ids::LogPosition;
use crate::base::plants::Plant;
use crate::io::{AlignedBuf, IoError};

impl CommitLog {
    /// The next block for a writer; `None` once there will be none.
    pub(super) fn poll_block(&self, context: &mut Context<'_>) -> Poll<Option<Block>> {
        let mut state = self.state.borrow_mut();
        if state.failed.is_some() {
            return Poll::Ready(None);
        }
        if state.queue.is_empty() {
            Self::close_block(&mut state);
        }
        match state.queue.pop_front() {
            Some(block) => Poll::Ready(Some(block)),
            None if state.stopped => Poll::Ready(None),
            None => {
                self.idle_writers.wait(context.waker());
                Poll::Pending
            }
        }
    }

    /// A block was written (in batch mode: and synced).
    pub(super) fn finish_block(&self, number: u64, buf: AlignedBuf, took_ns: u64) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if state.failed.is_some() {
            return;
        }
        if buf.capacity() == padded(self.config.block_bytes) && state.buffers.len() <= self.config.writes_in_flight {
            state.buffers.push(buf);
        }
        let at = usize::try_from(number - state.first_flight).expect("a flight is among those in memory");
        state.flights[at].done = true;
        let own_end = state.flights[at].end;
        while let Some(first) = state.flights.front().filter(|first| first.done) {
            state.written = first.end;
            state.flight_bytes -= first.bytes;
            state.flights.pop_front();
            state.first_flight += 1;
        }
        if self.config.mode == SyncMode::Batch {
            state.synced = state.written;
            state.note_sync(took_ns);
            self.drop_synced_files(state);
        }
        self.acknowledge(state);
        if self.config.planted.is(Plant::AcknowledgeOutOfOrder) {
            state.acknowledged = state.acknowledged.max(own_end);
            self.acknowledged.wake_up_to(state.acknowledged);
        }
        if state.sync_demand > state.synced && state.written >= state.sync_demand {
            self.sync_wanted.notify_all();
        }
        if state.bytes_wanted > 0 {
            self.room.notify_all();
        }
    }

    /// Everything before `position` is synced.
    pub(super) fn finish_sync(&self, position: LogPosition, took_ns: u64) {
        let mut state = self.state.borrow_mut();
        if state.failed.is_some() {
            return;
        }
        state.synced = state.synced.max(position);
        state.note_sync(took_ns);
        self.drop_synced_files(&mut state);
        self.acknowledge(&mut state);
    }

    pub(super) fn drop_synced_files(&self, state: &mut State) {
        while state.unsynced_files.len() > 1 && state.unsynced_files[0].0 < state.synced.segment {
            state.unsynced_files.pop_front();
        }
        self.synced.wake_up_to(state.synced);
        self.release(state);
    }

    pub(super) fn acknowledge(&self, state: &mut State) {
        let before_sync = self.config.planted.is(Plant::AcknowledgeBeforeSync);
        let reached = match self.config.mode {
            SyncMode::Periodic { .. } => state.written,
            SyncMode::Batch | SyncMode::Group { .. } if before_sync => state.written,
            SyncMode::Batch | SyncMode::Group { .. } => state.synced,
        };
        state.acknowledged = state.acknowledged.max(reached);
        self.acknowledged.wake_up_to(state.acknowledged);
    }

    /// Hands segments that nothing needs to the task that uses them again.
    pub(super) fn release(&self, state: &mut State) {
        let mut any = false;
        while let Some(segment) = state.live.take_released(state.synced) {
            state.released.push_back(segment);
            any = true;
        }
        if any {
            self.segments_wanted.notify_all();
        }
    }

    /// The end of the log as such: nothing is acknowledged after this.
    pub(super) fn fail(&self, cause: IoError) {
        let mut state = self.state.borrow_mut();
        if state.failed.is_none() {
            state.failed = Some(LogError::Failed { stream: self.stream, cause });
        }
        drop(state);
        self.wake_everyone();
    }

    pub(super) fn wake_everyone(&self) {
        self.acknowledged.wake_all();
        self.synced.wake_all();
        self.idle_writers.wake_all();
        self.sync_wanted.notify_all();
        self.segments_wanted.notify_all();
        self.room.notify_all();
    }

    /// A spare segment is there, or there is no space for one.
    pub(super) fn finish_spare(&self, made: Result<ReadySegment, IoError>, recycled: bool) {
        let mut state = self.state.borrow_mut();
        match made {
            Ok(spare) => {
                state.stats.segments_created += u64::from(!recycled);
                state.stats.segments_recycled += u64::from(recycled);
                state.spare = Some(spare);
                state.no_space = None;
                state.segment_wanted = false;
            }
            Err(cause) => state.no_space = Some(cause),
        }
        drop(state);
        self.room.notify_all();
    }
}
