//! The connections of the admin listener: few, and none that only waits.
//!
//! They share the process's file descriptors with the data plane, and anybody who reaches the listener can open them
//! without a token. So there is a bound, below what is set aside for things that are no clients of the data plane, and
//! whoever neither sends nor takes a byte for long loses the connection.

use axum::serve::Listener;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Most connections; more wait to be accepted.
const MOST: usize = 64;
/// Longest silence on one.
const SILENCE: Duration = Duration::from_secs(30);

/// A listener that takes only so many connections at a time.
pub(crate) struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Bounded {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self {
            listener,
            places: Arc::new(Semaphore::new(MOST)),
        }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // Never closed, so always given.
        let place = self.places.clone().acquire_owned().await.ok();
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let connection = Connection {
            stream,
            silence: None,
            _place: place,
        };
        (connection, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Runs while a read waits and nothing is written.
    silence: Option<Pin<Box<Sleep>>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_ready() {
            self.silence = None;
            return read;
        }
        let silence = self
            .silence
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(SILENCE)));
        ready!(silence.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        if written.is_ready() {
            self.silence = None;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn pair() -> (Connection, TcpStream) {
        let mut listener = Bounded::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (listener.accept().await.0, client)
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_connection_and_bytes_do_not() {
        let (mut connection, mut client) = pair().await;
        let mut buffer = [0; 8];
        for _ in 0..3 {
            tokio::time::sleep(SILENCE - Duration::from_secs(1)).await;
            client.write_all(b"x").await.unwrap();
            assert_eq!(connection.read(&mut buffer).await.unwrap(), 1);
        }
        let began = tokio::time::Instant::now();
        let ended = connection.read(&mut buffer).await.unwrap_err();
        assert_eq!(
            (ended.kind(), began.elapsed()),
            (io::ErrorKind::TimedOut, SILENCE)
        );
    }
}
