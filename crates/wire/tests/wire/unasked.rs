//! What asking for usage adds to a stream is taken out again, wherever the stream is cut, and nothing else.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;
use weighbridge_wire::{Api, Peek, StreamObserver, UnaskedUsage, rewrite};

use crate::recorded;

fn filtered<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut filter = UnaskedUsage::new();
    let mut passed = Vec::new();
    for chunk in chunks {
        passed.extend_from_slice(&filter.feed(Bytes::copy_from_slice(chunk)));
    }
    passed.extend_from_slice(&filter.finish());
    passed
}

/// The recorded streams of chat and text completions, in blocks without their blank lines.
fn recordings() -> Vec<(String, Vec<String>)> {
    let blocks = |stream: Vec<u8>| -> Vec<String> {
        let stream = String::from_utf8_lossy(&stream);
        let blocks = stream.split("\n\n").map(str::to_owned);
        blocks.filter(|block| !block.is_empty()).collect()
    };
    let found: Vec<_> = recorded::streams()
        .into_iter()
        .map(|(path, stream)| (path, blocks(stream)))
        .filter(|(_, blocks)| blocks.iter().any(|block| data(block)["choices"].is_array()))
        .collect();
    assert!(found.len() > 15, "{} recordings", found.len());
    found
}

fn data(block: &str) -> Value {
    let data = block.lines().find_map(|line| line.strip_prefix("data: "));
    data.and_then(|data| serde_json::from_str(data).ok())
        .unwrap_or_default()
}

fn is_usage_chunk(block: &str) -> bool {
    let data = data(block);
    data["choices"].as_array().is_some_and(Vec::is_empty) && data["usage"].is_object()
}

fn joined(blocks: &[String]) -> String {
    blocks.iter().map(|block| format!("{block}\n\n")).collect()
}

/// The stream as it is where nobody asks for its usage.
fn unasked(blocks: &[String]) -> Vec<String> {
    blocks
        .iter()
        .filter(|block| !is_usage_chunk(block))
        .map(|block| block.replace(",\"usage\":null", ""))
        .inspect(|block| assert_ne!(data(block).get("usage"), Some(&Value::Null), "{block}"))
        .collect()
}

/// The same, as servers write it that were asked for its usage.
fn asked(blocks: &[String]) -> Vec<String> {
    let mut asked = Vec::new();
    for block in blocks {
        if block == "data: [DONE]" {
            asked.push(
                r#"data: {"id":"c","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":12}}"#
                    .to_owned(),
            );
        }
        let chunk = data(block);
        let takes_null = chunk["choices"].is_array() && chunk.get("usage").is_none();
        asked.push(match block.strip_suffix('}').filter(|_| takes_null) {
            Some(open) => format!("{open}, \"usage\": null}}"),
            None => block.clone(),
        });
    }
    asked
}

#[test]
fn recorded_streams_lose_what_was_not_asked_for() {
    let mut with_usage = 0;
    for (path, blocks) in recordings() {
        with_usage += blocks.iter().filter(|block| is_usage_chunk(block)).count();
        let plain = joined(&unasked(&blocks));
        for stream in [&blocks, &asked(&unasked(&blocks))] {
            for end in ["\n", "\r\n", "\r"] {
                let (stream, plain) = (joined(stream).replace('\n', end), plain.replace('\n', end));
                let (bytes, plain) = (stream.as_bytes(), plain.as_bytes());
                let step = 1 + bytes.len() / 60;
                for at in (0..=bytes.len()).step_by(step) {
                    let passed = filtered([&bytes[..at], &bytes[at..]]);
                    assert!(passed == plain, "{path} with {end:?} cut at {at}");
                }
                for size in [1, 7, 100] {
                    assert!(
                        filtered(bytes.chunks(size)) == plain,
                        "{path} in chunks of {size}"
                    );
                }
            }
        }
    }
    assert!(with_usage > 5, "{with_usage} recordings hold a usage chunk");
}

#[test]
fn what_is_taken_out_is_still_counted_and_else_estimated() {
    for (path, blocks) in recordings() {
        let observed = |blocks: &[String]| {
            let mut observer = StreamObserver::new(Api::ChatCompletions);
            observer.feed(joined(blocks).as_bytes());
            observer.counted(|| 5).unwrap()
        };
        let counted = observed(&asked(&blocks));
        assert!(!counted.estimated, "{path}");
        // No usage at all.
        let silent: Vec<String> = unasked(&blocks)
            .iter()
            .map(|block| block.replace("\"usage\":{", "\"unused\":{"))
            .collect();
        let estimate = observed(&silent);
        assert!(estimate.estimated && estimate.usage.prompt_tokens == 5, "{path}");
        let content = silent
            .iter()
            .any(|block| block.contains("\"content\":\"") && !block.contains("\"content\":\"\""));
        assert!(!content || estimate.usage.completion_tokens > 0, "{path}");
    }
}

/// Recordings of text and visible thoughts, all of which their usage counts.
const TEXTS: [&str; 3] = [
    "vercel-ai/deepseek-reasoning.chunks.txt",
    "vercel-ai/deepseek-text.chunks.txt",
    "vercel-ai/mistral-text.chunks.txt",
];

#[test]
fn estimates_of_recorded_texts_are_near() {
    for path in TEXTS {
        let stream = String::from_utf8(recorded::stream(path)).unwrap();
        let mut observer = StreamObserver::new(Api::ChatCompletions);
        observer.feed(stream.as_bytes());
        let reported = observer.usage().unwrap().completion_tokens;
        let mut text = weighbridge_wire::TextTokens::default();
        for chunk in stream.split("\n\n").map(data) {
            let delta = &chunk["choices"][0]["delta"];
            for piece in [&delta["content"], &delta["reasoning_content"]] {
                text.add(piece.as_str().unwrap_or_default());
            }
        }
        let estimated = text.tokens();
        // 12 %, and on a few tokens 3.
        assert!(
            estimated.abs_diff(reported) * 8 <= reported.max(24),
            "{path}: {estimated} for {reported}"
        );
    }
}

/// Pieces of streams that reach every branch of the filter.
fn streamlike() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just("\n"),
        3 => Just("\n\n"),
        2 => Just("\r\n"),
        2 => Just("\r"),
        2 => Just("data: "),
        1 => Just("data:"),
        1 => Just(": c"),
        1 => Just("id: 1\n"),
        1 => Just("\u{feff}"),
        3 => Just(r#"data: {"choices":[],"usage":{"prompt_tokens":1}}"#),
        3 => Just(r#"data: {"choices":[{}],"usage":null}"#),
        1 => Just("data: {\"choices\":[{}],\ndata: \"usage\":null}"),
        1 => Just(r#"{"usage":"#),
        1 => Just("null}"),
        1 => Just("[DONE]"),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_stream_is_filtered_the_same_cut_anywhere(
        stream in streamlike(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).chain([stream.len()]).collect();
        ends.sort_unstable();
        let mut start = 0;
        let parts: Vec<_> = ends.iter().map(|&end| &stream[std::mem::replace(&mut start, end)..end]).collect();
        let whole = filtered([stream.as_slice()]);
        prop_assert_eq!(&filtered(parts), &whole);
        prop_assert_eq!(&filtered(stream.chunks(1)), &whole);
    }

    #[test]
    fn asking_changes_nothing_else(options in prop_oneof![
        Just(""), Just(r#","stream_options":null"#), Just(r#", "stream_options" : { } "#),
        Just(r#","stream_options":{"a":[1.0,{}]}"#), Just(r#","stream_options":{"include_usage":false,"b":1e400}"#),
    ], before in "[a-z]{0,8}", after in "[ \\t]{0,3}") {
        let text = format!(r#"{{"{before}x":{after}12345678901234567890,"stream":true{options},"model":"m"{after}}}"#);
        let body = Bytes::from(text.clone());
        let peek = Peek::new(&body, &[]).unwrap();
        let asked = rewrite(&body, &peek, ("m", true));
        prop_assert_eq!(Peek::new(&asked, &[]).unwrap().include_usage, Some(true));
        let asked = String::from_utf8(asked.to_vec()).unwrap();
        // Without what was written the body is what it was.
        let restored = match options {
            "" => asked.replace(r#""stream_options":{"include_usage":true},"#, ""),
            o if o.contains("null") => asked.replace(r#"{"include_usage":true}"#, "null"),
            o if o.contains("false") => asked.replace(r#""include_usage":true"#, r#""include_usage":false"#),
            o if o.contains("[1.0") => asked.replace(r#""include_usage":true,"#, ""),
            _ => asked.replace(r#""include_usage":true"#, ""),
        };
        prop_assert_eq!(restored, text);
    }
}
