//! The Murmur3 partitioner, bit for bit Cassandra's, and the tokens' division among shards.

use crate::base::ids::{ShardId, Token};

/// Cassandra's Murmur3Partitioner: the first half of Murmur3 x64 128 with its signed-byte tail, `i64::MIN` mapped to
/// `i64::MAX`. An empty key is the minimum token.
pub fn token_of(partition_key: &[u8]) -> Token {
    if partition_key.is_empty() {
        return Token(i64::MIN);
    }
    let hash = murmur3_first_half(partition_key);
    Token(if hash == i64::MIN { i64::MAX } else { hash })
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

fn murmur3_first_half(data: &[u8]) -> i64 {
    let (mut h1, mut h2) = (0u64, 0u64);
    let (blocks, tail) = data.as_chunks::<16>();
    for block in blocks {
        let (a, b) = block.split_at(8);
        let k1 = u64::from_le_bytes(a.try_into().expect("half of sixteen"));
        let k2 = u64::from_le_bytes(b.try_into().expect("half of sixteen"));
        h1 ^= k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (k1, k2) = tail_words(tail);
    if tail.len() > 8 {
        h2 ^= k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    }
    if !tail.is_empty() {
        h1 ^= k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    }
    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1.wrapping_add(h2) as i64
}

/// The tail's bytes, fewer than sixteen, as two words. Cassandra's implementation sign-extends each of them.
fn tail_words(tail: &[u8]) -> (u64, u64) {
    let mut padded = [0u8; 16];
    padded[..tail.len()].copy_from_slice(tail);
    let all = u128::from_le_bytes(padded);
    let (mut k1, mut k2) = (all as u64, (all >> 64) as u64);
    if (k1 | k2) & 0x8080_8080_8080_8080 == 0 {
        return (k1, k2);
    }
    (k1, k2) = (0, 0);
    for (at, &byte) in tail.iter().enumerate() {
        let wide = i64::from(byte as i8) as u64;
        if at < 8 {
            k1 ^= wide << (8 * at);
        } else {
            k2 ^= wide << (8 * (at - 8));
        }
    }
    (k1, k2)
}

fn finish(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

/// How tokens are divided among shards: ScyllaDB's `biased-token-round-robin`.
/// `shard = (((token + 2^63) << ignore_msb) * shards) >> 64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    pub shards: u16,
    pub ignore_msb: u8,
}

/// The most significant bits of a token that do not choose its shard.
pub const IGNORE_MSB: u8 = 8;

impl Sharding {
    pub fn new(shards: u16) -> Self {
        Sharding { shards, ignore_msb: IGNORE_MSB }
    }

    /// The tokens that `shard` owns, first and last of each run, ascending.
    pub fn spans_of(self, shard: ShardId) -> Vec<(Token, Token)> {
        // Below the ignored bits, a token's place in its run of 2^bits tokens decides: `place * shards >> bits`.
        let bits = 64 - u32::from(self.ignore_msb);
        let first_of = |shard: u32| (u128::from(shard) << bits).div_ceil(u128::from(self.shards));
        let (first, next) = (first_of(u32::from(shard.0)), first_of(u32::from(shard.0) + 1));
        if first == next {
            return Vec::new();
        }
        let token = |run: u64, place: u128| {
            let biased = (u128::from(run) << bits) + place;
            Token((biased as u64).wrapping_sub(1 << 63) as i64)
        };
        (0..1u64 << self.ignore_msb).map(|run| (token(run, first), token(run, next - 1))).collect()
    }

    pub fn shard_of(self, token: Token) -> ShardId {
        let biased = (token.0 as u64).wrapping_add(1 << 63) << self.ignore_msb;
        let product = u128::from(biased) * u128::from(self.shards);
        ShardId((product >> 64) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens that Cassandra gives (`SELECT token(k)`), among them keys whose tail bytes have the high bit set.
    #[test]
    fn tokens_are_cassandras() {
        assert_eq!(token_of(&1i32.to_be_bytes()), Token(-4_069_959_284_402_364_209));
        assert_eq!(token_of(&2i32.to_be_bytes()), Token(-3_248_873_570_005_575_792));
        assert_eq!(token_of(&3i32.to_be_bytes()), Token(9_010_454_139_840_013_625));
        assert_eq!(token_of(b""), Token(i64::MIN));
    }

    /// Tails of ASCII and of other bytes are the same sum.
    #[test]
    fn a_tail_is_its_bytes_sign_extended() {
        for len in 0..16 {
            for high in 0..1u32 << len.min(4) {
                let tail: Vec<u8> =
                    (0..len).map(|at| (at * 17 + 1) as u8 & 0x7f | ((high >> at.min(31) & 1) as u8) << 7).collect();
                let word = |bytes: &[u8]| {
                    bytes
                        .iter()
                        .enumerate()
                        .fold(0, |word, (at, byte)| word ^ (i64::from(*byte as i8) << (8 * at)) as u64)
                };
                let (low, rest) = tail.split_at(tail.len().min(8));
                assert_eq!(tail_words(&tail), (word(low), word(rest)), "{tail:x?}");
            }
        }
    }

    #[test]
    fn spans_are_what_shard_of_says() {
        for shards in [1u16, 2, 3, 7] {
            let sharding = Sharding::new(shards);
            let mut all: Vec<(Token, Token, u16)> = Vec::new();
            for shard in 0..shards {
                for (first, last) in sharding.spans_of(ShardId(shard)) {
                    assert_eq!(sharding.shard_of(first), ShardId(shard));
                    assert_eq!(sharding.shard_of(last), ShardId(shard));
                    all.push((first, last, shard));
                }
            }
            all.sort_unstable();
            assert_eq!((all[0].0, all[all.len() - 1].1), (Token(i64::MIN), Token(i64::MAX)));
            assert!(all.windows(2).all(|pair| pair[0].1.0 + 1 == pair[1].0.0), "no gap and no overlap");
        }
    }

    #[test]
    fn every_shard_gets_its_share() {
        for shards in [1u16, 2, 3, 4, 16] {
            let sharding = Sharding::new(shards);
            let mut counts = vec![0u32; usize::from(shards)];
            for k in 0..20_000i32 {
                counts[usize::from(sharding.shard_of(token_of(&k.to_be_bytes())).0)] += 1;
            }
            let fair = 20_000 / u32::from(shards);
            assert!(counts.iter().all(|&n| n > fair * 9 / 10 && n < fair * 11 / 10), "{counts:?}");
        }
    }
}
