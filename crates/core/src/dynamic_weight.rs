//! A weight that follows the load of an engine, slowly enough that what it causes can be told from what it saw.
//!
//! load = 100 · (0.6 m + 0.3 u + 0.1 q), with m the KV usage (GPU memory where the engine reports none), u the utilisation of
//! the GPU, and q = min(1, waiting / 10); weight = base / (1 + load). Every 10 s the load is read; of the readings of a minute
//! the median counts, of the medians of five minutes the mean, and the weight changes by at most a fifth a step.

use crate::signals::Reading;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Time between two steps.
const STEP: Duration = Duration::from_secs(10);
/// Readings of which the median counts: those of 60 s.
const WINDOW: usize = 6;
/// Medians of which the mean counts: those of 5 min.
const MEANS: usize = 30;
/// Steps without a reading after which nothing changes any more.
const HOLD_AFTER: u32 = 3;
/// Largest change of the weight in one step, as a share of it.
const CHANGE: f64 = 0.2;
/// The base that belongs to a configured weight of 1.
const BASE: f64 = 100.0;
/// Requests that wait where the queue counts in full.
const QUEUE: f64 = 10.0;

/// State of one engine's weight.
#[derive(Clone, Debug, Default)]
pub struct DynamicWeight {
    /// Loads at the last steps, the newest last; none: nothing was told.
    window: VecDeque<Option<f64>>,
    /// The newest medians, the newest last.
    medians: VecDeque<f64>,
    /// Steps in a row without a reading.
    missed: u32,
    /// When the next step is due; none: nothing was told yet.
    next: Option<Time>,
    factor: Option<f64>,
}

impl DynamicWeight {
    /// By what the configured weight is multiplied: 100 / (1 + load); none: nothing was told yet.
    #[must_use]
    pub fn factor(&self) -> Option<f64> {
        self.factor
    }

    /// A reading came. The first after a step is due is taken for it; steps that passed without one are made up for.
    pub(crate) fn told(&mut self, now: Time, reading: &Reading) {
        let Some(load) = load(reading) else { return };
        let due = *self.next.get_or_insert(now);
        if now < due {
            return;
        }
        let missed = now.since(due).as_nanos() / STEP.as_nanos();
        // More than a window of nothing is as good as a window of it.
        for _ in 0..missed.min(WINDOW as u128) {
            self.step(None);
        }
        self.step(Some(load));
        let steps = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
        self.next = Some(due.after(STEP.saturating_mul(steps)));
    }

    fn step(&mut self, load: Option<f64>) {
        push(&mut self.window, (load, WINDOW));
        self.missed = if load.is_some() { 0 } else { self.missed + 1 };
        if self.missed >= HOLD_AFTER {
            return;
        }
        let Some(median) = median(&self.window, self.medians.back().copied()) else {
            return;
        };
        push(&mut self.medians, (median, MEANS));
        let mean = self.medians.iter().sum::<f64>() / count(self.medians.len());
        let wanted = BASE / (1.0 + mean);
        self.factor = Some(match self.factor {
            None => wanted,
            Some(before) => wanted.clamp(before * (1.0 - CHANGE), before * (1.0 + CHANGE)),
        });
    }
}

fn push<T>(ring: &mut VecDeque<T>, (newest, most): (T, usize)) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(newest);
}

/// The median of what was told. Of an even number every value between the two in the middle is one; the nearest to the
/// median `before` is taken, so that half a window of spikes, or of dips, changes nothing.
fn median(window: &VecDeque<Option<f64>>, before: Option<f64>) -> Option<f64> {
    let mut told: smallvec::SmallVec<[f64; WINDOW]> = window.iter().flatten().copied().collect();
    told.sort_by(f64::total_cmp);
    let low = *told.get(told.len().checked_sub(1)? / 2)?;
    let high = told[told.len() / 2];
    Some(before.unwrap_or(f64::midpoint(low, high)).clamp(low, high))
}

/// The load in per cent; none: nothing is told. What an engine does not report counts as what it does.
#[must_use]
pub(crate) fn load(reading: &Reading) -> Option<f64> {
    let parts = [
        (0.6, reading.kv_usage.or(reading.gpu_memory)),
        (0.3, reading.gpu_utilisation),
        (
            0.1,
            reading
                .waiting
                .map(|waiting| (f64::from(waiting) / QUEUE).min(1.0)),
        ),
    ];
    let told = || parts.iter().filter_map(|(part, value)| Some((*part, (*value)?)));
    let whole: f64 = told().map(|(part, _)| part).sum();
    let sum: f64 = told().map(|(part, value)| part * value.clamp(0.0, 1.0)).sum();
    (whole > 0.0).then(|| 100.0 * sum / whole)
}

#[expect(clippy::cast_precision_loss, reason = "at most 30")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A reading with this load: all three parts have it.
    fn reading(load: f64) -> Reading {
        Reading {
            kv_usage: Some(load / 100.0),
            ..Reading::default()
        }
    }

    fn at(seconds: u64) -> Time {
        Time::from_origin(Duration::from_secs(seconds))
    }

    /// Weights (of a configured weight of 1) after a reading of each load, every 10 s.
    fn weights(loads: &[f64]) -> Vec<f64> {
        let mut weight = DynamicWeight::default();
        let steps = loads.iter().zip(0..);
        steps
            .map(|(load, step)| {
                weight.told(at(step * 10), &reading(*load));
                weight.factor().unwrap()
            })
            .collect()
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 5e-5, "{a} is not {b}");
    }

    #[test]
    fn the_vector_of_the_semantics() {
        let told = Reading {
            kv_usage: Some(0.8),
            gpu_utilisation: Some(0.6),
            waiting: Some(4),
            ..Reading::default()
        };
        near(load(&told).unwrap(), 70.0);
        let mut weight = DynamicWeight::default();
        weight.told(at(0), &told);
        near(weight.factor().unwrap(), 1.4085);
        // GPU memory stands in for KV usage alone.
        let memory = Reading {
            gpu_memory: Some(0.8),
            ..Reading::default()
        };
        let both = Reading {
            kv_usage: Some(0.1),
            ..memory.clone()
        };
        near(load(&memory).unwrap(), 80.0);
        near(load(&both).unwrap(), 10.0);
        assert_eq!(load(&Reading::default()), None);
    }

    #[test]
    fn spikes_and_dips_under_half_a_minute_vanish() {
        for (calm, odd) in [(20.0, 90.0), (90.0, 20.0)] {
            for long in 1..=3 {
                let mut loads = vec![calm; 6];
                loads.extend(vec![odd; long]);
                loads.extend(vec![calm; 12]);
                let weights = weights(&loads);
                assert!(
                    weights.iter().all(|weight| *weight == weights[0]),
                    "{long} of {odd}: {weights:?}"
                );
            }
            let mut loads = vec![calm; 6];
            loads.extend(vec![odd; 4]);
            let weights = weights(&loads);
            assert_ne!(weights[9], weights[0], "40 s are no spike");
        }
    }

    #[test]
    fn the_weight_moves_by_a_fifth_a_step_to_the_mean_of_five_minutes() {
        let mut loads = vec![99.0; 1];
        loads.extend(vec![0.0; 40]);
        let weights = weights(&loads);
        near(weights[0], 1.0);
        // Of two readings the median stays, of three it is the new one: medians 99, 99, 0, means 99, 99, 66.
        near(weights[1], 1.0);
        near(weights[2], 1.2);
        near(weights[3], 1.44);
        for pair in weights.windows(2) {
            assert!(pair[1] <= pair[0] * 1.2 + 1e-9);
        }
        // Once the two medians of 99 are older than five minutes, nothing but idleness is left, a fifth a step.
        assert!(weights[40] > weights[31]);
    }

    #[test]
    fn readings_between_two_steps_count_for_nothing() {
        let mut weight = DynamicWeight::default();
        weight.told(at(0), &reading(50.0));
        for second in 1..10 {
            weight.told(at(second), &reading(0.0));
        }
        near(weight.factor().unwrap(), 100.0 / 51.0);
    }

    #[test]
    fn without_a_reading_for_three_steps_it_holds() {
        let mut weight = DynamicWeight::default();
        for step in 0..6 {
            weight.told(at(step * 10), &reading(50.0));
        }
        let before = weight.factor();
        // Nothing for an hour, then a reading of the same: no jump.
        weight.told(at(3650), &reading(50.0));
        assert_eq!(weight.factor(), before);
        // And one that is other moves it by no more than a fifth.
        weight.told(at(3660), &reading(0.0));
        weight.told(at(3670), &reading(0.0));
        let after = weight.factor().unwrap();
        assert!(after > before.unwrap() && after <= before.unwrap() * 1.44 + 1e-9);
        weight.told(at(3680), &Reading::default());
        assert_eq!(
            weight.factor(),
            Some(after),
            "a reading without any of it is none"
        );
    }

    proptest! {
        /// Whatever is told, the weight stays within what loads from 0 to 100 give, and moves by at most a fifth.
        #[test]
        fn it_stays_in_its_range(loads in prop::collection::vec((0.0f64..=100.0, 1u64..200), 1..100)) {
            let mut weight = DynamicWeight::default();
            let (mut now, mut before) = (0, None::<f64>);
            for (load, pause) in loads {
                now += pause;
                weight.told(at(now), &reading(load));
                let after = weight.factor().unwrap();
                prop_assert!((100.0 / 101.0 - 1e-9..=100.0 + 1e-9).contains(&after));
                if let Some(before) = before {
                    // At most three steps count: the reading's, and two that were missed before it held.
                    prop_assert!(after <= before * 1.2f64.powi(3) + 1e-9 && after >= before * 0.8f64.powi(3) - 1e-9);
                }
                before = Some(after);
            }
        }
    }
}
