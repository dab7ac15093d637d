//! One window: load on one peer, and what it cost.

use super::config::KEY;
use super::peers::{LOAD_CORE, Peer, pinned};
use crate::build::Built;
use crate::failure::{Failure, failed};
use crate::process::Owned;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Size of a request's body, bytes.
const BODY: usize = 150;
/// How long the load generator may take beyond its window.
const BEYOND: Duration = Duration::from_secs(30);

/// What is measured in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// Whole answers, 64 connections, each sending as fast as it is answered.
    Requests,
    /// Whole answers, one connection.
    Latency,
    /// The first chunk of streams with gaps, one connection.
    FirstChunk,
    /// Streams of 128 chunks without gaps, 8 connections.
    Chunks,
}

impl Measure {
    pub(super) const ALL: [Self; 4] = [Self::Requests, Self::Latency, Self::FirstChunk, Self::Chunks];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Latency => "latency",
            Self::FirstChunk => "first-chunk",
            Self::Chunks => "chunks",
        }
    }

    fn connections(self) -> u32 {
        match self {
            Self::Requests => 64,
            Self::Latency | Self::FirstChunk => 1,
            Self::Chunks => 8,
        }
    }

    fn streams(self) -> bool {
        matches!(self, Self::FirstChunk | Self::Chunks)
    }

    /// The model, by which the gateway tells the upstreams apart, and the peer's address for it.
    fn upstream(self) -> (&'static str, usize) {
        match self {
            Self::FirstChunk => ("paced", 1),
            Self::Requests | Self::Latency | Self::Chunks => ("fast", 0),
        }
    }

    fn body(self) -> String {
        let (model, _) = self.upstream();
        let stream = if self.streams() { ",\"stream\":true" } else { "" };
        let frame = |text: &str| {
            format!(
                "{{\"model\":\"{model}\",\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]{stream}}}"
            )
        };
        let room = BODY.saturating_sub(frame("").len());
        frame(&"a few words of a prompt ".repeat(room / 24 + 1)[..room])
    }
}

/// What the load generator says of times.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Times {
    pub(super) p50: f64,
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
    pub(super) rps: f64,
    pub(super) latency_us: Times,
    pub(super) first_chunk_us: Option<Times>,
    pub(super) events: Option<u64>,
}

/// A measured window.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) said: Said,
    /// CPU time of the router's processes, µs.
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
    bodies: BTreeMap<Measure, PathBuf>,
}

impl Generator {
    pub(super) fn new(built: &Built, dir: &Path) -> Result<Self, Failure> {
        let mut bodies = BTreeMap::new();
        for measure in Measure::ALL {
            let path = dir.join(format!("{}.json", measure.name()));
            fs::write(&path, measure.body()).map_err(failed(path.display()))?;
            bodies.insert(measure, path);
        }
        Ok(Self {
            program: built.path("test-engine")?.to_owned(),
            bodies,
        })
    }

    /// Puts load on `peer` for as long as `window`.
    pub(super) fn run(&self, peer: &mut Peer, measure: Measure, window: Duration) -> Result<Window, Failure> {
        let (_, address) = measure.upstream();
        let mut command = pinned(LOAD_CORE, &self.program);
        command
            .arg("load")
            .arg(format!(
                "--url=http://{}/v1/chat/completions",
                peer.addresses[address]
            ))
            .arg(format!("--connections={}", measure.connections()))
            .arg(format!("--duration={}ms", window.as_millis()))
            .arg(format!("--header=authorization: Bearer {KEY}"))
            .arg("--header=session-id: bench")
            .arg("--body")
            .arg(&self.bodies[&measure])
            .stdout(Stdio::piped());
        if measure.streams() {
            command.arg("--stream");
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
}
