//! Connections: many requests on one, requests that never end, clients that go half way.

use crate::support::{CHAT, PATIENCE, Scene, chat, request, statuses};
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::Raw;
use weighbridge_test_engine::eventually;

/// Reads until `count` answers with their bodies have come.
fn read_answers(client: &mut Raw, count: usize) -> String {
    let all = eventually(PATIENCE, || {
        let _ = client.read(Duration::from_millis(20));
        statuses(&client.text()).len() >= count && client.text().trim_end().ends_with('}')
    });
    assert!(all, "{count} answers: {}", client.text());
    client.text()
}

#[test]
fn fifty_pipelined_requests_are_answered_in_their_order() {
    let scene = Scene::new("");
    let mut client = scene.connect();
    // Later ones are quicker.
    let prompt = |index: usize| {
        format!(
            "[[mock:text=number{index};,delay={}]]",
            if index.is_multiple_of(10) { 0.05 } else { 0.0 }
        )
    };
    let all: String = (0..50).map(|index| request(&prompt(index), "")).collect();
    client.write(all).unwrap();
    let text = read_answers(&mut client, 50);
    let found: Vec<usize> = text
        .match_indices("number")
        .filter_map(|(at, _)| text[at + 6..].split(';').next()?.parse().ok())
        .collect();
    assert_eq!(found, (0..50).collect::<Vec<_>>());
    scene.serves();
}

#[test]
fn a_bad_request_in_a_pipeline_ends_it() {
    let scene = Scene::new("");
    let good = |prompt: &str| request(prompt, "");
    let text = scene.talk(format!(
        "{}{}GARBAGE\r\n\r\n{}",
        good("one"),
        good("two"),
        good("three")
    ));
    assert_eq!(statuses(&text), [200, 200, 400], "{text}");
    assert_eq!(scene.prompts(), ["one", "two"]);
    scene.serves();
}

#[test]
fn a_refused_request_with_an_unread_body_ends_its_pipeline() {
    let scene = Scene::new("server: {max_body: 1KiB}");
    let large = chat(&"x".repeat(2_000));
    let text = scene.talk(format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{large}{}",
        large.len(),
        request("behind", "")
    ));
    assert_eq!(statuses(&text), [413], "{text}");
    assert_eq!(scene.prompts().len(), 0);
    scene.serves();
}

#[test]
fn a_model_that_the_head_names_wrongly_is_refused_before_the_body() {
    let scene = Scene::new(
        "auth: keys\nkeys: [{name: k, key: wb-key-for-test, models: [m]}]\nroutes: [{name: m, targets: [m]}, {name: other, targets: [m]}]",
    );
    for (more, status, code) in [
        ("x-model: nix\r\n", 404, "model_not_found"),
        ("x-model: other\r\n", 404, "model_not_found"),
        ("x-model-name: nix\r\n", 404, "model_not_found"),
        ("x-model: m\r\nx-model: m\r\n", 400, "more than once"),
        ("x-model: m\r\nx-model-name: other\r\n", 400, "more than once"),
        ("x-model: \u{fc}\r\n", 404, "model_not_found"),
    ] {
        let head = format!(
            "POST {CHAT} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n{more}authorization: Bearer wb-key-for-test\r\ncontent-length: 100\r\n\r\n"
        );
        let mut client = scene.connect();
        client.write(head).unwrap();
        assert!(client.read_until("}}", PATIENCE), "{more}: {}", client.text());
        assert_eq!(statuses(&client.text()), [status], "{more}: {}", client.text());
        assert!(client.text().contains(code), "{more}: {}", client.text());
    }
    let mut client = scene.connect();
    let mut head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\nx-model: ").into_bytes();
    head.extend_from_slice(
        b"\xff\xfe\r\nauthorization: Bearer wb-key-for-test\r\ncontent-length: 100\r\n\r\n",
    );
    client.write(head).unwrap();
    assert!(client.read_until("}}", PATIENCE), "{}", client.text());
    assert_eq!(statuses(&client.text()), [400], "{}", client.text());
    assert!(client.text().contains("not text in UTF-8"), "{}", client.text());
    assert_eq!(scene.prompts().len(), 0);
}

#[test]
fn a_client_that_expects_100_may_be_refused_before_it_sends() {
    let scene = Scene::new("auth: keys\nkeys: [{name: k, key: wb-key-for-test}]");
    let body = chat("outer");
    let head = |more: &str| {
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n{more}content-length: {}\r\n\r\n",
            body.len()
        )
    };
    let mut client = scene.connect();
    client.write(head("")).unwrap();
    assert!(client.read_until("}}", PATIENCE), "{}", client.text());
    assert_eq!(statuses(&client.text()), [401], "{}", client.text());
    // It may send its body all the same, or leave it; neither is taken for a request.
    let _ = client.write(request("behind", "authorization: Bearer wb-key-for-test\r\n"));
    let _ = client.read_to_end(PATIENCE);
    assert_eq!(scene.prompts().len(), 0);
    let mut client = scene.connect();
    client
        .write(head(
            "authorization: Bearer wb-key-for-test\r\nconnection: close\r\n",
        ))
        .unwrap();
    assert!(
        client.read_until("HTTP/1.1 100 Continue\r\n\r\n", PATIENCE),
        "{}",
        client.text()
    );
    client.write(&body).unwrap();
    client.read_to_end(PATIENCE).unwrap();
    assert_eq!(statuses(&client.text()), [100, 200], "{}", client.text());
}

#[test]
fn another_expectation_is_not_met_and_not_passed_on() {
    let scene = Scene::new("");
    let text = scene.talk(request("outer", "expect: the-moon\r\nconnection: close\r\n"));
    assert!(matches!(statuses(&text)[..], [200 | 417]), "{text}");
    assert!(
        scene
            .upstream
            .posts()
            .iter()
            .all(|post| post.header("expect").is_none())
    );
}

#[test]
fn a_client_that_half_closes_gets_its_answers() {
    let scene = Scene::new("");
    let mut client = scene.connect();
    client
        .write(request("[[mock:delay=0.7,text=first;]]", "") + &request("[[mock:text=second;]]", ""))
        .unwrap();
    client.half_close();
    client.read_to_end(PATIENCE).unwrap();
    let text = client.text();
    let finals: Vec<u16> = statuses(&text)
        .into_iter()
        .filter(|status| *status != 100)
        .collect();
    assert_eq!(finals, [200, 200], "{text}");
    assert!(text.find("first;") < text.find("second;"), "{text}");
    scene.serves();
}

#[test]
fn heads_that_never_end_hold_up_nobody_and_hold_nothing() {
    let scene = Scene::new("");
    let mut slow: Vec<Raw> = (0..200).map(|_| scene.connect()).collect();
    for (index, client) in slow.iter_mut().enumerate() {
        let begun = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\nx: {}", "y".repeat(index * 10));
        client.write(begun).unwrap();
    }
    for _ in 0..3 {
        for client in &mut slow {
            client.write("z").unwrap();
        }
        let began = Instant::now();
        scene.serves();
        assert!(began.elapsed() < PATIENCE);
    }
    assert_eq!(scene.prompts().len(), 3);
    assert_eq!(scene.gateway.metrics().sum("weighbridge_inflight", &[]), 0.0);
}
