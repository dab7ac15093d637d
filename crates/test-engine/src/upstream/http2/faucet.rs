//! A socket whose owner can slip frames of its own between those of the codec, or fall silent.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::super::state::lock;

/// Bytes of a frame's head (RFC 9113, section 4.1).
const HEAD: usize = 9;

/// What happens at the socket beside the codec's own doing.
#[derive(Default)]
pub(super) struct Valve {
    /// Whole frames, sent at the next boundary.
    pub(super) frames: Vec<u8>,
    /// Nothing is read or written any more.
    pub(super) silent: bool,
}

/// The socket.
pub(super) struct Faucet {
    pub(super) stream: Arc<TcpStream>,
    pub(super) valve: Arc<Mutex<Valve>>,
    /// The head of the frame that is being written, as far as it has been.
    head: Vec<u8>,
    /// Bytes of its payload that are still to come.
    left: usize,
}

impl Faucet {
    pub(super) fn new(stream: Arc<TcpStream>, valve: Arc<Mutex<Valve>>) -> Faucet {
        Faucet {
            stream,
            valve,
            head: Vec::new(),
            left: 0,
        }
    }

    fn at_boundary(&self) -> bool {
        self.left == 0 && self.head.is_empty()
    }

    /// Follows the frames in what has been written.
    fn written(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let n = self.left.min(bytes.len());
                self.left -= n;
                bytes = &bytes[n..];
                continue;
            }
            let n = (HEAD - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if self.head.len() == HEAD {
                self.left = usize::from(self.head[0]) << 16
                    | usize::from(self.head[1]) << 8
                    | usize::from(self.head[2]);
                self.head.clear();
            }
        }
    }

    fn poll_raw(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            match self.stream.try_write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// Writes the frames that wait, where they fit.
    fn poll_frames(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let valve = self.valve.clone();
        let mut valve = lock(&valve);
        while self.at_boundary() && !valve.frames.is_empty() {
            let n = ready!(self.poll_raw(cx, &valve.frames))?;
            valve.frames.drain(..n);
        }
        Poll::Ready(Ok(()))
    }

    fn is_silent(&self) -> bool {
        lock(&self.valve).silent
    }
}

impl AsyncRead for Faucet {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_silent() {
            return Poll::Pending;
        }
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read(buf.initialize_unfilled()) {
                Ok(n) => {
                    buf.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }
}

impl AsyncWrite for Faucet {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_silent() {
            return Poll::Pending;
        }
        ready!(self.poll_frames(cx))?;
        let whole = match (lock(&self.valve).frames.is_empty(), self.left) {
            (true, _) => buf.len(),
            // Only to the end of what has begun: the frames that wait come next.
            (false, 0) => (HEAD - self.head.len()).min(buf.len()),
            (false, left) => left.min(buf.len()),
        };
        let n = ready!(self.poll_raw(cx, &buf[..whole]))?;
        self.written(&buf[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_silent() {
            return Poll::Pending;
        }
        self.poll_frames(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(&*self.stream, rustix::net::Shutdown::Write).map_err(Into::into))
    }
}

/// A GOAWAY that says `last` was the last stream to be worked on (RFC 9113, section 6.8).
pub(super) fn goaway(last: u32, code: h2::Reason) -> Vec<u8> {
    let mut frame = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
    frame.extend_from_slice(&last.to_be_bytes());
    frame.extend_from_slice(&u32::from(code).to_be_bytes());
    frame
}

/// What no peer understands: DATA on stream 0 (RFC 9113, section 6.1).
pub(super) fn garbage() -> Vec<u8> {
    vec![0, 0, 1, 0, 0, 0, 0, 0, 0, b'x']
}
