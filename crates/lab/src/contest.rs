//! All rules on the cases: yardsticks are tuned on one slice, and the tuned ones tried on the other beside the product's rules.

use crate::floor::{Floor, Floors};
use crate::rules;
use crate::trial::{Outcome, Rule, Stage, TrialError};
use crate::tuning::{self, Picked};
use crate::workloads::{Bench, Case, Slice};
use crate::yardsticks::{self, Yardstick, clairvoyant};
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use weighbridge_sim::parallel;

/// Each figure is the mean over these.
pub const SEEDS: [u64; 3] = [1, 2, 3];

/// What is run, and on how many threads.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Where the data is, and by how much cases are cut.
    pub bench: Bench,
    /// The cases.
    pub cases: Vec<Case>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Yardsticks with the settings that their projects ship, nothing else.
    pub shipped: bool,
    /// Rules whose name holds this, and `auto`.
    pub only: Option<String>,
    /// Threads.
    pub threads: NonZeroUsize,
}

impl Scope {
    /// All cases, all rules, all seeds.
    #[must_use]
    pub fn whole(bench: Bench, threads: NonZeroUsize) -> Self {
        Self {
            bench,
            cases: crate::workloads::cases(),
            seeds: SEEDS.to_vec(),
            shipped: false,
            only: None,
            threads,
        }
    }

    /// Whether everything is run, so that what comes out may stand in the documents.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.bench.cut == 1
            && self.seeds == SEEDS
            && !self.shipped
            && self.only.is_none()
            && self.cases.len() == crate::workloads::cases().len()
    }

    /// Whether this rule is to be run.
    pub(crate) fn wants(&self, rule: &Rule) -> bool {
        let name = rule.name();
        let shipped = match rule {
            Rule::Yardstick(yardstick) => yardstick.shipped,
            Rule::Policies { .. } => true,
        };
        let named = self.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
        (shipped || !self.shipped) && (named || name == rules::AUTO)
    }
}

/// A rule in a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its name with its settings.
    pub rule: String,
    /// Of a yardstick the algorithm.
    pub family: Option<String>,
    /// Of a yardstick its settings.
    pub settings: String,
    /// Whether these are the settings that its project ships; the product's rules are.
    pub shipped: bool,
    /// Whether engines must tell it what their caches hold.
    #[serde(default)]
    pub told: bool,
    /// What it is the best of its family at, on the slice that was tuned on.
    pub picked: Picked,
    /// On the slice that was tuned on.
    pub tuned: Outcome,
    /// On the other; none: it is neither shipped nor tuned, so it was not tried there.
    pub held: Option<Outcome>,
}

impl Entry {
    /// What came of it on a slice.
    #[must_use]
    pub fn on(&self, slice: Slice) -> Option<&Outcome> {
        match slice {
            Slice::Tuned => Some(&self.tuned),
            Slice::Held => self.held.as_ref(),
        }
    }
}

/// A case and what came of all rules.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contest {
    /// The case.
    pub case: String,
    /// Whether prompts share beginnings.
    pub shared: bool,
    /// Gateways.
    pub replicas: u32,
    /// The least that any rule can reach; none: outcomes of a lab that did not know it.
    #[serde(default)]
    pub floors: Option<Floors>,
    /// What a rule reaches that knows all of the present; none: it was not run.
    #[serde(default)]
    pub clairvoyant: Option<Entry>,
    /// The rules: the product's, then the yardsticks by family.
    pub entries: Vec<Entry>,
}

impl Contest {
    /// The entry of a rule of the product.
    #[must_use]
    pub fn product(&self, name: &str) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.family.is_none() && entry.rule == name)
    }

    /// The yardsticks.
    pub fn yardsticks(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.family.is_some())
    }

    /// Names of the families, in their order.
    #[must_use]
    pub fn families(&self) -> Vec<&str> {
        let mut families: Vec<&str> = Vec::new();
        for family in self.yardsticks().filter_map(|entry| entry.family.as_deref()) {
            if !families.contains(&family) {
                families.push(family);
            }
        }
        families
    }
}

/// Runs a case.
///
/// # Errors
/// The data is not there, or a bug of the lab or the simulator.
pub fn contest(scope: &Scope, case: &Case) -> Result<Contest, TrialError> {
    let product = rules::product();
    let rivals = yardsticks::all().into_iter().map(Rule::Yardstick);
    let wanted = product.into_iter().chain(rivals).filter(|rule| scope.wants(rule));
    let rules: Vec<Rule> = wanted.collect();
    let tuned = outcomes(scope, (case, Slice::Tuned), &rules)?;
    let mut entries: Vec<Entry> = rules
        .iter()
        .zip(tuned)
        .map(|(rule, tuned)| entry(rule, tuned))
        .collect();
    tuning::pick(&mut entries);
    let both = |entry: &Entry| entry.family.is_none() || entry.shipped || entry.picked.any();
    let again: Vec<usize> = (0..entries.len())
        .filter(|&place| both(&entries[place]))
        .collect();
    let tried: Vec<Rule> = again.iter().map(|&place| rules[place].clone()).collect();
    let held = outcomes(scope, (case, Slice::Held), &tried)?;
    for (place, outcome) in again.into_iter().zip(held) {
        entries[place].held = Some(outcome);
    }
    Ok(Contest {
        clairvoyant: clairvoyant(scope, case)?,
        case: case.name.to_owned(),
        shared: case.shared,
        replicas: case.replicas,
        floors: Some(Floors {
            tuned: floor(scope, (case, Slice::Tuned))?,
            held: floor(scope, (case, Slice::Held))?,
        }),
        entries,
    })
}

/// The rule that knows all of the present, on both slices.
fn clairvoyant(scope: &Scope, case: &Case) -> Result<Option<Entry>, TrialError> {
    let rule = Rule::Yardstick(clairvoyant::yardstick());
    if !scope.wants(&rule) {
        return Ok(None);
    }
    let rules = std::slice::from_ref(&rule);
    let one = |slice| -> Result<Outcome, TrialError> {
        let outcomes = outcomes(scope, (case, slice), rules)?;
        Ok(Outcome::mean(&outcomes))
    };
    Ok(Some(Entry {
        held: Some(one(Slice::Held)?),
        ..entry(&rule, one(Slice::Tuned)?)
    }))
}

/// The least that any rule can reach on a slice, the mean over the seeds.
fn floor(scope: &Scope, (case, slice): (&Case, Slice)) -> Result<Floor, TrialError> {
    let mut all = Vec::with_capacity(scope.seeds.len());
    for &seed in &scope.seeds {
        all.push(Stage::new(case, &scope.bench, (slice, seed))?.floor());
    }
    Ok(Floor::mean(&all))
}

fn entry(rule: &Rule, tuned: Outcome) -> Entry {
    let (family, settings, (shipped, told)) = match rule {
        Rule::Yardstick(Yardstick {
            family,
            settings,
            shipped,
            told,
            ..
        }) => (Some((*family).to_owned()), settings.clone(), (*shipped, *told)),
        Rule::Policies { kv_events, .. } => (None, String::new(), (true, *kv_events)),
    };
    Entry {
        rule: rule.name(),
        family,
        settings,
        shipped,
        told,
        picked: Picked::default(),
        tuned,
        held: None,
    }
}

/// What comes of each rule on a slice, the mean over the seeds.
///
/// # Errors
/// As of [`contest`].
pub fn outcomes(
    scope: &Scope,
    (case, slice): (&Case, Slice),
    rules: &[Rule],
) -> Result<Vec<Outcome>, TrialError> {
    let mut all = vec![Vec::with_capacity(scope.seeds.len()); rules.len()];
    // Seed by seed, since the requests of one take up to some hundred megabytes.
    for &seed in &scope.seeds {
        let stage = Stage::new(case, &scope.bench, (slice, seed))?;
        let done = parallel::in_order(scope.threads, rules, |rule| stage.run(rule));
        for (outcomes, outcome) in all.iter_mut().zip(done) {
            outcomes.push(outcome?);
        }
    }
    Ok(all.iter().map(|outcomes| Outcome::mean(outcomes)).collect())
}
