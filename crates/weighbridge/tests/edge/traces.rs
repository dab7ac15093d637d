//! A7: the client's trace goes on upstream, and is never made from what the client calls its request.

use crate::shared::{SOON, ask, gateway, in_order};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Request, chat_stream};
use weighbridge_test_engine::upstream::Record;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Trace, span and flags of the context that an engine got, which must be one and valid.
fn got(post: &Record) -> (String, String, String) {
    assert_eq!(post.header_count("traceparent"), 1);
    let value = post.header("traceparent").unwrap();
    let parts: Vec<&str> = value.split('-').collect();
    let [version, trace, span, flags] = parts[..] else {
        panic!("{value}");
    };
    let digits = |text: &str| {
        text.bytes()
            .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
    };
    assert_eq!(
        (version, trace.len(), span.len(), flags.len()),
        ("00", 32, 16, 2),
        "{value}"
    );
    assert!(digits(trace) && digits(span) && digits(flags), "{value}");
    assert!(
        trace.contains(|c| c != '0') && span.contains(|c| c != '0'),
        "{value}"
    );
    (trace.to_owned(), span.to_owned(), flags.to_owned())
}

#[test]
fn a7_the_clients_trace_goes_on_with_a_new_span() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], &[], &[]));
    a.script(["status=429"]);
    let context = |flags: &str| format!("00-{TRACE}-{SPAN}-{flags}");
    let answer = ask(&gateway, "r")
        .header("traceparent", &context("01"))
        .header("tracestate", "vendor=1,other=2")
        .send();
    assert_eq!(answer.status, 200);
    let (first, second) = (a.posts().remove(0), b.posts().remove(0));
    for post in [&first, &second] {
        let (trace, span, flags) = got(post);
        assert_eq!((&*trace, &*flags), (TRACE, "01"));
        assert_ne!(span, SPAN);
        assert_eq!(post.header("tracestate"), Some("vendor=1,other=2"));
    }
    assert_eq!(
        got(&first).1,
        got(&second).1,
        "both are children of the gateway's span"
    );
    gateway.wait_log(SOON, |line| line["trace_id"] == TRACE && line["attempts"] == 2);
    let stream = Request::post(&gateway.url("/v1/chat/completions"), chat_stream("r", "x"));
    let _ = stream.header("traceparent", &context("00")).send();
    let (trace, _, flags) = got(&b.posts().pop().unwrap());
    assert_eq!(
        (&*trace, &*flags),
        (TRACE, "00"),
        "who does not sample is not made to"
    );
}

#[test]
fn a7_what_is_no_context_begins_a_trace_of_its_own() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &[]));
    let upper = TRACE.to_uppercase();
    let mut seen = std::collections::BTreeSet::new();
    for given in [
        String::new(),
        format!("00-{upper}-{SPAN}-01"),
        format!("ff-{TRACE}-{SPAN}-01"),
        format!("00-{}-{SPAN}-01", "0".repeat(32)),
        format!("00-{TRACE}-{}-01", "0".repeat(16)),
        format!("00-{TRACE}-{SPAN}-01-more"),
        format!("01-{TRACE}-{SPAN}-01more"),
        TRACE.to_owned(),
    ] {
        let id = format!("{TRACE}{}", seen.len());
        let mut request = ask(&gateway, "r")
            .header("x-request-id", &id)
            .header("tracestate", "v=1");
        if !given.is_empty() {
            request = request.header("traceparent", &given);
        }
        assert_eq!(request.send().status, 200);
        let post = a.posts().pop().unwrap();
        let (trace, ..) = got(&post);
        assert!(trace != TRACE && seen.insert(trace.clone()), "{given}");
        assert_eq!(post.header("tracestate"), None, "{given}");
        gateway.wait_log(SOON, |line| {
            line["request_id"] == *id && line["trace_id"] == *trace
        });
    }
    let twice = format!("00-{TRACE}-{SPAN}-01");
    let request = ask(&gateway, "r")
        .header("traceparent", &twice)
        .header("traceparent", &twice);
    assert_eq!(request.send().status, 200);
    assert_ne!(got(&a.posts().pop().unwrap()).0, TRACE);
    let higher = format!("cc-{TRACE}-{SPAN}-01-what-the-future-brings");
    assert_eq!(
        ask(&gateway, "r").header("traceparent", &higher).send().status,
        200
    );
    assert_eq!(got(&a.posts().pop().unwrap()).0, TRACE);
}
