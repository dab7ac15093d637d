//! A linear model that learns as it goes, and knows when it is of no use.
//!
//! Recursive least squares for weights that drift: the Kalman filter of a random walk (see L. Ljung, "System Identification",
//! chapter 11). Each sample costs the same, and the state is a matrix of fixed size. Before it learns from a sample it is tested on it, against the mean of the
//! pool; only while it errs clearly less is it believed.

use serde::{Deserialize, Serialize};

/// Inputs of a model; the first is 1.
pub(super) const INPUTS: usize = 8;

/// Inputs of one prediction, of the order of 1 each.
pub type Inputs = [f64; INPUTS];

/// Variance that the weights are taken to gain from one sample to the next, as a part of that of the noise: of the samples
/// the last 200 or so count.
const DRIFT: f64 = 2.5e-5;
/// The same while its errors of late are more than [`CHANGED`] times the usual ones: the law is another, and only the last
/// 10 or so count.
const DRIFT_CHANGED: f64 = 1e-2;
const CHANGED: f64 = 1.5;
/// Weight of the newest error among those of late.
const LATELY: f64 = 0.1;
/// Variance of each weight at the start, and the most that it may have: what never varies teaches nothing about its weight,
/// which must not make it grow without end.
const UNKNOWN: f64 = 100.0;
/// An error counts for learning up to this many times the usual one.
const OUTLIER: f64 = 6.0;
/// Samples in the beginning that do not count for its trial.
const UNTESTED: f64 = 20.0;
/// Samples over which errors are averaged.
const TESTED_ON: f64 = 100.0;
/// Fewest samples before it is believed.
const LEAST: f64 = 50.0;
/// Errs less than this part of what the mean errs: it is believed from then on.
const BETTER: f64 = 0.8;
/// Errs more than this part: it is no longer.
const WORSE: f64 = 0.95;
/// Most seconds that are predicted.
const LONGEST: f64 = 3600.0;

/// Predicts seconds.
#[derive(Clone, Debug)]
pub struct Model {
    /// Weights to begin with: what is never seen to vary keeps them.
    prior: Inputs,
    weights: Inputs,
    /// Covariance of the weights, up to a factor.
    unknown: [Inputs; INPUTS],
    trial: Trial,
    /// Its mean absolute error over the last few samples.
    lately: f64,
}

/// How a model fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Samples that it has learned from.
    pub samples: f64,
    /// Its mean absolute error over the last 100 or so, in seconds.
    pub error: f64,
    /// That of the pool's mean.
    pub error_of_mean: f64,
    /// Whether it is believed.
    pub believed: bool,
}

impl Model {
    /// A model that takes these weights for true until it has learned better.
    #[must_use]
    pub fn new(prior: Inputs) -> Self {
        Self {
            prior,
            weights: prior,
            unknown: unknowing(),
            trial: Trial::default(),
            lately: 0.0,
        }
    }

    /// What it predicts, in seconds, whether it is to be believed or not.
    #[must_use]
    pub fn guess(&self, inputs: &Inputs) -> f64 {
        dot(&self.weights, inputs).clamp(0.0, LONGEST)
    }

    /// What it predicts; none: it is not to be believed.
    #[must_use]
    pub fn predict(&self, inputs: &Inputs) -> Option<f64> {
        self.trial.believed.then(|| self.guess(inputs))
    }

    /// How it fares.
    #[must_use]
    pub fn trial(&self) -> &Trial {
        &self.trial
    }

    /// It took `seconds`; `mean` is what the pool's mean would have said.
    pub fn learn(&mut self, inputs: &Inputs, (seconds, mean): (f64, f64)) {
        if !seconds.is_finite() || !inputs.iter().all(|input| input.is_finite()) {
            return;
        }
        let guess = self.guess(inputs);
        let missed = (guess - seconds).abs();
        self.lately += (missed - self.lately) * LATELY;
        let usual = self.trial.error.max(self.lately);
        self.trial.add(missed, (mean - seconds).abs());
        // Not of the clamped guess: what is predicted below 0 is to be corrected in full.
        let error = seconds - dot(&self.weights, inputs);
        let bound = OUTLIER * usual;
        let error = if self.trial.samples > LEAST {
            error.clamp(-bound, bound)
        } else {
            error
        };
        // The longer something takes, the more it varies.
        let trust = 1.0 / (1.0 + guess / mean.max(1e-6));
        self.update(inputs, (error, trust));
    }

    fn update(&mut self, inputs: &Inputs, (error, trust): (f64, f64)) {
        let changed = self.lately > CHANGED * self.trial.error;
        let drift = if changed { DRIFT_CHANGED } else { DRIFT };
        for (at, row) in self.unknown.iter_mut().enumerate() {
            if row[at] < UNKNOWN {
                row[at] += drift;
            }
        }
        let along: Inputs = std::array::from_fn(|row| dot(&self.unknown[row], inputs));
        let scale = 1.0 / trust + dot(inputs, &along);
        if !scale.is_finite() || scale <= 0.0 {
            *self = Self::new(self.prior);
            return;
        }
        for row in 0..INPUTS {
            self.weights[row] += along[row] / scale * error;
            for column in row..INPUTS {
                let left = self.unknown[row][column] - along[row] * along[column] / scale;
                self.unknown[row][column] = left;
                self.unknown[column][row] = left;
            }
        }
        if !self.weights.iter().all(|weight| weight.is_finite()) {
            *self = Self::new(self.prior);
        }
    }
}

impl Trial {
    fn add(&mut self, own: f64, of_mean: f64) {
        self.samples += 1.0;
        if self.samples <= UNTESTED {
            return;
        }
        let part = 1.0 / (self.samples - UNTESTED).min(TESTED_ON);
        self.error += (own - self.error) * part;
        self.error_of_mean += (of_mean - self.error_of_mean) * part;
        let most = if self.believed { WORSE } else { BETTER };
        self.believed = self.samples >= LEAST && self.error < most * self.error_of_mean;
    }
}

fn unknowing() -> [Inputs; INPUTS] {
    std::array::from_fn(|row| std::array::from_fn(|column| if row == column { UNKNOWN } else { 0.0 }))
}

/// Four sums side by side, which do not wait for each other.
fn dot(one: &Inputs, other: &Inputs) -> f64 {
    let [a, b, c, d]: [f64; 4] =
        std::array::from_fn(|lane| one[lane] * other[lane] + one[lane + 4] * other[lane + 4]);
    (a + b) + (c + d)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::decay::Average;
    use crate::rng::Rng;
    use crate::time::Time;
    use std::time::Duration;

    /// Samples of a law with noise, and what came of them.
    struct World {
        rng: Rng,
        model: Model,
        mean: Average,
        samples: u64,
        /// Sums of absolute errors: of the model, and of the pool's mean.
        errors: (f64, f64),
    }

    impl World {
        fn new() -> Self {
            Self {
                rng: Rng::new(5),
                model: Model::new([0.0; INPUTS]),
                mean: Average::default(),
                samples: 0,
                errors: (0.0, 0.0),
            }
        }

        fn inputs(&mut self) -> Inputs {
            let ahead = 2.0 * self.rng.share().powi(3);
            let own = 0.5 * self.rng.share();
            [1.0, ahead, own, 0.2, 0.2, ahead / 3.0, self.rng.share(), 0.0]
        }

        /// What the law says, `slow` times as long, up to 20 % of noise.
        fn law(&mut self, inputs: &Inputs, slow: f64) -> f64 {
            let clean = 0.03 + inputs[1] + 1.2 * inputs[2] + 0.1 * inputs[6];
            slow * clean * (0.8 + 0.4 * self.rng.share())
        }

        /// Five a second.
        fn sample(&mut self, inputs: &Inputs, seconds: f64) {
            self.samples += 1;
            let now = Time::from_origin(Duration::from_millis(200 * self.samples));
            let mean = self.mean.mean().unwrap_or(seconds);
            // What a policy would go by: the model, or the mean while it is not believed.
            let predicted = self.model.predict(inputs).unwrap_or(mean);
            self.errors.0 += (predicted - seconds).abs();
            self.errors.1 += (mean - seconds).abs();
            self.model.learn(inputs, (seconds, mean));
            self.mean.add(now, seconds);
        }

        fn run(&mut self, samples: usize, slow: f64) {
            for _ in 0..samples {
                let inputs = self.inputs();
                let seconds = self.law(&inputs, slow);
                self.sample(&inputs, seconds);
            }
        }
    }

    #[test]
    fn it_learns_within_two_hundred_requests() {
        let mut world = World::new();
        world.run(200, 1.0);
        let trial = *world.model.trial();
        assert!(
            trial.believed && trial.error < 0.4 * trial.error_of_mean,
            "{trial:?}"
        );
        let inputs = [1.0, 1.0, 0.25, 0.2, 0.2, 1.0 / 3.0, 0.5, 0.0];
        let guess = world.model.guess(&inputs);
        assert!((guess - 1.38).abs() < 0.07, "{guess}");
    }

    #[test]
    fn a_slow_down_midway_is_learned() {
        let mut world = World::new();
        world.run(200, 1.0);
        world.errors = (0.0, 0.0);
        world.run(800, 1.0);
        world.run(1000, 4.0);
        let (own, of_mean) = world.errors;
        assert!(own < 0.7 * of_mean, "{own} {of_mean}");
    }

    #[test]
    fn shuffled_labels_switch_it_off() {
        let mut world = World::new();
        let samples: Vec<(Inputs, f64)> = (0..3000)
            .map(|_| {
                let inputs = world.inputs();
                (inputs, world.law(&inputs, 1.0))
            })
            .collect();
        for at in 0..samples.len() {
            let other = world.rng.below(samples.len());
            world.sample(&samples[at].0, samples[other].1);
            assert!(!world.model.trial().believed, "after {at} samples");
        }
    }

    #[test]
    fn labels_that_become_nonsense_switch_it_off_and_sense_on_again() {
        let mut world = World::new();
        world.run(500, 1.0);
        assert!(world.model.trial().believed);
        for _ in 0..400 {
            let inputs = world.inputs();
            let other = world.inputs();
            let seconds = world.law(&other, 1.0);
            world.sample(&inputs, seconds);
        }
        assert!(!world.model.trial().believed, "{:?}", world.model.trial());
        world.run(400, 1.0);
        assert!(world.model.trial().believed, "{:?}", world.model.trial());
    }

    #[test]
    fn monotony_and_outliers_do_no_lasting_harm() {
        let mut world = World::new();
        let same = [1.0, 0.5, 0.1, 0.2, 0.2, 0.0, 0.5, 0.0];
        (0..50_000).for_each(|_| world.sample(&same, 0.7));
        for odd in [f64::NAN, f64::INFINITY, 1e300, 0.0] {
            world.model.learn(&same, (odd, 0.7));
            let mut inputs = same;
            inputs[2] = odd;
            world.model.learn(&inputs, (0.7, 0.7));
        }
        assert!(world.model.guess(&same).is_finite());
        world.run(400, 1.0);
        assert!(world.model.trial().believed, "{:?}", world.model.trial());
    }
}
