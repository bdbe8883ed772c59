//! Which partitions the operations touch: in sequence, or drawn from a distribution (`-pop`).

use std::ops::RangeInclusive;

use crate::distribution::{Distribution, Draws};

/// Tells the draws of partitions from all others.
const SALT: u64 = 0x706f_7075_6c61_7465;

/// Partitions by their seeds, for the places of operations.
#[derive(Clone, Debug, PartialEq)]
pub enum Population {
    /// One after the other, from the start again at the end, or to the end only.
    Sequence {
        range: RangeInclusive<u64>,
        wrap: bool,
    },
    Drawn(Distribution),
}

impl Population {
    pub fn sequence(range: RangeInclusive<u64>) -> Population {
        Population::Sequence { range, wrap: true }
    }

    /// Whether there is a partition at this place. Drawing it costs more than knowing that there is one.
    #[inline]
    pub fn has(&self, place: u64) -> bool {
        match self {
            Population::Sequence { range, wrap } => *wrap || place <= range.end() - range.start(),
            Population::Drawn(_) => true,
        }
    }

    /// The seed of the partition at this place; none after the end of a sequence that does not wrap.
    #[inline]
    pub fn seed_at(&self, place: u64) -> Option<u64> {
        match self {
            Population::Sequence { range, wrap } => {
                let width = range.end() - range.start() + 1;
                (*wrap || place < width).then(|| range.start() + place % width)
            }
            Population::Drawn(distribution) => Some(distribution.draw(&mut Draws::of(place, SALT)) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_sequence_visits_every_partition_and_starts_again() {
        let seeds = |wrap| -> Vec<Option<u64>> {
            let population = Population::Sequence { range: 5..=7, wrap };
            (0..5).map(|place| population.seed_at(place)).collect()
        };
        for wrap in [true, false] {
            let population = Population::Sequence { range: 5..=7, wrap };
            assert!((0..5).all(|place| population.has(place) == population.seed_at(place).is_some()), "{wrap}");
        }
        assert_eq!(seeds(true), [Some(5), Some(6), Some(7), Some(5), Some(6)]);
        assert_eq!(seeds(false), [Some(5), Some(6), Some(7), None, None]);
    }

    #[test]
    fn a_place_always_has_the_same_seed() {
        let population = Population::Drawn(Distribution::parse("gaussian(1..1000)").unwrap());
        let seeds: Vec<u64> = (0..1000).filter_map(|place| population.seed_at(place)).collect();
        assert_eq!(seeds, (0..1000).filter_map(|place| population.seed_at(place)).collect::<Vec<_>>());
        assert!(seeds.iter().all(|seed| (1..=1000).contains(seed)));
        assert!(seeds.iter().filter(|seed| (334..=667).contains(*seed)).count() > 600);
        let drawn = Population::Drawn(Distribution::parse("seq(1..3)").unwrap());
        assert_eq!((0..4).filter_map(|place| drawn.seed_at(place)).collect::<Vec<_>>(), [1, 2, 3, 1]);
    }
}
