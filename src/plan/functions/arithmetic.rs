//! The operators of CQL: `+ - * / %` on numbers, `+` on text, and dates and timestamps plus or minus durations.

use std::ops::{Add, Div, Mul, Rem, Sub};

use num_bigint::{BigInt, Sign};

use super::number::{Number, power_of_ten};
use crate::cql::ast::ArithmeticOperator as Operator;
use crate::types::temporal;
use crate::types::{CqlType, Decimal, Duration, number};

/// Decimal results are rounded to this many digits.
const DECIMAL_DIGITS_MAX: u64 = 10_000;
/// A quotient of decimals has at least this many digits that count, and behind the point.
const QUOTIENT_DIGITS_MIN: i64 = 32;
const QUOTIENT_SCALE_MAX: i64 = 1000;

/// The name under which errors know an operator.
pub(super) fn function_name(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "_add",
        Operator::Subtract => "_substract",
        Operator::Multiply => "_multiply",
        Operator::Divide => "_divide",
        Operator::Modulo => "_modulo",
    }
}

/// The numeric types, in the order in which Cassandra tries them.
pub(super) const NUMERIC: [CqlType; 9] = [
    CqlType::TinyInt,
    CqlType::SmallInt,
    CqlType::Int,
    CqlType::BigInt,
    CqlType::Float,
    CqlType::Double,
    CqlType::Decimal,
    CqlType::Varint,
    CqlType::Counter,
];

/// The type of a numeric operation: floating where either side is, and as wide as the wider side.
pub(super) fn numeric_result(left: &CqlType, right: &CqlType) -> CqlType {
    let is_floating = |ty: &CqlType| matches!(ty, CqlType::Float | CqlType::Double | CqlType::Decimal);
    let width = |ty: &CqlType| match ty {
        CqlType::TinyInt => 1,
        CqlType::SmallInt => 2,
        CqlType::Int | CqlType::Float => 4,
        CqlType::BigInt | CqlType::Double | CqlType::Counter => 8,
        _ => u8::MAX,
    };
    match (is_floating(left) || is_floating(right), width(left).max(width(right))) {
        (true, 4) => CqlType::Float,
        (true, 8) => CqlType::Double,
        (true, _) => CqlType::Decimal,
        (false, 1) => CqlType::TinyInt,
        (false, 2) => CqlType::SmallInt,
        (false, 4) => CqlType::Int,
        (false, 8) => CqlType::BigInt,
        (false, _) => CqlType::Varint,
    }
}

/// Applies an operator to two values of the types that it was resolved for. The error is why it failed. `None` where
/// either side has no bytes.
pub(super) fn apply(
    operator: Operator,
    types: [&CqlType; 2],
    result: &CqlType,
    left: &[u8],
    right: &[u8],
) -> Result<Option<Vec<u8>>, String> {
    let [left_type, right_type] = types;
    if matches!(result, CqlType::Text | CqlType::Ascii) {
        return Ok(Some([left, right].concat()));
    }
    if left.is_empty() || right.is_empty() {
        return Ok(None);
    }
    if *right_type == CqlType::Duration {
        return moved(operator, result, left, right).map(Some);
    }
    match (Number::decode(left_type, left), Number::decode(right_type, right)) {
        (Some(left), Some(right)) => numeric(operator, result, &left, &right).map(|value| Some(value.encode())),
        _ => Ok(None),
    }
}

fn numeric(operator: Operator, result: &CqlType, left: &Number, right: &Number) -> Result<Number, String> {
    let zero_divisor = || "/ by zero".to_owned();
    Ok(match result {
        CqlType::TinyInt | CqlType::SmallInt | CqlType::Int | CqlType::BigInt => {
            let value = whole(operator, left.to_i64(), right.to_i64()).ok_or_else(zero_divisor)?;
            Number::Long(value).convert(result).unwrap_or(Number::Long(value))
        }
        CqlType::Float => Number::Float(operated(operator, left.to_f32(), right.to_f32())),
        CqlType::Double => Number::Double(operated(operator, left.to_f64(), right.to_f64())),
        CqlType::Varint => Number::Varint(varint(operator, &as_varint(left), &as_varint(right))?),
        _ => Number::Decimal(decimal(operator, &as_decimal(left)?, &as_decimal(right)?)?),
    })
}

/// What Rust's own operator gives.
fn operated<T, R>(operator: Operator, left: T, right: T) -> R
where
    T: Add<Output = R> + Sub<Output = R> + Mul<Output = R> + Div<Output = R> + Rem<Output = R>,
{
    match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Modulo => left % right,
    }
}

/// Wraps, as Java's whole numbers do; `None` for a division by zero.
fn whole(operator: Operator, left: i64, right: i64) -> Option<i64> {
    match operator {
        Operator::Add => Some(left.wrapping_add(right)),
        Operator::Subtract => Some(left.wrapping_sub(right)),
        Operator::Multiply => Some(left.wrapping_mul(right)),
        Operator::Divide => (right != 0).then(|| left.wrapping_div(right)),
        Operator::Modulo => (right != 0).then(|| left.wrapping_rem(right)),
    }
}

fn as_varint(value: &Number) -> BigInt {
    match value {
        Number::Varint(value) => value.clone(),
        other => other.to_i64().into(),
    }
}

fn varint(operator: Operator, left: &BigInt, right: &BigInt) -> Result<BigInt, String> {
    let divides = matches!(operator, Operator::Divide | Operator::Modulo);
    if divides && right.sign() == Sign::NoSign {
        return Err("BigInteger divide by zero".to_owned());
    }
    Ok(operated(operator, left, right))
}

/// Whole numbers pass through a double, which gives them one digit behind the point, as in Cassandra; those that a
/// double cannot hold stay exact.
fn as_decimal(value: &Number) -> Result<Decimal, String> {
    let exact_in_double = |value: i64| value.unsigned_abs() <= 1 << 53;
    let parsed = match value {
        Number::Decimal(value) => Some(value.clone()),
        Number::Varint(value) => Some(Decimal::new(value.clone(), 0)),
        Number::Float(_) | Number::Double(_) => {
            let double = value.to_f64();
            if double.is_nan() {
                return Err("A NaN cannot be converted into a decimal".to_owned());
            }
            if double.is_infinite() {
                return Err("An infinite number cannot be converted into a decimal".to_owned());
            }
            Decimal::parse(&number::double_text(double))
        }
        other if exact_in_double(other.to_i64()) => Decimal::parse(&number::double_text(other.to_f64())),
        other => Some(Decimal::new(other.to_i64(), 0)),
    };
    parsed.ok_or_else(|| "the number is out of the range of decimals".to_owned())
}

fn decimal(operator: Operator, left: &Decimal, right: &Decimal) -> Result<Decimal, String> {
    match operator {
        Operator::Add => add(left, right),
        Operator::Subtract => add(left, &Decimal::new(-&right.unscaled, right.scale)),
        Operator::Multiply => {
            let scale = i64::from(left.scale) + i64::from(right.scale);
            rounded(&left.unscaled * &right.unscaled, scale)
        }
        Operator::Divide => divide(left, right),
        Operator::Modulo => remainder(left, right),
    }
}

/// The number of decimal digits, at least 1.
fn digits(value: &BigInt) -> i64 {
    value.magnitude().to_string().len() as i64
}

fn decimal_of(unscaled: BigInt, scale: i64) -> Result<Decimal, String> {
    let narrow = i32::try_from(scale);
    let text = if scale > 0 { "Underflow" } else { "Overflow" };
    narrow.map(|scale| Decimal::new(unscaled, scale)).map_err(|_| text.to_owned())
}

/// Adds; a number too small to touch the last digit kept of the other leaves it as it is.
pub(super) fn add(left: &Decimal, right: &Decimal) -> Result<Decimal, String> {
    let (low, high) = if left.scale <= right.scale { (left, right) } else { (right, left) };
    let apart = i64::from(high.scale) - i64::from(low.scale);
    if apart > 2 * DECIMAL_DIGITS_MAX as i64 {
        let reach = |value: &Decimal| digits(&value.unscaled) - i64::from(value.scale);
        if low.unscaled.sign() == Sign::NoSign {
            return Ok(high.clone());
        }
        if reach(low) - reach(high) > DECIMAL_DIGITS_MAX as i64 + 1 {
            return Ok(low.clone());
        }
    }
    let shift = u32::try_from(apart).map_err(|_| "Overflow".to_owned())?;
    rounded(&low.unscaled * power_of_ten(shift) + &high.unscaled, high.scale.into())
}

fn rounded(unscaled: BigInt, scale: i64) -> Result<Decimal, String> {
    // Three bits say less than one digit, so that short numbers need no count of digits.
    if unscaled.bits() <= 3 * DECIMAL_DIGITS_MAX {
        return decimal_of(unscaled, scale);
    }
    let excess = digits(&unscaled) - DECIMAL_DIGITS_MAX as i64;
    match u32::try_from(excess) {
        Ok(excess) if excess > 0 => decimal_of(half_up(&unscaled, &power_of_ten(excess)), scale - i64::from(excess)),
        _ => decimal_of(unscaled, scale),
    }
}

/// The quotient rounded to the nearest, halves away from zero.
pub(super) fn half_up(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = dividend / divisor;
    let rest: BigInt = dividend % divisor;
    let is_up = (rest.magnitude() * 2u32) >= *divisor.magnitude();
    let away = if (dividend.sign() == Sign::Minus) == (divisor.sign() == Sign::Minus) { 1 } else { -1 };
    if is_up { quotient + away } else { quotient }
}

fn divide(left: &Decimal, right: &Decimal) -> Result<Decimal, String> {
    if right.unscaled.sign() == Sign::NoSign {
        return Err("/ by zero".to_owned());
    }
    if left.unscaled.sign() == Sign::NoSign {
        return Ok(Decimal::new(0, 0));
    }
    let whole_digits = |value: &Decimal| digits(&value.unscaled) - i64::from(value.scale);
    let first_digit = whole_digits(left) - whole_digits(right);
    let scale = (QUOTIENT_DIGITS_MIN - first_digit)
        .max(left.scale.into())
        .max(right.scale.into())
        .clamp(QUOTIENT_DIGITS_MIN, QUOTIENT_SCALE_MAX);
    let shift = scale - i64::from(left.scale) + i64::from(right.scale);
    if shift.abs() > 2 * DECIMAL_DIGITS_MAX as i64 {
        return if shift < 0 { Ok(Decimal::new(0, 0)) } else { Err("Overflow".to_owned()) };
    }
    let power = power_of_ten(shift.unsigned_abs() as u32);
    let quotient = if shift >= 0 {
        half_up(&(&left.unscaled * power), &right.unscaled)
    } else {
        half_up(&left.unscaled, &(&right.unscaled * power))
    };
    Ok(without_trailing_zeros(quotient, scale as i32))
}

fn without_trailing_zeros(unscaled: BigInt, scale: i32) -> Decimal {
    if unscaled.sign() == Sign::NoSign {
        return Decimal::new(0, 0);
    }
    let text = unscaled.to_string();
    let kept = text.trim_end_matches('0');
    let zeros = (text.len() - kept.len()) as i32;
    Decimal::new(kept.parse::<BigInt>().unwrap_or(unscaled), scale - zeros)
}

/// What is left after dividing to a whole number, with the sign of the dividend.
fn remainder(left: &Decimal, right: &Decimal) -> Result<Decimal, String> {
    if right.unscaled.sign() == Sign::NoSign {
        return Err("Division by zero".to_owned());
    }
    if left.unscaled.sign() == Sign::NoSign {
        return Ok(left.clone());
    }
    let scale = left.scale.max(right.scale);
    let shift = |value: &Decimal| i64::from(scale) - i64::from(value.scale);
    if shift(left).max(shift(right)) > 2 * DECIMAL_DIGITS_MAX as i64 {
        return Err("Overflow".to_owned());
    }
    let aligned = |value: &Decimal| &value.unscaled * power_of_ten(shift(value) as u32);
    Ok(Decimal::new(aligned(left) % aligned(right), scale))
}

/// A date or timestamp, a duration later or earlier.
fn moved(operator: Operator, result: &CqlType, left: &[u8], right: &[u8]) -> Result<Vec<u8>, String> {
    let duration = Duration::decode(right).map_err(|error| error.to_string())?;
    let outside = || format!("{duration} leads out of the range of {result}");
    let applied = match operator {
        Operator::Subtract => duration.negated().ok_or_else(outside)?,
        _ => duration,
    };
    if *result == CqlType::Date {
        if duration.nanos != 0 {
            return Err(format!("The duration must have a day precision. Was: {duration}"));
        }
        let date = number::int32(left).ok_or_else(outside)?.cast_unsigned();
        let unix_ms = temporal::add_duration(temporal::timestamp_of_date(date), &applied).ok_or_else(outside)?;
        return Ok(temporal::date_of_timestamp(unix_ms).to_be_bytes().to_vec());
    }
    if duration.nanos % 1_000_000 != 0 {
        return Err(format!("The duration must have a millisecond precision. Was: {duration}"));
    }
    let unix_ms = number::int64(left).ok_or_else(outside)?;
    Ok(temporal::add_duration(unix_ms, &applied).ok_or_else(outside)?.to_be_bytes().to_vec())
}

/// The number with the other sign; the least of a type stays as it is.
pub(super) fn negate(ty: &CqlType, bytes: &[u8]) -> Option<Vec<u8>> {
    Some(
        match Number::decode(ty, bytes)? {
            Number::Byte(value) => Number::Byte(value.wrapping_neg()),
            Number::Short(value) => Number::Short(value.wrapping_neg()),
            Number::Int(value) => Number::Int(value.wrapping_neg()),
            Number::Long(value) => Number::Long(value.wrapping_neg()),
            Number::Float(value) => Number::Float(-value),
            Number::Double(value) => Number::Double(-value),
            Number::Varint(value) => Number::Varint(-value),
            Number::Decimal(value) => Number::Decimal(Decimal::new(-value.unscaled, value.scale)),
        }
        .encode(),
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::Operator::{Add, Divide, Modulo, Multiply, Subtract};
    use super::*;
    use crate::types::{literal::from_text, to_text, validate};
    use proptest::prelude::*;

    fn compute(left: (CqlType, &str), operator: Operator, right: (CqlType, &str)) -> Result<String, String> {
        let result = match &right.0 {
            CqlType::Duration | CqlType::Text => left.0.clone(),
            _ => numeric_result(&left.0, &right.0),
        };
        let bytes = |side: &(CqlType, &str)| from_text(&side.0, side.1, 0).unwrap();
        let value = apply(operator, [&left.0, &right.0], &result, &bytes(&left), &bytes(&right))?;
        Ok(value.map_or("null".to_owned(), |value| format!("{} {result}", to_text(&result, &value))))
    }

    #[test]
    fn results_and_their_types() {
        use CqlType::{
            BigInt, Counter, Date, Decimal, Double, Duration, Float, Int, SmallInt, Text, Timestamp, TinyInt, Varint,
        };
        for (left, operator, right, expected) in [
            ((Int, "2147483647"), Add, (Int, "1"), "-2147483648 int"),
            ((TinyInt, "100"), Add, (TinyInt, "100"), "-56 tinyint"),
            ((TinyInt, "100"), Multiply, (SmallInt, "100"), "10000 smallint"),
            ((Int, "3"), Divide, (Int, "2"), "1 int"),
            ((Int, "-3"), Modulo, (Int, "2"), "-1 int"),
            ((Int, "-2147483648"), Divide, (Int, "-1"), "-2147483648 int"),
            ((Counter, "1"), Add, (Int, "1"), "2 bigint"),
            ((Int, "3"), Add, (Float, "1.5"), "4.5 float"),
            ((BigInt, "3"), Add, (Float, "1.5"), "4.5 double"),
            ((Double, "1"), Divide, (Double, "0"), "Infinity double"),
            ((Varint, "99999999999999999999"), Add, (BigInt, "1"), "100000000000000000000 varint"),
            ((Varint, "1"), Add, (Double, "1.5"), "2.5 decimal"),
            ((Decimal, "1.10"), Add, (Decimal, "2"), "3.10 decimal"),
            ((Decimal, "10"), Divide, (Decimal, "4"), "2.5 decimal"),
            ((Decimal, "1"), Divide, (Decimal, "3"), "0.33333333333333333333333333333333 decimal"),
            ((Decimal, "2"), Divide, (Decimal, "3"), "0.66666666666666666666666666666667 decimal"),
            ((Decimal, "7.5"), Modulo, (Decimal, "2"), "1.5 decimal"),
            ((Decimal, "1.5"), Multiply, (Decimal, "-1.5"), "-2.25 decimal"),
            ((Decimal, "1e2000000"), Add, (Decimal, "1"), "1E+2000000 decimal"),
            ((Decimal, "0e2147483647"), Divide, (Decimal, "3"), "0 decimal"),
            ((Int, ""), Add, (Int, "1"), "null"),
            ((Text, "a"), Add, (Text, "b"), "'ab' text"),
            ((Timestamp, "2020-01-31"), Add, (Duration, "1mo"), "'2020-02-29T00:00:00.000Z' timestamp"),
            ((Date, "2020-03-01"), Subtract, (Duration, "1d"), "'2020-02-29' date"),
        ] {
            assert_eq!(compute(left.clone(), operator, right.clone()).as_deref(), Ok(expected), "{left:?} {right:?}");
        }
    }

    #[test]
    fn failures() {
        use CqlType::{Date, Decimal, Double, Duration, Int, Timestamp, Varint};
        for (left, operator, right, why) in [
            ((Int, "1"), Divide, (Int, "0"), "/ by zero"),
            ((Int, "1"), Modulo, (Int, "0"), "/ by zero"),
            ((Varint, "1"), Divide, (Varint, "0"), "BigInteger divide by zero"),
            ((Decimal, "1"), Divide, (Decimal, "0"), "/ by zero"),
            ((Decimal, "1"), Add, (Double, "NaN"), "A NaN cannot be converted into a decimal"),
            ((Decimal, "1e2147483647"), Multiply, (Decimal, "10e2147483646"), "Overflow"),
            ((Date, "2020-01-01"), Add, (Duration, "1h"), "The duration must have a day precision. Was: 1h"),
            ((Timestamp, "0"), Add, (Duration, "1us"), "The duration must have a millisecond precision. Was: 1us"),
        ] {
            assert_eq!(compute(left, operator, right), Err(why.to_owned()));
        }
    }

    #[test]
    fn negation_wraps() {
        assert_eq!(negate(&CqlType::TinyInt, &[0x80]), Some(vec![0x80]));
        assert_eq!(negate(&CqlType::Int, &3i32.to_be_bytes()), Some((-3i32).to_be_bytes().to_vec()));
        assert_eq!(negate(&CqlType::Int, &[]), None);
    }

    proptest! {
        #[test]
        fn any_numbers_give_a_number_or_an_error(
            left in prop::collection::vec(any::<u8>(), 0..12),
            right in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            for left_type in &NUMERIC {
                for right_type in &NUMERIC {
                    let result = numeric_result(left_type, right_type);
                    for operator in [Add, Subtract, Multiply, Divide, Modulo] {
                        if let Ok(Some(value)) = apply(operator, [left_type, right_type], &result, &left, &right) {
                            prop_assert_eq!(validate(&result, &value), Ok(()));
                        }
                    }
                }
            }
        }

        #[test]
        fn decimals_agree_with_whole_numbers(left in -1_000_000i64..1_000_000, right in 1i64..1_000_000) {
            let of = |value: i64| Decimal::new(value, 0);
            for operator in [Operator::Add, Operator::Subtract, Operator::Multiply, Operator::Modulo] {
                let expected = of(whole(operator, left, right).unwrap());
                let got = decimal(operator, &of(left), &of(right)).unwrap();
                prop_assert!(got.compare(&expected).is_eq());
            }
            let product = decimal(Operator::Multiply, &of(left), &of(right)).unwrap();
            prop_assert!(divide(&product, &of(right)).unwrap().compare(&of(left)).is_eq());
        }
    }
}
