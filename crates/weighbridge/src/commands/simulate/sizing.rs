//! The fewest engines for a load, and the highest load for given engines.

use super::RunArgs;
use super::fleets::Candidate;
use super::runs::Plan;
use crate::exit::Failure;
use weighbridge_sim::report::{Policy, Summary};
use weighbridge_sim::size::{fewest, highest};

/// Share of requests that may go without an answer in a fleet that is large enough.
const UNANSWERED_MAX: f64 = 0.01;

/// How exactly the highest rate is found.
const PRECISION: f64 = 0.02;

/// Where the search for the highest rate ends.
const FACTOR_MAX: f64 = 1024.0;

/// The runs that the report is about, and what was found on the way.
pub(super) struct Searched {
    pub(super) plan: Plan,
    /// The candidates as they ran, with as many engines as were found.
    pub(super) candidates: Vec<Candidate>,
    pub(super) policies: Vec<Policy>,
    /// One sentence per policy.
    pub(super) found: Vec<String>,
    /// Policies for which nothing was found.
    missed: Vec<String>,
}

impl Searched {
    /// A search that found nothing for some policy has failed, though the report is there.
    pub(super) fn failure(&self) -> Result<(), Failure> {
        match self.missed.is_empty() {
            true => Ok(()),
            false => Err(Failure::Failed(self.missed.join("\n"))),
        }
    }
}

/// Searches for what is asked for, then runs what was found; without a search the candidates as they are.
pub(super) fn searched(args: &RunArgs, plan: Plan) -> Result<Searched, Failure> {
    let mut candidates = plan.candidates.clone();
    let mut factors = vec![1.0; candidates.len()];
    let (mut found, mut missed) = (Vec::new(), Vec::new());
    for (place, candidate) in plan.candidates.iter().enumerate() {
        let name = &candidate.name;
        let told = if args.size {
            size(&plan, candidate, args.size_max)?.map(|engines| {
                candidates[place] = candidate.with_engines(engines as usize);
                match engines {
                    1 => format!("{name}: one engine in each pool keeps the objectives."),
                    _ => format!(
                        "{name}: {engines} engines in each pool are the fewest that keep the objectives."
                    ),
                }
            })
        } else if args.max_rate {
            rate(&plan, candidate)?.map(|factor| {
                factors[place] = factor;
                match factor >= FACTOR_MAX {
                    true => format!("{name}: the objectives are kept at {factor:.0} times the given rate too, which is where the search ends."),
                    false => format!("{name}: the objectives are kept up to {factor:.2} times the given rate (within 2 %)."),
                }
            })
        } else {
            continue;
        };
        match told {
            Some(told) => found.push(told),
            None if args.size => missed.push(format!(
                "{name}: {} engines in each pool do not keep the objectives.",
                args.size_max
            )),
            None => missed.push(format!(
                "{name}: the objectives are not kept at a thousandth of the rate either."
            )),
        }
    }
    let mut policies = plan.run(&candidates, &factors)?;
    for (place, policy) in policies.iter_mut().enumerate() {
        if args.size {
            let engines = candidates[place]
                .fleet
                .spec
                .pools
                .first()
                .map_or(0, |pool| pool.endpoints.len());
            policy.name = format!("{} ({engines} engines)", policy.name);
        } else if args.max_rate {
            policy.name = format!("{} (rate × {:.2})", policy.name, factors[place]);
        }
    }
    found.extend(missed.iter().cloned());
    Ok(Searched {
        plan,
        candidates,
        policies,
        found,
        missed,
    })
}

fn size(plan: &Plan, candidate: &Candidate, most: u32) -> Result<Option<u32>, Failure> {
    fewest(most, |engines| {
        keeps(plan, &candidate.with_engines(engines as usize), 1.0)
    })
}

fn rate(plan: &Plan, candidate: &Candidate) -> Result<Option<f64>, Failure> {
    highest(PRECISION, |factor| keeps(plan, candidate, factor))
}

/// Whether every seed keeps every objective, and hardly anything goes without an answer.
fn keeps(plan: &Plan, candidate: &Candidate, factor: f64) -> Result<bool, Failure> {
    let policies = plan.run(std::slice::from_ref(candidate), &[factor])?;
    let good = |run: &Summary| {
        let served = &run.served;
        let unanswered = (served.requests - served.answered) as f64;
        unanswered <= UNANSWERED_MAX * served.requests as f64
            && run.objectives.iter().all(|checked| checked.met)
    };
    Ok(policies.iter().flat_map(|policy| &policy.runs).all(good))
}
