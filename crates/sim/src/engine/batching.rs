//! Continuous batching over a block-wise KV cache, as vLLM schedules it.
//!
//! Time passes in iterations. Each starts with a schedule under a token budget: first the running sequences in order
//! of admission (a decoding one takes one token, a prompt still being computed takes what the budget leaves: chunked
//! prefill), then the head of the waiting queue as long as budget, sequence slots and blocks last. A running sequence
//! that finds no block preempts the one admitted last, which loses its blocks and computes its tokens anew later. The
//! batch decides through [`Coefficients`](crate::coefficients::Coefficients) how long the iteration takes; at its end
//! each sequence whose tokens are all computed has one more.

use super::blocks::{BlockId, BlockPool};
use super::{Engine, Event, EventKind, Refusal, Settings, Stats, Time, Work, WorkId};
use crate::coefficients::Batch;
use std::collections::VecDeque;

/// One piece of work inside the engine.
struct Sequence {
    work: Work,
    arrived: Time,
    generated: u32,
    /// Tokens whose cache entries exist, or will at the end of the iteration in flight less `step`.
    computed: u32,
    /// Tokens that the iteration in flight computes.
    step: u32,
    held: Vec<BlockId>,
    /// Prompt tokens found in the cache at the first admission.
    cached: Option<u32>,
}

impl Sequence {
    fn known_tokens(&self) -> u32 {
        self.work.prompt_tokens.saturating_add(self.generated)
    }
}

/// The default engine: see the module's description.
pub struct BatchingEngine {
    settings: Settings,
    pool: BlockPool,
    /// In order of admission.
    running: Vec<Sequence>,
    /// In order of arrival; preempted ones in front.
    waiting: VecDeque<Sequence>,
    iteration_ends: Option<Time>,
    now: Time,
    totals: Stats,
}

impl BatchingEngine {
    /// An idle engine with an empty cache. Sizes of zero count as one.
    pub fn new(settings: Settings) -> Self {
        let settings = settings.made_usable();
        let pool = BlockPool::new(settings.kv_blocks);
        Self {
            settings,
            pool,
            running: Vec::new(),
            waiting: VecDeque::new(),
            iteration_ends: None,
            now: Time::ZERO,
            totals: Stats::default(),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Starts an iteration at `start` if there is work that has arrived by then.
    fn start_iteration(&mut self, start: Time) {
        let mut batch = Batch::default();
        let mut budget = self.settings.max_num_batched_tokens;
        let preempted = self.schedule_running(&mut budget, &mut batch);
        if !preempted {
            self.schedule_waiting(start, &mut budget, &mut batch);
        }
        if batch.tokens > 0 {
            self.totals.iterations += 1;
            self.iteration_ends = Some(start.saturating_add(self.settings.coefficients.iteration(&batch)));
        }
    }

    /// Gives the running sequences their share of the iteration. True if one had to be preempted.
    fn schedule_running(&mut self, budget: &mut u32, batch: &mut Batch) -> bool {
        let mut preempted = false;
        let mut index = 0;
        while index < self.running.len() {
            let sequence = &mut self.running[index];
            sequence.step = 0;
            let step = (sequence.known_tokens() - sequence.computed).min(*budget);
            while !self.reserve(index, step) {
                preempted = true;
                self.preempt_last();
                if index == self.running.len() {
                    return preempted;
                }
            }
            self.book(index, step, batch);
            *budget -= step;
            index += 1;
        }
        preempted
    }

    /// Admits waiting sequences in order of arrival while budget, slots and blocks last.
    fn schedule_waiting(&mut self, start: Time, budget: &mut u32, batch: &mut Batch) {
        while *budget > 0 && self.running.len() < self.settings.max_num_seqs as usize {
            let Some(head) = self.waiting.front() else { return };
            if head.arrived > start {
                return;
            }
            // The last token is always computed, since the next one comes out of it.
            let block_size = self.settings.block_size;
            let reusable = head
                .work
                .blocks
                .len()
                .min(((head.known_tokens() - 1) / block_size) as usize);
            let (found, unheld) = self.pool.find(&head.work.blocks[..reusable]);
            let computed = found * block_size;
            let step = (head.known_tokens() - computed).min(*budget);
            let fresh = (computed + step).div_ceil(block_size) - found;
            if u64::from(fresh) + u64::from(unheld) > u64::from(self.pool.free()) {
                return;
            }
            let Some(mut sequence) = self.waiting.pop_front() else {
                return;
            };
            for hash in &sequence.work.blocks[..found as usize] {
                sequence.held.extend(self.pool.hold(*hash));
            }
            sequence.computed = computed;
            if sequence.cached.is_none() {
                sequence.cached = Some(computed);
                self.totals.prefix_queries += u64::from(sequence.work.prompt_tokens);
                self.totals.prefix_hits += u64::from(computed);
            }
            self.running.push(sequence);
            let index = self.running.len() - 1;
            self.reserve(index, step);
            self.book(index, step, batch);
            *budget -= step;
        }
    }

    /// Makes sure that a running sequence holds blocks for `step` more tokens and names those that become full.
    fn reserve(&mut self, index: usize, step: u32) -> bool {
        let block_size = self.settings.block_size;
        let sequence = &mut self.running[index];
        let tokens = sequence.computed + step;
        while (sequence.held.len() as u32) < tokens.div_ceil(block_size) {
            let Some(block) = self.pool.take() else {
                return false;
            };
            sequence.held.push(block);
        }
        let full = (sequence.computed / block_size) as usize..(tokens / block_size) as usize;
        for (block, hash) in sequence
            .held
            .iter()
            .zip(sequence.work.blocks.iter())
            .take(full.end)
            .skip(full.start)
        {
            self.pool.name(*block, *hash);
        }
        true
    }

    /// Enters a sequence's share into the batch.
    fn book(&mut self, index: usize, step: u32, batch: &mut Batch) {
        let sequence = &mut self.running[index];
        sequence.step = step;
        let (known, computed) = (sequence.known_tokens(), sequence.computed);
        batch.tokens += u64::from(step);
        batch.sequences += u64::from(step > 0 && computed + step == known);
        // One token that follows generated ones is a decode; anything longer, or the prompt's end, is prefill.
        if step == 1 && computed + 1 == known && sequence.generated > 0 {
            batch.context_tokens += u64::from(known);
        } else if step > 0 {
            batch.prefill_tokens += u64::from(step);
            batch.prefill_pairs += f64::from(step) * (f64::from(computed) + (f64::from(step) + 1.0) / 2.0);
        }
    }

    /// Sends the sequence admitted last back to the head of the waiting queue, without its blocks.
    fn preempt_last(&mut self) {
        let Some(mut sequence) = self.running.pop() else {
            return;
        };
        self.pool.release(&mut sequence.held);
        sequence.computed = 0;
        sequence.step = 0;
        self.totals.preemptions += 1;
        self.waiting.push_front(sequence);
    }

    /// Ends the iteration in flight at `end`: each sequence whose tokens are all computed gets one more.
    fn end_iteration(&mut self, end: Time, events: &mut Vec<Event>) {
        self.iteration_ends = None;
        let (pool, totals) = (&mut self.pool, &mut self.totals);
        self.running.retain_mut(|sequence| {
            let step = std::mem::take(&mut sequence.step);
            sequence.computed += step;
            if step == 0 || sequence.computed < sequence.known_tokens() {
                return true;
            }
            let id = sequence.work.id;
            if sequence.work.output_tokens == 0 {
                totals.prompt_tokens += u64::from(sequence.work.prompt_tokens);
                totals.finished += 1;
                events.push(Event {
                    at: end,
                    id,
                    kind: EventKind::Finished,
                });
                pool.release(&mut sequence.held);
                return false;
            }
            sequence.generated += 1;
            totals.generation_tokens += 1;
            let kind = if sequence.generated == 1 {
                totals.prompt_tokens += u64::from(sequence.work.prompt_tokens);
                EventKind::FirstToken {
                    cached_tokens: sequence.cached.unwrap_or_default(),
                }
            } else {
                EventKind::Token
            };
            events.push(Event { at: end, id, kind });
            if sequence.generated < sequence.work.output_tokens {
                return true;
            }
            events.push(Event {
                at: end,
                id,
                kind: EventKind::Finished,
            });
            totals.finished += 1;
            pool.release(&mut sequence.held);
            false
        });
    }
}

impl Engine for BatchingEngine {
    fn submit(&mut self, now: Time, work: Work) -> Result<(), Refusal> {
        self.settings.check(work.prompt_tokens, work.output_tokens)?;
        self.waiting.push_back(Sequence {
            work,
            arrived: now.max(self.now),
            generated: 0,
            computed: 0,
            step: 0,
            held: Vec::new(),
            cached: None,
        });
        Ok(())
    }

    fn cancel(&mut self, id: WorkId) -> bool {
        let sequence = if let Some(index) = self.running.iter().position(|s| s.work.id == id) {
            Some(self.running.remove(index))
        } else if let Some(index) = self.waiting.iter().position(|s| s.work.id == id) {
            self.waiting.remove(index)
        } else {
            None
        };
        let Some(mut sequence) = sequence else {
            return false;
        };
        self.pool.release(&mut sequence.held);
        self.totals.cancelled += 1;
        true
    }

    fn next_event_time(&self) -> Option<Time> {
        if self.iteration_ends.is_some() {
            return self.iteration_ends;
        }
        let runnable = (!self.running.is_empty()).then_some(self.now);
        runnable.or_else(|| {
            self.waiting
                .front()
                .map(|sequence| sequence.arrived.max(self.now))
        })
    }

    fn advance(&mut self, now: Time, events: &mut Vec<Event>) {
        while let Some(next) = self.next_event_time().filter(|next| *next <= now) {
            self.now = self.now.max(next);
            if let Some(end) = self.iteration_ends {
                self.end_iteration(end, events);
            }
            self.start_iteration(self.now);
        }
        self.now = self.now.max(now);
    }

    fn stats(&self) -> Stats {
        Stats {
            running: self.running.len() as u64,
            waiting: self.waiting.len() as u64,
            kv_blocks_used: u64::from(self.pool.total() - self.pool.free()),
            kv_blocks_total: u64::from(self.pool.total()),
            ..self.totals
        }
    }
}

#[cfg(test)]
#[path = "batching_tests.rs"]
mod tests;
