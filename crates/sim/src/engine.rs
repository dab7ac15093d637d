//! The engine as the rest of the world sees it: work in, tokens out, time as an argument.

mod batching;
mod blocks;
mod run;
mod sequence;
mod settings;

pub use batching::BatchingEngine;
pub use blocks::BlockHash;
pub use settings::{Refusal, Settings};

use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::signals::CacheChange;

/// Virtual time since the engine started.
pub type Time = Duration;

/// Names a piece of work; the caller keeps it unique among work that is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// One request to generate tokens.
#[derive(Clone, Debug)]
pub struct Work {
    /// Its name in events and for [`Engine::cancel`].
    pub id: WorkId,
    /// Chained hashes of the full blocks of the prompt and, where it is known, of the output after it. Equal hashes
    /// at the same place mean equal content up to there. Blocks beyond the list are never shared.
    pub blocks: Arc<[BlockHash]>,
    /// Length of the prompt, in tokens.
    pub prompt_tokens: u32,
    /// Tokens to generate. With zero the prompt is computed and nothing else, as for an embedding: the only event is
    /// [`EventKind::Finished`].
    pub output_tokens: u32,
}

/// What happened to a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The prompt is computed and the first token is there.
    FirstToken {
        /// Prompt tokens that came out of the cache when the work was first admitted.
        cached_tokens: u32,
        /// When that was: the start of the first iteration that computed some of it.
        scheduled: Time,
    },
    /// A token after the first. A quiet engine does not tell of these.
    Token,
    /// All is done; follows the last token's event at the same time.
    Finished,
}

/// One event of one piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happened.
    pub at: Time,
    /// To which work.
    pub id: WorkId,
    /// What.
    pub kind: EventKind,
}

/// State and totals of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sequences that hold cache and take part in iterations.
    pub running: u64,
    /// Sequences that wait for admission, preempted ones among them.
    pub waiting: u64,
    /// Cache blocks held by running sequences.
    pub kv_blocks_used: u64,
    /// Cache blocks there are.
    pub kv_blocks_total: u64,
    /// Prompt tokens looked up in the prefix cache, in all.
    pub prefix_queries: u64,
    /// Prompt tokens found there, in all.
    pub prefix_hits: u64,
    /// Prompt tokens of all work that got its first token.
    pub prompt_tokens: u64,
    /// Prompt tokens computed, in all; those of preempted work count again each time.
    pub prefill_tokens: u64,
    /// Tokens generated, in all.
    pub generation_tokens: u64,
    /// Times a running sequence lost its blocks and had to start over.
    pub preemptions: u64,
    /// Iterations run.
    pub iterations: u64,
    /// Work that finished.
    pub finished: u64,
    /// Work that was cancelled.
    pub cancelled: u64,
    /// Time spent in iterations, the one in flight in full.
    pub busy: Duration,
}

impl Stats {
    /// Share of the cache that running sequences hold, 0 to 1.
    pub fn kv_usage(&self) -> f64 {
        if self.kv_blocks_total == 0 {
            0.0
        } else {
            self.kv_blocks_used as f64 / self.kv_blocks_total as f64
        }
    }

    /// Prompt tokens of admitted work that were not in the cache, in all.
    pub fn uncached_tokens(&self) -> u64 {
        self.prefix_queries.saturating_sub(self.prefix_hits)
    }
}

/// An inference engine on a virtual clock.
///
/// The driver calls [`advance`](Engine::advance) when [`next_event_time`](Engine::next_event_time) has come, and before
/// it submits, cancels or changes the speed, so that those meet the engine as it is at that moment. Times never go back;
/// a `now` before an earlier one counts as that one.
pub trait Engine {
    /// An engine in the same state, to see what would happen if.
    fn fork(&self) -> Box<dyn Engine>;

    /// Queues work that arrives at `now`.
    ///
    /// # Errors
    /// Work that could never finish is refused: see [`Refusal`].
    fn submit(&mut self, now: Time, work: Work) -> Result<(), Refusal>;

    /// Drops work and frees its blocks at once. False if there is no such work.
    fn cancel(&mut self, id: WorkId) -> bool;

    /// When [`advance`](Engine::advance) next has something to do; `None` while the engine is idle.
    fn next_event_time(&self) -> Option<Time>;

    /// Lets time pass up to and including `now`; appends what happened to `events`, oldest first.
    fn advance(&mut self, now: Time, events: &mut Vec<Event>);

    /// State and totals as of the last [`advance`](Engine::advance).
    fn stats(&self) -> Stats;

    /// From the next iteration on everything takes `factor` times as long: above 1 slower, 1 as the coefficients say.
    /// Nonsense (zero, negative, not a number) counts as 1.
    fn set_speed(&mut self, now: Time, factor: f64);

    /// From here on it keeps for [`cache_changes`](Engine::cache_changes) what its cache stores and gives up.
    fn tell_cache(&mut self);

    /// What its cache stored and gave up since the last call, in order, up to the last [`advance`](Engine::advance).
    fn cache_changes(&mut self) -> Vec<CacheChange>;

    /// How many of the leading `blocks` are in the cache.
    fn cached(&self, blocks: &[BlockHash]) -> u32;
}
