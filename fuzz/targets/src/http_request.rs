//! The edge towards clients: whatever bytes a connection brings, every answer is HTTP, the upstream gets no request that a
//! strict reader does not find in them, and each of those as it was sent.

use crate::edge::{Edge, Manner, PATIENT, Settings, UPSTREAM_KEY, is_form, number};
use crate::http1::{self, Message, Tail};
use crate::input::{Input, cut};
use bytes::Bytes;
use std::time::Duration;
use weighbridge_gateway::lifecycle::Phase;
use weighbridge_wire::{Peek, rewrite};

/// Stands for a whole request with a body of its own.
const REQUEST: u8 = 0xfa;
/// Stands for the body of a request.
const BODY: u8 = 0xfb;
/// Stands for more than a head or a body may have.
const LONG: u8 = 0xfc;
/// Stands for more headers than a request may have.
const MANY: u8 = 0xfd;
/// How the other protocol begins, which has no model here.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long the upstream keeps a client waiting that may be looked for: longer than the grace it has.
const PAUSE: Duration = Duration::from_millis(350);
/// Time for what was written to get where it waits, before a phase begins.
const ARRIVES: Duration = Duration::from_millis(5);

const PLAIN: Settings = Settings {
    auth: "none",
    server: "",
    timeouts: PATIENT,
    query: "",
    routes: "routes: [{name: m, targets: [m], usage: passive}]",
};
const KEYS: Settings = Settings {
    auth: "keys",
    ..PLAIN
};
/// With what a config may open.
const OPEN: Settings = Settings {
    server: ", passthrough: [/tokenize, '/classify/*'], headers: minimal",
    routes: "routes: [{name: m, targets: [m], usage: inject, heartbeat: 100ms, on_disconnect: finish}]
cors: {origins: ['https://a.example']}",
    ..PLAIN
};
/// Under TLS.
const SEALED: Settings = Settings {
    server: ", passthrough: [/tokenize, '/classify/*'], tls: {cert: good.pem, key: good.key}",
    ..OPEN
};
/// Of gateways that stay in it from their start on.
const PHASES: [Phase; 3] = [Phase::Leaving, Phase::Draining, Phase::Cutting];
/// The choices of an input: one in eight ends a gateway of its own, plain or under TLS.
const KINDS: usize = 8;

/// The gateway, how the client ends, the places to cut at, and the bytes of the connection.
pub fn check(data: &[u8]) {
    thread_local!(static EDGES: &'static [Edge] = Vec::leak(edges()));
    let edges = EDGES.with(|edges| *edges);
    let mut input = Input(data);
    let kind = input.below(KINDS);
    let how = input.byte();
    let cuts = input.cuts();
    let sent = written_out(input.0);
    let pieces = cut(&sent, &cuts);
    let own = if kind == KINDS - 1 {
        Edge::to_be_ended([&OPEN, &SEALED][cuts.len() % 2])
    } else {
        None
    };
    let edge = own
        .as_ref()
        .unwrap_or_else(|| edges.get(kind).unwrap_or(&edges[0]));
    let manner = match how & 3 {
        2 => Manner::Leaves,
        3 => Manner::LeavesMidway,
        _ => Manner::Listens,
    };
    // It takes long, so few do. Where the gateway ends, the last of the pieces must find something that runs.
    let pause = (own.is_some() || how >= 0xf8).then_some(PAUSE);
    edge.upstream.take_requests();
    edge.upstream.pause(pause);
    let (step, phase) = (
        usize::from(how >> 4),
        PHASES[usize::from(how >> 2) % PHASES.len()],
    );
    let received = edge.converse(&pieces, manner, |piece| {
        if own.is_some() && (piece == step || piece + 1 == pieces.len()) {
            std::thread::sleep(ARRIVES);
            edge.enter(phase);
            std::thread::sleep(ARRIVES);
        }
    });
    edge.settled();
    edge.upstream.pause(None);
    let got = edge.upstream.take_requests();
    if sent.starts_with(HTTP2) {
        return;
    }
    let (requests, tail) = http1::requests(&sent);
    let holds_key = |bytes: &[u8]| memchr::memmem::find(bytes, UPSTREAM_KEY.as_bytes()).is_some();
    // A fuzzer learns what it is compared with.
    assert!(holds_key(&sent) || !holds_key(&received));
    if manner == Manner::Listens {
        check_answers(&received, (&requests, &tail), (&got, own.is_some()));
    }
    check_got(&requests, &got);
}

fn edges() -> Vec<Edge> {
    let mut edges: Vec<_> = [PLAIN, KEYS, OPEN, SEALED].iter().map(Edge::start).collect();
    edges.extend(PHASES.iter().map(|phase| {
        let edge = Edge::start(&PLAIN);
        edge.enter(*phase);
        edge
    }));
    edges
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
            MANY if long > 0 => {
                long -= 1;
                written.extend_from_slice("x: y\r\n".repeat(120).as_bytes());
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

/// `cut`: the gateway may have ended inside an answer.
fn check_answers(received: &[u8], (requests, tail): (&[Message], &Tail), (got, cut): (&[Message], bool)) {
    let methods: Vec<String> = requests
        .iter()
        .map(|request| request.method().to_owned())
        .collect();
    let (answers, end) = http1::answers(received, &methods);
    let said = || String::from_utf8_lossy(received).into_owned();
    assert!(end == Tail::Clean || (cut && end == Tail::Cut), "{}", said());
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
        assert!(matches!(answer.status(), 200 | 204 | 400..=599), "{}", said());
        if answer.status() < 400 {
            continue;
        }
        // The codec itself answers what is no HTTP, with an empty body, and whether it is ready a gateway says in its own way.
        if !answer.body.is_empty() && answer.body != br#"{"status":"draining"}"# {
            let told: serde_json::Value = serde_json::from_slice(&answer.body).expect("an error is JSON");
            assert!(told["error"]["message"].is_string(), "{}", said());
            assert!(answer.first("x-request-id").is_some(), "{}", said());
        }
    }
}

/// What the upstream got is, in order, among what was sent, byte for byte but for what the gateway writes into it.
fn check_got(requests: &[Message], got: &[Message]) {
    let mut sent = requests.iter();
    for request in got {
        assert!(
            sent.any(|sent| sent.method() == request.method() && is_forwarded(sent, &request.body)),
            "the upstream got what nobody sent: {request:?} of {requests:?}"
        );
    }
}

/// Whether this is the body as it goes upstream: the model is that of a header, where one names it, and the usage of a stream
/// may be asked for. A form whose model is that of a header is another target's.
fn is_forwarded(sent: &Message, got: &[u8]) -> bool {
    let body = Bytes::copy_from_slice(&sent.body);
    let named = ["x-model", "x-model-name"].into_iter().find_map(|name| {
        let value = std::str::from_utf8(sent.first(name)?).ok()?.trim();
        (!value.is_empty()).then_some(value)
    });
    if got == sent.body || (is_form(sent) && named.is_some()) {
        return true;
    }
    let Ok(peek) = Peek::new(&body, &[]) else {
        return false;
    };
    let model = named.or(peek.model.as_deref()).unwrap_or_default();
    [false, true]
        .iter()
        .any(|ask| rewrite(&body, &peek, (model, *ask)) == got)
}
