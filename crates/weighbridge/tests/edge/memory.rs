//! The bodies of all requests together take no more memory than `server.body_memory`.

use crate::shared::{SOON, gateway, pool, send};
use weighbridge_test_engine::client::{Request, chat, raw};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

const BODY: usize = 600_000;

fn used(gateway: &Gateway) -> f64 {
    gateway.metrics().value("weighbridge_body_memory_bytes", &[])
}

fn large(gateway: &Gateway) -> Request {
    Request::post(&gateway.url("/v1/chat/completions"), chat("m", &"x".repeat(BODY)))
}

#[test]
fn bodies_beyond_the_memory_are_refused_and_those_within_are_served() {
    let [a] = Upstream::start_all(["A"]);
    let config = "server: {max_body: 1MiB, body_memory: 1MiB}\npools:\n";
    let gateway = gateway(&(config.to_owned() + &pool("m", &[&a], &["timeouts: {total: 60s}"])));
    a.set_mode("delay=30");
    let held = large(&gateway).begin().unwrap();
    a.wait_posts(1, SOON);
    assert!(used(&gateway) >= 600_000.0);
    for request in [large(&gateway), large(&gateway).chunked(50_000)] {
        let answer = request.send();
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert!(answer.text().contains("server.body_memory"), "{}", answer.text());
        assert!(answer.json()["error"]["code"] == "overloaded");
    }
    a.set_mode("");
    assert_eq!(send(&gateway, "m").status, 200, "a small one fits beside it");
    held.abort();
    assert!(eventually(SOON, || used(&gateway) == 0.0), "{}", used(&gateway));
    for request in [large(&gateway), large(&gateway).chunked(50_000)] {
        assert_eq!(request.send().status, 200);
    }
    assert!(eventually(SOON, || used(&gateway) == 0.0), "{}", used(&gateway));
}

#[test]
fn a_length_that_is_only_announced_takes_no_memory_from_others() {
    let [a] = Upstream::start_all(["A"]);
    let config = "server: {max_body: 32MiB, body_memory: 32MiB}\npools:\n";
    let gateway = gateway(&(config.to_owned() + &pool("m", &[&a], &[])));
    let addr: std::net::SocketAddr = gateway.url("").trim_start_matches("http://").parse().unwrap();
    let announce = || {
        let mut client = raw(addr);
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 33000000\r\n\r\n{";
        client.write(head).unwrap();
        client
    };
    let announced: Vec<_> = (0..20).map(|_| announce()).collect();
    assert!(eventually(SOON, || used(&gateway) > 0.0));
    assert_eq!(large(&gateway).send().status, 200);
    drop(announced);
    assert!(eventually(SOON, || used(&gateway) == 0.0), "{}", used(&gateway));
}
