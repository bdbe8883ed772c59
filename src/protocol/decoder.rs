//! Finds the frames in what a connection receives.
//!
//! The caller keeps a receive buffer and calls `next` with all that is in it, drops `consumed` bytes from its front,
//! and goes on until there is no frame. Bodies borrow from that buffer; those that were compressed, or came in
//! several segments, from a buffer here, which never grows beyond what the bytes received justify.
//!
//! A frame that cannot be taken but has known bounds is passed over: it is answered with an error on its stream, and
//! the next one is read as if nothing had been. After an error whose `fatal` is set nothing more is read.

use std::ops::Range;

use super::compression::Compression;
use super::error::CqlError;
use super::frame::{Direction, Frame, FrameError, Framing, HEADER_BYTES, Header, RESPONSE_BIT, Refused, flag};
use super::segment::{Segment, SegmentKind, TRAILER_BYTES};
use super::version::ProtocolVersion;

/// A buffer larger than this is given back once its message is done with.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// What one call found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Bytes at the front of the receive buffer that are done with, once the frame is.
    pub consumed: usize,
    /// None: more must be received first.
    pub frame: Option<Frame<'a>>,
}

/// Reads one direction of one connection.
pub struct FrameDecoder {
    direction: Direction,
    body_bytes_max: usize,
    framing: Framing,
    /// That of the first frame: later ones must have the same.
    version: Option<ProtocolVersion>,
    /// Bytes still to come of a frame that was refused.
    skip_bytes: usize,
    open: OpenSegment,
    /// A decompressed body or segment.
    scratch: Vec<u8>,
    gathering: Gathering,
    broken: bool,
}

/// A self-contained segment of which envelopes are still to be given out.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OpenSegment {
    None,
    /// So many bytes of its payload are at the front of the receive buffer.
    Received(usize),
    /// It was decompressed into `scratch`.
    Scratch(Range<usize>),
}

/// An envelope that spans segments.
#[derive(Default)]
struct Gathering {
    bytes: Vec<u8>,
    header: Option<Header>,
    /// Bytes still to come of one that was refused.
    skip_bytes: usize,
    given_out: bool,
}

/// Where a body lies.
enum Place {
    Received(Range<usize>),
    Scratch(Range<usize>),
    Gathered,
}

type Found = (Header, Place);

impl FrameDecoder {
    /// Reads what clients send, refusing bodies above `body_bytes_max`.
    pub fn requests(body_bytes_max: usize) -> FrameDecoder {
        FrameDecoder::new(Direction::Request, body_bytes_max)
    }

    /// Reads what servers send.
    pub fn responses(body_bytes_max: usize) -> FrameDecoder {
        FrameDecoder::new(Direction::Response, body_bytes_max)
    }

    fn new(direction: Direction, body_bytes_max: usize) -> FrameDecoder {
        FrameDecoder {
            direction,
            body_bytes_max,
            framing: Framing::Plain,
            version: None,
            skip_bytes: 0,
            open: OpenSegment::None,
            scratch: Vec::new(),
            gathering: Gathering::default(),
            broken: false,
        }
    }

    /// The version of the connection, known from its first frame on.
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    /// How all that follows is framed; called when STARTUP was taken.
    pub fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// Bytes held here beside the receive buffer.
    pub fn held_bytes(&self) -> usize {
        self.scratch.capacity() + self.gathering.bytes.capacity()
    }

    /// Bytes gathered here of a message that is not whole yet.
    pub fn unfinished_bytes(&self) -> usize {
        if self.gathering.given_out { 0 } else { self.gathering.bytes.len() }
    }

    /// Bytes that the frame at the front of `received` still lacks; none where its length is not known yet, and where it
    /// comes in segments, each of which is short.
    pub fn missing_bytes(&self, received: &[u8]) -> usize {
        match self.framing {
            Framing::Plain | Framing::Compressed(_) => {
                let header = Header::decode(received, self.direction, self.body_bytes_max).ok().flatten();
                header.map_or(0, |header| (HEADER_BYTES + header.body_bytes).saturating_sub(received.len()))
            }
            Framing::Segments | Framing::SegmentsLz4 => 0,
        }
    }

    /// Gives up the frame that has begun and is not whole: what came of it is dropped, and what is still to come is
    /// passed over. Gives its stream; `None` where no header is known yet. `received` is all that `next` left.
    pub fn pass_over(&mut self, received: &[u8]) -> Option<i16> {
        match self.framing {
            Framing::Plain | Framing::Compressed(_) => {
                let header = Header::decode(received, self.direction, self.body_bytes_max).ok().flatten()?;
                self.skip_bytes = HEADER_BYTES + header.body_bytes;
                Some(header.stream)
            }
            Framing::Segments | Framing::SegmentsLz4 => {
                let header = self.gathering.header.filter(|_| !self.gathering.given_out)?;
                let skip_bytes = HEADER_BYTES + header.body_bytes - self.gathering.bytes.len();
                self.gathering = Gathering { skip_bytes, ..Gathering::default() };
                Some(header.stream)
            }
        }
    }

    /// The next frame in what was received, which starts where the last call's `consumed` ended.
    #[inline]
    pub fn next<'a>(&'a mut self, received: &'a [u8]) -> Result<Step<'a>, FrameError> {
        match self.next_usual(received) {
            Some(step) => Ok(step),
            None => self.next_unusual(received),
        }
    }

    /// A request that is whole, uncompressed and in no segment; nothing has happened where the next is anything else.
    #[inline]
    fn next_usual<'a>(&self, received: &'a [u8]) -> Option<Step<'a>> {
        let is_plain = matches!(self.framing, Framing::Plain) && self.direction == Direction::Request;
        if !is_plain || self.broken || self.skip_bytes > 0 {
            return None;
        }
        let Header { version, flags, stream, opcode, body_bytes } =
            Header::decode_usual(received, self.version?, self.body_bytes_max)?;
        let consumed = HEADER_BYTES + body_bytes;
        let body = received.get(HEADER_BYTES..consumed).filter(|_| flags & flag::COMPRESSED == 0)?;
        Some(Step { consumed, frame: Some(Frame { version, flags, stream, opcode, body }) })
    }

    fn next_unusual<'a>(&'a mut self, received: &'a [u8]) -> Result<Step<'a>, FrameError> {
        self.release();
        if self.broken {
            return Ok(Step { consumed: received.len(), frame: None });
        }
        let mut at = 0;
        let found = match self.framing {
            Framing::Plain => self.next_plain(received, &mut at, None),
            Framing::Compressed(compression) => self.next_plain(received, &mut at, Some(compression)),
            Framing::Segments => self.next_in_segments(received, &mut at, SegmentKind::Plain),
            Framing::SegmentsLz4 => self.next_in_segments(received, &mut at, SegmentKind::Lz4),
        };
        match found {
            Ok(found) => Ok(Step { consumed: at, frame: found.map(|found| self.frame(received, found)) }),
            Err(refused) => {
                let Refused { error, stream, body_bytes, old_version } = refused;
                self.broken = body_bytes.is_none();
                Err(FrameError { error, stream, consumed: at, fatal: self.broken, old_version })
            }
        }
    }

    fn frame<'a>(&'a self, received: &'a [u8], (header, place): Found) -> Frame<'a> {
        let body = match place {
            Place::Received(range) => received.get(range),
            Place::Scratch(range) => self.scratch.get(range),
            Place::Gathered => self.gathering.bytes.get(HEADER_BYTES..),
        };
        let Header { version, flags, stream, opcode, .. } = header;
        Frame { version, flags, stream, opcode, body: body.unwrap_or_default() }
    }

    /// Lets go of what the last frame borrowed.
    fn release(&mut self) {
        if self.gathering.given_out {
            self.gathering.given_out = false;
            self.gathering.header = None;
            self.gathering.bytes.clear();
            give_back(&mut self.gathering.bytes);
        }
        if self.open == OpenSegment::None {
            give_back(&mut self.scratch);
        }
    }

    /// The header at the start of `bytes`, of the connection's version.
    fn header(&mut self, bytes: &[u8]) -> Result<Option<Header>, Refused> {
        let decoded = Header::decode(bytes, self.direction, self.body_bytes_max);
        if decoded.is_err() && self.version.is_none() {
            // The error is answered in the version asked for.
            self.version = bytes.first().and_then(|first| ProtocolVersion::from_number(first & !RESPONSE_BIT));
        }
        let Some(header) = decoded? else { return Ok(None) };
        match self.version {
            Some(version) if version != header.version && self.direction == Direction::Request => {
                let message = format!(
                    "Invalid message version. Got {} but previous messages on this connection had version {}",
                    header.version.descriptor(),
                    version.descriptor()
                );
                Err(Refused::fatal(header.stream, CqlError::protocol_error(message)))
            }
            _ => {
                self.version = Some(header.version);
                Ok(Some(header))
            }
        }
    }

    fn next_plain(
        &mut self,
        received: &[u8],
        at: &mut usize,
        compression: Option<Compression>,
    ) -> Result<Option<Found>, Refused> {
        *at = self.skip_bytes.min(received.len());
        self.skip_bytes -= *at;
        let rest = received.get(*at..).unwrap_or_default();
        let header = match self.header(rest) {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(None),
            Err(refused) => {
                if let Some(body_bytes) = refused.body_bytes {
                    *at += HEADER_BYTES;
                    self.skip_bytes = body_bytes;
                }
                return Err(refused);
            }
        };
        let Some(body) = rest.get(HEADER_BYTES..HEADER_BYTES + header.body_bytes) else { return Ok(None) };
        let start = *at + HEADER_BYTES;
        *at = start + header.body_bytes;
        if header.flags & flag::COMPRESSED == 0 {
            return Ok(Some((header, Place::Received(start..*at))));
        }
        self.decompress_body(header, body, compression)?;
        Ok(Some((header, Place::Scratch(0..self.scratch.len()))))
    }

    fn decompress_body(
        &mut self,
        header: Header,
        body: &[u8],
        compression: Option<Compression>,
    ) -> Result<(), Refused> {
        let refuse = |message: String| Refused {
            error: CqlError::protocol_error(message),
            stream: header.stream,
            body_bytes: Some(header.body_bytes),
            old_version: None,
        };
        let Some(compression) = compression else {
            return Err(refuse("Received a compressed frame, but STARTUP agreed on no compression".to_owned()));
        };
        let outcome = compression.decompress_body(body, self.body_bytes_max, &mut self.scratch);
        outcome.map_err(|damaged| refuse(format!("{}: {damaged}", compression.name())))
    }

    fn next_in_segments(
        &mut self,
        received: &[u8],
        at: &mut usize,
        kind: SegmentKind,
    ) -> Result<Option<Found>, Refused> {
        loop {
            if let Some(found) = self.next_in_open_segment(received, at)? {
                return Ok(Some(found));
            }
            let rest = received.get(*at..).unwrap_or_default();
            let decoded = Segment::decode(rest, kind).map_err(|bad| unframed(bad.to_string()))?;
            let Some(segment) = decoded else { return Ok(None) };
            if let Some(stated_bytes) = segment.uncompressed_bytes {
                let outcome = segment.decompress(stated_bytes, &mut self.scratch);
                outcome.map_err(|bad| unframed(bad.to_string()))?;
            }
            if segment.self_contained {
                self.open(&segment, at, kind)?;
                continue;
            }
            *at += segment.len_bytes(kind);
            let found = if segment.uncompressed_bytes.is_some() {
                let scratch = std::mem::take(&mut self.scratch);
                let found = self.gather(&scratch);
                self.scratch = scratch;
                found
            } else {
                self.gather(segment.payload)
            };
            if let Some(header) = found? {
                return Ok(Some((header, Place::Gathered)));
            }
        }
    }

    /// Begins to give out the envelopes of a self-contained segment at `at`.
    fn open(&mut self, segment: &Segment<'_>, at: &mut usize, kind: SegmentKind) -> Result<(), Refused> {
        if !self.gathering.bytes.is_empty() || self.gathering.skip_bytes > 0 {
            return Err(unframed("a self-contained segment came within a message of several segments".to_owned()));
        }
        if segment.uncompressed_bytes.is_some() {
            *at += segment.len_bytes(kind);
            self.open = OpenSegment::Scratch(0..self.scratch.len());
        } else {
            *at += kind.header_bytes();
            self.open = OpenSegment::Received(segment.payload.len());
            self.close_if_done(at);
        }
        Ok(())
    }

    fn next_in_open_segment(&mut self, received: &[u8], at: &mut usize) -> Result<Option<Found>, Refused> {
        let (header, start, left_bytes) = match self.open.clone() {
            OpenSegment::None => return Ok(None),
            OpenSegment::Received(left_bytes) => {
                let Some(payload) = received.get(*at..*at + left_bytes) else { return Ok(None) };
                (self.header(payload), *at, left_bytes)
            }
            OpenSegment::Scratch(range) => {
                if range.is_empty() {
                    self.open = OpenSegment::None;
                    return Ok(None);
                }
                let scratch = std::mem::take(&mut self.scratch);
                let header = self.header(scratch.get(range.clone()).unwrap_or_default());
                self.scratch = scratch;
                (header, range.start, range.len())
            }
        };
        let (stream, body_bytes) = match &header {
            Ok(Some(header)) => (header.stream, header.body_bytes),
            Err(Refused { body_bytes: Some(body_bytes), stream, .. }) => (*stream, *body_bytes),
            Err(fatal) => return Err(fatal.clone()),
            Ok(None) => return Err(unframed("a self-contained segment ends within a header".to_owned())),
        };
        let envelope_bytes = HEADER_BYTES + body_bytes;
        if envelope_bytes > left_bytes {
            let message = format!("a message of {body_bytes} bytes does not end in its self-contained segment");
            return Err(Refused::fatal(stream, CqlError::protocol_error(message)));
        }
        let body = start + HEADER_BYTES..start + envelope_bytes;
        let place = match &mut self.open {
            OpenSegment::Scratch(range) => {
                range.start = body.end;
                Place::Scratch(body)
            }
            _ => {
                *at = body.end;
                self.open = OpenSegment::Received(left_bytes - envelope_bytes);
                self.close_if_done(at);
                Place::Received(body)
            }
        };
        header.map(|header| header.map(|header| (header, place)))
    }

    /// Passes over the checksum after a payload that was given out whole.
    fn close_if_done(&mut self, at: &mut usize) {
        if self.open == OpenSegment::Received(0) {
            *at += TRAILER_BYTES;
            self.open = OpenSegment::None;
        }
    }

    /// Adds a part of an envelope; the header once it is whole.
    fn gather(&mut self, part: &[u8]) -> Result<Option<Header>, Refused> {
        if self.gathering.skip_bytes > 0 {
            return self.skip_part(part.len());
        }
        self.gathering.bytes.extend_from_slice(part);
        let header = match self.gathering.header {
            Some(header) => header,
            None => {
                let bytes = std::mem::take(&mut self.gathering.bytes);
                let header = self.header(&bytes);
                self.gathering.bytes = bytes;
                match header {
                    Ok(Some(header)) => *self.gathering.header.insert(header),
                    Ok(None) => return Ok(None),
                    Err(refused) => return Err(self.refuse_gathered(refused)),
                }
            }
        };
        let (want, got) = (HEADER_BYTES + header.body_bytes, self.gathering.bytes.len());
        if got > want {
            let message = format!("{} bytes follow a message in its last segment", got - want);
            return Err(Refused::fatal(header.stream, CqlError::protocol_error(message)));
        }
        self.gathering.given_out = got == want;
        Ok(self.gathering.given_out.then_some(header))
    }

    /// Drops what was gathered of a refused envelope, and later what is still to come of it.
    fn refuse_gathered(&mut self, refused: Refused) -> Refused {
        let got = self.gathering.bytes.len();
        self.gathering = Gathering::default();
        let Some(body_bytes) = refused.body_bytes else { return refused };
        match (HEADER_BYTES + body_bytes).checked_sub(got) {
            Some(skip_bytes) => {
                self.gathering.skip_bytes = skip_bytes;
                refused
            }
            None => Refused { body_bytes: None, ..refused },
        }
    }

    fn skip_part(&mut self, part_bytes: usize) -> Result<Option<Header>, Refused> {
        match self.gathering.skip_bytes.checked_sub(part_bytes) {
            Some(left) => {
                self.gathering.skip_bytes = left;
                Ok(None)
            }
            None => Err(unframed("bytes follow a refused message in its last segment".to_owned())),
        }
    }
}

fn unframed(message: String) -> Refused {
    Refused::fatal(0, CqlError::protocol_error(message))
}

fn give_back(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES_MAX {
        *buffer = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;
    use crate::protocol::encoder::FrameEncoder;
    use crate::protocol::request::Opcode;
    use crate::protocol::segment::{PAYLOAD_BYTES_MAX, close_segment};
    use crate::protocol::testing::noise;
    use proptest::prelude::*;

    const BODY_MAX: usize = 1 << 20;

    const FRAMINGS: [(ProtocolVersion, Framing); 6] = [
        (ProtocolVersion::V3, Framing::Plain),
        (ProtocolVersion::V4, Framing::Plain),
        (ProtocolVersion::V4, Framing::Compressed(Compression::Lz4)),
        (ProtocolVersion::V3, Framing::Compressed(Compression::Snappy)),
        (ProtocolVersion::V5, Framing::Segments),
        (ProtocolVersion::V5, Framing::SegmentsLz4),
    ];

    type Owned = (i16, Opcode, Vec<u8>);

    /// What a connection that receives `chunk` bytes at a time would see.
    fn receive(decoder: &mut FrameDecoder, bytes: &[u8], chunk: usize) -> (Vec<Owned>, Vec<FrameError>) {
        let (mut buffer, mut frames, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for part in bytes.chunks(chunk) {
            buffer.extend_from_slice(part);
            loop {
                let (consumed, more) = match decoder.next(&buffer) {
                    Ok(Step { consumed, frame }) => {
                        let more = frame.is_some();
                        frames.extend(frame.map(|frame| (frame.stream, frame.opcode, frame.body.to_vec())));
                        (consumed, more)
                    }
                    Err(error) => {
                        let consumed = error.consumed;
                        errors.push(error);
                        (consumed, true)
                    }
                };
                buffer.drain(..consumed);
                if !more {
                    break;
                }
            }
        }
        (frames, errors)
    }

    fn decoder(framing: Framing) -> FrameDecoder {
        let mut decoder = FrameDecoder::requests(BODY_MAX);
        decoder.set_framing(framing);
        decoder
    }

    fn encode(version: ProtocolVersion, framing: Framing, frames: &[Owned], seal_each: bool) -> Vec<u8> {
        let mut encoder = FrameEncoder::requests(version);
        encoder.set_framing(framing);
        let mut out = Vec::new();
        for (stream, opcode, body) in frames {
            let frame = encoder.begin(&mut out, *stream, *opcode);
            out.extend_from_slice(body);
            encoder.finish(&mut out, frame);
            if seal_each {
                encoder.seal(&mut out);
            }
        }
        encoder.seal(&mut out);
        out
    }

    fn samples() -> Vec<Owned> {
        vec![
            (1, Opcode::Options, vec![]),
            (2, Opcode::Query, b"SELECT a FROM b WHERE c = 1 AND d = 1 AND e = 1 AND f = 1 AND g = 1".to_vec()),
            (3, Opcode::Batch, vec![0; 300_000]),
            (-5, Opcode::Execute, noise(PAYLOAD_BYTES_MAX - HEADER_BYTES)),
            (6, Opcode::Execute, noise(PAYLOAD_BYTES_MAX - HEADER_BYTES + 1)),
            (i16::MAX, Opcode::Prepare, noise(400_000)),
            (8, Opcode::Options, vec![]),
        ]
    }

    #[test]
    fn frames_are_found_however_they_arrive() {
        for (version, framing) in FRAMINGS {
            for seal_each in [true, false] {
                let bytes = encode(version, framing, &samples(), seal_each);
                for chunk in [1021, 65_536, bytes.len()] {
                    let mut decoder = decoder(framing);
                    let (frames, errors) = receive(&mut decoder, &bytes, chunk);
                    assert_eq!(errors, [], "{framing:?} {chunk}");
                    assert!(frames == samples(), "{framing:?} {chunk}");
                    assert_eq!(decoder.version(), Some(version));
                    assert!(decoder.held_bytes() <= 2 * KEPT_BYTES_MAX);
                }
            }
        }
    }

    #[test]
    fn frames_are_found_byte_by_byte() {
        let small: Vec<Owned> = samples().into_iter().filter(|(_, _, body)| body.len() < 100).collect();
        for (version, framing) in FRAMINGS {
            let bytes = encode(version, framing, &small, false);
            assert_eq!(receive(&mut decoder(framing), &bytes, 1), (small.clone(), vec![]), "{framing:?}");
        }
    }

    #[test]
    fn bodies_that_need_no_decompression_are_not_copied() {
        for (version, framing) in [(ProtocolVersion::V4, Framing::Plain), (ProtocolVersion::V5, Framing::Segments)] {
            let bytes = encode(version, framing, &[(1, Opcode::Query, vec![7; 50])], true);
            let mut decoder = decoder(framing);
            let body = decoder.next(&bytes).unwrap().frame.unwrap().body;
            assert!(bytes.as_ptr_range().contains(&body.as_ptr()));
        }
    }

    #[test]
    fn a_frame_given_up_halfway_is_passed_over_and_the_next_is_read() {
        let frames =
            [(1, Opcode::Options, vec![]), (2, Opcode::Query, noise(500_000)), (3, Opcode::Prepare, vec![1; 9])];
        for (version, framing) in FRAMINGS {
            let bytes = encode(version, framing, &frames, false);
            for give_up_at in [140_000, 300_000, 499_000] {
                let (mut decoder, mut at, mut end) = (decoder(framing), 0, 0);
                let (mut seen, mut given_up) = (Vec::new(), Vec::new());
                while end < bytes.len() {
                    end = bytes.len().min(end + 10_000);
                    loop {
                        let step = decoder.next(&bytes[at..end]).unwrap();
                        at += step.consumed;
                        if let Some(frame) = step.frame {
                            seen.push((frame.stream, frame.opcode, frame.body.to_vec()));
                        } else if end > give_up_at && given_up.is_empty() {
                            given_up.extend(decoder.pass_over(&bytes[at..end]));
                        } else {
                            break;
                        }
                    }
                }
                assert_eq!((given_up, at), (vec![2], bytes.len()), "{framing:?} at {give_up_at}");
                assert!(seen == [frames[0].clone(), frames[2].clone()], "{framing:?} at {give_up_at}");
                assert_eq!(decoder.unfinished_bytes(), 0);
                assert_eq!(decoder.pass_over(&[]), None);
            }
        }
    }

    #[test]
    fn what_is_too_large_is_answered_on_its_stream_and_passed_over() {
        let frames =
            [(1, Opcode::Options, vec![]), (2, Opcode::Query, noise(BODY_MAX + 1)), (3, Opcode::Options, vec![])];
        for (version, framing) in FRAMINGS {
            if matches!(framing, Framing::Compressed(_)) {
                continue;
            }
            let bytes = encode(version, framing, &frames, false);
            for chunk in [5000, bytes.len()] {
                let mut decoder = decoder(framing);
                let (seen, errors) = receive(&mut decoder, &bytes, chunk);
                assert_eq!(seen, [frames[0].clone(), frames[2].clone()], "{framing:?}");
                let [error] = &errors[..] else { panic!("{errors:?}") };
                assert_eq!((error.stream, error.fatal, error.error.code().number()), (2, false, 0x2200));
                assert!(decoder.held_bytes() < BODY_MAX / 2);
            }
        }
    }

    #[test]
    fn a_body_that_decompresses_to_too_much_is_passed_over() {
        for compression in Compression::ALL {
            let framing = Framing::Compressed(compression);
            let frames =
                [(2, Opcode::Query, vec![0; BODY_MAX + 1]), (3, Opcode::Options, vec![]), (4, Opcode::Options, vec![])];
            let bytes = encode(ProtocolVersion::V4, framing, &frames, false);
            let (seen, errors) = receive(&mut decoder(framing), &bytes, 5000);
            assert_eq!(seen, frames[1..]);
            assert_eq!((errors.len(), errors[0].stream, errors[0].fatal), (1, 2, false));
        }
    }

    #[test]
    fn an_unknown_opcode_is_passed_over() {
        for (version, framing) in FRAMINGS {
            let mut bytes =
                encode(version, framing, &[(7, Opcode::Options, vec![]), (8, Opcode::Options, vec![])], true);
            let (header, at) = match framing {
                Framing::Segments => (6, 10),
                Framing::SegmentsLz4 => (8, 12),
                _ => (0, 4),
            };
            bytes[at] = 0x77;
            if header > 0 {
                let crc = crate::protocol::segment::crc32(&bytes[header..header + 9]).to_le_bytes();
                bytes[header + 9..header + 13].copy_from_slice(&crc);
            }
            let (seen, errors) = receive(&mut decoder(framing), &bytes, 3);
            assert_eq!(seen, [(8, Opcode::Options, vec![])], "{framing:?}");
            assert_eq!((errors.len(), errors[0].stream, errors[0].fatal), (1, 7, false));
            assert_eq!(errors[0].error.message(), "Unknown opcode 119");
        }
    }

    #[test]
    fn after_a_fatal_error_nothing_more_is_read() {
        let mut bytes = vec![0x42, 0, 0, 5, 5, 0, 0, 0, 0];
        bytes.extend(encode(ProtocolVersion::V4, Framing::Plain, &samples(), true));
        let mut decoder = decoder(Framing::Plain);
        let (seen, errors) = receive(&mut decoder, &bytes, 4000);
        assert_eq!(seen, []);
        assert_eq!((errors.len(), errors[0].stream, errors[0].fatal, errors[0].old_version), (1, 5, true, None));
        assert_eq!(decoder.next(&bytes).unwrap(), Step { consumed: bytes.len(), frame: None });
    }

    #[test]
    fn the_version_does_not_change_within_a_connection() {
        let mut bytes = encode(ProtocolVersion::V4, Framing::Plain, &[(1, Opcode::Options, vec![])], true);
        bytes.extend(encode(ProtocolVersion::V3, Framing::Plain, &[(2, Opcode::Options, vec![])], true));
        let (seen, errors) = receive(&mut decoder(Framing::Plain), &bytes, 100);
        assert_eq!(seen.len(), 1);
        assert!(errors[0].fatal && errors[0].error.message().contains("Got 3/v3 but"), "{errors:?}");
    }

    #[test]
    fn compression_that_was_not_agreed_is_refused() {
        let framing = Framing::Compressed(Compression::Lz4);
        let bytes = encode(ProtocolVersion::V4, framing, &[(1, Opcode::Query, vec![1; 500])], true);
        let (seen, errors) = receive(&mut decoder(Framing::Plain), &bytes, bytes.len());
        assert_eq!((seen.len(), errors.len(), errors[0].stream, errors[0].fatal), (0, 1, 1, false));
    }

    #[test]
    fn a_compressed_body_that_lies_is_passed_over_and_allocates_nothing() {
        let mut bytes = vec![4, 1, 0, 9, 7, 0, 0, 0, 6, 0, 0x0f, 0xff, 0xff, 0x10, 1];
        bytes.extend([4, 0, 0, 10, 5, 0, 0, 0, 0]);
        let mut decoder = decoder(Framing::Compressed(Compression::Lz4));
        let (seen, errors) = receive(&mut decoder, &bytes, bytes.len());
        assert_eq!(seen, [(10, Opcode::Options, vec![])]);
        assert_eq!((errors.len(), errors[0].stream, errors[0].fatal), (1, 9, false));
        assert_eq!(decoder.held_bytes(), 0);
    }

    /// A segment around any bytes.
    fn segment(payload: &[u8], self_contained: bool) -> Vec<u8> {
        let mut out = vec![0; SegmentKind::Plain.header_bytes()];
        out.extend_from_slice(payload);
        close_segment(&mut out, 0, self_contained, None);
        out
    }

    #[test]
    fn segments_that_break_the_rules_end_the_connection() {
        let options = [5, 0, 0, 1, 5, 0, 0, 0, 0];
        let query = [&[5, 0, 0, 2, 7, 0, 0, 0, 20][..], &[1; 20]].concat();
        let cases: [(&str, Vec<u8>); 6] = [
            ("ends within a header", segment(&options[..8], true)),
            ("does not end in its", segment(&query[..20], true)),
            ("within a message of several", [segment(&query[..20], false), segment(&options, true)].concat()),
            ("follow a message", [segment(&query[..20], false), segment(&[1; 30], false)].concat()),
            ("header checksum", vec![9, 0, 2, 0, 0, 0]),
            ("payload checksum", [&segment(&options, true)[..18], &[0]].concat()),
        ];
        for (expected, bytes) in cases {
            let (seen, errors) = receive(&mut decoder(Framing::Segments), &bytes, 7);
            assert_eq!(seen, [], "{expected}");
            assert!(errors.len() == 1 && errors[0].fatal, "{expected}: {errors:?}");
            assert!(errors[0].error.message().contains(expected), "{errors:?}");
        }
    }

    #[test]
    fn a_header_may_be_cut_by_segments_and_segments_may_be_empty() {
        let query = [&[5, 0, 0, 2, 7, 0, 0, 0, 20][..], &[1; 20]].concat();
        let bytes = [segment(&[], true), segment(&query[..4], false), segment(&[], false), segment(&query[4..], false)];
        let (seen, errors) = receive(&mut decoder(Framing::Segments), &bytes.concat(), 5);
        assert_eq!((seen, errors), (vec![(2, Opcode::Query, vec![1; 20])], vec![]));
    }

    #[test]
    fn every_truncation_needs_more() {
        let small: Vec<Owned> = samples().into_iter().take(2).collect();
        for (version, framing) in FRAMINGS {
            let bytes = encode(version, framing, &small[1..], true);
            for len in 0..bytes.len() {
                let mut decoder = decoder(framing);
                assert_eq!(decoder.next(&bytes[..len]).unwrap(), Step { consumed: 0, frame: None });
            }
        }
    }

    /// Bounds that hold of any input: no panic, no runaway, no memory that the input does not justify.
    fn endure(framing: Framing, bytes: &[u8], chunk: usize) {
        let mut decoder = decoder(framing);
        let (frames, errors) = receive(&mut decoder, bytes, chunk);
        assert!(frames.len() + errors.len() <= bytes.len());
        assert!(errors.iter().rev().skip(1).all(|error| !error.fatal));
        assert!(decoder.held_bytes() <= 2 * (bytes.len() * 256 + 64) + KEPT_BYTES_MAX);
        for (stream, opcode, body) in frames {
            let frame = Frame { version: ProtocolVersion::V5, flags: 0, stream, opcode, body: &body };
            let _ = frame.request();
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_endured(bytes in proptest::collection::vec(any::<u8>(), 0..300), chunk in 1usize..300) {
            for (_, framing) in FRAMINGS {
                endure(framing, &bytes, chunk);
            }
        }

        #[test]
        fn damaged_frames_are_endured(at in 0usize..400, flip in 1u8.., which in 0usize..6, chunk in 1usize..300) {
            let (version, framing) = FRAMINGS[which];
            let mut bytes = encode(version, framing, &samples()[..2], true);
            bytes.extend(encode(version, framing, &[(9, Opcode::Execute, vec![1; 200])], true));
            let at = at % bytes.len();
            bytes[at] ^= flip;
            endure(framing, &bytes, chunk);
        }

        #[test]
        fn frames_round_trip(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20),
            seal_each in any::<bool>(), chunk in 1usize..500,
        ) {
            let frames: Vec<Owned> = (0..).zip(bodies).map(|(at, body)| (at, Opcode::Query, body)).collect();
            for (version, framing) in FRAMINGS {
                let bytes = encode(version, framing, &frames, seal_each);
                prop_assert_eq!(receive(&mut decoder(framing), &bytes, chunk), (frames.clone(), vec![]));
            }
        }
    }
}
