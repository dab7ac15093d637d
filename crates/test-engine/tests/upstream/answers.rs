//! Whole answers: shapes, statuses, contents.

use super::{chat, chat_request, chat_stream, message, message_request, streamed};
use serde_json::json;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Request, get, post};

#[test]
fn an_answer_names_its_upstream() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let from_a = chat(&a, "");
    assert!(
        from_a.json()["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .starts_with("A: ")
    );
    assert_eq!(
        (from_a.served_by(), chat(&b, "").served_by()),
        (Some("A"), Some("B"))
    );
    assert_eq!((a.posts().len(), b.posts().len()), (1, 1));
}

#[test]
fn errors_have_the_shape_of_the_api() {
    let up = Upstream::start("A");
    let limited = chat(&up, "status=429,retry_after=2");
    assert_eq!((limited.status, limited.header("retry-after")), (429, Some("2")));
    assert_eq!(limited.json()["error"]["type"], "rate_limit_error");
    let overloaded = message(&up, "status=529,err_msg=a%2Cb");
    let expected = r#"{"type":"error","error":{"type":"overloaded_error","message":"a,b"}}"#;
    assert_eq!((overloaded.status, overloaded.text().as_str()), (529, expected));
    assert_eq!(
        chat(&up, "status=502,body=html").header("content-type"),
        Some("text/html")
    );
    let empty = chat(&up, "status=503,body=empty");
    assert_eq!((empty.text().as_str(), empty.header("content-type")), ("", None));
    assert_eq!(
        chat(&up, "status=400,body=detail,err_msg=x").text(),
        r#"{"detail":"x"}"#
    );
    assert!(serde_json::from_slice::<serde_json::Value>(&chat(&up, "status=500,body=badjson").body).is_err());
    assert_eq!(chat(&up, "status=500,body=text,err_msg=x").text(), "x");
    assert_eq!(chat(&up, "status=418").status, 418);
}

#[test]
fn an_error_may_hide_in_a_good_status() {
    let up = Upstream::start("A");
    let hidden = chat(&up, "ok_error,err_msg=bad");
    assert_eq!(hidden.status, 200);
    assert_eq!(
        hidden.json(),
        json!({"error": {"message": "bad", "type": "server_error", "code": 500}})
    );
    assert!(serde_json::from_slice::<serde_json::Value>(&chat(&up, "body=badjson").body).is_err());
}

#[test]
fn redirects_point_where_they_are_told() {
    let up = Upstream::start("A");
    let redirect = chat(&up, "redirect=http://127.0.0.1:1/x");
    assert_eq!(
        (redirect.status, redirect.header("location")),
        (307, Some("http://127.0.0.1:1/x"))
    );
}

#[test]
fn every_endpoint_has_its_shape() {
    let up = Upstream::start("A");
    let ask = |path: &str, body: serde_json::Value| {
        post(&format!("{}{path}", up.url()), &[], body.to_string()).json()
    };
    let text = ask("/v1/completions", json!({"model": "m", "prompt": "x"}));
    assert_eq!(
        (&text["object"], &text["choices"][0]["finish_reason"]),
        (&json!("text_completion"), &json!("stop"))
    );
    let response = ask("/v1/responses", json!({"model": "m", "input": "x"}));
    assert!(
        response["output"][0]["content"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("A: ")
    );
    let embeddings = ask("/v1/embeddings", json!({"model": "m", "input": ["x", "y"]}));
    assert_eq!(embeddings["data"].as_array().unwrap().len(), 2);
    assert_eq!(
        ask("/v1/messages/count_tokens", json!({"model": "m"})),
        json!({"input_tokens": 42})
    );
    let message = ask("/v1/messages", json!({"model": "m"}));
    assert_eq!(
        (&message["content"][0]["type"], &message["stop_reason"]),
        (&json!("text"), &json!("end_turn"))
    );
    assert_eq!(
        get(&format!("{}/v1/models", up.url()), &[]).json()["data"][0]["id"],
        "mock-model"
    );
    assert_eq!(post(&format!("{}/v1/nothing", up.url()), &[], "{}").status, 404);
    assert_eq!(get(&format!("{}/health", up.url()), &[]).status, 200);
}

#[test]
fn tool_calls_come_whole_and_empty() {
    let up = Upstream::start("A");
    let calls = chat(&up, "tool=2").json();
    let calls = calls["choices"][0]["message"]["tool_calls"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(calls.len(), 2);
    assert!(
        calls[0]["function"]["arguments"]
            .as_str()
            .unwrap()
            .contains("9007199254740993")
    );
    assert_eq!(
        chat(&up, "tool").json()["choices"][0]["finish_reason"],
        "tool_calls"
    );
    let blocks = message(&up, "tool_noargs").json();
    let tool = blocks["content"]
        .as_array()
        .unwrap()
        .iter()
        .find(|b| b["type"] == "tool_use")
        .unwrap()
        .clone();
    assert_eq!(
        (&tool["input"], &blocks["stop_reason"]),
        (&json!({}), &json!("tool_use"))
    );
    let own = chat(&up, "tool_args={\"a\":1}").json();
    assert_eq!(
        own["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"],
        "{\"a\":1}"
    );
}

#[test]
fn usage_says_what_it_is_told() {
    let up = Upstream::start("A");
    assert_eq!(
        chat(&up, "usage_in=7,usage_out=9").json()["usage"]["total_tokens"],
        16
    );
    assert_eq!(
        chat(&up, "cached=5").json()["usage"]["prompt_tokens_details"]["cached_tokens"],
        5
    );
    assert!(chat(&up, "nousage").json().get("usage").is_none());
    assert_eq!(
        message(&up, "usage_in=7,usage_out=9").json()["usage"],
        json!({"input_tokens": 7, "output_tokens": 9})
    );
}

#[test]
fn contents_that_are_hard_to_carry() {
    let up = Upstream::start("A");
    assert!(chat(&up, "nan").text().contains("\"logprob\":NaN"));
    assert!(chat(&up, "bigint").text().contains("\"x_big\":9007199254740993"));
    let thinking = chat(&up, "reasoning,stop_hit=END").json();
    assert!(thinking["choices"][0]["message"]["reasoning_content"].is_string());
    assert_eq!(thinking["choices"][0]["stop_reason"], "END");
    assert_eq!(
        chat(&up, "empty_content").json()["choices"][0]["message"]["content"],
        ""
    );
    assert!(chat(&up, "unicode").text().contains('🙂'));
    assert_eq!(
        chat(&up, "text=x,finish=length").json()["choices"][0]["finish_reason"],
        "length"
    );
    assert!(chat(&up, "big=3000000").body.len() > 3_000_000);
    up.wait_idle(super::SOON);
    let last = up.posts().pop().unwrap();
    assert!(last.bytes_sent > 3_000_000 && last.body.unwrap().contains("big=3000000"));
}

#[test]
fn echo_gives_back_what_was_received() {
    let up = Upstream::start("A");
    let body = r#"{"model":"m@@echo", "unknown_field":{"a":1.50}}"#;
    let answer = post(
        &format!("{}/v1/chat/completions?q=1", up.url()),
        &[("x-A", "b")],
        body,
    )
    .json();
    let echo = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(echo.contains(body), "{echo}");
    let echo: serde_json::Value = serde_json::from_str(echo).unwrap();
    assert_eq!(
        (&echo["headers"]["x-a"], &echo["target"]),
        (&json!("b"), &json!("/v1/chat/completions?q=1"))
    );
}

#[test]
fn modes_are_chosen_in_order() {
    let up = Upstream::start("A");
    let url = format!("{}/v1/chat/completions", up.url());
    let ask = |model: &str, text: &str, header: &str| {
        let body = json!({"model": model, "messages": [{"role": "user", "content": text}]}).to_string();
        post(&url, &[("x-mock", header)], body).status
    };
    up.set_mode("status=500");
    assert_eq!(ask("m", "", ""), 500);
    assert_eq!(ask("m@@status=501", "", ""), 501);
    assert_eq!(
        ask(
            "m@@status=501",
            "[[mock:status=400]] then [[mock:status=502]]",
            ""
        ),
        502
    );
    assert_eq!(ask("m@@status=501", "[[mock:status=502]]", "status=503"), 503);
    up.script(["status=504", "", "status=505"]);
    assert_eq!(up.stats().script_left, 3);
    assert_eq!(ask("m", "[[mock:status=502]]", "status=503"), 504);
    assert_eq!(ask("m", "[[mock:status=502]]", "status=503"), 503);
    assert_eq!((ask("m", "", ""), ask("m", "", "")), (505, 500));
    let from: Vec<_> = up
        .posts()
        .iter()
        .map(|r| r.mode_from.unwrap_or("default"))
        .collect();
    let expected = [
        "default", "model", "marker", "header", "script", "header", "script", "default",
    ];
    assert_eq!(from, expected);
}

#[test]
fn extra_headers_and_a_wrong_type() {
    let up = Upstream::start("A");
    let answer = chat(
        &up,
        "ctype=text/html,h.set-cookie=a=1,h.set-cookie=b=2,conn_close",
    );
    assert_eq!(answer.header_all("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(
        (answer.header("content-type"), answer.header("connection")),
        (Some("text/html"), Some("close"))
    );
}

#[test]
fn a_stream_may_be_answered_in_one_piece() {
    let up = Upstream::start("A");
    let stream = chat_stream(&up, "notjson_stream");
    assert_eq!(stream.header("content-type"), Some("application/json"));
    assert!(stream.text().starts_with('{'));
}

#[test]
fn codings_need_to_be_accepted_or_forced() {
    let up = Upstream::start("A");
    let read = |body: &[u8], zlib: bool| {
        let mut text = String::new();
        let n = if zlib {
            std::io::Read::read_to_string(&mut flate2::read::ZlibDecoder::new(body), &mut text)
        } else {
            std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(body), &mut text)
        };
        n.map(|_| text)
    };
    assert_eq!(chat(&up, "gzip").header("content-encoding"), None);
    let accepts = |r: Request| r.header("accept-encoding", "gzip, deflate");
    let coded = accepts(chat_request(&up, "gzip", false)).send();
    assert_eq!(coded.header("content-encoding"), Some("gzip"));
    assert!(read(&coded.body, false).unwrap().contains("\"content\":\"A: "));
    let forced = chat(&up, "deflate=force");
    assert_eq!(forced.header("content-encoding"), Some("deflate"));
    assert!(read(&forced.body, true).unwrap().contains("\"content\":\"A: "));
    let stream = streamed(&accepts(message_request(&up, "gzip,gap=0.01", true)));
    assert!(
        read(&stream.body(), false)
            .unwrap()
            .ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
    );
    assert!(stream.pieces().len() > 1, "each event is flushed by itself");
}
