//! What all threads of the data plane share.

use crate::clock::Clock;
use crate::driver::EventLog;
use crate::lifecycle::Lifecycle;
use crate::snapshot::Snapshot;
use crate::telemetry::balance::Balance;
use crate::telemetry::decisions::Decisions;
use crate::telemetry::log::LogWriter;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::record::Sink;
use arc_swap::ArcSwap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use weighbridge_config::Config;
use weighbridge_core::action::Bindings;
use weighbridge_core::event::{Arrival, Control};
use weighbridge_core::explain::Explanation;
use weighbridge_core::spec::FleetSpec;
use weighbridge_core::view::FleetView;
use weighbridge_core::{Action, EndpointId, Event, RequestId, Scheduler};
use weighbridge_store::{KeyRecord, Keys, MemoryHomes, MemoryKeys, MemoryUsage};

/// What a gateway is started with besides its config.
pub struct Setup {
    /// The validated config.
    pub config: Config,
    /// Where request log lines go.
    pub request_log: Box<dyn std::io::Write + Send>,
    /// Where the scheduler's events and actions are recorded; none: nowhere.
    pub event_log: Option<EventLog>,
    /// Client connections that the limit on open files has room for.
    pub clients_max: usize,
}

/// The running data plane.
pub struct Gateway {
    pub(crate) clock: Clock,
    core: Mutex<Core>,
    snapshot: ArcSwap<Snapshot>,
    pub(crate) keys: MemoryKeys,
    /// Where stored responses are.
    pub(crate) homes: MemoryHomes,
    pub(crate) sink: Sink,
    pub(crate) decisions: Decisions,
    pub(crate) balance: Balance,
    /// Starting up, serving, draining.
    pub lifecycle: Lifecycle,
    pub(crate) probes: mpsc::UnboundedSender<EndpointId>,
    next_request: AtomicU64,
    pub(crate) connections: AtomicUsize,
    pub(crate) clients_max: usize,
}

struct Core {
    scheduler: Scheduler,
    seed: u64,
    log: Option<EventLog>,
}

/// What a thread that is about to run the probes needs.
pub(crate) type ProbeQueue = mpsc::UnboundedReceiver<EndpointId>;

impl Gateway {
    /// A gateway that neither listens nor probes, to be asked questions.
    ///
    /// # Errors
    /// What of the config could not be loaded, for a person.
    pub fn unstarted(setup: Setup) -> Result<Arc<Self>, String> {
        Self::with_probes(setup).map(|(gateway, _)| gateway)
    }

    /// Configures the scheduler and compiles the first snapshot.
    ///
    /// # Errors
    /// What of the config could not be loaded, for a person.
    pub(crate) fn with_probes(setup: Setup) -> Result<(Arc<Self>, ProbeQueue), String> {
        let metrics = Metrics::new();
        let log = LogWriter::start(setup.request_log, metrics.clone())
            .map_err(|error| format!("cannot start the log thread: {error}"))?;
        let clock = Clock::start();
        let mut core = Core {
            scheduler: Scheduler::new(0),
            // Different in every process, so that replicas do not break ties alike; part of the fleet, so that an event
            // log holds it.
            seed: RandomState::new().hash_one(std::process::id()),
            log: setup.event_log,
        };
        let config = Arc::new(setup.config);
        let pools = crate::snapshot::compile_pools(&config)?;
        let bindings = core.configure(&clock, &config);
        let snapshot = Snapshot::compile(config.clone(), pools, &bindings, (0, &metrics));
        let (probes, probe_queue) = mpsc::unbounded_channel();
        metrics.reloaded(true);
        let gateway = Arc::new(Self {
            clock,
            core: Mutex::new(core),
            snapshot: ArcSwap::from_pointee(snapshot),
            keys: MemoryKeys::default(),
            homes: MemoryHomes::default(),
            sink: Sink {
                metrics,
                log,
                usage: Arc::new(MemoryUsage::default()),
                slowest: Default::default(),
            },
            decisions: Decisions::default(),
            balance: Balance::default(),
            lifecycle: Lifecycle::default(),
            probes,
            next_request: AtomicU64::new(1),
            connections: AtomicUsize::new(0),
            clients_max: setup.clients_max,
        });
        gateway.load_keys(&config);
        crate::telemetry::fleet::register(&gateway);
        Ok((gateway, probe_queue))
    }

    /// The current config, compiled.
    #[must_use]
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    pub(crate) fn snapshot_full(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Takes a new config at once: new requests see it, running ones keep theirs.
    ///
    /// # Errors
    /// What could not be loaded; nothing has changed then.
    pub(crate) fn reconfigure(&self, config: Config) -> Result<(), String> {
        let config = Arc::new(config);
        // Certificates are read before anything changes, so that a bad one changes nothing.
        let generation = self.snapshot.load().generation + 1;
        let pools = crate::snapshot::compile_pools(&config)?;
        // Held until the snapshot is in place: no request may be sent to an endpoint that is in no snapshot yet.
        let mut core = self.lock();
        let bindings = core.configure(&self.clock, &config);
        let snapshot = Snapshot::compile(config.clone(), pools, &bindings, (generation, &self.sink.metrics));
        self.load_keys(&config);
        self.decisions.retain(|route| snapshot.route(route).is_some());
        self.snapshot.store(Arc::new(snapshot));
        drop(core);
        Ok(())
    }

    fn load_keys(&self, config: &Config) {
        let records = config.keys.iter().map(|key| KeyRecord {
            name: key.name.clone(),
            sha256: key.sha256,
            expires: key.expires,
            tenant: key.tenant.clone(),
            models: key.models.clone(),
        });
        self.keys.replace(records.collect());
    }

    pub(crate) fn next_request(&self) -> RequestId {
        RequestId(self.next_request.fetch_add(1, Ordering::Relaxed))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step of the scheduler; `actions` is emptied first.
    pub(crate) fn step(&self, event: Event, actions: &mut Vec<Action>) {
        actions.clear();
        self.lock().step(&self.clock, event, actions);
    }

    pub(crate) fn next_deadline(&self) -> Option<weighbridge_core::Time> {
        self.lock().scheduler.next_deadline()
    }

    /// The scheduler's state now.
    #[must_use]
    pub fn view(&self) -> FleetView {
        let core = self.lock();
        core.scheduler.view(self.clock.now())
    }

    /// What would be decided for this request now; none: no such route.
    #[must_use]
    pub fn explain(&self, arrival: &Arrival) -> Option<Explanation> {
        let core = self.lock();
        core.scheduler.explain(self.clock.now(), arrival)
    }

    /// Carries out a person's command on an endpoint. False: there is no such endpoint.
    pub fn control(&self, pool: &str, endpoint: &str, command: Control) -> bool {
        let id = self
            .snapshot()
            .upstreams()
            .find(|upstream| &**upstream.pool_name() == pool && &*upstream.name == endpoint)
            .map(|upstream| upstream.id);
        let Some(endpoint) = id else { return false };
        self.tell(Event::Control { endpoint, command });
        true
    }

    /// The gateway's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The latest decisions.
    #[must_use]
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// Client connections that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// When the gateway started, Unix seconds.
    #[must_use]
    pub fn started_unix(&self) -> u64 {
        let since = self
            .clock
            .wall(weighbridge_core::Time::ZERO)
            .duration_since(std::time::UNIX_EPOCH);
        since.map(|since| since.as_secs()).unwrap_or_default()
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.sink.metrics
    }

    /// Writes out what is queued for the logs, as far as their readers take it.
    pub fn flush_logs(&self) {
        if !self.sink.log.flush() {
            tracing::warn!("the request log is not read: its last lines are lost");
        }
        if let Some(log) = &mut self.lock().log {
            log.flush();
        }
    }
}

impl Core {
    fn step(&mut self, clock: &Clock, event: Event, actions: &mut Vec<Action>) {
        let now = clock.now();
        let Some(log) = &mut self.log else {
            self.scheduler.step(now, event, actions);
            return;
        };
        self.scheduler.step(now, event.clone(), actions);
        log.record(now, &event, actions);
    }

    fn configure(&mut self, clock: &Clock, config: &Config) -> Bindings {
        let mut actions = Vec::new();
        let fleet = FleetSpec {
            seed: self.seed,
            ..config.fleet.clone()
        };
        self.step(clock, Event::Configure(Arc::new(fleet)), &mut actions);
        let bindings = actions.into_iter().find_map(|action| match action {
            Action::Configured(bindings) => Some(bindings),
            _ => None,
        });
        bindings.unwrap_or_default()
    }
}
