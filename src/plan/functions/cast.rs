//! `CAST(x AS type)`: between numbers, from most scalars to text, and between times.

use super::number::Number;
use super::time;
use crate::types::{CqlType, to_plain_text};

/// Whether values of one type can be cast to another.
pub(super) fn is_castable(from: &CqlType, to: &CqlType) -> bool {
    if from == to {
        return true;
    }
    if from.is_numeric() {
        return matches!(to, CqlType::Ascii | CqlType::Text) || to.is_numeric() && *to != CqlType::Counter;
    }
    match to {
        CqlType::Text => *from == CqlType::Ascii || is_shown(from),
        CqlType::Ascii => is_shown(from),
        CqlType::Date => matches!(from, CqlType::TimeUuid | CqlType::Timestamp),
        CqlType::Timestamp => matches!(from, CqlType::TimeUuid | CqlType::Date),
        _ => false,
    }
}

/// Whether casts to text take the type, numbers and text aside.
fn is_shown(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::Inet
            | CqlType::Boolean
            | CqlType::TimeUuid
            | CqlType::Timestamp
            | CqlType::Date
            | CqlType::Time
            | CqlType::Uuid
    )
}

/// Casts a value; `None` where it has no bytes, and the error is why there is no such value.
pub(super) fn apply(from: &CqlType, to: &CqlType, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    if from == to || *from == CqlType::Ascii {
        return Ok(Some(bytes.to_vec()));
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    match to {
        CqlType::Ascii | CqlType::Text => Ok(Some(to_plain_text(from, bytes).into_bytes())),
        CqlType::Date => Ok(time::to_date(from, bytes)),
        CqlType::Timestamp => Ok(time::unix_ms(from, bytes).map(|unix_ms| unix_ms.to_be_bytes().to_vec())),
        _ => {
            let Some(value) = Number::decode(from, bytes) else {
                return Ok(None);
            };
            let converted = value.convert(to).ok_or_else(|| format!("{} is no {to}", to_plain_text(from, bytes)))?;
            Ok(Some(converted.encode()))
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::types::{literal::from_text, to_text, validate};
    use proptest::prelude::*;

    #[test]
    fn casts_as_recorded() {
        use CqlType::{
            Ascii, BigInt, Boolean, Date, Decimal, Double, Float, Int, SmallInt, Text, Time, TimeUuid, Timestamp,
            TinyInt, Varint,
        };
        let timeuuid = "123e4567-e89b-12d3-a456-426614174000";
        for (from, text, to, expected) in [
            (Int, "300", TinyInt, "44"),
            (Int, "300", Text, "'300'"),
            (Int, "300", Double, "300.0"),
            (Int, "300", Decimal, "300"),
            (BigInt, "5000000000", Int, "705032704"),
            (Double, "2.9", Text, "'2.9'"),
            (Double, "2.9", Varint, "2"),
            (Float, "-2.9", Decimal, "-2.9"),
            (Decimal, "1.10", Text, "'1.10'"),
            (SmallInt, "-1", Float, "-1.0"),
            (Boolean, "true", Text, "'true'"),
            (Timestamp, "2020-02-03 04:05:06.789+0000", Text, "'2020-02-03T04:05:06.789Z'"),
            (Timestamp, "2020-02-03 04:05:06.789+0000", Date, "'2020-02-03'"),
            (Date, "2020-02-03", Timestamp, "'2020-02-03T00:00:00.000Z'"),
            (TimeUuid, timeuuid, Timestamp, "'2228-06-25T20:01:28.545Z'"),
            (TimeUuid, timeuuid, Date, "'2228-06-25'"),
            (TimeUuid, timeuuid, Ascii, "'123e4567-e89b-12d3-a456-426614174000'"),
            (Time, "01:02:03", Text, "'01:02:03.000000000'"),
        ] {
            assert!(is_castable(&from, &to));
            let value = apply(&from, &to, &from_text(&from, text, 0).unwrap()).unwrap().unwrap();
            assert_eq!(to_text(&to, &value), expected);
        }
        assert_eq!(apply(&Int, &Text, &[]), Ok(None));
        assert_eq!(apply(&Double, &Decimal, &f64::NAN.to_be_bytes()), Err("NaN is no decimal".to_owned()));
    }

    #[test]
    fn pairs_that_are_not_cast() {
        for (from, to) in [
            (CqlType::Text, CqlType::Int),
            (CqlType::Text, CqlType::Ascii),
            (CqlType::Blob, CqlType::Text),
            (CqlType::Boolean, CqlType::Int),
            (CqlType::Int, CqlType::Counter),
            (CqlType::Uuid, CqlType::TimeUuid),
            (CqlType::Duration, CqlType::Text),
        ] {
            assert!(!is_castable(&from, &to));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_valid_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..18)) {
            for from in &CqlType::NATIVE {
                for to in CqlType::NATIVE.iter().filter(|to| is_castable(from, to)) {
                    if validate(from, &bytes).is_err() {
                        continue;
                    }
                    if let Ok(Some(value)) = apply(from, to, &bytes) {
                        prop_assert_eq!(validate(to, &value), Ok(()), "{} {}", from, to);
                    }
                }
            }
        }
    }
}
