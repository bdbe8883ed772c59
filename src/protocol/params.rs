//! The parameters of QUERY, EXECUTE and BATCH: consistency, bound values, paging, timestamps.

use super::consistency::Consistency;
use super::version::ProtocolVersion;
use super::wire::{Malformed, Read, Reader};

/// Bits of the parameters' flags: a byte in versions 3 and 4, an int in version 5.
pub mod flag {
    pub const VALUES: u32 = 0x01;
    pub const SKIP_METADATA: u32 = 0x02;
    pub const PAGE_SIZE: u32 = 0x04;
    pub const PAGING_STATE: u32 = 0x08;
    pub const SERIAL_CONSISTENCY: u32 = 0x10;
    pub const TIMESTAMP: u32 = 0x20;
    pub const NAMES: u32 = 0x40;
    /// From version 5 on.
    pub const KEYSPACE: u32 = 0x80;
    /// From version 5 on.
    pub const NOW_IN_SECONDS: u32 = 0x100;
}

/// A bound value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Null,
    /// The column is left as it is (from version 4 on).
    Unset,
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            Value::Null | Value::Unset => None,
        }
    }

    pub fn is_unset(self) -> bool {
        matches!(self, Value::Unset)
    }
}

/// The bound values of one statement, in the order sent. They were checked when the message was decoded, and are read
/// from its body as they are walked: nothing is allocated.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    body: &'a [u8],
    count: u16,
    named: bool,
    version: ProtocolVersion,
}

impl<'a> Values<'a> {
    /// No values.
    pub const NONE: Values<'static> = Values { body: &[], count: 0, named: false, version: ProtocolVersion::V4 };

    /// Reads a count and so many values, each after its name if `named`.
    pub fn decode(reader: &mut Reader<'a>, named: bool, version: ProtocolVersion) -> Read<Values<'a>> {
        Values::decode_each(reader, named, version, |_| ())
    }

    /// The same, and has `each` value seen in its turn.
    #[inline]
    pub fn decode_each(
        reader: &mut Reader<'a>,
        named: bool,
        version: ProtocolVersion,
        mut each: impl FnMut(Value<'a>),
    ) -> Read<Values<'a>> {
        let count = reader.short("the number of values")?;
        let body = reader.rest();
        // One of its own, which need not stand in memory.
        let mut usual = *reader;
        for _ in 0..count {
            if !named && let Some(bytes) = usual.take_counted() {
                each(Value::Bytes(bytes));
                continue;
            }
            let mut unusual = usual;
            each(read_unusual_value(&mut unusual, named, version)?.1);
            usual = unusual;
        }
        *reader = usual;
        let len_bytes = body.len() - reader.left_bytes();
        Ok(Values { body: body.get(..len_bytes).unwrap_or_default(), count, named, version })
    }

    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether each value has a name.
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// The values with their names, if they have any.
    pub fn iter(&self) -> ValuesIter<'a> {
        ValuesIter { reader: Reader::new(self.body), left: self.count, named: self.named, version: self.version }
    }

    /// The values as encoded, without their count.
    pub fn encoded(&self) -> &'a [u8] {
        self.body
    }
}

impl<'a> IntoIterator for Values<'a> {
    type Item = (Option<&'a str>, Value<'a>);
    type IntoIter = ValuesIter<'a>;

    fn into_iter(self) -> ValuesIter<'a> {
        self.iter()
    }
}

/// See `Values::iter`.
pub struct ValuesIter<'a> {
    reader: Reader<'a>,
    left: u16,
    named: bool,
    version: ProtocolVersion,
}

impl<'a> Iterator for ValuesIter<'a> {
    type Item = (Option<&'a str>, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let value = read_value(&mut self.reader, self.named, self.version);
        debug_assert!(value.is_ok(), "values were checked when their message was decoded");
        value.ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for ValuesIter<'_> {}

#[inline]
fn read_value<'a>(
    reader: &mut Reader<'a>,
    named: bool,
    version: ProtocolVersion,
) -> Read<(Option<&'a str>, Value<'a>)> {
    if !named && let Some(bytes) = reader.take_counted() {
        return Ok((None, Value::Bytes(bytes)));
    }
    read_unusual_value(reader, named, version)
}

/// One with a name, null, unset or wrong; any other too.
fn read_unusual_value<'a>(
    reader: &mut Reader<'a>,
    named: bool,
    version: ProtocolVersion,
) -> Read<(Option<&'a str>, Value<'a>)> {
    let name = if named { Some(reader.string("the name of a value")?) } else { None };
    let len = reader.int("the length of a value")?;
    let value = match usize::try_from(len) {
        Ok(len_bytes) => Value::Bytes(reader.take(len_bytes, "a value")?),
        Err(_) if len == -1 || version < ProtocolVersion::V4 => Value::Null,
        Err(_) if len == -2 => Value::Unset,
        Err(_) => return Err(Malformed::Length { what: "a value", got: i64::from(len) }),
    };
    Ok((name, value))
}

/// The parameters of a statement, borrowed from the message.
#[derive(Clone, Copy, Debug)]
pub struct QueryParameters<'a> {
    pub consistency: Consistency,
    pub values: Values<'a>,
    pub skip_metadata: bool,
    /// Rows a page; none means unpaged (so do sizes of zero and less).
    pub page_size: Option<u32>,
    pub paging_state: Option<&'a [u8]>,
    pub serial_consistency: Option<Consistency>,
    /// The default timestamp in microseconds.
    pub timestamp: Option<i64>,
    pub keyspace: Option<&'a str>,
    pub now_in_seconds: Option<i32>,
}

impl Default for QueryParameters<'_> {
    fn default() -> Self {
        QueryParameters {
            consistency: Consistency::One,
            values: Values::NONE,
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
        }
    }
}

impl<'a> QueryParameters<'a> {
    pub fn decode(reader: &mut Reader<'a>, version: ProtocolVersion) -> Read<QueryParameters<'a>> {
        QueryParameters::decode_each(reader, version, |_| ())
    }

    /// The same, and has `each` value seen in its turn.
    #[inline]
    pub fn decode_each(
        reader: &mut Reader<'a>,
        version: ProtocolVersion,
        each: impl FnMut(Value<'a>),
    ) -> Read<QueryParameters<'a>> {
        let mut parameters = QueryParameters { consistency: reader.consistency()?, ..QueryParameters::default() };
        let flags = read_flags(reader, version)?;
        let has = |bit: u32| flags & bit != 0;
        if has(flag::VALUES) {
            parameters.values = Values::decode_each(reader, has(flag::NAMES), version, each)?;
        }
        parameters.skip_metadata = has(flag::SKIP_METADATA);
        if has(flag::PAGE_SIZE) {
            parameters.page_size = u32::try_from(reader.int("a page size")?).ok().filter(|size| *size > 0);
        }
        if has(flag::PAGING_STATE) {
            parameters.paging_state = reader.bytes("a paging state")?;
        }
        if has(flag::SERIAL_CONSISTENCY) {
            parameters.serial_consistency = Some(reader.consistency()?);
        }
        if has(flag::TIMESTAMP) {
            parameters.timestamp = Some(read_timestamp(reader)?);
        }
        if has(flag::KEYSPACE) {
            parameters.keyspace = Some(reader.string("a keyspace")?);
        }
        if has(flag::NOW_IN_SECONDS) {
            parameters.now_in_seconds = Some(reader.int("now in seconds")?);
        }
        Ok(parameters)
    }
}

fn read_flags(reader: &mut Reader<'_>, version: ProtocolVersion) -> Read<u32> {
    if version >= ProtocolVersion::V5 {
        return reader.uint("query flags");
    }
    let flags = u32::from(reader.byte("query flags")?);
    if flags & flag::KEYSPACE != 0 {
        return Err(Malformed::Version { what: "a keyspace in a query's parameters", needs: 5 });
    }
    Ok(flags)
}

fn read_timestamp(reader: &mut Reader<'_>) -> Read<i64> {
    match reader.long("a default timestamp")? {
        i64::MIN => Err(Malformed::Timestamp { got: i64::MIN }),
        timestamp => Ok(timestamp),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;
    use crate::protocol::wire::*;

    fn values(version: ProtocolVersion, bytes: &[u8]) -> Read<Vec<(Option<&str>, Value<'_>)>> {
        Values::decode(&mut Reader::new(bytes), false, version).map(|values| values.iter().collect())
    }

    #[test]
    fn null_and_unset_depend_on_the_version() {
        let bytes = [0, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 1, 9];
        let v4 = values(ProtocolVersion::V4, &bytes).unwrap();
        assert_eq!(v4, [(None, Value::Null), (None, Value::Unset), (None, Value::Bytes(&[9]))]);
        let v3 = values(ProtocolVersion::V3, &bytes).unwrap();
        assert_eq!(v3, [(None, Value::Null), (None, Value::Null), (None, Value::Bytes(&[9]))]);
        let below = [0, 1, 0xff, 0xff, 0xff, 0xfd];
        assert_eq!(values(ProtocolVersion::V5, &below), Err(Malformed::Length { what: "a value", got: -3 }));
    }

    #[test]
    fn a_value_beyond_the_frame_is_an_error() {
        let bytes = [0, 1, 0x7f, 0xff, 0xff, 0xff, 1, 2];
        let need_bytes = 0x7fff_ffff;
        assert_eq!(
            values(ProtocolVersion::V4, &bytes),
            Err(Malformed::Short { what: "a value", need_bytes, left_bytes: 2 })
        );
    }

    /// The longest parameters of a version.
    fn full(version: ProtocolVersion) -> Vec<u8> {
        let mut out = Vec::new();
        put_consistency(&mut out, Consistency::Quorum);
        if version == ProtocolVersion::V5 {
            put_uint(&mut out, 0x1ff);
        } else {
            put_byte(&mut out, 0x7f);
        }
        put_short(&mut out, 1);
        put_string(&mut out, "k");
        put_bytes(&mut out, Some(&[1]));
        put_int(&mut out, 100);
        put_bytes(&mut out, Some(b"state"));
        put_consistency(&mut out, Consistency::LocalSerial);
        put_long(&mut out, -5);
        if version == ProtocolVersion::V5 {
            put_string(&mut out, "ks");
            put_int(&mut out, 1234);
        }
        out
    }

    #[test]
    fn every_parameter_is_read() {
        for version in ProtocolVersion::ALL {
            let body = full(version);
            let mut reader = Reader::new(&body);
            let read = QueryParameters::decode(&mut reader, version).unwrap();
            assert_eq!(reader.left_bytes(), 0);
            assert_eq!(read.consistency, Consistency::Quorum);
            assert!(read.values.is_named() && read.skip_metadata);
            assert_eq!(read.values.iter().collect::<Vec<_>>(), [(Some("k"), Value::Bytes(&[1]))]);
            assert_eq!(read.page_size, Some(100));
            assert_eq!(read.paging_state, Some(b"state".as_slice()));
            assert_eq!(read.serial_consistency, Some(Consistency::LocalSerial));
            assert_eq!(read.timestamp, Some(-5));
            let v5 = version == ProtocolVersion::V5;
            assert_eq!(read.keyspace, v5.then_some("ks"));
            assert_eq!(read.now_in_seconds, v5.then_some(1234));
        }
    }

    #[test]
    fn every_truncation_is_an_error() {
        for version in ProtocolVersion::ALL {
            let body = full(version);
            for len in 0..body.len() {
                assert!(QueryParameters::decode(&mut Reader::new(&body[..len]), version).is_err(), "{version:?} {len}");
            }
        }
    }

    #[test]
    fn odd_parameters() {
        let unpaged = [0, 1, 0x04, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(QueryParameters::decode(&mut Reader::new(&unpaged), ProtocolVersion::V4).unwrap().page_size, None);
        let keyspace = [0, 1, 0x80, 0, 1, b'k'];
        assert!(QueryParameters::decode(&mut Reader::new(&keyspace), ProtocolVersion::V4).is_err());
        let mut least = vec![0, 1, 0x20];
        put_long(&mut least, i64::MIN);
        let error = QueryParameters::decode(&mut Reader::new(&least), ProtocolVersion::V4).unwrap_err();
        assert!(error.to_string().contains("Out of bound timestamp"));
        let level = [0, 77, 0];
        let error = QueryParameters::decode(&mut Reader::new(&level), ProtocolVersion::V4).unwrap_err();
        assert_eq!(error.to_string(), "Unknown code 77 for a consistency level");
    }
}
