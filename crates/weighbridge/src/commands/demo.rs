//! `weighbridge demo`: simulated engines, the gateway and a little traffic, all in one process.

mod chaos;
mod chat;
mod fleet;
mod ledger;
mod memory;
mod setup;
mod show;
mod summary;
mod traffic;
mod why;

use super::engine::parse_speed;
use super::serve::{self, ready, stop};
use crate::exit::Failure;
use fleet::Fleet;
use ledger::Ledger;
use show::Printer;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const EXAMPLE: &str = "\
Examples:
  weighbridge demo
  weighbridge demo --chaos 5          (every five seconds an engine dies and later comes back)
  weighbridge demo --rate 0           (no traffic but yours)
Then, from another terminal:
  curl -N http://127.0.0.1:8800/v1/chat/completions -H 'content-type: application/json' \\
    -d '{\"model\":\"llama-8b\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'";

/// Arguments of `weighbridge demo`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Where clients connect [default: 127.0.0.1:8800, or a free port where that is taken].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Where the admin listener is [default: 127.0.0.1:8801, or a free port where that is taken].
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    /// Written once the gateway serves: a JSON object with `listen`, `admin`, `pid` and `token_file`.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Seconds of the modelled engines per second of the clock.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = parse_speed)]
    speed: f64,
    /// Requests per second of the demo's own traffic; 0: none.
    #[arg(long, value_name = "R", default_value_t = 2.0, value_parser = |text: &str| number(text, 0.0, 100.0))]
    rate: f64,
    /// Kill and revive an engine about this often; without it they all live.
    #[arg(long, value_name = "SECONDS", value_parser = |text: &str| number(text, 0.1, 3600.0))]
    chaos: Option<f64>,
    /// End by itself after this long [default: when interrupted].
    #[arg(long, value_name = "SECONDS", value_parser = |text: &str| number(text, 0.0, 31_536_000.0))]
    duration: Option<f64>,
    /// Decides what is said, asked and killed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// At the end, a summary as JSON on standard output; what people read goes to standard error.
    #[arg(long)]
    json: bool,
    /// Print nothing for people.
    #[arg(long)]
    quiet: bool,
}

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("must be a number from {least} to {most}")),
    }
}

/// Runs until interrupted, or for `--duration`.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let _flushed = serve::init_log("warn")?;
    let runtime = serve::runtime()?;
    let ended = runtime.block_on(Box::pin(demonstrate(args)));
    // The gateway's own threads end with the process, and so do the engines' ports, which the runtime holds: closed before, they
    // would be reported as engines that cannot be reached.
    std::mem::forget(runtime);
    ended
}

async fn demonstrate(args: Args) -> Result<(), Failure> {
    let mut signals = stop::Signals::listen()?;
    let printer = Printer::new(args.json, args.quiet);
    let mut fleet = Fleet::start(args.speed, args.seed)
        .map_err(|error| Failure::Failed(format!("no port for a simulated engine: {error}")))?;
    let ledger = Arc::new(Ledger::default());
    let mut started = setup::begin(&args, &fleet, &ledger)?;
    let gateway = started.running.gateway.clone();
    ledger.watch(&gateway);
    started.serve_admin(None);
    show::opening(&printer, &started, &fleet);
    ready::announce(&started, args.ready_file.as_deref())?;

    let stage = show::Stage {
        gateway: &gateway,
        ledger: &ledger,
        printer: &printer,
    };
    let client = traffic::Client::of(&args, started.running.listen);
    let playing = async {
        tokio::join!(
            traffic::run(&stage, client),
            chaos::run(&stage, &mut fleet, (args.chaos, args.seed)),
            show::table_now_and_then(&stage),
            memory::watch(&ledger.memory),
        );
    };
    let over = async {
        match args.duration {
            Some(seconds) => sleep(Duration::from_secs_f64(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = playing => {}
        () = over => {}
        () = signals.stop() => printer.say("\nStopping."),
    }
    // The engines live until the last request has ended.
    let stopped = stop::leave(&gateway, signals).await;
    let summary = summary::Summary::of(&gateway, &ledger, stopped.cut);
    show::closing(&printer, &summary);
    if args.json {
        printer.result(&summary);
    }
    drop(fleet);
    stopped.report()
}
