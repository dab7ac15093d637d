//! Tests of the figures of a run.

use super::super::samples;
use super::*;
use crate::workload::Class;

fn record(arrived: u64, [scheduled, first, ended]: [u64; 3], output_tokens: u32) -> Record {
    let millis = Duration::from_millis;
    Record {
        arrived: millis(arrived),
        sent: Some(millis(arrived)),
        scheduled: Some(millis(scheduled)),
        first: Some(millis(first)),
        ended: millis(ended),
        fate: Fate::Answered,
        endpoint: Some(0),
        attempts: 1,
        prompt_tokens: 100,
        cached_tokens: 25,
        output_tokens,
        tenant: 0,
        class: 0,
    }
}

fn two() -> Run {
    let mut lost = record(1_000, [0; 3], 50);
    (lost.scheduled, lost.first, lost.fate) = (None, None, Fate::Failed);
    Run {
        records: vec![
            record(1_000, [1_500, 2_000, 4_000], 11),
            lost,
            record(3_000, [3_000, 3_100, 3_100], 1),
        ],
        ended: Duration::from_secs(5),
        attempts: 3,
        ..Run::default()
    }
}

#[test]
fn times_run_from_the_clients_sending_and_are_those_of_answers() {
    let summary = Summary::of(&two(), &Workload::default(), &Objectives::default());
    let served = &summary.served;
    assert_eq!((served.requests, served.answered, served.failed), (3, 2, 1));
    let ttft = served.ttft.unwrap();
    assert_eq!((ttft.count, ttft.p50, ttft.max), (2, 0.1, 1.0));
    let tpot = served.tpot.unwrap();
    assert_eq!(
        (tpot.count, tpot.mean),
        (1, 0.2),
        "2 s over the 10 tokens after the first"
    );
    assert_eq!(served.e2e.unwrap().max, 3.0);
    assert_eq!(served.queue_wait.unwrap().max, 0.5);
    assert_eq!(summary.fleet.duration_seconds, 4.0);
    assert_eq!(served.requests_per_second, 0.5);
    assert_eq!(served.output_tokens_per_second, 3.0);
    assert_eq!(
        served.hit_ratio,
        Some(0.25),
        "of the prompts that an engine began with"
    );
    assert_eq!(served.goodput_share, None, "nothing has a bound");
}

#[test]
fn goodput_counts_all_requests_and_only_answers_in_time() {
    let run = two();
    let objectives = |text: &str| {
        Objectives::parse(text, |time| {
            time.parse()
                .map(Duration::from_millis)
                .map_err(|_| "no time".to_owned())
        })
        .unwrap()
    };
    let share = |text: &str| {
        Summary::of(&run, &Workload::default(), &objectives(text))
            .served
            .goodput_share
    };
    assert_eq!(share("ttft_p95=1000"), Some(2.0 / 3.0));
    assert_eq!(share("ttft_p95=999"), Some(1.0 / 3.0));
    assert_eq!(
        share("tpot_p50=200"),
        Some(2.0 / 3.0),
        "an answer of one token is in time"
    );
    assert_eq!(share("e2e_p50=2999"), Some(1.0 / 3.0));
    let summary = Summary::of(
        &run,
        &Workload::default(),
        &objectives("ttft_p50=100,ttft_p99=100"),
    );
    assert_eq!(
        summary
            .objectives
            .iter()
            .map(|checked| checked.met)
            .collect::<Vec<_>>(),
        [true, false]
    );
    assert_eq!(summary.objectives[1].seconds, Some(1.0));
}

#[test]
fn each_class_has_its_own_bounds_unless_some_are_given() {
    let class = |first: u64| Class {
        name: "c".into(),
        slo: Slo {
            first_token: Some(Duration::from_millis(first)),
            ..Slo::default()
        },
    };
    let workload = Workload {
        classes: vec![class(2_000), class(50)],
        ..Workload::default()
    };
    let mut run = two();
    run.records[2].class = 1;
    let summary = Summary::of(&run, &workload, &Objectives::default());
    assert_eq!(summary.served.goodput_share, Some(1.0 / 3.0));
    let shares: Vec<_> = summary
        .by_class
        .iter()
        .map(|part| part.served.goodput_share)
        .collect();
    assert_eq!(shares, [Some(0.5), Some(0.0)]);
}

#[test]
fn balance_is_by_time_in_service() {
    let endpoint = |seconds: u64, tokens: u64| EndpointRun {
        in_service: Duration::from_secs(seconds),
        uncached_tokens: tokens,
        attempts: 10,
        gpus: 2,
        gpu_hour: 3.6,
        busy: Duration::from_secs(seconds / 2),
        ..EndpointRun::default()
    };
    // The second came late and works as hard as the first; the third does twice as much, the fourth never served.
    let run = Run {
        endpoints: vec![
            endpoint(100, 1_000),
            endpoint(10, 100),
            endpoint(100, 2_000),
            endpoint(0, 0),
        ],
        ..two()
    };
    let fleet = Summary::of(&run, &Workload::default(), &Objectives::default()).fleet;
    assert_eq!(fleet.uncached_busiest_over_mean, Some(1.5));
    assert_eq!(fleet.uncached_idlest_over_mean, Some(0.75));
    assert_eq!(fleet.gpu_seconds, 420.0);
    assert_eq!(fleet.busy_share, Some(0.5));
    assert!(
        (fleet.cost.unwrap() - 0.42).abs() < 1e-9,
        "420 GPU-seconds at 3.6 an hour"
    );
}

#[test]
fn an_empty_run_has_no_figures_and_does_not_divide_by_zero() {
    let summary = Summary::of(&Run::default(), &Workload::default(), &Objectives::default());
    assert_eq!(
        summary.served,
        Served {
            goodput_share: None,
            ..Served::default()
        }
    );
    assert_eq!(summary.fleet, FleetUse::default());
}

#[test]
fn classes_and_tenants_add_up() {
    let summary = Summary::of(
        &samples::run("plain", 1, 4),
        &samples::workload(),
        &Objectives::default(),
    );
    for parts in [&summary.by_class, &summary.by_tenant] {
        assert_eq!(parts.len(), 2);
        assert_eq!(
            parts.iter().map(|part| part.served.requests).sum::<u64>(),
            summary.served.requests
        );
    }
}
