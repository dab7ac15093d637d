//! Events of a whole stream, read as the WHATWG HTML standard (9.2.5, 9.2.6) has them, with the place of each.

use std::ops::Range;
use weighbridge_wire::sse::EventKind;

/// One block of lines, ended by a blank line or by the end of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) kind: EventKind,
    pub(crate) name: Option<String>,
    pub(crate) data: Vec<u8>,
    /// Its bytes, without a byte order mark before it, with its blank line.
    pub(crate) range: Range<usize>,
    /// Where the values of its `data` lines stand.
    pub(crate) data_lines: Vec<Range<usize>>,
    /// Up to where it is nothing but comments.
    pub(crate) comments_end: usize,
    /// Where its blank line begins; its end, where it has none.
    pub(crate) blank: usize,
    /// Whether its blank line came.
    pub(crate) finished: bool,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The length of the byte order mark before the first line.
pub(crate) fn mark_len(stream: &[u8]) -> usize {
    if stream.starts_with(BYTE_ORDER_MARK) { 3 } else { 0 }
}

/// All blocks of a stream; empty lines between them belong to none.
pub(crate) fn blocks(stream: &[u8]) -> Vec<Block> {
    if BYTE_ORDER_MARK.starts_with(stream) {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    let mut lines: Vec<Range<usize>> = Vec::new();
    let (mut at, mut start) = (mark_len(stream), mark_len(stream));
    while at < stream.len() {
        let rest = &stream[at..];
        let len = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let line = at..at + len.unwrap_or(rest.len());
        at = line.end
            + match &stream[line.end..] {
                [b'\r', b'\n', ..] => 2,
                [] => 0,
                _ => 1,
            };
        if !line.is_empty() {
            lines.push(line);
            continue;
        }
        if !lines.is_empty() {
            blocks.push(block(stream, &lines, start..at, Some(line.start)));
            lines.clear();
        }
        start = at;
    }
    if !lines.is_empty() {
        blocks.push(block(stream, &lines, start..at, None));
    }
    blocks
}

fn block(stream: &[u8], lines: &[Range<usize>], range: Range<usize>, blank: Option<usize>) -> Block {
    let (mut name, mut data_lines) = (Vec::new(), Vec::new());
    for line in lines {
        let text = &stream[line.clone()];
        let colon = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
        let space = usize::from(text.get(colon + 1) == Some(&b' '));
        let value = (line.start + colon + 1 + space).min(line.end)..line.end;
        match &text[..colon] {
            b"data" => data_lines.push(value),
            b"event" => name = stream[value].to_vec(),
            _ => {}
        }
    }
    let values: Vec<&[u8]> = data_lines.iter().map(|line| &stream[line.clone()]).collect();
    let first = lines.iter().find(|line| stream[line.start] != b':');
    Block {
        kind: if data_lines.is_empty() {
            EventKind::Comment
        } else {
            EventKind::Data
        },
        name: String::from_utf8(name).ok().filter(|name| !name.is_empty()),
        data: values.join(&b'\n'),
        comments_end: first.map_or(range.end, |line| line.start),
        blank: blank.unwrap_or(range.end),
        finished: blank.is_some(),
        data_lines,
        range,
    }
}
