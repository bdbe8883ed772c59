//! `helenus-campaign clients`: stock clients of pinned versions, unmodified, each against a fresh server.
//!
//! Every client has a script in `tools/campaign/clients` that does the same list of things as far as the client's
//! interface goes: schema, every type, writes and reads, paging over many rows, batches, preparing again after
//! ALTER, schema events, compression, errors with their fields. A script prints `ok NAME` for each thing that held
//! and ends with another status than 0 at the first that did not. A check that a script was to make and did not
//! report is a failure too.

mod install;
mod roster;
mod script;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use crate::scratch::Scratch;
use crate::server::{Server, ServerOptions};
use roster::{CLIENTS, Client};
use script::{Report, Target};

/// How long one client's script may run.
const SCRIPT_WITHIN: Duration = Duration::from_secs(900);
/// What is looked for here are wrong answers, so a busy machine gets time to answer.
const PATIENCE: [&str; 3] = ["write_request_timeout=60s", "read_request_timeout=60s", "range_request_timeout=60s"];

#[derive(clap::Args)]
pub struct Arguments {
    /// How often each client runs.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Seed of the values written; round N uses seed + N.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rows that each client writes, and pages over; 1,000 or more.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..))]
    rows: u32,
    /// Only the clients whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Use the server that listens there, instead of a fresh one for each client.
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<SocketAddr>,
    /// Shards of each server that is started.
    #[arg(long, default_value_t = 2)]
    shards: u16,
}

/// Runs the campaign.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut outcome = Outcome::new("clients");
    let only = arguments.only.as_deref().unwrap_or("");
    let chosen: Vec<&Client> = CLIENTS.iter().filter(|client| client.name.contains(only)).collect();
    if chosen.is_empty() {
        let known: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
        outcome.fail(format!("no client is called {only}: {}", known.join(", ")), "helenus-campaign clients");
    }
    let mut checks = 0;
    for round in 0..arguments.rounds {
        for client in &chosen {
            let seed = arguments.seed.wrapping_add(u64::from(round));
            let started = Instant::now();
            match run_client(client, arguments, seed) {
                Ok(passed) => {
                    checks += passed;
                    println!("{}: {passed} checks in {:.1} s", client.name, started.elapsed().as_secs_f64());
                }
                Err(what) => outcome.fail(format!("{}: {what}", client.name), replay(client, arguments, seed)),
            }
        }
    }
    outcome.figure("rounds", arguments.rounds);
    outcome.figure("seed", arguments.seed);
    outcome.figure("rows", arguments.rows);
    outcome.figure("clients", chosen.len());
    outcome.figure("checks", checks);
    outcome
}

/// The command that runs this one client again with the same values.
fn replay(client: &Client, arguments: &Arguments, seed: u64) -> String {
    let mut command = format!(
        "helenus-campaign clients --only {} --seed {seed} --rows {} --shards {}",
        client.name, arguments.rows, arguments.shards
    );
    if let Some(server) = arguments.server {
        command.push_str(&format!(" --server {server}"));
    }
    command
}

/// Installs the client, starts a server for it, runs its script. Gives the number of checks that held.
fn run_client(client: &Client, arguments: &Arguments, seed: u64) -> Result<usize, String> {
    client.kind.install().map_err(|error| error.to_string())?;
    let mut scratch = Scratch::new(client.name).map_err(|error| format!("no directory to work in: {error}"))?;
    let target = |address| Target { address, rows: arguments.rows, seed, scratch: scratch.path().to_path_buf() };
    let result = match arguments.server {
        Some(address) => script::run(client, &target(address), SCRIPT_WITHIN).map_err(|error| error.to_string()),
        None => {
            let options = ServerOptions {
                shards: Some(arguments.shards),
                set: PATIENCE.map(str::to_owned).to_vec(),
                ..ServerOptions::below(scratch.path())
            };
            Server::start(&options).map_err(|error| error.to_string()).and_then(|server| {
                let report = script::run(client, &target(server.ready().cql), SCRIPT_WITHIN);
                after_script(server, report.map_err(|error| error.to_string()))
            })
        }
    };
    if result.is_err() {
        scratch.keep();
    }
    result.map(|report| report.passed.len())
}

/// A server must have outlived its client, and must stop cleanly.
fn after_script(mut server: Server, report: Result<Report, String>) -> Result<Report, String> {
    if !server.is_running() {
        let client = report.err().unwrap_or_default();
        return Err(format!("the server ended while the client ran; its log ends:\n{}\n{client}", server.log_tail()));
    }
    let report = report?;
    let status = server.stop().map_err(|error| error.to_string())?;
    if status.success() { Ok(report) } else { Err(format!("after SIGTERM the server ended with {status}")) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn the_replay_command_parses_back_to_the_same_run() {
        let line = Line::parse_from(["clients", "--rows", "5000", "--server", "127.0.0.1:9042", "--rounds", "3"]);
        let command = replay(&CLIENTS[0], &line.arguments, 9);
        let words = command.split_whitespace().skip(1);
        let again = Line::parse_from(words).arguments;
        assert_eq!(again.only.as_deref(), Some(CLIENTS[0].name));
        assert_eq!((again.seed, again.rows, again.rounds, again.shards), (9, 5000, 1, 2));
        assert_eq!(again.server, Some("127.0.0.1:9042".parse().unwrap()));
    }

    #[test]
    fn an_unknown_client_is_a_failure_that_names_the_known_ones() {
        let line = Line::parse_from(["clients", "--only", "nosuch"]);
        let outcome = run(&line.arguments);
        assert!(!outcome.passed());
        assert!(outcome.summary()["failures"][0]["what"].as_str().unwrap().contains("gocql"));
    }
}
