//! Writes frames at the end of a send buffer, in place.
//!
//! `begin` leaves the header, the caller appends the body, `finish` fills in what is known then: the length, flags,
//! compression. In version 5 frames gather in a segment until `seal`, which must precede every send; a frame that does
//! not fit any more starts the next segment, and one that fits in none is cut over several.

use super::compression::Compressor;
use super::error::CqlError;
use super::event::Event;
use super::frame::{Direction, EVENT_STREAM, FrameError, Framing, HEADER_BYTES, Header, RESPONSE_BIT, body_len, flag};
use super::request::Opcode;
use super::response::{put_error, put_void};
use super::segment::{PAYLOAD_BYTES_MAX, SegmentKind, close_segment};
use super::version::ProtocolVersion;
use super::wire::{put_bytes, put_count, put_string, put_string_list};

/// Bodies shorter than this are not compressed: nothing would be won.
const COMPRESSED_BYTES_MIN: usize = 64;

/// A buffer larger than this is given back after use.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// A frame whose body is being appended.
#[derive(Debug)]
#[must_use = "a frame that was begun is finished or abandoned"]
pub struct OpenFrame {
    start: usize,
}

impl OpenFrame {
    /// Where in the send buffer the body starts.
    pub fn body_at(&self) -> usize {
        self.start + HEADER_BYTES
    }
}

/// What may stand before the body of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras<'a> {
    pub tracing_id: Option<[u8; 16]>,
    /// Sent from version 4 on.
    pub warnings: &'a [String],
    /// Sent from version 4 on.
    pub payload: &'a [(String, Vec<u8>)],
}

impl Extras<'_> {
    pub fn is_empty(&self) -> bool {
        self.tracing_id.is_none() && self.warnings.is_empty() && self.payload.is_empty()
    }

    /// Appends them, and gives their flags.
    fn encode(&self, version: ProtocolVersion, out: &mut Vec<u8>) -> u8 {
        let mut flags = 0;
        if let Some(id) = self.tracing_id {
            flags |= flag::TRACING;
            out.extend_from_slice(&id);
        }
        if version < ProtocolVersion::V4 {
            return flags;
        }
        if !self.warnings.is_empty() {
            flags |= flag::WARNING;
            put_string_list(out, self.warnings);
        }
        if !self.payload.is_empty() {
            flags |= flag::CUSTOM_PAYLOAD;
            put_count(out, self.payload.len());
            for (key, value) in self.payload {
                put_string(out, key);
                put_bytes(out, Some(value));
            }
        }
        flags
    }
}

/// Writes one direction of one connection.
pub struct FrameEncoder {
    direction: Direction,
    version: ProtocolVersion,
    framing: Framing,
    /// Where in the send buffer the segment starts that is still open.
    segment: Option<usize>,
    compressor: Option<Box<Compressor>>,
    /// A frame that moves to the next segment, or extras that move before a body.
    moved: Vec<u8>,
}

impl FrameEncoder {
    /// Writes answers and events.
    pub fn responses(version: ProtocolVersion) -> FrameEncoder {
        FrameEncoder::new(Direction::Response, version)
    }

    /// Writes requests.
    pub fn requests(version: ProtocolVersion) -> FrameEncoder {
        FrameEncoder::new(Direction::Request, version)
    }

    fn new(direction: Direction, version: ProtocolVersion) -> FrameEncoder {
        let (segment, compressor, moved) = (None, None, Vec::new());
        FrameEncoder { direction, version, framing: Framing::Plain, segment, compressor, moved }
    }

    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Set once the connection's first frame is seen; an answer to an unknown version goes out in the newest.
    pub fn set_version(&mut self, version: ProtocolVersion) {
        self.version = version;
    }

    /// How all that follows is framed; called when STARTUP's answer is finished.
    pub fn set_framing(&mut self, framing: Framing) {
        debug_assert!(self.segment.is_none(), "framing changes between segments");
        self.framing = framing;
        let compresses = matches!(framing, Framing::Compressed(_) | Framing::SegmentsLz4);
        self.compressor = compresses.then(Box::default);
    }

    /// Starts a frame at the end of the send buffer.
    pub fn begin(&mut self, out: &mut Vec<u8>, stream: i16, opcode: Opcode) -> OpenFrame {
        if let Some(kind) = self.segment_kind()
            && self.segment.is_none()
        {
            self.segment = Some(out.len());
            out.resize(out.len() + kind.header_bytes(), 0);
        }
        let start = out.len();
        let header = Header { version: self.version, flags: 0, stream, opcode, body_bytes: 0 };
        header.encode(self.direction, out);
        OpenFrame { start }
    }

    /// Takes a frame back, with what was appended to it.
    pub fn abandon(&mut self, out: &mut Vec<u8>, frame: OpenFrame) {
        out.truncate(frame.start);
    }

    /// Completes a frame with what was appended since `begin`.
    pub fn finish(&mut self, out: &mut Vec<u8>, frame: OpenFrame) {
        self.finish_with(out, frame, &Extras::default());
    }

    /// The same, with warnings and the like put before the body.
    pub fn finish_with(&mut self, out: &mut Vec<u8>, frame: OpenFrame, extras: &Extras<'_>) {
        let body_at = frame.body_at();
        let mut flags = 0;
        if !extras.is_empty() {
            self.moved.clear();
            flags |= extras.encode(self.version, &mut self.moved);
            out.splice(body_at..body_at, self.moved.drain(..));
        }
        if let (Framing::Compressed(compression), Some(compressor)) = (self.framing, &mut self.compressor) {
            let body = out.get(body_at..).unwrap_or_default();
            if body.len() >= COMPRESSED_BYTES_MIN {
                let compressed = compressor.body(compression, body);
                if compressed.len() < body.len() {
                    out.truncate(body_at);
                    out.extend_from_slice(compressed);
                    flags |= flag::COMPRESSED;
                }
            }
        }
        patch(out, &frame, flags);
        if let (Some(kind), Some(segment)) = (self.segment_kind(), self.segment)
            && out.len() - segment - kind.header_bytes() > PAYLOAD_BYTES_MAX
        {
            self.start_next_segment(out, segment, frame.start, kind);
        }
    }

    /// Completes the open segment: everything in the send buffer can be sent then.
    pub fn seal(&mut self, out: &mut Vec<u8>) {
        if let (Some(segment), Some(kind)) = (self.segment.take(), self.segment_kind()) {
            self.close(out, segment, kind);
        }
    }

    /// A whole answer that has nothing to say.
    #[inline]
    pub fn void(&mut self, out: &mut Vec<u8>, stream: i16) {
        if self.segment_kind().is_none() {
            // It is too short to be compressed.
            let header = Header { version: self.version, flags: 0, stream, opcode: Opcode::Result, body_bytes: 4 };
            header.encode(self.direction, out);
            return put_void(out);
        }
        let frame = self.begin(out, stream, Opcode::Result);
        put_void(out);
        self.finish(out, frame);
    }

    /// A whole answer that is an error.
    pub fn error(&mut self, out: &mut Vec<u8>, stream: i16, error: &CqlError) {
        let frame = self.begin(out, stream, Opcode::Error);
        put_error(self.version, error, out);
        self.finish(out, frame);
    }

    /// The answer to a frame that could not be taken.
    pub fn frame_error(&mut self, out: &mut Vec<u8>, refused: &FrameError) {
        match refused.old_version {
            Some(number) => put_old_error(out, number, refused),
            None => self.error(out, refused.stream, &refused.error),
        }
    }

    /// A whole event.
    pub fn event(&mut self, out: &mut Vec<u8>, event: &Event) {
        let frame = self.begin(out, EVENT_STREAM, Opcode::Event);
        event.encode(self.version, out);
        self.finish(out, frame);
    }

    fn segment_kind(&self) -> Option<SegmentKind> {
        match self.framing {
            Framing::Plain | Framing::Compressed(_) => None,
            Framing::Segments => Some(SegmentKind::Plain),
            Framing::SegmentsLz4 => Some(SegmentKind::Lz4),
        }
    }

    /// Closes a segment, or takes it back if nothing is in it.
    fn close(&mut self, out: &mut Vec<u8>, segment: usize, kind: SegmentKind) {
        if out.len() == segment + kind.header_bytes() {
            out.truncate(segment);
        } else {
            close_segment(out, segment, true, self.compressor.as_deref_mut());
        }
    }

    /// Moves the last frame out of a segment that it overfills.
    fn start_next_segment(&mut self, out: &mut Vec<u8>, segment: usize, frame_start: usize, kind: SegmentKind) {
        let mut moved = std::mem::take(&mut self.moved);
        moved.clear();
        moved.extend_from_slice(out.get(frame_start..).unwrap_or_default());
        out.truncate(frame_start);
        self.close(out, segment, kind);
        let fits = moved.len() <= PAYLOAD_BYTES_MAX;
        self.segment = fits.then_some(out.len());
        for part in moved.chunks(PAYLOAD_BYTES_MAX) {
            let start = out.len();
            out.resize(start + kind.header_bytes(), 0);
            out.extend_from_slice(part);
            if !fits {
                close_segment(out, start, false, self.compressor.as_deref_mut());
            }
        }
        if moved.capacity() <= KEPT_BYTES_MAX {
            self.moved = moved;
        }
    }
}

/// Fills in flags and length.
fn patch(out: &mut [u8], frame: &OpenFrame, flags: u8) {
    let body_bytes = out.len() - frame.body_at();
    if let Some(header) = out.get_mut(frame.start..).and_then(|rest| rest.first_chunk_mut::<HEADER_BYTES>()) {
        let [_, header_flags, _, _, _, len @ ..] = header;
        *header_flags |= flags;
        *len = body_len(body_bytes);
    }
}

/// An error to a client of version 1 or 2, whose header has a stream of one byte.
fn put_old_error(out: &mut Vec<u8>, number: u8, refused: &FrameError) {
    let [_, stream] = refused.stream.to_be_bytes();
    let mut body = Vec::new();
    put_error(ProtocolVersion::V3, &refused.error, &mut body);
    out.extend_from_slice(&[number | RESPONSE_BIT, 0, stream, Opcode::Error.number()]);
    out.extend_from_slice(&body_len(body.len()));
    out.extend_from_slice(&body);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;
    use crate::protocol::client::{Answer, Response};
    use crate::protocol::compression::Compression;
    use crate::protocol::decoder::FrameDecoder;
    use crate::protocol::event::{Change, SchemaChange};
    use crate::protocol::segment::Segment;
    use crate::protocol::testing::noise;

    fn encoder(version: ProtocolVersion, framing: Framing) -> FrameEncoder {
        let mut encoder = FrameEncoder::responses(version);
        encoder.set_framing(framing);
        encoder
    }

    fn ready(encoder: &mut FrameEncoder, out: &mut Vec<u8>, stream: i16, body: &[u8]) {
        let frame = encoder.begin(out, stream, Opcode::Ready);
        out.extend_from_slice(body);
        encoder.finish(out, frame);
    }

    #[test]
    fn golden_frames() {
        let mut out = Vec::new();
        ready(&mut encoder(ProtocolVersion::V4, Framing::Plain), &mut out, 1, &[]);
        assert_eq!(out, [0x84, 0, 0, 1, 2, 0, 0, 0, 0]);
        out.clear();
        encoder(ProtocolVersion::V3, Framing::Plain).error(&mut out, 2, &CqlError::invalid("no"));
        assert_eq!(out, b"\x83\x00\x00\x02\x00\x00\x00\x00\x08\x00\x00\x22\x00\x00\x02no");
        out.clear();
        let event = Event::Schema(SchemaChange::keyspace(Change::Created, "k"));
        encoder(ProtocolVersion::V4, Framing::Plain).event(&mut out, &event);
        assert_eq!(out[..9], [0x84, 0, 0xff, 0xff, 0x0c, 0, 0, 0, 37]);
        out.clear();
        let mut v5 = encoder(ProtocolVersion::V5, Framing::Segments);
        ready(&mut v5, &mut out, 1, &[]);
        v5.seal(&mut out);
        assert_eq!(out[..3], [9, 0, 2]);
        assert_eq!(out[6..15], [0x85, 0, 0, 1, 2, 0, 0, 0, 0]);
        assert_eq!(out.len(), 19);
    }

    #[test]
    fn an_unknown_version_is_answered_in_the_newest_and_an_old_one_in_its_own() {
        let answer = |bytes: &[u8]| {
            let refused = FrameDecoder::requests(100).next(bytes).unwrap_err();
            let mut out = Vec::new();
            encoder(ProtocolVersion::NEWEST, Framing::Plain).frame_error(&mut out, &refused);
            out
        };
        let new = answer(&[0x42, 0, 0, 3, 5, 0, 0, 0, 0]);
        assert_eq!(new[..5], [0x85, 0, 0, 3, 0]);
        assert_eq!(new[9..13], [0, 0, 0, 0x0A]);
        let text = String::from_utf8_lossy(&new[15..]).into_owned();
        assert_eq!(text, "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5)");
        let old = answer(&[2, 0, 3, 5, 0, 0, 0, 0]);
        assert_eq!(old[..4], [0x82, 0, 3, 0]);
        assert_eq!(old[8..12], [0, 0, 0, 0x0A]);
    }

    #[test]
    fn frames_share_a_segment_until_it_is_sealed() {
        let mut out = b"sent before".to_vec();
        let mut encoder = encoder(ProtocolVersion::V5, Framing::Segments);
        ready(&mut encoder, &mut out, 1, &[1; 10]);
        ready(&mut encoder, &mut out, 2, &[2; 20]);
        encoder.seal(&mut out);
        ready(&mut encoder, &mut out, 3, &[]);
        encoder.seal(&mut out);
        encoder.seal(&mut out);
        let first = Segment::decode(&out[11..], SegmentKind::Plain).unwrap().unwrap();
        assert_eq!((first.payload.len(), first.self_contained), (48, true));
        let at = 11 + first.len_bytes(SegmentKind::Plain);
        let second = Segment::decode(&out[at..], SegmentKind::Plain).unwrap().unwrap();
        assert_eq!(second.payload.len(), 9);
        assert_eq!(at + second.len_bytes(SegmentKind::Plain), out.len());
    }

    #[test]
    fn a_frame_that_does_not_fit_starts_the_next_segment() {
        let mut out = Vec::new();
        let mut encoder = encoder(ProtocolVersion::V5, Framing::Segments);
        for len in [100_000, 100_000, 300_000, 5] {
            ready(&mut encoder, &mut out, 1, &vec![9; len]);
        }
        encoder.seal(&mut out);
        let mut seen = Vec::new();
        let mut rest = &out[..];
        while let Some(segment) = Segment::decode(rest, SegmentKind::Plain).unwrap() {
            seen.push((segment.payload.len(), segment.self_contained));
            rest = &rest[segment.len_bytes(SegmentKind::Plain)..];
        }
        let last = 300_009 - 2 * PAYLOAD_BYTES_MAX;
        let max = PAYLOAD_BYTES_MAX;
        assert_eq!(seen, [(100_009, true), (100_009, true), (max, false), (max, false), (last, false), (14, true)]);
    }

    #[test]
    fn an_abandoned_frame_leaves_nothing() {
        for framing in [Framing::Plain, Framing::Segments] {
            let version = if framing == Framing::Plain { ProtocolVersion::V4 } else { ProtocolVersion::V5 };
            let mut out = b"before".to_vec();
            let mut encoder = encoder(version, framing);
            let frame = encoder.begin(&mut out, 1, Opcode::Result);
            out.extend_from_slice(&[1; 100]);
            encoder.abandon(&mut out, frame);
            encoder.seal(&mut out);
            assert_eq!(out, b"before");
        }
    }

    #[test]
    fn small_and_incompressible_bodies_are_not_compressed() {
        let mut encoder = encoder(ProtocolVersion::V4, Framing::Compressed(Compression::Snappy));
        let flags = |encoder: &mut FrameEncoder, body: &[u8]| {
            let mut out = Vec::new();
            ready(encoder, &mut out, 1, body);
            (out[1], out.len() < HEADER_BYTES + body.len())
        };
        let noise = noise(200);
        assert_eq!(flags(&mut encoder, &[0; 63]), (0, false));
        assert_eq!(flags(&mut encoder, &noise), (0, false));
        assert_eq!(flags(&mut encoder, &[0; 200]), (flag::COMPRESSED, true));
    }

    #[test]
    fn extras_stand_before_the_body_in_the_order_of_the_specification() {
        let warnings = ["first".to_owned(), "second".to_owned()];
        let payload = [("key".to_owned(), vec![1, 2])];
        let extras = Extras { tracing_id: Some([7; 16]), warnings: &warnings, payload: &payload };
        for (version, framing) in [
            (ProtocolVersion::V3, Framing::Plain),
            (ProtocolVersion::V4, Framing::Compressed(Compression::Lz4)),
            (ProtocolVersion::V5, Framing::SegmentsLz4),
        ] {
            let mut out = Vec::new();
            let mut encoder = encoder(version, framing);
            let frame = encoder.begin(&mut out, 5, Opcode::Authenticate);
            crate::protocol::response::put_authenticate("some.Class", &mut out);
            encoder.finish_with(&mut out, frame, &extras);
            encoder.seal(&mut out);
            let mut decoder = FrameDecoder::responses(1000);
            decoder.set_framing(framing);
            let frame = decoder.next(&out).unwrap().frame.unwrap();
            let answer = Answer::decode(&frame).unwrap();
            assert_eq!(answer.tracing_id, Some([7; 16]));
            assert_eq!(answer.response, Response::Authenticate("some.Class"));
            if version == ProtocolVersion::V3 {
                assert_eq!((answer.warnings.len(), answer.payload.len()), (0, 0));
            } else {
                assert_eq!(answer.warnings, ["first", "second"]);
                assert_eq!(answer.payload, [("key", Some(&[1u8, 2][..]))]);
            }
        }
    }
}
