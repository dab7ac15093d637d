//! Sets of policies by the kind of traffic, for those who do not want to weigh policies themselves.
//!
//! Every preset works without anything being told: policies that lack what they look at abstain, and the others decide.

use crate::policies::{Policies, added_delay, batch_packing, overload, predicted_latency, prefix_cache};

/// A set of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Traffic of which nothing is known.
    Auto,
    /// Conversations that people wait for.
    Chat,
    /// Programs that call models and tools in many turns over long prompts.
    Agents,
    /// Work that nobody waits for.
    Batch,
    /// Answers in time above all.
    Latency,
}

impl Preset {
    /// All, in the order in which they are told of.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Chat, Self::Agents, Self::Batch, Self::Latency];

    /// The word of the config, the API and the logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Chat => "chat",
            Self::Agents => "agents",
            Self::Batch => "batch",
            Self::Latency => "latency",
        }
    }

    /// What it stands for.
    #[must_use]
    pub fn policies(self) -> Policies {
        let mut policies = match self {
            // What a request costs everybody, in seconds, weighs a cached prefix against a queue without a knob.
            Self::Auto => added_delay(added_delay::Config::default()),
            // The first token is what people wait for, so the times of the tokens after it count for little. Not for nothing: a prompt
            // that is cached at one engine would go there however many it answers.
            Self::Chat => added_delay(added_delay::Config {
                answers: 0.1,
                ..added_delay::Config::default()
            }),
            // Nearly all of a long prompt was there before. Where two places cost about the same, the one that has more of it is right
            // also by what the seconds leave out: what other gateways send, and what comes back later.
            Self::Agents => Policies {
                prefix_cache: Some(prefix_cache::Config {
                    weight: 0.2,
                    ..prefix_cache::Config::default()
                }),
                ..added_delay(added_delay::Config::default())
            },
            // Each engine is filled to a batch before the next is begun, so that under little work some stay empty. Of a batch of a dozen
            // a token costs a fraction of what it costs alone; larger ones save little more, and take long.
            Self::Batch => Policies {
                batch_packing: Some(batch_packing::Config {
                    weight: 3.0,
                    max_batch: 12,
                }),
                ..added_delay(added_delay::Config::default())
            },
            // By objectives as a model of each engine has them, where there are any, beside what makes the first token come soon.
            Self::Latency => Policies {
                predicted_latency: Some(predicted_latency::Config::default()),
                ..added_delay(added_delay::Config {
                    answers: 0.1,
                    ..added_delay::Config::default()
                })
            },
        };
        policies.overload = Some(overload::Config::default());
        policies
    }
}

fn added_delay(config: added_delay::Config) -> Policies {
    Policies {
        added_delay: Some(config),
        ..Policies::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::{Stage, prompt};
    use crate::signals::Reading;

    const ALL: [Preset; 5] = Preset::ALL;

    #[test]
    fn each_chooses_of_its_own_and_is_sound() {
        for preset in ALL {
            let policies = preset.policies();
            assert!(!policies.is_empty());
            for config in policies.configs() {
                assert_eq!(config.check(), Ok(()), "{preset:?}: {}", config.name());
            }
            for other in ALL {
                assert_eq!(
                    policies == other.policies(),
                    preset == other,
                    "{preset:?} and {other:?}"
                );
            }
        }
    }

    #[test]
    fn where_nothing_is_told_all_but_batch_spread_requests() {
        for preset in ALL {
            let mut stage = Stage::new(4, |policies| *policies = preset.policies());
            let mut sent = [0; 4];
            (0..40).for_each(|_| sent[stage.send().1] += 1);
            sent.sort_unstable();
            match preset {
                Preset::Batch => assert_eq!(sent, [4, 12, 12, 12], "one is filled before the next"),
                _ => assert_eq!(sent, [10; 4], "{preset:?}"),
            }
        }
    }

    #[test]
    fn a_prompt_that_one_engine_has_goes_elsewhere_while_that_one_answers_many() {
        for preset in ALL {
            let mut stage = Stage::new(2, |policies| *policies = preset.policies());
            // Both at 1,000 tokens a second, and 10 ms for each token of an answer.
            for _ in 0..20 {
                for place in [0, 1] {
                    stage.served(place, (1000, 11), (1000, 10));
                }
            }
            let prompt = prompt(2, 16);
            stage.holds(0, &prompt);
            stage.work = Some(prompt);
            assert_eq!(stage.winner(), 0, "{preset:?}");
            // All of them have their first token and are still answered.
            for request in stage.busy(0, 100) {
                stage.first_token(request);
            }
            assert_eq!(stage.winner(), 1, "{preset:?}");
        }
    }

    #[test]
    fn an_engine_without_room_is_left_by_all() {
        for preset in ALL {
            let mut stage = Stage::new(2, |policies| *policies = preset.policies());
            for (place, kv_usage) in [(0, 0.97), (1, 0.2)] {
                stage.read(
                    place,
                    Reading {
                        kv_usage: Some(kv_usage),
                        waiting: Some(0),
                        running: Some(5),
                        ..Reading::default()
                    },
                );
            }
            assert_eq!(stage.winner(), 1, "{preset:?}");
        }
    }
}
