//! Tokens that a router's requests still have before them.

use std::collections::BTreeMap;

/// Tokens of requests under way, by request and summed by endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnderWay {
    of: BTreeMap<usize, u64>,
    sums: BTreeMap<usize, u64>,
}

impl UnderWay {
    /// Request number `index` goes to an endpoint.
    pub fn begin(&mut self, index: usize, endpoint: usize, tokens: u64) {
        self.of.insert(index, tokens);
        *self.sums.entry(endpoint).or_default() += tokens;
    }

    /// It counts no longer; the second time nothing happens.
    pub fn end(&mut self, index: usize, endpoint: usize) {
        if let (Some(tokens), Some(sum)) = (self.of.remove(&index), self.sums.get_mut(&endpoint)) {
            *sum -= tokens;
        }
    }

    /// Tokens under way at an endpoint.
    #[must_use]
    pub fn at(&self, endpoint: usize) -> u64 {
        self.sums.get(&endpoint).copied().unwrap_or(0)
    }
}

/// Tokens at endpoints, whatever requests they are of.
#[cfg(test)]
impl<const N: usize> From<[(usize, u64); N]> for UnderWay {
    fn from(sums: [(usize, u64); N]) -> Self {
        Self {
            sums: sums.into(),
            ..Self::default()
        }
    }
}
