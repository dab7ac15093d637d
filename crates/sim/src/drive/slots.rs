//! The engines of a run and what is counted of them.

use super::{EngineSpec, Seen};
use crate::engine::{BatchingEngine, Engine, Event, Refusal, Stats, Work, WorkId};
use crate::outcome::{EndpointRun, Point};
use crate::workload::Request;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::signals::{CacheChange, Reading};

/// An endpoint and its engine.
pub(super) struct Slot {
    pub(super) pool: usize,
    pub(super) spec: EngineSpec,
    pub(super) engine: BatchingEngine,
    /// Takes requests: it runs and is loaded.
    pub(super) up: bool,
    /// Attempts that it works on.
    pub(super) inflight: u32,
    joined: Duration,
    left: Option<Duration>,
    /// When its last request ended.
    last_end: Duration,
    busy_since: Option<Duration>,
    /// Told apart from entries of the agenda that are out of date.
    version: u32,
    read: (Duration, Stats),
    pub(super) frozen_until: Duration,
    pub(super) run: EndpointRun,
}

/// Why an engine did not take an attempt.
pub(super) enum Refused {
    /// It is not there: the connection is refused.
    Down,
    /// It cannot ever hold the request.
    TooLong,
}

fn engine(spec: &EngineSpec) -> BatchingEngine {
    let mut engine = BatchingEngine::quiet(spec.settings.clone());
    if spec.kv_events {
        engine.tell_cache();
    }
    engine
}

/// All of them, and when each has something to do.
#[derive(Default)]
pub(super) struct Slots {
    pub(super) slots: Vec<Slot>,
    /// What the engines did, in order, until the loop takes it.
    heard: VecDeque<(usize, Event)>,
    /// What caches stored and gave up, in order, until the loop takes it.
    pub(super) caches: VecDeque<(usize, Vec<CacheChange>)>,
    /// For engines to write into.
    events: Vec<Event>,
    agenda: BinaryHeap<Reverse<(Duration, u32, u32)>>,
}

impl Slots {
    pub(super) fn add(
        &mut self,
        (pool, name): (usize, (Arc<str>, Arc<str>)),
        spec: &EngineSpec,
        now: Duration,
    ) -> usize {
        self.slots.push(Slot {
            pool,
            spec: spec.clone(),
            engine: engine(spec),
            up: true,
            inflight: 0,
            joined: now,
            left: None,
            last_end: now,
            busy_since: None,
            version: 0,
            read: (now, Stats::default()),
            frozen_until: Duration::ZERO,
            run: EndpointRun {
                pool: name.0,
                name: name.1,
                gpus: spec.gpus,
                gpu_hour: spec.gpu_hour,
                ..EndpointRun::default()
            },
        });
        self.slots.len() - 1
    }

    pub(super) fn find(&self, (pool, name): &(Arc<str>, Arc<str>)) -> Option<usize> {
        let is = |slot: &Slot| slot.run.pool == *pool && slot.run.name == *name && slot.left.is_none();
        self.slots.iter().position(is)
    }

    /// The endpoints that are members of their pools, for a person; many are cut short.
    pub(super) fn names(&self) -> String {
        const SHOWN: usize = 12;
        let members = || self.slots.iter().filter(|slot| slot.left.is_none());
        let shown = members()
            .take(SHOWN)
            .map(|slot| format!("{}/{}", slot.run.pool, slot.run.name));
        let more = members().count().saturating_sub(SHOWN);
        let shown: Vec<String> = shown.chain((more > 0).then(|| format!("{more} more"))).collect();
        shown.join(", ")
    }

    /// When the first engine has something to do.
    pub(super) fn next(&mut self) -> Option<Duration> {
        while let Some(Reverse((at, slot, version))) = self.agenda.peek().copied() {
            if self.slots[slot as usize].version == version {
                return Some(at);
            }
            self.agenda.pop();
        }
        None
    }

    /// The next thing that an engine did up to `now`, and where.
    pub(super) fn hear(&mut self, now: Duration) -> Option<(usize, Event)> {
        while self.heard.is_empty() {
            if self.next().is_none_or(|at| at > now) {
                return None;
            }
            let Reverse((_, slot, _)) = self.agenda.pop()?;
            self.advance(slot as usize, now);
            self.touched(slot as usize, now);
        }
        self.heard.pop_front()
    }

    /// Brings an engine up to date, which it must be before something is done to it.
    fn advance(&mut self, slot: usize, now: Duration) {
        self.slots[slot].engine.advance(now, &mut self.events);
        self.heard
            .extend(self.events.drain(..).map(|event| (slot, event)));
        let changes = self.slots[slot].engine.cache_changes();
        if !changes.is_empty() {
            self.caches.push_back((slot, changes));
        }
    }

    /// The engine tells of its cache, if it does that at all.
    fn cache_told(&mut self, slot: usize, changes: Vec<CacheChange>) {
        if self.slots[slot].spec.kv_events {
            self.caches.push_back((slot, changes));
        }
    }

    /// The engine takes requests from now on, and its cache is empty.
    pub(super) fn serves(&mut self, slot: usize) {
        self.slots[slot].up = true;
        self.cache_told(slot, vec![CacheChange::Cleared]);
    }

    /// Sends request number `index` to an engine.
    pub(super) fn submit(
        &mut self,
        (slot, index): (usize, u32),
        request: &Request,
        now: Duration,
    ) -> Result<(), Refused> {
        if !self.slots[slot].up {
            return Err(Refused::Down);
        }
        self.advance(slot, now);
        let place = &mut self.slots[slot];
        let work = Work {
            id: WorkId(u64::from(index)),
            blocks: request.blocks.clone(),
            prompt_tokens: request.prompt_tokens,
            output_tokens: request.output_tokens,
        };
        place.engine.submit(now, work).map_err(|refusal| match refusal {
            Refusal::EmptyPrompt | Refusal::TooLong { .. } => Refused::TooLong,
        })?;
        place.inflight += 1;
        place.run.attempts += 1;
        self.touched(slot, now);
        Ok(())
    }

    /// Takes a request from its engine, because its client or its gateway gave it up.
    pub(super) fn cancel(&mut self, (slot, index): (usize, u32), now: Duration) {
        self.advance(slot, now);
        let place = &mut self.slots[slot];
        if place.engine.cancel(WorkId(u64::from(index))) {
            place.inflight = place.inflight.saturating_sub(1);
        }
        self.touched(slot, now);
    }

    /// The engine is gone, and all that it held.
    pub(super) fn die(&mut self, slot: usize, now: Duration) {
        let place = &mut self.slots[slot];
        place.run.preemptions += place.engine.stats().preemptions;
        place.up = false;
        place.inflight = 0;
        place.engine = engine(&place.spec);
        self.cache_told(slot, vec![CacheChange::Lost]);
        self.touched(slot, now);
    }

    pub(super) fn slow(&mut self, slot: usize, factor: f64, now: Duration) {
        self.advance(slot, now);
        self.slots[slot].engine.set_speed(now, factor);
        self.touched(slot, now);
    }

    pub(super) fn leave(&mut self, slot: usize, now: Duration) {
        self.slots[slot].left = Some(now);
    }

    pub(super) fn is_member(&self, slot: usize) -> bool {
        self.slots[slot].left.is_none()
    }

    /// Plans when to look at an engine again, after anything that may have changed that.
    fn touched(&mut self, slot: usize, now: Duration) {
        let place = &mut self.slots[slot];
        place.version = place.version.wrapping_add(1);
        let next = place.engine.next_event_time();
        match (next, place.busy_since) {
            (Some(_), None) => place.busy_since = Some(now),
            (None, Some(since)) => {
                place.last_end = now;
                place.run.busy += now.saturating_sub(since);
                place.busy_since = None;
            }
            _ => {}
        }
        if let Some(next) = next {
            self.agenda
                .push(Reverse((next.max(now), slot as u32, place.version)));
        }
    }

    /// Reads the metrics of all that can be read.
    pub(super) fn scrape(&mut self, now: Duration) {
        for slot in &mut self.slots {
            if slot.up && now >= slot.frozen_until {
                slot.read = (now, slot.engine.stats());
            }
        }
    }

    /// What the engine of a slot said when it was read just now; none: it could not be read.
    pub(super) fn reading(&self, slot: usize, now: Duration) -> Option<Reading> {
        let place = &self.slots[slot];
        let (read_at, stats) = &place.read;
        let settings = &place.spec.settings;
        (*read_at == now && place.up && now >= place.frozen_until).then(|| Reading {
            waiting: u32::try_from(stats.waiting).ok(),
            running: u32::try_from(stats.running).ok(),
            kv_usage: Some(stats.kv_usage()),
            block_tokens: Some(settings.block_size),
            cache_tokens: Some(settings.kv_tokens()),
            max_sequences: Some(settings.max_num_seqs),
            prefix_queries: Some(stats.prefix_queries),
            prefix_hits: Some(stats.prefix_hits),
            preemptions: Some(stats.preemptions),
            prompt_tokens: Some(stats.prompt_tokens),
            generated_tokens: Some(stats.generation_tokens),
            ..Reading::default()
        })
    }

    /// What a router with `inflight` under way sees of an engine.
    pub(super) fn seen(&self, slot: usize, inflight: u32) -> Seen<'_> {
        let place = &self.slots[slot];
        let (read_at, stats) = &place.read;
        Seen {
            endpoint: slot,
            inflight,
            running: stats.running,
            waiting: stats.waiting,
            kv_usage: stats.kv_usage(),
            read_at: *read_at,
            engine: &place.engine,
        }
    }

    /// Takes down the state of all engines as point number `number`.
    pub(super) fn point(&mut self, number: usize) {
        for slot in &mut self.slots {
            // Whoever joined later was not there before.
            slot.run.points.resize(number, Point::default());
            let stats = slot.engine.stats();
            slot.run.points.push(Point {
                running: u32::try_from(stats.running).unwrap_or(u32::MAX),
                waiting: u32::try_from(stats.waiting).unwrap_or(u32::MAX),
                kv_usage: stats.kv_usage() as f32,
                up: slot.up && slot.left.is_none(),
            });
        }
    }

    /// Keeps every second point.
    pub(super) fn thin(&mut self) {
        for slot in &mut self.slots {
            let mut number = 0;
            slot.run.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }

    /// Whether the engine's own count is ours, and it works while it has work; else what is wrong.
    pub(super) fn check(&self, slot: usize) -> Result<(), String> {
        let place = &self.slots[slot];
        let stats = place.engine.stats();
        let name = &place.run.name;
        if stats.running + stats.waiting != u64::from(place.inflight) {
            return Err(format!(
                "{name} has {} sequences that run and {} that wait, of {} that were sent to it",
                stats.running, stats.waiting, place.inflight
            ));
        }
        if place.inflight > 0 && place.engine.next_event_time().is_none() {
            return Err(format!("{name} has {} requests and does nothing", place.inflight));
        }
        Ok(())
    }

    /// The counts of the run.
    pub(super) fn finish(self, ended: Duration) -> Vec<EndpointRun> {
        let finished = |mut slot: Slot| {
            if let Some(since) = slot.busy_since {
                slot.run.busy += ended.saturating_sub(since);
            }
            slot.run.preemptions += slot.engine.stats().preemptions;
            // Who has left goes on until what runs there is done, and takes its GPUs that long.
            let left = slot.left.map_or(ended, |left| left.max(slot.last_end));
            slot.run.in_service = left.min(ended).saturating_sub(slot.joined);
            slot.run
        };
        self.slots.into_iter().map(finished).collect()
    }
}
