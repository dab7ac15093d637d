//! Answers that are no JSON, and streams of APIs that have their own end marks or none.

use crate::form::{field, file, form, post};
use crate::shared::{SOON, gateway, pool};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;

fn serving(upstream: &Upstream) -> Gateway {
    gateway(&format!(
        "server: {{passthrough: [/x]}}\npools:\n{}",
        pool("m", &[upstream], &[])
    ))
}

#[test]
fn audio_passes_as_it_comes() {
    let upstream = Upstream::start("a");
    let gateway = serving(&upstream);
    for size in [0, 1, 1000, 1_000_000] {
        upstream.set_mode(&format!("big={size}"));
        let request = Request::post(
            &gateway.url("/v1/audio/speech"),
            "{\"model\":\"m\",\"input\":\"x\"}",
        );
        let answer = request.send();
        assert_eq!(answer.header("content-type"), Some("audio/mpeg"));
        assert_eq!(answer.body.len(), size);
        assert!(
            answer
                .body
                .iter()
                .enumerate()
                .all(|(at, byte)| usize::from(*byte) == at % 251)
        );
    }
    // The head and the first bytes are here before the rest has been made.
    upstream.set_mode("big=60000,split=20000,split_delay=0.5");
    let mut answer = Request::post(&gateway.url("/v1/audio/speech"), "{\"model\":\"m\"}").open();
    let record = || upstream.posts().last().unwrap().clone();
    assert!(record().is_running(), "the head came only with the last byte");
    answer.finish(SOON);
    upstream.wait_idle(SOON);
    assert_eq!(record().bytes_sent, 60_000);
    upstream.set_mode("big=60000,split=20000,cut=20000");
    let answer = Request::post(&gateway.url("/v1/audio/speech"), "{\"model\":\"m\"}")
        .try_send()
        .unwrap();
    assert!(!answer.end.is_whole(), "audio that broke off looks whole");
}

/// The streams: a path with the request, and the name of its end mark.
fn streams(gateway: &Gateway) -> Vec<(&'static str, Request)> {
    let json = |path, body: &str| (path, Request::post(&gateway.url(path), body));
    let stream = [field("model", "m"), field("stream", "true"), file("x")];
    vec![
        json("/v1/audio/speech", "{\"model\":\"m\",\"stream_format\":\"sse\"}"),
        json("/v1/images/generations", "{\"model\":\"m\",\"stream\":true}"),
        (
            "/v1/audio/transcriptions",
            post(&gateway.url("/v1/audio/transcriptions"), form(&stream)),
        ),
        (
            "/v1/images/edits",
            post(&gateway.url("/v1/images/edits"), form(&stream)),
        ),
    ]
}

#[test]
fn streams_are_whole_by_their_own_end_marks() {
    let upstream = Upstream::start("a");
    let gateway = serving(&upstream);
    for (path, request) in streams(&gateway) {
        upstream.reset();
        upstream.set_mode("chunks=4,usage_in=3,usage_out=4");
        let direct = request.send().text();
        assert!(direct.contains("data: {\"type\":\""), "{direct}");
        let line = gateway.wait_log(SOON, |line| line["api"] == path && line["outcome"] == "ok");
        let tokens = (&line["prompt_tokens"], &line["completion_tokens"]);
        assert_eq!(tokens, (&3.into(), &4.into()), "{path}");
        assert_eq!(line["usage_estimated"], serde_json::Value::Null);
        upstream.set_mode("chunks=4,nodone");
        let cut = request.try_send().unwrap();
        assert!(
            cut.text().contains("stream_interrupted"),
            "{path}: {}",
            cut.text()
        );
        gateway.wait_log(SOON, |line| {
            line["api"] == path && line["outcome"] == "upstream_truncated"
        });
    }
}

#[test]
fn a_stream_of_which_nothing_is_known_is_whole_at_its_end() {
    let upstream = Upstream::start("a");
    let gateway = serving(&upstream);
    upstream.set_mode("status=200,ctype=text/event-stream");
    // What the upstream sends is JSON without any event, which ends in good order.
    for path in ["/v1/rerank", "/v1/moderations"] {
        let answer = Request::post(&gateway.url(path), "{\"model\":\"m\"}").send();
        assert!(answer.text().contains("\"id\""), "{}", answer.text());
        gateway.wait_log(SOON, |line| line["api"] == path && line["outcome"] == "ok");
    }
}
