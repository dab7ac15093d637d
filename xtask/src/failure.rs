//! Why a command did not do what it was asked to.

use std::fmt;
use std::process::ExitCode;

/// A failure, for a person.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It went wrong while running, or what was checked does not hold.
    Failed(String),
    /// Something is missing or wrong that the caller can mend.
    BadInput(String),
}

impl Failure {
    /// 1 for what failed at run time, 2 for bad input.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Failed(_) => 1,
            Self::BadInput(_) => 2,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) | Self::BadInput(why) => f.write_str(why),
        }
    }
}

/// The error `error` of doing `what`.
pub(crate) fn failed<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Failure {
    move |error| Failure::Failed(format!("{what}: {error}"))
}
