//! Engines that die, slow down, join and leave: no request is lost, and the counts come back to zero.

use crate::fleet::*;
use proptest::prelude::*;
use weighbridge_core::policies::Policies;
use weighbridge_core::presets::Preset;
use weighbridge_sim::drive::{DriveError, FaultKind};
use weighbridge_sim::outcome::Fate;
use weighbridge_sim::workload::Workload;

#[test]
fn what_an_engine_held_fails_and_what_comes_later_goes_elsewhere() {
    let mut setup = setup(pool("p", 2), route(least_inflight()));
    setup.faults = vec![fault(2.0, "e1", FaultKind::Die { down: None })];
    let run = driven(&setup, &steady(100, 0.05)).unwrap();
    let failed: Vec<_> = run
        .records
        .iter()
        .filter(|record| record.fate == Fate::Failed)
        .collect();
    assert!(!failed.is_empty());
    for record in failed {
        assert_eq!((record.endpoint, record.ended), (Some(0), seconds(2.0)));
    }
    for record in run.records.iter().filter(|record| record.arrived > seconds(2.0)) {
        assert_eq!((record.fate, record.endpoint), (Fate::Answered, Some(1)));
    }
    assert!(run.attempts > 100, "refused connections were tried elsewhere");
}

#[test]
fn an_engine_that_comes_back_serves_again_with_nothing_in_its_cache() {
    let mut setup = setup(pool("p", 1), route(least_inflight()));
    let down = Some(seconds(5.0));
    setup.faults = vec![fault(3.0, "e1", FaultKind::Die { down })];
    let mut workload = steady(3, 0.0);
    for (request, at) in workload.requests.iter_mut().zip([0.0, 4.0, 60.0]) {
        request.at = seconds(at);
        request.blocks = (1..=18).collect();
    }
    workload.block_tokens = 16;
    let run = driven(&setup, &workload).unwrap();
    let fates: Vec<Fate> = run.records.iter().map(|record| record.fate).collect();
    assert_eq!(fates[0], Fate::Answered);
    assert_ne!(fates[1], Fate::Answered, "refused while it was gone");
    assert_eq!((fates[2], run.records[2].cached_tokens), (Fate::Answered, 0));
}

#[test]
fn a_slow_engine_gets_less_of_least_inflight_and_not_of_turns() {
    let slow = FaultKind::Slow {
        factor: 4.0,
        lasts: None,
    };
    let shares = |setup: &weighbridge_sim::drive::Setup| {
        let run = driven(setup, &steady(400, 0.05)).unwrap();
        assert_eq!(with(&run, Fate::Answered), 400);
        (run.endpoints[0].attempts, run.endpoints[1].attempts)
    };
    let mut one_pool = setup(pool("p", 2), route(least_inflight()));
    one_pool.faults = vec![fault(0.0, "e2", slow)];
    let (fast, slowed) = shares(&one_pool);
    assert!(fast > 2 * slowed, "{fast} and {slowed}");

    // Turns are taken by targets: two pools.
    let mut turns = setup(pool("p", 1), route(Policies::default()));
    let mut spec = (*turns.fleet.spec).clone();
    spec.pools.push(pool("q", 1));
    let mut target = spec.routes[0].targets[0].clone();
    (target.name, target.pool) = ("q".into(), 1);
    spec.routes[0].targets.push(target);
    turns.fleet.spec = spec.into();
    turns.fleet.engines.push(engine());
    turns.faults = vec![weighbridge_sim::drive::Fault {
        endpoint: ("q".into(), "e1".into()),
        ..fault(0.0, "e1", slow)
    }];
    assert_eq!(shares(&turns), (200, 200));
}

#[test]
fn who_joins_serves_once_it_has_loaded_and_who_leaves_finishes() {
    let mut setup = setup(pool("p", 1), route(Policies::default()));
    setup.faults = vec![
        fault(1.0, "e2", FaultKind::Add),
        fault(40.0, "e1", FaultKind::Remove),
    ];
    let run = driven(&setup, &steady(600, 0.1)).unwrap();
    assert_eq!(with(&run, Fate::Answered), 600);
    let on_second = |from: f64, to: f64| {
        let there = |record: &&weighbridge_sim::outcome::Record| {
            (seconds(from)..seconds(to)).contains(&record.arrived) && record.endpoint == Some(1)
        };
        run.records.iter().filter(there).count()
    };
    assert_eq!(on_second(0.0, 21.0), 0, "it takes 20 s to load");
    assert!(
        (80..=110).contains(&on_second(21.0, 40.0)),
        "{}",
        on_second(21.0, 40.0)
    );
    assert_eq!(on_second(40.1, 60.0), 199);
    let last = run
        .records
        .iter()
        .filter(|record| record.endpoint == Some(0))
        .map(|record| record.ended);
    assert_eq!(Some(run.endpoints[0].in_service), last.max());
    assert!(run.endpoints[0].busy <= run.endpoints[0].in_service);
}

/// 40 requests at once on two engines, one of which takes a hundred times as long.
fn stuck() -> (weighbridge_sim::drive::Setup, weighbridge_sim::workload::Workload) {
    let mut setup = setup(pool("p", 2), route(Policies::default()));
    let slow = FaultKind::Slow {
        factor: 100.0,
        lasts: None,
    };
    setup.faults = vec![fault(0.0, "e2", slow)];
    (setup, steady(40, 0.01))
}

#[test]
fn an_attempt_without_a_token_in_time_is_given_up() {
    let (mut setup, workload) = stuck();
    setup.fleet.engines[0].first_byte = Some(seconds(1.0));
    let run = driven(&setup, &workload).unwrap();
    let late: Vec<_> = run
        .records
        .iter()
        .filter(|record| record.fate == Fate::TimedOut)
        .collect();
    assert_eq!((late.len(), with(&run, Fate::Answered)), (20, 20));
    for record in late {
        assert_eq!(record.ended - record.arrived, seconds(1.0));
    }
    let served = weighbridge_sim::report::Summary::of(&run, &workload, &Default::default()).served;
    assert_eq!((served.answered, served.timed_out, served.requests), (20, 20, 40));
}

#[test]
fn a_softer_clock_moves_on_to_another_engine() {
    let (mut setup, workload) = stuck();
    let mut spec = (*setup.fleet.spec).clone();
    spec.routes[0].retry.on_timeout = true;
    spec.routes[0].retry.move_on_after = Some(seconds(0.5));
    spec.routes[0].retry.budget.floor_per_second = 1000.0;
    setup.fleet.spec = spec.into();
    let run = driven(&setup, &workload).unwrap();
    assert_eq!(with(&run, Fate::Answered), 40);
    let moved = run.records.iter().filter(|record| record.attempts == 2);
    assert!(moved.clone().all(|record| record.endpoint == Some(0)));
    assert_eq!(moved.count(), 20);
}

#[test]
fn a_fault_of_nobody_is_an_error() {
    let mut setup = setup(pool("p", 1), route(least_inflight()));
    setup.faults = vec![fault(0.5, "e9", FaultKind::Remove)];
    let error = driven(&setup, &steady(20, 0.1)).unwrap_err();
    assert!(matches!(error, DriveError::NoEndpoint { .. }), "{error}");
    assert!(error.to_string().contains("p/e9"), "{error}");
    setup.faults = vec![fault(0.5, "e1", FaultKind::Add)];
    let error = driven(&setup, &steady(20, 0.1)).unwrap_err();
    assert!(error.to_string().contains("there already"), "{error}");
}

/// The same prompts in five kinds, each of which begins alike.
fn alike(mut workload: Workload) -> Workload {
    workload.block_tokens = 16;
    for (number, request) in (0_u64..).zip(&mut workload.requests) {
        let own = |block: u64| if block < 12 { number % 5 } else { 5 + number };
        request.blocks = (0..18).map(|block| (own(block) << 8) + block).collect();
    }
    workload
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// The loop checks its invariants at every step; here it has occasion to.
    #[test]
    fn whatever_goes_wrong_each_request_ends_once(
        seed in any::<u64>(),
        replicas in 1..4_u32,
        max_inflight in prop::option::of(1..6_u32),
        // By what engines tell of their caches, or by their counts alone.
        told in any::<bool>(),
        faults in prop::collection::vec((0.0..8.0_f64, 1..4_usize, 0..5_u8), 0..6),
    ) {
        let mut pool = pool("p", 3);
        pool.max_inflight = max_inflight;
        let policies = if told { Preset::Auto.policies() } else { least_inflight() };
        let mut setup = setup(pool, route(policies));
        setup.fleet.engines[0].kv_events = told;
        (setup.seed, setup.replicas) = (seed, replicas);
        let workload = alike(steady(120, 0.07));
        setup.faults = faults.into_iter().map(|(at, endpoint, kind)| {
            let kind = match kind {
                0 => FaultKind::Die { down: None },
                1 => FaultKind::Die { down: Some(seconds(1.5)) },
                2 => FaultKind::Slow { factor: 7.0, lasts: Some(seconds(2.0)) },
                3 => FaultKind::Slow { factor: 0.5, lasts: None },
                _ => FaultKind::StaleMetrics { lasts: seconds(3.0) },
            };
            fault(at, &format!("e{endpoint}"), kind)
        }).collect();
        setup.faults.sort_by_key(|fault| fault.at);
        let run = driven(&setup, &workload).unwrap();
        prop_assert_eq!(run.records.len(), 120);
        prop_assert!(run.records.iter().all(|record| record.ended >= record.arrived));
        let served = weighbridge_sim::report::Summary::of(&run, &workload, &Default::default()).served;
        let refused = served.rejected + served.unavailable + served.too_long + served.timed_out;
        prop_assert_eq!(served.answered + refused + served.failed, served.requests);
        prop_assert_eq!(&run, &driven(&setup, &workload).unwrap());
    }
}
