//! Project automation: `cargo xtask COMMAND`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool: its result goes to stdout, its progress and complaints to stderr"
)]

mod bench;
mod build;
mod failure;
mod instructions;
mod lab;
mod process;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Project automation of Weighbridge.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures the gateway side by side with nginx and with no proxy at all.
    Bench(bench::Args),
    /// Counts the instructions of the hot paths and compares them with the stored numbers.
    Instructions(instructions::Args),
    /// Tries the product's policies and other gateways' on simulated work, and writes the evidence into docs/.
    #[command(disable_help_flag = true)]
    Lab(lab::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::Instructions(args) => instructions::run(&args),
        Command::Lab(args) => lab::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.code()
        }
    }
}
