//! Saying that the gateway serves, to people and to scripts.

use super::Started;
use crate::exit::Failure;
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// Logs the addresses and writes the ready file: whole or not at all.
pub(crate) fn announce(started: &Started, file: Option<&Path>) -> Result<(), Failure> {
    let listen = started.running.listen;
    let snapshot = started.running.gateway.snapshot();
    let routes: Vec<_> = snapshot.config.routes.iter().map(|route| &*route.name).collect();
    tracing::info!(%listen, routes = %routes.join(", "), "serving");
    if let Some(admin) = started.admin_listen {
        tracing::info!(listen = %admin, "admin API and metrics");
    }
    if let Some(token) = &started.token_file {
        tracing::info!(file = %token.path().display(), "the admin token is in this file");
    }
    let Some(file) = file else { return Ok(()) };
    let ready = json!({
        "listen": listen.to_string(),
        "admin": started.admin_listen.map(|admin| admin.to_string()),
        "pid": std::process::id(),
        "token_file": started.token_file.as_ref().map(|token| token.path()),
    });
    write_whole(file, &ready.to_string())
        .map_err(|error| Failure::Failed(format!("--ready-file {}: {error}", file.display())))
}

fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = std::fs::File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    drop(file);
    std::fs::rename(&beside, path)
}
