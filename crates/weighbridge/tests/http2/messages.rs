//! Requests and answers as messages: what HTTP/2 names differently, and what it must not carry.

use crate::door::{Door, H2, H2_TLS, over_all};
use crate::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, field, frame, request, wait_for,
};
use crate::support::{Api, PATIENCE, address, expect_outcomes};
use std::io::Read as _;
use weighbridge_test_engine::client::{Request, raw};
use weighbridge_test_engine::{Upstream, eventually};

#[test]
fn http_1_over_every_way_answers_are_the_same() {
    over_all(|way| {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, "");
        for api in Api::ALL {
            let whole = door.whole(api, "h.x-own=1,h.keep-alive=timeout%3D5").send();
            assert_eq!((whole.status, whole.header("x-own")), (200, Some("1")), "{way:?}");
            let stream = door.stream(api, "").send();
            for answer in [&whole, &stream] {
                for name in [
                    "connection",
                    "keep-alive",
                    "transfer-encoding",
                    "upgrade",
                    "proxy-connection",
                ] {
                    let framing =
                        name == "transfer-encoding" && way.http == weighbridge_test_engine::client::Http::One;
                    assert!(framing || answer.header(name).is_none(), "{way:?}: {name}");
                }
                assert!(answer.header("x-request-id").is_some() && answer.header("date").is_some());
            }
        }
        let models = door.get("/v1/models").send();
        assert_eq!(models.json()["data"][0]["id"], "m");
        let head = door.this_way(Request::new("HEAD", &door.url("/health"))).send();
        assert_eq!((head.status, head.body.len()), (200, 0));
        let nothing = door.get("/nothing").send();
        assert_eq!(nothing.status, 404);
        let wrong = door.get("/v1/chat/completions").send();
        assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
        let bad = door
            .this_way(Request::post(&door.url("/v1/messages"), "{"))
            .send();
        assert_eq!((bad.status, &bad.json()["type"]), (400, &"error".into()));
    });
}

#[test]
fn http_1_authority_and_cookies_stay_here() {
    for way in [H2, H2_TLS] {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, "");
        let request = door
            .whole(Api::Chat, "")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .header("te", "trailers")
            .header("x-kept", "1");
        let session = door.session();
        let answer = session.begin(&request).unwrap().response(PATIENCE).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let post = &upstream.posts()[0];
        assert_eq!(
            post.header("host"),
            Some(upstream.url().trim_start_matches("http://"))
        );
        assert_eq!(post.header("x-kept"), Some("1"));
        for name in ["cookie", "te", ":authority"] {
            assert_eq!(post.header(name), None, "{name}");
        }
    }
}

#[test]
fn a_preface_in_pieces_is_one() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    let mut client = raw(address(&door.gateway));
    let cuts = [0, 1, 5, 20, PREFACE.len()];
    for cut in cuts.windows(2) {
        client.write(&PREFACE[cut[0]..cut[1]]).unwrap();
        // Whether it has been looked at in between cannot be seen from here; a request elsewhere takes as long.
        assert_eq!(door.get("/health").send().status, 200);
    }
    client.write(frame(SETTINGS, 0, (0, &[]))).unwrap();
    client
        .write(frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            (1, &request("GET", "/health")),
        ))
        .unwrap();
    let body = wait_for(&mut client, |frame| frame.kind == DATA).expect("an answer");
    assert_eq!(body.payload, br#"{"status":"alive"}"#);
}

#[test]
fn a_body_may_arrive_byte_by_byte() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    let mut client = crate::frames::open(&door.gateway);
    let head = [
        request("POST", "/v1/chat/completions"),
        field("content-type", "application/json"),
    ]
    .concat();
    client.write(frame(HEADERS, END_HEADERS, (1, &head))).unwrap();
    let body = br#"{"model": "m", "messages": []}"#;
    for byte in body.chunks(1) {
        client.write(frame(DATA, 0, (1, byte))).unwrap();
    }
    client.write(frame(DATA, END_STREAM, (1, &[]))).unwrap();
    assert!(wait_for(&mut client, |frame| frame.kind == DATA).is_some());
    expect_outcomes(&door.gateway, "ok", 1.0);
    assert_eq!(
        upstream.posts()[0].body.as_deref(),
        Some(&*String::from_utf8_lossy(body))
    );
}

/// The codec leaves no way to send an interim answer, so a client that waits for one waits for its own clock; what is refused
/// before its body is told at once all the same.
#[test]
fn an_expectation_stays_here_and_does_not_delay_a_refusal() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    let mut client = crate::frames::open(&door.gateway);
    let head = |model: &str| {
        [
            request("POST", "/v1/chat/completions"),
            field("content-type", "application/json"),
            field("x-model", model),
            field("expect", "100-continue"),
        ]
        .concat()
    };
    client
        .write(frame(HEADERS, END_HEADERS, (1, &head("nowhere"))))
        .unwrap();
    let refusal = wait_for(&mut client, |frame| frame.kind == DATA).expect("an answer without a body");
    assert!(String::from_utf8_lossy(&refusal.payload).contains("nowhere"));
    client
        .write(frame(HEADERS, END_HEADERS, (3, &head("m"))))
        .unwrap();
    let body = br#"{"model": "m", "messages": []}"#;
    client.write(frame(DATA, END_STREAM, (3, body))).unwrap();
    assert!(wait_for(&mut client, |frame| frame.kind == DATA && frame.stream == 3).is_some());
    assert_eq!(upstream.posts()[0].header("expect"), None);
}

#[test]
fn http_1_is_spoken_to_whoever_does_not_speak_http_2() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    // Looks like the preface, and is none.
    let mut client = raw(address(&door.gateway));
    client.write("PRI * HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert!(client.read_until("HTTP/1.1 4", PATIENCE), "{}", client.text());
    // Sends nothing, or a part of it, and goes.
    for bytes in ["", "PRI * HT"] {
        let mut client = raw(address(&door.gateway));
        client.write(bytes).unwrap();
        client.half_close();
        let mut rest = Vec::new();
        let _ = client.socket().read_to_end(&mut rest);
    }
    let connections = || door.gateway.metrics().value("weighbridge_connections", &[]);
    drop(client);
    assert!(eventually(PATIENCE, || connections() == 0.0), "{}", connections());
}
