//! The page's tables.

use crate::report::compare::Noise;
use crate::report::grid::{self, Cell, PartTable, Row};
use crate::report::svg::escaped;
use crate::report::{Policy, Report};
use std::fmt::Write;

/// Figures that say most, in the order of the columns; those that the report does not have are left out.
const GLANCE: [&str; 8] = [
    "goodput_share",
    "answered",
    "ttft_p50_seconds",
    "ttft_p90_seconds",
    "tpot_p90_seconds",
    "hit_ratio",
    "uncached_busiest_over_mean",
    "cost",
];

/// What its columns are called.
const GLANCE_HEADS: [&str; 8] = [
    "Goodput",
    "Answered",
    "First token, p50",
    "First token, p90",
    "Per token, p90",
    "Cache hits",
    "Busiest ÷ mean",
    "Cost",
];

/// Policies as rows, the figures that say most as columns.
pub(super) fn glance(report: &Report) -> String {
    let rows = grid::rows(report);
    let columns: Vec<(&str, &Row)> = GLANCE
        .iter()
        .zip(GLANCE_HEADS)
        .filter_map(|(key, head)| Some((head, rows.iter().find(|row| row.key == *key)?)))
        .collect();
    let mut html = String::from(
        "<h2>At a glance</h2>\n<div class=\"scroll\" tabindex=\"0\">\n<table>\n<thead><tr><th scope=\"col\">Policy</th>",
    );
    for (head, row) in &columns {
        let _ = write!(
            html,
            "<th scope=\"col\" title=\"{}\">{head}{}</th>",
            escaped(row.meaning),
            unit(row.unit)
        );
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (place, policy) in report.policies.iter().enumerate() {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escaped(&policy.name));
        for (_, row) in &columns {
            html.push_str(&cell(&row.cells[place], true));
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n</table>\n</div>\n" + &hint(report)
}

/// How differences and marks are to be read.
fn hint(report: &Report) -> String {
    let mut text = String::new();
    if report.policies.len() > 1 {
        text.push_str("The best is shaded. Small numbers compare with the first policy");
        match report.about.seeds.len() {
            0 | 1 => text.push_str(". This is one seed, so chance is unknown: --seeds 5 tells."),
            seeds => {
                let _ = write!(
                    text,
                    "; “≈” marks differences within the noise: the 95 % interval of the paired differences over {seeds} seeds \
                     includes 0. ± is the standard deviation of single seeds."
                );
            }
        }
    } else if report.about.seeds.len() > 1 {
        text.push_str("± is the standard deviation of single seeds.");
    }
    if text.is_empty() {
        text
    } else {
        format!("<p class=\"hint\">{text}</p>\n")
    }
}

/// Figures as rows, policies as columns.
pub(super) fn all(report: &Report) -> String {
    let mut html = String::from("<h2>All figures</h2>\n");
    html.push_str(&open(&report.policies));
    let mut group = "";
    for row in grid::rows(report) {
        if row.group != group {
            group = row.group;
            html.push_str(&heading(group, report.policies.len()));
        }
        html.push_str(&line(&row));
    }
    html + CLOSE
}

/// By class and by tenant.
pub(super) fn parts(report: &Report) -> String {
    let mut html = String::new();
    for (title, (parts, more)) in [
        ("By class", grid::parts(report, |run| &run.by_class)),
        ("By tenant", grid::parts(report, |run| &run.by_tenant)),
    ] {
        if parts.is_empty() {
            continue;
        }
        let _ = writeln!(html, "<h2>{title}</h2>");
        html.push_str(&open(&report.policies));
        for PartTable { name, rows } in parts {
            html.push_str(&heading(&name, report.policies.len()));
            rows.iter().for_each(|row| html.push_str(&line(row)));
        }
        html.push_str(CLOSE);
        if more > 0 {
            let _ = writeln!(
                html,
                "<p class=\"hint\">{more} more with fewer requests are in --json.</p>"
            );
        }
    }
    html
}

const CLOSE: &str = "</tbody>\n</table>\n</div>\n";

fn open(policies: &[Policy]) -> String {
    let mut html = String::from(
        "<div class=\"scroll\" tabindex=\"0\">\n<table>\n<thead><tr><th scope=\"col\">Figure</th>",
    );
    for policy in policies {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(&policy.name));
    }
    html + "</tr></thead>\n<tbody>\n"
}

fn heading(name: &str, policies: usize) -> String {
    format!(
        "<tr class=\"group\"><th scope=\"rowgroup\">{}</th><td colspan=\"{policies}\"></td></tr>\n",
        escaped(name)
    )
}

fn line(row: &Row) -> String {
    let mut html = format!(
        "<tr><th scope=\"row\" title=\"{}\">{}{}</th>",
        escaped(row.meaning),
        escaped(&row.label),
        unit(row.unit)
    );
    for of in &row.cells {
        html.push_str(&cell(of, false));
    }
    html + "</tr>\n"
}

fn unit(unit: &str) -> String {
    if unit.is_empty() {
        String::new()
    } else {
        format!(" <span class=\"unit\">{unit}</span>")
    }
}

/// A figure and, below it, how it differs; `short` leaves the absolute difference out.
fn cell(cell: &Cell, short: bool) -> String {
    let class = if cell.best { " class=\"best\"" } else { "" };
    let mut html = format!("<td{class}>{}", cell.value);
    if let Some(spread) = cell.spread.as_ref().filter(|_| !short) {
        let _ = write!(html, " <span class=\"unit\">{spread}</span>");
    }
    if let Some(change) = &cell.change {
        let within = change.noise == Noise::Within;
        let class = match change.good {
            Some(true) if !within => " class=\"good\"",
            Some(false) if !within => " class=\"bad\"",
            _ => "",
        };
        let mark = if within { "≈ " } else { "" };
        // A difference of shares is told in points, which no percent can be mistaken for.
        let points = change.absolute.ends_with("pt");
        let text = match (short, change.relative.as_str()) {
            (_, "") => change.absolute.clone(),
            (true, _) if points => change.absolute.clone(),
            (true, relative) => relative.to_owned(),
            (false, relative) => format!("{} · {relative}", change.absolute),
        };
        let _ = write!(html, "<small{class}>{mark}{text}</small>");
    }
    html + "</td>"
}
