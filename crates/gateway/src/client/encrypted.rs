//! A client's stream under TLS. What lies below is sealed, so a look at what has come must read it through: what the
//! codec has not asked for yet waits here for it.

use super::socket::Incoming;
use bytes::{Buf, BytesMut};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Most that is read ahead of the codec, bytes: one look tells that something came, and no more is taken then.
const AHEAD_MAX: usize = 1024;

/// A TLS stream after its handshake.
pub(crate) struct Encrypted {
    stream: TlsStream<TcpStream>,
    /// Read, and not yet given to the codec.
    ahead: BytesMut,
    /// The client has closed its sending half, with or without TLS's own word for it. Requests say their length
    /// themselves, so that a bare FIN cuts none short unnoticed.
    ended: bool,
}

impl Encrypted {
    pub(crate) fn new(stream: TlsStream<TcpStream>) -> Self {
        Self {
            stream,
            ahead: BytesMut::new(),
            ended: false,
        }
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        self.stream.get_ref().0
    }

    /// For writing.
    pub(crate) fn tls(&mut self) -> &mut TlsStream<TcpStream> {
        &mut self.stream
    }

    /// Whether sealed bytes wait for the client to read.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.stream.get_ref().1.wants_write()
    }

    /// Waits until something arrives, and keeps it for the codec.
    pub(crate) fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Incoming> {
        if !self.ahead.is_empty() {
            return Poll::Ready(Incoming::Bytes);
        }
        let mut room = [0; AHEAD_MAX];
        let mut read = ReadBuf::new(&mut room);
        if ready!(self.poll_below(cx, &mut read)).is_err() {
            return Poll::Ready(Incoming::Broken);
        }
        self.ahead.extend_from_slice(read.filled());
        Poll::Ready(if self.ahead.is_empty() {
            Incoming::End
        } else {
            Incoming::Bytes
        })
    }

    /// For the codec: what was read ahead first.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return self.poll_below(cx, buf);
        }
        let now = self.ahead.len().min(buf.remaining());
        buf.put_slice(&self.ahead[..now]);
        self.ahead.advance(now);
        Poll::Ready(Ok(()))
    }

    fn poll_below(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ended {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        match ready!(Pin::new(&mut self.stream).poll_read(cx, buf)) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.ended = true,
            Err(error) => return Poll::Ready(Err(error)),
            Ok(()) => self.ended = buf.filled().len() == before && buf.remaining() > 0,
        }
        Poll::Ready(Ok(()))
    }

    /// Seals and writes `bytes`; what the kernel does not take now goes out before the codec's next bytes.
    pub(crate) fn write_now(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> io::Result<usize> {
        let written = match Pin::new(&mut self.stream).poll_write(cx, bytes) {
            Poll::Ready(written) => written?,
            Poll::Pending => 0,
        };
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(flushed) => flushed.map(|()| written),
            Poll::Pending => Ok(written),
        }
    }
}
