//! TLS towards clients.

use super::encrypted::Encrypted;
use super::socket::Socket;
use super::{plainly, preface};
use rustls::ServerConfig;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;
use weighbridge_config::resolved::ServerTls;
use weighbridge_wire::ErrorBody;

/// Longest handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The names by which clients choose their protocol (RFC 7301), the better one first.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// What new connections are met with.
pub(crate) fn server_config(tls: &ServerTls) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let clients = match tls.identity.client_roots() {
        None => Arc::new(NoClientAuth),
        Some(roots) => WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| format!("server.tls.client_ca: {error}"))?,
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("server.tls: {error}"))?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(tls.identity.certified().clone())));
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}

/// What a client hears that speaks HTTP without TLS.
const SPEAKS_TLS: &str = "this port speaks TLS, and the request came without it: use https:// in the URL";

/// Shakes hands; gives the stream, and whether the client chose HTTP/2. None: it failed, which is logged.
pub(crate) async fn accept(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
    peer: SocketAddr,
) -> Option<(Encrypted, bool)> {
    let until = Instant::now() + HANDSHAKE;
    // A record of TLS begins with a byte that is no letter, a request of HTTP with the first letter of its method.
    let first = timeout_at(until, preface::first_byte(&stream)).await;
    if matches!(first, Ok(Ok(Some(byte))) if byte.is_ascii_alphabetic()) {
        tracing::debug!(%peer, "a client speaks plain HTTP where TLS is spoken");
        let error = ErrorBody::new(400, SPEAKS_TLS);
        let told = plainly::tell(&mut stream, &error);
        // Nobody waits longer for one who takes nothing than for one who says nothing.
        if let Ok(Ok(())) = timeout_at(until, told).await {
            Socket::new(stream).linger().await;
        }
        return None;
    }
    let shaking = TlsAcceptor::from(config).accept(stream).into_fallible();
    match timeout_at(until, shaking).await {
        Ok(Ok(stream)) => {
            let http2 = stream.get_ref().1.alpn_protocol() == Some(ALPN[0]);
            Some((Encrypted::new(stream), http2))
        }
        Ok(Err((error, stream))) => {
            let error = weighbridge_config::tls_io_error(&error);
            tracing::debug!(%peer, error, "TLS handshake failed");
            // So that the alert that says why is not lost with the connection.
            Socket::new(stream).linger().await;
            None
        }
        Err(_) => {
            tracing::debug!(%peer, "TLS handshake took longer than {HANDSHAKE:?}");
            None
        }
    }
}
