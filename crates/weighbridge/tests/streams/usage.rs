//! USE-1: what a stream costs is always counted, and shown to those alone who asked.

use crate::support::{Api, PATIENCE, SOON, canned, gateway, outcomes};
use serde_json::{Value, json};
use weighbridge_test_engine::client::{Event, Request};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

const DIALECTS: [Api; 2] = [Api::Chat, Api::Completions];

/// What a client may say of `include_usage`, and whether that asks for it.
fn askings() -> [(Value, bool); 5] {
    [
        (Value::Null, false),
        (json!({"include_usage": true}), true),
        (json!({"include_usage": false}), false),
        (json!({}), false),
        (json!({"include_usage": null, "x_unknown": 1.0}), false),
    ]
}

/// A stream request in the upstream's `mode`; with `options`, unless they are null.
fn request(api: Api, base: &str, mode: &str, options: &Value) -> Request {
    let text = format!("hello [[mock:{mode},usage_out=11]]");
    let mut body = match api {
        Api::Chat => json!({"model": "m", "messages": [{"role": "user", "content": text}]}),
        _ => json!({"model": "m", "prompt": text}),
    };
    body["stream"] = json!(true);
    if !options.is_null() {
        body["stream_options"] = options.clone();
    }
    Request::post(&format!("{base}{}", api.path()), body.to_string())
}

fn tokens(gateway: &Gateway, kind: &str) -> f64 {
    gateway
        .metrics()
        .sum("weighbridge_tokens_total", &[("kind", kind)])
}

/// The log line of the newest request.
fn newest(gateway: &Gateway, count: usize) -> Value {
    assert!(
        eventually(PATIENCE, || gateway.log_lines().len() >= count),
        "no line"
    );
    gateway.log_lines().pop().unwrap()
}

/// A gateway whose route `m` asks for the usage of streams.
fn asking_url(url: &str, settings: &str) -> Gateway {
    gateway(&format!(
        "
        pools: [{{name: p, kind: generic, endpoints: [{{name: a, url: '{url}'}}]{settings}}}]
        routes: [{{name: m, targets: [p], usage: inject}}]
        "
    ))
}

fn asking(upstream: &Upstream, settings: &str) -> Gateway {
    asking_url(&upstream.url(), settings)
}

fn is_usage_chunk(event: &Event) -> bool {
    event.data != "[DONE]" && event.json()["choices"].as_array().is_some_and(Vec::is_empty)
}

#[test]
fn use_1_usage_is_counted_and_shown_only_to_who_asked() {
    let upstream = Upstream::start("a");
    for (api, mode) in DIALECTS.into_iter().flat_map(|api| {
        [
            "",
            "usage_null",
            "split=1",
            "coalesce",
            "crlf,split=5",
            "cr,split=3",
            "multiline,sse_id,split=7",
        ]
        .map(|mode| (api, mode))
    }) {
        let gateway = asking(&upstream, "");
        for (count, (options, asks)) in (1..).zip(askings()) {
            upstream.reset();
            let mut stream = request(api, &gateway.url(""), mode, &options).open();
            assert!(stream.finish(PATIENCE).is_whole());
            let events = stream.events();
            let said = format!("{api:?} {mode} {options}: {}", stream.text());
            assert_eq!(
                upstream.posts()[0].json()["stream_options"]["include_usage"],
                true,
                "{said}"
            );
            assert_eq!(events.last().unwrap().data, "[DONE]", "{said}");
            let chunks = events.iter().filter(|event| is_usage_chunk(event)).count();
            assert_eq!(chunks, usize::from(asks), "{said}");
            if asks {
                let usage = events[events.len() - 2].json()["usage"].take();
                assert_eq!(
                    (&usage["prompt_tokens"], &usage["completion_tokens"]),
                    (&json!(11), &json!(11)),
                    "{said}"
                );
            } else {
                assert!(!stream.text().contains("\"usage\""), "{said}");
            }
            let line = newest(&gateway, count);
            assert_eq!(
                (&line["prompt_tokens"], &line["completion_tokens"]),
                (&json!(11), &json!(11)),
                "{line}"
            );
            assert_eq!(line.get("usage_estimated"), None, "{line}");
            let expected = 11.0 * count as f64;
            assert_eq!(
                (tokens(&gateway, "prompt"), tokens(&gateway, "completion")),
                (expected, expected)
            );
        }
    }
}

#[test]
fn use_1_the_bytes_are_those_of_a_stream_without_usage() {
    let upstream = Upstream::start("a");
    let gateway = asking(&upstream, "");
    for api in DIALECTS {
        for form in [
            "",
            "unicode,split=1",
            "crlf,split=7",
            "cr,coalesce",
            "nospace",
            "comments=3,comment_gap=0.02,comment_every=2",
        ] {
            let mut direct = request(api, &upstream.url(), form, &Value::Null).open();
            let mut relayed = request(api, &gateway.url(""), form, &Value::Null).open();
            assert!(direct.finish(PATIENCE).is_whole() && relayed.finish(PATIENCE).is_whole());
            assert!(
                direct.body() == relayed.body(),
                "{api:?} {form}: {}",
                relayed.text()
            );
            let asks = json!({"include_usage": true});
            let mut direct = request(api, &upstream.url(), form, &asks).open();
            let mut relayed = request(api, &gateway.url(""), form, &asks).open();
            assert!(direct.finish(PATIENCE).is_whole() && relayed.finish(PATIENCE).is_whole());
            assert!(
                direct.body() == relayed.body(),
                "{api:?} {form}: {}",
                relayed.text()
            );
        }
    }
}

#[test]
fn use_1_what_nobody_reports_is_estimated_and_marked() {
    let upstream = Upstream::start("a");
    for api in DIALECTS.into_iter().chain([Api::Messages]) {
        let gateway = asking(&upstream, "");
        for (count, (options, _)) in (1..).zip(askings()) {
            let asked = match api {
                Api::Chat | Api::Completions => request(api, &gateway.url(""), "nousage", &options),
                _ => api.stream(&gateway.url(""), "nousage"),
            };
            let mut stream = asked.open();
            assert!(stream.finish(PATIENCE).is_whole());
            let line = newest(&gateway, count);
            assert!(!stream.events().iter().any(is_usage_chunk), "{}", stream.text());
            assert_eq!(line["usage_estimated"], true, "{line}");
            // The upstream counts 11 each; the prompt is a few words.
            for kind in ["prompt_tokens", "completion_tokens"] {
                assert!((3..=40).contains(&line[kind].as_u64().unwrap()), "{line}");
            }
        }
        assert!(tokens(&gateway, "prompt") > 0.0 && tokens(&gateway, "completion") > 0.0);
    }
}

#[test]
fn use_1_interrupted_streams_are_estimated_and_marked() {
    let upstream = Upstream::start("a");
    for api in Api::ALL {
        let gateway = asking(&upstream, ", timeouts: {idle: 1s}");
        for (count, (mode, outcome)) in (1..).zip([
            ("cut=5", "upstream_stream_error"),
            ("error_event=5", "upstream_stream_error"),
            ("hang=5", "timeout"),
        ]) {
            api.stream(&gateway.url(""), mode).open().finish(PATIENCE);
            let line = newest(&gateway, count);
            assert_eq!(
                (&line["outcome"], &line["usage_estimated"]),
                (&json!(outcome), &json!(true)),
                "{line}"
            );
            assert!(line["prompt_tokens"].as_u64().unwrap() > 0, "{line}");
            assert!(line["completion_tokens"].as_u64().unwrap() > 0, "{line}");
        }
        let before = tokens(&gateway, "completion");
        let mut stream = api.stream(&gateway.url(""), "gap=0.05,chunks=500").open();
        assert!(stream.wait_events(5, PATIENCE));
        stream.abort();
        let left = eventually(PATIENCE, || outcomes(&gateway, "client_closed") == 1.0);
        assert!(left, "{}", gateway.metrics().text);
        let line = newest(&gateway, 4);
        assert_eq!(
            (&line["outcome"], &line["usage_estimated"]),
            (&json!("client_closed"), &json!(true)),
            "{line}"
        );
        assert!(tokens(&gateway, "completion") > before);
    }
}

#[test]
fn use_1_messages_are_counted_as_they_say() {
    let upstream = Upstream::start("a");
    let gateway = asking(&upstream, "");
    let stream = Api::Messages.stream(&gateway.url(""), "usage_out=11").send();
    let text = stream.text();
    assert!(
        text.contains("\"input_tokens\"") && text.contains("\"output_tokens\""),
        "{text}"
    );
    let line = newest(&gateway, 1);
    assert_eq!(
        (&line["prompt_tokens"], &line["completion_tokens"]),
        (&json!(11), &json!(11)),
        "{line}"
    );
    assert_eq!(line.get("usage_estimated"), None, "{line}");
    for api in [Api::Messages, Api::Responses] {
        upstream.reset();
        api.stream(&gateway.url(""), "").send();
        assert!(
            upstream.posts()[0].json().get("stream_options").is_none(),
            "{api:?}"
        );
    }
}

#[test]
fn use_1_a_passive_route_asks_for_nothing_and_hides_nothing() {
    let upstream = Upstream::start("a");
    let gateway = gateway(&format!(
        "
        pools: [{{name: p, kind: generic, endpoints: ['{}']}}]
        routes: [{{name: m, targets: [p], usage: passive}}]
        ",
        upstream.url()
    ));
    for api in DIALECTS {
        upstream.reset();
        let mut stream = request(api, &gateway.url(""), "usage", &Value::Null).open();
        assert!(stream.finish(PATIENCE).is_whole());
        assert!(upstream.posts()[0].json().get("stream_options").is_none());
        assert_eq!(
            stream
                .events()
                .iter()
                .filter(|event| is_usage_chunk(event))
                .count(),
            1
        );
        assert!(stream.text().contains("\"usage\":null"), "{}", stream.text());
    }
    assert_eq!(tokens(&gateway, "completion"), 22.0);
    request(Api::Chat, &gateway.url(""), "", &Value::Null).send();
    assert_eq!(newest(&gateway, 3)["usage_estimated"], true);
}

/// Begins a stream, and stops inside what may be a usage chunk.
const STOPS_INSIDE: &str = concat!(
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n: still here\n\ndata: {\"choices\":[{\"del"
);

#[test]
fn use_1_str_7_nothing_but_an_unfinished_event_waits() {
    let gateway = asking_url(&canned(STOPS_INSIDE, "", true), "");
    let mut stream = request(Api::Chat, &gateway.url(""), "", &Value::Null).open();
    assert!(stream.wait_events(1, PATIENCE));
    let comment = eventually(SOON, || {
        stream.wait_events(2, std::time::Duration::from_millis(20));
        stream.text().contains(": still here\n\n")
    });
    assert!(comment, "{}", stream.text());
    stream.abort();
}

#[test]
fn use_1_what_was_held_back_of_a_stream_that_breaks_reaches_the_client() {
    let gateway = asking_url(&canned(STOPS_INSIDE, "", false), "");
    let mut stream = request(Api::Chat, &gateway.url(""), "", &Value::Null).open();
    assert!(!stream.finish(PATIENCE).is_whole());
    assert!(
        stream.text().ends_with("data: {\"choices\":[{\"del"),
        "{}",
        stream.text()
    );
}

#[test]
fn use_1_a_stream_that_breaks_inside_the_usage_nobody_asked_for_shows_none_of_it() {
    const SAID: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
    for begun in [
        "data: {\"id\":\"c\",\"choi",
        "data: {\"id\":\"c\",\"choices\":[],\"us",
        "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":4",
        "data: {\"usage\":{\"prompt_tokens\":4",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4}}\n",
    ] {
        for head in [crate::support::CHUNKED, crate::support::CLOSE_DELIMITED] {
            let body = match head == crate::support::CHUNKED {
                true => format!("{:x}\r\n{SAID}{begun}\r\n", SAID.len() + begun.len()),
                false => format!("{SAID}{begun}"),
            };
            let gateway = asking_url(&canned(head, body.leak(), false), "");
            let mut stream = request(Api::Chat, &gateway.url(""), "", &Value::Null).open();
            stream.finish(PATIENCE);
            let text = stream.text();
            let behind = text.strip_prefix(SAID).unwrap_or_else(|| panic!("{text}"));
            assert!(
                !behind.contains("choi") && !behind.contains("prompt_tokens"),
                "{begun}: {text}"
            );
        }
    }
}

#[test]
fn use_1_an_answer_in_one_piece_that_reports_nothing_is_estimated_and_marked() {
    let upstream = Upstream::start("a");
    let gateway = asking(&upstream, "");
    for (count, api) in (1..).zip(Api::ALL) {
        let answer = api.whole(&gateway.url(""), "nousage").send();
        assert!(
            answer.json().get("usage").is_none_or(Value::is_null),
            "{}",
            answer.text()
        );
        let line = newest(&gateway, count);
        assert_eq!(line["usage_estimated"], true, "{line}");
        // The upstream counts 11 each; the prompt is a few words.
        for kind in ["prompt_tokens", "completion_tokens"] {
            assert!((3..=40).contains(&line[kind].as_u64().unwrap()), "{line}");
        }
    }
    assert!(tokens(&gateway, "completion") > 0.0);
    // Whoever reports is believed.
    Api::Chat.whole(&gateway.url(""), "usage_out=7").send();
    let line = newest(&gateway, 5);
    assert_eq!(line["completion_tokens"], 7, "{line}");
    assert_eq!(line.get("usage_estimated"), None, "{line}");
}

#[test]
fn use_1_a_large_answer_is_counted_by_its_end() {
    let upstream = Upstream::start("a");
    let gateway = asking(&upstream, "");
    for (count, api) in (1..).zip(Api::ALL) {
        let answer = api
            .whole(&gateway.url(""), "big=1000000,usage_in=9,usage_out=7")
            .send();
        assert!(answer.body.len() > 1_000_000);
        let line = newest(&gateway, count);
        assert_eq!(
            (&line["prompt_tokens"], &line["completion_tokens"]),
            (&json!(9), &json!(7)),
            "{line}"
        );
    }
}
