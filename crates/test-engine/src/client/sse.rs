//! Reads server-sent events out of pieces with arrival times. Source: WHATWG HTML, section 9.2.6; unlike there, a
//! block without data is an event too if it has a name, so that a test sees it.

use super::stream::Piece;
use std::time::Instant;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When its last byte arrived.
    pub at: Instant,
    /// Value of `event`, if there is one.
    pub name: Option<String>,
    /// Value of `id`, if there is one.
    pub id: Option<String>,
    /// Values of `data`, joined by line feeds.
    pub data: String,
}

impl Event {
    /// The data as JSON; null if it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }
}

/// What a stream consists of.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// Complete events.
    pub events: Vec<Event>,
    /// Comments (without the colon), with their time of arrival.
    pub comments: Vec<(Instant, String)>,
    /// True if the stream stops within an event.
    pub unfinished: bool,
}

pub(super) fn parse(pieces: &[Piece]) -> Parsed {
    let body: Vec<u8> = pieces.iter().flat_map(|p| p.bytes.iter().copied()).collect();
    let mut parsed = Parsed::default();
    let mut block = Block::default();
    let mut arrivals = Arrivals {
        pieces,
        piece: 0,
        before: 0,
    };
    let mut at = 0;
    while let Some(len) = memchr::memchr2(b'\n', b'\r', &body[at..]) {
        let line = String::from_utf8_lossy(&body[at..at + len]).into_owned();
        at += len
            + if body[at + len..].starts_with(b"\r\n") {
                2
            } else {
                1
            };
        let time = arrivals.of(at - 1);
        match line.split_once(':').unwrap_or((&line, "")) {
            ("", "") if line.is_empty() => parsed.events.extend(std::mem::take(&mut block).end(time)),
            ("", comment) => parsed
                .comments
                .push((time, comment.strip_prefix(' ').unwrap_or(comment).to_owned())),
            (field, value) => block.field(field, value.strip_prefix(' ').unwrap_or(value)),
        }
    }
    parsed.unfinished = at < body.len() || !block.is_empty();
    parsed
}

/// Finds the time at which a byte arrived; asked for growing positions.
struct Arrivals<'a> {
    pieces: &'a [Piece],
    piece: usize,
    before: usize,
}

impl Arrivals<'_> {
    fn of(&mut self, position: usize) -> Instant {
        while position >= self.before + self.pieces[self.piece].bytes.len() {
            self.before += self.pieces[self.piece].bytes.len();
            self.piece += 1;
        }
        self.pieces[self.piece].at
    }
}

#[derive(Default)]
struct Block {
    name: Option<String>,
    id: Option<String>,
    data: Option<String>,
}

impl Block {
    fn field(&mut self, field: &str, value: &str) {
        match (field, &mut self.data) {
            ("event", _) => self.name = Some(value.to_owned()),
            ("id", _) => self.id = Some(value.to_owned()),
            ("data", Some(data)) => *data += &format!("\n{value}"),
            ("data", data) => *data = Some(value.to_owned()),
            _ => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.name.is_none() && self.data.is_none()
    }

    fn end(self, at: Instant) -> Option<Event> {
        if self.is_empty() {
            return None;
        }
        Some(Event {
            at,
            name: self.name,
            id: self.id,
            data: self.data.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_line_end_reads_the_same_wherever_it_is_cut() {
        let expected = [(None, None, "one\ntwo"), (Some("x"), Some("7"), "")];
        for nl in ["\n", "\r\n", "\r"] {
            let text = [
                ": hello",
                "data: one",
                "data:two",
                "",
                "event: x",
                "id: 7",
                "data",
                "",
                "data: rest",
            ]
            .join(nl);
            for cut in 0..text.len() {
                let now = Instant::now();
                let piece = |bytes: &str, ms| Piece {
                    at: now + Duration::from_millis(ms),
                    bytes: bytes.into(),
                };
                let parsed = parse(&[piece(&text[..cut], 0), piece(&text[cut..], 9)]);
                let seen: Vec<_> = parsed
                    .events
                    .iter()
                    .map(|e| (e.name.as_deref(), e.id.as_deref(), e.data.as_str()))
                    .collect();
                assert_eq!(seen, expected, "{nl:?} cut at {cut}");
                assert_eq!(parsed.comments[0].1, "hello");
                assert!(parsed.unfinished);
                let first_end = text.find("event").unwrap();
                let late = parsed.events[0].at > now;
                assert_eq!(late, cut < first_end, "{nl:?} cut at {cut}");
            }
        }
    }
}
