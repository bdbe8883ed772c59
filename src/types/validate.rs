//! Whether bytes are a value of a type, by Cassandra's rules and with its words.

use super::collection::{element_type, elements};
use super::cql_type::CqlType;
use super::duration::Duration;
use super::error::ValueError;
use super::{literal, marshal, uuid};

/// Checks a value that is not null. Nested values are checked too. Null elements are valid in lists (which `IN` and
/// frozen lists may hold), tuples and user-defined types, but not in sets, maps and vectors.
pub fn validate(ty: &CqlType, bytes: &[u8]) -> Result<(), ValueError> {
    let length = |allowed: &[usize], want| match allowed.contains(&bytes.len()) {
        true => Ok(()),
        false => Err(ValueError::Length { want, got: bytes.len() }),
    };
    match ty {
        CqlType::Ascii if bytes.is_ascii() => Ok(()),
        CqlType::Ascii => match bytes.iter().find(|byte| !byte.is_ascii()) {
            Some(byte) => Err(ValueError::NotAscii(byte.cast_signed())),
            None => Ok(()),
        },
        CqlType::Text => {
            if bytes.is_ascii() || is_cassandra_utf8(bytes) {
                Ok(())
            } else {
                Err(ValueError::NotUtf8)
            }
        }
        CqlType::Blob | CqlType::Varint => Ok(()),
        CqlType::Boolean => length(&[0, 1], "Expected 1 or 0 byte value"),
        CqlType::TinyInt => length(&[1], "Expected 1 byte for a tinyint"),
        CqlType::SmallInt => length(&[2], "Expected 2 bytes for a smallint"),
        CqlType::Int => length(&[0, 4], "Expected 4 or 0 byte int"),
        CqlType::BigInt | CqlType::Counter => length(&[0, 8], "Expected 8 or 0 byte long"),
        CqlType::Float => length(&[0, 4], "Expected 4 or 0 byte value for a float"),
        CqlType::Double => length(&[0, 8], "Expected 8 or 0 byte value for a double"),
        CqlType::Timestamp => length(&[0, 8], "Expected 8 or 0 byte long for date"),
        CqlType::Date => length(&[4], "Expected 4 byte long for date"),
        CqlType::Time => length(&[8], "Expected 8 byte long for time"),
        CqlType::Uuid => length(&[0, 16], "UUID should be 16 or 0 bytes"),
        CqlType::TimeUuid => timeuuid(bytes),
        CqlType::Decimal => match bytes.len() {
            1..=3 => Err(ValueError::Length { want: "Expected 0 or at least 4 bytes", got: bytes.len() }),
            _ => Ok(()),
        },
        CqlType::Inet => match bytes.len() {
            0 | 4 | 16 => Ok(()),
            _ => Err(ValueError::InetLength { hex: literal::encode_hex(bytes) }),
        },
        CqlType::Duration => Duration::decode(bytes).map(drop),
        CqlType::Empty => {
            if bytes.is_empty() {
                Ok(())
            } else {
                Err(ValueError::NotEmpty)
            }
        }
        CqlType::Custom(class) if class == marshal::LEGACY_TIMEUUID => timeuuid(bytes),
        CqlType::Custom(_) => Ok(()),
        CqlType::Frozen(inner) => validate(inner, bytes),
        CqlType::List(_) | CqlType::Tuple(_) | CqlType::Udt(_) => parts(ty, bytes, true),
        CqlType::Set(_) | CqlType::Map(..) | CqlType::Vector(..) => parts(ty, bytes, false),
    }
}

fn parts(ty: &CqlType, bytes: &[u8], nulls: bool) -> Result<(), ValueError> {
    for (at, part) in elements(ty, bytes)?.enumerate() {
        match (part, element_type(ty, at)) {
            (Some(part), Some(element)) => validate(element, part)?,
            (None, _) if !nulls => return Err(ValueError::CollectionNull),
            _ => {}
        }
    }
    Ok(())
}

fn timeuuid(bytes: &[u8]) -> Result<(), ValueError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let bytes: &[u8; 16] =
        bytes.try_into().map_err(|_| ValueError::Length { want: "UUID should be 16 or 0 bytes", got: bytes.len() })?;
    if uuid::version(bytes) == 1 { Ok(()) } else { Err(ValueError::TimeUuidVersion) }
}

/// UTF-8 as Cassandra's own validator has it: Java's modified form too (zero as `c080`, surrogates as three bytes
/// each), and not every second byte is looked at.
fn is_cassandra_utf8(mut bytes: &[u8]) -> bool {
    let tail = |byte: &u8| byte & 0xc0 == 0x80;
    loop {
        if std::str::from_utf8(bytes).is_ok() {
            return true;
        }
        bytes = match bytes {
            [0..=0x7f, rest @ ..] | [0xc0, 0x80, rest @ ..] => rest,
            [0xc2..=0xdf, a, rest @ ..] if tail(a) => rest,
            [0xe0, a, b, rest @ ..] if a & 0xe0 != 0x80 && tail(b) => rest,
            [0xe1..=0xef, a, b, rest @ ..] if tail(a) && tail(b) => rest,
            [0xf0, a, b, c, rest @ ..] if a & 0x30 != 0 && tail(b) && tail(c) => rest,
            [0xf1..=0xf7, a, b, c, rest @ ..] if tail(a) && tail(b) && tail(c) => rest,
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::super::collection::pack_list;
    use super::*;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        literal::decode_hex(text).unwrap()
    }

    #[test]
    fn wrong_bytes_get_cassandras_words() {
        for (ty, bytes, message) in [
            (CqlType::Int, "000001", "Expected 4 or 0 byte int (3)"),
            (CqlType::BigInt, "00000001", "Expected 8 or 0 byte long (4)"),
            (CqlType::Text, "ff", "String didn't validate."),
            (CqlType::Text, "c3", "String didn't validate."),
            (CqlType::Ascii, "80", "Invalid byte for ascii: -128"),
            (CqlType::Boolean, "0001", "Expected 1 or 0 byte value (2)"),
            (CqlType::Double, "00000000", "Expected 8 or 0 byte value for a double (4)"),
            (CqlType::Float, "0000", "Expected 4 or 0 byte value for a float (2)"),
            (CqlType::Uuid, "00112233445566778899aabbccddee", "UUID should be 16 or 0 bytes (15)"),
            (CqlType::TimeUuid, "00112233445546778899aabbccddeeff", "Invalid version for TimeUUID type: 0x0"),
            (CqlType::TimeUuid, "001122334455", "UUID should be 16 or 0 bytes (6)"),
            (CqlType::Inet, "010203", "Expected 4 or 16 byte inetaddress; got 010203"),
            (CqlType::Timestamp, "00000001", "Expected 8 or 0 byte long for date (4)"),
            (CqlType::Date, "0000000000000001", "Expected 4 byte long for date (8)"),
            (CqlType::Time, "00000001", "Expected 8 byte long for time (4)"),
            (CqlType::SmallInt, "01", "Expected 2 bytes for a smallint (1)"),
            (CqlType::TinyInt, "", "Expected 1 byte for a tinyint (0)"),
            (CqlType::Decimal, "000000", "Expected 0 or at least 4 bytes (3)"),
            (CqlType::Duration, "", "Expected at least 3 bytes for a duration (0)"),
            (CqlType::list(CqlType::Int), "000000010000000200ff", "Expected 4 or 0 byte int (2)"),
            (CqlType::set(CqlType::Int), "00000001ffffffff", "Null value read when not allowed"),
            (CqlType::Empty, "00", "EmptyType only accept empty values"),
        ] {
            assert_eq!(validate(&ty, &hex(bytes)).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn odd_bytes_that_cassandra_takes() {
        for (ty, bytes) in [
            (CqlType::Text, "eda080"),
            (CqlType::Text, "c080"),
            (CqlType::Text, "f09f9880"),
            (CqlType::Boolean, "02"),
            (CqlType::Double, "7ff8000000000001"),
            (CqlType::TimeUuid, "0011223344551677c899aabbccddeeff"),
            (CqlType::Inet, "00000000000000000000ffff01020304"),
            (CqlType::Time, "ffffffffffffffff"),
            (CqlType::Varint, "00000001"),
            (CqlType::Decimal, "00000002"),
            (CqlType::Duration, "02020202"),
            (CqlType::list(CqlType::Int).freeze(), "00000001ffffffff"),
            (CqlType::list(CqlType::Int), "0000000100000000"),
        ] {
            assert_eq!(validate(&ty, &hex(bytes)), Ok(()), "{ty} {bytes}");
        }
    }

    #[test]
    fn empty_values_agree_with_the_type() {
        for ty in CqlType::NATIVE.into_iter().chain([CqlType::list(CqlType::Int), CqlType::tuple([CqlType::Int])]) {
            assert_eq!(validate(&ty, &[]).is_ok(), ty.allows_empty(), "{ty}");
        }
    }

    proptest! {
        #[test]
        fn strings_are_text(text: String) {
            prop_assert_eq!(validate(&CqlType::Text, text.as_bytes()), Ok(()));
        }

        #[test]
        fn any_bytes_are_valid_or_not(bytes: Vec<u8>) {
            let composed = [
                CqlType::map(CqlType::Text, CqlType::list(CqlType::Int).freeze()),
                CqlType::tuple([CqlType::Int, CqlType::Duration]),
                CqlType::vector(CqlType::Decimal, 2),
            ];
            for ty in CqlType::NATIVE.iter().chain(&composed) {
                let _ = validate(ty, &bytes);
            }
            let list = CqlType::list(CqlType::Int);
            let nested = pack_list([Some(bytes.as_slice())]);
            prop_assert_eq!(validate(&list, &nested).is_ok(), validate(&CqlType::Int, &bytes).is_ok());
        }
    }
}
