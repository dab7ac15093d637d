//! All yardsticks that choose an engine, each over its grid.
//!
//! A grid is what a careful operator would try: the settings that the project ships first, then each of those that its
//! documents name, wider and narrower. Bounds on numbers of requests go down to what suits a fleet of a few engines.

use super::aibrix::{self, PrefixCache};
use super::choose::Chance;
use super::d2lpm::{D2lpm, QUANTUM};
use super::dynamo::{self, Dynamo};
use super::latency::{ByLatency, Kind};
use super::llm_d::{self, LlmD, Weights};
use super::lmetric::{self, LMetric};
use super::plain::{LeastInflight, PowerOfTwo, Random, RoundRobin};
use super::preble::{Preble, Speed};
use super::prefixes::{Blocks, Memories};
use super::sglang::{self, CacheAware};
use super::skylb::SkyLb;
use super::smg::{self, Smg};
use super::sticky::{self, Sticky};
use super::{Make, Yardstick};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_sim::drive::Baseline;

/// How a variant is made: from the workload's blocks and a seed.
fn make<B: Baseline + 'static>(new: impl Fn(Blocks, u64) -> B + Send + Sync + 'static) -> Make {
    Arc::new(move |tokens, seed| Box::new(new(Blocks::new(tokens), seed)))
}

/// A family over its grid, the shipped settings first.
fn family(name: &'static str, grid: impl IntoIterator<Item = (String, Make)>) -> Vec<Yardstick> {
    let grid = grid.into_iter().enumerate();
    grid.map(|(place, (settings, make))| Yardstick {
        family: name,
        settings,
        shipped: place == 0,
        told: false,
        make,
    })
    .collect()
}

/// The same, of which those need events for which `told` is true, in order.
fn told(all: Vec<Yardstick>, told: impl IntoIterator<Item = bool>) -> Vec<Yardstick> {
    let both = all.into_iter().zip(told);
    both.map(|(one, told)| Yardstick { told, ..one }).collect()
}

/// A family without settings.
fn one(name: &'static str, make: Make) -> Vec<Yardstick> {
    family(name, [(String::new(), make)])
}

fn sglang() -> Vec<Yardstick> {
    let grid = [
        (0.3, 64, 1.5),
        (0.5, 32, 1.0001),
        (0.3, 16, 1.2),
        (0.3, 8, 1.2),
        (0.3, 4, 1.2),
        (0.1, 8, 1.2),
        (0.5, 8, 1.5),
        (0.8, 4, 1.2),
    ];
    let variant = |(matched, apart, times)| {
        let settings = sglang::Settings {
            matched,
            apart,
            times,
        };
        let text = format!("match {matched}, imbalance {apart}/{times}");
        (text, make(move |blocks, _| CacheAware::new(blocks, settings)))
    };
    family("cache-aware, SGLang 0.3", grid.map(variant))
}

fn smg() -> Vec<Yardstick> {
    let grid = [
        (0.3, 1.5, 2000.0, 1024.0),
        (0.3, 1.5, 500.0, 1024.0),
        (0.3, 1.5, 8000.0, 1024.0),
        (0.3, 1.5, 20_000.0, 1024.0),
        (0.3, 1.2, 2000.0, 1024.0),
        (0.3, 2.0, 2000.0, 1024.0),
        (0.1, 1.5, 8000.0, 1024.0),
        (0.5, 1.5, 8000.0, 1024.0),
        (0.3, 1.2, 8000.0, 256.0),
        (0.3, 1.2, 8000.0, 4096.0),
    ];
    let variant = |(matched, refused, throughput, request)| {
        let settings = smg::Settings {
            matched,
            refused,
            throughput,
            request,
        };
        let text = format!("match {matched}, refused {refused}, {throughput} tokens/s, {request} a request");
        (text, make(move |blocks, _| Smg::new(blocks, settings)))
    };
    family("cache-aware, SMG 1.13", grid.map(variant))
}

/// llm-d's picker over its weights: of the queue, the KV cache, the prefix and active requests.
fn llm_d(index: fn() -> llm_d::Index, grid: &[[f64; 4]]) -> Vec<(String, Make)> {
    let variant = |[queue, kv, prefix, active]: &[f64; 4]| {
        let (queue, kv, prefix, active) = (*queue, *kv, *prefix, *active);
        let weights = Weights {
            queue,
            kv,
            prefix,
            active,
        };
        let mut text = format!("weights {queue}, {kv}, {prefix}");
        if active > 0.0 {
            text += &format!(", active {active}");
        }
        if let llm_d::Index::Share = index() {
            text += ", by share";
        }
        let new = move |blocks, seed| LlmD::new(blocks, weights, index(), seed);
        (text, make(new))
    };
    grid.iter().map(variant).collect()
}

fn llm_d_precise() -> Vec<Yardstick> {
    let mut grid = llm_d(|| llm_d::Index::Precise, &STRETCHED);
    grid.extend(llm_d(|| llm_d::Index::Share, &SHARES));
    told(family("llm-d, precise", grid), std::iter::repeat(true))
}

fn sticky() -> Vec<Yardstick> {
    let grid = [
        (0.8, 18.0, 15_928.0, false),
        (0.8, 5.0, 15_928.0, false),
        (0.8, 1.0, 15_928.0, false),
        (0.5, 1.0, 15_928.0, false),
        (0.8, 18.0, 15_928.0, true),
        (0.8, 1.0, 15_928.0, true),
    ];
    let variant = |(matched, penalty, throughput, events)| {
        let settings = sticky::Settings {
            matched,
            penalty,
            throughput,
            events,
        };
        let told = if events { ", events" } else { "" };
        let text = format!("match {matched}, {penalty} s at {throughput} tokens/s{told}");
        (
            text,
            make(move |blocks, seed| Sticky::new(blocks, settings, seed)),
        )
    };
    told(
        family("llm-d 0.10, sticky", grid.map(variant)),
        grid.map(|(.., events)| events),
    )
}

/// Weights where prefixes count; the first are the guide's, the second the experiment's, the last the guide's for decoding.
const PREFIXES: [[f64; 4]; 6] = [
    [2.0, 2.0, 3.0, 0.0],
    [1.0, 1.0, 2.0, 0.0],
    [1.0, 1.0, 1.0, 0.0],
    [2.0, 1.0, 6.0, 0.0],
    [2.0, 2.0, 3.0, 2.0],
    [0.0, 0.0, 3.0, 2.0],
];

/// The same for the index that stretches what holders have to the whole range, where a heavy prefix outweighs all load.
const STRETCHED: [[f64; 4]; 4] = [
    [2.0, 2.0, 3.0, 0.0],
    [1.0, 1.0, 2.0, 0.0],
    [1.0, 1.0, 1.0, 0.0],
    [2.0, 2.0, 3.0, 2.0],
];

/// For the index that scores the share of the prompt.
const SHARES: [[f64; 4]; 4] = [
    [2.0, 2.0, 3.0, 0.0],
    [2.0, 1.0, 6.0, 0.0],
    [2.0, 2.0, 3.0, 2.0],
    [0.0, 0.0, 3.0, 2.0],
];

/// Where load is all there is.
const LOAD: [[f64; 4]; 5] = [
    [2.0, 2.0, 0.0, 0.0],
    [1.0, 0.0, 0.0, 0.0],
    [1.0, 6.0, 0.0, 0.0],
    [2.0, 2.0, 0.0, 2.0],
    [1.0, 1.0, 0.0, 4.0],
];

fn dynamo() -> Vec<Yardstick> {
    let grid = [
        (1.0, 0.0, true),
        (0.5, 0.0, true),
        (2.0, 0.0, true),
        (1.0, 0.3, true),
        (1.0, 0.0, false),
        (2.0, 0.0, false),
    ];
    let variant = |(weight, temperature, events)| {
        let settings = dynamo::Settings {
            weight,
            temperature,
            events,
        };
        let told = if events { "" } else { ", no events" };
        let text = format!("overlap {weight}, temperature {temperature}{told}");
        (
            text,
            make(move |blocks, seed| Dynamo::new(blocks, settings, seed)),
        )
    };
    told(
        family("Dynamo KV router", grid.map(variant)),
        grid.map(|(.., events)| events),
    )
}

fn lmetric() -> Vec<Yardstick> {
    let sent = |tokens: u64| {
        let new = move |blocks, seed| {
            let index = lmetric::Index::Sent(Memories::default(), tokens);
            LMetric::new(blocks, index, seed)
        };
        (format!("own index, {tokens} tokens"), make(new))
    };
    let events = make(|blocks, seed| LMetric::new(blocks, lmetric::Index::Events, seed));
    let grid = [("events".into(), events), sent(400_000), sent(2_000_000)];
    told(family("LMetric", grid), [true, false, false])
}

fn preble() -> Vec<Yardstick> {
    let grid = [(15_000.0, 180), (5000.0, 180), (40_000.0, 180), (15_000.0, 30)];
    let variant = |(prefill, window)| {
        let speed = Speed {
            prefill,
            window: Duration::from_secs(window),
            ..Speed::ROUGH
        };
        let text = format!("prefill {prefill} tokens/s, window {window} s");
        (text, make(move |blocks, _| Preble::new(blocks, speed)))
    };
    family("Preble", grid.map(variant))
}

fn aibrix() -> Vec<Yardstick> {
    let grid = [
        (8, 1.0, 0.0),
        (16, 2.0, 0.0),
        (16, 1.0, 0.0),
        (4, 1.0, 0.0),
        (8, 2.0, 0.0),
        (8, 1.0, 0.5),
    ];
    let variant = |(apart, deviations, matched)| {
        let settings = aibrix::Settings {
            apart,
            deviations,
            matched,
        };
        let text = format!("imbalance {apart}, {deviations} σ, match {matched}");
        (
            text,
            make(move |blocks, seed| PrefixCache::new(blocks, settings, seed)),
        )
    };
    family("AIBrix prefix-cache", grid.map(variant))
}

fn skylb() -> Vec<Yardstick> {
    let variant = |allowed: u64| {
        let new = move |blocks, seed| SkyLb::new(blocks, allowed, seed);
        (format!("pending {allowed}"), make(new))
    };
    family("SkyLB", [0, 1, 4].map(variant))
}

fn d2lpm() -> Vec<Yardstick> {
    let variant = |quantum: f64| {
        let new = move |blocks, seed| D2lpm::new(blocks, quantum, seed);
        (format!("quantum {quantum}"), make(new))
    };
    family("D²LPM", [QUANTUM, 10_000.0, 200_000.0].map(variant))
}

fn latencies() -> Vec<Yardstick> {
    let variant = |kind: Kind| {
        let text = match kind {
            Kind::Average { newest } => format!("newest {newest}"),
            Kind::Peak { decay } => format!("decay {decay} s"),
        };
        (text, make(move |_, seed| ByLatency::new(kind, seed)))
    };
    let averages = [Kind::AVERAGE, Kind::Average { newest: 0.1 }];
    let peaks = [Kind::PEAK, Kind::Peak { decay: 60.0 }];
    let mut all = family("latency of two", averages.map(variant));
    all.extend(family("peak EWMA of two", peaks.map(variant)));
    all
}

/// All algorithms that choose an engine, each over its grid; the shipped settings of a family come first.
#[must_use]
pub fn all() -> Vec<Yardstick> {
    let approximate = || llm_d::Index::Approximate(Memories::default());
    [
        one("round robin", make(|_, _| RoundRobin::default())),
        one("random", make(|_, seed| Random(Chance::new(seed)))),
        one(
            "least in-flight",
            make(|_, seed| LeastInflight(Chance::new(seed))),
        ),
        one("power of two", make(|_, seed| PowerOfTwo(Chance::new(seed)))),
        sglang(),
        smg(),
        family("llm-d, load only", llm_d(|| llm_d::Index::None, &LOAD)),
        family("llm-d, approximate", llm_d(approximate, &PREFIXES)),
        llm_d_precise(),
        sticky(),
        dynamo(),
        lmetric(),
        preble(),
        aibrix(),
        skylb(),
        d2lpm(),
        latencies(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, chain, prompt};
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use weighbridge_core::signals::CacheChange;
    use weighbridge_sim::drive::Seen;
    use weighbridge_sim::engine::{Engine, Event, Refusal, Stats, Work, WorkId};

    #[test]
    fn each_has_a_name_of_its_own_and_families_begin_with_what_ships() {
        let all = all();
        assert!((60..=80).contains(&all.len()), "{}", all.len());
        let names: BTreeSet<_> = all.iter().map(|one| (one.family, &one.settings)).collect();
        assert_eq!(names.len(), all.len());
        let families: BTreeSet<_> = all.iter().map(|one| one.family).collect();
        assert_eq!(families.len(), 18);
        let mut before = None;
        for one in &all {
            // The first of each family is the one that ships, and the only one.
            assert_eq!(
                one.shipped,
                before != Some(one.family),
                "{} {}",
                one.family,
                one.settings
            );
            before = Some(one.family);
        }
        assert_eq!(all.iter().filter(|one| one.shipped).count(), families.len());
    }

    #[test]
    fn all_choose_one_of_the_candidates() {
        let mut stage = Stage::new(5);
        stage.holds(3, &chain(1, 6));
        for one in all() {
            // Workloads without blocks have none of any size.
            for tokens in [16, 512, 0] {
                let mut router = (one.make)(tokens, 7);
                let mut chosen = [0_u32; 5];
                for index in 0..40 {
                    let now = Duration::from_millis(index as u64 * 400);
                    let blocks = if tokens == 16 {
                        chain(index as u64 % 3, 6)
                    } else {
                        Vec::new()
                    };
                    let request = prompt(&blocks, 9);
                    // One of them is down at times.
                    let down = index / 10 % 2;
                    let candidates = &stage.seen(&chosen)[down..];
                    let place = router.choose(now, (index, &request), candidates);
                    assert!(place < candidates.len(), "{} {}", one.family, one.settings);
                    let endpoint = candidates[place].endpoint;
                    chosen[endpoint] += 1;
                    router.began(now, index, endpoint);
                    if index % 2 == 0 {
                        router.ended(now, index, endpoint);
                        chosen[endpoint] -= 1;
                    }
                }
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_choices() {
        let stage = Stage::new(4);
        for one in all() {
            let choices = || {
                let mut router = (one.make)(16, 3);
                let choose = |index: usize| {
                    let request = prompt(&chain(index as u64 % 4, 5), 3);
                    let now = Duration::from_millis(index as u64);
                    router.choose(now, (index, &request), &stage.seen(&[1, 1, 1, 1]))
                };
                (0..30).map(choose).collect::<Vec<_>>()
            };
            assert_eq!(choices(), choices(), "{} {}", one.family, one.settings);
        }
    }

    /// An engine that notes whether it was asked for its cache.
    #[derive(Default)]
    struct Asked(Cell<bool>);

    impl Engine for Asked {
        fn fork(&self) -> Box<dyn Engine> {
            Box::new(Self::default())
        }
        fn submit(&mut self, _: Duration, _: Work) -> Result<(), Refusal> {
            Ok(())
        }
        fn cancel(&mut self, _: WorkId) -> bool {
            false
        }
        fn next_event_time(&self) -> Option<Duration> {
            None
        }
        fn advance(&mut self, _: Duration, _: &mut Vec<Event>) {}
        fn stats(&self) -> Stats {
            Stats::default()
        }
        fn set_speed(&mut self, _: Duration, _: f64) {}
        fn tell_cache(&mut self) {}
        fn cache_changes(&mut self) -> Vec<CacheChange> {
            Vec::new()
        }
        fn cached(&self, _: &[u64]) -> u32 {
            self.0.set(true);
            0
        }
    }

    #[test]
    fn those_that_need_events_are_those_that_ask_engines_for_their_caches() {
        for one in all() {
            let engines = [Asked::default(), Asked::default()];
            let seen = |endpoint: usize| Seen {
                endpoint,
                inflight: 0,
                running: 0,
                waiting: 0,
                kv_usage: 0.0,
                read_at: Duration::ZERO,
                engine: &engines[endpoint],
            };
            let candidates = [0, 1].map(seen);
            let mut router = (one.make)(16, 1);
            router.choose(Duration::ZERO, (0, &prompt(&chain(1, 20), 5)), &candidates);
            let asked = engines.iter().any(|engine| engine.0.get());
            assert_eq!(asked, one.told, "{} ({})", one.family, one.settings);
        }
    }
}
