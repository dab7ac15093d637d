//! The place of the evidence in a document.

use crate::gates::Gate;

/// Begins the section.
pub const BEGIN: &str = "<!-- evidence: begin -->";
/// Ends it.
pub const END: &str = "<!-- evidence: end -->";

/// Why a document cannot take the evidence, or is not what it should be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// A marker is not there.
    #[error("no line {0:?}; the evidence is written between {BEGIN:?} and {END:?}")]
    Marker(&'static str),
}

/// What stands between the markers.
///
/// # Errors
/// A marker is not there.
pub fn section(page: &str) -> Result<&str, PageError> {
    let (_, after) = page.split_once(BEGIN).ok_or(PageError::Marker(BEGIN))?;
    let (section, _) = after.split_once(END).ok_or(PageError::Marker(END))?;
    Ok(section)
}

/// The document with this section in the place of the one that it has.
///
/// # Errors
/// A marker is not there.
pub fn replaced(page: &str, section: &str) -> Result<String, PageError> {
    let (before, after) = page.split_once(BEGIN).ok_or(PageError::Marker(BEGIN))?;
    let (_, after) = after.split_once(END).ok_or(PageError::Marker(END))?;
    Ok(format!("{before}{BEGIN}{section}{END}{after}"))
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
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(section(&page).unwrap(), "\nold\n");
        let new = replaced(&page, "\nnew\n").unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert_eq!(replaced("nothing", ""), Err(PageError::Marker(BEGIN)));
        assert_eq!(replaced(BEGIN, ""), Err(PageError::Marker(END)));
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
