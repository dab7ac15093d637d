//! What somebody who configures nothing is told of why a request goes where it goes: the preset, seconds, and what they are from.

use super::{SOON, binary, good, pool, run, run_alone};
use serde_json::{Value, json};
use std::path::Path;
use weighbridge_test_engine::client::{self, Request};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

/// Blocks of 1 KiB of it are what caches are believed to hold.
fn long_text() -> String {
    "All work and no play makes Jack a dull boy. ".repeat(220)
}

fn explain(gateway: &Gateway, body: &str) -> Value {
    let token = format!("Bearer {}", gateway.admin_token());
    let request = Request::post(&gateway.admin_url("/api/explain"), body);
    let answer = request.header("authorization", &token).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The part of `added_delay` of the candidate `name`.
fn part<'a>(told: &'a Value, name: &str) -> &'a Value {
    let candidates = told["explanation"].as_array().unwrap();
    let candidate = candidates.iter().find(|candidate| candidate["endpoint"] == name);
    let part = &candidate.unwrap()["parts"][0];
    assert_eq!(part["policy"], "added_delay", "{told:#}");
    part
}

/// Two engines that take a fifth of a second for each prompt, of which the one that is named has answered `text`.
fn warm(upstreams: &[Upstream], text: &str) -> (Gateway, String) {
    let gateway = Gateway::start(binary(), &pool("m", upstreams));
    let (url, body) = (
        gateway.url("/v1/chat/completions"),
        client::chat_stream("m", text),
    );
    let headers = [("x-mock", "delay=0.2"), ("x-weighbridge-explain", "1")];
    let answer = client::post(&url, &headers, body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let served = answer.served_by().unwrap().to_owned();
    let idle = |status: &Value| status["running_requests"] == 0;
    super::wait_api(&gateway, "/api/status", idle);
    (gateway, served)
}

#[test]
fn where_nothing_was_measured_a_token_counts_half_a_millisecond_and_that_is_said() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = Gateway::start(binary(), &pool("m", &ups));
    let told = explain(&gateway, &client::chat("m", &long_text()));
    assert_eq!(
        (&told["preset"], &told["preset_implied"]),
        (&json!("auto"), &json!(true))
    );
    for name in ["a", "b"] {
        let (seconds, from) = (number(&part(&told, name)["seconds"]), &part(&told, name)["from"]);
        let tokens = number(&from["prompt_tokens"]);
        assert!(tokens > 1000.0, "{from}");
        assert!((seconds - tokens / 2000.0).abs() < 2e-6, "{seconds} of {tokens}");
        let expect = json!({
            "prompt_tokens": from["prompt_tokens"], "cached_tokens": 0, "to_compute_tokens": from["prompt_tokens"],
            "tokens_ahead": 0, "waiting": 0, "running": 0, "seconds_per_1000_tokens": null, "measured": "not_yet",
        });
        assert_eq!(*from, expect);
    }
}

#[test]
fn what_is_cached_and_measured_is_told_of_each() {
    let ups = Upstream::start_all(["a", "b"]);
    let (gateway, served) = warm(&ups, &long_text());
    let other = if served == "a" { "b" } else { "a" };
    let told = explain(&gateway, &client::chat("m", &long_text()));
    assert_eq!(told["endpoint"], json!(served));
    let (here, there) = (part(&told, &served), part(&told, other));
    for part in [here, there] {
        let (seconds, raw, from) = (number(&part["seconds"]), number(&part["raw"]), &part["from"]);
        assert!((seconds - (1.0 / raw - 0.001)).abs() < 1e-6, "{part}");
        let (all, cached) = (number(&from["prompt_tokens"]), number(&from["cached_tokens"]));
        assert!(
            (number(&from["to_compute_tokens"]) - (all - cached)).abs() < 0.5,
            "{from}"
        );
        // At least what computing it takes there.
        let computing = number(&from["seconds_per_1000_tokens"]) * (all - cached) / 1000.0;
        assert!(seconds >= computing - 1e-3, "{seconds} of {computing}");
    }
    assert_eq!(
        (&here["from"]["measured"], &there["from"]["measured"]),
        (&json!("here"), &json!("pool"))
    );
    assert!(number(&here["from"]["cached_tokens"]) > 0.9 * number(&here["from"]["prompt_tokens"]));
    assert_eq!(there["from"]["cached_tokens"], 0);
    assert!(number(&here["seconds"]) < number(&there["seconds"]));
    assert_eq!(told["parts"][0]["seconds"], here["seconds"]);
    assert_eq!(told["runner_up"]["parts"][0]["seconds"], there["seconds"]);
}

#[test]
fn requests_under_way_are_counted_where_they_are() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = Gateway::start(binary(), &pool("m", &ups));
    let stream = super::begin_stream(&gateway);
    let busy = gateway.api("/api/endpoints")["endpoints"].take();
    let busy = busy
        .as_array()
        .unwrap()
        .iter()
        .find(|endpoint| endpoint["inflight"] == 1);
    let busy = busy.unwrap()["name"].as_str().unwrap().to_owned();
    let mut told = Value::Null;
    assert!(
        eventually(SOON, || {
            told = explain(&gateway, &client::chat("m", "x"));
            part(&told, &busy)["from"]["running"] == 1
        }),
        "{told:#}"
    );
    for name in ["a", "b"] {
        let from = &part(&told, name)["from"];
        assert_eq!(from["running"], json!(u8::from(name == busy)), "{told:#}");
        assert_eq!((&from["waiting"], &from["tokens_ahead"]), (&json!(0), &json!(0)));
    }
    drop(stream);
}

#[test]
fn header_decisions_and_log_name_the_preset_and_the_seconds() {
    let ups = Upstream::start_all(["a", "b"]);
    let (gateway, served) = warm(&ups, &long_text());
    let headers = [("x-weighbridge-explain", "1")];
    let answer = client::post(
        &gateway.url("/v1/chat/completions"),
        &headers,
        client::chat("m", &long_text()),
    );
    assert_eq!(answer.served_by(), Some(&*served));
    let header: Value = serde_json::from_str(answer.header("x-weighbridge-explain").unwrap()).unwrap();
    let latest = gateway.api("/api/decisions?route=m")["decisions"][0].take();
    for told in [&header, &latest] {
        assert_eq!(
            (&told["preset"], &told["preset_implied"]),
            (&json!("auto"), &json!(true))
        );
        assert!(number(&told["parts"][0]["seconds"]) < number(&told["runner_up"]["parts"][0]["seconds"]));
        assert!(
            number(&part(told, &served)["from"]["cached_tokens"]) > 0.0,
            "{told:#}"
        );
    }
    let line = gateway.wait_log(SOON, |line| line["request_id"] == latest["request_id"]);
    assert_eq!(
        (&line["route_by"], &line["preset"], &line["preset_implied"]),
        (&json!("policy"), &json!("auto"), &json!(true))
    );
}

#[test]
fn what_has_a_name_of_its_own_is_not_said_to_be_implied() {
    let ups = Upstream::start_all(["a", "b"]);
    let routes = "
routes:
  - {name: chats, targets: [m], preset: chat}
  - {name: own, targets: [m], policies: {least_inflight: {}}}
  - {name: turns, targets: [m], route_by: round_robin}
";
    let gateway = Gateway::start(binary(), &(pool("m", &ups) + routes));
    for (route, preset, implied) in [
        ("chats", json!("chat"), json!(false)),
        ("own", Value::Null, Value::Null),
        ("turns", Value::Null, Value::Null),
    ] {
        let told = explain(&gateway, &client::chat(route, "x"));
        assert_eq!(
            (&told["preset"], &told["preset_implied"]),
            (&preset, &implied),
            "{route}"
        );
        assert_eq!(super::chat(&gateway, route).status, 200);
        let line = gateway.wait_log(SOON, |line| line["route"] == route);
        assert_eq!(
            (&line["preset"], &line["preset_implied"]),
            (&preset, &implied),
            "{line}"
        );
    }
}

#[test]
fn a_decision_keeps_the_preset_that_it_was_taken_by() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = Gateway::start(binary(), &pool("m", &ups));
    super::served_by(&gateway, "m");
    let config = pool("m", &ups).replace("name: m,", "name: m, preset: chat,");
    gateway.write_config(&config);
    let reloaded = gateway.api_send("POST", "/api/config/reload", &json!({}));
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    super::served_by(&gateway, "m");
    let decisions = gateway.api("/api/decisions?route=m");
    let presets = |at: usize| {
        (
            decisions["decisions"][at]["preset"].clone(),
            decisions["decisions"][at]["preset_implied"].clone(),
        )
    };
    assert_eq!(presets(0), (json!("chat"), json!(false)));
    assert_eq!(presets(1), (json!("auto"), json!(true)));
}

/// `text` with every number as `#`, every gap as one space, and lines in an order that does not say who won.
fn shape(text: &str) -> Vec<String> {
    let shaped = |line: &str| {
        let (mut shape, mut in_number) = (String::new(), false);
        let line: Vec<_> = line.split_whitespace().filter(|word| *word != "*").collect();
        for c in line.join(" ").chars() {
            let goes_on = in_number && ",.".contains(c);
            let is_number = c.is_ascii_digit() || goes_on;
            if !is_number {
                shape.push(c);
            } else if !in_number {
                shape.push('#');
            }
            in_number = is_number;
        }
        shape
    };
    let mut lines: Vec<String> = text.lines().map(shaped).collect();
    lines.sort();
    lines
}

/// The block of docs/explaining.md after `before`.
fn documented(before: &str) -> String {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/explaining.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (_, rest) = document.split_once(before).unwrap();
    let (_, rest) = rest.split_once("```text\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_example_of_the_default_has_the_words_that_are_printed() {
    let ups = Upstream::start_all(["gpu1", "gpu2"]);
    let (gateway, served) = warm(&ups, &long_text());
    let request = gateway.dir().join("chat.json");
    std::fs::write(&request, client::chat("m", &long_text())).unwrap();
    let shown = good(&run(
        &gateway,
        &["explain", "--request", request.to_str().unwrap()],
    ));
    let example = documented("## The default").replace("qwen3", "m");
    assert_eq!(shape(&shown), shape(&example), "{shown}\n{example}");
    let first = format!(
        "route m by policy (implied preset auto): 2 of 2 candidates live\nwinner m/{served}: the largest total, "
    );
    assert!(shown.starts_with(&first), "{shown}");
    let seconds = shown.lines().find(|line| line.starts_with("added_delay: "));
    assert!(
        seconds.is_some_and(|line| line.contains(&format!(" s at m/{served}, "))),
        "{shown}"
    );
}

#[test]
fn a_config_alone_has_measured_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("weighbridge.yaml");
    std::fs::write(
        &config,
        "pools: [{name: m, endpoints: ['http://a:1', 'http://b:1']}]\n",
    )
    .unwrap();
    let request = directory.path().join("chat.json");
    std::fs::write(&request, client::chat("m", "x")).unwrap();
    let args = [
        "explain",
        "--request",
        request.to_str().unwrap(),
        "--config",
        config.to_str().unwrap(),
    ];
    let shown = good(&run_alone(&args, &[]));
    assert_eq!(shown.matches("not measured yet").count(), 2, "{shown}");
    assert!(
        shown.contains("(implied preset auto)") && shown.contains("0 of "),
        "{shown}"
    );
}

#[test]
fn the_fields_are_in_the_reference_of_the_api() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = Gateway::start(binary(), &pool("m", &ups));
    let mut reference = Value::Null;
    assert!(eventually(SOON, || {
        reference = gateway.api("/api/openapi.json");
        reference["openapi"].is_string()
    }));
    let schemas = &reference["components"]["schemas"];
    let text = reference.to_string();
    for field in [
        "preset_implied",
        "seconds",
        "seconds_per_1000_tokens",
        "to_compute_tokens",
        "tokens_ahead",
        "measured",
    ] {
        assert!(
            text.contains(&format!("\"{field}\":{{")),
            "{field} is not described: {schemas:#}"
        );
    }
}

#[test]
fn a_header_that_would_be_too_long_leaves_out_the_candidates() {
    let ups = Upstream::start_all(["a"]);
    let names: Vec<String> = (0..40)
        .map(|number| format!("{{name: e{number}, url: \"{}\"}}", ups[0].url()))
        .collect();
    let config = format!(
        "pools:\n  - {{name: m, health: false, endpoints: [{}]}}\n",
        names.join(", ")
    );
    let gateway = Gateway::start(binary(), &config);
    let headers = [("x-weighbridge-explain", "1")];
    let answer = client::post(
        &gateway.url("/v1/chat/completions"),
        &headers,
        client::chat("m", "x"),
    );
    let header = answer.header("x-weighbridge-explain").unwrap();
    assert!(header.len() <= 4096, "{}", header.len());
    let told: Value = serde_json::from_str(header).unwrap();
    assert_eq!(
        (&told["truncated"], &told["candidates"], &told["preset"]),
        (&json!(true), &json!(40), &json!("auto"))
    );
    assert!(
        told["parts"][0]["seconds"].is_number() && told["explanation"].is_null(),
        "{told:#}"
    );
    // Nothing is lost: the decision has all of it.
    let latest = gateway.api("/api/decisions?route=m")["decisions"][0].take();
    assert_eq!(latest["explanation"].as_array().unwrap().len(), 40);
}
