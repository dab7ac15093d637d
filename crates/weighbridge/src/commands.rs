//! One module per command; this one lists them.

mod admin;
mod calibrate;
mod check;
mod demo;
mod drain;
mod engine;
mod explain;
mod not_yet;
mod resume;
mod schema;
mod serve;
mod simulate;
mod status;

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
    /// Everything in one process: simulated engines, the gateway and a little traffic.
    Demo(demo::Args),
    /// One simulated inference engine behind the usual HTTP endpoints.
    Engine(engine::Args),
    /// Prints the JSON schema of the config file.
    Schema(schema::Args),
    /// The running gateway at a glance: routes, and endpoints with their states.
    Status(status::Args),
    /// Takes an endpoint out of service: no new requests, running ones finish.
    Drain(drain::Args),
    /// Takes a drained endpoint back into service.
    Resume(resume::Args),
    /// Shows the decision for one request, candidate by candidate.
    Explain(explain::Args),
    /// Compares policies on a trace or a generated workload, on a virtual clock; sizes fleets; replays event logs.
    Simulate(Box<simulate::Args>),
    /// Measures how fast each endpoint of a pool of the running gateway writes, and proposes weights.
    Calibrate(calibrate::Args),
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
            Self::Check(args) => check::run(args),
            Self::Demo(args) => demo::run(args),
            Self::Engine(args) => engine::run(args),
            Self::Schema(args) => schema::run(args),
            Self::Status(args) => status::run(&args),
            Self::Drain(args) => drain::run(&args),
            Self::Resume(args) => resume::run(&args),
            Self::Explain(args) => explain::run(&args),
            Self::Simulate(args) => simulate::run(*args),
            Self::Calibrate(args) => calibrate::run(&args),
            Self::Train(_) => not_yet::run("train"),
            Self::Experts(_) => not_yet::run("experts"),
            Self::Import(_) => not_yet::run("import"),
        };
        done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
    }
}

/// A number of things: `1 request`, `2 requests`.
fn count<N: std::fmt::Display + PartialEq + From<u8>>(number: N, what: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {what}{plural}")
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
