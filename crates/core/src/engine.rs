//! What is known of the engine behind an endpoint: what it last told of itself, and what the gateway sent it since.
//!
//! The two are kept apart: a reading never overwrites the gateway's own counts, and what is asked of both is put together
//! when it is asked. Between two readings own dispatches are added to what the engine last said, so that an engine that
//! was idle a second ago is not flooded. A reading that is too old counts as none.

pub mod decay;
mod forecast;
pub mod latency;
mod live;
mod model;
mod outstanding;

pub(crate) use live::Over;

pub use forecast::{Facts, Forecast, Predicted, pressure};
pub use live::{Live, Speed};
pub use model::{Inputs, Model, Trial};

use crate::dynamic_weight::DynamicWeight;
use crate::policies::Cached;
use crate::pool::Means;
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
    /// Share of what its cache lost for want of room that was asked for again, 0 to 1.
    pub regret: f64,
    reading: Reading,
    read_at: Option<Time>,
    /// Number of the newest reading.
    readings: u32,
    /// How old a reading may be.
    fresh_for: Duration,
    /// Until when the newest counts.
    fresh_until: Time,
    /// Own requests without a first token, and of these those sent after the reading.
    unbegun: u32,
    unbegun_unread: u32,
    /// Own requests that got their first token and were sent after the reading.
    begun_unread: u32,
    /// Own requests that were sent before the reading and have ended since.
    ended_read: u32,
    /// Whether any own request has ended since the reading.
    ended_since: bool,
    /// Prompt tokens to be computed of own requests without a first token, and of these those sent after the reading, as
    /// far as they are known.
    prefill: u64,
    prefill_unread: u64,
    /// Share of the KV cache that a token takes; 0: the engine does not tell how many it holds.
    per_token: f64,
    /// Tokens of answer expected of own requests without a first token.
    expected: u64,
    /// Own requests that are being answered.
    decode: Decode,
    speed: Speed,
    /// Own requests that are sent there, of those whose course is told.
    arrivals: decay::Frequency,
    dynamic: DynamicWeight,
    /// Adapters of own requests, the newest first, and how many of these were sent after the reading.
    adapters: Vec<Arc<str>>,
    adapters_unread: usize,
    /// What else answers show; none: nobody looked at it yet.
    live: Option<Box<Live>>,
}

/// Own requests that got their first token.
#[derive(Clone, Copy, Debug, Default)]
struct Decode {
    count: u32,
    /// Tokens of answer expected of them, those that have come included.
    expected: u64,
    /// Sum of the times of their first tokens, in nanoseconds.
    begun_at: u128,
}

/// What an attempt holds of its engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Prompt tokens that are believed cached there.
    cached: u32,
    /// Prompt tokens that are known and not believed cached there.
    uncached: u32,
    /// Prompt tokens to be computed, where they are not known those of the pool's mean.
    prefill: u32,
    /// Tokens of answer expected.
    expected: u32,
    /// Reading that was the newest when it was sent.
    reading: u32,
    /// Whether its course is told and learned from.
    live: bool,
    sent: Time,
    /// When its first token came.
    first: Option<Time>,
    /// What its times were predicted from; none: the pool predicts none.
    facts: Option<Facts>,
}

/// What is known of a request when it is sent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Dispatched<'a> {
    pub(crate) work: Option<&'a Work>,
    /// Prompt tokens that are believed cached there.
    pub(crate) cached: u32,
    /// Whether its course is told and learned from.
    pub(crate) live: bool,
    /// Whether the pool learns to predict its times.
    pub(crate) predicts: bool,
}

impl Engine {
    /// How long a reading counts.
    pub(crate) fn set_fresh_for(&mut self, fresh_for: Duration) {
        self.fresh_for = fresh_for;
        self.fresh_until = self.read_at.map_or(Time::ZERO, |at| at.after(fresh_for));
    }

    /// The newest reading while it counts.
    #[must_use]
    pub fn fresh(&self, now: Time) -> Option<&Reading> {
        (self.read_at.is_some() && now <= self.fresh_until).then_some(&self.reading)
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
        self.waiting_by(self.fresh(now))
    }

    /// Requests that wait there as the engine told, with those sent since; none: it tells nothing that counts.
    #[must_use]
    pub fn told_waiting(&self, now: Time) -> Option<f64> {
        let told = self.fresh(now).and_then(|reading| reading.waiting)?;
        Some(f64::from(told) + f64::from(self.unbegun_unread))
    }

    /// Own requests there that have no first token.
    #[must_use]
    pub fn own_waiting(&self) -> f64 {
        f64::from(self.unbegun)
    }

    fn waiting_by(&self, reading: Option<&Reading>) -> f64 {
        match reading.and_then(|reading| reading.waiting) {
            Some(told) => f64::from(told) + f64::from(self.unbegun_unread),
            None => self.own_waiting(),
        }
    }

    /// Requests that are computed there; where the engine tells nothing, own ones that got their first token.
    #[must_use]
    pub fn running(&self, now: Time) -> f64 {
        self.running_by(self.fresh(now))
    }

    fn running_by(&self, reading: Option<&Reading>) -> f64 {
        match reading.and_then(|reading| reading.running) {
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
        Some((told + count(self.prefill_unread) * self.per_token).clamp(0.0, 1.0))
    }

    /// Prompt tokens of own requests that are not computed yet and not believed cached.
    #[must_use]
    pub fn prefill_tokens(&self) -> f64 {
        count(self.prefill)
    }

    /// Own requests that are sent there in a second, of late.
    #[must_use]
    pub fn arrivals(&self, now: Time) -> f64 {
        self.arrivals.per_second(now)
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

    /// What answers show; none: no route with a policy that looks at it has had one.
    #[must_use]
    pub fn live(&self) -> Option<&Live> {
        self.live.as_deref()
    }

    /// A reading of its metrics came. One that is frozen says nothing: the age of the last one that did goes on, and so
    /// does the count of what was sent since.
    pub(crate) fn scraped(&mut self, now: Time, reading: Reading) {
        if self.is_frozen(&reading) {
            return;
        }
        let tokens = reading.cache_tokens.filter(|tokens| *tokens > 0);
        self.per_token = tokens.map_or(0.0, |tokens| 1.0 / count(tokens));
        self.dynamic.told(now, &reading);
        self.adapters_unread = 0;
        self.reading = reading;
        self.read_at = Some(now);
        self.fresh_until = now.after(self.fresh_for);
        self.readings = self.readings.wrapping_add(1);
        self.unbegun_unread = 0;
        self.begun_unread = 0;
        self.ended_read = 0;
        self.ended_since = false;
        self.prefill_unread = 0;
    }

    /// Whether a reading repeats the last one to the digit, counters of tokens included and what nobody looks at as well,
    /// although own requests were there meanwhile: its source has stopped, not the engine. Of one without such counters
    /// nobody can tell.
    fn is_frozen(&self, reading: &Reading) -> bool {
        let counts = reading.prompt_tokens.is_some() || reading.generated_tokens.is_some();
        let busy = self.unbegun > 0 || self.decode.count > 0 || self.ended_since;
        self.read_at.is_some() && counts && busy && *reading == self.reading
    }

    /// A request is sent there.
    pub(crate) fn dispatched(&mut self, now: Time, what: Dispatched<'_>, means: &Means) -> Load {
        let Dispatched {
            work, cached, live, ..
        } = what;
        let mut load = Load {
            cached,
            uncached: work.map_or(0, |work| work.prompt_tokens.saturating_sub(cached)),
            reading: self.readings,
            live,
            sent: now,
            ..Load::default()
        };
        if let Some(adapter) = work.and_then(|work| work.adapter.as_ref()) {
            self.sent_adapter(adapter);
        }
        if live || work.is_some() {
            let cached = Cached {
                tokens: cached,
                ..Cached::default()
            };
            load.prefill = whole(self.uncached(now, (work, cached), means));
            load.expected = whole(means.expected(work));
        }
        if live && what.predicts {
            let request = (f64::from(load.prefill), f64::from(load.expected));
            load.facts = Some(self.facts(now, request, means));
        }
        if live {
            self.arrivals.add(now);
        }
        self.unbegun += 1;
        self.unbegun_unread += 1;
        self.prefill += u64::from(load.prefill);
        self.prefill_unread += u64::from(load.uncached);
        self.expected += u64::from(load.expected);
        load
    }

    /// The first token of an own request came.
    pub(crate) fn began(&mut self, now: Time, load: &mut Load, means: &mut Means) {
        if load.first.is_some() {
            return;
        }
        self.leave_queue(load);
        if load.live {
            let live = self.live.get_or_insert_default();
            live.began(now, (&load.sent(), &mut self.speed), means);
        }
        load.first = Some(now);
        if load.reading == self.readings {
            self.begun_unread += 1;
        }
        self.decode.count += 1;
        self.decode.expected += u64::from(load.expected);
        self.decode.begun_at += u128::from(now.nanos());
    }

    /// An own request is over.
    pub(crate) fn ended(&mut self, now: Time, (load, over): (&Load, Over<'_>), means: &mut Means) {
        if let Some(first) = load.first {
            means.batch.add(now, f64::from(self.decode.count));
            self.decode.count = self.decode.count.saturating_sub(1);
            self.decode.expected = self.decode.expected.saturating_sub(u64::from(load.expected));
            self.decode.begun_at = self.decode.begun_at.saturating_sub(u128::from(first.nanos()));
            if load.reading == self.readings {
                self.begun_unread = self.begun_unread.saturating_sub(1);
            }
        } else {
            self.leave_queue(load);
        }
        self.ended_since = true;
        if load.reading != self.readings {
            self.ended_read += 1;
        }
        if load.live {
            let live = self.live.get_or_insert_default();
            live.ended(now, (&load.sent(), over), (&mut self.speed, means));
        }
    }

    fn leave_queue(&mut self, load: &Load) {
        self.unbegun = self.unbegun.saturating_sub(1);
        self.prefill = self.prefill.saturating_sub(u64::from(load.prefill));
        self.expected = self.expected.saturating_sub(u64::from(load.expected));
        if load.reading == self.readings {
            self.unbegun_unread = self.unbegun_unread.saturating_sub(1);
            self.prefill_unread = self.prefill_unread.saturating_sub(u64::from(load.uncached));
        }
    }
}

impl Load {
    fn sent(&self) -> live::Sent {
        live::Sent {
            at: self.sent,
            first: self.first,
            prefill: self.prefill,
            cached: self.cached,
            prompt: self.cached.saturating_add(self.uncached),
            facts: self.facts,
        }
    }
}

/// A count as a number.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn count(number: u64) -> f64 {
    number as f64
}

/// A number of tokens as a count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates"
)]
fn whole(tokens: f64) -> u32 {
    tokens.round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_origin(Duration::from_secs(seconds))
    }

    fn said(waiting: u32, generated: Option<u64>) -> Reading {
        Reading {
            waiting: Some(waiting),
            generated_tokens: generated,
            ..Reading::default()
        }
    }

    fn engine() -> Engine {
        let mut engine = Engine::default();
        engine.set_fresh_for(Duration::from_secs(3));
        engine
    }

    #[test]
    fn a_page_that_repeats_itself_while_requests_run_grows_old() {
        let mut engine = engine();
        engine.scraped(at(1), said(0, Some(7)));
        let mut load = engine.dispatched(at(1), Dispatched::default(), &Means::default());
        for second in 2..=4 {
            engine.scraped(at(second), said(0, Some(7)));
        }
        assert_eq!(engine.last().unwrap().1, at(1));
        assert_eq!(engine.waiting(at(4)), 1.0, "what was sent since is added");
        assert!(engine.fresh(at(5)).is_none());
        assert_eq!(engine.waiting(at(5)), 1.0, "own counts");
        let over = Over {
            outcome: crate::event::Outcome::Complete,
            spent: None,
        };
        engine.began(at(5), &mut load, &mut Means::default());
        engine.ended(at(5), (&load, over), &mut Means::default());
        engine.scraped(at(6), said(0, Some(7)));
        assert!(
            engine.fresh(at(6)).is_none(),
            "an answer was made, and no token counted"
        );
        engine.scraped(at(7), said(0, Some(8)));
        assert!(engine.fresh(at(7)).is_some());
    }

    #[test]
    fn an_idle_engine_may_repeat_itself() {
        let mut engine = engine();
        for second in 1..=9 {
            engine.scraped(at(second), said(0, Some(7)));
        }
        assert!(engine.fresh(at(9)).is_some());
    }

    #[test]
    fn an_engine_that_counts_no_tokens_may_say_the_same_again() {
        let mut engine = engine();
        engine.scraped(at(1), said(2, None));
        engine.dispatched(at(1), Dispatched::default(), &Means::default());
        engine.scraped(at(2), said(2, None));
        assert_eq!(engine.waiting(at(2)), 2.0);
    }
}
