//! Who gets how much.

use crate::fleet::*;
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

fn p(run: &Run, part: f64) -> f64 {
    let mut waits: Vec<f64> = run
        .records
        .iter()
        .map(|record| (record.first.unwrap() - record.arrived).as_secs_f64())
        .collect();
    waits.sort_by(f64::total_cmp);
    waits[(waits.len() as f64 * part) as usize]
}

fn e2e(run: &Run) -> f64 {
    run.records
        .iter()
        .map(|record| (record.ended - record.arrived).as_secs_f64())
        .sum::<f64>()
        / run.records.len() as f64
}

#[test]
fn equal_engines_are_equally_busy() {
    let workload = at(0.8, 10.0);
    for (name, policies) in by_load()
        .into_iter()
        .chain([("least_inflight", least_inflight())])
    {
        let run = driven(&setup(10, policies), &workload);
        let busy = busy(&run);
        let (least, most) = spread(&busy);
        println!(
            "{name}: busy {:.3} tokens {:?} p50 {:.3} p99 {:.3} e2e {:.2}",
            least / most,
            spread(&tokens(&run)),
            p(&run, 0.5),
            p(&run, 0.99),
            e2e(&run)
        );
    }
}

#[test]
fn a_slower_engine_gets_its_share_of_work() {
    for load in [0.5, 0.8] {
        let workload = at(load, 9.25);
        for (name, policies) in by_load()
            .into_iter()
            .chain([("least_inflight", least_inflight())])
        {
            let mut setup = setup(10, policies);
            let kind = FaultKind::Slow {
                factor: 4.0,
                lasts: None,
            };
            setup.faults = vec![fault(0, "e0", kind)];
            let run = driven(&setup, &workload);
            let tokens = tokens(&run);
            let others = tokens[1..].iter().sum::<f64>() / 9.0;
            println!(
                "{load} {name}: work of the slow {:.3} requests {} p50 {:.3} p99 {:.3} e2e {:.2}",
                4.0 * tokens[0] / others,
                run.endpoints[0].attempts,
                p(&run, 0.5),
                p(&run, 0.99),
                e2e(&run)
            );
        }
    }
}
