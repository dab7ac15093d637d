//! The report's plots, each a drawing of its own.

mod axes;
mod first_tokens;
mod heat;
mod lines;

use super::svg::escaped;
use super::{Policy, Report};
use std::fmt::Write;

/// Policies that have lines of their own: as many as there are colours that anybody can tell apart.
pub(super) const LINES_MAX: usize = 8;

/// Load plots: one per policy.
pub(super) const HEATS_MAX: usize = 6;

/// All plots with their captions, as HTML.
pub(super) fn plots(report: &Report) -> String {
    let shown = &report.policies[..report.policies.len().min(LINES_MAX)];
    let mut html = String::new();
    let seed = report.about.seeds.first().copied().unwrap_or_default();
    if report.about.seeds.len() > 1 {
        let _ = writeln!(
            html,
            "<p class=\"hint\">Plots show the first seed, {seed}; figures are means over all seeds.</p>"
        );
    }
    html.push_str(&legend(shown));
    html.push_str("<div class=\"plots\">\n");
    html.push_str(&figure(
        "Time to first token",
        "Share of all requests whose first token came within the time below. Further left is better; a line that ends \
         below 100 % leaves requests without an answer.",
        &first_tokens::plot(report, shown),
    ));
    html.push_str(&figure(
        "Cache hits over time",
        "Share of prompt tokens that did not have to be computed again, by when the request arrived.",
        &lines::hit_ratio(shown),
    ));
    html.push_str(&figure(
        "Waiting requests",
        "Most requests at once that had arrived and that no engine had begun with.",
        &lines::waiting(shown),
    ));
    html.push_str("</div>\n");
    html.push_str(&heat::load(
        &report.policies[..report.policies.len().min(HEATS_MAX)],
    ));
    html
}

/// A plot with its heading and what it shows.
fn figure(title: &str, caption: &str, svg: &str) -> String {
    format!(
        "<figure>\n<h3>{}</h3>\n{svg}<figcaption>{}</figcaption>\n</figure>\n",
        escaped(title),
        escaped(caption)
    )
}

/// Which line is whose.
fn legend(policies: &[Policy]) -> String {
    let mut html = String::from("<ul class=\"legend\">\n");
    for (place, policy) in policies.iter().enumerate() {
        let _ = writeln!(
            html,
            "<li><svg viewBox=\"0 0 34 10\" aria-hidden=\"true\"><path class=\"s s{place}\" d=\"M1 5L33 5\"/></svg>{}</li>",
            escaped(&policy.name)
        );
    }
    html + "</ul>\n"
}
