//! The text of values: as CQL literals (`'it''s'`, `{1: 'a'}`) and, for scalars, bare (`it's`).

use super::collection::element_texts;
use super::cql_type::{CqlType, quote_name};
use super::duration::Duration;
use super::literal::encode_hex;
use super::number::{self, Decimal};
use super::{inet, temporal, uuid};

/// The CQL literal of a value that is not null. A value of no bytes is written `null` where its type is not text or
/// blob, for no literal means it. Bytes that are no value of the type are written as a blob.
pub fn to_text(ty: &CqlType, bytes: &[u8]) -> String {
    composed(ty, bytes).unwrap_or_else(|| {
        if bytes.is_empty() && ty.is_empty_value_meaningless() {
            return "null".to_owned();
        }
        match (bare(ty, bytes), is_quoted(ty)) {
            (Some(text), true) => format!("'{}'", text.replace('\'', "''")),
            (Some(text), false) => text,
            (None, _) => format!("0x{}", encode_hex(bytes)),
        }
    })
}

/// The text of a value as a cast to text gives it: scalars without quotes; a value of no bytes is the empty text.
pub fn to_plain_text(ty: &CqlType, bytes: &[u8]) -> String {
    if let Some(text) = composed(ty, bytes) {
        return text;
    }
    if bytes.is_empty() && ty.is_empty_value_meaningless() {
        return String::new();
    }
    bare(ty, bytes).unwrap_or_else(|| format!("0x{}", encode_hex(bytes)))
}

fn is_quoted(ty: &CqlType) -> bool {
    matches!(ty, CqlType::Ascii | CqlType::Text | CqlType::Inet | CqlType::Date | CqlType::Time | CqlType::Timestamp)
}

/// A scalar without quotes; `None` for bytes that are not of the type.
pub(super) fn bare(ty: &CqlType, bytes: &[u8]) -> Option<String> {
    Some(match ty {
        CqlType::Ascii | CqlType::Text => String::from_utf8_lossy(bytes).into_owned(),
        CqlType::Boolean => number::boolean(bytes)?.to_string(),
        CqlType::TinyInt => number::int8(bytes)?.to_string(),
        CqlType::SmallInt => number::int16(bytes)?.to_string(),
        CqlType::Int => number::int32(bytes)?.to_string(),
        CqlType::BigInt | CqlType::Counter => number::int64(bytes)?.to_string(),
        CqlType::Varint => number::varint(bytes)?.to_string(),
        CqlType::Decimal => Decimal::decode(bytes)?.to_plain_string(),
        CqlType::Float => number::float_text(number::float32(bytes)?),
        CqlType::Double => number::double_text(number::float64(bytes)?),
        CqlType::Timestamp => temporal::format_timestamp(number::int64(bytes)?),
        CqlType::Date => temporal::format_date(number::int32(bytes)?.cast_unsigned()),
        CqlType::Time => temporal::format_time(number::int64(bytes)?),
        CqlType::Uuid | CqlType::TimeUuid => uuid::format(bytes.try_into().ok()?),
        CqlType::Inet => inet::format(bytes)?,
        CqlType::Duration => Duration::decode(bytes).ok()?.to_string(),
        _ => format!("0x{}", encode_hex(bytes)),
    })
}

/// A collection, tuple, user-defined type or vector; `None` for scalars and for bytes that are not of the type.
fn composed(ty: &CqlType, bytes: &[u8]) -> Option<String> {
    let ty = ty.unfrozen();
    let (open, close) = match ty {
        CqlType::List(_) | CqlType::Vector(..) => ('[', ']'),
        CqlType::Set(_) | CqlType::Map(..) | CqlType::Udt(_) => ('{', '}'),
        CqlType::Tuple(_) => ('(', ')'),
        _ => return None,
    };
    let mut parts = element_texts(ty, bytes, to_text)?;
    match ty {
        CqlType::Map(..) => {
            parts = parts.as_chunks::<2>().0.iter().map(|[key, value]| format!("{key}: {value}")).collect();
        }
        CqlType::Udt(udt) => {
            let names = udt.fields.iter().map(|(name, _)| quote_name(name));
            parts = names.zip(parts).map(|(name, part)| format!("{name}: {part}")).collect();
        }
        _ => {}
    }
    Some(format!("{open}{}{close}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::collection::{pack_list, pack_map, pack_tuple, pack_vector};
    use super::super::cql_type::UdtType;
    use super::super::literal::from_text;
    use super::super::validate;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scalars() {
        for (ty, bytes, quoted, plain) in [
            (CqlType::Text, b"it's".to_vec(), "'it''s'", "it's"),
            (CqlType::Text, vec![], "''", ""),
            (CqlType::Blob, vec![], "0x", "0x"),
            (CqlType::Int, vec![], "null", ""),
            (CqlType::Int, vec![1, 2], "0x0102", "0x0102"),
            (CqlType::Boolean, vec![2], "true", "true"),
            (CqlType::Decimal, vec![255, 255, 255, 253, 1], "1000", "1000"),
            (CqlType::Date, vec![128, 0, 0, 0], "'1970-01-01'", "1970-01-01"),
            (CqlType::Inet, vec![127, 0, 0, 1], "'127.0.0.1'", "127.0.0.1"),
            (CqlType::Duration, vec![2, 2, 2], "1mo1d1ns", "1mo1d1ns"),
            (CqlType::Custom("x".into()), vec![1], "0x01", "0x01"),
        ] {
            assert_eq!(to_text(&ty, &bytes), quoted);
            assert_eq!(to_plain_text(&ty, &bytes), plain);
        }
    }

    #[test]
    fn composed_values() {
        let one = 1i32.to_be_bytes();
        let list = CqlType::list(CqlType::Int).freeze();
        assert_eq!(to_text(&list, &pack_list([Some(one.as_slice()), None])), "[1, null]");
        let map = CqlType::map(CqlType::Int, CqlType::Text);
        assert_eq!(to_text(&map, &pack_map(&CqlType::Int, [(one.as_slice(), b"a".as_slice())])), "{1: 'a'}");
        let tuple = CqlType::tuple([CqlType::Int, CqlType::Text]);
        assert_eq!(to_text(&tuple, &pack_tuple([Some(one.as_slice())])), "(1, null)");
        let fields = vec![("a".to_owned(), CqlType::Int), ("B c".to_owned(), CqlType::Text)];
        let udt = CqlType::Udt(Box::new(UdtType { keyspace: "ks".into(), name: "ty".into(), fields }));
        assert_eq!(to_text(&udt, &pack_tuple([Some(one.as_slice())])), "{a: 1, \"B c\": null}");
        let vector = CqlType::vector(CqlType::Float, 2);
        let (x, y) = (1.5f32.to_be_bytes(), (-0.0f32).to_be_bytes());
        assert_eq!(to_text(&vector, &pack_vector(&CqlType::Float, [x.as_slice(), &y])), "[1.5, -0.0]");
        assert_eq!(to_text(&list, &[1]), "0x01");
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_text(bytes: Vec<u8>) {
            let composed = [CqlType::map(CqlType::Decimal, CqlType::Time), CqlType::tuple([CqlType::Timestamp])];
            for ty in CqlType::NATIVE.iter().chain(&composed) {
                prop_assert!(is_quoted(ty) || !to_text(ty, &bytes).is_empty() || *ty == CqlType::Duration);
                let _ = to_plain_text(ty, &bytes);
            }
        }

        #[test]
        fn plain_text_reads_back(bytes: Vec<u8>) {
            for ty in [CqlType::Int, CqlType::BigInt, CqlType::Uuid, CqlType::Varint, CqlType::Date, CqlType::TinyInt] {
                if !bytes.is_empty() && validate(&ty, &bytes).is_ok() {
                    let back = from_text(&ty, &to_plain_text(&ty, &bytes), 0).unwrap_or_default();
                    prop_assert_eq!(super::super::compare(&ty, &back, &bytes), std::cmp::Ordering::Equal);
                }
            }
        }
    }
}
