//! One request and one error in every dialect, to the byte.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use weighbridge_wire::{Api, BodyPath, ErrorBody, Peek, Protocol, Timeout, rewrite_model};

struct Request {
    path: &'static str,
    body: &'static str,
    api: Api,
    stream: bool,
    max_tokens: Option<u64>,
    session: Option<&'static str>,
    rewritten: &'static str,
}

const REQUESTS: [Request; 6] = [
    Request {
        path: "/v1/chat/completions",
        body: r#"{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_completion_tokens":64,"stream":true,"seed":9007199254740993,"chat_template_kwargs":{"enable_thinking":false}}"#,
        api: Api::ChatCompletions,
        stream: true,
        max_tokens: Some(64),
        session: None,
        rewritten: r#"{"model":"org/up","messages":[{"role":"user","content":"Hi"}],"max_completion_tokens":64,"stream":true,"seed":9007199254740993,"chat_template_kwargs":{"enable_thinking":false}}"#,
    },
    Request {
        path: "/v1/completions",
        body: r#"{"prompt":["a","b"],"max_tokens":16,"temperature":1.0,"model":"m"}"#,
        api: Api::Completions,
        stream: false,
        max_tokens: Some(16),
        session: None,
        rewritten: r#"{"prompt":["a","b"],"max_tokens":16,"temperature":1.0,"model":"org/up"}"#,
    },
    Request {
        path: "/v1/responses",
        body: r#"{"input":"Hi","model":"m","max_output_tokens":32,"prompt_cache_key":"s-1","stream":true}"#,
        api: Api::Responses,
        stream: true,
        max_tokens: Some(32),
        session: Some("s-1"),
        rewritten: r#"{"input":"Hi","model":"org/up","max_output_tokens":32,"prompt_cache_key":"s-1","stream":true}"#,
    },
    Request {
        path: "/v1/embeddings",
        body: r#"{"model":"m","input":[[1,2],[3]],"encoding_format":"base64"}"#,
        api: Api::Embeddings,
        stream: false,
        max_tokens: None,
        session: None,
        rewritten: r#"{"model":"org/up","input":[[1,2],[3]],"encoding_format":"base64"}"#,
    },
    Request {
        path: "/v1/messages",
        body: r#"{"model":"m","max_tokens":128,"metadata":{"user_id":"u-7"},"system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"Hi"}]}"#,
        api: Api::Messages,
        stream: false,
        max_tokens: Some(128),
        session: Some("u-7"),
        rewritten: r#"{"model":"org/up","max_tokens":128,"metadata":{"user_id":"u-7"},"system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"Hi"}]}"#,
    },
    Request {
        path: "/v1/messages/count_tokens",
        body: r#"{"messages":[{"role":"user","content":"Hi"}],"model":"m"}"#,
        api: Api::CountTokens,
        stream: false,
        max_tokens: None,
        session: None,
        rewritten: r#"{"messages":[{"role":"user","content":"Hi"}],"model":"org/up"}"#,
    },
];

#[test]
fn a_request_in_every_dialect() {
    let wanted = ["prompt_cache_key", "metadata.user_id"].map(|path| BodyPath::parse(path).unwrap());
    for request in REQUESTS {
        assert_eq!(Api::from_path(&Method::POST, request.path), Ok(request.api));
        let body = Bytes::from_static(request.body.as_bytes());
        let peek = Peek::new(&body, &wanted).unwrap();
        assert_eq!(peek.model.as_deref(), Some("m"), "{}", request.path);
        assert_eq!(
            (peek.stream, peek.max_tokens),
            (request.stream, request.max_tokens),
            "{}",
            request.path
        );
        assert_eq!(
            peek.found.iter().flatten().next().map(String::as_str),
            request.session,
            "{}",
            request.path
        );
        assert_eq!(rewrite_model(&body, &peek, "org/up"), request.rewritten);
    }
}

#[test]
fn an_error_in_every_dialect() {
    let error = ErrorBody::unknown_model("m").with_request_id("req-1");
    assert_eq!(
        error.render(Protocol::OpenAi),
        r#"{"error":{"message":"The model \"m\" does not exist here, or this key may not use it. GET /v1/models lists them.","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#
    );
    assert_eq!(
        error.render(Protocol::Anthropic),
        r#"{"type":"error","error":{"type":"not_found_error","message":"The model \"m\" does not exist here, or this key may not use it. GET /v1/models lists them."},"request_id":"req-1"}"#
    );
}

#[test]
fn an_error_event_in_every_dialect() {
    let error = ErrorBody::timeout(Timeout::Idle);
    let openai = r#"{"message":"The upstream's stream stood still for too long (timeouts.idle).","type":"server_error","param":null,"code":"timeout"}"#;
    let expect = format!("data: {{\"error\":{openai}}}\n\n");
    assert_eq!(error.sse_event(Protocol::OpenAi, Some("req-1")), expect);
    assert_eq!(error.sse_event_for(Api::ChatCompletions, None), expect);
    assert_eq!(error.sse_event_for(Api::Completions, None), expect);
    assert_eq!(
        error.sse_event_for(Api::Messages, Some("req-1")),
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"timeout_error\",\"message\":\"The upstream's stream stood still for too long (timeouts.idle).\"},\"request_id\":\"req-1\"}\n\n"
    );
    assert_eq!(
        error.sse_event_for(Api::Responses, None),
        format!(
            "event: error\ndata: {{\"type\":\"error\",\"code\":\"timeout\",\"message\":\"The upstream's stream stood still for too long (timeouts.idle).\",\"param\":null,\"error\":{openai}}}\n\n"
        )
    );
}

#[test]
fn a_wait_goes_with_the_error_not_into_its_body() {
    let error = ErrorBody::busy(
        "All endpoints of this route are at capacity.",
        Some(Duration::from_secs(2)),
    );
    assert_eq!(error.retry_after, Some(Duration::from_secs(2)));
    assert_eq!(
        error.render(Protocol::OpenAi),
        r#"{"error":{"message":"All endpoints of this route are at capacity.","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}"#
    );
}
