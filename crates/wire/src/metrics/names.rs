//! Tables of metric names, and finding a name in them.

use super::signal::Signal;
use std::borrow::Cow;

/// What is known of an engine's `/metrics`.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The engine, as documentation calls it.
    pub engine: &'static str,
    /// Where its page is unless the config says otherwise.
    pub path: &'static str,
    /// The label that tells data-parallel ranks apart; empty: there are none.
    pub rank: &'static str,
    /// Labels of workers of one rank that all report the same: the first of them on the page counts.
    pub repeated: &'static [&'static str],
    /// The names.
    pub entries: &'static [Entry],
}

/// One name and what it says.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The metric.
    pub name: Cow<'static, str>,
    /// What it says.
    pub signal: Signal,
    /// Only series with this value of this label.
    pub only: Option<(Cow<'static, str>, Cow<'static, str>)>,
    /// Where in the series the value is.
    pub read: Read,
    /// What the page's number is multiplied with.
    pub scale: f64,
    /// Several names can say the same: 0 is believed first, a higher one only where no lower one is there. Names that
    /// share a place are added up.
    pub place: u8,
    /// How we know.
    pub origin: Origin,
}

/// Where in a series a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Its number.
    Value,
    /// A number in a label.
    Label(&'static str),
    /// Loaded adapters, in three labels; of several series the one with the highest number is the newest.
    Adapters {
        /// Names, with commas, of those that run.
        running: &'static str,
        /// Names, with commas, of those that wait.
        waiting: &'static str,
        /// How many fit.
        max: &'static str,
    },
}

/// How a name got into a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Seen on the `/metrics` of a process that ran.
    Seen,
    /// Seen in a published sample of a real page.
    Sample,
    /// From the engine's documentation or source alone.
    Documented,
    /// From the user's config.
    Config,
}

impl Entry {
    const fn of(signal: Signal, name: &'static str, origin: Origin) -> Self {
        Self::full((signal, name), None, origin)
    }

    const fn full(
        (signal, name): (Signal, &'static str),
        only: Option<(Cow<'static, str>, Cow<'static, str>)>,
        origin: Origin,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            signal,
            only,
            read: Read::Value,
            scale: 1.0,
            place: 0,
            origin,
        }
    }

    pub(super) const fn seen(signal: Signal, name: &'static str) -> Self {
        Self::of(signal, name, Origin::Seen)
    }

    pub(super) const fn sample(signal: Signal, name: &'static str) -> Self {
        Self::of(signal, name, Origin::Sample)
    }

    pub(super) const fn documented(signal: Signal, name: &'static str) -> Self {
        Self::of(signal, name, Origin::Documented)
    }

    /// A name of lower rank: see [`Self::place`].
    pub(super) const fn place(mut self, place: u8) -> Self {
        self.place = place;
        self
    }

    pub(super) const fn read(mut self, read: Read) -> Self {
        self.read = read;
        self
    }

    /// Where one name says several things, told apart by a label.
    pub(super) const fn part(
        signal: Signal,
        name: &'static str,
        (label, value): (&'static str, &'static str),
    ) -> Self {
        let only = Some((Cow::Borrowed(label), Cow::Borrowed(value)));
        Self::full((signal, name), only, Origin::Sample)
    }

    /// A name of the user's own engine, of which perhaps one part counts. It takes the place of the tables' names for
    /// that signal.
    #[must_use]
    pub fn custom(signal: Signal, name: String, only: Option<(String, String)>, scale: f64) -> Self {
        Self {
            name: Cow::Owned(name),
            only: only.map(|(label, value)| (Cow::Owned(label), Cow::Owned(value))),
            scale,
            ..Self::of(signal, "", Origin::Config)
        }
    }
}

/// The names to look for on one kind of page.
#[derive(Debug, Clone)]
pub struct Names {
    /// By length, then name: most names of a page are told apart by their length.
    entries: Vec<Entry>,
    /// Bit n: some name has n bytes (of 127 and more: the last bit).
    lengths: u128,
    pub(super) ranks: Vec<&'static str>,
    pub(super) repeated: Vec<&'static str>,
}

impl Names {
    /// Those of the tables, and the user's own in the place of the tables' for the same signal.
    #[must_use]
    pub fn new(tables: &[&Table], own: &[Entry]) -> Self {
        let replaced = |entry: &&Entry| own.iter().all(|mine| mine.signal != entry.signal);
        let mut entries: Vec<Entry> = tables
            .iter()
            .flat_map(|table| table.entries)
            .filter(replaced)
            .chain(own)
            .cloned()
            .collect();
        entries.sort_by(|a, b| order(a, b.name.as_bytes()));
        let mut ranks: Vec<_> = tables
            .iter()
            .map(|table| table.rank)
            .filter(|label| !label.is_empty())
            .collect();
        ranks.sort_unstable();
        ranks.dedup();
        Self {
            lengths: entries
                .iter()
                .fold(0, |bits, entry| bits | length_bit(entry.name.as_bytes())),
            entries,
            ranks,
            repeated: tables.iter().flat_map(|table| table.repeated).copied().collect(),
        }
    }

    /// What a name says; a name can say several things.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> &[Entry] {
        if self.lengths & length_bit(name) == 0 {
            return &[];
        }
        let start = self.entries.partition_point(|entry| order(entry, name).is_lt());
        let rest = self.entries.get(start..).unwrap_or_default();
        let count = rest
            .iter()
            .take_while(|entry| entry.name.as_bytes() == name)
            .count();
        rest.get(..count).unwrap_or_default()
    }
}

fn order(entry: &Entry, name: &[u8]) -> std::cmp::Ordering {
    let bytes = entry.name.as_bytes();
    bytes.len().cmp(&name.len()).then_with(|| bytes.cmp(name))
}

fn length_bit(name: &[u8]) -> u128 {
    1 << name.len().min(127)
}

#[cfg(test)]
mod tests {
    use super::super::engines;
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        let names = Names::new(engines::ALL, &[]);
        for table in engines::ALL {
            for entry in table.entries {
                let found = names.find(entry.name.as_bytes());
                assert!(
                    found.iter().any(|one| one.signal == entry.signal),
                    "{}",
                    entry.name
                );
                assert!(found.iter().all(|one| one.name == entry.name));
                assert!(names.find(format!("{}_", entry.name).as_bytes()).is_empty());
            }
        }
        assert!(names.find(b"").is_empty());
        assert!(names.find(&[b'x'; 500]).is_empty());
    }

    #[test]
    fn ones_own_name_takes_the_place_of_the_tables() {
        let own = Entry::custom(Signal::Waiting, "my:queue".into(), None, 1.0);
        assert_eq!(own.origin, Origin::Config);
        let names = Names::new(&[&engines::VLLM], &[own]);
        assert!(names.find(b"vllm:num_requests_waiting").is_empty());
        assert_eq!(names.find(b"my:queue").len(), 1);
        assert_eq!(names.find(b"vllm:num_requests_running").len(), 1);
    }
}
