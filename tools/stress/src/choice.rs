//! Which kind of operation comes next: by their weights, and so many of a kind after each other (`clustering=`).

use crate::distribution::{Distribution, Draws};
use crate::random::Random;

/// One driver's choices.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The sums of the weights up to each kind, as shares of all.
    bounds: Vec<f64>,
    clustering: Distribution,
    random: Random,
    kind: usize,
    /// How many more of this kind come.
    left: u64,
}

impl Choice {
    /// Of kinds with these weights, of which one at least is above 0; `seed` tells drivers apart.
    pub fn new(weights: &[f64], clustering: Distribution, seed: u64) -> Choice {
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let bounds = weights.iter().map(|weight| {
            sum += weight;
            sum / total
        });
        Choice { bounds: bounds.collect(), clustering, random: Random::of(seed), kind: 0, left: 0 }
    }

    /// The kind of the next operation.
    #[inline]
    pub fn next(&mut self) -> usize {
        if self.bounds.len() > 1 {
            if self.left == 0 {
                self.choose();
            }
            self.left -= 1;
        }
        self.kind
    }

    fn choose(&mut self) {
        let unit = self.random.unit();
        self.kind = self.bounds.iter().position(|bound| unit < *bound).unwrap_or(self.bounds.len() - 1);
        let drawn = self.clustering.draw(&mut Draws::of(self.random.bits(), 0));
        self.left = u64::try_from(drawn).unwrap_or(1).max(1);
    }

    /// A random number, for what else is drawn for the operation.
    #[inline]
    pub fn seed(&mut self) -> u64 {
        self.random.bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(weights: &[f64], clustering: i64, count: usize) -> Vec<usize> {
        let mut choice = Choice::new(weights, Distribution::fixed(clustering), 3);
        (0..count).map(|_| choice.next()).collect()
    }

    #[test]
    fn kinds_come_by_their_weights() {
        let kinds = kinds(&[1.0, 9.0], 1, 100_000);
        let first = kinds.iter().filter(|kind| **kind == 0).count();
        assert!((9_500..10_500).contains(&first), "{first}");
        assert!(self::kinds(&[0.0, 2.0], 1, 100).iter().all(|kind| *kind == 1));
        assert!(self::kinds(&[2.0], 1, 100).iter().all(|kind| *kind == 0));
    }

    #[test]
    fn a_kind_comes_so_often_after_itself() {
        let kinds = kinds(&[1.0, 1.0], 5, 1_000);
        assert!(kinds.chunks(5).all(|run| run.iter().all(|kind| *kind == run[0])));
        assert!(kinds.contains(&0) && kinds.contains(&1));
    }
}
