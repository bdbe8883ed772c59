//! The notations of the protocol: a checked reader over borrowed bytes, and writers that append.
//!
//! All integers are big-endian. The names are the specification's: `[short]`, `[string]`, `[bytes]` and so on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::consistency::Consistency;
use super::error::CqlError;

/// What is wrong with the body of a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("not enough bytes for {what}: {need_bytes} needed, {left_bytes} left")]
    Short { what: &'static str, need_bytes: usize, left_bytes: usize },
    #[error("{what} cannot have length {got}")]
    Length { what: &'static str, got: i64 },
    #[error("{what} is not valid UTF-8")]
    Utf8 { what: &'static str },
    #[error("Unknown code {got} for {what}")]
    Code { what: &'static str, got: i64 },
    #[error("Unknown {what} '{got}'")]
    Name { what: &'static str, got: String },
    #[error("{what} needs protocol version {needs} or later")]
    Version { what: &'static str, needs: u8 },
    #[error("Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807] (got {got})")]
    Timestamp { got: i64 },
}

impl From<Malformed> for CqlError {
    fn from(malformed: Malformed) -> CqlError {
        CqlError::protocol_error(malformed.to_string())
    }
}

pub type Read<T> = Result<T, Malformed>;

/// A key and its value in a `[bytes map]`; none is null.
pub type KeyedBytes<'a> = (&'a str, Option<&'a [u8]>);

/// Reads the notations in order; what it gives borrows from the bytes given.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn left_bytes(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub fn take(&mut self, len_bytes: usize, what: &'static str) -> Read<&'a [u8]> {
        match self.rest.split_at_checked(len_bytes) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(Malformed::Short { what, need_bytes: len_bytes, left_bytes: self.rest.len() }),
        }
    }

    /// A `[bytes]` that is whole and not null, as most are; `None`, and nothing taken, where it is anything else.
    #[inline]
    pub fn take_counted(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.rest.split_first_chunk::<4>()?;
        let (taken, rest) = rest.split_at_checked(usize::try_from(i32::from_be_bytes(*len)).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &'static str) -> Read<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(Malformed::Short { what, need_bytes: N, left_bytes: self.rest.len() }),
        }
    }

    #[inline]
    pub fn byte(&mut self, what: &'static str) -> Read<u8> {
        Ok(u8::from_be_bytes(self.array(what)?))
    }

    #[inline]
    pub fn short(&mut self, what: &'static str) -> Read<u16> {
        Ok(u16::from_be_bytes(self.array(what)?))
    }

    #[inline]
    pub fn int(&mut self, what: &'static str) -> Read<i32> {
        Ok(i32::from_be_bytes(self.array(what)?))
    }

    #[inline]
    pub fn uint(&mut self, what: &'static str) -> Read<u32> {
        Ok(u32::from_be_bytes(self.array(what)?))
    }

    pub fn long(&mut self, what: &'static str) -> Read<i64> {
        Ok(i64::from_be_bytes(self.array(what)?))
    }

    pub fn uuid(&mut self, what: &'static str) -> Read<[u8; 16]> {
        self.array(what)
    }

    pub fn string(&mut self, what: &'static str) -> Read<&'a str> {
        let len_bytes = self.short(what)?;
        let bytes = self.take(usize::from(len_bytes), what)?;
        std::str::from_utf8(bytes).map_err(|_| Malformed::Utf8 { what })
    }

    pub fn long_string(&mut self, what: &'static str) -> Read<&'a str> {
        let len = self.int(what)?;
        let len_bytes = usize::try_from(len).map_err(|_| Malformed::Length { what, got: i64::from(len) })?;
        std::str::from_utf8(self.take(len_bytes, what)?).map_err(|_| Malformed::Utf8 { what })
    }

    #[inline]
    pub fn short_bytes(&mut self, what: &'static str) -> Read<&'a [u8]> {
        let len_bytes = self.short(what)?;
        self.take(usize::from(len_bytes), what)
    }

    /// `[bytes]`: any negative length is null.
    #[inline]
    pub fn bytes(&mut self, what: &'static str) -> Read<Option<&'a [u8]>> {
        match usize::try_from(self.int(what)?) {
            Ok(len_bytes) => self.take(len_bytes, what).map(Some),
            Err(_) => Ok(None),
        }
    }

    pub fn string_list(&mut self, what: &'static str) -> Read<Vec<&'a str>> {
        let count = self.count(2, what)?;
        (0..count).map(|_| self.string(what)).collect()
    }

    pub fn string_map(&mut self, what: &'static str) -> Read<Vec<(&'a str, &'a str)>> {
        let count = self.count(4, what)?;
        (0..count).map(|_| Ok((self.string(what)?, self.string(what)?))).collect()
    }

    pub fn string_multimap(&mut self, what: &'static str) -> Read<Vec<(&'a str, Vec<&'a str>)>> {
        let count = self.count(4, what)?;
        (0..count).map(|_| Ok((self.string(what)?, self.string_list(what)?))).collect()
    }

    /// `[bytes map]`, such as a custom payload.
    pub fn bytes_map(&mut self, what: &'static str) -> Read<Vec<KeyedBytes<'a>>> {
        let count = self.count(6, what)?;
        (0..count).map(|_| Ok((self.string(what)?, self.bytes(what)?))).collect()
    }

    pub fn consistency(&mut self) -> Read<Consistency> {
        let code = self.short("a consistency level")?;
        Consistency::from_code(code).ok_or(Malformed::Code { what: "a consistency level", got: i64::from(code) })
    }

    /// `[inetaddr]`: an address without a port.
    pub fn inet_addr(&mut self, what: &'static str) -> Read<IpAddr> {
        match self.byte(what)? {
            4 => Ok(IpAddr::V4(Ipv4Addr::from(self.array::<4>(what)?))),
            16 => Ok(IpAddr::V6(Ipv6Addr::from(self.array::<16>(what)?))),
            got => Err(Malformed::Length { what, got: i64::from(got) }),
        }
    }

    /// `[inet]`: an address with its port.
    pub fn inet(&mut self, what: &'static str) -> Read<SocketAddr> {
        let address = self.inet_addr(what)?;
        let port = self.int(what)?;
        let port = u16::try_from(port).map_err(|_| Malformed::Code { what: "a port", got: i64::from(port) })?;
        Ok(SocketAddr::new(address, port))
    }

    /// A `[short]` count of things of at least `each_bytes`, refused at once where so many cannot follow: what is
    /// allocated for them is justified by bytes received.
    pub fn count(&mut self, each_bytes: usize, what: &'static str) -> Read<usize> {
        let count = usize::from(self.short(what)?);
        self.justify(count, each_bytes, what)
    }

    /// The same for an `[int]` count.
    pub fn int_count(&mut self, each_bytes: usize, what: &'static str) -> Read<usize> {
        let count = self.int(what)?;
        let count = usize::try_from(count).map_err(|_| Malformed::Length { what, got: i64::from(count) })?;
        self.justify(count, each_bytes, what)
    }

    fn justify(&self, count: usize, each_bytes: usize, what: &'static str) -> Read<usize> {
        let need_bytes = count.saturating_mul(each_bytes);
        if need_bytes > self.rest.len() {
            return Err(Malformed::Short { what, need_bytes, left_bytes: self.rest.len() });
        }
        Ok(count)
    }
}

/// The length of something that is appended: bounded far below `i32::MAX` by the limits of mutations and pages.
fn int_len(len_bytes: usize) -> [u8; 4] {
    i32::try_from(len_bytes).expect("nothing that is sent reaches 2 GiB: pages and errors are capped").to_be_bytes()
}

pub fn put_byte(out: &mut Vec<u8>, value: u8) {
    out.push(value);
}

pub fn put_short(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn put_int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn put_uint(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn put_long(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// A count or length as `[int]`.
pub fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&int_len(len));
}

/// A count as `[short]`; lists longer than that are cut by their callers' limits.
pub fn put_count(out: &mut Vec<u8>, count: usize) {
    put_short(out, u16::try_from(count).expect("columns, fields and arguments are limited below 65,536"));
}

/// `[string]`: text beyond 65,535 bytes is cut at a character.
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    let text = cut(text, usize::from(u16::MAX));
    put_count(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

pub fn put_long_string(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

pub fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// `[bytes]`; none is null.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_len(out, bytes.len());
            out.extend_from_slice(bytes);
        }
        None => put_int(out, -1),
    }
}

/// Begins a `[bytes]` whose length is known only at its end.
pub fn begin_bytes(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    put_int(out, 0);
    at
}

/// Fills in the length of the `[bytes]` that began at `at`.
pub fn end_bytes(out: &mut [u8], at: usize) {
    if let Some((len, value)) = out.get_mut(at..).and_then(|rest| rest.split_first_chunk_mut::<4>()) {
        *len = int_len(value.len());
    }
}

pub fn put_string_list<S: AsRef<str>>(out: &mut Vec<u8>, list: &[S]) {
    put_count(out, list.len());
    list.iter().for_each(|text| put_string(out, text.as_ref()));
}

pub fn put_string_map(out: &mut Vec<u8>, map: &[(&str, &str)]) {
    put_count(out, map.len());
    for (key, value) in map {
        put_string(out, key);
        put_string(out, value);
    }
}

pub fn put_consistency(out: &mut Vec<u8>, consistency: Consistency) {
    put_short(out, consistency.code());
}

pub fn put_inet_addr(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            out.push(4);
            out.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(16);
            out.extend_from_slice(&v6.octets());
        }
    }
}

pub fn put_inet(out: &mut Vec<u8>, address: SocketAddr) {
    put_inet_addr(out, address.ip());
    put_int(out, i32::from(address.port()));
}

fn cut(text: &str, len_bytes_max: usize) -> &str {
    if text.len() <= len_bytes_max {
        return text;
    }
    let end = (0..=len_bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(..end).unwrap_or("")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut out = Vec::new();
        put_byte(&mut out, 7);
        put_short(&mut out, 65_535);
        put_int(&mut out, -2);
        put_uint(&mut out, 4_000_000_000);
        put_long(&mut out, i64::MIN);
        put_string(&mut out, "née");
        put_long_string(&mut out, "SELECT");
        put_short_bytes(&mut out, &[1, 2]);
        put_bytes(&mut out, Some(&[]));
        put_bytes(&mut out, None);
        let at = begin_bytes(&mut out);
        out.extend_from_slice(b"value");
        end_bytes(&mut out, at);
        put_string_list(&mut out, &["a", "b"]);
        put_string_map(&mut out, &[("k", "v")]);
        put_consistency(&mut out, Consistency::LocalOne);
        put_inet(&mut out, "127.0.0.1:9042".parse().unwrap());
        put_inet(&mut out, "[::1]:65535".parse().unwrap());

        let mut reader = Reader::new(&out);
        assert_eq!(reader.byte("b"), Ok(7));
        assert_eq!(reader.short("s"), Ok(65_535));
        assert_eq!(reader.int("i"), Ok(-2));
        assert_eq!(reader.uint("u"), Ok(4_000_000_000));
        assert_eq!(reader.long("l"), Ok(i64::MIN));
        assert_eq!(reader.string("s"), Ok("née"));
        assert_eq!(reader.long_string("s"), Ok("SELECT"));
        assert_eq!(reader.short_bytes("b"), Ok([1, 2].as_slice()));
        assert_eq!(reader.bytes("b"), Ok(Some([].as_slice())));
        assert_eq!(reader.bytes("b"), Ok(None));
        assert_eq!(reader.bytes("b"), Ok(Some(b"value".as_slice())));
        assert_eq!(reader.string_list("l"), Ok(vec!["a", "b"]));
        assert_eq!(reader.string_map("m"), Ok(vec![("k", "v")]));
        assert_eq!(reader.consistency(), Ok(Consistency::LocalOne));
        assert_eq!(reader.inet("i"), Ok("127.0.0.1:9042".parse().unwrap()));
        assert_eq!(reader.inet("i"), Ok("[::1]:65535".parse().unwrap()));
        assert_eq!(reader.left_bytes(), 0);
    }

    #[test]
    fn lengths_that_lie_are_refused_before_anything_is_allocated() {
        assert_eq!(
            Reader::new(&[0, 9, b'x']).string("a name"),
            Err(Malformed::Short { what: "a name", need_bytes: 9, left_bytes: 1 })
        );
        assert_eq!(
            Reader::new(&[0xff, 0xff, 0xff, 0xf0, 0]).long_string("a query"),
            Err(Malformed::Length { what: "a query", got: -16 })
        );
        assert!(Reader::new(&[0xff, 0xff, 0, 1]).string_list("names").is_err());
        assert!(Reader::new(&[0x7f, 0xff, 0xff, 0xff, 0]).int_count(1, "things").is_err());
        assert!(Reader::new(&[5, 1, 2, 3, 4, 5]).inet_addr("an address").is_err());
        assert_eq!(Reader::new(&[0, 1, 0xff]).string("a name"), Err(Malformed::Utf8 { what: "a name" }));
        assert!(Reader::new(&[0, 99]).consistency().is_err());
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let mut out = Vec::new();
        put_string(&mut out, &format!("{}é", "x".repeat(65_534)));
        assert_eq!(Reader::new(&out).string("s").unwrap().len(), 65_534);
    }

    #[test]
    fn a_malformed_body_is_a_protocol_error_with_its_operands() {
        let error = CqlError::from(Malformed::Short { what: "a page size", need_bytes: 4, left_bytes: 1 });
        assert_eq!(error.code().number(), 0x0A);
        assert_eq!(error.message(), "not enough bytes for a page size: 4 needed, 1 left");
    }
}
