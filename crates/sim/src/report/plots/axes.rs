//! Frames, ticks and scales.

use crate::report::numbers;
use crate::report::svg::{Svg, WIDTH};

/// The rectangle that data is drawn into.
pub(super) const LEFT: f64 = 54.0;
pub(super) const RIGHT: f64 = WIDTH - 12.0;
pub(super) const TOP: f64 = 12.0;
pub(super) const BOTTOM: f64 = 204.0;
/// Height of a plot with its axis below.
pub(super) const HEIGHT: f64 = 246.0;

/// From values to places between two coordinates.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    logarithmic: bool,
}

impl Scale {
    /// Even steps from 0 to `most`, rounded up to a tick.
    pub(super) fn linear(most: f64, (start, end): (f64, f64)) -> Self {
        let to = if most > 0.0 { most } else { 1.0 };
        Self {
            from: 0.0,
            to,
            start,
            end,
            logarithmic: false,
        }
    }

    /// Decades that hold these values.
    pub(super) fn logarithmic(least: f64, most: f64, (start, end): (f64, f64)) -> Self {
        let least = if least > 0.0 { least } else { 1e-3 };
        let from = 10_f64.powf((least.log10() * 2.0).floor() / 2.0);
        let to = 10_f64.powf((most.max(least * 1.5).log10() * 2.0).ceil() / 2.0);
        Self {
            from,
            to,
            start,
            end,
            logarithmic: true,
        }
    }

    /// The coordinate of a value; those outside are at the edge.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.logarithmic {
            true => (value.max(self.from) / self.from).log10() / (self.to / self.from).log10(),
            false => (value - self.from) / (self.to - self.from),
        };
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Values to write beside the axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if !self.logarithmic {
            let step = step(self.to, 4.0);
            return (0..=8)
                .map(|at| f64::from(at) * step)
                .filter(|&tick| tick <= self.to * 1.0001)
                .collect();
        }
        let decades = (self.to / self.from).log10();
        let within: &[f64] = match decades {
            _ if decades <= 1.6 => &[1.0, 2.0, 5.0],
            _ if decades <= 3.1 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let first = self.from.log10().floor() as i32;
        let all = (first..=first + decades.ceil() as i32 + 1)
            .flat_map(|exponent| within.iter().map(move |digit| digit * 10_f64.powi(exponent)));
        all.filter(|&tick| tick >= self.from * 0.999 && tick <= self.to * 1.001)
            .collect()
    }
}

/// A round step that divides `most` into about `wanted` parts.
fn step(most: f64, wanted: f64) -> f64 {
    let rough = most / wanted;
    let magnitude = 10_f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .find(|digit| digit * magnitude >= rough * 0.999)
        .unwrap_or(10.0);
    digit * magnitude
}

/// A round bound above `most`.
pub(super) fn round_up(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let step = step(most, 4.0);
    (most / step - 1e-9).ceil() * step
}

/// The horizontal axis of times since the start.
pub(super) fn time_axis(svg: &mut Svg, span: f64, bottom: f64) {
    let (unit, seconds) = match span {
        _ if span > 3.0 * 3600.0 => ("hours", 3600.0),
        _ if span > 300.0 => ("minutes", 60.0),
        _ => ("seconds", 1.0),
    };
    let scale = Scale::linear(span / seconds, (LEFT, RIGHT));
    for tick in scale.ticks() {
        let x = scale.at(tick);
        svg.line("tick", [x, bottom, x, bottom + 4.0]);
        tick_text(svg, (x, bottom + 17.0), &plain(tick));
    }
    svg.text(
        ((LEFT + RIGHT) / 2.0, bottom + 34.0),
        "middle",
        &format!("{unit} since the start"),
    );
}

/// A text below a tick; at the right edge it ends there, so that it is not cut off.
pub(super) fn tick_text(svg: &mut Svg, (x, y): (f64, f64), text: &str) {
    if x > RIGHT - 12.0 {
        svg.text((WIDTH - 2.0, y), "end", text);
    } else {
        svg.text((x, y), "middle", text);
    }
}

/// The vertical axis, with lines across.
pub(super) fn value_axis(svg: &mut Svg, scale: &Scale, show: impl Fn(f64) -> String) {
    for tick in scale.ticks() {
        let y = scale.at(tick);
        svg.line("grid", [LEFT, y, RIGHT, y]);
        svg.text((LEFT - 6.0, y + 4.0), "end", &show(tick));
    }
    svg.line("axis", [LEFT, BOTTOM, RIGHT, BOTTOM]);
}

/// A tick's number: no zeros at the end, thousands as k.
pub(super) fn plain(value: f64) -> String {
    let (value, suffix) = match value.abs() {
        _ if value.abs() >= 999_500.0 => (value / 1e6, "M"),
        _ if value.abs() >= 9_999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = numbers::significant(value);
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let check = |scale: Scale, expect: &[f64]| {
            let ticks = scale.ticks();
            assert!(
                ticks.len() == expect.len()
                    && ticks
                        .iter()
                        .zip(expect)
                        .all(|(one, other)| (one / other - 1.0).abs() < 1e-9 || one == other),
                "{ticks:?}"
            );
        };
        check(Scale::linear(100.0, (0.0, 1.0)), &[0.0, 25.0, 50.0, 75.0, 100.0]);
        check(Scale::linear(3537.0, (0.0, 1.0)), &[0.0, 1000.0, 2000.0, 3000.0]);
        check(
            Scale::logarithmic(0.02, 60.0, (0.0, 1.0)),
            &[0.01, 0.1, 1.0, 10.0, 100.0],
        );
        check(
            Scale::logarithmic(0.1, 2.0, (0.0, 1.0)),
            &[0.1, 0.2, 0.5, 1.0, 2.0],
        );
        assert_eq!(round_up(38.0), 40.0);
        assert_eq!(round_up(0.0), 1.0);
    }

    #[test]
    fn nothing_falls_outside() {
        let scale = Scale::logarithmic(0.0, 0.0, (10.0, 20.0));
        assert!(scale.at(0.0) == 10.0 && scale.at(1e9) == 20.0);
        let scale = Scale::linear(0.0, (10.0, 20.0));
        assert_eq!(scale.at(5.0), 20.0);
        assert!(scale.ticks().len() < 10);
    }

    #[test]
    fn tick_labels_are_short() {
        for (value, expect) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (2.5, "2.5"),
            (10_000.0, "10k"),
            (2_000_000.0, "2M"),
            (1500.0, "1,500"),
        ] {
            assert_eq!(plain(value), expect);
        }
    }
}
