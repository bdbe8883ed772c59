//! Writes that are done and whose answers wait for the log, in its order.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use crate::base::ids::LogPosition;
use crate::commitlog::Wait;
use crate::protocol::CqlError;
use crate::router::Router;

#[derive(Default)]
pub struct Written {
    /// Where each ends in the log, and its stream.
    queue: VecDeque<(LogPosition, i16)>,
    /// Of the first of them.
    wait: Option<Wait>,
}

impl Written {
    pub fn push(&mut self, end: LogPosition, stream: i16) {
        debug_assert!(self.queue.back().is_none_or(|(before, _)| *before <= end), "a shard logs in order");
        self.queue.push_back((end, stream));
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The stream of the next, where it ends at or before `acknowledged`.
    #[inline]
    pub fn next_acknowledged(&mut self, acknowledged: LogPosition) -> Option<i16> {
        let (_, stream) = self.queue.pop_front_if(|(end, _)| *end <= acknowledged)?;
        // It was this write's, and would tell the next one's waiter what is true of this one.
        self.wait = None;
        Some(stream)
    }

    /// The stream of the next that may be answered, and what it came to.
    pub fn poll_next(&mut self, router: &Router, context: &mut Context<'_>) -> Poll<(i16, Result<(), CqlError>)> {
        let Some((end, stream)) = self.queue.front().copied() else { return Poll::Pending };
        let outcome = std::task::ready!(router.poll_acknowledged(end, &mut self.wait, context));
        self.queue.pop_front();
        Poll::Ready((stream, outcome))
    }
}
