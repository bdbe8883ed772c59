//! Waits for a position of a log, and pins on its segments.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::error::LogError;
use super::log::CommitLog;
use crate::base::ids::LogPosition;

/// How far a log must be for a wait to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Acknowledged,
    Synced,
}

/// Holds a segment; dropping it lets go.
pub struct SegmentPin {
    pub(super) log: Rc<CommitLog>,
    pub(super) position: LogPosition,
}

impl SegmentPin {
    pub fn position(&self) -> LogPosition {
        self.position
    }
}

impl Drop for SegmentPin {
    fn drop(&mut self) {
        let mut state = self.log.state.borrow_mut();
        state.live.unpin(self.position);
        self.log.release(&mut state);
    }
}

/// Completes when the log is far enough, or has failed before it was.
#[must_use = "a wait does nothing unless awaited"]
pub struct Wait {
    pub(super) log: Rc<CommitLog>,
    pub(super) end: LogPosition,
    pub(super) level: Level,
    pub(super) number: Option<u64>,
}

impl Future for Wait {
    type Output = Result<(), LogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let log = self.log.clone();
        let mut state = log.state.borrow_mut();
        let reached = match self.level {
            Level::Acknowledged => state.acknowledged,
            Level::Synced => state.synced,
        };
        if self.end <= reached {
            return Poll::Ready(Ok(()));
        }
        if let Some(failure) = &state.failed {
            return Poll::Ready(Err(failure.clone()));
        }
        assert!(self.end <= state.appended, "nobody waits for what was not appended");
        let waiters = match self.level {
            Level::Acknowledged => &log.acknowledged,
            Level::Synced => &log.synced,
        };
        self.number = Some(waiters.wait(self.end, self.number, context.waker()));
        if self.level == Level::Synced && self.end > state.sync_demand {
            state.sync_demand = self.end;
            if state.written >= self.end {
                log.sync_wanted.notify_all();
            }
        }
        Poll::Pending
    }
}
