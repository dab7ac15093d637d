//! ACC-1: load counts return to zero after every kind of ending.

use crate::support::{Api, PATIENCE, expect_idle, gateway, outcomes, requests};
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually, par};

fn two(a: &Upstream, b: &Upstream) -> Gateway {
    gateway(&format!(
        "
        pools:
          - name: m
            kind: generic
            endpoints: [{{name: a, url: '{}'}}, {{name: b, url: '{}'}}]
            breaker: false
            ramp: 1ms
            cooldown: {{default: 10ms}}
            timeouts: {{first_byte: 60s, idle: 1s}}
        routes:
          - name: m
            targets: [m]
            policies: {{least_inflight: {{}}}}
            retry: {{on: ['503'], budget: {{ratio: 1, floor_per_second: 1000}}}}
        ",
        a.url(),
        b.url()
    ))
}

/// Sends `count` requests as `each` says, over all APIs, a few at a time.
fn send(count: usize, each: impl Fn(Api, usize) + Sync) {
    let width = 5;
    for round in 0..count / width {
        par(width, |i| {
            let number = round * width + i;
            each(Api::ALL[number % 4], number);
        });
    }
}

fn every_ending(gateway: &Gateway, a: &Upstream) {
    let base = &gateway.url("");
    send(20, |api, _| {
        let mut stream = api.stream(base, "gap=0.05,chunks=500").open();
        assert!(stream.wait_events(1, PATIENCE));
        stream.abort();
    });
    send(10, |api, number| {
        let request = if number % 2 == 0 {
            api.stream(base, "hang=headers")
        } else {
            api.whole(base, "hang=body")
        };
        request.begin().unwrap().abort();
    });
    send(5, |api, _| {
        assert_eq!(api.whole(base, "status=500").send().status, 502)
    });
    send(5, |api, _| {
        assert!(api.stream(base, "cut=2").open().finish(PATIENCE).is_whole())
    });
    send(5, |api, _| {
        assert_eq!(
            Request::post(&format!("{base}{}", api.path()), "no json")
                .send()
                .status,
            400
        )
    });
    send(5, |api, _| {
        let unknown = r#"{"model":"unknown","messages":[]}"#;
        assert_eq!(
            Request::post(&format!("{base}{}", api.path()), unknown)
                .send()
                .status,
            404
        );
    });
    a.set_mode("status=503,retry_after=0");
    send(5, |api, _| {
        assert_eq!(api.whole(base, "").send().served_by(), Some("b"))
    });
    a.set_mode("");
    send(5, |api, _| {
        drop(
            api.whole(base, "delay=30")
                .patience(std::time::Duration::from_millis(200))
                .try_send(),
        )
    });
    send(5, |api, _| {
        assert_eq!(
            api.stream(
                base,
                "error_event=0,error_code=400,err_type=invalid_request_error"
            )
            .send()
            .status,
            400
        )
    });
    send(5, |api, _| {
        assert!(api.stream(base, "hang=2").open().finish(PATIENCE).is_whole())
    });
    send(5, |api, _| {
        assert_eq!(api.whole(base, "drop=rst").send().status, 502)
    });
    send(5, |api, _| {
        assert_eq!(api.whole(base, "short=5").send().status, 502)
    });
}

#[test]
fn acc_1_counts_return_to_zero_after_every_ending() {
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = two(&a, &b);
    every_ending(&gateway, &a);
    expect_idle(&gateway);
    // A slot is given back when the engine is done, and a request runs until its client has the last byte, or has left.
    let running = || gateway.metrics().value("weighbridge_requests_running", &[]);
    assert!(
        eventually(PATIENCE, || running() == 0.0),
        "{} still run",
        running()
    );
    a.wait_idle(PATIENCE);
    b.wait_idle(PATIENCE);
    // Endpoints that reset their connections are tried again a little later.
    let live = || {
        gateway
            .metrics()
            .sum("weighbridge_endpoint_state", &[("state", "live")])
    };
    assert!(
        eventually(PATIENCE, || live() == 2.0),
        "{}",
        gateway.metrics().text
    );
    let before = requests(&gateway);
    let ok = outcomes(&gateway, "ok");
    a.reset();
    b.reset();
    for number in 0..100 {
        let api = Api::ALL[number % 4];
        let request = if number % 8 < 4 {
            api.whole(&gateway.url(""), "")
        } else {
            api.stream(&gateway.url(""), "")
        };
        assert_eq!(request.send().status, 200);
    }
    let share = a.posts().len();
    assert!((30..=70).contains(&share), "{share} of 100 went to a");
    assert_eq!(share + b.posts().len(), 100);
    // The last is counted once its bytes are on their way.
    expect_idle(&gateway);
    assert!(eventually(PATIENCE, || requests(&gateway) - before >= 100.0));
    assert_eq!(
        (requests(&gateway) - before, outcomes(&gateway, "ok") - ok),
        (100.0, 100.0)
    );
}

/// Requests in flight at endpoint `a`, as the metrics say.
fn inflight(gateway: &Gateway) -> f64 {
    gateway
        .metrics()
        .value("weighbridge_inflight", &[("pool", "p"), ("endpoint", "a")])
}

/// However a route chooses, a request counts from its choice to the last byte of its answer.
#[test]
fn lb_2_an_answer_counts_until_its_last_byte_under_every_policy() {
    let upstream = Upstream::start("a");
    let routes = [
        "targets: [p]",
        "targets: [{pool: p, weight: 3}]",
        "targets: [p], policies: {least_inflight: {}}",
        "targets: [p], policies: {session_affinity: {}}",
        "targets: [p], policies: {session_affinity: {}, least_inflight: {}}",
    ];
    par(routes.len(), |i| {
        let gateway = gateway(&format!(
            "
            pools: [{{name: p, kind: generic, endpoints: [{{name: a, url: '{}'}}]}}]
            routes: [{{name: m, {}}}]
            ",
            upstream.url(),
            routes[i]
        ));
        let base = gateway.url("");
        for api in Api::ALL {
            let mut stream = api.stream(&base, "gap=0.15,chunks=8").open();
            assert_eq!(inflight(&gateway), 1.0, "{api:?}: its head is here");
            assert!(stream.wait_events(6, PATIENCE));
            assert_eq!(inflight(&gateway), 1.0, "{api:?}: it runs");
            assert!(stream.finish(PATIENCE).is_whole());
            expect_idle(&gateway);
            let pending = api.whole(&base, "delay=0.6").begin().unwrap();
            assert!(eventually(PATIENCE, || inflight(&gateway) == 1.0), "{api:?}");
            assert_eq!(pending.response(PATIENCE).unwrap().status, 200);
            expect_idle(&gateway);
        }
        let body = "{\"model\": \"m\", \"input\": \"x [[mock:delay=0.6]]\"}";
        let pending = Request::post(&format!("{base}/v1/embeddings"), body)
            .begin()
            .unwrap();
        assert!(eventually(PATIENCE, || inflight(&gateway) == 1.0));
        assert_eq!(pending.response(PATIENCE).unwrap().status, 200);
        expect_idle(&gateway);
    });
}
