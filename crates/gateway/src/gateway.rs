//! What all threads of the data plane share.

use crate::calibrate::{Calibrations, Orders};
use crate::clock::Clock;
use crate::discovery::{Fleet, SourceShown, WatchQueue};
use crate::driver::EventLog;
use crate::leaving::Leaving;
use crate::lifecycle::Lifecycle;
use crate::memory::BodyMemory;
use crate::snapshot::{Carried, Compiled, Snapshot};
use crate::telemetry::balance::Balance;
use crate::telemetry::decisions::Decisions;
use crate::telemetry::log::LogWriter;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::record::Sink;
use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, watch};
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
    pub(crate) fleet: Fleet,
    /// Endpoints that are gone but for their requests.
    pub(crate) leaving: Leaving,
    snapshot: ArcSwap<Snapshot>,
    pub(crate) keys: MemoryKeys,
    /// Where stored responses are.
    pub(crate) homes: MemoryHomes,
    pub(crate) sink: Sink,
    pub(crate) decisions: Decisions,
    pub(crate) balance: Balance,
    pub(crate) calibrations: Calibrations,
    pub(crate) body_memory: Arc<BodyMemory>,
    /// Starting up, serving, draining.
    pub lifecycle: Lifecycle,
    pub(crate) probes: mpsc::UnboundedSender<EndpointId>,
    /// Tells those who follow engines that the snapshot is another.
    pub(crate) replaced: watch::Sender<()>,
    /// What engines tell of their caches.
    pub(crate) kv: crate::kv_events::Board,
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

/// What waits for the thread that keeps time.
pub(crate) struct Queues {
    pub(crate) probes: ProbeQueue,
    pub(crate) watches: WatchQueue,
    pub(crate) calibrations: Orders,
}

impl Gateway {
    /// A gateway that neither listens nor probes, to be asked questions.
    ///
    /// # Errors
    /// What of the config could not be loaded, for a person.
    pub fn unstarted(setup: Setup) -> Result<Arc<Self>, String> {
        Self::with_queues(setup).map(|(gateway, _)| gateway)
    }

    /// Configures the scheduler and compiles the first snapshot.
    ///
    /// # Errors
    /// What of the config could not be loaded, for a person.
    pub(crate) fn with_queues(setup: Setup) -> Result<(Arc<Self>, Queues), String> {
        let metrics = Metrics::new();
        let log = LogWriter::start("request-log", setup.request_log, metrics.log_dropped())
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
        let (fleet, watches) = Fleet::new(config.clone());
        let compiled = Compiled::new(&config, &fleet.carried(), None)?;
        // A fleet that is new has nothing to be done about but the ids.
        let (bindings, _) = core.configure(&clock, &config);
        let snapshot = Snapshot::compile(config.clone(), compiled, &bindings, (0, &metrics, None));
        let (probes, probe_queue) = mpsc::unbounded_channel();
        let (calibrations, orders) = Calibrations::new();
        metrics.reloaded(true);
        let gateway = Arc::new(Self {
            clock,
            core: Mutex::new(core),
            fleet,
            leaving: Leaving::default(),
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
            calibrations,
            body_memory: Arc::new(BodyMemory::new()),
            lifecycle: Lifecycle::default(),
            probes,
            replaced: watch::Sender::new(()),
            kv: crate::kv_events::Board::default(),
            next_request: AtomicU64::new(1),
            connections: AtomicUsize::new(0),
            clients_max: setup.clients_max,
        });
        gateway.load_keys(&config);
        crate::telemetry::fleet::register(&gateway);
        let queues = Queues {
            probes: probe_queue,
            watches,
            calibrations: orders,
        };
        Ok((gateway, queues))
    }

    /// The current config, compiled.
    #[must_use]
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    pub(crate) fn snapshot_full(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Runs on `config` from now on; only the owner of the config ([`Fleet`]) calls it, one call at a time. With
    /// `carried.previous` nothing but discovered endpoints differs.
    ///
    /// # Errors
    /// What could not be loaded; nothing has changed then.
    pub(crate) fn install(&self, config: Config, carried: &Carried) -> Result<(), String> {
        let config = Arc::new(config);
        // Certificates are read before anything changes, so that a bad one changes nothing.
        let reloaded = carried.previous.is_none();
        let before = self.snapshot_full();
        let compiled = Compiled::new(&config, carried, Some(&before))?;
        let generation = before.generation + u64::from(reloaded);
        // Held until the snapshot is in place: no request may be sent to an endpoint that is in no snapshot yet.
        let mut core = self.lock();
        let (bindings, actions) = core.configure(&self.clock, &config);
        let about = (generation, &self.sink.metrics, Some(&*before));
        let snapshot = Arc::new(Snapshot::compile(config.clone(), compiled, &bindings, about));
        if reloaded {
            self.load_keys(&config);
            self.decisions.retain(|route| snapshot.route(route).is_some());
        }
        self.leaving.replaced(&before, &snapshot);
        self.snapshot.store(snapshot.clone());
        let view = core.scheduler.view(self.clock.now());
        drop(core);
        self.replaced.send_replace(());
        self.forget_gone(&view);
        actions.into_iter().for_each(|action| self.perform(action));
        Ok(())
    }

    /// Drops what is kept of endpoints that are gone and have no request any more.
    pub(crate) fn forget_gone(&self, view: &FleetView) {
        let snapshot = self.snapshot();
        for gone in self.leaving.take_gone(view) {
            // The series of one name go on where another endpoint has it now.
            let mut now = snapshot.upstreams();
            if !now.any(|other| other.name == gone.name && other.pool_name() == gone.pool_name()) {
                self.sink.metrics.forget(&gone.attempts);
            }
        }
    }

    /// How the sources of discovered endpoints are doing, by pool.
    #[must_use]
    pub fn sources(&self) -> BTreeMap<Arc<str>, SourceShown> {
        self.fleet.shown()
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

    /// Carries out a person's command on an endpoint, or on all of its ranks. False: there is no such endpoint.
    pub fn control(&self, pool: &str, endpoint: &str, command: Control) -> bool {
        let snapshot = self.snapshot_full();
        let meant: Vec<EndpointId> = snapshot
            .upstreams()
            .filter(|upstream| **upstream.pool_name() == *pool && upstream.is_called(endpoint))
            .map(|upstream| upstream.id)
            .collect();
        for endpoint in &meant {
            let endpoint = *endpoint;
            self.tell(Event::Control { endpoint, command });
        }
        !meant.is_empty()
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

    /// Also gives what is to be done about the rest, once the new snapshot is in place.
    fn configure(&mut self, clock: &Clock, config: &Config) -> (Bindings, Vec<Action>) {
        let mut actions = Vec::new();
        let fleet = FleetSpec {
            seed: self.seed,
            ..config.fleet.clone()
        };
        self.step(clock, Event::Configure(Arc::new(fleet)), &mut actions);
        let mut bindings = Bindings::default();
        actions.retain_mut(|action| match action {
            Action::Configured(answer) => {
                bindings = std::mem::take(answer);
                false
            }
            _ => true,
        });
        (bindings, actions)
    }
}
