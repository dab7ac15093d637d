//! One module per command; this one lists them.

mod demo;
mod engine;
mod serve;

use crate::exit::Failure;
use clap::Subcommand;
use std::process::ExitCode;

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// The gateway.
    Serve(serve::Args),
    /// Everything in one process: simulated engines, the gateway and a little traffic.
    Demo(demo::Args),
    /// One simulated inference engine behind the usual HTTP endpoints.
    Engine(engine::Args),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self) -> ExitCode {
        let done = match self {
            Self::Serve(args) => serve::run(args),
            Self::Demo(args) => demo::run(args),
            Self::Engine(args) => engine::run(args),
        };
        done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
    }
}
