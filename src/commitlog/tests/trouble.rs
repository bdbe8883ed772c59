//! Failed writes and syncs, a full disk.

use super::*;

const EIO: i32 = 5;

fn modes() -> [SyncMode; 3] {
    [periodic(), SyncMode::Batch, SyncMode::Group { window: Duration::from_millis(5) }]
}

fn fault(op: DiskOp, after: u32) -> Planned {
    Planned { op, path_contains: String::from("log-"), after, errno: EIO }
}

/// What a life that meets a failing disk promised, and what it was told.
struct Promised {
    acknowledged: Vec<Vec<u8>>,
    failure: Option<LogError>,
    later: Option<LogError>,
}

/// Appends until something fails, then once more.
async fn until_failure(io: Io, config: LogConfig) -> Promised {
    let log = open(io, config, Inherited::nothing()).await.unwrap();
    let mut promised = Promised { acknowledged: Vec::new(), failure: None, later: None };
    for n in 0..200u8 {
        let body = vec![n; 700];
        let told = match append(&log, &body).await {
            Ok(ticket) if n % 10 == 9 => log.wait_synced(ticket.end).await,
            Ok(ticket) => log.wait_acknowledged(ticket.end).await,
            Err(error) => Err(error),
        };
        match told {
            Ok(()) => promised.acknowledged.push(body),
            Err(failure) => {
                promised.failure = Some(failure);
                promised.later = log.append(RecordKind::Mutation, &TABLES, &[b"later"]).err();
                assert!(log.failure().is_some());
                assert!(log.sync().await.is_err() && log.close().await.is_err(), "a failure is final");
                break;
            }
        }
    }
    promised
}

#[test]
fn a_failed_write_or_sync_ends_the_log_and_names_its_cause() {
    for mode in modes() {
        for method in [SyncMethod::WriteThenSync, SyncMethod::SyncedWrite] {
            for (op, after) in [(DiskOp::Write, 40), (DiskOp::Sync, 3), (DiskOp::Sync, 4), (DiskOp::Name, 4)] {
                let sim = Simulation::new(u64::from(after), Faults::NONE);
                sim.plan_fault(fault(op, after));
                let config = LogConfig { method, ..config(mode) };
                let promised = sim.run_on_node(move |io| until_failure(io, config)).unwrap();
                let what = format!("{mode:?} {method:?} {op:?}");
                let Some(failure) = promised.failure else {
                    assert!(
                        op == DiskOp::Sync && method == SyncMethod::SyncedWrite && mode == SyncMode::Batch,
                        "{what}"
                    );
                    continue;
                };
                assert!(failure.to_string().contains("os error 5"), "{what}: {failure}");
                assert!(matches!(failure, LogError::Failed { stream: STREAM, .. }));
                assert!(matches!(promised.later, Some(LogError::Failed { .. })), "{what}: later appends fail too");
                sim.kill();
                let back = recovered(&sim, ReplayOptions::default()).unwrap().bodies();
                let count = promised.acknowledged.len();
                assert_eq!(back[..count], promised.acknowledged[..], "{what}: what was acknowledged is there");
            }
        }
    }
}

#[test]
fn without_space_appends_fail_and_with_space_they_go_on() {
    let sim = Simulation::new(21, Faults::NONE);
    sim.disk().set_capacity_bytes(3 * 16384 + 8000);
    let log = sim
        .run_on_node(|io| async move {
            let log = open(io, config(SyncMode::Batch), Inherited::nothing()).await.unwrap();
            let mut told = Ok(());
            for n in 0..50u8 {
                match append(&log, &[n; 3000]).await {
                    Ok(ticket) => log.wait_acknowledged(ticket.end).await.unwrap(),
                    Err(error) => {
                        told = Err((n, error));
                        break;
                    }
                }
            }
            let (n, error) = told.unwrap_err();
            assert!(n >= 9 && matches!(error, LogError::NoSpace { .. }), "{n} {error}");
            assert!(log.failure().is_none(), "a full disk is no end");
            log
        })
        .unwrap();
    sim.disk().set_capacity_bytes(u64::MAX);
    sim.run_on_node(|io| async move {
        while let Err(error) = append(&log, b"after").await {
            assert!(matches!(error, LogError::NoSpace { .. }), "{error}");
            io.sleep(Duration::from_millis(100)).await;
        }
        log.close().await.unwrap();
    })
    .unwrap();
    sim.kill();
    let back = recovered(&sim, ReplayOptions::default()).unwrap();
    assert_eq!(back.replayed.tail, Tail::Clean);
    assert_eq!(back.bodies().last().unwrap(), b"after");
}

/// ROCKSDB-7784: a disk that is full at the start is an error, and a start after space came back is whole.
#[test]
fn a_full_disk_at_the_start_loses_nothing() {
    let sim = Simulation::new(22, Faults::NONE);
    written_and_closed(&sim, config(periodic()), vec![b"kept".to_vec()]);
    sim.disk().set_capacity_bytes(sim.disk().used_bytes() + 100);
    for _ in 0..2 {
        let refused = sim.run_on_node(|io| async move {
            let back = recover(io.clone(), ReplayOptions::default()).await.unwrap();
            open(io, config(periodic()), back.replayed.inherited).await.map(|_| ())
        });
        assert!(matches!(refused.unwrap(), Err(LogError::NoSpace { .. })));
        sim.crash();
    }
    sim.disk().set_capacity_bytes(u64::MAX);
    assert_eq!(recovered(&sim, ReplayOptions::default()).unwrap().bodies(), [b"kept".to_vec()]);
}

#[test]
fn a_slow_disk_is_waited_for_and_memory_stays_bounded() {
    let sim = Simulation::new(23, Faults { slow_io_ppm: 200_000, ..Faults::NONE });
    let bodies = sim
        .run_on_node(|io| async move {
            let config = LogConfig { pending_bytes_max: 20_000, ..config(periodic()) };
            let log = open(io.clone(), config, Inherited::nothing()).await.unwrap();
            let (mut busy, mut n) = (0, 0u8);
            while n < 100 {
                match log.append(RecordKind::Mutation, &TABLES, &[&[n; 2500]]) {
                    Ok(_) => n += 1,
                    Err(LogError::Busy) => {
                        busy += 1;
                        log.room().await.unwrap();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(busy > 5, "{busy}");
            log.close().await.unwrap();
            recover(io, ReplayOptions::default()).await.unwrap().bodies()
        })
        .unwrap();
    assert_eq!(bodies, (0..100u8).map(|n| vec![n; 2500]).collect::<Vec<_>>());
}

/// Reads the log and dies at the record whose body is `killer`, if that is given out.
fn replay_and_die(sim: &Simulation, killer: &'static [u8]) -> Option<Replayed> {
    let replayed = sim
        .run_on_node(move |io| async move {
            let options = ReplayOptions { mark_attempts: true, ..ReplayOptions::default() };
            let mut replay = Replay::open(io, dir(), STREAM, options).await.unwrap();
            while let Some(record) = replay.next().await.unwrap() {
                if record.body == killer {
                    return None;
                }
            }
            Some(replay.finish())
        })
        .unwrap();
    sim.kill();
    replayed
}

#[test]
fn a_record_that_kills_replay_is_set_aside_and_the_rest_is_read() {
    let sim = Simulation::new(24, Faults::NONE);
    let bodies = ["one", "two", "killer", "four"].map(|body| body.as_bytes().to_vec());
    written_and_closed(&sim, config(periodic()), bodies.to_vec());
    let deaths = (0..10).take_while(|_| replay_and_die(&sim, b"killer").is_none()).count();
    assert_eq!(deaths, 3, "once without a name, twice with it");
    let replayed = replay_and_die(&sim, b"killer").unwrap();
    assert_eq!(replayed.set_aside.len(), 1);
    assert_eq!(replayed.tail, Tail::Clean);
    assert_eq!(recovered(&sim, ReplayOptions::default()).unwrap().mutations.len(), 4, "it is still in the log");
}
