//! A number of any CQL type, with the conversions that Java makes between its number classes.

use num_bigint::{BigInt, Sign};

use crate::types::{CqlType, Decimal, number};

/// More digits than this a decimal does not get when it becomes a whole number.
const WHOLE_DIGITS_MAX: i32 = 10_000;

/// A value of a numeric type. A counter is a `Long`.
#[derive(Clone, PartialEq, Debug)]
pub enum Number {
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Varint(BigInt),
    Decimal(Decimal),
}

impl Number {
    /// Reads a value; `None` where it has no bytes, is damaged or not of a numeric type.
    pub fn decode(ty: &CqlType, bytes: &[u8]) -> Option<Number> {
        Some(match ty {
            CqlType::TinyInt => Number::Byte(number::int8(bytes)?),
            CqlType::SmallInt => Number::Short(number::int16(bytes)?),
            CqlType::Int => Number::Int(number::int32(bytes)?),
            CqlType::BigInt | CqlType::Counter => Number::Long(number::int64(bytes)?),
            CqlType::Float => Number::Float(number::float32(bytes)?),
            CqlType::Double => Number::Double(number::float64(bytes)?),
            CqlType::Varint => Number::Varint(number::varint(bytes)?),
            CqlType::Decimal => Number::Decimal(Decimal::decode(bytes)?),
            _ => return None,
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        match self {
            Number::Byte(value) => value.to_be_bytes().to_vec(),
            Number::Short(value) => value.to_be_bytes().to_vec(),
            Number::Int(value) => value.to_be_bytes().to_vec(),
            Number::Long(value) => value.to_be_bytes().to_vec(),
            Number::Float(value) => value.to_be_bytes().to_vec(),
            Number::Double(value) => value.to_be_bytes().to_vec(),
            Number::Varint(value) => number::varint_bytes(value),
            Number::Decimal(value) => value.encode(),
        }
    }

    /// Java's conversion to a numeric type: whole numbers lose their high bits, fractions are cut off, and what a
    /// double cannot say becomes the nearest whole number that the type has. `None` for types that are not numeric,
    /// and for decimals that are no whole number of bearable size or not finite.
    pub fn convert(&self, ty: &CqlType) -> Option<Number> {
        Some(match ty {
            CqlType::TinyInt => Number::Byte(self.to_i32() as i8),
            CqlType::SmallInt => Number::Short(self.to_i32() as i16),
            CqlType::Int => Number::Int(self.to_i32()),
            CqlType::BigInt | CqlType::Counter => Number::Long(self.to_i64()),
            CqlType::Float => Number::Float(self.to_f32()),
            CqlType::Double => Number::Double(self.to_f64()),
            CqlType::Varint => Number::Varint(self.to_varint()?),
            CqlType::Decimal => Number::Decimal(self.to_decimal()?),
            _ => return None,
        })
    }

    pub fn to_i32(&self) -> i32 {
        match self {
            Number::Float(value) => *value as i32,
            Number::Double(value) => *value as i32,
            other => other.to_i64() as i32,
        }
    }

    pub fn to_i64(&self) -> i64 {
        match self {
            Number::Byte(value) => (*value).into(),
            Number::Short(value) => (*value).into(),
            Number::Int(value) => (*value).into(),
            Number::Long(value) => *value,
            Number::Float(value) => *value as i64,
            Number::Double(value) => *value as i64,
            Number::Varint(value) => low_64_bits(value),
            // From 64 zeros on, the low 64 bits are zero.
            Number::Decimal(value) if value.scale <= -64 => 0,
            Number::Decimal(value) => whole(value).map_or(0, |value| low_64_bits(&value)),
        }
    }

    pub fn to_f32(&self) -> f32 {
        match self {
            Number::Float(value) => *value,
            Number::Double(value) => *value as f32,
            Number::Varint(value) => value.to_string().parse().unwrap_or(f32::NAN),
            Number::Decimal(value) => value.to_string().parse().unwrap_or(f32::NAN),
            other => other.to_i64() as f32,
        }
    }

    pub fn to_f64(&self) -> f64 {
        match self {
            Number::Float(value) => (*value).into(),
            Number::Double(value) => *value,
            Number::Varint(value) => value.to_string().parse().unwrap_or(f64::NAN),
            Number::Decimal(value) => value.to_string().parse().unwrap_or(f64::NAN),
            other => other.to_i64() as f64,
        }
    }

    fn to_varint(&self) -> Option<BigInt> {
        match self {
            Number::Varint(value) => Some(value.clone()),
            Number::Decimal(value) => whole(value),
            other => Some(other.to_i64().into()),
        }
    }

    /// Floats by their shortest text, so that 0.1 stays 0.1.
    fn to_decimal(&self) -> Option<Decimal> {
        match self {
            Number::Decimal(value) => Some(value.clone()),
            Number::Varint(value) => Some(Decimal::new(value.clone(), 0)),
            Number::Float(value) => Decimal::parse(&number::float_text(*value)),
            Number::Double(value) => Decimal::parse(&number::double_text(*value)),
            other => Some(Decimal::new(other.to_i64(), 0)),
        }
    }
}

fn low_64_bits(value: &BigInt) -> i64 {
    let filler = if value.sign() == Sign::Minus { 0xff } else { 0 };
    let mut low = [filler; 8];
    for (place, byte) in low.iter_mut().zip(value.to_signed_bytes_le()) {
        *place = byte;
    }
    i64::from_le_bytes(low)
}

/// A decimal without its fraction.
fn whole(value: &Decimal) -> Option<BigInt> {
    match value.scale {
        0 => Some(value.unscaled.clone()),
        _ if value.unscaled.sign() == Sign::NoSign => Some(BigInt::ZERO),
        scale if scale < -WHOLE_DIGITS_MAX => None,
        scale if scale < 0 => Some(&value.unscaled * power_of_ten(scale.unsigned_abs())),
        // A number has no more digits than three for each eight bits.
        scale if u64::from(scale.unsigned_abs()) > value.unscaled.bits() => Some(BigInt::ZERO),
        scale => Some(&value.unscaled / power_of_ten(scale.unsigned_abs())),
    }
}

pub(super) fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn decimal(text: &str) -> Number {
        Number::Decimal(Decimal::parse(text).unwrap())
    }

    #[test]
    fn conversions_are_javas() {
        for (from, ty, to) in [
            (Number::Int(300), CqlType::TinyInt, Number::Byte(44)),
            (Number::Long(5_000_000_000), CqlType::Int, Number::Int(705_032_704)),
            (Number::Double(2.9), CqlType::Int, Number::Int(2)),
            (Number::Double(1e300), CqlType::BigInt, Number::Long(i64::MAX)),
            (Number::Double(1e300), CqlType::TinyInt, Number::Byte(-1)),
            (Number::Float(f32::NAN), CqlType::Int, Number::Int(0)),
            (Number::Float(-2.9), CqlType::Decimal, decimal("-2.9")),
            (Number::Int(300), CqlType::Decimal, decimal("300")),
            (decimal("1.10"), CqlType::Int, Number::Int(1)),
            (decimal("-1.9"), CqlType::Varint, Number::Varint((-1).into())),
            (decimal("1e2147483647"), CqlType::BigInt, Number::Long(0)),
            (decimal("1e-2147483647"), CqlType::BigInt, Number::Long(0)),
            (decimal("1.10"), CqlType::Double, Number::Double(1.1)),
            (
                Number::Varint("99999999999999999999".parse().unwrap()),
                CqlType::BigInt,
                Number::Long(7_766_279_631_452_241_919),
            ),
        ] {
            assert_eq!(from.convert(&ty), Some(to), "{from:?} {ty}");
        }
        assert_eq!(Number::Double(f64::NAN).convert(&CqlType::Decimal), None);
        assert_eq!(decimal("1e2147483647").convert(&CqlType::Varint), None);
        assert_eq!(Number::Int(1).convert(&CqlType::Text), None);
    }

    proptest! {
        #[test]
        fn any_bytes_and_conversion(bytes: Vec<u8>) {
            for from in &CqlType::NATIVE {
                let Some(value) = Number::decode(from, &bytes) else { continue };
                for to in &CqlType::NATIVE {
                    if let Some(converted) = value.convert(to) {
                        prop_assert_eq!(crate::types::validate(to, &converted.encode()), Ok(()));
                    }
                }
            }
        }

        #[test]
        fn whole_numbers_wrap(value: i64) {
            prop_assert_eq!(Number::Varint(value.into()).to_i64(), value);
            prop_assert_eq!(Number::Varint(BigInt::from(value) + (BigInt::from(1) << 64)).to_i64(), value);
        }
    }
}
