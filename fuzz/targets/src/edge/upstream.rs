//! The upstream of the gateways under fuzzing: it reads strictly and answers to order.

use super::{PATIENCE, UPSTREAM_KEY, uninterrupted};
use crate::http1::{self, Message};
use rustix::net::{RecvFlags, recv};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

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
    /// Waits before the last piece of the next answer.
    pause: Option<Duration>,
    /// Connections of which something is being read, or answered.
    working: u32,
    /// All connections, by the address of the other side.
    open: BTreeMap<SocketAddr, TcpStream>,
}

/// An answer to order.
pub(crate) struct Script {
    pub(crate) pieces: Vec<Vec<u8>>,
    pub(crate) end: End,
    /// Whether it comes before all of the request is read. The connection ends with it then.
    pub(crate) early: bool,
}

/// What becomes of the connection behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stays,
    Closes,
    Resets,
}

impl Upstream {
    /// Serves whoever comes.
    pub(super) fn listen(listener: TcpListener) -> Arc<Self> {
        let upstream = Arc::new(Self::default());
        let shared = upstream.clone();
        std::thread::spawn(move || {
            for peer in listener.incoming().flatten() {
                let (Ok(from), Ok(same)) = (peer.peer_addr(), peer.try_clone()) else {
                    continue;
                };
                shared.state().open.insert(from, same);
                let shared = shared.clone();
                std::thread::spawn(move || {
                    shared.serve(peer);
                    shared.state().open.remove(&from);
                });
            }
        });
        upstream
    }

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

    /// Has the next answer stop before its last piece; none: no answer stops.
    pub(crate) fn pause(&self, pause: Option<Duration>) {
        self.state().pause = pause;
    }

    /// How many answers it has begun.
    pub(crate) fn answers(&self) -> u64 {
        self.state().answers
    }

    fn answers_early(&self) -> bool {
        self.state().script.as_ref().is_some_and(|script| script.early)
    }

    /// Whether this connection, which is open, has come, and so all that came before.
    pub(super) fn has_met(&self, peer: SocketAddr) -> bool {
        self.state().open.contains_key(&peer)
    }

    /// Whether it works, or has something to read: a request may lie there that the gateway has given up.
    pub(super) fn is_busy(&self) -> bool {
        let state = self.state();
        let has_news = |peer: &TcpStream| {
            let looked = recv(peer, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
            !matches!(looked, Err(rustix::io::Errno::AGAIN))
        };
        state.working > 0 || state.open.values().any(has_news)
    }

    /// What was wrong with how the gateway spoke.
    pub(super) fn take_faults(&self) -> Vec<String> {
        std::mem::take(&mut self.state().faults)
    }

    fn fault(&self, what: String) {
        self.state().faults.push(what);
    }

    /// Answers requests until the gateway closes.
    fn serve(&self, mut peer: TcpStream) {
        let _ = peer.set_nodelay(true);
        let _ = peer.set_write_timeout(Some(PATIENCE));
        let mut received = Vec::new();
        // Looked at first, so that what has come is always seen: where it lies, or as work.
        while let Ok(1..) = uninterrupted(|| peer.peek(&mut [0])) {
            self.state().working += 1;
            let stays = self.take(&mut peer, &mut received);
            self.state().working -= 1;
            if !stays {
                return;
            }
        }
    }

    /// Takes what has come, and answers where it is a request. Whether the connection stays.
    fn take(&self, peer: &mut TcpStream, received: &mut Vec<u8>) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        let Ok(read) = uninterrupted(|| peer.read(&mut buffer)) else {
            return false;
        };
        received.extend_from_slice(&buffer[..read]);
        if self.answers_early() && memchr::memmem::find(received, b"\r\n\r\n").is_some() {
            self.answer(peer, None);
            return false;
        }
        let (mut requests, tail) = http1::requests(received);
        match (requests.len(), tail) {
            (0, http1::Tail::Cut) => return true,
            (1, http1::Tail::Clean) => {}
            (_, tail) => {
                let said = String::from_utf8_lossy(received).into_owned();
                self.fault(format!(
                    "the gateway wrote no single request ({tail:?}): {said:?}"
                ));
                return false;
            }
        }
        received.clear();
        let request = requests.remove(0);
        if let Some(fault) = fault(&request) {
            self.fault(format!("{fault}: {request:?}"));
        }
        self.answer(peer, Some(request))
    }

    /// Answers a request, or one that has not come whole. Whether the connection stays.
    fn answer(&self, peer: &mut TcpStream, request: Option<Message>) -> bool {
        let (script, pause) = {
            let mut state = self.state();
            state.answers += 1;
            let script = state.script.take();
            let script = script.unwrap_or_else(|| good_answer(request.as_ref(), state.answers));
            state.requests.extend(request);
            (script, state.pause.take())
        };
        let last = script.pieces.len().saturating_sub(1);
        let mut pieces = script.pieces.iter().enumerate();
        let written = pieces.all(|(index, piece)| {
            if let Some(pause) = pause.filter(|_| index == last) {
                std::thread::sleep(pause);
            }
            let written = peer.write_all(piece);
            std::thread::yield_now();
            written.is_ok()
        });
        let stays = written && script.end == End::Stays && !script.early;
        match script.end {
            End::Resets => {
                // What is dropped then without a wait leaves by a reset.
                let _ = socket2::SockRef::from(&*peer).set_linger(Some(Duration::ZERO));
            }
            _ if stays => {}
            _ => {
                let _ = peer.shutdown(Shutdown::Both);
            }
        }
        stays
    }
}

/// A stream in two pieces where one is asked for, else an answer in one. A stored response is always the same.
fn good_answer(request: Option<&Message>, number: u64) -> Script {
    let stream = b"\"stream\":true";
    let pieces = if request.is_some_and(|request| memchr::memmem::find(&request.body, stream).is_some()) {
        let first = format!("data: {{\"choices\":[],\"n\":{number}}}\n\n");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        vec![
            format!("{head}{:x}\r\n{first}\r\n", first.len()),
            "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n".to_owned(),
        ]
    } else {
        let stored = request.is_some_and(|request| request.line[1] == "/v1/responses");
        let id = if stored { "\"id\":\"resp_1\"," } else { "" };
        let body = format!("{{{id}\"choices\":[],\"n\":{number}}}");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
        vec![format!("{head}{}\r\n\r\n{body}", body.len())]
    };
    Script {
        pieces: pieces.into_iter().map(String::into_bytes).collect(),
        end: End::Stays,
        early: false,
    }
}

/// Paths that the gateways are told to pass on.
const PASSED: [&str; 2] = ["/tokenize", "/classify/"];

/// What is wrong with a request of the gateway's.
fn fault(request: &Message) -> Option<&'static str> {
    let only = |name: &str, value: &[u8]| {
        let mut values = request.all(name);
        values.next() == Some(value) && values.next().is_none()
    };
    let absent = [
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
    let (method, path) = (request.method(), request.line[1].as_str());
    let passed = PASSED.iter().any(|passed| path.starts_with(passed));
    let stored = path.starts_with("/v1/responses/");
    let methods: &[&str] = match (passed, stored) {
        (true, _) => &["GET", "POST"],
        (_, true) => &["GET", "POST", "DELETE"],
        _ => &["POST"],
    };
    if request.line[2] != "HTTP/1.1" || !methods.contains(&method) {
        return Some("another method, or another HTTP");
    }
    let alias = ["/rerank", "/v2/rerank", "/score"].contains(&path.split('?').next().unwrap_or_default());
    if !passed && !alias && !path.starts_with("/v1/") {
        return Some("another path");
    }
    if request.all("host").count() != 1
        || !request
            .first("host")
            .is_some_and(|host| host.starts_with(b"127.0.0.1:"))
    {
        return Some("another host");
    }
    // What still arrives, a form, may have no length, and nothing at all needs none.
    let chunked = is_form(request) && only("transfer-encoding", b"chunked");
    let length = request.body.len().to_string();
    let nothing = length == "0" && request.first("content-length").is_none();
    if chunked && request.first("content-length").is_some() {
        return Some("two lengths");
    }
    if !chunked && !nothing && !only("content-length", length.as_bytes()) {
        return Some("another length");
    }
    if !chunked && request.first("transfer-encoding").is_some() {
        return Some("chunks of what has a length");
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

/// Whether the body is a form.
pub(crate) fn is_form(request: &Message) -> bool {
    let form = b"multipart/form-data";
    request.first("content-type").is_some_and(|kind| {
        kind.get(..form.len())
            .is_some_and(|kind| kind.eq_ignore_ascii_case(form))
    })
}

/// The number of the upstream's answer that a body holds.
pub(crate) fn number(body: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(body, b"\"n\":")? + 4;
    let digits = body[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&body[at..at + digits]).ok()?.parse().ok()
}
