//! What the demo came to, for machines and for its last lines.

use super::ledger::{Failure, Kill, Ledger};
use super::memory::resident_bytes;
use serde::Serialize;
use std::collections::BTreeMap;
use weighbridge_gateway::Gateway;

/// Everything that `--json` prints.
#[derive(Serialize)]
pub(super) struct Summary {
    /// Always true: nothing that was measured here is of a real engine.
    simulated: bool,
    seconds: f64,
    pub(super) requests: u64,
    pub(super) ok: u64,
    client_closed: u64,
    client_error: u64,
    pub(super) failed: Failed,
    pub(super) kills: Kills,
    at_end: AtEnd,
    rss_bytes: Rss,
}

/// Requests that failed.
#[derive(Serialize)]
pub(super) struct Failed {
    pub(super) total: u64,
    by_outcome: BTreeMap<String, u64>,
    /// Not explained by the death of an engine that had the request.
    pub(super) unexplained: u64,
    /// The newest of them.
    requests: Vec<Failure>,
}

/// Engines that were killed.
#[derive(Serialize)]
pub(super) struct Kills {
    pub(super) total: u64,
    /// The newest of them.
    list: Vec<Kill>,
}

/// Counts after the last request, all of which should be 0.
#[derive(Serialize)]
struct AtEnd {
    running: usize,
    cut: usize,
    inflight: BTreeMap<String, u32>,
    route_requests: BTreeMap<String, u32>,
}

/// Resident memory of the process.
#[derive(Serialize)]
struct Rss {
    /// By second after the start.
    marks: BTreeMap<u64, u64>,
    end: Option<u64>,
}

impl Summary {
    /// Takes stock of a gateway that has drained; `cut`: requests that did not end by themselves.
    pub(super) fn of(gateway: &Gateway, ledger: &Ledger, cut: usize) -> Self {
        let view = gateway.view();
        let end = resident_bytes();
        let book = ledger.book().clone();
        let total = book.failed();
        let (ok, client_closed, client_error) = (
            book.count("ok"),
            book.count("client_closed"),
            book.count("client_error"),
        );
        let by_outcome = book
            .outcomes
            .into_iter()
            .filter(|(word, _)| !matches!(word.as_str(), "ok" | "client_closed" | "client_error"));
        Self {
            simulated: true,
            seconds: gateway.clock().uptime().as_secs_f64(),
            requests: book.requests,
            ok,
            client_closed,
            client_error,
            failed: Failed {
                total,
                by_outcome: by_outcome.collect(),
                unexplained: book.unexplained,
                requests: book.failures.into(),
            },
            kills: Kills {
                total: book.killed,
                list: book.kills.into(),
            },
            at_end: AtEnd {
                running: gateway.lifecycle.running(),
                cut,
                inflight: (view.endpoints.iter())
                    .map(|endpoint| (format!("{}/{}", endpoint.pool, endpoint.name), endpoint.inflight))
                    .collect(),
                route_requests: (view.routes.iter())
                    .map(|route| (route.name.to_string(), route.requests))
                    .collect(),
            },
            rss_bytes: Rss {
                marks: ledger.memory.marks().into_iter().collect(),
                end,
            },
        }
    }
}
