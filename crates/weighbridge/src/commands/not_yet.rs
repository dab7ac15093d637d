//! Commands that later versions build; refused by name until then.

use crate::exit::Failure;

/// Whatever follows the command's name.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _rest: Vec<std::ffi::OsString>,
}

/// Refuses.
pub(crate) fn run(command: &str) -> Result<(), Failure> {
    Err(Failure::BadInput(format!("`{command}` is not supported yet")))
}
