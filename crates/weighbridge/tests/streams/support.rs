//! What the tests share: the four generating APIs, gateways, and looks at what a gateway counts.

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{Event, Request, StreamClient};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

/// Coarse upper bound for what happens at once, on a slow and busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(2);
/// For what is certain to come and may take a while.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An API that generates text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
    Responses,
    Messages,
}

impl Api {
    pub(crate) const ALL: [Api; 4] = [Api::Chat, Api::Completions, Api::Responses, Api::Messages];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Api::Chat => "/v1/chat/completions",
            Api::Completions => "/v1/completions",
            Api::Responses => "/v1/responses",
            Api::Messages => "/v1/messages",
        }
    }

    fn body(self, model: &str, mode: &str) -> Value {
        let text = format!("hello [[mock:{mode}]]");
        match self {
            Api::Chat => json!({"model": model, "messages": [{"role": "user", "content": text}]}),
            Api::Completions => json!({"model": model, "prompt": text}),
            Api::Responses => json!({"model": model, "input": text}),
            Api::Messages => {
                json!({"model": model, "max_tokens": 99, "messages": [{"role": "user", "content": text}]})
            }
        }
    }

    /// A request for model `m`, answered in one piece in the upstream's `mode`.
    pub(crate) fn whole(self, base: &str, mode: &str) -> Request {
        Request::post(
            &format!("{base}{}", self.path()),
            self.body("m", mode).to_string(),
        )
    }

    /// A request for model `m`, answered as a stream in the upstream's `mode`.
    pub(crate) fn stream(self, base: &str, mode: &str) -> Request {
        let mut body = self.body("m", mode);
        body["stream"] = json!(true);
        Request::post(&format!("{base}{}", self.path()), body.to_string())
    }

    /// Whether `event` is what ends a good stream.
    pub(crate) fn is_end_mark(self, event: &Event) -> bool {
        match self {
            Api::Chat | Api::Completions => event.data == "[DONE]",
            Api::Responses => event.name.as_deref() == Some("response.completed"),
            Api::Messages => event.name.as_deref() == Some("message_stop"),
        }
    }

    /// The error that `event` is.
    pub(crate) fn error(self, event: &Event) -> Option<Value> {
        let error = event.json()["error"].take();
        error["message"].is_string().then_some(error)
    }

    /// Whether an event that is an error has the shape of the API's own.
    pub(crate) fn is_own_error(self, event: &Event) -> bool {
        let json = event.json();
        let named = event.name.as_deref() == Some("error") && json["type"] == "error";
        match self {
            Api::Chat | Api::Completions => event.name.is_none() && json["error"]["code"].is_string(),
            Api::Responses => named && json["message"].is_string(),
            Api::Messages => named && json["error"]["type"].is_string(),
        }
    }
}

pub(crate) fn gateway(yaml: &str) -> Gateway {
    Gateway::start(Path::new(env!("CARGO_BIN_EXE_weighbridge")), yaml)
}

/// A gateway with one pool `m`, of one endpoint, with `settings` of the pool in YAML's flow form.
pub(crate) fn gateway_to(upstream: &Upstream, settings: &str) -> Gateway {
    let endpoint = format!("{{name: a, url: '{}'}}", upstream.url());
    let settings = if settings.is_empty() {
        String::new()
    } else {
        format!(", {settings}")
    };
    gateway(&format!(
        "pools: [{{name: m, kind: generic, endpoints: [{endpoint}]{settings}}}]"
    ))
}

/// A gateway whose route `m` asks its upstream for nothing and takes nothing out of its answers.
pub(crate) fn gateway_passively_to(upstream: &Upstream) -> Gateway {
    let endpoint = format!("{{name: a, url: '{}'}}", upstream.url());
    gateway(&format!(
        "
        pools: [{{name: p, kind: generic, endpoints: [{endpoint}]}}]
        routes: [{{name: m, targets: [p], usage: passive}}]
        "
    ))
}

/// A gateway with a route `m` to `first`, and to `second` where `first` fails.
pub(crate) fn gateway_to_either(first: &Upstream, second: &Upstream, retry_on: &str) -> Gateway {
    gateway(&format!(
        "
        pools:
          - {{name: a, kind: generic, breaker: false, endpoints: ['{}']}}
          - {{name: b, kind: generic, breaker: false, endpoints: ['{}']}}
        routes:
          - name: m
            targets: [a, {{pool: b, order: 2}}]
            retry: {{on: [{retry_on}]}}
        ",
        first.url(),
        second.url()
    ))
}

/// Requests counted under `outcome`.
pub(crate) fn outcomes(gateway: &Gateway, outcome: &str) -> f64 {
    gateway
        .metrics()
        .sum("weighbridge_requests_total", &[("outcome", outcome)])
}

/// Requests counted at all.
pub(crate) fn requests(gateway: &Gateway) -> f64 {
    gateway.metrics().sum("weighbridge_requests_total", &[])
}

/// Waits until `count` requests have ended as `outcome` and nothing is in flight, and checks that no request ended
/// in any other way.
pub(crate) fn expect_outcomes(gateway: &Gateway, outcome: &str, count: f64) {
    let ended = eventually(PATIENCE, || requests(gateway) >= count);
    assert!(ended, "{} of {count} requests have ended", requests(gateway));
    let metrics = gateway.metrics();
    let counted = metrics.sum("weighbridge_requests_total", &[("outcome", outcome)]);
    let all = metrics.sum("weighbridge_requests_total", &[]);
    assert_eq!((counted, all), (count, count), "{outcome}: {}", metrics.text);
    expect_idle(gateway);
}

/// Where a gateway listens.
pub(crate) fn address(gateway: &Gateway) -> SocketAddr {
    let url = gateway.url("");
    url.trim_start_matches("http://").parse().expect("an address")
}

/// The bytes of a chat request for model `m`, with further header lines.
pub(crate) fn chat_bytes(mode: &str, stream: bool, headers: &str) -> String {
    let mut body = Api::Chat.body("m", mode);
    body["stream"] = json!(stream);
    let body = body.to_string();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Waits until `upstream` answers `count` requests that have arrived whole.
pub(crate) fn wait_running(upstream: &Upstream, count: u64) {
    let running = eventually(PATIENCE, || upstream.stats().in_flight >= count);
    assert!(running, "{:?}", upstream.stats());
}

/// Waits until no slot is taken.
pub(crate) fn expect_idle(gateway: &Gateway) {
    let idle = eventually(SOON, || gateway.metrics().sum("weighbridge_inflight", &[]) == 0.0);
    assert!(idle, "slots are still taken: {}", gateway.metrics().text);
    let negative = gateway.metrics().text.lines().any(|line| {
        line.starts_with("weighbridge_inflight{")
            && line
                .rsplit(' ')
                .next()
                .is_some_and(|value| value.starts_with('-'))
    });
    assert!(!negative, "a count is negative");
}

/// Checks that a stream came whole: it ended in good order, and its last event is the API's end mark.
pub(crate) fn expect_whole(api: Api, stream: &mut StreamClient) {
    let end = stream.finish(PATIENCE);
    let events = stream.events();
    let marks = events.iter().filter(|event| api.is_end_mark(event)).count();
    let last_is_mark = events.last().is_some_and(|event| api.is_end_mark(event));
    assert!(
        end.is_whole() && marks == 1 && last_is_mark,
        "{api:?} ended as {end:?}: {}",
        stream.text()
    );
}

/// Checks that a stream ended in good order with exactly one error, as its last event and without an end mark, and
/// gives the events before it with the error.
pub(crate) fn expect_error_last(api: Api, stream: &StreamClient) -> (Vec<Event>, Value) {
    assert!(
        stream.end().is_whole(),
        "{api:?} ended as {:?}: {}",
        stream.end(),
        stream.text()
    );
    assert!(
        !stream.parsed().unfinished,
        "{api:?} ends inside an event: {}",
        stream.text()
    );
    let mut events = stream.events();
    let errors = events.iter().filter(|event| api.error(event).is_some()).count();
    let marks = events.iter().filter(|event| api.is_end_mark(event)).count();
    assert_eq!((errors, marks), (1, 0), "{api:?}: {}", stream.text());
    let error = events.pop().and_then(|last| api.error(&last));
    (
        events,
        error.unwrap_or_else(|| panic!("{api:?}: the error is not last: {}", stream.text())),
    )
}

/// A client that tells its kernel to hold next to nothing: whatever it has not read yet lies at the gateway.
pub(crate) fn narrow_client(address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    socket.connect(&address.into()).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket.into()
}

/// Sends a hundred requests in a row, each with an answer of a bit more than [`ONE_OF_MANY`] bytes, and gives how many are
/// answered before the gateway waits for its client to read.
pub(crate) fn answered_unread(gateway: &Gateway, client: &mut TcpStream) -> usize {
    let request = chat_bytes(&format!("big={ONE_OF_MANY}"), false, "");
    client
        .write_all(request.repeat(100).as_bytes())
        .expect("the requests fit");
    let before = gateway.log_lines().len();
    let (mut answered, mut since) = (0, Instant::now());
    let still = eventually(PATIENCE, || {
        let now = gateway.log_lines().len() - before;
        if now != answered {
            (answered, since) = (now, Instant::now());
        }
        now > 0 && since.elapsed() > Duration::from_millis(700)
    });
    assert!(
        still && answered < 100,
        "{answered} answers went to a client that reads none"
    );
    answered
}

/// See [`answered_unread`]. None is too large to be taken whole.
pub(crate) const ONE_OF_MANY: usize = 200_000;

/// Reads to the end of the connection, however it ends.
pub(crate) fn read_all(client: &mut TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    let mut buffer = [0; 64 * 1024];
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        received.extend_from_slice(&buffer[..read]);
    }
    received
}

/// Head of a stream that ends with its connection.
pub(crate) const CLOSE_DELIMITED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
/// Head of a stream in chunks.
pub(crate) const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// An upstream that answers every request with these bytes, and then closes or, if it `stays`, waits for its peer to
/// close. Gives its URL.
pub(crate) fn canned(head: &'static str, body: &'static str, stays: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut request = [0; 64 * 1024];
                // Probes connect and send nothing.
                if matches!(peer.read(&mut request), Ok(1..)) {
                    let _ = peer.write_all(format!("{head}{body}").as_bytes());
                    while stays && matches!(peer.read(&mut request), Ok(1..)) {}
                }
            });
        }
    });
    url
}

/// A gateway with one pool `m`, of one endpoint at `url`, with further `parts` of the config.
pub(crate) fn gateway_to_url(url: &str, parts: &str) -> Gateway {
    let endpoint = format!("{{name: a, url: '{url}'}}");
    gateway(&format!(
        "pools: [{{name: m, kind: generic, endpoints: [{endpoint}]}}]\n{parts}"
    ))
}
