//! All connections of a run, and the drivers that have them.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::arguments::Arguments;
use crate::connection::{Connection, ConnectionError, Manner};
use crate::driver::Driver;
use crate::run::most_threads;
use crate::workload::{Workload, WorkloadError};

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the address of {node}:{port}: {source}")]
    Address { node: String, port: u16, source: std::io::Error },
    #[error("{node} has no address")]
    NoAddress { node: String },
    #[error("{threads} requests in flight are too many for {connections} connections")]
    TooManyInFlight { threads: usize, connections: usize },
    #[error("-cores: {core} is none of the cores that may be used: {allowed:?}")]
    Core { core: usize, allowed: Vec<usize> },
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// Drivers with their connections.
pub struct Fleet {
    pub drivers: Vec<Driver>,
    /// What they are, for people.
    pub description: String,
}

/// A started connection to the first node that answers.
pub fn first(arguments: &Arguments) -> Result<Connection, ConnectError> {
    let manner = manner(arguments);
    let mut refused = None;
    for (node, port) in &arguments.nodes {
        match to_node(node, *port, &manner) {
            Ok((connection, _)) => return Ok(connection),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or(ConnectError::NoAddress { node: String::new() }))
}

fn manner(arguments: &Arguments) -> Manner {
    let mode = &arguments.mode;
    Manner { version: mode.version, compression: mode.compression, login: mode.user.clone().zip(mode.password.clone()) }
}

/// A started connection to the first address of a node that answers, which it gives, too.
fn to_node(node: &str, port: u16, manner: &Manner) -> Result<(Connection, SocketAddr), ConnectError> {
    let address = |source| ConnectError::Address { node: node.to_owned(), port, source };
    let addresses: Vec<SocketAddr> = (node, port).to_socket_addrs().map_err(address)?.collect();
    let mut refused = ConnectError::NoAddress { node: node.to_owned() };
    for address in addresses {
        match Connection::start(address, manner) {
            Ok(connection) => return Ok((connection, address)),
            Err(error) => refused = error.into(),
        }
    }
    Err(refused)
}

/// Connects to all nodes, and makes every connection ready. `first` says what is spoken.
pub fn all(arguments: &Arguments, workload: &Workload, first: &Connection) -> Result<Fleet, ConnectError> {
    let threads = most_threads(arguments.threads);
    let manner = Manner { version: Some(first.version()), ..manner(arguments) };
    let cores = cores(arguments)?;
    let count = cores.len().min(threads);
    let mut drivers: Vec<Driver> =
        cores.iter().take(count).map(|core| Driver::new(*core, arguments.mode.pending)).collect();
    let mut connections = 0;
    let per_node_max = threads.div_ceil(arguments.nodes.len());
    for (node, port) in &arguments.nodes {
        let (probe, address) = to_node(node, *port, &manner)?;
        let shards = probe.shards();
        drop(probe);
        let default = shards.map_or(0, |shards| usize::from(shards.sharding.shards) * count);
        let wanted = arguments.mode.connections.unwrap_or(default.max(Arguments::CONNECTIONS_DEFAULT));
        for at in 0..wanted.min(per_node_max) {
            let mut connection = match shards.filter(|shards| shards.port != 0) {
                None => Connection::start(address, &manner)?,
                Some(shards) => {
                    let own = u16::try_from(at % usize::from(shards.sharding.shards)).expect("a shard's number");
                    let aware = SocketAddr::new(address.ip(), shards.port);
                    Connection::start_on_shard(aware, &manner, own, shards.sharding.shards)?
                }
            };
            workload.prepare_on(&mut connection)?;
            // Each driver has connections to all shards in turn.
            let stride = shards.map_or(1, |shards| usize::from(shards.sharding.shards));
            drivers[(connections / stride) % count].add(connection)?;
            connections += 1;
        }
    }
    drivers.retain(|driver| driver.capacity() > 0);
    let aware = first.sharding().filter(|_| arguments.nodes.len() == 1);
    if aware.is_none() {
        drivers.iter_mut().for_each(Driver::forget_shards);
    }
    if drivers.iter().map(Driver::capacity).sum::<usize>() < threads {
        return Err(ConnectError::TooManyInFlight { threads, connections });
    }
    let nodes: Vec<String> = arguments.nodes.iter().map(|(node, port)| format!("{node}:{port}")).collect();
    let on: Vec<String> = cores.iter().take(drivers.len()).flatten().map(ToString::to_string).collect();
    let description = format!(
        "Connected to {} in version {}: {connections} connections, driven from {}{}",
        nodes.join(","),
        first.version().number(),
        if on.is_empty() { format!("{} threads", drivers.len()) } else { format!("core {}", on.join(",")) },
        aware.map(|sharding| format!("; to the owners among {} shards", sharding.shards)).unwrap_or_default()
    );
    Ok(Fleet { drivers, description })
}

/// The cores to send from: those asked for, or the second half of the allowed ones, as the server wants some, too.
/// `None` where the system does not tell them.
fn cores(arguments: &Arguments) -> Result<Vec<Option<usize>>, ConnectError> {
    let allowed: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
    if let Some(asked) = &arguments.cores {
        if let Some(core) = asked.iter().find(|core| !allowed.contains(core)) {
            return Err(ConnectError::Core { core: *core, allowed });
        }
        return Ok(asked.iter().copied().map(Some).collect());
    }
    let half = (allowed.len() / 2).max(1);
    let chosen: Vec<Option<usize>> = allowed.iter().rev().take(half).rev().copied().map(Some).collect();
    Ok(if chosen.is_empty() { vec![None] } else { chosen })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_not_there_is_named() {
        let Err(error) = first(&Arguments::of("read n=1 -rate threads=1 -node 127.0.0.1 -port native=1")) else {
            panic!("port 1 answers")
        };
        assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    }

    #[test]
    fn cores_are_those_asked_for_or_half_of_the_allowed() {
        let allowed = core_affinity::get_core_ids().expect("Linux tells").len();
        let chosen = cores(&Arguments::of("read n=1")).expect("some");
        assert_eq!(chosen.len(), (allowed / 2).max(1));
        let error = cores(&Arguments::of("read n=1 -cores 4000")).expect_err("few machines have it").to_string();
        assert!(error.contains("-cores: 4000"), "{error}");
    }
}
