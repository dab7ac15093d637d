//! `cargo xtask lab`: runs the lab and writes what comes of it into the documents.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool: its result goes to stdout, its progress and complaints to stderr"
)]

use clap::Parser;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use weighbridge_lab::candidates;
use weighbridge_lab::contest::Scope;
use weighbridge_lab::evidence::{Evidence, Parts, page};
use weighbridge_lab::gates;
use weighbridge_lab::trial::TrialError;
use weighbridge_lab::workloads::{Bench, Slice, closed_loop};

const EXAMPLES: &str = "\
Examples:
  cargo xtask lab                                  (everything; writes docs/policies.md and docs/plots)
  cargo xtask lab --quick                          (a first impression, nothing is written)
  cargo xtask lab --case 'system prompts' --only auto
  cargo xtask lab --policies mine.json --case agents --held
  cargo xtask lab --check                          (exit code 1 where the documents say otherwise, or a gate was met)

Traces are read from the folder that WEIGHBRIDGE_DATA names, else from shared/data beside the repository.

Exit codes: 0 done, 1 something failed or is not as the documents say, 2 wrong options or no data.";

/// Tries the product's policies and other gateways' on simulated work.
#[derive(Parser)]
#[command(name = "lab", bin_name = "cargo xtask lab", after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    /// An eighth of each case, one seed, yardsticks as their projects ship them; nothing is written.
    #[arg(long)]
    quick: bool,
    /// This case alone; may be given several times. Nothing is written.
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Rules whose name holds this, and auto. Nothing is written.
    #[arg(long, value_name = "RULE")]
    only: Option<String>,
    /// With --quick, --case or --only: what is borne, and 80 % of it, too.
    #[arg(long)]
    capacity: bool,
    /// With --quick, --case or --only: times against load too.
    #[arg(long)]
    sweep: bool,
    /// With --quick, --case or --only: presets with other settings too.
    #[arg(long)]
    settings: bool,
    /// Writes all outcomes into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Runs nothing: takes the outcomes from a file that --json has written.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "case", "only", "json"])]
    from: Option<PathBuf>,
    /// Takes the outcomes of other gateways' rules from a file that --json has written, as far as it has them: for when only
    /// policies of the product have changed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "from", "policies"])]
    yardsticks: Option<PathBuf>,
    /// Compares with the documents instead of writing them; with --quick the gates alone.
    #[arg(long, conflicts_with_all = ["case", "only"])]
    check: bool,
    /// Instead of all that: all presets beside the policies of this file, JSON like {"mine": {"least_work": {}}}.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "json", "from", "capacity", "sweep", "settings"])]
    policies: Option<PathBuf>,
    /// With --policies: the slice that is held out, too.
    #[arg(long, requires = "policies")]
    held: bool,
    /// With --policies: the mean over so many seeds, from 1 on.
    #[arg(long, value_name = "N", requires = "policies", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: Option<u64>,
    /// With --policies: cases at so many times their load.
    #[arg(long, value_name = "TIMES", requires = "policies")]
    load: Option<f64>,
    /// With --policies: cases behind so many gateways.
    #[arg(long, value_name = "N", requires = "policies")]
    gateways: Option<NonZeroU32>,
    /// Threads. Default: one per core.
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Why it did not do what it was asked to.
enum Failure {
    /// It went wrong, or what was checked does not hold.
    Failed(String),
    /// Something is missing or wrong that the caller can mend.
    BadInput(String),
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(why)) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
        Err(Failure::BadInput(why)) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    if let Some(file) = &cli.policies {
        return try_policies(cli, file);
    }
    let evidence = match &cli.from {
        Some(file) => read(file)?,
        None => gather(cli)?,
    };
    if let Some(file) = &cli.json {
        let text = serde_json::to_string(&evidence).map_err(|error| Failure::Failed(error.to_string()))?;
        write(file, &text)?;
    }
    println!("{}", evidence.summary());
    let documents = Documents::new();
    match (cli.check, evidence.whole) {
        (true, _) => documents.check(&evidence),
        (false, true) => documents.write(&evidence),
        (false, false) => {
            eprintln!("only a part was run, so the documents stay as they are");
            Ok(())
        }
    }
}

/// Runs the policies of a file beside the presets.
fn try_policies(cli: &Cli, file: &Path) -> Result<(), Failure> {
    let mine = candidates::read(&text(file)?).map_err(bad(file))?;
    let mut scope = scope(cli)?;
    if let Some(seeds) = cli.seeds {
        scope.seeds = (1..=seeds).collect();
    }
    if let Some(load) = cli.load {
        if !(0.01..=100.0).contains(&load) {
            return Err(Failure::BadInput(format!(
                "--load: {load} is not from 0.01 to 100"
            )));
        }
        scope.cases = scope.cases.iter().map(|case| case.at(load)).collect();
    }
    if let Some(gateways) = cli.gateways {
        scope
            .cases
            .iter_mut()
            .for_each(|case| case.replicas = gateways.get());
    }
    let slices = match cli.held {
        true => &Slice::BOTH[..],
        false => &[Slice::Tuned],
    };
    let began = Instant::now();
    let progress = |what: &str| eprintln!("{:>5} s  {what}", began.elapsed().as_secs());
    let table = candidates::table(&scope, slices, &mine, &progress).map_err(trial)?;
    print!("{table}");
    Ok(())
}

/// Runs what was asked for.
fn gather(cli: &Cli) -> Result<Evidence, Failure> {
    let scope = scope(cli)?;
    let parts = match scope.is_whole() {
        true => Parts::ALL,
        false => Parts {
            capacity: cli.capacity,
            sweep: cli.sweep,
            sensitivity: cli.settings,
        },
    };
    let began = Instant::now();
    let progress = |what: &str| eprintln!("{:>5} s  {what}", began.elapsed().as_secs());
    let evidence = Evidence::gather(&scope, parts, &progress).map_err(trial)?;
    progress("done");
    Ok(evidence)
}

fn trial(error: TrialError) -> Failure {
    match error {
        TrialError::Case(error) => Failure::BadInput(error.to_string()),
        error => Failure::Failed(error.to_string()),
    }
}

fn scope(cli: &Cli) -> Result<Scope, Failure> {
    let threads = match cli.threads {
        Some(threads) => threads,
        None => std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    };
    let data = root().join("../shared/data");
    let mut scope = Scope::whole(Bench::whole(&data), threads);
    if cli.quick {
        scope.bench.cut = 8;
        scope.seeds.truncate(1);
        scope.shipped = true;
    }
    if let Some(file) = &cli.yardsticks {
        let earlier = read(file)?;
        scope.earlier = earlier.contests.into_iter().chain(earlier.closed_loop).collect();
    }
    scope.only.clone_from(&cli.only);
    if cli.policies.is_some() {
        scope.cases.push(closed_loop());
    }
    if !cli.case.is_empty() {
        let all: Vec<&str> = scope.cases.iter().map(|case| case.name).collect();
        if let Some(unknown) = cli.case.iter().find(|name| !all.contains(&name.as_str())) {
            return Err(Failure::BadInput(format!(
                "--case: no case {unknown:?}; there are {}",
                all.join(", ")
            )));
        }
        scope
            .cases
            .retain(|case| cli.case.iter().any(|name| name == case.name));
    }
    Ok(scope)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What the lab writes.
struct Documents {
    policies: PathBuf,
    choosing: PathBuf,
    plots: PathBuf,
}

impl Documents {
    fn new() -> Self {
        let docs = root().join("docs");
        Self {
            policies: docs.join("policies.md"),
            choosing: docs.join("choosing.md"),
            plots: docs.join("plots"),
        }
    }

    /// Each file with what is to stand in it.
    fn wanted(&self, evidence: &Evidence) -> Result<Vec<(PathBuf, String)>, Failure> {
        let sections = [
            (&self.policies, page::EVIDENCE, evidence.section()),
            (&self.choosing, page::PRESETS, Evidence::presets()),
        ];
        let mut wanted = Vec::new();
        for (file, markers, section) in sections {
            let replaced = markers.replaced(&text(file)?, &section);
            wanted.push((file.clone(), replaced.map_err(bad(file))?));
        }
        let plots = evidence.plots().into_iter();
        wanted.extend(plots.map(|(name, plot)| (self.plots.join(name), plot)));
        Ok(wanted)
    }

    fn write(&self, evidence: &Evidence) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.plots)
            .map_err(|error| Failure::Failed(format!("{}: {error}", self.plots.display())))?;
        for (file, text) in self.wanted(evidence)? {
            write(&file, &text)?;
            eprintln!("written: {}", file.display());
        }
        Ok(())
    }

    /// Gates that are said to be met must be met; and where everything was run, all that is said must be so.
    fn check(&self, evidence: &Evidence) -> Result<(), Failure> {
        let page = text(&self.policies)?;
        let before = page::gates(page::EVIDENCE.section(&page).map_err(bad(&self.policies))?);
        let mut problems: Vec<String> = gates::lost(&before, &evidence.gates)
            .into_iter()
            .map(|gate| format!("said to be met and is not: {}: {}", gate.asks, gate.measured))
            .collect();
        let wanted = match evidence.whole {
            true => self.wanted(evidence)?,
            false => Vec::new(),
        };
        for (file, now) in wanted {
            if let Some((line, is, now)) = page::difference(&text(&file)?, &now) {
                problems.push(format!(
                    "{}:{line}: is not what comes out; `cargo xtask lab` writes it anew\n  is  {is}\n  now {now}",
                    file.display()
                ));
            }
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Failure::Failed(problems.join("\n"))),
        }
    }
}

/// The error of reading `file`.
fn bad<E: std::fmt::Display>(file: &Path) -> impl FnOnce(E) -> Failure {
    move |error| Failure::BadInput(format!("{}: {error}", file.display()))
}

fn read(file: &Path) -> Result<Evidence, Failure> {
    let read: Result<Evidence, _> = serde_json::from_str(&text(file)?);
    let mut evidence = read.map_err(bad(file))?;
    evidence.judge();
    Ok(evidence)
}

fn text(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(bad(file))
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))
}
