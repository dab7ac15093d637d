//! Changes after which a route has no endpoint in service are told to whoever made them.

use crate::shared::{SOON, gateway, pool};
use serde_json::{Value, json};
use std::process::{Command, Output};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

const TOLD: &str = "the route `r` has no endpoint in service any more";

fn config(a: &Upstream, b: &Upstream) -> String {
    let pools = pool("m", &[a], &[]) + &pool("n", &[b], &[]);
    format!("pools:\n{pools}routes:\n  - {{name: r, targets: [m, n]}}\n")
}

fn run(gateway: &Gateway, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weighbridge"));
    command.args(args).args(["--admin", &gateway.admin_url("")]);
    command.env("WEIGHBRIDGE_ADMIN_TOKEN", gateway.admin_token());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn draining_the_last_endpoint_in_service_warns() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&config(&a, &b));
    let drain = |endpoint: &str| {
        let path = format!("/api/endpoints/{endpoint}");
        gateway.api_send("PATCH", &path, &json!({"drain": true})).json()
    };
    assert_eq!(drain("m/A")["warnings"], json!([]));
    let last = drain("n/B");
    assert_eq!(last["endpoint"]["state"], "draining");
    assert_eq!(last["warnings"].as_array().unwrap().len(), 1, "{last}");
    assert!(last["warnings"][0].as_str().unwrap().starts_with(TOLD), "{last}");
    assert!(eventually(SOON, || gateway.stderr().contains(TOLD)));

    let resumed = run(&gateway, &["resume", "n/B"]);
    assert!(
        resumed.status.success() && resumed.stderr.is_empty(),
        "{}",
        text(&resumed.stderr)
    );
    let drained = run(&gateway, &["drain", "n/B"]);
    assert!(drained.status.success());
    assert_eq!(text(&drained.stdout), "n/B: draining, idle\n");
    assert!(
        text(&drained.stderr).starts_with(&format!("warning: {TOLD}")),
        "{}",
        text(&drained.stderr)
    );
    let json = run(&gateway, &["drain", "n/B", "--json"]);
    let state: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(state["state"], "draining", "what machines read stays clean");
}

#[test]
fn a_reload_that_leaves_a_route_to_nobody_warns() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&config(&a, &b));
    let state = gateway.api_send("PATCH", "/api/endpoints/m/A", &json!({"drain": true}));
    assert_eq!(state.status, 200);
    let reload = || gateway.api_send("POST", "/api/config/reload", &json!({})).json();
    assert_eq!(reload()["warnings"], json!([]));
    let pools = pool("m", &[&a], &[]) + &pool("n", &[&b], &[]);
    gateway.write_config(&format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [m]}}\n"
    ));
    assert!(eventually(SOON, || {
        reload();
        gateway.stderr().contains(TOLD)
    }));
    // What was so before is no news.
    assert_eq!(reload()["warnings"], json!([]));
    gateway.write_config(&format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [m]}}\n  - {{name: z, targets: [m]}}\n"
    ));
    let new = "the route `z` has no endpoint in service: ";
    assert!(eventually(SOON, || {
        reload();
        gateway.stderr().contains(new)
    }));
    assert_eq!(reload()["warnings"], json!([]));
    for told in [TOLD, new] {
        assert_eq!(gateway.stderr().matches(told).count(), 1, "{}", gateway.stderr());
    }
}

#[test]
fn the_admin_tokens_file_goes_with_its_gateway() {
    let [a] = Upstream::start_all(["A"]);
    let state = tempfile::tempdir().unwrap();
    let mut options = crate::shared::options(&format!(
        "admin: {{listen: 127.0.0.1:0}}\npools:\n{}",
        pool("m", &[&a], &[])
    ));
    let place = state.path().display().to_string();
    options.env.push(("XDG_STATE_HOME".into(), place));
    let mut gateway = Gateway::start_with(&options);
    let files = || {
        let directory = std::fs::read_dir(state.path().join("weighbridge"));
        directory.map_or(0, |files| files.count())
    };
    assert_eq!(files(), 1);
    gateway.sigterm();
    assert_eq!(gateway.wait_exit(SOON), Some(0));
    assert_eq!(files(), 0);
}
