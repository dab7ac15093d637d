//! Numbers and times that are drawn: one value, or a distribution.

use super::span::{SECONDS_MAX, Span};
use crate::workload::random::Stream;
use serde::de::{Error, MapAccess, SeqAccess, Visitor, value};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// The 90th percentile of the standard normal distribution.
const Z90: f64 = 1.281_551_565_544_600_4;

/// Greatest number of tokens or turns.
pub(super) const WHOLE_MAX: u32 = 10_000_000;

/// What can be drawn.
pub trait Quantity: Copy + Sized {
    /// As a number: tokens or turns, or seconds.
    fn value(self) -> f64;
}

impl Quantity for u32 {
    fn value(self) -> f64 {
        f64::from(self)
    }
}

/// How a number spreads. In a file: a value alone is fixed, a list is drawn from evenly, and a map names the
/// distribution, as in `log_normal: {median: 200, p90: 600}`.
#[derive(Clone, Debug, PartialEq)]
pub enum Spread<T> {
    /// Always the same.
    Fixed(T),
    /// Evenly from the first to the second, both included.
    Uniform(T, T),
    /// Log-normal.
    LogNormal(LogNormal<T>),
    /// Exponential with this mean.
    Exponential(T),
    /// One of these, each as likely: measured values.
    Values(Vec<T>),
}

/// A log-normal distribution by two of `median`, `mean`, `p90` and `sigma`. What falls outside of `min` and `max` is
/// moved to them.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogNormal<T> {
    /// Half are below.
    pub median: Option<T>,
    /// The mean.
    pub mean: Option<T>,
    /// Nine of ten are below.
    pub p90: Option<T>,
    /// Deviation of the logarithm.
    pub sigma: Option<f64>,
    /// Least value.
    pub min: Option<T>,
    /// Greatest value; none: 10 million tokens, or a year.
    pub max: Option<T>,
}

impl<T> Default for LogNormal<T> {
    fn default() -> Self {
        Self {
            median: None,
            mean: None,
            p90: None,
            sigma: None,
            min: None,
            max: None,
        }
    }
}

impl<T: Quantity> LogNormal<T> {
    /// Mean and deviation of the logarithm.
    pub(super) fn parameters(&self) -> Result<(f64, f64), &'static str> {
        let value = |quantity: Option<T>| quantity.map(Quantity::value);
        let given = [value(self.median), value(self.mean), value(self.p90)];
        if given.iter().flatten().any(|value| *value <= 0.0) {
            return Err("median, mean and p90 must be above 0");
        }
        let (mu, sigma) = match (given.map(|value| value.map(libm::log)), self.sigma) {
            ([Some(median), None, None], Some(sigma)) => (median, sigma),
            ([None, Some(mean), None], Some(sigma)) => (mean - sigma * sigma / 2.0, sigma),
            ([None, None, Some(p90)], Some(sigma)) => (p90 - Z90 * sigma, sigma),
            ([Some(median), Some(mean), None], None) => (median, (2.0 * (mean - median)).sqrt()),
            ([Some(median), None, Some(p90)], None) => (median, (p90 - median) / Z90),
            // mean = mu + sigma²/2 and p90 = mu + Z90·sigma, in logarithms: the smaller root of a quadratic.
            ([None, Some(mean), Some(p90)], None) => {
                let sigma = Z90 - (Z90 * Z90 - 2.0 * (p90 - mean)).sqrt();
                (mean - sigma * sigma / 2.0, sigma)
            }
            _ => return Err("wants two of median, mean, p90 and sigma"),
        };
        // A root of a negative number is not a number.
        if sigma >= 0.0 && sigma.is_finite() {
            Ok((mu, sigma))
        } else {
            Err(
                "no log-normal distribution has these values: mean and p90 lie above the median, p90 below 2.27 times the mean",
            )
        }
    }

    fn draw(&self, chance: &mut Stream) -> f64 {
        let (mu, sigma) = self.parameters().unwrap_or_default();
        let drawn = libm::exp(mu + sigma * chance.normal());
        let low = self.min.map_or(0.0, Quantity::value);
        let high = self.max.map_or(f64::INFINITY, Quantity::value);
        drawn.min(high).max(low)
    }
}

impl Spread<Span> {
    /// No time at all.
    pub(super) const fn zero() -> Self {
        Self::Fixed(Span(Duration::ZERO))
    }

    /// A time.
    pub(in crate::workload) fn time(&self, chance: &mut Stream) -> Duration {
        let seconds = self.draw(chance).clamp(0.0, SECONDS_MAX);
        Duration::from_nanos((seconds * 1e9).round() as u64)
    }
}

impl Spread<u32> {
    /// A whole number. Distributions that reach down to 0 only by rounding give 1.
    pub(in crate::workload) fn whole(&self, chance: &mut Stream) -> u32 {
        match self {
            Self::Uniform(from, to) => {
                let span = u64::from(to.saturating_sub(*from)) + 1;
                from + chance.below(span) as u32
            }
            Self::LogNormal(_) | Self::Exponential(_) => {
                (self.draw(chance).round() as u32).clamp(1, WHOLE_MAX)
            }
            Self::Fixed(_) | Self::Values(_) => self.draw(chance) as u32,
        }
    }
}

impl<T: Quantity> Spread<T> {
    fn draw(&self, chance: &mut Stream) -> f64 {
        match self {
            Self::Fixed(value) => value.value(),
            Self::Uniform(from, to) => from.value() + chance.unit() * (to.value() - from.value()),
            Self::LogNormal(log_normal) => log_normal.draw(chance),
            Self::Exponential(mean) => mean.value() * chance.exponential(),
            Self::Values(values) => values
                .get(chance.below(values.len() as u64) as usize)
                .map_or(0.0, |value| value.value()),
        }
    }

    /// What is wrong with it.
    pub(super) fn problem(&self) -> Option<&'static str> {
        match self {
            Self::Uniform(from, to) if from.value() > to.value() => Some("`from` must not be above `to`"),
            Self::LogNormal(log_normal) => {
                let ends = log_normal.min.zip(log_normal.max);
                if ends.is_some_and(|(min, max)| min.value() > max.value()) {
                    return Some("`min` must not be above `max`");
                }
                log_normal.parameters().err()
            }
            Self::Exponential(mean) if mean.value() <= 0.0 => Some("`mean` must be above 0"),
            Self::Values(values) if values.is_empty() => Some("the list is empty"),
            _ => None,
        }
    }

    /// The least and the greatest value that are written down.
    pub(super) fn written(&self) -> (f64, f64) {
        let all: Vec<f64> = match self {
            Self::Fixed(value) | Self::Exponential(value) => vec![value.value()],
            Self::Uniform(from, to) => vec![from.value(), to.value()],
            Self::LogNormal(l) => [l.median, l.mean, l.p90, l.max]
                .into_iter()
                .flatten()
                .map(T::value)
                .collect(),
            Self::Values(values) => values.iter().map(|value| value.value()).collect(),
        };
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        (least, all.iter().copied().fold(0.0, f64::max))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Shape<T> {
    Fixed(T),
    Uniform(Ends<T>),
    LogNormal(LogNormal<T>),
    Exponential(Mean<T>),
    Values(Vec<T>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ends<T> {
    from: T,
    to: T,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mean<T> {
    mean: T,
}

struct SpreadVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for SpreadVisitor<T> {
    type Value = Spread<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a value, a list of values, or one of uniform, log_normal, exponential, values with its fields",
        )
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        T::deserialize(value::U64Deserializer::new(number)).map(Spread::Fixed)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        T::deserialize(value::I64Deserializer::new(number)).map(Spread::Fixed)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        T::deserialize(value::F64Deserializer::new(number)).map(Spread::Fixed)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(value::StrDeserializer::new(text)).map(Spread::Fixed)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(value::SeqAccessDeserializer::new(list)).map(Spread::Values)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Ok(
            match Shape::deserialize(value::MapAccessDeserializer::new(map))? {
                Shape::Fixed(value) => Spread::Fixed(value),
                Shape::Uniform(Ends { from, to }) => Spread::Uniform(from, to),
                Shape::LogNormal(log_normal) => Spread::LogNormal(log_normal),
                Shape::Exponential(Mean { mean }) => Spread::Exponential(mean),
                Shape::Values(values) => Spread::Values(values),
            },
        )
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spread<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpreadVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread<T: for<'de> Deserialize<'de>>(json: &str) -> Result<Spread<T>, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn forms() {
        assert_eq!(spread("7"), Ok(Spread::Fixed(7)));
        assert_eq!(spread("[1, 2]"), Ok(Spread::Values(vec![1, 2])));
        assert_eq!(
            spread(r#"{"uniform": {"from": 1, "to": 9}}"#),
            Ok(Spread::Uniform(1, 9))
        );
        assert_eq!(
            spread(r#"{"exponential": {"mean": "1.5m"}}"#),
            Ok(Spread::Exponential(Span::seconds(90)))
        );
        assert_eq!(spread("0.25"), Ok(Spread::Fixed(Span::millis(250))));
        assert_eq!(spread(r#""500ms""#), Ok(Spread::Fixed(Span::millis(500))));
    }

    #[test]
    fn errors_say_what_is_wanted() {
        let fails = |json: &str, part: &str| {
            let error = spread::<u32>(json).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        fails("-1", "expected u32");
        fails(r#""many""#, "expected u32");
        fails(
            r#"{"normal": {}}"#,
            "expected one of `fixed`, `uniform`, `log_normal`",
        );
        fails(r#"{"log_normal": {"medain": 3}}"#, "unknown field `medain`");
        fails("null", "a value, a list of values, or one of uniform");
        let error = spread::<Span>(r#""3 weeks""#).unwrap_err();
        assert!(error.contains("such as 500ms"), "{error}");
    }

    fn drawn(spread: &Spread<u32>) -> Vec<f64> {
        assert_eq!(spread.problem(), None);
        let mut chance = Stream::new(11, "test");
        let mut values: Vec<_> = (0..40_000)
            .map(|_| f64::from(spread.whole(&mut chance)))
            .collect();
        values.sort_by(f64::total_cmp);
        values
    }

    fn near(got: f64, wanted: f64, tolerance: f64) {
        assert!(
            (got / wanted - 1.0).abs() < tolerance,
            "{got} instead of {wanted}"
        );
    }

    #[test]
    fn a_log_normal_has_what_it_was_asked_for_in_every_form() {
        // Median 200, sigma 0.8: mean 275.4, p90 557.6.
        for json in [
            r#"{"median": 200, "sigma": 0.8}"#,
            r#"{"median": 200, "p90": 558}"#,
            r#"{"median": 200, "mean": 275}"#,
            r#"{"mean": 275, "p90": 558}"#,
            r#"{"mean": 275, "sigma": 0.8}"#,
            r#"{"p90": 558, "sigma": 0.8}"#,
        ] {
            let values = drawn(&spread(&format!(r#"{{"log_normal": {json}}}"#)).unwrap());
            near(values[20_000], 200.0, 0.02);
            near(values[36_000], 558.0, 0.02);
            near(values.iter().sum::<f64>() / 40_000.0, 275.4, 0.02);
        }
        let endless = drawn(&spread(r#"{"log_normal": {"median": 200, "sigma": 20}}"#).unwrap());
        assert_eq!((endless[0], endless[39_999]), (1.0, 1e7));
        let clamped = drawn(&Spread::LogNormal(LogNormal {
            median: Some(200),
            sigma: Some(2.0),
            min: Some(100),
            max: Some(500),
            ..LogNormal::default()
        }));
        assert_eq!((clamped[0], clamped[39_999]), (100.0, 500.0));
    }

    #[test]
    fn other_spreads() {
        let uniform = drawn(&Spread::Uniform(3, 5));
        assert_eq!((uniform[0], uniform[39_999]), (3.0, 5.0));
        near(uniform.iter().sum::<f64>() / 40_000.0, 4.0, 0.01);
        near(
            drawn(&Spread::Exponential(50)).iter().sum::<f64>() / 40_000.0,
            50.0,
            0.02,
        );
        near(
            drawn(&Spread::Values(vec![1, 1, 4])).iter().sum::<f64>() / 40_000.0,
            2.0,
            0.02,
        );
        assert_eq!(drawn(&Spread::Fixed(0))[0], 0.0);
    }

    #[test]
    fn impossible_distributions_are_refused() {
        let log_normal = |median, mean, p90| {
            Spread::LogNormal(LogNormal::<u32> {
                median,
                mean,
                p90,
                ..LogNormal::default()
            })
        };
        for spread in [
            log_normal(Some(200), None, None),
            log_normal(Some(200), Some(100), None),
            log_normal(Some(200), None, Some(100)),
            log_normal(None, Some(100), Some(400)),
            log_normal(Some(200), Some(300), Some(400)),
            log_normal(Some(0), Some(300), None),
            Spread::Uniform(5, 3),
            Spread::Values(vec![]),
            Spread::Exponential(0),
        ] {
            assert!(spread.problem().is_some(), "{spread:?}");
        }
    }
}
