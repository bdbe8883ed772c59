//! Which rows the operations touch: in sequence, or drawn from a distribution (`-pop`).

use std::ops::RangeInclusive;

use crate::numbers;
use crate::row::mix;

/// Rows by number, for the operations by theirs.
#[derive(Clone, Debug, PartialEq)]
pub enum Population {
    /// One after the other, from the start again at the end.
    Sequence(RangeInclusive<u64>),
    /// Every row equally likely.
    Uniform(RangeInclusive<u64>),
    /// Around the middle of the range; its ends are so many standard deviations away.
    Gaussian(RangeInclusive<u64>, f64),
    /// One row.
    Fixed(u64),
}

/// How far the ends of a range are from its mean, unless told: cassandra-stress's choice.
const DEVIATIONS: f64 = 3.0;

impl Population {
    /// Reads `uniform(1..N)`, `gaussian(1..N)`, `gaussian(1..N,DEVIATIONS)` or `fixed(N)`.
    pub fn distribution(text: &str) -> Option<Population> {
        let (name, inner) = text.strip_suffix(')')?.split_once('(')?;
        match name.to_ascii_lowercase().as_str() {
            "uniform" => numbers::range(inner).map(Population::Uniform),
            "fixed" => numbers::count(inner).map(Population::Fixed),
            "gaussian" | "gauss" | "normal" | "norm" => match inner.split_once(',') {
                None => Some(Population::Gaussian(numbers::range(inner)?, DEVIATIONS)),
                Some((range, deviations)) => {
                    let deviations = deviations.trim().parse::<f64>().ok()?;
                    (deviations.is_finite() && deviations > 0.0)
                        .then_some(Population::Gaussian(numbers::range(range)?, deviations))
                }
            },
            _ => None,
        }
    }

    /// The row of the operation of this number.
    pub fn row_of(&self, operation: u64) -> u64 {
        match self {
            Population::Sequence(range) => range.start() + operation % (range.end() - range.start() + 1),
            Population::Uniform(range) => {
                let width = u128::from(range.end() - range.start() + 1);
                // The high half of the product: as good as even for widths far below 2^64.
                range.start() + (u128::from(random(operation, 0)).wrapping_mul(width) >> 64) as u64
            }
            Population::Gaussian(range, deviations) => gaussian(operation, range, *deviations),
            Population::Fixed(row) => *row,
        }
    }
}

/// A random number that belongs to an operation; `salt` tells its several apart.
pub fn random(operation: u64, salt: u64) -> u64 {
    mix(mix(operation.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ mix(!salt))
}

/// A random number in (0, 1].
fn unit(operation: u64, salt: u64) -> f64 {
    ((random(operation, salt) >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Box and Muller's transform; what falls outside the range is drawn again, and at last clamped.
fn gaussian(operation: u64, range: &RangeInclusive<u64>, deviations: f64) -> u64 {
    let (start, end) = (*range.start() as f64, *range.end() as f64);
    let (mean, deviation) = ((start + end) / 2.0, (end - start) / 2.0 / deviations);
    let drawn = (0..8).map(|attempt| {
        let radius = (-2.0 * unit(operation, 2 * attempt + 1).ln()).sqrt();
        let angle = std::f64::consts::TAU * unit(operation, 2 * attempt + 2);
        (mean + deviation * radius * angle.cos()).round()
    });
    let within = drawn.into_iter().find(|value| (start..=end).contains(value));
    (within.unwrap_or(mean) as u64).clamp(*range.start(), *range.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_visits_every_row_and_starts_again() {
        let population = Population::Sequence(5..=7);
        let rows: Vec<u64> = (0..7).map(|operation| population.row_of(operation)).collect();
        assert_eq!(rows, [5, 6, 7, 5, 6, 7, 5]);
    }

    #[test]
    fn distributions_are_read_by_their_names() {
        assert_eq!(Population::distribution("UNIFORM(1..10)"), Some(Population::Uniform(1..=10)));
        assert_eq!(Population::distribution("gaussian(1..1M)"), Some(Population::Gaussian(1..=1_000_000, 3.0)));
        assert_eq!(Population::distribution("gaussian(1..9,2)"), Some(Population::Gaussian(1..=9, 2.0)));
        assert_eq!(Population::distribution("fixed(3)"), Some(Population::Fixed(3)));
        for wrong in ["", "uniform", "uniform(1..10", "uniform(10..1)", "exp(1..10)", "gaussian(1..9,0)"] {
            assert_eq!(Population::distribution(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn uniform_rows_cover_their_range_evenly() {
        let population = Population::Uniform(1..=10);
        let mut seen = [0u32; 10];
        (0..10_000).for_each(|operation| seen[population.row_of(operation) as usize - 1] += 1);
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }

    #[test]
    fn gaussian_rows_stay_in_range_around_its_middle() {
        let population = Population::Gaussian(1..=1000, 3.0);
        let rows: Vec<u64> = (0..10_000).map(|operation| population.row_of(operation)).collect();
        assert!(rows.iter().all(|row| (1..=1000).contains(row)));
        // Within one deviation, a sixth of the range to either side: 68 %.
        let near = rows.iter().filter(|row| (334..=667).contains(*row)).count();
        assert!((6_500..7_200).contains(&near), "{near}");
        assert_eq!(Population::Gaussian(4..=4, 3.0).row_of(1), 4);
    }
}
