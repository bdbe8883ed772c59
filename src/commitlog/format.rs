//! The bytes of the commit log: block headers, record headers, names of segment files. Pure: no I/O here.
//! `FORMAT.md` beside this file states the layout; the constants below are its offsets.

use crate::base::ids::{LogPosition, SegmentId, StreamId, TableId};

/// Blocks start at multiples of this, and are padded to it.
pub const BLOCK_ALIGN_BYTES: usize = 4096;
/// The header at the start of each block.
pub const BLOCK_HEADER_BYTES: usize = 64;
/// The header before each record's body.
pub const RECORD_HEADER_BYTES: usize = 12;
/// The version that this code writes, and the highest that it reads.
pub const FORMAT_VERSION: u16 = 2;
/// The first version, whose checksums were made otherwise. It is still read.
const FIRST_VERSION: u16 = 1;

const RECORD_CRC_BYTES: usize = 4;
/// Of records' checksums, how many bytes are taken at a time.
const GATHERED_BYTES: usize = 64 * RECORD_CRC_BYTES;

const MAGIC: [u8; 4] = *b"HLOG";
const TABLE_SCHEMA_FIXED_BYTES: usize = 20;

/// What a record is. Kinds 16 to 19 are reserved: a log that holds one stops replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// One encoded mutation.
    Mutation,
    /// The whole of a logged batch, before any part of it is distributed.
    BatchIntent,
    /// All parts of a batch are durable.
    BatchCompletion,
    /// A table's schema, for the records behind it in the same segment.
    TableSchema,
    /// The log was closed here, with everything before it synced.
    End,
}

impl RecordKind {
    pub fn code(self) -> u8 {
        match self {
            RecordKind::Mutation => 1,
            RecordKind::BatchIntent => 2,
            RecordKind::BatchCompletion => 3,
            RecordKind::TableSchema => 4,
            RecordKind::End => 5,
        }
    }

    pub fn from_code(code: u8) -> Option<RecordKind> {
        Some(match code {
            1 => RecordKind::Mutation,
            2 => RecordKind::BatchIntent,
            3 => RecordKind::BatchCompletion,
            4 => RecordKind::TableSchema,
            5 => RecordKind::End,
            _ => return None,
        })
    }

    /// What a reserved code will mean, for an error's text.
    pub fn reserved_name(code: u8) -> &'static str {
        match code {
            16 => "promise",
            17 => "accept",
            18 => "commit",
            19 => "hint",
            _ => "unknown",
        }
    }
}

/// Where bytes stand: part of every checksum, so that bytes of another place or another use never pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub stream: StreamId,
    pub segment: SegmentId,
    pub offset_bytes: u32,
}

impl Place {
    pub fn position(self) -> LogPosition {
        LogPosition { segment: self.segment, offset_bytes: self.offset_bytes }
    }

    /// What the checksum of a record here begins from, in blocks of this version.
    pub fn record_seed(self, version: u16) -> u32 {
        if version == FIRST_VERSION {
            return crc32c::crc32c_append(self.segment_seed(), &self.offset_bytes.to_le_bytes());
        }
        record_seed(self.segment_seed(), self.offset_bytes)
    }

    /// What `record_seed` takes of the segment.
    pub fn segment_seed(self) -> u32 {
        let mut use_of_file = [0u8; 12];
        use_of_file[..4].copy_from_slice(&self.stream.0.to_le_bytes());
        use_of_file[4..].copy_from_slice(&self.segment.0.to_le_bytes());
        crc32c::crc32c(&use_of_file)
    }

    /// The place `bytes` further on in the same segment. The caller stays within a segment, whose size fits 32 bits.
    pub fn plus(self, bytes: usize) -> Place {
        let bytes = u32::try_from(bytes).expect("a segment is smaller than 4 GiB");
        Place { offset_bytes: self.offset_bytes + bytes, ..self }
    }
}

/// A block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    pub version: u16,
    pub place: Place,
    /// Bytes of records after the header, without the padding.
    pub payload_bytes: u32,
    /// What `payload_crc` gives for the records.
    pub payload_crc: u32,
    /// Everything before this position was synced when the block was built.
    pub synced: LogPosition,
    /// The segment before this one and where it ends. What it holds from there on was cut off by a recovery.
    pub previous_end: LogPosition,
}

/// Why the bytes at a place are no block of this segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBlock {
    #[error("zeros, never written")]
    Blank,
    #[error("no block header")]
    NoHeader,
    #[error("the header's checksum is {got:08x}, not {want:08x}")]
    HeaderCrc { want: u32, got: u32 },
    #[error("a block of stream {} segment {} offset {}", .0.stream.0, .0.segment.0, .0.offset_bytes)]
    Foreign(Place),
    #[error("a block of {payload_bytes} bytes where {room_bytes} are left")]
    Length { payload_bytes: u32, room_bytes: usize },
    #[error("the block's checksum is {got:08x}, not {want:08x}")]
    PayloadCrc { want: u32, got: u32 },
    #[error("the record at offset {0}: {1}")]
    Record(u32, BadRecord),
    #[error("written by a newer format, version {0}")]
    NewerVersion(u16),
}

impl BlockHeader {
    /// The whole block's bytes, padding included.
    pub fn block_bytes(&self) -> usize {
        padded(BLOCK_HEADER_BYTES + self.payload_bytes as usize)
    }

    /// Where the next block starts.
    pub fn end(&self) -> Place {
        self.place.plus(self.block_bytes())
    }

    pub fn encode(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut out = [0u8; BLOCK_HEADER_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&self.version.to_le_bytes());
        put(&[0; 2]);
        put(&[0; 4]); // the header's checksum, below
        put(&self.place.stream.0.to_le_bytes());
        put(&self.place.segment.0.to_le_bytes());
        put(&self.place.offset_bytes.to_le_bytes());
        put(&self.payload_bytes.to_le_bytes());
        put(&self.payload_crc.to_le_bytes());
        put(&self.synced.offset_bytes.to_le_bytes());
        put(&self.synced.segment.0.to_le_bytes());
        put(&self.previous_end.segment.0.to_le_bytes());
        put(&self.previous_end.offset_bytes.to_le_bytes());
        put(&[0; 4]);
        let crc = header_crc(&out);
        out[8..12].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the header at the front of `bytes`, which were found at `place`. The payload is not looked at.
    pub fn decode(bytes: &[u8], place: Place) -> Result<BlockHeader, BadBlock> {
        let header = Self::decode_anywhere(bytes)?;
        if header.place != place {
            return Err(BadBlock::Foreign(header.place));
        }
        Ok(header)
    }

    /// Reads a header whatever place it names.
    pub fn decode_anywhere(bytes: &[u8]) -> Result<BlockHeader, BadBlock> {
        let Some(raw) = bytes.first_chunk::<BLOCK_HEADER_BYTES>() else { return Err(BadBlock::NoHeader) };
        if raw.iter().all(|byte| *byte == 0) {
            return Err(BadBlock::Blank);
        }
        if raw[..4] != MAGIC {
            return Err(BadBlock::NoHeader);
        }
        let (want, got) = (u32_at(raw, 8), header_crc(raw));
        if want != got {
            return Err(BadBlock::HeaderCrc { want, got });
        }
        let version = u16::from_le_bytes([raw[4], raw[5]]);
        if !(FIRST_VERSION..=FORMAT_VERSION).contains(&version) {
            return Err(BadBlock::NewerVersion(version));
        }
        Ok(BlockHeader {
            version,
            place: Place {
                stream: StreamId(u32_at(raw, 12)),
                segment: SegmentId(u64_at(raw, 16)),
                offset_bytes: u32_at(raw, 24),
            },
            payload_bytes: u32_at(raw, 28),
            payload_crc: u32_at(raw, 32),
            synced: LogPosition { offset_bytes: u32_at(raw, 36), segment: SegmentId(u64_at(raw, 40)) },
            previous_end: LogPosition { segment: SegmentId(u64_at(raw, 48)), offset_bytes: u32_at(raw, 56) },
        })
    }

    /// The payload of this header's block, whose bytes start `block`. Checks length and checksums, those of the records too.
    pub fn payload<'a>(&self, block: &'a [u8]) -> Result<&'a [u8], BadBlock> {
        let from = block.get(BLOCK_HEADER_BYTES..).unwrap_or_default();
        let Some(payload) = from.get(..self.payload_bytes as usize) else {
            return Err(BadBlock::Length { payload_bytes: self.payload_bytes, room_bytes: from.len() });
        };
        let got = if self.version == FIRST_VERSION {
            crc32c::crc32c(payload)
        } else {
            if let Some(Err((at, bad))) = Records::new(self, payload).find(Result::is_err) {
                return Err(BadBlock::Record(at.offset_bytes, bad));
            }
            payload_crc(payload)
        };
        if got != self.payload_crc {
            return Err(BadBlock::PayloadCrc { want: self.payload_crc, got });
        }
        Ok(payload)
    }
}

/// The checksum over a block's records: over their own checksums, each of which covers the rest of its record. Up to the
/// first record that does not fit.
pub fn payload_crc(payload: &[u8]) -> u32 {
    let (mut crc, mut rest) = (0, payload);
    let mut gathered = [0; GATHERED_BYTES];
    loop {
        let mut gathered_bytes = 0;
        for slot in gathered.as_chunks_mut::<RECORD_CRC_BYTES>().0 {
            let Some((record_crc, body_bytes)) = record_head(rest) else { break };
            *slot = record_crc;
            gathered_bytes += RECORD_CRC_BYTES;
            rest = rest.get(RECORD_HEADER_BYTES + body_bytes..).unwrap_or_default();
        }
        crc = crc32c::crc32c_append(crc, &gathered[..gathered_bytes]);
        if gathered_bytes < GATHERED_BYTES {
            return crc;
        }
    }
}

/// Checksum and length of the body of the record at the front of `bytes`, as they stand there.
fn record_head(bytes: &[u8]) -> Option<([u8; RECORD_CRC_BYTES], usize)> {
    let &[a, b, c, d, len @ .., _, _, _, _] = bytes.first_chunk::<RECORD_HEADER_BYTES>()?;
    Some(([a, b, c, d], u32::from_le_bytes(len) as usize))
}

/// `bytes` rounded up to whole blocks.
pub fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_ALIGN_BYTES)
}

fn header_crc(header: &[u8; BLOCK_HEADER_BYTES]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..8]), &header[12..])
}

fn u32_at(raw: &[u8; BLOCK_HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
}

fn u64_at(raw: &[u8; BLOCK_HEADER_BYTES], at: usize) -> u64 {
    u64::from(u32_at(raw, at)) | u64::from(u32_at(raw, at + 4)) << 32
}

/// What a record's checksum begins from at an offset of a segment.
#[inline]
pub fn record_seed(segment_seed: u32, offset_bytes: u32) -> u32 {
    segment_seed ^ offset_bytes
}

/// Writes one record to the front of `out`: header, then the concatenation of `body`; its checksum begins from `seed`
/// (`Place::record_seed`). Gives its whole length.
///
/// # Panics
/// Where `out` is too short: the caller has made room.
pub fn write_record(out: &mut [u8], seed: u32, kind: RecordKind, body: &[&[u8]]) -> usize {
    let mut end = RECORD_HEADER_BYTES;
    for part in body {
        out[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    let body_bytes = u32::try_from(end - RECORD_HEADER_BYTES).expect("a record is smaller than a segment");
    out[4..8].copy_from_slice(&body_bytes.to_le_bytes());
    out[8] = kind.code();
    out[9..RECORD_HEADER_BYTES].fill(0);
    let crc = crc32c::crc32c_append(seed, &out[4..end]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
    end
}

/// A record as it stands in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    pub place: Place,
    pub kind: u8,
    pub body: &'a [u8],
}

/// Why a record inside a block cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    #[error("a record of {body_bytes} bytes where {room_bytes} are left")]
    Length { body_bytes: usize, room_bytes: usize },
    #[error("the record's checksum is {got:08x}, not {want:08x}")]
    Crc { want: u32, got: u32 },
}

/// The records of one block's payload, in order. Ends after the first bad one.
pub struct Records<'a> {
    version: u16,
    place: Place,
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// `payload` is what follows the block's header.
    pub fn new(block: &BlockHeader, payload: &'a [u8]) -> Records<'a> {
        Records { version: block.version, place: block.place.plus(BLOCK_HEADER_BYTES), rest: payload }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RawRecord<'a>, (Place, BadRecord)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match read_record(self.rest, self.place, self.version) {
            Ok(record) => {
                let bytes = RECORD_HEADER_BYTES + record.body.len();
                self.rest = &self.rest[bytes..];
                self.place = self.place.plus(bytes);
                Some(Ok(record))
            }
            Err(bad) => {
                self.rest = &[];
                Some(Err((self.place, bad)))
            }
        }
    }
}

/// Reads the record at the front of `bytes`, which stand at `place`, in a block of this version.
pub fn read_record(bytes: &[u8], place: Place, version: u16) -> Result<RawRecord<'_>, BadRecord> {
    let Some((want, body_bytes)) = record_head(bytes) else {
        return Err(BadRecord::Length { body_bytes: 0, room_bytes: bytes.len() });
    };
    let want = u32::from_le_bytes(want);
    let room_bytes = bytes.len() - RECORD_HEADER_BYTES;
    let Some(body) = bytes[RECORD_HEADER_BYTES..].get(..body_bytes) else {
        return Err(BadRecord::Length { body_bytes, room_bytes });
    };
    let got = crc32c::crc32c_append(place.record_seed(version), &bytes[4..RECORD_HEADER_BYTES + body.len()]);
    if got != want {
        return Err(BadRecord::Crc { want, got });
    }
    Ok(RawRecord { place, kind: bytes[8], body })
}

/// The fixed front of a table schema's record; the opaque schema follows.
pub fn table_schema_front(table: TableId, version: u32) -> [u8; TABLE_SCHEMA_FIXED_BYTES] {
    let mut out = [0u8; TABLE_SCHEMA_FIXED_BYTES];
    out[..16].copy_from_slice(&table.0);
    out[16..].copy_from_slice(&version.to_le_bytes());
    out
}

/// Reads the body of a table schema's record: table, version, and the opaque schema. `None` where it is too short.
pub fn read_table_schema(body: &[u8]) -> Option<(TableId, u32, &[u8])> {
    let (front, schema) = body.split_first_chunk::<TABLE_SCHEMA_FIXED_BYTES>()?;
    let (table, version) = front.split_first_chunk::<16>()?;
    Some((TableId(*table), u32::from_le_bytes(version.try_into().ok()?), schema))
}

/// The name of a segment's file: `log-<stream>-<segment>`, both in hexadecimal.
pub fn segment_file_name(stream: StreamId, segment: SegmentId) -> String {
    format!("log-{:08x}-{:016x}", stream.0, segment.0)
}

/// Reads such a name back. `None` for any other name.
pub fn parse_segment_file_name(name: &str) -> Option<(StreamId, SegmentId)> {
    let (stream, segment) = name.strip_prefix("log-")?.split_once('-')?;
    let parsed = (StreamId(u32::from_str_radix(stream, 16).ok()?), SegmentId(u64::from_str_radix(segment, 16).ok()?));
    (segment_file_name(parsed.0, parsed.1) == name).then_some(parsed)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn place(offset_bytes: u32) -> Place {
        Place { stream: StreamId(3), segment: SegmentId(7), offset_bytes }
    }

    fn position(segment: u64, offset_bytes: u32) -> LogPosition {
        LogPosition { segment: SegmentId(segment), offset_bytes }
    }

    /// A block with these bodies, padded.
    fn block(at: Place, bodies: &[Vec<u8>]) -> Vec<u8> {
        block_of(FORMAT_VERSION, payload_crc, at, bodies)
    }

    fn block_of(version: u16, crc: fn(&[u8]) -> u32, at: Place, bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut payload = Vec::new();
        for body in bodies {
            let start = payload.len();
            payload.resize(start + RECORD_HEADER_BYTES + body.len(), 0);
            let record = at.plus(BLOCK_HEADER_BYTES + start);
            write_record(&mut payload[start..], record.record_seed(version), RecordKind::Mutation, &[body]);
        }
        let header = BlockHeader {
            version,
            place: at,
            payload_bytes: payload.len() as u32,
            payload_crc: crc(&payload),
            synced: position(7, 0),
            previous_end: position(6, 8192),
        };
        let mut out = header.encode().to_vec();
        out.extend(payload);
        out.resize(header.block_bytes(), 0);
        out
    }

    fn bodies(bytes: &[u8], at: Place) -> Option<Vec<Vec<u8>>> {
        let header = BlockHeader::decode(bytes, at).ok()?;
        let payload = header.payload(bytes).ok()?;
        Records::new(&header, payload).map(|record| record.ok().map(|record| record.body.to_vec())).collect()
    }

    /// The worked example of FORMAT.md.
    #[test]
    fn the_worked_example() {
        let bytes = block(place(4096), &[b"hello".to_vec()]);
        let shown: Vec<String> = bytes[..81].chunks(16).map(hex).collect();
        let document = include_str!("FORMAT.md");
        for line in shown {
            assert!(document.contains(&line), "FORMAT.md lacks the line {line}");
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_header_is_good_at_its_own_place_only() {
        let bytes = block(place(4096), &[vec![1, 2, 3]]);
        assert!(BlockHeader::decode(&bytes, place(4096)).is_ok());
        assert_eq!(BlockHeader::decode(&bytes, place(8192)), Err(BadBlock::Foreign(place(4096))));
        let other_use = Place { segment: SegmentId(8), ..place(4096) };
        assert_eq!(BlockHeader::decode(&bytes, other_use), Err(BadBlock::Foreign(place(4096))));
        assert_eq!(BlockHeader::decode(&[0; 64], place(0)), Err(BadBlock::Blank));
        assert_eq!(BlockHeader::decode(&[7; 63], place(0)), Err(BadBlock::NoHeader));
    }

    #[test]
    fn a_record_of_another_use_fails_its_checksum() {
        for version in FIRST_VERSION..=FORMAT_VERSION {
            let mut out = [0u8; 32];
            let seed = place(64).record_seed(version);
            let bytes = write_record(&mut out, seed, RecordKind::Mutation, &[b"ab", b"", b"c"]);
            assert_eq!(bytes, RECORD_HEADER_BYTES + 3);
            assert_eq!(read_record(&out[..bytes], place(64), version).unwrap().body, b"abc");
            let elsewhere =
                [place(65), Place { segment: SegmentId(8), ..place(64) }, Place { stream: StreamId(4), ..place(64) }];
            for wrong in elsewhere {
                assert!(matches!(read_record(&out[..bytes], wrong, version), Err(BadRecord::Crc { .. })));
            }
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut bytes = block(place(0), &[]);
        bytes[4] = 9;
        let crc = header_crc(bytes.first_chunk().unwrap());
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(BlockHeader::decode(&bytes, place(0)), Err(BadBlock::NewerVersion(9)));
    }

    #[test]
    fn every_flipped_bit_of_header_or_records_is_seen() {
        let written = vec![b"first".to_vec(), Vec::new(), vec![0; 40]];
        let used = BLOCK_HEADER_BYTES + 3 * RECORD_HEADER_BYTES + 45;
        let first = block_of(FIRST_VERSION, crc32c::crc32c, place(0), &written);
        for whole in [block(place(0), &written), first] {
            for byte in 0..used {
                for bit in 0..8 {
                    let mut damaged = whole.clone();
                    damaged[byte] ^= 1 << bit;
                    assert_eq!(bodies(&damaged, place(0)), None, "byte {byte} bit {bit}");
                }
            }
            let mut padding = whole.clone();
            padding[used] ^= 1;
            assert_eq!(bodies(&padding, place(0)), Some(written.clone()));
        }
    }

    /// A whole record in the place of another, or behind the last one, is not what was written.
    #[test]
    fn a_record_too_many_or_too_few_is_seen() {
        let written = [b"one".to_vec(), b"two".to_vec()];
        let (both, other) = (block(place(0), &written), block(place(0), &[b"one".to_vec(), b"2.0".to_vec()]));
        let (one_bytes, used) = (RECORD_HEADER_BYTES + 3, BLOCK_HEADER_BYTES + 2 * (RECORD_HEADER_BYTES + 3));
        let mut exchanged = both.clone();
        exchanged[BLOCK_HEADER_BYTES + one_bytes..used].copy_from_slice(&other[BLOCK_HEADER_BYTES + one_bytes..used]);
        assert_eq!(bodies(&exchanged, place(0)), None);
        let header = BlockHeader::decode(&both, place(0)).unwrap();
        let fewer = BlockHeader { payload_bytes: one_bytes as u32, ..header };
        assert!(matches!(fewer.payload(&both), Err(BadBlock::PayloadCrc { .. })));
        let many: Vec<Vec<u8>> = (0..200u8).map(|n| vec![n; usize::from(n % 7)]).collect();
        assert_eq!(bodies(&block(place(0), &many), place(0)), Some(many));
    }

    #[test]
    fn kinds_and_names_round_trip() {
        for code in 0..=255 {
            assert!(RecordKind::from_code(code).is_none_or(|kind| kind.code() == code));
        }
        assert_eq!(RecordKind::reserved_name(17), "accept");
        assert_eq!(RecordKind::from_code(17), None);
        let name = segment_file_name(StreamId(0xab), SegmentId(u64::MAX));
        assert_eq!(name, "log-000000ab-ffffffffffffffff");
        assert_eq!(parse_segment_file_name(&name), Some((StreamId(0xab), SegmentId(u64::MAX))));
        for other in ["log-ab-1", "log-000000AB-0000000000000001", "log-000000ab-0000000000000001.x", "x", "log--"] {
            assert_eq!(parse_segment_file_name(other), None);
        }
    }

    #[test]
    fn a_table_schema_round_trips() {
        let mut body = table_schema_front(TableId([7; 16]), 900).to_vec();
        body.extend(b"opaque");
        assert_eq!(read_table_schema(&body), Some((TableId([7; 16]), 900, b"opaque".as_slice())));
        assert_eq!(read_table_schema(&body[..19]), None);
    }

    proptest! {
        #[test]
        fn blocks_round_trip(
            written in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..40),
            blocks in 0u32..100,
        ) {
            let at = place(blocks * 4096);
            let bytes = block(at, &written);
            prop_assert_eq!(bytes.len() % BLOCK_ALIGN_BYTES, 0);
            prop_assert_eq!(bodies(&bytes, at), Some(written));
        }

        #[test]
        fn any_bytes_give_a_header_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(BlockHeader::decode(&bytes, place(0)).is_err());
            for version in FIRST_VERSION..=FORMAT_VERSION {
                prop_assert!(bytes.is_empty() || read_record(&bytes, place(0), version).is_err());
            }
            let _ = read_table_schema(&bytes);
        }
    }
}
