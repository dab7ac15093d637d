//! A4: an IPv6 address works wherever an address does.

use crate::shared::{SOON, gateway, send};
use std::net::Ipv6Addr;
use weighbridge_test_engine::client::{chat_stream, get, stream};
use weighbridge_test_engine::upstream::Options;
use weighbridge_test_engine::{Upstream, eventually};

fn on_ipv6(name: &str) -> Upstream {
    Upstream::start_with(&Options {
        host: Ipv6Addr::LOCALHOST.into(),
        ..Options::new(name)
    })
}

#[test]
fn a4_engines_on_ipv6_are_served_probed_and_named() {
    let (a, b) = (on_ipv6("A"), on_ipv6("B"));
    let names = [&a, &b].map(|upstream| format!("[::1]:{}", upstream.port()));
    assert_eq!(a.url(), format!("http://{}", names[0]));
    let health = "health: {type: http, path: /health, interval: 100ms, unhealthy_after: 1, healthy_after: 1}";
    let gateway = gateway(&format!(
        "pools:\n  - {{name: m, endpoints: [\"{}\", \"{}/v1\"], {health}}}\n",
        a.url(),
        b.url()
    ));
    for upstream in [&a, &b] {
        let named = format!("[::1]:{}", upstream.port());
        let probed = eventually(SOON, || {
            upstream.log().iter().any(|record| record.target == "/health")
        });
        assert!(probed, "{named} is probed");
        let probe = upstream
            .log()
            .into_iter()
            .find(|record| record.target == "/health")
            .unwrap();
        assert_eq!(probe.header("host"), Some(&*named));
    }
    let answers = [send(&gateway, "m"), send(&gateway, "m")];
    for answer in &answers {
        assert_eq!(answer.status, 200);
        assert!(
            names
                .iter()
                .any(|name| Some(&**name) == answer.header("x-weighbridge-endpoint"))
        );
    }
    assert_eq!((a.posts().len(), b.posts().len()), (1, 1), "they take turns");
    let post = b.posts().pop().unwrap();
    assert_eq!(
        (post.target.as_str(), post.header("host")),
        ("/v1/chat/completions", Some(&*names[1]))
    );
    let mut events = stream(&gateway.url("/v1/chat/completions"), &[], chat_stream("m", "x"));
    assert!(events.read_all().is_whole());
    assert_eq!(events.data().last().map(String::as_str), Some("[DONE]"));
    let models = get(&gateway.url("/v1/models"), &[]).json();
    assert_eq!(models["data"][0]["id"], "m");
    let line = gateway.wait_log(SOON, |line| line["status"] == 200);
    assert!(names.iter().any(|name| line["endpoint"] == **name), "{line}");
    let metrics = gateway.metrics();
    for name in &names {
        let labels = [("pool", "m"), ("endpoint", &**name), ("state", "live")];
        assert_eq!(
            metrics.value("weighbridge_endpoint_state", &labels),
            1.0,
            "{name}"
        );
    }
    a.set_health(503);
    let labels = [("endpoint", &*names[0]), ("state", "unhealthy")];
    let noticed = eventually(SOON, || {
        gateway.metrics().sum("weighbridge_endpoint_state", &labels) == 1.0
    });
    assert!(noticed, "its probes are listened to");
}
