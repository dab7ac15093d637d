//! The admin API and the commands that use it, against the running gateway.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod calibrating;
mod changing;
mod commands;
mod explaining;
mod looking;
mod ranks;
mod reckoning;
mod safety;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use weighbridge_test_engine::client::{self, Response, StreamClient};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

/// Longest wait for what should happen at once.
const SOON: Duration = Duration::from_secs(20);

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_weighbridge"))
}

/// A gateway with one pool `m` of these upstreams, named after them.
fn gateway(upstreams: &[Upstream]) -> Gateway {
    Gateway::start(binary(), &pool("m", upstreams))
}

/// The same, whose requests take turns.
fn in_turn(upstreams: &[Upstream]) -> Gateway {
    let config = pool("m", upstreams).replace("name: m,", "name: m, route_by: round_robin,");
    Gateway::start(binary(), &config)
}

/// A pool of the config, its endpoints named after the upstreams.
fn pool(name: &str, upstreams: &[Upstream]) -> String {
    let endpoints: Vec<String> = upstreams
        .iter()
        .map(|up| format!("{{name: {}, url: \"{}\"}}", up.name(), up.url()))
        .collect();
    format!(
        "pools:\n  - {{name: {name}, health: false, endpoints: [{}]}}\n",
        endpoints.join(", ")
    )
}

fn chat(gateway: &Gateway, model: &str) -> Response {
    client::post(
        &gateway.url("/v1/chat/completions"),
        &[],
        client::chat(model, "x"),
    )
}

/// Which upstream answers the next chat.
fn served_by(gateway: &Gateway, model: &str) -> String {
    let response = chat(gateway, model);
    assert_eq!(response.status, 200, "{}", response.text());
    response.served_by().unwrap().to_owned()
}

/// A stream that has begun and goes on for a second and a half.
fn begin_stream(gateway: &Gateway) -> StreamClient {
    let body = client::chat_stream("m", "x");
    let headers = [("x-mock", "gap=0.1,chunks=15")];
    let mut stream = client::stream(&gateway.url("/v1/chat/completions"), &headers, body);
    assert!(stream.wait_events(1, SOON), "the stream has begun");
    stream
}

/// The state of the endpoint `m/NAME`.
fn endpoint(gateway: &Gateway, name: &str) -> Value {
    let all = gateway.api("/api/endpoints");
    let list = all["endpoints"].as_array().unwrap();
    let found = list.iter().find(|endpoint| endpoint["name"] == name);
    found
        .unwrap_or_else(|| panic!("no endpoint {name}: {all}"))
        .clone()
}

/// Waits until `path` of the API answers as wanted.
fn wait_api(gateway: &Gateway, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let came = eventually(SOON, || wanted(&gateway.api(path)));
    let now = gateway.api(path);
    assert!(came, "{path}: {now:#}");
    now
}

/// Runs a command of the binary against the gateway.
fn run(gateway: &Gateway, args: &[&str]) -> Output {
    let address = gateway.admin_url("");
    let (command, rest) = args.split_first().unwrap();
    run_alone(
        &[&[*command, "--admin", &address], rest].concat(),
        &[("WEIGHBRIDGE_ADMIN_TOKEN", gateway.admin_token())],
    )
}

/// Runs the binary with nothing but this environment.
fn run_alone(args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    command.env_clear().args(args);
    command.envs(env.iter().copied());
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard output of a command that must be good.
fn good(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Asserts that a command failed with `code` and said each of `words`.
fn bad(output: &Output, code: i32, words: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}{}", stdout(output));
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}
