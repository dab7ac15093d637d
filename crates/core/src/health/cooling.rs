//! Cooling: an upstream asked us to come back later. Counted per (endpoint, upstream key).

use crate::event::Outcome;
use crate::health::verdict::asks_to_wait;
use crate::spec::CooldownSpec;
use crate::time::Time;
use smallvec::{SmallVec, smallvec};
use std::time::Duration;

/// Waits of the keys of one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Cooling {
    keys: SmallVec<[Cool; 1]>,
    /// When the first key is back; the origin while one never cooled.
    soonest: Time,
    /// Where the search for the next key starts.
    next: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cool {
    until: Time,
    code: u16,
    asked: Option<Duration>,
}

impl Cooling {
    pub(crate) fn new(keys: u16) -> Self {
        Self {
            keys: smallvec![Cool::default(); usize::from(keys.max(1))],
            soonest: Time::ZERO,
            next: 0,
        }
    }

    /// Keeps the waits of keys that remain after a reload.
    pub(crate) fn resize(&mut self, keys: u16) {
        self.keys.resize(usize::from(keys.max(1)), Cool::default());
        self.next = 0;
        self.settle();
    }

    /// Whether every key cools.
    #[inline]
    pub(crate) fn blocks(&self, now: Time) -> bool {
        self.soonest > now
    }

    /// When the first key is back.
    pub(crate) const fn until(&self) -> Time {
        self.soonest
    }

    /// Takes note of an answer that used `key`. A later, longer wait extends; a shorter one never shortens.
    pub(crate) fn ended(&mut self, now: Time, outcome: Outcome, (key, rules): (u16, &CooldownSpec)) {
        let (Some(asked), Outcome::Status { code, .. }) = (asks_to_wait(outcome), outcome) else {
            return;
        };
        let until = now.after(asked.unwrap_or(rules.default).min(rules.max));
        if let Some(cool) = self.keys.get_mut(usize::from(key))
            && until > cool.until
        {
            *cool = Cool { until, code, asked };
            self.settle();
        }
    }

    /// The next key in rotation that neither cools nor is `tried`.
    pub(crate) fn pick(&self, now: Time, tried: impl Fn(u16) -> bool) -> Option<u16> {
        let count = self.keys.len();
        (0..count)
            .map(|step| (usize::from(self.next) + step) % count)
            .find_map(|place| {
                let key = u16::try_from(place).ok()?;
                (self.keys[place].until <= now && !tried(key)).then_some(key)
            })
    }

    /// Moves the rotation behind `key`.
    pub(crate) fn took(&mut self, key: u16) {
        self.next = key.wrapping_add(1);
        if usize::from(self.next) >= self.keys.len() {
            self.next = 0;
        }
    }

    /// Keys that cool and when they are back.
    pub(crate) fn cooling(&self, now: Time) -> Vec<(u16, Time)> {
        (0..)
            .zip(&self.keys)
            .filter(|(_, cool)| cool.until > now)
            .map(|(key, cool)| (key, cool.until))
            .collect()
    }

    /// Why it cools, for a person.
    pub(crate) fn reason(&self) -> String {
        let Some(cool) = self.keys.iter().min_by_key(|cool| cool.until) else {
            return String::new();
        };
        match cool.asked {
            Some(wait) => format!("{} with Retry-After {} s", cool.code, wait.as_secs_f64()),
            None => format!("{} without Retry-After", cool.code),
        }
    }

    fn settle(&mut self) {
        self.soonest = self.keys.iter().map(|cool| cool.until).min().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: CooldownSpec = CooldownSpec {
        default: Duration::from_secs(5),
        max: Duration::from_secs(60),
    };

    fn at(seconds: u64) -> Time {
        Time::from_origin(Duration::from_secs(seconds))
    }

    fn answer(code: u16, retry_after: Option<u64>) -> Outcome {
        Outcome::Status {
            code,
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    fn check(answers: &[(u64, Outcome)], expect: u64) {
        let mut cooling = Cooling::new(1);
        for (second, outcome) in answers {
            cooling.ended(at(*second), *outcome, (0, &RULES));
        }
        assert_eq!(cooling.until(), at(expect), "{answers:?}");
    }

    #[test]
    fn waits_as_long_as_was_asked() {
        check(&[(10, answer(429, Some(3)))], 13);
        check(&[(10, answer(503, Some(7)))], 17);
        check(&[(10, answer(529, Some(2)))], 12);
    }

    #[test]
    fn default_cap_and_none() {
        check(&[(10, answer(429, None))], 15);
        check(&[(10, answer(529, None))], 15);
        check(&[(10, answer(503, None))], 0);
        check(&[(10, answer(500, Some(9)))], 0);
        check(&[(10, answer(429, Some(86_400)))], 70);
    }

    #[test]
    fn longer_extends_and_shorter_never_shortens() {
        check(&[(10, answer(429, Some(1))), (10, answer(429, Some(4)))], 14);
        check(&[(10, answer(429, Some(4))), (11, answer(429, Some(1)))], 14);
    }

    #[test]
    fn keys_rotate_and_cool_on_their_own() {
        let mut cooling = Cooling::new(3);
        let free = |_| false;
        assert_eq!(cooling.pick(at(0), free), Some(0));
        cooling.took(0);
        assert_eq!(cooling.pick(at(0), free), Some(1));
        cooling.ended(at(0), answer(429, Some(9)), (1, &RULES));
        assert_eq!(cooling.pick(at(0), free), Some(2));
        cooling.took(2);
        cooling.ended(at(0), answer(429, Some(4)), (0, &RULES));
        assert!(!cooling.blocks(at(1)));
        assert_eq!(cooling.pick(at(1), |key| key == 2), None);
        cooling.ended(at(1), answer(429, Some(6)), (2, &RULES));
        assert!(cooling.blocks(at(3)) && !cooling.blocks(at(4)));
        assert_eq!(cooling.cooling(at(5)), [(1, at(9)), (2, at(7))]);
        assert_eq!(cooling.reason(), "429 with Retry-After 4 s");
    }

    #[test]
    fn reload_keeps_the_waits_of_remaining_keys() {
        let mut cooling = Cooling::new(2);
        cooling.ended(at(0), answer(429, Some(9)), (0, &RULES));
        cooling.resize(1);
        assert!(cooling.blocks(at(8)));
        cooling.resize(2);
        assert_eq!(cooling.pick(at(8), |_| false), Some(1));
    }
}
