//! Prefers engines by a weight that falls with their load, smoothed over minutes.

use super::unknown::fill_in;
use super::{Candidates, Home, Request, Scorer};
use crate::explain::Abstained;
use crate::work::Needs;

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
load = 100 · (0.6 m + 0.3 u + 0.1 q), where m is the KV usage (GPU memory where the engine reports none), u the utilisation of the GPU
(`gpu_metrics`) and q = min(1, waiting / 10); what an engine does not report counts as what it does. The score is w = 100 · weight
/ (1 + load). Every 10 s: the median of 60 s, so that spikes and dips under 30 s vanish; the mean of 5 min; at most a fifth up or
down from the w before, but for the first; without a fresh signal for three steps it holds. An engine that never told
takes the mean of the others. Under `weight: auto`, labels `gpu` and `gpus` stand in for weights of 1, as under `weight: labels`, and
one endpoint without a known `gpu` switches the types off for its pool.

**Right** as `weight: auto` of a pool, where engines differ (GPUs, neighbours, clients beside the gateway) and shares are to follow slowly.
**Wrong** as the only policy under `picker: max`: for 10 s and more every request goes to the same engine, and `check` warns. Beside
others it is a slow correction of what they see at once.

Example: m 0.8, u 0.6 and 4 waiting are a load of 70 and w = 100/71 = 1.4085; an idle engine has w = 100.
";

super::weight_only! {
    /// Settings of `gpu_load`.
    "gpu_load", Needs::SIGNALS, GpuLoad
}

struct GpuLoad;

impl Scorer for GpuLoad {
    fn score(
        &self,
        _request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        for (score, candidate) in scores.iter_mut().zip(candidates.iter()) {
            let factor = candidate.engine.dynamic().factor();
            *score = factor.map_or(f64::NAN, |factor| factor * candidate.weight);
        }
        fill_in(scores, Abstained::NoSignal)?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Control;
    use crate::policies::stage::Stage;
    use crate::signals::Reading;
    use crate::spec::{EndpointSpec, PoolSpec, Weight};

    fn used(share: f64) -> Reading {
        Reading {
            kv_usage: Some(share),
            ..Reading::default()
        }
    }

    #[test]
    fn the_dynamic_weight_is_the_score() {
        let mut stage = Stage::new(3, |policies| policies.gpu_load = Some(Config::default()));
        assert_eq!(stage.abstained("gpu_load"), Some(Abstained::NoSignal));
        stage.read(0, used(0.99));
        stage.read(1, used(0.19));
        assert_eq!(
            stage.scores("gpu_load"),
            [1.0, 5.0, 3.0],
            "the third takes the mean"
        );
        assert_eq!(stage.winner(), 1);
        stage.pass(60_000);
        assert_eq!(stage.scores("gpu_load"), [1.0, 5.0, 3.0], "it holds");
    }

    /// A pool of three with `weight: auto`, whose loads are 99, 49 and not known.
    fn auto(weights: [Weight; 3]) -> Stage {
        let endpoints = weights.iter().enumerate().map(|(place, weight)| EndpointSpec {
            weight: *weight,
            ..EndpointSpec::new(format!("e{place}"), format!("{place}"))
        });
        let pool = PoolSpec {
            auto_weight: true,
            ..PoolSpec::new("p", endpoints.collect())
        };
        let mut stage = Stage::over(vec![pool], |_| {});
        stage.read(0, used(0.99));
        stage.read(1, used(0.49));
        stage
    }

    fn sent(stage: &mut Stage, requests: usize) -> [usize; 3] {
        let mut sent = [0; 3];
        (0..requests).for_each(|_| sent[stage.send().1] += 1);
        sent
    }

    #[test]
    fn auto_weights_share_by_load() {
        // Factors 1 and 2, and their mean for the third.
        assert_eq!(sent(&mut auto([Weight::ONE; 3]), 90), [20, 40, 30]);
        let double = Weight(2_000_000);
        assert_eq!(
            sent(&mut auto([double, Weight::ONE, Weight::ZERO]), 90),
            [45, 45, 0]
        );
    }

    #[test]
    fn a_weight_by_hand_wins_over_the_load() {
        let mut stage = auto([Weight::ONE; 3]);
        let endpoint = stage.ids[0];
        stage.step(crate::Event::Control {
            endpoint,
            command: Control::Weight {
                weight: Some(Weight::ONE),
                until: None,
            },
        });
        assert_eq!(
            weights(&stage),
            [1.0, 2.0, 2.0],
            "by hand, by load, as loaded as the mean"
        );
        assert_eq!(sent(&mut stage, 100), [20, 40, 40]);
    }

    fn weights(stage: &Stage) -> [f64; 3] {
        let view = stage.scheduler.view(stage.now);
        std::array::from_fn(|place| view.endpoints[place].weight.as_f64())
    }

    /// Whatever a weight comes from, the one that is shown is the one that counts.
    #[test]
    fn what_is_shown_is_what_counts() {
        let mut stage = auto([Weight::ONE; 3]);
        assert_eq!(weights(&stage), [1.0, 2.0, 1.5]);
        let endpoint = stage.ids[2];
        stage.step(crate::Event::Control {
            endpoint,
            command: Control::Calibrated {
                weight: Some(Weight(4_000_000)),
                until: None,
            },
        });
        assert_eq!(weights(&stage), [1.0, 2.0, 6.0]);
        let bases = stage.scheduler.view(stage.now).endpoints;
        let bases: Vec<f64> = bases
            .iter()
            .map(|endpoint| endpoint.base_weight.as_f64())
            .collect();
        assert_eq!(bases, [1.0, 1.0, 4.0], "the load aside");
        assert_eq!(sent(&mut stage, 90), [10, 20, 60]);
        // A mean over the whole pool: nobody's weight moves because another is gone for a while.
        let endpoint = stage.ids[1];
        stage.step(crate::Event::Control {
            endpoint,
            command: Control::Drain,
        });
        assert_eq!(weights(&stage), [1.0, 2.0, 6.0]);
        assert_eq!(sent(&mut stage, 70), [10, 0, 60]);
    }

    /// Weights that move with every reading neither start the turns anew nor favour the first.
    #[test]
    fn sparse_requests_between_changes_are_spread() {
        let mut stage = auto([Weight::ONE; 3]);
        let mut total = [0; 3];
        for step in 0..120_u32 {
            stage.pass(10_000);
            for place in 0..3 {
                let wobble = f64::from((step + place * 7) % 10) / 100.0;
                stage.read(place as usize, used(0.4 + wobble));
            }
            total[stage.send().1] += 1;
        }
        assert!(total.iter().all(|sent| (36..=44).contains(sent)), "{total:?}");
    }

    #[test]
    fn without_a_reading_weights_are_as_configured() {
        let pool = PoolSpec {
            auto_weight: true,
            ..PoolSpec::new(
                "p",
                vec![EndpointSpec::new("a", "a"), EndpointSpec::new("b", "b")],
            )
        };
        let mut stage = Stage::over(vec![pool], |_| {});
        let mut sent = [0; 2];
        (0..10).for_each(|_| sent[stage.send().1] += 1);
        assert_eq!(sent, [5, 5]);
    }
}
