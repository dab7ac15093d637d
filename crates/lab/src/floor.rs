//! The least that any rule can reach: times to the first token that no way to route goes below.
//!
//! Each request is taken alone. Whoever computes it, its prompt's tokens are computed by one engine, or were computed there
//! before for a request with the same beginning; so none of them is computed before the first request arrives that has it. For
//! every place in the prompt this says: what stands from there to the end is computed after that first arrival, and takes an
//! engine of the fleet's fastest kind at least so many iterations, with nothing else in them. The largest of these times is the
//! floor. What it leaves out makes it lower and never higher: that requests wait for each other, that every engine has to compute a
//! beginning anew, that caches are finite, that engines are slow or gone.
//!
//! A request that follows another one arrives when that has ended, which is for the rule to decide; its time counts from then. Of
//! its prompt only that part is held against it which nobody can have computed before: neither another conversation nor a turn
//! before it. Since a request may also end without an answer, the follower's earliest arrival is the other's and the time to think.
//!
//! An iteration lasts as long as [`Coefficients::iteration`](weighbridge_sim::coefficients::Coefficients::iteration) says. Of its
//! terms only those count that the tokens themselves cause; over several iterations the dense layers are taken at the mean
//! number of tokens, which is the least that a convex function can give (Jensen 1906).

use crate::workloads::Slice;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;
use weighbridge_sim::drive::{FaultKind, Setup};
use weighbridge_sim::engine::{BlockHash, Settings};
use weighbridge_sim::report::distribution::Sorted;
use weighbridge_sim::workload::{Request, Workload};

/// Floors of all requests that an engine of the fleet takes, in figures. Seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Mean time to the first token.
    pub ttft_mean: f64,
    /// What one in ten waits longer than.
    pub ttft_p90: f64,
}

impl Floor {
    /// The figures of these times.
    pub fn of(times: impl Iterator<Item = Duration>) -> Self {
        let nanos = times.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let sorted = Sorted::of(nanos);
        Self {
            ttft_mean: sorted.mean().unwrap_or_default(),
            ttft_p90: sorted.percentile(90.0).unwrap_or_default(),
        }
    }

    /// The mean of some.
    #[must_use]
    pub fn mean(all: &[Self]) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "seeds are few")]
        let count = all.len().max(1) as f64;
        Self {
            ttft_mean: all.iter().map(|one| one.ttft_mean).sum::<f64>() / count,
            ttft_p90: all.iter().map(|one| one.ttft_p90).sum::<f64>() / count,
        }
    }
}

/// The floors of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floors {
    /// On the slice that was tuned on.
    pub tuned: Floor,
    /// On the other.
    pub held: Floor,
}

impl Floors {
    /// The one on a slice.
    #[must_use]
    pub fn on(&self, slice: Slice) -> &Floor {
        match slice {
            Slice::Tuned => &self.tuned,
            Slice::Held => &self.held,
        }
    }
}

/// The least time to the first token of each request; none of those that no engine of the fleet can hold, or that ask for no
/// token.
#[must_use]
pub fn floors(workload: &Workload, setup: &Setup) -> Vec<Option<Duration>> {
    let kinds = kinds(setup);
    let origins = origins(&workload.requests);
    let beginnings = Beginnings::new(workload, &origins);
    let floats = workload.max_concurrency.is_some();
    let all = workload.requests.iter().zip(&origins);
    all.map(|(request, origin)| {
        let mut able = kinds
            .iter()
            .filter(|kind| {
                let fits = kind.settings.check(request.prompt_tokens, request.output_tokens);
                fits.is_ok() && request.output_tokens > 0
            })
            .peekable();
        able.peek()?;
        let floats = floats || request.after.is_some();
        let parts = beginnings.parts(request, origin, floats);
        let least = able.map(|kind| kind.floor_ns(&parts)).min()?;
        Some(Duration::from_nanos(least))
    })
    .collect()
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// The earliest at which it can arrive.
    at: Duration,
    /// The first request of its conversation.
    root: u32,
    /// Requests before it in its conversation.
    depth: u32,
}

fn origins(requests: &[Request]) -> Vec<Origin> {
    let mut origins: Vec<Origin> = Vec::with_capacity(requests.len());
    for (place, request) in (0_u32..).zip(requests) {
        let before = request.after.and_then(|before| origins.get(before as usize));
        origins.push(match before {
            Some(before) => Origin {
                at: before.at.saturating_add(request.at),
                root: before.root,
                depth: before.depth + 1,
            },
            None => Origin {
                at: request.at,
                root: place,
                depth: 0,
            },
        });
    }
    origins
}

/// Who has a block.
struct Holders {
    /// The earliest arrival of one.
    since: Duration,
    /// Conversation of the first that was looked at.
    root: u32,
    /// The earliest turn that has it there.
    depth: u32,
    /// Several requests have it at this depth there.
    several: bool,
    /// Another conversation has it.
    elsewhere: bool,
    /// It is part of an answer, so that it may be there without ever having been computed as a prompt.
    answer: bool,
}

impl Holders {
    fn joined_by(&mut self, origin: &Origin) {
        self.since = self.since.min(origin.at);
        if self.root != origin.root {
            self.elsewhere = true;
        } else if origin.depth < self.depth {
            (self.depth, self.several) = (origin.depth, false);
        } else if origin.depth == self.depth {
            self.several = true;
        }
    }

    /// Whether somebody has it besides this request and those that follow it.
    fn others_than(&self, origin: &Origin) -> bool {
        self.elsewhere || self.depth < origin.depth || (self.depth == origin.depth && self.several)
    }
}

/// All blocks of a workload.
struct Beginnings {
    block_tokens: u32,
    blocks: HashMap<BlockHash, Holders>,
}

/// The end of a prompt: nothing of it is computed before some time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    /// How long before the arrival of the request that time is.
    earlier: Duration,
    /// Tokens to compute.
    tokens: u64,
    /// Pairs of one of them and a token it attends to, itself among them.
    pairs: f64,
}

impl Part {
    /// `tokens` more, which stand behind `before` others.
    fn add(&mut self, tokens: u32, before: u32) {
        self.tokens += u64::from(tokens);
        self.pairs += f64::from(tokens) * (f64::from(before) + (f64::from(tokens) + 1.0) / 2.0);
    }
}

impl Beginnings {
    fn new(workload: &Workload, origins: &[Origin]) -> Self {
        let mut blocks = HashMap::new();
        for (request, origin) in workload.requests.iter().zip(origins) {
            let prompt = request.prompt_blocks(workload.block_tokens).len();
            for (place, block) in request.blocks.iter().enumerate() {
                let holders = match blocks.entry(*block) {
                    Entry::Occupied(entry) => {
                        let holders: &mut Holders = entry.into_mut();
                        holders.joined_by(origin);
                        holders
                    }
                    Entry::Vacant(entry) => entry.insert(Holders {
                        since: origin.at,
                        root: origin.root,
                        depth: origin.depth,
                        several: false,
                        elsewhere: false,
                        answer: false,
                    }),
                };
                holders.answer |= place >= prompt;
            }
        }
        Self {
            block_tokens: workload.block_tokens,
            blocks,
        }
    }

    /// The ends of a request's prompt that count, the shortest first. The first is what nobody else can have computed; it is
    /// all there is of a request whose arrival floats.
    fn parts(&self, request: &Request, origin: &Origin, floats: bool) -> Vec<Part> {
        // The last token is computed in any case, since the first of the answer comes out of it.
        let reusable = (request.prompt_tokens.max(1) - 1)
            .checked_div(self.block_tokens)
            .unwrap_or(0);
        let prompt = &request.blocks[..request.blocks.len().min(reusable as usize)];
        let holders = |block: &BlockHash| self.blocks.get(block);
        let shared: Vec<&Holders> = prompt
            .iter()
            .map_while(|block| holders(block).filter(|holders| holders.others_than(origin)))
            .collect();
        let mut place = u32::try_from(shared.len()).unwrap_or(u32::MAX);
        let before = place * self.block_tokens;
        let mut part = Part {
            earlier: Duration::ZERO,
            tokens: 0,
            pairs: 0.0,
        };
        part.add(request.prompt_tokens - before, before);
        let mut parts = vec![part];
        if floats {
            return parts;
        }
        for holders in shared.into_iter().rev() {
            place -= 1;
            let earlier = origin.at.saturating_sub(holders.since).max(part.earlier);
            if earlier != part.earlier {
                parts.push(part);
                part.earlier = earlier;
            }
            if !holders.answer {
                part.add(self.block_tokens, place * self.block_tokens);
            }
        }
        parts.push(part);
        parts
    }
}

/// Engines that are alike.
struct Kind<'a> {
    settings: &'a Settings,
    /// The least factor on its times.
    slowdown: f64,
}

fn kinds(setup: &Setup) -> Vec<Kind<'_>> {
    let factors = setup.faults.iter().map(|fault| match fault.kind {
        FaultKind::Slow { factor, .. } if factor > 0.0 => factor,
        _ => 1.0,
    });
    let slowdown = factors.fold(1.0, f64::min);
    let engines = setup.fleet.engines.iter();
    engines
        .map(|engine| Kind {
            settings: &engine.settings,
            slowdown,
        })
        .collect()
}

impl Kind<'_> {
    /// The least time from the arrival to the first token.
    fn floor_ns(&self, parts: &[Part]) -> u64 {
        let after = |part: &Part| {
            let earlier = u64::try_from(part.earlier.as_nanos()).unwrap_or(u64::MAX);
            self.takes_ns(part).saturating_sub(earlier)
        };
        parts.iter().map(after).max().unwrap_or_default()
    }

    /// The least time in which a part is computed.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "token counts are far below 2^53, and times above 0 and below 2^64 ns"
    )]
    fn takes_ns(&self, part: &Part) -> u64 {
        let by = &self.settings.coefficients;
        let most = u64::from(self.settings.max_num_batched_tokens.max(1));
        let iterations = part.tokens.div_ceil(most).max(1);
        let (times, tokens) = (iterations as f64, part.tokens as f64);
        let memory = times * by.memory_s + tokens * by.memory_per_token_s;
        let compute = times * by.compute_s + tokens * by.compute_per_token_s;
        let seconds = times * (by.overhead_s + by.sampling_s + by.prefill_s)
            + memory.max(compute)
            + by.per_sequence_s
            + by.per_prefill_pair_s * part.pairs;
        // The engine rounds each iteration to the nearest nanosecond.
        ((seconds * self.slowdown * 1e9) as u64).saturating_sub(iterations)
    }
}

#[cfg(test)]
#[path = "floor_tests.rs"]
mod tests;
