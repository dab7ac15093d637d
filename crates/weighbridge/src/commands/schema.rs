//! `weighbridge schema`: the JSON schema of the config file.

use super::output;
use crate::exit::Failure;

/// Arguments of `weighbridge schema`.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  weighbridge schema > weighbridge.schema.json\n\nEditors with a YAML language server take it from a first line:\n  # yaml-language-server: $schema=weighbridge.schema.json"
)]
pub(crate) struct Args {}

/// Prints the schema.
pub(crate) fn run(_: Args) -> Result<(), Failure> {
    output(&format!("{:#}\n", weighbridge_config::schema()))
}
