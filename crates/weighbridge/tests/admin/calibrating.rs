//! `weighbridge calibrate`: the gateway measures its endpoints, and weighs them by that.

use super::{SOON, bad, begin_stream, binary, chat, endpoint, gateway, good, pool, run, stderr, wait_api};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::harness::Gateway;

/// Upstreams of which the first writes several times as fast as the second.
fn fast_and_slow() -> [Upstream; 2] {
    let ups = Upstream::start_all(["fast", "slow"]);
    ups[0].set_mode("chunks=30,gap=0.005");
    ups[1].set_mode("chunks=30,gap=0.05");
    ups
}

fn measured(found: &Value, name: &str) -> Value {
    let list = found["endpoints"].as_array().unwrap();
    list.iter()
        .find(|endpoint| endpoint["name"] == name)
        .unwrap()
        .clone()
}

fn weight(gateway: &Gateway, name: &str) -> f64 {
    endpoint(gateway, name)["weight"].as_f64().unwrap()
}

/// The proposed weights must show which is faster, however busy this machine is.
fn assert_proposed(found: &Value) {
    let proposed = |name: &str| measured(found, name)["proposed"].as_f64().unwrap();
    let ratio = proposed("fast") / proposed("slow");
    assert!((1.5..=30.0).contains(&ratio), "{ratio}: {found:#}");
}

#[test]
fn the_faster_endpoint_is_given_more() {
    let ups = fast_and_slow();
    let gateway = gateway(&ups);
    let output = run(
        &gateway,
        &[
            "calibrate",
            "--pool",
            "m",
            "--tokens",
            "64",
            "--requests",
            "2",
            "--json",
        ],
    );
    let found: Value = serde_json::from_str(&good(&output)).unwrap();
    assert_eq!(stderr(&output), "", "no progress in a pipe");
    assert_proposed(&found);
    assert_eq!(
        (&found["running"], &found["applied"]),
        (&json!(false), &json!(false))
    );
    for up in &ups {
        let one = measured(&found, up.name());
        assert_eq!(one["state"], "measured", "{one}");
        let rate = one["tokens"].as_f64().unwrap() / one["seconds"].as_f64().unwrap();
        assert!((rate - one["tokens_per_second"].as_f64().unwrap()).abs() < 1e-6);
        // One to warm up and two that count, each for one endpoint alone.
        let posts = up.posts();
        assert_eq!(posts.len(), 3, "{}", up.name());
        let tokens: Vec<_> = posts
            .iter()
            .map(|post| post.json()["max_tokens"].as_u64().unwrap())
            .collect();
        assert_eq!(tokens, [8, 64, 64]);
        assert_eq!(posts[1].json()["stream"], true);
        assert_eq!(
            (
                weight(&gateway, up.name()),
                endpoint(&gateway, up.name())["inflight"].as_u64()
            ),
            (1.0, Some(0))
        );
        let counted = gateway.metrics().value(
            "weighbridge_attempts_total",
            &[("pool", "m"), ("endpoint", up.name()), ("outcome", "ok")],
        );
        assert!((counted - 3.0).abs() < 1e-9, "counted like any other: {counted}");
    }
    assert_eq!(
        gateway
            .log_lines()
            .iter()
            .filter(|line| line["route"] == "m")
            .count(),
        6
    );
}

#[test]
fn weights_are_used_for_a_time_and_a_hand_wins() {
    let ups = fast_and_slow();
    let gateway = gateway(&ups);
    let args = [
        "calibrate",
        "--pool",
        "m",
        "--requests",
        "1",
        "--apply",
        "--ttl",
        "1h",
    ];
    let shown = good(&run(&gateway, &args));
    assert!(
        shown.contains("TOKENS/S") && shown.contains("in use for 60m"),
        "{shown}"
    );
    let fast = endpoint(&gateway, "fast");
    assert_eq!(fast["weight_calibrated"], true);
    let calibrated = weight(&gateway, "fast");
    assert!(calibrated > 1.4 * weight(&gateway, "slow"), "{fast}");

    let patch = |change: Value| gateway.api_send("PATCH", "/api/endpoints/m/fast", &change);
    assert_eq!(patch(json!({"weight": 0.5})).status, 200);
    let fast = endpoint(&gateway, "fast");
    assert_eq!(
        (
            &fast["weight"],
            &fast["weight_overridden"],
            &fast["weight_calibrated"]
        ),
        (&json!(0.5), &json!(true), &json!(true))
    );
    let shown = good(&run(&gateway, &args));
    assert!(shown.contains("weight set by hand"), "{shown}");
    assert!(
        (weight(&gateway, "fast") - 0.5).abs() < 1e-9,
        "a hand wins over a newer measurement"
    );
    assert_eq!(patch(json!({"weight": null})).status, 200);
    assert!(weight(&gateway, "fast") > 1.4 * weight(&gateway, "slow"));

    good(&run(&gateway, &["calibrate", "--pool", "m", "--forget"]));
    for name in ["fast", "slow"] {
        assert!((weight(&gateway, name) - 1.0).abs() < 1e-9);
        assert_eq!(endpoint(&gateway, name)["weight_calibrated"], false);
    }
}

#[test]
fn drained_and_busy_endpoints_are_left_out() {
    let ups = Upstream::start_all(["a", "b", "c"]);
    let gateway = gateway(&ups);
    let mut stream = begin_stream(&gateway);
    let busy = stream.header("x-mock-name").unwrap().to_owned();
    let drained = if busy == "a" { "b" } else { "a" };
    good(&run(&gateway, &["drain", &format!("m/{drained}")]));
    let args = [
        "calibrate",
        "--pool",
        "m",
        "--max-inflight",
        "0",
        "--timeout",
        "500ms",
        "--json",
    ];
    let found: Value = serde_json::from_str(&good(&run(&gateway, &args))).unwrap();
    for (name, why) in [
        (drained, "it is draining: drained by hand"),
        (&busy, "more than 0 requests in flight for 500ms"),
    ] {
        let one = measured(&found, name);
        assert_eq!(one["state"], "skipped", "{one}");
        assert!(one["reason"].as_str().unwrap().contains(why), "{one}");
        assert_eq!(one["proposed"], Value::Null);
    }
    let drained = ups.iter().find(|up| up.name() == drained).unwrap();
    assert_eq!(drained.posts().len(), 0, "it is never asked");
    stream.finish(SOON);
}

#[test]
fn failures_of_a_calibration_say_why() {
    let ups = Upstream::start_all(["good", "bad"]);
    ups[1].set_mode("status=500,err_msg=out of order");
    let gateway = gateway(&ups);
    let output = run(&gateway, &["calibrate", "--pool", "m", "--requests", "1"]);
    bad(&output, 1, &["1 endpoint could not be measured"]);
    let shown = super::stdout(&output);
    assert!(
        shown.contains("failed: status 502") || shown.contains("failed: status 500"),
        "{shown}"
    );
    bad(
        &run(&gateway, &["calibrate", "--pool", "n"]),
        2,
        &["no pool `n`", "m"],
    );
    bad(
        &run(&gateway, &["calibrate", "--pool", "m", "--tokens", "1"]),
        2,
        &["not between 16 and 8192"],
    );
    bad(
        &run(&gateway, &["calibrate", "--pool", "m", "--ttl", "1h"]),
        2,
        &["--apply"],
    );
    bad(&run(&gateway, &["calibrate"]), 2, &["--pool"]);
    ups[0].set_mode("hang=headers");
    ups[1].set_mode("hang=headers");
    let output = run(
        &gateway,
        &["calibrate", "--pool", "m", "--together", "--timeout", "500ms"],
    );
    bad(&output, 1, &["2 endpoints could not be measured"]);
    assert!(super::stdout(&output).contains("no answer within 500ms"));
    for up in &ups {
        up.wait_idle(SOON);
        wait_api(&gateway, "/api/endpoints", |all| {
            all["endpoints"]
                .as_array()
                .unwrap()
                .iter()
                .all(|endpoint| endpoint["inflight"] == 0)
        });
    }
}

#[test]
fn a_pool_is_measured_once_at_a_time() {
    let ups = Upstream::start_all(["a", "b"]);
    for up in &ups {
        up.set_mode("hang=headers");
    }
    let gateway = gateway(&ups);
    let post = || gateway.api_send("POST", "/api/calibration/m", &json!({"timeout": "2s"}));
    assert_eq!(post().status, 200);
    let second = post();
    assert_eq!(second.status, 409, "{}", second.text());
    let shown = gateway.api("/api/calibration/m");
    assert_eq!(shown["calibration"]["running"], true);
    let done = wait_api(&gateway, "/api/calibration/m", |shown| {
        shown["calibration"]["running"] == false
    });
    assert_eq!(done["calibration"]["endpoints"][0]["state"], "failed");
    assert_eq!(chat_after(&gateway, &ups), 200, "it serves on");
}

fn chat_after(gateway: &Gateway, ups: &[Upstream]) -> u16 {
    for up in ups {
        up.set_mode("");
    }
    chat(gateway, "m").status
}

#[test]
fn the_gateway_needs_no_key_of_a_client_and_sends_its_own() {
    let ups = Upstream::start_all(["a", "b"]);
    let config = pool("m", &ups).replace(
        "health: false",
        "health: false, api_key: upstream-key, model: real",
    );
    let gateway = Gateway::start(
        binary(),
        &(config + "auth: keys\nkeys: [{name: k, key: client-key}]\n"),
    );
    good(&run(&gateway, &["calibrate", "--pool", "m", "--requests", "1"]));
    for up in &ups {
        for post in up.posts() {
            assert_eq!(post.header("authorization"), Some("Bearer upstream-key"));
            assert_eq!(post.json()["model"], "real");
        }
    }
}

#[test]
fn it_is_done_by_itself_at_its_time_of_day() {
    let ups = fast_and_slow();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(3);
    let of_day = now.as_secs() % 86_400;
    let at = format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
    let config = pool("m", &ups).replace(
        "health: false",
        &format!("health: false, calibrate: {{at: \"{at}\", requests: 1, tokens: 32}}"),
    );
    let gateway = Gateway::start(binary(), &config);
    let done = wait_api(&gateway, "/api/calibration/m", |shown| {
        shown["calibration"]["running"] == false
    });
    let found = &done["calibration"];
    assert_eq!(
        (&found["scheduled"], &found["applied"]),
        (&json!(true), &json!(true))
    );
    assert_proposed(found);
    assert!(weight(&gateway, "fast") > 1.4 * weight(&gateway, "slow"));
}

#[test]
fn labels_weigh_where_nothing_was_measured() {
    let [a, b, c] = Upstream::start_all(["a", "b", "c"]);
    let config = format!(
        "pools:\n  - name: m\n    health: false\n    weight: labels\n    endpoints:\n      \
         - {{name: a, url: \"{}\", labels: {{gpu: L4}}}}\n      \
         - {{name: b, url: \"{}\", labels: {{gpu: \"NVIDIA A30\", gpus: \"2\"}}}}\n      \
         - {{name: c, url: \"{}\", labels: {{gpu: L4}}, weight: 5}}\n",
        a.url(),
        b.url(),
        c.url()
    );
    let gateway = Gateway::start(binary(), &config);
    for (name, expect) in [("a", 0.3), ("b", 1.866), ("c", 5.0)] {
        assert!((weight(&gateway, name) - expect).abs() < 1e-9, "{name}");
    }
}

/// What is measured takes the place of the weight that the load multiplies, so the load must not be in it.
#[test]
fn the_load_is_no_part_of_what_is_measured() {
    let [fast, slow, out] = Upstream::start_all(["fast", "slow", "out"]);
    let ups = [fast, slow, out];
    ups[1].set_mode("gap=0.02");
    let config = pool("m", &ups).replace("health: false", "health: false, kind: vllm, weight: auto");
    let gateway = Gateway::start(binary(), &config);
    wait_api(&gateway, "/api/endpoints", |all| {
        let all = all["endpoints"].as_array().unwrap();
        all.iter().all(|endpoint| endpoint["weight"].as_f64() > Some(1.0))
    });
    gateway.api_send("PATCH", "/api/endpoints/m/out", &json!({"drain": true}));
    for _ in 0..2 {
        let args = ["calibrate", "--pool", "m", "--requests", "1", "--apply", "--json"];
        run(&gateway, &args);
        let found = gateway.api("/api/calibration/m")["calibration"].clone();
        let sum = |key: &str| -> f64 {
            let of = |name: &str| measured(&found, name)[key].as_f64().unwrap();
            of("fast") + of("slow")
        };
        assert!((sum("weight") - 2.0).abs() < 1e-5, "{found:#}");
        assert!((sum("proposed") - 2.0).abs() < 1e-5, "{found:#}");
    }
    let refused = gateway.api_send(
        "POST",
        "/api/calibration/m",
        &json!({"forget": true, "apply": true}),
    );
    assert_eq!(refused.status, 400, "{}", refused.text());
}
