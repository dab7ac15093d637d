//! The `weighbridge` command: parses the command line and hands over to one file per command.

mod commands;
mod exit;
mod messages;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  weighbridge demo                                (a look around; needs no engine and no config)
  weighbridge check weighbridge.yaml
  weighbridge serve --config weighbridge.yaml
  weighbridge status --watch                      (from another terminal)";

/// Load balancer and gateway for large-language-model inference.
#[derive(Parser)]
#[command(name = "weighbridge", version, about, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    messages::tell_of_panics();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    cli.command.run()
}
