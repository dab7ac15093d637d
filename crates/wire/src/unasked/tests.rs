use super::*;

fn filtered(stream: &str) -> String {
    let mut filter = UnaskedUsage::new();
    let mut out = filter.feed(Bytes::copy_from_slice(stream.as_bytes())).to_vec();
    out.extend_from_slice(&filter.finish());
    String::from_utf8(out).unwrap()
}

const USAGE: &str = r#"{"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#;

#[test]
fn the_usage_chunk_goes_in_every_framing() {
    for end in ["\n", "\r\n", "\r"] {
        let around = |middle: &str| {
            format!("data: {{\"choices\":[{{}}]}}\n\n{middle}data: [DONE]\n\n").replace('\n', end)
        };
        for chunk in [
            format!("data: {USAGE}\n\n"),
            format!("data:{USAGE}\n\n"),
            format!("id: 7\ndata: {USAGE}\n\n"),
            format!(
                "event: message\ndata: {}\n\n",
                USAGE.replace(",\"usage", "\ndata: ,\"usage")
            ),
            format!("data: {}\n\n", USAGE.replace(':', " : ").replace("[]", "[ ]")),
        ] {
            assert_eq!(filtered(&around(&chunk)), around(""), "{chunk:?}");
        }
        // A comment before it has passed, and is closed.
        assert_eq!(
            filtered(&around(&format!(": alive\ndata: {USAGE}\n\n"))),
            around(": alive\n\n")
        );
    }
    assert_eq!(filtered(&format!("data: a\n\ndata: {USAGE}")), "data: a\n\n");
    assert_eq!(
        filtered(&format!("\u{feff}data: {USAGE}\n\ndata: a\n\n")),
        "\u{feff}data: a\n\n"
    );
}

#[test]
fn a_usage_of_null_goes_alone() {
    for (event, expect) in [
        (r#"{"choices":[{}],"usage":null}"#, r#"{"choices":[{}]}"#),
        (r#"{"usage":null,"choices":[{}]}"#, r#"{"choices":[{}]}"#),
        (r#"{"usage" : null , "choices":[{}]}"#, r#"{"choices":[{}]}"#),
        (
            r#"{"a":1 , "usage": null , "choices":[{}] }"#,
            r#"{"a":1 , "choices":[{}] }"#,
        ),
        (r#"{"choices":[],"usage":null}"#, r#"{"choices":[]}"#),
    ] {
        assert_eq!(
            filtered(&format!("data: {event}\n\n")),
            format!("data: {expect}\n\n")
        );
    }
    assert_eq!(
        filtered("data: {\"choices\":[{}],\ndata: \"usage\":\ndata: null}\nid: 1\n\n"),
        "data: {\"choices\":[{}]\ndata: \ndata: }\nid: 1\n\n"
    );
}

#[test]
fn everything_else_stays() {
    for event in [
        r#"{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[{"delta":{"content":"\"usage\":null"}}]}"#,
        r#"{"choices":[],"prompt_filter_results":[]}"#,
        r#"{"choices":[],"error":{"message":"x"},"usage":{"prompt_tokens":1}}"#,
        r#"{"object":"error","choices":[],"usage":null}"#,
        r#"{"usage":null}"#,
        r#"{"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":null,"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1}"#,
        r#"{"choices":[{"usage":null}]}"#,
        "[DONE]",
        "",
    ] {
        let stream = format!("data: {event}\n\n");
        assert_eq!(filtered(&stream), stream);
    }
    for stream in [
        "",
        "\n\n\r\n\r",
        ": c\r: d\r\r",
        "data",
        "event: usage\n\n",
        "\u{feff}",
        ":",
    ] {
        assert_eq!(filtered(stream), stream);
    }
}

#[test]
fn only_an_unfinished_event_is_held_back() {
    let mut filter = UnaskedUsage::new();
    let mut feed = |bytes: &'static str| filter.feed(Bytes::from_static(bytes.as_bytes()));
    assert_eq!(feed(": c"), ": c");
    assert_eq!(feed("omment\n"), "omment\n");
    assert_eq!(feed(":\n\ndata: 1\n\ndata: 2"), ":\n\ndata: 1\n\n");
    assert_eq!(feed("2\n"), "");
    assert_eq!(feed("\n"), "data: 22\n\n");
    assert_eq!(feed("data: 3\r\n\r"), "data: 3\r\n\r");
    assert_eq!(feed("\n"), "\n");
    assert_eq!(filter.finish(), "");
}

#[test]
fn a_chunk_that_stays_whole_is_not_copied() {
    let chunk = Bytes::from_static(b"data: {\"choices\":[{}]}\n\ndata: 2\n\n");
    let passed = UnaskedUsage::new().feed(chunk.clone());
    assert_eq!((passed.as_ptr(), passed.len()), (chunk.as_ptr(), chunk.len()));
}

#[test]
fn an_event_that_is_too_large_passes_as_it_comes() {
    let filler = "x".repeat(HELD_BYTES_MAX);
    let large = format!("data: {{\"filler\":\"{filler}\",\"choices\":[],\"usage\":null}}\n\n");
    let stream = format!("{large}data: {USAGE}\n\n{large}");
    let expect = format!("{large}{large}");
    for size in [1, 1000, stream.len()] {
        let mut filter = UnaskedUsage::new();
        let mut passed = Vec::new();
        for piece in stream.as_bytes().chunks(size) {
            passed.extend_from_slice(&filter.feed(Bytes::copy_from_slice(piece)));
            assert!(filter.held.len() <= HELD_BYTES_MAX);
        }
        assert!(passed == expect.as_bytes(), "in pieces of {size}");
    }
}

proptest::proptest! {
    /// An event that repeats another loses what it loses when it is read by itself.
    #[test]
    fn repeated_events_lose_what_each_loses_alone(
        texts in proptest::collection::vec((0..7_u8, "[a-z \\\\\"n0é{}:,\n]{0,6}"), 0..12)
    ) {
        let event = |(form, text): &(u8, String)| match form {
            0..=3 => format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}],\"usage\":null, \"x\":1}}\n\n"),
            4 => format!("data: {{\"usage\":null,\"choices\":[{{\"text\":\"{text}\"}}]}}\n\n"),
            5 => format!("data: {{\"choices\":[{{\"text\":\"{text}\"}}],\"usage\":null}}\ndata: \n\n"),
            _ => format!("data: {{\"choices\":[{{\"text\":\"{text}\"}}],\"usage\":null}}\n\n"),
        };
        let events: Vec<String> = texts.iter().map(event).collect();
        let alone: String = events.iter().map(|event| filtered(event)).collect();
        assert_eq!(filtered(&events.concat()), alone);
    }
}

#[test]
fn what_looks_like_a_repeated_event_and_is_no_json_stays() {
    let event = |end: &str| format!("data: {{\"choices\":[{{\"text\":\"a\"}}],\"usage\":null}}{end}\n\n");
    for end in ["\u{c}", "\u{b}", "\u{85}", "\u{a0}"] {
        let stream = event("") + &event(end);
        let mut filter = UnaskedUsage::new();
        let passed = filter.feed(Bytes::from(stream.clone()));
        let expected = format!("data: {{\"choices\":[{{\"text\":\"a\"}}]}}\n\n{}", event(end));
        assert_eq!(passed, expected, "{end:?}");
    }
}

#[test]
fn an_event_of_several_lines_is_no_pattern_for_one_of_one() {
    let lines = "data: {\"choices\":[{\"text\":\"a\"}],\ndata: \"usage\":null}\n\n";
    // Its second line is no data, so that its data is no JSON.
    let other = "data: {\"choices\":[{\"text\":\"a\"}],\n\"usage\":null}\n\n";
    let passed = filtered(&format!("{lines}{other}"));
    assert!(passed.ends_with(other), "{passed}");
}
