//! From windows to figures: one value per round, then the median and the range over the rounds.

use super::window::{Said, Window};
use serde::Serialize;

/// How a figure comes of the windows of one round.
#[derive(Clone, Copy)]
pub(super) enum Reading {
    Windows(fn(&[Window]) -> Option<f64>),
    /// Of what the load generator says of the first window.
    Said(fn(&Said) -> Option<f64>),
}

/// A line of the table.
pub(super) struct Figure {
    /// In the JSON.
    pub(super) key: &'static str,
    /// In the table.
    pub(super) title: &'static str,
    reading: Option<Reading>,
    /// Only what a peer adds to what the same round measured without one.
    pub(super) is_added: bool,
    pub(super) aims: &'static [Aim],
}

impl Figure {
    pub(super) fn read(key: &'static str, title: &'static str, reading: Option<Reading>) -> Self {
        Self {
            key,
            title,
            reading,
            is_added: false,
            aims: &[],
        }
    }

    pub(super) fn added(self) -> Self {
        Self {
            is_added: true,
            ..self
        }
    }

    pub(super) fn aims(self, aims: &'static [Aim]) -> Self {
        Self { aims, ..self }
    }

    pub(super) fn of(&self, windows: &[Window]) -> Option<f64> {
        match self.reading? {
            Reading::Windows(value) => value(windows),
            Reading::Said(value) => value(&windows.first()?.said),
        }
        .filter(|value| value.is_finite())
    }
}

/// What a figure of Weighbridge should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Aim {
    Most(f64),
    Least(f64),
    MostTimesNginx(f64),
    LeastTimesNginx(f64),
    MostNginxPlus(f64),
}

impl Aim {
    pub(super) fn text(self) -> String {
        match self {
            Self::Most(most) => format!("≤ {most}"),
            Self::Least(least) => format!("≥ {least}"),
            Self::MostTimesNginx(times) => format!("≤ {times} × nginx"),
            Self::LeastTimesNginx(times) => format!("≥ {times} × nginx"),
            Self::MostNginxPlus(more) => format!("≤ nginx + {more}"),
        }
    }

    /// Whether it is met; none without the figure of nginx that it needs.
    pub(super) fn is_met(self, ours: f64, nginx: Option<f64>) -> Option<bool> {
        Some(match self {
            Self::Most(most) => ours <= most,
            Self::Least(least) => ours >= least,
            Self::MostTimesNginx(times) => ours <= nginx? * times,
            Self::LeastTimesNginx(times) => ours >= nginx? * times,
            Self::MostNginxPlus(more) => ours <= nginx? + more,
        })
    }
}

/// A figure of one peer over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let median = match values.len() % 2 {
            0 => f64::midpoint(upper, values[middle - 1]),
            _ => upper,
        };
        Some(Self {
            median,
            min: *values.first()?,
            max: *values.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        let of = |values: &[f64]| Spread::of(values.iter().copied());
        let spread = |median, min, max| Some(Spread { median, min, max });
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0]), spread(3.0, 3.0, 3.0));
        assert_eq!(of(&[3.0, 1.0, 2.0]), spread(2.0, 1.0, 3.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), spread(2.5, 1.0, 4.0));
    }

    #[test]
    fn aims_are_met_or_missed() {
        let met = |aim: Aim, ours| aim.is_met(ours, Some(20.0));
        assert_eq!(met(Aim::Most(3.0), 3.0), Some(true));
        assert_eq!(met(Aim::Least(3.0), 2.9), Some(false));
        assert_eq!(met(Aim::MostTimesNginx(2.0), 40.1), Some(false));
        assert_eq!(met(Aim::LeastTimesNginx(0.6), 12.0), Some(true));
        assert_eq!(met(Aim::MostNginxPlus(40.0), 60.0), Some(true));
        assert_eq!(Aim::MostNginxPlus(40.0).is_met(1.0, None), None);
    }
}
