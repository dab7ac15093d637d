//! `cargo xtask instructions`: how many instructions the hot paths take, counted by callgrind.
//!
//! A count hardly depends on what else the machine does, so it can be compared with a stored one and a rise of a few
//! per cent be seen, which no clock shows on a shared machine. Every count is the slope between a short and a long run
//! of the same program, so that start-up cancels out.

mod callgrind;
mod gateway;
mod programs;
mod stored;

use crate::build;
use crate::failure::Failure;
use std::collections::BTreeMap;
use stored::Stored;

const EXAMPLE: &str = "\
Examples:
  cargo xtask instructions
  cargo xtask instructions --only decision
  cargo xtask instructions --update      (a rise is meant: store the new numbers)";

/// Arguments of `cargo xtask instructions`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Store the numbers instead of comparing with them.
    #[arg(long)]
    update: bool,
    /// Only benches whose names begin with one of these, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
}

impl Args {
    fn wants(&self, bench: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|start| bench.starts_with(start.as_str()))
    }
}

/// Instructions per unit of work, by the bench's name.
type Counts = BTreeMap<String, u64>;

/// Counts, then compares or stores.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    callgrind::check_installed()?;
    let built = build::build(&[
        "--profile=instructions",
        "--package=weighbridge-core",
        "--package=weighbridge-wire",
        "--package=weighbridge",
        "--package=weighbridge-test-engine",
        "--example=decision",
        "--example=bodies",
        "--bin=weighbridge",
        "--bin=test-engine",
    ])?;
    let mut counts = programs::count(&built, &|bench| args.wants(bench))?;
    counts.extend(gateway::count(&built, &|bench| args.wants(bench))?);
    if counts.is_empty() {
        return Err(Failure::BadInput(format!(
            "--only: no bench begins with {}",
            args.only.join(" or ")
        )));
    }
    let mut stored = Stored::read()?;
    if args.update {
        return stored.update(counts);
    }
    stored.compare(&counts)
}
