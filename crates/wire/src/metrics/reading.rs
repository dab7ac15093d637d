//! An engine's page → what it says of each rank.

use super::names::{Entry, Names, Read};
use super::signal::{Signal, Together, Values};
use super::text::{Sample, samples};
use smallvec::{SmallVec, smallvec};

/// What an engine, or one data-parallel rank of it, says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Each quantity, as far as it is known.
    pub values: Values,
    /// Loaded adapters; none: the engine does not say.
    pub adapters: Option<Adapters>,
}

/// Adapters (LoRA) by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adapters {
    /// With requests in the batch.
    pub running: Vec<Box<str>>,
    /// With requests that wait.
    pub waiting: Vec<Box<str>>,
}

/// What the page says of each of `ranks` ranks, in order. With one rank the series of all ranks are put together.
///
/// Series without a label for the rank speak for the whole URL: of several ranks they tell how the engine was started
/// (block size, cache), and nothing else, because nobody knows whose requests they count.
#[must_use]
pub fn read(page: &[u8], names: &Names, ranks: u16) -> SmallVec<[Reading; 1]> {
    let ranks = usize::from(ranks.max(1));
    let mut whole = Gathered::default();
    let mut by_rank: SmallVec<[Gathered; 1]> =
        smallvec![Gathered::default(); if ranks > 1 { ranks } else { 0 }];
    let mut workers = Workers::default();
    let wanted = |name| Some(names.find(name)).filter(|entries| !entries.is_empty());
    for (entries, sample) in samples(page, wanted) {
        let rank = rank(&sample, names);
        if workers.repeats((&sample, rank), names) {
            continue;
        }
        let gathered = match rank {
            Some(rank) if !by_rank.is_empty() => by_rank.get_mut(rank),
            _ => Some(&mut whole),
        };
        if let Some(gathered) = gathered {
            entries.iter().for_each(|entry| gathered.take(entry, &sample));
        }
    }
    if by_rank.is_empty() {
        return smallvec![whole.finish()];
    }
    let whole = whole.finish();
    by_rank
        .into_iter()
        .map(|gathered| gathered.finish().with_settings(&whole))
        .collect()
}

/// Of workers that report the same, the one that is believed: rank, place of the label, and its number there. It is
/// the first of its rank on the page; which number that is depends on how ranks and workers are laid out.
#[derive(Default)]
struct Workers(SmallVec<[(Option<usize>, usize, usize); 4]>);

impl Workers {
    fn repeats(&mut self, (sample, rank): (&Sample<'_>, Option<usize>), names: &Names) -> bool {
        let mut repeats = false;
        for (place, label) in names.repeated.iter().enumerate() {
            let Some(worker) = sample.labels.get(label).and_then(|text| text.parse().ok()) else {
                continue;
            };
            match self.0.iter().find(|known| (known.0, known.1) == (rank, place)) {
                Some((.., believed)) => repeats |= *believed != worker,
                None => self.0.push((rank, place, worker)),
            }
        }
        repeats
    }
}

fn rank(sample: &Sample<'_>, names: &Names) -> Option<usize> {
    names
        .ranks
        .iter()
        .find_map(|label| sample.labels.get(label))
        .and_then(|rank| rank.parse().ok())
}

/// One signal's series so far.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    value: f64,
    count: u32,
    place: u8,
}

#[derive(Debug, Clone, Default)]
struct Gathered {
    slots: [Slot; Signal::COUNT],
    adapters: Option<(f64, Adapters)>,
}

impl Gathered {
    fn take(&mut self, entry: &Entry, sample: &Sample<'_>) {
        if let Some((label, value)) = &entry.only
            && sample.labels.get(label).as_deref() != Some(value)
        {
            return;
        }
        match entry.read {
            Read::Value => self.add(entry, sample.value),
            Read::Label(label) => self.add(entry, number(sample, label)),
            Read::Adapters {
                running,
                waiting,
                max,
            } => {
                let newest = self.adapters.as_ref().map_or(f64::NEG_INFINITY, |(at, _)| *at);
                if sample.value < newest {
                    return;
                }
                let adapters = Adapters {
                    running: list(sample, running),
                    waiting: list(sample, waiting),
                };
                self.adapters = Some((sample.value, adapters));
                self.add(entry, number(sample, max));
            }
        }
    }

    fn add(&mut self, entry: &Entry, value: f64) {
        let Some(value) = entry.signal.accept(value * entry.scale) else {
            return;
        };
        let Some(slot) = self.slots.get_mut(entry.signal as usize) else {
            return;
        };
        if slot.count == 0 || entry.place < slot.place {
            *slot = Slot {
                value,
                count: 1,
                place: entry.place,
            };
        } else if entry.place == slot.place {
            slot.count += 1;
            slot.value = match entry.signal.together() {
                Together::Sum | Together::Mean => slot.value + value,
                Together::Max => slot.value.max(value),
            };
        }
    }

    fn finish(self) -> Reading {
        let mut values = Values::default();
        for (signal, slot) in Signal::ALL.into_iter().zip(&self.slots) {
            let value = match signal.together() {
                Together::Mean => slot.value / f64::from(slot.count.max(1)),
                Together::Sum | Together::Max => slot.value,
            };
            values.set(signal, (slot.count > 0).then_some(value));
        }
        derive(&mut values);
        Reading {
            values,
            adapters: self.adapters.map(|(_, adapters)| adapters),
        }
    }
}

/// Fills in what follows from the rest.
fn derive(values: &mut Values) {
    let get = |values: &Values, signal| values.get(signal);
    let mut fill = |signal, compute: &dyn Fn(&Values) -> Option<f64>| {
        if values.get(signal).is_none() {
            let value = compute(values).and_then(|value| signal.accept(value));
            values.set(signal, value);
        }
    };
    fill(Signal::CacheBlocks, &|v| {
        Some(get(v, Signal::UsedBlocks)? + get(v, Signal::FreeBlocks)?)
    });
    fill(Signal::KvUsage, &|v| {
        Some(get(v, Signal::UsedBlocks)? / get(v, Signal::CacheBlocks)?)
    });
    fill(Signal::CacheTokens, &|v| {
        Some(get(v, Signal::CacheBlocks)? * get(v, Signal::BlockSize)?)
    });
    fill(Signal::PrefixQueries, &|v| {
        Some(get(v, Signal::PrefixHits)? + get(v, Signal::PrefixMisses)?)
    });
    for step in [Signal::UsedBlocks, Signal::FreeBlocks, Signal::PrefixMisses] {
        values.set(step, None);
    }
}

impl Reading {
    fn with_settings(mut self, whole: &Self) -> Self {
        for signal in Signal::ALL.into_iter().filter(|signal| signal.is_setting()) {
            if self.values.get(signal).is_none() {
                self.values.set(signal, whole.values.get(signal));
            }
        }
        derive(&mut self.values);
        self.adapters = self.adapters.or_else(|| whole.adapters.clone());
        self
    }

    /// Whether the page said anything of this rank.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.adapters.is_none() && self.values.known().next().is_none()
    }
}

fn number(sample: &Sample<'_>, label: &str) -> f64 {
    sample
        .labels
        .get(label)
        .and_then(|text| text.parse().ok())
        .unwrap_or(f64::NAN)
}

fn list(sample: &Sample<'_>, label: &str) -> Vec<Box<str>> {
    let text = sample.labels.get(label).unwrap_or_default();
    text.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(Box::from)
        .collect()
}
