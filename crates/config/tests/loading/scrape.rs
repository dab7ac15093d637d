//! `scrape`, `gpu_metrics`: what is read, and what is wrong with it.

use crate::common::{bad, good, pool_with, warnings};
use std::time::Duration;
use weighbridge_config::scrape::Scrape;

fn scrape(keys: &str) -> Option<Scrape> {
    good(&pool_with(keys)).pools[0].scrape.clone()
}

#[test]
fn engines_are_asked_by_kind() {
    for (kind, path) in [
        ("vllm", Some("/metrics")),
        ("sglang", Some("/metrics")),
        ("llamacpp", Some("/metrics")),
        ("tgi", Some("/metrics")),
        ("mistralrs", Some("/metrics")),
        ("lmdeploy", Some("/metrics")),
        ("trtllm", Some("/prometheus/metrics")),
        ("ollama", None),
        ("openai", None),
        ("anthropic", None),
        ("gemini", None),
        ("azure", None),
        ("generic", None),
    ] {
        let found = scrape(&format!("kind: {kind}"));
        assert_eq!(found.as_ref().map(|scrape| &*scrape.path), path, "{kind}");
        assert!(
            found.is_none_or(|scrape| scrape.interval == Duration::from_secs(1) && scrape.port.is_none())
        );
        assert_eq!(scrape(&format!("kind: {kind}, scrape: false")), None);
    }
}

#[test]
fn an_engine_of_ones_own_brings_its_names() {
    let found = scrape(
        "scrape: {path: /stats, port: 8002, interval: 250ms, names: {waiting: 'my_engine:queue', kv_usage: 'kv{gpu=\"0\"} / 100'}}",
    )
    .unwrap();
    assert_eq!((&*found.path, found.port), ("/stats", Some(8002)));
    assert_eq!(found.interval, Duration::from_millis(250));
    let names: Vec<(&str, String)> = found
        .names
        .iter()
        .map(|(signal, name)| (*signal, name.to_string()))
        .collect();
    assert_eq!(
        names,
        [
            ("waiting", "my_engine:queue".to_owned()),
            ("kv_usage", "kv{gpu=\"0\"} / 100".to_owned())
        ]
    );
    assert_eq!(scrape("scrape: {}").unwrap().path, "/metrics");
}

#[test]
fn gpus_are_those_of_an_exporter() {
    let config = good(
        "pools: [{name: a, endpoints: [{url: http://h, gpu_metrics: http://h:9400, gpu_index: 2}, \
         {url: http://i, gpu_metrics: 'https://i/gpu?key=secret', gpu_index: [0, 1], gpu_uuid: GPU-1}, {url: http://j}]}]",
    );
    let gpus: Vec<_> = config.pools[0]
        .endpoints
        .iter()
        .map(|endpoint| endpoint.gpus.as_ref())
        .collect();
    let first = gpus[0].unwrap();
    assert_eq!(
        (first.url.shown(), &*first.indexes),
        ("http://h:9400/metrics".to_owned(), &[2][..])
    );
    let second = gpus[1].unwrap();
    assert_eq!(
        (second.url.shown(), &*second.indexes),
        ("https://i/gpu?***".to_owned(), &[0, 1][..])
    );
    assert_eq!(second.uuids, ["GPU-1"]);
    assert!(gpus[2].is_none());
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, place, message) in [
        (
            pool_with("scrape: true"),
            "pools[0].scrape",
            "`true` says nothing",
        ),
        (
            pool_with("scrape: off"),
            "pools[0].scrape",
            "write `false` to switch it off",
        ),
        (
            pool_with("scrape: {path: metrics}"),
            "pools[0].scrape.path",
            "a path begins with `/`",
        ),
        (
            pool_with("scrape: {interval: 1ms}"),
            "pools[0].scrape.interval",
            "`1ms` is less than 50ms",
        ),
        (
            pool_with("scrape: {interval: 5}"),
            "pools[0].scrape.interval",
            "unit",
        ),
        (
            pool_with("scrape: {port: 0}"),
            "pools[0].scrape.port",
            "1 to 65535",
        ),
        (
            pool_with("scrape: {names: {waitng: a}}"),
            "pools[0].scrape.names.waitng",
            "did you mean `waiting`",
        ),
        (
            pool_with("scrape: {names: {waiting: 'a b'}}"),
            "pools[0].scrape.names.waiting",
            "`a b` is no metric",
        ),
        (
            pool_with("scrape: {every: 1s}"),
            "pools[0].scrape.every",
            "unknown key",
        ),
        (
            "pools: [{name: a, endpoints: [{url: http://h, gpu_metrics: x}]}]".into(),
            "pools[0].endpoints[0].gpu_metrics",
            "no scheme",
        ),
        (
            "pools: [{name: a, endpoints: [{url: http://h, gpu_index: 1}]}]".into(),
            "pools[0].endpoints[0].gpu_index",
            "there is no `gpu_metrics`",
        ),
    ] {
        let found: Vec<String> = bad(&text).iter().map(ToString::to_string).collect();
        let found = found.join("\n");
        assert!(
            found.contains(place) && found.contains(message),
            "{text}: {found}"
        );
    }
}

#[test]
fn surprises_are_told() {
    let shared = "pools: [{name: a, endpoints: [{url: http://h, gpu_metrics: http://x:9400, gpu_index: 0}, \
                  {url: http://i, gpu_metrics: http://x:9400/metrics}]}]";
    assert!(
        warnings(shared)
            .join("\n")
            .contains("does not say which are its own")
    );
    let provider = warnings(&pool_with("kind: openai, scrape: {}")).join("\n");
    assert!(provider.contains("have no metrics"), "{provider}");
    assert!(warnings(&pool_with("kind: vllm, scrape: {interval: 2s}")).is_empty());
}
