//! The result, as tables or as JSON.

use super::figures::{COLUMNS, Figures};
use super::peers::PeerKind;
use serde_json::{Map, Value, json};

/// A finished run.
pub(super) struct Report {
    pub(super) rounds: u32,
    pub(super) seconds: u32,
    /// Before and after.
    pub(super) load_average: [String; 2],
    /// Windows that were measured again because requests failed.
    pub(super) refused: u32,
    pub(super) peers: Vec<(PeerKind, Figures)>,
}

impl Report {
    pub(super) fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.to_json());
        } else {
            print!("{}", self.to_text());
        }
    }

    fn figures(&self, kind: PeerKind) -> Option<&Figures> {
        self.peers
            .iter()
            .find_map(|(peer, figures)| (*peer == kind).then_some(figures))
    }

    /// Weighbridge's medians over those of `other`.
    fn ratios(&self, other: PeerKind) -> Vec<(&'static str, f64)> {
        let (Some(ours), Some(theirs)) = (self.figures(PeerKind::Weighbridge), self.figures(other)) else {
            return Vec::new();
        };
        let of = |key| Some((key, ours.by_key.get(key)?.median / theirs.by_key.get(key)?.median));
        COLUMNS.iter().filter_map(|column| of(column.key)).collect()
    }

    fn to_json(&self) -> Value {
        let peers: Map<String, Value> = self
            .peers
            .iter()
            .map(|(peer, figures)| (peer.name().to_owned(), json!(figures)))
            .collect();
        let ratios: Map<String, Value> = [PeerKind::Nginx, PeerKind::NginxLog]
            .into_iter()
            .map(|other| {
                let ratios: Map<String, Value> = self
                    .ratios(other)
                    .into_iter()
                    .map(|(key, ratio)| (key.to_owned(), json!(ratio)))
                    .collect();
                (other.name().to_owned(), Value::Object(ratios))
            })
            .collect();
        json!({
            "rounds": self.rounds,
            "seconds": self.seconds,
            "load_average": {"before": self.load_average[0], "after": self.load_average[1]},
            "refused_windows": self.refused,
            "peers": peers,
            "weighbridge_over": ratios,
        })
    }

    /// A Markdown table: medians, with the range over the rounds where it is more than one.
    fn to_text(&self) -> String {
        let mut rows = vec![header()];
        for (peer, figures) in &self.peers {
            let mut row = vec![peer.name().to_owned()];
            row.extend(COLUMNS.iter().map(|column| {
                figures
                    .by_key
                    .get(column.key)
                    .map_or_else(|| "–".to_owned(), |figure| number(figure.median))
            }));
            row.push(figures.rss_idle_mib.map_or_else(|| "–".to_owned(), number));
            rows.push(row);
        }
        for other in [PeerKind::Nginx, PeerKind::NginxLog] {
            let ratios = self.ratios(other);
            if ratios.is_empty() {
                continue;
            }
            let mut row = vec![format!("weighbridge ÷ {}", other.name())];
            row.extend(COLUMNS.iter().map(|column| {
                let ratio = ratios.iter().find(|(key, _)| *key == column.key);
                ratio.map_or_else(|| "–".to_owned(), |(_, ratio)| format!("{ratio:.2}"))
            }));
            row.push("–".to_owned());
            rows.push(row);
        }
        format!(
            "\n{}\nMedians of {} windows of {} s; ranges in --json. Load average before {}, after {}; windows refused: {}.\n",
            table(&rows),
            self.rounds,
            self.seconds,
            self.load_average[0],
            self.load_average[1],
            self.refused
        )
    }
}

fn header() -> Vec<String> {
    let titles = COLUMNS.iter().map(|column| column.title);
    std::iter::once("peer")
        .chain(titles)
        .chain(["RSS idle MiB"])
        .map(str::to_owned)
        .collect()
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
