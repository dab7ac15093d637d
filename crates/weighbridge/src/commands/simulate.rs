//! `weighbridge simulate`: policies compared on a virtual clock, fleets sized, event logs replayed.

mod about;
mod engines;
mod faults;
mod fleets;
mod progress;
mod replay;
mod runs;
mod scenario;
mod sizing;
mod workloads;

use super::output;
use crate::exit::Failure;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;
use weighbridge_config::parse_duration;
use weighbridge_sim::report::{Objectives, Report, document::Document, html, table};

const EXAMPLES: &str = "\
Examples:
  weighbridge simulate                                            (four policies on a shop's traffic, no files needed)
  weighbridge simulate --seeds 5 --html report.html               (with the noise, and as a page)
  weighbridge simulate --trace requests.jsonl --config weighbridge.yaml
  weighbridge simulate --config now.yaml --config then.yaml --trace requests.jsonl --seeds 5
  weighbridge simulate --workload chat --slo ttft_p95=2s,tpot_p95=50ms --size
  weighbridge simulate --endpoints 8 --slo ttft_p95=2s --max-rate
  weighbridge simulate --fault die:gpus/e1@60s+30s --fault 'slow:gpus/e2@90s+60s*4'
  weighbridge simulate --scenario shop                            (says what must come out, and checks it)
  weighbridge simulate --replay events.jsonl --only 17            (of weighbridge serve --event-log events.jsonl)

Faults: die:POOL/ENDPOINT@WHEN[+DOWN], slow:…@WHEN[+LASTS]*FACTOR, stale:…@WHEN+LASTS, flap:…@WHEN+DOWN*TIMES,
add:…@WHEN, remove:…@WHEN.

Exit codes: 0 good; 1 a replay came out differently, an objective cannot be met, or the simulation failed;
2 wrong options or files. docs/simulator.md explains every line of the report.";

/// Arguments of `weighbridge simulate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    traffic: Traffic,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    runs: RunArgs,
    #[command(flatten)]
    shown: OutputArgs,
    /// A file that says all of it, and what must come out (docs/simulator.md); or `shop`, which comes with the program.
    #[arg(long, value_name = "FILE|NAME", help_heading = "Scenario", conflicts_with_all = ["trace", "workload", "config", "route", "engine", "endpoints", "replicas", "fault", "seed", "slo", "size", "max_rate"])]
    scenario: Option<PathBuf>,
    /// Replay a log of `weighbridge serve --event-log LOG` through the scheduler and explain every decision.
    #[arg(long, value_name = "LOG", help_heading = "Replay", conflicts_with_all = ["trace", "workload", "config", "html", "size", "max_rate"])]
    replay: Option<PathBuf>,
    /// With --replay: only what is about this request, with every candidate.
    #[arg(long, value_name = "REQUEST", help_heading = "Replay", requires = "replay")]
    only: Option<u64>,
}

/// What is asked of the fleet.
#[derive(clap::Args)]
#[command(next_help_heading = "Traffic")]
struct Traffic {
    /// A trace: Mooncake or LLMServingSim JSON lines, Azure CSV, or the gateway's own request log.
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    trace: Option<PathBuf>,
    /// Its format, where it is not to be found out: mooncake, azure, llmservingsim, gateway.
    #[arg(long, requires = "trace")]
    format: Option<weighbridge_sim::workload::Format>,
    /// A generated workload: its name (`shop`, `chat`, `rag`, `agents`, `batch`, `prefix-groups`) or a YAML file [default: shop].
    #[arg(long, value_name = "NAME|FILE")]
    workload: Option<String>,
    /// The spec of one that stands in a scenario.
    #[arg(skip)]
    spec: Option<Box<weighbridge_sim::workload::spec::Spec>>,
    /// Requests come this many times as fast.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    speedup: f64,
    /// Leave out what comes before this time of the trace.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    from: Option<Duration>,
    /// Leave out what comes from this time on.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    to: Option<Duration>,
    /// Only the first requests.
    #[arg(long, value_name = "REQUESTS")]
    first: Option<NonZeroUsize>,
    /// Spread requests of one time evenly until the next: for traces whose clock goes in steps.
    #[arg(long)]
    jitter: bool,
}

/// Who serves, and what goes wrong.
#[derive(clap::Args)]
#[command(next_help_heading = "Fleet and policies")]
struct FleetArgs {
    /// A weighbridge config whose pools and route are one policy; give several to compare them with the first
    /// [default: round robin, least in flight, session affinity and auto on four engines].
    #[arg(long, short, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Configs that stand in a scenario: name and text.
    #[arg(skip)]
    written: Vec<(String, String)>,
    /// Which route of the configs [default: the only one].
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// Model and GPU of the engines, or a JSON file of an engine; for one pool or for all: `[POOL=]MODEL@GPU[xN]`.
    #[arg(long, value_name = "ENGINE")]
    engine: Vec<String>,
    /// Engines in each pool instead of the config's; or in one: `[POOL=]N` [default: 4 without --config].
    #[arg(long, value_name = "N")]
    endpoints: Vec<String>,
    /// Replicas of the gateway that do not know of each other's requests.
    #[arg(long, value_name = "N", default_value = "1", value_parser = few)]
    replicas: NonZeroU32,
    /// Something that goes wrong, see below; may be given several times.
    #[arg(long, value_name = "FAULT", value_parser = faults::parse)]
    fault: Vec<faults::Planned>,
}

/// How often, and what is searched for.
#[derive(clap::Args)]
#[command(next_help_heading = "Runs and searches")]
struct RunArgs {
    /// First seed of everything that is random.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Runs of each policy, with as many seeds: tells chance from policy.
    #[arg(long, value_name = "N", default_value = "1")]
    seeds: NonZeroU32,
    /// Runs at a time; changes nothing but the time [default: one per core].
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Objectives such as `ttft_p95=2s,tpot_p95=50ms`, also what each answer is held to for goodput.
    #[arg(long, value_name = "OBJECTIVES", value_parser = objectives)]
    slo: Option<Objectives>,
    /// Find the fewest engines per pool with which each policy keeps --slo.
    #[arg(long, requires = "slo", conflicts_with = "max_rate")]
    size: bool,
    /// Most engines that --size tries.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000), requires = "size")]
    size_max: u32,
    /// Find the highest rate at which each policy keeps --slo on the given engines, within 2 %.
    #[arg(long, requires = "slo")]
    max_rate: bool,
}

/// Where the result goes.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Write the report as one page that needs nothing else.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON instead of the table; docs/simulator.md names the fields.
    #[arg(long)]
    json: bool,
    /// Print neither the table nor the progress.
    #[arg(long, short)]
    quiet: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "a number above 0 is wanted".to_owned())
}

/// From 1 to 1,000: each replica has all of the scheduler's state.
fn few(text: &str) -> Result<NonZeroU32, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number: &NonZeroU32| number.get() <= 1000);
    number.ok_or_else(|| "a number from 1 to 1000 is wanted".to_owned())
}

fn objectives(text: &str) -> Result<Objectives, String> {
    Objectives::parse(text, parse_duration)
}

/// Simulates, and prints what came of it.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if let Some(log) = &args.replay {
        let shown = replay::Shown {
            only: args.only,
            json: args.shown.json,
            quiet: args.shown.quiet,
        };
        return replay::run(log, &shown);
    }
    let scenario = match &args.scenario {
        Some(path) => Some(scenario::Scenario::read(path)?),
        None => None,
    };
    let args = &match &scenario {
        Some(scenario) => scenario.arguments(args)?,
        None => args,
    };
    let traffic = workloads::Source::of(&args.traffic)?;
    let plan = runs::Plan {
        candidates: fleets::candidates(&args.fleet)?,
        faults: args.fleet.fault.clone(),
        replicas: args.fleet.replicas.get(),
        objectives: args.runs.slo.clone().unwrap_or_default(),
        seeds: (0..u64::from(args.runs.seeds.get()))
            .map(|at| args.runs.seed.wrapping_add(at))
            .collect(),
        threads: args
            .runs
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)),
        quiet: args.shown.quiet,
        traffic,
    };
    // Before the work, so that nothing is simulated for a file that cannot be written.
    if let Some(path) = &args.shown.html {
        create(path)?;
    }
    let searched = sizing::searched(&args.runs, plan)?;
    let report = about::report(args, &searched)?;
    show(&args.shown, &report)?;
    if let Some(scenario) = &scenario {
        scenario.judge(&report)?;
    }
    searched.failure()
}

fn create(path: &std::path::Path) -> Result<(), Failure> {
    let created = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    created
        .map(drop)
        .map_err(|error| Failure::BadInput(format!("--html {}: {error}", path.display())))
}

fn show(shown: &OutputArgs, report: &Report) -> Result<(), Failure> {
    if let Some(path) = &shown.html {
        std::fs::write(path, html::page(report))
            .map_err(|error| Failure::Failed(format!("--html {}: {error}", path.display())))?;
    }
    if shown.json {
        let text = serde_json::to_string_pretty(&Document::of(report))
            .map_err(|error| Failure::Failed(error.to_string()))?;
        output(&format!("{text}\n"))?;
    } else if !shown.quiet {
        output(&table::table(report))?;
        if let Some(path) = &shown.html {
            output(&format!("\nThe report with plots: {}\n", path.display()))?;
        }
    }
    Ok(())
}
