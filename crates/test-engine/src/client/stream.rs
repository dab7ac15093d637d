//! An answer as it comes.

use super::request::{Connection, Failure, Pending};
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
    /// The peer reset the connection before the end.
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
    connection: Connection,
    body: Body,
    pieces: Vec<Piece>,
    end: End,
}

impl StreamClient {
    pub(super) fn start(pending: Pending, within: Duration) -> Result<StreamClient, Failure> {
        let Pending {
            mut connection,
            started,
            is_head,
        } = pending;
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
            connection,
            body,
            pieces: Vec::new(),
            end: End::Open,
        };
        let early = std::mem::take(&mut stream.connection.inbox);
        stream.take(&early);
        Ok(stream)
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
        let mut buf = vec![0; 64 * 1024];
        let timeout = within.max(Duration::from_millis(1));
        let read = self
            .connection
            .socket
            .set_read_timeout(Some(timeout))
            .and_then(|()| receive(&mut self.connection.socket, &mut buf));
        match read.map_err(Failure::from) {
            Ok(0) => {
                self.end = if self.body.ends_with_connection() {
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

    /// Closes the connection now.
    pub fn abort(self) {
        drop(self);
    }

    /// Resets the connection now.
    pub fn abort_with_reset(self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.connection.socket, Some(Duration::ZERO));
    }

    /// The socket, to set its options.
    pub fn socket(&self) -> &TcpStream {
        &self.connection.socket
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
        (
            response,
            (end == End::Complete && !closes).then_some(self.connection),
        )
    }

    fn take(&mut self, bytes: &[u8]) {
        let at = Instant::now();
        let mut data = Vec::new();
        match self.body.feed(bytes, &mut |b| data.extend_from_slice(b)) {
            Ok(used) => self.connection.inbox.extend_from_slice(&bytes[used..]),
            Err(_) => self.end = End::BadChunk,
        }
        if !data.is_empty() {
            self.pieces.push(Piece { at, bytes: data });
        }
        if self.body.is_done() {
            self.end = End::Complete;
        }
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
        connection.socket.set_read_timeout(Some(left))?;
        match receive(&mut connection.socket, &mut buf)? {
            0 => return Err(Failure::Closed),
            n => connection.inbox.extend_from_slice(&buf[..n]),
        }
    }
}
