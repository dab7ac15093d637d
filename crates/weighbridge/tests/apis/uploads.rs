//! Forms with files in them: sent on as they arrive, byte for byte but for the model.

use crate::form::{TYPE, field, file, form, part, post, sha256};
use crate::shared::{SOON, gateway, in_order, options, pool};
use std::time::Duration;
use weighbridge_test_engine::client::{Raw, raw};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

const PATH: &str = "/v1/audio/transcriptions";
const MIB: usize = 1 << 20;

fn noise(len: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u8::try_from(state >> 24).unwrap()
    };
    (0..len).map(|_| next()).collect()
}

fn renaming(upstream: &Upstream, more: &str) -> Gateway {
    gateway(&format!(
        "{more}\npools:\n{}",
        pool("m", &[upstream], &["model: another/name"])
    ))
}

/// Begins to send a form whose length is said to be `length`.
fn begin(gateway: &Gateway, length: usize, more: &str) -> Raw {
    let mut client = raw(gateway
        .url("")
        .trim_start_matches("http://")
        .parse::<std::net::SocketAddr>()
        .unwrap());
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: {TYPE}\r\ncontent-length: {length}\r\n{more}\r\n"
    );
    client.write(head).unwrap();
    client
}

#[test]
fn only_the_model_changes_wherever_it_stands() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "");
    let tricky = b"x--edge 0\r\n--edge\r\n--edge 1\r\n-- edge 0\n--edge 0--".to_vec();
    let tricky = [tricky.as_slice(), &noise(200_000), b"\r\n--edge "].concat();
    let (model, renamed) = (field("model", "m"), field("model", "another/name"));
    let stream = field("stream", "false");
    for chunked in [None, Some(1_000), Some(100_000)] {
        for place in 0..3 {
            upstream.reset();
            let with = |model: &Vec<u8>| {
                let mut parts = vec![stream.clone(), file(&tricky)];
                parts.insert(place, model.clone());
                form(&parts)
            };
            let request = post(&gateway.url(PATH), with(&model));
            let answer = chunked
                .map_or(request.clone(), |size| request.chunked(size))
                .send();
            assert_eq!(answer.status, 200, "{}", answer.text());
            let got = &upstream.wait_posts(1, SOON)[0];
            let expect = with(&renamed);
            assert_eq!(got.body_len, expect.len() as u64, "{chunked:?} {place}");
            assert_eq!(got.body_sha256, sha256(&expect), "{chunked:?} {place}");
            assert_eq!(got.header("content-type"), Some(TYPE));
            let framed = (
                got.header("content-length").is_some(),
                got.header("transfer-encoding").is_some(),
            );
            assert!(
                framed == (true, false) || (framed == (false, true) && chunked.is_some()),
                "{framed:?}"
            );
        }
    }
}

#[test]
fn the_header_names_the_model_where_the_form_does_not() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "");
    let answer = post(&gateway.url(PATH), form(&[file("x")]))
        .header("x-model", "m")
        .send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let expect = form(&[field("model", "another/name"), file("x")]);
    assert_eq!(
        upstream.posts()[0].body.as_deref().map(str::as_bytes),
        Some(&*expect)
    );
}

#[test]
fn it_is_sent_on_while_it_arrives() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "");
    let body = form(&[field("model", "m"), file(noise(100_000))]);
    let mut client = begin(&gateway, body.len(), "");
    client.write(&body[..50_000]).unwrap();
    assert!(
        eventually(SOON, || upstream.log().len() == 1),
        "the upstream waits for the last byte"
    );
    client.write(&body[50_000..]).unwrap();
    assert!(client.read_until("what was said", SOON), "{}", client.text());
}

#[test]
fn a_retry_is_given_what_has_come_and_what_comes() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], &[], &["model: another/name"]));
    let body = form(&[field("model", "r"), file(noise(300_000))]);
    let expect = form(&[field("model", "another/name"), file(noise(300_000))]);
    // It answers before it has read the body.
    a.set_mode("status=503,early");
    let mut client = begin(&gateway, body.len(), "");
    client.write(&body[..100_000]).unwrap();
    assert!(
        eventually(SOON, || !b.log().is_empty()),
        "it is not tried elsewhere"
    );
    client.write(&body[100_000..]).unwrap();
    assert!(client.read_until("what was said", SOON), "{}", client.text());
    let got = &b.posts()[0];
    assert_eq!(
        (got.body_len, &got.body_sha256),
        (expect.len() as u64, &sha256(&expect))
    );
    let line = gateway.wait_log(SOON, |line| line["status"] == 200);
    assert_eq!(line["attempts"], 2);
}

#[test]
fn an_early_answer_reaches_the_client() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "");
    let body = form(&[field("model", "m"), file(noise(100_000))]);
    for (mode, status) in [
        ("status=413,early,err_msg=too long a recording", "413"),
        ("status=400,early,err_msg=too long a recording", "400"),
    ] {
        upstream.set_mode(mode);
        let mut client = begin(&gateway, 8 * MIB, "");
        client.write(&body).unwrap();
        assert!(
            client.read_until("too long a recording", SOON),
            "{}",
            client.text()
        );
        assert!(
            client.text().starts_with(&format!("HTTP/1.1 {status}")),
            "{}",
            client.text()
        );
        assert!(
            client.text().to_lowercase().contains("connection: close"),
            "{}",
            client.text()
        );
    }
    // Also to one who sends all of it before it reads.
    upstream.set_mode("status=413,early,err_msg=too long a recording");
    let answer = post(
        &gateway.url(PATH),
        form(&[field("model", "m"), file(noise(4 * MIB))]),
    )
    .send();
    assert_eq!(answer.status, 413, "{}", answer.text());
}

#[test]
fn a_client_that_leaves_in_mid_upload_ends_it_upstream() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "");
    let body = form(&[field("model", "m"), file(noise(100_000))]);
    let mut client = begin(&gateway, body.len(), "");
    client.write(&body[..50_000]).unwrap();
    assert!(eventually(SOON, || upstream.log().len() == 1));
    drop(client);
    let gone = || upstream.log()[0].ended_as("request_body_truncated");
    assert!(
        eventually(SOON, gone),
        "the upstream still waits: {:?}",
        upstream.log()
    );
    let line = gateway.wait_log(SOON, |line| line["outcome"] == "client_closed");
    assert_eq!(line["status"], 499);
    let inflight = || gateway.metrics().sum("weighbridge_inflight", &[]);
    assert!(eventually(SOON, || inflight() == 0.0));
}

#[test]
fn http_2_forms_are_bounded_too() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "server: {max_body: 1MiB}");
    let of = |len: usize| {
        let shell = form(&[field("model", "m"), file("")]).len();
        form(&[field("model", "m"), file(noise(len - shell))])
    };
    for chunked in [None, Some(10_000)] {
        for (len, status) in [(MIB, 200), (MIB + 1, 413), (5 * MIB, 413)] {
            let request = post(&gateway.url(PATH), of(len));
            let answer = chunked
                .map_or(request.clone(), |size| request.chunked(size))
                .try_send()
                .unwrap();
            assert_eq!(answer.status, status, "{len} {chunked:?}: {}", answer.text());
            if status == 413 {
                assert!(answer.text().contains("1048576"), "{}", answer.text());
            }
        }
    }
    let mut refused = begin(&gateway, 2 * MIB, "expect: 100-continue\r\n");
    assert!(
        refused.read_until("request_too_large", SOON),
        "{}",
        refused.text()
    );
    assert!(refused.text().starts_with("HTTP/1.1 413"), "{}", refused.text());
    let body = of(100_000);
    let mut welcome = begin(&gateway, body.len(), "expect: 100-continue\r\n");
    assert!(welcome.read_until("100 Continue", SOON), "{}", welcome.text());
    welcome.write(&body).unwrap();
    assert!(welcome.read_until("what was said", SOON), "{}", welcome.text());
}

#[test]
fn a_boundary_that_is_given_twice_is_called_so() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "");
    let answer = weighbridge_test_engine::client::Request::post(&gateway.url(PATH), "x")
        .header("content-type", "multipart/form-data; boundary=XX; boundary=YY")
        .send();
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("more than once"), "{}", answer.text());
}

#[test]
fn a_second_model_ends_it_midway() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "");
    for body in [
        form(&[field("model", "m"), file(noise(300_000)), field("model", "m")]),
        form(&[
            field("model", "m"),
            file(noise(300_000)),
            part("x", "; name=model", "m"),
        ]),
    ] {
        let answer = post(&gateway.url(PATH), body).try_send().unwrap();
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    let cut = || (upstream.posts().iter()).all(|post| post.ended_as("request_body_truncated"));
    assert!(eventually(SOON, cut));
}

#[test]
fn the_clocks_of_the_upstream_begin_when_it_has_the_request() {
    let upstream = Upstream::start("a");
    let gateway = gateway(&format!(
        "pools:\n{}",
        pool("m", &[&upstream], &["timeouts: {total: 1s}"])
    ));
    let body = form(&[field("model", "m"), file(noise(100_000))]);
    let mut client = begin(&gateway, body.len(), "");
    client.write(&body[..50_000]).unwrap();
    assert!(eventually(SOON, || upstream.log().len() == 1));
    // Waiting for the client is not the upstream's fault: it is waited for longer than the upstream may take.
    assert!(
        client.read(Duration::from_millis(1500)).is_err(),
        "{}",
        client.text()
    );
    client.write(&body[50_000..]).unwrap();
    assert!(client.read_until("what was said", SOON), "{}", client.text());
    upstream.set_mode("hang=headers");
    let answer = post(&gateway.url(PATH), &body).send();
    assert_eq!(answer.status, 504);
}

#[test]
fn a_large_file_costs_its_size_once() {
    let upstream = Upstream::start("a");
    let yaml = format!("pools:\n{}", pool("m", &[&upstream], &["model: another/name"]));
    let mut options = options(&yaml);
    options.args = vec!["--workers".into(), "1".into()];
    let gateway = Gateway::start_with(&options);
    let send = |len: usize| {
        let body = form(&[field("model", "m"), file(noise(len))]);
        assert_eq!(post(&gateway.url(PATH), body).send().status, 200);
    };
    send(300_000);
    let peak = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
    };
    let before = peak();
    send(20 * MIB);
    let grown = peak().saturating_sub(before);
    assert!(grown < 30 * 1024, "{grown} KiB more for 20 MiB");
}
