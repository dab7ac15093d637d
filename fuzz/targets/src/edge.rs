//! A gateway in this process, between a raw connection and an upstream that reads strictly and answers to order.

use crate::http1::{self, Message};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use weighbridge_gateway::Gateway;
use weighbridge_gateway::gateway::Setup;
use weighbridge_gateway::server;

/// For what is certain to come, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The key with which the gateway goes to its upstream; no answer may hold it.
pub(crate) const UPSTREAM_KEY: &str = "wbSECRETupstream";

/// A running gateway with its upstream.
pub(crate) struct Edge {
    gateway: Arc<Gateway>,
    address: SocketAddr,
    pub(crate) upstream: Arc<Upstream>,
}

/// What the upstream has got, and what it is to say.
#[derive(Default)]
pub(crate) struct Upstream {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Requests since they were last taken.
    requests: Vec<Message>,
    /// What is wrong with how the gateway speaks.
    faults: Vec<String>,
    /// Answers so far: each has a number of its own.
    answers: u64,
    script: Option<Script>,
    /// Answers that are being written.
    writing: u32,
}

/// An answer to order.
pub(crate) struct Script {
    pub(crate) pieces: Vec<Vec<u8>>,
    /// Whether the connection is closed behind it.
    pub(crate) close: bool,
}

impl Edge {
    /// Starts a gateway whose only pool is the upstream; `settings` are further parts of its config.
    pub(crate) fn start(auth: &str, settings: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let upstream = Arc::new(Upstream::default());
        let shared = upstream.clone();
        std::thread::spawn(move || {
            for peer in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || shared.serve(peer));
            }
        });
        let yaml = format!(
            "auth: {auth}
admin: false
server: {{listen: 127.0.0.1:0, max_body: 64KiB, trusted_proxies: [127.0.0.0/8, 'fd00::/8']}}
keys: [{{name: k, key: wb-client-key, models: ['m*']}}, {{name: old, key: wb-old-key, expires: 2020-01-01}}]
pools:
  - name: m
    kind: generic
    health: false
    breaker: false
    api_key: {UPSTREAM_KEY}
    endpoints: ['{url}']
    timeouts: {{first_byte: 5s, idle: 5s, total: 5s}}
    cooldown: {{default: 1ms, max: 1ms}}
{settings}"
        );
        let loaded = weighbridge_config::load_str("fuzz.yaml", &yaml, &|_| None);
        let config = loaded.unwrap_or_else(|problems| panic!("{problems}")).config;
        let listener = server::bind(config.server.listen).expect("a port");
        let setup = Setup {
            config,
            request_log: Box::new(std::io::sink()),
            event_log: None,
            clients_max: 1000,
        };
        let running = server::start(setup, listener, 1).expect("it starts");
        Self {
            gateway: running.gateway.clone(),
            address: running.listen,
            upstream,
        }
    }

    /// Writes the pieces to a new connection, closes its sending half, and gives everything that comes back.
    pub(crate) fn converse(&self, pieces: &[&[u8]]) -> Vec<u8> {
        let mut client = TcpStream::connect(self.address).expect("the gateway listens");
        client.set_nodelay(true).expect("a socket option");
        client.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        client.set_write_timeout(Some(PATIENCE)).expect("a socket option");
        for piece in pieces {
            // The gateway may have closed already.
            if client.write_all(piece).is_err() {
                break;
            }
            std::thread::yield_now();
        }
        let _ = client.shutdown(Shutdown::Write);
        let mut received = Vec::new();
        let ended = client.read_to_end(&mut received);
        assert!(
            ended.is_ok(),
            "the gateway neither answered nor closed; it said {:?}",
            String::from_utf8_lossy(&received)
        );
        received
    }

    /// What must hold between two conversations.
    pub(crate) fn settled(&self) {
        let until = Instant::now() + PATIENCE;
        let busy = || {
            self.upstream.state().writing > 0
                || self
                    .gateway
                    .view()
                    .endpoints
                    .iter()
                    .any(|endpoint| endpoint.inflight > 0)
        };
        while busy() {
            assert!(Instant::now() < until, "a slot was not given back");
            std::thread::yield_now();
        }
        let faults = std::mem::take(&mut self.upstream.state().faults);
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

impl Upstream {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread has panicked")
    }

    pub(crate) fn take_requests(&self) -> Vec<Message> {
        std::mem::take(&mut self.state().requests)
    }

    /// Sets the answer to the next request; none takes it back.
    pub(crate) fn script(&self, script: Option<Script>) {
        self.state().script = script;
    }

    fn fault(&self, what: String) {
        self.state().faults.push(what);
    }

    /// Answers requests until the gateway closes.
    fn serve(&self, mut peer: TcpStream) {
        let _ = peer.set_nodelay(true);
        let _ = peer.set_write_timeout(Some(PATIENCE));
        let mut received = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = peer.read(&mut buffer) {
            received.extend_from_slice(&buffer[..read]);
            let (mut requests, tail) = http1::requests(&received);
            match (requests.len(), tail) {
                (0, http1::Tail::Cut) => continue,
                (1, http1::Tail::Clean) => {}
                (_, tail) => {
                    let said = String::from_utf8_lossy(&received).into_owned();
                    self.fault(format!(
                        "the gateway wrote no single request ({tail:?}): {said:?}"
                    ));
                    return;
                }
            }
            received.clear();
            let request = requests.remove(0);
            if let Some(fault) = fault(&request) {
                self.fault(format!("{fault}: {request:?}"));
            }
            if !self.answer(&mut peer, request) {
                return;
            }
        }
    }

    /// Whether the connection stays.
    fn answer(&self, peer: &mut TcpStream, request: Message) -> bool {
        let (script, number) = {
            let mut state = self.state();
            let stream = memchr::memmem::find(&request.body, b"\"stream\":true").is_some();
            state.requests.push(request);
            state.answers += 1;
            state.writing += 1;
            (state.script.take(), (state.answers, stream))
        };
        let stays = match script {
            None => peer.write_all(good_answer(number).as_bytes()).is_ok(),
            Some(script) => {
                let write = |piece: &Vec<u8>| {
                    let written = peer.write_all(piece);
                    std::thread::yield_now();
                    written.is_ok()
                };
                script.pieces.iter().all(write) && !script.close
            }
        };
        if !stays {
            let _ = peer.shutdown(Shutdown::Both);
        }
        self.state().writing -= 1;
        stays
    }
}

fn good_answer((number, stream): (u64, bool)) -> String {
    if stream {
        let data = format!("data: {{\"choices\":[],\"n\":{number}}}\n\ndata: [DONE]\n\n");
        return format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{data}\r\n0\r\n\r\n",
            data.len()
        );
    }
    let body = format!("{{\"choices\":[],\"n\":{number}}}");
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// What is wrong with a request of the gateway's.
fn fault(request: &Message) -> Option<&'static str> {
    let only = |name: &str, value: &[u8]| {
        let mut values = request.all(name);
        values.next() == Some(value) && values.next().is_none()
    };
    let absent = [
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "cookie",
        "expect",
        "x-api-key",
        "api-key",
        "x-model",
    ];
    if !request.line[2].starts_with("HTTP/1.1") || request.method() != "POST" {
        return Some("not POST of HTTP/1.1");
    }
    if !request.line[1].starts_with("/v1/") {
        return Some("another path");
    }
    if request.all("host").count() != 1
        || !request
            .first("host")
            .is_some_and(|host| host.starts_with(b"127.0.0.1:"))
    {
        return Some("another host");
    }
    if !only("content-length", request.body.len().to_string().as_bytes()) {
        return Some("another length");
    }
    if !only("authorization", format!("Bearer {UPSTREAM_KEY}").as_bytes()) {
        return Some("another key");
    }
    if request.all("x-request-id").count() != 1 {
        return Some("not one request id");
    }
    if absent.iter().any(|name| request.first(name).is_some()) {
        return Some("a header that should have stayed at the gateway");
    }
    request
        .headers
        .iter()
        .any(|(name, _)| name.starts_with("x-weighbridge-"))
        .then_some("a header about the gateway")
}

/// The number of the upstream's answer that a body holds.
pub(crate) fn number(body: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(body, b"\"n\":")? + 4;
    let digits = body[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&body[at..at + digits]).ok()?.parse().ok()
}
