//! FAIL-2 over every way: what was not delivered is tried again, what was is not.

use crate::door::{Door, Way, over_all};
use crate::support::{Api, PATIENCE, expect_idle};
use std::net::TcpListener;
use weighbridge_test_engine::Upstream;

/// A config of a route `m` to an address first, and to `second` where that fails.
fn either(way: Way, first: &str, second: &Upstream) -> String {
    let http = way.setting();
    format!(
        "
pools:
  - {{name: a, kind: generic, {http}, health: false, breaker: false, endpoints: ['{first}']}}
  - {{name: b, kind: generic, {http}, health: false, breaker: false, endpoints: ['{}']}}
routes:
  - name: m
    targets: [a, {{pool: b, order: 2}}]
    retry: {{on: [connect, '503']}}
",
        second.url()
    )
}

#[test]
fn fail2_over_every_way_what_was_refused_goes_elsewhere() {
    over_all(|way| {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let second = Upstream::start("b");
        let door = Door::new(way, ("", &either(way, &format!("http://{port}"), &second)));
        for api in Api::ALL {
            let whole = door.whole(api, "").send();
            assert_eq!((whole.status, whole.served_by()), (200, Some("b")), "{way:?}");
            let stream = door.stream(api, "").send();
            assert_eq!((stream.status, stream.served_by()), (200, Some("b")), "{way:?}");
        }
        assert_eq!(second.posts().len(), 8);
        expect_idle(&door.gateway);
    });
}

#[test]
fn fail2_over_every_way_what_was_delivered_is_not_sent_again() {
    over_all(|way| {
        let [first, second] = Upstream::start_all(["a", "b"]);
        let door = Door::new(way, ("", &either(way, &first.url(), &second)));
        for mode in ["drop", "drop=rst", "cut=0"] {
            let mut answer = door.stream(Api::Chat, mode).open();
            answer.finish(PATIENCE);
            let told = answer.status == 502 || answer.text().contains("\"error\"");
            assert!(told, "{way:?} {mode}: {} {}", answer.status, answer.text());
        }
        assert!(second.posts().is_empty(), "{:?}", second.posts());
        // A 503 is said by an engine that has done nothing.
        assert_eq!(door.whole(Api::Chat, "status=503").send().status, 503);
        assert_eq!(second.posts().len(), 1);
        expect_idle(&door.gateway);
    });
}
