//! What all drivers do together, from one start to one end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::arguments::{Arguments, Rate, Until};
use crate::choice::Choice;
use crate::driver::DriverError;
use crate::pace::Pace;
use crate::workload::{Operation, Workload};

/// Failures that are told one by one.
const FAILURES_TOLD: u64 = 10;

pub struct Phase<'a> {
    pub workload: &'a Workload,
    pub until: Until,
    /// Requests in flight, over all drivers.
    pub threads: usize,
    pub rate: Rate,
    pub retries: u32,
    pub start: Instant,
    ignore_errors: bool,
    tells_failures: bool,
    /// The place of the next operation's first partition.
    next: AtomicU64,
    /// The run ends early: something failed, or its rate is known.
    stop: AtomicBool,
    failures: AtomicU64,
    /// A driver could not go on.
    broken: AtomicBool,
}

/// What a driver got when it asked for the next operation.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Operation(Operation),
    NotYet,
    End,
}

impl<'a> Phase<'a> {
    pub fn new(arguments: &Arguments, workload: &'a Workload, until: Until, threads: usize, rate: Rate) -> Self {
        Phase {
            workload,
            until,
            threads,
            rate,
            retries: arguments.retries,
            start: Instant::now(),
            ignore_errors: arguments.ignore_errors,
            tells_failures: arguments.log.failures,
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// Nanoseconds since the start.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The next operation, if one is due.
    #[inline]
    pub fn next(&self, now_ns: u64, pace: &mut Pace, choice: &mut Choice) -> Next {
        let due_ns = pace.due_ns();
        if self.stop.load(Ordering::Relaxed)
            || matches!(self.until, Until::Duration(end) if Duration::from_nanos(now_ns) >= end)
        {
            return Next::End;
        }
        if due_ns > now_ns {
            return Next::NotYet;
        }
        let kind = choice.next();
        let mut partitions = self.workload.partitions(kind, choice.seed());
        let place = self.next.fetch_add(u64::from(partitions), Ordering::Relaxed);
        if let Until::Operations(count) = self.until {
            let left = count.saturating_sub(place);
            partitions = partitions.min(u32::try_from(left).unwrap_or(u32::MAX));
        }
        if partitions == 0 || !self.workload.has(place) {
            return Next::End;
        }
        pace.advance(partitions);
        let since_ns = if matches!(self.rate, Rate::Fixed(_)) { due_ns } else { now_ns };
        let kind = u32::try_from(kind).expect("a few kinds");
        Next::Operation(Operation { kind, partitions, place, since_ns, attempts: 0, rows: 0 })
    }

    /// Tells a failure, and ends the run unless failures are to be ignored.
    pub fn failed(&self, operation: &Operation, why: &str) {
        let count = self.failures.fetch_add(1, Ordering::Relaxed);
        if self.tells_failures && count < FAILURES_TOLD {
            eprintln!("{} failed: {why}", self.workload.describe(operation));
        }
        if !self.ignore_errors {
            self.stop();
        }
    }

    /// Tells why a driver cannot go on, which ends the run.
    pub fn broke(&self, error: &DriverError) {
        eprintln!("helenus-stress: {error}");
        self.broken.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Whether a failure ended it.
    pub fn has_failed(&self) -> bool {
        let failed = !self.ignore_errors && self.failures.load(Ordering::Relaxed) > 0;
        failed || self.broken.load(Ordering::Relaxed)
    }

    /// No operation comes any more.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
