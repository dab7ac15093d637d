//! The edge towards upstreams: whatever an upstream answers, the client gets an answer that is HTTP, nothing of what follows
//! the upstream's answer reaches anybody, and the next request on whatever connection gets its own.

use crate::edge::{Edge, End, Manner, PATIENT, Script, Settings, UPSTREAM_KEY, number};
use crate::http1::{self, Message, Tail};
use crate::input::{Input, cut};
use std::time::Duration;
use weighbridge_gateway::lifecycle::Phase;

/// Stands for more than a head may have.
const LONG: u8 = 0xfc;
/// Stands for the upstream's own key.
const KEY: u8 = 0xfd;

/// One that asks for the usage of streams, and one that does not.
const PLAIN: Settings = Settings {
    auth: "none",
    server: ", passthrough: [/tokenize]",
    timeouts: PATIENT,
    query: "",
    routes: "routes:
  - {name: m, targets: [m], retry: {max_attempts: 1}, usage: passive}
  - {name: n, targets: [m], retry: {max_attempts: 1}, usage: inject}
  - {name: dead, targets: [dead]}",
};
/// Signs of life, and answers that are read on for clients that left.
const LIVELY: Settings = Settings {
    query: "?k=wbSECRETurl",
    routes:
        "routes:
  - {name: m, targets: [m], retry: {max_attempts: 1}, usage: passive, heartbeat: 100ms, on_disconnect: finish}
  - {name: n, targets: [m], retry: {max_attempts: 1}, usage: inject, heartbeat: 100ms, on_disconnect: finish}",
    ..PLAIN
};
/// Clocks that a pause runs into.
const HASTY: Settings = Settings {
    timeouts: "{first_byte: 200ms, idle: 200ms, total: 200ms, stream_total: 300ms}",
    ..PLAIN
};
/// How long the upstream stops before its last piece: longer than the clocks of the hasty, the time between two signs of
/// life, and the grace of a client that may have left.
const PAUSE: Duration = Duration::from_millis(330);
/// Until an upstream has answered what has not all come.
const ANSWERS: Duration = Duration::from_millis(3);
/// Until an answer has begun.
const BEGINS: Duration = Duration::from_millis(20);
/// The first of the values for what happens meanwhile, which take long: few inputs have them.
const ENDS: u8 = 0xf0;
const PAUSES: u8 = 0xf8;

/// Of an input's flags: what the upstream does.
const CLOSES: u8 = 1;
const EARLY: u8 = 16;
const RESETS: u8 = 32;

const PATHS: [&str; 8] = [
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/audio/speech",
    "/tokenize",
    "/v1/messages/count_tokens",
];

/// How the upstream ends and what is asked for, on what path and gateway, what happens meanwhile, the places to cut at, and
/// the bytes of the answer.
pub fn check(data: &[u8]) {
    const KINDS: [Settings; 3] = [PLAIN, LIVELY, HASTY];
    thread_local!(static EDGES: &'static [Edge; 3] = Box::leak(Box::new(KINDS.each_ref().map(Edge::start))));
    let edges = EDGES.with(|edges| *edges);
    let mut input = Input(data);
    let (flags, way, meanwhile) = (input.byte(), input.byte(), input.byte());
    let cuts = input.cuts();
    let answer = written_out(input.0);
    let kind = usize::from(way >> 3 & 3) % KINDS.len();
    let own = if (ENDS..PAUSES).contains(&meanwhile) {
        Edge::to_be_ended(&KINDS[kind])
    } else {
        None
    };
    let edge = own.as_ref().unwrap_or(&edges[kind]);
    let read = http1::first_answer(&answer);
    let whole = matches!(&read, Ok((message, _)) if !message.until_close);
    edge.upstream
        .pause((own.is_some() || meanwhile >= PAUSES).then_some(PAUSE));
    edge.upstream.script(Some(Script {
        pieces: cut(&answer, &cuts).into_iter().map(<[u8]>::to_vec).collect(),
        end: match flags & (RESETS | CLOSES) {
            0 if whole => End::Stays,
            // An answer that does not end by itself would be waited for.
            0 | CLOSES => End::Closes,
            _ => End::Resets,
        },
        early: flags & EARLY != 0,
    }));
    let before = edge.upstream.answers();
    let manner = match meanwhile & 7 {
        6 if meanwhile >= 0x80 => Manner::Leaves,
        7 if meanwhile >= 0x80 => Manner::LeavesMidway,
        _ => Manner::Listens,
    };
    let phase = [Phase::Cutting, Phase::Leaving, Phase::Draining][usize::from(meanwhile & 7) % 3];
    let request = request(flags, way);
    let (begin, rest) = request.split_at(request.len() - 10);
    let received = edge.converse(&[begin.as_bytes(), rest.as_bytes()], manner, |piece| {
        if piece == 0 && flags & EARLY != 0 {
            std::thread::sleep(ANSWERS);
        }
        if piece == 1 && own.is_some() {
            std::thread::sleep(BEGINS);
            edge.enter(phase);
        }
    });
    edge.settled();
    edge.upstream.script(None);
    edge.upstream.pause(None);
    // A kept connection that ends without a word may have been closed before: the request is sent once more.
    let again = edge.upstream.answers() > before + 1;
    // A reset, also that of an upstream which has not read all, takes away what it had said.
    let unheard = answer.is_empty() || flags & (RESETS | EARLY) != 0;
    assert!(!again || unheard, "sent again after an answer had begun");
    if manner == Manner::Listens && !again {
        check_received(&received, &read);
    }
    edge.upstream.take_requests();
    if own.is_none() && kind < 2 {
        check_next(edge, 10);
    }
}

fn request(flags: u8, way: u8) -> String {
    let mut path = PATHS[usize::from(way & 7)];
    let model = ["m", "n"][usize::from(flags >> 3 & 1)];
    let (method, model) = match way >> 5 {
        5 => ("PUT", model),
        6 => ("POST", "unknown"),
        7 => ("POST", "dead"),
        _ => ("POST", model),
    };
    let explain = ["", "x-weighbridge-explain: 1\r\n"][usize::from(flags >> 2 & 1)];
    let own = ["", "x-request-id: abc\r\nx-other: 1\r\n"][usize::from(flags >> 7)];
    let stream = flags & 2 == 2;
    let mut body = format!("{{\"model\":\"{model}\",\"stream\":{stream}}}");
    let mut kind = "application/json";
    if flags & 64 != 0 {
        path = "/v1/audio/transcriptions?a=b";
        kind = "multipart/form-data; boundary=b0";
        let part = |name: &str, value: &str| {
            format!("--b0\r\ncontent-disposition: form-data; name={name}\r\n\r\n{value}\r\n")
        };
        body = part("model", model)
            + &part("stream", &stream.to_string())
            + &part("file", "RIFF")
            + "--b0--\r\n";
    }
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\n{explain}{own}content-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn written_out(bytes: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(bytes.len());
    let mut long = 2;
    for byte in bytes {
        match *byte {
            KEY => written.extend_from_slice(UPSTREAM_KEY.as_bytes()),
            LONG if long > 0 => {
                long -= 1;
                written.resize(written.len() + 150_000, b'a');
            }
            other => written.push(other),
        }
    }
    written
}

fn check_received(received: &[u8], read: &Result<(Message, usize), Tail>) {
    let said = || String::from_utf8_lossy(received).into_owned();
    let (answers, tail) = http1::answers(received, &["POST".to_owned()]);
    // A stream that broke off may end without its end.
    assert!(
        tail == Tail::Clean || (tail == Tail::Cut && answers.is_empty()),
        "{}",
        said()
    );
    assert!(answers.len() <= 1, "{}", said());
    let Some(answer) = answers.first() else { return };
    let status = answer.status();
    let content_type = answer.first("content-type").unwrap_or_default();
    let stream = content_type
        .to_ascii_lowercase()
        .starts_with(b"text/event-stream");
    assert!(
        matches!(status, 200..=599) && !(300..400).contains(&status),
        "{}",
        said()
    );
    for name in [
        "set-cookie",
        "location",
        "upgrade",
        "keep-alive",
        "trailer",
        "proxy-authenticate",
    ] {
        assert!(answer.first(name).is_none(), "{name}: {}", said());
    }
    assert_eq!(answer.all("x-request-id").count(), 1, "{}", said());
    let head = answer.headers.iter().map(|(_, value)| value.as_slice());
    let leaks = |bytes: &[u8]| memchr::memmem::find(bytes, UPSTREAM_KEY.as_bytes()).is_some();
    assert!(!head.into_iter().any(leaks), "{}", said());
    match read {
        Ok((upstream, _)) if status < 400 && !stream => {
            assert_eq!(status, upstream.status(), "{}", said());
            assert!(answer.body == upstream.body, "{} for {upstream:?}", said());
        }
        Ok(_) => {}
        Err(_) => assert!(
            status >= 400 || stream,
            "a broken answer became a good one: {}",
            said()
        ),
    }
    if status >= 400 {
        assert!(!leaks(&answer.body), "{}", said());
    }
}

/// The next request gets the answer that is made for it, and no byte more. Until then it may be told that the engine waits, as
/// its last answer asked for, or has just closed a connection that was kept.
fn check_next(edge: &Edge, again: u32) {
    let received = edge.converse(&[request(0, 0).as_bytes()], Manner::Listens, |_| ());
    edge.settled();
    let (answers, tail) = http1::answers(&received, &["POST".to_owned()]);
    let got = edge.upstream.take_requests();
    let said = String::from_utf8_lossy(&received).into_owned();
    assert_eq!((answers.len(), tail), (1, Tail::Clean), "{said}");
    if again > 0 && got.is_empty() && [429, 502, 503].contains(&answers[0].status()) {
        std::thread::sleep(Duration::from_millis(2));
        return check_next(edge, again - 1);
    }
    assert_eq!((answers[0].status(), got.len()), (200, 1), "{said}");
    let own = format!(
        "{{\"choices\":[],\"n\":{}}}",
        number(&answers[0].body).unwrap_or(0)
    );
    assert_eq!(answers[0].body, own.as_bytes(), "{said}");
}
