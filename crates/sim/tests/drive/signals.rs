//! What engines tell, and stop telling: an engine that cannot be read is treated like its peers.

use crate::fleet::*;
use std::sync::Arc;
use weighbridge_core::policies::{Policies, least_inflight, queue_depth};
use weighbridge_sim::drive::{FaultKind, Setup};
use weighbridge_sim::engine::Settings;
use weighbridge_sim::outcome::Fate;

const FROZEN: (f64, f64) = (20.0, 80.0);

fn queue_depth() -> Policies {
    Policies {
        queue_depth: Some(queue_depth::Config::default()),
        ..Policies::default()
    }
}

fn both() -> Policies {
    Policies {
        least_inflight: Some(least_inflight::Config::default()),
        ..queue_depth()
    }
}

/// Four engines of eight sequences, of which nobody can read the metrics of the first for a minute.
fn frozen(policies: Policies) -> Setup {
    let mut setup = setup(pool("p", 4), route(policies));
    let settings = Settings {
        max_num_seqs: 8,
        ..Settings::default()
    };
    setup.fleet.engines[0].settings = settings;
    let lasts = seconds(FROZEN.1 - FROZEN.0);
    setup.faults = vec![fault(FROZEN.0, "e1", FaultKind::StaleMetrics { lasts })];
    let mut spec = (*setup.fleet.spec).clone();
    spec.seed = 3;
    setup.fleet.spec = Arc::new(spec);
    setup
}

/// Requests that arrived meanwhile at the frozen engine, over the mean of its peers.
fn share((policies, replicas): (Policies, u32), gap: f64) -> f64 {
    let mut setup = frozen(policies);
    setup.replicas = replicas;
    let run = driven(&setup, &steady((100.0 / gap) as u32, gap)).unwrap();
    assert_eq!(with(&run, Fate::Answered), run.records.len());
    let mut counts = [0_u32; 4];
    let meanwhile = |at: std::time::Duration| (seconds(FROZEN.0)..seconds(FROZEN.1)).contains(&at);
    for record in run.records.iter().filter(|record| meanwhile(record.arrived)) {
        counts[record.endpoint.unwrap() as usize] += 1;
    }
    let peers = f64::from(counts[1..].iter().sum::<u32>()) / 3.0;
    f64::from(counts[0]) / peers
}

/// Far below saturation, near it, and beyond, where queues grow.
#[test]
fn a_frozen_engine_keeps_its_share() {
    for gap in [0.1, 0.03, 0.024, 0.02] {
        for policies in [queue_depth(), both()] {
            let share = share((policies, 1), gap);
            assert!((0.8..=1.2).contains(&share), "{share} at a request every {gap} s");
        }
    }
}

/// Beyond saturation two gateways see half of its queue each, and all of the others'.
#[test]
fn below_saturation_it_does_so_too_where_two_gateways_know_half_of_its_requests_each() {
    for gap in [0.1, 0.03] {
        for policies in [queue_depth(), both()] {
            let share = share((policies, 2), gap);
            assert!((0.8..=1.2).contains(&share), "{share} at a request every {gap} s");
        }
    }
}
