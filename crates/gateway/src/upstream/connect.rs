//! Making a connection to an endpoint.

use super::alert;
use super::http1::Exclusive;
use super::http2::connection::{self, Connection};
use super::http2::hub::Hub;
use super::http2::stream;
use super::link::Link;
use crate::snapshot::Upstream;
use rustls::pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weighbridge_config::resolved::HttpVersion;

/// Why no connection could be made.
#[derive(Clone, Debug)]
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

/// A new connection.
pub(crate) enum Opened {
    /// For one exchange at a time.
    Http1(Link),
    /// For many.
    Http2(Rc<Connection>),
}

/// Connects within the pool's time. Whoever waits for a stream of a connection that can be shared waits at `hub`.
pub(crate) async fn connect(upstream: &Upstream, hub: Weak<Hub>) -> Result<Opened, ConnectError> {
    let deadline = Instant::now() + upstream.pool.config.timeouts.connect;
    open_before(upstream, hub, deadline).await
}

/// Connects before `deadline`, for one exchange.
pub(crate) async fn connect_once(upstream: &Upstream, deadline: Instant) -> Result<Link, ConnectError> {
    Ok(match open_before(upstream, Weak::new(), deadline).await? {
        Opened::Http1(link) => link,
        Opened::Http2(connection) => stream::of(connection),
    })
}

/// Connects before `deadline`; where that fails, whoever knows the endpoint's addresses is told.
async fn open_before(upstream: &Upstream, hub: Weak<Hub>, deadline: Instant) -> Result<Opened, ConnectError> {
    let opened = tokio::time::timeout_at(deadline, open(upstream, hub)).await;
    let opened = opened.unwrap_or(Err(ConnectError::Timeout));
    if let (Err(_), Some(bell)) = (&opened, &upstream.pool.bell) {
        bell.notify_one();
    }
    opened
}

/// Connects without TLS to an address; the caller bounds the time.
pub(crate) async fn connect_to(address: std::net::SocketAddr) -> Result<Link, ConnectError> {
    let other = |error: &dyn std::fmt::Display| ConnectError::Other(format!("connecting: {error}"));
    let stream = TcpStream::connect(address).await.map_err(|error| other(&error))?;
    let connection = Exclusive::open(Stream::Plain(stream)).await;
    connection
        .map(|connection| Link::exclusive(connection, None))
        .map_err(|error| other(&error))
}

async fn open(upstream: &Upstream, hub: Weak<Hub>) -> Result<Opened, ConnectError> {
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
                encrypted.map_err(|error| refused_tls(&error, upstream.shows_certificate()))?,
            ))
        }
        _ => Stream::Plain(stream),
    };
    if speaks_http2(&stream, upstream.pool.config.http)? {
        let settings = (&upstream.pool, upstream.url.https);
        return connection::open(stream, settings, hub).await.map(Opened::Http2);
    }
    Exclusive::open(stream)
        .await
        .map(|connection| Opened::Http1(Link::exclusive(connection, Some(upstream.pool.clone()))))
        .map_err(|error| ConnectError::Other(format!("HTTP: {error}")))
}

/// What kept the peers from understanding each other.
fn refused_tls(error: &io::Error, shows: bool) -> ConnectError {
    ConnectError::Other(match alert::of(error) {
        Some(rustls::AlertDescription::NoApplicationProtocol) => NO_ALPN.to_owned(),
        Some(alert) => alert::text(alert, shows),
        None => format!("TLS: {}", weighbridge_config::tls_io_error(error)),
    })
}

const NO_ALPN: &str = "TLS: the peer offers no version of HTTP that the pool allows (ALPN)";

/// Whether the peer is spoken to in HTTP/2: over TLS it has chosen, without TLS the pool has.
fn speaks_http2(stream: &Stream, http: HttpVersion) -> Result<bool, ConnectError> {
    let Stream::Tls(stream) = stream else {
        return Ok(http == HttpVersion::Two);
    };
    let chosen = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    if http == HttpVersion::Two && !chosen {
        return Err(ConnectError::Other(NO_ALPN.to_owned()));
    }
    Ok(chosen)
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
