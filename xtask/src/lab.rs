//! `cargo xtask lab`: builds the policy lab as it must be to be quick, and runs it.

use crate::build;
use crate::failure::{Failure, failed};
use std::ffi::OsString;
use std::process::Command;

/// Arguments of `cargo xtask lab`, which are the lab's own; `--help` shows them.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<OsString>,
}

/// Builds and runs it.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let built = build::build(&["--release", "--package=weighbridge-lab", "--bin=lab"])?;
    let status = Command::new(built.path("lab")?)
        .args(&args.options)
        .status()
        .map_err(failed("the lab cannot be run"))?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said what.
        Some(2) => Err(Failure::BadInput("the lab was not run".into())),
        _ => Err(Failure::Failed(format!("the lab: {status}"))),
    }
}
