//! The lines of progress, in cassandra-stress's columns.

use std::time::Duration;

use crate::driver::Counted;
use crate::tally::{Counts, Tally};

/// The names of the columns. Those of the server's garbage collector stay, at 0: scripts count columns.
pub const METRICS: [&str; 19] = [
    "type",
    "total ops",
    "op/s",
    "pk/s",
    "row/s",
    "mean",
    "med",
    ".95",
    ".99",
    ".999",
    "max",
    "time",
    "stderr",
    "errors",
    "gc: #",
    "max ms",
    "sum ms",
    "sdv ms",
    "mb",
];

/// The columns' widths; the first has no comma in the header.
const WIDTHS: [usize; 19] = [50, 10, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7, 9, 7, 7, 8, 8, 8, 8];

/// The line above the others.
pub fn header() -> String {
    let mut line = format!("{:<width$}", METRICS[0], width = WIDTHS[0]);
    for (at, (name, width)) in METRICS.iter().zip(WIDTHS).enumerate().skip(1) {
        let comma = if at > 1 { "," } else { "" };
        line.push_str(&format!("{comma}{name:>width$}"));
    }
    line
}

/// The figures of a line, all but its name, in the order of [`METRICS`].
pub type Figures = [f64; 18];

/// Everything counted so far, and since the last lines.
pub struct Progress {
    names: Vec<String>,
    overall: Tally,
    interval: Tally,
    /// Up to when what is in it was counted, and from when on. Drivers hand over a little after the fact, so that is
    /// not when lines are made.
    interval_end: Duration,
    interval_start: Duration,
    rates: Spread,
    /// The totals of all intervals.
    points: Vec<Figures>,
}

/// A run that is over.
pub struct Outcome {
    pub tally: Tally,
    pub took: Duration,
    /// The totals of all intervals.
    pub points: Vec<Figures>,
    /// The standard error of the mean of the intervals' rates, as a share of it.
    pub error: f64,
}

impl Progress {
    /// Of operations of these kinds.
    pub fn new(names: Vec<String>) -> Progress {
        let (overall, interval) = (Tally::new(names.len()), Tally::new(names.len()));
        Progress {
            names,
            overall,
            interval,
            interval_end: Duration::ZERO,
            interval_start: Duration::ZERO,
            rates: Spread::default(),
            points: Vec::new(),
        }
    }

    pub fn add(&mut self, counted: &Counted) {
        self.interval_end = self.interval_end.max(counted.until);
        if let Some(tally) = &counted.tally {
            self.interval.add(tally);
        }
    }

    /// The lines of the interval that ends now: one for each kind of operation, and their total where there are two.
    pub fn lines(&mut self, now: Duration) -> Vec<String> {
        let seconds = self.interval_end.saturating_sub(self.interval_start).as_secs_f64().max(1e-9);
        self.interval_start = self.interval_end;
        let interval = self.interval.take();
        self.overall.add(&interval);
        let total = interval.total();
        self.rates.add(total.operations() as f64 / seconds);
        let error = self.rates.relative_error();
        let kinds: Vec<usize> = (0..self.names.len()).filter(|kind| !self.overall.of(*kind).is_empty()).collect();
        let mut lines: Vec<String> = kinds
            .iter()
            .filter(|_| kinds.len() > 1)
            .map(|kind| {
                let overall = self.overall.of(*kind).operations();
                line(&self.names[*kind], &figures(overall, interval.of(*kind), seconds, now, error))
            })
            .collect();
        let figures = figures(self.overall.total().operations(), &total, seconds, now, error);
        lines.push(line("total", &figures));
        self.points.push(figures);
        lines
    }

    /// Whether the rates of so many intervals at least are known so well, or those of so many at most.
    pub fn has_converged(&self, error: f64, min: u32, max: u32) -> bool {
        let count = self.points.len();
        count >= max as usize || (count >= min as usize && self.rates.relative_error() < error)
    }

    /// The lines of an interval that the end cut short, if anything was done in it. It is mostly waiting for the last
    /// answers, and no point of the whole ones' curve, unless there are none.
    pub fn last_lines(&mut self, now: Duration) -> Vec<String> {
        if self.interval.is_empty() {
            return Vec::new();
        }
        let whole = self.points.len();
        let lines = self.lines(now);
        self.points.truncate(whole.max(1));
        lines
    }

    /// What was counted from the start, after the last lines.
    pub fn finish(self, took: Duration) -> Outcome {
        Outcome { tally: self.overall, took, points: self.points, error: self.rates.relative_error() }
    }
}

/// The figures of `interval`, which took so long; `overall` operations were done from the start.
pub fn figures(overall: u64, interval: &Counts, seconds: f64, now: Duration, error: f64) -> Figures {
    [
        overall as f64,
        interval.operations() as f64 / seconds,
        interval.partitions as f64 / seconds,
        interval.rows as f64 / seconds,
        interval.mean_ms(),
        interval.latency_ms(0.5),
        interval.latency_ms(0.95),
        interval.latency_ms(0.99),
        interval.latency_ms(0.999),
        interval.max_ms(),
        now.as_secs_f64(),
        error,
        interval.errors as f64,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
    ]
}

/// A line of figures.
pub fn line(name: &str, figures: &Figures) -> String {
    let mut line = format!("{:<width$}", format!("{name},"), width = WIDTHS[0]);
    for (at, (figure, width)) in figures.iter().zip(&WIDTHS[1..]).enumerate() {
        let decimals = match METRICS[at + 1] {
            "mean" | "med" | ".95" | ".99" | ".999" | "max" | "time" => 1,
            "stderr" => 5,
            _ => 0,
        };
        let comma = if at > 0 { "," } else { "" };
        line.push_str(&format!("{comma}{figure:>width$.decimals$}"));
    }
    line
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

    fn progress() -> Progress {
        Progress::new(vec!["READ".into(), "WRITE".into()])
    }

    fn counted(reads: u64, writes: u64, until_ms: u64) -> Counted {
        let mut tally = Tally::new(2);
        (0..writes).for_each(|_| tally.succeeded(1, 2_000, 1, 10));
        (0..reads).for_each(|_| tally.succeeded(0, 4_000, 1, 1));
        Counted { tally: Some(tally), until: Duration::from_millis(until_ms) }
    }

    fn columns(line: &str) -> Vec<&str> {
        line.split(',').map(str::trim).collect()
    }

    #[test]
    fn the_header_is_cassandra_stress_s() {
        let start =
            format!("{:<50}{:>10},{:>8},{:>8},{:>8},{:>8},", "type", "total ops", "op/s", "pk/s", "row/s", "mean");
        assert!(header().starts_with(&start), "{}", header());
        assert!(header().ends_with(",   time,   stderr, errors,  gc: #,  max ms,  sum ms,  sdv ms,      mb"));
    }

    #[test]
    fn one_kind_has_one_line_under_the_header() {
        let mut progress = progress();
        progress.add(&counted(0, 500, 500));
        let lines = progress.lines(Duration::from_millis(500));
        assert_eq!((lines.len(), lines[0].len()), (1, header().len()));
        let got = columns(&lines[0]);
        assert_eq!(got.len(), METRICS.len());
        assert_eq!(got[..6], ["total", "500", "1000", "1000", "10000", "2.0"]);
        assert_eq!((got[11], got[13], got[18]), ("0.5", "0", "0"));
    }

    #[test]
    fn two_kinds_have_a_line_each_and_a_total_since_the_last() {
        let mut progress = progress();
        progress.add(&counted(900, 100, 1000));
        assert_eq!(progress.lines(Duration::from_secs(1)).len(), 3);
        progress.add(&counted(450, 50, 2000));
        let lines = progress.lines(Duration::from_secs(2));
        let got: Vec<_> = lines.iter().map(|line| columns(line)[..3].join(" ")).collect();
        assert_eq!(got, ["READ 1350 450", "WRITE 150 50", "total 1500 500"]);
        progress.add(&counted(0, 1, 2500));
        assert_eq!(progress.last_lines(Duration::from_millis(2500)).len(), 3);
        assert!(progress.last_lines(Duration::from_secs(3)).is_empty());
        let outcome = progress.finish(Duration::from_secs(3));
        assert_eq!((outcome.tally.total().operations(), outcome.points.len()), (1501, 2));
        assert_eq!(outcome.points[1][0], 1500.0);
    }

    #[test]
    fn rates_are_of_the_time_that_was_counted() {
        let mut progress = progress();
        progress.add(&counted(970, 0, 970));
        let lines = progress.lines(Duration::from_secs(1));
        assert_eq!(columns(&lines[0])[2], "1000", "1000 a second, 30 of them not handed over yet");
        // The end comes 10 ms later, with 40 ms of counts.
        progress.add(&counted(40, 0, 1010));
        let last = progress.last_lines(Duration::from_millis(1010));
        assert_eq!(columns(&last[0])[..3], ["total", "1010", "1000"]);
        assert_eq!(columns(&progress.lines(Duration::from_secs(2))[0])[2], "0");
    }

    #[test]
    fn even_rates_have_no_error() {
        let mut spread = Spread::default();
        (0..10).for_each(|_| spread.add(7.0));
        assert!(spread.relative_error().abs() < 1e-12);
        spread.add(70.0);
        assert!(spread.relative_error() > 0.1);
    }

    #[test]
    fn rates_converge_or_time_is_up() {
        let mut progress = progress();
        for second in 1..=4 {
            assert!(!progress.has_converged(0.02, 4, 9));
            progress.add(&counted(100, 0, 1000 * second));
            progress.lines(Duration::from_secs(second));
        }
        assert!(progress.has_converged(0.02, 4, 9) && progress.has_converged(0.0, 4, 4));
        assert!(!progress.has_converged(0.0, 4, 9));
    }
}
