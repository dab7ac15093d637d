//! Runs a workload on a fleet of modelled engines, in virtual time, through the product's scheduler.

mod attempts;
mod clients;
mod faults;
mod points;
mod routers;
mod run;
mod slots;

use crate::engine::Settings;
use crate::outcome::Run;
use crate::workload::{Request, Workload};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::spec::{FleetSpec, PoolSpec, RouteSpec};

/// A fleet: what the scheduler knows of it, and the engines behind it.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Pools and routes, as the config resolves to them.
    pub spec: Arc<FleetSpec>,
    /// The engine of each pool's endpoints; one entry per pool.
    pub engines: Vec<EngineSpec>,
}

/// The engines of one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSpec {
    /// Model and GPU, for reports.
    pub label: Arc<str>,
    /// Sizes and speed.
    pub settings: Settings,
    /// GPUs that one engine takes.
    pub gpus: u32,
    /// What one of them costs an hour.
    pub gpu_hour: f64,
    /// How long the gateway waits for the first token before it gives an attempt up: `timeouts.first_byte`. None: for ever.
    pub first_byte: Option<Duration>,
    /// From the start of an engine until it serves: loading and warming up. Those of the fleet's start are ready.
    pub start: Duration,
    /// Whether they tell the gateways what their caches store and give up, as vLLM's KV events do.
    pub kv_events: bool,
}

impl EngineSpec {
    /// One GPU for 1 an hour, that serves at once and is waited for for ever.
    pub fn new(label: impl Into<Arc<str>>, settings: Settings) -> Self {
        Self {
            label: label.into(),
            settings,
            gpus: 1,
            gpu_hour: 1.0,
            first_byte: None,
            start: Duration::ZERO,
            kv_events: false,
        }
    }

    /// The same engine with a cache in blocks of this many tokens, as a workload counts them; 0: as it is.
    fn in_blocks_of(&self, tokens: u32) -> Self {
        let mut engine = self.clone();
        if tokens > 0 && tokens != engine.settings.block_size {
            let blocks = engine.settings.kv_tokens() / u64::from(tokens);
            engine.settings.kv_blocks = u32::try_from(blocks).unwrap_or(u32::MAX).max(1);
            engine.settings.block_size = tokens;
        }
        engine
    }
}

/// Something that goes wrong, or is changed, at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When.
    pub at: Duration,
    /// Pool and endpoint; for [`FaultKind::Add`] the new one's name.
    pub endpoint: (Arc<str>, Arc<str>),
    /// What.
    pub kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// The engine dies: its requests break, connections are refused; after `down` it starts anew with an empty cache.
    /// None: for good.
    Die {
        /// How long it is gone.
        down: Option<Duration>,
    },
    /// It takes `factor` times as long for everything, for `lasts`.
    Slow {
        /// Above 1: slower.
        factor: f64,
        /// None: for good.
        lasts: Option<Duration>,
    },
    /// What it tells of itself stands still for `lasts`.
    StaleMetrics {
        /// How long.
        lasts: Duration,
    },
    /// An endpoint joins its pool; it serves after [`EngineSpec::start`].
    Add,
    /// The endpoint leaves its pool; what runs there finishes.
    Remove,
}

/// One run's parameters.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The fleet.
    pub fleet: Fleet,
    /// Name of the route that all requests ask for.
    pub route: Arc<str>,
    /// What goes wrong, in order of time.
    pub faults: Vec<Fault>,
    /// Replicas of the gateway, each with its own scheduler that sees what it sent itself; clients are spread over them in
    /// turn.
    pub replicas: u32,
    /// How often each endpoint's metrics are read.
    pub scrape: Duration,
    /// Decides everything that is random.
    pub seed: u64,
}

impl Setup {
    /// One gateway before these pools, all of whose requests ask for `route`. Nothing goes wrong, metrics are read every second, and the
    /// seeds are 1.
    #[must_use]
    pub fn new(pools: Vec<(PoolSpec, EngineSpec)>, route: RouteSpec) -> Self {
        let (pools, engines) = pools.into_iter().unzip();
        let name = route.name.clone();
        let spec = FleetSpec {
            pools,
            routes: vec![route],
            seed: 1,
            ..FleetSpec::default()
        };
        Self {
            fleet: Fleet {
                spec: spec.into(),
                engines,
            },
            route: name,
            faults: Vec::new(),
            replicas: 1,
            scrape: Duration::from_secs(1),
            seed: 1,
        }
    }
}

/// A way to choose that takes the scheduler's place: a yardstick.
pub trait Baseline: Send {
    /// Place of the endpoint among `candidates`, which are never empty; `request` comes with its
    /// place in the workload.
    fn choose(&mut self, now: Duration, request: (usize, &Request), candidates: &[Seen<'_>]) -> usize;

    /// An attempt of a request that it placed got its first token.
    fn began(&mut self, now: Duration, index: usize, endpoint: usize) {
        let _ = (now, index, endpoint);
    }

    /// An attempt of a request that it placed is over.
    fn ended(&mut self, now: Duration, index: usize, endpoint: usize) {
        let _ = (now, index, endpoint);
    }
}

/// An endpoint as a router sees it: its own counts, and what the last reading of metrics said.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// Place in [`crate::outcome::Run::endpoints`], the same through the whole run.
    pub endpoint: usize,
    /// Requests that this router has under way there.
    pub inflight: u32,
    /// Sequences that computed at the last reading.
    pub running: u64,
    /// Sequences that waited then.
    pub waiting: u64,
    /// Share of the cache then held, 0 to 1.
    pub kv_usage: f64,
    /// When the last reading was.
    pub read_at: Duration,
    /// The engine itself, for yardsticks that are told by events what its cache holds.
    pub engine: &'a dyn crate::engine::Engine,
}

/// Who chooses.
pub enum Chooser {
    /// The product.
    Scheduler,
    /// A yardstick; one per replica.
    Baseline(Vec<Box<dyn Baseline>>),
}

/// Why a run cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriveError {
    /// The fleet has no route of this name.
    #[error("no route {0:?} in the config; its routes are {1}")]
    NoRoute(Arc<str>, String),
    /// A fault names an endpoint that is not there.
    #[error("fault at {at:?}: {endpoint}")]
    NoEndpoint {
        /// When.
        at: Duration,
        /// Which is not there, and which are.
        endpoint: String,
    },
    /// The spec contradicts itself.
    #[error("{0}")]
    Spec(String),
    /// An invariant does not hold: a bug of ours.
    #[error("at {at:?}: {what}; this is a bug of the simulator or the scheduler")]
    Invariant {
        /// When.
        at: Duration,
        /// What does not hold.
        what: String,
    },
}

/// Runs the workload to its last end. The same arguments give the same run, whatever the machine.
///
/// `progress` is told now and then how many requests have ended.
///
/// # Errors
/// [`DriveError`]: arguments that do not fit each other, or an invariant that does not hold.
pub fn run(
    setup: &Setup,
    workload: &Workload,
    chooser: Chooser,
    progress: &mut dyn FnMut(usize),
) -> Result<Run, DriveError> {
    run::Loop::new(setup, workload, chooser)?.run(progress)
}
