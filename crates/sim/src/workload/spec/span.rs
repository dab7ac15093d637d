//! Times as a file writes them.

use super::Quantity;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::time::Duration;

/// Longest time: a year.
pub(super) const SECONDS_MAX: f64 = 31_536_000.0;

/// A time, written `500ms`, `10s`, `5m`, `24h`, or as a number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// A whole number of seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// A whole number of milliseconds.
    #[must_use]
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// In nanoseconds.
    pub(in crate::workload) fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Quantity for Span {
    fn value(self) -> f64 {
        self.0.as_secs_f64()
    }
}

fn span(text: &str) -> Option<Span> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    from_seconds(number.trim().parse::<f64>().ok()? * seconds)
}

fn from_seconds(seconds: f64) -> Option<Span> {
    let fits = (0.0..=SECONDS_MAX).contains(&seconds);
    // Rounded, because 0.001 · 3 is a little less than 3 ms.
    fits.then(|| Span(Duration::from_nanos((seconds * 1e9).round() as u64)))
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time of at most a year such as 500ms, 10s, 5m, 24h, or a number of seconds")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
        span(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<Span, E> {
        self.visit_f64(seconds as f64)
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Span, E> {
        self.visit_f64(seconds as f64)
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Span, E> {
        from_seconds(seconds).ok_or_else(|| E::invalid_value(Unexpected::Float(seconds), &self))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor)
    }
}
