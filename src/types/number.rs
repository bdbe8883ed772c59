//! Numbers: reading them from wire bytes, and the text that Java, and so Cassandra, gives them.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::{BigInt, Sign};

/// `toPlainString` of a decimal does not write more zeros than this; larger exponents stay exponents.
pub const PLAIN_ZEROS_MAX: u64 = 100_000;

/// The numbers whose bytes are of one length, read big-endian; `None` at any other length.
pub fn int8(bytes: &[u8]) -> Option<i8> {
    bytes.try_into().ok().map(i8::from_be_bytes)
}

pub fn int16(bytes: &[u8]) -> Option<i16> {
    bytes.try_into().ok().map(i16::from_be_bytes)
}

pub fn int32(bytes: &[u8]) -> Option<i32> {
    bytes.try_into().ok().map(i32::from_be_bytes)
}

pub fn int64(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().ok().map(i64::from_be_bytes)
}

pub fn float32(bytes: &[u8]) -> Option<f32> {
    bytes.try_into().ok().map(f32::from_be_bytes)
}

pub fn float64(bytes: &[u8]) -> Option<f64> {
    bytes.try_into().ok().map(f64::from_be_bytes)
}

/// A boolean: any byte but 0 is true.
pub fn boolean(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [byte] => Some(*byte != 0),
        _ => None,
    }
}

/// A varint: two's complement, big-endian, of any length but none.
pub fn varint(bytes: &[u8]) -> Option<BigInt> {
    (!bytes.is_empty()).then(|| BigInt::from_signed_bytes_be(bytes))
}

/// The shortest bytes of a varint; zero is one byte.
pub fn varint_bytes(value: &BigInt) -> Vec<u8> {
    value.to_signed_bytes_be()
}

/// `unscaled` × 10^-`scale`. Equal numbers of different scale (1.0 and 1.00) are different values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decimal {
    pub unscaled: BigInt,
    pub scale: i32,
}

impl Decimal {
    pub fn new(unscaled: impl Into<BigInt>, scale: i32) -> Decimal {
        Decimal { unscaled: unscaled.into(), scale }
    }

    /// Reads `[scale: i32] varint`; `None` below 4 bytes. A missing varint is zero.
    pub fn decode(bytes: &[u8]) -> Option<Decimal> {
        let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
        Some(Decimal { unscaled: BigInt::from_signed_bytes_be(unscaled), scale: i32::from_be_bytes(*scale) })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.scale.to_be_bytes().to_vec();
        out.extend_from_slice(&varint_bytes(&self.unscaled));
        out
    }

    /// Reads Java's decimal notation: `-12.50e+2` keeps its digits, so that its scale is 0.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => {
                let (mantissa, rest) = text.split_at(at);
                (mantissa, parse_exponent(rest.get(1..)?)?)
            }
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let (sign, whole) = match whole.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", whole.strip_prefix('+').unwrap_or(whole)),
        };
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let unscaled = format!("{sign}{digits}").parse().ok()?;
        let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        Some(Decimal { unscaled, scale: i32::try_from(scale).ok()? })
    }

    /// The exponent in scientific notation with one digit before the point.
    fn adjusted_exponent(&self, digits: usize) -> i64 {
        i64::try_from(digits).unwrap_or(i64::MAX) - 1 - i64::from(self.scale)
    }

    /// Without exponent, as Java's `toPlainString`; beyond `PLAIN_ZEROS_MAX` zeros, with one.
    pub fn to_plain_string(&self) -> String {
        let digits = self.unscaled.magnitude().to_string();
        let sign = if self.unscaled.sign() == Sign::Minus { "-" } else { "" };
        if u64::from(self.scale.unsigned_abs()) > PLAIN_ZEROS_MAX {
            return self.to_string();
        }
        match usize::try_from(self.scale) {
            Err(_) if self.unscaled.sign() == Sign::NoSign => digits,
            Err(_) => format!("{sign}{digits}{}", "0".repeat(self.scale.unsigned_abs() as usize)),
            Ok(scale) => format!("{sign}{}", with_point(&digits, scale)),
        }
    }

    /// Compares by value, in time that depends on the digits and not on the exponents.
    pub fn compare(&self, other: &Decimal) -> Ordering {
        let (a, b) = (&self.unscaled, &other.unscaled);
        let signs = a.sign().cmp(&b.sign());
        if signs != Ordering::Equal || a.sign() == Sign::NoSign {
            return signs;
        }
        if self.scale == other.scale {
            return a.cmp(b);
        }
        let magnitude = self.compare_magnitude(other);
        if a.sign() == Sign::Minus { magnitude.reverse() } else { magnitude }
    }

    fn compare_magnitude(&self, other: &Decimal) -> Ordering {
        let (a_digits, b_digits) = (self.unscaled.magnitude().to_string(), other.unscaled.magnitude().to_string());
        let exponents = self.adjusted_exponent(a_digits.len()).cmp(&other.adjusted_exponent(b_digits.len()));
        // At equal exponents the digits stand under each other from the left; missing ones are zeros.
        exponents.then_with(|| {
            let zeros = |from: &str| from.bytes().any(|byte| byte != b'0');
            let shared = a_digits.len().min(b_digits.len());
            let (a_head, a_tail) = a_digits.split_at(shared);
            let (b_head, b_tail) = b_digits.split_at(shared);
            a_head.cmp(b_head).then_with(|| zeros(a_tail).cmp(&zeros(b_tail)))
        })
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let exponent: i64 = if plain { text.parse().ok()? } else { return None };
    i32::try_from(exponent).ok().map(i64::from)
}

/// The digits with `scale` of them after the point.
fn with_point(digits: &str, scale: usize) -> String {
    if scale == 0 {
        return digits.to_owned();
    }
    let padded = format!("{}{digits}", "0".repeat((scale + 1).saturating_sub(digits.len())));
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    format!("{whole}.{fraction}")
}

impl fmt::Display for Decimal {
    /// Java's `BigDecimal.toString`: plain where the scale is not negative and the exponent at least -6.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.unscaled.magnitude().to_string();
        if self.unscaled.sign() == Sign::Minus {
            f.write_str("-")?;
        }
        let exponent = self.adjusted_exponent(digits.len());
        match usize::try_from(self.scale) {
            Ok(scale) if exponent >= -6 => return f.write_str(&with_point(&digits, scale)),
            _ => {}
        }
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        write!(f, "{first}{point}{rest}")?;
        if exponent == 0 { Ok(()) } else { write!(f, "E{exponent:+}") }
    }
}

/// Java's `Float.toString`.
pub fn float_text(value: f32) -> String {
    java_text(value.into(), &format!("{value:e}"), &format!("{value:.1e}"))
}

/// Java's `Double.toString`.
pub fn double_text(value: f64) -> String {
    java_text(value, &format!("{value:e}"), &format!("{value:.1e}"))
}

/// `shortest` and `two_digits` are the value's digits in Rust's scientific notation: the fewest that tell it from its
/// neighbours, and the two closest ones, which Java takes where one would do.
fn java_text(value: f64, shortest: &str, two_digits: &str) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    let one_digit = shortest.split('e').next().is_some_and(|mantissa| mantissa.trim_start_matches('-').len() == 1);
    let source = if one_digit { two_digits } else { shortest };
    let (mantissa, exponent) = source.trim_start_matches('-').split_once('e').unwrap_or((source, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    match exponent {
        -3..=-1 => {
            let digits = digits.trim_end_matches('0');
            format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1))
        }
        0..=6 => {
            let whole_len = exponent.unsigned_abs() as usize + 1;
            let padded = format!("{digits:0<width$}", width = whole_len + 1);
            let (whole, fraction) = padded.split_at(whole_len);
            let fraction = fraction.trim_end_matches('0');
            format!("{sign}{whole}.{}", if fraction.is_empty() { "0" } else { fraction })
        }
        _ => format!("{sign}{mantissa}E{exponent}"),
    }
}

/// Reads what Java's `Float.valueOf` and `Double.valueOf` read of the literals of CQL and JSON.
pub fn parse_double(text: &str) -> Option<f64> {
    java_float(text).and_then(|text| text.parse().ok())
}

/// See `parse_double`; rounds the text once, not through a double.
pub fn parse_float(text: &str) -> Option<f32> {
    java_float(text).and_then(|text| text.parse().ok())
}

/// The text in the form that Rust's parser takes, `None` where Java's would refuse it.
fn java_float(text: &str) -> Option<&str> {
    let text = text.trim();
    let bare = text.strip_prefix(['-', '+']).unwrap_or(text);
    if bare == "NaN" {
        return Some("NaN");
    }
    if bare == "Infinity" {
        return Some(text);
    }
    bare.starts_with(|c: char| c.is_ascii_digit() || c == '.').then(|| text.trim_end_matches(['f', 'F', 'd', 'D']))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn decimals_keep_their_scale() {
        for (text, shown, plain) in [
            ("0", "0", "0"),
            ("0.00", "0.00", "0.00"),
            ("-0.0", "0.0", "0.0"),
            ("1e3", "1E+3", "1000"),
            ("1E-3", "0.001", "0.001"),
            ("-12.50e+2", "-1250", "-1250"),
            ("5.", "5", "5"),
            ("1e-7", "1E-7", "0.0000001"),
            ("-1e100", "-1E+100", &format!("-1{}", "0".repeat(100))),
            ("12.5e10", "1.25E+11", "125000000000"),
            ("1e2147483647", "1E+2147483647", "1E+2147483647"),
        ] {
            let value = decimal(text);
            assert_eq!(value.to_string(), shown, "{text}");
            assert_eq!(value.to_plain_string(), plain, "{text}");
            assert_eq!(Decimal::decode(&value.encode()), Some(value));
        }
        assert_eq!(decimal("1.5").encode(), [0, 0, 0, 1, 15]);
        assert_eq!(Decimal::decode(&[0, 0, 0, 2]).unwrap().to_string(), "0.00");
        assert_eq!(Decimal::decode(&[255, 255, 255, 255, 1]).unwrap().to_string(), "1E+1");
    }

    #[test]
    fn what_is_no_decimal() {
        for text in ["", "-", ".", "NaN", "1e", "1e+", "1.2.3", "1e2147483648", "0x1", "1e-99999999999999999999", "é"]
        {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(Decimal::decode(&[0, 0, 0]), None);
    }

    #[test]
    fn decimals_compare_by_value() {
        let rising =
            ["-1e2147483647", "-1e100", "-2", "-1.5", "0.00", "1e-2147483647", "0.99999", "1.0", "1.01", "1e3"];
        for (at, a) in rising.iter().enumerate() {
            for (bt, b) in rising.iter().enumerate() {
                assert_eq!(decimal(a).compare(&decimal(b)), at.cmp(&bt), "{a} {b}");
            }
        }
        assert_eq!(decimal("1.0").compare(&decimal("1.00")), Ordering::Equal);
        assert_eq!(decimal("1e3").compare(&decimal("1000")), Ordering::Equal);
        assert_eq!(decimal("0").compare(&decimal("0e9")), Ordering::Equal);
    }

    #[test]
    fn floats_are_written_as_java_writes_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.001, "0.001"),
            (9.999e-4, "9.999E-4"),
            (1e-3, "0.001"),
            (1_234_567.0, "1234567.0"),
            (9_999_999.5, "9999999.5"),
            (1e7, "1.0E7"),
            (1.5e-5, "1.5E-5"),
            (f64::from_bits(1), "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (120.0, "120.0"),
            (-2.9, "-2.9"),
        ] {
            assert_eq!(double_text(value), text);
        }
        assert_eq!(float_text(16_777_217.0), "1.6777216E7");
        assert_eq!(float_text(f32::MAX), "3.4028235E38");
        assert_eq!(float_text(f32::from_bits(1)), "1.4E-45");
        assert_eq!(float_text(0.33333334), "0.33333334");
    }

    #[test]
    fn float_literals() {
        assert_eq!(parse_float("3.5e38"), Some(f32::INFINITY));
        assert_eq!(parse_float("1e-50"), Some(0.0));
        assert!(parse_double("-NaN").unwrap().is_nan());
        assert_eq!(parse_double("-Infinity"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_double("5."), Some(5.0));
        for text in ["", "inf", "nan", "abc", "--1", "1e"] {
            assert_eq!(parse_double(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn doubles_read_back(value: f64) {
            let back = parse_double(&double_text(value)).unwrap();
            prop_assert!(back == value || value.is_nan() && back.is_nan());
        }

        #[test]
        fn floats_read_back(value: f32) {
            let back = parse_float(&float_text(value)).unwrap();
            prop_assert!(back == value || value.is_nan() && back.is_nan());
        }

        #[test]
        fn decimals_read_back(bytes in prop::collection::vec(any::<u8>(), 1..20), scale in -50i32..50) {
            let value = Decimal::new(BigInt::from_signed_bytes_be(&bytes), scale);
            prop_assert_eq!(decimal(&value.to_string()), value.clone());
            prop_assert_eq!(decimal(&value.to_plain_string()).compare(&value), Ordering::Equal);
        }

        #[test]
        fn decimal_order_agrees_with_one_scale(a: i64, b: i64, sa in 0u32..20, sb in 0u32..20) {
            let align = |value: i64, by: u32| BigInt::from(value) * BigInt::from(10).pow(20 - by);
            let (da, db) = (Decimal::new(a, sa.cast_signed()), Decimal::new(b, sb.cast_signed()));
            prop_assert_eq!(da.compare(&db), align(a, sa).cmp(&align(b, sb)));
        }
    }
}
