//! `abs`, `exp`, `log`, `log10` and `round`: each gives a number of its argument's type.

use num_bigint::BigInt;

use super::arithmetic::half_up;
use super::decimal_math;
use super::number::{Number, power_of_ten};
use crate::types::{CqlType, Decimal};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Math {
    Abs,
    Exp,
    Log,
    Log10,
    Round,
}

impl Math {
    pub(super) fn named(name: &str) -> Option<Math> {
        Some(match name {
            "abs" => Math::Abs,
            "exp" => Math::Exp,
            "log" => Math::Log,
            "log10" => Math::Log10,
            "round" => Math::Round,
            _ => return None,
        })
    }

    fn of_double(self, value: f64) -> f64 {
        match self {
            Math::Abs => value.abs(),
            Math::Exp => value.exp(),
            Math::Log => value.ln(),
            Math::Log10 => value.log10(),
            // Java rounds halves up, to a long.
            Math::Round => {
                let floor = value.floor();
                let rounded = if value - floor >= 0.5 { floor + 1.0 } else { floor };
                rounded as i64 as f64
            }
        }
    }
}

/// Applies a function to a value of type `ty`. `None` where it has no bytes; the error is why it failed.
pub(super) fn apply(math: Math, ty: &CqlType, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let Some(value) = Number::decode(ty, bytes) else {
        return Ok(None);
    };
    let result = match (math, &value) {
        (_, Number::Double(double)) => Number::Double(math.of_double(*double)),
        (Math::Round, Number::Float(float)) => {
            let rounded = math.of_double((*float).into()) as i32;
            Number::Float(rounded as f32)
        }
        (_, Number::Float(float)) => Number::Float(math.of_double((*float).into()) as f32),
        (_, Number::Decimal(decimal)) => Number::Decimal(of_decimal(math, decimal)?),
        (Math::Round, whole) => whole.clone(),
        (Math::Abs, Number::Varint(whole)) => Number::Varint(whole.magnitude().clone().into()),
        (Math::Abs, whole) => Number::Long(whole.to_i64().wrapping_abs()),
        (_, Number::Varint(whole)) => Number::Decimal(of_decimal(math, &Decimal::new(whole.clone(), 0))?),
        (_, whole) => Number::Double(math.of_double(whole.to_f64())),
    };
    let converted = result.convert(ty).ok_or_else(|| format!("the result is out of the range of {ty}"))?;
    Ok(Some(converted.encode()))
}

fn of_decimal(math: Math, value: &Decimal) -> Result<Decimal, String> {
    match math {
        Math::Abs => Ok(Decimal::new(BigInt::from(value.unscaled.magnitude().clone()), value.scale)),
        Math::Exp => decimal_math::exp(value),
        Math::Log => decimal_math::ln(value),
        Math::Log10 => decimal_math::log10(value),
        Math::Round => match u32::try_from(value.scale) {
            Err(_) => Ok(value.clone()),
            // Below a half by far: no need to build the power.
            Ok(scale) if u64::from(scale) > value.unscaled.bits() + 1 => Ok(Decimal::new(0, 0)),
            Ok(scale) => Ok(Decimal::new(half_up(&value.unscaled, &power_of_ten(scale)), 0)),
        },
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::super::arithmetic::NUMERIC;
    use super::*;
    use crate::types::{literal::from_text, to_text, validate};
    use proptest::prelude::*;

    fn compute(name: &str, ty: CqlType, text: &str) -> String {
        let bytes = from_text(&ty, text, 0).unwrap();
        match apply(Math::named(name).unwrap(), &ty, &bytes) {
            Ok(Some(value)) => to_text(&ty, &value),
            Ok(None) => "null".to_owned(),
            Err(why) => why,
        }
    }

    #[test]
    fn results() {
        for (name, ty, text, expected) in [
            ("abs", CqlType::SmallInt, "-1", "1"),
            ("abs", CqlType::TinyInt, "-128", "-128"),
            ("abs", CqlType::Float, "-2.9", "2.9"),
            ("abs", CqlType::Decimal, "-1.10", "1.10"),
            ("abs", CqlType::Varint, "-5", "5"),
            ("abs", CqlType::Int, "", "null"),
            ("exp", CqlType::Double, "0.0", "1.0"),
            ("exp", CqlType::Int, "1", "2"),
            ("exp", CqlType::Int, "100", "2147483647"),
            ("exp", CqlType::Varint, "3", "20"),
            ("log", CqlType::Int, "-1", "0"),
            ("log", CqlType::Decimal, "0", "Natural log of number zero or less"),
            ("log10", CqlType::Int, "1000", "3"),
            ("round", CqlType::Double, "2.9", "3.0"),
            ("round", CqlType::Double, "-2.5", "-2.0"),
            ("round", CqlType::Double, "0.49999999999999994", "0.0"),
            ("round", CqlType::Float, "-2.9", "-3.0"),
            ("round", CqlType::Decimal, "1.10", "1"),
            ("round", CqlType::Decimal, "-2.5", "-3"),
            ("round", CqlType::Int, "7", "7"),
        ] {
            assert_eq!(compute(name, ty, text), expected, "{name} {text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_give_a_number_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            for ty in &NUMERIC {
                for math in [Math::Abs, Math::Exp, Math::Log, Math::Log10, Math::Round] {
                    if let Ok(Some(value)) = apply(math, ty, &bytes) {
                        prop_assert_eq!(validate(ty, &value), Ok(()));
                    }
                }
            }
        }
    }
}
