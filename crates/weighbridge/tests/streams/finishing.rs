//! `on_disconnect: finish`: an answer whose client has left is read to its end, under the same rules as for a client.

use crate::support::{Api, PATIENCE, SOON, expect_idle, expect_outcomes, gateway, wait_running};
use serde_json::{Value, json};
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

fn finishing(upstream: &Upstream, pool: &str) -> Gateway {
    gateway(&format!(
        "
        pools: [{{name: p, kind: generic, breaker: {{consecutive: 1}}, endpoints: [{{name: a, url: '{}'}}]{pool}}}]
        routes: [{{name: m, targets: [p], on_disconnect: finish}}]
        ",
        upstream.url()
    ))
}

fn attempts(gateway: &Gateway, outcome: &str) -> f64 {
    gateway
        .metrics()
        .sum("weighbridge_attempts_total", &[("outcome", outcome)])
}

fn inflight(gateway: &Gateway) -> f64 {
    gateway.metrics().sum("weighbridge_inflight", &[])
}

fn client_closed(gateway: &Gateway, id: &str) -> Value {
    let line = gateway.wait_log(PATIENCE, |line| line["request_id"] == id);
    assert_eq!(
        (&line["outcome"], &line["status"]),
        (&json!("client_closed"), &json!(499)),
        "{line}"
    );
    line
}

#[test]
fn str_1_finish_a_stream_is_read_to_its_end_for_nobody() {
    let upstream = Upstream::start("a");
    let gateway = finishing(&upstream, "");
    for (count, api) in (1..).zip(Api::ALL) {
        let id = format!("{api:?}");
        let request = api.stream(&gateway.url(""), "gap=0.1,chunks=15,usage_out=11");
        let mut stream = request.header("x-request-id", &id).open();
        assert!(stream.wait_events(3, PATIENCE));
        stream.abort();
        assert_eq!(inflight(&gateway), 1.0, "its slot is kept");
        let line = client_closed(&gateway, &id);
        assert_eq!(line["completion_tokens"], 11, "{line}");
        assert_eq!(line.get("usage_estimated"), None, "{line}");
        let posts = upstream.posts();
        assert!(posts.iter().all(|post| !post.ended_as("peer_gone")), "{posts:?}");
        expect_idle(&gateway);
        assert_eq!(attempts(&gateway, "ok"), f64::from(count));
    }
    expect_outcomes(&gateway, "client_closed", 4.0);
}

/// Leaves while `request` waits for its first byte.
fn leave_waiting(upstream: &Upstream, request: &Request, id: &str) {
    let pending = request.clone().header("x-request-id", id).begin().unwrap();
    wait_running(upstream, 1);
    pending.abort();
}

#[test]
fn str_1_finish_holds_before_the_first_byte_and_for_answers_in_one_piece() {
    let upstream = Upstream::start("a");
    let gateway = finishing(&upstream, "");
    for api in Api::ALL {
        for (kind, mode, request) in [
            ("stream", "delay=1", Api::stream as fn(Api, &str, &str) -> Request),
            ("whole", "delay=1", Api::whole),
            ("large", "delay=1,big=400000", Api::whole),
        ] {
            let id = format!("{api:?}-{kind}");
            leave_waiting(&upstream, &request(api, &gateway.url(""), mode), &id);
            let line = client_closed(&gateway, &id);
            if kind != "large" {
                assert!(line["completion_tokens"].as_u64().unwrap() > 0, "{line}");
            }
            expect_idle(&gateway);
        }
    }
    assert_eq!(attempts(&gateway, "ok"), 12.0, "{}", gateway.metrics().text);
    expect_outcomes(&gateway, "client_closed", 12.0);
}

#[test]
fn str_1_finish_clocks_ring_and_the_breaker_learns_of_it() {
    let upstream = Upstream::start("a");
    let gateway = finishing(&upstream, ", timeouts: {idle: 1s, total: 1s}");
    let mut stream = Api::Chat
        .stream(&gateway.url(""), "hang=4")
        .header("x-request-id", "idle")
        .open();
    assert!(stream.wait_events(2, PATIENCE));
    stream.abort();
    client_closed(&gateway, "idle");
    assert_eq!(attempts(&gateway, "timeout"), 1.0, "{}", gateway.metrics().text);
    let open = [("pool", "p"), ("endpoint", "a"), ("state", "open")];
    assert_eq!(gateway.metrics().value("weighbridge_endpoint_state", &open), 1.0);
    leave_waiting(
        &upstream,
        &Api::Chat.whole(&gateway.url(""), "hang=headers"),
        "total",
    );
    client_closed(&gateway, "total");
    assert_eq!(attempts(&gateway, "timeout"), 2.0);
    expect_outcomes(&gateway, "client_closed", 2.0);
}

/// Nobody waits for a second attempt.
#[test]
fn str_1_finish_tries_nothing_again() {
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = gateway(&format!(
        "
        pools:
          - {{name: a, kind: generic, endpoints: ['{}']}}
          - {{name: b, kind: generic, endpoints: ['{}']}}
        routes: [{{name: m, targets: [a, {{pool: b, order: 2}}], on_disconnect: finish}}]
        ",
        a.url(),
        b.url()
    ));
    for (count, request) in (1..).zip([Api::stream as fn(Api, &str, &str) -> Request, Api::whole]) {
        let id = format!("r-{count}");
        leave_waiting(
            &a,
            &request(Api::Chat, &gateway.url(""), "delay=1,status=503"),
            &id,
        );
        client_closed(&gateway, &id);
        assert_eq!(attempts(&gateway, "upstream_error"), f64::from(count));
    }
    assert_eq!(b.posts().len(), 0);
    expect_outcomes(&gateway, "client_closed", 2.0);
}

#[test]
fn str_1_finish_dis_1_stopping_waits_for_what_is_read_and_cuts_it_in_the_end() {
    let upstream = Upstream::start("a");
    for (drain_timeout, mode, code) in [("30s", "gap=0.1,chunks=20", 0), ("1s", "gap=0.1,chunks=500", 1)] {
        let mut gateway = gateway(&format!(
            "
            server: {{drain_timeout: {drain_timeout}}}
            pools: [{{name: p, kind: generic, endpoints: ['{}']}}]
            routes: [{{name: m, targets: [p], on_disconnect: finish}}]
            ",
            upstream.url()
        ));
        let mut stream = Api::Chat.stream(&gateway.url(""), mode).open();
        assert!(stream.wait_events(2, PATIENCE));
        stream.abort();
        let alone = eventually(SOON, || {
            gateway.metrics().sum("weighbridge_connections", &[]) == 0.0
        });
        assert!(alone, "{}", gateway.metrics().text);
        gateway.sigterm();
        assert_eq!(gateway.wait_exit(PATIENCE), Some(code), "{}", gateway.output());
        let lines = gateway.log_lines();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["outcome"], "client_closed", "{}", lines[0]);
    }
}

/// Without the setting, as ever.
#[test]
fn str_1_cancel_is_the_default() {
    let upstream = Upstream::start("a");
    let gateway = crate::support::gateway_to(&upstream, "");
    leave_waiting(&upstream, &Api::Chat.whole(&gateway.url(""), "delay=20"), "left");
    let gone = eventually(SOON, || {
        upstream.posts().iter().all(|post| post.ended_as("peer_gone"))
    });
    assert!(gone, "{:?}", upstream.posts());
    client_closed(&gateway, "left");
}
