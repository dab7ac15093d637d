//! The report as one page that needs nothing else: no script, no font, no picture from elsewhere.
//!
//! Its size is bounded whatever the run's: curves are reduced, and of many policies, classes, tenants and notes the first are
//! shown, which the page says.

mod tables;

use super::svg::escaped;
use super::{Policy, Report, figures, headline, plots};
use std::fmt::Write;

const STYLE: &str = include_str!("html/style.css");

/// Policies that the page shows.
pub const POLICIES_MAX: usize = 12;
/// Notes that it shows.
const NOTES_MAX: usize = 40;
/// Letters of a name that it shows.
const NAME_MAX: usize = 80;
/// Letters of a parameter's value or of a note.
const TEXT_MAX: usize = 400;

/// The page.
#[must_use]
pub fn page(report: &Report) -> String {
    let report = &bounded(report);
    let mut sentences = headline(report).into_iter();
    let title = format!("Weighbridge simulation of {}", report.about.workload);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n<p class=\"kicker\">{0}</p>\n<h1>{1}</h1>\n",
        escaped(&title),
        unbroken(&sentences.next().unwrap_or_default())
    );
    for sentence in sentences {
        let _ = writeln!(html, "<p>{}</p>", unbroken(&sentence));
    }
    html.push_str("</header>\n");
    if !report.policies.is_empty() {
        html.push_str(&tables::glance(report));
        html.push_str("<h2>Over time</h2>\n");
        html.push_str(&plots::plots(report));
        html.push_str(&tables::all(report));
        html.push_str(&tables::parts(report));
    }
    html.push_str(&simulated(report));
    html.push_str(&meanings(report));
    let _ = writeln!(
        html,
        "<footer>Made by weighbridge {} from a simulation on a virtual clock; the same parameters and seeds give the same \
         page.</footer>\n</main>\n</body>\n</html>",
        escaped(&report.about.version)
    );
    html
}

/// Escaped, and no number parted from its unit at the end of a line.
fn unbroken(text: &str) -> String {
    let mut html = String::new();
    let mut after_digit = false;
    for word in text.split(' ') {
        if !html.is_empty() {
            let unit = word.starts_with('%')
                || ["ms", "s", "min", "h", "points", "seeds"].iter().any(|unit| {
                    word.strip_prefix(unit)
                        .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
                });
            html.push_str(if after_digit && unit { "&nbsp;" } else { " " });
        }
        after_digit = word.ends_with(|letter: char| letter.is_ascii_digit()) || word == "(±";
        html.push_str(&escaped(word));
    }
    html
}

/// The report as far as the page shows it.
fn bounded(report: &Report) -> Report {
    let mut about = report.about.clone();
    let cut = |text: &mut String, most: usize| {
        if text.chars().count() > most {
            *text = text.chars().take(most - 1).chain(['…']).collect();
        }
    };
    cut(&mut about.workload, NAME_MAX);
    if about.notes.len() > NOTES_MAX {
        let more = about.notes.len() - NOTES_MAX;
        about.notes.truncate(NOTES_MAX);
        about
            .notes
            .push(format!("… and {more} more; --json has them all."));
    }
    if report.policies.len() > POLICIES_MAX {
        let all = report.policies.len();
        about.notes.push(format!(
            "The page shows the first {POLICIES_MAX} of {all} policies; the table and --json show all."
        ));
    }
    let plotted = plots::LINES_MAX.min(plots::HEATS_MAX);
    if report.policies.len() > plotted {
        about.notes.push(format!(
            "The plots show the first {} policies, the load plots {}.",
            plots::LINES_MAX,
            plots::HEATS_MAX
        ));
    }
    about.notes.iter_mut().for_each(|note| cut(note, TEXT_MAX));
    about.parameters.truncate(NOTES_MAX);
    about
        .parameters
        .iter_mut()
        .for_each(|parameter| cut(&mut parameter.value, TEXT_MAX));
    about.engines.truncate(NOTES_MAX);
    for engine in &mut about.engines {
        for text in [&mut engine.pool, &mut engine.label, &mut engine.basis] {
            cut(text, NAME_MAX);
        }
    }
    let policy = |policy: &Policy| {
        let mut policy = policy.clone();
        cut(&mut policy.name, NAME_MAX);
        let parts = |run: &mut super::Summary| {
            for part in run.by_class.iter_mut().chain(&mut run.by_tenant) {
                cut(&mut part.name, NAME_MAX);
            }
        };
        policy.runs.iter_mut().for_each(parts);
        policy
    };
    Report {
        about,
        policies: report.policies.iter().take(POLICIES_MAX).map(policy).collect(),
    }
}

/// Parameters, engines, seeds and notes.
fn simulated(report: &Report) -> String {
    let about = &report.about;
    let mut html = String::from("<h2>What was simulated</h2>\n<dl>\n");
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
    };
    row("workload", &about.workload);
    for engine in &about.engines {
        let value = format!("{} × {}; {}", engine.engines, engine.label, engine.basis);
        row(&format!("engines of {}", engine.pool), &value);
    }
    for parameter in &about.parameters {
        row(&parameter.name, &parameter.value);
    }
    if !about.objectives.0.is_empty() {
        row("SLO", &about.objectives.to_string());
    }
    row("seeds", &seeds(&about.seeds));
    row("version", &about.version);
    html.push_str("</dl>\n");
    if !about.notes.is_empty() {
        html.push_str("<h3>Notes</h3>\n<ul class=\"notes\">\n");
        for note in &about.notes {
            let _ = writeln!(html, "<li>{}</li>", escaped(note));
        }
        html.push_str("</ul>\n");
    }
    html
}

fn seeds(seeds: &[u64]) -> String {
    match seeds {
        [first, .., last] if seeds.len() > 3 && last - first + 1 == seeds.len() as u64 => {
            format!("{first} to {last}")
        }
        _ => {
            let shown: Vec<String> = seeds.iter().take(NOTES_MAX).map(ToString::to_string).collect();
            shown.join(", ")
        }
    }
}

/// What each figure means.
fn meanings(report: &Report) -> String {
    let mut html = String::from(
        "<details>\n<summary>What the figures mean</summary>\n<dl class=\"meanings\">\n\
         <dt>mean, p50, p90, p99</dt><dd>Of all answered requests. p90: nine of ten are not above it. Percentiles are observed \
         values (nearest rank), nothing is interpolated.</dd>\n",
    );
    let mut last = "";
    for figure in figures::figures(&report.about.objectives) {
        if figure.meaning == last {
            continue;
        }
        last = figure.meaning;
        let statistic = ["mean", "p50", "p90", "p99"].contains(&figure.label.as_str());
        let name = match statistic {
            true => figure.group.to_owned(),
            false => format!("{}: {}", figure.group, figure.label),
        };
        let _ = writeln!(
            html,
            "<dt>{}</dt><dd>{}</dd>",
            escaped(&name),
            escaped(figure.meaning)
        );
    }
    html + "</dl>\n</details>\n"
}

#[cfg(test)]
mod tests {
    use super::super::curves::{EndpointLoad, Load};
    use super::super::samples;
    use super::*;

    #[test]
    fn the_page_is_whole_and_needs_nothing_else() {
        let html = page(&samples::report(&["plain", "same", "better"], 5));
        for text in [
            "<h1>better serves most in time",
            "Time to first token",
            "sample",
            "extrapolated by a roofline",
            "line 7 has no input_length",
            "1 to 5",
            "SLO 900 ms",
        ] {
            assert!(html.contains(text), "{text}");
        }
        for foreign in [
            "http:", "https:", "<script", "<link", "url(", "@import", "src=", "NaN", "inf",
        ] {
            let found = html.find(foreign).map(|at| &html[at..(at + 60).min(html.len())]);
            assert_eq!(found, None, "{foreign}");
        }
        let count = |what: &str| html.matches(what).count();
        assert_eq!(count("<svg"), count("</svg>"));
        assert_eq!(count("role=\"img\""), count("<desc "), "every plot is described");
    }

    #[test]
    fn numbers_stay_with_their_units() {
        assert_eq!(
            unbroken("95.5 % of 5 seeds, 521 ms; 1.03 s) <b>"),
            "95.5&nbsp;% of 5&nbsp;seeds, 521&nbsp;ms; 1.03&nbsp;s) &lt;b&gt;"
        );
        assert_eq!(unbroken("mode 7 sessions"), "mode 7 sessions");
    }

    #[test]
    fn ids_are_unique() {
        let html = page(&samples::report(&["plain", "same", "better"], 1));
        let ids: Vec<&str> = html
            .split(" id=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let unique: std::collections::BTreeSet<_> = ids.iter().collect();
        assert!(ids.len() > 8 && unique.len() == ids.len(), "{ids:?}");
    }

    #[test]
    fn every_name_is_escaped() {
        let mark = "<img src=x onerror=alert(1)>\"'&";
        let mut report = samples::report(&[mark, "better"], 1);
        report.about.workload = mark.into();
        report.about.version = mark.into();
        report.about.notes = vec![mark.into()];
        report.about.parameter(mark, mark);
        for engine in &mut report.about.engines {
            (engine.pool, engine.label, engine.basis) = (mark.into(), mark.into(), mark.into());
        }
        for policy in &mut report.policies {
            for part in policy
                .runs
                .iter_mut()
                .flat_map(|run| run.by_class.iter_mut().chain(&mut run.by_tenant))
            {
                part.name = mark.into();
            }
            if let Load::Each(endpoints) = &mut policy.curves.load {
                endpoints[0].name = mark.into();
            }
        }
        let html = page(&report);
        assert!(!html.contains("<img"));
        assert!(html.contains("&lt;img"));
    }

    #[test]
    fn the_page_stays_below_a_megabyte_whatever_the_run() {
        let names: Vec<String> = (0..40).map(|at| format!("{at} {}", "name ".repeat(60))).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut report = samples::report_of(&names, 2, 24);
        report.about.notes = vec!["note ".repeat(500); 500];
        report.about.seeds = (0..10_000).map(|seed| seed * 7).collect();
        for policy in &mut report.policies {
            let parts = (0..500).map(|at| {
                let mut part = policy.runs[0].by_class[0].clone();
                part.name = format!("{at} {}", "class ".repeat(100));
                part
            });
            let parts: Vec<_> = parts.collect();
            for run in &mut policy.runs {
                (run.by_class, run.by_tenant) = (parts.clone(), parts.clone());
            }
            // The worst for a heat map: no two neighbours alike.
            let loads = (0..24).map(|row| EndpointLoad {
                name: "p/endpoint ".repeat(30),
                parts: (0..120)
                    .map(|at| Some(f64::from((at * 37 + row * 11) % 97)))
                    .collect(),
            });
            policy.curves.load = Load::Each(loads.collect());
        }
        let html = page(&report);
        assert!(html.len() < 1_000_000, "{} bytes", html.len());
        assert!(html.contains("The page shows the first 12 of 40 policies"));
    }

    #[test]
    fn a_fleet_of_hundreds_is_shown_as_bands() {
        let html = page(&samples::report_of(&["plain", "better"], 1, 200));
        assert!(
            html.contains("200 endpoints. Averages over time"),
            "bands are described"
        );
        assert!(html.len() < 200_000, "{} bytes", html.len());
    }

    #[test]
    fn the_same_report_gives_the_same_bytes_and_an_empty_one_a_page() {
        let html = || page(&samples::report(&["plain", "better"], 2));
        assert_eq!(html(), html());
        assert!(page(&Report::default()).contains("Nothing was simulated"));
    }
}
