//! Every path end to end: routed by its model, renamed for its pool, counted, and its errors in the client's protocol.

use crate::form::{field, file, form, post};
use crate::shared::{SOON, gateway, pool};
use serde_json::json;
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

/// A path that takes JSON, what is sent to it besides the model, and the tokens that its answer reports.
type JsonPath = (&'static str, &'static str, Option<(f64, f64)>);

const JSON: [JsonPath; 9] = [
    (
        "/v1/rerank",
        r#""query":"q","documents":["a"]"#,
        Some((11.0, 0.0)),
    ),
    (
        "/v2/rerank",
        r#""query":"q","documents":["a"]"#,
        Some((11.0, 0.0)),
    ),
    ("/rerank", r#""query":"q","documents":["a"]"#, Some((11.0, 0.0))),
    ("/v1/score", r#""text_1":"a","text_2":"b""#, Some((11.0, 0.0))),
    ("/score", r#""text_1":"a","text_2":"b""#, Some((11.0, 0.0))),
    ("/v1/audio/speech", r#""input":"a","voice":"v""#, None),
    ("/v1/images/generations", r#""prompt":"a""#, Some((11.0, 7.0))),
    ("/v1/moderations", r#""input":"a""#, None),
    ("/v1/embeddings", r#""input":"a""#, Some((5.0, 0.0))),
];

/// Paths that take forms, with the tokens that their answers report.
const FORMS: [(&str, (f64, f64)); 4] = [
    ("/v1/audio/transcriptions", (11.0, 7.0)),
    ("/v1/audio/translations", (11.0, 7.0)),
    ("/v1/images/edits", (11.0, 7.0)),
    ("/v1/images/variations", (11.0, 7.0)),
];

fn renaming(upstream: &Upstream) -> Gateway {
    gateway(&format!(
        "pools:\n{}",
        pool("m", &[upstream], &["model: renamed/model"])
    ))
}

fn tokens(gateway: &Gateway, kind: &str) -> f64 {
    let labels = [("route", "m"), ("kind", kind)];
    gateway.metrics().sum("weighbridge_tokens_total", &labels)
}

fn counted(gateway: &Gateway) -> (f64, f64) {
    (tokens(gateway, "prompt"), tokens(gateway, "completion"))
}

#[test]
fn every_json_path_is_routed_by_its_model() {
    let upstream = Upstream::start("a");
    for (path, fields, usage) in JSON {
        upstream.reset();
        let gateway = renaming(&upstream);
        let body = format!("{{ {fields}, \"model\" : \"m\" }}");
        let answer = Request::post(&gateway.url(path), &body).send();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(answer.header("x-weighbridge-route"), Some("m"), "{path}");
        let sent = &upstream.wait_posts(1, SOON)[0];
        assert_eq!(sent.target, path);
        assert_eq!(
            sent.body.as_deref(),
            Some(&*body.replace("\"m\"", "\"renamed/model\""))
        );
        let line = gateway.wait_log(SOON, |line| line["status"] == 200);
        assert_eq!(
            (&line["outcome"], &line["route"]),
            (&json!("ok"), &json!("m")),
            "{path}"
        );
        assert!(
            eventually(SOON, || counted(&gateway) == usage.unwrap_or_default()),
            "{path}: {:?}",
            counted(&gateway)
        );
    }
}

#[test]
fn every_form_path_is_routed_by_its_model() {
    let upstream = Upstream::start("a");
    for (path, usage) in FORMS {
        upstream.reset();
        let gateway = renaming(&upstream);
        let sent = form(&[file("content"), field("model", "m"), field("n", "1")]);
        let answer = post(&gateway.url(path), &sent).send();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let expect = form(&[file("content"), field("model", "renamed/model"), field("n", "1")]);
        let got = &upstream.wait_posts(1, SOON)[0];
        assert_eq!(got.body.as_deref().map(str::as_bytes), Some(&*expect), "{path}");
        assert_eq!(got.target, path);
        let line = gateway.wait_log(SOON, |line| line["status"] == 200);
        assert_eq!(line["api"], path);
        assert!(
            eventually(SOON, || counted(&gateway) == usage),
            "{path}: {:?}",
            counted(&gateway)
        );
    }
}

#[test]
fn errors_of_every_path_are_in_the_clients_protocol() {
    let upstream = Upstream::start("a");
    let keys = ["breaker: false", "cooldown: {default: 0s, max: 0s}"];
    let gateway = gateway(&format!(
        "pools:\n{}routes: [{{name: m, targets: [p], retry: false}}]\n",
        pool("p", &[&upstream], &keys)
    ));
    let json = JSON.map(|(path, fields, _)| {
        (
            path,
            Request::post(&gateway.url(path), format!("{{\"model\":\"m\",{fields}}}")),
        )
    });
    let forms = FORMS.map(|(path, _)| {
        (
            path,
            post(&gateway.url(path), form(&[field("model", "m"), file("x")])),
        )
    });
    let requests: Vec<_> = json.into_iter().chain(forms).collect();
    for (status, client) in [
        (400, 400),
        (404, 404),
        (429, 429),
        (500, 502),
        (503, 503),
        (529, 503),
    ] {
        for body in ["openai", "detail", "html", "empty"] {
            upstream.set_mode(&format!("status={status},body={body},err_msg=its words"));
            for (path, request) in &requests {
                let answer = request.send();
                assert_eq!(answer.status, client, "{path} {status} {body}");
                assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
                let message = answer.json()["error"]["message"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                assert!(
                    !message.is_empty() && !message.contains('<'),
                    "{path}: {message:?}"
                );
                assert!(answer.header("x-request-id").is_some());
            }
        }
    }
}

#[test]
fn what_clients_do_wrong_is_told_on_every_path() {
    let upstream = Upstream::start("a");
    let gateway = gateway(&format!(
        "keys: [{{name: k, key: secret-key}}]\npools:\n{}auth: keys\n",
        pool("m", &[&upstream], &[])
    ));
    let check = |request: Request, (status, code): (u16, &str), what: &str| {
        let answer = request.try_send().unwrap();
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        assert_eq!(answer.json()["error"]["code"], code, "{what}");
    };
    let keyed = |request: Request| request.header("authorization", "Bearer secret-key");
    for (path, ..) in JSON {
        let url = gateway.url(path);
        check(
            Request::post(&url, "{\"model\":\"m\"}"),
            (401, "missing_api_key"),
            path,
        );
        check(
            keyed(Request::post(&url, "{}")),
            (400, "missing_required_parameter"),
            path,
        );
        check(
            keyed(Request::post(&url, "{\"model\":\"x\"}")),
            (404, "model_not_found"),
            path,
        );
        check(keyed(Request::get(&url)), (405, "method_not_allowed"), path);
        let gzip = Request::post(&url, "x").header("content-encoding", "gzip");
        check(keyed(gzip), (415, "unsupported_media_type"), path);
    }
    for (path, _) in FORMS {
        let url = gateway.url(path);
        let with = |parts: &[Vec<u8>]| keyed(post(&url, form(parts)));
        check(
            post(&url, form(&[field("model", "m")])),
            (401, "missing_api_key"),
            path,
        );
        check(with(&[file("x")]), (400, "missing_required_parameter"), path);
        check(with(&[field("model", "x")]), (404, "model_not_found"), path);
        check(
            with(&[field("model", "m"), field("model", "m")]),
            (400, "duplicate_parameter"),
            path,
        );
        check(with(&[part_like_a_file()]), (400, "invalid_form"), path);
        let unbounded = Request::post(&url, "x").header("content-type", "multipart/form-data");
        check(keyed(unbounded), (400, "invalid_form"), path);
        let gzip = with(&[field("model", "m")]).header("content-encoding", "gzip");
        check(gzip, (415, "unsupported_media_type"), path);
        check(keyed(Request::post(&url, "x")), (400, "invalid_json"), path);
    }
    assert!(upstream.posts().is_empty());
}

fn part_like_a_file() -> Vec<u8> {
    crate::form::part("model", "; filename=\"m\"", "m")
}

#[test]
fn the_tokens_of_an_answer_that_is_too_large_to_be_held_are_counted() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream);
    upstream.set_mode("big=2000000,usage_in=21,usage_out=4321");
    let answer = Request::post(&gateway.url("/v1/images/generations"), "{\"model\":\"m\"}").send();
    assert!(answer.body.len() > 2_000_000);
    assert!(
        eventually(SOON, || counted(&gateway) == (21.0, 4321.0)),
        "{:?}",
        counted(&gateway)
    );
}

#[test]
fn files_and_batches_are_refused_by_name() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream);
    for path in ["/v1/files", "/v1/batches", "/v1/files/file-1/content"] {
        let answer = Request::post(&gateway.url(path), "{}").send();
        assert_eq!(answer.status, 404);
        assert!(answer.text().contains("not supported yet"), "{}", answer.text());
    }
}
