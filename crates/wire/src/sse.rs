//! Server-sent events, scanned as they pass.
//!
//! Follows the event stream section of the WHATWG HTML standard (9.2.5, 9.2.6): lines end in LF, CRLF or CR
//! and in nothing else (not U+2028, which is legal inside JSON strings), one leading byte order mark is
//! dropped, `data` lines join with LF, a blank line dispatches. The scanner only looks; the relay forwards
//! the bytes untouched.

use memchr::memchr2;

/// The largest event a scanner built by [`Scanner::new`] looks into, in bytes of its lines. Large enough for
/// a whole answer repeated in a closing event; small enough that thousands of streams cannot fill the memory.
pub const EVENT_BYTES_MAX: usize = 1 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event, or one block of comments, that a blank line has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// What the block held.
    pub kind: EventKind,
    /// The last `event` field; None where there is none, it is empty or no UTF-8 (readers then take it for
    /// `message`).
    pub name: Option<&'a str>,
    /// The `data` lines joined with LF. Empty for comments and for oversized events.
    pub data: &'a [u8],
    /// Where the block ends in the chunk at hand, its blank line included: an index into the chunk.
    pub end: usize,
}

/// What a block of lines amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// An event with data, which readers dispatch.
    Data,
    /// An event of more bytes than the scanner keeps: the name is known if it came first, the data is not.
    Oversized,
    /// Nothing but comments (keep-alives) or fields without data (`id`, `retry`, a lone `event`); readers
    /// dispatch nothing.
    Comment,
}

/// Finds the events in a stream of chunks cut anywhere. An event that lies whole in one chunk, with its data
/// on one line, is passed in place; only what is cut is copied, and never more than the limit.
#[derive(Debug)]
pub struct Scanner {
    event_bytes_max: usize,
    /// How much of a byte order mark the stream has begun with; None once past the start.
    mark_len: Option<u8>,
    /// The last byte was a CR that ended a line: an LF now belongs to it.
    after_cr: bool,
    /// The start of a line whose end has not come. Of comments and oversized events, only its first byte.
    line: Vec<u8>,
    block: Block,
}

/// What is known of the block whose blank line has not come.
#[derive(Debug, Default)]
struct Block {
    begun: bool,
    oversized: bool,
    /// Bytes of its lines so far, comments aside: a stream may hold any number of those.
    len: usize,
    data_lines: usize,
    name: Vec<u8>,
    data: Vec<u8>,
    /// Whether this block or an earlier one had an `id`.
    has_ids: bool,
}

/// The data line that can still be passed in place: the only one so far, whole in the chunk at hand.
type InPlace<'c> = Option<&'c [u8]>;

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// A scanner at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::with_event_bytes_max(EVENT_BYTES_MAX)
    }

    /// A scanner that looks into events of at most `event_bytes_max` bytes.
    #[must_use]
    pub fn with_event_bytes_max(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            mark_len: Some(0),
            after_cr: false,
            line: Vec::new(),
            block: Block::default(),
        }
    }

    /// Whether a new event can be put in here without harm: at the start, and after the blank line that ends
    /// a block.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        !self.block.begun && self.line.is_empty() && matches!(self.mark_len, None | Some(0))
    }

    /// Whether an event has had an `id`: some readers then take every blank line for the end of an event.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        self.block.has_ids
    }

    /// Takes the next chunk and calls `on_event` for each block that ends in it.
    pub fn feed(&mut self, chunk: &[u8], mut on_event: impl FnMut(Event<'_>)) {
        let mut rest = self.skip_mark(chunk);
        let mut in_place: InPlace<'_> = None;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.keep_partial(rest);
                break;
            };
            let line = &rest[..end];
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if self.line.is_empty() {
                if line.is_empty() {
                    let ended = chunk.len() - rest.len();
                    let end = ended + usize::from(self.after_cr && rest.first() == Some(&b'\n'));
                    self.block.dispatch((in_place.take(), end), &mut on_event);
                } else {
                    self.block.take_line(line, &mut in_place, self.event_bytes_max);
                }
            } else {
                self.keep_partial(line);
                let mut whole = std::mem::take(&mut self.line);
                let mut copied = None;
                self.block.settle(in_place.take());
                self.block.take_line(&whole, &mut copied, self.event_bytes_max);
                self.block.settle(copied);
                whole.clear();
                self.line = whole;
            }
        }
        self.block.settle(in_place);
    }

    /// Ends the stream: an event whose blank line never came is passed on, since some servers close without
    /// it. (Strict readers drop such an event.) The scanner is then at the start of a new stream.
    pub fn finish(&mut self, mut on_event: impl FnMut(Event<'_>)) {
        if !self.line.is_empty() {
            let whole = std::mem::take(&mut self.line);
            let mut copied = None;
            self.block.take_line(&whole, &mut copied, self.event_bytes_max);
            self.block.settle(copied);
        }
        self.block.dispatch((None, 0), &mut on_event);
        self.after_cr = false;
        self.mark_len = Some(0);
    }

    /// Drops one byte order mark at the start of the stream; what only looked like one begins the first line.
    fn skip_mark<'c>(&mut self, chunk: &'c [u8]) -> &'c [u8] {
        let Some(seen) = self.mark_len else { return chunk };
        let expected = &BYTE_ORDER_MARK[usize::from(seen)..];
        let matching = chunk
            .iter()
            .zip(expected)
            .take_while(|(got, want)| got == want)
            .count();
        if matching == expected.len() {
            self.mark_len = None;
        } else if matching == chunk.len() {
            self.mark_len = Some(seen + u8::try_from(matching).unwrap_or_default());
        } else {
            self.mark_len = None;
            self.keep_partial(&BYTE_ORDER_MARK[..usize::from(seen)]);
            return chunk;
        }
        &chunk[matching..]
    }

    /// Keeps the start of a line, as far as it will matter.
    fn keep_partial(&mut self, part: &[u8]) {
        let Some(&first) = self.line.first().or(part.first()) else {
            return;
        };
        if first != b':' && !self.block.oversized {
            if self.block.len + self.line.len() + part.len() <= self.event_bytes_max {
                self.line.extend_from_slice(part);
                return;
            }
            self.block.overflow();
        }
        self.line.clear();
        self.line.push(first);
    }
}

impl Block {
    /// Takes one line, without its end; never empty.
    fn take_line<'c>(&mut self, line: &'c [u8], in_place: &mut InPlace<'c>, event_bytes_max: usize) {
        self.begun = true;
        if self.oversized || line[0] == b':' {
            return;
        }
        self.len += line.len();
        if self.len > event_bytes_max {
            *in_place = None;
            self.overflow();
            return;
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" if self.data_lines == 0 => {
                self.data_lines = 1;
                *in_place = Some(value);
            }
            b"data" => {
                self.settle(in_place.take());
                self.data_lines += 1;
                self.data.push(b'\n');
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            b"id" => self.has_ids = true,
            _ => {}
        }
    }

    /// Copies the data line that was left in place, because its chunk goes away or another line follows.
    fn settle(&mut self, in_place: InPlace<'_>) {
        if let Some(data) = in_place
            && !self.oversized
        {
            self.data.extend_from_slice(data);
        }
    }

    fn overflow(&mut self) {
        self.begun = true;
        self.oversized = true;
        self.data = Vec::new();
    }

    fn dispatch(&mut self, (in_place, end): (InPlace<'_>, usize), on_event: &mut impl FnMut(Event<'_>)) {
        if self.begun {
            let kind = match (self.oversized, self.data_lines) {
                (true, _) => EventKind::Oversized,
                (false, 0) => EventKind::Comment,
                (false, _) => EventKind::Data,
            };
            let name = std::str::from_utf8(&self.name)
                .ok()
                .filter(|name| !name.is_empty());
            on_event(Event {
                kind,
                name,
                data: in_place.unwrap_or(&self.data),
                end,
            });
        }
        self.begun = false;
        self.oversized = false;
        self.len = 0;
        self.data_lines = 0;
        self.name.clear();
        self.data.clear();
    }
}

#[cfg(test)]
mod tests;
