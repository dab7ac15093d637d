//! STR-6: signs of life while a stream says nothing, and what may still follow them.

use crate::support::{
    Api, PATIENCE, SOON, canned, expect_error_last, expect_idle, expect_outcomes, gateway, outcomes,
    wait_running,
};
use serde_json::Value;
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::StreamClient;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually, par};

const EVERY: Duration = Duration::from_millis(500);
/// How late a sign may come on a slow and busy machine.
const LATE: Duration = Duration::from_secs(2);

/// A gateway whose route `m` to `url` has these settings, and its pool these.
fn beating_url(url: &str, route: &str, pool: &str) -> Gateway {
    gateway(&format!(
        "
        pools: [{{name: p, kind: generic, breaker: false, endpoints: [{{name: a, url: '{url}'}}]{pool}}}]
        routes: [{{name: m, targets: [p]{route}}}]
        "
    ))
}

fn beating(upstream: &Upstream, pool: &str) -> Gateway {
    beating_url(&upstream.url(), ", heartbeat: 500ms", pool)
}

/// A gateway with a route `m` to `first`, and to `second` where it fails.
fn beating_either(first: &Upstream, second: &Upstream) -> Gateway {
    gateway(&format!(
        "
        pools:
          - {{name: a, kind: generic, breaker: false, timeouts: {{first_byte: 1500ms}}, endpoints: [{{name: a, url: '{}'}}]}}
          - {{name: b, kind: generic, breaker: false, endpoints: [{{name: b, url: '{}'}}]}}
        routes:
          - name: m
            targets: [a, {{pool: b, order: 2}}]
            heartbeat: 500ms
            retry: {{on: [connect, '503', timeout]}}
        ",
        first.url(),
        second.url()
    ))
}

fn sign(api: Api) -> &'static str {
    match api {
        Api::Messages => "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        _ => ":\n\n",
    }
}

/// How many signs a stream begins with, and what follows them.
fn split_signs(api: Api, text: &str) -> (usize, &str) {
    let mut rest = text;
    let mut count = 0;
    while let Some(after) = rest.strip_prefix(sign(api)) {
        (rest, count) = (after, count + 1);
    }
    (count, rest)
}

/// The stream as its upstream sends it to a client of its own.
fn direct(api: Api, upstream: &Upstream, mode: &str) -> String {
    let mut stream = api.stream(&upstream.url(), mode).open();
    assert!(stream.finish(PATIENCE).is_whole());
    stream.text()
}

fn expect_no_long_silence(stream: &StreamClient) {
    let times: Vec<Instant> = stream.pieces().iter().map(|piece| piece.at).collect();
    for pair in times.windows(2) {
        let silence = pair[1] - pair[0];
        assert!(silence < EVERY + LATE, "{silence:?} without a byte");
    }
}

fn newest(gateway: &Gateway, id: &str) -> Value {
    gateway.wait_log(SOON, |line| line["request_id"] == id)
}

#[test]
fn str_6_a_stream_that_is_slow_to_begin_gives_signs_of_life_first() {
    let upstream = Upstream::start("a");
    let gateway = beating(&upstream, "");
    par(8, |i| {
        let api = Api::ALL[i % 4];
        let mode = if i < 4 {
            "delay=3,usage_out=11"
        } else {
            "delay_body=3,usage_out=11"
        };
        let id = format!("r-{i}");
        let request = api.stream(&gateway.url(""), mode).header("x-request-id", &id);
        let mut stream = request.open();
        let head = stream.elapsed();
        assert!(
            head >= EVERY && head < EVERY + LATE,
            "the head came after {head:?}"
        );
        assert_eq!(stream.status, 200);
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-cache"),
            ("x-accel-buffering", "no"),
            ("x-request-id", id.as_str()),
            ("x-weighbridge-endpoint", "a"),
            ("x-weighbridge-attempts", "1"),
        ] {
            assert_eq!(stream.header(name), Some(value), "{name}");
        }
        assert!(stream.finish(PATIENCE).is_whole(), "{:?}", stream.end());
        let text = stream.text();
        let (signs, rest) = split_signs(api, &text);
        assert!((2..=6).contains(&signs), "{signs} signs: {text}");
        assert_eq!(rest, direct(api, &upstream, "usage_out=11"), "{api:?}");
        expect_no_long_silence(&stream);
        let line = newest(&gateway, &id);
        assert_eq!((&line["outcome"], &line["status"]), (&"ok".into(), &200.into()));
        assert!(line["first_token_ms"].as_f64().unwrap() >= 2900.0, "{line}");
        assert_eq!(line["completion_tokens"], 11, "{line}");
    });
    expect_outcomes(&gateway, "ok", 8.0);
}

#[test]
fn str_6_a_stream_that_pauses_gives_signs_of_life_between_its_events() {
    let upstream = Upstream::start("a");
    let gateway = beating(&upstream, "");
    par(4, |i| {
        let api = Api::ALL[i];
        let mut stream = api.stream(&gateway.url(""), "gap=1.3,chunks=2").open();
        assert!(stream.finish(PATIENCE).is_whole(), "{:?}", stream.end());
        let text = stream.text();
        assert!(text.matches(sign(api)).count() >= 3, "{text}");
        assert_eq!(
            text.replace(sign(api), ""),
            direct(api, &upstream, "chunks=2"),
            "{api:?}"
        );
        expect_no_long_silence(&stream);
    });
}

/// A reader that takes every blank line for the end of an event once an `id` has come.
fn strictly_read(text: &str) -> Vec<String> {
    let (mut data, mut seen_id, mut read) = (Vec::new(), false, Vec::new());
    for line in text.lines() {
        if line.is_empty() {
            if seen_id || !data.is_empty() {
                read.push(data.join("\n"));
            }
            data.clear();
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push(value.trim_start().to_owned());
        } else {
            seen_id |= line.starts_with("id:");
        }
    }
    read
}

#[test]
fn str_6_a_strict_reader_sees_no_empty_event() {
    let upstream = Upstream::start("a");
    let gateway = beating(&upstream, "");
    par(4, |i| {
        let api = Api::ALL[i];
        let mut stream = api
            .stream(&gateway.url(""), "delay=1.2,sse_id,gap=1.2,chunks=2")
            .open();
        assert!(stream.finish(PATIENCE).is_whole(), "{:?}", stream.end());
        let text = stream.text();
        assert!(text.contains("id:"), "{text}");
        let read = strictly_read(&text);
        assert!(read.len() > 3, "{text}");
        for data in read {
            let sound = data == "[DONE]" || serde_json::from_str::<Value>(&data).is_ok();
            assert!(sound, "{data:?} in {text}");
        }
        if api != Api::Messages {
            let after = &text[text.find("id:").unwrap()..];
            assert!(after.contains("\n:\n") && !after.contains("\n:\n\n"), "{text}");
        }
    });
}

#[test]
fn str_6_comments_of_the_upstream_stay_comments() {
    let upstream = Upstream::start("a");
    let gateway = beating(&upstream, "");
    for api in Api::ALL {
        let mode = "comments=3,comment_gap=0.2,comment_every=2";
        let mut stream = api.stream(&gateway.url(""), mode).open();
        assert!(stream.finish(PATIENCE).is_whole(), "{:?}", stream.end());
        assert_eq!(stream.text(), direct(api, &upstream, mode));
        assert!(!stream.text().lines().any(|line| line.starts_with("data: :")));
    }
}

/// What goes wrong after the head was sent: how, the outcome of the request and of its attempt, and what the client is told.
const FAILURES: [(&str, &str, &str, &str); 9] = [
    (
        "delay=1,status=500",
        "upstream_error",
        "upstream_error",
        "scripted",
    ),
    (
        "delay=1,status=400,err_msg=no such colour",
        "client_error",
        "client_error",
        "no such colour",
    ),
    (
        "delay=1,status=503,body=html",
        "upstream_error",
        "upstream_error",
        "",
    ),
    (
        "delay=1,drop",
        "upstream_error",
        "upstream_error",
        "without an answer",
    ),
    ("hang=headers", "timeout", "timeout", "first_byte"),
    ("delay=1,ok_error", "upstream_error", "upstream_error", "scripted"),
    ("delay=1,notjson_stream", "upstream_error", "ok", "in one piece"),
    (
        "delay=1,notjson_stream,big=400000",
        "upstream_error",
        "upstream_stream_error",
        "in one piece",
    ),
    (
        "delay=1,gzip=force",
        "upstream_error",
        "upstream_error",
        "cannot be used",
    ),
];

/// It is told in the stream, once, and counted as what it was.
#[test]
fn str_6_a_failure_behind_signs_of_life_is_one_error_event() {
    let upstream = Upstream::start("a");
    let gateway = beating(
        &upstream,
        ", cooldown: {default: 1ms}, timeouts: {first_byte: 1500ms}",
    );
    par(4, |i| {
        let api = Api::ALL[i];
        for (number, (mode, outcome, _, says)) in FAILURES.iter().enumerate() {
            let id = format!("{i}-{number}");
            let mut stream = api
                .stream(&gateway.url(""), mode)
                .header("x-request-id", &id)
                .open();
            assert_eq!(stream.status, 200, "{mode}");
            stream.finish(PATIENCE);
            let (before, error) = expect_error_last(api, &stream);
            let is_named = stream.events().pop().unwrap().name.as_deref() == Some("error");
            assert_eq!(is_named, matches!(api, Api::Messages | Api::Responses), "{mode}");
            let pings = before.iter().all(|event| event.name.as_deref() == Some("ping"));
            assert!(pings, "{api:?} {mode}: {}", stream.text());
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(says), "{mode}: {message}");
            let line = newest(&gateway, &id);
            let expected = (&(*outcome).into(), &200.into());
            assert_eq!((&line["outcome"], &line["status"]), expected, "{mode}: {line}");
            assert!(line["reason"].is_string(), "{line}");
        }
    });
    let metrics = gateway.metrics();
    for (_, _, attempt, _) in FAILURES {
        let expected = 4 * FAILURES.iter().filter(|case| case.2 == attempt).count();
        let counted = metrics.sum("weighbridge_attempts_total", &[("outcome", attempt)]);
        assert_eq!(counted, expected as f64, "{attempt}: {}", metrics.text);
    }
    expect_idle(&gateway);
}

#[test]
fn str_6_str_4_an_error_as_the_first_event_behind_signs_of_life_is_the_last() {
    let upstream = Upstream::start("a");
    let gateway = beating(&upstream, ", cooldown: {default: 1ms}");
    par(4, |i| {
        let api = Api::ALL[i];
        let mut stream = api
            .stream(
                &gateway.url(""),
                "delay=1,error_event=0,error_code=400,err_msg=no such colour",
            )
            .open();
        stream.finish(PATIENCE);
        let (before, error) = expect_error_last(api, &stream);
        assert!(before.iter().all(|event| event.name.as_deref() == Some("ping")));
        assert_eq!(error["message"], "no such colour");
    });
    // Anthropic's events name no status: the mock's stands for 529.
    assert_eq!(
        outcomes(&gateway, "client_error"),
        3.0,
        "{}",
        gateway.metrics().text
    );
    assert_eq!(outcomes(&gateway, "upstream_rate_limited"), 1.0);
}

#[test]
fn str_6_an_upstream_that_cannot_be_reached_behind_signs_of_life_is_an_error_event() {
    // It takes the connection and the request, and says something that is no HTTP after a while.
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = beating_either(&a, &b);
    let refused = b.refuse_until();
    a.set_mode("delay=1,status=503");
    let mut stream = Api::Chat.stream(&gateway.url(""), "").open();
    stream.finish(PATIENCE);
    expect_error_last(Api::Chat, &stream);
    assert_eq!(
        outcomes(&gateway, "connect_error"),
        1.0,
        "{}",
        gateway.metrics().text
    );
    drop(refused);
}

/// Signs carry nothing of any attempt, so another may follow until an upstream's first byte has been passed on.
#[test]
fn str_6_another_upstream_may_answer_behind_signs_of_life() {
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = beating_either(&a, &b);
    for (count, (mode, api)) in (1..).zip([
        ("delay=1,status=503", Api::Chat),
        ("hang=headers", Api::Messages),
        ("hang=body", Api::Responses),
    ]) {
        a.set_mode(mode);
        b.set_mode("chunks=3");
        let id = format!("r-{count}");
        let mut stream = api
            .stream(&gateway.url(""), "")
            .header("x-request-id", &id)
            .open();
        assert_eq!(stream.header("x-weighbridge-endpoint"), Some("a"));
        assert!(stream.finish(PATIENCE).is_whole(), "{:?}", stream.end());
        let text = stream.text();
        let (signs, rest) = split_signs(api, &text);
        assert!(signs > 0, "{text}");
        assert_eq!(rest, direct(api, &b, "chunks=3"), "{mode}");
        let line = newest(&gateway, &id);
        assert_eq!(
            (&line["outcome"], &line["attempts"], &line["endpoint"]),
            (&"ok".into(), &2.into(), &"b".into()),
            "{line}"
        );
        a.reset();
        b.reset();
    }
    // Once it has begun, a stream is never begun again elsewhere.
    a.set_mode("delay=1,cut=3");
    let mut stream = Api::Chat.stream(&gateway.url(""), "").open();
    stream.finish(PATIENCE);
    expect_error_last(Api::Chat, &stream);
    assert_eq!(b.posts().len(), 0);
}

#[test]
fn str_6_switched_off_nothing_comes_before_the_answer() {
    let upstream = Upstream::start("a");
    for off in ["off", "0"] {
        let gateway = beating_url(&upstream.url(), &format!(", heartbeat: {off}"), "");
        for api in Api::ALL {
            let stream = api.stream(&gateway.url(""), "delay=1,status=400").open();
            assert_eq!(stream.status, 400, "{off}");
        }
    }
}

#[test]
fn str_6_answers_in_one_piece_have_no_signs_of_life() {
    let upstream = Upstream::start("a");
    let gateway = beating(&upstream, "");
    par(4, |i| {
        let api = Api::ALL[i];
        let answer = api.whole(&gateway.url(""), "delay=1.5").send();
        assert_eq!(answer.status, 200);
        assert!(answer.elapsed >= Duration::from_millis(1500));
        assert!(answer.json().is_object());
        let failed = api.whole(&gateway.url(""), "delay=1,status=400").send();
        assert_eq!(failed.status, 400);
    });
    let url = gateway.url("/v1/embeddings");
    let body = "{\"model\": \"m\", \"input\": \"x [[mock:delay=1.2]]\", \"stream\": true}";
    let answer = weighbridge_test_engine::client::post(&url, &[], body);
    assert!(answer.json()["data"].is_array(), "{}", answer.text());
}

#[test]
fn str_6_an_old_client_gets_signs_of_life_too() {
    let upstream = Upstream::start("a");
    let gateway = beating(&upstream, "");
    let mut stream = Api::Chat.stream(&gateway.url(""), "delay=1.6").http10().open();
    assert!(stream.elapsed() < EVERY + LATE);
    assert_eq!(stream.header("transfer-encoding"), None);
    assert!(stream.finish(PATIENCE).is_whole(), "{:?}", stream.end());
    let text = stream.text();
    let (signs, rest) = split_signs(Api::Chat, &text);
    assert!(signs > 0 && rest == direct(Api::Chat, &upstream, ""), "{text}");
}

#[test]
fn str_6_str_1_a_client_that_leaves_among_signs_of_life_is_noticed() {
    let upstream = Upstream::start("a");
    let gateway = beating(&upstream, "");
    for api in Api::ALL {
        let mut stream = api.stream(&gateway.url(""), "hang=headers").open();
        assert!(stream.read_until(PATIENCE, |stream| stream.text().matches(sign(api)).count() > 1));
        stream.abort();
        let gone = eventually(SOON, || {
            upstream.posts().iter().all(|post| post.ended_as("peer_gone"))
        });
        assert!(gone, "{:?}", upstream.posts());
    }
    expect_outcomes(&gateway, "client_closed", 4.0);
    let line = gateway.wait_log(SOON, |line| line["outcome"] == "client_closed");
    assert_eq!(line["status"], 499, "{line}");
}

/// A half-closed client is asked with a comment whether it is there, and is answered.
#[test]
fn str_6_str_1_a_client_that_only_stops_sending_is_answered_behind_signs_of_life() {
    let upstream = Upstream::start("a");
    let gateway = beating(&upstream, "");
    let mut stream = Api::Chat.stream(&gateway.url(""), "delay=3").half_close().open();
    assert!(stream.finish(PATIENCE).is_whole(), "{:?}", stream.end());
    let text = stream.text();
    let (_, rest) = split_signs(Api::Chat, &text);
    assert_eq!(rest, direct(Api::Chat, &upstream, ""));
}

#[test]
fn str_6_dis_1_a_stream_that_waits_is_told_that_the_gateway_stops() {
    let upstream = Upstream::start("a");
    let url = upstream.url();
    let mut gateway = gateway(&format!(
        "
        server: {{drain_timeout: 1s}}
        pools: [{{name: p, kind: generic, endpoints: ['{url}']}}]
        routes: [{{name: m, targets: [p], heartbeat: 500ms}}]
        "
    ));
    let mut stream = Api::Messages.stream(&gateway.url(""), "hang=headers").open();
    wait_running(&upstream, 1);
    gateway.sigterm();
    stream.finish(PATIENCE);
    let (_, error) = expect_error_last(Api::Messages, &stream);
    assert!(error["message"].as_str().unwrap().contains("stopping"), "{error}");
    assert_eq!(gateway.wait_exit(PATIENCE), Some(1), "{}", gateway.output());
    let lines = gateway.log_lines();
    assert_eq!(
        (&lines[0]["outcome"], &lines[0]["status"]),
        (&"unavailable".into(), &200.into())
    );
    assert!(
        lines[0]["reason"].as_str().unwrap().contains("stopping"),
        "{}",
        lines[0]
    );
}

/// Signs of life are ours: they make no progress for an upstream that says nothing.
#[test]
fn str_6_a14_signs_of_life_keep_no_clock_from_ringing() {
    let upstream = Upstream::start("a");
    let gateway = beating(&upstream, ", timeouts: {idle: 1500ms}");
    par(4, |i| {
        let api = Api::ALL[i];
        let mut stream = api.stream(&gateway.url(""), "hang=4").open();
        stream.finish(PATIENCE);
        assert!(stream.text().contains(sign(api)), "{}", stream.text());
        let (_, error) = expect_error_last(api, &stream);
        assert!(error["message"].as_str().unwrap().contains("idle"), "{error}");
    });
    expect_outcomes(&gateway, "timeout", 4.0);
}

const BEGINS_AN_EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"cho";

/// An answer that is whole, though its connection stays open.
const WHOLE: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

#[test]
fn str_6_no_sign_follows_the_end_of_an_answer() {
    let url = canned(crate::support::CLOSE_DELIMITED, WHOLE, true);
    let gateway = beating_url(&url, ", heartbeat: 200ms", ", timeouts: {idle: 1500ms}");
    let mut stream = Api::Chat.stream(&gateway.url(""), "").open();
    stream.finish(PATIENCE);
    assert_eq!(stream.text(), WHOLE);
    // Before that end it is given.
    let begun = WHOLE.split_inclusive("\n\n").next().unwrap();
    let url = canned(crate::support::CLOSE_DELIMITED, begun, true);
    let gateway = beating_url(&url, ", heartbeat: 200ms", ", timeouts: {idle: 1500ms}");
    let mut stream = Api::Chat.stream(&gateway.url(""), "").open();
    stream.finish(PATIENCE);
    assert!(stream.text().contains("\n\n:\n\n"), "{}", stream.text());
}

/// Inside an event there is no room for a sign.
#[test]
fn str_6_nothing_is_put_into_an_event() {
    let head = crate::support::CLOSE_DELIMITED;
    let url = canned(head, BEGINS_AN_EVENT, true);
    let gateway = beating_url(
        &url,
        ", heartbeat: 200ms, usage: passive",
        ", timeouts: {idle: 1500ms}",
    );
    let mut stream = Api::Chat.stream(&gateway.url(""), "").open();
    assert!(!stream.finish(PATIENCE).is_whole());
    assert_eq!(stream.text(), BEGINS_AN_EVENT);
}
