//! Keeping our keys from the client where an upstream quotes them in an error inside a stream.
//!
//! Only once an event has ended is it known to be an error, and a key may come in pieces. So where there are keys to keep,
//! an event that has begun is held back until its end has come; readers act on none before.

use super::headers::secrets_blanked;
use super::plan::joined;
use bytes::Bytes;
use memchr::memmem;

/// The largest unfinished event that is held back, bytes. What is larger passes in pieces, with the keys in each of them
/// written over.
const HELD_MAX: usize = 64 * 1024;

/// Holds back the event at hand.
#[derive(Default)]
pub(super) struct Guard {
    /// Whether there is anything to keep, and nobody else who holds events back.
    on: bool,
    held: Bytes,
    /// The event at hand is too large to be held.
    passing: bool,
}

impl Guard {
    /// One that holds back where `on` says so.
    pub(super) fn new(on: bool) -> Self {
        Self {
            on,
            ..Self::default()
        }
    }

    /// Takes the next piece of the stream, in which events have ended up to `end`, and gives what may pass.
    pub(super) fn feed(&mut self, data: Bytes, end: usize, secrets: &[String]) -> Bytes {
        if !self.on || (self.held.is_empty() && end == data.len() && !self.passing) {
            return data;
        }
        let mut ended = data;
        let begun = ended.split_off(end.min(ended.len()));
        if self.passing && end == 0 {
            return secrets_blanked(begun, secrets);
        }
        self.passing = false;
        let mut pass = Bytes::new();
        if end > 0 {
            pass = joined(std::mem::take(&mut self.held), ended);
        }
        if !begun.is_empty() {
            self.held = joined(std::mem::take(&mut self.held), begun);
        }
        if self.held.len() > HELD_MAX {
            self.passing = true;
            let held = secrets_blanked(std::mem::take(&mut self.held), secrets);
            pass = joined(pass, held);
        }
        pass
    }

    /// What is still held back of a stream that has ended.
    pub(super) fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held)
    }
}

/// Where the last finished event of a stream's beginning ends, which ends inside another.
pub(super) fn last_blank_line(begun: &[u8]) -> usize {
    [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"]
        .into_iter()
        .filter_map(|blank| memmem::rfind(begun, blank).map(|at| at + blank.len()))
        .max()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Vec<String> {
        vec!["sk-secret".to_owned()]
    }

    #[test]
    fn what_has_begun_waits_for_its_end() {
        let mut guard = Guard::new(true);
        let mut feed =
            |data: &'static str, end| guard.feed(Bytes::from_static(data.as_bytes()), end, &secrets());
        assert_eq!(feed("data: 1\n\n", 9), "data: 1\n\n");
        assert_eq!(feed("data: sk-se", 0), "");
        assert_eq!(feed("cret", 0), "");
        assert_eq!(feed("\n\ndata: 2\n\nda", 11), "data: sk-secret\n\ndata: 2\n\n");
        assert_eq!(feed("ta: 3\n\n", 7), "data: 3\n\n");
        assert_eq!(feed("dat", 0), "");
        assert_eq!(guard.finish(), "dat");
    }

    #[test]
    fn what_is_too_large_passes_without_keys() {
        let mut guard = Guard::new(true);
        let large = format!("data: sk-secret {}", "x".repeat(HELD_MAX));
        let passed = guard.feed(Bytes::from(large.clone()), 0, &secrets());
        assert_eq!(passed.len(), large.len());
        assert!(passed.starts_with(b"data: *********"));
        assert_eq!(
            guard.feed(Bytes::from_static(b"y sk-secret"), 0, &secrets()),
            "y *********"
        );
        assert_eq!(
            guard.feed(Bytes::from_static(b"\n\ndata: 1"), 2, &secrets()),
            "\n\n"
        );
        assert_eq!(
            guard.feed(Bytes::from_static(b"\n\n"), 2, &secrets()),
            "data: 1\n\n"
        );
    }

    #[test]
    fn without_keys_nothing_waits() {
        let mut guard = Guard::new(false);
        assert_eq!(guard.feed(Bytes::from_static(b"da"), 0, &[]), "da");
    }

    #[test]
    fn beginnings_end_at_a_blank_line() {
        for (begun, end) in [
            ("", 0),
            ("data: 1", 0),
            ("data: 1\n\nda", 9),
            ("a\r\n\r\nb", 5),
            ("a\r\rb", 3),
        ] {
            assert_eq!(last_blank_line(begun.as_bytes()), end, "{begun:?}");
        }
    }
}
