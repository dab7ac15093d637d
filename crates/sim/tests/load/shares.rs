//! Who gets how much.

use crate::fleet::*;
use std::time::Duration;
use weighbridge_core::policies::{Policies, queue_depth};
use weighbridge_sim::drive::FaultKind;
use weighbridge_sim::outcome::Run;

fn busy(run: &Run) -> Vec<f64> {
    run.endpoints
        .iter()
        .map(|endpoint| endpoint.busy.as_secs_f64())
        .collect()
}

/// Tokens that each endpoint computed.
fn tokens(run: &Run) -> Vec<f64> {
    let of =
        |endpoint: &weighbridge_sim::outcome::EndpointRun| endpoint.uncached_tokens + endpoint.output_tokens;
    run.endpoints.iter().map(|endpoint| of(endpoint) as f64).collect()
}

#[test]
fn equal_engines_are_equally_busy() {
    let workload = at(0.8, 10.0);
    for (name, policies) in by_load() {
        let run = driven(&setup(10, policies), &workload);
        let busy = busy(&run);
        let (least, most) = (least(&busy), most(&busy));
        println!("{name}: {:.3}", least / most);
        assert!(least >= 0.8 * most, "{name}: {busy:?}");
        let tokens = tokens(&run);
        assert!(
            self::least(&tokens) >= 0.65 * self::most(&tokens),
            "{name}: {tokens:?}"
        );
    }
}

/// Of what its speed would have it do; nine others are four times as quick.
#[test]
fn a_slower_engine_gets_its_share_of_work() {
    let workload = at(0.8, 9.25);
    for (name, policies) in by_load() {
        let mut setup = setup(10, policies);
        let kind = FaultKind::Slow {
            factor: 4.0,
            lasts: None,
        };
        setup.faults = vec![fault(0, "e0", kind)];
        let run = driven(&setup, &workload);
        let tokens = tokens(&run);
        let others = tokens[1..].iter().sum::<f64>() / 9.0;
        let work = 4.0 * tokens[0] / others;
        let requests = run.endpoints[0].attempts as f64 * 10.0 / run.records.len() as f64;
        println!("{name}: {work:.3} of its share of work, {requests:.3} of one of requests");
        assert!((0.5..=1.3).contains(&work), "{name}: {work}");
        assert!(requests < 0.5, "{name}: {requests}");
    }
}

/// Requests that each endpoint was sent from `from` to `to`, in seconds.
fn sent(run: &Run, from: u64, to: u64) -> Vec<f64> {
    let mut counts = vec![0.0; run.endpoints.len()];
    for record in &run.records {
        let (Some(sent), Some(endpoint)) = (record.sent, record.endpoint) else {
            continue;
        };
        if (from..to).contains(&sent.as_secs()) {
            counts[endpoint as usize] += 1.0;
        }
    }
    counts
}

#[test]
fn an_engine_whose_metrics_stand_still_gets_its_share() {
    let workload = at(0.8, 10.0);
    let queue_depth = Policies {
        queue_depth: Some(queue_depth::Config::default()),
        ..least_inflight()
    };
    for (name, policies) in by_load().into_iter().chain([("queue_depth", queue_depth)]) {
        let mut setup = setup(10, policies);
        let lasts = Duration::from_secs(60);
        setup.faults = vec![fault(20, "e3", FaultKind::StaleMetrics { lasts })];
        let run = driven(&setup, &workload);
        let counts = sent(&run, 20, 80);
        let others = (counts.iter().sum::<f64>() - counts[3]) / 9.0;
        println!("{name}: {:.3}", counts[3] / others);
        assert!((0.8..=1.2).contains(&(counts[3] / others)), "{name}: {counts:?}");
    }
}
