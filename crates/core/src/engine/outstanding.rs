//! What an engine still has to do, in tokens and in seconds at the speed that was measured.

use super::Engine;
use super::decay::seconds;
use crate::pool::Means;
use crate::time::Time;
use std::time::Duration;

/// Prompt tokens a second of an endpoint where nothing was measured: the value that SMG starts with.
const PREFILL: f64 = 2000.0;
/// Tokens of an answer a second where nothing was measured.
const DECODE: f64 = 50.0;
/// Part of what was expected of answers under way that is taken to be still to come, however long they have run: who
/// outlives the expectation is long.
const STILL: f64 = 0.25;

/// Requests of others than this gateway, by the engine's metrics.
#[derive(Clone, Copy, Debug, Default)]
struct Foreign {
    waiting: f64,
    running: f64,
}

impl Engine {
    /// Prompt tokens that it computes in a second: measured, and decayed to the pool's.
    #[must_use]
    pub fn prefill_rate(&self, now: Time, means: &Means) -> f64 {
        let pool = (&means.prefill, PREFILL);
        match self.live() {
            Some(live) => live.prefill.toward(now, pool),
            None => means.prefill.per_second().unwrap_or(PREFILL),
        }
    }

    /// Tokens of answers that it generates in a second at the batch that is usual in its pool: that of one answer, measured
    /// and decayed to the pool's, times the requests that an endpoint answers at a time. Its own batch does not count:
    /// whoever has little to do would look slow.
    #[must_use]
    pub fn decode_rate(&self, now: Time, means: &Means) -> f64 {
        usual_batch(means) * self.answer_rate(now, means)
    }

    /// Tokens a second of one answer.
    pub(super) fn answer_rate(&self, now: Time, means: &Means) -> f64 {
        match self.live() {
            Some(live) => live.decode.toward(now, (&means.decode, DECODE)),
            None => means.decode.per_second().unwrap_or(DECODE),
        }
    }

    /// Prompt tokens that are to be computed before those of a new request: of own requests, and of others that the engine
    /// tells of.
    #[must_use]
    pub fn prefill_ahead(&self, now: Time, means: &Means) -> f64 {
        self.prefill_tokens() + self.foreign(now).waiting * means.usual_prompt()
    }

    /// Tokens of answers still to come.
    #[must_use]
    pub fn decode_left(&self, now: Time, means: &Means) -> f64 {
        self.decode_of(now, (self.foreign(now), self.answer_rate(now, means)), means)
    }

    /// Seconds for which it has work.
    #[must_use]
    pub fn outstanding(&self, now: Time, means: &Means) -> f64 {
        let foreign = self.foreign(now);
        let prefill = self.prefill_tokens() + foreign.waiting * means.usual_prompt();
        let rate = self.answer_rate(now, means);
        let decode = self.decode_of(now, (foreign, rate), means);
        prefill / self.prefill_rate(now, means) + decode / (usual_batch(means) * rate)
    }

    /// Tokens of answers still to come, of own requests at `rate` tokens a second each, and of others.
    fn decode_of(&self, now: Time, (foreign, rate): (Foreign, f64), means: &Means) -> f64 {
        let expected = super::count(self.decode.expected);
        let all = u128::from(now.nanos()) * u128::from(self.decode.count);
        let ran = all.saturating_sub(self.decode.begun_at);
        let ran = seconds(Duration::from_nanos(u64::try_from(ran).unwrap_or(u64::MAX)));
        let left = (expected - ran * rate).max(STILL * expected);
        super::count(self.expected) + left + (foreign.waiting + foreign.running) * means.usual_output()
    }

    /// What the engine tells of beyond own requests. It may call running what waits by our count, so the sum of both is
    /// compared.
    fn foreign(&self, now: Time) -> Foreign {
        let Some(reading) = self.fresh(now) else {
            return Foreign::default();
        };
        if reading.waiting.is_none() && reading.running.is_none() {
            return Foreign::default();
        }
        let (waiting, running) = (self.waiting(now), self.running(now));
        let (unbegun, begun) = (f64::from(self.unbegun), f64::from(self.decode.count));
        let all = (waiting + running - unbegun - begun).max(0.0);
        let waiting = (waiting - unbegun).clamp(0.0, all);
        Foreign {
            waiting,
            running: all - waiting,
        }
    }
}

/// Requests that an endpoint of the pool answers at a time.
fn usual_batch(means: &Means) -> f64 {
    means.batch.mean().unwrap_or(1.0).max(1.0)
}
