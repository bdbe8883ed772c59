//! Random numbers that belong to something: the same seed always gives the same ones, so that a request can be made
//! again, and a read can tell what was written.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finalizer: spreads a counter over all bits.
pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A name's number, to tell apart what different names draw from one seed (FNV-1a, mixed).
pub fn salt_of(name: &str) -> u64 {
    mix(name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
}

/// A number that belongs to these bytes, and to what stood before them.
#[inline]
pub fn seed_of(before: u64, bytes: &[u8]) -> u64 {
    let (whole, rest) = bytes.as_chunks::<8>();
    let mut seed = whole.iter().fold(before ^ bytes.len() as u64, |seed, chunk| mix(seed ^ u64::from_le_bytes(*chunk)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        seed = mix(seed ^ u64::from_le_bytes(last));
    }
    seed
}

/// SplitMix64: a sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn of(seed: u64) -> Random {
        Random { state: mix(seed.wrapping_add(GOLDEN)) }
    }

    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of the product: as good as even for ends far below 2^64.
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Normally distributed around 0 with deviation 1 (Box and Muller's transform).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Fills `out` with random bytes.
    #[inline]
    pub fn fill(&mut self, out: &mut [u8]) {
        let (whole, rest) = out.as_chunks_mut::<8>();
        for chunk in whole {
            *chunk = self.bits().to_le_bytes();
        }
        if !rest.is_empty() {
            let bytes = self.bits().to_le_bytes();
            let count = rest.len();
            rest.copy_from_slice(&bytes[..count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence() {
        let draw = |seed| {
            let mut random = Random::of(seed);
            [random.bits(), random.bits(), random.bits()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_ne!(salt_of("c0"), salt_of("c1"));
    }

    #[test]
    fn bytes_have_numbers_of_their_own() {
        let texts: [&[u8]; 6] = [b"", b"a", b"a\0", b"abcdefgh", b"abcdefghi", b"bbcdefghi"];
        let seeds: std::collections::BTreeSet<u64> = texts.iter().map(|text| seed_of(1, text)).collect();
        assert_eq!(seeds.len(), texts.len());
        assert_ne!(seed_of(1, b"a"), seed_of(2, b"a"));
    }

    #[test]
    fn numbers_below_an_end_are_even() {
        let mut random = Random::of(7);
        let mut seen = [0u32; 10];
        (0..10_000).for_each(|_| seen[random.below(10) as usize] += 1);
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }

    #[test]
    fn normal_numbers_have_mean_and_deviation() {
        let mut random = Random::of(3);
        let drawn: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|value| value * value).sum::<f64>() / drawn.len() as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn every_byte_is_filled() {
        for at in 0..13 {
            assert!((0..64).any(|seed| {
                let mut out = [0; 13];
                Random::of(seed).fill(&mut out);
                out[at] != 0
            }));
        }
    }
}
