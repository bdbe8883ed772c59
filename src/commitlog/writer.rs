//! Takes blocks to the disk. As many of these tasks run as writes may be in flight; a block is one direct write. While
//! all are busy, records gather in the open block.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use super::config::{SyncMethod, SyncMode};
use super::log::CommitLog;
use super::state::Block;
use crate::base::plants::Plant;
use crate::io::{AlignedBuf, IoError};

/// In batch mode a group gathers for at most this part of a sync's time.
const GATHER_PERCENT: u64 = 8;
/// Shorter than this a timer is not worth setting: one turn of the other tasks is the gathering.
const GATHER_NS_MIN: u64 = 50_000;

/// One writer, until the log is closed or has failed.
pub async fn run(log: Rc<CommitLog>) {
    while let Some(block) = poll_fn(|context| log.poll_block(context)).await {
        let (number, records) = (block.number, block.closed.records);
        let started_ns = log.io.now_ns();
        let (buf, result) = write(&log, block).await;
        match result {
            Ok(()) => log.finish_block(number, buf, log.io.now_ns().saturating_sub(started_ns)),
            Err(cause) => return log.fail(cause),
        }
        if log.config.mode == SyncMode::Batch && records > 1 {
            gather(&log).await;
        }
    }
}

async fn write(log: &CommitLog, block: Block) -> (AlignedBuf, Result<(), IoError>) {
    let offset = u64::from(block.closed.place.offset_bytes);
    let synced = log.config.mode == SyncMode::Batch && !log.config.planted.is(Plant::AcknowledgeBeforeSync);
    match log.config.method {
        _ if !synced => block.file.write_at(block.closed.buf, offset).await,
        SyncMethod::SyncedWrite => block.file.write_at_synced(block.closed.buf, offset).await,
        SyncMethod::WriteThenSync => {
            let (buf, written) = block.file.write_at(block.closed.buf, offset).await;
            match written {
                Ok(()) => (buf, block.file.sync_data().await),
                Err(cause) => (buf, Err(cause)),
            }
        }
    }
}

/// Where many wait for each sync, a short pause lets more of them share the next one.
async fn gather(log: &CommitLog) {
    let pause_ns = log.stats().sync_ns_mean * GATHER_PERCENT / 100;
    if pause_ns < GATHER_NS_MIN {
        log.io.yield_now().await;
    } else {
        log.io.sleep(Duration::from_nanos(pause_ns)).await;
    }
}
