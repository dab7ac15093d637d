//! The result, as a table or as JSON.

use super::figures::{Figure, Spread};
use super::peers::PeerKind;
use serde_json::{Map, Value, json};

/// A figure of every peer that has it.
pub(super) struct Line {
    pub(super) figure: Figure,
    pub(super) by_peer: Vec<(PeerKind, Spread)>,
}

impl Line {
    fn median(&self, kind: PeerKind) -> Option<f64> {
        let spread = self.by_peer.iter().find(|(peer, _)| *peer == kind);
        spread.map(|(_, spread)| spread.median)
    }

    /// Weighbridge's figure over that of nginx; none where one adds, and a difference may be next to nothing.
    fn over_nginx(&self) -> Option<f64> {
        let ratio = self.median(PeerKind::Weighbridge)? / self.median(PeerKind::Nginx)?;
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }

    /// Every aim, with whether it is met.
    fn judged(&self) -> Vec<(String, Option<bool>)> {
        let judge = |aim: &super::figures::Aim| {
            let ours = self.median(PeerKind::Weighbridge);
            let met = ours.and_then(|ours| aim.is_met(ours, self.median(PeerKind::Nginx)));
            (aim.text(), met)
        };
        self.figure.aims.iter().map(judge).collect()
    }
}

/// A finished run.
pub(super) struct Report {
    pub(super) rounds: u32,
    pub(super) seconds: u32,
    /// Before and after.
    pub(super) load_average: [String; 2],
    /// Windows that were measured again because requests failed.
    pub(super) refused: u32,
    /// What is missing, and why.
    pub(super) notes: Vec<String>,
    pub(super) peers: Vec<PeerKind>,
    pub(super) lines: Vec<Line>,
}

impl Report {
    pub(super) fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.to_json());
        } else {
            print!("{}", self.to_text());
        }
    }

    fn to_json(&self) -> Value {
        let lines: Map<String, Value> = self
            .lines
            .iter()
            .map(|line| {
                let peers: Map<String, Value> = line
                    .by_peer
                    .iter()
                    .map(|(peer, spread)| (peer.name().to_owned(), json!(spread)))
                    .collect();
                let aims: Map<String, Value> = line
                    .judged()
                    .into_iter()
                    .map(|(aim, met)| (aim, json!(met)))
                    .collect();
                let figure = json!({
                    "title": line.figure.title, "peers": peers, "over_nginx": line.over_nginx(), "aims": aims,
                });
                (line.figure.key.to_owned(), figure)
            })
            .collect();
        json!({
            "rounds": self.rounds,
            "seconds": self.seconds,
            "load_average": {"before": self.load_average[0], "after": self.load_average[1]},
            "refused_windows": self.refused,
            "notes": self.notes,
            "figures": lines,
        })
    }

    /// A Markdown table of medians.
    fn to_text(&self) -> String {
        let mut head = vec!["figure".to_owned()];
        head.extend(self.peers.iter().map(|peer| peer.name().to_owned()));
        head.extend(["÷ nginx", "aim", "met"].map(str::to_owned));
        let mut rows = vec![head];
        for line in &self.lines {
            let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
            let mut row = vec![line.figure.title.to_owned()];
            row.extend(self.peers.iter().map(|peer| shown(line.median(*peer))));
            row.push(shown(line.over_nginx()));
            let (aims, met): (Vec<_>, Vec<_>) = line.judged().into_iter().unzip();
            row.push(aims.join(", "));
            let words = met.into_iter().map(|met| match met {
                Some(true) => "yes",
                Some(false) => "no",
                None => "?",
            });
            row.push(words.collect::<Vec<_>>().join(", "));
            rows.push(row);
        }
        let notes: String = self.notes.iter().map(|note| format!("\n- {note}")).collect();
        format!(
            "\n{}\nMedians of {} windows of {} s; ranges in --json. Load average before {}, after {}; windows refused: {}.{notes}\n",
            table(&rows),
            self.rounds,
            self.seconds,
            self.load_average[0],
            self.load_average[1],
            self.refused
        )
    }
}

/// Three digits that mean something.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate();
        let padded = padded.map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(column, &width)| match column {
            0 => "-".repeat(width),
            _ => format!("{}:", "-".repeat(width - 1)),
        })
        .collect();
    let mut rows = rows.iter();
    let head = rows.next().map(|row| line(row)).unwrap_or_default();
    let body: String = rows.map(|row| line(row)).collect();
    head + &line(&rule) + &body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows = [["peer", "µs"], ["a", "12.3"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(
            table(&rows),
            "| peer |   µs |\n| ---- | ---: |\n| a    | 12.3 |\n"
        );
    }

    #[test]
    fn numbers_keep_three_digits() {
        let shown = [1.234, 12.34, 123.4, -12.34].map(number);
        assert_eq!(shown, ["1.23", "12.3", "123", "-12.3"]);
    }
}
