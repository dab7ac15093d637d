//! Taking out of a stream what asking for its usage has put in, where the client did not ask.
//!
//! With `include_usage` an OpenAI dialect adds one chunk, `"choices": []` with a usage, and many servers add
//! `"usage": null` to all others. The first is taken out whole, the second as a field; every other byte passes in place.
//! What an engine would have sent unasked in just these forms cannot be told apart and goes too; a usage beside choices
//! (DeepSeek, Mistral) stays, and so does everything in an error.
//!
//! Only the bytes of an event whose blank line has not come are held back, which readers would not act on either;
//! comments pass at once.

use std::ops::Range;
use std::sync::LazyLock;

use bytes::Bytes;
use memchr::{memchr, memchr2, memmem::Finder};
use smallvec::{SmallVec, smallvec};

use crate::fields::{each_field, each_item, says_something};
use crate::repeat::Repeat;

/// The largest event that is looked into, in bytes without its blank line. Larger ones pass as they are, and from there
/// on as they come: a usage chunk is a few hundred bytes.
const HELD_BYTES_MAX: usize = 64 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Without it there is nothing to take out. Made once: most events are searched in less time than a searcher is made.
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"usage\""));

/// What has to go of a block; hardly ever more than one range.
type Gaps = SmallVec<[Range<usize>; 1]>;

/// Filters one stream of chat/completions or completions. Feed it every chunk in order.
#[derive(Debug, Default)]
pub struct UnaskedUsage {
    /// The start of an event, from chunks that have passed.
    held: Vec<u8>,
    state: State,
    /// The last byte was a CR that ended a line: an LF now belongs to it.
    after_cr: bool,
    /// That line ended an event that was taken out, and so must the LF be.
    drop_lf: bool,
    line: Line,
    /// Comments of the block at hand have passed, so its blank line must.
    let_go: bool,
    /// A block has ended: no byte order mark can follow.
    begun: bool,
    nulls: Nulls,
}

/// Where the field that says `null` stands in events that repeat an earlier one but for their text.
#[derive(Debug, Default)]
struct Nulls {
    repeat: Repeat,
    /// From the end of the data to the field's beginning and to its end.
    from_end: Range<usize>,
}

impl Nulls {
    /// Takes what was found in one event's data.
    fn learn(&mut self, json: &str, choices: &str, null: &Range<usize>) {
        let text = a_text(choices).unwrap_or_default();
        let start = text.as_ptr().addr().wrapping_sub(json.as_ptr().addr());
        // A field before the text would stand still while the end moves.
        if !text.is_empty() && start < null.start {
            self.repeat.learn_text(json, text);
            self.from_end = json.len() - null.start..json.len() - null.end;
        }
    }

    /// The field in a block whose only line has the data of a repeated event.
    fn find(&self, block: &[u8], content: &Range<usize>) -> Option<Range<usize>> {
        let line = without_end(&block[content.clone()]);
        self.repeat.text_of(line.strip_prefix(b"data: ")?)?;
        let end = content.start + line.len();
        Some(end - self.from_end.start..end - self.from_end.end)
    }
}

/// The line without its end and the space before it, as JSON has space.
fn without_end(mut line: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t' | b'\n' | b'\r'] = line {
        line = rest;
    }
    line
}

/// A text of the choices, without its quotes.
fn a_text(choices: &str) -> Option<&str> {
    let mut found = None;
    let _ = each_item(choices, |choice| {
        let _ = each_field(choice, |key, value| match key {
            r#""delta""# => {
                let _ = each_field(value, |key, value| found = text_field(key, value).or(found));
            }
            _ => found = text_field(key, value).or(found),
        });
    });
    found
}

fn text_field<'a>(key: &str, value: &'a str) -> Option<&'a str> {
    match key {
        r#""content""# | r#""text""# | r#""reasoning_content""# | r#""reasoning""# => {
            value.strip_prefix('"')?.strip_suffix('"')
        }
        _ => None,
    }
}

/// What becomes of the block at hand.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing of it has come but comments, which pass.
    #[default]
    Between,
    /// It is held back.
    Holding,
    /// It is too large, and passes.
    Passing,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Line {
    #[default]
    Empty,
    Begun,
}

impl UnaskedUsage {
    /// A filter at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk, cut anywhere, and gives what may pass now.
    pub fn feed(&mut self, chunk: Bytes) -> Bytes {
        let mut out = Out::new(&chunk);
        // Up to where the chunk is read, and from where on it is held back.
        let (mut at, mut start) = (0, 0);
        while at < chunk.len() {
            if std::mem::take(&mut self.after_cr) && chunk[at] == b'\n' {
                at += 1;
                if std::mem::take(&mut self.drop_lf) {
                    out.leave_out(at - 1..at);
                }
            } else {
                self.drop_lf = false;
                let found = memchr2(b'\n', b'\r', &chunk[at..]);
                if found != Some(0) {
                    self.begin_line(chunk[at]);
                }
                let Some(end) = found.map(|found| at + found) else {
                    break;
                };
                at = end + 1;
                self.after_cr = chunk[end] == b'\r';
                if std::mem::take(&mut self.line) == Line::Empty {
                    if self.after_cr && chunk.get(at) == Some(&b'\n') {
                        self.after_cr = false;
                        at += 1;
                    }
                    self.end_block(&mut out, start..at);
                    start = at;
                }
            }
            if self.state != State::Holding {
                start = at;
            }
        }
        if self.state == State::Holding {
            self.hold(&mut out, start);
        }
        out.finish()
    }

    /// Ends the stream and gives what is still held back, unless it is to be taken out.
    pub fn finish(&mut self) -> Bytes {
        let held = std::mem::take(&mut self.held);
        let mark = if self.begun { 0 } else { mark_len(&held) };
        let gaps = gaps(&mut self.nulls, &held, mark..held.len());
        *self = Self::default();
        let held = Bytes::from(held);
        let mut out = Out::new(&held);
        gaps.into_iter().for_each(|gap| out.leave_out(gap));
        out.finish()
    }

    /// As [`Self::finish`], of a stream that may have been cut: the beginning of an event that can only become one that is taken
    /// out is left out too. `finished`: all choices have had their end, so that nothing else but the usage can have begun.
    pub fn cut(&mut self, finished: bool) -> Bytes {
        let mark = if self.begun { 0 } else { mark_len(&self.held) };
        if begins_unasked(&self.held[mark..], finished) {
            *self = Self::default();
        }
        self.finish()
    }

    fn begin_line(&mut self, first: u8) {
        if std::mem::replace(&mut self.line, Line::Begun) == Line::Begun || self.state != State::Between {
            return;
        }
        if first == b':' {
            self.let_go = true;
        } else {
            self.state = State::Holding;
        }
    }

    /// Keeps the rest of the chunk, from `start` on, until its event ends.
    fn hold(&mut self, out: &mut Out<'_>, start: usize) {
        let chunk = out.chunk;
        self.held.extend_from_slice(&chunk[start..]);
        out.leave_out(start..chunk.len());
        if self.held.len() > HELD_BYTES_MAX {
            out.put_in(&std::mem::take(&mut self.held));
            self.state = State::Passing;
        }
    }

    /// The block at hand has ended, the last of it at `part` of the chunk.
    fn end_block(&mut self, out: &mut Out<'_>, part: Range<usize>) {
        let state = std::mem::take(&mut self.state);
        let let_go = std::mem::take(&mut self.let_go);
        let begun = std::mem::replace(&mut self.begun, true);
        if state != State::Holding {
            return;
        }
        let chunk = out.chunk;
        let mut held = std::mem::take(&mut self.held);
        let in_place = held.is_empty();
        let block = if in_place {
            &chunk[part.clone()]
        } else {
            held.extend_from_slice(&chunk[part.clone()]);
            &held
        };
        let blank = if block.ends_with(b"\r\n") { 2 } else { 1 };
        let content = block.len() - blank;
        let mark = if begun { 0 } else { mark_len(block) };
        let mut gaps = if content > HELD_BYTES_MAX {
            Gaps::new()
        } else {
            gaps(&mut self.nulls, block, mark..content)
        };
        if gaps.first() == Some(&(mark..content)) && !let_go {
            gaps[0].end = block.len();
            self.drop_lf = block.ends_with(b"\r");
        }
        if in_place {
            gaps.into_iter()
                .for_each(|gap| out.leave_out(part.start + gap.start..part.start + gap.end));
            return;
        }
        out.leave_out(part);
        let mut from = 0;
        for gap in gaps {
            out.put_in(&held[from..gap.start]);
            from = gap.end;
        }
        out.put_in(&held[from..]);
        held.clear();
        self.held = held;
    }
}

/// What is made of one chunk: the chunk itself as long as nothing has to go.
struct Out<'a> {
    chunk: &'a Bytes,
    /// From here on the chunk is still to be taken.
    from: usize,
    made: Vec<u8>,
}

impl<'a> Out<'a> {
    fn new(chunk: &'a Bytes) -> Self {
        Self {
            chunk,
            from: 0,
            made: Vec::new(),
        }
    }

    /// Leaves out a range of the chunk that begins where the last one ended, or later.
    fn leave_out(&mut self, range: Range<usize>) {
        if self.made.is_empty() && range.start > self.from {
            // All that can come of the chunk, so that it grows no more.
            self.made.reserve(self.chunk.len() - range.len());
        }
        self.made.extend_from_slice(&self.chunk[self.from..range.start]);
        self.from = range.end;
    }

    fn put_in(&mut self, bytes: &[u8]) {
        self.made.extend_from_slice(bytes);
    }

    fn finish(mut self) -> Bytes {
        if self.made.is_empty() {
            return self.chunk.slice(self.from..);
        }
        self.made.extend_from_slice(&self.chunk[self.from..]);
        Bytes::from(self.made)
    }
}

fn mark_len(block: &[u8]) -> usize {
    if block.starts_with(BYTE_ORDER_MARK) {
        BYTE_ORDER_MARK.len()
    } else {
        0
    }
}

/// What of a block has to go: nothing, all of `content`, or the field that says `null`.
fn gaps(nulls: &mut Nulls, block: &[u8], content: Range<usize>) -> Gaps {
    if let Some(null) = nulls.find(block, &content) {
        return smallvec![null];
    }
    if USAGE.find(&block[content.clone()]).is_none() {
        return Gaps::new();
    }
    let lines = data_lines(block, content.clone());
    let mut joined = Vec::new();
    let data = match lines.as_slice() {
        [only] => &block[only.clone()],
        lines => {
            for (index, line) in lines.iter().enumerate() {
                if index > 0 {
                    joined.push(b'\n');
                }
                joined.extend_from_slice(&block[line.clone()]);
            }
            &joined
        }
    };
    let Ok(json) = std::str::from_utf8(data) else {
        return Gaps::new();
    };
    match unasked(json) {
        Some(Unasked::Chunk) => smallvec![content],
        Some(Unasked::Null { field, choices }) => {
            // Of several lines, it is not how the event stands in its block.
            if lines.len() == 1 {
                nulls.learn(json, choices, &field);
            }
            placed(&lines, &field)
        }
        None => Gaps::new(),
    }
}

/// Whether the block is the beginning of an event that is there for its usage alone.
fn begins_unasked(block: &[u8], finished: bool) -> bool {
    let Some(data) = data_lines(block, 0..block.len()).into_iter().next() else {
        return false;
    };
    let data = &block[data.start..];
    let valid = std::str::from_utf8(data).map_or_else(|error| error.valid_up_to(), str::len);
    let json = std::str::from_utf8(&data[..valid]).unwrap_or_default();
    let (mut choices, mut is_error) = (None, false);
    let whole = each_field(json, |key, value| match key {
        r#""choices""# => choices = Some(value),
        r#""error""# => is_error |= value != "null",
        _ => {}
    });
    if whole.is_ok() || is_error || !json.starts_with('{') {
        return false;
    }
    match choices {
        Some(choices) => choices.starts_with('[') && !says_something(choices),
        None => finished || (json.contains("\"usage\"") && !json.contains("\"choices\"")),
    }
}

/// Where the values of the block's `data` lines stand in it.
fn data_lines(block: &[u8], content: Range<usize>) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut at = content.start;
    while at < content.end {
        let len = memchr2(b'\n', b'\r', &block[at..content.end]).unwrap_or(content.end - at);
        let line = &block[at..at + len];
        let colon = memchr(b':', line).unwrap_or(len);
        if &line[..colon] == b"data" {
            let space = usize::from(line.get(colon + 1) == Some(&b' '));
            lines.push((at + colon + 1 + space).min(at + len)..at + len);
        }
        at += len + 1;
    }
    lines
}

/// The parts of `lines` that `range` of their joined text comes from.
fn placed(lines: &[Range<usize>], range: &Range<usize>) -> Gaps {
    let mut parts = Gaps::new();
    let mut offset = 0;
    for line in lines {
        let from = range.start.max(offset);
        let to = range.end.min(offset + line.len());
        if from < to {
            parts.push(line.start + from - offset..line.start + to - offset);
        }
        // The LF between them.
        offset += line.len() + 1;
    }
    parts
}

enum Unasked<'a> {
    /// A chunk that is there for its usage alone.
    Chunk,
    /// A field `"usage": null`.
    Null {
        /// With the comma that goes with it: a range of the data.
        field: Range<usize>,
        choices: &'a str,
    },
}

/// What of an event's data was not asked for.
fn unasked(json: &str) -> Option<Unasked<'_>> {
    let offset = |raw: &str| raw.as_ptr().addr() - json.as_ptr().addr();
    let mut choices = None;
    let mut usage = None;
    let mut is_error = false;
    // The end of the field before the usage, and the start of the one after.
    let (mut last_end, mut before, mut after) = (None, None, None);
    each_field(json, |key, value| {
        if usage.is_some() && after.is_none() {
            after = Some(offset(key));
        }
        match key {
            r#""usage""# => (usage, before, after) = (Some((key, value)), last_end, None),
            r#""choices""# => choices = Some(value),
            r#""error""# => is_error |= value != "null",
            r#""object""# => is_error |= value == r#""error""#,
            _ => {}
        }
        last_end = Some(offset(value) + value.len());
    })
    .ok()?;
    let choices = choices.filter(|choices| choices.starts_with('['))?;
    let (key, usage) = usage.filter(|_| !is_error)?;
    if usage.starts_with('{') && !says_something(choices) {
        return Some(Unasked::Chunk);
    }
    let end = offset(usage) + usage.len();
    (usage == "null").then(|| {
        let field = match before {
            Some(before) => before..end,
            None => offset(key)..after.unwrap_or(end),
        };
        Unasked::Null { field, choices }
    })
}

#[cfg(test)]
mod tests;
