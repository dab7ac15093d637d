//! The policies that are compared, each with its fleet.

use super::engines::{self, Chosen};
use super::{FleetArgs, engines::Assigned};
use crate::exit::Failure;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_config::Config;
use weighbridge_core::spec::{EndpointSpec, FleetSpec, PoolSpec, Weight};
use weighbridge_sim::drive::Fleet;

/// Engines of the built-in comparison.
const USUAL_ENGINES: usize = 4;

/// Most engines of one pool.
const ENDPOINTS_MAX: usize = 10_000;

/// One policy.
#[derive(Clone)]
pub(super) struct Candidate {
    /// Its name in the report.
    pub(super) name: String,
    /// What it is, for the report's parameters.
    pub(super) what: String,
    /// The pools that its route can reach, and that route with its fallbacks.
    pub(super) fleet: Fleet,
    /// The route.
    pub(super) route: Arc<str>,
    /// Where the speed of each pool's engines is known from.
    pub(super) basis: Vec<String>,
}

impl Candidate {
    /// The same with `engines` in each pool.
    pub(super) fn with_engines(&self, engines: usize) -> Self {
        let mut spec = FleetSpec::clone(&self.fleet.spec);
        spec.pools.iter_mut().for_each(|pool| resize(pool, engines));
        Self {
            fleet: Fleet {
                spec: Arc::new(spec),
                ..self.fleet.clone()
            },
            ..self.clone()
        }
    }

    /// Names of its pools.
    pub(super) fn pools(&self) -> Vec<Arc<str>> {
        self.fleet
            .spec
            .pools
            .iter()
            .map(|pool| pool.name.clone())
            .collect()
    }
}

/// The configs given, or the built-in comparison.
pub(super) fn candidates(args: &FleetArgs) -> Result<Vec<Candidate>, Failure> {
    let chosen = engines::chosen(&args.engine)?;
    let sizes = sizes(&args.endpoints)?;
    let asked = Asked {
        route: args.route.as_deref(),
        sizes: &sizes,
        engines: &chosen,
    };
    let mut candidates = Vec::new();
    for (name, text) in &args.written {
        let loaded = weighbridge_config::load_str(name, text, &|_| None).map_err(|problems| {
            Failure::BadInput(format!("policy {name}: its config is refused\n{problems}"))
        })?;
        let what = described(text);
        candidates.push(asked.candidate((name, &what), &loaded.config)?);
    }
    if args.config.is_empty() && args.written.is_empty() {
        for (name, what, policies) in BUILT_IN {
            let config = built_in(name, policies)?;
            candidates.push(asked.candidate((name, what), &config)?);
        }
    }
    for path in &args.config {
        let config = load(path)?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        candidates.push(asked.candidate((&name, &path.display().to_string()), &config)?);
    }
    unique_names(&mut candidates);
    asked.check_used(&candidates)?;
    Ok(candidates)
}

/// Name, meaning and way to choose of the built-in comparison.
const BUILT_IN: [(&str, &str, &str); 4] = [
    ("round robin", "route_by: round_robin", "route_by: round_robin"),
    (
        "least in flight",
        "policies: {least_inflight: {}}",
        "policies: {least_inflight: {}}",
    ),
    (
        "session affinity",
        "policies: {session_affinity: {weight: 1}, least_inflight: {weight: 2}}",
        "policies: {session_affinity: {weight: 1}, least_inflight: {weight: 2}}",
    ),
    ("auto", "preset: auto, as where nothing is said", ""),
];

fn built_in(name: &str, chooses: &str) -> Result<Config, Failure> {
    let mut text =
        String::from("pools:\n  - name: gpus\n    kind: vllm\n    health: false\n    endpoints:\n");
    for number in 1..=USUAL_ENGINES {
        let _ = writeln!(
            text,
            "      - {{name: e{number}, url: \"http://e{number}.invalid:8000\"}}"
        );
    }
    let _ = write!(
        text,
        "routes:\n  - name: simulated\n    targets: [gpus]\n    {chooses}\n"
    );
    let loaded = weighbridge_config::load_str(name, &text, &|_| None);
    loaded
        .map(|loaded| loaded.config)
        .map_err(|problems| Failure::Failed(format!("built-in policy {name}: {problems}")))
}

/// What a policy of a scenario says of its route.
fn described(text: &str) -> String {
    let config: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let Some(route) = config["routes"][0].as_object() else {
        return String::new();
    };
    let said = route.iter().filter(|(key, _)| *key != "name");
    said.map(|(key, value)| format!("{key}: {value}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn load(path: &Path) -> Result<Config, Failure> {
    // Keys of engines and clients decide nothing here, so variables that are not set need not be.
    let env = |name: &str| Some(std::env::var(name).unwrap_or_else(|_| "simulated".to_owned()));
    let loaded = weighbridge_config::load(path, &env);
    loaded.map(|loaded| loaded.config).map_err(|problems| {
        Failure::BadInput(format!(
            "--config {}: the config is refused\n{problems}",
            path.display()
        ))
    })
}

/// What the command line asks of every fleet.
struct Asked<'a> {
    route: Option<&'a str>,
    sizes: &'a [(Option<String>, usize)],
    engines: &'a [Assigned],
}

impl Asked<'_> {
    fn candidate(&self, (name, what): (&str, &str), config: &Config) -> Result<Candidate, Failure> {
        let bad = |why: String| Failure::BadInput(format!("{what}: {why}"));
        let route = self.route_of(config).map_err(bad)?;
        let (mut spec, pools) = reached(&config.fleet, &route);
        let mut engines = Vec::new();
        let mut basis = Vec::new();
        for (pool, place) in spec.pools.iter_mut().zip(pools) {
            let size = self
                .sizes
                .iter()
                .rev()
                .find(|(of, _)| of.as_deref().is_none_or(|of| of == &*pool.name));
            if let Some((_, size)) = size {
                resize(pool, *size);
            }
            if pool.endpoints.is_empty() {
                return Err(bad(format!(
                    "pool {} has no endpoints of its own; say how many with --endpoints {}=N",
                    pool.name, pool.name
                )));
            }
            let Chosen {
                mut spec,
                basis: known,
            } = engines::for_pool(self.engines, &pool.name)?;
            spec.first_byte = config
                .pools
                .get(place)
                .map(|pool| pool.timeouts.first_byte)
                .filter(|wait| *wait < Duration::MAX);
            // One engine model stands for a pool: where some of it tell, all do.
            let endpoints = config.pools.get(place).map(|pool| &pool.endpoints);
            spec.kv_events = endpoints
                .is_some_and(|endpoints| endpoints.iter().any(|endpoint| endpoint.kv_events.is_some()));
            engines.push(spec);
            basis.push(known);
        }
        Ok(Candidate {
            name: name.to_owned(),
            what: what.to_owned(),
            fleet: Fleet {
                spec: Arc::new(spec),
                engines,
            },
            route,
            basis,
        })
    }

    fn route_of(&self, config: &Config) -> Result<Arc<str>, String> {
        let routes = &config.fleet.routes;
        let names = || {
            routes
                .iter()
                .map(|route| &*route.name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        match (self.route, routes.as_slice()) {
            (Some(wanted), _) => (routes.iter().find(|route| &*route.name == wanted))
                .map(|route| route.name.clone())
                .ok_or_else(|| format!("no route {wanted}; its routes are {}", names())),
            (None, [only]) => Ok(only.name.clone()),
            (None, []) => Err("the config has no route".to_owned()),
            (None, _) => Err(format!(
                "it has several routes; choose one with --route: {}",
                names()
            )),
        }
    }

    /// Refuses a pool's name that no config has: a slip of the pen would go unnoticed.
    fn check_used(&self, candidates: &[Candidate]) -> Result<(), Failure> {
        let pools: BTreeSet<Arc<str>> = candidates.iter().flat_map(Candidate::pools).collect();
        let sizes = self.sizes.iter().map(|(pool, _)| ("--endpoints", pool));
        let engines = self.engines.iter().map(|engine| ("--engine", &engine.pool));
        for (option, pool) in sizes.chain(engines) {
            if let Some(pool) = pool.as_deref().filter(|pool| !pools.contains(*pool)) {
                let names: Vec<&str> = pools.iter().map(AsRef::as_ref).collect();
                return Err(Failure::BadInput(format!(
                    "{option} {pool}=…: no such pool; there are {}",
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }
}

/// The route with its fallbacks and the pools that they reach, with each pool's place in the config.
fn reached(fleet: &FleetSpec, route: &Arc<str>) -> (FleetSpec, Vec<usize>) {
    let mut names = vec![route.clone()];
    let mut at = 0;
    while let Some(name) = names.get(at).cloned() {
        let steps = fleet
            .routes
            .iter()
            .filter(|route| route.name == name)
            .flat_map(|route| &route.fallback);
        let new: Vec<Arc<str>> = steps
            .map(|step| step.route.clone())
            .filter(|route| !names.contains(route))
            .collect();
        names.extend(new);
        at += 1;
    }
    let mut routes: Vec<_> = fleet
        .routes
        .iter()
        .filter(|route| names.contains(&route.name))
        .cloned()
        .collect();
    let used: BTreeSet<usize> = routes
        .iter()
        .flat_map(|route| route.targets.iter().map(|target| target.pool))
        .collect();
    let places: Vec<usize> = used.into_iter().collect();
    for target in routes.iter_mut().flat_map(|route| &mut route.targets) {
        target.pool = places
            .iter()
            .position(|place| *place == target.pool)
            .unwrap_or_default();
    }
    let pools = places
        .iter()
        .filter_map(|place| fleet.pools.get(*place))
        .cloned()
        .collect();
    (
        FleetSpec {
            pools,
            routes,
            seed: fleet.seed,
            zone: fleet.zone.clone(),
        },
        places,
    )
}

/// As many endpoints: the first of those there are, then new ones.
fn resize(pool: &mut PoolSpec, size: usize) {
    pool.endpoints.truncate(size);
    let mut number = pool.endpoints.len();
    while pool.endpoints.len() < size {
        number += 1;
        let name = format!("e{number}");
        if pool.endpoints.iter().any(|endpoint| *endpoint.name == name) {
            continue;
        }
        pool.endpoints.push(EndpointSpec {
            address: format!("http://{name}.invalid").into(),
            name: name.into(),
            weight: Weight::ONE,
            ..EndpointSpec::new("", "")
        });
    }
}

/// `--endpoints`: `N` or `POOL=N`.
fn sizes(given: &[String]) -> Result<Vec<(Option<String>, usize)>, Failure> {
    let one = |text: &String| {
        let (pool, number) = match text.rsplit_once('=') {
            Some((pool, number)) => (Some(pool.to_owned()), number),
            None => (None, text.as_str()),
        };
        let size = number
            .parse()
            .ok()
            .filter(|size| (1..=ENDPOINTS_MAX).contains(size));
        let wrong = || {
            Failure::BadInput(format!(
                "--endpoints {text}: write a number from 1 to {ENDPOINTS_MAX}, or POOL=NUMBER"
            ))
        };
        Ok((pool, size.ok_or_else(wrong)?))
    };
    given.iter().map(one).collect()
}

/// Tells configs of one file name apart.
fn unique_names(candidates: &mut [Candidate]) {
    for at in 1..candidates.len() {
        let (before, rest) = candidates.split_at_mut(at);
        let name = rest[0].name.clone();
        let mut number = 1;
        while before.iter().any(|other| other.name == rest[0].name) {
            number += 1;
            rest[0].name = format!("{name} ({number})");
        }
    }
}
