//! What a constant of a CQL statement means for the type that receives it: which kinds of constant a type takes, and
//! which texts of that kind. The rules and the words of errors are Cassandra's.

use num_bigint::BigInt;

use super::collection::pack_tuple;
use super::cql_type::CqlType;
use super::duration::Duration;
use super::error::ValueError;
use super::number::{self, Decimal};
use super::{inet, temporal, uuid, validate};

/// The kinds of constant that the grammar tells apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LiteralKind {
    String,
    Integer,
    Uuid,
    Float,
    Boolean,
    Hex,
    Duration,
}

impl LiteralKind {
    /// The name in error texts.
    pub fn name(self) -> &'static str {
        match self {
            LiteralKind::String => "STRING",
            LiteralKind::Integer => "INTEGER",
            LiteralKind::Uuid => "UUID",
            LiteralKind::Float => "FLOAT",
            LiteralKind::Boolean => "BOOLEAN",
            LiteralKind::Hex => "HEX",
            LiteralKind::Duration => "DURATION",
        }
    }
}

/// How well a term fits what receives it; function calls are resolved by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Assignment {
    No,
    Weak,
    Exact,
}

/// A constant: its kind and its text, of a string without quotes, of hexadecimal digits with `0x`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Literal<'a> {
    pub kind: LiteralKind,
    pub text: &'a str,
}

impl<'a> Literal<'a> {
    pub fn new(kind: LiteralKind, text: &'a str) -> Literal<'a> {
        Literal { kind, text }
    }

    /// Whether the type takes constants of this kind.
    pub fn assignable_to(&self, ty: &CqlType) -> Assignment {
        if matches!(ty.unfrozen(), CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) | CqlType::Udt(_)) {
            return Assignment::No;
        }
        if matches!(ty, CqlType::Tuple(_) | CqlType::Vector(..) | CqlType::Custom(_)) {
            return Assignment::Weak;
        }
        if self.preferred_type() == *ty {
            return Assignment::Exact;
        }
        use CqlType::{
            Ascii, BigInt, Blob, Boolean, Counter, Date, Decimal, Double, Duration, Float, Inet, Int, SmallInt, Text,
            Time, TimeUuid, Timestamp, TinyInt, Uuid, Varint,
        };
        let taken = match self.kind {
            LiteralKind::String => matches!(ty, Ascii | Text | Inet | Date | Time | Timestamp),
            LiteralKind::Integer => matches!(
                ty,
                BigInt
                    | Counter
                    | Date
                    | Decimal
                    | Double
                    | Duration
                    | Float
                    | Int
                    | SmallInt
                    | Time
                    | Timestamp
                    | TinyInt
                    | Varint
            ),
            LiteralKind::Uuid => matches!(ty, Uuid | TimeUuid),
            LiteralKind::Float => matches!(ty, Decimal | Double | Float),
            LiteralKind::Boolean => matches!(ty, Boolean),
            LiteralKind::Hex => matches!(ty, Blob | TinyInt),
            LiteralKind::Duration => matches!(ty, Duration),
        };
        if taken { Assignment::Weak } else { Assignment::No }
    }

    /// The type that the constant has where nothing else says.
    pub fn preferred_type(&self) -> CqlType {
        match self.kind {
            LiteralKind::String if self.text.is_ascii() => CqlType::Ascii,
            LiteralKind::String => CqlType::Text,
            LiteralKind::Integer => match self.text.parse::<i64>() {
                Ok(value) if i32::try_from(value).is_ok() => CqlType::Int,
                Ok(_) => CqlType::BigInt,
                Err(_) => CqlType::Varint,
            },
            LiteralKind::Uuid => match uuid::parse(self.text) {
                Some(value) if uuid::version(&value) == 1 => CqlType::TimeUuid,
                _ => CqlType::Uuid,
            },
            LiteralKind::Float => match (Decimal::parse(self.text), number::parse_double(self.text)) {
                (Some(exact), Some(double)) if is_same_number(&exact, double) => CqlType::Double,
                (Some(_), _) => CqlType::Decimal,
                (None, _) => CqlType::Double,
            },
            LiteralKind::Boolean => CqlType::Boolean,
            LiteralKind::Hex => CqlType::TinyInt,
            LiteralKind::Duration => CqlType::Duration,
        }
    }

    /// Why the statement cannot even be parsed with this constant: Cassandra looks at the size of numbers with a
    /// point or exponent while it parses, and refuses those beyond a double for any receiver.
    pub fn syntax_error(&self) -> Option<&'static str> {
        if self.kind != LiteralKind::Float || self.text.ends_with("NaN") || self.text.ends_with("Infinity") {
            return None;
        }
        match number::parse_double(self.text) {
            _ if Decimal::parse(self.text).is_none() => Some("NumberFormatException Exponent overflow."),
            Some(double) if double.is_infinite() => Some(
                "NumberFormatException Character I is neither a decimal digit number, decimal point, nor \"e\" \
                 notation exponential mark.",
            ),
            _ => None,
        }
    }

    /// The value of the constant for a receiver (a column, an argument) of this name and type.
    pub fn to_bytes(&self, ty: &CqlType, receiver: &str, now_ms: i64) -> Result<Vec<u8>, ValueError> {
        if self.assignable_to(ty) == Assignment::No {
            return Err(ValueError::LiteralKind {
                kind: self.kind.name(),
                text: self.text.to_owned(),
                receiver: receiver.to_owned(),
                ty: ty.to_string(),
            });
        }
        if self.kind != LiteralKind::Hex {
            return from_text(ty, self.text, now_ms);
        }
        let digits = self.text.strip_prefix("0x").or_else(|| self.text.strip_prefix("0X")).unwrap_or(self.text);
        let bytes = blob(digits)?;
        validate(ty, &bytes)?;
        Ok(bytes)
    }
}

fn is_same_number(exact: &Decimal, double: f64) -> bool {
    let shortest = Decimal::parse(&number::double_text(double));
    shortest.is_some_and(|shortest| shortest.compare(exact).is_eq())
}

/// The value that a text stands for, without regard to the kind of constant: what Cassandra calls `fromString`.
/// `now_ms` is what a timestamp of `now` becomes.
pub fn from_text(ty: &CqlType, text: &str, now_ms: i64) -> Result<Vec<u8>, ValueError> {
    let wrong = |what: &str| ValueError::LiteralText(format!("{what} '{text}'"));
    if text.is_empty() && ty.is_empty_value_meaningless() && is_empty_text_empty(ty) {
        return Ok(Vec::new());
    }
    Ok(match ty {
        CqlType::Ascii if !text.is_ascii() => {
            return Err(ValueError::LiteralText(
                "Invalid ASCII character in string literal: \
                 java.nio.charset.UnmappableCharacterException: Input length = 1"
                    .to_owned(),
            ));
        }
        CqlType::Ascii | CqlType::Text => text.as_bytes().to_vec(),
        CqlType::TinyInt => integer(text, i8::to_be_bytes).ok_or_else(|| wrong("Unable to make byte from"))?,
        CqlType::SmallInt => integer(text, i16::to_be_bytes).ok_or_else(|| wrong("Unable to make short from"))?,
        CqlType::Int => integer(text, i32::to_be_bytes).ok_or_else(|| wrong("Unable to make int from"))?,
        CqlType::BigInt | CqlType::Counter => {
            integer(text, i64::to_be_bytes).ok_or_else(|| wrong("Unable to make long from"))?
        }
        CqlType::Varint => {
            let value: BigInt = text.parse().map_err(|_| wrong("unable to make int from"))?;
            number::varint_bytes(&value)
        }
        CqlType::Decimal => Decimal::parse(text).ok_or_else(|| wrong("unable to make BigDecimal from"))?.encode(),
        CqlType::Float => {
            number::parse_float(text).ok_or_else(|| wrong("Unable to make float from"))?.to_be_bytes().to_vec()
        }
        CqlType::Double => {
            number::parse_double(text).ok_or_else(|| wrong("Unable to make double from"))?.to_be_bytes().to_vec()
        }
        CqlType::Boolean => match text.to_ascii_lowercase().as_str() {
            "true" => vec![1],
            "false" | "" => vec![0],
            _ => return Err(wrong("Unable to make boolean from")),
        },
        CqlType::Uuid => uuid::parse(text).ok_or_else(|| wrong("Unable to make UUID from"))?.to_vec(),
        CqlType::TimeUuid => timeuuid(text)?,
        CqlType::Inet => inet::parse(text).ok_or_else(|| wrong("Unable to make inet address from"))?,
        CqlType::Timestamp => temporal::parse_timestamp(text, now_ms)?.to_be_bytes().to_vec(),
        CqlType::Date => temporal::parse_date(text)?.to_be_bytes().to_vec(),
        CqlType::Time => temporal::parse_time(text)?.to_be_bytes().to_vec(),
        CqlType::Duration => Duration::parse(text)?.encode(),
        CqlType::Tuple(types) => tuple(ty, types, text, now_ms)?,
        _ => {
            let bytes = blob(text)?;
            validate(ty, &bytes)?;
            bytes
        }
    })
}

/// The types for which the empty text means the empty value.
fn is_empty_text_empty(ty: &CqlType) -> bool {
    ty.allows_empty() && !matches!(ty, CqlType::Boolean | CqlType::Tuple(_))
}

fn integer<T: std::str::FromStr, const N: usize>(text: &str, bytes: impl Fn(T) -> [u8; N]) -> Option<Vec<u8>> {
    text.parse().ok().map(|value| bytes(value).to_vec())
}

fn blob(digits: &str) -> Result<Vec<u8>, ValueError> {
    decode_hex(digits).ok_or_else(|| ValueError::LiteralText(format!("cannot parse '{digits}' as hex bytes")))
}

fn timeuuid(text: &str) -> Result<Vec<u8>, ValueError> {
    match uuid::parse(text) {
        Some(value) if uuid::version(&value) == 1 => Ok(value.to_vec()),
        Some(_) => Err(ValueError::LiteralText("TimeUUID supports only version 1 UUIDs".to_owned())),
        None => Err(ValueError::LiteralText(format!("Unknown timeuuid representation: {text}"))),
    }
}

/// A tuple written as one constant: its fields between colons, `@` for null; a backslash before either keeps it.
fn tuple(ty: &CqlType, types: &[CqlType], text: &str, now_ms: i64) -> Result<Vec<u8>, ValueError> {
    let parts = split_fields(text);
    if parts.len() > types.len() {
        return Err(ValueError::LiteralText(format!(
            "Invalid tuple literal: too many elements. Type {ty} expects {} but got {}",
            types.len(),
            parts.len()
        )));
    }
    let fields: Vec<Option<Vec<u8>>> = types
        .iter()
        .zip(&parts)
        .map(|(ty, part)| match part.as_str() {
            "@" => Ok(None),
            part => from_text(ty, &part.replace("\\@", "@"), now_ms).map(Some),
        })
        .collect::<Result<_, _>>()?;
    Ok(pack_tuple(fields.iter().map(Option::as_deref)))
}

fn split_fields(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = c == '\\' && chars.peek() == Some(&':');
        match (c, parts.last_mut()) {
            (':', _) => parts.push(String::new()),
            (_, Some(part)) if escaped => part.extend(chars.next()),
            (_, Some(part)) => part.push(c),
            (_, None) => {}
        }
    }
    parts
}

/// Bytes of an even number of hexadecimal digits.
pub fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}

/// Lower-case hexadecimal digits of bytes.
pub fn encode_hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::super::text::to_text;
    use super::*;
    use proptest::prelude::*;

    fn text_of(ty: &CqlType, kind: LiteralKind, text: &str) -> Result<String, String> {
        let bytes = Literal::new(kind, text).to_bytes(ty, "v", 0).map_err(|error| error.to_string())?;
        Ok(to_text(ty, &bytes))
    }

    #[test]
    fn constants_become_values() {
        use LiteralKind::{Boolean, Float, Hex, Integer, String, Uuid};
        for (ty, kind, text, expected) in [
            (CqlType::TinyInt, Integer, "007", "7"),
            (CqlType::TinyInt, Integer, "-0", "0"),
            (CqlType::TinyInt, Hex, "0x01", "1"),
            (CqlType::Int, Integer, "-2147483648", "-2147483648"),
            (CqlType::Counter, Integer, "5", "5"),
            (
                CqlType::Varint,
                Integer,
                "340282366920938463463374607431768211456",
                "340282366920938463463374607431768211456",
            ),
            (CqlType::Decimal, Float, "1.00", "1.00"),
            (CqlType::Decimal, Integer, "10", "10"),
            (CqlType::Float, Integer, "16777217", "1.6777216E7"),
            (CqlType::Float, Float, "-1e39", "-Infinity"),
            (CqlType::Double, Float, "-NaN", "NaN"),
            (CqlType::Boolean, Boolean, "FALSE", "false"),
            (CqlType::Blob, Hex, "0XAbCd", "0xabcd"),
            (CqlType::Blob, Hex, "0x", "0x"),
            (CqlType::Timestamp, String, "", "null"),
            (CqlType::Inet, String, "1.2.3", "'1.2.0.3'"),
            (CqlType::Inet, String, "", "null"),
            (CqlType::Date, Integer, "2147483648", "'1970-01-01'"),
            (CqlType::Time, String, "1:2:3", "'01:02:03.000000000'"),
            (CqlType::Uuid, Uuid, "AAAAAAAA-bbbb-cccc-dddd-eeeeeeeeeeee", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"),
            (CqlType::Text, String, "it's", "'it''s'"),
            (CqlType::tuple([CqlType::Int]), Integer, "1", "(1)"),
            (CqlType::tuple([CqlType::Text, CqlType::Text]), String, "a\\:b:@", "('a:b', null)"),
        ] {
            assert_eq!(text_of(&ty, kind, text).as_deref(), Ok(expected), "{ty} {text}");
        }
    }

    #[test]
    fn refusals_have_cassandras_words() {
        use LiteralKind::{Boolean, Float, Hex, Integer, String, Uuid};
        let v4 = "123e4567-e89b-42d3-a456-426614174000";
        for (ty, kind, text, message) in [
            (CqlType::TinyInt, Integer, "128", "Unable to make byte from '128'"),
            (CqlType::TinyInt, Float, "1.0", "Invalid FLOAT constant (1.0) for \"v\" of type tinyint"),
            (CqlType::TinyInt, Hex, "0x0102", "Expected 1 byte for a tinyint (2)"),
            (CqlType::Int, Integer, "2147483648", "Unable to make int from '2147483648'"),
            (CqlType::Int, String, "", "Invalid STRING constant () for \"v\" of type int"),
            (CqlType::BigInt, Hex, "0x00", "Invalid HEX constant (0x00) for \"v\" of type bigint"),
            (CqlType::BigInt, Integer, "9223372036854775808", "Unable to make long from '9223372036854775808'"),
            (CqlType::Decimal, Float, "NaN", "unable to make BigDecimal from 'NaN'"),
            (CqlType::Boolean, Integer, "1", "Invalid INTEGER constant (1) for \"v\" of type boolean"),
            (CqlType::Text, Boolean, "true", "Invalid BOOLEAN constant (true) for \"v\" of type text"),
            (
                CqlType::Ascii,
                String,
                "é",
                "Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input length = 1",
            ),
            (CqlType::Blob, Hex, "0x1", "cannot parse '1' as hex bytes"),
            (CqlType::Inet, String, "localhost", "Unable to make inet address from 'localhost'"),
            (CqlType::TimeUuid, Uuid, v4, "TimeUUID supports only version 1 UUIDs"),
            (CqlType::Uuid, String, "x", "Invalid STRING constant (x) for \"v\" of type uuid"),
            (CqlType::Duration, Integer, "1", "Unable to convert '1' to a duration"),
            (CqlType::Date, String, "", "Unable to coerce '' to a formatted date (long)"),
            (CqlType::list(CqlType::Int), Integer, "14", "Invalid INTEGER constant (14) for \"v\" of type list<int>"),
        ] {
            assert_eq!(text_of(&ty, kind, text), Err(message.to_owned()));
        }
    }

    #[test]
    fn preferred_types() {
        use LiteralKind::{Float, Hex, Integer, String, Uuid};
        for (kind, text, ty) in [
            (Integer, "2147483647", CqlType::Int),
            (Integer, "2147483648", CqlType::BigInt),
            (Integer, "99999999999999999999", CqlType::Varint),
            (Float, "0.1", CqlType::Double),
            (Float, "1e3", CqlType::Double),
            (Float, "0.12345678901234567890123", CqlType::Decimal),
            (Float, "NaN", CqlType::Double),
            (String, "x", CqlType::Ascii),
            (String, "é", CqlType::Text),
            (Hex, "0x00", CqlType::TinyInt),
            (Uuid, "123e4567-e89b-12d3-a456-426614174000", CqlType::TimeUuid),
        ] {
            let literal = Literal::new(kind, text);
            assert_eq!(literal.preferred_type(), ty, "{text}");
            assert_eq!(literal.assignable_to(&ty), Assignment::Exact);
        }
    }

    #[test]
    fn numbers_too_large_for_the_parser() {
        let error = |text| Literal::new(LiteralKind::Float, text).syntax_error();
        assert!(error("1e400").unwrap().contains("Character I"));
        assert!(error("1e2147483648").unwrap().contains("Exponent overflow"));
        assert_eq!(error("1e300"), None);
        assert_eq!(error("-Infinity"), None);
    }

    proptest! {
        #[test]
        fn any_text_gives_a_valid_value_or_an_error(text in ".{0,12}|[-0-9.eE:T]{0,20}") {
            for ty in CqlType::NATIVE.iter().chain(&[CqlType::tuple([CqlType::Int, CqlType::Text])]) {
                if let Ok(bytes) = from_text(ty, &text, 0) {
                    prop_assert_eq!(validate(ty, &bytes), Ok(()), "{} {}", ty, text);
                }
            }
            for kind in [LiteralKind::Float, LiteralKind::Integer, LiteralKind::Uuid] {
                let _ = Literal::new(kind, &text).preferred_type();
                let _ = Literal::new(kind, &text).syntax_error();
            }
        }

        #[test]
        fn hex_round_trips(bytes: Vec<u8>) {
            prop_assert_eq!(decode_hex(&encode_hex(&bytes)), Some(bytes));
        }
    }
}
