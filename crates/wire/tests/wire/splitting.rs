//! However a stream is cut on its way, the same events are found.

use bytes::Bytes;
use proptest::prelude::*;
use weighbridge_wire::sse::{EventKind, Scanner};
use weighbridge_wire::{Api, InBandError, StreamObserver, UnaskedUsage, Usage};

use crate::recorded;

/// Streams of forms that no recording has.
const WRITTEN: &[&str] = &[
    "event: a\r\ndata: 1\r\n\r\n: ping\r\n\r\ndata: {\"x\":\r\ndata: 2}\r\n\r\ndata: [DONE]\r\n\r\n",
    "data: 1\r\rdata: 2\rdata: 3\r\r: c\r\r",
    "data: 1\n\r\ndata: 2\r\n\ndata: 3\r\n\r",
    "\u{feff}id: 1\nevent:x\ndata:y\n\nretry: 5\n\ndata\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"h\u{e9} 你好\u{2028}世界\u{2029}\u{85} 🙂\"}}]}\n\ndata: cut of",
    ": a\n: b\n\n:\n\ndata: x\n: c\ndata: y\n\n\n\n",
    "data: {\"error\":{\"message\":\"no\",\"code\":500}}\n\n",
    "event: ping\ndata: {}\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
];

#[derive(Debug, PartialEq)]
struct Seen {
    events: Vec<(EventKind, Option<String>, Vec<u8>)>,
    at_boundary: bool,
    last: Vec<Vec<u8>>,
}

fn scan<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let mut scanner = Scanner::new();
    let mut events = Vec::new();
    for chunk in chunks {
        scanner.feed(chunk, |event| {
            events.push((event.kind, event.name.map(str::to_owned), event.data.to_vec()))
        });
    }
    let at_boundary = scanner.at_boundary();
    let mut last = Vec::new();
    scanner.finish(|event| last.push(event.data.to_vec()));
    Seen {
        events,
        at_boundary,
        last,
    }
}

#[derive(Debug, PartialEq)]
struct Observed {
    events: u64,
    content_events: u64,
    firsts: usize,
    ends: (bool, bool, bool, bool),
    usage: Option<Usage>,
    error: Option<InBandError>,
}

fn observe<'a>(api: Api, chunks: impl IntoIterator<Item = &'a [u8]>) -> Observed {
    let mut observer = StreamObserver::new(api);
    let firsts = chunks
        .into_iter()
        .filter(|chunk| observer.feed(chunk).first_content)
        .count();
    Observed {
        events: observer.events(),
        content_events: observer.content_events(),
        firsts,
        ends: (
            observer.done(),
            observer.finished(),
            observer.error_first(),
            observer.at_boundary(),
        ),
        usage: observer.usage(),
        error: observer.error().cloned(),
    }
}

const OBSERVED: [Api; 4] = [
    Api::ChatCompletions,
    Api::Completions,
    Api::Responses,
    Api::Messages,
];

/// The scanner at every single cut; the observer, which parses each event again, at every cut of a short
/// stream and at some of a long one.
fn check_cuts(name: &str, stream: &[u8], step: usize) {
    let whole = scan([stream]);
    let observed = OBSERVED.map(|api| observe(api, [stream]));
    for at in 0..=stream.len() {
        let parts = [&stream[..at], &stream[at..]];
        if at % step == 0 {
            assert_eq!(scan(parts), whole, "{name} cut at {at}");
        }
        if at % (step * (1 + stream.len() / 500)) == 0 {
            for (api, observed) in OBSERVED.iter().zip(&observed) {
                assert_eq!(observe(*api, parts), *observed, "{name} cut at {at}, {api:?}");
            }
        }
    }
    for size in [1, 2, 3, 7, 64, 1000] {
        assert_eq!(scan(stream.chunks(size)), whole, "{name} in chunks of {size}");
    }
}

#[test]
fn recorded_streams_cut_anywhere() {
    for (path, stream) in recorded::streams() {
        // The longest recordings repeat one form hundreds of times: a prime step still meets many places in it, and every
        // place is cut at below.
        let step = if stream.len() <= 15_000 { 1 } else { 499 };
        check_cuts(&path, &stream, step);
    }
}

/// The blocks of a stream, each with its blank line; what follows the last one is a block too.
fn blocks(stream: &[u8]) -> Vec<&[u8]> {
    let ends = memchr::memmem::find_iter(stream, b"\n\n").map(|at| at + 2);
    let mut start = 0;
    let blocks = ends
        .chain([stream.len()])
        .map(|end| &stream[std::mem::replace(&mut start, end)..end]);
    blocks.filter(|block| !block.is_empty()).collect()
}

fn filtered(parts: [&[u8]; 2]) -> Vec<u8> {
    let mut filter = UnaskedUsage::new();
    let mut passed = Vec::new();
    for part in parts {
        passed.extend_from_slice(&filter.feed(Bytes::copy_from_slice(part)));
    }
    passed.extend_from_slice(&filter.finish());
    passed
}

/// Every place of every recording. A block begins where the one before it has left nothing behind, which is seen to first;
/// so a cut matters to its own block and the one behind it, and the others need not be read again for each.
#[test]
fn recorded_streams_cut_at_every_place() {
    let mut places = 0;
    for (path, stream) in recorded::streams().into_iter().chain(recorded::snapshots()) {
        let all = blocks(&stream);
        let alone: Vec<_> = all.iter().flat_map(|block| scan([*block]).events).collect();
        assert_eq!(scan([stream.as_slice()]).events, alone, "{path}");
        let api = match () {
            () if memchr::memmem::find(&stream, b"\"choices\"").is_some() => Api::ChatCompletions,
            () if memchr::memmem::find(&stream, b"response.").is_some() => Api::Responses,
            () => Api::Messages,
        };
        let mut start = 0;
        for (place, block) in all.iter().enumerate() {
            let after = all.get(place + 1).map_or(0, |after| after.len());
            let window = &stream[start..start + block.len() + after];
            let whole = (scan([window]), observe(api, [window]), filtered([window, b""]));
            for at in 0..=block.len() {
                let parts = [&window[..at], &window[at..]];
                let cut = (scan(parts), observe(api, parts), filtered(parts));
                assert!(cut == whole, "{path} cut at {}", start + at);
            }
            start += block.len();
        }
        assert_eq!(start, stream.len());
        places += stream.len();
    }
    assert!(places > 500_000, "{places} places");
}

#[test]
fn written_streams_cut_anywhere() {
    for stream in WRITTEN {
        check_cuts(stream, stream.as_bytes(), 1);
        for first in 0..stream.len() {
            for second in first..stream.len() {
                let bytes = stream.as_bytes();
                let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(
                    scan(parts),
                    scan([bytes]),
                    "{stream:?} cut at {first} and {second}"
                );
            }
        }
    }
}

#[test]
fn recorded_streams_mean_the_same_with_other_line_ends() {
    for (path, stream) in recorded::streams() {
        let stream = String::from_utf8(stream).unwrap();
        let whole = scan([stream.as_bytes()]);
        for end in ["\r\n", "\r"] {
            let other = stream.replace('\n', end);
            assert_eq!(scan(other.as_bytes().chunks(4096)), whole, "{path} with {end:?}");
        }
    }
}

/// Bytes that look enough like a stream to reach every branch.
fn streamlike() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\n".to_vec()),
        2 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        3 => Just(b"data: ".to_vec()),
        1 => Just(b"event: error\n".to_vec()),
        1 => Just(b": c\n".to_vec()),
        1 => Just(b"\xef\xbb\xbf".to_vec()),
        2 => Just(br#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#.to_vec()),
        1 => Just(br#"{"type":"message_delta","delta":{"stop_reason":"x"},"usage":{"output_tokens":3}}"#.to_vec()),
        1 => Just(br#"{"type":"response.completed","response":{"usage":{"input_tokens":1}}}"#.to_vec()),
        1 => Just(br#"{"error":{"code":"429","message":["#.to_vec()),
        2 => proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_cut_anywhere(stream in streamlike(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).chain([stream.len()]).collect();
        ends.sort_unstable();
        let mut start = 0;
        let parts: Vec<_> = ends.iter().map(|&end| &stream[std::mem::replace(&mut start, end)..end]).collect();
        prop_assert_eq!(scan(parts.iter().copied()), scan([stream.as_slice()]));
        for api in OBSERVED {
            prop_assert_eq!(observe(api, parts.iter().copied()), observe(api, [stream.as_slice()]));
        }
    }
}
