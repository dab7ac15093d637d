//! Candidates for examples worked by hand.

use std::sync::Arc;
use std::time::Duration;
use weighbridge_sim::drive::Seen;
use weighbridge_sim::engine::{BatchingEngine, BlockHash, Engine, Settings, Work, WorkId};
use weighbridge_sim::workload::Request;

/// Some engines, which hold what they have been given.
pub(crate) struct Stage {
    engines: Vec<BatchingEngine>,
    now: Duration,
}

impl Stage {
    pub(crate) fn new(engines: usize) -> Self {
        let settings = Settings {
            kv_blocks: 4096,
            ..Settings::default()
        };
        Self {
            engines: (0..engines)
                .map(|_| BatchingEngine::new(settings.clone()))
                .collect(),
            now: Duration::ZERO,
        }
    }

    /// Now.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// Has an engine compute `blocks`, which then stay in its cache; an hour passes.
    pub(crate) fn holds(&mut self, engine: usize, blocks: &[BlockHash]) {
        self.computes(engine, blocks);
        self.now += Duration::from_secs(3600);
        let engine = &mut self.engines[engine];
        engine.advance(self.now, &mut Vec::new());
        assert_eq!(engine.cached(blocks) as usize, blocks.len());
    }

    /// Sends an engine a prompt of these blocks and a token.
    pub(crate) fn computes(&mut self, engine: usize, blocks: &[BlockHash]) {
        let work = Work {
            id: WorkId(0),
            blocks: blocks.into(),
            prompt_tokens: blocks.len() as u32 * 16 + 1,
            output_tokens: 1,
        };
        let engine = &mut self.engines[engine];
        engine.advance(self.now, &mut Vec::new());
        engine.submit(self.now, work).unwrap();
    }

    /// The engines with these numbers of requests in flight, and metrics that say the same.
    pub(crate) fn seen(&self, inflight: &[u32]) -> Vec<Seen<'_>> {
        let seen = |(endpoint, inflight): (usize, &u32)| Seen {
            endpoint,
            inflight: *inflight,
            running: u64::from(*inflight),
            waiting: 0,
            kv_usage: 0.0,
            read_at: Duration::ZERO,
            engine: &self.engines[endpoint],
        };
        inflight.iter().enumerate().map(seen).collect()
    }
}

/// A prompt of these blocks of 16 tokens, and `tail` tokens of its own.
pub(crate) fn prompt(blocks: &[BlockHash], tail: u32) -> Request {
    Request {
        at: Duration::ZERO,
        after: None,
        prompt_tokens: blocks.len() as u32 * 16 + tail,
        output_tokens: 10,
        blocks: Arc::from(blocks),
        session: None,
        tenant: 0,
        class: 0,
    }
}

/// Hashes of a chain of blocks: the same `text` and place give the same hash.
pub(crate) fn chain(text: u64, blocks: u64) -> Vec<BlockHash> {
    (0..blocks).map(|block| text * 1000 + block).collect()
}
