//! `weighbridge check`: says everything that is wrong with a config file, and what will surprise.

use super::output;
use crate::exit::Failure;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use weighbridge_config::{Config, Loaded, Problem, Problems};

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
        }),
        Err(problems) => json!({"ok": false, "problems": problems, "warnings": problems.warnings()}),
    };
    format!("{report:#}\n")
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
    for route in &config.fleet.routes {
        let pools = || {
            route
                .targets
                .iter()
                .filter_map(|target| config.pools.get(target.pool))
        };
        let endpoints: usize = pools().map(|pool| pool.endpoints.len()).sum();
        let scorers = route.policies.configs();
        let scorers = scorers.map(|policy| match policy.weight() {
            1.0 => policy.name().to_owned(),
            weight => format!("{} {weight}", policy.name()),
        });
        let modifiers = route.policies.modifiers();
        let modifiers = modifiers.map(|modifier| modifier.name().to_owned());
        let policies: Vec<String> = scorers.chain(modifiers).collect();
        let policies = if policies.is_empty() {
            String::new()
        } else {
            format!(" ({})", policies.join(", "))
        };
        let _ = writeln!(
            text,
            "  route {}: by {}{policies} over {}, {}",
            route.name,
            route.route_by().as_str(),
            counted(route.targets.len(), "target"),
            counted(endpoints, "endpoint")
        );
    }
    text
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}
