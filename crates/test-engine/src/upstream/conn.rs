//! One TCP connection of an upstream: bytes in and out, and what the peer does meanwhile.

use super::http2::Reply;
use crate::clock;
use crate::http1::{Body, Head, head_end, parse_head};
use std::io;
use tokio::net::TcpStream;

/// Most bytes kept of what a peer sends while it is being answered.
const INBOX_MAX: usize = 64 << 20;
const HEAD_MAX: usize = 1 << 20;

/// Why an answer stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The peer closed or reset the connection.
    Gone,
    /// The mode asks for the connection to be closed here.
    Cut { rst: bool },
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Stop {
        Stop::Gone
    }
}

/// Where an answer goes.
pub(crate) enum Out<'a> {
    Http1(&'a TcpStream),
    Http2(&'a Reply),
}

impl Out<'_> {
    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, Out::Http2(_))
    }

    /// Writes all of `data`, as fast as the peer takes it.
    pub(crate) async fn send(&self, data: &[u8]) -> Result<(), Stop> {
        match self {
            Out::Http1(stream) => send(stream, data).await,
            Out::Http2(reply) => reply.send(data).await,
        }
    }

    /// Ends an answer whose framing needs no more than that.
    pub(crate) fn end(&self) -> Result<(), Stop> {
        match self {
            Out::Http1(_) => Ok(()),
            Out::Http2(reply) => reply.end(),
        }
    }
}

/// The connection, with what has been read and not yet used.
pub(crate) struct Conn {
    pub(crate) stream: TcpStream,
    pub(crate) id: u64,
    pub(crate) requests: u64,
    pub(crate) inbox: Vec<u8>,
    /// The peer will send no more.
    pub(crate) eof: bool,
}

impl Conn {
    /// Reads the next head; `None` when the peer closes instead or sends no head within bounds.
    pub(crate) async fn head(&mut self) -> Result<Option<Head>, Stop> {
        loop {
            if let Some(end) = head_end(&self.inbox) {
                let head = parse_head(&self.inbox[..end]);
                self.inbox.drain(..end);
                return Ok(Some(head));
            }
            if self.inbox.len() > HEAD_MAX || !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// Reads the body that follows `head`.
    pub(crate) async fn body(&mut self, head: &Head) -> Result<Vec<u8>, Stop> {
        let mut body = Body::of_request(head);
        let mut out = Vec::new();
        loop {
            let used = body
                .feed(&self.inbox, &mut |b| out.extend_from_slice(b))
                .map_err(|_| Stop::Gone)?;
            self.inbox.drain(..used);
            if body.is_done() {
                return Ok(out);
            }
            if !self.fill().await? {
                return Err(Stop::Gone);
            }
        }
    }

    async fn fill(&mut self) -> Result<bool, Stop> {
        let more = read_some(&self.stream, &mut self.inbox).await?;
        self.eof |= !more;
        Ok(more)
    }
}

async fn read_some(stream: &TcpStream, inbox: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        stream.readable().await?;
        inbox.reserve(16 * 1024);
        match stream.try_read_buf(inbox) {
            Ok(n) => return Ok(n > 0),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
}

/// How the peer ended its side while it was being answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerEnd {
    pub(crate) at: f64,
    /// It reset the connection; else it closed or half-closed, which look alike.
    pub(crate) reset: bool,
}

/// Keeps what the peer sends beside the answer, until it closes.
pub(crate) async fn watch_peer(stream: &TcpStream, inbox: &mut Vec<u8>) -> PeerEnd {
    loop {
        if inbox.len() > INBOX_MAX {
            return std::future::pending().await;
        }
        match read_some(stream, inbox).await {
            Ok(true) => {}
            Ok(false) => {
                return PeerEnd {
                    at: clock::now(),
                    reset: false,
                };
            }
            Err(_) => {
                return PeerEnd {
                    at: clock::now(),
                    reset: true,
                };
            }
        }
    }
}

/// Writes all of `data`, as fast as the peer takes it.
pub(crate) async fn send(stream: &TcpStream, mut data: &[u8]) -> Result<(), Stop> {
    while !data.is_empty() {
        stream.writable().await?;
        match stream.try_write(data) {
            Ok(n) => data = &data[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
