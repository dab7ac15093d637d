//! A client's stream, plain or encrypted, shared between the HTTP codec and the watch over the client's presence.

use super::encrypted::Encrypted;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// How long what was written may stay unacknowledged, or wait for a client that reads nothing, until the client counts
/// as gone.
pub(crate) const TAKES_NOTHING: Duration = Duration::from_secs(60);
/// How long, and how far, a client is listened to that has its answer and still sends.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_MAX: usize = 64 << 20;

/// Clones share one stream; all of them are used by one task only.
#[derive(Clone)]
pub(crate) struct Socket(Rc<Shared>);

struct Shared {
    stream: RefCell<Stream>,
    /// The codec has bytes that the kernel would not take.
    clogged: Cell<bool>,
}

/// What the bytes go through.
enum Stream {
    Plain(TcpStream),
    Tls(Box<Encrypted>),
}

impl Stream {
    /// What lies below.
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.tcp(),
        }
    }
}

/// What a look at the receiving side found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// More bytes wait: a pipelined request.
    Bytes,
    /// The client closed its sending half, or all.
    End,
    /// The connection is broken.
    Broken,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self::over(Stream::Plain(stream))
    }

    pub(crate) fn encrypted(stream: Encrypted) -> Self {
        Self::over(Stream::Tls(Box::new(stream)))
    }

    fn over(stream: Stream) -> Self {
        Self(Rc::new(Shared {
            stream: RefCell::new(stream),
            clogged: Cell::new(false),
        }))
    }

    /// Sets what a client's connection needs: small writes leave at once, and neither a client that vanished without a
    /// word nor one that reads nothing holds an engine for ever.
    pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let socket = socket2::SockRef::from(stream);
        let alive = socket2::TcpKeepalive::new()
            .with_time(TAKES_NOTHING)
            .with_interval(TAKES_NOTHING / 4);
        socket.set_tcp_keepalive(&alive)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(TAKES_NOTHING))?;
        Ok(())
    }

    /// Whether bytes of an answer still wait for the client to read.
    pub(crate) fn is_clogged(&self) -> bool {
        match &*self.0.stream.borrow() {
            Stream::Plain(_) => self.0.clogged.get(),
            Stream::Tls(stream) => stream.has_unwritten(),
        }
    }

    /// Ends the sending half, then reads on and throws away what comes, until the client has closed too.
    ///
    /// Closing a socket with unread bytes makes the kernel send a reset, which can take the answer away that lies
    /// unread at the client (RFC 9112, section 9.6). Bounded in time and bytes.
    pub(crate) async fn linger(&self) {
        let mut socket = self.clone();
        if socket.shutdown().await.is_err() {
            return;
        }
        let until = Instant::now() + LINGER;
        let mut thrown_away = 0;
        let mut buffer = vec![0; 16 * 1024];
        while thrown_away < LINGER_MAX {
            match timeout_at(until, socket.read(&mut buffer)).await {
                Ok(Ok(read @ 1..)) => thrown_away += read,
                _ => return,
            }
        }
    }

    /// Waits until something arrives, without taking it.
    ///
    /// Shares the read waker with the codec, which does not read while it answers; both run in one task.
    pub(crate) fn poll_incoming(&self, cx: &mut Context<'_>) -> Poll<Incoming> {
        let mut stream = self.0.stream.borrow_mut();
        let stream = match &mut *stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => return stream.poll_incoming(cx),
        };
        loop {
            if ready!(stream.poll_read_ready(cx)).is_err() {
                return Poll::Ready(Incoming::Broken);
            }
            let mut byte = [std::mem::MaybeUninit::uninit()];
            let peeked = stream.try_io(Interest::READABLE, || {
                socket2::SockRef::from(&*stream).peek(&mut byte)
            });
            match peeked {
                Ok(0) => return Poll::Ready(Incoming::End),
                Ok(_) => return Poll::Ready(Incoming::Bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Poll::Ready(Incoming::Broken),
            }
        }
    }

    /// Whether a FIN has come, whatever lies unread before it; asks nothing of the kernel and wakes nobody.
    pub(crate) fn peer_has_closed(&self, cx: &mut Context<'_>) -> bool {
        let stream = self.0.stream.borrow();
        let ready = pin!(stream.tcp().ready(Interest::READABLE)).poll(cx);
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    /// Whether the peer has answered our last bytes with a reset.
    pub(crate) fn is_broken(&self) -> bool {
        let stream = self.0.stream.borrow();
        let socket = socket2::SockRef::from(stream.tcp());
        let mut byte = [std::mem::MaybeUninit::uninit()];
        match socket.take_error() {
            Ok(None) => match socket.peek(&mut byte) {
                Ok(_) => false,
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            },
            _ => true,
        }
    }

    /// Writes bytes past the codec, which must stand between two messages. False: not all fitted.
    pub(crate) fn write_now(&self, bytes: &[u8], cx: &mut Context<'_>) -> bool {
        if self.is_clogged() {
            return false;
        }
        let written = match &mut *self.0.stream.borrow_mut() {
            Stream::Plain(stream) => stream.try_write(bytes),
            Stream::Tls(stream) => stream.write_now(bytes, cx),
        };
        written.is_ok_and(|written| written == bytes.len())
    }

    /// Notes whether `written` bytes are all of the `wanted` that the codec had.
    fn wrote(&self, written: Poll<io::Result<usize>>, wanted: usize) -> Poll<io::Result<usize>> {
        let all = matches!(&written, Poll::Ready(Ok(written)) if *written >= wanted);
        self.0.clogged.set(!all);
        written
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self.0.stream.borrow_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => stream.poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = match &mut *self.0.stream.borrow_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => return Pin::new(stream.tls()).poll_write(cx, buf),
        };
        self.wrote(written, buf.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut *self.0.stream.borrow_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Tls(stream) => return Pin::new(stream.tls()).poll_write_vectored(cx, bufs),
        };
        self.wrote(written, bufs.iter().map(|buf| buf.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        match &*self.0.stream.borrow() {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(_) => true,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.0.stream.borrow_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream.tls()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.0.stream.borrow_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream.tls()).poll_shutdown(cx),
        }
    }
}
