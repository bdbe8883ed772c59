//! A run: schema, connections, warm-up, load, summary.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::arguments::{Arguments, Command, Until};
use crate::connection::{Connection, ConnectionError};
use crate::driver::{Driver, DriverError, Phase};
use crate::output::{LogError, Output};
use crate::progress::{HEADER, Progress};
use crate::schema;
use crate::summary;
use crate::tally::Tally;

/// cassandra-stress warms up with a quarter of the operations, at most so many.
const WARMUP_OPERATIONS_MAX: u64 = 50_000;
/// Requests in flight on one connection: those are told apart by 15 bits.
const WINDOW_MAX: usize = 32_767;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the address of {node}:{port}: {source}")]
    Address { node: String, port: u16, source: std::io::Error },
    #[error("{node} has no address")]
    NoAddress { node: String },
    #[error("{threads} requests in flight are too many for {connections} connections")]
    TooManyInFlight { threads: usize, connections: usize },
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Runs it all and gives the number of operations that failed.
pub fn run(arguments: &Arguments) -> Result<u64, RunError> {
    let mut output = Output::open(arguments.log.as_deref())?;
    let mut first = connect(arguments)?;
    if matches!(arguments.command, Command::Write | Command::Mixed { .. }) {
        schema::create(&mut first, &arguments.keyspace)?;
    }
    let mut drivers = drivers(arguments)?;
    output.line(&format!(
        "Connected to {}:{} in version {}: {} in flight on {} connections",
        arguments.node,
        arguments.port,
        first.version().number(),
        arguments.threads,
        arguments.connections
    ))?;
    drop(first);
    let names = match arguments.command {
        Command::Write => "WRITE",
        Command::Read => "READ",
        Command::Mixed { .. } => "WRITE and READ",
    };
    let mut errors = 0;
    if let Some(operations) = warmup_operations(arguments) {
        output.line(&format!("Warming up {names} with {operations} operations..."))?;
        let (tally, _) = drive(arguments, Until::Operations(operations), &mut drivers, None)?;
        errors += tally.total().errors;
    }
    output.line(&format!("Running {names} with {} in flight {}", arguments.threads, until(arguments.until)))?;
    output.line(HEADER)?;
    let (tally, took) = drive(arguments, arguments.until, &mut drivers, Some(&mut output))?;
    for line in summary::lines(&tally, took) {
        output.line(&line)?;
    }
    Ok(errors + tally.total().errors)
}

fn until(until: Until) -> String {
    match until {
        Until::Operations(count) => format!("for {count} operations"),
        Until::Duration(duration) => format!("for {} seconds", duration.as_secs()),
    }
}

/// Writes repeat rows and reads touch what is there, so a run by time warms up as the original does: not at all.
fn warmup_operations(arguments: &Arguments) -> Option<u64> {
    match arguments.until {
        Until::Operations(count) if arguments.warmup => {
            Some((count / 4).min(WARMUP_OPERATIONS_MAX)).filter(|count| *count > 0)
        }
        _ => None,
    }
}

/// A started connection to the first address that answers.
fn connect(arguments: &Arguments) -> Result<Connection, RunError> {
    let (node, port) = (arguments.node.as_str(), arguments.port);
    let address = |source| RunError::Address { node: node.to_owned(), port, source };
    let addresses: Vec<SocketAddr> = (node, port).to_socket_addrs().map_err(address)?.collect();
    let mut refused = RunError::NoAddress { node: node.to_owned() };
    for address in addresses {
        match Connection::start(address, arguments.version) {
            Ok(connection) => return Ok(connection),
            Err(error) => refused = error.into(),
        }
    }
    Err(refused)
}

/// The drivers with their connections: half as many as there are cores, as the server wants some, too.
fn drivers(arguments: &Arguments) -> Result<Vec<Driver>, RunError> {
    let Arguments { connections, threads, .. } = *arguments;
    if threads.div_ceil(connections) > WINDOW_MAX {
        return Err(RunError::TooManyInFlight { threads, connections });
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let places = (cores / 2).clamp(1, connections);
    let mut drivers: Vec<Driver> = (0..places).map(|place| Driver::new(place, places)).collect();
    for at in 0..connections {
        let window = threads / connections + usize::from(at < threads % connections);
        let window = i16::try_from(window).expect("checked above");
        let mut connection = connect(arguments)?;
        connection.query(&schema::use_keyspace(&arguments.keyspace))?;
        drivers[at % places].add(connection, window)?;
    }
    Ok(drivers)
}

/// Runs all drivers to the end of a phase, with lines of progress where an output is given.
fn drive(
    arguments: &Arguments,
    until: Until,
    drivers: &mut [Driver],
    mut output: Option<&mut Output>,
) -> Result<(Tally, Duration), RunError> {
    let phase = Phase::new(arguments, until);
    let (counted, tallies) = mpsc::channel();
    let mut progress = Progress::default();
    let took = std::thread::scope(|scope| {
        let running: Vec<_> = drivers
            .iter_mut()
            .map(|driver| {
                let (phase, counted) = (&phase, counted.clone());
                scope.spawn(move || driver.run(phase, &counted))
            })
            .collect();
        drop(counted);
        let mut line_at = phase.start + arguments.interval;
        loop {
            match tallies.recv_timeout(line_at.saturating_duration_since(Instant::now())) {
                Ok(tally) => progress.add(&tally),
                Err(RecvTimeoutError::Timeout) => {
                    line_at += arguments.interval;
                    let lines = progress.lines(phase.start.elapsed());
                    if let Some(output) = &mut output {
                        lines.iter().try_for_each(|line| output.line(line))?;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let took = phase.start.elapsed();
        for driver in running {
            driver.join().expect("a driver panics only where it is wrong itself")?;
        }
        Ok::<_, RunError>(took)
    })?;
    Ok((progress.finish(), took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_is_a_quarter_up_to_a_limit() {
        let operations = |line: &str| warmup_operations(&Arguments::of(line));
        assert_eq!(operations("write n=1000 -rate threads=1"), Some(250));
        assert_eq!(operations("write n=10M -rate threads=1"), Some(50_000));
        assert_eq!(operations("write n=3 -rate threads=1"), None);
        assert_eq!(operations("write n=10M no-warmup -rate threads=1"), None);
        assert_eq!(operations("mixed duration=1m -rate threads=1"), None);
    }

    #[test]
    fn a_node_that_is_not_there_is_named() {
        let Err(error) = connect(&Arguments::of("read n=1 -rate threads=1 -node 127.0.0.1 -port native=1")) else {
            panic!("port 1 answers")
        };
        assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    }

    #[test]
    fn more_requests_than_streams_are_refused() {
        let line = "read n=1 -rate threads=40000 -mode connectionsPerHost=1 -node 127.0.0.1 -port native=1";
        let Err(error) = drivers(&Arguments::of(line)) else { panic!("40,000 requests fit in 15 bits") };
        assert!(matches!(error, RunError::TooManyInFlight { threads: 40_000, connections: 1 }), "{error}");
    }
}
