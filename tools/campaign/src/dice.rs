//! Random choices that a seed fixes (splitmix64).

/// A stream of choices.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A stream of its own for part `part` of what this seed decides; this one is not advanced.
    pub fn part(&self, part: u64) -> Dice {
        let mut mixed = Dice(self.0 ^ part.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Dice(mixed.next())
    }

    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "nothing lies below 0");
        self.next() % end
    }

    /// An index of a sequence of `len` items.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("it is below a usize")
    }

    /// One of `items`, which is not empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// A small number below `end`, for keys and values.
    pub fn small(&mut self, end: i32) -> i32 {
        i32::try_from(self.below(u64::from(end.unsigned_abs()))).expect("it is below an i32")
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_choices_and_another_seed_others() {
        let choices = |seed| {
            let mut dice = Dice::new(seed);
            (0..50).map(|_| dice.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(choices(7), choices(7));
        assert_ne!(choices(7), choices(8));
    }

    #[test]
    fn parts_of_a_seed_are_apart_and_do_not_advance_it() {
        let dice = Dice::new(7);
        let (mut one, mut two, mut again) = (dice.part(1), dice.part(2), dice.part(1));
        let (first, second) = (one.next(), two.next());
        assert_ne!(first, second);
        assert_eq!(again.next(), first);
    }

    #[test]
    fn every_number_below_the_end_comes_up() {
        let mut dice = Dice::new(1);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[dice.index(5)] += 1;
        }
        assert!(seen.iter().all(|count| (100..300).contains(count)), "{seen:?}");
        assert!((0..100).all(|_| (0..3).contains(&dice.small(3))));
    }
}
