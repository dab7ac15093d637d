//! Times to the first token against load, as a drawing that reads on light and on dark pages.

use crate::sweep::{LOADS, Line, Sweep};
use std::fmt::Write;

/// Size of the drawing, and the edges of the plot in it.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 348.0;
/// Between two labels.
const STEP: f64 = 17.0;

/// Colours of lines that anybody can tell apart (Okabe and Ito), on both grounds; grey for the rules that everybody knows.
const COLOURS: [&str; 6] = ["#d55e00", "#8a8a8a", "#8a8a8a", "#0a84c6", "#009e73", "#b8679b"];
/// Dashes of the lines, so that nobody needs the colours.
const DASHES: [&str; 6] = ["", "7 4", "2 3", "", "10 3 2 3", "4 2"];

const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#24292f}\
.ground{fill:#ffffff}.grid{stroke:#d8dee4;stroke-width:1}.axis{stroke:#57606a;stroke-width:1}\
.title{font-weight:600;font-size:15px}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}.grid{stroke:#30363d}.axis{stroke:#8b949e}}";

/// The file of a case.
pub(super) fn file(case: &str) -> String {
    format!("ttft-{}.svg", case.replace(' ', "-"))
}

/// The drawing.
pub(super) fn draw(sweep: &Sweep) -> String {
    let scale = Scale::of(sweep);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\"/>\n",
        escaped(&title(sweep))
    );
    let _ = writeln!(
        svg,
        "<text class=\"title\" x=\"{LEFT}\" y=\"24\">{}</text>",
        escaped(&title(sweep))
    );
    axes(&mut svg, &scale, sweep);
    for (place, line) in sweep.lines.iter().enumerate() {
        let _ = writeln!(svg, "{}", path(&scale, (place, line)));
    }
    labels(&mut svg, &scale, sweep);
    svg.push_str("</svg>\n");
    svg
}

fn title(sweep: &Sweep) -> String {
    format!("{}: p90 time to first token, seconds (log scale)", sweep.case)
}

/// From figures to places in the drawing.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// From a tenth of a second, or less where there is less, to the largest time.
    fn of(sweep: &Sweep) -> Self {
        let times = sweep.lines.iter().flat_map(|line| &line.outcomes);
        let times: Vec<f64> = times
            .map(|outcome| outcome.ttft_p90)
            .filter(|time| *time > 0.0)
            .collect();
        let low = times.iter().copied().fold(0.1, f64::min);
        let high = times.iter().copied().fold(1.0, f64::max);
        Self {
            low: low / 1.15,
            high: high * 1.15,
        }
    }

    fn y(&self, seconds: f64) -> f64 {
        let share = (seconds.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        BOTTOM - share * (BOTTOM - TOP)
    }

    fn x(load: f64) -> f64 {
        let [first, .., last] = LOADS;
        LEFT + (load - first) / (last - first) * (RIGHT - LEFT)
    }
}

fn axes(svg: &mut String, scale: &Scale, sweep: &Sweep) {
    for (seconds, label) in ticks(scale) {
        let y = scale.y(seconds);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            y + 4.5
        );
    }
    for load in LOADS {
        let x = Scale::x(load);
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{x:.1} {BOTTOM}v5\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{load}</text>",
            BOTTOM + 20.0
        );
    }
    let _ = writeln!(svg, "<path class=\"axis\" d=\"M{LEFT} {BOTTOM}H{RIGHT}\"/>");
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">load; 1 is {:.0} requests/s</text>",
        f64::midpoint(LEFT, RIGHT),
        BOTTOM + 41.0,
        sweep.rate
    );
}

/// Powers of ten, and between them 3 times these.
fn ticks(scale: &Scale) -> Vec<(f64, String)> {
    let all = [-2, -1, 0, 1, 2, 3].into_iter().flat_map(|power| {
        [1.0, 3.0].map(|first| {
            let seconds = first * 10_f64.powi(power);
            let places = usize::from(power < 0) * power.unsigned_abs() as usize;
            (seconds, format!("{seconds:.places$}"))
        })
    });
    all.filter(|(seconds, _)| (scale.low..=scale.high).contains(seconds))
        .collect()
}

fn path(scale: &Scale, (place, line): (usize, &Line)) -> String {
    let mut data = String::new();
    for (load, outcome) in LOADS.iter().zip(&line.outcomes) {
        let command = if data.is_empty() { 'M' } else { 'L' };
        let _ = write!(
            data,
            "{command}{:.1} {:.1}",
            Scale::x(*load),
            scale.y(outcome.ttft_p90)
        );
    }
    let width = if place == 0 { 3.5 } else { 1.8 };
    let colour = COLOURS[place % COLOURS.len()];
    let dashes = match DASHES[place % DASHES.len()] {
        "" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    };
    format!(
        "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dashes} d=\"{data}\"/>"
    )
}

/// Names at the ends of the lines, moved apart where lines end near each other.
fn labels(svg: &mut String, scale: &Scale, sweep: &Sweep) {
    let end = |line: &Line| line.outcomes.last().map(|outcome| scale.y(outcome.ttft_p90));
    let mut ends: Vec<(usize, f64)> = sweep
        .lines
        .iter()
        .enumerate()
        .filter_map(|(place, line)| Some((place, end(line)?)))
        .collect();
    ends.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let places = apart(&ends.iter().map(|(_, y)| *y).collect::<Vec<_>>());
    for ((place, from), y) in ends.into_iter().zip(places) {
        let (colour, x) = (COLOURS[place % COLOURS.len()], RIGHT + 18.0);
        let weight = if place == 0 { " font-weight=\"600\"" } else { "" };
        let _ = writeln!(
            svg,
            "<path fill=\"none\" stroke=\"{colour}\" d=\"M{:.1} {from:.1}L{:.1} {y:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\"{weight}>{}</text>",
            RIGHT + 3.0,
            x - 3.0,
            y + 4.5,
            escaped(&sweep.lines[place].rule)
        );
    }
}

/// Places that are at least a step apart and inside of the plot, as near to the given ones (from top to bottom) as a pass from
/// each side makes them.
fn apart(wanted: &[f64]) -> Vec<f64> {
    let mut places = wanted.to_vec();
    let mut free = TOP;
    for place in &mut places {
        *place = place.max(free);
        free = *place + STEP;
    }
    let mut free = BOTTOM;
    for place in places.iter_mut().rev() {
        *place = place.min(free);
        free = *place - STEP;
    }
    places
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Outcome;

    fn sample() -> Sweep {
        let line = |rule: &str, first: f64| Line {
            rule: rule.into(),
            outcomes: (1..=LOADS.len())
                .map(|step| Outcome {
                    ttft_p90: first * step as f64,
                    ..Outcome::default()
                })
                .collect(),
        };
        Sweep {
            case: "a <case>".into(),
            rate: 40.0,
            lines: vec![line("auto", 0.2), line("x & y", 0.2), line("z", 5.0)],
        }
    }

    #[test]
    fn labels_are_apart_and_inside() {
        let places = apart(&[TOP - 5.0, 100.0, 101.0, 102.0, BOTTOM, BOTTOM]);
        assert!(
            places.windows(2).all(|two| two[1] - two[0] >= STEP - 1e-9),
            "{places:?}"
        );
        assert!(places[0] >= TOP && places[5] <= BOTTOM, "{places:?}");
        assert_eq!(apart(&[100.0, 200.0]), [100.0, 200.0]);
    }

    #[test]
    fn every_line_is_drawn_and_named_and_texts_are_escaped() {
        let svg = draw(&sample());
        for text in [
            "auto",
            "x &amp; y",
            "z",
            "a &lt;case&gt;",
            "load; 1 is 40 requests/s",
            ">0.3<",
            ">30<",
        ] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("stroke-linejoin").count(), 3);
        assert!(svg.len() < 8000, "{}", svg.len());
        assert_eq!(file("2 GPU types"), "ttft-2-GPU-types.svg");
    }

    #[test]
    fn more_time_is_further_up() {
        let scale = Scale::of(&sample());
        assert!(scale.y(10.0) < scale.y(1.0));
        assert!(scale.y(30.0) >= TOP);
        assert!(scale.y(0.2) <= BOTTOM);
    }
}
