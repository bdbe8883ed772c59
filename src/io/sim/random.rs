//! Random numbers from a seed: SplitMix64 (Steele, Lea, Flood 2014). One word of state, so that each concern of a
//! simulation (scheduling, disk, network, the engine's own draws) has its own stream and does not shift the others.

use std::cell::Cell;

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: Cell<u64>,
}

const PPM: u32 = 1_000_000;

impl Random {
    pub fn new(seed: u64) -> Self {
        Random { state: Cell::new(seed) }
    }

    /// A stream of its own for a concern, from the same seed.
    pub fn stream(seed: u64, concern: u64) -> Self {
        let mixed = Random::new(seed ^ concern.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Random::new(mixed.next())
    }

    pub fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`; 0 where `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// An index below `len`, which must not be 0.
    pub fn index(&self, len: usize) -> usize {
        debug_assert!(len > 0);
        self.below(len as u64) as usize
    }

    /// From `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        debug_assert!(low <= high);
        low + self.below(high - low + 1)
    }

    pub fn coin(&self) -> bool {
        self.next() >> 63 == 1
    }

    /// True in `per_million` of a million cases. A rate of 0 draws nothing, so that a fault that is off shifts nothing.
    pub fn chance(&self, per_million: u32) -> bool {
        per_million > 0 && self.below(u64::from(PPM)) < u64::from(per_million)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |seed| (0..64).map(|_| 0).scan(Random::new(seed), |r, _: i32| Some(r.next())).collect::<Vec<u64>>();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::stream(1, 1).next(), Random::stream(1, 2).next());
        assert_ne!(Random::stream(1, 1).next(), Random::stream(2, 1).next());
        assert_eq!(Random::stream(5, 3).next(), Random::stream(5, 3).next());
    }

    #[test]
    fn bounds_hold_and_both_ends_are_reached() {
        let random = Random::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| random.between(3, 6)).collect();
        assert!(drawn.iter().all(|n| (3..=6).contains(n)));
        assert!(drawn.contains(&3) && drawn.contains(&6));
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn a_chance_comes_about_as_often_as_it_says() {
        let random = Random::new(2);
        let hits = (0..100_000).filter(|_| random.chance(250_000)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!(!random.chance(0));
        assert!(random.chance(1_000_000));
    }

    #[test]
    fn a_rate_of_zero_draws_nothing() {
        let (a, b) = (Random::new(9), Random::new(9));
        assert!(!a.chance(0));
        assert_eq!(a.next(), b.next());
    }
}
