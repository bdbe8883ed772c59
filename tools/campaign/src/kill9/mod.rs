//! `helenus-campaign kill9`: kill -9 under load, again and again over one data directory.
//!
//! Each round starts the server in the next sync mode and under the next shard count (often killing it a few times
//! while it starts), checks that everything acknowledged so far is there and nothing else, then loads it and ends it
//! in the middle: mostly by kill -9, sometimes by SIGTERM. What was sent and not answered may be there or not, but
//! whole. Some rounds start twice without a write in between: the second start must find what the first found.

mod check;
mod load;
mod model;
mod tables;
mod world;
mod writer;

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cql::Connection;
use crate::dice::Dice;
use crate::outcome::Outcome;
use crate::scratch::Scratch;
use crate::server::{Server, ServerOptions};
use load::{Crew, Load};
use world::World;

const MODES: [&str; 3] = ["periodic", "batch", "group"];
const SHARDS: [u16; 3] = [1, 2, 4];
/// More than this is one failure told many times.
const FAILED_ROUNDS_MAX: u32 = 5;

#[derive(clap::Args)]
pub struct Arguments {
    /// How often the server is killed.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Fixes what is written and when the server is killed, as far as threads and the clock allow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Connections that write.
    #[arg(long, default_value_t = 8)]
    writers: u32,
    /// Connections that read and check while others write.
    #[arg(long, default_value_t = 2)]
    readers: u32,
    /// The longest time under load before the end, in milliseconds.
    #[arg(long, default_value_t = 1200)]
    load_ms: u64,
}

/// Runs the campaign.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut campaign = Campaign { arguments, figures: Figures::default(), outcome: Outcome::new("kill9"), place: None };
    let mut failed = 0;
    let mut rounds = 0;
    for round in 0..arguments.rounds {
        rounds += 1;
        if let Err(what) = campaign.round(round) {
            campaign.failed(round, &what);
            failed += 1;
        }
        if failed == FAILED_ROUNDS_MAX {
            break;
        }
    }
    if let Err(what) = campaign.last_check(rounds) {
        campaign.failed(rounds.saturating_sub(1), &what);
    }
    campaign.figures.show(&mut campaign.outcome, rounds, arguments.seed);
    campaign.outcome
}

/// What is counted over all rounds.
#[derive(Debug, Default)]
struct Figures {
    starts: u64,
    killed_starting: u64,
    acknowledged: u64,
    in_doubt: u64,
    rows_checked: u64,
    lost: u64,
    back: u64,
    wrong: u64,
}

impl Figures {
    fn show(&self, outcome: &mut Outcome, rounds: u32, seed: u64) {
        outcome.figure("rounds", rounds);
        outcome.figure("seed", seed);
        outcome.figure("starts", self.starts);
        outcome.figure("killed_while_starting", self.killed_starting);
        outcome.figure("acknowledged_writes", self.acknowledged);
        outcome.figure("writes_in_doubt", self.in_doubt);
        outcome.figure("rows_checked", self.rows_checked);
        outcome.figure("lost", self.lost);
        outcome.figure("back", self.back);
        outcome.figure("wrong", self.wrong);
    }
}

/// A data directory and what it must hold.
struct Place {
    scratch: Scratch,
    world: World,
}

struct Campaign<'a> {
    arguments: &'a Arguments,
    figures: Figures,
    outcome: Outcome,
    /// None: the next round starts afresh.
    place: Option<Place>,
}

impl Campaign<'_> {
    fn dice(&self, round: u32) -> Dice {
        Dice::new(self.arguments.seed).part(u64::from(round))
    }

    fn round(&mut self, round: u32) -> Result<(), String> {
        let mut dice = self.dice(round);
        if dice.one_in(12) {
            self.place = None;
        }
        let server = match self.place.take() {
            None => self.start_afresh(round)?,
            Some(place) => {
                self.place = Some(place);
                let server = self.start_and_check(round, &mut dice)?;
                if dice.one_in(3) {
                    // Nothing was written: another shard count must find the same.
                    end(server, dice.one_in(4))?;
                    self.start_and_check(round + 1, &mut dice)?
                } else {
                    server
                }
            }
        };
        self.load_and_end(server, &mut dice)
    }

    /// After the last round: what it left, found twice.
    fn last_check(&mut self, rounds: u32) -> Result<(), String> {
        if self.place.is_none() {
            return Ok(());
        }
        let mut dice = self.dice(rounds);
        let server = self.start_and_check(rounds, &mut dice)?;
        end(server, true)?;
        end(self.start_and_check(rounds + 1, &mut dice)?, true)
    }

    fn options(&self, round: u32) -> Result<ServerOptions, String> {
        let place = self.place.as_ref().ok_or("there is no data directory")?;
        Ok(options(&place.scratch, round))
    }

    fn start_afresh(&mut self, round: u32) -> Result<Server, String> {
        let scratch = Scratch::new("kill9").map_err(|error| format!("no directory to work in: {error}"))?;
        self.place = Some(Place { scratch, world: World::new() });
        let server = self.start(&self.options(round)?)?;
        let mut connection = Connection::open(server.ready().cql).map_err(|error| error.to_string())?;
        for statement in tables::schema() {
            connection.run(&statement).map_err(|error| format!("{statement}: {error}"))?;
        }
        Ok(server)
    }

    fn start(&mut self, options: &ServerOptions) -> Result<Server, String> {
        self.figures.starts += 1;
        Server::start(options).map_err(|error| error.to_string())
    }

    /// Starts it, perhaps after some starts that were killed midway, and checks everything.
    fn start_and_check(&mut self, round: u32, dice: &mut Dice) -> Result<Server, String> {
        let options = self.options(round)?;
        let killed = if dice.one_in(4) { 1 + dice.below(4) } else { 0 };
        for _ in 0..killed {
            self.figures.killed_starting += 1;
            let after = Duration::from_millis(dice.below(150));
            let ended = Server::start_and_kill(&options, after).map_err(|error| error.to_string())?;
            if let Some(status) = ended {
                return Err(format!("a start ended by itself: {status}; its log is {}", options.log.display()));
            }
        }
        let server = self.start(&options)?;
        let place = self.place.as_ref().ok_or("there is no data directory")?;
        let verdict = Connection::open(server.ready().cql)
            .and_then(|mut connection| check::check(&place.world, &mut connection, dice))
            .map_err(|error| format!("the check: {error}; the server's log ends:\n{}", server.log_tail()))?;
        self.figures.rows_checked += verdict.rows;
        self.figures.lost += verdict.lost;
        self.figures.back += verdict.back;
        self.figures.wrong += verdict.wrong;
        if verdict.failures.is_empty() { Ok(server) } else { Err(told(&verdict.failures)) }
    }

    fn load_and_end(&mut self, server: Server, dice: &mut Dice) -> Result<(), String> {
        let place = self.place.as_ref().ok_or("there is no data directory")?;
        let ready = server.ready().clone();
        let load = Load::new(&place.world, &ready);
        let crew = Crew { writers: self.arguments.writers, readers: self.arguments.readers };
        let time = Duration::from_millis(1 + dice.below(self.arguments.load_ms.max(1)));
        let cleanly = dice.one_in(6);
        let ended = load.run(crew, dice, time, || end(server, cleanly));
        self.figures.acknowledged += load.acknowledged.load(Ordering::Relaxed);
        self.figures.in_doubt += load.in_doubt.load(Ordering::Relaxed);
        self.figures.rows_checked += load.rows_checked.load(Ordering::Relaxed);
        let failures = load.failures();
        self.figures.wrong += failures.len() as u64;
        ended?;
        if failures.is_empty() { Ok(()) } else { Err(told(&failures)) }
    }

    /// The directory stays as it is; what comes next has a fresh one.
    fn failed(&mut self, round: u32, what: &str) {
        let mut kept = String::new();
        if let Some(mut place) = self.place.take() {
            place.scratch.keep();
            kept = format!("\n  directory: {}", place.scratch.path().display());
        }
        let (rounds, seed) = (round + 1, self.arguments.seed);
        let Arguments { writers, readers, load_ms, .. } = self.arguments;
        let replay = format!(
            "helenus-campaign kill9 --rounds {rounds} --seed {seed} --writers {writers} --readers {readers} \
             --load-ms {load_ms}"
        );
        self.outcome.fail(format!("round {round}: {what}{kept}"), replay);
    }
}

/// Mode and shard count of a round: every pair comes up within nine.
fn options(scratch: &Scratch, round: u32) -> ServerOptions {
    let mode = MODES[(round % 3) as usize];
    let shards = SHARDS[((round + round / 3) % 3) as usize];
    let set = [
        // Small, so that segments are recycled and memtables flushed within a second of load.
        "commitlog_segment_size=1MiB",
        "commitlog_total_space=8MiB",
        "memtable_offheap_space=8MiB",
        "commitlog_sync_period=50ms",
        "auto_snapshot=false",
        // A busy machine is slow, not wrong.
        "write_request_timeout=30s",
        "read_request_timeout=30s",
        "range_request_timeout=30s",
    ];
    let set = [format!("commitlog_sync={mode}")].into_iter().chain(set.map(str::to_owned)).collect();
    ServerOptions { shards: Some(shards), set, ..ServerOptions::below(scratch.path()) }
}

/// Ends the server: by SIGTERM, after which it must have exited with 0, or by kill -9.
fn end(mut server: Server, cleanly: bool) -> Result<(), String> {
    if !server.is_running() {
        return Err(format!("the server ended by itself; its log ends:\n{}", server.log_tail()));
    }
    if !cleanly {
        return server.kill9().map(|_| ()).map_err(|error| error.to_string());
    }
    let status = server.stop().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("after SIGTERM the server ended with {status}")) }
}

/// The first few of many.
fn told(failures: &[String]) -> String {
    const TOLD_MAX: usize = 8;
    let mut lines: Vec<String> = failures.iter().take(TOLD_MAX).cloned().collect();
    if failures.len() > TOLD_MAX {
        lines.push(format!("and {} more", failures.len() - TOLD_MAX));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn nine_rounds_see_every_mode_under_every_shard_count() {
        let scratch = Scratch::new("kill9-options").unwrap();
        let pairs: BTreeSet<(String, Option<u16>)> = (0..9)
            .map(|round| options(&scratch, round))
            .map(|options| (options.set[0].clone(), options.shards))
            .collect();
        assert_eq!(pairs.len(), 9);
        let counts: BTreeSet<Option<u16>> = (0..3).map(|round| options(&scratch, round).shards).collect();
        assert_eq!(counts.len(), 3, "the shard count changes from round to round");
    }

    #[test]
    fn a_failure_keeps_the_directory_and_names_the_command() {
        let arguments = Line::parse_from(["kill9", "--seed", "5", "--writers", "3"]).arguments;
        let place = Place { scratch: Scratch::new("kill9-kept").unwrap(), world: World::new() };
        let path = place.scratch.path().to_path_buf();
        let outcome = Outcome::new("kill9");
        let mut campaign = Campaign { arguments: &arguments, figures: Figures::default(), outcome, place: Some(place) };
        campaign.failed(6, "3 lost");
        assert!(path.is_dir());
        std::fs::remove_dir_all(&path).unwrap();
        let failure = campaign.outcome.summary()["failures"][0].clone();
        let words = failure["replay"].as_str().unwrap().split_whitespace().skip(1);
        let again = Line::parse_from(words).arguments;
        assert_eq!((again.rounds, again.seed, again.writers, again.readers), (7, 5, 3, 2));
        assert!(failure["what"].as_str().unwrap().contains(path.to_str().unwrap()));
    }

    #[test]
    fn many_failures_are_told_in_few_lines() {
        let failures: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        assert_eq!(told(&failures).lines().count(), 9);
        assert_eq!(told(&failures[..2]), "0\n1");
    }
}
