//! Requests over TCP on loopback: the same load, from the same core, against a Helenus process and against an echo that
//! answers with as many bytes on a raw io_uring. The echo is the floor: no server can do less.

mod cql;
mod cql_echo;
mod echo;
mod load;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::baseline::server::Server;
use crate::calibration::median;
use crate::inprocess::Kind;

pub use cql_echo::start as start_cql_echo;

/// Connections, requests in flight on each, and how many are measured.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub connections: usize,
    pub in_flight: usize,
    pub operations: u64,
}

/// What a server did.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub operations_per_s: f64,
    /// Of all its threads, the kernel's work for them included.
    pub server_cpu_ns: f64,
}

/// The requests of a connection, one behind the other and all of one size, and the size of an answer.
#[derive(Clone)]
pub struct Wire {
    pub requests: Vec<u8>,
    pub request_bytes: usize,
    pub answer_bytes: usize,
}

/// The cores of server and load: two different ones where there are two.
pub fn cores() -> (Option<usize>, Option<usize>) {
    let cores: Vec<usize> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
    match cores[..] {
        [server, load, ..] => (Some(server), Some(load)),
        _ => (None, None),
    }
}

/// A running Helenus of one shard, filled, with the requests to ask it.
pub struct Helenus {
    server: Server,
    address: SocketAddr,
    pub wire: Wire,
    data_dir: PathBuf,
}

impl Helenus {
    /// Starts the `helenus` beside this program, on the first core, and makes the table of a kind.
    pub fn start(kind: Kind) -> Result<Helenus, String> {
        let exe = std::env::current_exe().map_err(|error| error.to_string())?;
        let programs = exe.parent().unwrap_or(Path::new("."));
        let data_dir = programs.join(format!("loopback-{}-{}", std::process::id(), kind.name()));
        let core = cores().0.map(|core| core.to_string());
        let pinned = core.as_ref().map_or(vec![], |core| vec!["--cpuset", core]);
        let server =
            Server::start_with(&programs.join("helenus"), &data_dir, &[&["--shards", "1"], &pinned[..]].concat())?;
        let address = SocketAddr::from(([127, 0, 0, 1], server.port));
        let wire = cql::prepare(address, kind)?;
        Ok(Helenus { server, address, wire, data_dir })
    }

    pub fn process_id(&self) -> u32 {
        self.server.process_id()
    }

    pub fn measure(&self, shape: Shape) -> Result<Rate, String> {
        let mut rate = Err("nothing was measured".into());
        on_load_core(|| rate = load::run(self.address, &self.wire, true, shape, || self.server.cpu_ns()));
        rate
    }
}

impl Drop for Helenus {
    fn drop(&mut self) {
        self.server.end();
        if let Err(error) = std::fs::remove_dir_all(&self.data_dir) {
            eprintln!("{} stays: {error}", self.data_dir.display());
        }
    }
}

/// The echo of the same sizes.
pub fn measure_echo(wire: &Wire, shape: Shape) -> Result<Rate, String> {
    let echo = echo::start(shape.connections, wire.request_bytes, wire.answer_bytes, cores().0)?;
    let mut rate = Err("nothing was measured".into());
    on_load_core(|| rate = load::run(echo.address, wire, false, shape, || echo.cpu_ns()));
    echo.join()?;
    rate
}

/// A server and the echo of its sizes, in turns; the medians.
pub fn beside_echo(server: &Helenus, shape: Shape) -> Result<(Rate, Rate), String> {
    const ROUNDS: usize = 3;
    let (mut cql, mut echo) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        cql.push(server.measure(shape)?);
        echo.push(measure_echo(&server.wire, shape)?);
    }
    let middle = |rates: &[Rate]| Rate {
        operations_per_s: median(rates.iter().map(|rate| rate.operations_per_s)),
        server_cpu_ns: median(rates.iter().map(|rate| rate.server_cpu_ns)),
    };
    Ok((middle(&cql), middle(&echo)))
}

/// In a thread pinned to the load's core, so that this one stays where it is.
fn on_load_core(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if let Some(id) = cores().1 {
                core_affinity::set_for_current(core_affinity::CoreId { id });
            }
            work();
        });
    });
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn the_echo_answers_with_other_sizes() {
        let wire = Wire { requests: vec![1; 100 * 64], request_bytes: 100, answer_bytes: 230 };
        for (connections, in_flight) in [(1, 1), (3, 16)] {
            let rate = measure_echo(&wire, Shape { connections, in_flight, operations: 2_000 }).unwrap();
            assert!(rate.operations_per_s > 0.0, "{rate:?}");
        }
    }
}
