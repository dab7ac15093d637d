//! Stopping: what SIGTERM, SIGINT and SIGHUP do.

use crate::commands::count;
use crate::exit::Failure;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;
use weighbridge_gateway::Gateway;
use weighbridge_gateway::lifecycle::Phase;
use weighbridge_gateway::reload::Reloader;

/// After the last request has ended, for its last bytes to leave.
const LAST_BYTES: Duration = Duration::from_millis(100);
/// Longest wait for requests that were told to end at once.
const CUT_WAIT: Duration = Duration::from_secs(1);

/// The signals that mean something.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::Failed(format!("signals: {error}")));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for one that ends the gateway.
    pub(crate) async fn stop(&mut self) {
        while self.next().await != Told::Stop {}
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.hangup.recv() => Told::Reload,
        }
    }
}

#[derive(PartialEq)]
enum Told {
    Stop,
    Reload,
}

/// How the gateway ended.
pub(crate) struct Stopped {
    /// Requests that did not end by themselves.
    pub(crate) cut: usize,
}

impl Stopped {
    /// Good, or the failure that it is.
    pub(crate) fn report(&self) -> Result<(), Failure> {
        match self.cut {
            0 => Ok(()),
            cut => Err(Failure::Failed(format!(
                "{} cut at the end of server.drain_timeout",
                count(cut, "request")
            ))),
        }
    }
}

/// Serves until told to stop, then drains. A second signal ends it at once.
pub(crate) async fn wait(
    gateway: &Arc<Gateway>,
    mut signals: Signals,
    reloader: Option<Arc<Reloader>>,
) -> Stopped {
    while signals.next().await == Told::Reload {
        if let Some(reloader) = &reloader {
            // The result is in the log.
            let _ = reloader.reload();
        }
    }
    leave(gateway, signals).await
}

/// Drains. A further signal ends it at once.
pub(crate) async fn leave(gateway: &Arc<Gateway>, mut signals: Signals) -> Stopped {
    let running = gateway.lifecycle.running();
    tracing::info!(
        running,
        "stopping: no new requests after server.drain_delay, running ones may finish"
    );
    tokio::select! {
        () = drain(gateway) => {}
        () = signals.stop() => tracing::warn!("told twice: stopping at once"),
    }
    let cut = gateway.lifecycle.cut().max(gateway.lifecycle.running());
    gateway.flush_logs();
    tracing::info!(cut, "stopped");
    Stopped { cut }
}

async fn drain(gateway: &Gateway) {
    let server = gateway.snapshot().config.server.clone();
    if !server.drain_delay.is_zero() {
        gateway.lifecycle.enter(Phase::Leaving);
        sleep(server.drain_delay).await;
    }
    gateway.lifecycle.enter(Phase::Draining);
    let drained = tokio::time::timeout(server.drain_timeout, gateway.lifecycle.idle()).await;
    if drained.is_err() {
        tracing::warn!(
            running = gateway.lifecycle.running(),
            "server.drain_timeout is over: cutting what still runs"
        );
        gateway.lifecycle.enter(Phase::Cutting);
        // Whoever is not gone then never will be.
        let _ = tokio::time::timeout(CUT_WAIT, gateway.lifecycle.idle()).await;
    }
    sleep(LAST_BYTES).await;
}
