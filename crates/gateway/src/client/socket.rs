//! A client's TCP stream, shared between the HTTP codec and the watch over the client's presence.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// Clones share one stream; all of them are used by one task only.
#[derive(Clone)]
pub(crate) struct Socket(Rc<RefCell<TcpStream>>);

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
        Self(Rc::new(RefCell::new(stream)))
    }

    /// Waits until something arrives, without taking it.
    ///
    /// Shares the read waker with the codec, which does not read while it answers; both run in one task.
    pub(crate) fn poll_incoming(&self, cx: &mut Context<'_>) -> Poll<Incoming> {
        let stream = self.0.borrow();
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

    /// Whether the peer has answered our last bytes with a reset.
    pub(crate) fn is_broken(&self) -> bool {
        let stream = self.0.borrow();
        let socket = socket2::SockRef::from(&*stream);
        let mut byte = [std::mem::MaybeUninit::uninit()];
        match socket.take_error() {
            Ok(None) => match socket.peek(&mut byte) {
                Ok(_) => false,
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            },
            _ => true,
        }
    }

    /// Writes bytes past the codec, which must have written nothing of its answer yet. False: not all fitted.
    pub(crate) fn write_now(&self, bytes: &[u8]) -> bool {
        self.0
            .borrow()
            .try_write(bytes)
            .is_ok_and(|written| written == bytes.len())
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.borrow().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_shutdown(cx)
    }
}
