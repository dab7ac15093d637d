//! Engines that answer as no server may: the client gets an answer that is one, and the next request its own.

use crate::support::{Scene, request, serves, statuses, to};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weighbridge_test_engine::client::raw;

/// What the engine says to its first request.
#[derive(Clone)]
struct Said {
    bytes: Vec<u8>,
    /// Whether it closes then, or goes on with good answers on the same connection.
    closes: bool,
}

/// An engine that says this once, and later answers well: with the text of the prompt.
fn engine(said: Said) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    std::thread::spawn(move || {
        for peer in listener.incoming().flatten() {
            let (said, count) = (said.clone(), count.clone());
            std::thread::spawn(move || answer(peer, &said, &count));
        }
    });
    (url, requests)
}

fn answer(mut peer: TcpStream, said: &Said, count: &AtomicUsize) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = peer.read(&mut buffer) {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            if peer.write_all(&said.bytes).is_err() || said.closes {
                return;
            }
            continue;
        }
        let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
        let mark = text.split("text=").nth(1).and_then(|rest| rest.split(']').next());
        let body = format!("{{\"choices\":[],\"text\":\"{}\"}}", mark.unwrap_or_default());
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let _ = peer.write_all(format!("{head}{body}").as_bytes());
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
/// The next answer on the connection, if anybody took it for one.
const POISON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 6\r\n\r\npoison";

/// Sends one request to an engine that says this; gives the text of the client's connection. The next requests are served.
fn check(bytes: impl Into<Vec<u8>>, closes: bool) -> String {
    let said = Said {
        bytes: bytes.into(),
        closes,
    };
    let (url, _) = engine(said);
    let gateway = to(
        &url,
        "routes: [{name: m, targets: [m], retry: {max_attempts: 1}}]",
    );
    let mut client = raw(crate::support::address(&gateway));
    client.write(request("first", "connection: close\r\n")).unwrap();
    let _ = client.read_to_end(crate::support::PATIENCE);
    let text = client.text();
    // What comes late has come.
    std::thread::sleep(Duration::from_millis(100));
    for number in 0..3 {
        serves(&gateway, number);
    }
    assert_eq!(gateway.metrics().sum("weighbridge_inflight", &[]), 0.0);
    text
}

#[test]
fn a_body_with_two_framings_is_read_by_its_chunks_and_its_connection_not_used_again() {
    let text = check(
        format!("{OK}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"),
        false,
    );
    assert!(matches!(statuses(&text)[..], [200 | 502]), "{text}");
    assert!(!text.contains("0\r\n\r\n") || text.ends_with("{}"), "{text}");
}

#[test]
fn lengths_that_contradict_are_no_answer() {
    for lengths in [
        "content-length: 2\r\ncontent-length: 3\r\n",
        "content-length: 2, 3\r\n",
        "content-length: -2\r\n",
        "content-length: x\r\n",
    ] {
        let text = check(format!("{OK}{lengths}\r\n{{}}"), true);
        assert_eq!(statuses(&text), [502], "{lengths:?}: {text}");
    }
}

#[test]
fn broken_chunks_are_no_answer() {
    for body in [
        "x\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}0\r\n\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "2\n{}\n0\n\n",
        "ffffffffffffffffff\r\n{}",
    ] {
        let text = check(format!("{OK}transfer-encoding: chunked\r\n\r\n{body}"), true);
        assert_eq!(statuses(&text), [502], "{body:?}: {text}");
    }
}

#[test]
fn a_body_that_ends_early_is_no_answer() {
    for (head, body) in [
        ("content-length: 100\r\n", "{}"),
        ("transfer-encoding: chunked\r\n", "2\r\n{}\r\n"),
        ("transfer-encoding: chunked\r\n", "64\r\n{}"),
    ] {
        let text = check(format!("{OK}{head}\r\n{body}"), true);
        assert_eq!(statuses(&text), [502], "{head:?}: {text}");
    }
}

#[test]
fn what_follows_an_answer_is_nobodys() {
    for behind in [
        POISON.to_owned(),
        "garbage".to_owned(),
        "\r\n".repeat(3),
        format!("\r\n{POISON}"),
        POISON.repeat(100),
    ] {
        for framing in [
            "content-length: 2\r\n\r\n{}",
            "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        ] {
            let text = check(format!("{OK}{framing}{behind}"), false);
            assert_eq!(statuses(&text), [200], "{text}");
            assert!(!text.contains("poison") && !text.contains("garbage"), "{text}");
        }
    }
}

#[test]
fn heads_without_end_and_heads_that_are_none_are_no_answer() {
    let many = format!("{OK}{}content-length: 2\r\n\r\n{{}}", "x: y\r\n".repeat(5_000));
    let long = format!(
        "{OK}x: {}\r\ncontent-length: 2\r\n\r\n{{}}",
        "y".repeat(1_000_000)
    );
    for bytes in [
        many,
        long,
        "HTTP/1.1 200 OK\r\nx: ".to_owned() + &"y".repeat(1_000_000),
        "SSH-2.0-OpenSSH_9.2\r\n".to_owned(),
        "\0".repeat(100),
        format!("{OK}x: a\0b\r\ncontent-length: 2\r\n\r\n{{}}"),
        format!("{OK}no colon\r\ncontent-length: 2\r\n\r\n{{}}"),
        "HTTP/1.1 99 X\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
        "HTTP/1.1 2000 X\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
        "HTTP/9.9 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
    ] {
        let text = check(bytes.clone(), true);
        assert_eq!(statuses(&text), [502], "{bytes:.60}: {text}");
    }
}

#[test]
fn folded_lines_do_not_reach_clients() {
    let text = check(
        format!("{OK}x-a: 1\r\n x-b: 2\r\ncontent-length: 2\r\n\r\n{{}}"),
        false,
    );
    assert!(matches!(statuses(&text)[..], [200 | 502]), "{text}");
    assert!(!text.contains("\r\n x-b"), "{text}");
}

#[test]
fn interim_answers_stay_at_the_gateway() {
    let interim = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n";
    let text = check(format!("{interim}{OK}content-length: 2\r\n\r\n{{}}"), false);
    assert_eq!(statuses(&text), [200], "{text}");
    assert!(!text.contains("link"), "{text}");
    let switching = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nraw bytes";
    let text = check(switching, false);
    assert_eq!(statuses(&text), [502], "{text}");
    assert!(!text.contains("raw bytes"), "{text}");
}

#[test]
fn a_flood_of_interim_answers_ends() {
    let flood = "HTTP/1.1 100 Continue\r\n\r\n".repeat(200_000);
    let text = check(flood, true);
    assert_eq!(statuses(&text), [502], "{text}");
}

#[test]
fn statuses_without_a_body_take_none_from_what_follows() {
    for status in ["204 No Content", "304 Not Modified"] {
        let text = check(format!("HTTP/1.1 {status}\r\n\r\n{POISON}"), false);
        assert!(!text.contains("poison"), "{text}");
    }
}

#[test]
fn coded_bodies_are_not_unpacked() {
    // A small body that would be a large one: it passes as it is, with its coding, or is refused.
    let coded = [&[0x1f, 0x8b, 8, 0][..], &[0; 60]].concat();
    let head = format!(
        "{OK}content-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        coded.len()
    );
    let text = check([head.as_bytes(), &coded].concat(), false);
    assert_eq!(statuses(&text), [200], "{text}");
    assert!(
        text.len() < 2_000 && text.contains("content-encoding: gzip"),
        "{text}"
    );
}

#[test]
fn nothing_of_one_answer_is_in_the_next() {
    let scene = Scene::new("");
    // One after another over the same connections, with answers that end in each way.
    for (number, mode) in [
        "",
        "drop",
        "short=50",
        "both",
        "close_delimited",
        "status=500",
        "hang=headers",
        "cut=1",
        "proto10",
        "big=100000",
    ]
    .iter()
    .enumerate()
    {
        let mut client = scene.connect();
        client
            .write(request(
                &format!("[[mock:text=left-{number},{mode}]]"),
                "connection: close\r\n",
            ))
            .unwrap();
        if *mode == "hang=headers" {
            scene.upstream.wait_posts(1, crate::support::PATIENCE);
            drop(client);
        } else {
            let _ = client.read_to_end(crate::support::PATIENCE);
        }
        scene.serves();
        scene.upstream.reset();
    }
}
