//! The loop: what is due next happens, and what follows from it at once.

use super::clients::Clients;
use super::points::Points;
use super::routers::{Replica, Router};
use super::slots::Slots;
use super::{Chooser, DriveError, EngineSpec, Fleet, Setup};
use crate::outcome::{Record, Run};
use crate::workload::Workload;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::spec::{EndpointSpec, FleetSpec};
use weighbridge_core::{EndpointId, Event};

/// Time from asking an engine for a sign of life to its answer.
pub(super) const PROBE_TAKES: Duration = Duration::from_millis(1);

/// Requests between two calls of the progress function.
const PROGRESS_STEP: u32 = 256;

/// Something that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// An engine that was loading serves.
    Serves(usize),
    /// An engine is as fast again as it was.
    Recovers(usize),
    Fault(usize),
    Scrape,
    Probed {
        replica: usize,
        endpoint: EndpointId,
        place: usize,
    },
    /// An endpoint that was added has loaded.
    Joins(usize),
    /// A request that followed another is due.
    Turn(u32),
    /// A request that waited for others to end is sent.
    Sent(u32),
    /// The clock for the first byte of an attempt, or the softer one.
    Clock {
        index: u32,
        attempt: u32,
        gives_up: bool,
    },
}

/// Whether an endpoint is in another zone than `own`, by its label; none: one of the two is not known.
fn elsewhere(own: Option<&str>, endpoint: &EndpointSpec) -> Option<bool> {
    let label = endpoint.labels.iter().find(|(name, _)| **name == *"zone");
    label.zip(own).map(|((_, zone), own)| **zone != *own)
}

/// An attempt under way.
#[derive(Clone, Copy)]
pub(super) struct Flight {
    pub(super) replica: usize,
    pub(super) place: usize,
    pub(super) attempt: u32,
    pub(super) sent: Duration,
    /// First token: its time, when the engine began with the prompt, tokens found in its cache.
    pub(super) first: Option<(Duration, Duration, u32)>,
}

/// A run under way.
pub(super) struct Loop<'a> {
    pub(super) setup: &'a Setup,
    pub(super) workload: &'a Workload,
    pub(super) now: Duration,
    pub(super) spec: Arc<FleetSpec>,
    pub(super) route: usize,
    /// The engine of each pool's endpoints.
    pub(super) engines: Vec<EngineSpec>,
    /// Places of the spec's endpoints, by pool.
    pub(super) places: Vec<Vec<usize>>,
    pub(super) slots: Slots,
    pub(super) routers: Vec<Router>,
    pub(super) clients: Clients<'a>,
    pub(super) due: BinaryHeap<Reverse<(Duration, u64, Due)>>,
    pub(super) order: u64,
    pub(super) flights: Vec<Option<Flight>>,
    pub(super) records: Vec<Option<Record>>,
    pub(super) arrived: Vec<Duration>,
    pub(super) left: usize,
    /// Requests that are planned to follow another.
    pub(super) turns: u32,
    pub(super) points: Points,
    pub(super) attempts: u64,
    pub(super) decisions: u64,
    /// Events that follow from what just happened, for the scheduler of a replica.
    pub(super) todo: VecDeque<(usize, Event)>,
}

impl<'a> Loop<'a> {
    pub(super) fn new(
        setup: &'a Setup,
        workload: &'a Workload,
        chooser: Chooser,
    ) -> Result<Self, DriveError> {
        let Fleet { spec, engines } = &setup.fleet;
        spec.check().map_err(DriveError::Spec)?;
        let Some(route) = spec.routes.iter().position(|route| route.name == setup.route) else {
            let names: Vec<&str> = spec.routes.iter().map(|route| &*route.name).collect();
            return Err(DriveError::NoRoute(setup.route.clone(), names.join(", ")));
        };
        if engines.len() != spec.pools.len() {
            let what = format!("{} pools and engines for {}", spec.pools.len(), engines.len());
            return Err(DriveError::Spec(what));
        }
        let engines: Vec<EngineSpec> = engines
            .iter()
            .map(|engine| engine.in_blocks_of(workload.block_tokens))
            .collect();
        let mut slots = Slots::default();
        let mut places = Vec::new();
        for (pool, (of, engine)) in spec.pools.iter().zip(&engines).enumerate() {
            let add = |endpoint: &EndpointSpec| {
                let name = (of.name.clone(), endpoint.name.clone());
                let place = slots.add((pool, name), engine, Duration::ZERO);
                let run = &mut slots.slots[place].run;
                run.price = of.price.map(|price| (price.input, price.output));
                run.elsewhere = elsewhere(spec.zone.as_deref(), endpoint);
                place
            };
            places.push(of.endpoints.iter().map(add).collect());
        }
        let routers = match chooser {
            Chooser::Scheduler => (0..setup.replicas.max(1))
                .map(|number| Router::Scheduler(Box::new(Replica::new(setup, number))))
                .collect(),
            Chooser::Baseline(baselines) => baselines
                .into_iter()
                .map(|baseline| Router::Baseline {
                    baseline,
                    inflight: vec![0; slots.slots.len()],
                })
                .collect(),
        };
        let requests = workload.requests.len();
        Ok(Self {
            setup,
            workload,
            now: Duration::ZERO,
            spec: spec.clone(),
            route,
            engines,
            places,
            points: Points::new(slots.slots.len()),
            slots,
            routers,
            clients: Clients::new(workload),
            due: BinaryHeap::new(),
            order: 0,
            flights: vec![None; requests],
            records: vec![None; requests],
            arrived: vec![Duration::ZERO; requests],
            left: requests,
            turns: 0,
            attempts: 0,
            decisions: 0,
            todo: VecDeque::new(),
        })
    }

    /// Runs to the end of the last request.
    pub(super) fn run(mut self, progress: &mut dyn FnMut(usize)) -> Result<Run, DriveError> {
        for (number, fault) in self.setup.faults.iter().enumerate() {
            self.due.push(Reverse((fault.at, 0, Due::Fault(number))));
        }
        if self.routers.iter().any(Router::reads_metrics) {
            self.plan(Duration::ZERO, Due::Scrape);
        }
        self.configure()?;
        for place in 0..self.slots.slots.len() {
            self.slots.serves(place);
        }
        let mut told = self.left;
        while self.left > 0 {
            // Probes are due for ever; they alone bring no request to its end.
            let expected =
                self.clients.under_way() > 0 || self.turns > 0 || self.clients.next_due().is_some();
            let Some(next) = self.next().filter(|_| expected) else {
                return Err(self.broken(format!("{} requests were lost", self.left)));
            };
            self.points.until(next, &mut self.slots);
            self.now = next;
            self.hear()?;
            while self.due.peek().is_some_and(|Reverse((at, _, _))| *at <= next) {
                let Some(Reverse((_, _, due))) = self.due.pop() else {
                    break;
                };
                self.happens(due)?;
                self.hear()?;
            }
            while self.clients.next_due().is_some_and(|at| at <= next) {
                let Some(index) = self.clients.take_due() else {
                    break;
                };
                self.request(index)?;
                self.hear()?;
            }
            self.tick()?;
            self.hear()?;
            if told - self.left >= PROGRESS_STEP as usize {
                told = self.left;
                progress(self.records.len() - self.left);
            }
        }
        self.finish()
    }

    fn finish(self) -> Result<Run, DriveError> {
        for router in &self.routers {
            if let Router::Scheduler(replica) = router {
                replica.check_at_rest(self.now)?;
            }
        }
        if self.clients.under_way() > 0 {
            return Err(self.broken(format!("{} requests were lost", self.clients.under_way())));
        }
        let (ended, step) = (self.now, self.points.step());
        Ok(Run {
            records: self.records.into_iter().flatten().collect(),
            endpoints: self.slots.finish(ended),
            step,
            ended,
            attempts: self.attempts,
            decisions: self.decisions,
        })
    }

    pub(super) fn broken(&self, what: String) -> DriveError {
        DriveError::Invariant { at: self.now, what }
    }

    /// When anything happens next.
    fn next(&mut self) -> Option<Duration> {
        let deadlines = self.routers.iter().filter_map(|router| match router {
            Router::Scheduler(replica) => replica.next_deadline(),
            Router::Baseline { .. } => None,
        });
        let times = [
            self.slots.next(),
            self.clients.next_due(),
            self.due.peek().map(|Reverse((at, _, _))| *at),
            deadlines.min(),
        ];
        // What should have happened by now happens now.
        times.into_iter().flatten().min().map(|next| next.max(self.now))
    }

    pub(super) fn plan(&mut self, at: Duration, due: Due) {
        self.order += 1;
        self.due.push(Reverse((at, self.order, due)));
    }

    fn happens(&mut self, due: Due) -> Result<(), DriveError> {
        match due {
            Due::Serves(place) => self.slots.serves(place),
            Due::Recovers(place) => self.slots.slow(place, 1.0, self.now),
            Due::Scrape => {
                self.slots.scrape(self.now);
                self.tell_readings()?;
                let interval = self.setup.scrape.max(Duration::from_millis(1));
                self.plan(self.now + interval, Due::Scrape);
            }
            Due::Probed {
                replica,
                endpoint,
                place,
            } => {
                let healthy = self.slots.slots[place].up;
                self.tell(replica, Event::Probed { endpoint, healthy })?;
            }
            Due::Joins(place) => self.joins(place)?,
            Due::Turn(index) => {
                self.turns -= 1;
                self.request(index)?;
            }
            Due::Sent(index) => self.arrive(index)?,
            Due::Clock {
                index,
                attempt,
                gives_up,
            } => self.rings((index, attempt), gives_up)?,
            Due::Fault(number) => self.fault(number)?,
        }
        Ok(())
    }

    /// Deadlines of the schedulers.
    fn tick(&mut self) -> Result<(), DriveError> {
        for replica in 0..self.routers.len() {
            let Router::Scheduler(router) = &self.routers[replica] else {
                continue;
            };
            if router
                .next_deadline()
                .is_some_and(|deadline| deadline <= self.now)
            {
                self.tell(replica, Event::Tick)?;
            }
        }
        Ok(())
    }

    /// A request is due.
    fn request(&mut self, index: u32) -> Result<(), DriveError> {
        if self.clients.due(index) {
            self.arrive(index)?;
        }
        Ok(())
    }
}
