//! A block while records are added to it, and after it was closed for its write.

use super::format::{
    BLOCK_HEADER_BYTES, BlockHeader, FORMAT_VERSION, Place, RECORD_HEADER_BYTES, RecordKind, padded, payload_crc,
    record_seed, write_record,
};
use crate::base::ids::LogPosition;
use crate::io::AlignedBuf;

/// A block in memory that takes records.
pub struct OpenBlock {
    place: Place,
    buf: AlignedBuf,
    used_bytes: usize,
    /// Where it must end: the buffer's or the segment's end.
    limit_bytes: usize,
    records: u32,
    /// `Place::segment_seed` of its place.
    segment_seed: u32,
}

/// A block ready to be written at its offset.
pub struct ClosedBlock {
    pub buf: AlignedBuf,
    pub place: Place,
    /// Where the next block starts.
    pub end: LogPosition,
    pub records: u32,
}

impl OpenBlock {
    /// An empty block at `place` in `buf`, of which `room_bytes` may be used.
    pub fn new(place: Place, mut buf: AlignedBuf, room_bytes: usize) -> OpenBlock {
        let limit_bytes = room_bytes.min(buf.capacity());
        assert!(limit_bytes >= BLOCK_HEADER_BYTES, "a block has room for its header");
        buf.set_len(limit_bytes);
        OpenBlock {
            place,
            buf,
            used_bytes: BLOCK_HEADER_BYTES,
            limit_bytes,
            records: 0,
            segment_seed: place.segment_seed(),
        }
    }

    /// Whether `bytes` more, record headers included, fit.
    pub fn fits(&self, bytes: usize) -> bool {
        self.limit_bytes - self.used_bytes >= bytes
    }

    /// The bytes it will take in its segment, as it is now.
    pub fn block_bytes(&self) -> usize {
        padded(self.used_bytes)
    }

    /// Where the next record will stand.
    pub fn next_place(&self) -> Place {
        self.place.plus(self.used_bytes)
    }

    /// Adds a record that fits.
    pub fn push(&mut self, kind: RecordKind, body: &[&[u8]]) {
        let seed = record_seed(self.segment_seed, self.next_place().offset_bytes);
        self.used_bytes += write_record(&mut self.buf[self.used_bytes..], seed, kind, body);
        self.records += 1;
    }

    /// Writes header and padding.
    pub fn close(mut self, synced: LogPosition, previous_end: LogPosition) -> ClosedBlock {
        let payload = &self.buf[BLOCK_HEADER_BYTES..self.used_bytes];
        let header = BlockHeader {
            version: FORMAT_VERSION,
            place: self.place,
            payload_bytes: u32::try_from(payload.len()).expect("a block is smaller than a segment"),
            payload_crc: payload_crc(payload),
            synced,
            previous_end,
        };
        debug_assert!(synced <= self.place.position(), "nothing behind a block is synced before it");
        self.buf[..BLOCK_HEADER_BYTES].copy_from_slice(&header.encode());
        self.buf.set_len(header.block_bytes());
        self.buf[self.used_bytes..].fill(0);
        ClosedBlock { buf: self.buf, place: self.place, end: header.end().position(), records: self.records }
    }
}

/// The bytes of a record with a body of `body_bytes`.
pub fn record_bytes(body_bytes: usize) -> usize {
    RECORD_HEADER_BYTES + body_bytes
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::base::ids::{SegmentId, StreamId};
    use crate::commitlog::format::{BLOCK_ALIGN_BYTES, Records};

    const PLACE: Place = Place { stream: StreamId(1), segment: SegmentId(2), offset_bytes: 4096 };

    #[test]
    fn a_used_buffer_leaves_nothing_in_the_padding() {
        let mut buf = AlignedBuf::new(BLOCK_ALIGN_BYTES);
        buf.fill(0xff);
        let mut block = OpenBlock::new(PLACE, buf, usize::MAX);
        block.push(RecordKind::Mutation, &[b"one"]);
        let position = block.next_place();
        block.push(RecordKind::BatchIntent, &[b"t", b"wo"]);
        let closed = block.close(LogPosition::ZERO, LogPosition::ZERO);
        assert_eq!((closed.buf.len(), closed.records), (4096, 2));
        assert_eq!(closed.end, LogPosition { segment: SegmentId(2), offset_bytes: 8192 });
        let header = BlockHeader::decode(&closed.buf, PLACE).unwrap();
        let payload = header.payload(&closed.buf).unwrap();
        let records: Vec<_> = Records::new(&header, payload).map(Result::unwrap).collect();
        assert_eq!((records[0].body, records[1].body), (b"one".as_slice(), b"two".as_slice()));
        assert_eq!(records[1].place, position);
        assert!(closed.buf[BLOCK_HEADER_BYTES + payload.len()..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_record_fits_up_to_the_last_byte() {
        let room = BLOCK_ALIGN_BYTES - BLOCK_HEADER_BYTES;
        for short in 0..5 {
            let mut block = OpenBlock::new(PLACE, AlignedBuf::new(8192), BLOCK_ALIGN_BYTES);
            let body = vec![7; room - RECORD_HEADER_BYTES - short];
            assert!(block.fits(record_bytes(body.len())) && !block.fits(record_bytes(body.len() + short + 1)));
            block.push(RecordKind::Mutation, &[&body]);
            assert_eq!(block.block_bytes(), BLOCK_ALIGN_BYTES);
            assert!(block.fits(short) && !block.fits(short + 1));
            let closed = block.close(LogPosition::ZERO, LogPosition::ZERO);
            let header = BlockHeader::decode(&closed.buf, PLACE).unwrap();
            assert!(header.payload(&closed.buf).is_ok());
        }
    }
}
