//! One module per command; this one lists them.

mod admin;
mod drain;
mod engine;
mod explain;
mod not_yet;
mod resume;
mod serve;
mod status;

use crate::exit::Failure;
use clap::Subcommand;
use std::process::ExitCode;

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// The gateway.
    Serve(serve::Args),
    /// One simulated inference engine behind the usual HTTP endpoints.
    Engine(engine::Args),
    /// The running gateway at a glance: routes, and endpoints with their states.
    Status(status::Args),
    /// Takes an endpoint out of service: no new requests, running ones finish.
    Drain(drain::Args),
    /// Takes a drained endpoint back into service.
    Resume(resume::Args),
    /// Shows the decision for one request, candidate by candidate.
    Explain(explain::Args),
    /// Not supported yet.
    #[command(hide = true)]
    Simulate(not_yet::Args),
    /// Not supported yet.
    #[command(hide = true)]
    Calibrate(not_yet::Args),
    /// Not supported yet.
    #[command(hide = true)]
    Train(not_yet::Args),
    /// Not supported yet.
    #[command(hide = true)]
    Experts(not_yet::Args),
    /// Not supported yet.
    #[command(hide = true)]
    Import(not_yet::Args),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self) -> ExitCode {
        let done = match self {
            Self::Serve(args) => serve::run(args),
            Self::Engine(args) => engine::run(args),
            Self::Status(args) => status::run(&args),
            Self::Drain(args) => drain::run(&args),
            Self::Resume(args) => resume::run(&args),
            Self::Explain(args) => explain::run(&args),
            Self::Simulate(_) => not_yet::run("simulate"),
            Self::Calibrate(_) => not_yet::run("calibrate"),
            Self::Train(_) => not_yet::run("train"),
            Self::Experts(_) => not_yet::run("experts"),
            Self::Import(_) => not_yet::run("import"),
        };
        done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
    }
}
