//! `weighbridge resume`: takes a drained endpoint back into service.

use super::admin::Reach;
use super::admin::endpoint::Named;
use super::admin::table::printable;
use super::output;
use crate::exit::Failure;
use serde_json::json;

const EXAMPLE: &str = "\
Example:
  weighbridge resume qwen3/gpu1:8000";

/// Arguments of `weighbridge resume`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The endpoint, as `weighbridge status` names it.
    #[arg(value_name = "POOL/ENDPOINT")]
    endpoint: String,
    /// Print the endpoint's state as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Resumes.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let api = args.reach.api()?;
    let named = Named::find(&args.endpoint, &api.get("/api/endpoints")?).map_err(Failure::BadInput)?;
    let state = named.change(&api, &json!({"resume": true}))?;
    if args.json {
        return output(&format!("{state}\n"));
    }
    let word = state["state"].as_str().unwrap_or_default();
    let reason = match state["reason"].as_str() {
        Some(reason) if !reason.is_empty() => format!(" ({})", printable(reason)),
        _ => String::new(),
    };
    output(&format!("{named}: {word}{reason}\n"))
}
