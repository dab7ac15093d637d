//! One line per policy over time.

use super::axes::{BOTTOM, HEIGHT, LEFT, RIGHT, Scale, TOP, plain, round_up, time_axis, value_axis};
use crate::report::svg::{Svg, polyline};
use crate::report::{Policy, numbers};

pub(super) fn hit_ratio(policies: &[Policy]) -> String {
    let all = policies
        .iter()
        .flat_map(|policy| policy.curves.hit_ratio.iter().flatten());
    let most = all.copied().fold(0.0, f64::max);
    let y = Scale::linear((round_up(most * 100.0) / 100.0).min(1.0), (BOTTOM, TOP));
    let describe = |policy: &Policy| match policy.runs.first().and_then(|run| run.served.hit_ratio) {
        Some(ratio) => format!("{}: {} over the whole run.", policy.name, numbers::share(ratio)),
        None => format!("{}: no prompt was computed.", policy.name),
    };
    let series = |policy: &Policy| policy.curves.hit_ratio.clone();
    let show = |share: f64| format!("{} %", plain(share * 100.0));
    plot(
        policies,
        ("hits", "Hit ratio over time"),
        (y, &show),
        (&describe, &series),
    )
}

pub(super) fn waiting(policies: &[Policy]) -> String {
    let all = policies.iter().flat_map(|policy| &policy.curves.waiting);
    let most = all.copied().fold(0.0, f64::max);
    let y = Scale::linear(round_up(most.max(4.0)), (BOTTOM, TOP));
    let describe = |policy: &Policy| {
        let most = policy.curves.waiting.iter().copied().fold(0.0, f64::max);
        format!("{}: at most {} at once.", policy.name, numbers::counted(most))
    };
    let series = |policy: &Policy| {
        policy
            .curves
            .waiting
            .iter()
            .map(|&waiting| Some(waiting))
            .collect()
    };
    plot(
        policies,
        ("waiting", "Waiting requests over time"),
        (y, &plain),
        (&describe, &series),
    )
}

type Series<'a> = &'a dyn Fn(&Policy) -> Vec<Option<f64>>;

fn plot(
    policies: &[Policy],
    (id, title): (&str, &str),
    (y, show): (Scale, &dyn Fn(f64) -> String),
    (describe, series): (&dyn Fn(&Policy) -> String, Series<'_>),
) -> String {
    let span = policies
        .iter()
        .map(|policy| policy.curves.span)
        .fold(0.0, f64::max);
    let description = policies.iter().map(describe).collect::<Vec<_>>().join(" ");
    let mut svg = Svg::new(HEIGHT, id, (title, &description));
    value_axis(&mut svg, &y, show);
    time_axis(&mut svg, span, BOTTOM);
    let x = Scale::linear(span, (LEFT, RIGHT));
    for (place, policy) in policies.iter().enumerate() {
        let values = series(policy);
        let parts = values.len() as f64;
        let points = values.iter().enumerate().map(|(at, value)| {
            let middle = policy.curves.span * (at as f64 + 0.5) / parts;
            value.map(|value| (x.at(middle), y.at(value)))
        });
        svg.path(&format!("s s{place}"), &polyline(points), &describe(policy));
    }
    svg.finish()
}
