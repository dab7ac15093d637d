//! Tables of mean and p90 TTFT in all cases, one for each slice.

use crate::contest::Contest;
use crate::workloads::Slice;
use std::fmt::Write;

/// A row of a case on a slice; none: it has nothing to say there.
pub(super) type Row = fn(&Contest, Slice) -> Option<String>;

/// The tables under `title`, the first with what it is `about`, each with the same `figures` of both times; empty where no case has a row.
pub(super) fn slices(
    title: &str,
    (about, figures): (&str, &str),
    (contests, row): (&[Contest], Row),
) -> String {
    let mut text = String::new();
    let columns = 2 * (figures.matches('|').count() + 1);
    for slice in [Slice::Held, Slice::Tuned] {
        let rows = contests.iter().filter_map(|contest| row(contest, slice));
        let rows: Vec<String> = rows.collect();
        if rows.is_empty() {
            continue;
        }
        let about = if text.is_empty() {
            format!("{about}\n")
        } else {
            String::new()
        };
        let _ = write!(
            text,
            "### {title}, {}\n\n{about}| case | mean TTFT: {figures} | p90 TTFT: {figures} |\n|---|{}\n{}\n\n",
            slice.name(),
            "--:|".repeat(columns),
            rows.join("\n")
        );
    }
    text
}
