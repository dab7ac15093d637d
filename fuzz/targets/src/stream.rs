//! Streams of events: however they are cut, they mean the same, and only what was not asked for is taken out.

use crate::input::{Input, cut};
use crate::json::{self, Kind, Node};
use crate::sse::{self, Block};
use bytes::Bytes;
use weighbridge_wire::sse::{Event, EventKind, Scanner};
use weighbridge_wire::{
    Api, Counted, ErrorBody, InBandError, StreamObserver, UnaskedUsage, Usage, body_error, body_id,
    body_usage, end_usage,
};

const APIS: [Api; 8] = [
    Api::ChatCompletions,
    Api::Completions,
    Api::Responses,
    Api::Messages,
    Api::ImageGenerations,
    Api::Speech,
    Api::Transcriptions,
    Api::Passthrough,
];

/// Stands for more than the filter holds back.
const LONG: u8 = 0xff;
/// Stands for more than the scanner keeps of an event.
const LONGER: u8 = 0xfe;

/// The API, the places to cut at, and the stream.
pub fn check(data: &[u8]) {
    let mut input = Input(data);
    let first = input.byte();
    let api = APIS[usize::from(first) % APIS.len()];
    let limit = usize::from(input.byte());
    let cuts = input.cuts();
    // Seldom, since it is slow.
    let stream = if first >= 0xf0 {
        grown(input.0)
    } else {
        input.0.to_vec()
    };
    let parts = cut(&stream, &cuts);
    check_scanner(&stream, &parts);
    check_small_scanner(&stream, &parts, limit);
    check_observer(api, &stream, &parts);
    check_filter(&stream, &parts);
    check_whole(api, &stream);
    if let Some(error) = body_error(&stream) {
        assert!(!error.message.is_empty());
    }
}

/// As an answer in one piece: what its end says of usage is what all of it says. Its id is that of a response.
fn check_whole(api: Api, body: &[u8]) {
    let at_end = end_usage(api, body);
    // Nobody writes the name with escapes, so the end is not searched for that.
    let escaped = memchr::memmem::find(body, b"\\u").is_some();
    let once = !escaped && memchr::memmem::find_iter(body, b"\"usage\"").count() == 1;
    if let Some(usage) = body_usage(api, body).filter(|_| once) {
        assert_eq!(at_end, Some(usage));
    }
    let _ = body_id(body);
}

/// The stream with the first of each long part written out.
fn grown(stream: &[u8]) -> Vec<u8> {
    let mut grown = Vec::with_capacity(stream.len());
    let (mut long, mut longer) = (70_000, 1_100_000);
    for byte in stream {
        let times = match *byte {
            LONG => std::mem::replace(&mut long, 1),
            LONGER => std::mem::replace(&mut longer, 1),
            _ => 1,
        };
        if times == 1 {
            grown.push(*byte);
        } else {
            grown.resize(grown.len() + times, b'x');
        }
    }
    grown
}

#[derive(Debug, PartialEq)]
struct Seen {
    kind: EventKind,
    name: Option<String>,
    data: Vec<u8>,
}

impl Seen {
    fn of(event: &Event<'_>) -> Self {
        Self {
            kind: event.kind,
            name: event.name.map(str::to_owned),
            data: event.data.to_vec(),
        }
    }
}

/// Events, the places where they end, and the one that the end of the stream ends.
fn scan(mut scanner: Scanner, parts: &[&[u8]]) -> (Vec<(Seen, usize)>, Option<Seen>, bool) {
    let mut seen = Vec::new();
    let mut start = 0;
    for part in parts {
        scanner.feed(part, |event| {
            assert!(event.end <= part.len());
            seen.push((Seen::of(&event), start + event.end));
        });
        start += part.len();
    }
    let at_boundary = scanner.at_boundary();
    let mut last = None;
    scanner.finish(|event| last = Some(Seen::of(&event)));
    assert!(scanner.at_boundary());
    (seen, last, at_boundary)
}

/// Whether two places are the same, but for a cut between CR and LF, where the event ends before the LF has come.
fn same_place(stream: &[u8], whole: usize, cut: usize) -> bool {
    cut == whole || (cut + 1 == whole && stream[cut - 1..].starts_with(b"\r\n"))
}

fn check_scanner(stream: &[u8], parts: &[&[u8]]) {
    let blocks = sse::blocks(stream);
    let expected = |block: &Block| Seen {
        kind: block.kind,
        name: block.name.clone(),
        data: block.data.clone(),
    };
    let large = blocks
        .iter()
        .any(|block| block.range.len() > weighbridge_wire::sse::EVENT_BYTES_MAX);
    for parts in [parts, &[stream]] {
        let (seen, last, at_boundary) = scan(Scanner::new(), parts);
        if large {
            continue;
        }
        let mut ended = seen.iter();
        for block in blocks.iter().filter(|block| block.finished) {
            let (event, end) = ended.next().expect("an event of the standard was not found");
            assert_eq!(*event, expected(block));
            assert!(same_place(stream, block.range.end, *end), "{end} {block:?}");
        }
        assert_eq!(ended.next(), None, "an event that the standard does not know");
        let unfinished = blocks.last().filter(|block| !block.finished);
        assert_eq!(last, unfinished.map(expected));
        assert!(!at_boundary || unfinished.is_none());
    }
}

/// A scanner that keeps little decides about what is too large the same way wherever the stream is cut.
fn check_small_scanner(stream: &[u8], parts: &[&[u8]], limit: usize) {
    let whole = scan(Scanner::with_event_bytes_max(limit), &[stream]);
    let cut = scan(Scanner::with_event_bytes_max(limit), parts);
    let events = |scanned: &[(Seen, usize)]| scanned.iter().map(|(_, end)| *end).collect::<Vec<_>>();
    for ((one, at), (other, cut_at)) in whole.0.iter().zip(&cut.0) {
        assert_eq!(one, other);
        assert!(same_place(stream, *at, *cut_at));
        assert!(one.data.len() <= limit.max(stream.len()));
        assert!(one.kind != EventKind::Oversized || one.data.is_empty());
    }
    assert_eq!(events(&whole.0).len(), events(&cut.0).len());
    assert_eq!((whole.1, whole.2), (cut.1, cut.2));
}

#[derive(Debug, PartialEq)]
struct Observed {
    events: u64,
    content_events: u64,
    firsts: usize,
    progress: bool,
    ends: [bool; 4],
    usage: Option<Usage>,
    counted: Option<Counted>,
    error: Option<InBandError>,
    has_ids: bool,
    response: Option<Box<str>>,
}

fn observe(api: Api, parts: &[&[u8]]) -> (Observed, Observed, Option<usize>) {
    let mut observer = StreamObserver::new(api);
    let (mut firsts, mut progress, mut error_end, mut start) = (0, false, None, 0);
    for part in parts {
        let fed = observer.feed(part);
        firsts += usize::from(fed.first_content);
        progress |= fed.progress;
        if let Some(end) = fed.error_end {
            assert!(end <= part.len() && error_end.is_none());
            error_end = Some(start + end);
        }
        start += part.len();
    }
    let state = |observer: &mut StreamObserver, firsts, progress| Observed {
        events: observer.events(),
        content_events: observer.content_events(),
        firsts,
        progress,
        ends: [
            observer.done(),
            observer.finished(),
            observer.error_first(),
            observer.at_boundary(),
        ],
        usage: observer.usage(),
        counted: observer.counted(|| 7),
        error: observer.error().cloned(),
        has_ids: observer.has_ids(),
        response: observer.take_response_id(),
    };
    let before = state(&mut observer, firsts, progress);
    let fed = observer.finish();
    let after = state(
        &mut observer,
        firsts + usize::from(fed.first_content),
        progress || fed.progress,
    );
    (before, after, error_end)
}

fn check_observer(api: Api, stream: &[u8], parts: &[&[u8]]) {
    let whole = observe(api, &[stream]);
    let cut = observe(api, parts);
    assert_eq!((&whole.0, &whole.1), (&cut.0, &cut.1));
    match (whole.2, cut.2) {
        (None, None) => {}
        (Some(one), Some(other)) => assert!(same_place(stream, one, other)),
        different => panic!("{different:?}"),
    }
    let end = whole.1;
    assert!(end.content_events <= end.events && end.firsts <= 1);
    assert_eq!(end.firsts > 0, end.content_events > 0);
    assert_eq!(end.progress, end.events > 0);
    if let Some(error) = &end.error {
        assert!(!error.message.is_empty());
        assert!(error.status.is_none_or(|status| (400..600).contains(&status)));
        let told = ErrorBody::in_band(api.protocol(), error).render(api.protocol());
        assert!(serde_json::from_slice::<serde_json::Value>(&told).is_ok());
    }
}

fn filter(parts: &[&[u8]]) -> Vec<u8> {
    let mut filter = UnaskedUsage::new();
    let mut passed = Vec::new();
    for part in parts {
        passed.extend_from_slice(&filter.feed(Bytes::copy_from_slice(part)));
    }
    passed.extend_from_slice(&filter.finish());
    passed
}

fn check_filter(stream: &[u8], parts: &[&[u8]]) {
    let passed = filter(&[stream]);
    assert!(passed == filter(parts), "the filter depends on the cuts");
    let Some(expected) = expected(stream) else { return };
    assert!(
        passed == expected,
        "passed {:?}\nexpected {:?}",
        String::from_utf8_lossy(&passed),
        String::from_utf8_lossy(&expected)
    );
}

/// Most bytes of an event that the filter looks into, its blank line aside.
const HELD_BYTES_MAX: usize = 64 * 1024;

/// What the filter must make of a stream; none where the model cannot tell.
fn expected(stream: &[u8]) -> Option<Vec<u8>> {
    let mut expected = Vec::new();
    let mut from = 0;
    for mut block in sse::blocks(stream) {
        if block.range.start > 0 && block.range.start == sse::mark_len(stream) {
            // Comments behind a byte order mark are held back with the event.
            block.comments_end = block.range.start;
        }
        if block.data_lines.is_empty() || block.blank - block.comments_end > HELD_BYTES_MAX {
            continue;
        }
        let Ok(data) = std::str::from_utf8(&block.data) else {
            continue;
        };
        let tree = match json::parse(data) {
            Ok(tree) => tree,
            Err(json::Fault::Invalid) => continue,
            Err(json::Fault::TooDeep) => return None,
        };
        match unasked(data, &tree) {
            None => {}
            Some(Unasked::Chunk) => {
                expected.extend_from_slice(&stream[from..block.comments_end]);
                let comments = block.comments_end > block.range.start;
                from = if comments { block.blank } else { block.range.end };
            }
            Some(Unasked::Null(range)) => {
                let mut offset = 0;
                for line in &block.data_lines {
                    let begin = line.start + range.start.max(offset).min(offset + line.len()) - offset;
                    let end = line.start + range.end.max(offset).min(offset + line.len()) - offset;
                    expected.extend_from_slice(&stream[from..begin]);
                    from = end;
                    offset += line.len() + 1;
                }
            }
        }
    }
    expected.extend_from_slice(&stream[from..]);
    Some(expected)
}

enum Unasked {
    Chunk,
    Null(std::ops::Range<usize>),
}

/// A chunk that is there for its usage alone, or a usage that says nothing, in a chunk that is no error.
fn unasked(data: &str, tree: &Node<'_>) -> Option<Unasked> {
    let fields = tree.fields()?;
    // Servers that write keys with escapes are not known.
    let last = |name: &str| fields.iter().rposition(|(key, _)| key.raw == name);
    let choices = &fields[last(r#""choices""#)?].1;
    let Kind::List(items) = &choices.kind else {
        return None;
    };
    let is_error = |(key, value): &(Node<'_>, Node<'_>)| {
        (key.raw == r#""error""# && !matches!(value.kind, Kind::Null))
            || (key.raw == r#""object""# && value.raw == r#""error""#)
    };
    if fields.iter().any(is_error) {
        return None;
    }
    let place = last(r#""usage""#)?;
    let (key, usage) = &fields[place];
    let offset = |raw: &str| Node::offset(data, raw);
    let end = offset(usage.raw) + usage.raw.len();
    match (&usage.kind, place.checked_sub(1), fields.get(place + 1)) {
        (Kind::Object(_), ..) if items.is_empty() => Some(Unasked::Chunk),
        (Kind::Null, Some(before), _) => {
            let before = fields[before].1.raw;
            Some(Unasked::Null(offset(before) + before.len()..end))
        }
        (Kind::Null, None, Some((after, _))) => Some(Unasked::Null(offset(key.raw)..offset(after.raw))),
        (Kind::Null, None, None) => Some(Unasked::Null(offset(key.raw)..end)),
        _ => None,
    }
}
