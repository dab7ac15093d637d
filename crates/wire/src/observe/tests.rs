use super::*;

fn watch(api: Api, stream: &str) -> StreamObserver {
    let mut observer = StreamObserver::new(api);
    observer.feed(stream.as_bytes());
    observer
}

/// The stream of these data lines.
fn stream(events: &[&str]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

#[test]
fn chat_content_is_told_from_the_rest() {
    let content = |chunk: &str| watch(Api::ChatCompletions, &stream(&[chunk])).content_events();
    for delta in [
        r#"{"content":"x"}"#,
        r#"{"role":"assistant","content":" "}"#,
        r#"{"content":null,"reasoning_content":"x"}"#,
        r#"{"reasoning":"x"}"#,
        r#"{"content":[{"type":"thinking"}]}"#,
        r#"{"refusal":"x"}"#,
        r#"{"tool_calls":[{"index":0}]}"#,
        r#"{"tool_calls":{"index":0}}"#,
        r#"{"function_call":{"name":"f"}}"#,
    ] {
        assert_eq!(
            content(&format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#)),
            1,
            "{delta}"
        );
    }
    for chunk in [
        r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[],"refusal":null}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
        r#"{"prompt_filter_results":[{"content":"x"}],"choices":[]}"#,
        "{}",
        "not json",
        "[DONE]",
    ] {
        assert_eq!(content(chunk), 0, "{chunk}");
    }
    assert_eq!(
        watch(Api::Completions, &stream(&[r#"{"choices":[{"text":"x"}]}"#])).content_events(),
        1
    );
    assert_eq!(
        watch(Api::Completions, &stream(&[r#"{"choices":[{"text":""}]}"#])).content_events(),
        0
    );
}

#[test]
fn two_choices_in_one_chunk_are_one_event() {
    let observer = watch(
        Api::ChatCompletions,
        &stream(&[r#"{"choices":[{"delta":{"content":"a"}},{"delta":{},"finish_reason":"stop"}]}"#]),
    );
    assert_eq!(
        (observer.events(), observer.content_events(), observer.finished()),
        (1, 1, true)
    );
}

#[test]
fn progress_and_first_content_by_chunk() {
    let mut observer = StreamObserver::new(Api::ChatCompletions);
    let mut check = |chunk: &str, progress, first_content| {
        assert_eq!(
            observer.feed(chunk.as_bytes()),
            Fed {
                last_end: chunk.rfind("\n\n").map(|at| at + 2),
                error_end: None,
                progress,
                first_content
            },
            "{chunk:?}"
        );
    };
    check(": keep-alive\n\n", false, false);
    check(
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n",
        true,
        false,
    );
    check("data: {\"choices\":[{\"delta\":", false, false);
    check(
        "{\"content\":\"x\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n",
        true,
        true,
    );
    check(
        "data: {\"choices\":[{\"delta\":{\"content\":\"z\"}}]}\n\n",
        true,
        false,
    );
    check("data: [DONE]\n\n", true, false);
    assert_eq!(
        (observer.events(), observer.content_events(), observer.done()),
        (5, 3, true)
    );
}

#[test]
fn pings_are_no_progress() {
    for ping in [
        "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        "data: {\"type\":\"ping\"}\n\n",
        "event: ping\ndata: {}\n\n",
    ] {
        let mut observer = StreamObserver::new(Api::Messages);
        assert_eq!(
            observer.feed(ping.as_bytes()),
            Fed {
                last_end: Some(ping.len()),
                ..Fed::default()
            },
            "{ping}"
        );
        assert_eq!(observer.events(), 0);
    }
}

#[test]
fn the_last_usage_counts_and_null_does_not() {
    let observer = watch(
        Api::ChatCompletions,
        &stream(&[
            r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1}}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}"#,
            r#"{"choices":[],"usage":null}"#,
        ]),
    );
    assert_eq!(
        observer.usage(),
        Some(Usage {
            prompt_tokens: 5,
            completion_tokens: 9,
            cached_tokens: Some(4)
        })
    );
    assert_eq!(
        watch(Api::ChatCompletions, &stream(&[r#"{"usage":null}"#])).usage(),
        None
    );
}

#[test]
fn anthropic_usage_is_put_together() {
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":85,"output_tokens":1}}}"#;
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}"#;
    let observer = watch(Api::Messages, &stream(&[start]));
    assert_eq!(
        observer
            .usage()
            .map(|usage| (usage.prompt_tokens, usage.completion_tokens)),
        Some((100, 1))
    );
    assert!(!observer.finished());
    let observer = watch(
        Api::Messages,
        &stream(&[start, delta, r#"{"type":"message_stop"}"#]),
    );
    assert_eq!(
        observer.usage(),
        Some(Usage {
            prompt_tokens: 100,
            completion_tokens: 7,
            cached_tokens: Some(85)
        })
    );
    assert!(observer.finished() && observer.done());
}

#[test]
fn errors_in_every_dialect() {
    let check = |api, stream: &str, status: Option<u16>, message: &str| {
        let observer = watch(api, stream);
        let error = observer.error().unwrap_or_else(|| panic!("no error in {stream}"));
        assert_eq!(
            (error.status, error.message.as_str()),
            (status, message),
            "{stream}"
        );
        assert!(observer.error_first());
    };
    let chat = Api::ChatCompletions;
    check(
        chat,
        "data: {\"error\":{\"message\":\"m\",\"code\":500}}\n\n",
        Some(500),
        "m",
    );
    check(
        chat,
        "data: {\"error\":{\"message\":\"m\",\"code\":\"429\"}}\n\n",
        Some(429),
        "m",
    );
    check(
        chat,
        "data: {\"error\":{\"message\":\"m\",\"type\":\"x\",\"code\":200}}\n\n",
        None,
        "m",
    );
    check(chat, "data: {\"error\":\"m\"}\n\n", None, "m");
    check(
        chat,
        "data: {\"object\":\"error\",\"message\":\"m\",\"code\":400}\n\n",
        Some(400),
        "m",
    );
    check(chat, "event: error\ndata: {\"message\":\"m\"}\n\n", None, "m");
    check(chat, "event: error\ndata: plain words\n\n", None, "plain words");
    check(
        Api::Responses,
        "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"m\",\"param\":null}\n\n",
        Some(429),
        "m",
    );
    check(
        Api::Responses,
        "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"m\"}}}\n\n",
        Some(500),
        "m",
    );
    for (kind, status) in [
        ("invalid_request_error", 400),
        ("authentication_error", 401),
        ("permission_error", 403),
        ("not_found_error", 404),
        ("request_too_large", 413),
        ("rate_limit_error", 429),
        ("api_error", 500),
        ("timeout_error", 504),
        ("overloaded_error", 529),
    ] {
        let event = format!(
            "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"m\"}}}}\n\n"
        );
        check(Api::Messages, &event, Some(status), "m");
    }
}

#[test]
fn an_error_after_content_is_not_first() {
    let error = "data: {\"error\":{\"message\":\"m\"}}\n\n";
    let content = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    assert!(watch(Api::ChatCompletions, &format!("{role}{error}")).error_first());
    assert!(!watch(Api::ChatCompletions, &format!("{content}{error}")).error_first());
    assert!(watch(Api::ChatCompletions, &format!("{error}{content}")).error_first());
}

#[test]
fn terminal_events() {
    let done = |api, data: &str| {
        let observer = watch(api, &stream(&[data]));
        (observer.done(), observer.finished())
    };
    assert_eq!(done(Api::ChatCompletions, "[DONE]"), (true, false));
    assert_eq!(
        done(
            Api::ChatCompletions,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#
        ),
        (false, true)
    );
    assert_eq!(
        done(
            Api::ChatCompletions,
            r#"{"choices":[{"delta":{},"finish_reason":""}]}"#
        ),
        (false, false)
    );
    assert_eq!(done(Api::Messages, r#"{"type":"message_stop"}"#), (true, false));
    assert_eq!(
        done(
            Api::Messages,
            r#"{"type":"message_delta","delta":{"stop_reason":null}}"#
        ),
        (false, false)
    );
    assert_eq!(
        done(Api::Responses, r#"{"type":"response.completed","response":{}}"#),
        (true, true)
    );
    assert_eq!(
        done(Api::Responses, r#"{"type":"response.incomplete"}"#),
        (true, true)
    );
    assert_eq!(
        done(Api::Responses, r#"{"type":"response.failed"}"#),
        (true, false)
    );
    assert_eq!(
        done(Api::Responses, r#"{"type":"response.in_progress"}"#),
        (false, false)
    );
    assert!(
        watch(Api::Responses, &stream(&[r#"{"type":"response.failed"}"#]))
            .error()
            .is_some()
    );
}

#[test]
fn a_terminal_event_without_its_blank_line_counts_at_the_end() {
    let mut observer = watch(Api::ChatCompletions, "data: [DONE]");
    assert!(!observer.done());
    observer.finish();
    assert!(observer.done());
}

#[test]
fn oversized_events_are_known_by_name() {
    let big = "x".repeat(crate::sse::EVENT_BYTES_MAX);
    let observer = watch(
        Api::Responses,
        &format!("event: response.completed\ndata: {big}\n\n"),
    );
    assert!(observer.done());
    let observer = watch(Api::ChatCompletions, &format!("data: {big}x\n\ndata: [DONE]\n\n"));
    assert_eq!((observer.content_events(), observer.done()), (1, true));
}

/// Feeds `before`, the error, then `after` in one chunk, and checks that the error is found to end where it does.
fn check_error_end(api: Api, [before, error, after]: [&str; 3]) {
    let chunk = [before, error, after].concat();
    let expect = before.len() + error.len();
    let fed = StreamObserver::new(api).feed(chunk.as_bytes());
    assert_eq!(fed.error_end, Some(expect), "{chunk:?}");
    // Cut anywhere, the end is found in the chunk that holds it.
    for cut in 0..=chunk.len() {
        let mut observer = StreamObserver::new(api);
        let (first, second) = chunk.as_bytes().split_at(cut);
        let ends = [observer.feed(first).error_end, observer.feed(second).error_end];
        let found = ends[0].or(ends[1].map(|end| end + cut));
        // A line feed that follows its carriage return in the next chunk is not missed.
        let lone = error.ends_with("\r\n") && cut == expect - 1;
        assert_eq!(found, Some(expect - usize::from(lone)), "{chunk:?} cut at {cut}");
    }
}

#[test]
fn says_where_an_error_ends() {
    let content = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let error = "data: {\"error\":{\"message\":\"m\"}}\n\n";
    check_error_end(Api::ChatCompletions, [content, error, "data: [DONE]\n\n"]);
    check_error_end(Api::ChatCompletions, ["\u{feff}", error, error]);
    let crlf = "data: {\"error\":{\"message\":\"m\"}}\r\n\r\n";
    check_error_end(
        Api::ChatCompletions,
        [": ping\r\n\r\n", crlf, "data: [DONE]\r\n\r\n"],
    );
    let typed = "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"m\"}}\n\n";
    check_error_end(
        Api::Messages,
        [
            "event: ping\ndata: {}\n\n",
            typed,
            "event: message_stop\ndata: {}\n\n",
        ],
    );
    // Engines report errors in the form of their other APIs too.
    check_error_end(Api::Responses, ["", error, "data: [DONE]\n\n"]);
    check_error_end(Api::Messages, ["", error, ""]);
}

#[test]
fn audio_and_images_end_by_their_own_marks() {
    let seen = |api: Api, events: &[&str]| {
        let mut observer = watch(api, &stream(events));
        let before = (observer.done(), observer.finished());
        observer.finish();
        (
            before,
            observer.done() || observer.finished(),
            observer.content_events(),
        )
    };
    let transcript = r#"{"type":"transcript.text.delta","delta":"a"}"#;
    let end = r#"{"type":"transcript.text.done","text":"a","usage":{"type":"tokens","input_tokens":3,"output_tokens":4}}"#;
    assert_eq!(
        seen(Api::Transcriptions, &[transcript, end]),
        ((true, false), true, 1)
    );
    assert_eq!(
        seen(Api::Transcriptions, &[transcript]),
        ((false, false), false, 1)
    );
    let image = r#"{"type":"image_edit.partial_image","b64_json":"a"}"#;
    let whole =
        r#"{"type":"image_edit.completed","b64_json":"a","usage":{"input_tokens":3,"output_tokens":4}}"#;
    assert_eq!(seen(Api::ImageEdits, &[image, whole]), ((false, true), true, 1));
    assert_eq!(seen(Api::ImageEdits, &[image]), ((false, false), false, 1));
    let speech = r#"{"type":"speech.audio.delta","audio":"a"}"#;
    assert_eq!(
        seen(Api::Speech, &[speech, r#"{"type":"speech.audio.done"}"#]),
        ((true, false), true, 1)
    );
    // Engines stream transcriptions as they stream chats.
    let chunk = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}"#;
    assert_eq!(
        seen(Api::Transcriptions, &[chunk, "[DONE]"]),
        ((true, false), true, 1)
    );
    assert_eq!(seen(Api::Transcriptions, &[chunk]), ((false, false), false, 1));
    // Where nothing is known, the end of the body is the end.
    for api in [Api::Rerank, Api::Passthrough, Api::Speech, Api::Moderations] {
        assert!(seen(api, &[r#"{"x":1}"#]).1, "{api:?}");
    }
    let counted = watch(Api::Transcriptions, &stream(&[transcript, end]))
        .counted(|| 99)
        .unwrap();
    assert_eq!(
        (
            counted.usage.prompt_tokens,
            counted.usage.completion_tokens,
            counted.estimated
        ),
        (3, 4, false)
    );
    assert_eq!(
        watch(Api::Transcriptions, &stream(&[transcript])).counted(|| 99),
        None
    );
}

#[test]
fn errors_inside_streams_of_audio_are_found() {
    for event in [
        r#"{"type":"error","error":{"message":"out of memory"}}"#,
        r#"{"error":{"message":"out of memory"}}"#,
    ] {
        let observer = watch(Api::Speech, &stream(&[event]));
        assert_eq!(
            observer.error().map(|error| error.message.as_str()),
            Some("out of memory"),
            "{event}"
        );
        assert!(observer.error_first());
        // What the config lets through may have fields of any name.
        assert_eq!(watch(Api::Passthrough, &stream(&[event])).error(), None);
    }
}

#[test]
fn the_id_of_a_response_is_taken_once() {
    let created = r#"{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}"#;
    let mut observer = watch(
        Api::Responses,
        &stream(&[
            created,
            r#"{"type":"response.completed","response":{"id":"resp_1"}}"#,
        ]),
    );
    assert_eq!(observer.take_response_id().as_deref(), Some("resp_1"));
    assert_eq!(observer.take_response_id(), None);
    assert_eq!(
        body_id(br#"{"object":"response","id":"resp_2","output":[{"id":"msg"#).as_deref(),
        Some("resp_2")
    );
    for none in ["", "[]", r#"{"id":1}"#, r#"{"id":""}"#, r#"{"x":{"id":"a"}}"#] {
        assert_eq!(body_id(none.as_bytes()), None, "{none}");
    }
}

/// What is known of a stream, told apart by the way that its text was counted too.
fn known(api: Api, events: &[String], apart: bool) -> (u64, u64, bool, Option<Counted>, Option<String>) {
    let mut observer = StreamObserver::new(api);
    for event in events {
        if apart {
            // As if no event had been read before.
            observer.seen.repeat = Repeat::default();
        }
        observer.feed(event.as_bytes());
    }
    (
        observer.events(),
        observer.content_events(),
        observer.finished(),
        observer.counted(|| 7),
        observer.error().map(|error| error.message.clone()),
    )
}

/// Events of which many are alike, and many all but alike.
fn alike(api: Api, texts: &[(u8, String)]) -> Vec<String> {
    let event = |(form, text): &(u8, String)| match (api, form) {
        (Api::Messages, 0..=3) => format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        ),
        (Api::Messages, 4) => format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"signature_delta\",\"signature\":\"{text}\"}}}}\n\n"
        ),
        (Api::Messages, 5) => {
            format!("data: {{\"type\":\"content_block_delta\",\"delta\":{{\"text\":\"{text}\"}}}}\n\n")
        }
        (_, 0..=3) => format!(
            "data: {{\"id\":\"1\",\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}],\"usage\":null}}\n\n"
        ),
        (_, 4) => format!(
            "data: {{\"id\":\"1\",\"choices\":[{{\"delta\":{{\"reasoning\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
        ),
        (_, 5) => format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}},{{\"delta\":{{\"content\":\"x\"}}}}]}}\n\n"
        ),
        (_, 6) => format!("data: {{\"choices\":[{{\"text\":\"{text}\",\"finish_reason\":\"stop\"}}]}}\n\n"),
        (_, 7) => format!(
            "event: error\ndata: {{\"id\":\"1\",\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}],\"usage\":null}}\n\n"
        ),
        (_, _) => format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}],\"usage\":{{\"prompt_tokens\":1}}}}\n\n"
        ),
    };
    texts.iter().map(event).collect()
}

proptest::proptest! {
    /// An event that repeats another means what it means when it is read by itself.
    #[test]
    fn repeated_events_mean_what_each_means_alone(
        texts in proptest::collection::vec((0..9_u8, "[a-z \\\\\"n0é{}:,\n]{0,6}"), 0..12),
        api in 0..3_usize
    ) {
        let api = [Api::ChatCompletions, Api::Completions, Api::Messages][api];
        let events = alike(api, &texts);
        assert_eq!(known(api, &events, false), known(api, &events, true));
    }
}

#[test]
fn the_text_of_a_repeated_event_is_counted() {
    let texts = ["Hello", " world", "\\n", "", " and \\u00e9", "\\ud800"].map(|text| (0, text.to_owned()));
    for api in [Api::ChatCompletions, Api::Messages] {
        let events = alike(api, &texts);
        let mut observer = StreamObserver::new(api);
        observer.feed(events[0].as_bytes());
        assert!(
            !format!("{:?}", observer.seen.repeat).contains("frame: []"),
            "{api:?}"
        );
        assert_eq!(known(api, &events, false), known(api, &events, true));
    }
}
