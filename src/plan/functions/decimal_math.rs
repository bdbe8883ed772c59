//! Exponential and logarithms of decimals, to as many digits as asked.
//!
//! Numbers are whole numbers of 10^-scale. exp(x) = 10^k · exp(x - k·ln 10), the rest halved until its series is
//! short and squared back; ln by Halley's iteration on exp from the double's 15 digits, which triples them each time.

use num_bigint::{BigInt, Sign};

use super::arithmetic::half_up;
use super::number::power_of_ten;
use crate::types::Decimal;

const DIGITS_MIN: usize = 32;
/// Cassandra goes on to 10,000; a request must not hold a shard that long.
const DIGITS_MAX: usize = 1000;
/// Digits that are computed and not shown.
const GUARD_DIGITS: usize = 12;
/// The rest is divided by 2 to this power before the series.
const HALVINGS: u32 = 8;

/// The digits that a function of `value` gets: its own, within bounds.
fn result_digits(value: &Decimal) -> usize {
    value.unscaled.magnitude().to_string().len().clamp(DIGITS_MIN, DIGITS_MAX)
}

/// e to the power of `value`; an error where the result is out of the range of decimals.
pub(super) fn exp(value: &Decimal) -> Result<Decimal, String> {
    let wanted = result_digits(value);
    let approximate: f64 = value.to_string().parse().unwrap_or(f64::INFINITY);
    if approximate.abs() > 4.9e9 {
        return Err(if approximate > 0.0 { "Overflow" } else { "Underflow" }.to_owned());
    }
    let power = (approximate / std::f64::consts::LN_10).round() as i64;
    let scale = wanted + GUARD_DIGITS + power.unsigned_abs().to_string().len();
    let rest = fixed(value, scale) - ln_10(scale) * power;
    rounded(&exp_series(&rest, scale), scale as i64 - power, wanted)
}

/// The natural logarithm of a number above zero.
pub(super) fn ln(value: &Decimal) -> Result<Decimal, String> {
    if value.unscaled.sign() != Sign::Plus {
        return Err("Natural log of number zero or less".to_owned());
    }
    let wanted = result_digits(value);
    let scale = wanted + 2 * GUARD_DIGITS;
    rounded(&ln_fixed(value, scale), scale as i64, wanted)
}

/// The logarithm to base 10 of a number above zero.
pub(super) fn log10(value: &Decimal) -> Result<Decimal, String> {
    if value.unscaled.sign() != Sign::Plus {
        return Err("Log10 of number zero or less".to_owned());
    }
    let wanted = result_digits(value);
    let scale = wanted + 2 * GUARD_DIGITS;
    let quotient = half_up(&(ln_fixed(value, scale) * one(scale)), &ln_10(scale));
    rounded(&quotient, scale as i64, wanted)
}

fn one(scale: usize) -> BigInt {
    power_of_ten(scale as u32)
}

/// `value` as a whole number of 10^-scale. Digits beyond are cut off.
fn fixed(value: &Decimal, scale: usize) -> BigInt {
    if value.unscaled.sign() == Sign::NoSign {
        return BigInt::ZERO;
    }
    let shift = scale as i64 - i64::from(value.scale);
    match u32::try_from(shift) {
        Ok(shift) => &value.unscaled * power_of_ten(shift),
        Err(_) if shift.unsigned_abs() > value.unscaled.bits() => BigInt::ZERO,
        Err(_) => &value.unscaled / power_of_ten(shift.unsigned_abs() as u32),
    }
}

/// Rounds to `wanted` digits and drops zeros behind the point.
fn rounded(value: &BigInt, scale: i64, wanted: usize) -> Result<Decimal, String> {
    let excess = value.magnitude().to_string().len().saturating_sub(wanted);
    let shortened = half_up(value, &power_of_ten(excess as u32));
    let mut scale = scale - excess as i64;
    let text = shortened.to_string();
    let zeros = text.len() - text.trim_end_matches('0').len();
    let dropped = if text == "0" { 0 } else { zeros.min(usize::try_from(scale).unwrap_or(0)) };
    scale -= dropped as i64;
    let unscaled = shortened / power_of_ten(dropped as u32);
    let scale = i32::try_from(scale).map_err(|_| if scale > 0 { "Underflow" } else { "Overflow" }.to_owned())?;
    Ok(Decimal::new(unscaled, scale))
}

/// e to the power of a fixed-point number of a few units.
fn exp_series(value: &BigInt, scale: usize) -> BigInt {
    let extra = 6;
    let scale = scale + extra;
    let unit = one(scale);
    let rest = (value * power_of_ten(extra as u32)) >> HALVINGS;
    let mut term = unit.clone();
    let mut sum = unit.clone();
    for n in 1u32.. {
        term = &term * &rest / &unit / n;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += &term;
    }
    for _ in 0..HALVINGS {
        sum = &sum * &sum / &unit;
    }
    sum / power_of_ten(extra as u32)
}

/// ln 10 = 46 arcoth 31 + 34 arcoth 49 + 20 arcoth 161.
fn ln_10(scale: usize) -> BigInt {
    let extra = 4;
    let unit = one(scale + extra);
    (arcoth(31, &unit) * 46 + arcoth(49, &unit) * 34 + arcoth(161, &unit) * 20) / power_of_ten(extra as u32)
}

/// arcoth x = 1/x + 1/(3x³) + 1/(5x⁵) + …
fn arcoth(x: u32, unit: &BigInt) -> BigInt {
    let mut power = unit / x;
    let mut sum = BigInt::ZERO;
    for n in (1u32..).step_by(2) {
        if power.sign() == Sign::NoSign {
            break;
        }
        sum += &power / n;
        power /= x * x;
    }
    sum
}

fn ln_fixed(value: &Decimal, scale: usize) -> BigInt {
    // value = mantissa · 10^exponent, the mantissa from 1 to 10.
    let digits = value.unscaled.magnitude().to_string().len();
    let exponent = digits as i64 - 1 - i64::from(value.scale);
    let mantissa = fixed(&Decimal::new(value.unscaled.clone(), digits as i32 - 1), scale);
    let start: f64 = Decimal::new(mantissa.clone(), scale as i32).to_string().parse::<f64>().unwrap_or(1.0).ln();
    let mut root = fixed(&Decimal::parse(&format!("{start:.17}")).unwrap_or(Decimal::new(0, 0)), scale);
    let mut correct_digits = 14;
    while correct_digits < scale {
        let power = exp_series(&root, scale);
        root += (&mantissa - &power) * 2 * one(scale) / (&mantissa + &power);
        correct_digits *= 3;
    }
    root + ln_10(scale) * exponent
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn known_digits() {
        assert_eq!(exp(&of("1")).unwrap().to_string(), "2.7182818284590452353602874713527");
        assert_eq!(exp(&of("0")).unwrap().to_string(), "1");
        assert_eq!(exp(&of("0e2147483647")).unwrap().to_string(), "1");
        assert_eq!(exp(&of("-1")).unwrap().to_string(), "0.36787944117144232159552377016146");
        assert_eq!(ln(&of("10")).unwrap().to_string(), "2.3025850929940456840179914546844");
        assert_eq!(ln(&of("2")).unwrap().to_string(), "0.69314718055994530941723212145818");
        assert_eq!(log10(&of("1000")).unwrap().to_string(), "3");
        assert_eq!(log10(&of("1e-20")).unwrap().to_string(), "-20");
        assert_eq!(log10(&of("2")).unwrap().to_string(), "0.30102999566398119521373889472449");
    }

    #[test]
    fn ends_of_the_range() {
        assert!(exp(&of("1e9")).unwrap().to_string().ends_with("E+434294481"));
        assert_eq!(exp(&of("1e10")), Err("Overflow".to_owned()));
        assert_eq!(exp(&of("-1e10")), Err("Underflow".to_owned()));
        assert_eq!(ln(&of("0")), Err("Natural log of number zero or less".to_owned()));
        assert_eq!(log10(&of("-1")), Err("Log10 of number zero or less".to_owned()));
        assert_eq!(ln(&of("1e2147483647")).unwrap().to_string(), "4944763833.0306873747995659027204");
        assert_eq!(ln(&of("1e-2147483647")).unwrap().unscaled.sign(), Sign::Minus);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn agrees_with_doubles(value in 0.0001f64..700.0) {
            let decimal = of(&format!("{value:e}"));
            let near = |got: Result<Decimal, String>, want: f64| {
                let got: f64 = got.unwrap().to_string().parse().unwrap();
                (got - want).abs() <= 1e-12 * want.abs().max(1e-3)
            };
            prop_assert!(near(exp(&decimal), value.exp()));
            prop_assert!(near(ln(&decimal), value.ln()));
            prop_assert!(near(log10(&decimal), value.log10()));
        }

        #[test]
        fn ln_undoes_exp(unscaled in -100_000i64..100_000) {
            let value = Decimal::new(unscaled, 3);
            let back = ln(&exp(&value).unwrap()).unwrap();
            let difference = super::super::arithmetic::add(&back, &Decimal::new(-unscaled, 3)).unwrap();
            let difference: f64 = difference.to_string().parse().unwrap();
            prop_assert!(difference.abs() < 1e-26);
        }
    }
}
