//! How blocks are compressed: the algorithms, a compressor that keeps its tables between blocks, and what a table's
//! `compression` option asks for.

use std::collections::BTreeMap;

/// An algorithm, as each block's header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Snappy,
    Lz4,
    Zstd,
}

/// The uncompressed size of a block where the table's option names none.
pub const BLOCK_BYTES_DEFAULT: usize = 16 * 1024;
/// The range of `chunk_length_in_kb` that is followed; beyond it the nearest end is taken.
const BLOCK_BYTES_MIN: usize = 4 * 1024;
const BLOCK_BYTES_MAX: usize = 1024 * 1024;
/// Cassandra's default for ZstdCompressor.
const ZSTD_LEVEL: i32 = 3;

/// A `compression` option that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompressionOptionError {
    #[error("unknown compressor class '{0}'")]
    UnknownClass(String),
    #[error("chunk_length_in_kb '{0}' is not a power of two")]
    ChunkLength(String),
}

impl Compression {
    pub fn tag(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Snappy => 1,
            Compression::Lz4 => 2,
            Compression::Zstd => 3,
        }
    }

    pub fn from_tag(tag: u8) -> Option<Self> {
        [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd].get(usize::from(tag)).copied()
    }

    /// The algorithm and block size of a table's `compression` option. Deflate is stored as Zstandard, which does the
    /// same work better; an option without a class means Snappy.
    pub fn of_option(option: &BTreeMap<String, String>) -> Result<(Compression, usize), CompressionOptionError> {
        if option.get("enabled").is_some_and(|enabled| enabled.eq_ignore_ascii_case("false")) {
            return Ok((Compression::None, BLOCK_BYTES_DEFAULT));
        }
        let class = option.get("class").or_else(|| option.get("sstable_compression")).map(String::as_str);
        let compression = match class.map(|class| class.rsplit('.').next().unwrap_or(class)) {
            None | Some("SnappyCompressor") => Compression::Snappy,
            Some("LZ4Compressor") => Compression::Lz4,
            Some("ZstdCompressor" | "DeflateCompressor" | "ZstdDictionaryCompressor") => Compression::Zstd,
            Some("" | "NoopCompressor") => Compression::None,
            Some(other) => return Err(CompressionOptionError::UnknownClass(other.to_owned())),
        };
        let block_bytes = match option.get("chunk_length_in_kb").or_else(|| option.get("chunk_length_kb")) {
            None => BLOCK_BYTES_DEFAULT,
            Some(text) => match text.parse::<usize>() {
                Ok(kib) if kib.is_power_of_two() => kib.saturating_mul(1024).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX),
                _ => return Err(CompressionOptionError::ChunkLength(text.clone())),
            },
        };
        Ok((compression, block_bytes))
    }

    /// The most bytes that `input_bytes` can become.
    pub fn len_max(self, input_bytes: usize) -> usize {
        match self {
            Compression::None => input_bytes,
            Compression::Snappy => snap::raw::max_compress_len(input_bytes),
            Compression::Lz4 => lz4_flex::block::get_maximum_output_size(input_bytes),
            Compression::Zstd => zstd::zstd_safe::compress_bound(input_bytes),
        }
    }
}

/// Compresses and expands, keeping the algorithms' tables.
pub struct Compressor {
    snappy: snap::raw::Encoder,
    lz4: lz4_flex::block::CompressTable,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Default for Compressor {
    fn default() -> Self {
        let lz4 = lz4_flex::block::CompressTable::default();
        Compressor { snappy: snap::raw::Encoder::new(), lz4, zstd: None }
    }
}

impl Compressor {
    /// Writes `input` compressed to the front of `out`, which has room for `len_max`; gives the length. `None` where it
    /// did not work or saved nothing: the block is then stored as it is.
    pub fn compress(&mut self, how: Compression, input: &[u8], out: &mut [u8]) -> Option<usize> {
        let len = match how {
            Compression::None => None,
            Compression::Snappy => self.snappy.compress(input, out).ok(),
            Compression::Lz4 => lz4_flex::block::compress_into_with_table(input, out, &mut self.lz4).ok(),
            Compression::Zstd => {
                if self.zstd.is_none() {
                    self.zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
                }
                self.zstd.as_mut()?.compress_to_buffer(input, out).ok()
            }
        };
        len.filter(|len| *len < input.len())
    }
}

/// Expands `input` to exactly `decoded_bytes`; `None` where it is anything else.
pub fn expand(how: Compression, input: &[u8], decoded_bytes: usize) -> Option<Vec<u8>> {
    if how == Compression::None {
        return (input.len() == decoded_bytes).then(|| input.to_vec());
    }
    if how == Compression::Snappy && snap::raw::decompress_len(input).ok()? != decoded_bytes {
        return None;
    }
    let mut out = vec![0; decoded_bytes];
    let len = match how {
        Compression::None => return None,
        Compression::Snappy => snap::raw::Decoder::new().decompress(input, &mut out).ok()?,
        Compression::Lz4 => lz4_flex::block::decompress_into(input, &mut out).ok()?,
        Compression::Zstd => zstd::bulk::decompress_to_buffer(input, &mut out[..]).ok()?,
    };
    (len == decoded_bytes).then_some(out)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn option(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn every_algorithm_gives_back_what_it_took() {
        let input: Vec<u8> = (0..20_000u32).map(|i| (i / 7 % 50) as u8).collect();
        let mut compressor = Compressor::default();
        for how in [Compression::Snappy, Compression::Lz4, Compression::Zstd] {
            let mut out = vec![0; how.len_max(input.len())];
            let len = compressor.compress(how, &input, &mut out).unwrap();
            assert!(len < input.len());
            assert_eq!(expand(how, &out[..len], input.len()).unwrap(), input);
            assert_eq!(expand(how, &out[..len], input.len() - 1), None, "{how:?} shorter");
            assert_eq!(expand(how, &out[..len], input.len() + 1), None, "{how:?} longer");
            assert_eq!(expand(how, &out[..len / 2], input.len()), None, "{how:?} cut");
            assert_eq!(Compression::from_tag(how.tag()), Some(how));
        }
        assert_eq!(Compression::from_tag(4), None);
    }

    #[test]
    fn what_saves_nothing_is_not_compressed() {
        let mut compressor = Compressor::default();
        let input = b"0123456789abcdef";
        for how in [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
            let mut out = vec![0; how.len_max(input.len())];
            assert_eq!(compressor.compress(how, input, &mut out), None);
        }
        assert_eq!(expand(Compression::None, input, input.len()).unwrap(), input);
    }

    #[test]
    fn the_option_chooses_class_and_chunk() {
        let of = |pairs: &[(&str, &str)]| Compression::of_option(&option(pairs));
        assert_eq!(of(&[]), Ok((Compression::Snappy, 16384)));
        assert_eq!(
            of(&[("class", "org.apache.cassandra.io.compress.LZ4Compressor"), ("chunk_length_in_kb", "64")]),
            Ok((Compression::Lz4, 65536))
        );
        assert_eq!(of(&[("class", "DeflateCompressor")]), Ok((Compression::Zstd, 16384)));
        assert_eq!(of(&[("enabled", "false")]), Ok((Compression::None, 16384)));
        assert_eq!(of(&[("sstable_compression", "")]), Ok((Compression::None, 16384)));
        assert_eq!(of(&[("chunk_length_in_kb", "1")]), Ok((Compression::Snappy, 4096)));
        assert_eq!(of(&[("chunk_length_in_kb", "3")]), Err(CompressionOptionError::ChunkLength("3".into())));
        assert_eq!(of(&[("class", "Foo")]), Err(CompressionOptionError::UnknownClass("Foo".into())));
    }
}
