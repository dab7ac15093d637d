//! `weighbridge engine`: one simulated engine over HTTP.

use crate::exit::Failure;

/// Arguments of `weighbridge engine`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: std::net::SocketAddr,
}

/// Runs until interrupted.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    Err(Failure::Failed(format!(
        "engine on {} is not built in yet",
        args.listen
    )))
}
