//! Load per endpoint over time: a heat map of a small fleet, bands of quantiles of a large one.

use super::axes::{BOTTOM, HEIGHT, LEFT, RIGHT, Scale, TOP, plain, round_up, time_axis, value_axis};
use super::figure;
use crate::report::curves::{EndpointLoad, Load};
use crate::report::svg::{Svg, polyline, short};
use crate::report::{Policy, numbers};
use std::fmt::Write;

/// Shades of a heat map.
const SHADES: usize = 7;

/// The load plots of all policies, on one scale.
pub(super) fn load(policies: &[Policy]) -> String {
    let most = policies
        .iter()
        .map(|policy| policy.curves.load_most())
        .fold(0.0, f64::max);
    let span = policies
        .iter()
        .map(|policy| policy.curves.load_span)
        .fold(0.0, f64::max);
    let edges = edges(most);
    let heat = policies
        .iter()
        .any(|policy| matches!(&policy.curves.load, Load::Each(each) if !each.is_empty()));
    let mut html = String::from("<h2>Load of each endpoint</h2>\n");
    if heat {
        html.push_str(&key(&edges));
    } else {
        html.push_str(BANDS_HINT);
    }
    html.push_str("<div class=\"plots\">\n");
    for (place, policy) in policies.iter().enumerate() {
        let svg = match &policy.curves.load {
            Load::Each(endpoints) => heat_map((place, policy), endpoints, (&edges, span)),
            Load::Bands { endpoints, bands } => band_plot((place, policy), (*endpoints, bands), (most, span)),
        };
        html.push_str(&figure(&policy.name, "", &svg).replace("<figcaption></figcaption>\n", ""));
    }
    html + "</div>\n"
}

const BANDS_HINT: &str = "<p class=\"hint\">Requests running and waiting per endpoint. Dark band: from the 10 % with least to \
    the 10 % with most; light band: from the least to the most loaded endpoint; line: the median. Narrow bands are even load.</p>\n";

/// Lower edges of the shades above 0: rounder and further apart upwards, so that small loads can be told apart too.
fn edges(most: f64) -> Vec<f64> {
    let mut edges: Vec<f64> = (1..SHADES)
        .map(|at| {
            let edge = most * (at as f64 / SHADES as f64).powf(1.6);
            if edge < 10.0 {
                edge.ceil()
            } else {
                (edge / 5.0).round() * 5.0
            }
        })
        .map(|edge: f64| edge.max(1.0))
        .collect();
    edges.dedup();
    edges
}

fn shade(load: f64, edges: &[f64]) -> usize {
    edges.iter().filter(|&&edge| load >= edge).count()
}

/// What the shades mean.
fn key(edges: &[f64]) -> String {
    let mut html = String::from(
        "<p class=\"hint\">Requests running and waiting at each endpoint over time; an even colour from top to bottom is even load.</p>\n\
         <ul class=\"legend\">\n",
    );
    let swatch = |class: &str, text: &str| {
        format!(
            "<li><svg class=\"swatch\" viewBox=\"0 0 14 14\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"14\" height=\"14\"/></svg>{text}</li>\n"
        )
    };
    for shade in 0..=edges.len() {
        let from = if shade == 0 { 0.0 } else { edges[shade - 1] };
        let text = match edges.get(shade) {
            Some(1.0) => "under 1".to_owned(),
            Some(to) => format!("{}–{}", plain(from), plain(*to)),
            None => format!("{} and more", plain(from)),
        };
        html.push_str(&swatch(&format!("h{}", colour(shade, edges)), &text));
    }
    html.push_str(&swatch("down", "not in service"));
    html + "</ul>\n"
}

/// The shades are spread over all colours, however few there are.
fn colour(shade: usize, edges: &[f64]) -> usize {
    if edges.is_empty() {
        0
    } else {
        shade * (SHADES - 1) / edges.len()
    }
}

fn heat_map(
    (place, policy): (usize, &Policy),
    endpoints: &[EndpointLoad],
    (edges, span): (&[f64], f64),
) -> String {
    // Rows of a small fleet may be higher.
    let row = match endpoints.len() {
        0..=4 => 28.0,
        5..=8 => 20.0,
        _ => 14.0,
    };
    let bottom = TOP + row * endpoints.len() as f64;
    let names = short_names(endpoints);
    let described: Vec<String> = endpoints.iter().map(describe).collect();
    let mut svg = Svg::new(
        bottom + 42.0,
        &format!("load{place}"),
        (
            &format!("Load of each endpoint over time: {}", policy.name),
            &described.join(" "),
        ),
    );
    let left = LEFT;
    let x = Scale::linear(span, (left, RIGHT));
    let mut paths = vec![String::new(); SHADES];
    let mut down = String::new();
    for (at, endpoint) in endpoints.iter().enumerate() {
        let y = TOP + row * at as f64;
        for (from, to, load) in runs(&endpoint.parts, edges) {
            let step = policy.curves.load_span / endpoint.parts.len().max(1) as f64;
            let (from, to) = (x.at(step * from as f64), x.at(step * to as f64));
            let path = match load {
                Some(shade) => &mut paths[colour(shade, edges)],
                None => &mut down,
            };
            let _ = write!(
                path,
                "M{} {}H{}v{}H{}z",
                short(from),
                short(y),
                short(to),
                short(row - 1.0),
                short(from)
            );
        }
    }
    for (shade, path) in paths.iter().enumerate() {
        svg.path(&format!("h{shade}"), path, "");
    }
    svg.path("down", &down, "");
    for (at, (name, described)) in names.iter().zip(&described).enumerate() {
        let y = TOP + row * at as f64;
        svg.text((left - 5.0, y + row / 2.0 + 3.5), "end", name);
        // Over the row, so that the pointer finds what it says.
        svg.rect("over", [left, y, RIGHT - left, row - 1.0], described);
    }
    time_axis(&mut svg, span, bottom);
    svg.finish()
}

/// Stretches of one shade: from, to and the shade; none: not in service.
fn runs(parts: &[Option<f64>], edges: &[f64]) -> Vec<(usize, usize, Option<usize>)> {
    let mut runs: Vec<(usize, usize, Option<usize>)> = Vec::new();
    for (at, load) in parts.iter().enumerate() {
        let load = load.map(|load| shade(load, edges));
        match runs.last_mut() {
            Some((_, to, last)) if *last == load => *to = at + 1,
            _ => runs.push((at, at + 1, load)),
        }
    }
    runs
}

fn describe(endpoint: &EndpointLoad) -> String {
    let up: Vec<f64> = endpoint.parts.iter().copied().flatten().collect();
    if up.is_empty() {
        return format!("{}: never in service.", endpoint.name);
    }
    let mean = up.iter().sum::<f64>() / up.len() as f64;
    let most = up.iter().copied().fold(0.0, f64::max);
    let served = match up.len() * 100 / endpoint.parts.len() {
        100 => String::new(),
        share => format!(", in service {share} % of the time"),
    };
    format!(
        "{}: on average {}, at most {}{served}.",
        endpoint.name,
        numbers::significant(mean),
        numbers::significant(most)
    )
}

/// Names that fit beside the rows: without the pool where there is only one, and cut in the middle where they are long.
fn short_names(endpoints: &[EndpointLoad]) -> Vec<String> {
    let pool = |endpoint: &EndpointLoad| endpoint.name.split_once('/').map(|(pool, _)| pool.to_owned());
    let first = endpoints.first().and_then(pool);
    let one_pool = endpoints.iter().all(|endpoint| pool(endpoint) == first);
    let name = |endpoint: &EndpointLoad| {
        let name = match endpoint.name.split_once('/') {
            Some((_, name)) if one_pool => name,
            _ => &endpoint.name,
        };
        let letters: Vec<char> = name.chars().collect();
        match letters.len() {
            0..=7 => name.to_owned(),
            all => letters[..2]
                .iter()
                .chain(['…'].iter())
                .chain(&letters[all - 4..])
                .collect(),
        }
    };
    endpoints.iter().map(name).collect()
}

fn band_plot(
    (place, policy): (usize, &Policy),
    (endpoints, bands): (usize, &[Option<[f64; 5]>]),
    (most, span): (f64, f64),
) -> String {
    let y = Scale::linear(round_up(most), (BOTTOM, TOP));
    let x = Scale::linear(span, (LEFT, RIGHT));
    let step = policy.curves.load_span / bands.len().max(1) as f64;
    let middle = |at: usize| x.at(step * (at as f64 + 0.5));
    let up: Vec<[f64; 5]> = bands.iter().copied().flatten().collect();
    let mean = |quantile: usize| up.iter().map(|band| band[quantile]).sum::<f64>() / up.len().max(1) as f64;
    let description = format!(
        "{endpoints} endpoints. Averages over time: least loaded {}, median {}, most loaded {}.",
        numbers::significant(mean(0)),
        numbers::significant(mean(2)),
        numbers::significant(mean(4))
    );
    let title = format!("Load of {endpoints} endpoints over time: {}", policy.name);
    let mut svg = Svg::new(HEIGHT, &format!("load{place}"), (&title, &description));
    value_axis(&mut svg, &y, plain);
    for (class, [low, high]) in [("band wide", [0, 4]), ("band", [1, 3])] {
        svg.path(
            &format!("{class} b{place}"),
            &area(bands, [low, high], (&middle, &y)),
            &description,
        );
    }
    let median = bands
        .iter()
        .enumerate()
        .map(|(at, band)| band.map(|band| (middle(at), y.at(band[2]))));
    svg.path(&format!("s s{place} solid"), &polyline(median), &description);
    time_axis(&mut svg, span, BOTTOM);
    svg.finish()
}

/// The areas between two quantiles, one for each stretch in which something was in service.
fn area(
    bands: &[Option<[f64; 5]>],
    [low, high]: [usize; 2],
    (x, y): (&dyn Fn(usize) -> f64, &Scale),
) -> String {
    let mut data = String::new();
    let mut from = 0;
    while from < bands.len() {
        let to = bands[from..]
            .iter()
            .position(Option::is_none)
            .map_or(bands.len(), |gap| from + gap);
        let stretch = || {
            bands[from..to]
                .iter()
                .enumerate()
                .filter_map(|(at, band)| Some((from + at, (*band)?)))
        };
        let upper = stretch().map(|(at, band)| Some((x(at), y.at(band[high]))));
        let mut lower: Vec<_> = stretch()
            .map(|(at, band)| Some((x(at), y.at(band[low]))))
            .collect();
        lower.reverse();
        if !lower.is_empty() {
            data += &polyline(upper.chain(lower));
            data.push('z');
        }
        from = to + 1;
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_are_whole_numbers_that_rise() {
        for most in [0.0, 0.5, 3.0, 20.0, 137.0, 4_000.0] {
            let edges = edges(most);
            assert!(edges.is_sorted_by(|one, other| one < other), "{most}: {edges:?}");
            assert!(edges.len() < SHADES && edges.iter().all(|edge| edge.fract() == 0.0));
            assert!(colour(edges.len(), &edges) < SHADES);
        }
    }

    #[test]
    fn stretches_of_one_shade_are_one() {
        let parts = [Some(0.0), Some(0.5), Some(7.0), None, None, Some(7.0)];
        assert_eq!(
            runs(&parts, &[1.0, 5.0]),
            [(0, 2, Some(0)), (2, 3, Some(2)), (3, 5, None), (5, 6, Some(2))]
        );
    }

    #[test]
    fn names_fit_beside_their_rows() {
        let endpoint = |name: &str| EndpointLoad {
            name: name.to_owned(),
            parts: Vec::new(),
        };
        let names = short_names(&[endpoint("p/e1"), endpoint("p/gpu-server-17.example")]);
        assert_eq!(names, ["e1", "gp…mple"]);
        assert_eq!(
            short_names(&[endpoint("p/e1"), endpoint("q/e1")]),
            ["p/e1", "q/e1"]
        );
    }

    #[test]
    fn areas_break_where_nothing_is_in_service() {
        let band = Some([0.0, 1.0, 2.0, 3.0, 4.0]);
        let y = Scale::linear(4.0, (4.0, 0.0));
        let data = area(&[band, None, band, band], [0, 4], (&|at| at as f64, &y));
        assert_eq!(data, "M0 0L0 4zM2 0L3 0L3 4L2 4z");
    }
}
