//! The admin listener: metrics, health, and the API over a running gateway. Reads snapshots and sends commands; cannot
//! block traffic.
//!
//! Everything that is served stands in one table ([`table`]): the router, the check of who may ask, and the OpenAPI
//! document derive from it, so that they cannot differ.

mod answer;
mod api;
mod connections;
mod guard;
mod names;
mod openapi;
mod router;
mod table;
#[cfg(test)]
mod tests;

use secrecy::ExposeSecret;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use weighbridge_gateway::Gateway;
use weighbridge_gateway::reload::Reloader;

/// What the admin listener works with.
#[derive(Clone)]
pub struct Admin {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// Reloads its config; none where it was started without a file.
    pub reloader: Option<Arc<Reloader>>,
    /// The bearer token of everything that is not public, until a reload of the config names another.
    pub token: Arc<str>,
}

/// As handlers see it.
struct Served {
    admin: Admin,
    /// Where the listener is bound.
    listen: SocketAddr,
}

impl Served {
    /// Whether `given` is the token: the one that the config names now, else the one of the start. Takes the same time
    /// for every wrong token of the right length.
    fn is_token(&self, given: &[u8]) -> bool {
        use subtle::ConstantTimeEq;
        let snapshot = self.admin.gateway.snapshot();
        let configured = snapshot.config.admin.token.as_ref();
        let token = configured.map_or(&*self.admin.token, |token| token.expose_secret());
        !token.is_empty() && bool::from(token.as_bytes().ct_eq(given))
    }
}

/// Serves on `listener` for ever.
///
/// # Errors
/// If the listener fails for good.
pub async fn serve(admin: Admin, listener: TcpListener) -> std::io::Result<()> {
    let listen = listener.local_addr()?;
    let router = router::router(Served { admin, listen });
    let listener = connections::Bounded::new(tokio::net::TcpListener::from_std(listener)?);
    axum::serve(listener, router).await
}
