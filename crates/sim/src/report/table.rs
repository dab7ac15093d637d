//! The report as a table for terminals: figures as rows, policies as columns.

use super::compare::Noise;
use super::grid::{self, Cell, PartTable, Row};
use super::{Report, headline};
use std::fmt::Write;

/// Columns that a table may take; policies that do not fit go into further blocks beside the first again.
const WIDTH: usize = 100;

/// The whole report as text.
#[must_use]
pub fn table(report: &Report) -> String {
    let mut text = wrapped(&headline(report).join(" "));
    text.push('\n');
    let names: Vec<&str> = report
        .policies
        .iter()
        .map(|policy| policy.name.as_str())
        .collect();
    blocks(&mut text, &names, &lines(grid::rows(report)));
    for (title, (parts, more)) in [
        ("By class", grid::parts(report, |run| &run.by_class)),
        ("By tenant", grid::parts(report, |run| &run.by_tenant)),
    ] {
        if !parts.is_empty() {
            let _ = writeln!(text, "\n{title}\n");
            blocks(&mut text, &names, &part_lines(parts));
        }
        if more > 0 {
            let _ = writeln!(text, "… and {more} with fewer requests: see --json.");
        }
    }
    text.push_str(&legend(report));
    text
}

/// A line of the table.
enum Line {
    /// A heading.
    Head(String),
    /// A figure.
    Figure(Row),
}

fn lines(rows: Vec<Row>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut group = "";
    for row in rows {
        if row.group != group {
            group = row.group;
            lines.push(Line::Head(group.to_owned()));
        }
        lines.push(Line::Figure(row));
    }
    lines
}

fn part_lines(parts: Vec<PartTable>) -> Vec<Line> {
    let mut lines = Vec::new();
    for part in parts {
        lines.push(Line::Head(printable(&part.name)));
        lines.extend(part.rows.into_iter().map(Line::Figure));
    }
    lines
}

/// A table's lines and the widths of what all policies share.
struct Sheet<'a> {
    names: &'a [&'a str],
    lines: &'a [Line],
    label: usize,
    unit: usize,
    columns: Vec<Column>,
}

/// Policies side by side, in as many blocks as the width asks for; each block has the first policy again.
fn blocks(text: &mut String, names: &[&str], lines: &[Line]) {
    let widest = |of: &dyn Fn(&Line) -> usize| lines.iter().map(of).max().unwrap_or_default();
    let sheet = Sheet {
        names,
        lines,
        label: widest(&|line| chars(&line.label())).min(WIDTH / 3),
        unit: widest(&|line| chars(line.unit())),
        columns: (names.iter().enumerate())
            .map(|(place, name)| Column::of((place, name), lines))
            .collect(),
    };
    let Some(first) = sheet.columns.first() else {
        return;
    };
    let start = sheet.label + 1 + sheet.unit + GAP + first.width();
    let mut from = 1;
    loop {
        let mut shown = vec![0];
        let mut width = start;
        while let Some(column) = sheet.columns.get(from) {
            width += GAP + column.width();
            if shown.len() > 1 && width > WIDTH {
                break;
            }
            shown.push(from);
            from += 1;
        }
        sheet.block(text, &shown);
        if from >= names.len() {
            return;
        }
        text.push('\n');
    }
}

/// Between two policies.
const GAP: usize = 2;

impl Sheet<'_> {
    /// These policies side by side.
    fn block(&self, text: &mut String, shown: &[usize]) {
        let start = self.label + 1 + self.unit;
        let headings: Vec<Vec<String>> = shown
            .iter()
            .map(|&place| folded(self.names[place], self.columns[place].width()))
            .collect();
        let height = headings.iter().map(Vec::len).max().unwrap_or_default();
        for at in 0..height {
            let mut line = " ".repeat(start);
            for (heading, &place) in headings.iter().zip(shown) {
                // The last words of all names stand in one line.
                let words = (at + heading.len())
                    .checked_sub(height)
                    .and_then(|at| heading.get(at));
                let words = words.map_or("", String::as_str);
                let width = self.columns[place].width();
                let words = if place == 0 {
                    right(words, width)
                } else {
                    left(words, width)
                };
                let _ = write!(line, "{}{words}", " ".repeat(GAP));
            }
            push_line(text, &line);
        }
        for line in self.lines {
            let mut out = left(&line.label(), self.label);
            if let Line::Figure(row) = line {
                let _ = write!(out, " {}", left(row.unit, self.unit));
                for &place in shown {
                    let _ = write!(
                        out,
                        "{}{}",
                        " ".repeat(GAP),
                        self.columns[place].show(row.cells.get(place))
                    );
                }
            }
            push_line(text, &out);
        }
    }
}

impl Line {
    fn label(&self) -> String {
        match self {
            Self::Head(head) => head.clone(),
            Self::Figure(row) => format!("  {}", row.label),
        }
    }

    fn unit(&self) -> &str {
        match self {
            Self::Head(_) => "",
            Self::Figure(row) => row.unit,
        }
    }
}

/// Widths of the parts of one policy's cells.
#[derive(Default)]
struct Column {
    value: usize,
    spread: usize,
    absolute: usize,
    relative: usize,
}

/// A policy's name is given this much room in one line.
const NAME: usize = 16;

impl Column {
    fn of((place, name): (usize, &str), lines: &[Line]) -> Self {
        let mut column = Self {
            value: 6,
            ..Self::default()
        };
        let figures = lines.iter().filter_map(|line| match line {
            Line::Head(_) => None,
            Line::Figure(row) => row.cells.get(place),
        });
        for cell in figures {
            column.value = column.value.max(chars(&cell.value));
            column.spread = column.spread.max(cell.spread.as_deref().map_or(0, chars));
            if let Some(change) = &cell.change {
                column.absolute = column.absolute.max(chars(&narrow(&change.absolute)));
                column.relative = column.relative.max(chars(&narrow(&change.relative)) + 1);
            }
        }
        column.value += chars(name).min(NAME).saturating_sub(column.width());
        column
    }

    fn width(&self) -> usize {
        let parts = [self.absolute, self.relative]
            .into_iter()
            .filter(|&width| width > 0);
        self.value + self.spread + parts.map(|width| width + 1).sum::<usize>()
    }

    fn show(&self, cell: Option<&Cell>) -> String {
        let none = Cell::default();
        let cell = cell.unwrap_or(&none);
        let mut text = right(&cell.value, self.value);
        if self.spread > 0 {
            let _ = write!(
                text,
                "{}",
                left(cell.spread.as_deref().unwrap_or_default(), self.spread)
            );
        }
        if self.absolute > 0 {
            let (absolute, relative) = match &cell.change {
                Some(change) => {
                    let mark = if change.noise == Noise::Within { "~" } else { " " };
                    (narrow(&change.absolute), narrow(&change.relative) + mark)
                }
                None => Default::default(),
            };
            let _ = write!(
                text,
                " {} {}",
                right(&absolute, self.absolute),
                right(&relative, self.relative)
            );
        }
        text
    }
}

/// A difference as a table of many columns has room for it: without spaces, and points without their unit.
fn narrow(change: &str) -> String {
    change.trim_end_matches(" pt").replace(' ', "")
}

fn legend(report: &Report) -> String {
    let mut text = String::from("\n");
    if report.policies.len() > 1 {
        text.push_str(&wrapped(
            "Differences are against the first policy: absolute (of percentages: points), then in percent of its figure.",
        ));
    }
    match report.about.seeds.len() {
        0 | 1 => text.push_str("One seed: --seeds 5 would tell what of this is chance.\n"),
        seeds => text.push_str(&wrapped(&format!(
            "Means over {seeds} seeds ± standard deviation of single seeds; ~ marks differences within the noise (95 % \
             interval of the paired differences includes 0)."
        ))),
    }
    for engine in &report.about.engines {
        text.push_str(&wrapped(&format!(
            "Engines of {}: {} × {}, {}.",
            printable(&engine.pool),
            engine.engines,
            printable(&engine.label),
            printable(&engine.basis)
        )));
    }
    for note in &report.about.notes {
        text.push_str(&wrapped(&format!("Note: {}", printable(note))));
    }
    text
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(chars(text))))
}

fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(chars(text))))
}

/// Text in lines of at most [`WIDTH`].
fn wrapped(text: &str) -> String {
    folded(text, WIDTH).join("\n") + "\n"
}

/// Words in lines of at most `width`; longer words are cut into several.
fn folded(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in printable(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if chars(line) + 1 + chars(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => {
                let letters: Vec<char> = word.chars().collect();
                lines.extend(letters.chunks(width).map(|part| part.iter().collect::<String>()));
            }
        }
    }
    if lines.is_empty() {
        vec![String::new()]
    } else {
        lines
    }
}

/// `text` without what could steer a terminal.
fn printable(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn three_policies_fit_a_hundred_columns_with_and_without_seeds() {
        for seeds in [1, 5] {
            let text = table(&samples::report(
                &["round robin", "least in flight", "session affinity"],
                seeds,
            ));
            for line in text.lines() {
                assert!(chars(line) <= WIDTH, "{} wide: {line}\n{text}", chars(line));
            }
            let heads = text
                .lines()
                .filter(|line| line.contains("round robin") && line.contains("session affinity"));
            assert!(heads.count() >= 1, "all three are side by side\n{text}");
        }
    }

    #[test]
    fn policies_that_do_not_fit_go_into_further_blocks_beside_the_first() {
        let names = ["base", "p1", "p2", "p3", "p4", "p5", "p6", "p7"];
        let text = table(&samples::report(&names, 3));
        assert!(text.lines().all(|line| chars(line) <= WIDTH), "{text}");
        let heads: Vec<&str> = text
            .lines()
            .filter(|line| line.trim_start().starts_with("base "))
            .collect();
        assert!(heads.len() >= 2, "{text}");
        for name in &names[1..] {
            assert!(
                heads
                    .iter()
                    .any(|head| head.split_whitespace().any(|word| word == *name)),
                "{name}\n{text}"
            );
        }
    }

    #[test]
    fn names_cannot_steer_the_terminal_and_long_ones_are_folded() {
        let name = format!("evil\u{1b}[2J {}", "x".repeat(150));
        let text = table(&samples::report(&["a", &name], 1));
        assert!(!text.contains('\u{1b}'));
        assert!(text.lines().all(|line| chars(line) <= WIDTH), "{text}");
    }

    #[test]
    fn differences_within_the_noise_are_marked() {
        let text = table(&samples::report(&["plain", "same", "better"], 5));
        let marked = |text: &str| {
            text.lines()
                .filter(|line| line.starts_with("  ") && line.contains("%~"))
                .count()
        };
        assert!(marked(&text) > 3, "{text}");
        // A policy that is twice as fast is that in every seed.
        let clear = table(&samples::report(&["plain", "better"], 5));
        let line = clear.lines().find(|line| line.starts_with("  p50 ")).unwrap();
        assert!(line.contains("−50%") && !line.contains('~'), "{line}");
        assert!(text.contains("~ marks differences within the noise"), "{text}");
    }

    #[test]
    fn an_empty_report_is_said_to_be_empty() {
        assert!(table(&Report::default()).contains("Nothing was simulated"));
    }
}
