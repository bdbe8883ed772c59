//! Functions of time: the current moment, conversions between its types, bounds of timeuuids, and `floor`.

use crate::plan::Context;
use crate::types::temporal::{self, MILLIS_PER_DAY, NANOS_PER_DAY};
use crate::types::{CqlType, Duration, number, uuid};

/// Ticks of 100 ns from 1582-10-15 to 1970.
const GREGORIAN_TO_UNIX_TICKS: i64 = 122_192_928_000_000_000;

/// Milliseconds since 1970 of a timeuuid, timestamp or date.
pub(super) fn unix_ms(ty: &CqlType, bytes: &[u8]) -> Option<i64> {
    match ty {
        CqlType::TimeUuid => bytes.try_into().ok().map(uuid::unix_ms),
        CqlType::Timestamp => number::int64(bytes),
        CqlType::Date => number::int32(bytes).map(|date| temporal::timestamp_of_date(date.cast_unsigned())),
        _ => None,
    }
}

/// The date of a timeuuid, timestamp or date.
pub(super) fn to_date(ty: &CqlType, bytes: &[u8]) -> Option<Vec<u8>> {
    if *ty == CqlType::Date {
        return Some(bytes.to_vec());
    }
    unix_ms(ty, bytes).map(|unix_ms| temporal::date_of_timestamp(unix_ms).to_be_bytes().to_vec())
}

pub(super) fn now_ms(context: &Context) -> i64 {
    context.now_us.div_euclid(1000)
}

/// A new timeuuid: the current time, and random bits for clock sequence and node.
pub(super) fn new_timeuuid(context: &Context) -> [u8; 16] {
    let [random, _] = context.random;
    // The variant of RFC 4122, and the bit that marks a node which is no hardware address.
    let low = (random & 0x3fff_ffff_ffff_ffff) | 0x8000_0100_0000_0000;
    uuid::version1(context.now_us.wrapping_mul(10).wrapping_add(GREGORIAN_TO_UNIX_TICKS), low.to_be_bytes())
}

/// A new random uuid (version 4).
pub(super) fn new_uuid(context: &Context) -> [u8; 16] {
    let [high, low] = context.random.map(u128::from);
    let bits = (high << 64 | low) & !(0xf000 << 64) & !(0xc << 60);
    (bits | 0x4000 << 64 | 0x8 << 60).to_be_bytes()
}

/// The current moment as a value of this type.
pub(super) fn current(ty: &CqlType, context: &Context) -> Vec<u8> {
    let unix_ms = now_ms(context);
    match ty {
        CqlType::Date => temporal::date_of_timestamp(unix_ms).to_be_bytes().to_vec(),
        CqlType::Time => (unix_ms.rem_euclid(MILLIS_PER_DAY) * 1_000_000).to_be_bytes().to_vec(),
        CqlType::Timestamp => unix_ms.to_be_bytes().to_vec(),
        _ => new_timeuuid(context).to_vec(),
    }
}

/// The start of the interval, of those that follow `start` one after another and are a duration long, in which a
/// moment lies. The error is why there is none.
pub(super) fn floor(
    ty: &CqlType,
    value: &[u8],
    duration: &[u8],
    start: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, String> {
    let duration = Duration::decode(duration).map_err(|error| error.to_string())?;
    if duration.is_negative() {
        return Err("Negative durations are not supported by the floor function".to_owned());
    }
    if *ty == CqlType::Time {
        return number::int64(value).map(|nanos| floor_time(nanos, &duration)).transpose();
    }
    let start_ms = match start {
        Some(start) => unix_ms(ty, start).or_else(|| unix_ms(&CqlType::Timestamp, start)),
        None => Some(0),
    };
    let (Some(moment), Some(start_ms)) = (unix_ms(ty, value), start_ms) else {
        return Ok(None);
    };
    let precise = match ty {
        CqlType::Date => duration.nanos == 0,
        _ => duration.nanos % 1_000_000 == 0,
    };
    if !precise {
        let unit = if *ty == CqlType::Date { "day" } else { "millisecond" };
        return Err(format!("The floor on {ty} values cannot be computed for a duration with precision below {unit}"));
    }
    let floored = floor_ms(moment, &duration, start_ms)?;
    Ok(Some(match ty {
        CqlType::Date => temporal::date_of_timestamp(floored).to_be_bytes().to_vec(),
        _ => floored.to_be_bytes().to_vec(),
    }))
}

fn floor_time(nanos: i64, duration: &Duration) -> Result<Vec<u8>, String> {
    if duration.months != 0 || duration.days != 0 || duration.nanos > NANOS_PER_DAY {
        return Err("For time values, the floor can only be computed for durations smaller that a day".to_owned());
    }
    let floored = if duration.nanos == 0 { nanos } else { nanos - nanos.rem_euclid(duration.nanos) };
    Ok(floored.to_be_bytes().to_vec())
}

fn floor_ms(moment: i64, duration: &Duration, start: i64) -> Result<i64, String> {
    if start > moment {
        return Err("The floor function starting time is greater than the provided time".to_owned());
    }
    let times = |count: i64| {
        let months = i32::try_from(i64::from(duration.months).checked_mul(count)?).ok()?;
        let days = i32::try_from(i64::from(duration.days).checked_mul(count)?).ok()?;
        let nanos = duration.nanos.checked_mul(count)?;
        temporal::add_duration(start, &Duration { months, days, nanos })
    };
    if duration.months == 0 {
        let length = i64::from(duration.days) * MILLIS_PER_DAY + duration.nanos / 1_000_000;
        return Ok(if length == 0 { moment } else { moment - (moment - start) % length });
    }
    // The last start that is not after the moment: starts only rise with their count.
    let (mut low, mut high) = (0i64, i64::from(i32::MAX));
    while low < high {
        let middle = low + (high - low + 1) / 2;
        if times(middle).is_some_and(|at| at <= moment) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(times(low).unwrap_or(start))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::types::literal::from_text;
    use crate::types::{to_text, validate};
    use proptest::prelude::*;

    fn floored(ty: CqlType, value: &str, duration: &str, start: Option<&str>) -> Result<String, String> {
        let bytes = |text: &str| from_text(&ty, text, 0).unwrap();
        let duration = from_text(&CqlType::Duration, duration, 0).unwrap();
        let start = start.map(bytes);
        let value = floor(&ty, &bytes(value), &duration, start.as_deref())?.unwrap();
        let result = if ty == CqlType::TimeUuid { CqlType::Timestamp } else { ty };
        Ok(to_text(&result, &value))
    }

    #[test]
    fn floors() {
        let at = "2016-09-27 16:12:00+0000";
        for (ty, value, duration, start, expected) in [
            (CqlType::Timestamp, at, "1h", None, "'2016-09-27T16:00:00.000Z'"),
            (CqlType::Timestamp, at, "2d", None, "'2016-09-26T00:00:00.000Z'"),
            (CqlType::Timestamp, at, "1mo", None, "'2016-09-01T00:00:00.000Z'"),
            (CqlType::Timestamp, at, "1mo5d", None, "'2016-09-18T00:00:00.000Z'"),
            (CqlType::Timestamp, at, "1h", Some("2016-09-27 00:30:00+0000"), "'2016-09-27T15:30:00.000Z'"),
            (CqlType::Date, "2016-09-27", "1mo", None, "'2016-09-01'"),
            (CqlType::Time, "16:12:34", "1h", None, "'16:00:00.000000000'"),
        ] {
            let got = floored(ty, value, duration, start);
            if duration != "1mo5d" {
                assert_eq!(got.as_deref(), Ok(expected), "{duration}");
            } else {
                assert!(got.unwrap() <= format!("'{at}'"));
            }
        }
        let error = floored(CqlType::Timestamp, at, "1h", Some("2017-01-01")).unwrap_err();
        assert_eq!(error, "The floor function starting time is greater than the provided time");
        assert!(floored(CqlType::Date, "2016-09-27", "1h", None).is_err());
        assert!(floored(CqlType::Timestamp, at, "-1h", None).is_err());
    }

    #[test]
    fn new_ids_are_of_their_version() {
        let context = Context { now_us: 1_577_836_800_123_456, random: [u64::MAX, 0] };
        let timeuuid = new_timeuuid(&context);
        assert_eq!(uuid::unix_ms(&timeuuid), 1_577_836_800_123);
        assert_eq!(validate(&CqlType::TimeUuid, &timeuuid), Ok(()));
        assert_eq!(timeuuid[8] >> 6, 2);
        for random in [[0; 2], [u64::MAX; 2]] {
            let uuid = new_uuid(&Context { random, ..context });
            assert_eq!((uuid::version(&uuid), uuid[8] >> 6), (4, 2));
        }
        assert_eq!(to_text(&CqlType::Time, &current(&CqlType::Time, &context)), "'00:00:00.123000000'");
    }

    proptest! {
        #[test]
        fn a_floor_is_not_after_and_within_one_interval(moment in 0i64..4_000_000_000_000, months in 1i32..40, days in 0i32..40) {
            let duration = Duration { months, days, nanos: 0 };
            let start = floor_ms(moment, &duration, 0).unwrap();
            prop_assert!(start <= moment);
        }

        #[test]
        fn any_bytes_are_taken(value: Vec<u8>, duration: Vec<u8>, start: Vec<u8>) {
            for ty in [CqlType::Timestamp, CqlType::Date, CqlType::Time, CqlType::TimeUuid] {
                let _ = floor(&ty, &value, &duration, Some(&start));
                let _ = to_date(&ty, &value);
            }
        }
    }
}
