//! The places of what the lab writes in documents.

use crate::gates::Gate;

/// The lines between which a document is written by the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Markers {
    /// Begins the section.
    pub begin: &'static str,
    /// Ends it.
    pub end: &'static str,
}

/// Those of the evidence, in `docs/policies.md`.
pub const EVIDENCE: Markers = Markers {
    begin: "<!-- evidence: begin -->",
    end: "<!-- evidence: end -->",
};

/// Those of what presets stand for, in `docs/choosing.md`.
pub const PRESETS: Markers = Markers {
    begin: "<!-- presets: begin -->",
    end: "<!-- presets: end -->",
};

/// A document has no place for what is to be written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no line {missing:?}, which says where to write")]
pub struct NoMarker {
    missing: &'static str,
}

impl Markers {
    /// What stands between them.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn section(self, page: &str) -> Result<&str, NoMarker> {
        self.split(page).map(|[_, section, _]| section)
    }

    /// The document with this section in the place of the one that it has.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn replaced(self, page: &str, section: &str) -> Result<String, NoMarker> {
        let [before, _, after] = self.split(page)?;
        Ok(format!("{before}{}{section}{}{after}", self.begin, self.end))
    }

    fn split(self, page: &str) -> Result<[&str; 3], NoMarker> {
        let missing = |missing| NoMarker { missing };
        let (before, rest) = page.split_once(self.begin).ok_or(missing(self.begin))?;
        let (section, after) = rest.split_once(self.end).ok_or(missing(self.end))?;
        Ok([before, section, after])
    }
}

/// The gates as a section tells of them; what was measured is left as it is written.
#[must_use]
pub fn gates(section: &str) -> Vec<Gate> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let (asks, measured, met) = (cells.next()?, cells.next()?, cells.next()?);
        let met = match met {
            "met" => true,
            "**missed**" => false,
            _ => return None,
        };
        Some(Gate {
            asks: asks.to_owned(),
            measured: measured.to_owned(),
            met,
        })
    };
    section.lines().filter_map(row).collect()
}

/// The first line in which two texts differ: its number, and both.
#[must_use]
pub fn difference(one: &str, other: &str) -> Option<(usize, String, String)> {
    let (mut ones, mut others) = (one.lines(), other.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (ones.next(), others.next()) {
            (None, None) => return None,
            (one, other) if one == other => {}
            (one, other) => {
                let said = |line: Option<&str>| line.unwrap_or("(the end)").to_owned();
                return Some((number, said(one), said(other)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_alone_is_replaced() {
        let Markers { begin, end } = EVIDENCE;
        let page = format!("before\n{begin}\nold\n{end}\nafter\n");
        assert_eq!(EVIDENCE.section(&page).unwrap(), "\nold\n");
        let new = EVIDENCE.replaced(&page, "\nnew\n").unwrap();
        assert_eq!(new, format!("before\n{begin}\nnew\n{end}\nafter\n"));
        assert_eq!(EVIDENCE.replaced("nothing", ""), Err(NoMarker { missing: begin }));
        assert_eq!(EVIDENCE.replaced(begin, ""), Err(NoMarker { missing: end }));
        assert_eq!(
            PRESETS.section(&page),
            Err(NoMarker {
                missing: PRESETS.begin
            })
        );
    }

    #[test]
    fn gates_are_read_as_they_are_written() {
        let gate = |asks: &str, met| Gate {
            asks: asks.into(),
            measured: "7 of 12, not on a, b".into(),
            met,
        };
        let gates = vec![gate("one", true), gate("two (held out)", false)];
        let text = super::super::tables::gates(&gates);
        assert_eq!(super::gates(&text), gates);
    }

    #[test]
    fn the_first_different_line_is_told() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("a\nb", "a\nc"), Some((2, "b".into(), "c".into())));
        assert_eq!(difference("a", "a\nc"), Some((2, "(the end)".into(), "c".into())));
    }
}
