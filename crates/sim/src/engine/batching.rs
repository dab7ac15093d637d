//! Continuous batching over a block-wise KV cache, as vLLM schedules it.
//!
//! Time passes in iterations. Each starts with a schedule under a token budget: first the running sequences in order
//! of admission (a decoding one takes one token, a prompt still being computed takes what the budget leaves: chunked
//! prefill), then the head of the waiting queue as long as budget, sequence slots and blocks last. A running sequence
//! that finds no block preempts the one admitted last, which loses its blocks and computes its tokens anew later. The
//! batch decides through [`Coefficients`](crate::coefficients::Coefficients) how long the iteration takes; at its end
//! each sequence whose tokens are all computed has one more.

use super::blocks::{BlockHash, BlockPool};
use super::run::{Cast, Run, Speed, Until};
use super::sequence::Sequence;
use super::{Engine, Event, EventKind, Refusal, Settings, Stats, Time, Work, WorkId};
use crate::coefficients::Batch;
use std::collections::VecDeque;
use std::time::Duration;
use weighbridge_core::signals::CacheChange;

/// The default engine: see the module's description. A copy tells what would happen if.
#[derive(Clone)]
pub struct BatchingEngine {
    settings: Settings,
    /// Times as long as the coefficients say.
    slowdown: f64,
    /// Tells of first tokens and ends only, and so may leap over iterations.
    quiet: bool,
    pool: BlockPool,
    /// In order of admission.
    running: Vec<Sequence>,
    /// In order of arrival; preempted ones in front.
    waiting: VecDeque<Sequence>,
    /// The head of the queue was looked at when the iteration in flight began, and found too few blocks.
    starved: bool,
    iteration_ends: Option<Time>,
    /// Iterations that will pass without anything to tell; the one in flight is among them.
    run: Option<Run>,
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
            slowdown: 1.0,
            quiet: false,
            pool,
            running: Vec::new(),
            waiting: VecDeque::new(),
            starved: false,
            iteration_ends: None,
            run: None,
            now: Time::ZERO,
            totals: Stats::default(),
        }
    }

    /// The same engine without [`EventKind::Token`]: every other event comes at the same time, to the nanosecond, at a
    /// fraction of the cost, since iterations in which sequences only decode are taken many at once.
    pub fn quiet(settings: Settings) -> Self {
        Self {
            quiet: true,
            ..Self::new(settings)
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
        self.starved = false;
        let preempted = self.schedule_running(&mut budget, &mut batch);
        if !preempted {
            self.schedule_waiting(start, &mut budget, &mut batch);
        }
        if batch.tokens > 0 {
            let took_ns = self.settings.coefficients.iteration_ns(&batch, self.slowdown);
            let took = Duration::from_nanos(took_ns);
            self.totals.iterations += 1;
            self.totals.prefill_tokens += batch.prefill_tokens;
            self.totals.busy += took;
            self.iteration_ends = Some(start.saturating_add(took));
        }
        if self.quiet && batch.prefill_tokens == 0 && !preempted {
            self.plan_run();
        }
    }

    fn cast(&mut self) -> Cast<'_> {
        Cast {
            running: &mut self.running,
            pool: &mut self.pool,
            speed: Speed {
                settings: &self.settings,
                slowdown: self.slowdown,
            },
        }
    }

    /// Looks for a run of iterations that starts with the one in flight.
    fn plan_run(&mut self) {
        let Some(ends) = self
            .iteration_ends
            .filter(|_| self.running.iter().all(Sequence::decodes))
        else {
            return;
        };
        let places = self
            .settings
            .max_num_seqs
            .min(self.settings.max_num_batched_tokens);
        let until = match self.waiting.front() {
            Some(head) if self.running.len() < places as usize => {
                if self.starved {
                    Until::Move
                } else {
                    Until::Arrival(head.arrived)
                }
            }
            _ => Until::Finish,
        };
        self.run = Run::plan(ends, until, &self.cast());
    }

    /// Begins the iterations of a run that start at `now` or before.
    fn catch_up(&mut self, now: Time) {
        self.pass_iterations(|run, ends, cast| run.catch_up(now, ends, cast));
    }

    /// Lets part of a run pass and books its iterations.
    fn pass_iterations(&mut self, pass: impl FnOnce(&mut Run, Time, &mut Cast<'_>) -> Time) {
        let Some((mut run, ends)) = self.run.take().zip(self.iteration_ends) else {
            return;
        };
        let (before, tokens) = run.progress();
        let later = pass(&mut run, ends, &mut self.cast());
        let passed = u64::from(run.progress().0 - before);
        self.totals.iterations += passed;
        self.totals.generation_tokens += passed * tokens;
        self.totals.busy += later.saturating_sub(ends);
        self.iteration_ends = Some(later);
        self.run = Some(run);
    }

    /// Leaves a run at the iteration in flight: its sequences learn what they have generated.
    fn leave_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        let (begun, _) = run.progress();
        for sequence in &mut self.running {
            sequence.computed += begun;
            sequence.generated += begun;
        }
    }

    /// Leaves a run and plans another, since something has changed.
    fn replan(&mut self) {
        if self.quiet {
            self.leave_run();
            self.plan_run();
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
            while !self.running[index].reserve(step, self.settings.block_size, &mut self.pool) {
                preempted = true;
                self.preempt_last();
                if index == self.running.len() {
                    return preempted;
                }
            }
            self.running[index].book(step, batch);
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
            let block_size = self.settings.block_size;
            let (found, unheld) = self.pool.find(head.reusable(block_size));
            let computed = found * block_size;
            let step = (head.known_tokens() - computed).min(*budget);
            let fresh = (computed + step).div_ceil(block_size) - found;
            if u64::from(fresh) + u64::from(unheld) > u64::from(self.pool.free()) {
                self.starved = true;
                return;
            }
            let Some(mut sequence) = self.waiting.pop_front() else {
                return;
            };
            for hash in &sequence.work.blocks[..found as usize] {
                sequence.held.extend(self.pool.hold(*hash));
            }
            sequence.computed = computed;
            if sequence.admitted.is_none() {
                sequence.admitted = Some((start, computed));
                self.totals.prefix_queries += u64::from(sequence.work.prompt_tokens);
                self.totals.prefix_hits += u64::from(computed);
            }
            sequence.reserve(step, block_size, &mut self.pool);
            sequence.book(step, batch);
            *budget -= step;
            self.running.push(sequence);
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
        let (pool, totals, quiet) = (&mut self.pool, &mut self.totals, self.quiet);
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
                let (scheduled, cached_tokens) = sequence.admitted.unwrap_or_default();
                EventKind::FirstToken {
                    cached_tokens,
                    scheduled,
                }
            } else {
                EventKind::Token
            };
            if !quiet || sequence.generated == 1 {
                events.push(Event { at: end, id, kind });
            }
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
    fn fork(&self) -> Box<dyn Engine> {
        Box::new(self.clone())
    }

    fn submit(&mut self, now: Time, work: Work) -> Result<(), Refusal> {
        self.settings.check(work.prompt_tokens, work.output_tokens)?;
        self.waiting.push_back(Sequence::new(work, now.max(self.now)));
        // Behind others it changes nothing yet.
        if self.run.is_some() && self.waiting.len() == 1 {
            self.replan();
        }
        Ok(())
    }

    fn cancel(&mut self, id: WorkId) -> bool {
        self.leave_run();
        let sequence = if let Some(index) = self.running.iter().position(|s| s.work.id == id) {
            Some(self.running.remove(index))
        } else if let Some(index) = self.waiting.iter().position(|s| s.work.id == id) {
            self.waiting.remove(index)
        } else {
            None
        };
        let found = sequence.is_some();
        if let Some(mut sequence) = sequence {
            self.pool.release(&mut sequence.held);
            self.totals.cancelled += 1;
            self.starved = false;
        }
        self.replan();
        found
    }

    fn next_event_time(&self) -> Option<Time> {
        if let Some(run) = &self.run {
            return Some(run.ends());
        }
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
            self.pass_iterations(|run, _, cast| run.finish(cast));
            self.leave_run();
            if let Some(end) = self.iteration_ends {
                self.end_iteration(end, events);
            }
            self.start_iteration(self.now);
        }
        self.now = self.now.max(now);
        self.catch_up(now);
    }

    fn set_speed(&mut self, now: Time, factor: f64) {
        self.now = self.now.max(now);
        self.catch_up(now);
        self.slowdown = if factor.is_finite() && factor > 0.0 {
            factor
        } else {
            1.0
        };
        self.replan();
    }

    fn tell_cache(&mut self) {
        self.pool.tell();
    }

    fn cache_changes(&mut self) -> Vec<CacheChange> {
        self.pool.take_told()
    }

    fn cached(&self, blocks: &[BlockHash]) -> u32 {
        self.pool.find(blocks).0
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

#[cfg(test)]
#[path = "run_tests.rs"]
mod run_tests;
