//! A page → what the scheduler and people get of it.

use super::board::{Found, Source};
use super::page::{Fault, Page};
use crate::rounded::{small, whole};
use crate::snapshot::Upstream;
use std::sync::Arc;
use weighbridge_config::scrape::Scrape;
use weighbridge_core::signals::Reading;
use weighbridge_wire::metrics::{
    self, Adapters, Entry, GpuReading, GpuSelect, Names, Signal, Values, engines,
};

/// The names to look for on the pages of a pool. The tables of all engines, since what a pool is said to be and what
/// answers there may differ; no name is in two of them.
pub(crate) fn names(scrape: &Scrape) -> Names {
    let own: Vec<Entry> = (scrape.names.iter())
        .filter_map(|(word, metric)| {
            let signal = Signal::from_word(word)?;
            Some(Entry::custom(
                signal,
                metric.name.clone(),
                metric.label.clone(),
                1.0 / metric.divisor,
            ))
        })
        .collect();
    Names::new(engines::ALL, &own)
}

/// What the page says of `upstream`.
pub(super) fn read(page: &Page, upstream: &Upstream, body: &[u8]) -> Result<Found, Fault> {
    match page.source {
        Source::Engine => {
            let names = upstream.pool.names.as_deref();
            let ranks = u16::try_from(upstream.ranks).unwrap_or(u16::MAX);
            let rank = upstream.rank.unwrap_or(0) as usize;
            let reading = names.and_then(|names| metrics::read(body, names, ranks).into_iter().nth(rank));
            match reading.filter(|reading| !reading.is_empty()) {
                Some(reading) => Ok(Found {
                    values: reading.values,
                    adapters: reading.adapters.map(loaded),
                    digest: digest(body),
                }),
                None => Err(Fault::Absent(
                    "it holds none of the metrics that are known".to_owned(),
                )),
            }
        }
        Source::Gpu => {
            let everything = GpuSelect::default();
            let select = upstream.gpus.as_ref().unwrap_or(&everything);
            let GpuReading {
                memory,
                utilisation,
                cards,
            } = metrics::read_gpus(body, select);
            let mut values = Values::default();
            values.set(Signal::GpuMemory, memory);
            values.set(Signal::GpuUtilisation, utilisation);
            match (cards, memory.or(utilisation)) {
                (0, _) => Err(Fault::Absent("it does not show the endpoint's GPU".to_owned())),
                (_, None) => Err(Fault::Absent(
                    "it says neither memory nor utilisation of the endpoint's GPU".to_owned(),
                )),
                _ => Ok(Found {
                    values,
                    ..Found::default()
                }),
            }
        }
    }
}

/// Tells two pages of one engine apart, eight bytes at a time; nobody gains from a collision.
fn digest(page: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (chunks, rest) = page.as_chunks::<8>();
    let mix = |digest: u64, word: u64| (digest.rotate_left(5) ^ word).wrapping_mul(ODD);
    let whole = chunks.iter().fold(page.len() as u64, |digest, chunk| {
        mix(digest, u64::from_le_bytes(*chunk))
    });
    rest.iter()
        .fold(whole, |digest, byte| mix(digest, u64::from(*byte)))
}

/// Adapters that are there, in order: those with requests in the batch, and those whose requests wait.
fn loaded(adapters: Adapters) -> Vec<Arc<str>> {
    let mut all: Vec<Arc<str>> = (adapters.running.iter().chain(&adapters.waiting))
        .map(|name| Arc::from(&**name))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The form of the scheduler. Where a value stands in both, that of the engine counts.
pub(super) fn reading(engine: Option<&Found>, gpu: Option<&Found>) -> Reading {
    let number = |signal| {
        let of = |found: Option<&Found>| found.and_then(|found| found.values.get(signal));
        of(engine).or_else(|| of(gpu))
    };
    let count = |signal| number(signal).map(small);
    let total = |signal| number(signal).map(whole);
    Reading {
        waiting: count(Signal::Waiting),
        running: count(Signal::Running),
        kv_usage: number(Signal::KvUsage),
        gpu_memory: number(Signal::GpuMemory),
        gpu_utilisation: number(Signal::GpuUtilisation),
        block_tokens: count(Signal::BlockSize).filter(|tokens| *tokens > 0),
        cache_tokens: total(Signal::CacheTokens).filter(|tokens| *tokens > 0),
        max_sequences: count(Signal::MaxSequences).filter(|most| *most > 0),
        prefix_queries: total(Signal::PrefixQueries),
        prefix_hits: total(Signal::PrefixHits),
        preemptions: total(Signal::Preemptions),
        prompt_tokens: total(Signal::PromptTokens),
        generated_tokens: total(Signal::GenerationTokens),
        adapters: engine.and_then(|found| found.adapters.clone()),
        max_adapters: count(Signal::MaxAdapters),
        digest: engine.map(|found| found.digest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weighbridge_config::resolved::Kind;

    fn found(values: &[(Signal, f64)]) -> Found {
        let mut found = Found::default();
        values
            .iter()
            .for_each(|(signal, value)| found.values.set(*signal, Some(*value)));
        found
    }

    #[test]
    fn the_engine_is_believed_before_the_exporter() {
        let engine = found(&[
            (Signal::Waiting, 2.0),
            (Signal::KvUsage, 0.5),
            (Signal::GpuMemory, 0.25),
        ]);
        let gpu = found(&[(Signal::GpuMemory, 0.75), (Signal::GpuUtilisation, 1.0)]);
        let reading = reading(Some(&engine), Some(&gpu));
        assert_eq!((reading.waiting, reading.running), (Some(2), None));
        assert_eq!(
            (reading.gpu_memory, reading.gpu_utilisation),
            (Some(0.25), Some(1.0))
        );
    }

    #[test]
    fn sizes_of_nothing_are_not_known() {
        let reading = reading(
            Some(&found(&[
                (Signal::CacheTokens, 0.0),
                (Signal::BlockSize, 0.0),
                (Signal::Running, 1e18),
            ])),
            None,
        );
        assert_eq!(
            (reading.cache_tokens, reading.block_tokens, reading.running),
            (None, None, Some(u32::MAX))
        );
    }

    #[test]
    fn every_name_of_the_config_stands_for_a_signal() {
        let text = "pools: [{name: a, endpoints: [http://h], scrape: {names: {waiting: a, running: b, kv_usage: c, \
            prefix_queries: d, prefix_hits: e, gpu_memory: f, gpu_utilisation: g, block_size: h, cache_blocks: i, \
            cache_tokens: j, max_sequences: k, preemptions: l, prompt_tokens: m, generation_tokens: n / 2}}}]";
        let config = weighbridge_config::load_str("test", text, &|_| None)
            .unwrap()
            .config;
        let scrape = config.pools[0].scrape.as_ref().unwrap();
        assert_eq!((scrape.names.len(), config.pools[0].kind), (14, Kind::Generic));
        let names = names(scrape);
        for (word, metric) in &scrape.names {
            let entries = names.find(metric.name.as_bytes());
            assert_eq!(entries.len(), 1, "{word}");
            assert_eq!(entries[0].signal.as_str(), *word);
        }
        assert_eq!(names.find(b"n")[0].scale, 0.5);
        assert_eq!(scrape.interval, Duration::from_secs(1));
    }
}
