//! What answers show of an endpoint: seen in the view, given back at rest, and the same on replay.

use crate::world::{at, pool, route};
use proptest::prelude::*;
use std::sync::Arc;
use weighbridge_core::event::{Arrival, Ended, Outcome, Spent};
use weighbridge_core::policies::{
    Policies, expected_wait, latency, least_inflight, least_work, predicted_latency, prefill_batch,
};
use weighbridge_core::signals::Reading;
use weighbridge_core::spec::FleetSpec;
use weighbridge_core::work::Work;
use weighbridge_core::{Action, EndpointId, Event, RequestId, RouteId, Scheduler, Time, replay};

/// A scheduler, and the log of what it was told and did.
struct Logged {
    scheduler: Scheduler,
    log: Vec<(Time, Event, Vec<Action>)>,
    ids: Vec<EndpointId>,
    millis: u64,
}

impl Logged {
    fn new(policies: Policies) -> Self {
        let mut route = route("r", &[0]);
        route.policies = policies;
        let mut pool = pool("p", 3);
        pool.breaker = None;
        let fleet = FleetSpec {
            pools: vec![pool],
            routes: vec![route],
            ..FleetSpec::default()
        };
        let mut logged = Self {
            scheduler: Scheduler::new(9),
            log: Vec::new(),
            ids: Vec::new(),
            millis: 0,
        };
        let actions = logged.step(Event::Configure(fleet.into()));
        logged.ids = actions
            .into_iter()
            .find_map(|action| match action {
                Action::Configured(bindings) => Some(bindings.endpoints.concat()),
                _ => None,
            })
            .unwrap();
        logged
    }

    fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let now = at(self.millis);
        self.scheduler.step(now, event.clone(), &mut actions);
        self.log.push((now, event, actions.clone()));
        actions
    }

    /// Attempt and endpoint of a new request.
    fn arrive(&mut self, id: u64, work: Option<Work>) -> Option<(u32, EndpointId)> {
        let arrival = Arrival {
            work: work.map(Arc::new),
            ..Arrival::new(RequestId(id), RouteId(0))
        };
        dispatched(&self.step(Event::Arrive(arrival)))
    }
}

fn dispatched(actions: &[Action]) -> Option<(u32, EndpointId)> {
    actions.iter().find_map(|action| match action {
        Action::Dispatch(dispatch) => Some((dispatch.attempt, dispatch.endpoint)),
        _ => None,
    })
}

fn all() -> Policies {
    Policies {
        least_inflight: Some(least_inflight::Config::default()),
        least_work: Some(least_work::Config::default()),
        expected_wait: Some(expected_wait::Config::default()),
        prefill_batch: Some(prefill_batch::Config::default()),
        latency: Some(latency::Config {
            explore: 0.2,
            ..latency::Config::default()
        }),
        predicted_latency: Some(predicted_latency::Config::default()),
        ..Policies::default()
    }
}

#[test]
fn the_view_shows_what_answers_took() {
    let mut logged = Logged::new(all());
    let work = Work {
        prompt_tokens: 1000,
        ..Work::default()
    };
    let (attempt, endpoint) = logged.arrive(1, Some(work)).unwrap();
    logged.millis += 500;
    let request = RequestId(1);
    logged.step(Event::FirstToken { request, attempt });
    logged.millis += 1000;
    let spent = Spent {
        prompt: 1000,
        cached: Some(200),
        output: 11,
    };
    let ended = Ended::new(request, attempt, Outcome::Complete);
    logged.step(Event::Ended(Ended {
        spent: Some(spent),
        ..ended
    }));
    let view = logged.scheduler.view(at(1500));
    let shown = view.endpoints.iter().find(|shown| shown.id == endpoint).unwrap();
    let live = shown.live.as_deref().unwrap();
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6 * b;
    let times = [live.first_token, live.per_token, live.total].map(Option::unwrap);
    for (shown, seconds) in times.iter().zip([0.5, 0.1, 1.5]) {
        assert!(
            near(shown.mean, seconds) && near(shown.peak, seconds),
            "{shown:?}"
        );
        assert!((shown.p50 / seconds - 1.0).abs() < 0.1, "{shown:?}");
    }
    assert!((times[0].age, times[1].age) == (1.0, 0.0));
    assert!(
        near(live.prefill_rate, 2000.0) && near(live.decode_rate, 10.0),
        "{live:?}"
    );
    assert!((live.failures, live.outstanding_seconds) == (0.0, 0.0));
    let [pool] = &view.pools[..] else {
        panic!("{:?}", view.pools)
    };
    assert_eq!(
        (pool.prompt_tokens, pool.output_tokens),
        (Some(800.0), Some(11.0))
    );
    assert_eq!(pool.predicts_first_token.map(|trial| trial.believed), Some(false));
}

#[test]
fn a_route_that_looks_at_none_of_it_leaves_nothing() {
    let mut logged = Logged::new(Policies {
        least_inflight: Some(least_inflight::Config::default()),
        ..Policies::default()
    });
    let (attempt, _) = logged.arrive(1, None).unwrap();
    logged.millis += 10;
    logged.step(Event::Ended(Ended::new(RequestId(1), attempt, Outcome::Complete)));
    let view = logged.scheduler.view(at(10));
    assert!(view.pools.is_empty() && view.endpoints.iter().all(|endpoint| endpoint.live.is_none()));
}

/// Something that happens, after so many milliseconds.
#[derive(Clone, Debug)]
enum Step {
    Arrive {
        prompt: Option<u32>,
        output: Option<u32>,
    },
    FirstToken(usize),
    End(usize, Outcome, Option<Spent>),
    Read(usize, u32, u32),
    Withdraw(usize),
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let tokens = || proptest::option::of(0..20_000_u32);
    let outcome = prop_oneof![
        4 => Just(Outcome::Complete),
        1 => Just(Outcome::Reset),
        1 => Just(Outcome::Status { code: 500, retry_after: None }),
        1 => Just(Outcome::Status { code: 429, retry_after: None }),
        1 => Just(Outcome::TimedOut),
    ];
    let spent = (any::<u32>(), tokens(), any::<u32>()).prop_map(|(prompt, cached, output)| Spent {
        prompt,
        cached,
        output,
    });
    let step = prop_oneof![
        4 => (tokens(), tokens()).prop_map(|(prompt, output)| Step::Arrive { prompt, output }),
        4 => (0..8_usize).prop_map(Step::FirstToken),
        3 => (0..8_usize, outcome, proptest::option::of(spent)).prop_map(|(at, outcome, spent)| Step::End(at, outcome, spent)),
        1 => (0..3_usize, 0..9_u32, 0..9_u32).prop_map(|(at, waiting, running)| Step::Read(at, waiting, running)),
        1 => (0..8_usize).prop_map(Step::Withdraw),
    ];
    (prop_oneof![9 => 0..900_u64, 1 => 0..900_000_u64], step)
}

/// Plays the steps; whatever is under way at the end is withdrawn.
fn play(steps: &[(u64, Step)]) -> Logged {
    let mut logged = Logged::new(all());
    let mut next = 0;
    let mut under_way: Vec<(u64, u32)> = Vec::new();
    for (millis, step) in steps {
        logged.millis += millis;
        match step {
            Step::Arrive { prompt, output } => {
                next += 1;
                let work = prompt.map(|prompt_tokens| Work {
                    prompt_tokens,
                    max_tokens: *output,
                    ..Work::default()
                });
                under_way.extend(logged.arrive(next, work).map(|(attempt, _)| (next, attempt)));
            }
            Step::FirstToken(place) => {
                if let Some((id, attempt)) = under_way.get(*place).copied() {
                    let request = RequestId(id);
                    logged.step(Event::FirstToken { request, attempt });
                }
            }
            Step::End(place, outcome, spent) => {
                if *place < under_way.len() {
                    let (id, attempt) = under_way.remove(*place);
                    let ended = Ended::new(RequestId(id), attempt, *outcome);
                    let actions = logged.step(Event::Ended(Ended {
                        spent: *spent,
                        ..ended
                    }));
                    under_way.extend(dispatched(&actions).map(|(attempt, _)| (id, attempt)));
                }
            }
            Step::Read(place, waiting, running) => {
                let reading = Reading {
                    waiting: Some(*waiting),
                    running: Some(*running),
                    kv_usage: Some(f64::from(*running) / 8.0),
                    ..Reading::default()
                };
                let endpoint = logged.ids[*place];
                let reading = Box::new(reading);
                logged.step(Event::Scraped { endpoint, reading });
            }
            Step::Withdraw(place) => {
                if *place < under_way.len() {
                    let (id, _) = under_way.remove(*place);
                    logged.step(Event::Withdraw(RequestId(id)));
                }
            }
        }
    }
    for (id, _) in under_way {
        logged.step(Event::Withdraw(RequestId(id)));
    }
    logged
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn scores_are_sound_and_nothing_is_left_at_rest(steps in proptest::collection::vec(step(), 1..120)) {
        let logged = play(&steps);
        prop_assert_eq!(logged.scheduler.bad_scores(), 0);
        // Old enough that no reading counts any more.
        let view = logged.scheduler.view(at(logged.millis + 100_000));
        for live in view.endpoints.iter().filter_map(|endpoint| endpoint.live.as_deref()) {
            prop_assert_eq!((live.prefill_tokens, live.decode_tokens, live.outstanding_seconds), (0.0, 0.0, 0.0));
            prop_assert!(live.prefill_rate > 0.0 && live.decode_rate > 0.0);
        }
    }

    #[test]
    fn a_log_replays_to_the_same_actions(steps in proptest::collection::vec(step(), 1..120)) {
        let logged = play(&steps);
        prop_assert_eq!(replay::replay(logged.log.into_iter(), 9), Ok(()));
    }
}
