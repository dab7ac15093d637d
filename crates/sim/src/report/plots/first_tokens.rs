//! The distribution of times to first token.

use super::axes::{BOTTOM, HEIGHT, LEFT, RIGHT, Scale, TOP, tick_text, value_axis};
use crate::report::svg::{Svg, polyline};
use crate::report::{Policy, Report, numbers};

/// Bounds that are drawn: classes with many different ones would hide the lines.
const BOUNDS_MAX: usize = 3;

pub(super) fn plot(report: &Report, policies: &[Policy]) -> String {
    let times = || {
        policies
            .iter()
            .flat_map(|policy| policy.curves.first_tokens.iter().map(|(seconds, _)| *seconds))
    };
    let bounds = bounds(report);
    let least = times()
        .filter(|&seconds| seconds > 0.0)
        .fold(f64::INFINITY, f64::min);
    let most = times().chain(bounds.iter().copied()).fold(0.0, f64::max);
    let least = bounds.iter().copied().fold(least, f64::min);
    let least = if least.is_finite() { least } else { 0.01 };
    let x = Scale::logarithmic(least, most, (LEFT, RIGHT));
    let y = Scale::linear(1.0, (BOTTOM, TOP + 14.0));
    let description = policies.iter().map(describe).collect::<Vec<_>>().join(" ");
    let mut svg = Svg::new(
        HEIGHT,
        "ttft",
        ("Distribution of the time to first token", &description),
    );
    value_axis(&mut svg, &y, |share| format!("{:.0} %", share * 100.0));
    for tick in x.ticks() {
        svg.line("tick", [x.at(tick), BOTTOM, x.at(tick), BOTTOM + 4.0]);
        tick_text(&mut svg, (x.at(tick), BOTTOM + 17.0), &numbers::short_time(tick));
    }
    svg.text(
        ((LEFT + RIGHT) / 2.0, BOTTOM + 34.0),
        "middle",
        "time to first token (logarithmic)",
    );
    for (place, bound) in bounds.iter().enumerate() {
        let at = x.at(*bound);
        let top = TOP + 14.0 * place as f64;
        svg.line("slo", [at, top, at, BOTTOM]);
        // Beside the line, on the side where there is room.
        let (side, anchor) = if at > (LEFT + RIGHT) / 2.0 {
            (-4.0, "end")
        } else {
            (4.0, "start")
        };
        svg.text(
            (at + side, top + 1.0),
            anchor,
            &format!("SLO {}", numbers::short_time(*bound)),
        );
    }
    for (place, policy) in policies.iter().enumerate() {
        let points = policy
            .curves
            .first_tokens
            .iter()
            .map(|&(seconds, share)| Some((x.at(seconds), y.at(share))));
        svg.path(&format!("s s{place}"), &polyline(points), &describe(policy));
    }
    svg.finish()
}

/// The bounds of first tokens, ascending.
fn bounds(report: &Report) -> Vec<f64> {
    let mut bounds: Vec<f64> = report.about.first_token_bounds.clone();
    bounds.retain(|bound| *bound > 0.0);
    bounds.sort_by(f64::total_cmp);
    bounds.dedup();
    bounds.truncate(BOUNDS_MAX);
    bounds
}

fn describe(policy: &Policy) -> String {
    let Some(ttft) = policy.runs.first().and_then(|run| run.served.ttft) else {
        return format!("{}: no first token.", policy.name);
    };
    let [half, nine] = [ttft.p50, ttft.p90].map(numbers::time);
    format!("{}: half within {half}, nine of ten within {nine}.", policy.name)
}
