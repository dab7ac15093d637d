//! Who is served where and when, with nothing going wrong.

use crate::fleet::*;
use std::sync::Arc;
use weighbridge_core::policies::Policies;
use weighbridge_sim::drive::DriveError;
use weighbridge_sim::outcome::{Fate, Record};
use weighbridge_sim::workload::Workload;

#[test]
fn every_request_is_answered_in_its_time() {
    let workload = steady(200, 0.05);
    let run = driven(&setup(pool("p", 4), route(least_inflight())), &workload).unwrap();
    assert_eq!((run.records.len(), with(&run, Fate::Answered)), (200, 200));
    for (record, request) in run.records.iter().zip(&workload.requests) {
        assert_eq!(record.arrived, request.at);
        let (sent, first) = (record.sent.unwrap(), record.first.unwrap());
        assert!(record.arrived <= sent && sent < first && first < record.ended);
        assert_eq!(
            (record.attempts, record.output_tokens),
            (1, request.output_tokens)
        );
    }
    let output: u64 = run.endpoints.iter().map(|endpoint| endpoint.output_tokens).sum();
    let asked: u64 = workload
        .requests
        .iter()
        .map(|request| u64::from(request.output_tokens))
        .sum();
    assert_eq!(output, asked);
    assert_eq!((run.attempts, run.decisions), (200, 200));
    assert_eq!(
        run.ended,
        run.records.iter().map(|record| record.ended).max().unwrap()
    );
    for endpoint in &run.endpoints {
        assert_eq!(endpoint.in_service, run.ended);
        assert!(endpoint.busy <= run.ended && !endpoint.busy.is_zero());
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_round_robin_takes_turns() {
    let setup = setup(pool("p", 3), route(Policies::default()));
    let run = driven(&setup, &steady(30, 0.1)).unwrap();
    assert_eq!(run, driven(&setup, &steady(30, 0.1)).unwrap());
    let attempts: Vec<u64> = run.endpoints.iter().map(|endpoint| endpoint.attempts).collect();
    assert_eq!(attempts, [10, 10, 10]);
}

#[test]
fn a_session_stays_where_it_is() {
    let mut workload = steady(120, 0.05);
    for (number, request) in (0_u64..).zip(&mut workload.requests) {
        request.session = Some(number % 12);
    }
    let run = driven(&setup(pool("p", 4), route(affinity())), &workload).unwrap();
    for (number, record) in run.records.iter().enumerate() {
        assert_eq!(record.endpoint, run.records[number % 12].endpoint);
    }
    assert!(
        run.endpoints
            .iter()
            .filter(|endpoint| endpoint.attempts > 0)
            .count()
            > 1
    );
}

#[test]
fn a_turn_comes_after_the_one_before_and_finds_it_in_the_cache() {
    let mut first = request(1.0, 64, 16);
    first.blocks = Arc::from([1, 2, 3, 4, 5]);
    let mut second = request(3.0, 160, 10);
    (second.after, second.blocks) = (Some(0), Arc::from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
    let workload = Workload {
        requests: vec![first, second],
        block_tokens: 16,
        ..Workload::default()
    };
    let run = driven(&setup(pool("p", 1), route(Policies::default())), &workload).unwrap();
    let [first, second]: [Record; 2] = run.records.try_into().unwrap();
    assert_eq!(second.arrived, first.ended + seconds(3.0));
    // 64 tokens of the prompt; the answer's last token is known once the next is computed.
    assert_eq!((first.cached_tokens, second.cached_tokens), (0, 64));
}

#[test]
fn a_closed_loop_has_no_more_under_way_than_it_may() {
    let workload = Workload {
        max_concurrency: Some(3),
        ..steady(60, 0.001)
    };
    let run = driven(&setup(pool("p", 2), route(least_inflight())), &workload).unwrap();
    for record in &run.records {
        let others = run.records.iter().filter(|other| {
            let there = other.arrived..other.ended;
            there.contains(&record.arrived)
        });
        assert!(others.count() <= 3);
    }
    assert_eq!(with(&run, Fate::Answered), 60);
}

#[test]
fn what_is_too_much_is_turned_away_and_counted() {
    let mut pool = pool("p", 1);
    pool.max_inflight = Some(2);
    let mut workload = steady(5, 0.0);
    workload.requests[4].prompt_tokens = 1_000_000;
    workload.requests[4].at = seconds(100.0);
    let run = driven(&setup(pool, route(least_inflight())), &workload).unwrap();
    let fates: Vec<Fate> = run.records.iter().map(|record| record.fate).collect();
    use Fate::{Answered, Rejected, TooLong};
    assert_eq!(fates, [Answered, Answered, Rejected, Rejected, TooLong]);
    assert_eq!((run.records[2].sent, run.records[2].endpoint), (None, None));
}

#[test]
fn points_stay_bounded_and_tell_the_time() {
    // A day and more, with nothing in between.
    let mut workload = steady(2, 0.0);
    workload.requests[1].at = seconds(100_000.0);
    let run = driven(&setup(pool("p", 2), route(least_inflight())), &workload).unwrap();
    let points = &run.endpoints[0].points;
    assert!(points.len() <= 2048, "{}", points.len());
    let covered = run.step * u32::try_from(points.len()).unwrap();
    assert!(
        covered >= run.ended && covered <= run.ended + run.step * 2,
        "{covered:?}"
    );
    assert!(points.iter().all(|point| point.up));
}

#[test]
fn arguments_that_do_not_fit_are_told() {
    let mut wrong = setup(pool("p", 1), route(least_inflight()));
    wrong.route = "s".into();
    let error = driven(&wrong, &steady(1, 1.0)).unwrap_err();
    assert_eq!(error, DriveError::NoRoute("s".into(), "r".into()));
    wrong.route = "r".into();
    wrong.fleet.engines.clear();
    assert!(matches!(
        driven(&wrong, &steady(1, 1.0)),
        Err(DriveError::Spec(_))
    ));
}

#[test]
fn nothing_asked_is_nothing_done() {
    let run = driven(
        &setup(pool("p", 2), route(least_inflight())),
        &Workload::default(),
    )
    .unwrap();
    assert!(run.records.is_empty() && run.ended.is_zero());
}

#[test]
fn an_engine_counts_blocks_as_the_workload_does() {
    let mut workload = steady(2, 30.0);
    for request in &mut workload.requests {
        request.prompt_tokens = 2000;
        request.blocks = Arc::from([1, 2, 3]);
    }
    workload.block_tokens = 512;
    let mut setup = setup(pool("p", 1), route(least_inflight()));
    let cached =
        |setup: &weighbridge_sim::drive::Setup| driven(setup, &workload).unwrap().records[1].cached_tokens;
    assert_eq!(cached(&setup), 3 * 512);
    // The cache is no larger for it: 2,000 tokens do not hold a prompt and its answer.
    setup.fleet.engines[0].settings.kv_blocks = 125;
    let run = driven(&setup, &workload).unwrap();
    assert_eq!(with(&run, Fate::TooLong), 2);
}
