//! The simulation as a whole: the same seed gives the same trace, and a node's end ends everything of it.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::base::ids::ShardId;
use crate::io::{AlignedBuf, IoClass, Mesh, OpenHow, TaskClass};

/// One shard of a small engine: appends blocks to its log, syncs now and then, tells the next shard, and goes on where
/// it stood after a restart. Any error ends its work.
async fn shard(io: Io, mesh: Mesh<u64>) -> Result<(), IoError> {
    let path = format!("/data/log-{}", mesh.shard_id().0);
    let path = Path::new(&path);
    io.create_dir_all(Path::new("/data")).await?;
    io.sync_dir(Path::new("/")).await?;
    let how = if io.exists(path).await? { OpenHow::ReadWrite } else { OpenHow::CreateNew };
    let file = io.open(path, how, IoClass::Log).await?;
    io.sync_dir(Path::new("/data")).await?;
    let mut at = file.len().await? / 4096 * 4096;
    for round in 0..20u64 {
        let mut buf = AlignedBuf::new(4096);
        buf[..8].copy_from_slice(&io.random_u64().to_le_bytes());
        file.write_at(buf, at).await.1?;
        at += 4096;
        if round % 4 == 3 {
            file.sync_data().await?;
        }
        let next = ShardId((mesh.shard_id().0 + 1) % mesh.shard_count());
        mesh.send(next, at).await;
        let mut got = Vec::new();
        mesh.recv(&mut got).await;
        io.sleep(Duration::from_micros(io.random_u64() % 100)).await;
    }
    Ok(())
}

/// Three lives of a node under seeded faults; gives the trace and what is left on the disk.
fn lives(seed: u64) -> (u64, u64, Vec<(std::path::PathBuf, u32)>) {
    let sim = Simulation::new(seed, Faults::seeded(seed));
    for _ in 0..3 {
        let _outside = sim.start(3, |io, mesh: Mesh<u64>| async move {
            if let Err(error) = shard(io.clone(), mesh).await {
                io.fail_stop(&error.to_string());
            }
        });
        // An end by itself, a fault or a deadlock (a shard's peer has ended): each is followed by a loss of power.
        let _ = sim.run_until(|| sim.has_returned());
        sim.crash();
    }
    let disk = sim.disk();
    let sum = |path: &std::path::PathBuf| crc32c::crc32c(&disk.read(path).unwrap_or_default());
    let files = disk.files().into_iter().map(|path| (path.clone(), sum(&path))).collect();
    (sim.trace_hash(), sim.trace_len(), files)
}

#[test]
fn the_same_seed_gives_the_same_trace_and_the_same_disk() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let first = lives(seed);
        assert_eq!(first, lives(seed), "seed {seed}");
        hashes.insert(first.0);
    }
    assert_eq!(hashes.len(), 100, "different seeds differ");
}

#[test]
fn the_kept_trace_shows_where_two_seeds_part() {
    let trace = |seed| {
        let sim = Simulation::new(seed, Faults::NONE);
        sim.keep_trace();
        sim.run_on_node(|io| async move { io.sleep(Duration::from_millis(1)).await }).expect("ends");
        sim.take_trace()
    };
    assert_eq!(trace(1), trace(1));
    let (a, b) = (trace(1), trace(2));
    let parts = a.iter().zip(&b).position(|(a, b)| a != b).expect("they part");
    assert!(parts > 0);
    assert_eq!(a[0].kind, TraceKind::Start);
}

/// Counts its drops, and fails the test where it is polled after the end.
struct Guard(Rc<Cell<u32>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_crash_drops_every_task_without_a_poll() {
    let sim = Simulation::new(0, Faults::NONE);
    let (dropped, polls) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (drops, counts) = (dropped.clone(), polls.clone());
    let _outside = sim.start(4, move |io, _: Mesh<()>| {
        let (guard, polls) = (Guard(drops.clone()), counts.clone());
        async move {
            let _guard = guard;
            loop {
                polls.set(polls.get() + 1);
                io.yield_now().await;
            }
        }
    });
    sim.run_for(Duration::from_micros(100)).expect("runs");
    let before = polls.get();
    assert!(before > 4);
    sim.crash();
    assert_eq!((dropped.get(), polls.get()), (4, before));
    sim.run_for(Duration::from_micros(100)).expect("runs");
    assert_eq!(polls.get(), before);
}

#[test]
fn clients_survive_a_crash_and_the_next_life_starts_at_once() {
    let sim = Simulation::new(0, Faults::NONE);
    let ticks = Rc::new(Cell::new(0));
    let (io, count) = (sim.client_io(), ticks.clone());
    sim.client_io().spawn(TaskClass::Foreground, async move {
        loop {
            io.sleep(Duration::from_millis(1)).await;
            count.set(count.get() + 1);
        }
    });
    for life in 1..4u32 {
        let shards = sim.run_on_node(|io| async move { io.shard_count() });
        assert_eq!(shards, Ok(1));
        sim.run_for(Duration::from_micros(10_500)).expect("runs");
        assert!(ticks.get() >= 10 * life);
        sim.crash();
        assert!(!sim.is_running());
    }
}

#[test]
fn the_power_goes_at_a_random_step_where_the_faults_say_so() {
    let mut at = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let sim = Simulation::new(seed, Faults { crash_ppm: 10_000, ..Faults::NONE });
        let halted = sim.run_on_node(|io| async move {
            loop {
                io.yield_now().await;
            }
        });
        let Err(Halted::Crashed { at_ns }) = halted else { panic!("{halted:?}") };
        assert!(!sim.is_running());
        at.insert(at_ns);
    }
    assert!(at.len() > 15);
}

#[test]
fn a_run_that_cannot_end_says_who_waits() {
    let sim = Simulation::new(0, Faults::NONE);
    let halted = sim.run_client(std::future::pending::<()>());
    let Err(Halted::Deadlock { waiting, .. }) = halted else { panic!("{halted:?}") };
    assert!(waiting.contains("client task spawned at src/io/sim/tests.rs"), "{waiting}");
    sim.set_steps_max(1000);
    let io = sim.client_io();
    let halted = sim.run_client(async move {
        loop {
            io.yield_now().await;
        }
    });
    assert!(matches!(halted, Err(Halted::TooLong { steps: 1000, .. })), "{halted:?}");
}

#[test]
fn a_clean_stop_waits_for_the_entries_and_ends_the_rest() {
    let sim = Simulation::new(0, Faults::NONE);
    let outside = sim.start(2, |io, mesh: Mesh<()>| async move {
        io.spawn(TaskClass::Compaction, std::future::pending());
        mesh.recv(&mut Vec::new()).await;
        io.sleep(Duration::from_millis(5)).await;
    });
    sim.run_until_idle().expect("idle");
    outside.send(ShardId(0), ());
    outside.send(ShardId(1), ());
    assert_eq!(sim.stop_clean(), Ok(()));
    assert!(sim.now_ns() > 5_000_000);
    assert!(!sim.is_running());
}

#[test]
fn nothing_of_a_simulation_outlives_it() {
    let sim = Simulation::new(0, Faults::NONE);
    let world = Rc::downgrade(&sim.world);
    let _outside = sim.start(2, |io, mesh: Mesh<u64>| async move {
        io.spawn(TaskClass::Flush, std::future::pending());
        let _ = shard(io, mesh).await;
    });
    sim.client_io().spawn(TaskClass::Foreground, std::future::pending());
    sim.run_for(Duration::from_micros(800)).expect("runs");
    let io = sim.client_io();
    sim.client_io().spawn(TaskClass::Foreground, async move { io.sleep(Duration::from_secs(9)).await });
    drop(sim);
    assert_eq!(world.strong_count(), 0);
}
