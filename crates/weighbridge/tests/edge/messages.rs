//! Messages of the gateway never keep it from serving.

use crate::shared::{SOON, pool};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use weighbridge_test_engine::client::{Request, chat, raw};
use weighbridge_test_engine::{Upstream, eventually};

/// More than a pipe holds, at a message of a hundred bytes each.
const LEAVERS: usize = 3000;

#[test]
fn a_standard_error_that_nobody_reads_stops_nobody() {
    let [a] = Upstream::start_all(["A"]);
    let directory = tempfile::tempdir().unwrap();
    let (config, ready) = (directory.path().join("w.yaml"), directory.path().join("ready"));
    let text = format!(
        "server: {{listen: 127.0.0.1:0}}\nadmin: {{listen: 127.0.0.1:0, token: t}}\nlog: {{level: debug, requests: errors, slow: 0}}\npools:\n{}",
        pool("m", &[&a], &[])
    );
    std::fs::write(&config, text).unwrap();
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_weighbridge"))
        .args(["serve", "--workers", "1", "--config"])
        .arg(&config)
        .arg("--ready-file")
        .arg(&ready)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(eventually(SOON, || ready.exists()));
    let told: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&ready).unwrap()).unwrap();
    let listen: SocketAddr = told["listen"].as_str().unwrap().parse().unwrap();
    // Each is told of in a message.
    for _ in 0..LEAVERS {
        let mut client = raw(listen);
        client.write("POST /v1/chat/completions HTTP/1.1\r\n").unwrap();
    }
    let answer = Request::post(&format!("http://{listen}/v1/chat/completions"), chat("m", "x"))
        .patience(SOON)
        .try_send();
    let served = answer.map(|answer| answer.status);
    let stopped = Command::new("kill")
        .arg(gateway.id().to_string())
        .status()
        .unwrap()
        .success();
    let mut code = None;
    let ended = eventually(SOON, || {
        code = gateway.try_wait().unwrap();
        code.is_some()
    });
    if !ended {
        gateway.kill().unwrap();
    }
    assert_eq!(served.unwrap(), 200);
    assert!(stopped && ended && code.unwrap().success(), "{code:?}");
}
