//! One window: load on one peer, and what it cost.

use super::config::KEY;
use super::peers::{LOAD_CORE, Peer, pinned};
use super::rows::Spec;
use crate::build::Built;
use crate::failure::{Failure, failed};
use crate::process::Owned;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long the load generator may take beyond its window.
const BEYOND: Duration = Duration::from_secs(30);
/// For the first event of each stream that is to stay open.
const HELD_WITHIN: Duration = Duration::from_secs(30);

/// What the load generator says of times.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Times {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
}

/// What the load generator says.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Said {
    pub(super) requests: u64,
    errors: u64,
    errors_by_kind: BTreeMap<String, u64>,
    unsent: u64,
    cut_off: bool,
    pub(super) seconds: f64,
    pub(super) rps: f64,
    pub(super) latency_us: Times,
    pub(super) first_chunk_us: Option<Times>,
    pub(super) delay_us: Option<Times>,
    pub(super) events: Option<u64>,
}

/// A measured window.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) said: Said,
    /// CPU time of the router's processes, µs; none without a router.
    pub(super) cpu_us: Option<f64>,
    /// The most memory of the router's processes, MiB.
    pub(super) rss_mib: f64,
}

impl Window {
    /// What went wrong in it.
    pub(super) fn failures(&self) -> Option<String> {
        let said = &self.said;
        let good = said.errors == 0 && said.unsent == 0 && !said.cut_off && said.requests > 0;
        (!good).then(|| {
            format!(
                "{} requests answered, {} failed {:?}, {} unsent, cut off: {}",
                said.requests, said.errors, said.errors_by_kind, said.unsent, said.cut_off
            )
        })
    }
}

/// Starts the load generator.
pub(super) struct Generator {
    program: PathBuf,
    dir: PathBuf,
}

impl Generator {
    pub(super) fn new(built: &Built, dir: &Path) -> Result<Self, Failure> {
        Ok(Self {
            program: built.path("test-engine")?.to_owned(),
            dir: dir.to_owned(),
        })
    }

    fn command(&self, peer: &Peer, spec: &Spec) -> Result<Command, Failure> {
        let path = self.dir.join(format!("body-{}-{}.json", spec.body, spec.stream));
        if !path.exists() {
            fs::write(&path, body(spec)).map_err(failed(path.display()))?;
        }
        let mut command = pinned(LOAD_CORE, &self.program);
        command
            .arg("load")
            .arg(format!("--url=http://{}/v1/chat/completions", peer.address))
            .arg(format!("--connections={}", spec.connections))
            .arg(format!("--header=authorization: Bearer {KEY}"))
            .arg("--header=session-id: bench")
            .arg("--body")
            .arg(path)
            .stdout(Stdio::piped());
        if spec.stream {
            command.arg("--stream");
        }
        Ok(command)
    }

    /// Puts load on `peer` for as long as `window`.
    pub(super) fn run(&self, peer: &mut Peer, spec: &Spec, window: Duration) -> Result<Window, Failure> {
        let mut command = self.command(peer, spec)?;
        command.arg(format!("--duration={}ms", window.as_millis()));
        command.arg(format!("--ramp={}ms", spec.ramp_ms));
        if let Some(rate) = spec.rate {
            command.arg(format!("--rate={rate}"));
        }
        let before = peer.cpu_time()?;
        let mut load = Owned::start("the load generator", &mut command)?;
        let mut rss_mib: f64 = 0.0;
        let mut looked = 0_u32;
        let ended = load.wait(window + BEYOND, || {
            // Twice a second is enough, and costs the load's core next to nothing.
            if looked.is_multiple_of(25) {
                rss_mib = rss_mib.max(peer.rss_mib());
            }
            looked += 1;
        })?;
        let after = peer.cpu_time()?;
        if ended.is_none_or(|status| !status.success()) {
            return Err(Failure::Failed(format!(
                "the load generator did not end well: {ended:?}"
            )));
        }
        let said = serde_json::from_str(&load.output()?).map_err(failed("the load generator's result"))?;
        let cpu = after
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        Ok(Window {
            said,
            cpu_us: cpu.map(|cpu| cpu.as_secs_f64() * 1e6),
            rss_mib: rss_mib.max(peer.rss_mib()),
        })
    }

    /// Opens streams through `peer` that stay open for as long as what is returned lives.
    pub(super) fn hold(&self, peer: &Peer, streams: u32) -> Result<Owned, Failure> {
        let spec = Spec {
            connections: streams,
            body: 150,
            stream: true,
            rate: None,
            seconds: None,
            ramp_ms: 0,
        };
        let mut command = self.command(peer, &spec)?;
        command
            .arg("--hold")
            .arg(format!("--timeout={}s", HELD_WITHIN.as_secs()));
        let mut load = Owned::start("the load generator", &mut command)?;
        let line = load.first_line()?;
        match line == format!("{{\"open\":{streams}}}") {
            true => Ok(load),
            false => Err(Failure::Failed("not every stream stayed open".into())),
        }
    }
}

/// A chat request of the size asked for.
fn body(spec: &Spec) -> String {
    let stream = if spec.stream { ",\"stream\":true" } else { "" };
    let frame = |text: &str| {
        format!("{{\"model\":\"fast\",\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]{stream}}}")
    };
    let room = spec.body.saturating_sub(frame("").len());
    frame(&"a few words of a prompt ".repeat(room / 24 + 1)[..room])
}
