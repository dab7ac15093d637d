//! OBS-1: what is counted and logged is what the client got, once.

use crate::support::{
    Api, PATIENCE, SOON, expect_idle, expect_outcomes, gateway_to, outcomes, requests, wait_running,
};
use serde_json::Value;
use std::collections::BTreeMap;
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

/// What a request asks of the upstream, and what becomes of it.
struct Case {
    mode: &'static str,
    outcome: &'static str,
    /// Status of the log line: what the client got.
    status: u16,
}

const fn case(mode: &'static str, outcome: &'static str, status: u16) -> Case {
    Case {
        mode,
        outcome,
        status,
    }
}

const STREAMS: [Case; 9] = [
    case("", "ok", 200),
    case("cut=6", "upstream_stream_error", 200),
    case("hang=6", "timeout", 200),
    case("error_event=6", "upstream_stream_error", 200),
    case("cut=6,cut_kind=clean", "upstream_truncated", 200),
    case("status=429", "upstream_rate_limited", 429),
    case("status=500", "upstream_error", 502),
    case("status=400", "client_error", 400),
    case("hang=headers", "timeout", 504),
];

const WHOLE: [Case; 7] = [
    case("", "ok", 200),
    case("delay=9", "timeout", 504),
    case("ok_error", "upstream_error", 502),
    case("status=429", "upstream_rate_limited", 429),
    case("status=503", "upstream_error", 503),
    case("status=404", "client_error", 404),
    case("drop", "upstream_error", 502),
];

const SETTINGS: &str =
    "breaker: false, cooldown: {default: 1ms}, timeouts: {first_byte: 1s, idle: 1s, total: 1s}";

/// Sends one request and checks that exactly one outcome is counted and one line logged, both as they should be.
fn check(gateway: &Gateway, request: &Request, expect: &Case, id: &str) {
    let before = by_outcome(gateway);
    let response = request.clone().header("x-request-id", id).try_send().unwrap();
    assert_eq!(
        response.status,
        expect.status,
        "{}: {}",
        expect.mode,
        response.text()
    );
    check_counted(gateway, before, expect, id);
}

fn check_counted(gateway: &Gateway, mut expected: BTreeMap<String, f64>, expect: &Case, id: &str) {
    *expected.entry(expect.outcome.to_owned()).or_default() += 1.0;
    let counted = eventually(SOON, || by_outcome(gateway) == expected);
    assert!(
        counted,
        "{}: {:?} instead of {expected:?}",
        expect.mode,
        by_outcome(gateway)
    );
    let line = gateway.wait_log(SOON, |line| line["request_id"] == id);
    assert_eq!(
        (&line["outcome"], &line["status"]),
        (&expect.outcome.into(), &expect.status.into()),
        "{line}"
    );
    let lines = gateway.log_lines();
    assert_eq!(lines.iter().filter(|line| line["request_id"] == id).count(), 1);
    expect_idle(gateway);
}

fn by_outcome(gateway: &Gateway) -> BTreeMap<String, f64> {
    const WORDS: [&str; 12] = [
        "ok",
        "client_error",
        "client_closed",
        "rate_limited",
        "rejected",
        "unavailable",
        "upstream_rate_limited",
        "upstream_error",
        "connect_error",
        "timeout",
        "upstream_stream_error",
        "upstream_truncated",
    ];
    let metrics = gateway.metrics();
    let count = |word: &str| metrics.sum("weighbridge_requests_total", &[("outcome", word)]);
    WORDS
        .iter()
        .map(|word| ((*word).to_owned(), count(word)))
        .filter(|(_, count)| *count > 0.0)
        .collect()
}

/// Something that a client may ask for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Generating(Api, bool),
    Embeddings,
}

impl Kind {
    fn all() -> Vec<Self> {
        let of = |api| [Self::Generating(api, true), Self::Generating(api, false)];
        Api::ALL
            .into_iter()
            .flat_map(of)
            .chain([Self::Embeddings])
            .collect()
    }

    fn streams(self) -> bool {
        matches!(self, Self::Generating(_, true))
    }

    fn cases(self) -> &'static [Case] {
        if self.streams() { &STREAMS } else { &WHOLE }
    }

    fn request(self, base: &str, mode: &str) -> Request {
        match self {
            Self::Generating(api, true) => api.stream(base, mode),
            Self::Generating(api, false) => api.whole(base, mode),
            Self::Embeddings => Request::post(
                &format!("{base}/v1/embeddings"),
                format!("{{\"model\": \"m\", \"input\": \"x [[mock:{mode}]]\"}}"),
            ),
        }
    }
}

/// Each call with each way to end: every request is one outcome, and the sums are exact.
#[test]
fn obs_1_each_request_is_counted_once_as_what_it_was() {
    let upstream = Upstream::start("a");
    let mut expected: BTreeMap<String, f64> = BTreeMap::new();
    let (mut sent, mut begun) = (0, 0);
    let gateway = gateway_to(&upstream, SETTINGS);
    let base = gateway.url("");
    for kind in Kind::all() {
        for expect in kind.cases() {
            // A 429 makes the endpoint cool for a moment.
            assert!(eventually(SOON, || live(&gateway)), "{}", gateway.metrics().text);
            sent += 1;
            begun += u32::from(kind.streams() && expect.status == 200);
            *expected.entry(expect.outcome.to_owned()).or_default() += 1.0;
            check(
                &gateway,
                &kind.request(&base, expect.mode),
                expect,
                &format!("r-{sent}"),
            );
        }
    }
    for kind in Kind::all() {
        sent += 1;
        *expected.entry("client_closed".to_owned()).or_default() += 1.0;
        check_leaving(&gateway, &upstream, kind, &format!("r-{sent}"));
    }
    assert_eq!(by_outcome(&gateway), expected);
    assert_eq!(requests(&gateway), f64::from(sent));
    let metrics = gateway.metrics();
    let count = |name: &str| metrics.sum(name, &[]);
    assert_eq!(
        count("weighbridge_request_duration_seconds_count"),
        f64::from(sent),
        "all of them were sent to the upstream"
    );
    assert_eq!(
        count("weighbridge_time_to_first_token_seconds_count"),
        f64::from(begun),
        "each stream that began has a first token"
    );
    assert_eq!(count("weighbridge_attempts_total"), f64::from(sent));
}

/// Leaves while the upstream works, and checks that this is what is counted.
fn check_leaving(gateway: &Gateway, upstream: &Upstream, kind: Kind, id: &str) {
    assert!(eventually(SOON, || live(gateway)), "{}", gateway.metrics().text);
    let before = by_outcome(gateway);
    let request = kind.request(&gateway.url(""), "delay=20");
    let pending = request.header("x-request-id", id).begin().unwrap();
    wait_running(upstream, 1);
    pending.abort();
    check_counted(gateway, before, &case("leaves", "client_closed", 499), id);
    let idle = eventually(SOON, || upstream.stats().in_flight == 0);
    assert!(idle, "{:?}", upstream.stats());
}

fn live(gateway: &Gateway) -> bool {
    let endpoint = [("pool", "m"), ("endpoint", "a"), ("state", "live")];
    gateway.metrics().value("weighbridge_endpoint_state", &endpoint) == 1.0
}

#[test]
fn obs_1_what_never_reached_an_upstream_is_counted_too() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "breaker: false");
    let url = gateway.url("/v1/chat/completions");
    check(
        &gateway,
        &Request::post(&url, "{"),
        &case("no JSON", "client_error", 400),
        "r-1",
    );
    check(
        &gateway,
        &Request::post(&url, "{}"),
        &case("no model", "client_error", 400),
        "r-2",
    );
    let unknown = r#"{"model":"unknown"}"#;
    check(
        &gateway,
        &Request::post(&url, unknown),
        &case("unknown model", "client_error", 404),
        "r-3",
    );
    check(
        &gateway,
        &Request::post(&gateway.url("/v1/nothing"), "{}"),
        &case("path", "client_error", 404),
        "r-4",
    );
    check(
        &gateway,
        &Request::get(&url),
        &case("method", "client_error", 405),
        "r-5",
    );
    let refused = upstream.refuse_until();
    check(
        &gateway,
        &Api::Chat.whole(&gateway.url(""), ""),
        &case("refused", "connect_error", 503),
        "r-6",
    );
    drop(refused);
    assert_eq!(requests(&gateway), 6.0);
}

#[test]
fn obs_1_a_client_that_leaves_is_no_failure_of_anybody() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, SETTINGS);
    let before = by_outcome(&gateway);
    let mut stream = Api::Chat
        .stream(&gateway.url(""), "gap=0.1,chunks=50")
        .header("x-request-id", "left")
        .open();
    assert!(stream.wait_events(2, PATIENCE));
    stream.abort();
    check_counted(&gateway, before, &case("leaves", "client_closed", 499), "left");
}

#[test]
fn obs_1_a_retry_is_one_request_and_two_attempts() {
    let upstream = Upstream::start("a");
    let other = Upstream::start("b");
    let gateway = crate::support::gateway_to_either(&upstream, &other, "'503'");
    upstream.set_mode("status=503");
    let before = by_outcome(&gateway);
    let response = Api::Chat
        .whole(&gateway.url(""), "")
        .header("x-request-id", "twice")
        .send();
    assert_eq!(response.served_by(), Some("b"));
    check_counted(&gateway, before, &case("retry", "ok", 200), "twice");
    let attempts = |outcome| {
        gateway
            .metrics()
            .sum("weighbridge_attempts_total", &[("outcome", outcome)])
    };
    assert_eq!((attempts("ok"), attempts("upstream_error")), (1.0, 1.0));
    let line: Value = gateway.wait_log(SOON, |line| line["request_id"] == "twice");
    assert_eq!(line["attempts"], 2, "{line}");
}

#[test]
fn obs_1_the_times_of_a_stream_are_those_of_its_first_and_last_byte() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    let mut stream = Api::Chat
        .stream(&gateway.url(""), "delay=0.5,gap=0.1,chunks=8")
        .open();
    stream.finish(PATIENCE);
    let line = gateway.wait_log(SOON, |line| line["outcome"] == "ok");
    let (first, total) = (
        line["first_token_ms"].as_f64().unwrap(),
        line["total_ms"].as_f64().unwrap(),
    );
    // The role comes first, its pause after it; then the first token, and a pause after each of eight.
    assert!(first >= 500.0 && total >= first + 700.0, "{line}");
    let metrics = gateway.metrics();
    let sum = |name: &str| metrics.sum(name, &[]);
    assert_eq!(sum("weighbridge_time_to_first_token_seconds_count"), 1.0);
    assert!((sum("weighbridge_time_to_first_token_seconds_sum") * 1e3 - first).abs() < 50.0);
    assert!(sum("weighbridge_request_duration_seconds_sum") >= 1.2);
    assert_eq!(outcomes(&gateway, "ok"), 1.0);
}

/// A large answer whose end arrives together with what decides that it is relayed as it comes.
#[test]
fn obs_1_a_large_answer_that_came_at_once_is_ok() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    for size in (262_000..264_000).step_by(100) {
        let response = Api::Chat.whole(&gateway.url(""), &format!("big={size}")).send();
        assert!(response.body.len() >= size, "{} bytes", response.body.len());
    }
    expect_outcomes(&gateway, "ok", 20.0);
}
