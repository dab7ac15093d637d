//! What was simulated, for the report.

use super::Args;
use super::fleets::Candidate;
use super::sizing::Searched;
use crate::commands::count;
use crate::exit::Failure;
use std::time::Duration;
use weighbridge_config::show_duration;
use weighbridge_sim::report::{About, Engine, Report};
use weighbridge_sim::workload::Workload;

/// Beside a result on a trace that knows prompts by their length alone.
const NO_PROMPTS: &str = "This trace has the lengths of prompts and not what they say, so here no prompt begins like another: what \
                          `auto` and other policies gain by finding prompts in caches is not in this result.";

/// The report of the runs.
pub(super) fn report(args: &Args, searched: &Searched) -> Result<Report, Failure> {
    let plan = &searched.plan;
    let workload = plan.traffic.workload(plan.seeds[0])?;
    let mut about = About::of(&workload, &plan.objectives);
    about.version = env!("CARGO_PKG_VERSION").to_owned();
    about.seeds.clone_from(&plan.seeds);
    about.found.clone_from(&searched.found);
    about.notes.extend(plan.traffic.notes.iter().cloned());
    if plan.traffic.is_fixed() && plan.seeds.len() > 1 {
        about.notes.push(
            "All seeds have the same requests, those of the trace; only what the scheduler draws differs."
                .to_owned(),
        );
    }
    if workload.block_tokens == 0 && plan.traffic.is_fixed() {
        about.caveats.push(NO_PROMPTS.to_owned());
    }
    let sessions = workload.requests.iter().any(|request| request.session.is_some());
    let by_session = |candidate: &Candidate| {
        let mut routes = candidate.fleet.spec.routes.iter();
        routes.any(|route| route.policies.session_affinity.is_some())
    };
    if !sessions && searched.candidates.iter().any(by_session) {
        let told = "No request of this workload belongs to a session, so session_affinity has nothing to go by; --workload chat has sessions.";
        about.notes.push(told.to_owned());
    }
    about.parameter("requests", requests(&workload));
    changes(args, &mut about);
    for candidate in &searched.candidates {
        about.parameter(&format!("policy {}", candidate.name), candidate.what.clone());
    }
    for fault in &plan.faults {
        about.parameter("fault", fault.text.clone());
    }
    if plan.replicas > 1 {
        about.parameter("replicas of the gateway", plan.replicas.to_string());
    }
    engines(searched, &mut about);
    Ok(Report {
        about,
        policies: searched.policies.clone(),
    })
}

fn requests(workload: &Workload) -> String {
    let requests = &workload.requests;
    let number = requests.len().max(1) as f64;
    let mean = |of: fn(&weighbridge_sim::workload::Request) -> u32| {
        requests.iter().map(|request| f64::from(of(request))).sum::<f64>() / number
    };
    let last = requests
        .iter()
        .filter(|request| request.after.is_none())
        .map(|request| request.at)
        .max();
    let span = Duration::from_secs(last.unwrap_or_default().as_secs_f64().round() as u64);
    format!(
        "{} over {} (first seed), {:.0} prompt and {:.0} output tokens on average",
        count(requests.len() as u64, "request"),
        show_duration(span),
        mean(|request| request.prompt_tokens),
        mean(|request| request.output_tokens)
    )
}

fn changes(args: &Args, about: &mut About) {
    let traffic = &args.traffic;
    if traffic.speedup != 1.0 {
        about.parameter("speed-up", format!("× {}", traffic.speedup));
    }
    for (name, time) in [("from", traffic.from), ("to", traffic.to)] {
        if let Some(time) = time {
            about.parameter(name, show_duration(time));
        }
    }
    if let Some(first) = traffic.first {
        about.parameter("first", count(first.get() as u64, "request"));
    }
    if traffic.jitter {
        about.parameter("jitter", "requests of one time are spread until the next");
    }
}

/// The engines of all policies, each kind of pool once.
fn engines(searched: &Searched, about: &mut About) {
    for candidate in &searched.candidates {
        let pools = candidate
            .fleet
            .spec
            .pools
            .iter()
            .zip(&candidate.fleet.engines)
            .zip(&candidate.basis);
        for ((pool, engine), basis) in pools {
            let shown = Engine {
                pool: pool.name.to_string(),
                engines: pool.endpoints.len(),
                label: engine.label.to_string(),
                basis: match engine.kv_events {
                    true => format!("{basis}; KV events"),
                    false => basis.clone(),
                },
            };
            if !about.engines.contains(&shown) {
                about.engines.push(shown);
            }
        }
    }
}
