//! What was answered: counts and latencies, by kind of operation.

use hdrhistogram::Histogram;

/// The longest latency told apart; what takes longer counts as this.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// The operations of one kind, over some time.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Of those that succeeded.
    pub latencies_us: Histogram<u64>,
    pub errors: u64,
    pub partitions: u64,
    pub rows: u64,
}

impl Default for Counts {
    fn default() -> Self {
        let latencies_us = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("bounds that make sense");
        Counts { latencies_us, errors: 0, partitions: 0, rows: 0 }
    }
}

impl Counts {
    pub fn operations(&self) -> u64 {
        self.latencies_us.len()
    }

    pub fn is_empty(&self) -> bool {
        self.operations() == 0 && self.errors == 0
    }

    pub fn add(&mut self, other: &Counts) {
        self.latencies_us.add(&other.latencies_us).expect("all have the same bounds");
        self.errors += other.errors;
        self.partitions += other.partitions;
        self.rows += other.rows;
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

/// All operations, over some time, by the places of their kinds.
#[derive(Clone, Debug)]
pub struct Tally {
    kinds: Vec<Counts>,
}

impl Tally {
    /// Nothing, of so many kinds.
    pub fn new(kinds: usize) -> Tally {
        Tally { kinds: vec![Counts::default(); kinds] }
    }

    pub fn of(&self, kind: usize) -> &Counts {
        &self.kinds[kind]
    }

    #[inline]
    pub fn succeeded(&mut self, kind: usize, latency_us: u64, partitions: u64, rows: u64) {
        let counts = &mut self.kinds[kind];
        counts.latencies_us.saturating_record(latency_us.max(1));
        counts.partitions += partitions;
        counts.rows += rows;
    }

    pub fn failed(&mut self, kind: usize) {
        self.kinds[kind].errors += 1;
    }

    pub fn add(&mut self, other: &Tally) {
        for (counts, more) in self.kinds.iter_mut().zip(&other.kinds).filter(|(_, more)| !more.is_empty()) {
            counts.add(more);
        }
    }

    /// All kinds as one.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.kinds.iter().filter(|counts| !counts.is_empty()).for_each(|counts| total.add(counts));
        total
    }

    /// Whether nothing was answered.
    pub fn is_empty(&self) -> bool {
        self.kinds.iter().all(Counts::is_empty)
    }

    /// What was counted, which is none afterwards.
    pub fn take(&mut self) -> Tally {
        let kinds = self.kinds.len();
        std::mem::replace(self, Tally::new(kinds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_told_in_milliseconds() {
        let mut tally = Tally::new(2);
        (1..=1000).for_each(|at| tally.succeeded(1, at * 1000, 1, 1));
        let reads = tally.of(1);
        assert!((reads.mean_ms() - 500.5).abs() < 1.0, "{}", reads.mean_ms());
        assert!((reads.latency_ms(0.99) - 990.0).abs() < 1.0 && (reads.max_ms() - 1000.0).abs() < 1.0);
    }

    #[test]
    fn tallies_add_up_kind_by_kind() {
        let (mut one, mut two) = (Tally::new(2), Tally::new(2));
        assert!(one.is_empty());
        one.succeeded(0, 1_000, 1, 10);
        two.succeeded(1, 3_000, 2, 5);
        two.failed(1);
        one.add(&two);
        let total = one.total();
        assert_eq!((one.of(0).operations(), one.of(1).operations(), total.operations()), (1, 1, 2));
        assert_eq!((total.errors, total.partitions, total.rows, one.is_empty()), (1, 3, 15, false));
        assert!(!one.take().is_empty() && one.is_empty());
    }

    #[test]
    fn what_is_beyond_measure_counts_as_the_longest() {
        let mut tally = Tally::new(1);
        tally.succeeded(0, 0, 1, 1);
        tally.succeeded(0, u64::MAX, 1, 1);
        assert_eq!(tally.of(0).operations(), 2);
        assert!(tally.of(0).max_ms() >= 3_600_000.0);
    }
}
