//! What is known of the engine behind an endpoint: what it last told of itself, and what the gateway sent it since.
//!
//! The two are kept apart: a reading never overwrites the gateway's own counts, and what is asked of both is put together
//! when it is asked. Between two readings own dispatches are added to what the engine last said, so that an engine that
//! was idle a second ago is not flooded. A reading that is too old counts as none.

use crate::event::Spent;
use crate::signals::Reading;
use crate::time::Time;
use crate::work::Work;
use std::time::Duration;

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
    /// Whether any own request has ended since the reading.
    ended_since: bool,
    /// Prompt tokens not believed cached of own requests without a first token, and of these those sent after the reading.
    prefill: u64,
    prefill_unread: u64,
    /// Own requests that are being answered.
    decode: Decode,
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
        self.told_waiting(now).unwrap_or_else(|| self.own_waiting())
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

    /// A reading of its metrics came. One that is frozen says nothing: the age of the last one that did goes on, and so
    /// does the count of what was sent since.
    pub(crate) fn scraped(&mut self, now: Time, reading: Reading) {
        if self.is_frozen(&reading) {
            return;
        }
        self.reading = reading;
        self.read_at = Some(now);
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

    /// A request is sent there, of whose prompt `cached` tokens are believed cached.
    pub(crate) fn dispatched(&mut self, work: Option<&Work>, cached: u32) -> Load {
        let load = Load {
            uncached: work.map_or(0, |work| work.prompt_tokens.saturating_sub(cached)),
            expected: work.and_then(|work| work.expected_tokens).unwrap_or(0),
            reading: self.readings,
            first: None,
        };
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
        self.ended_since = true;
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
        let mut load = engine.dispatched(None, 0);
        for second in 2..=4 {
            engine.scraped(at(second), said(0, Some(7)));
        }
        assert_eq!(engine.last().unwrap().1, at(1));
        assert_eq!(engine.waiting(at(4)), 1.0, "what was sent since is added");
        assert!(engine.fresh(at(5)).is_none());
        assert_eq!(engine.waiting(at(5)), 1.0, "own counts");
        engine.began(at(5), &mut load);
        engine.ended(at(5), &load, None);
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
        engine.dispatched(None, 0);
        engine.scraped(at(2), said(2, None));
        assert_eq!(engine.waiting(at(2)), 2.0);
    }
}
