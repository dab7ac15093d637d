//! The admin listener: metrics, the API over a running gateway. Reads snapshots and sends commands; cannot block traffic.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use std::net::TcpListener;
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
    /// The bearer token of everything that is not public.
    pub token: Arc<str>,
}

/// Serves on `listener` for ever.
///
/// # Errors
/// If the listener fails for good.
pub async fn serve(admin: Admin, listener: TcpListener) -> std::io::Result<()> {
    let router = Router::new().route("/metrics", get(metrics)).with_state(admin);
    axum::serve(tokio::net::TcpListener::from_std(listener)?, router).await
}

async fn metrics(State(admin): State<Admin>) -> String {
    admin.gateway.metrics().encode()
}
