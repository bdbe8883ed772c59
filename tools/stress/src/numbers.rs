//! Numbers as cassandra-stress writes them: `10M`, `1..1000000`, `2m`, `12,345`.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A count with an optional K, M or B.
pub fn count(text: &str) -> Option<u64> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1_000),
        (at, 'm' | 'M') => (&text[..at], 1_000_000),
        (at, 'b' | 'B') => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// The same, with an optional minus.
pub fn signed(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(positive) => i64::try_from(count(positive)?).ok().map(|number| -number),
        None => i64::try_from(count(text)?).ok(),
    }
}

/// `FROM..TO`, both within, of numbers that may be negative and are less than 2^62 from 0.
pub fn signed_range(text: &str) -> Option<(i64, i64)> {
    const FARTHEST: i64 = 1 << 62;
    let (from, to) = text.split_once("..")?;
    let (from, to) = (signed(from.trim())?, signed(to.trim_start_matches('.').trim())?);
    (from <= to && -FARTHEST < from && to < FARTHEST).then_some((from, to))
}

/// `FROM..TO`, both within.
pub fn range(text: &str) -> Option<RangeInclusive<u64>> {
    let (from, to) = text.split_once("..")?;
    let (from, to) = (count(from)?, count(to.trim_start_matches('.'))?);
    (from <= to && to < i64::MAX as u64).then_some(from..=to)
}

/// A number of seconds, minutes, hours or days.
pub fn duration(text: &str) -> Option<Duration> {
    let (digits, seconds) = match text.char_indices().last()? {
        (at, 's' | 'S') => (&text[..at], 1),
        (at, 'm' | 'M') => (&text[..at], 60),
        (at, 'h' | 'H') => (&text[..at], 3_600),
        (at, 'd' | 'D') => (&text[..at], 86_400),
        _ => return None,
    };
    let seconds = digits.parse::<u64>().ok()?.checked_mul(seconds).filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds))
}

/// A rate, with or without its `/s`.
pub fn rate(text: &str) -> Option<f64> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    number.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0)
}

/// With a comma between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_take_a_factor() {
        assert_eq!(
            [count("17"), count("10M"), count("2k"), count("1B")],
            [Some(17), Some(10_000_000), Some(2_000), Some(1_000_000_000)]
        );
        for wrong in ["", "M", "-1", "1.5M", "1é", "99999999999999999999", "99999999999B"] {
            assert_eq!(count(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranges_run_upwards() {
        assert_eq!(range("1..10M"), Some(1..=10_000_000));
        assert_eq!(range("5..5"), Some(5..=5));
        assert_eq!(range("1...2"), Some(1..=2));
        for wrong in ["1", "1..", "5..4", "a..b", "0..18446744073709551615"] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_may_be_negative() {
        assert_eq!((signed("-5k"), signed("5"), signed("-"), signed("--1")), (Some(-5_000), Some(5), None, None));
        assert_eq!((signed_range("-2..2"), signed_range("2..-2")), (Some((-2, 2)), None));
        assert_eq!((signed_range("1..100B"), signed_range("1..9000000000B")), (Some((1, 100_000_000_000)), None));
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("90s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("10m"), Some(Duration::from_secs(600)));
        assert_eq!(duration("1h"), Some(Duration::from_secs(3_600)));
        assert_eq!(duration("2d"), Some(Duration::from_secs(172_800)));
        for wrong in ["", "10", "0s", "m", "1w"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rates_may_name_the_second() {
        assert_eq!((rate("1000/s"), rate("2.5")), (Some(1000.0), Some(2.5)));
        assert_eq!((rate("0/s"), rate("-1/s"), rate("inf"), rate("1/m")), (None, None, None, None));
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([grouped(0), grouped(999), grouped(1_000), grouped(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
    }
}
