//! HTTP/2: the same answers, each as a stream, and the faults that only HTTP/2 knows.

mod faucet;
mod reply;

pub(crate) use reply::Reply;

use super::answer::{Answer, Request};
use super::conn::{Out, Stop};
use super::serve::{Calls, choose_mode, first_facts, plain_body};
use super::state::{Shared, lock};
use crate::clock;
use crate::http1::Head;
use bytes::Bytes;
use faucet::{Faucet, Valve};
use h2::{Reason, RecvStream};
use serde::Deserialize;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

/// What a client says first (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How an upstream speaks HTTP/2; holds for connections made from then on, unless it says otherwise.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Http2 {
    /// Most streams at once that a connection allows. Default: no limit is told.
    pub max_streams: Option<u32>,
    /// Bytes of a request's body that may be on their way. Default: 65,535.
    pub window: Option<u32>,
    /// After this many requests of a connection it is said that no later one will be answered; those that are under way
    /// already are not begun with. Default: never.
    pub goaway_every: Option<u64>,
    /// Seconds until a connection says anything, its settings first.
    pub greets_after: f64,
    /// The next streams are refused: so many. Counts down.
    pub refuse: u64,
}

/// Wait for the codec to write what it has been given.
const FLUSHED: Duration = Duration::from_millis(20);

/// Whether the client of `stream` begins as one of HTTP/2 does.
pub(crate) async fn is_spoken(stream: &TcpStream) -> bool {
    let mut begun = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut begun).await {
            Ok(n @ 1..) if begun[..n] == PREFACE[..n] => {
                if n == PREFACE.len() {
                    return true;
                }
                // What has been peeked at stays readable, so waiting for more is asking again.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            _ => return false,
        }
    }
}

/// What the streams of a connection share.
struct Connection {
    shared: Arc<Shared>,
    id: u64,
    valve: Arc<Mutex<Valve>>,
    /// Tells that frames wait in the valve.
    frames: Notify,
    /// Tells that the connection is to be reset.
    reset: mpsc::UnboundedSender<()>,
}

/// Serves one connection to its end; says whether it is to be reset.
pub(crate) async fn serve(
    shared: &Arc<Shared>,
    stream: Arc<TcpStream>,
    (id, calls): (u64, &mut Calls),
) -> bool {
    let settings = shared.lock().settings.http2.clone();
    let valve = Arc::new(Mutex::new(Valve::default()));
    let mut builder = h2::server::Builder::new();
    builder.max_pending_accept_reset_streams(10_000);
    builder.max_send_buffer_size(64 * 1024);
    if let Some(most) = settings.max_streams {
        builder.max_concurrent_streams(most);
    }
    if let Some(window) = settings.window {
        builder.initial_window_size(window);
    }
    if settings.greets_after > 0.0 {
        tokio::time::sleep(Duration::from_secs_f64(settings.greets_after)).await;
    }
    let socket = Faucet::new(stream, valve.clone());
    let Ok(mut codec) = builder.handshake::<_, Bytes>(socket).await else {
        return false;
    };
    let (reset, mut resets) = mpsc::unbounded_channel();
    let connection = Arc::new(Connection {
        shared: shared.clone(),
        id,
        valve: valve.clone(),
        frames: Notify::new(),
        reset,
    });
    let mut running = JoinSet::new();
    let mut not_begun = Vec::new();
    let mut requests = 0;
    let mut closing = false;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = calls.kill.changed() => return true,
            _ = resets.recv() => return true,
            _ = calls.close_idle.changed() => {
                codec.graceful_shutdown();
                continue;
            }
            () = connection.frames.notified() => continue,
            Some(_) = running.join_next(), if !running.is_empty() => continue,
            accepted = codec.accept() => accepted,
        };
        let Some(Ok((request, mut respond))) = accepted else {
            // Those that are being answered find that their peer is gone.
            drop(codec);
            while running.join_next().await.is_some() {}
            return false;
        };
        if closing {
            not_begun.push((request, respond));
            continue;
        }
        if shared.lock().settings.refuses() {
            respond.send_reset(Reason::REFUSED_STREAM);
            continue;
        }
        requests += 1;
        if settings.goaway_every.is_some_and(|most| requests >= most) {
            closing = true;
            let last = respond.stream_id().as_u32();
            lock(&valve).frames.extend(faucet::goaway(last, Reason::NO_ERROR));
        }
        running.spawn(answer(
            connection.clone(),
            (request, requests),
            Reply::new(respond),
        ));
    }
}

/// Answers one request.
async fn answer(
    connection: Arc<Connection>,
    (request, number): (http::Request<RecvStream>, u64),
    reply: Reply,
) {
    let shared = &connection.shared;
    let (head, body) = spelt_out(request);
    let record = shared.enter(first_facts(shared, (connection.id, number), &head));
    let Some(body) = whole(body).await else {
        let mut record = lock(&record);
        record.outcome = Some("request_body_truncated");
        record.t_end = Some(clock::now());
        return;
    };
    let request = Request::new(head, plain_body(&body, &record));
    let mode = choose_mode(shared, &request, &record);
    let answer = Answer {
        shared,
        mode,
        request,
        record,
    };
    let running = shared.begin(&answer.record);
    let out = Out::Http2(&reply);
    connection.misbehave(&answer);
    let result = tokio::select! {
        biased;
        result = answer.run(&out) => result.map(drop),
        reason = reply.gone() => {
            let mut record = lock(&answer.record);
            record.peer_eof_at = Some(clock::now());
            record.reset_by_peer = reason.map(u32::from);
            Err(Stop::Gone)
        }
    };
    match result {
        Ok(()) => drop(lock(&answer.record).outcome.get_or_insert("completed")),
        Err(Stop::Cut { rst }) => {
            lock(&answer.record).outcome = Some("cut");
            // The codec forgets what it has not written of a stream that it resets. It is polled before this time is
            // over, since all of an upstream runs on one thread.
            tokio::time::sleep(FLUSHED).await;
            if rst {
                let _ = connection.reset.send(());
            } else {
                reply.reset(reply::reason(answer.mode.get("rst").unwrap_or("INTERNAL_ERROR")));
            }
        }
        Err(Stop::Gone) => {
            lock(&answer.record).outcome = Some("peer_gone");
            shared.aborted();
        }
    }
    drop(running);
}

impl Connection {
    /// What the mode asks for beside the answer.
    fn misbehave(&self, answer: &Answer<'_>) {
        let mut valve = lock(&self.valve);
        if answer.mode.has("silent") {
            valve.silent = true;
        }
        if answer.mode.has("garbage") {
            valve.frames.extend(faucet::garbage());
        }
        if let Some(code) = answer.mode.get("goaway") {
            // This one is no longer worked on, and none after it.
            valve.frames.extend(faucet::goaway(0, reply::reason(code)));
        }
        self.frames.notify_one();
    }
}

/// The head as one of HTTP/1 would be, with `:authority` among the headers; and the body.
fn spelt_out(request: http::Request<RecvStream>) -> (Head, RecvStream) {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut headers = Vec::new();
    if let Some(authority) = parts.uri.authority() {
        headers.push((":authority".to_owned(), authority.to_string()));
    }
    headers.extend(parts.headers.iter().map(|(name, value)| {
        let value = value.as_bytes().iter().map(|&byte| char::from(byte)).collect();
        (name.as_str().to_owned(), value)
    }));
    let start = format!("{} {target} HTTP/2", parts.method);
    (Head { start, headers }, body)
}

async fn whole(mut body: RecvStream) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        all.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len()).ok()?;
    }
    Some(all)
}
