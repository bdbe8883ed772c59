//! Syncs a log in periodic and group mode: at the end of each period in which something was written, and at once where
//! somebody waits for what is written. Batch mode syncs each block by itself.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use super::config::SyncMode;
use super::log::CommitLog;
use crate::io::IoError;

/// Runs until the log is closed or has failed.
pub async fn run(log: Rc<CommitLog>) {
    let pause = match log.config.mode {
        SyncMode::Periodic { period } => period,
        SyncMode::Group { window } => window,
        SyncMode::Batch => return,
    };
    loop {
        until_due(&log, pause).await;
        if log.state.borrow().is_over() {
            return;
        }
        if let Err(cause) = sync_written(&log).await {
            return log.fail(cause);
        }
    }
}

/// Waits for something to sync, then for the end of the pause or for somebody who waits.
async fn until_due(log: &CommitLog, pause: Duration) {
    loop {
        let changed = log.sync_wanted.notified();
        if log.state.borrow_mut().has_unsynced() {
            break;
        }
        changed.await;
    }
    let mut timer = pin!(log.io.sleep(pause));
    loop {
        let changed = log.sync_wanted.notified();
        if log.state.borrow().sync_is_due() {
            return;
        }
        if first_of(timer.as_mut(), changed).await == First::Left {
            return;
        }
    }
}

/// Syncs all that is written now.
async fn sync_written(log: &CommitLog) -> Result<(), IoError> {
    let (target, files) = log.state.borrow().written_files();
    let started_ns = log.io.now_ns();
    for file in &files {
        file.sync_data().await?;
    }
    if !files.is_empty() {
        log.finish_sync(target, log.io.now_ns().saturating_sub(started_ns));
    }
    Ok(())
}

/// Which of two futures was first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    Left,
    Right,
}

/// Completes with the first of the two; the left one where both are ready.
pub async fn first_of(left: impl Future<Output = ()>, right: impl Future<Output = ()>) -> First {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|context| {
        if left.as_mut().poll(context).is_ready() {
            return Poll::Ready(First::Left);
        }
        right.as_mut().poll(context).map(|()| First::Right)
    })
    .await
}
