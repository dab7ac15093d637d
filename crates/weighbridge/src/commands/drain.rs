//! `weighbridge drain`: takes an endpoint out of service without losing a request.

use super::admin::endpoint::Named;
use super::admin::{Api, Reach};
use super::{count, output};
use crate::exit::Failure;
use serde_json::json;
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use weighbridge_config::parse_duration;

const EXAMPLE: &str = "\
Examples:
  weighbridge drain qwen3/gpu1:8000 --wait 5m       (returns once the endpoint is idle)
  weighbridge resume qwen3/gpu1:8000";

/// Time between two looks at the requests that still run.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Arguments of `weighbridge drain`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The endpoint, as `weighbridge status` names it.
    #[arg(value_name = "POOL/ENDPOINT")]
    endpoint: String,
    /// Wait until its running requests have ended, at most this long, such as 30s or 5m.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Print the endpoint's state as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Drains, and waits if asked to.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let api = args.reach.api()?;
    let named = Named::find(&args.endpoint, &api.get("/api/endpoints")?).map_err(Failure::BadInput)?;
    let mut state = named.change(&api, &json!({"drain": true}))?;
    if let Some(wait) = args.wait {
        wait_idle(&api, &named, wait)?;
        if let Some(now) = named.state(&api.get("/api/endpoints")?) {
            state = now.clone();
        }
    }
    if args.json {
        return output(&format!("{state}\n"));
    }
    let running = match state["inflight"].as_u64().unwrap_or_default() {
        0 => "idle".to_owned(),
        some => format!("{} still running", count(some, "request")),
    };
    output(&format!("{named}: draining, {running}\n"))
}

fn wait_idle(api: &Api, named: &Named, wait: Duration) -> Result<(), Failure> {
    let deadline = Instant::now() + wait;
    let mut told = None;
    loop {
        let running = named.inflight(&api.get("/api/endpoints")?);
        if running == 0 {
            return Ok(());
        }
        if told != Some(running) {
            told = Some(running);
            progress(named, running);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::Failed(format!(
                "{named} still has {} after {}; it stays drained",
                count(running, "running request"),
                weighbridge_config::show_duration(wait)
            )));
        }
        std::thread::sleep(LOOK_EVERY.min(left));
    }
}

#[expect(clippy::print_stderr, reason = "progress for the person who waits")]
fn progress(named: &Named, running: u64) {
    if std::io::stderr().is_terminal() {
        eprintln!("{named}: waiting for {}", count(running, "running request"));
    }
}
