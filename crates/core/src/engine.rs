//! What is known of the engine behind an endpoint: what it last told of itself, and what the gateway sent it since.
//!
//! The two are kept apart: a reading never overwrites the gateway's own counts, and what is asked of both is put together
//! when it is asked. Between two readings own dispatches are added to what the engine last said, so that an engine that
//! was idle a second ago is not flooded. A reading that is too old counts as none.

use crate::dynamic_weight::DynamicWeight;
use crate::event::Spent;
use crate::signals::Reading;
use crate::time::Time;
use crate::work::Work;
use std::sync::Arc;
use std::time::Duration;

/// Adapters that an engine is taken to hold at once, where it does not say.
const ADAPTERS: u32 = 8;

/// State of one engine.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    reading: Reading,
    read_at: Option<Time>,
    /// Number of the newest reading.
    readings: u32,
    /// How old a reading may be.
    fresh_for: Duration,
    /// Own requests without a first token, and of these those sent after the reading.
    unbegun: u32,
    unbegun_unread: u32,
    /// Own requests that got their first token and were sent after the reading.
    begun_unread: u32,
    /// Own requests that were sent before the reading and have ended since.
    ended_read: u32,
    /// Prompt tokens not believed cached of own requests without a first token, and of these those sent after the reading.
    prefill: u64,
    prefill_unread: u64,
    /// Own requests that are being answered.
    decode: Decode,
    dynamic: DynamicWeight,
    /// Adapters of own requests, the newest first, and how many of these were sent after the reading.
    adapters: Vec<Arc<str>>,
    adapters_unread: usize,
}

/// Own requests that got their first token.
#[derive(Clone, Copy, Debug, Default)]
struct Decode {
    count: u32,
    /// Tokens of answer expected of them, those that have come included.
    expected: u64,
}

/// What an attempt holds of its engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Prompt tokens that are not believed cached there.
    uncached: u32,
    /// Tokens of answer expected.
    expected: u32,
    /// Reading that was the newest when it was sent.
    reading: u32,
    /// When its first token came.
    first: Option<Time>,
}

impl Engine {
    /// How long a reading counts.
    pub(crate) fn set_fresh_for(&mut self, fresh_for: Duration) {
        self.fresh_for = fresh_for;
    }

    /// The newest reading while it counts.
    #[must_use]
    pub fn fresh(&self, now: Time) -> Option<&Reading> {
        self.read_at
            .is_some_and(|at| now.since(at) <= self.fresh_for)
            .then_some(&self.reading)
    }

    /// The newest reading, however old, and when it came.
    #[must_use]
    pub fn last(&self) -> Option<(&Reading, Time)> {
        self.read_at.map(|at| (&self.reading, at))
    }

    /// Requests that wait there, without a first token: those the engine told of and those sent since; where it tells
    /// nothing, own ones.
    #[must_use]
    pub fn waiting(&self, now: Time) -> f64 {
        match self.fresh(now).and_then(|reading| reading.waiting) {
            Some(told) => f64::from(told) + f64::from(self.unbegun_unread),
            None => f64::from(self.unbegun),
        }
    }

    /// Requests that are computed there; where the engine tells nothing, own ones that got their first token.
    #[must_use]
    pub fn running(&self, now: Time) -> f64 {
        match self.fresh(now).and_then(|reading| reading.running) {
            Some(told) => {
                (f64::from(told) + f64::from(self.begun_unread) - f64::from(self.ended_read)).max(0.0)
            }
            None => f64::from(self.decode.count),
        }
    }

    /// Share of the KV cache in use, with what was sent since the reading; none: not known.
    #[must_use]
    pub fn kv_usage(&self, now: Time) -> Option<f64> {
        let reading = self.fresh(now)?;
        let told = reading.kv_usage?;
        let sent = match reading.cache_tokens {
            Some(tokens) if tokens > 0 => count(self.prefill_unread) / count(tokens),
            _ => 0.0,
        };
        Some((told + sent).clamp(0.0, 1.0))
    }

    /// Prompt tokens of own requests that are not computed yet and not believed cached.
    #[must_use]
    pub fn prefill_tokens(&self) -> f64 {
        count(self.prefill)
    }

    /// Its dynamic weight.
    #[must_use]
    pub fn dynamic(&self) -> &DynamicWeight {
        &self.dynamic
    }

    /// Whether it has this adapter loaded, by its own word and what was sent since; where it tells nothing, by what was sent.
    #[must_use]
    pub fn has_adapter(&self, now: Time, adapter: &str) -> bool {
        let sent = |count: usize| self.adapters[..count].iter().any(|known| **known == *adapter);
        match self.fresh(now).and_then(|reading| reading.adapters.as_ref()) {
            Some(told) => told.iter().any(|known| **known == *adapter) || sent(self.adapters_unread),
            None => sent(self.adapters.len()),
        }
    }

    /// Notes that a request for this adapter is sent there: it is the newest, and the oldest may make room for it.
    fn sent_adapter(&mut self, adapter: &Arc<str>) {
        let known = self.adapters.iter().position(|known| known == adapter);
        if known.is_none_or(|place| place >= self.adapters_unread) {
            self.adapters_unread += 1;
        }
        if let Some(place) = known {
            self.adapters.remove(place);
        }
        self.adapters.insert(0, Arc::clone(adapter));
        let fit = self.reading.max_adapters.unwrap_or(ADAPTERS).max(1) as usize;
        self.adapters.truncate(fit);
        self.adapters_unread = self.adapters_unread.min(self.adapters.len());
    }

    /// A reading of its metrics came.
    pub(crate) fn scraped(&mut self, now: Time, reading: Reading) {
        self.dynamic.told(now, &reading);
        self.adapters_unread = 0;
        self.reading = reading;
        self.read_at = Some(now);
        self.readings = self.readings.wrapping_add(1);
        self.unbegun_unread = 0;
        self.begun_unread = 0;
        self.ended_read = 0;
        self.prefill_unread = 0;
    }

    /// A request is sent there, of whose prompt `cached` tokens are believed cached.
    pub(crate) fn dispatched(&mut self, work: Option<&Work>, cached: u32) -> Load {
        let load = Load {
            uncached: work.map_or(0, |work| work.prompt_tokens.saturating_sub(cached)),
            expected: work.and_then(|work| work.expected_tokens).unwrap_or(0),
            reading: self.readings,
            first: None,
        };
        if let Some(adapter) = work.and_then(|work| work.adapter.as_ref()) {
            self.sent_adapter(adapter);
        }
        self.unbegun += 1;
        self.unbegun_unread += 1;
        self.prefill += u64::from(load.uncached);
        self.prefill_unread += u64::from(load.uncached);
        load
    }

    /// The first token of an own request came.
    pub(crate) fn began(&mut self, now: Time, load: &mut Load) {
        if load.first.is_some() {
            return;
        }
        self.leave_queue(load);
        load.first = Some(now);
        if load.reading == self.readings {
            self.begun_unread += 1;
        }
        self.decode.count += 1;
        self.decode.expected += u64::from(load.expected);
    }

    /// An own request is over, whatever came of it.
    pub(crate) fn ended(&mut self, _now: Time, load: &Load, _spent: Option<&Spent>) {
        if load.first.is_some() {
            self.decode.count = self.decode.count.saturating_sub(1);
            self.decode.expected = self.decode.expected.saturating_sub(u64::from(load.expected));
            if load.reading == self.readings {
                self.begun_unread = self.begun_unread.saturating_sub(1);
            }
        } else {
            self.leave_queue(load);
        }
        if load.reading != self.readings {
            self.ended_read += 1;
        }
    }

    fn leave_queue(&mut self, load: &Load) {
        self.unbegun = self.unbegun.saturating_sub(1);
        self.prefill = self.prefill.saturating_sub(u64::from(load.uncached));
        if load.reading == self.readings {
            self.unbegun_unread = self.unbegun_unread.saturating_sub(1);
            self.prefill_unread = self.prefill_unread.saturating_sub(u64::from(load.uncached));
        }
    }
}

/// A count as a number.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn count(number: u64) -> f64 {
    number as f64
}
