//! The frame around everything that is read back from an SSTable: what it is, how it is compressed, its lengths, and a
//! CRC32C into which the frame's own place in the file is mixed. See FORMAT.md.

use crate::sstable::compression::{Compression, Compressor, expand};

pub const FRAME_HEADER_BYTES: usize = 16;
/// The part of the header that the checksum covers; the checksum itself follows it.
const CHECKED_BYTES: usize = 12;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Data,
    /// An index block that points at data blocks.
    Leaf,
    /// The index block that points at the leaves.
    Root,
    Filter,
    Statistics,
}

impl FrameKind {
    fn tag(self) -> u8 {
        match self {
            FrameKind::Data => 1,
            FrameKind::Leaf => 2,
            FrameKind::Root => 3,
            FrameKind::Filter => 4,
            FrameKind::Statistics => 5,
        }
    }
}

/// Why bytes are not the frame that was looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameDamage {
    #[error("a frame of {len} bytes is too short")]
    Short { len: usize },
    #[error("a frame of kind {found} where kind {wanted} belongs")]
    Kind { found: u8, wanted: u8 },
    #[error("a frame of {stored} bytes where {present} are present")]
    Length { stored: u64, present: usize },
    #[error("checksum {found:#010x}, computed {computed:#010x}")]
    Crc { found: u32, computed: u32 },
    #[error("unknown compression {tag}")]
    Compression { tag: u8 },
    #[error("{stored} bytes do not expand to {decoded}")]
    Expansion { stored: usize, decoded: u32 },
}

/// The lengths at a frame's head, before anything is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLengths {
    /// Header and stored bytes.
    pub framed: u64,
    pub decoded: u32,
}

/// Room that `seal` needs for a body.
pub fn sealed_len_max(how: Compression, body_bytes: usize) -> usize {
    FRAME_HEADER_BYTES + how.len_max(body_bytes).max(body_bytes)
}

/// Frames `body`, compressed once, at the front of `out`; gives the frame's length. `offset_bytes` is where the frame
/// will stand in the file.
pub fn seal(
    kind: FrameKind,
    how: Compression,
    compressor: &mut Compressor,
    body: &[u8],
    offset_bytes: u64,
    out: &mut [u8],
) -> usize {
    let (header, rest) = out.split_at_mut(FRAME_HEADER_BYTES);
    let (how, stored) = match compressor.compress(how, body, rest) {
        Some(len) => (how, len),
        None => {
            rest[..body.len()].copy_from_slice(body);
            (Compression::None, body.len())
        }
    };
    let length = |len: usize| u32::try_from(len).expect("a block is far below 4 GiB: rows are bounded").to_le_bytes();
    header[0] = kind.tag();
    header[1] = how.tag();
    header[2..4].fill(0);
    header[4..8].copy_from_slice(&length(stored));
    header[8..12].copy_from_slice(&length(body.len()));
    let crc = checksum(&header[..CHECKED_BYTES], &rest[..stored], offset_bytes);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    FRAME_HEADER_BYTES + stored
}

/// The lengths that a frame's header names.
pub fn lengths(bytes: &[u8]) -> Option<FrameLengths> {
    let header = bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    Some(FrameLengths { framed: FRAME_HEADER_BYTES as u64 + u64::from(word(4)), decoded: word(8) })
}

/// Checks and expands the frame that is exactly `bytes` and stands at `offset_bytes`.
pub fn open(kind: FrameKind, bytes: &[u8], offset_bytes: u64) -> Result<Vec<u8>, FrameDamage> {
    let Some((header, stored)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else {
        return Err(FrameDamage::Short { len: bytes.len() });
    };
    let Some(FrameLengths { framed, decoded }) = lengths(bytes) else {
        return Err(FrameDamage::Short { len: bytes.len() });
    };
    if framed != bytes.len() as u64 {
        return Err(FrameDamage::Length { stored: framed, present: bytes.len() });
    }
    let found = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
    let computed = checksum(&header[..CHECKED_BYTES], stored, offset_bytes);
    if found != computed {
        return Err(FrameDamage::Crc { found, computed });
    }
    if header[0] != kind.tag() {
        return Err(FrameDamage::Kind { found: header[0], wanted: kind.tag() });
    }
    let how = Compression::from_tag(header[1]).ok_or(FrameDamage::Compression { tag: header[1] })?;
    expand(how, stored, decoded as usize).ok_or(FrameDamage::Expansion { stored: stored.len(), decoded })
}

fn checksum(header: &[u8], stored: &[u8], offset_bytes: u64) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(header), stored);
    crc32c::crc32c_append(crc, &offset_bytes.to_le_bytes())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn sealed(how: Compression, body: &[u8], offset: u64) -> Vec<u8> {
        let mut out = vec![0; sealed_len_max(how, body.len())];
        let len = seal(FrameKind::Data, how, &mut Compressor::default(), body, offset, &mut out);
        out.truncate(len);
        out
    }

    #[test]
    fn a_frame_opens_where_it_was_sealed_and_nowhere_else() {
        let body = [b"the same words again and again ".as_slice(); 30].concat();
        for how in [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
            let frame = sealed(how, &body, 8192);
            assert_eq!(lengths(&frame).unwrap().framed, frame.len() as u64);
            assert_eq!(open(FrameKind::Data, &frame, 8192).unwrap(), body);
            assert!(matches!(open(FrameKind::Data, &frame, 4096), Err(FrameDamage::Crc { .. })));
            assert_eq!(open(FrameKind::Leaf, &frame, 8192), Err(FrameDamage::Kind { found: 1, wanted: 2 }));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let frame = sealed(Compression::Snappy, &[7; 300], 0);
        for at in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(open(FrameKind::Data, &damaged, 0).is_err(), "bit {at}");
        }
        for len in 0..frame.len() {
            assert!(open(FrameKind::Data, &frame[..len], 0).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn an_empty_body_is_a_frame_too() {
        let frame = sealed(Compression::Zstd, b"", 5);
        assert_eq!(frame.len(), FRAME_HEADER_BYTES);
        assert_eq!(open(FrameKind::Data, &frame, 5).unwrap(), b"");
    }
}
