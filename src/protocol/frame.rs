//! The header before every message, the same in versions 3, 4 and 5, and what surrounds frames on a connection.

use super::compression::Compression;
use super::error::CqlError;
use super::request::{Opcode, Request};
use super::version::ProtocolVersion;

/// Version, flags, stream, opcode, length of the body.
pub const HEADER_BYTES: usize = 9;

/// The longest body taken, unless configured: Cassandra's `native_transport_max_frame_size`.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// The stream of events, which answer no request.
pub const EVENT_STREAM: i16 = -1;

/// Set in the version byte of what a server sends.
pub const RESPONSE_BIT: u8 = 0x80;

/// Bits of the header's flags.
pub mod flag {
    pub const COMPRESSED: u8 = 0x01;
    pub const TRACING: u8 = 0x02;
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    pub const WARNING: u8 = 0x08;
    pub const USE_BETA: u8 = 0x10;
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Request,
    Response,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub version: ProtocolVersion,
    pub flags: u8,
    pub stream: i16,
    pub opcode: Opcode,
    pub body_bytes: usize,
}

/// One message; its body is as if never compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub version: ProtocolVersion,
    pub flags: u8,
    pub stream: i16,
    pub opcode: Opcode,
    pub body: &'a [u8],
}

/// A frame that cannot be taken: what to answer, on which stream, and whether the connection can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameError {
    pub error: CqlError,
    /// 0 where the stream is not known.
    pub stream: i16,
    /// Bytes of the receive buffer that are done with.
    pub consumed: usize,
    /// The place of the next frame is unknown, or damaged: answer and close.
    pub fatal: bool,
    /// The number of a version older than 3, whose clients read a shorter header.
    pub old_version: Option<u8>,
}

/// How frames lie on the connection. Until STARTUP is answered: plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Framing {
    /// One after the other.
    #[default]
    Plain,
    /// The same, and bodies may be compressed (versions 3 and 4).
    Compressed(Compression),
    /// In checksummed segments (version 5).
    Segments,
    /// In checksummed segments compressed with LZ4 (version 5).
    SegmentsLz4,
}

impl Framing {
    /// The framing that STARTUP asks for.
    pub fn after_startup(version: ProtocolVersion, compression: Option<Compression>) -> Result<Framing, CqlError> {
        match (version >= ProtocolVersion::V5, compression) {
            (false, None) => Ok(Framing::Plain),
            (false, Some(compression)) => Ok(Framing::Compressed(compression)),
            (true, None) => Ok(Framing::Segments),
            (true, Some(Compression::Lz4)) => Ok(Framing::SegmentsLz4),
            (true, Some(Compression::Snappy)) => {
                Err(CqlError::protocol_error("Snappy compression is not supported in protocol version 5; use lz4"))
            }
        }
    }
}

impl<'a> Frame<'a> {
    /// Whether the client asks to trace this request.
    pub fn wants_tracing(&self) -> bool {
        self.flags & flag::TRACING != 0
    }

    /// Decodes the body of a request.
    pub fn request(&self) -> Result<Request<'a>, CqlError> {
        Request::decode(self.version, self.opcode, self.body, self.flags & flag::CUSTOM_PAYLOAD != 0)
    }
}

impl Header {
    /// Reads the header at the start of `bytes`; `None` where more are needed.
    pub fn decode(bytes: &[u8], direction: Direction, body_bytes_max: usize) -> Result<Option<Header>, Refused> {
        let Some(first) = bytes.first() else { return Ok(None) };
        let number = first & !RESPONSE_BIT;
        let Some(version) = ProtocolVersion::from_number(number) else {
            return refuse_version(number, bytes);
        };
        let Some(&[first, flags, stream_high, stream_low, opcode, a, b, c, d]) = bytes.first_chunk::<HEADER_BYTES>()
        else {
            return Ok(None);
        };
        let stream = i16::from_be_bytes([stream_high, stream_low]);
        let len = i32::from_be_bytes([a, b, c, d]);
        let fatal = |message: String| Err(Refused::fatal(stream, CqlError::protocol_error(message)));
        if (first & RESPONSE_BIT != 0) != (direction == Direction::Response) {
            return fatal(format!(
                "Wrong protocol direction: expected a {direction:?}, got version byte 0x{first:02x}"
            ));
        }
        let Ok(body_bytes) = usize::try_from(len) else {
            return fatal(format!("Invalid frame body length: {len}"));
        };
        let past = |error: CqlError| Err(Refused { error, stream, body_bytes: Some(body_bytes), old_version: None });
        if body_bytes > body_bytes_max {
            return past(CqlError::invalid(format!(
                "Request is too big: length {body_bytes} exceeds maximum allowed length {body_bytes_max}."
            )));
        }
        let Some(known) = Opcode::from_number(opcode) else {
            return past(CqlError::protocol_error(format!("Unknown opcode {opcode}")));
        };
        if known.is_request() != (direction == Direction::Request) {
            return past(CqlError::protocol_error(format!(
                "Wrong protocol direction: expected a {direction:?}, got opcode {opcode} ({known:?})"
            )));
        }
        Ok(Some(Header { version, flags, stream, opcode: known, body_bytes }))
    }

    /// The same of a request of this version whose header is whole and right, as most are; `None` where it is anything else.
    #[inline]
    pub fn decode_usual(bytes: &[u8], version: ProtocolVersion, body_bytes_max: usize) -> Option<Header> {
        let &[first, flags, stream_high, stream_low, opcode, a, b, c, d] = bytes.first_chunk::<HEADER_BYTES>()?;
        let body_bytes = usize::try_from(i32::from_be_bytes([a, b, c, d])).ok()?;
        let opcode = Opcode::from_number(opcode)?;
        let is_right = first == version.number() && opcode.is_request() && body_bytes <= body_bytes_max;
        is_right.then_some(Header {
            version,
            flags,
            stream: i16::from_be_bytes([stream_high, stream_low]),
            opcode,
            body_bytes,
        })
    }

    /// Appends the header.
    #[inline]
    pub fn encode(&self, direction: Direction, out: &mut Vec<u8>) {
        let bit = if direction == Direction::Response { RESPONSE_BIT } else { 0 };
        let [stream_high, stream_low] = self.stream.to_be_bytes();
        let [a, b, c, d] = body_len(self.body_bytes);
        let (first, opcode) = (self.version.number() | bit, self.opcode.number());
        out.extend_from_slice(&[first, self.flags, stream_high, stream_low, opcode, a, b, c, d]);
    }
}

/// A body's length in the header.
pub fn body_len(body_bytes: usize) -> [u8; 4] {
    i32::try_from(body_bytes).expect("answers are capped far below 2 GiB").to_be_bytes()
}

/// A header that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub error: CqlError,
    pub stream: i16,
    /// The length of the body to pass over; `None` where the place of the next frame is unknown.
    pub body_bytes: Option<usize>,
    pub old_version: Option<u8>,
}

impl Refused {
    pub fn fatal(stream: i16, error: CqlError) -> Refused {
        Refused { error, stream, body_bytes: None, old_version: None }
    }
}

/// Versions 1 and 2 have a stream of one byte, all others of two.
fn refuse_version(number: u8, bytes: &[u8]) -> Result<Option<Header>, Refused> {
    let Some(&[_, _, high, low]) = bytes.first_chunk::<4>() else { return Ok(None) };
    let old_version = matches!(number, 1 | 2).then_some(number);
    let stream = match old_version {
        Some(_) => i16::from(i8::from_be_bytes([high])),
        None => i16::from_be_bytes([high, low]),
    };
    Err(Refused { error: ProtocolVersion::unsupported(number), stream, body_bytes: None, old_version })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;

    fn decode(bytes: &[u8]) -> Result<Option<Header>, Refused> {
        Header::decode(bytes, Direction::Request, 1000)
    }

    #[test]
    fn headers_round_trip_in_both_directions() {
        for version in ProtocolVersion::ALL {
            for opcode in Opcode::ALL {
                let direction = if opcode.is_request() { Direction::Request } else { Direction::Response };
                let header = Header { version, flags: 0x0a, stream: -300, opcode, body_bytes: 999 };
                let mut out = Vec::new();
                header.encode(direction, &mut out);
                assert_eq!(out.len(), HEADER_BYTES);
                assert_eq!(Header::decode(&out, direction, 1000), Ok(Some(header)));
                for len in 0..out.len() {
                    assert_eq!(Header::decode(&out[..len], direction, 1000), Ok(None));
                }
            }
        }
    }

    #[test]
    fn the_bytes_of_an_options_request() {
        let mut out = Vec::new();
        let header =
            Header { version: ProtocolVersion::V4, flags: 0, stream: 1, opcode: Opcode::Options, body_bytes: 0 };
        header.encode(Direction::Request, &mut out);
        assert_eq!(out, [4, 0, 0, 1, 5, 0, 0, 0, 0]);
    }

    #[test]
    fn other_versions_are_refused_with_their_stream() {
        for number in [0, 6, 0x41, 0x42, 0x7f] {
            let refused = decode(&[number, 0, 1, 2]).unwrap_err();
            assert_eq!((refused.stream, refused.old_version, refused.body_bytes), (0x102, None, None));
            let expected = format!("protocol version ({number})");
            assert!(refused.error.message().contains(&expected));
        }
        for number in [1, 2] {
            let refused = decode(&[number, 0, 0xfe, 5]).unwrap_err();
            assert_eq!((refused.stream, refused.old_version), (-2, Some(number)));
        }
        assert_eq!(decode(&[0x42, 0, 0]), Ok(None));
    }

    #[test]
    fn what_can_be_passed_over_is_told_from_what_cannot() {
        let negative = decode(&[4, 0, 0, 9, 5, 0xff, 0, 0, 0]).unwrap_err();
        assert_eq!((negative.stream, negative.body_bytes), (9, None));
        let response = decode(&[0x84, 0, 0, 9, 5, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(response.body_bytes, None);
        let large = decode(&[4, 0, 0, 9, 7, 0, 0, 0x10, 0]).unwrap_err();
        assert_eq!(large.body_bytes, Some(4096));
        assert_eq!(large.error.message(), "Request is too big: length 4096 exceeds maximum allowed length 1000.");
        let unknown = decode(&[4, 0, 0, 9, 0x55, 0, 0, 0, 1]).unwrap_err();
        assert_eq!((unknown.body_bytes, unknown.error.message()), (Some(1), "Unknown opcode 85"));
        assert_eq!(decode(&[4, 0, 0, 9, 2, 0, 0, 0, 1]).unwrap_err().body_bytes, Some(1));
    }

    #[test]
    fn snappy_ends_with_version_4() {
        let framing = |version, compression| Framing::after_startup(version, compression);
        assert_eq!(framing(ProtocolVersion::V3, None), Ok(Framing::Plain));
        assert_eq!(
            framing(ProtocolVersion::V4, Some(Compression::Snappy)),
            Ok(Framing::Compressed(Compression::Snappy))
        );
        assert_eq!(framing(ProtocolVersion::V5, None), Ok(Framing::Segments));
        assert_eq!(framing(ProtocolVersion::V5, Some(Compression::Lz4)), Ok(Framing::SegmentsLz4));
        assert!(framing(ProtocolVersion::V5, Some(Compression::Snappy)).is_err());
    }
}
