//! What a look-up found.

/// The holders of a prompt's beginning, each with how many leading blocks it holds. Kept by the caller from one look-up
/// to the next, so that none allocates.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    hits: Hits,
    /// What the events say, where both are asked.
    pub(super) exact: Hits,
}

impl Matches {
    /// Holder and blocks (at least 1), each holder once, in no particular order.
    #[must_use]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.hits.found
    }

    /// The leading blocks that `holder` has; 0 if it was not found.
    #[must_use]
    pub fn blocks(&self, holder: u32) -> u32 {
        self.hits.get(holder).map_or(0, |place| self.hits.found[place].1)
    }

    /// Forgets what was found.
    pub fn clear(&mut self) {
        self.hits.found.clear();
        self.exact.found.clear();
    }

    pub(super) fn hits(&mut self) -> &mut Hits {
        &mut self.hits
    }

    /// Adds what the events say; of a holder that both know of the longer run counts.
    pub(super) fn merge(&mut self) {
        for (holder, blocks) in &self.exact.found {
            match self.hits.get(*holder) {
                Some(place) => {
                    let known = &mut self.hits.found[place].1;
                    *known = (*known).max(*blocks);
                }
                None => self.hits.add(*holder, *blocks),
            }
        }
    }
}

/// A set of holders in two vectors (Briggs and Torczon 1993): which is never cleared entry by entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Hits {
    found: Vec<(u32, u32)>,
    place: Vec<u32>,
}

impl Hits {
    #[inline]
    fn get(&self, holder: u32) -> Option<usize> {
        let place = *self.place.get(holder as usize)? as usize;
        (self.found.get(place)?.0 == holder).then_some(place)
    }

    /// Adds a holder that is not there.
    #[inline]
    pub(super) fn add(&mut self, holder: u32, blocks: u32) {
        if blocks == 0 {
            return;
        }
        if holder as usize >= self.place.len() {
            self.place.resize(holder as usize + 1, u32::MAX);
        }
        self.place[holder as usize] = u32::try_from(self.found.len()).unwrap_or(u32::MAX);
        self.found.push((holder, blocks));
    }

    /// Adds to a holder that has all of the `before` blocks: every holder where there are none. Whether it has.
    #[inline]
    pub(super) fn extend(&mut self, holder: u32, (before, more): (u32, u32)) -> bool {
        if before == 0 {
            self.add(holder, more);
            return true;
        }
        match self.get(holder) {
            Some(place) if self.found[place].1 == before => {
                self.found[place].1 += more;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_two_accounts_counts() {
        let mut matches = Matches::default();
        for round in 0..3 {
            matches.clear();
            matches.hits().add(7, 3);
            matches.hits().add(2, 0);
            matches.hits().add(9, 5 + round);
            assert!(matches.hits().extend(7, (3, 4)) && !matches.hits().extend(7, (3, 4)));
            matches.exact.add(9, 4);
            matches.exact.add(1, 1);
            matches.exact.add(7, 8);
            matches.merge();
            assert_eq!(matches.as_slice(), [(7, 8), (9, 5 + round), (1, 1)]);
            assert_eq!(
                (matches.blocks(7), matches.blocks(2), matches.blocks(99)),
                (8, 0, 0)
            );
        }
    }
}
