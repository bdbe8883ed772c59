//! What was answered: counts and latencies, by kind of operation.

use hdrhistogram::Histogram;

/// The longest latency told apart; what takes longer counts as this.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write,
    Read,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Write, Kind::Read];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Write => "WRITE",
            Kind::Read => "READ",
        }
    }
}

/// The operations of one kind, over some time.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Of those that succeeded.
    pub latencies_us: Histogram<u64>,
    pub errors: u64,
}

impl Default for Counts {
    fn default() -> Self {
        let latencies_us = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("bounds that make sense");
        Counts { latencies_us, errors: 0 }
    }
}

impl Counts {
    pub fn operations(&self) -> u64 {
        self.latencies_us.len()
    }

    pub fn add(&mut self, other: &Counts) {
        self.latencies_us.add(&other.latencies_us).expect("all have the same bounds");
        self.errors += other.errors;
    }

    /// The latency, in milliseconds, that so much of all operations stay below; 0 where there are none.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        self.latencies_us.value_at_quantile(quantile) as f64 / 1e3
    }

    pub fn mean_ms(&self) -> f64 {
        self.latencies_us.mean() / 1e3
    }

    pub fn max_ms(&self) -> f64 {
        self.latencies_us.max() as f64 / 1e3
    }
}

/// All operations, over some time.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub writes: Counts,
    pub reads: Counts,
}

impl Tally {
    pub fn of(&self, kind: Kind) -> &Counts {
        match kind {
            Kind::Write => &self.writes,
            Kind::Read => &self.reads,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut Counts {
        match kind {
            Kind::Write => &mut self.writes,
            Kind::Read => &mut self.reads,
        }
    }

    pub fn succeeded(&mut self, kind: Kind, latency_us: u64) {
        self.of_mut(kind).latencies_us.saturating_record(latency_us.max(1));
    }

    pub fn failed(&mut self, kind: Kind) {
        self.of_mut(kind).errors += 1;
    }

    pub fn add(&mut self, other: &Tally) {
        self.writes.add(&other.writes);
        self.reads.add(&other.reads);
    }

    /// Both kinds as one.
    pub fn total(&self) -> Counts {
        let mut total = self.writes.clone();
        total.add(&self.reads);
        total
    }

    /// Whether nothing was answered.
    pub fn is_empty(&self) -> bool {
        Kind::ALL.iter().all(|kind| self.of(*kind).operations() == 0 && self.of(*kind).errors == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_told_in_milliseconds() {
        let mut tally = Tally::default();
        (1..=1000).for_each(|at| tally.succeeded(Kind::Read, at * 1000));
        let reads = tally.of(Kind::Read);
        assert!((reads.mean_ms() - 500.5).abs() < 1.0, "{}", reads.mean_ms());
        assert!((reads.latency_ms(0.99) - 990.0).abs() < 1.0 && (reads.max_ms() - 1000.0).abs() < 1.0);
    }

    #[test]
    fn tallies_add_up_kind_by_kind() {
        let (mut one, mut two) = (Tally::default(), Tally::default());
        assert!(one.is_empty());
        one.succeeded(Kind::Write, 1_000);
        two.succeeded(Kind::Read, 3_000);
        two.failed(Kind::Read);
        one.add(&two);
        let total = one.total();
        assert_eq!((one.writes.operations(), one.reads.operations(), total.operations()), (1, 1, 2));
        assert_eq!((total.errors, one.is_empty()), (1, false));
    }

    #[test]
    fn what_is_beyond_measure_counts_as_the_longest() {
        let mut tally = Tally::default();
        tally.succeeded(Kind::Write, 0);
        tally.succeeded(Kind::Write, u64::MAX);
        assert_eq!(tally.writes.operations(), 2);
        assert!(tally.writes.max_ms() >= 3_600_000.0);
    }
}
