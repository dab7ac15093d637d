//! Sets of policies by the kind of traffic, for those who do not want to weigh policies themselves.
//!
//! Every preset works without anything being told: policies that lack what they look at abstain, and the others decide.

use crate::policies::{
    Policies, added_delay, batch_packing, expected_wait, least_inflight, least_work, overload,
    predicted_latency, prefix_cache, session_affinity,
};

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
            Self::Auto => Policies {
                added_delay: Some(added_delay::Config::default()),
                ..Policies::default()
            },
            // What the last turn left in a cache is most of the next prompt, and the first token is what people wait for.
            Self::Chat => Policies {
                prefix_cache: cached(2.0),
                expected_wait: Some(expected_wait::Config { weight: 1.0 }),
                least_inflight: Some(least_inflight::Config { weight: 0.5 }),
                ..Policies::default()
            },
            // Sessions are long and come back within seconds, so they stay; bounded, so that no engine drowns in its own.
            Self::Agents => Policies {
                session_affinity: Some(session_affinity::Config {
                    bound: Some(1.25),
                    ..session_affinity::Config::default()
                }),
                prefix_cache: cached(1.0),
                least_work: Some(least_work::Config { weight: 1.0 }),
                ..Policies::default()
            },
            // Full batches on few engines.
            Self::Batch => Policies {
                batch_packing: Some(batch_packing::Config::default()),
                prefix_cache: cached(0.5),
                ..Policies::default()
            },
            // By objectives where there are any, by the expected wait until the model has learned.
            Self::Latency => Policies {
                predicted_latency: Some(predicted_latency::Config {
                    weight: 2.0,
                    ..predicted_latency::Config::default()
                }),
                expected_wait: Some(expected_wait::Config { weight: 1.0 }),
                least_inflight: Some(least_inflight::Config { weight: 0.5 }),
                ..Policies::default()
            },
        };
        policies.overload = Some(overload::Config::default());
        policies
    }
}

fn cached(weight: f64) -> Option<prefix_cache::Config> {
    Some(prefix_cache::Config {
        weight,
        ..prefix_cache::Config::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::Stage;
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
            let most = sent.iter().max().unwrap();
            match preset {
                Preset::Batch => assert_eq!(*most, 40, "one engine has room for all"),
                _ => assert_eq!(sent, [10; 4], "{preset:?}"),
            }
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
