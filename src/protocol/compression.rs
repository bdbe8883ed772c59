//! LZ4 and Snappy, for bodies (versions 3 and 4) and segments (version 5).
//!
//! A sender states the size of what it compressed; before anything is allocated for it, that size must be one which
//! the bytes received can expand to (what the format allows at most) and no larger than the limit. What comes out
//! must be exactly as long as stated, so no byte of an earlier message is ever taken for data.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

/// Algorithms of STARTUP's COMPRESSION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    Lz4,
    Snappy,
}

impl Compression {
    pub const ALL: [Compression; 2] = [Compression::Snappy, Compression::Lz4];

    /// The name in STARTUP and SUPPORTED.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Lz4 => "lz4",
            Compression::Snappy => "snappy",
        }
    }

    /// Reads a name in any case.
    pub fn from_name(name: &str) -> Option<Compression> {
        Compression::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(name))
    }
}

/// Compressed bytes that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    #[error("a compressed body of {got_bytes} bytes does not state its size")]
    NoSize { got_bytes: usize },
    #[error("{got_bytes} compressed bytes cannot hold the {stated_bytes} stated")]
    Implausible { got_bytes: usize, stated_bytes: usize },
    #[error("uncompressed size {stated_bytes} exceeds maximum allowed length {max_bytes}")]
    TooLarge { stated_bytes: usize, max_bytes: usize },
    #[error("{stated_bytes} bytes were stated, {got_bytes} decompressed")]
    Size { stated_bytes: usize, got_bytes: usize },
    #[error("cannot decompress: {0}")]
    Format(String),
}

/// An LZ4 block expands a byte to 255 at most (a run of 0xff in a match length), with a few of constant cost.
const LZ4_EXPANSION_MAX: usize = 255;

/// A Snappy copy of three bytes gives 64.
const SNAPPY_EXPANSION_MAX: usize = 22;

const EXPANSION_SLACK_BYTES: usize = 64;

fn plausible(got_bytes: usize, stated_bytes: usize, expansion: usize, max_bytes: usize) -> Result<(), Damaged> {
    if stated_bytes > max_bytes {
        return Err(Damaged::TooLarge { stated_bytes, max_bytes });
    }
    if stated_bytes > got_bytes.saturating_mul(expansion).saturating_add(EXPANSION_SLACK_BYTES) {
        return Err(Damaged::Implausible { got_bytes, stated_bytes });
    }
    Ok(())
}

/// Replaces `out` by the contents of an LZ4 block whose size was stated beside it.
pub fn decompress_lz4_block(
    block: &[u8],
    stated_bytes: usize,
    max_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), Damaged> {
    plausible(block.len(), stated_bytes, LZ4_EXPANSION_MAX, max_bytes)?;
    out.clear();
    if stated_bytes == 0 && matches!(block, [] | [0]) {
        return Ok(());
    }
    out.resize(stated_bytes, 0);
    let outcome = decompress_into(block, out);
    settle(outcome.map_err(|error| Damaged::Format(error.to_string())), stated_bytes, out)
}

/// Keeps what was decompressed only if it is all there.
fn settle(outcome: Result<usize, Damaged>, stated_bytes: usize, out: &mut Vec<u8>) -> Result<(), Damaged> {
    match outcome {
        Ok(got_bytes) if got_bytes == stated_bytes => Ok(()),
        Ok(got_bytes) => {
            out.clear();
            Err(Damaged::Size { stated_bytes, got_bytes })
        }
        Err(damaged) => {
            out.clear();
            Err(damaged)
        }
    }
}

impl Compression {
    /// Replaces `out` by the contents of a compressed body. LZ4 states the size in four bytes before the block,
    /// Snappy in its own preamble.
    pub fn decompress_body(self, body: &[u8], max_bytes: usize, out: &mut Vec<u8>) -> Result<(), Damaged> {
        match self {
            Compression::Lz4 => {
                let no_size = Damaged::NoSize { got_bytes: body.len() };
                let (size, block) = body.split_first_chunk::<4>().ok_or(no_size)?;
                let stated = u32::from_be_bytes(*size);
                let stated_bytes = usize::try_from(stated).unwrap_or(usize::MAX);
                decompress_lz4_block(block, stated_bytes, max_bytes, out)
            }
            Compression::Snappy => {
                let format = |error: snap::Error| Damaged::Format(error.to_string());
                let stated_bytes = snap::raw::decompress_len(body).map_err(format)?;
                plausible(body.len(), stated_bytes, SNAPPY_EXPANSION_MAX, max_bytes)?;
                out.clear();
                out.resize(stated_bytes, 0);
                let outcome = snap::raw::Decoder::new().decompress(body, out).map_err(format);
                settle(outcome, stated_bytes, out)
            }
        }
    }
}

/// What compressing needs beside input and output, kept from one message to the next.
pub struct Compressor {
    lz4: CompressTable,
    snappy: snap::raw::Encoder,
    out: Vec<u8>,
}

impl Default for Compressor {
    fn default() -> Self {
        Compressor { lz4: CompressTable::large(), snappy: snap::raw::Encoder::new(), out: Vec::new() }
    }
}

impl Compressor {
    /// The LZ4 block of `input`.
    pub fn lz4_block(&mut self, input: &[u8]) -> &[u8] {
        self.lz4_after(0, input)
    }

    /// The compressed form of a body.
    pub fn body(&mut self, compression: Compression, body: &[u8]) -> &[u8] {
        match compression {
            Compression::Lz4 => {
                self.lz4_after(4, body);
                let size = u32::try_from(body.len()).expect("answers are capped far below 4 GiB").to_be_bytes();
                if let Some(prefix) = self.out.first_chunk_mut::<4>() {
                    *prefix = size;
                }
                &self.out
            }
            Compression::Snappy => {
                self.out.resize(snap::raw::max_compress_len(body.len()), 0);
                let outcome = self.snappy.compress(body, &mut self.out);
                self.out.truncate(outcome.expect("the output was sized for the worst case"));
                &self.out
            }
        }
    }

    /// Leaves `prefix_bytes` zeros and the LZ4 block of `input` in `self.out`.
    fn lz4_after(&mut self, prefix_bytes: usize, input: &[u8]) -> &[u8] {
        self.out.clear();
        self.out.resize(prefix_bytes + get_maximum_output_size(input.len()), 0);
        let block = self.out.get_mut(prefix_bytes..).unwrap_or_default();
        let outcome = compress_into_with_table(input, block, &mut self.lz4);
        let block_bytes = outcome.expect("the output was sized for the worst case");
        self.out.truncate(prefix_bytes + block_bytes);
        &self.out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;
    use crate::protocol::testing::noise;

    const MAX: usize = 1 << 20;

    fn inputs() -> Vec<Vec<u8>> {
        let noise = noise(5000);
        vec![vec![], vec![7], b"abcabcabcabcabcabcabcabc".to_vec(), vec![0; 100_000], noise]
    }

    #[test]
    fn bodies_round_trip() {
        let mut compressor = Compressor::default();
        let mut out = vec![1, 2, 3];
        for compression in Compression::ALL {
            for input in inputs() {
                let compressed = compressor.body(compression, &input).to_vec();
                compression.decompress_body(&compressed, MAX, &mut out).unwrap();
                assert_eq!(out, input, "{compression:?}");
            }
        }
    }

    #[test]
    fn the_greatest_expansion_is_plausible() {
        let mut compressor = Compressor::default();
        let zeros = vec![0; MAX];
        let mut out = Vec::new();
        for compression in Compression::ALL {
            let compressed = compressor.body(compression, &zeros).to_vec();
            compression.decompress_body(&compressed, MAX, &mut out).unwrap();
            assert_eq!(out.len(), MAX);
        }
    }

    #[test]
    fn lies_about_the_size_allocate_nothing() {
        let mut out = Vec::new();
        let lz4 = Compression::Lz4.decompress_body(&[0x00, 0x0f, 0xff, 0xff, 0x10, 1], MAX, &mut out);
        assert_eq!(lz4, Err(Damaged::Implausible { got_bytes: 2, stated_bytes: 0xfffff }));
        let lz4 = Compression::Lz4.decompress_body(&[0xff, 0xff, 0xff, 0xff, 0x10, 1], MAX, &mut out);
        assert_eq!(lz4, Err(Damaged::TooLarge { stated_bytes: 0xffff_ffff, max_bytes: MAX }));
        let snappy = Compression::Snappy.decompress_body(&[0xff, 0xff, 0x3f, 0, 1], MAX, &mut out);
        assert_eq!(snappy, Err(Damaged::Implausible { got_bytes: 5, stated_bytes: 0xf_ffff }));
        assert_eq!(out.capacity(), 0);
        assert_eq!(Compression::Lz4.decompress_body(&[0, 0], MAX, &mut out), Err(Damaged::NoSize { got_bytes: 2 }));
    }

    #[test]
    fn a_size_that_is_off_by_some_is_an_error_and_leaves_nothing() {
        let mut compressor = Compressor::default();
        let good = compressor.body(Compression::Lz4, &[9; 100]).to_vec();
        for wrong in [0u32, 1, 99, 101, 200] {
            let mut bad = good.clone();
            bad[..4].copy_from_slice(&wrong.to_be_bytes());
            let mut out = b"what was there before".to_vec();
            assert!(Compression::Lz4.decompress_body(&bad, MAX, &mut out).is_err(), "{wrong}");
            assert!(out.is_empty());
        }
    }

    #[test]
    fn every_truncation_is_an_error() {
        let mut compressor = Compressor::default();
        let input: Vec<u8> = (0..300u32).flat_map(|i| (i / 3).to_be_bytes()).collect();
        for compression in Compression::ALL {
            let good = compressor.body(compression, &input).to_vec();
            for len in 0..good.len() {
                assert!(compression.decompress_body(&good[..len], MAX, &mut Vec::new()).is_err());
            }
        }
    }

    #[test]
    fn names() {
        assert_eq!(Compression::from_name("LZ4"), Some(Compression::Lz4));
        assert_eq!(Compression::from_name("snappy"), Some(Compression::Snappy));
        assert_eq!(Compression::from_name("zstd"), None);
    }
}
