//! Everything that the documents say of rules, from runs to text.

mod chart;
mod most;
pub mod page;
mod presets;
mod slices;
mod stands_for;
mod tables;
mod told;

pub use presets::{Beside, beside};

use crate::capacity::{self, Capacity};
use crate::contest::{Contest, Scope, contest};
use crate::gates::{self, Gate};
use crate::sensitivity::{Sensitivity, sensitivity};
use crate::sweep::{self, Sweep, sweep};
use crate::trial::TrialError;
use crate::workloads::{self, Case};
use serde::{Deserialize, Serialize};
use weighbridge_core::presets::Preset;

/// What all runs amount to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Whether everything was run, so that it may stand in the documents.
    pub whole: bool,
    /// Each case with all rules.
    pub contests: Vec<Contest>,
    /// The work that nobody waits for, with all rules.
    pub closed_loop: Option<Contest>,
    /// How much `auto` bears.
    pub capacities: Vec<Capacity>,
    /// Times against load.
    pub sweeps: Vec<Sweep>,
    /// Presets with other settings.
    pub sensitivities: Vec<Sensitivity>,
    /// What `auto` and the other presets must reach.
    pub gates: Vec<Gate>,
}

/// Which parts are run besides the contests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// How much `auto` bears: two of the gates.
    pub capacity: bool,
    /// Times against load: the plots.
    pub sweep: bool,
    /// Presets with other settings.
    pub sensitivity: bool,
}

impl Parts {
    /// All.
    pub const ALL: Self = Self {
        capacity: true,
        sweep: true,
        sensitivity: true,
    };
}

impl Evidence {
    /// Runs what the scope says; `progress` is told what is done next.
    ///
    /// # Errors
    /// The data is not there, or a bug of the lab or the simulator.
    pub fn gather(scope: &Scope, parts: Parts, progress: &dyn Fn(&str)) -> Result<Self, TrialError> {
        let mut evidence = Self {
            whole: scope.is_whole() && parts == Parts::ALL,
            ..Self::default()
        };
        let count = scope.cases.len();
        for (place, case) in scope.cases.iter().enumerate() {
            progress(&format!("case {} of {count}: {}", place + 1, case.name));
            evidence.contests.push(contest(scope, case)?);
        }
        if parts.capacity {
            for case in named(scope, &capacity::CASES) {
                progress(&format!("what is borne: {}", case.name));
                evidence.capacities.push(capacity::capacity(scope, case)?);
            }
        }
        if parts.sweep {
            for case in named(scope, &sweep::CASES) {
                let found = evidence.contests.iter().find(|contest| contest.case == case.name);
                let Some(contest) = found else { continue };
                progress(&format!("times against load: {}", case.name));
                let done = sweep(scope, case, contest)?;
                evidence.sweeps.push(done);
            }
        }
        if parts.sensitivity {
            let case = workloads::closed_loop();
            progress(&format!("work that nobody waits for: {}", case.name));
            evidence.closed_loop = Some(contest(scope, &case)?);
            for preset in Preset::ALL {
                progress(&format!("other settings: {}", preset.as_str()));
                let cases = presets::cases(scope, preset);
                evidence.sensitivities.push(sensitivity(scope, preset, &cases)?);
            }
        }
        evidence.judge();
        Ok(evidence)
    }

    /// Says of each gate whether it is met.
    pub fn judge(&mut self) {
        self.gates = gates::gates(&self.contests, &self.capacities);
        // An eighth of a case is too little to tell presets apart by a twentieth; the tests have a coarser form for that.
        if self.whole {
            self.gates.extend(presets::gate(self));
        }
    }

    /// The section of `docs/policies.md`.
    #[must_use]
    pub fn section(&self) -> String {
        tables::section(self)
    }

    /// What presets stand for, for `docs/choosing.md`.
    #[must_use]
    pub fn presets() -> String {
        stands_for::table()
    }

    /// The tables of the cases and the gates alone, for a terminal.
    #[must_use]
    pub fn summary(&self) -> String {
        tables::summary(self)
    }

    /// Names of files and what is in them, for `docs/plots`.
    #[must_use]
    pub fn plots(&self) -> Vec<(String, String)> {
        self.sweeps
            .iter()
            .map(|sweep| (chart::file(&sweep.case), chart::draw(sweep)))
            .collect()
    }
}

/// Those of the cases that have one of these names, in the order of the names.
fn named<'a>(scope: &'a Scope, names: &[&str]) -> Vec<&'a Case> {
    let found = |name: &&str| scope.cases.iter().find(|case| case.name == *name);
    names.iter().filter_map(found).collect()
}
