//! What an engine still has to do, in tokens and in seconds at the speed that was measured.

use super::decay::fade;
use super::{Engine, Speed};
use crate::policies::Cached;
use crate::pool::Means;
use crate::time::Time;
use crate::work::Work;

/// Prompt tokens a second of an endpoint where nothing was measured: the value that SMG starts with.
const PREFILL: f64 = 2000.0;
/// Tokens of an answer a second where nothing was measured.
const DECODE: f64 = 50.0;
/// Part of what was expected of answers under way that is taken to be still to come, however long they have run: who
/// outlives the expectation is long.
const STILL: f64 = 0.25;

/// Requests at an engine, and those among them that are not our own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    pub(super) waiting: f64,
    pub(super) running: f64,
    foreign_waiting: f64,
    foreign_running: f64,
}

/// How fast an engine computes, decayed to its pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Prompt tokens a second.
    pub(super) prefill: f64,
    /// Tokens of one answer a second.
    pub(super) answer: f64,
}

impl Engine {
    /// Prompt tokens that it computes in a second: measured, and decayed to the pool's.
    #[must_use]
    pub fn prefill_rate(&self, now: Time, means: &Means) -> f64 {
        let pool = means.prefill.rate.per_second().unwrap_or(PREFILL);
        let own = &self.speed.prefill.rate;
        own.toward(pool, fade(now, own.newest()))
    }

    /// Seconds that computing a prompt takes beside its tokens, and each of these: measured, and mixed with the pool's.
    /// None: nothing was measured in its pool.
    #[must_use]
    pub fn prompt_line(&self, now: Time, means: &Means) -> Option<(f64, f64)> {
        self.speed.prefill.with(now, &means.prefill)
    }

    /// Whether it was itself measured computing prompts, so that its speed is not that of its pool alone.
    #[must_use]
    pub fn has_prefilled(&self) -> bool {
        self.speed.prefill.rate.per_second().is_some()
    }

    /// Own requests there whose first token has not come.
    #[must_use]
    pub fn unbegun(&self) -> f64 {
        f64::from(self.unbegun)
    }

    /// Prompt tokens of a request that it has to compute: where it says how many were cached, as many of those that are
    /// believed to be are taken for it as were of late. It may evict more than is known, or reuse whole blocks only.
    #[must_use]
    pub fn uncached(&self, now: Time, (work, cached): (Option<&Work>, Cached), means: &Means) -> f64 {
        let believed = means.uncached(work, cached);
        if cached.tokens == 0 {
            return believed;
        }
        let held = self.speed.held.with(now, &means.held);
        believed + (1.0 - held) * f64::from(cached.tokens)
    }

    /// Seconds between two tokens of one answer.
    #[must_use]
    pub fn token_time(&self, now: Time, means: &Means) -> f64 {
        1.0 / self.pace(now, means).answer
    }

    /// Tokens of answers that it generates in a second at the batch that is usual in its pool: that of one answer, measured
    /// and decayed to the pool's, times the requests that an endpoint answers at a time. Its own batch does not count:
    /// whoever has little to do would look slow.
    #[must_use]
    pub fn decode_rate(&self, now: Time, means: &Means) -> f64 {
        usual_batch(means) * self.pace(now, means).answer
    }

    /// Its speeds, which decay together: what one sample shows, it shows of both.
    pub(super) fn pace(&self, now: Time, means: &Means) -> Pace {
        let Speed { prefill, decode, .. } = &self.speed;
        let prefill = &prefill.rate;
        let kept = fade(now, prefill.newest().max(decode.newest()));
        Pace {
            prefill: prefill.toward(means.prefill.rate.per_second().unwrap_or(PREFILL), kept),
            answer: decode.toward(means.decode.per_second().unwrap_or(DECODE), kept),
        }
    }

    /// Prompt tokens that are to be computed before those of a new request: of own requests, and of others that the engine
    /// tells of.
    #[must_use]
    pub fn prefill_ahead(&self, now: Time, means: &Means) -> f64 {
        self.prefill_behind(&self.queue(now), means)
    }

    /// The same, of a queue that is known.
    pub(super) fn prefill_behind(&self, queue: &Queue, means: &Means) -> f64 {
        self.prefill_tokens() + queue.foreign_waiting * means.usual_prompt()
    }

    /// Tokens of answers still to come.
    #[must_use]
    pub fn decode_left(&self, now: Time, means: &Means) -> f64 {
        let rate = self.pace(now, means).answer;
        self.decode_of(now, (&self.queue(now), rate), means)
    }

    /// Seconds for which it has work.
    #[must_use]
    pub fn outstanding(&self, now: Time, means: &Means) -> f64 {
        let queue = self.queue(now);
        let pace = self.pace(now, means);
        let prefill = self.prefill_behind(&queue, means);
        let decode = self.decode_of(now, (&queue, pace.answer), means);
        prefill / pace.prefill + decode / (usual_batch(means) * pace.answer)
    }

    /// Seconds of the answers still to come of own requests there whose first token will not be told of, as far as answers
    /// of late came without: such requests seem to wait to their end, however few tokens of their prompts are to be computed.
    #[must_use]
    pub fn untold(&self, now: Time, means: &Means) -> f64 {
        match means.untold.mean() {
            Some(share) if share > 0.0 => share * super::count(self.expected) / self.decode_rate(now, means),
            _ => 0.0,
        }
    }

    /// Tokens of answers still to come, of own requests at `rate` tokens a second each, and of others.
    fn decode_of(&self, now: Time, (queue, rate): (&Queue, f64), means: &Means) -> f64 {
        let mut left = super::count(self.expected);
        if self.decode.count > 0 {
            let all = u128::from(now.nanos()) * u128::from(self.decode.count);
            let ran = u64::try_from(all.saturating_sub(self.decode.begun_at)).unwrap_or(u64::MAX);
            let expected = super::count(self.decode.expected);
            left += (expected - super::count(ran) / 1e9 * rate).max(STILL * expected);
        }
        left + queue.foreign() * means.usual_output()
    }

    /// What is there, and what the engine tells of beyond own requests. It may call running what waits by our count, so the
    /// sum of both is compared.
    pub(super) fn queue(&self, now: Time) -> Queue {
        let (unbegun, begun) = (f64::from(self.unbegun), f64::from(self.decode.count));
        let reading = self
            .fresh(now)
            .filter(|reading| reading.waiting.is_some() || reading.running.is_some());
        let Some(reading) = reading else {
            return Queue {
                waiting: unbegun,
                running: begun,
                ..Queue::default()
            };
        };
        let waiting = self.waiting_by(Some(reading));
        let running = self.running_by(Some(reading));
        let all = (waiting + running - unbegun - begun).max(0.0);
        let foreign = (waiting - unbegun).clamp(0.0, all);
        Queue {
            waiting,
            running,
            foreign_waiting: foreign,
            foreign_running: all - foreign,
        }
    }
}

impl Queue {
    /// Requests of others.
    fn foreign(&self) -> f64 {
        self.foreign_waiting + self.foreign_running
    }
}

/// Requests that an endpoint of the pool answers at a time.
fn usual_batch(means: &Means) -> f64 {
    means.batch.mean().unwrap_or(1.0).max(1.0)
}
