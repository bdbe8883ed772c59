//! The frame around a small file that is replaced whole: magic, format version, length, CRC32C, then the body.
//! Also the plain reader and writer of the bodies, and the replacement itself.
#![doc = include_str!("FORMAT.md")]

use std::path::{Path, PathBuf};

use crate::base::plants::{Plant, Planted};
use crate::io::{Io, IoError};

const MAGIC_BYTES: usize = 8;
const FRAME_BYTES: usize = MAGIC_BYTES + 12;
const LENGTH_AT: usize = MAGIC_BYTES + 4;
const CRC_AT: usize = MAGIC_BYTES + 8;
/// A body longer than this is damage.
const BODY_BYTES_MAX: usize = 256 << 20;
/// What a file is called while its next content is written.
pub const NEW_SUFFIX: &str = ".new";

/// What a file is and which version of it this code writes.
#[derive(Clone, Copy, Debug)]
pub struct FileKind {
    pub magic: [u8; MAGIC_BYTES],
    pub version: u32,
    pub noun: &'static str,
}

/// Why a framed file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("it is no {noun}: the magic at byte 0 differs")]
    Magic { noun: &'static str },
    #[error("its length is {got} bytes where {want} are stated at byte {stated_at}", stated_at = LENGTH_AT)]
    Length { want: usize, got: usize },
    #[error("the checksum of all of it is {got:08x}, not {want:08x} as at byte {stated_at}", stated_at = CRC_AT)]
    Crc { want: u32, got: u32 },
    #[error("it has format version {found}, newer than {supported}, the newest that this version of Helenus reads")]
    NewerVersion { found: u32, supported: u32 },
    #[error("the field {field} at byte {at} of the body is cut short or out of range")]
    Field { field: &'static str, at: usize },
    #[error("{bytes} bytes are left over at the end, from byte {at} of the body")]
    LeftOver { bytes: usize, at: usize },
}

/// Puts the frame around `body`.
pub fn frame(kind: FileKind, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_BYTES + body.len());
    out.extend_from_slice(&kind.magic);
    out.extend_from_slice(&kind.version.to_le_bytes());
    let length = u32::try_from(body.len()).expect("a body is smaller than 256 MiB");
    out.extend_from_slice(&length.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&out), body);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(body);
    out
}

/// Takes the frame off: the body's reader.
pub fn unframe(kind: FileKind, bytes: &[u8]) -> Result<BodyReader<'_>, FrameError> {
    if bytes.first_chunk::<MAGIC_BYTES>() != Some(&kind.magic) {
        return Err(FrameError::Magic { noun: kind.noun });
    }
    let Some((head, body)) = bytes.split_first_chunk::<FRAME_BYTES>() else {
        return Err(FrameError::Length { want: FRAME_BYTES, got: bytes.len() });
    };
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (version, length, want) = (word(MAGIC_BYTES), word(LENGTH_AT) as usize, word(CRC_AT));
    if length > BODY_BYTES_MAX || length != body.len() {
        return Err(FrameError::Length { want: length.saturating_add(FRAME_BYTES), got: bytes.len() });
    }
    let got = crc32c::crc32c_append(crc32c::crc32c(&head[..MAGIC_BYTES + 8]), body);
    if want != got {
        return Err(FrameError::Crc { want, got });
    }
    if version > kind.version {
        return Err(FrameError::NewerVersion { found: version, supported: kind.version });
    }
    Ok(BodyReader { bytes: body, at: 0 })
}

/// Replaces `dir/name` so that a crash leaves the old or the new content: write aside, sync, rename, sync the directory.
pub async fn replace(io: &Io, dir: &Path, name: &str, bytes: &[u8], planted: Planted) -> Result<(), IoError> {
    let path: PathBuf = dir.join(name);
    let aside = dir.join(format!("{name}{NEW_SUFFIX}"));
    io.write_file_synced(&aside, bytes).await?;
    io.rename(&aside, &path).await?;
    if planted.is(Plant::SkipDirectorySync) {
        return Ok(());
    }
    io.sync_dir(dir).await
}

/// Appends fields to a body. Integers are little-endian; byte strings carry a 32-bit length.
#[derive(Default)]
pub struct BodyWriter(pub Vec<u8>);

impl BodyWriter {
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn raw(&mut self, bytes: &[u8; 16]) {
        self.0.extend_from_slice(bytes);
    }

    pub fn text(&mut self, value: &str) {
        self.count(value.len());
        self.0.extend_from_slice(value.as_bytes());
    }

    pub fn count(&mut self, items: usize) {
        self.u32(u32::try_from(items).expect("a manifest counts fewer than 2^32 items"));
    }
}

/// Reads fields off a body; an error names the field and where it stands.
#[derive(Debug)]
pub struct BodyReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BodyReader<'a> {
    fn take(&mut self, bytes: usize, field: &'static str) -> Result<&'a [u8], FrameError> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..bytes)).ok_or(self.bad(field))?;
        self.at += bytes;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], FrameError> {
        let bad = self.bad(field);
        self.take(N, field)?.try_into().map_err(|_| bad)
    }

    /// The error for a field whose value is out of range.
    pub fn bad(&self, field: &'static str) -> FrameError {
        FrameError::Field { field, at: self.at }
    }

    pub fn u8(&mut self, field: &'static str) -> Result<u8, FrameError> {
        Ok(self.array::<1>(field)?[0])
    }

    pub fn u16(&mut self, field: &'static str) -> Result<u16, FrameError> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    pub fn u32(&mut self, field: &'static str) -> Result<u32, FrameError> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    pub fn u64(&mut self, field: &'static str) -> Result<u64, FrameError> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    pub fn i64(&mut self, field: &'static str) -> Result<i64, FrameError> {
        Ok(i64::from_le_bytes(self.array(field)?))
    }

    pub fn raw(&mut self, field: &'static str) -> Result<[u8; 16], FrameError> {
        self.array(field)
    }

    pub fn text(&mut self, field: &'static str) -> Result<String, FrameError> {
        let bytes = self.u32(field)? as usize;
        let bad = self.bad(field);
        let text = std::str::from_utf8(self.take(bytes, field)?).map_err(|_| bad)?;
        Ok(text.to_owned())
    }

    /// A number of items that follow, each of at least `item_bytes_min`: never more than the bytes left allow.
    pub fn count(&mut self, item_bytes_min: usize, field: &'static str) -> Result<usize, FrameError> {
        let items = self.u32(field)? as usize;
        let left = self.bytes.len() - self.at;
        if items > left / item_bytes_min.max(1) {
            return Err(self.bad(field));
        }
        Ok(items)
    }

    /// Nothing may be left.
    pub fn finish(self) -> Result<(), FrameError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            bytes => Err(FrameError::LeftOver { bytes, at: self.at }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    const KIND: FileKind = FileKind { magic: *b"TESTFILE", version: 2, noun: "test file" };

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let whole = frame(KIND, b"some body");
        for byte in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[byte] ^= 1 << bit;
                assert!(unframe(KIND, &damaged).is_err(), "byte {byte} bit {bit}");
            }
            assert!(unframe(KIND, &whole[..byte]).is_err(), "cut at {byte}");
        }
    }

    #[test]
    fn damage_is_told_with_its_place() {
        let whole = frame(KIND, b"some body");
        let told = |byte: usize| {
            let mut damaged = whole.clone();
            damaged[byte] ^= 1;
            unframe(KIND, &damaged).unwrap_err().to_string()
        };
        assert_eq!(told(0), "it is no test file: the magic at byte 0 differs");
        assert!(told(12).ends_with("are stated at byte 12"), "{}", told(12));
        assert!(told(16).ends_with("as at byte 16") && told(25).ends_with("as at byte 16"), "{}", told(25));
    }

    #[test]
    fn a_newer_version_is_named_and_an_older_one_is_read() {
        let newer = frame(FileKind { version: 3, ..KIND }, b"");
        assert_eq!(unframe(KIND, &newer).unwrap_err(), FrameError::NewerVersion { found: 3, supported: 2 });
        assert!(unframe(KIND, &frame(FileKind { version: 1, ..KIND }, b"")).is_ok());
    }

    #[test]
    fn fields_round_trip_and_a_short_one_is_named() {
        let mut body = BodyWriter::default();
        body.u8(1);
        body.u16(2);
        body.u32(3);
        body.u64(4);
        body.i64(-5);
        body.raw(&[6; 16]);
        body.text("ring");
        let bytes = frame(KIND, &body.0);
        let mut reader = unframe(KIND, &bytes).unwrap();
        assert_eq!(reader.u8("a"), Ok(1));
        assert_eq!(reader.u16("b"), Ok(2));
        assert_eq!(reader.u32("c"), Ok(3));
        assert_eq!(reader.u64("d"), Ok(4));
        assert_eq!(reader.i64("e"), Ok(-5));
        assert_eq!(reader.raw("f"), Ok([6; 16]));
        assert_eq!(reader.text("g").unwrap(), "ring");
        assert_eq!(reader.u8("h"), Err(FrameError::Field { field: "h", at: 47 }));
        reader.finish().unwrap();
    }

    #[test]
    fn a_count_that_lies_allocates_nothing() {
        let mut body = BodyWriter::default();
        body.u32(u32::MAX);
        body.u64(0);
        let bytes = frame(KIND, &body.0);
        assert!(unframe(KIND, &bytes).unwrap().count(8, "items").is_err());
    }

    proptest! {
        #[test]
        fn any_body_round_trips(body: Vec<u8>) {
            let bytes = frame(KIND, &body);
            prop_assert_eq!(unframe(KIND, &bytes).unwrap().bytes, body.as_slice());
        }

        #[test]
        fn any_bytes_give_an_error(bytes: Vec<u8>) {
            prop_assert!(unframe(KIND, &bytes).is_err());
        }
    }
}
