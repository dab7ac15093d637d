//! Framing that is old, wrong or missing.

use super::{SOON, chat, chat_request, chat_stream};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{End, Failure, Request, post, raw};
use weighbridge_test_engine::upstream::Options;

#[test]
fn bodies_may_end_with_the_connection() {
    let up = Upstream::start("A");
    let mut bare = raw(up.addr());
    let body = r#"{"model":"m@@proto10"}"#;
    bare.write(format!(
        "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .unwrap();
    let text = String::from_utf8(bare.read_to_end(SOON).unwrap().to_vec()).unwrap();
    assert!(
        text.starts_with("HTTP/1.0 200 OK\r\n") && !text.contains("content-length"),
        "{text}"
    );
    let answer = chat_request(&up, "close_delimited", false).try_send().unwrap();
    assert_eq!(
        (answer.end, answer.header("connection")),
        (End::Closed, Some("close"))
    );
    assert!(answer.json()["usage"].is_object());
}

#[test]
fn a_whole_upstream_may_speak_http_1_0() {
    let up = Upstream::start_with(&Options {
        always: "proto10".to_owned(),
        ..Options::new("old")
    });
    assert_eq!(chat(&up, "").end, End::Closed);
    up.reset();
    assert_eq!(chat(&up, "chunks=2").end, End::Closed);
    assert_eq!(up.stats().conns, 1);
}

#[test]
fn length_and_chunks_together() {
    let up = Upstream::start("A");
    let answer = chat(&up, "both");
    assert!(answer.header("content-length").is_some() && answer.header("transfer-encoding").is_some());
    assert!(answer.json()["usage"].is_object());
    assert_eq!(chat_stream(&up, "both").header("content-length"), Some("99999"));
}

#[test]
fn a_body_may_be_shorter_than_it_claims() {
    let up = Upstream::start("A");
    let answer = chat_request(&up, "short=10", false).try_send().unwrap();
    let claimed: usize = answer.header("content-length").unwrap().parse().unwrap();
    assert_eq!((answer.body.len(), answer.end), (claimed - 10, End::Premature));
}

#[test]
fn a_request_may_get_no_byte() {
    let up = Upstream::start("A");
    assert_eq!(
        chat_request(&up, "drop", false).try_send().unwrap_err(),
        Failure::Closed
    );
    assert_eq!(
        chat_request(&up, "drop=rst", false).try_send().unwrap_err(),
        Failure::Reset
    );
    up.wait_idle(SOON);
    assert!(up.posts().iter().all(|r| r.ended_as("cut") && r.status.is_none()));
}

#[test]
fn request_bodies_come_in_chunks_and_after_continue() {
    let up = Upstream::start("A");
    let url = format!("{}/v1/chat/completions", up.url());
    Request::post(&url, vec![b'x'; 200_000])
        .chunked(9999)
        .header("expect", "100-continue")
        .send();
    let record = &up.posts()[0];
    assert_eq!(record.body_len, 200_000);
    assert_eq!(record.body.as_ref().unwrap().len(), 200_000);
    post(&url, &[], "abc");
    let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(up.posts()[1].body_sha256, sha);
}

#[test]
fn a_truncated_request_is_noted() {
    let up = Upstream::start("A");
    let mut bare = raw(up.addr());
    bare.write("POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc")
        .unwrap();
    bare.half_close();
    assert_eq!(bare.read_to_end(SOON).unwrap(), b"");
    assert!(up.posts()[0].ended_as("request_body_truncated"));
}

#[test]
fn an_early_answer_does_not_wait_for_the_body() {
    let up = Upstream::start("A");
    let mut bare = raw(up.addr());
    bare.write(
        "POST /v1/chat/completions HTTP/1.1\r\nx-mock: early,status=413\r\ncontent-length: 9\r\n\r\nabc",
    )
    .unwrap();
    assert!(bare.read_until("HTTP/1.1 413", SOON), "{}", bare.text());
    assert_eq!(up.posts()[0].body_len, 0);
}
