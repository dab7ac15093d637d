//! Measuring how fast each endpoint of a pool writes, and the weights that follow from it.
//!
//! The requests are the gateway's own, and otherwise like any other: the scheduler gives each a slot of the one endpoint
//! that it may go to, they carry the pool's credentials, and they stand in the log and the metrics. They run on the thread
//! that keeps time, so no worker waits for them. A pool is measured once at a time, in bounded time and tokens, and an
//! endpoint only while it is live and nearly idle.

mod measure;
mod schedule;
mod weights;

pub(crate) use schedule::keep as keep_schedule;

use crate::clock::rfc3339;
use crate::gateway::Gateway;
use crate::lifecycle::Phase;
use crate::server::Worker;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weighbridge_config::resolved::Rate;
use weighbridge_core::Event;
use weighbridge_core::event::Control;
use weighbridge_core::spec::Weight;

/// What to measure, and what to do with it.
#[derive(Clone, Debug)]
pub struct Order {
    /// The pool.
    pub pool: Arc<str>,
    /// How.
    pub rate: Rate,
    /// Whether all endpoints are measured at once rather than one after the other.
    pub together: bool,
    /// Whether the weights are set.
    pub apply: bool,
    /// How long these count; none: until the next calibration, or the process ends.
    pub ttl: Option<Duration>,
    /// Whether the config's schedule asks for it, rather than a person.
    pub scheduled: bool,
}

/// Why nothing is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no pool of that name.
    NoPool,
    /// It is being measured.
    Running,
    /// The gateway ends.
    Draining,
    /// No route sends requests to the pool, or none that engines could be asked by. For a person.
    Unasked(String),
}

/// The newest calibration of a pool.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Calibration {
    /// The pool.
    pub pool: String,
    /// Whether it is still under way.
    pub running: bool,
    /// Whether the config's schedule asked for it.
    pub scheduled: bool,
    /// When it began.
    pub started: String,
    /// When it ended; null: it is under way.
    pub ended: Option<String>,
    /// Whether the proposed weights were set.
    pub applied: bool,
    /// In the order of the config.
    pub endpoints: Vec<Measured>,
}

/// One endpoint of a calibration.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// How far it is.
    pub state: Stage,
    /// Why it was skipped or failed.
    pub reason: Option<String>,
    /// Tokens of its answers.
    pub tokens: u64,
    /// From the first request to the last answer's end.
    pub seconds: f64,
    /// Tokens per second over all its requests.
    pub tokens_per_second: Option<f64>,
    /// Weight before: the measured one, else the config's. One by hand and the load are left aside, since what is proposed takes
    /// the place of this one only.
    pub weight: f64,
    /// Whether another was set by hand, which goes on counting.
    pub weight_overridden: bool,
    /// Weight that follows, relative to the others of the pool.
    pub proposed: Option<f64>,
}

/// How far the measurement of one endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its turn has not come, or it has other requests.
    Waiting,
    /// Its requests run.
    Measuring,
    /// Its rate is known.
    Measured,
    /// It was not asked.
    Skipped,
    /// It was asked in vain.
    Failed,
}

/// The newest calibration of each pool, and the way to those who measure.
pub(crate) struct Calibrations {
    newest: Mutex<BTreeMap<Arc<str>, Calibration>>,
    orders: mpsc::UnboundedSender<Order>,
}

/// What waits to be measured.
pub(crate) type Orders = mpsc::UnboundedReceiver<Order>;

impl Calibrations {
    pub(crate) fn new() -> (Self, Orders) {
        let (orders, queue) = mpsc::unbounded_channel();
        let calibrations = Self {
            newest: Mutex::default(),
            orders,
        };
        (calibrations, queue)
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Calibration>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, pool: &str, change: impl FnOnce(&mut Calibration)) {
        if let Some(calibration) = self.all().get_mut(pool) {
            change(calibration);
        }
    }
}

impl Gateway {
    /// The newest calibration of a pool; none: there was none since the gateway started.
    #[must_use]
    pub fn calibration(&self, pool: &str) -> Option<Calibration> {
        self.calibrations.all().get(pool).cloned()
    }

    /// Begins to measure; [`Self::calibration`] tells how it goes.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn calibrate(&self, order: Order) -> Result<Calibration, Refused> {
        if self.lifecycle.phase() >= Phase::Draining {
            return Err(Refused::Draining);
        }
        let snapshot = self.snapshot_full();
        let pool = (snapshot.config.pools.iter())
            .find(|pool| pool.name == order.pool)
            .ok_or(Refused::NoPool)?;
        measure::way(&snapshot, &order.pool).map_err(Refused::Unasked)?;
        let view = self.view();
        let mut all = self.calibrations.all();
        all.retain(|name, calibration| {
            calibration.running || snapshot.config.pools.iter().any(|pool| pool.name == *name)
        });
        if all.get(&order.pool).is_some_and(|newest| newest.running) {
            return Err(Refused::Running);
        }
        let endpoints = pool.endpoints.iter().map(|endpoint| {
            let mut seen = view.endpoints.iter();
            let seen =
                seen.find(|seen| !seen.removed && seen.pool == pool.name && seen.name == endpoint.name);
            Measured {
                name: endpoint.name.to_string(),
                state: Stage::Waiting,
                reason: None,
                tokens: 0,
                seconds: 0.0,
                tokens_per_second: None,
                weight: seen.map_or(1.0, |seen| seen.base_weight.as_f64()),
                weight_overridden: seen.is_some_and(|seen| seen.weight_override.is_some()),
                proposed: None,
            }
        });
        let calibration = Calibration {
            pool: pool.name.to_string(),
            running: true,
            scheduled: order.scheduled,
            started: rfc3339(SystemTime::now()),
            ended: None,
            applied: false,
            endpoints: endpoints.collect(),
        };
        all.insert(order.pool.clone(), calibration.clone());
        // The receiver lives as long as the thread that measures.
        let _ = self.calibrations.orders.send(order);
        Ok(calibration)
    }

    /// Takes back all measured weights of a pool. False: there is no such pool.
    pub fn forget_calibration(&self, pool: &str) -> bool {
        let snapshot = self.snapshot_full();
        let Some(known) = snapshot.config.pools.iter().find(|known| *known.name == *pool) else {
            return false;
        };
        for endpoint in &known.endpoints {
            let command = Control::Calibrated {
                weight: None,
                until: None,
            };
            self.control(pool, &endpoint.name, command);
        }
        true
    }
}

/// Measures what is asked for, for ever; pools side by side.
pub(crate) async fn run(worker: Rc<Worker>, mut orders: Orders) {
    while let Some(order) = orders.recv().await {
        tokio::task::spawn_local(calibrate(worker.clone(), order));
    }
}

async fn calibrate(worker: Rc<Worker>, order: Order) {
    let gateway = worker.gateway.clone();
    let names: Vec<String> = gateway
        .calibration(&order.pool)
        .map(|calibration| calibration.endpoints.into_iter().map(|endpoint| endpoint.name))
        .into_iter()
        .flatten()
        .collect();
    let order = Rc::new(order);
    let mut running = JoinSet::new();
    for (place, name) in names.into_iter().enumerate() {
        running.spawn_local(endpoint(worker.clone(), order.clone(), (place, name)));
        while !order.together && running.join_next().await.is_some() {}
    }
    while running.join_next().await.is_some() {}
    gateway.calibrations.change(&order.pool, weights::propose);
    let applied = order.apply && apply(&gateway, &order);
    gateway.calibrations.change(&order.pool, |calibration| {
        calibration.running = false;
        calibration.applied = applied;
        calibration.ended = Some(rfc3339(SystemTime::now()));
    });
    tracing::info!(pool = %order.pool, applied, scheduled = order.scheduled, "calibrated");
}

/// Measures one endpoint and notes what came of it.
async fn endpoint(worker: Rc<Worker>, order: Rc<Order>, (place, name): (usize, String)) {
    let gateway = worker.gateway.clone();
    let note = |change: &dyn Fn(&mut Measured)| {
        gateway.calibrations.change(&order.pool, |calibration| {
            if let Some(endpoint) = calibration.endpoints.get_mut(place) {
                change(endpoint);
            }
        });
    };
    if let Err(why) = measure::until_quiet(&gateway, &order, &name).await {
        return note(&|endpoint| {
            endpoint.state = Stage::Skipped;
            endpoint.reason = Some(why.clone());
        });
    }
    note(&|endpoint| endpoint.state = Stage::Measuring);
    let measured = measure::measure(&worker, &order, &name).await;
    note(&|endpoint| match &measured {
        Ok(written) => {
            endpoint.state = Stage::Measured;
            endpoint.tokens = written.tokens;
            endpoint.seconds = written.seconds;
            endpoint.tokens_per_second = Some(written.rate());
        }
        Err(why) => {
            endpoint.state = Stage::Failed;
            endpoint.reason = Some(why.clone());
        }
    });
}

/// Sets the proposed weights; false: there are none.
fn apply(gateway: &Gateway, order: &Order) -> bool {
    let Some(calibration) = gateway.calibration(&order.pool) else {
        return false;
    };
    let until = order.ttl.map(|ttl| gateway.clock.now().after(ttl));
    let snapshot = gateway.snapshot_full();
    let mut applied = false;
    for endpoint in &calibration.endpoints {
        let Some(weight) = endpoint.proposed.map(weights::millionths) else {
            continue;
        };
        if let Some(upstream) = snapshot.upstream_named(&order.pool, &endpoint.name) {
            let command = Control::Calibrated {
                weight: Some(Weight(weight)),
                until,
            };
            let endpoint = upstream.id;
            gateway.tell(Event::Control { endpoint, command });
            applied = true;
        }
    }
    applied
}
