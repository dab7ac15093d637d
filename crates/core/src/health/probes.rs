//! Active probes: when the next one is due, and what the results add up to.

use crate::rng::Rng;
use crate::spec::ProbeSpec;
use crate::time::Time;

/// Probing of one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Probes {
    rules: ProbeSpec,
    due: Time,
    /// Whether one is under way.
    sent: bool,
    failures: u32,
    successes: u32,
    unhealthy: bool,
    /// Last success on real traffic, or the last byte of a stream.
    traffic: Option<Time>,
    /// Whether another endpoint sends them, because both are one process.
    follows: bool,
}

impl Probes {
    /// The first probe comes at a random moment of the first interval, so that a fleet is not probed in step.
    pub(crate) fn new(rules: ProbeSpec, now: Time, rng: &mut Rng) -> Self {
        let due = now.after(rng.within(rules.interval));
        Self {
            rules,
            due,
            sent: false,
            failures: 0,
            successes: 0,
            unhealthy: false,
            traffic: None,
            follows: false,
        }
    }

    /// Leaves the sending to another endpoint, or takes it back.
    pub(crate) fn set_follows(&mut self, follows: bool) {
        self.follows = follows;
    }

    /// Takes the next result as that of a probe of its own.
    pub(crate) fn expect(&mut self) {
        self.sent = true;
    }

    pub(crate) fn reconfigure(&mut self, rules: &ProbeSpec, now: Time) {
        self.due = self.due.min(now.after(rules.interval));
        self.rules = rules.clone();
    }

    #[inline]
    pub(crate) const fn is_unhealthy(&self) -> bool {
        self.unhealthy
    }

    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }

    /// When the next one is due; none while one is under way.
    pub(crate) fn next(&self) -> Option<Time> {
        (!self.sent && !self.follows).then_some(self.due)
    }

    /// Whether one is to be sent now; notes that it is.
    pub(crate) fn send(&mut self, now: Time) -> bool {
        if self.sent || self.follows || now < self.due {
            return false;
        }
        self.sent = true;
        self.due = now.after(self.rules.interval);
        true
    }

    /// A probe came back; the result that counts, or none if none was under way. A success on real traffic within
    /// the interval outweighs a failed probe.
    pub(crate) fn came_back(&mut self, now: Time, healthy: bool) -> Option<bool> {
        if !std::mem::take(&mut self.sent) {
            return None;
        }
        let served = self
            .traffic
            .is_some_and(|at| now.since(at) <= self.rules.interval);
        let healthy = healthy || served;
        if healthy {
            self.failures = 0;
            self.successes = self.successes.saturating_add(1);
            if self.successes >= self.rules.healthy_after {
                self.unhealthy = false;
            }
        } else {
            self.successes = 0;
            self.failures = self.failures.saturating_add(1);
            if self.failures >= self.rules.unhealthy_after {
                self.unhealthy = true;
            }
        }
        Some(healthy)
    }

    /// A request on real traffic succeeded at `at`, or a stream delivered something.
    pub(crate) fn served(&mut self, at: Time) {
        self.traffic = self.traffic.max(Some(at));
    }

    /// A success after failing open: it is healthy.
    pub(crate) fn clear(&mut self) {
        self.unhealthy = false;
        self.failures = 0;
        self.successes = 0;
    }

    /// When enough probes could have succeeded.
    pub(crate) fn back(&self, now: Time) -> Time {
        let next = if self.sent { now } else { self.due.max(now) };
        let more = self
            .rules
            .healthy_after
            .saturating_sub(self.successes)
            .saturating_sub(1);
        next.after(self.rules.interval.saturating_mul(more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time::from_origin(Duration::from_millis(millis))
    }

    fn probes() -> Probes {
        Probes {
            due: at(0),
            ..Probes::new(
                ProbeSpec {
                    interval: Duration::from_secs(5),
                    unhealthy_after: 3,
                    healthy_after: 2,
                },
                at(0),
                &mut Rng::new(1),
            )
        }
    }

    fn run(probes: &mut Probes, now: u64, healthy: bool) -> bool {
        assert!(probes.send(at(now)), "due at {now}");
        assert!(!probes.send(at(now + 60_000)), "never two at once");
        probes.came_back(at(now + 100), healthy);
        probes.is_unhealthy()
    }

    #[test]
    fn three_failures_in_a_row_then_two_successes() {
        let mut p = probes();
        let seen = [
            (0, false),
            (5_000, false),
            (10_000, true),
            (15_000, false),
            (20_000, false),
            (25_000, false),
            (30_000, true),
            (35_000, true),
        ]
        .map(|(now, healthy)| run(&mut p, now, healthy));
        assert_eq!(seen, [false, false, false, false, false, true, true, false]);
    }

    #[test]
    fn traffic_within_the_interval_counts_as_a_success() {
        let mut p = probes();
        run(&mut p, 0, false);
        run(&mut p, 5_000, false);
        p.served(at(5_100));
        assert!(!run(&mut p, 10_000, false));
        assert_eq!(p.failures(), 0);
        assert!(!run(&mut p, 15_000, false));
        assert_eq!(p.failures(), 1);
    }

    #[test]
    fn every_interval_from_a_jittered_start() {
        let rules = probes().rules;
        let starts: Vec<_> = (0..50)
            .map(|seed| Probes::new(rules.clone(), at(1000), &mut Rng::new(seed)).due)
            .collect();
        assert!(starts.iter().all(|due| *due >= at(1000) && *due < at(6000)));
        assert!(starts.iter().any(|due| *due < at(2500)) && starts.iter().any(|due| *due > at(4500)));
        let mut p = probes();
        assert!(p.send(at(0)));
        assert_eq!(p.next(), None);
        p.came_back(at(300), true);
        assert_eq!(p.next(), Some(at(5000)));
        assert_eq!(p.came_back(at(400), false), None, "one that nobody sent");
    }

    #[test]
    fn the_way_back_is_estimated_from_probes_to_come() {
        let mut p = probes();
        for now in [0, 5_000, 10_000] {
            run(&mut p, now, false);
        }
        assert_eq!(p.back(at(10_200)), at(20_000));
        run(&mut p, 15_000, true);
        assert_eq!(p.back(at(15_200)), at(20_000));
    }
}
