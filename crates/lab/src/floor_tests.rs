use super::*;
use crate::yardsticks::choose::Chance;
use proptest::prelude::*;
use std::sync::Arc;
use weighbridge_core::spec::{EndpointSpec, FleetSpec, PoolSpec, RouteSpec, TargetSpec};
use weighbridge_sim::coefficients::Coefficients;
use weighbridge_sim::drive::{Baseline, Chooser, EngineSpec, Fault, Fleet, Seen, run};
use weighbridge_sim::engine::{BatchingEngine, Engine, Work, WorkId};
use weighbridge_sim::outcome::Fate;

const BLOCK: u32 = 16;

/// 1 ms an iteration, 1 ms a token, in iterations of at most 100 tokens.
fn plain() -> Settings {
    Settings {
        coefficients: Coefficients {
            memory_s: 0.0,
            memory_per_token_s: 0.0,
            compute_s: 0.0,
            compute_per_token_s: 1e-3,
            sampling_s: 0.0,
            per_sequence_s: 0.0,
            per_prefill_pair_s: 0.0,
            overhead_s: 1e-3,
            prefill_s: 0.0,
            per_context_token_s: 0.0,
        },
        block_size: BLOCK,
        max_num_batched_tokens: 100,
        ..Settings::default()
    }
}

/// One pool of so many engines for each of these settings.
fn setup(kinds: &[(u32, Settings)]) -> Setup {
    let name = |pool: usize| format!("pool-{pool}");
    let pool = |(pool, (count, _)): (usize, &(u32, Settings))| {
        let endpoints = (0..*count).map(|number| {
            let name = format!("engine-{pool}-{number}");
            EndpointSpec::new(name.as_str(), name.as_str())
        });
        PoolSpec::new(name(pool).as_str(), endpoints.collect())
    };
    let targets = (0..kinds.len()).map(|pool| TargetSpec::new(name(pool).as_str(), pool));
    let engine = |settings: &Settings| EngineSpec {
        gpu_hour: 0.0,
        ..EngineSpec::new("engine", settings.clone())
    };
    Setup {
        fleet: Fleet {
            spec: Arc::new(FleetSpec {
                pools: kinds.iter().enumerate().map(pool).collect(),
                routes: vec![RouteSpec::new("model", targets.collect())],
                ..FleetSpec::default()
            }),
            engines: kinds.iter().map(|(_, settings)| engine(settings)).collect(),
        },
        route: "model".into(),
        faults: Vec::new(),
        replicas: 1,
        scrape: Duration::from_secs(1),
        seed: 1,
    }
}

/// A request at `ms` for a prompt of so many tokens, whose blocks have these contents: runs of a number and how often.
fn request(ms: u64, prompt_tokens: u32, contents: &[(u64, usize)]) -> Request {
    let contents = contents
        .iter()
        .flat_map(|(content, count)| vec![*content; *count]);
    let chained = contents.scan(0_u64, |chain, content| {
        *chain = (*chain * 31 + content + 1) % 1_000_000_007;
        Some(*chain)
    });
    Request {
        at: Duration::from_millis(ms),
        after: None,
        prompt_tokens,
        output_tokens: 4,
        blocks: chained.collect(),
        session: None,
        tenant: 0,
        class: 0,
    }
}

fn workload(requests: Vec<Request>) -> Workload {
    Workload {
        requests,
        block_tokens: BLOCK,
        ..Workload::default()
    }
}

/// Floors in ms of one plain engine.
fn plain_floors(requests: Vec<Request>) -> Vec<f64> {
    let found = floors(&workload(requests), &setup(&[(1, plain())]));
    let ms = |floor: &Option<Duration>| (floor.unwrap().as_secs_f64() * 1e6).round() / 1e3;
    found.iter().map(ms).collect()
}

#[test]
fn a_lone_prompt_takes_its_iterations_and_tokens() {
    // 60 tokens in one iteration, 100 too, 250 in three.
    let lone = |tokens| plain_floors(vec![request(0, tokens, &[])])[0];
    assert_eq!([60, 100, 101, 250].map(lone), [61.0, 101.0, 103.0, 253.0]);
}

#[test]
fn a_lone_prompt_takes_as_long_as_on_the_engine() {
    let settings = Settings::default();
    // The last iteration of each has enough tokens to be bound by arithmetic, or is the only one.
    for prompt_tokens in [1, 200, 2048, 2500, 9000, 40_000] {
        let mut engine = BatchingEngine::new(settings.clone());
        let work = Work {
            id: WorkId(0),
            blocks: Arc::from([]),
            prompt_tokens,
            output_tokens: 1,
        };
        engine.submit(Duration::ZERO, work).unwrap();
        let mut events = Vec::new();
        while let Some(next) = engine.next_event_time() {
            engine.advance(next, &mut events);
        }
        let all = workload(vec![request(0, prompt_tokens, &[])]);
        let floor = floors(&all, &setup(&[(1, settings.clone())]))[0].unwrap();
        let (took, near) = (events[0].at, Duration::from_nanos(100));
        assert!(
            floor <= took && floor + near >= took,
            "{floor:?} {took:?} for {prompt_tokens}"
        );
    }
}

#[test]
fn the_fastest_kind_decides_and_who_is_slow_does_not() {
    let mut fast = plain();
    fast.coefficients.compute_per_token_s = 5e-4;
    let mut two = setup(&[(1, plain()), (1, fast)]);
    let name = (Arc::from("pool-1"), Arc::from("engine-1-0"));
    let slow = |factor| Fault {
        at: Duration::ZERO,
        endpoint: name.clone(),
        kind: FaultKind::Slow { factor, lasts: None },
    };
    let all = workload(vec![request(0, 60, &[])]);
    let ms = |setup: &Setup| floors(&all, setup)[0].unwrap().as_micros();
    assert_eq!(ms(&two), 30_999, "31 ms, of which a nanosecond may be rounding");
    two.faults = vec![slow(4.0)];
    assert_eq!(ms(&two), 30_999, "there may be others of its kind");
    two.faults = vec![slow(0.5)];
    assert_eq!(ms(&two), 15_499, "it may be faster than it is said to be");
}

#[test]
fn of_a_repeated_prompt_only_the_end_is_computed() {
    // Ten blocks and 5 tokens; ten blocks, of which the last is computed in any case, since an answer must come out of it.
    let apart = [
        request(0, 165, &[(1, 10)]),
        request(9000, 165, &[(1, 10)]),
        request(9000, 160, &[(1, 10)]),
        request(9000, 165, &[(1, 6), (2, 4)]),
    ];
    assert_eq!(plain_floors(apart.into()), [167.0, 6.0, 17.0, 70.0]);
}

#[test]
fn a_sibling_waits_for_the_part_that_is_being_computed() {
    // 160 tokens in common, computed from 0 on; 5 or 20 of one's own. At 100 the first is under way: 180 tokens and two
    // iterations from 0 on are 182 ms. At 175 that would be 7 ms, and the sibling's own part takes 21.
    let at = |ms| {
        let pair = vec![request(0, 165, &[(1, 10)]), request(ms, 180, &[(1, 10), (2, 1)])];
        plain_floors(pair)[1]
    };
    assert_eq!([0, 100, 175, 400].map(at), [182.0, 82.0, 21.0, 21.0]);
}

#[test]
fn who_comes_later_is_no_help() {
    let pair = vec![request(0, 165, &[(1, 10)]), request(1, 165, &[(1, 10)])];
    assert_eq!(plain_floors(pair)[0], 167.0);
}

#[test]
fn a_follower_computes_what_its_conversation_has_not_seen_whenever_it_comes() {
    let mut all = vec![
        // 32 tokens, and an answer that fills the third block.
        request(0, 44, &[(1, 3)]),
        request(0, 100, &[(1, 6)]),
        request(0, 160, &[(1, 10)]),
    ];
    (all[1].after, all[2].after) = (Some(0), Some(1));
    // 100 − 48 tokens and 160 − 96; that the last turn has the blocks of the second one is no help to that.
    assert_eq!(plain_floors(all.clone()), [45.0, 53.0, 65.0]);
    // Another conversation may have been there before.
    all.push(request(50_000, 100, &[(1, 6)]));
    assert_eq!(plain_floors(all), [45.0, 5.0, 65.0, 5.0]);
}

#[test]
fn what_an_answer_may_have_left_is_not_computed() {
    // The first's answer fills the blocks from the third on, which the second asks with at once.
    let mut all = vec![request(0, 32, &[(1, 6)]), request(0, 100, &[(1, 6)])];
    all[0].output_tokens = 80;
    assert_eq!(plain_floors(all), [33.0, 37.0], "32 tokens and the last 4");
}

#[test]
fn nothing_is_said_of_what_no_engine_takes() {
    let mut all = vec![request(0, 60, &[]), request(0, 200_000, &[]), request(0, 60, &[])];
    all[2].output_tokens = 0;
    let found = floors(&workload(all), &setup(&[(1, plain())]));
    assert_eq!(
        found.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, false]
    );
    let floor = Floor::of(found.into_iter().flatten());
    assert!((floor.ttft_mean - 0.061).abs() < 1e-6, "{floor:?}");
}

/// Chooses by chance, mostly where it chose last.
struct Any {
    chance: Chance,
    last: usize,
}

impl Baseline for Any {
    fn choose(&mut self, _: Duration, _: (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        if self.chance.below(4) == 0 {
            self.last = self.chance.below(candidates.len());
        }
        self.last.min(candidates.len() - 1)
    }
}

/// What a request of a random workload is made from: time, own tokens, answer, group, blocks of it, request it follows.
type Made = (u64, u32, u32, u64, usize, u32);

fn random(made: &[Made], block_tokens: u32) -> Workload {
    let mut all: Vec<Request> = Vec::new();
    for (place, &(ms, own, output, group, blocks, follows)) in (0_u32..).zip(made) {
        let after = (follows < place).then_some(follows);
        let before: Vec<BlockHash> = match after {
            // The prompt before and its answer.
            Some(before) => all[before as usize].blocks.to_vec(),
            None => request(0, 1, &[(group, blocks)]).blocks.to_vec(),
        };
        let prompt_tokens = u32::try_from(before.len()).unwrap() * block_tokens + own;
        let whole = ((prompt_tokens + output) / block_tokens) as usize;
        let fresh = (u64::from(place) + 1) << 32;
        let fresh = (before.len()..whole).map(|at| fresh + at as u64);
        all.push(Request {
            at: Duration::from_millis(ms),
            after,
            prompt_tokens,
            output_tokens: output,
            blocks: before.iter().copied().chain(fresh).collect(),
            session: None,
            tenant: 0,
            class: 0,
        });
    }
    Workload {
        requests: all,
        block_tokens,
        ..Workload::default()
    }
}

proptest! {
    /// Whatever is chosen, on small and large caches, with preemptions, failures and closed loops.
    #[test]
    fn nobody_is_faster(
        made in prop::collection::vec(
            (0_u64..1500, 1_u32..3000, 1_u32..300, 0_u64..3, 0_usize..300, 0_u32..60), 1..40),
        (cache, budget, seed) in (500_u32..4000, 64_u32..3000, 0_u64..1000),
        (closed, dies, block_tokens) in (prop::option::of(1_u32..10), any::<bool>(), 8_u32..40),
    ) {
        let mut workload = random(&made, block_tokens);
        workload.max_concurrency = closed;
        let slower = Settings { kv_blocks: cache, max_num_batched_tokens: budget, ..Settings::default() };
        let mut faster = slower.clone();
        faster.coefficients.compute_per_token_s /= 2.0;
        let mut setup = setup(&[(2, slower), (1, faster)]);
        if dies {
            setup.faults = vec![Fault {
                at: Duration::from_millis(700),
                endpoint: (Arc::from("pool-1"), Arc::from("engine-1-0")),
                kind: FaultKind::Die { down: Some(Duration::from_millis(300)) },
            }];
        }
        let any = Any { chance: Chance::new(seed), last: 0 };
        let done = run(&setup, &workload, Chooser::Baseline(vec![Box::new(any)]), &mut |_| {}).unwrap();
        for (place, (record, floor)) in done.records.iter().zip(floors(&workload, &setup)).enumerate() {
            if let (Fate::Answered, Some(first)) = (record.fate, record.first) {
                let took = first - record.arrived;
                prop_assert!(floor.is_some_and(|floor| floor <= took), "{place}: {floor:?} {took:?}");
            }
        }
    }
}
