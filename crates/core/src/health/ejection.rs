//! Ejection: connections to the endpoint fail. Away for 1 s, doubling to 30 s while it keeps failing; then one request
//! at a time tries whether it is back.

use crate::event::Outcome;
use crate::health::verdict::Verdict;
use crate::time::Time;
use std::time::Duration;

/// First absence.
const FIRST: Duration = Duration::from_secs(1);
/// Longest absence.
const LONGEST: Duration = Duration::from_secs(30);
/// Failed connections in a row that eject, where none was refused outright.
const ROW: u32 = 3;

/// Whether an endpoint is ejected, and the way back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ejection {
    /// Failures to connect since the last answer.
    row: u32,
    /// How often it was ejected without a success in between; 0: it is not ejected.
    level: u32,
    until: Time,
    /// Whether the request that tries it is under way.
    trial: bool,
    /// Changes with every ejection and return, so that the end of an old trial never frees the slot of a new one.
    epoch: u32,
    refused: bool,
}

/// How an attempt relates to an ejection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tryout {
    /// Epoch of the trial that the attempt is.
    pub(crate) trial: Option<u32>,
    /// Sent although nothing was live.
    pub(crate) failed_open: bool,
}

impl Ejection {
    pub(crate) const fn is_ejected(&self) -> bool {
        self.level > 0
    }

    /// Whether requests must go elsewhere: its time is not over, or a trial is under way.
    #[inline]
    pub(crate) fn blocks(&self, now: Time) -> bool {
        self.level > 0 && (self.trial || now < self.until)
    }

    /// When its time is over; none while the trial is under way.
    pub(crate) fn back(&self) -> Option<Time> {
        (!self.trial).then_some(self.until)
    }

    /// An attempt starts; if it is the trial, its epoch.
    pub(crate) fn begin(&mut self, now: Time) -> Option<u32> {
        if self.level == 0 || self.blocks(now) {
            return None;
        }
        self.trial = true;
        Some(self.epoch)
    }

    /// An attempt ended; true if that ended the ejection.
    pub(crate) fn ended(&mut self, now: Time, outcome: Outcome, how: Tryout) -> bool {
        let mine = self.trial && how.trial == Some(self.epoch);
        if mine {
            self.trial = false;
        }
        match outcome {
            Outcome::Complete => {
                self.row = 0;
                return (how.trial.is_some() || how.failed_open) && self.clear();
            }
            Outcome::Refused => {
                self.refused = true;
                self.eject(now);
            }
            Outcome::ConnectTimeout | Outcome::ConnectFailed | Outcome::Reset => {
                self.row += 1;
                if mine || self.row >= ROW {
                    self.refused = false;
                    self.eject(now);
                }
            }
            Outcome::Status { .. } | Outcome::Broken => {
                self.row = 0;
                if mine && Verdict::of(outcome) == Verdict::Failure {
                    self.eject(now);
                }
            }
            Outcome::TimedOut if mine => self.eject(now),
            Outcome::TimedOut | Outcome::Abandoned => {}
        }
        false
    }

    /// Ends the ejection; true if there was one.
    pub(crate) fn clear(&mut self) -> bool {
        let was = self.level > 0;
        if was {
            self.epoch = self.epoch.wrapping_add(1);
        }
        self.level = 0;
        self.row = 0;
        self.trial = false;
        was
    }

    /// Why, for a person.
    pub(crate) fn reason(&self, now: Time) -> String {
        let cause = if self.refused {
            "connection refused"
        } else {
            "connections fail"
        };
        let next = match (self.trial, now < self.until) {
            (true, _) => ", one request on trial",
            (false, true) => "",
            (false, false) => ", waiting for a trial request",
        };
        format!("{cause}{next}")
    }

    /// Failures that arrive while its time runs are of requests that were sent before, and do not lengthen it.
    fn eject(&mut self, now: Time) {
        if self.level > 0 && now < self.until {
            return;
        }
        let absence = FIRST.saturating_mul(1 << self.level.min(5)).min(LONGEST);
        self.level = self.level.saturating_add(1);
        self.until = now.after(absence);
        self.epoch = self.epoch.wrapping_add(1);
        self.trial = false;
        self.row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_origin(Duration::from_millis(millis))
    }

    fn plain(ejection: &mut Ejection, now: u64, outcome: Outcome) -> bool {
        ejection.ended(at(now), outcome, Tryout::default())
    }

    /// Runs the trial that is due at `now`.
    fn trial(ejection: &mut Ejection, now: u64, outcome: Outcome) -> bool {
        let trial = ejection.begin(at(now));
        assert!(trial.is_some(), "a trial is due at {now}");
        assert!(ejection.blocks(at(now)), "only one at a time");
        assert_eq!(ejection.begin(at(now)), None);
        ejection.ended(
            at(now),
            outcome,
            Tryout {
                trial,
                failed_open: false,
            },
        )
    }

    #[test]
    fn one_refusal_ejects_for_a_second() {
        let mut ejection = Ejection::default();
        plain(&mut ejection, 100, Outcome::Refused);
        assert!(ejection.blocks(at(1099)));
        assert!(!ejection.blocks(at(1100)));
        assert!(ejection.is_ejected());
    }

    #[test]
    fn three_failures_in_a_row_before_any_answer_eject() {
        let mut ejection = Ejection::default();
        plain(&mut ejection, 0, Outcome::ConnectTimeout);
        plain(&mut ejection, 0, Outcome::Reset);
        plain(
            &mut ejection,
            0,
            Outcome::Status {
                code: 400,
                retry_after: None,
            },
        );
        plain(&mut ejection, 0, Outcome::Reset);
        plain(&mut ejection, 0, Outcome::ConnectFailed);
        plain(&mut ejection, 0, Outcome::Abandoned);
        assert!(!ejection.is_ejected());
        plain(&mut ejection, 0, Outcome::ConnectTimeout);
        assert!(ejection.is_ejected());
    }

    #[test]
    fn absence_doubles_to_thirty_seconds_and_success_resets() {
        let mut ejection = Ejection::default();
        plain(&mut ejection, 0, Outcome::Refused);
        let mut now = 1000;
        for seconds in [2, 4, 8, 16, 30, 30, 30] {
            trial(&mut ejection, now, Outcome::ConnectTimeout);
            assert!(ejection.blocks(at(now + seconds * 1000 - 1)));
            now += seconds * 1000;
        }
        assert!(trial(&mut ejection, now, Outcome::Complete));
        assert!(!ejection.is_ejected());
        plain(&mut ejection, now, Outcome::Refused);
        assert!(!ejection.blocks(at(now + 1000)));
    }

    #[test]
    fn requests_sent_before_do_not_lengthen_it() {
        let mut ejection = Ejection::default();
        for now in [0, 1, 2, 999] {
            plain(&mut ejection, now, Outcome::Refused);
        }
        assert!(!ejection.blocks(at(1000)));
        assert!(
            !plain(&mut ejection, 500, Outcome::Complete),
            "an old stream's end"
        );
        assert!(ejection.is_ejected());
    }

    #[test]
    fn a_trial_that_says_nothing_gives_its_slot_back() {
        let mut ejection = Ejection::default();
        plain(&mut ejection, 0, Outcome::Refused);
        for outcome in [
            Outcome::Abandoned,
            Outcome::Status {
                code: 404,
                retry_after: None,
            },
        ] {
            assert!(!trial(&mut ejection, 1000, outcome));
            assert!(ejection.is_ejected() && !ejection.blocks(at(1000)));
        }
        assert!(trial(&mut ejection, 1000, Outcome::Complete));
    }

    #[test]
    fn an_old_trial_never_frees_a_new_one() {
        let mut ejection = Ejection::default();
        plain(&mut ejection, 0, Outcome::Refused);
        let old = ejection.begin(at(1000));
        assert!(ejection.clear(), "a probe's success");
        plain(&mut ejection, 1000, Outcome::Refused);
        assert!(ejection.begin(at(2000)).is_some());
        ejection.ended(
            at(2000),
            Outcome::Abandoned,
            Tryout {
                trial: old,
                failed_open: false,
            },
        );
        assert!(ejection.blocks(at(2000)));
    }

    #[test]
    fn success_after_failing_open_ends_it() {
        let mut ejection = Ejection::default();
        plain(&mut ejection, 0, Outcome::Refused);
        assert_eq!(ejection.begin(at(10)), None);
        let how = Tryout {
            trial: None,
            failed_open: true,
        };
        assert!(ejection.ended(at(20), Outcome::Complete, how));
        assert!(!ejection.is_ejected());
    }
}
