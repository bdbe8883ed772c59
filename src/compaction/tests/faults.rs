//! Compactions on disks that fail, on machines that lose power, and beside other work.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::io::TaskClass;

const INPUTS: u64 = 3;

/// Writes the inputs with a sound disk and makes them durable.
fn prepared(seed: u64) -> Simulation {
    let sim = Simulation::new(seed, Faults::NONE);
    sim.run_on_node(async |io| {
        for id in 0..INPUTS {
            written(&io, id, &many()).await.unwrap();
        }
        io.sync_dir(Path::new("/")).await.unwrap();
    })
    .unwrap();
    sim
}

async fn inputs(io: &Io) -> Result<Vec<Rc<Reader>>, SSTableError> {
    let mut inputs = Vec::new();
    for id in 0..INPUTS {
        inputs.push(Rc::new(open(io, id, &format!("/{id}.sst")).await?));
    }
    Ok(inputs)
}

/// The inputs are whole, and the output is whole or is not there or says that it is not finished.
fn check_after(sim: &Simulation, finished: bool) {
    sim.set_faults(Faults::NONE);
    sim.run_on_node(async move |io| {
        for input in inputs(&io).await.unwrap() {
            assert_eq!(verify(&io, &input).await.unwrap().rows, 2400);
        }
        match open(&io, 9, "/9.sst").await {
            Ok(output) => assert_eq!(verify(&io, &output).await.unwrap().rows, 2400),
            Err(error) => assert!(!finished, "{error}"),
        }
    })
    .unwrap();
}

#[test]
fn a_failing_disk_gives_an_error_or_a_whole_file() {
    let (mut failed, mut finished) = (0, 0);
    for seed in 0..24 {
        let sim = prepared(seed);
        sim.set_faults(Faults {
            read_error_ppm: 60_000,
            write_error_ppm: 30_000,
            sync_error_ppm: 100_000,
            ..Faults::NONE
        });
        let outcome = sim.run_on_node(async |io| {
            let inputs = inputs(&io).await?;
            run(&io, (&table(), &inputs), 9, 0, &KeepAll).await
        });
        let done = match outcome.unwrap() {
            Ok(outcome) => outcome.output.is_some(),
            Err(SSTableError::Io(_)) => false,
            Err(other) => panic!("{other}"),
        };
        *(if done { &mut finished } else { &mut failed }) += 1;
        check_after(&sim, done);
    }
    assert!(failed > 0 && finished > 0, "{failed} failed, {finished} finished");
}

#[test]
fn a_power_cut_leaves_the_inputs_whole() {
    let mut cut = 0;
    for seed in 0..16 {
        let sim = prepared(seed);
        sim.set_faults(Faults { crash_ppm: 15_000, ..Faults::NONE });
        let outcome = sim.run_on_node(async |io| {
            let inputs = inputs(&io).await.unwrap();
            run(&io, (&table(), &inputs), 9, 0, &KeepAll).await.map(drop)
        });
        cut += u32::from(outcome.is_err());
        // Without a sync of the directory even a finished file may be gone.
        check_after(&sim, false);
    }
    assert!(cut > 0, "no crash came");
}

#[test]
fn other_tasks_run_during_a_compaction() {
    let sim = prepared(1);
    let turns = Rc::new(Flag::new(0u32));
    let seen = turns.clone();
    sim.run_on_node(async move |io| {
        let inputs = inputs(&io).await.unwrap();
        let (ticking, counted) = (io.clone(), turns.clone());
        io.spawn(TaskClass::Foreground, async move {
            loop {
                ticking.yield_now().await;
                counted.set(counted.get() + 1);
            }
        });
        run(&io, (&table(), &inputs), 9, 0, &KeepAll).await.unwrap();
    })
    .unwrap();
    assert!(seen.get() > 20, "{} turns in a compaction of 7,200 rows", seen.get());
}

#[test]
fn a_compaction_that_purges_everything_still_lets_others_run_and_can_be_stopped() {
    let sim = Simulation::new(1, Faults::NONE);
    let stopped = sim.run_on_node(async |io| {
        let dead = (0..8000).map(|a| tombstone(&[a, 1], 50, 1000)).collect();
        let input = [written(&io, 1, &[partition(b"k", dead)]).await.unwrap()];
        let stop = Rc::new(Flag::new(false));
        let raised = stop.clone();
        let waker = io.clone();
        io.spawn(TaskClass::Foreground, async move {
            for _ in 0..3 {
                waker.yield_now().await;
            }
            raised.set(true);
        });
        let table = late_table();
        let (gate, output_path) = (Others(Vec::new()), "/9.sst".into());
        let job = Job {
            table: &table,
            inputs: &input,
            output: SSTableId(9),
            output_path,
            now_s: LATE_S,
            gate: &gate,
            stop: &stop,
        };
        matches!(compact(&io, job).await, Err(SSTableError::Cancelled))
    });
    assert!(stopped.unwrap());
    assert!(sim.disk().read(Path::new("/9.sst")).is_none());
}
