//! The harness, on a script that stands in for the gateway and an upstream that answers in its place.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::path::Path;
use std::time::Duration;
use weighbridge_test_engine::client::{self, Failure, Request};
use weighbridge_test_engine::harness::{ADMIN_TOKEN, Gateway, GatewayOptions};
use weighbridge_test_engine::{Upstream, eventually};

const SOON: Duration = Duration::from_secs(10);

fn options(yaml: &str, upstream: &Upstream) -> GatewayOptions {
    let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_gateway.sh");
    let mut options = GatewayOptions::new(&binary, yaml);
    options
        .env
        .push(("FAKE_LISTEN".to_owned(), upstream.addr().to_string()));
    options
}

#[test]
fn starts_looks_at_and_stops_a_gateway() {
    let up = Upstream::start("A");
    let mut gateway = Gateway::start_with(&options("pools: []", &up));
    let config = std::fs::read_to_string(gateway.config_path()).unwrap();
    assert!(
        config.contains("listen: 127.0.0.1:0")
            && config.contains(ADMIN_TOKEN)
            && config.contains("auth: none")
    );
    assert_eq!(
        client::post(&gateway.url("/v1/chat/completions"), &[], client::chat("m", "x")).status,
        200
    );
    up.set_load(7.0, 0.0);
    assert_eq!(
        gateway
            .metrics()
            .value("vllm:num_requests_running", &[("model_name", "mock-model")]),
        7.0
    );
    assert_eq!(gateway.api("/load")["server_load"], 7);
    assert_eq!(
        up.log().pop().unwrap().header("authorization"),
        Some("Bearer test-admin-token")
    );
    assert_eq!(gateway.wait_log(SOON, |l| l["request_id"] == "r1")["status"], 200);
    gateway.write_config("pools: [changed]");
    gateway.wait_log(SOON, |l| l["event"] == "reloaded");
    assert!(!gateway.has_ended());
    assert_eq!(gateway.wait_exit(Duration::ZERO), None);
    gateway.sigterm();
    assert_eq!(gateway.wait_exit(SOON), Some(3));
    assert!(gateway.has_ended() && gateway.stdout().contains("not JSON"));
    assert_eq!(gateway.log_lines().last().unwrap()["event"], "drained");
}

#[test]
fn a_gateway_that_does_not_start_says_why() {
    let up = Upstream::start("A");
    let failure = Gateway::try_start(&options("broken: 1", &up)).err().unwrap();
    assert_eq!(
        (failure.code, failure.output.as_str()),
        (Some(2), "weighbridge.yaml:1: broken\n")
    );
    let broken = options("broken: 1", &up);
    let panic = std::panic::catch_unwind(|| Gateway::start_with(&broken))
        .err()
        .unwrap();
    assert!(
        panic
            .downcast::<String>()
            .unwrap()
            .contains("weighbridge.yaml:1: broken")
    );
}

#[test]
fn dropping_a_gateway_kills_it() {
    let up = Upstream::start("A");
    let gateway = Gateway::start_with(&options("pools: []", &up));
    let proc = format!("/proc/{}", gateway.pid());
    let dir = gateway.dir().to_owned();
    assert!(Path::new(&proc).exists() && dir.exists());
    drop(gateway);
    assert!(!Path::new(&proc).exists() && !dir.exists());
}

#[test]
fn a_client_tells_failures_apart() {
    let up = Upstream::start("A");
    let ask = |mode: &str| {
        let url = format!("{}/v1/chat/completions", up.url());
        Request::post(&url, client::chat(&format!("m@@{mode}"), "x"))
            .patience(Duration::from_millis(200))
            .try_send()
    };
    assert_eq!(ask("hang=headers").unwrap_err(), Failure::TimedOut);
    assert_eq!(ask("hang=body").unwrap().end, client::End::Open);
    assert_eq!(ask("drop").unwrap_err(), Failure::Closed);
    let guard = up.refuse_until();
    assert_eq!(ask("").unwrap_err(), Failure::Refused);
    drop(guard);
    assert!(eventually(SOON, || ask("").is_ok()));
    let old = Request::post(&format!("{}/v1/messages", up.url()), client::messages("m", "x"))
        .http10()
        .send();
    assert_eq!(
        (old.status, up.posts().pop().unwrap().version.as_str()),
        (200, "HTTP/1.0")
    );
}
