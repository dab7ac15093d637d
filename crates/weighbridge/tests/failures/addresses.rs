//! A4: an IPv6 address works wherever an address does.

use crate::shared::{SOON, gateway, send, state};
use serde_json::json;
use std::net::Ipv6Addr;
use weighbridge_test_engine::client::{chat_stream, get, stream};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::upstream::Options;
use weighbridge_test_engine::{Upstream, eventually};

fn on_ipv6(name: &str) -> Upstream {
    Upstream::start_with(&Options {
        host: Ipv6Addr::LOCALHOST.into(),
        ..Options::new(name)
    })
}

struct Six {
    gateway: Gateway,
    /// The second under a URL with a path.
    engines: [Upstream; 2],
    /// As the gateway names them.
    names: [String; 2],
}

fn six() -> Six {
    let engines = [on_ipv6("A"), on_ipv6("B")];
    let names = engines
        .each_ref()
        .map(|upstream| format!("[::1]:{}", upstream.port()));
    let health = "health: {type: http, path: /health, interval: 100ms, unhealthy_after: 1, healthy_after: 1}";
    let gateway = gateway(&format!(
        "pools:\n  - {{name: m, route_by: round_robin, endpoints: [\"{}\", \"{}/v1\"], {health}}}\n",
        engines[0].url(),
        engines[1].url()
    ));
    Six {
        gateway,
        engines,
        names,
    }
}

#[test]
fn a4_engines_on_ipv6_are_served_and_named() {
    let Six {
        gateway,
        engines,
        names,
    } = six();
    let answers = [send(&gateway, "m"), send(&gateway, "m")];
    for answer in &answers {
        assert_eq!(answer.status, 200);
        let endpoint = answer.header("x-weighbridge-endpoint").unwrap();
        assert!(names.iter().any(|name| name == endpoint), "{endpoint}");
    }
    let posts = engines.each_ref().map(|upstream| upstream.posts().len());
    assert_eq!(posts, [1, 1], "they take turns");
    let post = engines[1].posts().pop().unwrap();
    assert_eq!(post.target, "/v1/chat/completions");
    assert_eq!(post.header("host"), Some(&*names[1]));
    let mut events = stream(&gateway.url("/v1/chat/completions"), &[], chat_stream("m", "x"));
    assert!(events.read_all().is_whole());
    assert_eq!(events.data().last().map(String::as_str), Some("[DONE]"));
    let models = get(&gateway.url("/v1/models"), &[]).json();
    assert_eq!(models["data"][0]["id"], "m");
    let line = gateway.wait_log(SOON, |line| line["status"] == 200);
    assert!(names.iter().any(|name| line["endpoint"] == **name), "{line}");
}

#[test]
fn a4_engines_on_ipv6_are_probed() {
    let Six {
        gateway,
        engines,
        names,
    } = six();
    for (upstream, name) in engines.iter().zip(&names) {
        let probe = || {
            upstream
                .log()
                .into_iter()
                .find(|record| record.target == "/health")
        };
        assert!(eventually(SOON, || probe().is_some()), "{name} is probed");
        assert_eq!(probe().unwrap().header("host"), Some(&**name));
        let labels = [("pool", "m"), ("endpoint", &**name), ("state", "live")];
        assert_eq!(
            gateway.metrics().value("weighbridge_endpoint_state", &labels),
            1.0,
            "{name}"
        );
    }
    engines[0].set_health(503);
    assert!(eventually(SOON, || state(&gateway, &names[0]) == "unhealthy"));
}

#[test]
fn a4_engines_on_ipv6_are_shown_and_drained() {
    let Six {
        gateway,
        engines,
        names,
    } = six();
    let shown = gateway.api("/api/endpoints");
    let shown = shown["endpoints"].as_array().unwrap();
    for (upstream, name) in engines.iter().zip(&names) {
        let entry = shown
            .iter()
            .find(|entry| entry["name"] == **name)
            .expect("it is shown");
        assert!(
            entry["url"].as_str().unwrap().starts_with(&upstream.url()),
            "{entry}"
        );
    }
    let path = format!("/api/endpoints/m/{}", names[0]);
    let drained = gateway.api_send("PATCH", &path, &json!({"drain": true}));
    assert_eq!(drained.status, 200, "{}", drained.text());
    for _ in 0..4 {
        assert_eq!(
            send(&gateway, "m").header("x-weighbridge-endpoint"),
            Some(&*names[1])
        );
    }
    assert_eq!(
        gateway.api_send("PATCH", &path, &json!({"resume": true})).status,
        200
    );
    assert_eq!(state(&gateway, &names[0]), "live");
}
