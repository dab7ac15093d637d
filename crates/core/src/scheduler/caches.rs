//! What is in the engines' prefix caches, as far as the scheduler can know: it was sent there and the engine has not lost it, or
//! the engine says so.
//!
//! An engine has lost its cache when it says so, when its counters start again, and when a connection to it is refused: then
//! nothing listens there, so its process ended. One that is slow to answer, resets or fails may have all that it had.

use super::Scheduler;
use crate::event::Outcome;
use crate::ids::EndpointId;
use crate::lately::Lately;
use crate::prefix::Limits;
use crate::signals::{CacheChange, Reading};
use crate::spec::FleetSpec;
use crate::units::{Size, Span};
use crate::work::Work;

/// How much of the mean a new prompt is.
const NEWEST: f64 = 1.0 / 64.0;
/// Memory for prompts under way; those that do not fit are known when their engines tell of them.
pub(super) const UNDER_WAY: Limits = Limits {
    bytes_max: 64 << 20,
    idle_max: None,
};
/// A capacity that is not off by more is left as it is.
const OFF_MAX: f64 = 1.0 / 8.0;

impl Scheduler {
    /// A prompt goes to an endpoint, which has all of it then; `cached`: tokens that it is believed to have already.
    pub(super) fn prompt_sent(&mut self, id: EndpointId, work: &Work, cached: u32) {
        let now = self.now;
        let Some(endpoint) = self.endpoint_mut(id) else {
            return;
        };
        let uncached = work.prompt_tokens.saturating_sub(cached);
        endpoint.uncached.add(now, f64::from(uncached));
        // An engine that tells of its cache will say what it keeps of a prompt that it can be asked about, but only once it computes
        // it, and others with the same beginning may come before.
        let tells = endpoint.cache_told && !work.exact.is_empty();
        let pool = endpoint.pool_at;
        if work.blocks.is_empty() {
            return;
        }
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.turns.observe(work);
            pool.common.observe(&work.blocks);
            pool.common_exact.observe(&work.exact);
        }
        if tells {
            self.under_way.stored(id.slot, None, &work.exact);
            return;
        }
        let Some(endpoint) = self.endpoint_mut(id) else {
            return;
        };
        let told = endpoint
            .engine
            .last()
            .and_then(|(reading, _)| reading.cache_tokens);
        let tokens = f64::from(work.block_tokens);
        if self.block_tokens == 0.0 {
            self.block_tokens = tokens;
        }
        self.block_tokens += NEWEST * (tokens - self.block_tokens);
        if let Some(told) = told.filter(|tokens| *tokens > 0) {
            self.size_cache(id.slot, told);
        }
        self.prefixes.store(id.slot, &work.blocks, now);
        self.note_regret(id);
    }

    /// A prompt is under way no longer: from here on an engine that tells of its cache is believed about it.
    pub(super) fn prompt_over(&mut self, id: EndpointId, work: &Work) {
        if !work.exact.is_empty() && self.endpoint_mut(id).is_some_and(|endpoint| endpoint.cache_told) {
            self.under_way.removed(id.slot, &work.exact);
        }
    }

    /// Takes over what the index knows of what an engine's cache lost.
    fn note_regret(&mut self, id: EndpointId) {
        let regret = self.prefixes.regret(id.slot);
        if let Some(endpoint) = self.endpoint_mut(id) {
            endpoint.engine.regret = regret;
        }
    }

    /// Takes over how many tokens an engine's cache has room for.
    fn size_cache(&mut self, slot: u32, tokens: u64) {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of blocks; beyond the range it is the range's end"
        )]
        let blocks = (tokens as f64 / self.block_tokens.max(1.0)) as u32;
        let before = self.prefixes.capacity(slot).unwrap_or(0);
        if f64::from(blocks.abs_diff(before)) > OFF_MAX * f64::from(blocks) {
            self.prefixes.set_capacity(slot, Some(blocks));
        }
    }

    /// A newcomer has no uncached work behind it, which is no reason to send it all there is: it counts as its peers do.
    pub(super) fn start_even(&mut self, slot: u32, pool: &str) {
        let now = self.now;
        let peers = self
            .endpoints
            .iter()
            .filter(|peer| peer.id.slot != slot && !peer.removed && *peer.pool.name == *pool);
        let (count, sum) = peers.fold((0.0, 0.0), |(count, sum), peer| {
            (count + 1.0, sum + peer.uncached.sum(now))
        });
        let uncached = &mut self.endpoints[slot as usize].uncached;
        *uncached = Lately::default();
        if count > 0.0 {
            uncached.add(now, sum / count);
        }
    }

    /// An engine says what changed in its cache.
    pub(super) fn cache_changed(&mut self, id: EndpointId, changes: &[CacheChange]) {
        let Some(endpoint) = self.endpoint_mut(id).filter(|endpoint| !endpoint.removed) else {
            return;
        };
        for change in changes {
            match change {
                CacheChange::Cleared => endpoint.cache_told = true,
                CacheChange::Lost => endpoint.cache_told = false,
                CacheChange::Stored { .. } | CacheChange::Removed { .. } => {}
            }
        }
        for change in changes {
            match change {
                CacheChange::Stored { parent, blocks } => self.prefixes.stored(id.slot, *parent, blocks),
                CacheChange::Removed { blocks } => self.prefixes.removed(id.slot, blocks),
                // Also what was learned from requests that went there.
                CacheChange::Cleared | CacheChange::Lost => {
                    self.prefixes.cleared(id.slot);
                    self.under_way.cleared(id.slot);
                }
            }
        }
        self.note_regret(id);
    }

    /// Something shows that an engine's cache is empty. One that tells of its cache says so itself, sooner or later, and
    /// what it has told since is not to be lost.
    fn emptied(&mut self, id: EndpointId) {
        if self.endpoint_mut(id).is_some_and(|endpoint| !endpoint.cache_told) {
            self.prefixes.cleared(id.slot);
            self.note_regret(id);
        }
    }

    /// A reading came whose counters may have started again.
    pub(super) fn caches_told(&mut self, id: EndpointId, reading: &Reading) {
        let Some(endpoint) = self.endpoint_mut(id) else {
            return;
        };
        let before = endpoint.engine.last().map(|(reading, _)| reading);
        let fell = |count: fn(&Reading) -> Option<u64>| {
            let before = before.and_then(count);
            before
                .zip(count(reading))
                .is_some_and(|(before, now)| now < before)
        };
        if fell(|reading| reading.prefix_queries) || fell(|reading| reading.prompt_tokens) {
            self.emptied(id);
        }
    }

    /// Notes how many of the requests at an engine are own ones, at the moment when it tells how many there are.
    pub(super) fn tell_apart(&mut self, id: EndpointId, reading: &Reading) {
        let now = self.now;
        let Some(endpoint) = self.endpoint_mut(id) else {
            return;
        };
        let (own, pool) = (f64::from(endpoint.inflight), endpoint.pool_at);
        let told = u64::from(reading.waiting.unwrap_or(0)) + u64::from(reading.running.unwrap_or(0));
        if (reading.waiting.is_some() || reading.running.is_some())
            && let Some(pool) = self.pools.get_mut(pool)
        {
            #[expect(clippy::cast_precision_loss, reason = "requests are few")]
            pool.means.told.add(now, told as f64);
            pool.means.own.add(now, own);
        }
    }

    /// An attempt ended so that the endpoint may have lost its cache.
    pub(super) fn cache_lost(&mut self, id: EndpointId, outcome: Outcome) {
        if outcome == Outcome::Refused {
            self.emptied(id);
        }
    }

    /// Takes over the limits of the policies that use the caches; the largest of all routes.
    pub(super) fn limit_caches(&mut self, spec: &FleetSpec) {
        let policies = spec
            .routes
            .iter()
            .filter_map(|route| route.policies.prefix_cache.as_ref());
        let sizes = policies.map(|policy| (policy.memory_max, policy.idle_max));
        let largest = sizes.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)));
        self.prefixes.set_limits(
            largest.map_or_else(Limits::default, |(Size(bytes), Span(idle))| Limits {
                bytes_max: usize::try_from(bytes).unwrap_or(usize::MAX),
                idle_max: Some(idle),
            }),
        );
    }
}
