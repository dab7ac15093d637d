//! The gateway of the demo: its config, which is shown as a file could hold it, and its start.

use super::Args;
use super::fleet::Fleet;
use super::ledger::{Ledger, Tap};
use crate::commands::serve::{self, Started};
use crate::exit::Failure;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use weighbridge_gateway::server;

/// Where the gateway listens unless told otherwise.
const LISTEN_PORT: u16 = 8800;
/// Where its admin listener is.
const ADMIN_PORT: u16 = 8801;

/// Starts the gateway in front of `fleet`; its request log goes to `ledger`.
pub(super) fn begin(args: &Args, fleet: &Fleet, ledger: &Arc<Ledger>) -> Result<Started, Failure> {
    let listen = args.listen.unwrap_or_else(|| usual_or_free(LISTEN_PORT));
    let admin = args.admin.unwrap_or_else(|| usual_or_free(ADMIN_PORT));
    let loaded = weighbridge_config::load_str("the demo's config", &config(fleet, listen, admin), &|_| None)
        .map_err(|problems| Failure::BadInput(format!("the demo cannot be configured\n{problems}")))?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let request_log = Box::new(Tap::new(ledger.clone()));
    serve::begin(loaded.config, (None, request_log), cores)
}

fn usual_or_free(port: u16) -> SocketAddr {
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match server::bind(usual) {
        Ok(_) => usual,
        Err(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    }
}

/// The config as text. Each route falls back to the other, and a request may visit every engine there is.
fn config(fleet: &Fleet, listen: SocketAddr, admin: SocketAddr) -> String {
    let mut text = format!(
        "server: {{listen: \"{listen}\", drain_timeout: 10s, max_connections: 1000}}\n\
         admin: {{listen: \"{admin}\"}}\n\
         auth: none\n\
         log: {{level: warn, requests: all}}\n\
         pools:\n"
    );
    for pool in pools(fleet) {
        let _ = write!(
            text,
            "  - name: {pool}\n    kind: vllm\n    model: {pool}\n    endpoints:\n"
        );
        for engine in fleet.engines.iter().filter(|engine| engine.pool == pool) {
            let (name, address) = (engine.name, engine.address);
            let _ = writeln!(text, "      - {{name: {name}, url: \"http://{address}\"}}");
        }
    }
    let attempts = fleet.engines.len();
    text.push_str("routes:\n");
    for pool in pools(fleet) {
        let _ = write!(
            text,
            "  - name: {pool}\n    targets: [{pool}]\n    policies: {{session_affinity: {{}}, least_inflight: {{}}}}\n    \
             retry: {{max_attempts: {attempts}}}\n"
        );
        let others: Vec<_> = pools(fleet)
            .into_iter()
            .filter(|other| *other != pool)
            .map(|other| format!("{{route: {other}, on: [unavailable]}}"))
            .collect();
        let _ = writeln!(text, "    fallback: [{}]", others.join(", "));
    }
    text
}

/// The pools' names, each once, in order.
pub(super) fn pools(fleet: &Fleet) -> Vec<&'static str> {
    let mut names: Vec<_> = fleet.engines.iter().map(|engine| engine.pool).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_config_is_one_that_check_would_pass_without_a_word() {
        let fleet = Fleet::start(1.0, 1).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let loaded =
            weighbridge_config::load_str("demo", &config(&fleet, address, address), &|_| None).unwrap();
        // Its routes back each other up, and are meant to.
        let others = loaded.warnings.iter().map(ToString::to_string);
        assert_eq!(others.filter(|told| !told.contains("in a circle")).count(), 0);
        let names: Vec<_> = loaded.config.routes.iter().map(|route| &*route.name).collect();
        assert_eq!(names, ["llama-8b", "mini"]);
    }
}
