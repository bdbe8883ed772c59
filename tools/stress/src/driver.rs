//! A driver: one thread that keeps many requests in flight on its connections.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use helenus::protocol::client::{Parameters, Response, ResultBody};
use helenus::protocol::{Consistency, Value};

use crate::arguments::{Arguments, Command, Rate, Until};
use crate::connection::{Connection, ConnectionError, Statement};
use crate::pace::Pace;
use crate::poll::Poll;
use crate::population::random;
use crate::row::{Row, key_of};
use crate::tally::{Kind, Tally};

/// How often a driver hands over what it counted.
const HAND_OVER_EVERY: Duration = Duration::from_millis(100);
/// How long a request may stay unanswered before the run is given up.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Failures that are told one by one.
const FAILURES_TOLD: u64 = 10;

#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("waiting for answers: {0}")]
    Wait(#[from] std::io::Error),
    #[error("{in_flight} requests have had no answer for {} s", ANSWER_WITHIN.as_secs())]
    Silent { in_flight: usize },
    #[error("an answer came on stream {stream}, on which nothing was asked")]
    Stream { stream: i16 },
}

/// What all drivers do together, from one start to one end.
pub struct Phase<'a> {
    pub arguments: &'a Arguments,
    pub until: Until,
    pub start: Instant,
    /// The number of the next operation.
    next: AtomicU64,
    /// The run ends early: something failed.
    stop: AtomicBool,
    failures: AtomicU64,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation {
    kind: Kind,
    row: u64,
    /// When its latency starts, counted from the phase's start.
    since: Duration,
    attempts: u32,
}

/// What a driver got when it asked for the next operation.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Operation(Operation),
    NotYet,
    End,
}

impl<'a> Phase<'a> {
    pub fn new(arguments: &'a Arguments, until: Until) -> Self {
        let (next, stop, failures) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
        Phase { arguments, until, start: Instant::now(), next, stop, failures }
    }

    fn next(&self, now: Duration, pace: &mut Pace) -> Next {
        let due = pace.due();
        if self.stop.load(Ordering::Relaxed) || matches!(self.until, Until::Duration(end) if now >= end) {
            return Next::End;
        }
        if due > now {
            return Next::NotYet;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if matches!(self.until, Until::Operations(count) if number >= count) {
            return Next::End;
        }
        pace.advance();
        let since = if matches!(self.arguments.rate, Rate::Fixed(_)) { due } else { now };
        let (kind, row) = (kind_of(self.arguments.command, number), self.arguments.population.row_of(number));
        Next::Operation(Operation { kind, row, since, attempts: 0 })
    }

    /// Tells a failure, and ends the run unless failures are to be ignored.
    fn failed(&self, operation: &Operation, why: &str) {
        let count = self.failures.fetch_add(1, Ordering::Relaxed);
        if count < FAILURES_TOLD {
            eprintln!("{} of row {} failed: {why}", operation.kind.name(), operation.row);
        }
        if !self.arguments.ignore_errors {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether an operation writes or reads.
fn kind_of(command: Command, number: u64) -> Kind {
    match command {
        Command::Write => Kind::Write,
        Command::Read => Kind::Read,
        Command::Mixed { write, read } if random(number, u64::MAX) % (write + read) < write => Kind::Write,
        Command::Mixed { .. } => Kind::Read,
    }
}

/// A connection with what is in flight on it.
struct Lane {
    connection: Connection,
    write: Statement,
    read: Statement,
    /// By stream.
    in_flight: Vec<Option<Operation>>,
    free: Vec<i16>,
}

/// One thread's part of the load.
pub struct Driver {
    lanes: Vec<Lane>,
    poll: Poll,
    /// Where the next operation goes, if it has room.
    next_lane: usize,
    place: usize,
    places: usize,
}

impl Driver {
    /// The driver at `place` of `places`, without connections.
    pub fn new(place: usize, places: usize) -> Self {
        Driver { lanes: Vec::new(), poll: Poll::default(), next_lane: 0, place, places }
    }

    /// Takes a started connection, to keep up to `window` requests in flight on it.
    pub fn add(&mut self, mut connection: Connection, window: i16) -> Result<(), ConnectionError> {
        let write = connection.prepare(&crate::schema::write_statement())?;
        let read = connection.prepare(&crate::schema::read_statement())?;
        connection.set_nonblocking()?;
        self.poll.add(connection.socket());
        let (in_flight, free) = ((0..window).map(|_| None).collect(), (0..window).rev().collect());
        self.lanes.push(Lane { connection, write, read, in_flight, free });
        Ok(())
    }

    /// Does this driver's part of a phase, and hands over what it counts.
    pub fn run(&mut self, phase: &Phase<'_>, counted: &Sender<Tally>) -> Result<(), DriverError> {
        let rate = match phase.arguments.rate {
            Rate::Unlimited => None,
            Rate::Throttle(rate) | Rate::Fixed(rate) => Some(rate),
        };
        let mut pace = Pace::new(rate, self.place, self.places);
        let mut tally = Tally::default();
        let (mut hand_over_at, mut answered_at) = (HAND_OVER_EVERY, Duration::ZERO);
        loop {
            let now = phase.start.elapsed();
            let more = self.fill(phase, now, &mut pace);
            for (at, lane) in self.lanes.iter_mut().enumerate() {
                let all_sent = lane.connection.send()?;
                self.poll.wants_to_send(at, !all_sent);
            }
            let in_flight = self.in_flight();
            if in_flight == 0 && !more {
                break;
            }
            if in_flight == 0 {
                answered_at = now;
            } else if now.saturating_sub(answered_at) > ANSWER_WITHIN {
                return Err(DriverError::Silent { in_flight });
            }
            let wake_at = if more && pace.is_paced() && self.has_room() { pace.due() } else { hand_over_at };
            self.poll.wait(wake_at.min(hand_over_at).saturating_sub(phase.start.elapsed()))?;
            if self.receive(phase, &mut tally)? {
                answered_at = phase.start.elapsed();
            }
            let now = phase.start.elapsed();
            if now >= hand_over_at {
                hand_over_at = now + HAND_OVER_EVERY;
                hand_over(&mut tally, counted);
            }
        }
        hand_over(&mut tally, counted);
        Ok(())
    }

    /// Sends out operations while they are due and there is room for them. Whether more may follow.
    fn fill(&mut self, phase: &Phase<'_>, now: Duration, pace: &mut Pace) -> bool {
        let mut full = 0;
        while full < self.lanes.len() {
            let at = self.next_lane;
            self.next_lane = (at + 1) % self.lanes.len();
            let lane = &mut self.lanes[at];
            let Some(stream) = lane.free.pop() else {
                full += 1;
                continue;
            };
            full = 0;
            match phase.next(now, pace) {
                Next::Operation(operation) => lane.ask(stream, operation, phase.arguments.consistency),
                other => {
                    lane.free.push(stream);
                    return other == Next::NotYet;
                }
            }
        }
        true
    }

    fn in_flight(&self) -> usize {
        self.lanes.iter().map(|lane| lane.in_flight.len() - lane.free.len()).sum()
    }

    fn has_room(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.free.is_empty())
    }

    /// Takes the answers that have come. Whether there were any.
    fn receive(&mut self, phase: &Phase<'_>, tally: &mut Tally) -> Result<bool, DriverError> {
        let mut any = false;
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if self.poll.is_ready(at) {
                any |= lane.receive(phase, tally)?;
            }
        }
        Ok(any)
    }
}

/// Sends away what was counted and starts anew.
fn hand_over(tally: &mut Tally, counted: &Sender<Tally>) {
    if !tally.is_empty() {
        // Nobody listens any more where the run has failed elsewhere.
        let _sent = counted.send(std::mem::take(tally));
    }
}

impl Lane {
    fn ask(&mut self, stream: i16, operation: Operation, consistency: Consistency) {
        let parameters = |values| Parameters { consistency, values, skip_metadata: true, ..Parameters::default() };
        match operation.kind {
            Kind::Write => {
                let row = Row::of(operation.row);
                let [c0, c1, c2, c3, c4] = row.columns.each_ref().map(|column| Value::Bytes(column));
                let values = [c0, c1, c2, c3, c4, Value::Bytes(&row.key)];
                self.connection.execute(stream, &self.write, &parameters(&values));
            }
            Kind::Read => {
                let key = key_of(operation.row);
                self.connection.execute(stream, &self.read, &parameters(&[Value::Bytes(&key)]));
            }
        }
        self.in_flight[usize::from(stream.unsigned_abs())] = Some(operation);
    }

    /// Takes the answers of one receive. Whether there were any.
    fn receive(&mut self, phase: &Phase<'_>, tally: &mut Tally) -> Result<bool, DriverError> {
        let Lane { connection, in_flight, free, .. } = self;
        let (mut again, mut stray, mut any, mut now) = (Vec::new(), None, false, None);
        connection.receive(|stream, answer| {
            let slot = usize::try_from(stream).ok().and_then(|stream| in_flight.get_mut(stream));
            let Some(operation) = slot.and_then(Option::take) else {
                stray = Some(stream);
                return;
            };
            any = true;
            match check(&operation, answer, phase.arguments.verify) {
                Outcome::Good => {
                    // One time for all answers of a receive: they came together.
                    let now = *now.get_or_insert_with(|| phase.start.elapsed());
                    let latency = now.saturating_sub(operation.since);
                    tally.succeeded(operation.kind, u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
                    free.push(stream);
                }
                Outcome::Refused(_) if operation.attempts < phase.arguments.retries => {
                    again.push((stream, Operation { attempts: operation.attempts + 1, ..operation }));
                }
                Outcome::Refused(why) | Outcome::Wrong(why) => {
                    tally.failed(operation.kind);
                    phase.failed(&operation, &why);
                    free.push(stream);
                }
            }
        })?;
        if let Some(stream) = stray {
            return Err(DriverError::Stream { stream });
        }
        for (stream, operation) in again {
            self.ask(stream, operation, phase.arguments.consistency);
        }
        Ok(any)
    }
}

/// What became of one attempt.
enum Outcome {
    Good,
    /// It may be tried again.
    Refused(String),
    /// The answer is not what was written: trying again would hide it.
    Wrong(String),
}

fn check(operation: &Operation, answer: Response<'_>, verify: bool) -> Outcome {
    match (operation.kind, answer) {
        (_, Response::Error(error)) => {
            Outcome::Refused(format!("{} (0x{:04x})", error.message(), error.code().number()))
        }
        (Kind::Write, Response::Result(ResultBody::Void)) => Outcome::Good,
        (Kind::Read, Response::Result(ResultBody::Rows(rows))) => {
            if rows.row_count != 1 {
                return Outcome::Wrong(format!("{} rows instead of one", rows.row_count));
            }
            if !verify {
                return Outcome::Good;
            }
            let (row, cells) = (Row::of(operation.row), rows.iter().next().unwrap_or_default());
            let same = cells.len() == row.columns.len()
                && cells.iter().zip(&row.columns).all(|(cell, column)| *cell == Some(column.as_slice()));
            if same { Outcome::Good } else { Outcome::Wrong(format!("other bytes than were written: {cells:02x?}")) }
        }
        (_, other) => Outcome::Wrong(format!("an answer of another kind: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_gives_so_many_operations() {
        let arguments = Arguments::of("write n=3 -rate threads=1 -pop seq=10..11");
        let phase = Phase::new(&arguments, arguments.until);
        let mut pace = Pace::new(None, 0, 1);
        let now = Duration::from_secs(5);
        let rows: Vec<u64> = std::iter::from_fn(|| match phase.next(now, &mut pace) {
            Next::Operation(Operation { row, since, kind: Kind::Write, .. }) if since == now => Some(row),
            _ => None,
        })
        .collect();
        assert_eq!(rows, [10, 11, 10]);
        assert_eq!(phase.next(now, &mut pace), Next::End);
    }

    #[test]
    fn a_fixed_rate_counts_from_when_an_operation_was_due() {
        for (rate, since_us) in [("fixed=1000/s", 1_000), ("throttle=1000/s", 9_000)] {
            let arguments = Arguments::of(&format!("read duration=10s -rate threads=1 {rate}"));
            let phase = Phase::new(&arguments, arguments.until);
            let mut pace = Pace::new(Some(1000.0), 0, 1);
            assert!(matches!(phase.next(Duration::ZERO, &mut pace), Next::Operation(_)));
            assert_eq!(phase.next(Duration::from_micros(999), &mut pace), Next::NotYet);
            let Next::Operation(late) = phase.next(Duration::from_micros(9_000), &mut pace) else { panic!("due") };
            assert_eq!(late.since, Duration::from_micros(since_us), "{rate}");
            assert_eq!(phase.next(Duration::from_secs(10), &mut pace), Next::End);
        }
    }

    #[test]
    fn a_failure_ends_the_run_unless_ignored() {
        for (errors, ends) in [("", true), ("-errors ignore", false)] {
            let arguments = Arguments::of(&format!("read n=9 -rate threads=1 {errors}"));
            let phase = Phase::new(&arguments, arguments.until);
            let mut pace = Pace::new(None, 0, 1);
            let Next::Operation(operation) = phase.next(Duration::ZERO, &mut pace) else { panic!("due") };
            phase.failed(&operation, "of the test");
            assert_eq!(phase.next(Duration::ZERO, &mut pace) == Next::End, ends);
        }
    }

    #[test]
    fn a_mixed_run_keeps_its_ratio() {
        let mixed = Command::Mixed { write: 1, read: 9 };
        let writes = (0..100_000).filter(|number| kind_of(mixed, *number) == Kind::Write).count();
        assert!((9_500..10_500).contains(&writes), "{writes}");
        assert_eq!(kind_of(Command::Mixed { write: 0, read: 1 }, 7), Kind::Read);
    }

    #[test]
    fn an_answer_is_good_refused_or_wrong() {
        let read = Operation { kind: Kind::Read, row: 1, since: Duration::ZERO, attempts: 0 };
        let write = Operation { kind: Kind::Write, ..read };
        let void = || Response::Result(ResultBody::Void);
        assert!(matches!(check(&write, void(), false), Outcome::Good));
        assert!(matches!(check(&read, void(), false), Outcome::Wrong(why) if why.contains("another kind")));
        let error = helenus::protocol::CqlError::overloaded("busy");
        let refused = check(&write, Response::Error(error), false);
        assert!(matches!(refused, Outcome::Refused(why) if why == "busy (0x1001)"));
    }
}
