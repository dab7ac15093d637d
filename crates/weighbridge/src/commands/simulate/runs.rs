//! Runs of all policies and seeds.

use super::faults::{self, Planned};
use super::fleets::Candidate;
use super::progress::Progress;
use super::workloads::Source;
use crate::exit::Failure;
use std::num::NonZeroUsize;
use std::time::Duration;
use weighbridge_sim::drive::{self, Chooser, Setup};
use weighbridge_sim::parallel::in_order;
use weighbridge_sim::report::{Curves, Objectives, Policy, Summary};
use weighbridge_sim::workload::{Workload, transform};

/// How often engines are asked for their metrics.
const SCRAPE: Duration = Duration::from_secs(1);

/// Everything that the runs need.
pub(super) struct Plan {
    pub(super) traffic: Source,
    pub(super) candidates: Vec<Candidate>,
    pub(super) faults: Vec<Planned>,
    pub(super) replicas: u32,
    pub(super) objectives: Objectives,
    pub(super) seeds: Vec<u64>,
    pub(super) threads: NonZeroUsize,
    pub(super) quiet: bool,
}

impl Plan {
    /// Runs every candidate with every seed, at `factors` times the rate each; the results are in the order of the candidates.
    pub(super) fn run(&self, candidates: &[Candidate], factors: &[f64]) -> Result<Vec<Policy>, Failure> {
        let mut policies: Vec<Policy> = candidates
            .iter()
            .map(|candidate| Policy {
                name: candidate.name.clone(),
                ..Policy::default()
            })
            .collect();
        let first = self.traffic.workload(self.seeds[0])?;
        let total = (first.requests.len() * self.seeds.len() * candidates.len()) as u64;
        drop(first);
        let progress = Progress::new("simulating", total, self.quiet);
        // By seed, so that the workloads of few seeds are in memory at once.
        let jobs: Vec<(usize, u64)> = self
            .seeds
            .iter()
            .flat_map(|seed| (0..candidates.len()).map(move |place| (place, *seed)))
            .collect();
        let done = in_order(self.threads, &jobs, |&(place, seed)| {
            let factor = factors.get(place).copied().unwrap_or(1.0);
            self.one(&candidates[place], (seed, factor), &progress)
        });
        for (&(place, seed), result) in jobs.iter().zip(done) {
            let (summary, curves) = result?;
            if seed == self.seeds[0] {
                policies[place].curves = curves;
            }
            policies[place].runs.push(summary);
        }
        Ok(policies)
    }

    fn one(
        &self,
        candidate: &Candidate,
        (seed, factor): (u64, f64),
        progress: &Progress,
    ) -> Result<(Summary, Curves), Failure> {
        let workload = self.traffic.workload(seed)?;
        let faster;
        let workload: &Workload = if factor == 1.0 {
            &workload
        } else {
            let mut changed = Workload::clone(&workload);
            transform::speed_up(&mut changed, factor);
            faster = changed;
            &faster
        };
        let setup = Setup {
            fleet: candidate.fleet.clone(),
            route: candidate.route.clone(),
            faults: faults::of_fleet(&self.faults, &candidate.pools()).map_err(Failure::BadInput)?,
            replicas: self.replicas,
            scrape: SCRAPE,
            seed,
        };
        let mut told = 0;
        let mut tell = |ended: usize| {
            progress.add(ended.saturating_sub(told) as u64);
            told = told.max(ended);
        };
        let run = drive::run(&setup, workload, Chooser::Scheduler, &mut tell)
            .map_err(|error| failure(candidate, error))?;
        progress.add(workload.requests.len().saturating_sub(told) as u64);
        let summary = Summary {
            seed,
            ..Summary::of(&run, workload, &self.objectives)
        };
        Ok((summary, Curves::of(&run)))
    }
}

fn failure(candidate: &Candidate, error: drive::DriveError) -> Failure {
    let told = format!("{}: {error}", candidate.name);
    match error {
        drive::DriveError::Invariant { .. } => Failure::Failed(told),
        _ => Failure::BadInput(told),
    }
}
