//! Keeps one segment ready ahead of the one that is written, from released segments where there are any, and disposes
//! of those that are too many.

use std::rc::Rc;
use std::time::Duration;

use super::live::LiveSegment;
use super::log::CommitLog;
use super::segment::{self, ReadySegment};
use super::state::State;
use crate::base::ids::SegmentId;
use crate::io::IoError;

/// How long to wait before space is looked for again.
const NO_SPACE_PAUSE: Duration = Duration::from_millis(250);

enum Job {
    Stop,
    Wait,
    Create(SegmentId),
    Recycle(LiveSegment, SegmentId),
    Dispose(LiveSegment),
}

/// Runs until the log is closed or has failed.
pub async fn run(log: Rc<CommitLog>) {
    loop {
        let changed = log.segments_wanted.notified();
        let job = next_job(&mut log.state.borrow_mut(), log.config.segment_bytes, log.config.recycled_max);
        let done = match job {
            Job::Stop => return,
            Job::Wait => {
                changed.await;
                Ok(())
            }
            Job::Create(id) => {
                let made =
                    segment::create(&log.io, &log.dir, log.stream, id, log.config.segment_bytes, &log.config).await;
                spare(&log, made, false).await
            }
            Job::Recycle(old, id) => {
                let made = segment::recycle(&log.io, &log.dir, log.stream, &old.path, id, &log.config).await;
                spare(&log, made, true).await
            }
            Job::Dispose(old) => segment::dispose(&log.io, &log.dir, &old, &log.config).await,
        };
        if let Err(cause) = done {
            return log.fail(cause);
        }
    }
}

/// Released segments go in order, oldest first, whatever becomes of them: a crash never leaves a hole in the log.
fn next_job(state: &mut State, segment_bytes: u32, recycled_max: usize) -> Job {
    if state.is_over() {
        return Job::Stop;
    }
    let usable = |old: &LiveSegment| !old.damaged && old.len_bytes == u64::from(segment_bytes);
    let too_many = state.released.len() > recycled_max;
    match state.released.pop_front() {
        Some(old) if state.spare.is_none() && usable(&old) => Job::Recycle(old, state.take_segment_id()),
        Some(old) if too_many || !usable(&old) => Job::Dispose(old),
        Some(old) => {
            state.released.push_front(old);
            Job::Wait
        }
        None if state.spare.is_none() => Job::Create(state.take_segment_id()),
        None => Job::Wait,
    }
}

/// Hands the new segment to the log. Without space it waits a little: space may come back.
async fn spare(log: &CommitLog, made: Result<ReadySegment, IoError>, recycled: bool) -> Result<(), IoError> {
    match made {
        Err(cause) if !cause.is_no_space() => Err(cause),
        made => {
            let no_space = made.is_err();
            log.finish_spare(made, recycled);
            if no_space {
                log.io.sleep(NO_SPACE_PAUSE).await;
            }
            Ok(())
        }
    }
}
