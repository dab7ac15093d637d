//! Connections: kept, closed, refused, killed.

use super::{SOON, chat, chat_request};
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{Connection, Failure, Raw, Request, get};
use weighbridge_test_engine::upstream::Options;
use weighbridge_test_engine::{Upstream, eventually};

#[test]
fn a_connection_carries_one_request_after_another() {
    let up = Upstream::start("A");
    let connection = Connection::to(&up.url()).unwrap();
    let (_, connection) = connection.send(&chat_request(&up, "", false)).unwrap();
    let (_, connection) = connection.unwrap().send(&chat_request(&up, "", true)).unwrap();
    let (last, connection) = connection
        .unwrap()
        .send(&chat_request(&up, "conn_close", false))
        .unwrap();
    assert!(last.end.is_whole() && connection.is_none());
    let log = up.posts();
    assert_eq!(log.iter().map(|r| r.nreq_on_conn).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(log.iter().all(|r| r.conn == log[0].conn));
    assert_eq!(up.stats().conns, 1);
}

#[test]
fn an_idle_connection_is_closed_when_it_is_told_to() {
    let up = Upstream::start("A");
    let mut bare = weighbridge_test_engine::client::raw(up.addr());
    let body = r#"{"model":"m@@keepalive_idle=0.2"}"#;
    let begin = Instant::now();
    bare.write(format!(
        "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .unwrap();
    assert!(bare.read_until("x_vendor_extra", SOON));
    bare.read_to_end(SOON).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(200));
    assert!(eventually(SOON, || up.stats().open == 0));
}

#[test]
fn refuses_connections_until_the_guard_is_dropped() {
    let up = Upstream::start("A");
    let (_, kept) = Connection::to(&up.url())
        .unwrap()
        .send(&chat_request(&up, "", false))
        .unwrap();
    let busy = chat_request(&up, "delay=0.3", false).begin().unwrap();
    up.wait_posts(2, SOON);
    let port = up.port();
    let guard = up.refuse_until();
    assert_eq!(
        chat_request(&up, "", false).try_send().unwrap_err(),
        Failure::Refused
    );
    let reused = kept.unwrap().send(&chat_request(&up, "", false)).map(|_| ());
    assert!(
        matches!(reused, Err(Failure::Closed | Failure::Reset)),
        "{reused:?}"
    );
    assert_eq!(busy.response(SOON).unwrap().status, 200);
    drop(guard);
    assert_eq!((chat(&up, "").status, up.port()), (200, port));
}

#[test]
fn refuses_connections_for_a_time() {
    let up = Upstream::start("A");
    let begin = Instant::now();
    up.refuse(Duration::from_millis(300));
    assert_eq!(
        chat_request(&up, "", false).try_send().unwrap_err(),
        Failure::Refused
    );
    assert!(eventually(SOON, || chat_request(&up, "", false)
        .try_send()
        .is_ok()));
    assert!(begin.elapsed() >= Duration::from_millis(300));
}

#[test]
fn dies_as_a_process_does_and_comes_back() {
    let up = Upstream::start("A");
    let mut stream = chat_request(&up, "gap=0.05,chunks=1000", true).open();
    assert!(stream.wait_events(2, SOON));
    let waiting = chat_request(&up, "hang=headers", false).begin().unwrap();
    assert!(eventually(SOON, || up.stats().in_flight == 2));
    up.kill();
    assert_eq!(up.stats().in_flight, 0);
    assert_eq!(stream.finish(SOON), weighbridge_test_engine::client::End::Reset);
    assert_eq!(waiting.response(SOON).unwrap_err(), Failure::Reset);
    assert_eq!(Raw::connect(up.addr()).unwrap_err(), Failure::Refused);
    assert!(up.posts().iter().all(|r| r.ended_as("killed")));
    up.kill();
    up.revive();
    assert_eq!(chat(&up, "").status, 200);
}

#[test]
fn listens_on_ipv6() {
    let up = Upstream::start_with(&Options {
        host: "::1".parse().unwrap(),
        ..Options::new("six")
    });
    assert!(up.url().starts_with("http://[::1]:"));
    assert_eq!(get(&format!("{}/health", up.url()), &[]).status, 200);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let up = Upstream::start("A");
    let mut bare = weighbridge_test_engine::client::raw(up.addr());
    let one = |mode: &str| {
        let body = format!(r#"{{"model":"m@@{mode}"}}"#);
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    bare.write(one("delay=0.05,status=501") + &one("status=502") + &one("status=503,conn_close"))
        .unwrap();
    bare.read_to_end(SOON).unwrap();
    let text = bare.text();
    let statuses: Vec<_> = text
        .matches("HTTP/1.1 ")
        .zip(text.split("HTTP/1.1 ").skip(1))
        .map(|(_, s)| s[..3].to_owned())
        .collect();
    assert_eq!(statuses, ["501", "502", "503"]);
}

#[test]
fn head_requests_have_no_body() {
    let up = Upstream::start("A");
    let head = Request::new("HEAD", &format!("{}/health", up.url()));
    let (answer, kept) = Connection::to(&up.url()).unwrap().send(&head).unwrap();
    assert_eq!(
        (answer.status, answer.header("content-length"), answer.body.len()),
        (200, Some("2"), 0)
    );
    let (answer, _) = kept.unwrap().send(&chat_request(&up, "", false)).unwrap();
    assert_eq!(answer.status, 200);
}
