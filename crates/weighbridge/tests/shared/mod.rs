//! What the process tests of several areas share: the binary, pieces of config, one request, many requests.

use std::path::Path;
use std::time::{Duration, Instant};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Connection, Request, Response, chat};
use weighbridge_test_engine::harness::{Gateway, GatewayOptions};

/// Longest wait for something that happens at once on a machine that is not busy.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// How a gateway on this config starts.
pub(crate) fn options(yaml: &str) -> GatewayOptions {
    GatewayOptions::new(Path::new(env!("CARGO_BIN_EXE_weighbridge")), yaml)
}

/// A gateway on this config.
pub(crate) fn gateway(yaml: &str) -> Gateway {
    Gateway::start_with(&options(yaml))
}

/// One entry of `pools`, without probes and without reading metrics, its endpoints named after the upstreams. `more` are further keys, one a line.
pub(crate) fn pool(name: &str, upstreams: &[&Upstream], more: &[&str]) -> String {
    let endpoints: Vec<_> = upstreams
        .iter()
        .map(|upstream| format!("{{name: {}, url: \"{}\"}}", upstream.name(), upstream.url()))
        .collect();
    let mut text = format!("  - name: {name}\n    endpoints: [{}]\n", endpoints.join(", "));
    let mut lines = more.to_vec();
    for (key, line) in [
        ("kind:", "kind: vllm"),
        ("health:", "health: false"),
        ("scrape:", "scrape: false"),
    ] {
        if !more.iter().any(|given| given.starts_with(key)) {
            lines.push(line);
        }
    }
    for line in lines {
        text += &format!("    {line}\n");
    }
    text
}

/// A config of one route `r` whose targets are these upstreams, tried in this order. `more` are further keys of the
/// route, `pools` further keys of every pool.
pub(crate) fn in_order(upstreams: &[&Upstream], more: &[&str], pools: &[&str]) -> String {
    let mut text = "pools:\n".to_owned();
    for upstream in upstreams {
        text += &pool(upstream.name(), &[upstream], pools);
    }
    let targets: Vec<_> = (1..)
        .zip(upstreams)
        .map(|(order, upstream)| format!("{{pool: {}, order: {order}}}", upstream.name()))
        .collect();
    text += &format!("routes:\n  - name: r\n    targets: [{}]\n", targets.join(", "));
    for line in more {
        text += &format!("    {line}\n");
    }
    text
}

/// A chat request to `model`.
pub(crate) fn ask(gateway: &Gateway, model: &str) -> Request {
    Request::post(&gateway.url("/v1/chat/completions"), chat(model, "hello"))
}

/// Sends a chat request to `model`.
pub(crate) fn send(gateway: &Gateway, model: &str) -> Response {
    ask(gateway, model).send()
}

/// Sends requests one after the other, on one connection as long as it lasts.
pub(crate) fn send_all(gateway: &Gateway, requests: impl IntoIterator<Item = Request>) -> Vec<Response> {
    let mut connection = None;
    let mut answers = Vec::new();
    for request in requests {
        let at_hand = connection
            .take()
            .unwrap_or_else(|| Connection::to(&gateway.url("/")).unwrap());
        let (answer, kept) = at_hand.send(&request).unwrap();
        answers.push(answer);
        connection = kept;
    }
    answers
}

/// Who served each of these answers, which all must be good.
pub(crate) fn served(answers: &[Response]) -> Vec<&str> {
    let name = |answer: &Response| {
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    };
    answers
        .iter()
        .inspect(|answer| name(answer))
        .map(|answer| answer.served_by().unwrap())
        .collect()
}

/// How often `name` is among `names`.
pub(crate) fn count(names: &[&str], name: &str) -> usize {
    names.iter().filter(|other| **other == name).count()
}

/// Sends requests to `model`, a few a second, until `upstream` has got more than it had, and says how long after
/// `since` that request arrived. Every answer must be good.
pub(crate) fn returns_after(
    gateway: &Gateway,
    model: &str,
    (upstream, since): (&Upstream, Instant),
) -> Duration {
    let before = upstream.posts().len();
    let deadline = Instant::now() + SOON;
    while upstream.posts().len() == before {
        assert!(
            Instant::now() < deadline,
            "{} got no request any more",
            upstream.name()
        );
        assert_eq!(send(gateway, model).status, 200);
        std::thread::sleep(Duration::from_millis(40));
    }
    upstream.posts()[before].started() - since
}

/// The state of an endpoint, by the metrics.
pub(crate) fn state(gateway: &Gateway, endpoint: &str) -> String {
    let metrics = gateway.metrics();
    let states = [
        "live",
        "draining",
        "cooling",
        "full",
        "ejected",
        "open",
        "unhealthy",
        "stalled",
    ];
    let holds = |state: &&str| {
        metrics.sum(
            "weighbridge_endpoint_state",
            &[("endpoint", endpoint), ("state", state)],
        ) == 1.0
    };
    let found: Vec<_> = states.into_iter().filter(holds).collect();
    assert_eq!(found.len(), 1, "an endpoint is in one state: {found:?}");
    found[0].to_owned()
}

/// Attempts at an endpoint that ended as `outcome`, by the metrics.
pub(crate) fn attempts(gateway: &Gateway, endpoint: &str, outcome: &str) -> f64 {
    let labels = [("endpoint", endpoint), ("outcome", outcome)];
    gateway.metrics().sum("weighbridge_attempts_total", &labels)
}

/// How a gateway starts on a config file that is taken as it is: nothing is added to it.
pub(crate) fn as_written(file: &Path) -> GatewayOptions {
    GatewayOptions {
        yaml: None,
        args: vec!["--config".to_owned(), file.display().to_string()],
        ..options("")
    }
}

/// What a gateway says to this text as its config, nothing added: its exit code and output.
pub(crate) fn refusal(yaml: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("weighbridge.yaml");
    std::fs::write(&file, yaml).unwrap();
    match Gateway::try_start(&as_written(&file)) {
        Ok(gateway) => panic!("it started: {}", gateway.output()),
        Err(failure) => (failure.code, failure.output),
    }
}
