//! The edge towards clients: whatever bytes a connection brings, every answer is HTTP, the upstream gets no request that a
//! strict reader does not find in them, and each of those as it was sent.

use crate::edge::{Edge, UPSTREAM_KEY, number};
use crate::http1::{self, Message, Tail};
use crate::input::{Input, cut};
use bytes::Bytes;
use std::sync::OnceLock;
use weighbridge_wire::{Peek, rewrite_model};

/// Stands for a whole request with a body of its own.
const REQUEST: u8 = 0xfa;
/// Stands for the body of a request.
const BODY: u8 = 0xfb;
/// Stands for more than a head or a body may have.
const LONG: u8 = 0xfc;

/// Whether keys are needed, the places to cut at, and the bytes of the connection.
pub fn check(data: &[u8]) {
    static EDGES: OnceLock<[Edge; 2]> = OnceLock::new();
    let edges = EDGES.get_or_init(|| {
        ["none", "keys"].map(|auth| Edge::start(auth, "routes: [{name: m, targets: [m], usage: passive}]"))
    });
    let mut input = Input(data);
    let edge = &edges[input.below(2)];
    let cuts = input.cuts();
    let sent = written_out(input.0);
    edge.upstream.take_requests();
    let received = edge.converse(&cut(&sent, &cuts));
    edge.settled();
    let (requests, tail) = http1::requests(&sent);
    let got = edge.upstream.take_requests();
    let holds_key = |bytes: &[u8]| memchr::memmem::find(bytes, UPSTREAM_KEY.as_bytes()).is_some();
    // A fuzzer learns what it is compared with.
    assert!(holds_key(&sent) || !holds_key(&received));
    check_answers(&received, (&requests, &tail), &got);
    check_got(&requests, &got);
}

fn written_out(bytes: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(bytes.len());
    let mut long = 2;
    for (place, byte) in bytes.iter().enumerate() {
        let body = || format!("{{\"model\":\"m\",\"place\":{place}}}");
        match *byte {
            BODY => written.extend_from_slice(body().as_bytes()),
            REQUEST => {
                let body = body();
                let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ";
                written.extend_from_slice(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes());
            }
            LONG if long > 0 => {
                long -= 1;
                written.resize(written.len() + 70_000, b'a');
            }
            other => written.push(other),
        }
    }
    written
}

fn check_answers(received: &[u8], (requests, tail): (&[Message], &Tail), got: &[Message]) {
    let methods: Vec<String> = requests
        .iter()
        .map(|request| request.method().to_owned())
        .collect();
    let (answers, end) = http1::answers(received, &methods);
    let said = || String::from_utf8_lossy(received).into_owned();
    assert_eq!(end, Tail::Clean, "{}", said());
    assert!(
        answers.len() <= requests.len() + usize::from(*tail != Tail::Clean),
        "{} answers to {} requests: {}",
        answers.len(),
        requests.len(),
        said()
    );
    // Each answer of the upstream reaches the client once, in order.
    let numbers: Vec<u64> = answers.iter().filter_map(|answer| number(&answer.body)).collect();
    assert!(numbers.is_sorted() && numbers.len() <= got.len(), "{}", said());
    for answer in &answers {
        assert!(matches!(answer.status(), 200 | 400..=599), "{}", said());
        if answer.status() < 400 {
            continue;
        }
        // The codec itself answers what is no HTTP, with an empty body.
        if !answer.body.is_empty() {
            let told: serde_json::Value = serde_json::from_slice(&answer.body).expect("an error is JSON");
            assert!(told["error"]["message"].is_string(), "{}", said());
            assert!(answer.first("x-request-id").is_some(), "{}", said());
        }
    }
}

/// What the upstream got is, in order, among what was sent, byte for byte but for the model.
fn check_got(requests: &[Message], got: &[Message]) {
    let mut sent = requests.iter().filter(|sent| sent.method() == "POST");
    for request in got {
        assert!(
            sent.any(|sent| forwarded(sent) == request.body),
            "the upstream got what nobody sent: {request:?} of {requests:?}"
        );
    }
}

/// The body as it goes upstream: the model is that of a header, where one names it.
fn forwarded(sent: &Message) -> Vec<u8> {
    let body = Bytes::copy_from_slice(&sent.body);
    let named = ["x-model", "x-model-name"].into_iter().find_map(|name| {
        let value = std::str::from_utf8(sent.first(name)?).ok()?.trim();
        (!value.is_empty()).then_some(value)
    });
    match (named, Peek::new(&body, &[])) {
        (Some(model), Ok(peek)) => rewrite_model(&body, &peek, model).to_vec(),
        _ => sent.body.clone(),
    }
}
