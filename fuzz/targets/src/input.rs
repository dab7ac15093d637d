//! Reading decisions off the front of an input; one that has run out decides for zero.

/// What is left of an input.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    pub(crate) fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `len` bytes, or all that is left.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Up to seven places to cut at, as shares of 65536.
    pub(crate) fn cuts(&mut self) -> Vec<u16> {
        (0..self.byte() % 8).map(|_| self.short()).collect()
    }
}

/// `whole` cut at these places.
pub(crate) fn cut<'a>(whole: &'a [u8], cuts: &[u16]) -> Vec<&'a [u8]> {
    let place = |cut: &u16| usize::from(*cut) * (whole.len() + 1) / 65536;
    let mut ends: Vec<usize> = cuts.iter().map(place).chain([whole.len()]).collect();
    ends.sort_unstable();
    let mut start = 0;
    ends.into_iter()
        .map(|end| &whole[std::mem::replace(&mut start, end)..end])
        .collect()
}
