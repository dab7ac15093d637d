//! One endpoint: its counts, its health, and the one answer that follows from them — may it take a request now?

use crate::action::Action;
use crate::engine::{Engine, Load};
use crate::event::Outcome;
use crate::health::breaker::Breaker;
use crate::health::cooling::Cooling;
use crate::health::ejection::{Ejection, Tryout};
use crate::health::probes::Probes;
use crate::health::ramp::Ramp;
use crate::health::verdict::Verdict;
use crate::ids::EndpointId;
use crate::lately::Lately;
use crate::rng::Rng;
use crate::spec::{EndpointSpec, PoolSpec, Weight};
use crate::time::Time;
use crate::view::StateKind;
use std::sync::Arc;
use std::time::Duration;

/// An entry of the fleet's table.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) id: EndpointId,
    pub(crate) name: Arc<str>,
    pub(crate) address: Arc<str>,
    /// Rules of its pool.
    pub(crate) pool: Arc<PoolSpec>,
    /// Place of its pool's state.
    pub(crate) pool_at: usize,
    /// Sorted by name.
    pub(crate) labels: Arc<[(Arc<str>, Arc<str>)]>,
    pub(crate) engine: Engine,
    /// Whether its engine has told all that its prefix cache holds, so that nothing else is believed cached there.
    pub(crate) cache_told: bool,
    /// Which data-parallel rank of its URL it is.
    pub(crate) rank: Option<u32>,
    /// Slots of all ranks of its URL, itself among them; empty: the URL holds no ranks.
    pub(crate) siblings: Arc<[u32]>,
    /// Gone from the config; lingers until idle.
    pub(crate) removed: bool,
    /// Drained by hand.
    pub(crate) drained: bool,
    pub(crate) weight: Weight,
    /// Weight set by hand, and until when.
    pub(crate) weight_override: Option<SetWeight>,
    /// Weight that was measured, and until when it counts.
    pub(crate) calibrated: Option<SetWeight>,
    pub(crate) inflight: u32,
    pub(crate) cooling: Cooling,
    pub(crate) ejection: Ejection,
    pub(crate) breaker: Option<Breaker>,
    pub(crate) probes: Option<Probes>,
    pub(crate) ramp: Ramp,
    pub(crate) counts: Counts,
    /// Prompt tokens that were sent there of late and were not believed cached.
    pub(crate) uncached: Lately,
    /// Newest byte of any of its streams, or when it last went from idle to busy.
    pub(crate) last_byte: Time,
    /// Kind last told to the driver.
    pub(crate) told: StateKind,
    /// Earliest time at which the deadline queue looks at it.
    pub(crate) wake: Time,
}

/// A weight that was set, and until when.
pub(crate) type SetWeight = (Weight, Option<Time>);

/// Totals since it joined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) dispatched: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    busy: Duration,
    busy_since: Time,
}

/// What an attempt holds of its endpoint besides the slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hold {
    /// The upstream key it uses.
    pub(crate) key: u16,
    ejection: Option<u32>,
    breaker: Option<u32>,
    failed_open: bool,
    /// What it holds of the engine.
    pub(crate) load: Load,
}

/// When an endpoint can take requests again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// It can now.
    Now,
    /// By time alone.
    At(Time),
    /// Something else must happen first.
    Unknown,
}

/// Mean of the load factors of a pool's endpoints, blocked ones as well, so that no weight moves because another endpoint is
/// gone for a while.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeanFactor {
    sum: f64,
    told: f64,
}

impl MeanFactor {
    pub(crate) fn add(&mut self, endpoint: &Endpoint, now: Time) {
        if let Some(factor) = endpoint.load_factor(now) {
            self.sum += factor;
            self.told += 1.0;
        }
    }

    /// None: nobody tells anything.
    pub(crate) fn get(&self) -> Option<f64> {
        (self.told > 0.0).then(|| self.sum / self.told)
    }
}

impl Endpoint {
    pub(crate) fn new(id: EndpointId, spec: &EndpointSpec, pool: &Arc<PoolSpec>) -> Self {
        Self {
            id,
            name: Arc::clone(&spec.name),
            address: Arc::clone(&spec.address),
            pool: Arc::clone(pool),
            pool_at: 0,
            labels: Arc::clone(&spec.labels),
            engine: Engine::default(),
            cache_told: false,
            rank: spec.rank,
            siblings: Arc::default(),
            removed: false,
            drained: false,
            weight: spec.weight,
            weight_override: None,
            calibrated: None,
            inflight: 0,
            cooling: Cooling::new(pool.keys),
            ejection: Ejection::default(),
            breaker: pool.breaker.clone().map(Breaker::new),
            probes: None,
            ramp: Ramp::default(),
            counts: Counts::default(),
            uncached: Lately::default(),
            last_byte: Time::ZERO,
            told: StateKind::Live,
            wake: Time::NEVER,
        }
    }

    /// Takes over new rules; health and counts stay.
    pub(crate) fn reconfigure(&mut self, spec: &EndpointSpec, pool: &Arc<PoolSpec>, now: Time) {
        self.weight = spec.weight;
        self.labels = Arc::clone(&spec.labels);
        self.rank = spec.rank;
        self.engine.set_fresh_for(pool.fresh_for());
        if self.pool.keys != pool.keys {
            self.cooling.resize(pool.keys);
        }
        match (&mut self.breaker, &pool.breaker) {
            (Some(breaker), Some(rules)) => breaker.reconfigure(rules),
            (breaker, rules) => *breaker = rules.clone().map(Breaker::new),
        }
        match (&mut self.probes, &pool.probe) {
            (Some(probes), Some(rules)) => probes.reconfigure(rules, now),
            (probes, None) => *probes = None,
            (None, Some(_)) => {}
        }
        self.pool = Arc::clone(pool);
    }

    /// Starts probing where the pool asks for it and it is not under way.
    pub(crate) fn start_probing(&mut self, now: Time, rng: &mut Rng) {
        if self.probes.is_none() {
            self.probes = self.pool.probe.clone().map(|rules| Probes::new(rules, now, rng));
        }
        // One rank asks for all of its URL.
        let follows = self.rank.is_some_and(|rank| rank > 0);
        if let Some(probes) = &mut self.probes {
            probes.set_follows(follows);
        }
    }

    /// The weight that counts now, but for the load where the pool's weights follow it.
    #[inline]
    pub(crate) fn effective_weight(&self, now: Time) -> Weight {
        self.weight_by_hand(now).unwrap_or_else(|| self.base_weight(now))
    }

    /// The weight set by hand, while it counts.
    pub(crate) fn weight_by_hand(&self, now: Time) -> Option<Weight> {
        in_force(self.weight_override, now).map(|(weight, _)| weight)
    }

    /// By what its load multiplies its weight, where the weights of its pool follow the load; none: it told nothing, or has its
    /// weight by hand, which stands as it is.
    pub(crate) fn load_factor(&self, now: Time) -> Option<f64> {
        let told = self.engine.dynamic().factor();
        told.filter(|_| self.pool.auto_weight && self.weight_by_hand(now).is_none())
    }

    /// The weight that is shown, and that counts where turns are taken. `mean`: of the factors in its pool, for one that told
    /// nothing; none: no load counts in this pool.
    pub(crate) fn shown_weight(&self, now: Time, mean: Option<f64>) -> Weight {
        match (self.weight_by_hand(now), mean) {
            (Some(by_hand), _) => by_hand,
            (None, Some(mean)) => {
                let factor = self.load_factor(now).unwrap_or(mean);
                self.base_weight(now).times(factor)
            }
            (None, None) => self.base_weight(now),
        }
    }

    /// The weight that counts where nobody has set another by hand: the measured one, else the config's. One of 0 takes the
    /// endpoint out, and no measurement brings it back.
    #[inline]
    pub(crate) fn base_weight(&self, now: Time) -> Weight {
        match self.calibrated {
            None => self.weight,
            Some(_) if self.weight == Weight::ZERO => Weight::ZERO,
            calibrated => in_force(calibrated, now).map_or(self.weight, |(weight, _)| weight),
        }
    }

    #[inline]
    pub(crate) fn is_draining(&self, now: Time) -> bool {
        self.removed || self.drained || self.effective_weight(now) == Weight::ZERO
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.pool.max_inflight.is_some_and(|most| self.inflight >= most)
    }

    pub(crate) fn is_unhealthy(&self) -> bool {
        self.probes.as_ref().is_some_and(Probes::is_unhealthy)
    }

    /// When its silence makes it stalled, if nothing comes.
    pub(crate) fn stalls_at(&self) -> Option<Time> {
        let silence = self.pool.stall_after.filter(|_| self.inflight > 0)?;
        Some(self.last_byte.after(silence))
    }

    pub(crate) fn is_stalled(&self, now: Time) -> bool {
        self.stalls_at().is_some_and(|at| at <= now)
    }

    /// Why it may take no request now: the first row of the state table that applies.
    #[inline]
    pub(crate) fn blocked(&self, now: Time) -> Option<StateKind> {
        if self.is_draining(now) {
            Some(StateKind::Draining)
        } else if self.cooling.blocks(now) {
            Some(StateKind::Cooling)
        } else if self.is_full() {
            Some(StateKind::Full)
        } else if self.ejection.blocks(now) {
            Some(StateKind::Ejected)
        } else if self.breaker.as_ref().is_some_and(|breaker| breaker.blocks(now)) {
            Some(StateKind::Open)
        } else if self.is_unhealthy() {
            Some(StateKind::Unhealthy)
        } else if self.is_stalled(now) {
            Some(StateKind::Stalled)
        } else {
            None
        }
    }

    /// When it can take requests again.
    pub(crate) fn returns(&self, now: Time) -> Return {
        if self.blocked(now).is_none() {
            return Return::Now;
        }
        let mut latest = now;
        let mut unknown = self.is_full() || self.is_stalled(now);
        if self.cooling.blocks(now) {
            latest = latest.max(self.cooling.until());
        }
        if self.ejection.is_ejected() {
            match self.ejection.back() {
                Some(back) => latest = latest.max(back),
                None => unknown = true,
            }
        }
        if let Some(breaker) = self.breaker.as_ref().filter(|breaker| breaker.is_open()) {
            match breaker.back() {
                Some(back) => latest = latest.max(back),
                None => unknown = true,
            }
        }
        if let Some(probes) = self.probes.as_ref().filter(|probes| probes.is_unhealthy()) {
            latest = latest.max(probes.back(now));
        }
        if self.is_draining(now) {
            match self.weight_override {
                Some((_, Some(until))) if !self.drained && !self.removed => latest = latest.max(until),
                _ => unknown = true,
            }
        }
        if unknown {
            Return::Unknown
        } else {
            Return::At(latest)
        }
    }

    /// Reserves a slot.
    pub(crate) fn begin(&mut self, now: Time, key: u16, failed_open: bool) -> Hold {
        if self.inflight == 0 {
            self.counts.busy_since = now;
            self.last_byte = now;
        }
        self.inflight += 1;
        self.counts.dispatched += 1;
        self.cooling.took(key);
        Hold {
            key,
            ejection: self.ejection.begin(now),
            breaker: self.breaker.as_mut().and_then(|breaker| breaker.begin(now)),
            failed_open,
            load: Load::default(),
        }
    }

    /// Gives the slot back and learns from the outcome.
    pub(crate) fn ended(&mut self, now: Time, outcome: Outcome, hold: Hold) {
        debug_assert!(self.inflight > 0, "an attempt held a slot");
        self.inflight = self.inflight.saturating_sub(1);
        if self.inflight == 0 {
            self.counts.busy += now.since(self.counts.busy_since);
        }
        if matches!(
            outcome,
            Outcome::Complete | Outcome::Status { .. } | Outcome::Broken
        ) {
            self.last_byte = now;
        }
        let verdict = Verdict::of(outcome);
        self.cooling.ended(now, outcome, (hold.key, &self.pool.cooldown));
        let how = Tryout {
            trial: hold.ejection,
            failed_open: hold.failed_open,
        };
        if self.ejection.ended(now, outcome, how) {
            self.ramp.start(now, self.pool.ramp);
        }
        if let Some(breaker) = &mut self.breaker {
            breaker.ended(now, verdict, hold.breaker);
        }
        match verdict {
            Verdict::Success => self.succeeded(now, hold),
            Verdict::Failure => self.counts.failed += 1,
            Verdict::Neither => {}
        }
    }

    fn succeeded(&mut self, now: Time, hold: Hold) {
        self.counts.succeeded += 1;
        if let Some(probes) = &mut self.probes {
            probes.served(now);
            if hold.failed_open {
                probes.clear();
            }
        }
        if hold.failed_open
            && let Some(breaker) = &mut self.breaker
        {
            breaker.close();
        }
    }

    /// A stream delivered something at `at`.
    pub(crate) fn progressed(&mut self, at: Time) {
        self.last_byte = self.last_byte.max(at);
        if let Some(probes) = &mut self.probes {
            probes.served(at);
        }
    }

    /// A probe came back.
    pub(crate) fn probed(&mut self, now: Time, healthy: bool) {
        let counts = self
            .probes
            .as_mut()
            .and_then(|probes| probes.came_back(now, healthy));
        // Only the engine's own answer shows that it can be reached; traffic that made up for it does not.
        if counts.is_some() && healthy {
            self.last_byte = self.last_byte.max(now);
            if self.ejection.clear() {
                self.ramp.start(now, self.pool.ramp);
            }
        }
    }

    /// A probe of its URL came back that another rank had sent.
    pub(crate) fn heard(&mut self, now: Time, healthy: bool) {
        if let Some(probes) = &mut self.probes {
            probes.expect();
        }
        self.probed(now, healthy);
    }

    /// No connection to its URL could be made, as another rank found out.
    pub(crate) fn unreached(&mut self, now: Time, outcome: Outcome) {
        self.ejection.ended(now, outcome, Tryout::default());
    }

    /// Its URL can be reached again, as another rank found out.
    pub(crate) fn reached(&mut self, now: Time) {
        if self.ejection.clear() {
            self.ramp.start(now, self.pool.ramp);
        }
    }

    /// Does what is due, and tells the driver of it.
    pub(crate) fn due(&mut self, now: Time, actions: &mut Vec<Action>) {
        if let Some((_, Some(until))) = self.weight_override
            && until <= now
        {
            self.weight_override = None;
        }
        if let Some((_, Some(until))) = self.calibrated
            && until <= now
        {
            self.calibrated = None;
        }
        if !self.removed && self.probes.as_mut().is_some_and(|probes| probes.send(now)) {
            actions.push(Action::Probe(self.id));
        }
    }

    /// When time alone next changes something about it.
    pub(crate) fn next_wake(&self, now: Time) -> Time {
        if self.removed {
            return Time::NEVER;
        }
        let later = |time: Option<Time>| time.filter(|at| *at > now);
        [
            self.probes.as_ref().and_then(Probes::next),
            later(Some(self.cooling.until())),
            later(self.stalls_at()),
            self.weight_override.and_then(|(_, until)| until),
            self.calibrated.and_then(|(_, until)| until),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(Time::NEVER)
    }

    /// Seconds during which it had something to do.
    pub(crate) fn busy(&self, now: Time) -> Duration {
        if self.inflight == 0 {
            self.counts.busy
        } else {
            self.counts.busy + now.since(self.counts.busy_since)
        }
    }
}

/// A weight and its end, until it ends.
pub(crate) fn in_force(set: Option<SetWeight>, now: Time) -> Option<SetWeight> {
    set.filter(|(_, until)| until.is_none_or(|until| now < until))
}

/// The endpoint of this id, if it is not gone.
pub(crate) fn find_mut(endpoints: &mut [Endpoint], id: EndpointId) -> Option<&mut Endpoint> {
    endpoints
        .get_mut(id.slot as usize)
        .filter(|endpoint| endpoint.id == id)
}
