//! Presets, above all `auto`, under whatever engines say and do: every score is a number, every request is sent, and a replay decides the
//! same.

use crate::world::{Answer, World, fleet, ms, pool, route};
use proptest::prelude::*;
use std::sync::Arc;
use weighbridge_core::action::Dispatch;
use weighbridge_core::event::{Ended, Outcome, Spent};
use weighbridge_core::prefix::BlockHash;
use weighbridge_core::presets::Preset;
use weighbridge_core::replay::replay;
use weighbridge_core::signals::{CacheChange, Reading};
use weighbridge_core::spec::FleetSpec;
use weighbridge_core::work::Work;
use weighbridge_core::{Action, Event};

#[derive(Clone, Debug)]
enum Move {
    /// A prompt of so many tokens, of a group with a common beginning.
    Arrive {
        tokens: u32,
        blocks: u8,
        group: u8,
        exact: bool,
    },
    FirstToken(u8),
    End {
        which: u8,
        outcome: Outcome,
        spent: Option<Spent>,
    },
    Read {
        endpoint: u8,
        reading: Box<Reading>,
    },
    Cache {
        endpoint: u8,
        change: CacheChange,
    },
    Configure(u8),
    Pass(u32),
}

/// Counts that engines should not tell among those that they may.
fn count() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0u32..10, 3 => 0u32..5000, 1 => Just(u32::MAX)]
}

fn share() -> impl Strategy<Value = Option<f64>> {
    prop::option::of(prop::sample::select(vec![
        0.0,
        0.5,
        1.0,
        -1.0,
        1e300,
        f64::NAN,
        f64::INFINITY,
    ]))
}

fn readings() -> impl Strategy<Value = Reading> {
    let counts = (
        prop::option::of(count()),
        prop::option::of(count()),
        prop::option::of(count()),
    );
    (counts, share(), share()).prop_map(|((waiting, running, tokens), kv_usage, gpu)| Reading {
        waiting,
        running,
        kv_usage,
        gpu_memory: gpu,
        gpu_utilisation: gpu,
        cache_tokens: tokens.map(u64::from),
        prompt_tokens: tokens.map(u64::from),
        ..Reading::default()
    })
}

fn blocks(group: u8, count: u8) -> Vec<BlockHash> {
    (0..u64::from(count))
        .map(|at| BlockHash(u64::from(group) << if at < 3 { 0 } else { 32 } | (at + 1) << 16))
        .collect()
}

fn changes() -> impl Strategy<Value = CacheChange> {
    (0u8..4, 0u8..6, 0u8..20).prop_map(|(kind, group, count)| match kind {
        0 => CacheChange::Cleared,
        1 => CacheChange::Lost,
        2 => CacheChange::Removed {
            blocks: blocks(group, count),
        },
        _ => CacheChange::Stored {
            parent: None,
            blocks: blocks(group, count),
        },
    })
}

fn moves() -> impl Strategy<Value = Move> {
    let spent = (count(), prop::option::of(count()), count());
    let spent = spent.prop_map(|(prompt, cached, output)| Spent {
        prompt,
        cached,
        output,
    });
    let outcomes = prop::sample::select(vec![
        Outcome::Complete,
        Outcome::Complete,
        Outcome::Complete,
        Outcome::Refused,
        Outcome::Broken,
        Outcome::Abandoned,
    ]);
    prop_oneof![
        8 => (count(), 0u8..20, 0u8..6, any::<bool>())
            .prop_map(|(tokens, blocks, group, exact)| Move::Arrive { tokens, blocks, group, exact }),
        6 => any::<u8>().prop_map(Move::FirstToken),
        6 => (any::<u8>(), outcomes, prop::option::of(spent))
            .prop_map(|(which, outcome, spent)| Move::End { which, outcome, spent }),
        2 => (any::<u8>(), readings())
            .prop_map(|(endpoint, reading)| Move::Read { endpoint, reading: Box::new(reading) }),
        2 => (any::<u8>(), changes()).prop_map(|(endpoint, change)| Move::Cache { endpoint, change }),
        1 => any::<u8>().prop_map(Move::Configure),
        3 => prop_oneof![Just(0u32), 0u32..2000, Just(50_000_000)].prop_map(Move::Pass),
    ]
}

/// One pool or two, of one endpoint to twelve.
fn spec(variant: u8) -> FleetSpec {
    let counts: &[usize] = match variant % 4 {
        0 => &[1],
        1 => &[4],
        2 => &[2, 3],
        _ => &[12],
    };
    let pools = counts.iter().enumerate();
    let pools = pools.map(|(at, count)| pool(&format!("p{at}"), *count)).collect();
    let indexes: Vec<usize> = (0..counts.len()).collect();
    let mut route = route("r", &indexes);
    let preset = usize::from(variant / 4).saturating_sub(32) % Preset::ALL.len();
    route.policies = Preset::ALL[preset].policies();
    fleet(pools, vec![route])
}

struct Model {
    world: World,
    running: Vec<Dispatch>,
}

impl Model {
    fn apply(&mut self, next: Move) {
        match next {
            Move::Arrive {
                tokens,
                blocks: count,
                group,
                exact,
            } => {
                let mut arrival = self.world.arrival(0, None);
                arrival.explain = true;
                let prompt: Box<[BlockHash]> = blocks(group, count).into();
                arrival.work = Some(Arc::new(Work {
                    prompt_tokens: tokens,
                    exact: if exact { prompt.clone() } else { Box::default() },
                    exact_tokens: 16,
                    blocks: prompt,
                    block_tokens: tokens / 10,
                    ..Work::default()
                }));
                if let Answer::Sent(dispatch) = self.world.send(arrival) {
                    self.sent(*dispatch);
                }
            }
            Move::FirstToken(which) => {
                if let Some(dispatch) = self.pick(which) {
                    let (request, attempt) = (dispatch.request, dispatch.attempt);
                    self.world.step(Event::FirstToken { request, attempt });
                }
            }
            Move::End {
                which,
                outcome,
                spent,
            } => {
                if let Some(dispatch) = self.pick(which) {
                    self.running.retain(|other| other.request != dispatch.request);
                    let ended = Ended::new(dispatch.request, dispatch.attempt, outcome);
                    for action in self.world.step(Event::Ended(Ended { spent, ..ended })) {
                        if let Action::Dispatch(dispatch) = action {
                            self.sent(*dispatch);
                        }
                    }
                }
            }
            Move::Read { endpoint, reading } => {
                let endpoint = self.endpoint(endpoint);
                self.world.step(Event::Scraped { endpoint, reading });
            }
            Move::Cache { endpoint, change } => {
                let endpoint = self.endpoint(endpoint);
                self.world.step(Event::Cache {
                    endpoint,
                    changes: vec![change],
                });
            }
            Move::Configure(variant) => self.world.configure(spec(variant)),
            Move::Pass(millis) => {
                self.world.now = self.world.now.after(ms(u64::from(millis)));
                self.world.step(Event::Tick);
            }
        }
        assert_eq!(self.world.scheduler.bad_scores(), 0);
    }

    fn sent(&mut self, dispatch: Dispatch) {
        if let Some(explanation) = &dispatch.explanation {
            let mut parts = explanation
                .candidates
                .iter()
                .flat_map(|candidate| &candidate.parts);
            assert!(parts.all(|part| part.raw.is_finite() && part.raw >= 0.0));
        }
        self.running.push(dispatch);
    }

    fn pick(&self, which: u8) -> Option<Dispatch> {
        let place = usize::from(which) % self.running.len().max(1);
        self.running.get(place).cloned()
    }

    fn endpoint(&self, which: u8) -> weighbridge_core::ids::EndpointId {
        let all = self.world.ids.endpoints.concat();
        all[usize::from(which) % all.len()]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_score_is_a_number_and_a_replay_decides_the_same(
        history in prop::collection::vec(moves(), 1..200),
        seed in any::<u64>(),
    ) {
        let world = World::seeded(spec(1), seed);
        let mut model = Model { world, running: Vec::new() };
        history.into_iter().for_each(|next| model.apply(next));
        let log = std::mem::take(&mut model.world.log);
        prop_assert_eq!(replay(log.into_iter(), seed), Ok(()));
    }
}
