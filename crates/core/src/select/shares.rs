//! Exact shares: who is next, so that everybody's count stays as near as can be to its share.
//!
//! The rule is R. Tijdeman's for the chairman assignment problem (Discrete Mathematics 32, 1980): among those that
//! are owed at least 1 / (2k − 2) of a turn, the one whose claim would first run over goes next. After any number of
//! turns every count is within 1 − 1 / (2k − 2) of its share, so over any n turns in a row within 2; plain smooth
//! weighted round-robin (the largest claim goes next) has no such bound for every set of weights. All in integers: a
//! claim is counted in units of 1 / Σ weights of a turn.
//!
//! With k weights whose sum is W after division by their greatest common divisor, the claims are all zero again
//! after W turns, so the sequence repeats and every window of W turns is exact.
//!
//! Each set of live members has claims of its own: a member that was away earned nothing, owes nothing, and
//! the sequence of the full set goes on where it stopped.

use smallvec::SmallVec;

/// How many live sets keep their claims.
const SETS: usize = 32;

/// The members among whom to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// Their places, ascending.
    pub(crate) places: Vec<u32>,
    /// Their weights, > 0.
    pub(crate) weights: Vec<u64>,
}

impl Members {
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.weights.clear();
    }

    pub(crate) fn push(&mut self, place: u32, weight: u64) {
        self.places.push(place);
        self.weights.push(weight.max(1));
    }
}

/// Claims for the live sets seen most recently.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    /// The one used last comes first.
    sets: Vec<Claims>,
    /// Sets that were forgotten; moves the start of new ones, so that their first turns are not all the same.
    forgotten: u64,
}

#[derive(Clone, Debug)]
struct Claims {
    members: Members,
    /// Weights divided by their greatest common divisor.
    units: Vec<i128>,
    total: i128,
    claims: Vec<i128>,
}

impl Book {
    /// Index into `members` of who is next.
    pub(crate) fn next(&self, members: &Members) -> usize {
        match self.sets.iter().find(|set| set.members == *members) {
            Some(set) => set.next(),
            None => self.fresh(members).next(),
        }
    }

    /// Gives `chosen` its turn.
    pub(crate) fn advance(&mut self, members: &Members, chosen: usize) {
        if let Some(found) = self.sets.iter().position(|set| set.members == *members) {
            self.sets[..=found].rotate_right(1);
        } else {
            let fresh = self.fresh(members);
            // The same places with other weights: the weights were changed, and the old claims are void.
            self.sets.retain(|set| set.members.places != members.places);
            if self.sets.len() == SETS {
                self.sets.pop();
                self.forgotten += 1;
            }
            self.sets.insert(0, fresh);
        }
        self.sets[0].advance(chosen);
    }

    fn fresh(&self, members: &Members) -> Claims {
        let mut claims = Claims::new(members);
        let period = usize::try_from(claims.total).unwrap_or(usize::MAX);
        let ahead = self.forgotten as usize % period.min(SETS);
        for _ in 0..ahead {
            claims.advance(claims.next());
        }
        claims
    }
}

impl Claims {
    fn new(members: &Members) -> Self {
        let divisor = members.weights.iter().copied().fold(0, gcd).max(1);
        let units: Vec<_> = (members.weights.iter())
            .map(|weight| i128::from(weight / divisor))
            .collect();
        Self {
            members: members.clone(),
            total: units.iter().sum::<i128>().max(1),
            claims: vec![0; units.len()],
            units,
        }
    }

    fn next(&self) -> usize {
        let slack = 2 * i128::try_from(self.units.len()).unwrap_or(i128::MAX) - 2;
        if slack <= 0 {
            return 0;
        }
        let mut best: Option<(usize, i128, i128)> = None;
        for (place, (unit, claim)) in self.units.iter().zip(&self.claims).enumerate() {
            let owed = (claim + unit) * slack;
            if owed < self.total {
                continue;
            }
            // Turns until the claim would run over are room / unit; fractions are compared crosswise.
            let room = (slack - 1) * self.total - owed;
            if best.is_none_or(|(_, least, of)| room * of < least * unit) {
                best = Some((place, room, *unit));
            }
        }
        best.map_or(0, |(place, _, _)| place)
    }

    fn advance(&mut self, chosen: usize) {
        for (claim, unit) in self.claims.iter_mut().zip(&self.units) {
            *claim += unit;
        }
        if let Some(claim) = self.claims.get_mut(chosen) {
            *claim -= self.total;
        }
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A book for what counts and one for what is outside the count: retries, fallbacks, and requests for which
/// a filter removed a target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    counted: Book,
    outside: Book,
}

impl Ledger {
    pub(crate) const fn book(&self, counted: bool) -> &Book {
        if counted { &self.counted } else { &self.outside }
    }

    pub(crate) const fn book_mut(&mut self, counted: bool) -> &mut Book {
        if counted {
            &mut self.counted
        } else {
            &mut self.outside
        }
    }
}

/// Turns by weights that change all the time: smooth weighted round-robin, whose credits outlive a change of weights. A
/// [`Book`] starts a new sequence instead, with the heaviest, which sparse requests would never get beyond.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credits(Vec<f64>);

impl Credits {
    /// Index into `members` of who is next: the largest credit after the turn's shares are handed out.
    pub(crate) fn next(&self, members: &Members) -> usize {
        let sum = sum_of(members);
        let mut best: Option<(usize, f64)> = None;
        for (index, (place, weight)) in members.places.iter().zip(&members.weights).enumerate() {
            let credit = self.of(*place) + share(*weight, sum);
            if best.is_none_or(|(_, most)| credit > most) {
                best = Some((index, credit));
            }
        }
        best.map_or(0, |(index, _)| index)
    }

    pub(crate) fn advance(&mut self, members: &Members, chosen: usize) {
        let sum = sum_of(members);
        for (index, (place, weight)) in members.places.iter().zip(&members.weights).enumerate() {
            let place = *place as usize;
            if self.0.len() <= place {
                self.0.resize(place + 1, 0.0);
            }
            self.0[place] += share(*weight, sum) - if index == chosen { 1.0 } else { 0.0 };
        }
    }

    fn of(&self, place: u32) -> f64 {
        self.0.get(place as usize).copied().unwrap_or(0.0)
    }
}

fn sum_of(members: &Members) -> u64 {
    let sum = members
        .weights
        .iter()
        .fold(0_u64, |sum, weight| sum.saturating_add(*weight));
    sum.max(1)
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
fn share(weight: u64, of: u64) -> f64 {
    weight as f64 / of as f64
}

/// Turns of a route's targets, and of the endpoints inside each.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    pub(crate) targets: Ledger,
    pub(crate) inside: SmallVec<[Inside; 2]>,
}

/// Turns inside one target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inside {
    /// By endpoint weight.
    pub(crate) endpoints: Ledger,
    /// By weights that follow the load.
    pub(crate) credits: Credits,
    /// Place of the endpoint chosen last; ties go on after it.
    pub(crate) last: Option<u32>,
}

impl Shares {
    pub(crate) fn new(targets: usize) -> Self {
        Self {
            targets: Ledger::default(),
            inside: (0..targets).map(|_| Inside::default()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(weights: &[u64]) -> Members {
        let mut members = Members::default();
        for (place, weight) in (0..).zip(weights) {
            members.push(place, *weight);
        }
        members
    }

    fn take(book: &mut Book, members: &Members) -> usize {
        let next = book.next(members);
        book.advance(members, next);
        next
    }

    fn check(weights: &[u64], expect: &str) {
        let (mut book, members) = (Book::default(), members(weights));
        let row: String = expect
            .chars()
            .map(|_| ['a', 'b', 'c', 'd'][take(&mut book, &members)])
            .collect();
        assert_eq!(row, expect, "{weights:?}");
    }

    #[test]
    fn spreads_turns_evenly() {
        check(&[1, 1, 1], "abcabcabc");
        check(&[2, 1], "abaaba");
        check(&[3, 1], "aabaaaba");
        check(&[7], "aaa");
    }

    #[test]
    fn tiny_weights_get_their_share() {
        let members = members(&[1_000_000, 5_000]);
        let mut book = Book::default();
        let small = (0..4020).filter(|_| take(&mut book, &members) == 1).count();
        assert_eq!(small, 20);
    }

    #[test]
    fn many_sets_do_not_grow_without_bound_nor_favour_the_first() {
        let mut book = Book::default();
        let mut counts = [0u32; 12];
        for round in 0..12_000u32 {
            let mask = (round.wrapping_mul(2_654_435_761) >> 20) | 0b11;
            let mut live = Members::default();
            (0..12)
                .filter(|place| mask & (1 << place) != 0)
                .for_each(|place| live.push(place, 1));
            let chosen = take(&mut book, &live);
            counts[live.places[chosen] as usize] += 1;
        }
        assert!(book.sets.len() <= SETS);
        assert!(counts[0] < 12_000 / 3, "{counts:?}");
    }

    proptest! {
        /// Over any window, within 2 of the share (the semantics ask for 3); exact over a whole period.
        #[test]
        fn any_window_is_near_its_share(
            weights in prop_oneof![
                prop::collection::vec(1u64..40, 1..60),
                prop::collection::vec(prop_oneof![Just(1u64), 1u64..10, 500u64..1000, 100_000u64..1_000_000], 1..60),
                (1usize..40).prop_map(|n| (0..n).map(|i| 1u64 << i).collect()),
            ],
            turns in 1usize..3000,
        ) {
            let members = members(&weights);
            let mut book = Book::default();
            let total: i128 = weights.iter().map(|w| i128::from(*w)).sum();
            let k = weights.len();
            let mut lag = vec![0i128; k];
            let (mut low, mut high) = (lag.clone(), lag.clone());
            for _ in 0..turns {
                let chosen = take(&mut book, &members);
                for place in 0..k {
                    lag[place] += i128::from(weights[place]);
                    if place == chosen {
                        lag[place] -= total;
                    }
                    low[place] = low[place].min(lag[place]);
                    high[place] = high[place].max(lag[place]);
                }
            }
            for place in 0..k {
                prop_assert!(high[place] - low[place] < 2 * total, "{weights:?} place {place}");
            }
        }

        /// A period from any turn on is exact, with other live sets served in between.
        #[test]
        fn any_whole_period_is_exact(
            weights in prop::collection::vec(1u64..12, 2..8),
            start in 0usize..40,
            absences in prop::collection::vec((any::<u16>(), any::<u8>()), 0..100),
        ) {
            let all = members(&weights);
            let mut book = Book::default();
            (0..start).for_each(|_| { take(&mut book, &all); });
            let divisor = weights.iter().copied().fold(0, gcd);
            let period = usize::try_from(weights.iter().sum::<u64>() / divisor).unwrap();
            let mut counts = vec![0u64; weights.len()];
            let mut absences = absences.into_iter();
            for turn in 0..period {
                counts[take(&mut book, &all)] += divisor;
                if turn % 3 == 0 && let Some((times, away)) = absences.next() {
                    let away = usize::from(away) % weights.len();
                    let mut live = Members::default();
                    (0u32..).zip(&weights).filter(|(p, _)| *p as usize != away).for_each(|(p, w)| live.push(p, *w));
                    (0..times % 50).for_each(|_| { take(&mut book, &live); });
                }
            }
            prop_assert_eq!(counts, weights);
        }
    }
}
