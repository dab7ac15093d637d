//! HTTP at the client's side: bodies of every framing and size, requests that stop half way, what stays on the wire.

use crate::support::{
    Api, PATIENCE, SOON, address, chat_bytes, expect_outcomes, gateway, gateway_to, narrow_client, outcomes,
    read_all,
};
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Connection, Request, get, raw};
use weighbridge_test_engine::harness::{Gateway, GatewayOptions};

fn limited(upstream: &Upstream, limit: &str) -> Gateway {
    let url = upstream.url();
    gateway(&format!(
        "
        server: {{max_body: {limit}}}
        pools: [{{name: m, kind: generic, endpoints: ['{url}']}}]
        "
    ))
}

/// A chat request of exactly `len` bytes.
fn body_of(len: usize) -> String {
    let (head, tail) = (
        r#"{"model":"m","messages":[{"role":"user","content":""#,
        r#""}]}"#,
    );
    format!("{head}{}{tail}", "x".repeat(len - head.len() - tail.len()))
}

/// Resident memory of the gateway, KiB: the highest so far.
fn peak_memory(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

const MIB: usize = 1024 * 1024;

#[test]
fn http_2_a_body_up_to_the_limit_passes_and_above_it_is_refused() {
    let upstream = Upstream::start("a");
    let gateway = limited(&upstream, "1MiB");
    let url = gateway.url("/v1/chat/completions");
    for chunked in [false, true] {
        let request = |len| {
            let request = Request::post(&url, body_of(len));
            if chunked { request.chunked(10_000) } else { request }
        };
        assert_eq!(request(MIB).send().status, 200);
        let refused = request(MIB + 1).try_send().unwrap();
        assert_eq!(refused.status, 413, "{}", refused.text());
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(
            message.contains("1048576") || message.contains("1 MiB"),
            "{message}"
        );
    }
    assert_eq!(upstream.posts().len(), 2);
    assert_eq!(
        (outcomes(&gateway, "ok"), outcomes(&gateway, "client_error")),
        (2.0, 2.0)
    );
}

#[test]
fn http_2_a_huge_body_is_refused_early_and_costs_no_memory() {
    let yaml = "
        server: {max_body: 1MiB}
        pools: [{name: m, kind: generic, endpoints: ['http://127.0.0.1:9']}]
        ";
    let mut options = GatewayOptions::new(Path::new(env!("CARGO_BIN_EXE_weighbridge")), yaml);
    options.args = vec!["--workers".into(), "1".into()];
    let gateway = Gateway::start_with(&options);
    let url = |path: &str| gateway.url(path);
    let chat = |len| Request::post(&url("/v1/chat/completions"), body_of(len));
    // Code that has not run yet is not in memory either.
    for request in [chat(300_000).chunked(60_000), chat(2 * MIB)] {
        request.try_send().unwrap();
    }
    let huge = body_of(50 * MIB);
    for request in [
        Request::post(&url("/v1/chat/completions"), &huge),
        Request::post(&url("/v1/messages"), &huge),
        Request::post(&url("/v1/nothing"), &huge),
        Request::post(&url("/v1/chat/completions"), &huge).chunked(60_000),
    ] {
        let before = peak_memory(&gateway);
        let refused = request.try_send().unwrap();
        assert!(matches!(refused.status, 413 | 404), "{}", refused.status);
        assert!(refused.end.is_whole(), "{:?}", refused.end);
        let grown = peak_memory(&gateway).saturating_sub(before);
        assert!(grown < 4 * 1024, "{grown} KiB more");
    }
}

#[test]
fn http_2_the_answer_to_a_body_that_is_refused_is_not_lost() {
    let upstream = Upstream::start("a");
    let gateway = limited(&upstream, "1MiB");
    // The client sends everything before it reads; what the gateway leaves unread must not make the kernel take the
    // answer away.
    let body = body_of(8 * MIB);
    for path in ["/v1/chat/completions", "/v1/nothing"] {
        for _ in 0..5 {
            let mut client = raw(address(&gateway));
            client
                .write(format!(
                    "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                ))
                .unwrap();
            client
                .write(&body)
                .expect("the gateway takes what comes for a while");
            assert!(client.read_to_end(PATIENCE).is_ok(), "reset: {}", client.text());
            assert!(client.text().starts_with("HTTP/1.1 4"), "{}", client.text());
        }
    }
}

#[test]
fn http_1_the_answer_to_a_client_that_sends_too_much_is_not_lost() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    // It asks for the connection to be closed, and sends on all the same: more than the gateway ever reads.
    let mut client = narrow_client(address(&gateway));
    client
        .write_all(chat_bytes("big=200000", false, "connection: close\r\n").as_bytes())
        .unwrap();
    client.write_all(&vec![b'x'; 2 * MIB]).unwrap();
    let received = read_all(&mut client);
    assert!(
        received.len() > 200_000 && received.ends_with(b"}"),
        "{} bytes",
        received.len()
    );
}

#[test]
fn http_2_nothing_of_a_refused_body_is_taken_for_a_request() {
    let upstream = Upstream::start("a");
    let gateway = limited(&upstream, "1KiB");
    // A body that holds a request.
    let inner = chat_bytes("", false, "");
    let padded = format!("{inner}{}", "x".repeat(2000));
    let outer = |path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{padded}{}",
            padded.len(),
            chat_bytes("text=second", false, "")
        )
    };
    for path in ["/v1/chat/completions", "/v1/nothing"] {
        let mut client = raw(address(&gateway));
        client.write(outer(path)).unwrap();
        let _ = client.read_to_end(PATIENCE);
        let text = client.text();
        assert!(text.starts_with("HTTP/1.1 4"), "{text}");
        assert!(
            text.matches("HTTP/1.1 ").count() <= 2 && !text.contains("these are"),
            "{text}"
        );
    }
    assert!(
        upstream
            .posts()
            .iter()
            .all(|post| post.body.as_deref().is_some_and(|body| body.contains("second")))
    );
}

#[test]
fn http_2_a_client_that_waits_for_100_gets_it_or_413() {
    let upstream = Upstream::start("a");
    let gateway = limited(&upstream, "1MiB");
    let head = |len: usize| {
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {len}\r\n\r\n"
        )
    };
    let mut client = raw(address(&gateway));
    client.write(head(50 * MIB)).unwrap();
    client.read_to_end(PATIENCE).unwrap();
    assert!(
        client.text().starts_with("HTTP/1.1 413 ") && !client.text().contains("100 Continue"),
        "{}",
        client.text()
    );
    let mut client = raw(address(&gateway));
    client.write(head(1000)).unwrap();
    assert!(client.read_until("HTTP/1.1 100 Continue\r\n\r\n", PATIENCE));
    client.write(body_of(1000)).unwrap();
    assert!(
        client.read_until("HTTP/1.1 200 OK", PATIENCE),
        "{}",
        client.text()
    );
    assert!(upstream.posts()[0].header("expect").is_none());
}

#[test]
fn http_2_chunked_bodies_of_any_cut_arrive_whole() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    for size in [1, 7, 100, 100_000] {
        let body = body_of(3000);
        let response = Request::post(&gateway.url("/v1/chat/completions"), &body)
            .chunked(size)
            .send();
        assert_eq!(response.status, 200);
        assert_eq!(
            upstream.posts().last().unwrap().body.as_deref(),
            Some(body.as_str())
        );
        assert_eq!(
            upstream.posts().last().unwrap().header("content-length"),
            Some("3000")
        );
    }
    let mut client = raw(address(&gateway));
    client
        .write("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n")
        .unwrap();
    assert!(client.read_until("HTTP/1.1 400", PATIENCE), "{}", client.text());
    client.read_to_end(PATIENCE).unwrap();
}

#[test]
fn http_2_the_default_limit_takes_a_prompt_with_images() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    let response = Request::post(&gateway.url("/v1/chat/completions"), body_of(12 * MIB)).send();
    assert_eq!(response.status, 200);
    assert_eq!(upstream.posts()[0].body_len, 12 * MIB as u64);
    let big = Api::Chat.whole(&gateway.url(""), "big=20000000").send();
    assert!(big.body.len() > 20_000_000);
    assert_eq!(
        big.header("content-length"),
        Some(big.body.len().to_string().as_str())
    );
}

#[test]
fn http_1_a_head_of_a_megabyte_is_refused() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    let mut client = raw(address(&gateway));
    let long = format!("x-long: {}\r\n", "y".repeat(MIB));
    // It may refuse before all is sent.
    let _ = client.write(chat_bytes("", false, &long));
    assert!(client.read_until("HTTP/1.1 431", PATIENCE), "{}", client.text());
    assert!(client.read_to_end(PATIENCE).is_ok(), "reset instead of closed");
    // Others are served meanwhile, and a head of a sensible size passes.
    let header = "y".repeat(30_000);
    let response = Api::Chat
        .whole(&gateway.url(""), "")
        .header("x-long", &header)
        .send();
    assert_eq!(response.status, 200);
}

#[test]
fn http_1_a_connection_is_kept_after_an_error_that_left_nothing_unread() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "breaker: false");
    let mut connection = Connection::to(&gateway.url("")).unwrap();
    let url = |path: &str| gateway.url(path);
    let requests = [
        (400, Request::post(&url("/v1/chat/completions"), "no json")),
        (
            404,
            Request::post(&url("/v1/chat/completions"), r#"{"model":"unknown"}"#),
        ),
        (404, Request::get(&url("/v1/nothing"))),
        (405, Request::get(&url("/v1/chat/completions"))),
        (502, Api::Chat.whole(&gateway.url(""), "status=500")),
        (502, Api::Chat.whole(&gateway.url(""), "drop")),
        (400, Api::Messages.stream(&gateway.url(""), "status=400")),
        (200, Request::new("HEAD", &url("/v1/models"))),
        (200, Api::Messages.stream(&gateway.url(""), "")),
    ];
    for (status, request) in requests {
        let (response, kept) = connection.send(&request).unwrap();
        assert_eq!(response.status, status, "{}", response.text());
        connection = kept.unwrap_or_else(|| panic!("closed after a {status}"));
    }
}

#[test]
fn http_1_a_head_request_gets_the_head_of_its_get() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    for path in [
        "/v1/models",
        "/v1/models/m",
        "/health",
        "/ready",
        "/v1/models/unknown",
        "/v1/nothing",
    ] {
        let whole = get(&gateway.url(path), &[]);
        let mut client = raw(address(&gateway));
        client
            .write(format!(
                "HEAD {path} HTTP/1.1\r\nhost: x\r\nx-request-id: {}\r\nconnection: close\r\n\r\n",
                "0".repeat(32)
            ))
            .unwrap();
        client.read_to_end(PATIENCE).unwrap();
        let text = client.text();
        let length = format!("content-length: {}\r\n", whole.body.len());
        assert!(
            text.starts_with(&format!("HTTP/1.1 {}", whole.status)),
            "{path}: {text}"
        );
        assert!(
            text.ends_with("\r\n\r\n") && text.contains(&length),
            "{path}: {text}"
        );
    }
}

#[test]
fn http_1_a_body_that_stops_short_ends_with_its_client() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    let mut client = raw(address(&gateway));
    client
        .write("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{\"model\":\"m\"")
        .unwrap();
    let began = Instant::now();
    client.half_close();
    client.read_to_end(PATIENCE).unwrap();
    assert!(began.elapsed() < SOON);
    assert!(client.text().starts_with("HTTP/1.1 400 "), "{}", client.text());
    expect_outcomes(&gateway, "client_closed", 1.0);
    assert!(upstream.posts().is_empty());
}
