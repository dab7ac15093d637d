//! `--scenario`: everything that a simulation is given in one file, and what must come of it.

use super::{Args, faults, objectives};
use crate::exit::Failure;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use weighbridge_sim::report::figures::figures;
use weighbridge_sim::report::{Objectives, Policy, Report};
use weighbridge_sim::workload::spec::Spec;

/// Scenarios that can be run by name.
const SHIPPED: &[(&str, &str)] = &[("shop", include_str!("../../../../sim/scenarios/shop.yaml"))];

/// A scenario as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    name: String,
    /// What it shows; for readers of the file.
    #[serde(rename = "about")]
    _about: String,
    /// What is asked: the name of a workload, or a spec.
    workload: Asked,
    /// Pools as in a config; without them four engines in a pool `gpus`.
    #[serde(default)]
    pools: Option<Value>,
    /// `server.zone` of the config.
    #[serde(default)]
    zone: Option<String>,
    /// As `--engine`.
    #[serde(default)]
    engine: Vec<String>,
    /// As `--endpoints`.
    #[serde(default)]
    endpoints: Vec<String>,
    #[serde(default = "one")]
    replicas: std::num::NonZeroU32,
    /// As `--fault`.
    #[serde(default)]
    faults: Vec<String>,
    #[serde(default = "first_seed")]
    seed: u64,
    #[serde(default = "one")]
    seeds: std::num::NonZeroU32,
    /// As `--slo`.
    #[serde(default)]
    slo: Option<String>,
    /// What is compared; the others with the first.
    policies: Vec<Written>,
    #[serde(default)]
    expect: Vec<Expectation>,
}

/// A workload in a scenario.
#[derive(Deserialize)]
#[serde(untagged)]
enum Asked {
    Name(String),
    Spec(Box<Spec>),
}

/// One policy of a scenario.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    /// Keys of its route as in a config; `targets` are all pools unless it says otherwise.
    #[serde(default)]
    route: serde_json::Map<String, Value>,
}

/// What must come out: the mean over the seeds lies within the bounds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    policy: String,
    /// A field of `--json`.
    figure: String,
    /// Only requests of this class.
    #[serde(default)]
    class: Option<String>,
    /// The bounds are for the ratio to the same figure of this policy.
    #[serde(default)]
    over: Option<String>,
    #[serde(default)]
    at_least: Option<f64>,
    #[serde(default)]
    at_most: Option<f64>,
}

fn one() -> std::num::NonZeroU32 {
    std::num::NonZeroU32::MIN
}

fn first_seed() -> u64 {
    1
}

impl Scenario {
    /// The one in this file, or of this name.
    pub(super) fn read(given: &Path) -> Result<Self, Failure> {
        let bad = |what: String| Failure::BadInput(format!("--scenario {}: {what}", given.display()));
        let shipped = SHIPPED.iter().find(|(name, _)| given == Path::new(name));
        let text = match shipped {
            Some((_, text)) => (*text).to_owned(),
            None => super::workloads::read_small(given).map_err(|error| {
                let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
                bad(format!(
                    "{error}; those that come with the program: {}",
                    names.join(", ")
                ))
            })?,
        };
        let scenario: Self = super::workloads::from_yaml(&text).map_err(bad)?;
        scenario.check().map_err(bad)?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), String> {
        let known = |name: &String| self.policies.iter().any(|policy| policy.name == *name);
        if self.policies.is_empty() {
            return Err("policies: at least one".to_owned());
        }
        for (place, expected) in self.expect.iter().enumerate() {
            let here = format!("expect[{place}]");
            if let Some(name) = [Some(&expected.policy), expected.over.as_ref()]
                .into_iter()
                .flatten()
                .find(|name| !known(name))
            {
                return Err(format!("{here}: no policy {name:?} in this scenario"));
            }
            if expected.at_least.is_none() && expected.at_most.is_none() {
                return Err(format!("{here}: says neither at_least nor at_most"));
            }
            let all = figures(&self.objectives()?);
            if !all.iter().any(|figure| figure.key == expected.figure) {
                let keys: Vec<&str> = all.iter().map(|figure| figure.key.as_str()).collect();
                let what = &expected.figure;
                return Err(format!(
                    "{here}: no figure {what:?}; there are {}",
                    keys.join(", ")
                ));
            }
        }
        Ok(())
    }

    fn objectives(&self) -> Result<Objectives, String> {
        let slo = self.slo.as_deref().map(objectives).transpose();
        slo.map(Option::unwrap_or_default)
            .map_err(|what| format!("slo: {what}"))
    }

    /// The arguments that say the same; what is about threads and output stays as given.
    pub(super) fn arguments(&self, mut args: Args) -> Result<Args, Failure> {
        let bad = |what: String| Failure::BadInput(format!("scenario {}: {what}", self.name));
        match &self.workload {
            Asked::Name(name) => args.traffic.workload = Some(name.clone()),
            Asked::Spec(spec) => args.traffic.spec = Some(spec.clone()),
        }
        let fault =
            |text: &String| faults::parse(text).map_err(|what| bad(format!("faults: {text}: {what}")));
        args.fleet.fault = self.faults.iter().map(fault).collect::<Result<_, _>>()?;
        args.fleet.engine.clone_from(&self.engine);
        args.fleet.endpoints.clone_from(&self.endpoints);
        args.fleet.replicas = self.replicas;
        args.fleet.written = self.policies.iter().map(|policy| self.config(policy)).collect();
        args.runs.seed = self.seed;
        args.runs.seeds = args.runs.seeds.max(self.seeds);
        args.runs.slo = Some(self.objectives().map_err(bad)?).filter(|slo| !slo.0.is_empty());
        Ok(args)
    }

    /// The config of a policy, as text: JSON is YAML.
    fn config(&self, policy: &Written) -> (String, String) {
        let endpoint =
            |number| json!({"name": format!("e{number}"), "url": format!("http://e{number}.invalid:8000")});
        let usual = || {
            let endpoints: Vec<Value> = (1..=4).map(endpoint).collect();
            json!([{"name": "gpus", "kind": "vllm", "health": false, "endpoints": endpoints}])
        };
        let pools = self.pools.clone().unwrap_or_else(usual);
        let names: Vec<&Value> = pools
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|pool| pool.get("name"))
            .collect();
        let mut route = policy.route.clone();
        route.entry("name").or_insert_with(|| json!("simulated"));
        route.entry("targets").or_insert_with(|| json!(names));
        let mut config = json!({"pools": pools, "routes": [route]});
        if let Some(zone) = &self.zone {
            config["server"] = json!({"zone": zone});
        }
        (policy.name.clone(), config.to_string())
    }

    /// Whether what must come of it did.
    pub(super) fn judge(&self, report: &Report) -> Result<(), Failure> {
        let wrong: Vec<String> = self
            .expect
            .iter()
            .filter_map(|expected| expected.missed(report).err())
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Failure::Failed(format!(
            "scenario {}: {} of {} expectations do not hold\n  {}",
            self.name,
            wrong.len(),
            self.expect.len(),
            wrong.join("\n  ")
        )))
    }
}

impl Expectation {
    fn missed(&self, report: &Report) -> Result<(), String> {
        let own = self.value(report, &self.policy)?;
        let value = match &self.over {
            Some(other) => own / self.value(report, other)?,
            None => own,
        };
        let low = self.at_least.is_none_or(|bound| value >= bound);
        let high = self.at_most.is_none_or(|bound| value <= bound);
        if low && high {
            return Ok(());
        }
        let bounds: Vec<String> = [("at least", self.at_least), ("at most", self.at_most)]
            .into_iter()
            .filter_map(|(word, bound)| Some(format!("{word} {}", bound?)))
            .collect();
        Err(format!(
            "{} is {value:.4}, not {}",
            self.what(),
            bounds.join(" and ")
        ))
    }

    fn what(&self) -> String {
        let class = self
            .class
            .as_ref()
            .map_or_else(String::new, |class| format!(" of class {class}"));
        let over = self
            .over
            .as_ref()
            .map_or_else(String::new, |other| format!(" over that of {other}"));
        format!("{}{class} with {}{over}", self.figure, self.policy)
    }

    /// The mean over the seeds.
    fn value(&self, report: &Report, policy: &str) -> Result<f64, String> {
        let figure = figures(&report.about.objectives)
            .into_iter()
            .find(|figure| figure.key == self.figure);
        let runs = report.policies.iter().find(|other| other.name == policy);
        let (Some(figure), Some(Policy { runs, .. })) = (figure, runs) else {
            return Err(format!("{} was not simulated", self.what()));
        };
        if let (Some(class), Some(run)) = (&self.class, runs.first())
            && !run.by_class.iter().any(|part| part.name == *class)
        {
            let names: Vec<&str> = run.by_class.iter().map(|part| part.name.as_str()).collect();
            return Err(match names.as_slice() {
                [] => format!(
                    "{}: all requests are of one class; leave `class` out",
                    self.what()
                ),
                _ => format!("{}: no such class; there are {}", self.what(), names.join(", ")),
            });
        }
        let of = |summary: &weighbridge_sim::report::Summary| match &self.class {
            None => figure.of(summary),
            Some(class) => {
                let part = summary.by_class.iter().find(|part| part.name == *class);
                part.and_then(|part| figure.of_part(&part.served))
            }
        };
        let values: Option<Vec<f64>> = runs.iter().map(of).collect();
        match values {
            Some(values) if !values.is_empty() => Ok(values.iter().sum::<f64>() / values.len() as f64),
            _ => Err(format!("{} has no value", self.what())),
        }
    }
}
