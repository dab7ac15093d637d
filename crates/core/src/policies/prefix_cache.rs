//! Prefers engines that have the beginning of the prompt in their cache, where that saves more than it costs.

use super::{Candidate, Candidates, Home, Request, Scorer, ScorerConfig, unseen};
use crate::explain::Abstained;
use crate::units::{Size, Span, show_size};
use crate::work::Needs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
Scores the share of the prompt's blocks that are believed to be in an engine's cache: from what this gateway sent there, or
exactly where the engine tells of its cache (`kv_events`). What all candidates have distinguishes none of them and is not
counted. If nobody has any of the prompt, it abstains.

The longest prefix alone sends everything to one engine, since most prompts of an application begin alike. So a hit counts
only where it saves more than it costs:

- the uncached prompt tokens that the engine was sent lately (half of them forgotten every two minutes) are at most a tenth
  above the mean of the candidates, with what the hit saves on top;
- its requests in flight are at most half above the mean, or above it by four or three times its root; where the hit is next
  to nothing, or what most prompts have in common such as a system prompt, at most one above the least.

If no hit counts, since all have the same of the prompt or all hits are refused, the rest of it is computed wherever it goes,
and the candidates score by how far below that bound of work they are: whoever had the least gets the most.

**Right** for conversations, agents and long documents, where turn follows turn and the same text comes again. **Wrong** as
the only policy: it knows nothing of queues, so pair it with `least_inflight` or `least_work`. Useless where prompts are short
or have nothing in common, and where the engines do not cache.

The gateway's own account is a guess that follows each engine's cache size where its metrics tell it. An endpoint that refuses
a connection, or whose counters start again, has lost its cache.

Several gateways each know what they sent. Where engines tell of more requests than this gateway sent them, the score is mixed: what it
knows counts for the share that it sees, and the rest goes to the engine to which the head of the prompt belongs by rendezvous hashing,
on all gateways the same, unless its queue is longer than the others'. The head is all before the first answer where most prompts are
turns of conversations, else at most 16 KiB. So eight gateways that share nothing find nearly as much as one does.

Example: a prompt of 20 blocks, of which engines A, B and C have 12, 2 and 0, with even work: the scores are 0.6, 0.1 and 0. If
all three have the first 2 and A has 12, they are 0.5, 0 and 0.
";

/// Uncached work above the mean at which hits stop counting, as a share of the mean.
const WORK_AHEAD: f64 = 0.1;
/// Requests in flight above which hits stop counting: a multiple of the mean, and a number above it, which with more requests
/// is a multiple of the deviation that chance gives them.
const INFLIGHT_TIMES: f64 = 1.5;
const INFLIGHT_ABOVE: f64 = 4.0;
const INFLIGHT_ROOTS: f64 = 3.0;
/// The same where the hit is next to nothing, above the least.
const INFLIGHT_LITTLE: f64 = 2.0;
/// One over the part of a prompt that is worth all of the bound.
const OWN_TIMES: f64 = 4.0;

/// Settings of `prefix_cache`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Weight in the sum, above 0 and at most 1000000.
    pub weight: f64,
    /// Most memory for what the gateway knows of caches, 1MiB to 4GiB. It is kept once for all routes: the largest counts.
    pub memory_max: Size,
    /// Time without use after which what was learned is forgotten, > 0. The largest of all routes counts.
    pub idle_max: Span,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            weight: 1.0,
            memory_max: Size(256 << 20),
            idle_max: Span(Duration::from_secs(3600)),
        }
    }
}

impl ScorerConfig for Config {
    fn name(&self) -> &'static str {
        "prefix_cache"
    }

    fn weight(&self) -> f64 {
        self.weight
    }

    fn check(&self) -> Result<(), String> {
        super::check_weight(self.weight)?;
        if !(1 << 20..=4 << 30).contains(&self.memory_max.0) {
            return Err(format!(
                "memory_max: {} is not from 1MiB to 4GiB; 256MiB holds some ten million blocks",
                show_size(self.memory_max.0)
            ));
        }
        if self.idle_max.0.is_zero() {
            return Err("idle_max: 0s would forget at once; leave the policy out to switch it off".into());
        }
        Ok(())
    }

    fn needs(&self) -> Needs {
        Needs::BLOCKS
            .and(Needs::HEAD)
            .and(Needs::TOKENS)
            .and(Needs::SIGNALS)
    }

    fn build(&self) -> Box<dyn Scorer> {
        Box::new(PrefixCache)
    }
}

struct PrefixCache;

impl Scorer for PrefixCache {
    fn score(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let unseen = unseen::others(candidates).unseen;
        let home = unseen::home(request, candidates, unseen);
        let known = learned(candidates, scores);
        match home {
            Some(home) => {
                let sum = if known { scores.iter().sum() } else { 0.0 };
                unseen::mix(scores, sum, (home, unseen));
                Ok(None)
            }
            None if known => Ok(None),
            None => Err(Abstained::Miss),
        }
    }
}

/// Scores by what this gateway knows of the candidates' caches; false: nobody has any of the prompt.
fn learned(candidates: &Candidates<'_>, scores: &mut [f64]) -> bool {
    let bounds = Bounds::of(candidates);
    if bounds.blocks_max == 0 {
        return false;
    }
    let mut worth = false;
    for (place, score) in scores.iter_mut().enumerate() {
        let candidate = candidates.get(place);
        let more = candidate.cached.blocks.saturating_sub(bounds.blocks_min);
        *score = if more > 0 && bounds.is_worth(&candidate, candidates) {
            worth = true;
            f64::from(more) / f64::from(candidate.cached.of.max(1))
        } else {
            0.0
        };
    }
    if !worth {
        for (place, score) in scores.iter_mut().enumerate() {
            let candidate = candidates.get(place);
            *score = bounds.room(&candidate, candidates);
        }
    }
    true
}

/// What all candidates are measured by.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    blocks_min: u32,
    blocks_max: u32,
    tokens_min: u32,
    /// Most uncached tokens of late.
    work: f64,
    /// Most requests in flight, this one included; and where the hit is next to nothing.
    inflight: f64,
    inflight_little: f64,
}

impl Bounds {
    fn of(candidates: &Candidates<'_>) -> Self {
        let mut bounds = Self {
            blocks_min: u32::MAX,
            blocks_max: 0,
            tokens_min: u32::MAX,
            work: 0.0,
            inflight: 1.0,
            inflight_little: f64::INFINITY,
        };
        for candidate in candidates.iter() {
            let cached = candidate.cached;
            bounds.blocks_min = bounds.blocks_min.min(cached.blocks);
            bounds.blocks_max = bounds.blocks_max.max(cached.blocks);
            bounds.tokens_min = bounds.tokens_min.min(cached.tokens);
            bounds.work += candidate.uncached.sum(candidates.now());
            let inflight = f64::from(candidate.inflight);
            bounds.inflight += inflight;
            bounds.inflight_little = bounds.inflight_little.min(inflight + INFLIGHT_LITTLE);
        }
        #[expect(clippy::cast_precision_loss, reason = "candidates are few")]
        let count = candidates.len() as f64;
        bounds.work *= (1.0 + WORK_AHEAD) / count;
        let mean = bounds.inflight / count;
        let above = INFLIGHT_ABOVE.max(INFLIGHT_ROOTS * mean.sqrt());
        bounds.inflight = (INFLIGHT_TIMES * mean).max(mean + above);
        bounds
    }

    fn is_crowded(&self, candidate: &Candidate<'_>) -> bool {
        f64::from(candidate.inflight) + 1.0 > self.inflight
    }

    /// Whether too many are in flight for what the candidate has beyond what most prompts and all candidates have. A quarter
    /// of the prompt is worth all that is allowed, less is worth as much less.
    fn is_too_crowded(&self, candidate: &Candidate<'_>) -> bool {
        let cached = candidate.cached;
        let own = cached.blocks.saturating_sub(cached.common.max(self.blocks_min));
        let worth = (OWN_TIMES * f64::from(own) / f64::from(cached.of.max(1))).min(1.0);
        let most = self.inflight_little + worth * (self.inflight - self.inflight_little).max(0.0);
        f64::from(candidate.inflight) + 1.0 > most
    }

    /// Whether what the candidate has of the prompt is worth that it is sent more.
    fn is_worth(&self, candidate: &Candidate<'_>, candidates: &Candidates<'_>) -> bool {
        let saved = f64::from(candidate.cached.tokens.saturating_sub(self.tokens_min));
        !self.is_too_crowded(candidate) && candidate.uncached.sum(candidates.now()) <= self.work + saved
    }

    /// How far the candidate is below the bound of work, as a share of it.
    fn room(&self, candidate: &Candidate<'_>, candidates: &Candidates<'_>) -> f64 {
        if self.is_crowded(candidate) || self.work <= 0.0 {
            return 0.0;
        }
        (1.0 - candidate.uncached.sum(candidates.now()) / self.work).max(0.0)
    }
}

#[cfg(test)]
mod tests;
