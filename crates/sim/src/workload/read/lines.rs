//! Lines of a source, each within bounds.

use super::{ReadError, Wrong};
use std::io::{BufRead, Read as _};

/// Longest line: a million tokens in blocks of 16 are a tenth of it.
const LINE_MAX: u64 = 16 * 1024 * 1024;

/// A line that is not blank.
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// Without its end, or why it is no text.
    pub(super) text: Result<String, Wrong>,
}

pub(super) struct Lines<S> {
    source: S,
    number: u64,
    bytes: Vec<u8>,
}

impl<S: BufRead> Lines<S> {
    pub(super) fn new(source: S) -> Self {
        Self {
            source,
            number: 0,
            bytes: Vec::new(),
        }
    }

    /// The next line that is not blank; None at the end.
    pub(super) fn next(&mut self) -> Result<Option<Line>, ReadError> {
        loop {
            self.number += 1;
            let number = self.number;
            let failed = |error| ReadError::Io { line: number, error };
            self.bytes.clear();
            let bounded = (&mut self.source)
                .take(LINE_MAX + 1)
                .read_until(b'\n', &mut self.bytes);
            if bounded.map_err(failed)? == 0 {
                return Ok(None);
            }
            if self.bytes.len() as u64 > LINE_MAX {
                if !self.bytes.ends_with(b"\n") {
                    self.source.skip_until(b'\n').map_err(failed)?;
                }
                let text = Err(Wrong::new(
                    format!("a line longer than {} MiB", LINE_MAX >> 20),
                    String::from_utf8_lossy(&self.bytes[..200]),
                ));
                return Ok(Some(Line { number, text }));
            }
            let bytes = match self.number {
                1 => self.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.bytes),
                _ => &self.bytes,
            };
            let bytes = bytes.trim_ascii();
            if bytes.is_empty() {
                continue;
            }
            let text = std::str::from_utf8(bytes)
                .map(str::to_owned)
                .map_err(|_| Wrong::new("not UTF-8 text", String::from_utf8_lossy(bytes)));
            return Ok(Some(Line { number, text }));
        }
    }
}
