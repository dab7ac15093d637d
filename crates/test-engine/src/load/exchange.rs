//! One connection: a request, its answer, the next.

use crate::fast::{STAMP, STAMP_DIGITS, stamp};
use crate::http1::{Body, head_end};
use memchr::memmem;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

const READ: usize = 64 * 1024;
/// Bytes at the end of a stream in which its end marker is looked for; Anthropic's last event and the finished
/// response of the responses API are the longest.
const TAIL: usize = 8 * 1024;
/// Bytes at an event's end in which its stamp is looked for.
const STAMPED_WITHIN: usize = 96;

/// A good answer.
pub(super) struct Answered<'a> {
    /// When its last byte came.
    pub(super) end: Instant,
    pub(super) bytes: u64,
    /// Streams only: when the first bytes of the body came.
    pub(super) first_chunk: Option<Instant>,
    pub(super) events: u64,
    /// Streams only: times between arrivals.
    pub(super) gaps: &'a [Duration],
    /// Streams only: from when an event was written, by its own word, to its arrival.
    pub(super) delays: &'a [Duration],
}

/// Why there is no good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Connect,
    Write,
    /// The peer closed before the answer began.
    Closed,
    Reset,
    /// The peer closed within the answer.
    Truncated,
    Timeout,
    BadResponse,
    StreamWithoutEnd,
    Status(u16),
}

impl Failure {
    pub(super) fn kind(self) -> String {
        match self {
            Failure::Connect => "connect".to_owned(),
            Failure::Write => "write".to_owned(),
            Failure::Closed => "closed".to_owned(),
            Failure::Reset => "reset".to_owned(),
            Failure::Truncated => "truncated".to_owned(),
            Failure::Timeout => "timeout".to_owned(),
            Failure::BadResponse => "bad_response".to_owned(),
            Failure::StreamWithoutEnd => "stream_without_end".to_owned(),
            Failure::Status(status) => format!("status_{status}"),
        }
    }
}

/// What a response head says, as far as it matters here.
#[derive(Debug)]
struct Facts {
    head: usize,
    status: u16,
    body: Body,
    close: bool,
}

/// Reads a complete head without making anything of the headers that do not matter.
fn facts(buf: &[u8]) -> Option<Result<Facts, Failure>> {
    let head = head_end(buf)?;
    let status = buf
        .get(9..12)
        .and_then(|s| std::str::from_utf8(s).ok())
        .and_then(|s| s.parse().ok());
    let Some(status) = status.filter(|_| buf.starts_with(b"HTTP/1.")) else {
        return Some(Err(Failure::BadResponse));
    };
    let (mut length, mut chunked, mut close) = (None, false, buf[7] == b'0');
    for line in buf[..head].split(|&b| b == b'\n').skip(1) {
        let value = |name: &[u8]| {
            let start = line.get(..name.len())?;
            start
                .eq_ignore_ascii_case(name)
                .then(|| line[name.len()..].trim_ascii())
        };
        match line.first().map(u8::to_ascii_lowercase) {
            Some(b'c') => {
                if let Some(v) = value(b"content-length:") {
                    length = std::str::from_utf8(v).ok().and_then(|v| v.parse().ok());
                } else if let Some(v) = value(b"connection:") {
                    close = v.eq_ignore_ascii_case(b"close");
                }
            }
            Some(b't') => chunked |= value(b"transfer-encoding:").is_some(),
            _ => {}
        }
    }
    let body = match length {
        _ if matches!(status, 100..=199 | 204 | 304) => Body::length(0),
        _ if chunked => Body::chunked(),
        Some(length) => Body::length(length),
        None => Body::to_end(),
    };
    Some(Ok(Facts {
        head,
        status,
        close: close || body.ends_with_connection(),
        body,
    }))
}

pub(super) struct Exchange {
    addr: SocketAddr,
    request: Arc<Vec<u8>>,
    streams: bool,
    timeout: Duration,
    stream: Option<TcpStream>,
    inbox: Vec<u8>,
    tail: Vec<u8>,
    gaps: Vec<Duration>,
    delays: Vec<Duration>,
    facts: Progress,
}

/// How far the answer has come.
#[derive(Default)]
struct Progress {
    bytes: u64,
    events: u64,
    first_chunk: Option<Instant>,
    last_chunk: Option<Instant>,
}

impl Exchange {
    pub(super) fn new(addr: SocketAddr, request: Arc<Vec<u8>>, streams: bool, timeout: Duration) -> Exchange {
        let inbox = Vec::with_capacity(READ);
        let (tail, gaps, delays, facts) = (Vec::new(), Vec::new(), Vec::new(), Progress::default());
        Exchange {
            addr,
            request,
            streams,
            timeout,
            stream: None,
            inbox,
            tail,
            gaps,
            delays,
            facts,
        }
    }

    /// Sends the request once and reads its answer, on the connection that is there or on a new one.
    pub(super) async fn once(&mut self) -> Result<Answered<'_>, Failure> {
        let result = match tokio::time::timeout(self.timeout, self.attempt()).await {
            Ok(result) => result,
            Err(_) => Err(Failure::Timeout),
        };
        match result {
            Ok((keep, end)) => {
                if !keep {
                    self.stream = None;
                }
                let Progress {
                    bytes,
                    events,
                    first_chunk,
                    ..
                } = self.facts;
                let first_chunk = first_chunk.filter(|_| self.streams);
                Ok(Answered {
                    end,
                    bytes,
                    first_chunk,
                    events,
                    gaps: &self.gaps,
                    delays: &self.delays,
                })
            }
            Err(failure) => {
                // The answer to a status was read in full; after any other failure the connection is of no use.
                if !matches!(failure, Failure::Status(_)) {
                    self.stream = None;
                }
                Err(failure)
            }
        }
    }

    /// Connects if there is no connection.
    pub(super) async fn connect(&mut self) -> Result<(), Failure> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.addr)
                .await
                .map_err(|_| Failure::Connect)?;
            let _ = stream.set_nodelay(true);
            self.stream = Some(stream);
        }
        Ok(())
    }

    async fn attempt(&mut self) -> Result<(bool, Instant), Failure> {
        self.inbox.clear();
        self.tail.clear();
        self.gaps.clear();
        self.delays.clear();
        self.facts = Progress::default();
        self.connect().await?;
        let Some(stream) = self.stream.take() else {
            return Err(Failure::Connect);
        };
        write(&stream, &self.request).await?;
        let (status, keep) = self.read_answer(&stream).await?;
        let end = Instant::now();
        if keep {
            self.stream = Some(stream);
        }
        if !(200..300).contains(&status) {
            return Err(Failure::Status(status));
        }
        if self.streams && !has_end_marker(&self.tail) {
            return Err(Failure::StreamWithoutEnd);
        }
        Ok((keep, end))
    }

    async fn read_answer(&mut self, stream: &TcpStream) -> Result<(u16, bool), Failure> {
        let mut facts = loop {
            if let Some(facts) = facts(&self.inbox).transpose()? {
                if facts.status >= 200 {
                    break facts;
                }
                self.inbox.drain(..facts.head);
            } else if read(stream, &mut self.inbox).await? == 0 {
                return Err(if self.inbox.is_empty() {
                    Failure::Closed
                } else {
                    Failure::Truncated
                });
            }
        };
        self.inbox.drain(..facts.head);
        loop {
            self.take(&mut facts.body)?;
            if facts.body.is_done() {
                break;
            }
            if read(stream, &mut self.inbox).await? == 0 {
                if facts.body.ends_with_connection() {
                    break;
                }
                return Err(Failure::Truncated);
            }
        }
        Ok((facts.status, !facts.close))
    }

    /// Hands what has been read to the body.
    fn take(&mut self, body: &mut Body) -> Result<(), Failure> {
        let (tail, facts, streams) = (&mut self.tail, &mut self.facts, self.streams);
        let delays = &mut self.delays;
        let before = facts.bytes;
        let used = body.feed(&self.inbox, &mut |data| {
            facts.bytes += data.len() as u64;
            if streams {
                // An event's end may be cut in two, so the search begins one byte back.
                let from = tail.len().saturating_sub(1);
                tail.extend_from_slice(data);
                for at in memmem::find_iter(&tail[from..], b"\n\n") {
                    facts.events += 1;
                    delays.extend(delay_of(&tail[..from + at]));
                }
                if tail.len() > 2 * TAIL {
                    tail.drain(..tail.len() - TAIL);
                }
            }
        });
        used.map_err(|_| Failure::BadResponse)?;
        self.inbox.clear();
        if streams && facts.bytes > before {
            let now = Instant::now();
            facts.first_chunk.get_or_insert(now);
            if let Some(last) = facts.last_chunk.replace(now) {
                self.gaps.push(now - last);
            }
        }
        Ok(())
    }
}

/// How long ago the event that ends here was written, if it says so.
fn delay_of(seen: &[u8]) -> Option<Duration> {
    // The stamp stands near the event's end; a look that far costs little.
    let end = &seen[seen.len().saturating_sub(STAMPED_WITHIN)..];
    let at = memmem::rfind(end, STAMP)? + STAMP.len();
    let written = std::str::from_utf8(end.get(at..at + STAMP_DIGITS)?).ok()?;
    let written: u64 = written.parse().ok()?;
    Some(Duration::from_nanos(stamp().saturating_sub(written)))
}

fn has_end_marker(tail: &[u8]) -> bool {
    [&b"[DONE]"[..], b"message_stop", b"response.completed"]
        .iter()
        .any(|m| memmem::rfind(tail, m).is_some())
}

async fn write(stream: &TcpStream, mut data: &[u8]) -> Result<(), Failure> {
    while !data.is_empty() {
        match stream.try_write(data) {
            Ok(n) => data = &data[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                stream.writable().await.map_err(|_| Failure::Write)?
            }
            Err(_) => return Err(Failure::Write),
        }
    }
    Ok(())
}

async fn read(stream: &TcpStream, inbox: &mut Vec<u8>) -> Result<usize, Failure> {
    inbox.reserve(READ);
    loop {
        // The answer is never there yet when the first read is tried, so wait first.
        stream.readable().await.map_err(|_| Failure::Reset)?;
        match stream.try_read_buf(inbox) {
            Ok(n) => return Ok(n),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Err(Failure::Reset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_matters_of_a_head() {
        let read = |text: &str| facts(text.as_bytes()).unwrap().unwrap();
        let plain = read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx: y\r\n\r\n");
        assert_eq!(
            (plain.status, plain.close, plain.body.is_done()),
            (200, false, false)
        );
        let closing = read("HTTP/1.1 503 X\r\ncontent-length: 0\r\nConnection: close\r\n\r\n");
        assert_eq!(
            (closing.status, closing.close, closing.body.is_done()),
            (503, true, true)
        );
        assert!(read("HTTP/1.1 200 OK\r\n\r\n").close);
        assert_eq!(
            facts(b"SSH-2.0 nothing here\r\n\r\n").unwrap().unwrap_err(),
            Failure::BadResponse
        );
        assert!(facts(b"HTTP/1.1 200 OK\r\n").is_none());
    }
}
