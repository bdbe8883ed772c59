//! A run: tables, connections, warm-up, load, summary, graph.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::arguments::{Arguments, Command, Rate, Threads, Truncate, Until};
use crate::choice::Choice;
use crate::connect::{self, ConnectError, Fleet};
use crate::connection::{Connection, ConnectionError};
use crate::driver::{Driver, Place};
use crate::graph::{self, GraphError};
use crate::output::{LogError, Output};
use crate::phase::Phase;
use crate::progress::{Outcome, Progress, header};
use crate::summary;
use crate::workload::{Workload, WorkloadError};

/// cassandra-stress warms up with a quarter of the operations, at most so many for each node, with so many threads.
const WARMUP_OPERATIONS_MAX: u64 = 50_000;
const WARMUP_THREADS_MAX: usize = 100;
/// Between two runs that write: what the server does afterwards is not to slow the next.
const REST: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error("the warm-up failed")]
    Warmup,
}

/// What a run keeps at hand.
struct Stage<'a> {
    arguments: &'a Arguments,
    workload: Workload,
    drivers: Vec<Driver>,
    output: Output,
}

/// Runs it all. Whether it went as it should.
pub fn run(arguments: &Arguments) -> Result<bool, RunError> {
    if let Some(graph) = &arguments.graph {
        graph::check(&graph.file)?;
    }
    let mut output = Output::open(arguments.log.file.as_deref())?;
    if arguments.log.settings {
        output.line(&format!("Command line: {}", arguments.line))?;
    }
    let mut first = connect::first(arguments)?;
    let workload = Workload::new(arguments, &mut first)?;
    if arguments.until == Until::Operations(0) {
        output.line("N=0: SCHEMA CREATED, NOTHING ELSE DONE.")?;
        return Ok(true);
    }
    let Fleet { drivers, description } = connect::all(arguments, &workload, &first)?;
    output.line(&description)?;
    let mut stage = Stage { arguments, workload, drivers, output };
    let success = stage.all(&mut first)?;
    stage.output.line(if success { "END" } else { "FAILURE" })?;
    Ok(success)
}

impl Stage<'_> {
    fn all(&mut self, first: &mut Connection) -> Result<bool, RunError> {
        let arguments = self.arguments;
        if arguments.warmup {
            self.warm_up()?;
        }
        let once = matches!(arguments.threads, Threads::Exactly(_)) && arguments.truncate == Truncate::Always;
        if arguments.truncate == Truncate::Once || once {
            self.truncate(first)?;
        }
        match arguments.threads {
            Threads::Exactly(threads) => {
                let (outcome, success) = self.one(threads)?;
                self.draw(vec![(threads, &outcome)], success)?;
                Ok(success)
            }
            Threads::Growing { from, to, auto } => self.growing(first, from, to, auto),
        }
    }

    fn truncate(&mut self, first: &mut Connection) -> Result<(), RunError> {
        for statement in &self.workload.truncate {
            first.query(statement)?;
            self.output.line(&format!("Emptied: {statement}"))?;
        }
        Ok(())
    }

    /// Every kind of operation by itself, for a quarter of the operations at most.
    fn warm_up(&mut self) -> Result<(), RunError> {
        let operations = warmup_operations(self.arguments);
        let threads = most_threads(self.arguments.threads).min(WARMUP_THREADS_MAX);
        for kind in 0..self.workload.kinds.len() {
            if operations == 0 {
                return Ok(());
            }
            let name = &self.workload.kinds[kind].name;
            self.output.line(&format!("Warming up {name} with {operations} iterations..."))?;
            let only = (0..self.workload.kinds.len()).map(|at| if at == kind { 1.0 } else { 0.0 }).collect();
            let until = Until::Operations(operations);
            let (_, success) = self.drive(until, threads, Rate::Unlimited, only, false)?;
            if !success {
                return Err(RunError::Warmup);
            }
        }
        Ok(())
    }

    /// One run, with its lines. Whether nothing failed.
    fn one(&mut self, threads: usize) -> Result<(Outcome, bool), RunError> {
        let arguments = self.arguments;
        let names = self.workload.names();
        let what = match &arguments.command {
            Command::Basic(basic) => basic.name().to_owned(),
            _ => format!("[{}]", names.join(", ")),
        };
        self.output.line(&format!("Running {what} with {threads} threads {}", until(arguments.until)))?;
        self.output.line(&header())?;
        let weights = self.workload.kinds.iter().map(|kind| kind.weight).collect();
        let (outcome, success) = self.drive(arguments.until, threads, arguments.rate, weights, true)?;
        if arguments.log.summary {
            for line in summary::lines(&names, &outcome.tally, outcome.took) {
                self.output.line(&line)?;
            }
        }
        Ok((outcome, success))
    }

    /// Runs with more threads each, up to a number, or until that gains nothing.
    fn growing(&mut self, first: &mut Connection, from: usize, to: usize, auto: bool) -> Result<bool, RunError> {
        self.output.line("Thread count was not specified")?;
        let target = match self.arguments.until {
            Until::Converged { error, .. } => error,
            _ => -1.0,
        };
        let mut runs: Vec<(usize, Outcome)> = Vec::new();
        let mut threads = from;
        let success = loop {
            self.output.line("")?;
            self.output.line(&format!("Running with {threads} threadCount"))?;
            if self.arguments.truncate == Truncate::Always {
                self.truncate(first)?;
            }
            let (outcome, good) = self.one(threads)?;
            let before = runs.last().map(|(threads, _)| *threads);
            runs.push((threads, outcome));
            if !good {
                break false;
            }
            let rates: Vec<f64> = runs.iter().map(|(_, run)| rate_of(run)).collect();
            if let Some(before) = before {
                let gain = 100.0 * improvement(&rates, 1);
                self.output.line(&format!("Improvement over {before} threadCount: {gain:.0}%"))?;
            }
            threads = if threads < 16 { threads * 2 } else { threads + threads / 2 };
            if threads > to || (auto && !(improves(&rates, 3, 0.0) && improves(&rates, 5, target))) {
                break true;
            }
            if self.arguments.writes() {
                self.output.line(&format!("Sleeping for {}s", REST.as_secs()))?;
                std::thread::sleep(REST);
            }
        };
        for line in summary::table(&self.workload.names(), &runs) {
            self.output.line(&line)?;
        }
        self.draw(runs.iter().map(|(threads, run)| (*threads, run)).collect(), success)?;
        Ok(success)
    }

    fn draw(&self, runs: Vec<(usize, &Outcome)>, success: bool) -> Result<(), RunError> {
        match &self.arguments.graph {
            Some(graph) if success => Ok(graph::add(graph, self.arguments, &self.workload.names(), &runs)?),
            _ => Ok(()),
        }
    }

    /// Runs the drivers to the end of a phase, with lines of progress where wanted. Whether nothing failed.
    fn drive(
        &mut self,
        until: Until,
        threads: usize,
        rate: Rate,
        weights: Vec<f64>,
        shows: bool,
    ) -> Result<(Outcome, bool), RunError> {
        let Stage { arguments, workload, drivers, output } = self;
        let places = drivers.len().min(threads);
        let phase = Phase::new(arguments, workload, until, threads, rate);
        let (counted, tallies) = mpsc::channel();
        let mut progress = Progress::new(workload.names());
        let took = std::thread::scope(|scope| {
            let running: Vec<_> = drivers
                .iter_mut()
                .take(places)
                .enumerate()
                .map(|(at, driver)| {
                    let (phase, counted) = (&phase, counted.clone());
                    let mut choice = Choice::new(&weights, arguments.clustering.clone(), at as u64);
                    scope.spawn(move || {
                        if let Err(error) = driver.run(phase, Place { at, of: places }, &mut choice, &counted) {
                            phase.broke(&error);
                        }
                    })
                })
                .collect();
            drop(counted);
            let mut line_at = phase.start + arguments.log.interval;
            let outcome = loop {
                match tallies.recv_timeout(line_at.saturating_duration_since(Instant::now())) {
                    Ok(counted) => progress.add(&counted),
                    Err(RecvTimeoutError::Timeout) => {
                        line_at += arguments.log.interval;
                        let lines = progress.lines(phase.start.elapsed());
                        if shows && let Err(error) = lines.iter().try_for_each(|line| output.line(line)) {
                            break Err(RunError::from(error));
                        }
                        if let Until::Converged { error, min, max } = until
                            && progress.has_converged(error, min, max)
                        {
                            phase.stop();
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => break Ok(phase.start.elapsed()),
                }
            };
            phase.stop();
            for driver in running {
                driver.join().expect("a driver panics only where it is wrong itself");
            }
            outcome
        })?;
        let last = progress.last_lines(took);
        if shows {
            last.iter().try_for_each(|line| output.line(line))?;
        }
        Ok((progress.finish(took), !phase.has_failed()))
    }
}

fn until(until: Until) -> String {
    match until {
        Until::Operations(count) => format!("for {count} iteration"),
        Until::Duration(duration) => format!("{} seconds", duration.as_secs()),
        Until::Converged { error, .. } => format!("until stderr of mean < {error}"),
    }
}

fn warmup_operations(arguments: &Arguments) -> u64 {
    let operations = match arguments.until {
        Until::Operations(count) => (count / 4).min(WARMUP_OPERATIONS_MAX),
        _ => WARMUP_OPERATIONS_MAX,
    };
    operations * arguments.nodes.len() as u64
}

/// The most requests that are ever in flight.
pub fn most_threads(threads: Threads) -> usize {
    match threads {
        Threads::Exactly(threads) => threads,
        Threads::Growing { to, .. } => to,
    }
}

fn rate_of(run: &Outcome) -> f64 {
    run.tally.total().operations() as f64 / run.took.as_secs_f64().max(1e-9)
}

/// By how much, on average, each of the last `count` rates is above the one before it.
fn improvement(rates: &[f64], count: usize) -> f64 {
    let gains = rates.windows(2).rev().take(count).map(|pair| (pair[1] - pair[0]) / pair[0]);
    gains.sum::<f64>() / count as f64
}

fn improves(rates: &[f64], count: usize, least: f64) -> bool {
    rates.len() < count + 1 || improvement(rates, count) >= least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_is_a_quarter_up_to_a_limit() {
        let operations = |line: &str| warmup_operations(&Arguments::of(line));
        assert_eq!(operations("write n=1000 -rate threads=1"), 250);
        assert_eq!(operations("write n=10M -rate threads=1"), 50_000);
        assert_eq!(operations("write n=3 -rate threads=1"), 0);
        assert_eq!(operations("mixed duration=1m -rate threads=1 -node a,b"), 100_000);
    }

    #[test]
    fn what_gains_nothing_ends_growth() {
        assert!((improvement(&[100.0, 110.0, 121.0], 2) - 0.1).abs() < 1e-9);
        assert!(improves(&[100.0, 50.0], 3, 0.0), "too few to tell");
        assert!(!improves(&[100.0, 100.0, 90.0, 80.0], 3, 0.0));
        assert!(improves(&[100.0, 120.0, 130.0, 140.0], 3, 0.0));
    }

    #[test]
    fn ends_are_told() {
        assert_eq!(until(Until::Operations(5)), "for 5 iteration");
        assert_eq!(until(Until::Duration(Duration::from_secs(600))), "600 seconds");
        assert_eq!(most_threads(Threads::Growing { from: 4, to: 9, auto: true }), 9);
    }
}
