//! Endpoints that are the gateway itself, however their URLs spell it: nothing goes in circles.

use crate::shared::{SOON, gateway, send};
use crate::world::serving;
use weighbridge_test_engine::eventually;

/// Ways to write a URL that leads to the gateway on `port`, where it listens on the loopback address of IPv4.
fn spellings(port: u16) -> Vec<String> {
    [
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "127.0.0.1",
        "localhost",
    ]
    .map(|host| format!("http://{host}:{port}"))
    .into()
}

/// The gateway on `listen` with the one endpoint at each of `urls`: one request is one 503, and one request.
fn check(listen: &str, urls: impl Fn(u16) -> Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("endpoints.yaml");
    let gateway = gateway(&format!(
        "server: {{listen: '{listen}', max_connections: 40}}\npools:\n  \
         - {{name: p, discovery: {{file: \"{}\"}}, health: false, breaker: false, ramp: 0s}}\n",
        file.display()
    ));
    let port = gateway.url("").rsplit(':').next().unwrap().parse().unwrap();
    let requests = || gateway.metrics().sum("weighbridge_requests_total", &[]);
    for (index, url) in urls(port).iter().enumerate() {
        std::fs::write(&file, format!("- {{name: e{index}, url: '{url}'}}\n")).unwrap();
        let there = eventually(SOON, || serving(&gateway) == [format!("e{index}")]);
        assert!(there, "{url}: {}", gateway.stderr());
        let before = requests();
        let answer = send(&gateway, "p");
        assert_eq!(answer.status, 503, "{url}: {}", answer.text());
        // Those that went in a circle would have ended before the one that waited for them.
        assert!(eventually(SOON, || requests() > before), "{url}");
        assert_eq!(requests() - before, 1.0, "{url} goes in circles");
    }
    let log = gateway.stdout();
    assert!(log.contains("this gateway itself"), "{log}");
}

#[test]
fn a_gateway_that_is_its_own_engine_does_not_go_in_circles() {
    check("127.0.0.1:0", spellings);
}

#[test]
fn a_gateway_on_all_addresses_is_found_at_each_of_them() {
    check("0.0.0.0:0", |port| {
        let mut urls = spellings(port);
        urls.push(format!("http://127.0.0.2:{port}"));
        urls
    });
}
