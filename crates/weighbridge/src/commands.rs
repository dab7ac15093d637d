//! One module per command; this one lists them.

mod check;
mod engine;
mod schema;
mod serve;

use crate::exit::Failure;
use clap::Subcommand;
use std::io::Write as _;
use std::process::ExitCode;

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// The gateway.
    Serve(serve::Args),
    /// Says everything that is wrong with a config file, and what in it will surprise.
    Check(check::Args),
    /// One simulated inference engine behind the usual HTTP endpoints.
    Engine(engine::Args),
    /// Prints the JSON schema of the config file.
    Schema(schema::Args),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self) -> ExitCode {
        let done = match self {
            Self::Serve(args) => serve::run(args),
            Self::Check(args) => check::run(args),
            Self::Engine(args) => engine::run(args),
            Self::Schema(args) => schema::run(args),
        };
        done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
    }
}

/// Writes a command's result to standard output. A reader that has gone away, as `head` does, is no failure.
fn output(text: &str) -> Result<(), Failure> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::Failed(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}
