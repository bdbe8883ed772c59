//! The lines of progress, in cassandra-stress's columns.

use std::time::Duration;

use crate::tally::{Counts, Kind, Tally};

/// The names of the columns. Those of the server's garbage collector stay, at 0: scripts count columns.
pub const HEADER: &str = "type                                               total ops,    op/s,    pk/s,   row/s,    \
                          mean,     med,     .95,     .99,    .999,     max,   time,   stderr, errors,  gc: #,  \
                          max ms,  sum ms,  sdv ms,      mb";

/// Everything counted so far, and since the last lines.
#[derive(Default)]
pub struct Progress {
    overall: Tally,
    interval: Tally,
    interval_start: Duration,
    rates: Spread,
}

impl Progress {
    pub fn add(&mut self, tally: &Tally) {
        self.interval.add(tally);
    }

    /// The lines of the interval that ends now: one for each kind of operation, and their total where there are two.
    pub fn lines(&mut self, now: Duration) -> Vec<String> {
        let seconds = now.saturating_sub(self.interval_start).as_secs_f64();
        self.interval_start = now;
        let interval = std::mem::take(&mut self.interval);
        self.overall.add(&interval);
        let total = interval.total();
        self.rates.add(total.operations() as f64 / seconds);
        let error = self.rates.relative_error();
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| self.overall.of(*kind).operations() > 0).collect();
        let mut lines: Vec<String> = kinds
            .iter()
            .filter(|_| kinds.len() > 1)
            .map(|kind| line(kind.name(), self.overall.of(*kind), interval.of(*kind), seconds, now, error))
            .collect();
        lines.push(line("total", &self.overall.total(), &total, seconds, now, error));
        lines
    }

    /// What was counted from the start, with what came after the last lines.
    pub fn finish(mut self) -> Tally {
        self.overall.add(&self.interval);
        self.overall
    }
}

fn line(name: &str, overall: &Counts, interval: &Counts, seconds: f64, now: Duration, error: f64) -> String {
    let rate = interval.operations() as f64 / seconds;
    let latencies = [interval.mean_ms(), interval.latency_ms(0.5), interval.latency_ms(0.95)];
    let tail = [interval.latency_ms(0.99), interval.latency_ms(0.999), interval.max_ms()];
    let latencies: String = latencies.iter().chain(&tail).map(|latency| format!("{latency:>8.1},")).collect();
    format!(
        "{:<50} {:>9},{rate:>8.0},{rate:>8.0},{rate:>8.0},{latencies}{:>7.1},{error:>9.5},{:>7},{:>7},{:>8},{:>8},{:>8},{:>8}",
        format!("{name},"),
        overall.operations(),
        now.as_secs_f64(),
        overall.errors,
        0,
        0,
        0,
        0,
        0
    )
}

/// How far the rates of intervals are apart: Welford's running mean and variance.
#[derive(Default)]
struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    /// The standard error of the mean, as a share of it.
    fn relative_error(&self) -> f64 {
        if self.count < 2.0 || self.mean <= 0.0 {
            return 0.0;
        }
        (self.squares / (self.count - 1.0) / self.count).sqrt() / self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(writes: u64, reads: u64) -> Tally {
        let mut tally = Tally::default();
        (0..writes).for_each(|_| tally.succeeded(Kind::Write, 2_000));
        (0..reads).for_each(|_| tally.succeeded(Kind::Read, 4_000));
        tally
    }

    fn columns(line: &str) -> Vec<&str> {
        line.split(',').map(str::trim).collect()
    }

    #[test]
    fn one_kind_has_one_line_under_the_header() {
        let mut progress = Progress::default();
        progress.add(&tally(500, 0));
        let lines = progress.lines(Duration::from_millis(500));
        assert_eq!(lines.len(), 1);
        let got = columns(&lines[0]);
        assert_eq!(got.len(), columns(HEADER).len() + 1, "the type and the operations share the header's first");
        assert_eq!(got[..6], ["total", "500", "1000", "1000", "1000", "2.0"]);
        assert_eq!((got[11], got[13]), ("0.5", "0"));
    }

    #[test]
    fn two_kinds_have_a_line_each_and_a_total_since_the_last() {
        let mut progress = Progress::default();
        progress.add(&tally(100, 900));
        assert_eq!(progress.lines(Duration::from_secs(1)).len(), 3);
        progress.add(&tally(50, 450));
        let lines = progress.lines(Duration::from_secs(2));
        let got: Vec<_> = lines.iter().map(|line| columns(line)[..3].join(" ")).collect();
        assert_eq!(got, ["WRITE 150 50", "READ 1350 450", "total 1500 500"]);
        progress.add(&tally(1, 0));
        assert_eq!(progress.finish().total().operations(), 1501);
    }

    #[test]
    fn even_rates_have_no_error() {
        let mut spread = Spread::default();
        (0..10).for_each(|_| spread.add(7.0));
        assert!(spread.relative_error().abs() < 1e-12);
        spread.add(70.0);
        assert!(spread.relative_error() > 0.1);
    }
}
