//! Events that repeat an earlier one but for their text, as nearly all of a stream do: one that was read tells what the
//! others hold, so that only their text has to be looked at.
//!
//! The bytes before a string and those behind it are the same as in an event that was read, and what stands between is the
//! whole of a string: then JSON's grammar leaves no other reading than the same values with another text.

use crate::fields::is_string_inside;

/// The longest frame that is kept, bytes: per stream.
const FRAME_BYTES_MAX: usize = 1024;

/// What stands round the text of an event that was read. Empty: none was, or it cannot be told by its text alone.
#[derive(Debug, Default)]
pub(crate) struct Repeat {
    frame: Vec<u8>,
    /// Where the text stands in it: behind the opening quote.
    place: usize,
}

/// The texts of one event.
#[derive(Debug, Default)]
pub(crate) struct Pieces<'a> {
    last: Option<&'a str>,
    count: usize,
}

impl<'a> Pieces<'a> {
    /// Takes the raw value of one.
    pub(crate) fn add(&mut self, raw: &'a str) {
        self.last = Some(raw);
        self.count += 1;
    }

    /// The inside of the only one, if that is a string.
    fn only(&self) -> Option<&'a str> {
        let raw = self.last.filter(|_| self.count == 1)?;
        raw.strip_prefix('"')?.strip_suffix('"')
    }
}

impl Repeat {
    /// Remembers the data of an event whose only effect is that of its `pieces`; one that has more of them is not for here.
    pub(crate) fn learn(&mut self, json: &str, pieces: &Pieces<'_>) {
        match pieces.only() {
            Some(text) => self.learn_text(json, text),
            None => self.frame.clear(),
        }
    }

    /// Remembers the data of an event that differs from others in `text`, the inside of one of its strings.
    pub(crate) fn learn_text(&mut self, json: &str, text: &str) {
        self.frame.clear();
        if json.len() - text.len() > FRAME_BYTES_MAX {
            return;
        }
        let start = text.as_ptr().addr() - json.as_ptr().addr();
        let (before, behind) = (&json[..start], &json[start + text.len()..]);
        // In one go, so that the frame takes no more than it needs.
        self.frame.reserve_exact(before.len() + behind.len());
        self.frame.extend_from_slice(before.as_bytes());
        self.frame.extend_from_slice(behind.as_bytes());
        self.place = start;
    }

    /// The text of an event with this data, quotes included, if it repeats the event that was read and says something.
    pub(crate) fn text_of<'a>(&self, data: &'a [u8]) -> Option<&'a str> {
        let (before, behind) = self.frame.split_at_checked(self.place)?;
        if behind.is_empty() {
            return None;
        }
        let inside = data.strip_prefix(before)?.strip_suffix(behind)?;
        let quoted = &data[self.place - 1..self.place + inside.len() + 1];
        let text = std::str::from_utf8(quoted).ok()?;
        (!inside.is_empty() && is_string_inside(&text[1..text.len() - 1])).then_some(text)
    }
}
