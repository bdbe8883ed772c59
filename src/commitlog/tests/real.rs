//! The log over the real half of `io`: direct I/O on whatever filesystem holds the temporary directory.

use super::*;
use crate::io::{Mesh, RealConfig, start_real};

/// Runs one shard to its end.
fn on_a_shard<Fut: Future<Output = ()> + 'static>(entry: impl Fn(Io) -> Fut + Clone + Send + 'static) {
    let config = RealConfig { shards: 1, cpus: None, pin: false, mesh_capacity: 16 };
    let running = start_real(config, move |io: Io, _: Mesh<()>| entry(io)).unwrap();
    running.join().unwrap();
}

#[test]
fn a_log_on_a_real_filesystem() {
    for mode in [periodic(), SyncMode::Batch] {
        on_a_shard(move |io| {
            let dir = std::env::temp_dir().join(format!("helenus-log-{:x}", io.random_u64()));
            async move {
                let log =
                    CommitLog::open(io.clone(), &dir, STREAM, config(mode), Rc::new(OneSchema), Inherited::nothing())
                        .await
                        .unwrap();
                let mut from = LogPosition::ZERO;
                for n in 0..200u8 {
                    let ticket = append(&log, &vec![n; usize::from(n) * 20]).await.unwrap();
                    log.wait_acknowledged(ticket.end).await.unwrap();
                    if n == 100 {
                        log.mark_flushed(TABLE, from, log.position());
                        from = log.position();
                    }
                }
                let end = log.close().await.unwrap();
                let options = ReplayOptions { known_end: Some(end), ..ReplayOptions::default() };
                let mut replay = Replay::open(io.clone(), &dir, STREAM, options).await.unwrap();
                let mut bodies = Vec::new();
                while let Some(record) = replay.next().await.unwrap() {
                    if record.kind == RecordKind::Mutation && record.position >= from {
                        bodies.push(record.body.to_vec());
                    }
                }
                assert_eq!(bodies, (101..200u8).map(|n| vec![n; usize::from(n) * 20]).collect::<Vec<_>>());
                let replayed = replay.finish();
                assert_eq!((replayed.tail, replayed.inherited.end), (Tail::Clean, end));
                remove_stream(&io, &dir, STREAM).await.unwrap();
                io.remove_dir(&dir).await.unwrap();
            }
        });
    }
}
