//! cassandra-stress's distributions over whole numbers: `FIXED(n)`, `UNIFORM(a..b)`, `GAUSSIAN(a..b[,…])`, `EXP(a..b)`,
//! `EXTREME(a..b,shape)`, `QEXTREME(a..b,shape,quantas)`, `SEQ(a..b)`, each inverted by a `~` before its name; and
//! ratios, a distribution with a divisor.
//!
//! Exponential and extreme ones reach the far end of their range with a chance of 1/√(b-a), as the original's do.

use crate::numbers;
use crate::random::Random;

/// How far the ends of a Gaussian's range are from its mean, in deviations, unless told.
const DEVIATIONS: f64 = 3.0;

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Fixed(i64),
    Uniform,
    Gaussian {
        mean: f64,
        deviation: f64,
    },
    Exponential {
        mean: f64,
    },
    Weibull {
        shape: f64,
        scale: f64,
    },
    /// Weibull's, cut into pieces that are equally likely each; within one every value is. Holds the pieces' starts and
    /// the end.
    Quantised(Vec<i64>),
    Sequence,
}

/// A distribution over `min..=max`.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    shape: Shape,
    min: i64,
    max: i64,
    inverted: bool,
}

/// What is wrong with the text of a distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistributionError {
    #[error("`{0}` is no distribution: NAME(…) is expected")]
    Form(String),
    #[error(
        "`{0}` is no distribution: fixed, uniform, gaussian (gauss, normal, norm), exp, extreme (extr, weibull), \
         qextreme (qextr) and seq are known"
    )]
    Name(String),
    #[error("`{text}`: {expected} is expected")]
    Arguments { text: String, expected: &'static str },
    #[error("`{0}`: DISTRIBUTION/DIVISOR is expected")]
    Ratio(String),
}

/// What a distribution draws from: a seed's random numbers, and, for sequences, a place that moves on by one a draw.
pub struct Draws {
    place: u64,
    random: Random,
}

impl Draws {
    /// The draws of a seed; `salt` tells apart what is drawn from it for different ends.
    #[inline]
    pub fn of(seed: u64, salt: u64) -> Draws {
        Draws { place: seed, random: Random::of(seed ^ salt) }
    }
}

impl Distribution {
    pub fn fixed(value: i64) -> Distribution {
        Distribution { shape: Shape::Fixed(value), min: value, max: value, inverted: false }
    }

    pub fn uniform(min: i64, max: i64) -> Distribution {
        Distribution { shape: Shape::Uniform, min, max, inverted: false }
    }

    /// Around the middle of a range whose ends are three deviations away.
    pub fn gaussian(min: i64, max: i64) -> Distribution {
        let (mean, deviation) = gaussian_within(min, max, DEVIATIONS);
        Distribution { shape: Shape::Gaussian { mean, deviation }, min, max, inverted: false }
    }

    /// Reads a distribution as cassandra-stress writes it, in any case.
    pub fn parse(text: &str) -> Result<Distribution, DistributionError> {
        let (inverted, plain) = match text.trim().strip_prefix('~') {
            Some(rest) => (true, rest),
            None => (false, text.trim()),
        };
        let form = || DistributionError::Form(text.into());
        let (name, inner) = plain.strip_suffix(')').and_then(|rest| rest.split_once('(')).ok_or_else(form)?;
        let arguments: Vec<&str> = inner.split(',').map(str::trim).collect();
        let wrong = |expected| DistributionError::Arguments { text: text.into(), expected };
        let name = name.to_ascii_lowercase();
        if name == "fixed" {
            let [value] = arguments[..] else { return Err(wrong("fixed(N)")) };
            let value = numbers::signed(value).ok_or_else(|| wrong("fixed(N)"))?;
            return Ok(Distribution { inverted, ..Distribution::fixed(value) });
        }
        let (shape, min, max) = shape_of(text, &name, &arguments)?;
        let shape = if min == max { Shape::Fixed(min) } else { shape };
        Ok(Distribution { shape, min, max, inverted })
    }

    pub fn min(&self) -> i64 {
        self.min
    }

    pub fn max(&self) -> i64 {
        self.max
    }

    /// The value that is always drawn, if it is always the same.
    pub fn only(&self) -> Option<i64> {
        (self.min == self.max).then_some(self.min)
    }

    /// Whether no two draws next to each other are the same.
    pub fn is_sequence(&self) -> bool {
        self.shape == Shape::Sequence
    }

    /// Draws a value.
    #[inline]
    pub fn draw(&self, draws: &mut Draws) -> i64 {
        if let Shape::Fixed(value) = self.shape {
            return value;
        }
        let value = self.upright(draws);
        if self.inverted { self.max - (value - self.min) } else { value }
    }

    fn upright(&self, draws: &mut Draws) -> i64 {
        let random = &mut draws.random;
        let offset = |value: f64| self.min + (value as i64).clamp(0, self.max - self.min);
        match &self.shape {
            Shape::Fixed(value) => *value,
            Shape::Uniform => self.min.wrapping_add(random.below(width(self.min, self.max)) as i64),
            Shape::Gaussian { mean, deviation } => {
                ((mean + deviation * random.normal()) as i64).clamp(self.min, self.max)
            }
            Shape::Exponential { mean } => offset(-mean * (1.0 - random.unit()).ln()),
            Shape::Weibull { shape, scale } => offset(scale * (-(1.0 - random.unit()).ln()).powf(1.0 / shape)),
            Shape::Quantised(starts) => {
                let piece = random.below(starts.len() as u64 - 1) as usize;
                starts[piece] + random.below((starts[piece + 1] - starts[piece]).max(1) as u64) as i64
            }
            Shape::Sequence => {
                let place = draws.place;
                draws.place = place.wrapping_add(1);
                self.min.wrapping_add((place % width(self.min, self.max)) as i64)
            }
        }
    }
}

/// The shape and the bounds of a distribution over a range.
fn shape_of(text: &str, name: &str, arguments: &[&str]) -> Result<(Shape, i64, i64), DistributionError> {
    let (expected, counts) = match name {
        "uniform" => ("uniform(A..B)", 1..=1),
        "seq" => ("seq(A..B)", 1..=1),
        "exp" => ("exp(A..B)", 1..=1),
        "gaussian" | "gauss" | "normal" | "norm" => {
            ("gaussian(A..B[,DEVIATIONS]) or gaussian(A..B,MEAN,DEVIATION)", 1..=3)
        }
        "extreme" | "extr" | "weibull" => ("extreme(A..B,SHAPE)", 2..=2),
        "qextreme" | "qextr" => ("qextreme(A..B,SHAPE,QUANTAS)", 3..=3),
        _ => return Err(DistributionError::Name(text.into())),
    };
    let wrong = || DistributionError::Arguments { text: text.into(), expected };
    let (min, max) =
        numbers::signed_range(arguments[0]).filter(|_| counts.contains(&arguments.len())).ok_or_else(wrong)?;
    let number = |at: usize| {
        let number = arguments.get(at).and_then(|text| text.parse::<f64>().ok());
        number.filter(|number| number.is_finite()).ok_or_else(wrong)
    };
    let shape_number = || number(1).and_then(|shape| if shape > 0.0 { Ok(shape) } else { Err(wrong()) });
    let shape = match name {
        "uniform" => Shape::Uniform,
        "seq" => Shape::Sequence,
        "exp" => Shape::Exponential { mean: scale(min, max, 1.0) },
        "extreme" | "extr" | "weibull" => {
            let shape = shape_number()?;
            Shape::Weibull { shape, scale: scale(min, max, shape) }
        }
        "qextreme" | "qextr" => {
            let quantas = arguments[2].parse::<u32>().ok().filter(|quantas| (1..=1 << 20).contains(quantas));
            Shape::Quantised(pieces(min, max, shape_number()?, quantas.ok_or_else(wrong)?))
        }
        _ => {
            let (mean, deviation) = match arguments.len() {
                1 => gaussian_within(min, max, DEVIATIONS),
                2 => gaussian_within(min, max, number(1)?),
                _ => (number(1)?, number(2)?),
            };
            // Of one value only, any deviation is as good.
            if !deviation.is_finite() || (deviation <= 0.0 && min != max) {
                return Err(wrong());
            }
            Shape::Gaussian { mean, deviation }
        }
    };
    Ok((shape, min, max))
}

/// How many values a range has. Ranges are read with at most 2^63 of them.
fn width(min: i64, max: i64) -> u64 {
    max.wrapping_sub(min) as u64 + 1
}

fn gaussian_within(min: i64, max: i64, deviations: f64) -> (f64, f64) {
    let (min, max) = (min as f64, max as f64);
    ((min + max) / 2.0, (max - min) / 2.0 / deviations)
}

/// The scale with which Weibull's distribution (with shape 1 the exponential one) passes the range's end with a chance
/// of 1/√width.
fn scale(min: i64, max: i64, shape: f64) -> f64 {
    // A range of two values has no such chance; its end is as far as the scale then.
    let width = ((max - min) as f64).max(2.0);
    (max - min) as f64 / (0.5 * width.ln()).powf(1.0 / shape)
}

/// The starts of `quantas` pieces that Weibull's distribution over the range finds equally likely, and its end.
fn pieces(min: i64, max: i64, shape: f64, quantas: u32) -> Vec<i64> {
    let scale = scale(min, max, shape);
    let start = |at: u32| {
        let chance = f64::from(at) / f64::from(quantas);
        min + ((scale * (-(1.0 - chance).ln()).powf(1.0 / shape)) as i64).clamp(0, max - min)
    };
    (0..quantas).map(start).chain([max + 1]).collect()
}

/// A distribution of shares: what is drawn is divided, and bound to [0, 1].
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    distribution: Distribution,
    divisor: f64,
}

impl Ratio {
    /// All of it.
    pub fn all() -> Ratio {
        Ratio { distribution: Distribution::fixed(1), divisor: 1.0 }
    }

    /// Reads `DISTRIBUTION/DIVISOR`.
    pub fn parse(text: &str) -> Result<Ratio, DistributionError> {
        let form = || DistributionError::Ratio(text.into());
        let (distribution, divisor) = text.trim().rsplit_once('/').ok_or_else(form)?;
        let divisor = numbers::count(divisor.trim()).filter(|divisor| *divisor > 0).ok_or_else(form)?;
        Ok(Ratio { distribution: Distribution::parse(distribution)?, divisor: divisor as f64 })
    }

    pub fn draw(&self, draws: &mut Draws) -> f64 {
        (self.distribution.draw(draws) as f64 / self.divisor).clamp(0.0, 1.0)
    }

    /// The largest share that is ever drawn.
    pub fn max(&self) -> f64 {
        (self.distribution.max() as f64 / self.divisor).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn drawn(text: &str, count: u64) -> Vec<i64> {
        let distribution = Distribution::parse(text).unwrap();
        let values: Vec<i64> = (0..count).map(|seed| distribution.draw(&mut Draws::of(seed, 1))).collect();
        assert!(values.iter().all(|value| (distribution.min()..=distribution.max()).contains(value)), "{text}");
        values
    }

    fn share(values: &[i64], range: std::ops::RangeInclusive<i64>) -> f64 {
        values.iter().filter(|value| range.contains(value)).count() as f64 / values.len() as f64
    }

    #[test]
    fn one_value_and_any_value() {
        assert_eq!(drawn("FIXED(34)", 3), [34, 34, 34]);
        assert_eq!(drawn("uniform(5..5)", 2), [5, 5]);
        let even = drawn("Uniform(1..10)", 10_000);
        (1..=10).for_each(|value| assert!((share(&even, value..=value) - 0.1).abs() < 0.015));
        assert_eq!(Distribution::parse("uniform(1..100B)").unwrap().max(), 100_000_000_000);
        assert!(share(&drawn("uniform(-3..3)", 1000), -3..=-1) > 0.35);
    }

    #[test]
    fn gaussian_values_gather_around_the_mean() {
        for name in ["gaussian(1..1000)", "norm(1..1000,3)", "normal(1..1000,500.5,166.5)", "gauss(1..1000)"] {
            let values = drawn(name, 10_000);
            // Within one deviation, a sixth of the range to either side: 68 %.
            assert!((share(&values, 334..=666) - 0.68).abs() < 0.03, "{name}");
        }
        assert!(share(&drawn("gaussian(1..1000,6)", 10_000), 334..=666) > 0.93, "six deviations to the ends");
    }

    #[test]
    fn exponential_values_are_mostly_small_and_inverted_mostly_large() {
        let (upright, inverted) = (drawn("exp(1..100)", 10_000), drawn("~exp(1..100)", 10_000));
        assert!(share(&upright, 1..=33) > 0.5 && share(&upright, 67..=100) < 0.3);
        assert!((share(&upright, 1..=10) - share(&inverted, 91..=100)).abs() < 1e-9, "mirrored value by value");
        // The end is passed with a chance of 1/√99.
        assert!((share(&upright, 100..=100) - 0.1).abs() < 0.02);
        assert_eq!(share(&drawn("exp(1..2)", 100), 1..=2), 1.0);
    }

    #[test]
    fn extreme_values_have_a_shape() {
        let (flat, steep) = (drawn("extreme(1..1000,0.5)", 10_000), drawn("weibull(1..1000,4)", 10_000));
        assert!(share(&flat, 1..=50) > 0.3 && share(&steep, 1..=50) < 0.01);
        assert_eq!(drawn("extr(1..1000,4)", 100), drawn("EXTREME(1..1000,4)", 100));
    }

    #[test]
    fn quantised_values_are_even_within_a_piece() {
        let distribution = Distribution::parse("qextreme(1..1M,2,2)").unwrap();
        let Shape::Quantised(starts) = &distribution.shape else { panic!("quantised") };
        let middle = starts[1];
        assert_eq!((starts[0], starts[2]), (1, 1_000_001));
        let values = drawn("qextreme(1..1M,2,2)", 10_000);
        assert!((share(&values, 1..=middle - 1) - 0.5).abs() < 0.02, "half below the middle");
        let low_half = share(&values, 1..=middle / 2);
        assert!((low_half - 0.25).abs() < 0.02, "even below it: {low_half}");
    }

    #[test]
    fn a_sequence_starts_at_its_seed_and_wraps() {
        let sequence = Distribution::parse("seq(1..4)").unwrap();
        let mut draws = Draws::of(2, 9);
        let values: Vec<i64> = (0..5).map(|_| sequence.draw(&mut draws)).collect();
        assert_eq!(values, [3, 4, 1, 2, 3]);
        let inverted = Distribution::parse("~seq(1..4)").unwrap();
        assert_eq!(inverted.draw(&mut Draws::of(0, 9)), 4);
        assert!(sequence.is_sequence() && !Distribution::fixed(1).is_sequence());
    }

    #[test]
    fn ratios_are_bound_to_all() {
        let draw = |text: &str| Ratio::parse(text).unwrap().draw(&mut Draws::of(1, 1));
        assert_eq!((draw("fixed(1)/1"), draw("fixed(1)/1000"), draw("fixed(7)/5")), (1.0, 0.001, 1.0));
        assert!((0.1..=1.0).contains(&draw("uniform(1..10)/10")));
        assert_eq!((Ratio::parse("uniform(1..5)/10").unwrap().max(), Ratio::all().max()), (0.5, 1.0));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("", "NAME(…)"),
            ("uniform", "NAME(…)"),
            ("uniform(1..10", "NAME(…)"),
            ("odd(1..10)", "are known"),
            ("uniform(10..1)", "uniform(A..B)"),
            ("uniform(1..2,3)", "uniform(A..B)"),
            ("gaussian(1..9,0)", "DEVIATIONS"),
            ("gaussian(1..9,x)", "DEVIATIONS"),
            ("extreme(1..9)", "extreme(A..B,SHAPE)"),
            ("extreme(1..9,-1)", "extreme(A..B,SHAPE)"),
            ("qextreme(1..9,2,0)", "QUANTAS"),
            ("fixed(a)", "fixed(N)"),
            ("exp(1)", "exp(A..B)"),
        ] {
            let error = Distribution::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for text in ["fixed(1)", "fixed(1)/0", "fixed(1)/x", "1/2"] {
            assert!(Ratio::parse(text).is_err(), "{text}");
        }
    }
}
