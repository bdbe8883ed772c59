//! The mesh of the real half: messages from one core to another and back.

use std::sync::mpsc::{Sender, channel};

use helenus::base::ids::ShardId;
use helenus::io::{Io, Mesh, RealConfig, start_real};

use crate::counters::clock_ns;

/// A message of the size of one of the router's.
type Parcel = [u64; 16];

/// What a hop costs.
pub struct Hop {
    /// Elapsed, from sending a message to having it back.
    pub round_trip_ns: f64,
    /// Elapsed, over all messages, those there and those back.
    pub one_way_ns: f64,
    /// CPU time of both cores, over all messages.
    pub cpu_ns: f64,
}

/// What one shard tells.
enum Told {
    Elapsed(u64),
    Cpu(u64),
}

const ROUND_TRIPS: u64 = 400_000;
const ROUND_TRIPS_UNLOADED: u64 = 20_000;

/// So many messages under way between two shards, each sent back by the other.
pub fn hop(in_flight: u64) -> Result<Hop, String> {
    let round_trips = if in_flight == 1 { ROUND_TRIPS_UNLOADED } else { ROUND_TRIPS };
    let (told, taken) = channel();
    let config = RealConfig { shards: 2, cpus: None, pin: true, mesh_capacity: 1024 };
    let running = start_real(config, move |io: Io, mesh: Mesh<Parcel>| {
        let told = told.clone();
        async move {
            let before = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
            if io.shard_id() == ShardId(0) {
                send(&mesh, in_flight, round_trips, &told).await;
            } else {
                send_back(&mesh, round_trips).await;
            }
            let used = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - before;
            told.send(Told::Cpu(used)).expect("the measurement waits for it");
        }
    });
    let running = running.map_err(|error| error.to_string())?;
    running.join().map_err(|error| error.to_string())?;
    let (mut elapsed_ns, mut cpu_ns) = (0, 0);
    for told in taken.try_iter() {
        match told {
            Told::Elapsed(ns) => elapsed_ns = ns,
            Told::Cpu(ns) => cpu_ns += ns,
        }
    }
    let messages = (2 * round_trips) as f64;
    Ok(Hop {
        round_trip_ns: elapsed_ns as f64 * in_flight as f64 / round_trips as f64,
        one_way_ns: elapsed_ns as f64 / messages,
        cpu_ns: cpu_ns as f64 / messages,
    })
}

async fn send(mesh: &Mesh<Parcel>, in_flight: u64, round_trips: u64, told: &Sender<Told>) {
    let started = clock_ns(libc::CLOCK_MONOTONIC);
    let (mut sent, mut back) = (0, 0);
    let mut received = Vec::new();
    while back < round_trips {
        while sent < round_trips && sent - back < in_flight {
            mesh.send(ShardId(1), [sent; 16]).await;
            sent += 1;
        }
        mesh.flush();
        mesh.recv(&mut received).await;
        back += received.drain(..).count() as u64;
    }
    told.send(Told::Elapsed(clock_ns(libc::CLOCK_MONOTONIC) - started)).expect("the measurement waits for it");
}

async fn send_back(mesh: &Mesh<Parcel>, round_trips: u64) {
    let mut received = Vec::new();
    let mut returned = 0;
    while returned < round_trips {
        mesh.recv(&mut received).await;
        for (from, parcel) in received.drain(..) {
            mesh.send(from, parcel).await;
            returned += 1;
        }
        mesh.flush();
    }
}
