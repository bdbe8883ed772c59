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
use super::frame::{Direction, Frame, FrameError, Framing, HEADER_BYTES, Header, Refused, flag};
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

    /// The next frame in what was received, which starts where the last call's `consumed` ended.
    pub fn next<'a>(&'a mut self, received: &'a [u8]) -> Result<Step<'a>, FrameError> {
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
        let Some(header) = Header::decode(bytes, self.direction, self.body_bytes_max)? else { return Ok(None) };
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
