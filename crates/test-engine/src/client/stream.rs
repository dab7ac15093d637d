//! An answer as it comes.

use super::http2::{Answer, Event as Http2Event};
use super::request::{Connection, Failure, Pending, Way};
use super::sse::{Event, Parsed, parse};
use super::{PATIENCE, Response};
use crate::http1::{Body, Head, head_end, header, parse_head};
use std::io::{self, Read as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Reads what comes next. A signal that the process gets while it waits, as when it is stopped and continued, is no end
/// of the connection.
pub(super) fn receive(socket: &mut TcpStream, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.read(buf) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where its length or its last chunk says.
    Complete,
    /// With the connection, as a body without length does.
    Closed,
    /// The peer closed before the end.
    Premature,
    /// The peer reset the connection, or over HTTP/2 the stream, before the end.
    Reset,
    /// The chunk framing is broken.
    BadChunk,
    /// It has not ended yet.
    Open,
}

/// Bytes of a body that arrived together.
#[derive(Clone, Debug)]
pub struct Piece {
    /// When they were read.
    pub at: Instant,
    /// The bytes, chunk framing removed.
    pub bytes: Vec<u8>,
}

/// An answer whose head has arrived. Pieces carry the time at which they were read, so keep reading.
#[derive(Debug)]
pub struct StreamClient {
    /// Status code.
    pub status: u16,
    /// Headers as sent, in order.
    pub headers: Vec<(String, String)>,
    /// When the request began, connecting included.
    pub started: Instant,
    /// When the head was complete.
    pub head_at: Instant,
    source: Source,
    pieces: Vec<Piece>,
    end: End,
}

/// Where a body comes from.
#[derive(Debug)]
enum Source {
    One(Connection, Body),
    Two(Answer),
}

impl StreamClient {
    pub(super) fn start(pending: Pending, within: Duration) -> Result<StreamClient, Failure> {
        let Pending {
            way,
            started,
            is_head,
        } = pending;
        let mut connection = match way {
            Way::One(connection) => connection,
            Way::Two(answer) => return StreamClient::over_http2(answer, started, within),
        };
        let deadline = Instant::now() + within;
        let head = loop {
            let head = read_head(&mut connection, deadline)?;
            if head.status().is_none_or(|s| s >= 200) {
                break head;
            }
        };
        let status = head
            .status()
            .filter(|_| head.start.starts_with("HTTP/1."))
            .ok_or(Failure::NotHttp)?;
        let body = if is_head {
            Body::length(0)
        } else {
            Body::of_response(&head)
        };
        let mut stream = StreamClient {
            status,
            headers: head.headers,
            started,
            head_at: Instant::now(),
            source: Source::One(connection, body),
            pieces: Vec::new(),
            end: End::Open,
        };
        stream.take_early();
        Ok(stream)
    }

    fn over_http2(answer: Answer, started: Instant, within: Duration) -> Result<StreamClient, Failure> {
        match answer.next(within) {
            Some(Http2Event::Head(status, headers)) => Ok(StreamClient {
                status,
                headers,
                started,
                head_at: Instant::now(),
                source: Source::Two(answer),
                pieces: Vec::new(),
                end: End::Open,
            }),
            Some(Http2Event::Failed(failure)) => Err(failure),
            Some(_) => Err(Failure::NotHttp),
            None => Err(Failure::TimedOut),
        }
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// What has been read so far.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The body as read so far.
    pub fn body(&self) -> Vec<u8> {
        self.pieces.iter().flat_map(|p| p.bytes.iter().copied()).collect()
    }

    /// The body as read so far, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body()).into_owned()
    }

    /// The events read so far, each with the time its last byte arrived.
    pub fn events(&self) -> Vec<Event> {
        self.parsed().events
    }

    /// The events, comments and unfinished rest read so far.
    pub fn parsed(&self) -> Parsed {
        parse(&self.pieces)
    }

    /// The data of the events read so far.
    pub fn data(&self) -> Vec<String> {
        self.events().into_iter().map(|e| e.data).collect()
    }

    /// How the body ended; [`End::Open`] while it has not.
    pub fn end(&self) -> End {
        self.end
    }

    /// Reads what comes next, for at most `within`; false if nothing came or the body is over.
    pub fn read_more(&mut self, within: Duration) -> bool {
        if self.end != End::Open {
            return false;
        }
        let (connection, body) = match &mut self.source {
            Source::One(connection, body) => (connection, body),
            Source::Two(answer) => {
                let Some(event) = answer.next(within) else {
                    return false;
                };
                return self.take_event(event);
            }
        };
        let mut buf = vec![0; 64 * 1024];
        match connection.wire.read(&mut buf, within).map_err(Failure::from) {
            Ok(0) => {
                self.end = if body.ends_with_connection() {
                    End::Closed
                } else {
                    End::Premature
                };
                false
            }
            Ok(n) => {
                self.take(&buf[..n]);
                true
            }
            Err(Failure::TimedOut) => false,
            Err(_) => {
                self.end = End::Reset;
                false
            }
        }
    }

    /// Reads until `enough` or the body is over or `within` has passed; says whether it is enough.
    pub fn read_until(&mut self, within: Duration, enough: impl Fn(&StreamClient) -> bool) -> bool {
        let deadline = Instant::now() + within;
        loop {
            if enough(self) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.end != End::Open || left.is_zero() {
                return false;
            }
            self.read_more(left);
        }
    }

    /// Reads until there are `n` events; says whether they came.
    pub fn wait_events(&mut self, n: usize, within: Duration) -> bool {
        self.read_until(within, |s| s.events().len() >= n)
    }

    /// Reads to the end of the body; [`End::Open`] if it does not end within the time.
    pub fn finish(&mut self, within: Duration) -> End {
        self.read_until(within, |s| s.end != End::Open);
        self.end
    }

    /// Reads to the end, with the patience of a client that was told nothing.
    pub fn read_all(&mut self) -> End {
        self.finish(PATIENCE)
    }

    /// Closes the connection now; over HTTP/2 resets the stream.
    pub fn abort(self) {
        if let Source::Two(answer) = &self.source {
            answer.reset();
        }
    }

    /// Resets the connection now.
    pub fn abort_with_reset(self) {
        match &self.source {
            Source::One(connection, _) => {
                let socket = &connection.wire.socket;
                let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
            }
            Source::Two(answer) => answer.session().reset(),
        }
    }

    /// The socket, to set its options.
    ///
    /// # Panics
    /// Over HTTP/2, where streams share it.
    pub fn socket(&self) -> &TcpStream {
        match &self.source {
            Source::One(connection, _) => &connection.wire.socket,
            Source::Two(_) => panic!("a stream has no socket of its own"),
        }
    }

    /// From the start of the request to the latest byte.
    pub fn elapsed(&self) -> Duration {
        self.pieces.last().map_or(self.head_at, |p| p.at) - self.started
    }

    pub(super) fn into_response(self, end: End) -> Response {
        self.into_parts(end).0
    }

    pub(super) fn into_parts(self, end: End) -> (Response, Option<Connection>) {
        let (body, elapsed) = (self.body(), self.elapsed());
        let closes = self
            .header("connection")
            .is_some_and(|v| v.eq_ignore_ascii_case("close"));
        let response = Response {
            status: self.status,
            headers: self.headers,
            body,
            elapsed,
            end,
        };
        let connection = match self.source {
            Source::One(connection, _) if end == End::Complete && !closes => Some(connection),
            _ => None,
        };
        (response, connection)
    }

    /// Takes what came with the head.
    fn take_early(&mut self) {
        if let Source::One(connection, _) = &mut self.source {
            let early = std::mem::take(&mut connection.inbox);
            self.take(&early);
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let Source::One(connection, body) = &mut self.source else {
            return;
        };
        let at = Instant::now();
        let mut data = Vec::new();
        match body.feed(bytes, &mut |b| data.extend_from_slice(b)) {
            Ok(used) => connection.inbox.extend_from_slice(&bytes[used..]),
            Err(_) => self.end = End::BadChunk,
        }
        if !data.is_empty() {
            self.pieces.push(Piece { at, bytes: data });
        }
        if body.is_done() {
            self.end = End::Complete;
        }
    }

    /// Takes what came over HTTP/2; says whether it was a part of the body.
    fn take_event(&mut self, event: Http2Event) -> bool {
        match event {
            Http2Event::Data(at, bytes) => {
                if let Source::Two(answer) = &self.source {
                    answer.took(bytes.len());
                }
                self.pieces.push(Piece { at, bytes });
                return true;
            }
            Http2Event::End(end) => self.end = end,
            Http2Event::Failed(Failure::Reset) => self.end = End::Reset,
            Http2Event::Failed(_) | Http2Event::Head(..) => self.end = End::Premature,
        }
        false
    }
}

fn read_head(connection: &mut Connection, deadline: Instant) -> Result<Head, Failure> {
    let mut buf = vec![0; 16 * 1024];
    loop {
        if let Some(end) = head_end(&connection.inbox) {
            let head = parse_head(&connection.inbox[..end]);
            connection.inbox.drain(..end);
            return Ok(head);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::TimedOut);
        }
        match connection.wire.read(&mut buf, left)? {
            0 => return Err(Failure::Closed),
            n => connection.inbox.extend_from_slice(&buf[..n]),
        }
    }
}
