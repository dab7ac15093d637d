//! The circuit breaker: keeps requests from an endpoint that answers them badly.

use crate::health::verdict::Verdict;
use crate::health::window::Window;
use crate::spec::BreakerSpec;
use crate::time::Time;

/// Closed, open, or half-open: open with its time over, one request at a time being let through.
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    rules: BreakerSpec,
    /// Successes and failures.
    window: Window,
    /// Failures in a row; an attempt that is neither does not interrupt it.
    row: u32,
    /// When it is half-open; none while closed.
    until: Option<Time>,
    /// Whether the half-open request is under way.
    trial: bool,
    /// Changes whenever it opens or closes, so that an old trial's end never frees a new one's slot.
    epoch: u32,
    cause: Cause,
}

#[derive(Clone, Copy, Debug)]
enum Cause {
    Row(u32),
    Rate { failures: u64, of: u64 },
    Trial,
}

const SUCCESS: usize = 0;
const FAILURE: usize = 1;

impl Breaker {
    pub(crate) fn new(rules: BreakerSpec) -> Self {
        Self {
            window: Window::new(rules.window),
            rules,
            row: 0,
            until: None,
            trial: false,
            epoch: 0,
            cause: Cause::Trial,
        }
    }

    /// Goes on under other rules; counts are kept unless their span changed.
    pub(crate) fn reconfigure(&mut self, rules: &BreakerSpec) {
        if self.window.span() != rules.window {
            self.window = Window::new(rules.window);
        }
        self.rules = rules.clone();
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.until.is_some()
    }

    /// Whether requests must go elsewhere.
    #[inline]
    pub(crate) fn blocks(&self, now: Time) -> bool {
        self.until.is_some_and(|until| self.trial || now < until)
    }

    /// When it is half-open; none while closed or while the half-open request is under way.
    pub(crate) fn back(&self) -> Option<Time> {
        self.until.filter(|_| !self.trial)
    }

    /// An attempt starts; if it is the half-open one, its epoch.
    pub(crate) fn begin(&mut self, now: Time) -> Option<u32> {
        if self.until.is_none() || self.blocks(now) {
            return None;
        }
        self.trial = true;
        Some(self.epoch)
    }

    /// An attempt ended.
    pub(crate) fn ended(&mut self, now: Time, verdict: Verdict, trial: Option<u32>) {
        if self.until.is_none() {
            self.count(now, verdict);
            return;
        }
        // Requests sent before it opened say nothing new.
        if !self.trial || trial != Some(self.epoch) {
            return;
        }
        self.trial = false;
        match verdict {
            Verdict::Success => self.close(),
            Verdict::Failure => self.open(now, Cause::Trial),
            Verdict::Neither => {}
        }
    }

    /// Closes it and forgets what it counted.
    pub(crate) fn close(&mut self) {
        if self.until.take().is_some() {
            self.epoch = self.epoch.wrapping_add(1);
            self.window.clear();
        }
        self.trial = false;
        self.row = 0;
    }

    /// Why, for a person.
    pub(crate) fn reason(&self, now: Time) -> String {
        let half_open = self.until.is_some_and(|until| now >= until);
        let state = match (self.trial, half_open) {
            (true, _) => "; half-open, one request on trial",
            (false, true) => "; half-open, waiting for a trial request",
            (false, false) => "",
        };
        match self.cause {
            Cause::Row(failures) => format!("{failures} failures in a row{state}"),
            Cause::Rate { failures, of } => {
                let span = self.rules.window.as_secs_f64();
                format!("{failures} of {of} requests failed within {span} s{state}")
            }
            Cause::Trial => format!("the trial request failed{state}"),
        }
    }

    fn count(&mut self, now: Time, verdict: Verdict) {
        let [good, bad] = match verdict {
            Verdict::Neither => return,
            Verdict::Success => {
                self.row = 0;
                self.window.add(now, SUCCESS)
            }
            Verdict::Failure => {
                self.row = self.row.saturating_add(1);
                self.window.add(now, FAILURE)
            }
        };
        if self.row >= self.rules.consecutive {
            self.open(now, Cause::Row(self.row));
        } else if good + bad >= u64::from(self.rules.min_requests) && self.too_many(bad, good + bad) {
            self.open(
                now,
                Cause::Rate {
                    failures: bad,
                    of: good + bad,
                },
            );
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of one window are far below 2^53"
    )]
    fn too_many(&self, failures: u64, of: u64) -> bool {
        failures as f64 > self.rules.error_rate * of as f64
    }

    fn open(&mut self, now: Time, cause: Cause) {
        self.until = Some(now.after(self.rules.open_for));
        self.epoch = self.epoch.wrapping_add(1);
        self.trial = false;
        self.cause = cause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn rules() -> BreakerSpec {
        BreakerSpec {
            window: Duration::from_secs(30),
            min_requests: 10,
            error_rate: 0.10,
            consecutive: 5,
            open_for: Duration::from_secs(10),
        }
    }

    fn at(millis: u64) -> Time {
        Time::from_origin(Duration::from_millis(millis))
    }

    /// `s`, `f` and `n` for success, failure and neither, one per 10 ms from `start`.
    fn feed(breaker: &mut Breaker, start: u64, row: &str) {
        for (step, letter) in (0..).zip(row.chars()) {
            let verdict = match letter {
                's' => Verdict::Success,
                'f' => Verdict::Failure,
                _ => Verdict::Neither,
            };
            breaker.ended(at(start + step * 10), verdict, None);
        }
    }

    fn check(row: &str, open: bool) {
        let mut breaker = Breaker::new(rules());
        feed(&mut breaker, 0, row);
        assert_eq!(breaker.is_open(), open, "{row}");
    }

    #[test]
    fn opens_after_five_in_a_row() {
        check("ffff", false);
        check("fffff", true);
        check("ffffsffff", false);
        check("fnfnfnfnf", true);
        check("nnnnnnnnnnnnnnn", false);
    }

    #[test]
    fn opens_strictly_above_the_rate_with_enough_requests() {
        check("sssssssssf", false);
        check("ssssssssff", true);
        check("fssssssssf", true);
        check("ffsssssss", false);
        check("ffssssssss", true);
        check("fsssssssssnnnn", false);
        check("fssssssssssssssssssf", false);
    }

    #[test]
    fn failures_outside_the_window_do_not_count() {
        let mut breaker = Breaker::new(rules());
        feed(&mut breaker, 0, "ff");
        feed(&mut breaker, 30_100, "ssssssssss");
        assert!(!breaker.is_open());
    }

    #[test]
    fn half_open_lets_one_through_and_its_success_closes() {
        let mut breaker = Breaker::new(rules());
        feed(&mut breaker, 0, "fffff");
        assert!(breaker.blocks(at(10_039)));
        assert_eq!(breaker.begin(at(10_039)), None);
        assert!(!breaker.blocks(at(10_040)));
        let trial = breaker.begin(at(10_040));
        assert!(trial.is_some() && breaker.blocks(at(10_040)));
        assert_eq!(breaker.begin(at(10_040)), None);
        breaker.ended(at(10_050), Verdict::Success, trial);
        assert!(!breaker.is_open());
        feed(&mut breaker, 10_060, "ffff");
        assert!(!breaker.is_open(), "counts start anew");
    }

    #[test]
    fn half_open_failure_opens_again_and_neither_gives_the_slot_back() {
        let mut breaker = Breaker::new(rules());
        feed(&mut breaker, 0, "fffff");
        let trial = breaker.begin(at(11_000));
        breaker.ended(at(11_000), Verdict::Neither, trial);
        assert!(breaker.is_open() && !breaker.blocks(at(11_000)));
        let trial = breaker.begin(at(12_000));
        breaker.ended(at(12_000), Verdict::Failure, trial);
        assert!(breaker.blocks(at(21_999)) && !breaker.blocks(at(22_000)));
    }

    #[test]
    fn requests_from_before_neither_open_nor_close_it() {
        let mut breaker = Breaker::new(rules());
        feed(&mut breaker, 0, "fffff");
        feed(&mut breaker, 5_000, "fsf");
        assert!(breaker.is_open() && !breaker.blocks(at(10_040)));
        let old = breaker.begin(at(10_040));
        breaker.close();
        feed(&mut breaker, 10_050, "fffff");
        let new = breaker.begin(at(30_000));
        breaker.ended(at(30_000), Verdict::Neither, old);
        assert!(new.is_some() && breaker.blocks(at(30_000)));
    }
}
