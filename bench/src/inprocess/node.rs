//! The node that is asked: Helenus over the simulated half of `io`, and the floor, which answers with as many bytes and
//! does nothing else.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use helenus::commitlog::{LogConfig, SyncMode};
use helenus::io::sim::Simulation;
use helenus::io::{Io, Mesh, Stream, TaskClass};
use helenus::net::{Limits, Net, listen};
use helenus::router::Router;
use helenus::router::message::Message;
use helenus::server::boot::{NodeConfig, boot};

pub const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9042);
/// Here a connection's source port, modulo the shards, chooses its shard.
pub const SHARD_AWARE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 19042);

/// The routers of a node's shards.
pub type Routers = Rc<RefCell<Vec<Rc<Router>>>>;

/// Starts a node and runs until it listens.
pub fn start(sim: &Simulation, shards: u16) -> Result<Routers, String> {
    // The real mesh's capacity is larger than the simulation's, which looks for full rings.
    sim.set_mesh_capacity(1024);
    let ready = Rc::new(Cell::new(0));
    let (tell, routers) = (ready.clone(), Routers::default());
    let all = routers.clone();
    let _outside = sim.start::<Message, _, _>(shards, move |io, mesh| serve(io, mesh, tell.clone(), all.clone()));
    sim.run_until(|| ready.get() == shards).map_err(|halted| halted.to_string())?;
    Ok(routers)
}

/// Makes SSTables of all that the shards have in memory.
pub async fn flush(routers: &Routers) -> Result<(), String> {
    let routers = routers.borrow().clone();
    for router in routers {
        router.shard().flush(None).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn serve(io: Io, mesh: Mesh<Message>, ready: Rc<Cell<u16>>, routers: Routers) {
    let booted = boot(io.clone(), mesh, &config()).await.expect("an empty directory boots");
    let net = Net::new(io.clone(), booted.router.clone(), Limits::default(), booted.local);
    io.spawn(TaskClass::Foreground, booted.router.clone().run(booted.early));
    if io.shard_id().0 == 0 {
        listen(&net, ADDRESS.ip(), ADDRESS.port(), SHARD_AWARE.port()).await.expect("the simulated ports are free");
    }
    ready.set(ready.get() + 1);
    routers.borrow_mut().push(booted.router.clone());
    booted.router.closed().await;
}

fn config() -> NodeConfig {
    let log = LogConfig {
        segment_bytes: 4 << 20,
        total_bytes: 1 << 30,
        mode: SyncMode::Periodic { period: Duration::from_secs(10) },
        ..LogConfig::default()
    };
    // What is measured is not mixed with compactions, and blocks stay cached once they were read.
    NodeConfig { compact: false, cache_bytes: 256 << 20, ..NodeConfig::simulated(log, Duration::from_secs(30)) }
}

/// Starts the floor: so many bytes back for so many received.
pub fn start_floor(sim: &Simulation, request_bytes: usize, answer_bytes: usize) -> Result<(), String> {
    let _outside = sim.start::<(), _, _>(1, move |io, _mesh| accept_all(io, request_bytes, answer_bytes));
    // One turn of the clock, so that it listens.
    sim.run_for(Duration::from_millis(1)).map_err(|halted| halted.to_string())
}

async fn accept_all(io: Io, request_bytes: usize, answer_bytes: usize) {
    let listener = io.listen(SHARD_AWARE).await.expect("the simulated port is free");
    while let Ok(accepted) = listener.accept().await {
        let stream = io.adopt(accepted).expect("it is still there");
        io.spawn(TaskClass::Foreground, answer_only(stream, request_bytes, answer_bytes));
    }
}

async fn answer_only(stream: Stream, request_bytes: usize, answer_bytes: usize) {
    let (mut received, mut out) = (Vec::with_capacity(64 << 10), Vec::new());
    loop {
        let (buffer, outcome) = stream.recv(received).await;
        received = buffer;
        if !matches!(outcome, Ok(1..)) {
            return;
        }
        let requests = received.len() / request_bytes;
        let left = received.len() % request_bytes;
        received.truncate(left);
        out.clear();
        out.resize(requests * answer_bytes, 0);
        let (buffer, outcome) = stream.send_all(out).await;
        out = buffer;
        if outcome.is_err() {
            return;
        }
    }
}
