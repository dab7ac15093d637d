//! TLS before an upstream, on a port of its own: what comes through is handed on, bytes as they are.

use super::Upstream;
use crate::certificates::{Authority, Certificate};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

/// How a [`TlsFront`] greets.
pub struct TlsOptions<'a> {
    /// What it shows.
    pub identity: &'a Certificate,
    /// Whose certificates clients must show; none: they need not.
    pub clients: Option<&'a Authority>,
    /// Protocols it takes, best first, `h2` and `http/1.1`; empty: it knows nothing of such a choice.
    pub alpn: &'a [&'a str],
}

/// TLS before an upstream; dropping it closes its port.
pub struct TlsFront {
    addr: SocketAddr,
    quit: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TlsFront {
    /// Starts it before `upstream`, on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// If the certificates are none, or no port can be had.
    pub fn start(upstream: &Upstream, options: &TlsOptions<'_>) -> TlsFront {
        let config = Arc::new(config(options));
        let target = upstream.addr();
        let (tell, told) = mpsc::channel();
        let (quit, quitting) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("tls-front".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async {
                    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
                    let _ = tell.send(listener.local_addr().expect("an address"));
                    tokio::select! {
                        _ = quitting => {}
                        () = accept(listener, TlsAcceptor::from(config), target) => {}
                    }
                });
            });
        TlsFront {
            addr: told.recv().expect("it listens"),
            quit: Some(quit),
            thread: Some(thread.expect("a thread")),
        }
    }

    /// `https://HOST:PORT`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("https://{}", self.addr)
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        if let Some(quit) = self.quit.take() {
            let _ = quit.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn config(options: &TlsOptions<'_>) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions of TLS");
    let builder = match options.clients {
        Some(authority) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authority.roots()), provider);
            builder.with_client_cert_verifier(verifier.build().expect("an authority"))
        }
        None => builder.with_no_client_auth(),
    };
    let (chain, key) = options.identity.identity();
    let mut config = builder.with_single_cert(chain, key).expect("a certificate");
    config.alpn_protocols = options.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, target: SocketAddr) {
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let Ok(mut outer) = acceptor.accept(stream).await else {
                return;
            };
            let Ok(mut inner) = TcpStream::connect(target).await else {
                return;
            };
            let _ = inner.set_nodelay(true);
            let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
        });
    }
}
