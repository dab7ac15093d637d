//! Draining, resuming, weights by hand.

use super::{SOON, begin_stream, endpoint, gateway, good, in_turn, run, served_by, stdout, wait_api};
use serde_json::{Value, json};
use weighbridge_test_engine::client::{Request, StreamClient, chat_stream};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

fn patch(gateway: &Gateway, name: &str, change: &Value) -> Value {
    let response = gateway.api_send("PATCH", &format!("/api/endpoints/m/{name}"), change);
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["endpoint"].take()
}

/// Which upstreams answer the next `n` chats.
fn next(gateway: &Gateway, n: usize) -> Vec<String> {
    (0..n).map(|_| served_by(gateway, "m")).collect()
}

/// The upstream that answers the stream, and the other one.
fn sides(stream: &StreamClient) -> (&'static str, &'static str) {
    match stream.header("x-mock-name") {
        Some("a") => ("a", "b"),
        _ => ("b", "a"),
    }
}

#[test]
fn drain_sends_nothing_new_and_lets_the_running_finish() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = gateway(&ups);
    let mut stream = begin_stream(&gateway);
    let (busy, other) = sides(&stream);
    let state = patch(&gateway, busy, &json!({"drain": true}));
    assert_eq!(
        (&state["state"], &state["reason"]),
        (&json!("draining"), &json!("drained by hand"))
    );
    assert_eq!(state["inflight"], 1);
    assert!(next(&gateway, 6).iter().all(|name| name == other));
    assert_eq!(
        gateway.api("/api/status")["endpoints"]["by_state"],
        json!({"draining": 1, "live": 1})
    );
    let end = stream.finish(SOON);
    assert!(
        end.is_whole() && stream.text().contains("[DONE]"),
        "{end:?} {}",
        stream.text()
    );
    assert!(eventually(SOON, || endpoint(&gateway, busy)["inflight"] == 0));

    let drained = patch(&gateway, other, &json!({"drain": true}));
    assert_eq!(drained["state"], "draining");
    let refused = super::chat(&gateway, "m");
    assert_eq!(refused.status, 503, "only draining endpoints are left");
    assert!(
        refused.text().contains("no engine of this model is in service"),
        "nothing was tried, so nothing failed: {}",
        refused.text()
    );
    assert_eq!(patch(&gateway, busy, &json!({"resume": true}))["state"], "live");
    assert!(next(&gateway, 4).iter().all(|name| name == busy));
    patch(&gateway, other, &json!({"resume": true}));
    assert!(eventually(SOON, || served_by(&gateway, "m") == other));
}

#[test]
fn a_change_that_says_nothing_is_told_what_to_say() {
    let ups = Upstream::start_all(["a"]);
    let gateway = gateway(&ups);
    let request =
        weighbridge_test_engine::client::Request::new("PATCH", &gateway.admin_url("/api/endpoints/m/a"));
    let token = format!("Bearer {}", gateway.admin_token());
    let refused = request.header("authorization", &token).send();
    assert_eq!(refused.status, 400);
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("the body is empty; send {\"drain\": true}"),
        "{message}"
    );
}

#[test]
fn drain_outlives_a_reload() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = gateway(&ups);
    patch(&gateway, "a", &json!({"drain": true}));
    gateway
        .write_config(&(super::pool("m", &ups).replace("health: false", "health: false, max_inflight: 50")));
    wait_api(&gateway, "/api/status", |status| status["generation"] == 1);
    assert_eq!(endpoint(&gateway, "a")["state"], "draining");
    assert!(next(&gateway, 4).iter().all(|name| name == "b"));
}

#[test]
fn a_weight_by_hand_counts_and_ends_with_its_time() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = in_turn(&ups);
    let state = patch(&gateway, "a", &json!({"weight": 3, "ttl": "10m"}));
    assert_eq!(
        (&state["weight"], &state["weight_overridden"]),
        (&json!(3.0), &json!(true))
    );
    assert!(state["weight_until"].is_string());
    let served = next(&gateway, 8);
    assert_eq!(served.iter().filter(|name| *name == "a").count(), 6, "{served:?}");

    patch(&gateway, "a", &json!({"weight": 7, "ttl": "200ms"}));
    assert!(eventually(SOON, || endpoint(&gateway, "a")["weight_overridden"] == false));
    assert_eq!(endpoint(&gateway, "a")["weight"], 1.0);
    let served = next(&gateway, 8);
    assert_eq!(served.iter().filter(|name| *name == "a").count(), 4, "{served:?}");

    let answer = gateway.api_send("PATCH", "/api/endpoints/m/a", &json!({"weight": 1}));
    assert_eq!(answer.json()["warnings"], json!([]));
    patch(&gateway, "a", &json!({"weight": null}));
    let state = patch(&gateway, "b", &json!({"weight": 2.5}));
    assert_eq!(
        (&state["weight"], &state["weight_until"]),
        (&json!(2.5), &Value::Null)
    );
    let state = patch(&gateway, "b", &json!({"weight": null}));
    assert_eq!(
        (&state["weight"], &state["weight_overridden"]),
        (&json!(1.0), &json!(false))
    );
}

#[test]
fn a_weight_at_which_no_route_looks_is_set_and_told_of() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = gateway(&ups);
    let answer = gateway.api_send("PATCH", "/api/endpoints/m/a", &json!({"weight": 3}));
    let warnings = answer.json()["warnings"].to_string();
    assert!(
        warnings.contains("the pool `m` choose by policies") && warnings.contains("`route_by: round_robin`"),
        "{warnings}"
    );
    assert_eq!(endpoint(&gateway, "a")["weight"], 3.0);
    let shown = good(&run(
        &gateway,
        &["calibrate", "--pool", "m", "--requests", "1", "--tokens", "16"],
    ));
    assert!(
        shown.contains("\nwarning: the routes over the pool `m` choose by policies"),
        "{shown}"
    );
}

#[test]
fn wrong_changes_are_refused_and_change_nothing() {
    let ups = Upstream::start_all(["a"]);
    let gateway = gateway(&ups);
    for (path, body, status, says) in [
        (
            "m/a",
            r#"{"drian": true}"#,
            400,
            "expected one of `drain`, `resume`, `weight`, `ttl`",
        ),
        ("m/a", r#"{"weight": 0}"#, 400, "above 0"),
        ("m/a", r#"{"weight": 2e9}"#, 400, "at most 1e9"),
        ("m/a", r#"{"weight": 1, "ttl": "soon"}"#, 400, "ttl"),
        ("m/a", "{}", 400, "nothing is to change"),
        ("m/a", "drain", 400, "send {"),
        ("m/b", r#"{"drain": true}"#, 404, "did you mean `m/a`?"),
        ("m", r#"{"drain": true}"#, 404, "there is no endpoint `m`"),
    ] {
        let url = gateway.admin_url(&format!("/api/endpoints/{path}"));
        let token = format!("Bearer {}", gateway.admin_token());
        let request = Request::new("PATCH", &url).body(body);
        let response = request.header("authorization", &token).send();
        assert_eq!(response.status, status, "{path} {body}: {}", response.text());
        let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(says), "{path} {body}: {message}");
    }
    let state = endpoint(&gateway, "a");
    assert_eq!((&state["state"], &state["weight"]), (&json!("live"), &json!(1.0)));
}

#[test]
fn drain_by_command_waits_until_the_endpoint_is_idle() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = in_turn(&ups);
    let mut stream = begin_stream(&gateway);
    let (busy, other) = sides(&stream);
    let name = format!("m/{busy}");
    let (drained, ended) = std::thread::scope(|scope| {
        let drained = scope.spawn(|| run(&gateway, &["drain", &name, "--wait", "60s", "--json"]));
        assert!(eventually(SOON, || endpoint(&gateway, busy)["state"] == "draining"));
        assert!(next(&gateway, 3).iter().all(|name| name == other));
        let ended = stream.finish(SOON);
        (drained.join().unwrap(), ended)
    });
    assert!(ended.is_whole() && stream.text().contains("[DONE]"));
    let state: Value = serde_json::from_str(&good(&drained)).unwrap();
    assert_eq!(
        (&state["state"], &state["inflight"]),
        (&json!("draining"), &json!(0))
    );

    let again = run(&gateway, &["drain", &name]);
    assert_eq!(good(&again), format!("{name}: draining, idle\n"));
    assert_eq!(
        good(&run(&gateway, &["resume", &name])),
        format!("{name}: live\n")
    );
    assert!(eventually(SOON, || served_by(&gateway, "m") == busy));
}

#[test]
fn drain_by_command_gives_up_waiting_but_stays_drained() {
    let ups = Upstream::start_all(["a"]);
    let gateway = gateway(&ups);
    let headers = [("x-mock", "hang=body")];
    let body = chat_stream("m", "x");
    let request = Request::post(&gateway.url("/v1/chat/completions"), body);
    let pending = request.headers(&headers).begin().unwrap();
    ups[0].wait_posts(1, SOON);
    let output = run(&gateway, &["drain", "m/a", "--wait", "300ms"]);
    super::bad(
        &output,
        1,
        &["m/a still has 1 running request after 300ms", "stays drained"],
    );
    assert_eq!(stdout(&output), "");
    assert_eq!(endpoint(&gateway, "a")["state"], "draining");
    let at_once = good(&run(&gateway, &["drain", "m/a"]));
    assert_eq!(at_once, "m/a: draining, 1 request still running\n");
    pending.abort();
    assert!(eventually(SOON, || endpoint(&gateway, "a")["inflight"] == 0));
}
