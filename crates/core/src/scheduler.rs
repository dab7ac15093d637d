//! The state machine: takes an event, changes the fleet, says what is to be done.

mod arrive;
mod by_hand;
mod caches;
mod ended;
mod ranks;
mod reload;
mod snapshot;

use crate::action::Action;
use crate::deadlines::Deadlines;
use crate::endpoint::{Endpoint, find_mut};
use crate::event::{Control, Event};
use crate::ids::{EndpointId, RequestId, RouteId};
use crate::pool::Pool;
use crate::prefix::{Limits, PrefixIndex};
use crate::requests::{Requests, Stage};
use crate::rng::Rng;
use crate::route::Route;
use crate::select::Scratch;
use crate::time::Time;
use by_hand::ByHand;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Routes, endpoints and requests in flight, and the rules that move them.
pub struct Scheduler {
    seed: u64,
    /// Seed of the spec that was last configured.
    spec_seed: u64,
    rng: Rng,
    /// Latest time seen.
    now: Time,
    /// Indexed by slot; places of removed endpoints are used again.
    endpoints: Vec<Endpoint>,
    free: Vec<u32>,
    /// Indexed by place; never used again, but by a pool of the same name.
    pools: Vec<Pool>,
    /// Which endpoint holds which blocks of prompts, by slot.
    prefixes: PrefixIndex,
    /// Of prompts under way at engines that tell of their caches: what those will tell, or keep from others while they answer.
    under_way: PrefixIndex,
    /// Mean tokens of a block of the prompts that were sent of late.
    block_tokens: f64,
    /// Slots in the order of the spec, then those that were removed and still have requests.
    listed: Vec<u32>,
    lingering: Vec<u32>,
    by_hand: ByHand,
    /// Indexed by id; never used again.
    routes: Vec<Route>,
    route_order: Vec<RouteId>,
    route_names: BTreeMap<Arc<str>, RouteId>,
    requests: Requests,
    deadlines: Deadlines,
    scratch: Scratch,
    /// Slots whose state may have changed in this step.
    touched: SmallVec<[u32; 4]>,
}

impl Scheduler {
    /// An empty fleet; `seed` is the only source of randomness.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            spec_seed: 0,
            rng: Rng::new(seed),
            now: Time::ZERO,
            endpoints: Vec::new(),
            free: Vec::new(),
            pools: Vec::new(),
            prefixes: PrefixIndex::new(Limits::default()),
            under_way: PrefixIndex::new(caches::UNDER_WAY),
            block_tokens: 0.0,
            listed: Vec::new(),
            lingering: Vec::new(),
            by_hand: ByHand::default(),
            routes: Vec::new(),
            route_order: Vec::new(),
            route_names: BTreeMap::new(),
            requests: Requests::default(),
            deadlines: Deadlines::default(),
            scratch: Scratch::default(),
            touched: SmallVec::new(),
        }
    }

    /// Takes note of `event` at `now` and appends what is to be done to `actions`. Times must not run backwards; one
    /// that does is taken as the latest seen. Events about requests, attempts or endpoints that are not known (any
    /// more) change nothing.
    pub fn step(&mut self, now: Time, event: Event, actions: &mut Vec<Action>) {
        self.now = self.now.max(now);
        self.run_due(actions);
        match event {
            Event::Configure(spec) => self.configure(&spec, actions),
            Event::Arrive(arrival) => self.arrive(arrival, actions),
            Event::Ended(ended) => self.ended(&ended, actions),
            Event::Withdraw(request) => self.withdraw(request),
            Event::MoveOn { request, attempt } => self.move_on(request, attempt, actions),
            Event::Probed { endpoint, healthy } => {
                let now = self.now;
                self.with(endpoint, |endpoint| endpoint.probed(now, healthy));
                self.with_siblings(endpoint, |sibling| sibling.heard(now, healthy));
            }
            Event::Progress { endpoint, at } => {
                let at = at.min(self.now);
                self.with(endpoint, |endpoint| endpoint.progressed(at));
            }
            Event::FirstToken { request, attempt } => self.first_token(request, attempt),
            Event::Scraped { endpoint, reading } => {
                let reading = reading.made_sound();
                self.caches_told(endpoint, &reading);
                let now = self.now;
                self.tell_apart(endpoint, &reading);
                self.with(endpoint, |endpoint| endpoint.engine.scraped(now, reading));
            }
            Event::Cache { endpoint, changes } => self.cache_changed(endpoint, &changes),
            Event::Control { endpoint, command } => self.with(endpoint, |endpoint| match command {
                Control::Drain => endpoint.drained = true,
                Control::Resume => endpoint.drained = false,
                Control::Weight { weight, until } => {
                    endpoint.weight_override = weight.map(|weight| (weight, until));
                }
                Control::Calibrated { weight, until } => {
                    endpoint.calibrated = weight.map(|weight| (weight, until));
                }
            }),
            Event::Tick => {}
        }
        self.settle(actions);
    }

    /// When to send [`Event::Tick`] next; none: not until another event.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// How many scores of policies were negative or not finite since the start: each is a bug of a policy.
    #[must_use]
    pub fn bad_scores(&self) -> u64 {
        self.scratch.bad_scores
    }

    /// The endpoint of this id, if it is not gone.
    fn endpoint_mut(&mut self, id: EndpointId) -> Option<&mut Endpoint> {
        find_mut(&mut self.endpoints, id)
    }

    fn first_token(&mut self, id: RequestId, number: u32) {
        let now = self.now;
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        let Stage::Running(attempt) = &mut request.stage else {
            return;
        };
        if number != request.attempts {
            return;
        }
        if let Some(endpoint) = find_mut(&mut self.endpoints, attempt.endpoint) {
            let means = &mut self.pools[endpoint.pool_at].means;
            endpoint.engine.began(now, &mut attempt.hold.load, means);
        }
    }

    /// Changes an endpoint and has its state looked at.
    fn with(&mut self, id: EndpointId, change: impl FnOnce(&mut Endpoint)) {
        if let Some(endpoint) = self.endpoint_mut(id) {
            change(endpoint);
            self.touched.push(id.slot);
        }
    }

    /// Looks at the endpoints whose time has come.
    fn run_due(&mut self, actions: &mut Vec<Action>) {
        while let Some((at, slot)) = self.deadlines.pop(self.now) {
            let Some(endpoint) = self.endpoints.get_mut(slot as usize) else {
                continue;
            };
            if endpoint.wake == at {
                endpoint.wake = Time::NEVER;
                endpoint.due(self.now, actions);
                self.touched.push(slot);
            }
        }
    }

    /// Tells the driver of changed states, and plans when to look again.
    fn settle(&mut self, actions: &mut Vec<Action>) {
        for slot in std::mem::take(&mut self.touched) {
            let Some(endpoint) = self.endpoints.get_mut(slot as usize) else {
                continue;
            };
            let kind = endpoint.notable(self.now);
            if kind != endpoint.told {
                endpoint.told = kind;
                actions.push(Action::Changed {
                    endpoint: endpoint.id,
                    state: endpoint.describe(kind, self.now),
                });
            }
            let wake = endpoint.next_wake(self.now);
            if wake < endpoint.wake {
                endpoint.wake = wake;
                self.deadlines.push(wake, slot);
            }
        }
    }
}
