use serde_json::{Value, json};

use super::*;
use crate::Peek;

const BOTH: [Protocol; 2] = [Protocol::OpenAi, Protocol::Anthropic];

/// Every error the gateway makes itself, with its status.
fn own_errors() -> Vec<(u16, ErrorBody)> {
    let refused = |body: &[u8]| ErrorBody::bad_json(&Peek::new(body, &[]).unwrap_err());
    let later = Some(Duration::from_secs(3));
    vec![
        (400, refused(b"{")),
        (400, refused(br#"{"model":"a","model":"b"}"#)),
        (400, refused(br#"{"model":1}"#)),
        (400, ErrorBody::no_model()),
        (
            400,
            ErrorBody::unsupported("No target of this route speaks the Responses API."),
        ),
        (401, ErrorBody::unauthorized(KeyFault::Missing)),
        (401, ErrorBody::unauthorized(KeyFault::Unknown)),
        (401, ErrorBody::unauthorized(KeyFault::Expired)),
        (403, ErrorBody::forbidden("This key may not ask for priority P0.")),
        (404, ErrorBody::unknown_model("a\"b")),
        (404, ErrorBody::no_such_path("/v2")),
        (405, ErrorBody::method_not_allowed("POST")),
        (408, ErrorBody::slow_request()),
        (413, ErrorBody::too_large(1024)),
        (
            415,
            ErrorBody::unsupported_media("Bodies in the encoding br are not read."),
        ),
        (422, ErrorBody::idempotency_mismatch()),
        (429, ErrorBody::busy("All endpoints are at capacity.", later)),
        (431, ErrorBody::headers_too_large()),
        (500, ErrorBody::internal()),
        (
            502,
            ErrorBody::bad_gateway("The upstream closed the connection without an answer."),
        ),
        (502, ErrorBody::stream_cut()),
        (503, ErrorBody::unavailable("No endpoint is live.", later)),
        (503, ErrorBody::draining()),
        (504, ErrorBody::timeout(Timeout::FirstByte)),
        (504, ErrorBody::timeout(Timeout::Client)),
    ]
}

fn parse(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

#[test]
fn own_errors_have_their_status_and_both_shapes() {
    for (status, error) in own_errors() {
        assert_eq!(error.status, status);
        assert!(error.message.len() > 10, "{error:?}");
        let openai = parse(&error.render(Protocol::OpenAi));
        assert_eq!(openai["error"]["message"], error.message);
        assert_eq!(openai["error"]["type"], openai_kind(status));
        assert!(openai["error"]["code"].is_string(), "{openai}");
        assert_eq!(openai["error"].as_object().unwrap().len(), 4);
        let anthropic = parse(&error.clone().with_request_id("req-1").render(Protocol::Anthropic));
        assert_eq!(
            anthropic,
            json!({
                "type": "error",
                "error": {"type": anthropic_kind(status), "message": error.message},
                "request_id": "req-1",
            })
        );
        for (protocol, body) in [(Protocol::OpenAi, &openai), (Protocol::Anthropic, &anthropic)] {
            assert!(passes_untouched(
                protocol,
                status,
                Some("application/json"),
                body.to_string().as_bytes()
            ));
        }
    }
}

#[test]
fn statuses_for_clients() {
    let check = |upstream, openai, anthropic| {
        assert_eq!(
            BOTH.map(|protocol| client_status(protocol, upstream)),
            [openai, anthropic],
            "{upstream}"
        );
    };
    for kept in [400, 401, 403, 404, 409, 413, 422, 429, 499, 503, 504] {
        check(kept, kept, kept);
    }
    for broken in [0, 100, 200, 301, 307, 500, 501, 502, 505, 520, 599, 600] {
        check(broken, 502, 502);
    }
    check(529, 503, 529);
}

/// An upstream's body under `content_type`, and the message, type, code and parameter found in it.
fn check(content_type: &str, body: &str, message: &str, words: [Option<&str>; 3]) {
    for protocol in BOTH {
        let error = upstream_error(protocol, 400, Some(content_type), body.as_bytes());
        assert_eq!(error.message, message, "{body}");
        assert_eq!(
            [
                error.kind.as_deref(),
                error.code.as_deref(),
                error.param.as_deref()
            ],
            words,
            "{body}"
        );
    }
}

#[test]
fn messages_are_found_in_json_of_every_shape() {
    let json = "application/json";
    check(
        json,
        r#"{"error":{"message":" no ","type":"invalid_request_error","code":"bad","param":"n"}}"#,
        "no",
        [Some("invalid_request_error"), Some("bad"), Some("n")],
    );
    check(
        json,
        r#"{"error":{"message":"no","type":"BadRequestError","code":400}}"#,
        "no",
        [Some("BadRequestError"), None, None],
    );
    check(
        json,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
        "busy",
        [Some("overloaded_error"), None, None],
    );
    check(
        json,
        r#"{"object":"error","message":"no","type":"T","code":40301}"#,
        "no",
        [Some("T"), Some("40301"), None],
    );
    check(json, r#"{"detail":"no"}"#, "no", [None; 3]);
    check(json, r#"{"detail":{"error":"no"}}"#, "no", [None; 3]);
    check(
        json,
        r#"{"detail":[{"loc":["body","messages",0],"msg":"missing","type":"x"},{"loc":[],"msg":"two"},"three"]}"#,
        "body.messages.0: missing; two; three",
        [None; 3],
    );
    check(
        json,
        r#"{"message":"no","code":"c"}"#,
        "no",
        [None, Some("c"), None],
    );
    check(json, r#"{"error":"no"}"#, "no", [None; 3]);
    check(
        json,
        r#"{"error":"no","error_type":"validation"}"#,
        "no",
        [Some("validation"), None, None],
    );
    check(
        json,
        r#"[{"error":{"message":"no","status":"INVALID_ARGUMENT","code":400}}]"#,
        "no",
        [None, Some("INVALID_ARGUMENT"), None],
    );
    check(json, "\u{feff}\"no\"", "no", [None; 3]);
    check("text/plain", r#"{"error":{"message":"no"}}"#, "no", [None; 3]);
}

#[test]
fn a_message_is_never_empty_nor_a_page() {
    let silent = "The upstream answered with status 400 and no message.";
    for body in [
        "",
        " \n",
        "{}",
        "[]",
        r#"{"error":null}"#,
        r#"{"error":{}}"#,
        r#"{"message":""}"#,
        "<p></p>",
        "\"\"",
    ] {
        check("application/json", body, silent, [None; 3]);
    }
    check(
        "application/json",
        r#"{"error": {"message": "trunc"#,
        "The upstream answered with status 400 and broken JSON.",
        [None; 3],
    );
    check(
        "application/json",
        r#"{"error": {"message": "whole \u00e9", "ty"#,
        "whole é",
        [None; 3],
    );
    check("text/plain", "  out of memory\n", "out of memory", [None; 3]);
    check(
        "text/plain",
        "[ERROR] out of memory",
        "[ERROR] out of memory",
        [None; 3],
    );
    check(
        "application/json",
        r#"{"error":"expected a <tool_call> tag"}"#,
        "expected a <tool_call> tag",
        [None; 3],
    );
    let titled = "The upstream answered with a page titled \"502 Bad & Gateway b\".";
    let page = "<!DOCTYPE html><HTML><head><TITLE id=x>502\n Bad &amp; Gateway <b></TITLE></head><body><h1>x</h1></body></HTML>";
    check("text/html; charset=utf-8", page, titled, [None; 3]);
    check("text/plain", page, titled, [None; 3]);
    check(
        "application/json",
        &json!({"error": {"message": page}}).to_string(),
        titled,
        [None; 3],
    );
    check("text/html", "<html><h1>503</h1></html>", silent, [None; 3]);
    check(
        "text/plain",
        "Error: <html><body>x</body></html>",
        silent,
        [None; 3],
    );
}

#[test]
fn every_status_and_body_gives_the_clients_shape() {
    let bodies = [
        (
            "application/json",
            r#"{"error":{"message":"m","type":"api_error","param":null,"code":"500"}}"#,
        ),
        (
            "application/json",
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"m"}}"#,
        ),
        ("application/json", r#"{"detail":"m"}"#),
        (
            "text/html",
            "<html><head><title>500</title></head><body><h1>m</h1>nginx</body></html>",
        ),
        ("text/plain", "m"),
        ("", ""),
        ("application/json", r#"{"error": {"message": "trunc"#),
    ];
    for status in [400, 401, 404, 422, 429, 500, 502, 503, 529] {
        for (content_type, body) in bodies {
            for protocol in BOTH {
                let error = upstream_error(protocol, status, Some(content_type), body.as_bytes());
                let rendered = error.render(protocol);
                assert_eq!(error.status, client_status(protocol, status));
                assert!(
                    passes_untouched(protocol, status, Some("application/json"), &rendered),
                    "{rendered:?}"
                );
                assert!(!error.message.contains('<'), "{error:?}");
                if body.contains("\"m\"") {
                    assert_eq!(error.message, "m");
                }
            }
        }
    }
}

#[test]
fn types_are_words_the_client_knows() {
    let error = ErrorBody {
        kind: Some("overloaded_error".into()),
        ..ErrorBody::new(529, "busy")
    };
    assert_eq!(
        parse(&error.render(Protocol::Anthropic))["error"]["type"],
        "overloaded_error"
    );
    assert_eq!(
        parse(&error.render(Protocol::OpenAi))["error"]["type"],
        "server_error"
    );
    let error = ErrorBody {
        kind: Some("BadRequestError".into()),
        ..ErrorBody::new(400, "no")
    };
    assert_eq!(
        parse(&error.render(Protocol::Anthropic))["error"]["type"],
        "invalid_request_error"
    );
    assert_eq!(
        parse(&error.render(Protocol::OpenAi))["error"]["type"],
        "BadRequestError"
    );
}

#[test]
fn long_messages_are_cut_between_characters() {
    for body in [
        format!(r#"{{"error":"a{0}"}}"#, "é".repeat(4000)),
        format!("a{}", "é".repeat(4000)),
    ] {
        let error = upstream_error(Protocol::OpenAi, 500, None, body.as_bytes());
        assert_eq!(error.message.len(), 2047);
    }
    let broken = [b"a".as_slice(), &[0xff; 9000]].concat();
    assert!(upstream_error(Protocol::OpenAi, 500, None, &broken).message.len() <= 2048);
}

#[test]
fn what_passes_untouched() {
    let check = |protocol, status, content_type, body: &str, expect| {
        assert_eq!(
            passes_untouched(protocol, status, content_type, body.as_bytes()),
            expect,
            "{body}"
        );
    };
    let json = Some("Application/JSON; charset=utf-8");
    let openai = r#"{"error":{"message":"m","type":"t","code":400,"x":1}, "extra":null}"#;
    let anthropic = r#"{"type":"error","error":{"type":"t","message":"m"},"request_id":"r"}"#;
    check(Protocol::OpenAi, 400, json, openai, true);
    check(
        Protocol::OpenAi,
        500,
        Some("application/problem+json"),
        openai,
        true,
    );
    check(Protocol::Anthropic, 400, json, anthropic, true);
    check(Protocol::Anthropic, 400, json, openai, false);
    check(Protocol::OpenAi, 400, json, anthropic, false);
    check(Protocol::OpenAi, 200, json, openai, false);
    check(Protocol::OpenAi, 400, None, openai, false);
    check(Protocol::OpenAi, 400, Some("text/plain"), openai, false);
    for other in [
        "",
        "{",
        r#"{"error":"m"}"#,
        r#"{"error":{"message":"m"}}"#,
        r#"{"error":{"message":" ","type":"t"}}"#,
        r#"{"error":{"message":"<html>x</html>","type":"t"}}"#,
        r#"{"detail":"m"}"#,
    ] {
        check(Protocol::OpenAi, 400, json, other, false);
    }
    check(
        Protocol::OpenAi,
        400,
        json,
        &openai.replace("\"m\"", &format!("{:?}", "x".repeat(3000))),
        false,
    );
}

#[test]
fn errors_from_inside_an_answer() {
    let inside = |body: &[u8]| ErrorBody::in_band(Protocol::OpenAi, &crate::body_error(body).unwrap());
    let error = inside(br#"{"error":{"message":"no","type":"BadRequestError","code":400,"param":"n"}}"#);
    assert_eq!(
        (error.status, error.kind.as_deref(), error.param.as_deref()),
        (400, Some("BadRequestError"), Some("n"))
    );
    assert_eq!(inside(br#"{"error":{"message":"no","code":500}}"#).status, 502);
    assert_eq!(inside(br#"{"error":"no"}"#).status, 502);
}

/// What a client may change, or must ask for, is named.
#[test]
fn messages_name_the_key_and_the_header() {
    assert!(ErrorBody::too_large(1024).message.contains("server.max_body"));
    assert!(ErrorBody::no_model().message.contains("x-model"));
}
