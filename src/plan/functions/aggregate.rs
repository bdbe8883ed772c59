//! The aggregates `count`, `min`, `max`, `sum` and `avg`: what they gather, over rows or over a collection's elements.
//!
//! Sums wrap in the type of their argument, and whole averages are cut off, as in Cassandra. Floating sums carry the
//! digits that each addition loses.

use num_bigint::BigInt;

use super::arithmetic::{add, half_up};
use super::number::Number;
use crate::types::{CqlType, Decimal, compare};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AggregateKind {
    /// Rows, whatever they hold.
    CountRows,
    /// Values that are not null.
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

impl AggregateKind {
    /// The aggregate of this name; `count` of rows is not told apart from `count` of values here.
    pub fn named(name: &str) -> Option<AggregateKind> {
        Some(match name {
            "countrows" | "count_rows" => AggregateKind::CountRows,
            "count" => AggregateKind::Count,
            "min" => AggregateKind::Min,
            "max" => AggregateKind::Max,
            "sum" => AggregateKind::Sum,
            "avg" => AggregateKind::Avg,
            _ => return None,
        })
    }
}

/// What an aggregate has gathered so far.
#[derive(Clone, Debug)]
pub struct Accumulator {
    kind: AggregateKind,
    ty: CqlType,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Count(i64),
    Extreme(Option<Vec<u8>>),
    /// Exact: no more than 2^63 values of 64 bits come.
    Whole {
        sum: i128,
        count: i64,
    },
    Floating(FloatingSum),
    Varint {
        sum: BigInt,
        count: i64,
    },
    Decimal {
        sum: Decimal,
        count: i64,
    },
}

/// A compensated sum of doubles.
#[derive(Clone, Debug, Default)]
struct FloatingSum {
    sum: f64,
    /// What the last addition put in too much.
    excess: f64,
    /// Tells infinities from overflow, and keeps their sign.
    simple_sum: f64,
    /// The sum of values / 2^64, for the average where `sum` overflows.
    scaled_sum: f64,
    count: i64,
}

const SCALE_DOWN: f64 = 1.0 / 18_446_744_073_709_551_616.0;

impl FloatingSum {
    fn add(&mut self, value: f64) {
        let corrected = value - self.excess;
        let sum = self.sum + corrected;
        self.excess = (sum - self.sum) - corrected;
        self.sum = sum;
        self.simple_sum += value;
        self.scaled_sum += value * SCALE_DOWN;
        self.count += 1;
    }

    fn total(&self) -> f64 {
        let total = self.sum - self.excess;
        if total.is_nan() && self.simple_sum.is_infinite() { self.simple_sum } else { total }
    }

    fn average(&self) -> f64 {
        let count = self.count as f64;
        if self.count == 0 {
            return 0.0;
        }
        let total = self.total();
        // Values near the end of the range overflow together though their average is within it.
        if total.is_infinite() { self.scaled_sum / count / SCALE_DOWN } else { total / count }
    }
}

impl Accumulator {
    /// An empty one for arguments of type `ty`.
    pub fn new(kind: AggregateKind, ty: &CqlType) -> Accumulator {
        let state = match (kind, ty) {
            (AggregateKind::CountRows | AggregateKind::Count, _) => State::Count(0),
            (AggregateKind::Min | AggregateKind::Max, _) => State::Extreme(None),
            (_, CqlType::Float | CqlType::Double) => State::Floating(FloatingSum::default()),
            (_, CqlType::Varint) => State::Varint { sum: BigInt::ZERO, count: 0 },
            (_, CqlType::Decimal) => State::Decimal { sum: Decimal::new(0, 0), count: 0 },
            _ => State::Whole { sum: 0, count: 0 },
        };
        Accumulator { kind, ty: ty.clone(), state }
    }

    /// Takes the value of one row; the error is why it cannot be added.
    pub fn add(&mut self, value: Option<&[u8]>) -> Result<(), String> {
        if let (AggregateKind::CountRows, State::Count(count)) = (self.kind, &mut self.state) {
            *count += 1;
            return Ok(());
        }
        let Some(bytes) = value else {
            return Ok(());
        };
        if let State::Extreme(extreme) = &mut self.state {
            let is_new = extreme.as_ref().is_none_or(|held| match self.kind {
                AggregateKind::Min => compare(&self.ty, bytes, held).is_lt(),
                _ => compare(&self.ty, bytes, held).is_gt(),
            });
            if is_new {
                *extreme = Some(bytes.to_vec());
            }
            return Ok(());
        }
        if let State::Count(count) = &mut self.state {
            *count += 1;
            return Ok(());
        }
        // Numbers of no bytes count as null.
        match Number::decode(&self.ty, bytes) {
            Some(number) => self.add_number(number),
            None => Ok(()),
        }
    }

    fn add_number(&mut self, number: Number) -> Result<(), String> {
        match (&mut self.state, number) {
            (State::Floating(floating), number) => floating.add(number.to_f64()),
            (State::Varint { sum, count }, Number::Varint(value)) => {
                *sum += value;
                *count += 1;
            }
            (State::Decimal { sum, count }, Number::Decimal(value)) => {
                *sum = add(sum, &value)?;
                *count += 1;
            }
            (State::Whole { sum, count }, number) => {
                *sum = sum.wrapping_add(number.to_i64().into());
                *count += 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// The result: of nothing, counts, sums and averages are 0, and extremes null.
    pub fn finish(&self) -> Option<Vec<u8>> {
        let is_average = self.kind == AggregateKind::Avg;
        let number = match &self.state {
            State::Count(count) => return Some(count.to_be_bytes().to_vec()),
            State::Extreme(extreme) => return extreme.clone(),
            State::Floating(floating) => Number::Double(if is_average { floating.average() } else { floating.total() }),
            State::Varint { sum, count } => {
                Number::Varint(if is_average { sum / (*count).max(1) } else { sum.clone() })
            }
            State::Decimal { sum, count } if is_average => {
                Number::Decimal(Decimal::new(half_even(&sum.unscaled, (*count).max(1)), sum.scale))
            }
            State::Decimal { sum, .. } => Number::Decimal(sum.clone()),
            State::Whole { sum, count } => {
                let value = if is_average { sum / i128::from((*count).max(1)) } else { *sum };
                Number::Long(value as i64)
            }
        };
        number.convert(&self.ty).map(|number| number.encode())
    }
}

/// Rounds to the nearest, halves to the even neighbour.
fn half_even(dividend: &BigInt, divisor: i64) -> BigInt {
    let divisor = BigInt::from(divisor);
    let up = half_up(dividend, &divisor);
    let is_half = (dividend - &up * &divisor) * 2 == if up > BigInt::ZERO { -divisor } else { divisor };
    match (is_half && up.bit(0), up > BigInt::ZERO) {
        (true, true) => up - 1,
        (true, false) => up + 1,
        (false, _) => up,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::super::arithmetic::NUMERIC;
    use super::*;
    use crate::types::{literal::from_text, to_text, validate};
    use proptest::prelude::*;

    fn aggregate(name: &str, ty: CqlType, values: &[&str]) -> String {
        let kind = AggregateKind::named(name).unwrap();
        let mut accumulator = Accumulator::new(kind, &ty);
        for text in values {
            let bytes = (*text != "null").then(|| from_text(&ty, text, 0).unwrap());
            accumulator.add(bytes.as_deref()).unwrap();
        }
        let result = if name.starts_with("count") { CqlType::BigInt } else { ty };
        accumulator.finish().map_or("null".to_owned(), |value| to_text(&result, &value))
    }

    #[test]
    fn results_as_recorded() {
        for (name, ty, values, expected) in [
            ("sum", CqlType::Int, &["300", "null"][..], "300"),
            ("sum", CqlType::TinyInt, &["100", "100"], "-56"),
            ("sum", CqlType::BigInt, &["9223372036854775807", "1"], "-9223372036854775808"),
            ("avg", CqlType::BigInt, &["9223372036854775807", "9223372036854775805"], "9223372036854775806"),
            ("avg", CqlType::Int, &["1", "2", "3", "10", "5"], "4"),
            ("avg", CqlType::SmallInt, &["-1", "-2"], "-1"),
            ("avg", CqlType::Int, &[], "0"),
            ("sum", CqlType::Int, &["", "7"], "7"),
            ("avg", CqlType::Float, &["-2.9"], "-2.9"),
            ("sum", CqlType::Double, &["0.1", "0.1", "0.1", "0.1", "0.1", "0.1", "0.1", "0.1", "0.1", "0.1"], "1.0"),
            ("sum", CqlType::Double, &["Infinity", "1"], "Infinity"),
            ("avg", CqlType::Double, &["1.7e308", "1.7e308"], "1.7E308"),
            ("avg", CqlType::Decimal, &["1.10"], "1.10"),
            ("avg", CqlType::Decimal, &["1", "2"], "2"),
            ("avg", CqlType::Decimal, &["1", "4"], "2"),
            ("avg", CqlType::Decimal, &["-1", "-2"], "-2"),
            ("avg", CqlType::Decimal, &["-1", "-4"], "-2"),
            ("sum", CqlType::Varint, &["99999999999999999999"], "99999999999999999999"),
            ("min", CqlType::Text, &["b", "a", "null"], "'a'"),
            ("max", CqlType::Boolean, &["false", "true"], "true"),
            ("min", CqlType::Int, &[], "null"),
            ("min", CqlType::Int, &["5", ""], "null"),
            ("count", CqlType::Int, &["1", "null", ""], "2"),
            ("countrows", CqlType::Int, &["1", "null"], "2"),
        ] {
            assert_eq!(aggregate(name, ty, values), expected, "{name} {values:?}");
        }
    }

    #[test]
    fn the_least_value_may_have_no_bytes() {
        let mut accumulator = Accumulator::new(AggregateKind::Min, &CqlType::Int);
        accumulator.add(Some(&5i32.to_be_bytes())).unwrap();
        accumulator.add(Some(&[])).unwrap();
        assert_eq!(accumulator.finish(), Some(vec![]));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_valid_result(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..10), 0..5)) {
            for ty in &NUMERIC {
                for kind in [AggregateKind::Sum, AggregateKind::Avg] {
                    let mut accumulator = Accumulator::new(kind, ty);
                    for value in &values {
                        let _ = accumulator.add(Some(value));
                    }
                    let result = accumulator.finish().unwrap();
                    prop_assert_eq!(validate(ty, &result), Ok(()));
                }
            }
        }

        #[test]
        fn averages_lie_between_the_extremes(values in prop::collection::vec(any::<i32>(), 1..20)) {
            let mut accumulator = Accumulator::new(AggregateKind::Avg, &CqlType::Int);
            values.iter().for_each(|value| accumulator.add(Some(&value.to_be_bytes())).unwrap());
            let average = i32::from_be_bytes(accumulator.finish().unwrap().try_into().unwrap());
            prop_assert!(values.iter().min().unwrap() <= &average && &average <= values.iter().max().unwrap());
        }
    }
}
