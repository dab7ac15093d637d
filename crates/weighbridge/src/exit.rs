//! Exit codes of every command: 0 good, 1 failed at run time, 2 bad input or config.

use std::process::ExitCode;

/// How a command failed; the message has already been written for a person to read.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command failed while it ran.
    Failed(String),
    /// The command line, a file or the config is wrong.
    BadInput(String),
}

impl Failure {
    /// Prints the message to standard error and gives the exit code.
    #[expect(
        clippy::print_stderr,
        reason = "the one place where the command line reports a failure"
    )]
    pub(crate) fn report(self) -> ExitCode {
        let (message, code) = match self {
            Self::Failed(message) => (message, 1),
            Self::BadInput(message) => (message, 2),
        };
        eprintln!("weighbridge: {message}");
        ExitCode::from(code)
    }
}
