//! Version 5's segments: a header under CRC24, a payload of at most 128 KiB - 1 under CRC32. Little-endian.

use super::compression::{Compressor, Damaged, decompress_lz4_block};

/// The longest payload, before compression.
pub const PAYLOAD_BYTES_MAX: usize = (1 << 17) - 1;

/// After the payload: its CRC32.
pub const TRAILER_BYTES: usize = 4;

const CRC24_BYTES: usize = 3;

/// The bits of a length in the header.
const LENGTH_BITS: u32 = 17;

const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

/// Whether a segment may be compressed: then its header has a second length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    Plain,
    Lz4,
}

impl SegmentKind {
    pub fn header_bytes(self) -> usize {
        self.length_bytes() + CRC24_BYTES
    }

    /// The bytes of the header that CRC24 covers.
    fn length_bytes(self) -> usize {
        match self {
            SegmentKind::Plain => 3,
            SegmentKind::Lz4 => 5,
        }
    }
}

/// A segment whose checksums hold, in the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// As received, compressed or not.
    pub payload: &'a [u8],
    /// What the payload decompresses to; `None` where it is not compressed.
    pub uncompressed_bytes: Option<usize>,
    /// Whole envelopes; otherwise a part of one that spans several segments.
    pub self_contained: bool,
}

/// A segment that cannot be taken. What follows it cannot be found: the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSegment {
    #[error("segment header checksum 0x{got:06x} does not match 0x{want:06x}")]
    HeaderCrc { want: u32, got: u32 },
    #[error("segment payload checksum 0x{got:08x} does not match 0x{want:08x}")]
    PayloadCrc { want: u32, got: u32 },
    #[error("segment payload: {0}")]
    Compressed(#[from] Damaged),
}

impl<'a> Segment<'a> {
    /// The whole segment's bytes.
    pub fn len_bytes(&self, kind: SegmentKind) -> usize {
        kind.header_bytes() + self.payload.len() + TRAILER_BYTES
    }

    /// Reads the segment at the start of `bytes`; `None` where more are needed.
    pub fn decode(bytes: &'a [u8], kind: SegmentKind) -> Result<Option<Segment<'a>>, BadSegment> {
        let Some((lengths, rest)) = bytes.split_at_checked(kind.length_bytes()) else { return Ok(None) };
        let Some((crc, rest)) = rest.split_first_chunk::<CRC24_BYTES>() else { return Ok(None) };
        let (want, got) = (crc24(lengths), little_endian(crc));
        if u64::from(want) != got {
            return Err(BadSegment::HeaderCrc { want, got: low_u32(got) });
        }
        let word = little_endian(lengths);
        let payload_bytes = length(word);
        let Some((payload, rest)) = rest.split_at_checked(payload_bytes) else { return Ok(None) };
        let Some(crc) = rest.first_chunk::<TRAILER_BYTES>() else { return Ok(None) };
        let (want, got) = (crc32(payload), u32::from_le_bytes(*crc));
        if want != got {
            return Err(BadSegment::PayloadCrc { want, got });
        }
        let (flag_bit, uncompressed) = match kind {
            SegmentKind::Plain => (LENGTH_BITS, 0),
            SegmentKind::Lz4 => (2 * LENGTH_BITS, length(word >> LENGTH_BITS)),
        };
        let self_contained = word >> flag_bit & 1 == 1;
        Ok(Some(Segment { payload, uncompressed_bytes: (uncompressed > 0).then_some(uncompressed), self_contained }))
    }

    /// Replaces `out` by the payload of a compressed segment.
    pub fn decompress(&self, stated_bytes: usize, out: &mut Vec<u8>) -> Result<(), BadSegment> {
        Ok(decompress_lz4_block(self.payload, stated_bytes, PAYLOAD_BYTES_MAX, out)?)
    }
}

/// Makes a segment of everything in `out` from `start` on, where room for the header was left before the payload.
/// With a compressor the payload is compressed, unless it would not get shorter.
pub fn close_segment(out: &mut Vec<u8>, start: usize, self_contained: bool, compressor: Option<&mut Compressor>) {
    let kind = if compressor.is_some() { SegmentKind::Lz4 } else { SegmentKind::Plain };
    let payload_at = start + kind.header_bytes();
    let payload = out.get(payload_at..).unwrap_or_default();
    let raw_bytes = payload.len();
    assert!(raw_bytes <= PAYLOAD_BYTES_MAX, "a segment's payload is cut before it is closed");
    let mut word =
        if self_contained { 1u64 << (LENGTH_BITS * if kind == SegmentKind::Lz4 { 2 } else { 1 }) } else { 0 };
    if let Some(compressor) = compressor {
        let block = compressor.lz4_block(payload);
        if block.len() < raw_bytes {
            word |= (raw_bytes as u64) << LENGTH_BITS;
            out.truncate(payload_at);
            out.extend_from_slice(block);
        }
    }
    let payload = out.get(payload_at..).unwrap_or_default();
    word |= payload.len() as u64;
    let trailer = crc32(payload).to_le_bytes();
    write_header(out.get_mut(start..payload_at).unwrap_or_default(), word, kind);
    out.extend_from_slice(&trailer);
}

fn write_header(header: &mut [u8], word: u64, kind: SegmentKind) {
    let (lengths, crc) = header.split_at_mut(kind.length_bytes());
    lengths.iter_mut().zip(word.to_le_bytes()).for_each(|(to, from)| *to = from);
    let checksum = crc24(lengths).to_le_bytes();
    crc.iter_mut().zip(checksum).for_each(|(to, from)| *to = from);
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn length(word: u64) -> usize {
    usize::try_from(word & LENGTH_MASK).unwrap_or_default()
}

fn low_u32(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

const CRC24_INITIAL: u32 = 0x87_5060;
const CRC24_POLYNOMIAL: u32 = 0x197_4F0B;

const CRC24_TABLE: [u32; 256] = crc24_table();

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time; at < 256")]
const fn crc24_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0u32;
    while at < 256 {
        let mut crc = at << 16;
        let mut bit = 0;
        while bit < 8 {
            crc <<= 1;
            if crc & 0x100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
            bit += 1;
        }
        table[at as usize] = crc;
        at += 1;
    }
    table
}

/// The header's checksum (the protocol's specification, version 5, section 2.2).
pub fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(CRC24_INITIAL, |crc, byte| {
        let [_, high, ..] = crc.to_be_bytes();
        let entry = CRC24_TABLE.get(usize::from(high ^ byte)).copied().unwrap_or_default();
        (crc << 8 ^ entry) & 0xff_ffff
    })
}

/// CRC32 of the four bytes `fa 2d 55 ca`, with which every payload's checksum begins.
const CRC32_INITIAL: u32 = 0x4477_7ED3;

/// The payload's checksum.
pub fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(CRC32_INITIAL);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;
    use crate::protocol::testing::noise;

    /// Bit by bit, as the specification has it.
    fn crc24_slow(bytes: &[u8]) -> u32 {
        let mut crc = CRC24_INITIAL;
        for byte in bytes {
            crc ^= u32::from(*byte) << 16;
            for _ in 0..8 {
                crc <<= 1;
                if crc & 0x100_0000 != 0 {
                    crc ^= CRC24_POLYNOMIAL;
                }
            }
        }
        crc
    }

    #[test]
    fn checksums() {
        assert_eq!(crc24(&[]), CRC24_INITIAL);
        for bytes in [&[0u8][..], &[1, 2, 3], &[0xff, 0xff, 3], &[9, 8, 7, 6, 5]] {
            assert_eq!(crc24(bytes), crc24_slow(bytes), "{bytes:?}");
        }
        assert_eq!(crc32(&[]), crc32fast::hash(&[0xfa, 0x2d, 0x55, 0xca]));
        assert_eq!(crc32(b"payload"), crc32fast::hash(b"\xfa\x2d\x55\xcapayload"));
    }

    fn seal(payload: &[u8], self_contained: bool, kind: SegmentKind) -> Vec<u8> {
        let mut out = vec![0; kind.header_bytes()];
        out.extend_from_slice(payload);
        let mut compressor = Compressor::default();
        close_segment(&mut out, 0, self_contained, (kind == SegmentKind::Lz4).then_some(&mut compressor));
        out
    }

    fn open(bytes: &[u8], kind: SegmentKind) -> (Vec<u8>, bool) {
        let segment = Segment::decode(bytes, kind).unwrap().unwrap();
        assert_eq!(segment.len_bytes(kind), bytes.len());
        let mut payload = segment.payload.to_vec();
        if let Some(stated) = segment.uncompressed_bytes {
            segment.decompress(stated, &mut payload).unwrap();
        }
        (payload, segment.self_contained)
    }

    #[test]
    fn segments_round_trip() {
        let noise = noise(500);
        for kind in [SegmentKind::Plain, SegmentKind::Lz4] {
            for payload in [&[][..], &[5], &noise, &[3; 5000], &[0; PAYLOAD_BYTES_MAX]] {
                for self_contained in [true, false] {
                    assert_eq!(open(&seal(payload, self_contained, kind), kind), (payload.to_vec(), self_contained));
                }
            }
        }
    }

    #[test]
    fn what_does_not_get_shorter_is_sent_as_it_is() {
        let bytes = seal(&[1, 2, 3, 4, 5], true, SegmentKind::Lz4);
        let segment = Segment::decode(&bytes, SegmentKind::Lz4).unwrap().unwrap();
        assert_eq!((segment.payload, segment.uncompressed_bytes), (&[1, 2, 3, 4, 5][..], None));
    }

    #[test]
    fn the_header_of_an_options_envelope() {
        let bytes = seal(&[5, 0, 0, 1, 5, 0, 0, 0, 0], true, SegmentKind::Plain);
        assert_eq!(bytes[..3], [9, 0, 2]);
        assert_eq!(bytes.len(), 6 + 9 + 4);
        let long = seal(&[0; PAYLOAD_BYTES_MAX], false, SegmentKind::Plain);
        assert_eq!(long[..3], [0xff, 0xff, 1]);
    }

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    /// Segments as an independent implementation (the Python scylla-driver) writes them.
    #[test]
    fn golden_segments() {
        let options = [5, 0, 0, 1, 5, 0, 0, 0, 0];
        let plain = unhex("090002a4c8c1050000010500000000b5557486");
        assert_eq!(seal(&options, true, SegmentKind::Plain), plain);
        assert_eq!(open(&plain, SegmentKind::Plain), (options.to_vec(), true));
        let incompressible = unhex("0900000004c2b895050000010500000000b5557486");
        assert_eq!(seal(&options, true, SegmentKind::Lz4), incompressible);
        assert_eq!(open(&incompressible, SegmentKind::Lz4), (options.to_vec(), true));
        let query = [&[5, 0, 0, 1, 7, 0, 0, 0, 64][..], &[b'a'; 64]].concat();
        let compressed = unhex("14009200048158ecaf050000010700000040610100275061616161617b8c7523");
        assert_eq!(open(&compressed, SegmentKind::Lz4), (query, true));
    }

    #[test]
    fn every_truncation_needs_more_and_every_flipped_bit_is_found() {
        for kind in [SegmentKind::Plain, SegmentKind::Lz4] {
            let good = seal(b"some bytes some bytes some bytes some bytes", true, kind);
            for len in 0..good.len() {
                assert_eq!(Segment::decode(&good[..len], kind), Ok(None));
            }
            for bit in 0..8 * good.len() {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(Segment::decode(&bad, kind).is_err(), "{kind:?} bit {bit}");
            }
        }
    }

    #[test]
    fn a_stated_size_that_lies_is_an_error() {
        let mut bytes = seal(&[7; 100], true, SegmentKind::Lz4);
        let lengths = little_endian(&bytes[..5]);
        for stated in [1u64, 99, 101, LENGTH_MASK] {
            let word = (lengths & !(LENGTH_MASK << LENGTH_BITS)) | stated << LENGTH_BITS;
            write_header(&mut bytes[..8], word, SegmentKind::Lz4);
            let segment = Segment::decode(&bytes, SegmentKind::Lz4).unwrap().unwrap();
            let stated_bytes = segment.uncompressed_bytes.unwrap();
            assert!(segment.decompress(stated_bytes, &mut Vec::new()).is_err(), "{stated}");
        }
    }
}
