//! `[option]`: how a result's metadata names the type of a column.

use super::version::ProtocolVersion;
use super::wire::{Malformed, Read, Reader, put_count, put_short, put_string};
use crate::types::marshal::parse_marshal_name;
use crate::types::{CqlType, UdtType};

const CUSTOM: u16 = 0x00;
const LIST: u16 = 0x20;
const MAP: u16 = 0x21;
const SET: u16 = 0x22;
const UDT: u16 = 0x30;
const TUPLE: u16 = 0x31;

/// Types nested deeper than this are refused when read.
const DEPTH_MAX: usize = 64;

/// The scalar types: code, and the version from which on it is known. Earlier ones get the class name.
const NATIVE: [(CqlType, u16, ProtocolVersion); 20] = [
    (CqlType::Ascii, 0x01, ProtocolVersion::V3),
    (CqlType::BigInt, 0x02, ProtocolVersion::V3),
    (CqlType::Blob, 0x03, ProtocolVersion::V3),
    (CqlType::Boolean, 0x04, ProtocolVersion::V3),
    (CqlType::Counter, 0x05, ProtocolVersion::V3),
    (CqlType::Decimal, 0x06, ProtocolVersion::V3),
    (CqlType::Double, 0x07, ProtocolVersion::V3),
    (CqlType::Float, 0x08, ProtocolVersion::V3),
    (CqlType::Int, 0x09, ProtocolVersion::V3),
    (CqlType::Timestamp, 0x0B, ProtocolVersion::V3),
    (CqlType::Uuid, 0x0C, ProtocolVersion::V3),
    (CqlType::Text, 0x0D, ProtocolVersion::V3),
    (CqlType::Varint, 0x0E, ProtocolVersion::V3),
    (CqlType::TimeUuid, 0x0F, ProtocolVersion::V3),
    (CqlType::Inet, 0x10, ProtocolVersion::V3),
    (CqlType::Date, 0x11, ProtocolVersion::V4),
    (CqlType::Time, 0x12, ProtocolVersion::V4),
    (CqlType::SmallInt, 0x13, ProtocolVersion::V4),
    (CqlType::TinyInt, 0x14, ProtocolVersion::V4),
    (CqlType::Duration, 0x15, ProtocolVersion::V5),
];

/// Appends a type. Whether it is frozen is not said on the wire.
pub fn put_option(version: ProtocolVersion, ty: &CqlType, out: &mut Vec<u8>) {
    match ty {
        CqlType::Frozen(inner) => put_option(version, inner, out),
        CqlType::List(element) => {
            put_short(out, LIST);
            put_option(version, element, out);
        }
        CqlType::Set(element) => {
            put_short(out, SET);
            put_option(version, element, out);
        }
        CqlType::Map(key, value) => {
            put_short(out, MAP);
            put_option(version, key, out);
            put_option(version, value, out);
        }
        CqlType::Tuple(elements) => {
            put_short(out, TUPLE);
            put_count(out, elements.len());
            elements.iter().for_each(|element| put_option(version, element, out));
        }
        CqlType::Udt(udt) => {
            put_short(out, UDT);
            put_string(out, &udt.keyspace);
            put_string(out, &udt.name);
            put_count(out, udt.fields.len());
            for (name, ty) in &udt.fields {
                put_string(out, name);
                put_option(version, ty, out);
            }
        }
        scalar => put_scalar(version, scalar, out),
    }
}

fn put_scalar(version: ProtocolVersion, ty: &CqlType, out: &mut Vec<u8>) {
    match NATIVE.iter().find(|(native, _, _)| native == ty) {
        Some((_, code, since)) if version >= *since => put_short(out, *code),
        _ => {
            put_short(out, CUSTOM);
            put_string(out, &ty.marshal_name());
        }
    }
}

/// Reads a type. Class names of known types give those types; unknown ones stay names.
pub fn read_option(reader: &mut Reader<'_>) -> Read<CqlType> {
    read_nested(reader, 0)
}

fn read_nested(reader: &mut Reader<'_>, depth: usize) -> Read<CqlType> {
    if depth > DEPTH_MAX {
        return Err(Malformed::Length { what: "the nesting of a type", got: i64::try_from(depth).unwrap_or(i64::MAX) });
    }
    let code = reader.short("a type's code")?;
    let inner = |reader: &mut Reader<'_>| read_nested(reader, depth + 1);
    match code {
        CUSTOM => {
            let class = reader.string("a type's class")?;
            Ok(parse_marshal_name(class).unwrap_or_else(|_| CqlType::Custom(class.to_owned())))
        }
        LIST => Ok(CqlType::list(inner(reader)?)),
        SET => Ok(CqlType::set(inner(reader)?)),
        MAP => Ok(CqlType::map(inner(reader)?, inner(reader)?)),
        TUPLE => {
            let count = reader.count(2, "a tuple's types")?;
            Ok(CqlType::Tuple((0..count).map(|_| inner(reader)).collect::<Read<_>>()?))
        }
        UDT => {
            let keyspace = reader.string("a type's keyspace")?.to_owned();
            let name = reader.string("a type's name")?.to_owned();
            let count = reader.count(4, "a type's fields")?;
            let mut field = |_| Ok((reader.string("a field's name")?.to_owned(), read_nested(reader, depth + 1)?));
            let fields = (0..count).map(&mut field).collect::<Read<_>>()?;
            Ok(CqlType::Udt(Box::new(UdtType { keyspace, name, fields })))
        }
        code => match NATIVE.iter().find(|(_, known, _)| *known == code) {
            Some((native, _, _)) => Ok(native.clone()),
            None => Err(Malformed::Code { what: "a type", got: i64::from(code) }),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;

    fn encode(version: ProtocolVersion, ty: &CqlType) -> Vec<u8> {
        let mut out = Vec::new();
        put_option(version, ty, &mut out);
        out
    }

    fn udt() -> CqlType {
        CqlType::Udt(Box::new(UdtType {
            keyspace: "ks".into(),
            name: "u".into(),
            fields: vec![("a".into(), CqlType::Int), ("b".into(), CqlType::list(CqlType::Text))],
        }))
    }

    fn types() -> Vec<CqlType> {
        let mut types = CqlType::NATIVE.to_vec();
        types.extend([
            CqlType::list(CqlType::set(CqlType::Int)),
            CqlType::map(CqlType::Text, CqlType::map(CqlType::Duration, CqlType::Date)),
            CqlType::Tuple(vec![CqlType::Int, CqlType::Tuple(vec![]), CqlType::TinyInt]),
            udt(),
            CqlType::vector(CqlType::Float, 3),
            CqlType::Empty,
            CqlType::Custom("org.apache.cassandra.db.marshal.LegacyTimeUUIDType".into()),
            CqlType::Custom("com.example.Own".into()),
        ]);
        types
    }

    #[test]
    fn types_round_trip_in_every_version_and_truncations_are_errors() {
        for version in ProtocolVersion::ALL {
            for ty in types() {
                let bytes = encode(version, &ty);
                let mut reader = Reader::new(&bytes);
                assert_eq!(read_option(&mut reader), Ok(ty.clone()), "{version:?}");
                assert_eq!(reader.left_bytes(), 0);
                for len in 0..bytes.len() {
                    assert!(read_option(&mut Reader::new(&bytes[..len])).is_err(), "{ty:?} {len}");
                }
            }
        }
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(encode(ProtocolVersion::V3, &CqlType::Int), [0, 9]);
        assert_eq!(encode(ProtocolVersion::V4, &CqlType::Date), [0, 0x11]);
        assert_eq!(encode(ProtocolVersion::V5, &CqlType::Duration), [0, 0x15]);
        assert_eq!(
            encode(ProtocolVersion::V4, &CqlType::map(CqlType::Text, CqlType::BigInt).freeze()),
            [0, 0x21, 0, 0x0D, 0, 2]
        );
        assert_eq!(
            encode(ProtocolVersion::V4, &udt()),
            b"\x00\x30\x00\x02ks\x00\x01u\x00\x02\x00\x01a\x00\x09\x00\x01b\x00\x20\x00\x0d"
        );
    }

    #[test]
    fn what_a_version_does_not_know_is_named_by_class() {
        let class = |version, ty: CqlType| {
            let bytes = encode(version, &ty);
            assert_eq!(bytes[..2], [0, 0]);
            String::from_utf8(bytes[4..].to_vec()).unwrap()
        };
        let name = "org.apache.cassandra.db.marshal.";
        assert_eq!(class(ProtocolVersion::V3, CqlType::Date), format!("{name}SimpleDateType"));
        assert_eq!(class(ProtocolVersion::V4, CqlType::Duration), format!("{name}DurationType"));
        assert_eq!(
            class(ProtocolVersion::V5, CqlType::vector(CqlType::Float, 3)),
            format!("{name}VectorType({name}FloatType , 3)")
        );
    }

    #[test]
    fn depth_is_bounded() {
        let deep = [0u8, 0x20].repeat(10_000);
        assert!(matches!(read_option(&mut Reader::new(&deep)), Err(Malformed::Length { .. })));
        assert!(matches!(read_option(&mut Reader::new(&[0, 0x40])), Err(Malformed::Code { got: 0x40, .. })));
    }
}
