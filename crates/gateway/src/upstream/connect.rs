//! Making a connection to an endpoint.

use super::link::Link;
use crate::snapshot::Upstream;
use rustls::pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Why no connection could be made.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// The port is closed.
    Refused,
    /// Not in time.
    Timeout,
    /// The name, the route or TLS; the text is for the log.
    Other(String),
}

/// A plain or encrypted stream.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects before `deadline`.
pub(crate) async fn connect(upstream: &Upstream, deadline: Instant) -> Result<Link, ConnectError> {
    let opened = match tokio::time::timeout_at(deadline, open(upstream)).await {
        Ok(opened) => opened,
        Err(_) => Err(ConnectError::Timeout),
    };
    if let (Err(_), Some(bell)) = (&opened, &upstream.pool.bell) {
        bell.notify_one();
    }
    opened
}

/// Connects without TLS to an address; the caller bounds the time.
pub(crate) async fn connect_to(address: std::net::SocketAddr) -> Result<Link, ConnectError> {
    let other = |error: &dyn std::fmt::Display| ConnectError::Other(format!("connecting: {error}"));
    let stream = TcpStream::connect(address).await.map_err(|error| other(&error))?;
    Link::open(Stream::Plain(stream))
        .await
        .map_err(|error| other(&error))
}

async fn open(upstream: &Upstream) -> Result<Link, ConnectError> {
    let host = upstream.url.host.as_str();
    let stream = upstream
        .addresses
        .connect()
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => ConnectError::Refused,
            io::ErrorKind::TimedOut => ConnectError::Timeout,
            _ => ConnectError::Other(format!("connecting: {error}")),
        })?;
    stream
        .set_nodelay(true)
        .map_err(|error| ConnectError::Other(format!("TCP_NODELAY: {error}")))?;
    let stream = match &upstream.pool.tls {
        Some(config) if upstream.url.https => {
            let name = upstream
                .pool
                .config
                .tls
                .server_name
                .as_deref()
                .unwrap_or(host)
                .to_owned();
            let name = ServerName::try_from(name).map_err(|_| {
                ConnectError::Other("TLS: the host is no name that a certificate can hold".into())
            })?;
            let connector = TlsConnector::from(config.clone());
            let encrypted = connector.connect(name, stream).await;
            Stream::Tls(Box::new(
                encrypted.map_err(|error| ConnectError::Other(format!("TLS: {error}")))?,
            ))
        }
        _ => Stream::Plain(stream),
    };
    Link::open(stream)
        .await
        .map_err(|error| ConnectError::Other(format!("HTTP: {error}")))
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
