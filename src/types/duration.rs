//! Durations: months, days and nanoseconds side by side, for neither months nor days have a fixed length.

use std::fmt;

use super::error::ValueError;
use super::vint;

pub const NANOS_PER_MICRO: i64 = 1_000;
pub const NANOS_PER_MILLI: i64 = 1_000_000;
pub const NANOS_PER_SECOND: i64 = 1_000_000_000;
pub const NANOS_PER_MINUTE: i64 = 60 * NANOS_PER_SECOND;
pub const NANOS_PER_HOUR: i64 = 60 * NANOS_PER_MINUTE;

/// A length of time. None of the three has another sign than the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Duration {
    pub months: i32,
    pub days: i32,
    pub nanos: i64,
}

impl Duration {
    /// Reads three signed vints; what follows them is ignored, as in Cassandra.
    pub fn decode(bytes: &[u8]) -> Result<Duration, ValueError> {
        if bytes.len() < 3 {
            return Err(ValueError::Length { want: "Expected at least 3 bytes for a duration", got: bytes.len() });
        }
        let mut input = bytes;
        let mut part = || vint::read_signed(&mut input).ok_or(ValueError::DurationTruncated);
        let (months, days, nanos) = (part()?, part()?, part()?);
        let narrow = |part, got| i32::try_from(got).map_err(|_| ValueError::DurationRange { part, got });
        let out = Duration { months: narrow("months", months)?, days: narrow("days", days)?, nanos };
        let signs = [months.signum(), days.signum(), nanos.signum()];
        if signs.contains(&1) && signs.contains(&-1) {
            return Err(ValueError::DurationSigns { months, days, nanos });
        }
        Ok(out)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        vint::write_signed(&mut out, self.months.into());
        vint::write_signed(&mut out, self.days.into());
        vint::write_signed(&mut out, self.nanos);
        out
    }

    pub fn is_negative(&self) -> bool {
        self.months < 0 || self.days < 0 || self.nanos < 0
    }

    /// The other way round in time; `None` where a part is the least of its type.
    pub fn negated(&self) -> Option<Duration> {
        Some(Duration {
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            nanos: self.nanos.checked_neg()?,
        })
    }

    /// Reads `1y2mo3w4d5h6m7s8ms9us10ns`, `P1Y2M3DT4H5M6S`, `P3W` or `P0001-02-03T04:05:06`, each with an optional
    /// minus sign.
    pub fn parse(text: &str) -> Result<Duration, ValueError> {
        let (negative, source) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let total = match source.strip_prefix(['P', 'p']) {
            None => parse_units(source)?,
            Some(rest) if source.ends_with(['W', 'w']) => parse_weeks(source, rest)?,
            Some(rest) if rest.contains('-') => parse_alternative(source, rest)?,
            Some(rest) => parse_designators(source, rest)?,
        };
        let sign = |part: i64| if negative { -part } else { part };
        let narrow = |part| i32::try_from(sign(part)).map_err(|_| unreadable(source));
        Ok(Duration { months: narrow(total.months)?, days: narrow(total.days)?, nanos: sign(total.nanos) })
    }
}

/// A unit of the written forms, in the order in which they must stand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Unit {
    Years,
    Months,
    Weeks,
    Days,
    Hours,
    Minutes,
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Years => "years",
            Unit::Months => "months",
            Unit::Weeks => "weeks",
            Unit::Days => "days",
            Unit::Hours => "hours",
            Unit::Minutes => "minutes",
            Unit::Seconds => "seconds",
            Unit::Millis => "milliseconds",
            Unit::Micros => "microseconds",
            Unit::Nanos => "nanoseconds",
        }
    }

    fn of_symbol(symbol: &str) -> Option<Unit> {
        Some(match symbol.to_lowercase().as_str() {
            "y" => Unit::Years,
            "mo" => Unit::Months,
            "w" => Unit::Weeks,
            "d" => Unit::Days,
            "h" => Unit::Hours,
            "m" => Unit::Minutes,
            "s" => Unit::Seconds,
            "ms" => Unit::Millis,
            // The micro sign, and the Greek letter that it becomes in lower case.
            "us" | "µs" | "μs" => Unit::Micros,
            "ns" => Unit::Nanos,
            _ => return None,
        })
    }
}

#[derive(Default)]
struct Total {
    months: i64,
    days: i64,
    nanos: i64,
    last: Option<Unit>,
}

impl Total {
    fn add(&mut self, number: i64, unit: Unit) -> Result<(), ValueError> {
        self.check_order(unit)?;
        let (sum, each, max, what) = match unit {
            Unit::Years => (&mut self.months, 12, i64::from(i32::MAX), "months"),
            Unit::Months => (&mut self.months, 1, i64::from(i32::MAX), "months"),
            Unit::Weeks => (&mut self.days, 7, i64::from(i32::MAX), "days"),
            Unit::Days => (&mut self.days, 1, i64::from(i32::MAX), "days"),
            Unit::Hours => (&mut self.nanos, NANOS_PER_HOUR, i64::MAX, "nanoseconds"),
            Unit::Minutes => (&mut self.nanos, NANOS_PER_MINUTE, i64::MAX, "nanoseconds"),
            Unit::Seconds => (&mut self.nanos, NANOS_PER_SECOND, i64::MAX, "nanoseconds"),
            Unit::Millis => (&mut self.nanos, NANOS_PER_MILLI, i64::MAX, "nanoseconds"),
            Unit::Micros => (&mut self.nanos, NANOS_PER_MICRO, i64::MAX, "nanoseconds"),
            Unit::Nanos => (&mut self.nanos, 1, i64::MAX, "nanoseconds"),
        };
        if number > (max - *sum) / each {
            // Cassandra names the limit of months for all three.
            let text = format!("Invalid duration. The total number of {what} must be less or equal to {}", i32::MAX);
            return Err(ValueError::LiteralText(text));
        }
        *sum += number * each;
        Ok(())
    }

    fn check_order(&mut self, unit: Unit) -> Result<(), ValueError> {
        let text = match self.last {
            Some(last) if last == unit => {
                format!("Invalid duration. The {} are specified multiple times", unit.name())
            }
            Some(last) if last > unit => {
                format!("Invalid duration. The {} should be after {}", last.name(), unit.name())
            }
            _ => {
                self.last = Some(unit);
                return Ok(());
            }
        };
        Err(ValueError::LiteralText(text))
    }
}

fn unreadable(source: &str) -> ValueError {
    ValueError::LiteralText(format!("Unable to convert '{source}' to a duration"))
}

/// Takes digits off the front.
fn number(source: &str, rest: &mut &str) -> Result<i64, ValueError> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, tail) = rest.split_at(end);
    *rest = tail;
    digits.parse().map_err(|_| unreadable(source))
}

fn parse_units(source: &str) -> Result<Total, ValueError> {
    let mut total = Total::default();
    let mut rest = source;
    if rest.is_empty() {
        return Err(unreadable(source));
    }
    while !rest.is_empty() {
        let count = number(source, &mut rest)?;
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (symbol, tail) = rest.split_at(end);
        total.add(count, Unit::of_symbol(symbol).ok_or_else(|| unreadable(source))?)?;
        rest = tail;
    }
    Ok(total)
}

fn parse_weeks(source: &str, rest: &str) -> Result<Total, ValueError> {
    let mut total = Total::default();
    let mut rest = rest;
    total.add(number(source, &mut rest)?, Unit::Weeks)?;
    if rest.eq_ignore_ascii_case("w") { Ok(total) } else { Err(unreadable(source)) }
}

/// `P[n]Y[n]M[n]DT[n]H[n]M[n]S`, of which any part may be missing.
fn parse_designators(source: &str, rest: &str) -> Result<Total, ValueError> {
    let (date, time) = match rest.split_once(['T', 't']) {
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    let mut total = Total::default();
    let date_units = [('Y', Unit::Years), ('M', Unit::Months), ('D', Unit::Days)];
    let time_units = [('H', Unit::Hours), ('M', Unit::Minutes), ('S', Unit::Seconds)];
    for (mut rest, units) in [(date, date_units), (time, time_units)] {
        while !rest.is_empty() {
            let count = number(source, &mut rest)?;
            let mut chars = rest.chars();
            let designator = chars.next().ok_or_else(|| unreadable(source))?.to_ascii_uppercase();
            rest = chars.as_str();
            let unit = units.iter().find(|(letter, _)| *letter == designator).ok_or_else(|| unreadable(source))?;
            if total.last.is_some_and(|last| last >= unit.1) {
                return Err(unreadable(source));
            }
            total.add(count, unit.1)?;
        }
    }
    Ok(total)
}

/// `PYYYY-MM-DDThh:mm:ss`.
fn parse_alternative(source: &str, rest: &str) -> Result<Total, ValueError> {
    let units = [Unit::Years, Unit::Months, Unit::Days, Unit::Hours, Unit::Minutes, Unit::Seconds];
    let shape: String = rest.chars().map(|c| if c.is_ascii_digit() { '0' } else { c.to_ascii_uppercase() }).collect();
    if shape != "0000-00-00T00:00:00" {
        return Err(unreadable(source));
    }
    let mut total = Total::default();
    for (part, unit) in rest.split(['-', 'T', 't', ':']).zip(units) {
        total.add(part.parse().map_err(|_| unreadable(source))?, unit)?;
    }
    Ok(total)
}

impl fmt::Display for Duration {
    /// `1y2mo3d4h5m6s7ms8us9ns` without the parts that are zero; of nothing, no text at all, as in Cassandra.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_negative() {
            f.write_str("-")?;
        }
        let mut nanos = self.nanos.unsigned_abs();
        let months = self.months.unsigned_abs();
        let mut part = |count: u64, unit: &str| if count == 0 { Ok(()) } else { write!(f, "{count}{unit}") };
        part((months / 12).into(), "y")?;
        part((months % 12).into(), "mo")?;
        part(self.days.unsigned_abs().into(), "d")?;
        for (each, unit) in [
            (NANOS_PER_HOUR, "h"),
            (NANOS_PER_MINUTE, "m"),
            (NANOS_PER_SECOND, "s"),
            (NANOS_PER_MILLI, "ms"),
            (NANOS_PER_MICRO, "us"),
            (1, "ns"),
        ] {
            let each = each.unsigned_abs();
            part(nanos / each, unit)?;
            nanos %= each;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, months: i32, days: i32, nanos: i64) {
        assert_eq!(Duration::parse(text).unwrap(), Duration { months, days, nanos }, "{text}");
    }

    fn message(text: &str) -> String {
        Duration::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn written_forms() {
        check("1y2mo3w4d5h6m7s8ms9us10ns", 14, 25, 18_367_008_009_010);
        check("-1d", 0, -1, 0);
        check("P1Y2M3DT4H5M6S", 14, 3, 14_706_000_000_000);
        check("-P1Y", -12, 0, 0);
        check("P3W", 0, 21, 0);
        check("P0001-02-03T04:05:06", 14, 3, 14_706_000_000_000);
        check("PT0S", 0, 0, 0);
        check("1µs", 0, 0, 1000);
        check("1μs", 0, 0, 1000);
        check("1D2H", 0, 1, 7_200_000_000_000);
        check("178956970y7mo", i32::MAX, 0, 0);
        check("9223372036854775807ns", 0, 0, i64::MAX);
    }

    #[test]
    fn refusals_are_cassandras() {
        assert_eq!(message("1h1d"), "Invalid duration. The hours should be after days");
        assert_eq!(message("1d1d"), "Invalid duration. The days are specified multiple times");
        assert_eq!(message("1"), "Unable to convert '1' to a duration");
        let months = "Invalid duration. The total number of months must be less or equal to 2147483647";
        assert_eq!(message("2147483648mo"), months);
        assert_eq!(message("178956971y"), months);
        for text in
            ["", "-", "d", "1x", "1é", "9223372036854775808ns", "PT1.5S", "P1DT1D", "P1M1Y", "P1", "P-1-2", "PW"]
        {
            message(text);
        }
    }

    #[test]
    fn bytes_are_checked() {
        let message = |bytes: &[u8]| Duration::decode(bytes).unwrap_err().to_string();
        assert_eq!(message(&[2, 2]), "Expected at least 3 bytes for a duration (2)");
        assert_eq!(
            message(&[2, 1, 2]),
            "The duration months, days and nanoseconds must be all of the same sign (1, -1, 1)"
        );
        assert_eq!(message(&[0xff, 0xff, 0xff]), "The bytes of a duration end within a number");
        assert!(message(&[0xf8, 255, 255, 255, 255, 255, 0, 0]).starts_with("The duration months must be a 32 bits"));
        assert_eq!(Duration::decode(&[2, 2, 2, 9]).unwrap(), Duration { months: 1, days: 1, nanos: 1 });
    }

    proptest! {
        #[test]
        fn bytes_and_text_round_trip(months in 0i32.., days in 0i32.., nanos in 0i64.., negative: bool) {
            let value = Duration { months, days, nanos };
            let value = if negative { value.negated().unwrap() } else { value };
            prop_assert_eq!(Duration::decode(&value.encode()), Ok(value));
            if value != Duration::default() {
                prop_assert_eq!(Duration::parse(&value.to_string()), Ok(value));
            }
        }

        #[test]
        fn any_input_gives_a_duration_or_an_error(bytes: Vec<u8>, text in "-?P?([0-9]{0,4}[A-Za-zµ:-]){0,6}") {
            let _ = Duration::decode(&bytes).map(|value| value.to_string());
            let _ = Duration::parse(&text);
        }
    }
}
