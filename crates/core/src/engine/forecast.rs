//! Predicts what a request would meet at an endpoint: seconds to its first token, and per token after that.
//!
//! Two [`Model`]s per pool. Their inputs are reckoned with the endpoint's own measured speeds, so that one model serves
//! endpoints of different speed, and a slow-down shows in the inputs before the weights have learned of it.

use super::Engine;
use super::model::{Inputs, Model};
use crate::pool::Means;
use crate::time::Time;

/// Fullest KV cache that counts.
const FULLEST: f64 = 0.99;

/// What is known of an endpoint and a request when it is sent. Kept with the attempt until its times are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Seconds that the prompts ahead take.
    pub ahead: f32,
    /// Seconds that its own prompt takes, as far as it is not believed cached.
    pub own: f32,
    /// Requests that wait.
    pub waiting: f32,
    /// Requests that run.
    pub running: f32,
    /// k / (1 − k) of k, the share of the KV cache in use.
    pub pressure: f32,
    /// Seconds to the first token, of late.
    pub first_token: f32,
    /// Seconds per token, of late.
    pub per_token: f32,
    /// Tokens of answer expected.
    pub output: f32,
}

/// What a pool has learned to predict. Of fixed size.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Seconds to the first token.
    pub first_token: Model,
    /// Seconds per token after the first.
    pub per_token: Model,
}

impl Default for Forecast {
    /// Until something else is learned, the first token takes what the prompts take, and a token what it took of late.
    fn default() -> Self {
        Self {
            first_token: Model::new([0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
            per_token: Model::new([0.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        }
    }
}

/// Seconds that are predicted of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// To the first token.
    pub first_token: f64,
    /// Per token after the first.
    pub per_token: f64,
}

impl Engine {
    /// What there is to predict from, for a request of (`prefill` prompt tokens to compute, `output` tokens expected).
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "seven digits are plenty")]
    pub fn facts(&self, now: Time, (prefill, output): (f64, f64), means: &Means) -> Facts {
        let pace = self.pace(now, means);
        let recent = self
            .live()
            .and_then(|live| live.first_token.mean(now, &means.first_token));
        let recent = recent.or_else(|| means.first_token.mean()).unwrap_or(0.0);
        let queue = self.queue(now);
        let each = 1.0 / pace.prefill;
        Facts {
            ahead: (self.prefill_behind(&queue, means) * each) as f32,
            own: (prefill * each) as f32,
            waiting: queue.waiting as f32,
            running: queue.running as f32,
            pressure: pressure(self.kv_usage(now).unwrap_or(0.0)) as f32,
            first_token: recent as f32,
            per_token: (1.0 / pace.answer) as f32,
            output: output as f32,
        }
    }
}

impl Facts {
    /// Inputs for the time to the first token.
    #[must_use]
    pub fn of_first_token(&self) -> Inputs {
        let [ahead, own, waiting, running, recent, each] = [
            self.ahead,
            self.own,
            self.waiting,
            self.running,
            self.first_token,
            self.per_token,
        ]
        .map(f64::from);
        [
            1.0,
            ahead,
            own,
            recent,
            // Whatever is computed waits for the iteration that runs, which takes as long as a token of an answer.
            10.0 * each,
            each * waiting,
            running / 32.0,
            0.1 * f64::from(self.pressure),
        ]
    }

    /// Inputs for the time per token.
    #[must_use]
    pub fn of_per_token(&self) -> Inputs {
        let [ahead, own, running, each, output] =
            [self.ahead, self.own, self.running, self.per_token, self.output].map(f64::from);
        [
            1.0,
            10.0 * each,
            running / 32.0,
            // A busy batch slows whoever is slow by more.
            each * running,
            ahead,
            own,
            0.1 * f64::from(self.pressure),
            output / 1000.0,
        ]
    }
}

/// k / (1 − k) of k, the share of a KV cache in use: 1 where it is half full, 99 at most.
#[must_use]
pub fn pressure(usage: f64) -> f64 {
    let usage = usage.clamp(0.0, FULLEST);
    usage / (1.0 - usage)
}

impl Forecast {
    /// What a request would meet, the pool's mean in the place of what is not to be believed; none: neither is.
    #[must_use]
    pub fn predict(&self, facts: &Facts, means: &Means) -> Option<Predicted> {
        let first_token = self.first_token.predict(&facts.of_first_token());
        let per_token = self.per_token.predict(&facts.of_per_token());
        if first_token.is_none() && per_token.is_none() {
            return None;
        }
        Some(Predicted {
            first_token: first_token.or(means.first_token.mean()).unwrap_or(0.0),
            per_token: per_token.or(means.per_token.mean()).unwrap_or(0.0),
        })
    }

    /// The first token came after so many seconds, where the pool's mean was `mean`.
    pub(super) fn first_token_came(&mut self, facts: &Facts, (seconds, mean): (f64, f64)) {
        self.first_token.learn(&facts.of_first_token(), (seconds, mean));
    }

    /// The answer took so many seconds per token, where the pool's mean was `mean`.
    pub(super) fn answered(&mut self, facts: &Facts, (seconds, mean): (f64, f64)) {
        self.per_token.learn(&facts.of_per_token(), (seconds, mean));
    }
}
