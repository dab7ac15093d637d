//! What one HTTP/2 connection may cost: its streams, heads, resets and frames are bounded.

use crate::door::{Door, H2};
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, field, frame, goaway, open,
    request, wait_for,
};
use crate::support::{Api, PATIENCE, expect_outcomes, wait_running};
use weighbridge_test_engine::client::{Failure, Request};
use weighbridge_test_engine::{Upstream, eventually};

/// `ENHANCE_YOUR_CALM`.
const CALM: u32 = 11;
/// `REFUSED_STREAM`.
const REFUSED: u32 = 7;

#[test]
fn more_streams_than_allowed_are_refused_unprocessed() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    let mut client = open(&door.gateway);
    let head = [
        request("POST", "/v1/chat/completions"),
        field("content-type", "application/json"),
    ]
    .concat();
    let body = br#"{"model": "m", "messages": [{"role": "user", "content": "[[mock:delay=20]]"}]}"#;
    // A library would keep to the limit that it was told.
    for i in 0..257 {
        let stream = 2 * i + 1;
        client
            .write(frame(HEADERS, END_HEADERS, (stream, &head)))
            .unwrap();
        client.write(frame(DATA, END_STREAM, (stream, body))).unwrap();
    }
    let refused = wait_for(&mut client, |frame| frame.kind == RST_STREAM).expect("a refusal");
    assert_eq!((refused.stream, refused.code()), (513, REFUSED));
    wait_running(&upstream, 256);
    assert_eq!(upstream.posts().len(), 256);
    drop(client);
    expect_outcomes(&door.gateway, "client_closed", 256.0);
}

#[test]
fn rapid_resets_end_the_connection() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    let mut client = open(&door.gateway);
    let head = request("POST", "/v1/chat/completions");
    let mut attack = Vec::new();
    for i in 0..1000 {
        let stream = 2 * i + 1;
        attack.extend(frame(HEADERS, END_HEADERS, (stream, &head)));
        attack.extend(frame(RST_STREAM, 0, (stream, &8_u32.to_be_bytes())));
    }
    let _ = client.write(attack);
    assert_eq!(goaway(&mut client), Some(CALM));
    let running = || door.gateway.metrics().value("weighbridge_requests_running", &[]);
    assert!(eventually(PATIENCE, || running() == 0.0));
    assert!(upstream.posts().is_empty());
}

#[test]
fn slower_resets_of_all_that_is_asked_for_end_it_too() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    let mut client = open(&door.gateway);
    let head = request("POST", "/v1/chat/completions");
    // Each is looked at before it is reset: the answer to a ping that was sent between the two says so.
    for i in 0..2000_u32 {
        let stream = 2 * i + 1;
        let ping = u64::from(stream).to_be_bytes();
        let mut bytes = frame(HEADERS, END_HEADERS, (stream, &head));
        bytes.extend(frame(PING, 0, (0, &ping)));
        if client.write(bytes).is_err() {
            break;
        }
        let code = wait_for(&mut client, |frame| {
            frame.kind == crate::frames::GOAWAY || (frame.kind == PING && frame.payload == ping)
        });
        if code.is_none_or(|frame| frame.kind != PING) {
            assert!(i > 1000, "after {i} resets only");
            return;
        }
        let _ = client.write(frame(RST_STREAM, 0, (stream, &8_u32.to_be_bytes())));
    }
    panic!("two thousand resets in a row were taken");
}

#[test]
fn a_head_without_end_ends_the_connection() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    let mut client = open(&door.gateway);
    let head = request("GET", "/v1/models");
    client.write(frame(HEADERS, 0, (1, &head))).unwrap();
    let piece = frame(CONTINUATION, 0, (1, &field("x-a", &"a".repeat(10))));
    let flood = piece.repeat(100_000);
    let _ = client.write(flood);
    assert_eq!(goaway(&mut client), Some(CALM));
}

#[test]
fn heads_that_are_too_large_are_told_so() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    let session = door.session();
    let with = |bytes: usize| {
        let request = door.whole(Api::Chat, "").header("x-long", &"a".repeat(bytes));
        session.begin(&request).unwrap().response(PATIENCE)
    };
    assert_eq!(with(60_000).unwrap().status, 200);
    let told = with(70_000).unwrap();
    assert_eq!(told.status, 431);
    assert!(told.json()["error"]["message"].is_string(), "{}", told.text());
    // Beyond what is read the codec says it, in no protocol.
    let bare = with(140_000).unwrap();
    assert_eq!((bare.status, bare.body.len()), (431, 0));
    let many = (0..120).fold(door.whole(Api::Messages, ""), |request, i| {
        request.header(&format!("x-{i}"), "1")
    });
    let many = session.begin(&many).unwrap().response(PATIENCE).unwrap();
    assert_eq!((many.status, &many.json()["type"]), (431, &"error".into()));
    // A cookie in pieces is one.
    let cookies = (0..120).fold(door.whole(Api::Chat, ""), |request, i| {
        request.header("cookie", &format!("c{i}=1"))
    });
    assert_eq!(
        session
            .begin(&cookies)
            .unwrap()
            .response(PATIENCE)
            .unwrap()
            .status,
        200
    );
    // The connection goes on.
    assert_eq!(with(10).unwrap().status, 200);
}

#[test]
fn bodies_that_are_too_large_are_told_so_and_the_connection_goes_on() {
    let upstream = Upstream::start("a");
    let door = Door::new(
        H2,
        ("max_body: 1MiB", &crate::door::one_pool(&upstream.url(), "")),
    );
    let session = door.session();
    for known in [true, false] {
        let request = Request::post(&door.url("/v1/chat/completions"), vec![b' '; 3 << 20]);
        let request = if known { request } else { request.chunked(1) };
        let told = session.begin(&request).unwrap().response(PATIENCE).unwrap();
        assert_eq!(told.status, 413, "{}", told.text());
        assert_eq!(told.header("connection"), None);
    }
    let good = session.begin(&door.whole(Api::Chat, "")).unwrap();
    assert_eq!(good.response(PATIENCE).unwrap().status, 200);
}

#[test]
fn a_length_that_is_not_the_bodys_is_an_error_of_the_stream() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    let session = door.session();
    for length in ["5", "5000"] {
        let wrong = door.whole(Api::Chat, "").header("content-length", length);
        let refused = session.begin(&wrong).unwrap().response(PATIENCE);
        assert_eq!(refused.err(), Some(Failure::Reset), "{length}");
    }
    let good = session.begin(&door.whole(Api::Chat, "")).unwrap();
    assert_eq!(good.response(PATIENCE).unwrap().status, 200);
    assert_eq!(upstream.posts().len(), 1);
}
