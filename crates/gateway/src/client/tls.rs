//! TLS towards clients.

use super::encrypted::Encrypted;
use super::socket::Socket;
use rustls::ServerConfig;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use weighbridge_config::resolved::ServerTls;

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

/// Shakes hands; gives the stream, and whether the client chose HTTP/2. None: it failed, which is logged.
pub(crate) async fn accept(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    peer: SocketAddr,
) -> Option<(Encrypted, bool)> {
    let shaking = TlsAcceptor::from(config).accept(stream).into_fallible();
    match tokio::time::timeout(HANDSHAKE, shaking).await {
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
