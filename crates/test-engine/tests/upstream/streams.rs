//! Streams: events, forms, and the ways they end.

use super::{SOON, chat_request, chat_stream, message_request, normal, streamed};
use serde_json::json;
use std::time::Duration;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::End;

#[test]
fn a_stream_ends_with_done_and_has_usage_when_asked() {
    let up = Upstream::start("A");
    let stream = chat_stream(&up, "");
    assert_eq!((stream.status, stream.end()), (200, End::Complete));
    assert_eq!(stream.data().last().unwrap(), "[DONE]");
    assert!(!stream.text().contains("\"usage\""));
    let text: String = stream
        .events()
        .iter()
        .filter_map(|e| {
            e.json()["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    assert!(text.starts_with("A: "));
    let body = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}}).to_string();
    let asked = streamed(&chat_request(&up, "", true).body(body));
    let usage = asked
        .events()
        .iter()
        .map(|e| e.json())
        .rfind(|e| e["usage"].is_object())
        .unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert!(asked.text().contains("\"usage\":null"));
    assert!(!chat_stream(&up, "nodone").text().contains("[DONE]"));
    assert!(chat_stream(&up, "usage").text().contains("\"usage\":{"));
    assert!(
        !chat_stream(&up, "no_terminal")
            .text()
            .contains("\"finish_reason\":\"stop\"")
    );
    assert_eq!(
        chat_stream(&up, "empty_choices").events()[0].json()["choices"],
        json!([])
    );
    assert!(chat_stream(&up, "bigint").data()[1].ends_with(",\"x_big\":9007199254740993}"));
}

#[test]
fn a_message_stream_has_its_events_in_order() {
    let up = Upstream::start("A");
    let names = |mode: &str| -> Vec<String> {
        streamed(&message_request(&up, mode, true))
            .events()
            .into_iter()
            .filter_map(|e| e.name)
            .collect()
    };
    let (start, delta, stop) = ("content_block_start", "content_block_delta", "content_block_stop");
    let expected = [
        "message_start",
        "ping",
        start,
        delta,
        delta,
        stop,
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names("chunks=2"), expected);
    assert_eq!(
        names("chunks=1,reasoning").iter().filter(|n| *n == start).count(),
        2
    );
    let tools = streamed(&message_request(&up, "tool,empty_content", true));
    let parts: String = tools
        .events()
        .iter()
        .filter_map(|e| e.json()["delta"]["partial_json"].as_str().map(str::to_owned))
        .collect();
    assert!(serde_json::from_str::<serde_json::Value>(&parts).unwrap()["city"].is_string());
}

#[test]
fn tool_calls_are_streamed_in_parts() {
    let up = Upstream::start("A");
    let stream = chat_stream(&up, "tool=2");
    let mut arguments = [String::new(), String::new()];
    for event in stream.events() {
        let call = &event.json()["choices"][0]["delta"]["tool_calls"][0];
        if let (Some(i), Some(part)) = (call["index"].as_u64(), call["function"]["arguments"].as_str()) {
            arguments[usize::try_from(i).unwrap()] += part;
        }
    }
    assert!(
        arguments.iter().all(|a| a.contains("9007199254740993")),
        "{arguments:?}"
    );
}

#[test]
fn the_other_dialects_stream_too() {
    let up = Upstream::start("A");
    let open = |path: &str| {
        let body = json!({"model": "m", "stream": true}).to_string();
        streamed(&weighbridge_test_engine::client::Request::post(
            &format!("{}{path}", up.url()),
            body,
        ))
    };
    assert!(
        open("/v1/completions").events()[1].json()["choices"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("A: ")
    );
    let response = open("/v1/responses").events();
    assert_eq!(response[0].name.as_deref(), Some("response.created"));
    assert_eq!(response.last().unwrap().json()["response"]["status"], "completed");
}

#[test]
fn a_cut_stream_ends_too_early() {
    let up = Upstream::start("A");
    let cut = chat_stream(&up, "cut=3");
    assert_eq!((cut.events().len(), cut.end()), (3, End::Premature));
    let reset = chat_stream(&up, "cut=3,cut_kind=rst");
    assert_eq!(reset.end(), End::Reset);
    let clean = chat_stream(&up, "cut=3,cut_kind=clean");
    assert_eq!((clean.events().len(), clean.end()), (3, End::Complete));
    assert_eq!(chat_stream(&up, "cut=0,cut_kind=clean").text(), "");
    up.wait_idle(SOON);
    let seen: Vec<_> = up
        .posts()
        .iter()
        .map(|r| (r.outcome.unwrap(), r.events_sent, r.cut_after))
        .collect();
    let expected = [
        ("cut", 3, Some(3)),
        ("cut", 3, Some(3)),
        ("cut_clean", 3, Some(3)),
        ("cut_clean", 0, Some(0)),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn errors_come_within_a_stream() {
    let up = Upstream::start("A");
    let stream = chat_stream(&up, "error_event=0,error_code=400,err_msg=no");
    assert_eq!(stream.status, 200);
    assert_eq!(
        stream.data(),
        [
            r#"{"error":{"message":"no","type":"server_error","code":400}}"#,
            "[DONE]"
        ]
    );
    let stream = streamed(&message_request(&up, "error_event=2", true));
    let last = stream.events().pop().unwrap();
    assert_eq!(
        (last.name.as_deref(), &last.json()["error"]["type"]),
        (Some("error"), &json!("overloaded_error"))
    );
    assert_eq!(stream.events().len(), 3);
    up.wait_idle(SOON);
    assert!(up.posts().iter().all(|r| r.ended_as("in_band_error")));
}

#[test]
fn all_forms_carry_the_same_events() {
    let up = Upstream::start("A");
    let plain = normal(&chat_stream(&up, "unicode,chunks=2"), "unicode,chunks=2");
    for form in [
        "crlf",
        "cr",
        "nospace",
        "coalesce",
        "sse_id",
        "comment_every=2",
        "split=40",
        "proto10",
        "close_delimited",
    ] {
        let mode = format!("unicode,chunks=2,{form}");
        let stream = chat_stream(&up, &mode);
        assert_eq!(normal(&stream, &mode), plain, "{form}");
        assert!(stream.end().is_whole(), "{form}");
    }
    assert!(chat_stream(&up, "crlf,nospace").text().starts_with("data:{"));
    assert!(chat_stream(&up, "crlf").text().contains("\r\n\r\ndata: "));
    assert!(!chat_stream(&up, "cr").text().contains('\n'));
    let id = chat_stream(&up, "sse_id").events()[1].id.clone();
    assert_eq!(id.as_deref(), Some("1"));
    let multiline = chat_stream(&up, "multiline").events()[0].data.clone();
    assert_eq!(multiline.lines().count(), 2);
}

#[test]
fn a_split_stream_arrives_in_small_pieces() {
    let up = Upstream::start("A");
    let mode = "unicode,chunks=1,text=你好🙂,split=1";
    let stream = chat_stream(&up, mode);
    let whole = chat_stream(&up, "unicode,chunks=1,text=你好🙂");
    assert_eq!(
        normal(&stream, mode),
        normal(&whole, "unicode,chunks=1,text=你好🙂")
    );
    assert!(
        stream.pieces().len() > 20 * whole.pieces().len().min(5),
        "{}",
        stream.pieces().len()
    );
}

#[test]
fn comments_come_before_and_between() {
    let up = Upstream::start("A");
    let stream = chat_stream(&up, "comments=2,comment_gap=0.05");
    assert!(stream.text().starts_with(": ping\n\n: ping\n\ndata: "));
    let parsed = stream.parsed();
    assert_eq!(parsed.comments.len(), 2);
    assert!(parsed.events[0].at - stream.started >= Duration::from_millis(100));
    assert_eq!(
        chat_stream(&up, "chunks=8,comment_every=5")
            .parsed()
            .comments
            .len(),
        2
    );
}

#[test]
fn times_are_kept() {
    let up = Upstream::start("A");
    let stream = chat_stream(&up, "delay=0.1,delay_body=0.1,gap=0.05,chunks=2");
    let events = stream.events();
    assert!(stream.head_at - stream.started >= Duration::from_millis(100));
    assert!(events[0].at - stream.started >= Duration::from_millis(200));
    assert!(events[3].at - stream.started >= Duration::from_millis(350));
    up.wait_idle(SOON);
    let record = &up.posts()[0];
    let (head, first) = (record.t_headers.unwrap(), record.t_first_event.unwrap());
    assert!(
        head - record.t >= 0.1 && first - head >= 0.1 && record.t_end.unwrap() - first >= 0.2,
        "{record:?}"
    );
    assert!(stream.started <= record.started() && record.started() < stream.head_at);
}
