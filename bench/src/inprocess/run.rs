//! One run in this thread: a node, a connection to each shard, windows of requests, and what they cost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use helenus::base::ids::ShardId;
use helenus::io::TaskClass;
use helenus::io::sim::{Faults, Halted, Simulation};
use helenus::schema::partitioner::{Sharding, token_of};

use super::client::Client;
use super::node::{ADDRESS, Routers, SHARD_AWARE, flush, start, start_floor};
use super::workload::{KEYSPACE, Kind, WINDOW};
use crate::counters::Counters;

/// Different windows of a connection.
const WINDOWS: u64 = 4;

/// Whose keys a connection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Those of the shard that serves it.
    Owner,
    /// Those of any shard.
    Any,
    /// One partition, the same for all.
    One,
}

impl To {
    pub fn name(self) -> &'static str {
        match self {
            To::Owner => "owner",
            To::Any => "any",
            To::One => "one",
        }
    }

    pub fn named(name: &str) -> Option<To> {
        [To::Owner, To::Any, To::One].into_iter().find(|to| to.name() == name)
    }
}

/// What a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub kind: Kind,
    pub shards: u16,
    pub to: To,
    /// Ask a node that answers with as many bytes and does nothing else.
    pub floor: bool,
    /// Measured, each connection its share.
    pub operations: u64,
}

impl Shape {
    /// The operations that are measured: whole windows on every connection.
    pub fn operations(&self) -> u64 {
        self.rounds() * WINDOW * u64::from(self.shards)
    }

    fn rounds(&self) -> u64 {
        self.operations.div_ceil(WINDOW * u64::from(self.shards)).next_multiple_of(WINDOWS)
    }
}

/// Virtual time from preparing to measuring.
const SETTLES_IN: Duration = Duration::from_millis(10);

/// A connection that has been served all its windows once.
struct Connection {
    client: Client,
    windows: Vec<Vec<u8>>,
    answer_bytes: usize,
}

/// What the measured operations cost, by node, simulator and client together.
pub fn run(shape: &Shape) -> Result<Counters, String> {
    let sim = Simulation::new(1, Faults::NONE);
    sim.set_steps_max(u64::MAX);
    let routers = start(&sim, shape.shards)?;
    let mut connections = prepare(&sim, shape, routers)?;
    if !shape.floor {
        return measure(&sim, shape, connections);
    }
    let request_bytes = connections[0].windows[0].len() / WINDOW as usize;
    let floor = Simulation::new(1, Faults::NONE);
    floor.set_steps_max(u64::MAX);
    start_floor(&floor, request_bytes, connections[0].answer_bytes)?;
    for connection in &mut connections {
        connection.client = Client::new(floor.client().connect(SHARD_AWARE).map_err(|error| error.to_string())?);
    }
    measure(&floor, shape, connections)
}

/// The table and its rows, a connection to each shard, and everything asked once.
fn prepare(sim: &Simulation, shape: &Shape, routers: Routers) -> Result<Vec<Connection>, String> {
    let Shape { kind, shards, to, .. } = *shape;
    let rounds = shape.rounds();
    let outside = sim.client();
    let prepared = sim.run_client(async move {
        let mut admin = Client::new(outside.connect(ADDRESS).map_err(|error| error.to_string())?);
        admin.startup().await?;
        admin.query(KEYSPACE).await?;
        admin.query(kind.table()).await?;
        let filling = admin.prepare(kind.filling()).await?;
        let measured = admin.prepare(kind.statement()).await?;
        let mut connections: Vec<Option<Connection>> = (0..shards).map(|_| None).collect();
        while connections.iter().any(Option::is_none) {
            let stream = outside.connect(SHARD_AWARE).map_err(|error| error.to_string())?;
            let shard = stream.local_addr().port() % shards;
            let keys = keys(kind, shards, shard, to);
            let mut connection = Connection { client: Client::new(stream), windows: Vec::new(), answer_bytes: 0 };
            connection.client.startup().await?;
            connection.fill(kind, &filling, &keys).await?;
            connections[usize::from(shard)] = Some(connection);
        }
        let mut connections: Vec<Connection> = connections.into_iter().flatten().collect();
        for pass in 0..kind.sstables() {
            for (connection, shard) in connections.iter_mut().zip(0..).filter(|_| pass > 0) {
                connection.fill(kind, &filling, &keys(kind, shards, shard, to)).await?;
            }
            flush(&routers).await?;
        }
        for (connection, shard) in connections.iter_mut().zip(0..) {
            let keys = keys(kind, shards, shard, to);
            connection.warm_up(kind, &measured, &keys, u64::from(shard) << 32).await?;
            if kind.grows() {
                connection.windows = (WINDOWS..WINDOWS + rounds)
                    .map(|at| connection.window(kind, &measured, &keys, (u64::from(shard) << 32) + at * WINDOW))
                    .collect();
            }
        }
        Ok(connections)
    });
    prepared.map_err(|halted| halted.to_string())?
}

/// The keys that the connection of this shard asks for.
fn keys(kind: Kind, shards: u16, shard: u16, to: To) -> Vec<Vec<u8>> {
    let sharding = Sharding::new(shards);
    let wanted = |(number, key): &(u64, Vec<u8>)| match to {
        To::Owner => sharding.shard_of(token_of(key)) == ShardId(shard),
        To::Any => number % u64::from(shards) == u64::from(shard),
        To::One => *number == 0,
    };
    let one = to == To::One;
    let all = (0..).map(|number| (number, kind.key(number)));
    let count = if one { 1 } else { kind.partitions().unwrap_or(WINDOW * WINDOWS) };
    all.filter(wanted).map(|(_, key)| key).take(count as usize).collect()
}

impl Connection {
    async fn fill(&mut self, kind: Kind, id: &[u8], keys: &[Vec<u8>]) -> Result<(), String> {
        let mut out = Vec::new();
        for key in keys {
            out.clear();
            let requests = kind.put_filling(&mut self.client.encoder, id, key, &mut out);
            self.client.send(&mut out).await?;
            for _ in 0..requests {
                self.client.answer().await?;
            }
        }
        Ok(())
    }

    /// Requests from this number on, which ask for the keys in turn.
    fn window(&mut self, kind: Kind, id: &[u8], keys: &[Vec<u8>], first: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for number in first..first + WINDOW {
            let key = &keys[(number % keys.len() as u64) as usize];
            kind.put_request(&mut self.client.encoder, number, id, key, &mut out);
        }
        out
    }

    /// Makes the windows and asks each once: the answers are good and all of one size.
    async fn warm_up(&mut self, kind: Kind, id: &[u8], keys: &[Vec<u8>], first: u64) -> Result<(), String> {
        for at in 0..WINDOWS {
            let mut out = self.window(kind, id, keys, first + at * WINDOW);
            self.client.send(&mut out).await?;
            for _ in 0..WINDOW {
                let answered = self.client.answer().await?;
                if answered.rows != kind.answer_rows() {
                    return Err(format!("{}: {:?} rows in an answer", kind.name(), answered.rows));
                }
                if self.answer_bytes != 0 && self.answer_bytes != answered.bytes {
                    return Err(format!("{}: answers of two sizes", kind.name()));
                }
                self.answer_bytes = answered.bytes;
            }
            self.windows.push(out);
        }
        Ok(())
    }

    /// Sends window after window, each when the one before is answered.
    async fn exchange(&mut self, rounds: u64) -> Result<(), String> {
        let count = self.windows.len();
        for round in 0..rounds {
            let window = &mut self.windows[(round % count as u64) as usize];
            self.client.send(window).await?;
            self.client.take(self.answer_bytes * WINDOW as usize).await?;
        }
        Ok(())
    }
}

/// All connections at once.
fn measure(sim: &Simulation, shape: &Shape, connections: Vec<Connection>) -> Result<Counters, String> {
    let (running, failed) = (Rc::new(Cell::new(connections.len())), Rc::new(RefCell::new(None)));
    let rounds = shape.rounds();
    // The connection that prepared is gone by then.
    let io = sim.client_io();
    sim.run_client(async move { io.sleep(SETTLES_IN).await }).map_err(|halted| halted.to_string())?;
    for mut connection in connections {
        let (running, failed) = (running.clone(), failed.clone());
        sim.client_io().spawn(TaskClass::Foreground, async move {
            if let Err(error) = connection.exchange(rounds).await {
                *failed.borrow_mut() = Some(error);
            }
            running.set(running.get() - 1);
        });
    }
    let before = Counters::now();
    in_process_measured(sim, &mut || running.get() == 0).map_err(|halted| halted.to_string())?;
    let used = Counters::now().since(before);
    let failed = failed.borrow_mut().take();
    failed.map_or(Ok(used), Err)
}

/// Callgrind collects in here alone, so this name is that of one function and of nothing within it.
#[inline(never)]
fn in_process_measured(sim: &Simulation, done: &mut dyn FnMut() -> bool) -> Result<(), Halted> {
    sim.run_until(done)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::super::workload::KINDS;
    use super::*;

    #[test]
    fn every_kind_goes_through_and_so_does_its_floor() {
        for kind in KINDS {
            for floor in [false, true] {
                let shape = Shape { kind, shards: 1, to: To::Owner, floor, operations: WINDOW };
                assert!(run(&shape).is_ok(), "{kind:?}, floor {floor}");
            }
        }
    }

    /// Of the whole thread, simulator and client included: the simulated disk allocates for each write of the log, of which
    /// a window has one.
    #[test]
    fn in_steady_state_nothing_is_allocated_for_a_request() {
        for kind in [Kind::Read, Kind::Write, Kind::Batch] {
            let shape = Shape { kind, shards: 1, to: To::Owner, floor: false, operations: 200 * WINDOW };
            let (used, operations) = (run(&shape).unwrap(), shape.operations());
            let allowed = if kind == Kind::Read { operations / 1000 } else { 2 * operations / WINDOW };
            assert!(used.allocations <= allowed, "{kind:?}: {} for {operations}", used.allocations);
        }
    }

    #[test]
    fn requests_go_to_their_owner_or_to_any() {
        for to in [To::Owner, To::Any] {
            let shape = Shape { kind: Kind::Read, shards: 3, to, floor: false, operations: WINDOW };
            run(&shape).unwrap();
            assert_eq!(shape.operations(), WINDOW * WINDOWS * 3);
        }
        let owned = keys(Kind::Read, 3, 1, To::Owner);
        assert!(owned.iter().all(|key| Sharding::new(3).shard_of(token_of(key)) == ShardId(1)));
    }
}
