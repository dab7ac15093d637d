//! Text tables for people.

/// Rows of cells under a head.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Columns that are set to the right: numbers.
    right: &'static [usize],
}

impl Table {
    /// A table with this head; the columns `right` hold numbers.
    pub(crate) fn new(head: &[&str], right: &'static [usize]) -> Self {
        Self {
            rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()],
            right,
        }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| printable(&cell)).to_vec());
    }

    /// The text, a line per row.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().enumerate().map(|(column, cell)| {
                let space = " ".repeat(widths[column] - cell.chars().count());
                match self.right.contains(&column) {
                    true => format!("{space}{cell}"),
                    false => format!("{cell}{space}"),
                }
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// `text` without what could steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(visible).collect()
}

/// A number as people write it: at most four decimals, no zeros at the end.
pub(crate) fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-4 {
        return format!("{value:.1e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["NAME", "N"], &[1]);
        table.row(["a".into(), "7".into()]);
        table.row(["längst\u{1b}".into(), "100".into()]);
        assert_eq!(table.text(), "NAME       N\na          7\nlängst\u{fffd}  100\n");
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.5, "0.5"),
            (2.0 / 3.0, "0.6667"),
            (100.0, "100"),
            (0.000_01, "1.0e-5"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
