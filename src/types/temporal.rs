//! Timestamps, dates and times of day: their text forms and the calendar under them.
//!
//! A timestamp is milliseconds since 1970-01-01 UTC. A date is an unsigned count of days whose middle, 2^31, is
//! 1970-01-01. A time is nanoseconds since midnight. Cassandra reads timestamps and dates by the Gregorian calendar
//! of all times, but writes timestamps before 1582-10-15 by the Julian one; so do we.

use super::duration::{Duration, NANOS_PER_HOUR, NANOS_PER_MILLI, NANOS_PER_MINUTE, NANOS_PER_SECOND};
use super::error::ValueError;

pub const MILLIS_PER_DAY: i64 = 86_400_000;
pub const NANOS_PER_DAY: i64 = 24 * NANOS_PER_HOUR;
/// The days that a date of 1970-01-01 counts.
pub const DATE_EPOCH: i64 = 1 << 31;
/// 1582-10-15, the first day of the Gregorian calendar, in days since 1970-01-01.
const GREGORIAN_FIRST_DAY: i64 = -141_427;
const YEAR_MAX: i64 = 999_999_999;

/// Days since 1970-01-01 of a day of the Gregorian calendar, extended to all times.
pub fn days_of_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years that start in March put the leap day at the end of eras of 400 years.
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of `days_of_civil`: year, month, day.
pub fn civil_of_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    march_based(era * 400 + year_of_era, day_of_year)
}

/// Year, month and day of the Julian calendar.
fn julian_of_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_470;
    let era = shifted.div_euclid(1461);
    let day_of_era = shifted.rem_euclid(1461);
    let year_of_era = (day_of_era - day_of_era / 1460) / 365;
    march_based(era * 4 + year_of_era, day_of_era - 365 * year_of_era)
}

fn march_based(year: i64, day_of_year: i64) -> (i64, i64, i64) {
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// `2020-02-03T04:05:06.789Z`. Years before Christ lose their sign, as in Cassandra.
pub fn format_timestamp(unix_ms: i64) -> String {
    format_instant(unix_ms, 'T')
}

/// `2020-02-03 04:05:06.789Z`, the form within JSON.
pub fn format_timestamp_json(unix_ms: i64) -> String {
    format_instant(unix_ms, ' ')
}

fn format_instant(unix_ms: i64, separator: char) -> String {
    let days = unix_ms.div_euclid(MILLIS_PER_DAY);
    let ms = unix_ms.rem_euclid(MILLIS_PER_DAY);
    let (year, month, day) = if days < GREGORIAN_FIRST_DAY { julian_of_days(days) } else { civil_of_days(days) };
    let year_of_era = if year > 0 { year } else { 1 - year };
    let (hour, minute, second, milli) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
    format!("{year_of_era:04}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// `2020-02-03`; years beyond 9999 have a plus sign.
pub fn format_date(date: u32) -> String {
    let (year, month, day) = civil_of_days(i64::from(date) - DATE_EPOCH);
    let sign = match year {
        ..0 => "-",
        0..=9999 => "",
        _ => "+",
    };
    format!("{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs())
}

/// `12:34:56.700000000`. Bound times may be of no day; their hours go on, or are negative.
pub fn format_time(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let total = nanos.unsigned_abs();
    let unit = |nanos: i64| nanos.unsigned_abs();
    let (hours, minutes) = (total / unit(NANOS_PER_HOUR), total / unit(NANOS_PER_MINUTE) % 60);
    let (seconds, fraction) = (total / unit(NANOS_PER_SECOND) % 60, total % unit(NANOS_PER_SECOND));
    format!("{sign}{hours:02}:{minutes:02}:{seconds:02}.{fraction:09}")
}

/// Reads milliseconds as a whole number, `now`, or a date with an optional time and zone. Without a zone it is UTC.
/// Days that a month lacks become its last. Of zones, offsets and the names of UTC are known.
pub fn parse_timestamp(text: &str, now_ms: i64) -> Result<i64, ValueError> {
    if text.eq_ignore_ascii_case("now") {
        return Ok(now_ms);
    }
    if is_whole_number(text) {
        let wrong = |_| ValueError::LiteralText(format!("Unable to make long (for date) from: '{text}'"));
        return text.parse().map_err(wrong);
    }
    read_date_time(text)
        .or_else(|| read_day_and_zone(text))
        .ok_or_else(|| ValueError::LiteralText(format!("Unable to parse a date/time from '{text}'")))
}

/// Reads a day count from 0 to 2^32 - 1, or a day as `2020-02-29`, strictly.
pub fn parse_date(text: &str) -> Result<u32, ValueError> {
    if is_whole_number(text) {
        let wrong = |_| ValueError::LiteralText(format!("Unable to make unsigned int (for date) from: '{text}'"));
        return text.parse().map_err(wrong);
    }
    let unreadable = || ValueError::LiteralText(format!("Unable to coerce '{text}' to a formatted date (long)"));
    let mut rest = text;
    let (year, month, day) = read_iso_day(&mut rest).filter(|_| rest.is_empty()).ok_or_else(unreadable)?;
    if day > days_of_month(year, month) {
        return Err(unreadable());
    }
    let shifted = days_of_civil(year, month, day) + DATE_EPOCH;
    u32::try_from(shifted).map_err(|_| {
        let (side, end, limit) = match shifted < 0 {
            true => ("less", "min", "-5877641-06-23T00:00Z"),
            false => ("greater", "max", "+5881580-07-11T00:00Z"),
        };
        ValueError::LiteralText(format!("Input date {text} is {side} than {end} supported date {limit}"))
    })
}

/// Reads nanoseconds below a day, or `hh:mm:ss[.fffffffff]`.
pub fn parse_time(text: &str) -> Result<i64, ValueError> {
    if is_whole_number(text) {
        return text
            .parse()
            .ok()
            .filter(|nanos| (0..NANOS_PER_DAY).contains(nanos))
            .ok_or_else(|| ValueError::LiteralText(format!("Unable to make long (for time) from: '{text}'")));
    }
    read_clock(text.trim()).ok_or_else(|| {
        ValueError::LiteralText(format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)"))
    })
}

fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn read_clock(text: &str) -> Option<i64> {
    let (hour, rest) = text.split_once(':')?;
    let (minute, rest) = rest.split_once(':')?;
    let (second, fraction) = rest.split_once('.').unwrap_or((rest, "0"));
    let field = |text: &str, below: i64| text.parse::<i64>().ok().filter(|value| (0..below).contains(value));
    let digits = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let nanos: i64 = if digits { format!("{fraction:0<9}").parse().ok()? } else { return None };
    let hms = field(hour, 24)? * NANOS_PER_HOUR + field(minute, 60)? * NANOS_PER_MINUTE;
    Some(hms + field(second, 60)? * NANOS_PER_SECOND + nanos)
}

/// Takes `min` to `max` digits off the front, as many as there are.
fn digits(rest: &mut &str, min: usize, max: usize) -> Option<i64> {
    let count = rest.bytes().take(max).take_while(u8::is_ascii_digit).count();
    let (number, tail) = rest.split_at_checked(count)?;
    if count < min {
        return None;
    }
    *rest = tail;
    number.parse().ok()
}

fn eat(rest: &mut &str, want: char) -> Option<()> {
    *rest = rest.strip_prefix(want)?;
    Some(())
}

fn ranged(value: i64, low: i64, high: i64) -> Option<i64> {
    (low..=high).contains(&value).then_some(value)
}

/// `y-M-d`, then `T` or a space, then `H:m[:s[.fraction]]` and a zone: numbers of any width, years from 1.
fn read_date_time(text: &str) -> Option<i64> {
    let rest = &mut &*text;
    let year = ranged(digits(rest, 1, 18)?, 1, YEAR_MAX)?;
    eat(rest, '-')?;
    let month = ranged(digits(rest, 1, 18)?, 1, 12)?;
    eat(rest, '-')?;
    let day = ranged(digits(rest, 1, 18)?, 1, 31)?;
    *rest = rest.strip_prefix(['T', ' '])?;
    let hour = ranged(digits(rest, 1, 18)?, 0, 23)?;
    eat(rest, ':')?;
    let minute = ranged(digits(rest, 1, 18)?, 0, 59)?;
    let mut ms = (hour * 60 + minute) * 60_000;
    if eat(rest, ':').is_some() {
        ms += ranged(digits(rest, 1, 18)?, 0, 59)? * 1000;
        if eat(rest, '.').is_some() {
            let fraction: String = rest.chars().take(9).take_while(char::is_ascii_digit).collect();
            *rest = rest.get(fraction.len()..)?;
            ms += format!("{fraction:0<3}").get(..3)?.parse::<i64>().ok()?;
        }
    }
    instant(year, month, day, ms, rest)
}

/// `yyyy-MM-dd` and a zone, at midnight.
fn read_day_and_zone(text: &str) -> Option<i64> {
    let rest = &mut &*text;
    let (year, month, day) = read_iso_day(rest)?;
    instant(year, month, day, 0, rest)
}

fn instant(year: i64, month: i64, day: i64, ms: i64, zone: &str) -> Option<i64> {
    let days = days_of_civil(year, month, day.min(days_of_month(year, month)));
    days.checked_mul(MILLIS_PER_DAY)?.checked_add(ms)?.checked_sub(read_zone(zone)?)
}

/// `yyyy-MM-dd` in ISO 8601: more than four digits of the year need a sign.
fn read_iso_day(rest: &mut &str) -> Option<(i64, i64, i64)> {
    let sign = rest.chars().next().filter(|c| ['-', '+'].contains(c));
    *rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    let (min, max) = match sign {
        Some('+') => (5, 10),
        Some(_) => (4, 10),
        None => (4, 4),
    };
    let year = ranged(digits(rest, min, max)?, 0, YEAR_MAX)?;
    let year = if sign == Some('-') { -year } else { year };
    eat(rest, '-')?;
    let month = ranged(digits(rest, 2, 2)?, 1, 12)?;
    eat(rest, '-')?;
    let day = ranged(digits(rest, 2, 2)?, 1, 31)?;
    (sign != Some('-') || year != 0).then_some((year, month, day))
}

/// The milliseconds that a zone is ahead of UTC: nothing, `Z`, `+HH`, `+HHmm` or `+HH:mm`, or after a space also
/// `UTC`, `GMT` or `UT` with or without such an offset.
fn read_zone(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let mut offset = text;
    if let Some(named) = text.strip_prefix(' ') {
        offset = ["UTC", "GMT", "UT"].iter().find_map(|name| named.strip_prefix(name)).unwrap_or(named);
        if offset.is_empty() && !named.is_empty() {
            return Some(0);
        }
    }
    if offset == "Z" {
        return Some(0);
    }
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let mut rest = offset.strip_prefix(['+', '-'])?;
    let hours = ranged(digits(&mut rest, 2, 2)?, 0, 18)?;
    let mut minutes = 0;
    if !rest.is_empty() {
        rest = rest.strip_prefix(':').unwrap_or(rest);
        minutes = ranged(digits(&mut rest, 2, 2)?, 0, 59)?;
    }
    let total = hours * 60 + minutes;
    (rest.is_empty() && total <= 18 * 60).then_some(sign * total * 60_000)
}

/// A timestamp some duration later (earlier for a negative one): first months, of which days beyond the end become
/// the last, then days, then milliseconds. `None` where it leaves the range.
pub fn add_duration(unix_ms: i64, duration: &Duration) -> Option<i64> {
    let mut days = unix_ms.div_euclid(MILLIS_PER_DAY);
    if duration.months != 0 {
        let (year, month, day) = civil_of_days(days);
        let months = year.checked_mul(12)?.checked_add(month - 1)?.checked_add(duration.months.into())?;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        days = days_of_civil(year, month, day.min(days_of_month(year, month)));
    }
    days.checked_add(duration.days.into())?
        .checked_mul(MILLIS_PER_DAY)?
        .checked_add(unix_ms.rem_euclid(MILLIS_PER_DAY))?
        .checked_add(duration.nanos / NANOS_PER_MILLI)
}

/// The date of a timestamp, by rounding to zero as Cassandra does: the day before 1970 shares the date 1970-01-01.
pub fn date_of_timestamp(unix_ms: i64) -> u32 {
    let days = unix_ms / MILLIS_PER_DAY + DATE_EPOCH;
    u32::try_from(days.rem_euclid(1 << 32)).unwrap_or(0)
}

/// Midnight of a date; every date is within the range of timestamps.
pub fn timestamp_of_date(date: u32) -> i64 {
    (i64::from(date) - DATE_EPOCH) * MILLIS_PER_DAY
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn timestamp(text: &str) -> Result<String, String> {
        parse_timestamp(text, 42).map(format_timestamp).map_err(|error| error.to_string())
    }

    #[test]
    fn timestamps_as_cassandra_reads_them() {
        for (text, expected) in [
            ("2020-01-01", "2020-01-01T00:00:00.000Z"),
            ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00.000Z"),
            ("2020-01-01 00:00:00+0000", "2020-01-01T00:00:00.000Z"),
            ("2020-01-01 12:30:15.123+0530", "2020-01-01T07:00:15.123Z"),
            ("2020-01-01T12:30:15.1Z", "2020-01-01T12:30:15.100Z"),
            ("2020-01-01 12:30Z", "2020-01-01T12:30:00.000Z"),
            ("2020-01-01T12:30+01", "2020-01-01T11:30:00.000Z"),
            ("2020-01-01 12:30:15.123456+0000", "2020-01-01T12:30:15.123Z"),
            ("1969-12-31 23:59:59.999+0000", "1969-12-31T23:59:59.999Z"),
            ("1900-02-28 00:00:00-0800", "1900-02-28T08:00:00.000Z"),
            ("2020-02-30 00:00:00+0000", "2020-02-29T00:00:00.000Z"),
            ("1577836800000", "2020-01-01T00:00:00.000Z"),
            ("-1", "1969-12-31T23:59:59.999Z"),
            ("NOW", "1970-01-01T00:00:00.042Z"),
            ("2020-1-1 1:2", "2020-01-01T01:02:00.000Z"),
            ("2020-01-01 00:00 UTC", "2020-01-01T00:00:00.000Z"),
            ("2020-01-01 00:00 GMT+01:00", "2019-12-31T23:00:00.000Z"),
            ("2020-01-01+01:00", "2019-12-31T23:00:00.000Z"),
        ] {
            assert_eq!(timestamp(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(parse_timestamp("0001-01-01 00:00:00+0000", 0), Ok(-62_135_596_800_000));
    }

    #[test]
    fn timestamps_that_are_refused() {
        for text in [
            "2020-13-01 00:00:00+0000",
            "2020-01-01 25:00:00+0000",
            "yesterday",
            "",
            "0000-01-01 00:00",
            "2020-01-01 00",
            "2020-01-01 00:00 PST",
            "2020-01-01 00:00:00+1900",
            "2020-01-01 00:00:00é",
            "2020-01-01 ",
            "999999999-01-01 0:0",
        ] {
            assert_eq!(timestamp(text), Err(format!("Unable to parse a date/time from '{text}'")));
        }
        let long = "9223372036854775808";
        assert_eq!(timestamp(long), Err(format!("Unable to make long (for date) from: '{long}'")));
    }

    #[test]
    fn timestamps_are_written_by_the_calendar_of_their_time() {
        assert_eq!(format_timestamp(-62_135_596_800_000), "0001-01-03T00:00:00.000Z");
        assert_eq!(format_timestamp(GREGORIAN_FIRST_DAY * MILLIS_PER_DAY), "1582-10-15T00:00:00.000Z");
        assert_eq!(format_timestamp(GREGORIAN_FIRST_DAY * MILLIS_PER_DAY - 1), "1582-10-04T23:59:59.999Z");
        assert_eq!(format_timestamp(i64::MAX), "292278994-08-17T07:12:55.807Z");
        assert_eq!(format_timestamp(i64::MIN), "292269055-12-02T16:47:04.192Z");
        assert_eq!(format_timestamp_json(0), "1970-01-01 00:00:00.000Z");
    }

    #[test]
    fn dates() {
        for (text, days) in [
            ("1970-01-01", 1u32 << 31),
            ("1969-12-31", (1 << 31) - 1),
            ("2020-02-29", (1 << 31) + 18_321),
            ("0000-01-01", 2_146_764_120),
            ("-0001-01-01", 2_146_763_755),
            ("4294967295", u32::MAX),
            ("2147483648", 1 << 31),
            ("-5877641-06-23", 0),
            ("+5881580-07-11", u32::MAX),
        ] {
            assert_eq!(parse_date(text), Ok(days), "{text}");
        }
        for text in
            ["10000-01-01", "2019-02-29", "2020-1-1", "2020-01-01 ", "5881580-07-11", "x", "", "2020-01-01T00:00:00Z"]
        {
            let message = format!("Unable to coerce '{text}' to a formatted date (long)");
            assert_eq!(parse_date(text).unwrap_err().to_string(), message);
        }
        for text in ["4294967296", "-1"] {
            let message = format!("Unable to make unsigned int (for date) from: '{text}'");
            assert_eq!(parse_date(text).unwrap_err().to_string(), message);
        }
        assert!(parse_date("+5881580-07-12").unwrap_err().to_string().contains("greater than max supported date"));
        assert_eq!(format_date(u32::MAX), "+5881580-07-11");
    }

    #[test]
    fn times() {
        for (text, shown) in [
            ("00:00:00", "00:00:00.000000000"),
            ("23:59:59.999999999", "23:59:59.999999999"),
            ("12:34:56.7", "12:34:56.700000000"),
            ("1:2:3", "01:02:03.000000000"),
            ("1000", "00:00:00.000001000"),
        ] {
            assert_eq!(format_time(parse_time(text).unwrap()), shown);
        }
        for text in
            ["24:00:00", "12:60:00", "12:00:60", "12:00", "12:00:00.1234567890", "12:00:00Z", "", "12:00:00.", "é:1:2"]
        {
            let message = format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)");
            assert_eq!(parse_time(text).unwrap_err().to_string(), message);
        }
        for text in ["86400000000000", "-1", "99999999999999999999"] {
            let message = format!("Unable to make long (for time) from: '{text}'");
            assert_eq!(parse_time(text).unwrap_err().to_string(), message);
        }
        assert_eq!(format_time(-1), "-00:00:00.000000001");
    }

    #[test]
    fn durations_move_timestamps() {
        let moved = |text: &str, duration: &str| {
            let duration = Duration::parse(duration).unwrap();
            add_duration(parse_timestamp(text, 0).unwrap(), &duration).map(format_timestamp)
        };
        assert_eq!(moved("2020-01-31", "1mo").as_deref(), Some("2020-02-29T00:00:00.000Z"));
        assert_eq!(moved("2020-03-31", "-1mo1d").as_deref(), Some("2020-02-28T00:00:00.000Z"));
        assert_eq!(moved("2020-01-01", "1d2h3ms").as_deref(), Some("2020-01-02T02:00:00.003Z"));
        assert_eq!(moved("9223372036854775807", "1d"), None);
        assert_eq!(moved("9223372036854775807", "2147483647mo"), None);
    }

    #[test]
    fn dates_and_timestamps_convert() {
        assert_eq!(format_date(date_of_timestamp(-1)), "1970-01-01");
        assert_eq!(format_date(date_of_timestamp(-MILLIS_PER_DAY)), "1969-12-31");
        assert_eq!(timestamp_of_date(1 << 31), 0);
    }

    proptest! {
        #[test]
        fn civil_round_trips(days in -200_000_000i64..200_000_000) {
            let (year, month, day) = civil_of_days(days);
            prop_assert_eq!(days_of_civil(year, month, day), days);
            prop_assert!((1..=days_of_month(year, month)).contains(&day));
        }

        #[test]
        fn text_round_trips(ms in -12_219_292_800_000i64..253_402_300_800_000, date: u32, nanos in 0..NANOS_PER_DAY) {
            prop_assert_eq!(parse_timestamp(&format_timestamp(ms), 0), Ok(ms));
            prop_assert_eq!(parse_date(&format_date(date)), Ok(date));
            prop_assert_eq!(parse_time(&format_time(nanos)), Ok(nanos));
        }

        #[test]
        fn any_text_and_number_is_taken_without_panic(text in "[-+0-9T:.Zé ]{0,30}", ms: i64, months: i32, days: i32, nanos: i64) {
            let _ = parse_timestamp(&text, 0);
            let _ = parse_date(&text);
            let _ = parse_time(&text);
            let _ = format_timestamp(ms);
            let _ = format_time(nanos);
            let _ = date_of_timestamp(ms);
            let _ = add_duration(ms, &Duration { months, days, nanos });
        }
    }
}
