//! `weighbridge check`: says everything that is wrong with a config file, and what will surprise.

use super::output;
use crate::exit::Failure;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use weighbridge_config::resolved::{Chosen, Route};
use weighbridge_config::{Config, Loaded, Problem, Problems};
use weighbridge_core::policies::Policies;
use weighbridge_core::presets::Preset;
use weighbridge_core::spec::{RouteSpec, Weight};

/// Arguments of `weighbridge check`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  weighbridge check weighbridge.yaml\n\nExit code: 0 good, 2 bad config.")]
pub(crate) struct Args {
    /// The config file [default: weighbridge.yaml].
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The same, as `serve` takes it.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Checks the file and prints the result.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let given = args.file.or(args.config);
    let path = given.unwrap_or_else(|| PathBuf::from(super::serve::USUAL_CONFIG));
    let checked = weighbridge_config::load(&path, &|name| std::env::var(name).ok());
    // What only the gateway can read.
    let unread = checked
        .as_ref()
        .ok()
        .and_then(|loaded| weighbridge_gateway::tokens::check(&loaded.config).err());
    if let (Ok(loaded), Some(problem)) = (&checked, unread) {
        if args.json {
            output(&unread_json(&path, loaded, &problem))?;
        }
        return Err(Failure::BadInput(format!("{}: {problem}", path.display())));
    }
    let text = if args.json {
        as_json(&checked)
    } else {
        as_text(&checked)
    };
    output(&text)?;
    checked.map(drop).map_err(|problems| {
        let count = problems.count();
        let noun = if count == 1 { "problem" } else { "problems" };
        Failure::BadInput(format!("{}: {count} {noun}", path.display()))
    })
}

/// A config that is sound, with a tokenizer that cannot be used.
fn unread_json(path: &std::path::Path, loaded: &Loaded, problem: &str) -> String {
    let problem = Problem {
        file: path.display().to_string(),
        line: 0,
        column: 0,
        path: String::new(),
        message: problem.to_owned(),
        hint: None,
    };
    let report = json!({"ok": false, "problems": [problem], "warnings": loaded.warnings});
    format!("{report:#}\n")
}

fn as_json(checked: &Result<Loaded, Problems>) -> String {
    let report = match checked {
        Ok(loaded) => json!({
            "ok": true,
            "problems": [],
            "warnings": loaded.warnings,
            "config": weighbridge_config::masked(&loaded.config),
            "routes": routes(&loaded.config),
        }),
        Err(problems) => json!({"ok": false, "problems": problems, "warnings": problems.warnings()}),
    };
    format!("{report:#}\n")
}

/// How each route chooses, and where that comes from.
fn routes(config: &Config) -> Vec<Value> {
    let routes = config.fleet.routes.iter().zip(&config.routes);
    let shown = routes.map(|(spec, route)| {
        json!({
            "name": spec.name,
            "route_by": spec.route_by().as_str(),
            "preset": route.chosen.preset().map(Preset::as_str),
            "preset_implied": route.chosen == Chosen::Implied,
        })
    });
    shown.collect()
}

fn as_text(checked: &Result<Loaded, Problems>) -> String {
    match checked {
        Err(problems) => format!("{problems}\n{}", warnings(problems.warnings())),
        Ok(loaded) => warnings(&loaded.warnings) + &summary(&loaded.config),
    }
}

fn warnings(warnings: &[Problem]) -> String {
    warnings
        .iter()
        .map(|warning| format!("warning: {warning}\n"))
        .collect()
}

fn summary(config: &Config) -> String {
    let endpoints: usize = config.pools.iter().map(|pool| pool.endpoints.len()).sum();
    let mut text = format!(
        "ok: {}, {}, {}\n",
        counted(config.pools.len(), "pool"),
        counted(endpoints, "endpoint"),
        counted(config.routes.len(), "route")
    );
    let admin = config
        .admin
        .listen
        .map_or("off".to_owned(), |listen| listen.to_string());
    let keys = match config.auth {
        weighbridge_config::resolved::Auth::Keys => format!("for {}", counted(config.keys.len(), "key")),
        weighbridge_config::resolved::Auth::None => String::new(),
    };
    let certified = (config.server.tls.as_ref()).is_some_and(|tls| tls.client_ca.is_some());
    let clients = match (keys.as_str(), certified) {
        ("", false) => "for everybody".to_owned(),
        ("", true) => "for clients with a certificate that `client_ca` has signed".to_owned(),
        (keys, false) => keys.to_owned(),
        (keys, true) => format!("{keys}, from clients with a certificate that `client_ca` has signed"),
    };
    let _ = writeln!(
        text,
        "  listens on {} {clients}; admin API {admin}",
        config.server.listen
    );
    for (spec, route) in config.fleet.routes.iter().zip(&config.routes) {
        let _ = writeln!(text, "{}", route_line(config, spec, route));
    }
    text.push_str(&presets(config));
    for (chosen, note) in [
        (Chosen::Implied, IMPLIED),
        (Chosen::EndpointWeights, ENDPOINT_WEIGHTS),
    ] {
        if config.routes.iter().any(|route| route.chosen == chosen) {
            text.push_str(note);
        }
    }
    text
}

const IMPLIED: &str = "  `auto` is implied where nothing says how a route chooses. To ask for something else, write `preset`, `policies` or the \
                       targets' weights in the route, `preset` in a pool of its own route, or `route_by: round_robin` in either\n";
const ENDPOINT_WEIGHTS: &str = "  where nothing but weights of endpoints says how a route chooses, it takes turns by these: `preset: auto` would not look at \
                                them, `route_by: round_robin` says that it is meant so\n";

/// How one route chooses, among what.
fn route_line(config: &Config, spec: &RouteSpec, route: &Route) -> String {
    let pools = || {
        spec.targets
            .iter()
            .filter_map(|target| config.pools.get(target.pool))
    };
    let endpoints: usize = pools().map(|pool| pool.endpoints.len()).sum();
    let preset = match route.chosen {
        Chosen::Implied => ", implied preset auto".to_owned(),
        chosen => {
            (chosen.preset()).map_or_else(String::new, |preset| format!(", preset {}", preset.as_str()))
        }
    };
    // What a preset stands for is told once, below.
    let policies = match chosen_by_hand(spec, route) {
        true => format!(" {}", policies(&spec.policies)),
        false => String::new(),
    };
    format!(
        "  route {}: by {}{preset}{policies}{} over {}, {}{}",
        spec.name,
        spec.route_by().as_str(),
        shares(config, spec),
        counted(spec.targets.len(), "target"),
        counted(endpoints, "endpoint"),
        match pools().any(|pool| pool.discovery.is_some()) {
            true => " and what discovery finds",
            false => "",
        }
    )
}

fn chosen_by_hand(spec: &RouteSpec, route: &Route) -> bool {
    route.chosen.preset().is_none() && spec.policies.configs().next().is_some()
}

/// What each preset that is in use stands for, as it can be written in its place.
fn presets(config: &Config) -> String {
    let used = |preset: &Preset| {
        let mut routes = config.routes.iter();
        routes.any(|route| route.chosen.preset() == Some(*preset))
    };
    let line = |preset: Preset| {
        let about = match preset {
            Preset::Auto => ": each request goes where it delays itself and all others least",
            _ => "",
        };
        format!(
            "  preset {} stands for `policies: {}`{about} (docs/choosing.md)\n",
            preset.as_str(),
            policies(&preset.policies())
        )
    };
    Preset::ALL.into_iter().filter(used).map(line).collect()
}

/// Most shares that are printed of one route.
const SHARES_MAX: usize = 8;

/// The shares of the targets, or of endpoints that take turns by unequal weights.
fn shares(config: &Config, spec: &RouteSpec) -> String {
    let given: Vec<f64> = match spec.targets.iter().any(|target| target.weight.is_some()) {
        true => (spec.targets.iter().filter_map(|target| target.weight))
            .map(Weight::as_f64)
            .collect(),
        false if spec.policies.is_empty() => (spec.targets.iter())
            .filter_map(|target| config.fleet.pools.get(target.pool))
            .flat_map(|pool| &pool.endpoints)
            .map(|endpoint| endpoint.weight.as_f64())
            .collect(),
        false => Vec::new(),
    };
    if given.iter().all(|weight| Some(weight) == given.first()) {
        return String::new();
    }
    let shown: Vec<String> = (given.iter().take(SHARES_MAX)).map(ToString::to_string).collect();
    let more = if given.len() > SHARES_MAX { " : …" } else { "" };
    format!(", {}{more},", shown.join(" : "))
}

/// The policies as a config has them, each with what is not its default.
fn policies(policies: &Policies) -> String {
    let all = serde_json::to_value(policies).unwrap_or_default();
    let each = all.as_object().into_iter().flatten().map(|(name, settings)| {
        let usual = Policies::deserialize(json!({ name: {} })).and_then(serde_json::to_value);
        let usual = usual.unwrap_or_default();
        let settings = settings.as_object().into_iter().flatten();
        let settings: Vec<String> = settings
            .filter(|(key, value)| usual[name][key] != **value)
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        format!("{name}: {{{}}}", settings.join(", "))
    });
    format!("{{{}}}", each.collect::<Vec<_>>().join(", "))
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}
