//! Files that are being written: what they hold counts once two looks in a row find the same.
//!
//! An editor empties a file before it fills it, a certificate and its key are seldom replaced in one step, and half of a
//! list is often a list as well.

/// What the newest look found.
pub(crate) struct Settling<T> {
    newest: T,
}

impl<T: PartialEq> Settling<T> {
    /// After a first look that found this.
    pub(crate) fn new(newest: T) -> Self {
        Self { newest }
    }

    /// Takes what one more look found; gives it back if the look before found the same.
    pub(crate) fn settled(&mut self, now: T) -> Option<&T> {
        let same = self.newest == now;
        self.newest = now;
        same.then_some(&self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_from_look_to_look_never_counts() {
        let mut looks = Settling::new("old");
        assert_eq!(looks.settled("old"), Some(&"old"));
        for text in ["", "ne", "new"] {
            assert_eq!(looks.settled(text), None);
        }
        assert_eq!(looks.settled("new"), Some(&"new"));
    }
}
