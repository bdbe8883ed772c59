//! Starting the shards, each on its own thread and, where asked, its own core.

use std::future::Future;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use glommio::{ExecutorJoinHandle, GlommioError, Latency, LocalExecutorBuilder, Placement, Shares};

use super::core::Core;
use super::cpus::Affinity;
use super::doorbell::Doorbell;
use super::driver;
use super::mesh::{Ends, Mesh, Outside, ends};
use super::ring::Ring;
use super::watch::{Heartbeat, Stall, Watchdog, Watched};
use crate::base::ids::ShardId;
use crate::io::{Io, IoError, IoHalf, TaskClass, mesh};

/// Memory that glommio registers in each of its own rings, which serve nothing here. Kept small: three rings a shard
/// count against the lock limit (often 8 MiB).
const GLOMMIO_IO_MEMORY_BYTES: usize = 64 << 10;

/// How many shards to start, and where.
#[derive(Clone, Debug)]
pub struct RealConfig {
    pub shards: u16,
    /// The cores to take, in this order; `None` takes those that this process may use.
    pub cpus: Option<Vec<usize>>,
    /// Whether each shard keeps to one core. More shards than cores are never pinned.
    pub pin: bool,
    /// Messages that each ordered pair of shards may have under way; rounded up to a power of two.
    pub mesh_capacity: usize,
}

impl RealConfig {
    /// The cores to pin to, one a shard, or `None` where nothing is pinned.
    fn pinned_cores(&self) -> Option<Vec<usize>> {
        let cores = match &self.cpus {
            Some(cpus) => cpus.clone(),
            None => Affinity::of_the_process().cores().to_vec(),
        };
        if self.pin && usize::from(self.shards) > cores.len() {
            let (shards, cores) = (self.shards, cores.len());
            tracing::warn!(shards, cores, "more shards than cores: none is pinned");
        }
        (self.pin && usize::from(self.shards) <= cores.len()).then_some(cores)
    }
}

/// The cores that this process may use: how many shards it can pin.
pub fn allowed_cores() -> Vec<usize> {
    Affinity::of_the_process().cores().to_vec()
}

/// The running shards.
pub struct Running<M> {
    outside: Outside<M>,
    watchdog: Watchdog,
    shards: Vec<ExecutorJoinHandle<Result<(), IoError>>>,
}

impl<M: Send + 'static> Running<M> {
    pub fn outside(&self) -> mesh::Outside<M> {
        mesh::Outside::real(self.outside.clone())
    }

    /// Blocks until the entries of all shards have returned and all their operations are done. Gives the first failure.
    pub fn join(self) -> Result<(), IoError> {
        let mut first_failure = Ok(());
        for shard in self.shards {
            let ended = shard.join().map_err(|error| glommio_failed("run shard", &error)).and_then(|ended| ended);
            first_failure = first_failure.and(ended);
        }
        drop(self.watchdog);
        first_failure
    }
}

/// What a shard's thread starts with.
struct Start<M> {
    id: ShardId,
    started: Instant,
    doorbells: Arc<[Doorbell]>,
    heartbeats: Arc<[Heartbeat]>,
    ends: Ends<M>,
    mesh_capacity: usize,
    outside: Outside<M>,
    /// Says that the shard stands, or why not.
    stands: Sender<Result<(), IoError>>,
    /// Gives the word to go once all stand; closed where one does not.
    go: Receiver<()>,
}

/// Starts the shards: each runs `entry` with its own [`Io`] and its end of the mesh. All stand before any entry runs.
pub fn start_real<M, F, Fut>(config: RealConfig, entry: F) -> Result<Running<M>, IoError>
where
    F: Fn(Io, mesh::Mesh<M>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
    M: Send + 'static,
{
    start_watched(config, Duration::from_nanos(driver::STALL_NS), Stall::log, entry)
}

/// The same, where a turn that takes longer than `limit` is reported.
fn start_watched<M, F, Fut>(
    config: RealConfig,
    limit: Duration,
    report: impl Fn(&Stall) + Send + 'static,
    entry: F,
) -> Result<Running<M>, IoError>
where
    F: Fn(Io, mesh::Mesh<M>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
    M: Send + 'static,
{
    assert!(config.shards > 0, "at least one shard");
    let cores = config.pinned_cores();
    let started = Instant::now();
    let doorbells = (0..config.shards).map(|_| Doorbell::new()).collect::<Result<Arc<[_]>, _>>();
    let doorbells = doorbells.map_err(|error| IoError::from_std("eventfd", None, &error))?;
    let heartbeats: Arc<[Heartbeat]> = (0..config.shards).map(|_| Heartbeat::new()).collect();
    let outside = Outside::new(doorbells.clone());
    let (stands, standing) = channel();
    let mut shards = Vec::new();
    let mut gos = Vec::new();
    for (id, ends) in (0..config.shards).zip(ends(config.shards, config.mesh_capacity)) {
        let (go, told_to_go) = channel();
        gos.push(go);
        let start = Start {
            id: ShardId(id),
            started,
            doorbells: doorbells.clone(),
            heartbeats: heartbeats.clone(),
            ends,
            mesh_capacity: config.mesh_capacity.max(1).next_power_of_two(),
            outside: outside.clone(),
            stands: stands.clone(),
            go: told_to_go,
        };
        let placement = cores.as_ref().map_or(Placement::Unbound, |cores| Placement::Fixed(cores[usize::from(id)]));
        let entry = entry.clone();
        let shard = LocalExecutorBuilder::new(placement)
            .name("shard")
            .io_memory(GLOMMIO_IO_MEMORY_BYTES)
            .spawn(move || run_shard(start, entry));
        // An early return drops every `go`, and the shards that stand end.
        shards.push(shard.map_err(|error| glommio_failed("start shard", &error))?);
    }
    drop(stands);
    for _ in 0..config.shards {
        // Closed without a word: glommio failed before the shard's own code ran; joining tells how.
        let Ok(standing) = standing.recv() else { break };
        standing?;
    }
    let watchdog = Watchdog::start(heartbeats, started, limit, report);
    let running = Running { outside, watchdog, shards };
    if gos.iter().any(|go| go.send(()).is_err()) {
        drop(gos);
        running.join()?;
        return Err(IoError::kind("start shard", None, ErrorKind::Other));
    }
    Ok(running)
}

/// One shard, from its ring to its last completion.
async fn run_shard<M, F, Fut>(start: Start<M>, entry: F) -> Result<(), IoError>
where
    F: Fn(Io, mesh::Mesh<M>) -> Fut + 'static,
    Fut: Future<Output = ()> + 'static,
    M: Send + 'static,
{
    let ring = match Ring::new() {
        Ok(ring) => ring,
        Err(error) => {
            let error = IoError::from_std("io_uring_setup", None, &error);
            let _ = start.stands.send(Err(error.clone())); // nobody listens where another shard failed first
            return Err(error);
        }
    };
    let _watched = Watched::new(&start.heartbeats, usize::from(start.id.0));
    let core = Core::new(start.id, start.started, start.doorbells, start.heartbeats, ring);
    let _ = start.stands.send(Ok(())); // nobody listens where another shard failed first
    if start.go.recv().is_err() {
        return Ok(());
    }
    let mesh = mesh::Mesh::real(Mesh::new(&core, start.ends, start.mesh_capacity, start.outside));
    let (ending, io) = (core.downgrade(), Io(IoHalf::Real(core.clone())));
    core.spawn(TaskClass::Foreground, async move {
        entry(io, mesh).await;
        if let Some(shard) = ending.upgrade() {
            shard.ending.set(true);
        }
    });
    let shares = Shares::Static(TaskClass::Foreground.shares());
    let queue = glommio::executor().create_task_queue(shares, Latency::NotImportant, "driver");
    let driving = glommio::spawn_local_into(driver::drive(core), queue);
    driving.map_err(|error| glommio_failed("start driver", &error))?.await
}

fn glommio_failed<T>(op: &'static str, error: &GlommioError<T>) -> IoError {
    tracing::error!(%error, "{op} failed");
    match error {
        GlommioError::IoError(error) => IoError::from_std(op, None, error),
        _ => IoError::kind(op, None, ErrorKind::Other),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::testing::{config, on_one_shard, on_shards};
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    #[test]
    fn more_shards_than_cores_are_not_pinned() {
        let pinned = |shards, cpus: &[usize], pin| {
            RealConfig { shards, cpus: Some(cpus.to_vec()), pin, mesh_capacity: 1 }.pinned_cores()
        };
        assert_eq!(pinned(2, &[0, 1, 2], true), Some(vec![0, 1, 2]));
        assert_eq!(pinned(4, &[0, 1, 2], true), None);
        assert_eq!(pinned(1, &[0], false), None);
        assert!(!allowed_cores().is_empty());
    }

    #[test]
    fn a_pinned_shard_runs_on_its_core_and_its_helper_on_any() {
        let core = allowed_cores()[0];
        let pinned = RealConfig { cpus: Some(vec![core]), pin: true, ..config(1) };
        let entry = move |io: Io, _: mesh::Mesh<()>| async move {
            let cores = || core_affinity::get_core_ids().unwrap().into_iter().map(|core| core.id).collect::<Vec<_>>();
            assert_eq!(cores(), [core]);
            assert_eq!(io.blocking(cores).await, allowed_cores());
        };
        start_real(pinned, entry).unwrap().join().unwrap();
    }

    #[test]
    fn a_core_that_does_not_exist_fails_the_start() {
        let nowhere = RealConfig { cpus: Some(vec![100_000]), pin: true, ..config(1) };
        let failed = start_real(nowhere, |_: Io, _: mesh::Mesh<()>| async {});
        assert!(failed.and_then(Running::join).is_err());
    }

    #[test]
    fn sleeps_end_in_the_order_of_their_deadlines() {
        on_one_shard(async |io| {
            let order = Rc::new(RefCell::new(Vec::new()));
            let start_ns = io.now_ns();
            for (name, ms) in [("c", 12), ("a", 2), ("b", 7)] {
                let (order, io_there) = (order.clone(), io.clone());
                io.spawn(TaskClass::Foreground, async move {
                    io_there.sleep(Duration::from_millis(ms)).await;
                    assert!(io_there.now_ns() - start_ns >= ms * 1_000_000);
                    order.borrow_mut().push(name);
                });
            }
            drop(io.sleep(Duration::from_secs(3600)));
            let mut forgotten = io.sleep(Duration::from_secs(3600));
            let polled =
                std::pin::Pin::new(&mut forgotten).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            assert!(polled.is_pending());
            drop(forgotten);
            io.sleep(Duration::from_millis(20)).await;
            assert_eq!(*order.borrow(), ["a", "b", "c"]);
        });
    }

    #[test]
    fn tasks_of_all_classes_and_yields_take_turns() {
        on_one_shard(async |io| {
            let turns = Rc::new(RefCell::new([0u32; TaskClass::ALL.len()]));
            for class in TaskClass::ALL {
                let (turns, io_there) = (turns.clone(), io.clone());
                io.spawn(class, async move {
                    for _ in 0..100 {
                        turns.borrow_mut()[class as usize] += 1;
                        io_there.yield_now().await;
                    }
                });
            }
            while *turns.borrow() != [100; 3] {
                io.sleep(Duration::from_micros(100)).await;
            }
        });
    }

    #[test]
    fn what_still_runs_when_the_entry_returns_is_dropped() {
        let dropped = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let seen = dropped.clone();
        on_one_shard(async move |io| {
            struct Counts(Arc<std::sync::atomic::AtomicU32>);
            impl Drop for Counts {
                fn drop(&mut self) {
                    self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            }
            for ms in [0, 3_600_000] {
                let (counts, io_there) = (Counts(seen.clone()), io.clone());
                io.spawn(TaskClass::Compaction, async move {
                    io_there.sleep(Duration::from_millis(ms)).await;
                    std::future::pending::<()>().await;
                    drop(counts);
                });
            }
            let listener = io.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
            io.spawn(TaskClass::Foreground, async move { drop(listener.accept().await) });
            io.yield_now().await;
        });
        assert_eq!(dropped.load(std::sync::atomic::Ordering::SeqCst), 2);
    }

    #[test]
    fn shards_agree_on_the_time() {
        on_shards(2, |io: Io, mesh: mesh::Mesh<u64>| async move {
            let other = ShardId(1 - io.shard_id().0);
            mesh.send(other, io.now_ns()).await;
            let mut got = Vec::new();
            mesh.recv(&mut got).await;
            assert!(got[0].1 <= io.now_ns());
            assert!(io.now_ns() - got[0].1 < 5_000_000_000);
        });
    }

    #[test]
    fn tasks_that_keep_each_other_awake_do_not_keep_others_from_the_ring() {
        on_one_shard(async |io| {
            let ball = Rc::new(crate::base::local::Notify::new());
            for _ in 0..2 {
                let ball = ball.clone();
                io.spawn(TaskClass::Foreground, async move {
                    loop {
                        ball.notify_all();
                        ball.notified().await;
                    }
                });
            }
            let start_ns = io.now_ns();
            for _ in 0..20 {
                io.sleep(Duration::from_millis(1)).await;
            }
            assert!(io.now_ns() - start_ns < 1_500_000_000, "20 ms of sleep took {} ns", io.now_ns() - start_ns);
        });
    }

    #[test]
    fn clocks_go_on_and_numbers_differ() {
        on_shards(2, |io: Io, _: mesh::Mesh<()>| async move {
            let (mono, wall) = (io.now_ns(), io.wall_us());
            io.sleep(Duration::from_millis(2)).await;
            assert!(io.now_ns() >= mono + 2_000_000);
            assert!(wall > 1_600_000_000_000_000 && io.wall_us() != wall);
            assert_ne!(io.random_u64(), io.random_u64());
            assert!(io.stats().ring_enters > 0);
        });
    }

    #[inline(never)]
    fn spins(length: Duration) {
        let (started, mut number) = (Instant::now(), 1u64);
        while started.elapsed() < length {
            let mut left = 100_000;
            while left > 0 {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(left);
                left -= 1;
            }
        }
        std::hint::black_box(number);
    }

    #[test]
    fn the_stack_of_a_long_turn_is_reported_while_it_lasts_and_not_too_often() {
        let (tell, told) = channel();
        let report = move |stall: &Stall| {
            stall.log();
            tell.send((stall.shard, stall.so_far, stall.stack.clone())).unwrap();
        };
        let entry = |io: Io, _: mesh::Mesh<()>| async move {
            for _ in 0..30 {
                io.yield_now().await;
                if io.shard_id() == ShardId(1) {
                    spins(Duration::from_millis(50));
                }
            }
        };
        let started = Instant::now();
        start_watched(config(2), Duration::from_millis(10), report, entry).unwrap().join().unwrap();
        let seconds = started.elapsed().as_secs() as usize;
        let stalls: Vec<_> = told.iter().filter(|(shard, ..)| *shard == 1).collect();
        assert!((1..=seconds + 1).contains(&stalls.len()), "one a second, in {seconds} s: {stalls:?}");
        assert!(stalls.iter().all(|(_, so_far, _)| *so_far > Duration::from_millis(10)), "{stalls:?}");
        // With its module or without, as the build's debug information has it.
        let is_named = |stack: &String| stack.contains("spins") && stack.contains("boot.rs");
        assert!(stalls.iter().any(|(_, _, stack)| is_named(stack)), "{stalls:?}");
        assert!(stalls.iter().all(|(_, _, stack)| !stack.contains("Tracked")), "{stalls:?}");
    }

    #[test]
    fn a_long_turn_counts_as_a_stall() {
        on_one_shard(async |io| {
            io.yield_now().await;
            std::thread::sleep(Duration::from_millis(120));
            io.yield_now().await;
            assert!(io.stalls() >= 1);
        });
    }
}
