//! A commit in batch mode, from the write to its acknowledgement, beside the device's own sync: one shard over the real
//! half of `io`, without sockets.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use helenus::base::local::Notify;
use helenus::commitlog::SyncMode;
use helenus::io::{Io, TaskClass};
use helenus::schema::partitioner::token_of;
use helenus::shard::Shard;
use helenus::shard::device::Device;

use crate::calibration::median;
use crate::engine::{self, Engine, Options};
use crate::loopback::cores;
use crate::micro::rows::{Writes, flat_table, key};
use crate::scratch::Scratch;

/// Device and commits are measured in turns.
const ROUNDS: usize = 5;
/// Of each client in a round, unless told.
pub const COMMITS: u64 = 100;
/// Between two rounds: what the device still does for one is not to slow the next.
const REST: Duration = Duration::from_millis(100);

/// How long so many clients, each with one commit under way, wait for it.
#[derive(Clone, Copy, Debug)]
pub struct Commits {
    pub clients: u64,
    /// The median commit.
    pub p50_us: f64,
    /// The device's faster way to one durable 4 KiB write, in the same round.
    pub sync_us: f64,
    /// The one over the other.
    pub syncs: f64,
}

/// The medians of some rounds of so many commits of each client, for each number of clients.
pub fn measure(clients: &[u64], commits: u64) -> Result<Vec<Commits>, String> {
    let scratch = Scratch::new("commit")?;
    let options = Options {
        data_dir: scratch.0.join("data"),
        core: cores().0,
        mode: SyncMode::Batch,
        memtable_bytes_max: 256 << 20,
        cache_bytes_max: 1 << 20,
    };
    let clients = clients.to_vec();
    let tables = || vec![flat_table(5)];
    engine::run(options, tables, async move |engine: &Engine| {
        let mut rounds = Vec::new();
        for round in 0..ROUNDS as u64 {
            for (clients, kind) in clients.iter().zip(0..) {
                let device = Device::measure(&engine.io, &engine.data_dir).await.map_err(|error| error.to_string())?;
                let sync_us = f64::from(device.write_then_sync_us.min(device.synced_write_us));
                let p50_us = median_us(engine, *clients, (round * 10 + kind) << 20, commits).await?;
                rounds.push(Commits { clients: *clients, p50_us, sync_us, syncs: p50_us / sync_us });
                engine.io.sleep(REST).await;
            }
        }
        Ok(clients.iter().map(|clients| middle(*clients, &rounds)).collect())
    })
}

fn middle(clients: u64, rounds: &[Commits]) -> Commits {
    let of = |figure: fn(&Commits) -> f64| median(rounds.iter().filter(|one| one.clients == clients).map(figure));
    Commits { clients, p50_us: of(|one| one.p50_us), sync_us: of(|one| one.sync_us), syncs: of(|one| one.syncs) }
}

/// The median time of a commit, in microseconds, with keys from this number on.
async fn median_us(engine: &Engine, clients: u64, first: u64, commits: u64) -> Result<f64, String> {
    let times = Rc::new(RefCell::new(Vec::new()));
    let (running, ended) = (Rc::new(Cell::new(clients)), Rc::new(Notify::new()));
    let mut end = Box::pin(ended.notified());
    for client in 0..clients {
        let (io, shard) = (engine.io.clone(), engine.shard.clone());
        let (times, running, ended) = (times.clone(), running.clone(), ended.clone());
        engine.io.spawn(TaskClass::Foreground, async move {
            let own = client_commits(&io, &shard, first + client * commits, commits).await;
            times.borrow_mut().push(own);
            running.set(running.get() - 1);
            if running.get() == 0 {
                ended.notify_all();
            }
        });
    }
    end.as_mut().await;
    let all: Result<Vec<Vec<f64>>, String> = times.borrow_mut().drain(..).collect();
    Ok(median(all?.into_iter().flatten()))
}

/// One commit after the other: how long each took, in microseconds.
async fn client_commits(io: &Io, shard: &Rc<Shard>, first: u64, commits: u64) -> Result<Vec<f64>, String> {
    let table = flat_table(5);
    let mut times = Vec::new();
    for number in first..first + commits {
        let mut writes = Writes::default();
        let key = key(number);
        writes.push(&table, &key, &[Vec::new()], (5, 34), 1);
        let mut mutation = writes.iter().next().unwrap_or_default().to_vec();
        let began_ns = io.now_ns();
        let applied =
            shard.apply_at_once(&mut mutation, token_of(&key), None, io.wall_us()).ok_or("a write found no room")?;
        shard.acknowledged(applied).await.map_err(|error| error.to_string())?;
        times.push((io.now_ns() - began_ns) as f64 / 1e3);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_commit_takes_a_sync_at_least() {
        let measured = measure(&[1, 8], 5).unwrap();
        assert_eq!(measured.iter().map(|one| one.clients).collect::<Vec<_>>(), [1, 8]);
        // A sync can be shorter than when it was measured, but nothing is acknowledged without one.
        assert!(measured.iter().all(|one| one.p50_us > 0.0 && one.syncs > 0.1), "{measured:?}");
    }
}
