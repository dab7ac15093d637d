//! The life of a connection: read a request, choose its mode, answer while watching the peer, go on.

use super::answer::{Answer, Kept, Request};
use super::conn::{Conn, Out, Stop, watch_peer};
use super::mode::Mode;
use super::record::Record;
use super::state::{Shared, lock};
use super::{control, http2};
use crate::clock;
use crate::http1::Head;
use sha2::{Digest, Sha256};
use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Bodies above this size are not kept in the log.
const BODY_KEPT: usize = 256 * 1024;
/// How long a half-closed peer is still answered. A half-close is legal; a peer that closed for good looks the
/// same until a write to it fails.
const EOF_GRACE: f64 = 0.25;

/// Calls that reach every connection.
pub(crate) struct Calls {
    pub(crate) kill: watch::Receiver<u64>,
    pub(crate) close_idle: watch::Receiver<u64>,
}

/// Serves one connection to its end.
pub(crate) async fn connection(shared: Arc<Shared>, stream: TcpStream, id: u64, mut calls: Calls) {
    let speaks_http2 = tokio::select! {
        speaks = http2::is_spoken(&stream) => Some(speaks),
        _ = calls.kill.changed() => {
            let _ = stream.set_zero_linger();
            None
        }
        _ = calls.close_idle.changed() => None,
    };
    if speaks_http2 != Some(false) {
        let stream = Arc::new(stream);
        if speaks_http2.is_some() && http2::serve(&shared, stream.clone(), (id, &mut calls)).await {
            let _ = stream.set_zero_linger();
        }
        drop(stream);
        shared.closed();
        return;
    }
    let mut conn = Conn {
        stream,
        id,
        requests: 0,
        inbox: Vec::new(),
        eof: false,
    };
    let reset = tokio::select! {
        _ = calls.kill.changed() => true,
        end = requests(&shared, &mut conn, &mut calls.close_idle) => end == Err(Stop::Cut { rst: true }),
    };
    if reset {
        let _ = conn.stream.set_zero_linger();
    }
    drop(conn);
    shared.closed();
}

async fn requests(
    shared: &Arc<Shared>,
    conn: &mut Conn,
    close_idle: &mut watch::Receiver<u64>,
) -> Result<(), Stop> {
    let mut idle = None;
    loop {
        let head = tokio::select! {
            biased;
            head = conn.head() => head?,
            _ = close_idle.changed() => return Ok(()),
            () = pause(idle) => return Ok(()),
        };
        let Some(head) = head else { return Ok(()) };
        conn.requests += 1;
        if head
            .start
            .split(' ')
            .nth(1)
            .is_some_and(|target| target.starts_with("/__"))
        {
            control::answer(shared, conn, &head).await?;
            continue;
        }
        let kept = one(shared, conn, head).await?;
        idle = kept.idle.or(idle);
        if !kept.alive || conn.eof {
            return Ok(());
        }
    }
}

async fn pause(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

async fn one(shared: &Arc<Shared>, conn: &mut Conn, head: Head) -> Result<Kept, Stop> {
    let record = shared.enter(first_facts(shared, (conn.id, conn.requests), &head));
    let default_mode = shared.lock().settings.mode.clone();
    let early = [head.get("x-mock").unwrap_or_default(), &default_mode];
    let body = if early.iter().any(|m| Mode::parse(m).has("early")) {
        Vec::new()
    } else {
        match whole_body(conn, &head).await {
            Ok(body) => body,
            Err(stop) => {
                let mut record = lock(&record);
                record.outcome = Some("request_body_truncated");
                record.t_end = Some(clock::now());
                return Err(stop);
            }
        }
    };
    let request = Request::new(head, plain_body(&body, &record));
    let mode = choose_mode(shared, &request, &record);
    answered(
        conn,
        Answer {
            shared,
            mode,
            request,
            record,
        },
    )
    .await
}

pub(crate) fn first_facts(shared: &Shared, (conn, nreq_on_conn): (u64, u64), head: &Head) -> Record {
    let mut words = head.start.split(' ').map(str::to_owned);
    let mut word = || words.next().unwrap_or_default();
    let mut record = Record {
        t: clock::now(),
        replica: shared.name.clone(),
        conn,
        nreq_on_conn,
        method: word(),
        target: word(),
        version: word(),
        headers: head.headers.clone(),
        ..Record::default()
    };
    for (name, _) in &head.headers {
        *record.header_counts.entry(name.to_ascii_lowercase()).or_default() += 1;
    }
    record
}

async fn whole_body(conn: &mut Conn, head: &Head) -> Result<Vec<u8>, Stop> {
    if head
        .get("expect")
        .is_some_and(|v| v.eq_ignore_ascii_case("100-continue"))
    {
        super::conn::send(&conn.stream, b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    conn.body(head).await
}

/// Notes the body in the record and gives it without its content coding.
pub(crate) fn plain_body(raw: &[u8], record: &Arc<Mutex<Record>>) -> Vec<u8> {
    let mut record = lock(record);
    record.body_len = raw.len() as u64;
    record.body_sha256 = Sha256::digest(raw).iter().map(|b| format!("{b:02x}")).collect();
    let mut body = Vec::new();
    let coded = record.header("content-encoding") == Some("gzip");
    if !coded || flate2::read::GzDecoder::new(raw).read_to_end(&mut body).is_err() {
        body = raw.to_vec();
    }
    if body.len() <= BODY_KEPT {
        record.body = Some(String::from_utf8_lossy(&body).into_owned());
    }
    body
}

pub(crate) fn choose_mode(shared: &Shared, request: &Request, record: &Arc<Mutex<Record>>) -> Mode {
    let scripted = if request.method == "POST" {
        shared.lock().script.pop_front().flatten()
    } else {
        None
    };
    let sources = [
        ("script", scripted),
        ("header", request.head.get("x-mock").map(str::to_owned)),
        ("marker", request.marker()),
        (
            "model",
            request.model().split_once("@@").map(|(_, mode)| mode.to_owned()),
        ),
    ];
    let chosen = sources
        .into_iter()
        .find_map(|(from, mode)| Some((from, mode.filter(|m| !m.is_empty())?)));
    let (from, chosen) = chosen.map_or_else(
        || (None, shared.lock().settings.mode.clone()),
        |(from, mode)| (Some(from), mode),
    );
    let mut mode = shared.base.clone();
    mode.extend(Mode::parse(&chosen));
    let mut record = lock(record);
    record.mode_from = from;
    record.mode = chosen;
    mode
}

/// Answers, and stops soon after the peer has left.
async fn answered(conn: &mut Conn, answer: Answer<'_>) -> Result<Kept, Stop> {
    let running = answer.shared.begin(&answer.record);
    let record = &answer.record;
    let grace = Duration::from_secs_f64(answer.mode.num("eof_grace", EOF_GRACE).max(0.0));
    let out = Out::Http1(&conn.stream);
    let work = answer.run(&out);
    tokio::pin!(work);
    let result = tokio::select! {
        biased;
        result = &mut work => result,
        end = watch_peer(&conn.stream, &mut conn.inbox) => {
            conn.eof = true;
            lock(record).peer_eof_at = Some(end.at);
            if end.reset {
                Err(Stop::Gone)
            } else {
                tokio::time::timeout(grace, work).await.unwrap_or(Err(Stop::Gone))
            }
        }
    };
    match result {
        Ok(_) => drop(lock(record).outcome.get_or_insert("completed")),
        Err(Stop::Cut { .. }) => lock(record).outcome = Some("cut"),
        Err(Stop::Gone) => {
            lock(record).outcome = Some("peer_gone");
            answer.shared.aborted();
        }
    }
    drop(running);
    let closes = answer
        .request
        .head
        .get("connection")
        .is_some_and(|v| v.eq_ignore_ascii_case("close"));
    let old = lock(record).version == "HTTP/1.0";
    result.map(|alive| Kept {
        alive: alive && !closes && !old,
        idle: Some(answer.mode.num("keepalive_idle", 0.0))
            .filter(|s| *s > 0.0)
            .map(Duration::from_secs_f64),
    })
}
