//! The Bloom filter over a file's partitions. All bits of one partition lie in one 64-byte line, so that a look costs
//! at most one cache miss.

use crate::base::ids::Token;

const LINE_BYTES: usize = 64;
const LINE_BITS: u64 = 512;
/// Lines make some fuller than others; this many more bits a key win back what that costs.
const LINE_OVERHEAD: f64 = 1.2;
const PROBES_MAX: u32 = 16;

/// Which partitions a file may hold. It has no false negatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    probes: u32,
    /// Whole lines; none where the filter lets everything through.
    bits: Vec<u8>,
}

impl Filter {
    /// Room for `partitions` at a chance of `false_positives` (`bloom_filter_fp_chance`); at 1 or more there is none.
    pub fn new(partitions: u64, false_positives: f64) -> Self {
        if false_positives >= 1.0 || false_positives.is_nan() {
            return Filter { probes: 0, bits: Vec::new() };
        }
        let chance = false_positives.max(1e-5);
        let bits_a_key = -chance.ln() / (std::f64::consts::LN_2 * std::f64::consts::LN_2);
        let probes = (bits_a_key * std::f64::consts::LN_2).round().clamp(1.0, f64::from(PROBES_MAX)) as u32;
        let bits = (partitions.max(1) as f64 * bits_a_key * LINE_OVERHEAD).ceil() as u64;
        let lines = usize::try_from(bits.div_ceil(LINE_BITS)).unwrap_or(1).max(1);
        Filter { probes, bits: vec![0; lines * LINE_BYTES] }
    }

    pub fn insert(&mut self, token: Token) {
        let Some((line, mut hash)) = self.line_of(token) else { return };
        for _ in 0..self.probes {
            let bit = next_bit(&mut hash);
            self.bits[line + bit / 8] |= 1 << (bit % 8);
        }
    }

    #[inline]
    pub fn may_contain(&self, token: Token) -> bool {
        let Some((line, mut hash)) = self.line_of(token) else { return true };
        let line = &self.bits[line..line + LINE_BYTES];
        (0..self.probes).all(|_| {
            let bit = next_bit(&mut hash);
            line[bit / 8] & (1 << (bit % 8)) != 0
        })
    }

    pub fn memory_bytes(&self) -> usize {
        self.bits.len()
    }

    /// The number of probes and the lines, as FORMAT.md shows.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.probes.to_le_bytes());
        out.extend_from_slice(&self.bits);
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (probes, bits) = bytes.split_first_chunk::<4>()?;
        let probes = u32::from_le_bytes(*probes);
        let sound = probes <= PROBES_MAX && bits.len() % LINE_BYTES == 0 && (probes == 0) == bits.is_empty();
        sound.then(|| Filter { probes, bits: bits.to_vec() })
    }

    /// The byte at which the token's line starts, and the hash that gives its bits.
    #[inline]
    fn line_of(&self, token: Token) -> Option<(usize, u64)> {
        let lines = (self.bits.len() / LINE_BYTES) as u64;
        if lines == 0 {
            return None;
        }
        // A shard's tokens agree in the bits that chose the shard: mixed anew, none of that shows.
        let hash = mix(token.0 as u64);
        let line = (u128::from(hash) * u128::from(lines)) >> 64;
        Some((line as usize * LINE_BYTES, mix(hash ^ 0x9e37_79b9_7f4a_7c15)))
    }
}

/// Takes nine bits of the hash and turns it, so that sixteen probes overlap only in turned copies.
#[inline]
fn next_bit(hash: &mut u64) -> usize {
    let bit = (*hash >> 55) as usize;
    *hash = hash.wrapping_mul(0x9fb2_1c65_1e98_df25).rotate_left(23);
    bit
}

fn mix(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::schema::partitioner::token_of;

    #[test]
    fn it_never_hides_and_seldom_lies() {
        for (chance, keys) in [(0.1, 20_000u32), (0.01, 20_000), (0.001, 20_000), (0.01, 1)] {
            let mut filter = Filter::new(u64::from(keys), chance);
            (0..keys).for_each(|k| filter.insert(token_of(&k.to_be_bytes())));
            assert!((0..keys).all(|k| filter.may_contain(token_of(&k.to_be_bytes()))));
            let others = 100_000u32;
            let lies = (0..others).filter(|k| filter.may_contain(token_of(&(k + (1 << 30)).to_be_bytes()))).count();
            assert!((lies as f64) < 1.5 * chance * f64::from(others) + 30.0, "{lies} of {others} at {chance}");
        }
    }

    #[test]
    fn tokens_of_one_shard_spread_as_well() {
        let mut filter = Filter::new(20_000, 0.01);
        let token = |k: i64| Token((5 << 56) | (k << 20));
        (0..20_000).for_each(|k| filter.insert(token(k)));
        let lies = (20_000..120_000).filter(|k| filter.may_contain(token(*k))).count();
        assert!(lies < 1_600, "{lies}");
    }

    #[test]
    fn a_chance_of_one_lets_everything_through() {
        let filter = Filter::new(100, 1.0);
        assert!(filter.may_contain(Token(5)));
        assert_eq!(filter.memory_bytes(), 0);
    }

    #[test]
    fn it_reads_back_and_refuses_other_shapes() {
        let mut filter = Filter::new(50, 0.01);
        filter.insert(Token(77));
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        assert_eq!(Filter::decode(&bytes).unwrap(), filter);
        assert_eq!(Filter::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Filter::decode(&bytes[..4]), None);
        assert_eq!(Filter::decode(&[17, 0, 0, 0]), None);
        let open = Filter::new(1, 2.0);
        bytes.clear();
        open.encode(&mut bytes);
        assert_eq!(Filter::decode(&bytes).unwrap(), open);
    }
}
