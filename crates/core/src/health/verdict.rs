//! What the end of an attempt says about the endpoint.

use crate::event::Outcome;
use std::time::Duration;

/// How the breaker counts an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A complete 2xx.
    Success,
    /// The endpoint did not do its job.
    Failure,
    /// Says nothing about the endpoint: the client's mistake, or a busy engine that says so.
    Neither,
}

impl Verdict {
    pub(crate) const fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Complete => Self::Success,
            Outcome::Abandoned => Self::Neither,
            Outcome::Status { code: 529, .. }
            | Outcome::Status {
                code: 503,
                retry_after: Some(_),
            } => Self::Neither,
            Outcome::Status { code, .. } if code >= 500 => Self::Failure,
            Outcome::Status { .. } => Self::Neither,
            Outcome::Refused
            | Outcome::ConnectTimeout
            | Outcome::ConnectFailed
            | Outcome::Reset
            | Outcome::TimedOut
            | Outcome::Broken => Self::Failure,
        }
    }
}

/// The wait that an answer asks for: `Some(None)` where it names no time and the default applies.
pub(crate) const fn asks_to_wait(outcome: Outcome) -> Option<Option<Duration>> {
    match outcome {
        Outcome::Status {
            code: 429 | 529,
            retry_after,
        } => Some(retry_after),
        Outcome::Status {
            code: 503,
            retry_after: Some(wait),
        } => Some(Some(wait)),
        _ => None,
    }
}

/// Whether no connection could be made, so that nothing reached the engine.
pub(crate) const fn is_connect_failure(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Refused | Outcome::ConnectTimeout | Outcome::ConnectFailed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn status(code: u16) -> Outcome {
        Outcome::Status {
            code,
            retry_after: None,
        }
    }

    #[test]
    fn breaker_counts_as_the_table_says() {
        let check = |outcome, expect| assert_eq!(Verdict::of(outcome), expect, "{outcome:?}");
        check(Outcome::Complete, Verdict::Success);
        for code in [500, 501, 502, 503, 504, 599] {
            check(status(code), Verdict::Failure);
        }
        for code in [400, 401, 404, 408, 413, 422, 429, 529] {
            check(status(code), Verdict::Neither);
        }
        let later = Some(Duration::from_secs(1));
        check(
            Outcome::Status {
                code: 503,
                retry_after: later,
            },
            Verdict::Neither,
        );
        check(
            Outcome::Status {
                code: 502,
                retry_after: later,
            },
            Verdict::Failure,
        );
        check(Outcome::Abandoned, Verdict::Neither);
        for outcome in [
            Outcome::Refused,
            Outcome::ConnectTimeout,
            Outcome::ConnectFailed,
            Outcome::Reset,
            Outcome::TimedOut,
            Outcome::Broken,
        ] {
            check(outcome, Verdict::Failure);
        }
    }

    #[test]
    fn only_busy_answers_ask_to_wait() {
        assert_eq!(asks_to_wait(status(429)), Some(None));
        assert_eq!(asks_to_wait(status(529)), Some(None));
        assert_eq!(asks_to_wait(status(503)), None);
        assert_eq!(asks_to_wait(status(500)), None);
        assert_eq!(asks_to_wait(Outcome::Complete), None);
    }
}
