//! Hit ratios on the first half of Mooncake's conversation trace, in caches without engines: 2,000 blocks of 512 tokens an
//! instance, the least recently used forgotten first.
//!
//! Published with the data: at random .074 with four instances and .072 with eight; by prefix under a guard .176 and .256; the
//! bound, one cache of all the blocks, .176 and .257. By the longest prefix alone everything goes to one instance, since all
//! prompts begin with the same block.
//!
//! The guard looks at uncached work, not at requests: an instance may get a request if the tokens it had to compute so far
//! are at most a slack above those of the least burdened one.

use crate::fleet::mean;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use weighbridge_lab::yardsticks::choose::Chance;
use weighbridge_sim::cache::{PrefixCache, hit_tokens};
use weighbridge_sim::workload::{Request, Workload, read};

const BLOCKS: usize = 2000;
/// Two long prompts of this trace.
const SLACK: u64 = 100_000;

/// The given half of the trace.
pub(crate) fn mooncake() -> Workload {
    let root = std::env::var_os("WEIGHBRIDGE_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = root.join("traces/mooncake_conversation_first_half.jsonl");
    let file = File::open(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; set WEIGHBRIDGE_DATA to the data folder",
            path.display()
        )
    });
    let read = read(BufReader::new(file), "mooncake", None).unwrap();
    assert_eq!((read.bad_total, read.workload.requests.len()), (0, 5606));
    read.workload
}

/// Instances with their caches.
struct Instances {
    caches: Vec<PrefixCache>,
    uncached: Vec<u64>,
    requests: Vec<u64>,
}

impl Instances {
    fn hit(&self, instance: usize, request: &Request) -> u32 {
        hit_tokens(
            self.caches[instance].leading(&request.blocks),
            512,
            request.prompt_tokens,
        )
    }

    /// The most cached tokens among the `allowed`, the least work among equals.
    fn longest(&self, request: &Request, allowed: impl Fn(&Self, usize) -> bool) -> usize {
        let all = (0..self.caches.len()).filter(|instance| allowed(self, *instance));
        all.max_by_key(|i| (self.hit(*i, request), u64::MAX - self.uncached[*i]))
            .unwrap()
    }
}

/// Hit ratio by tokens, and the largest share of requests as a multiple of an even one.
fn ratio(
    workload: &Workload,
    instances: usize,
    mut choose: impl FnMut(&Instances, &Request) -> usize,
) -> (f64, f64) {
    let mut all = Instances {
        caches: (0..instances)
            .map(|_| PrefixCache::with_capacity(BLOCKS))
            .collect(),
        uncached: vec![0; instances],
        requests: vec![0; instances],
    };
    let (mut hits, mut tokens) = (0, 0);
    for request in &workload.requests {
        let instance = choose(&all, request);
        let hit = all.hit(instance, request);
        all.caches[instance].insert(&request.blocks);
        all.uncached[instance] += u64::from(request.prompt_tokens - hit);
        all.requests[instance] += 1;
        hits += u64::from(hit);
        tokens += u64::from(request.prompt_tokens);
    }
    let most = *all.requests.iter().max().unwrap() as f64;
    (
        hits as f64 / tokens as f64,
        most * instances as f64 / workload.requests.len() as f64,
    )
}

/// The share of hits and of requests under the guard.
fn guarded(workload: &Workload, instances: usize) -> (f64, f64) {
    ratio(workload, instances, |all, request| {
        let least = all.uncached.iter().min().unwrap();
        all.longest(request, |all, instance| all.uncached[instance] <= least + SLACK)
    })
}

#[test]
fn random_hits_little() {
    let workload = mooncake();
    for (instances, published) in [(4, 0.074), (8, 0.072)] {
        let ratios = (0..5).map(|seed| {
            let mut chance = Chance::new(seed);
            ratio(&workload, instances, |_, _| chance.below(instances)).0
        });
        let got = mean(&ratios.collect::<Vec<_>>());
        assert!(
            (got - published).abs() < 0.005,
            "{instances}: {got}, published {published}"
        );
    }
}

#[test]
fn the_longest_prefix_alone_floods_one_instance() {
    let workload = mooncake();
    for instances in [4, 8] {
        let (naive, factor) = ratio(&workload, instances, |all, request| {
            all.longest(request, |_, _| true)
        });
        assert_eq!(factor, instances as f64);
        let mut turn = 0;
        let (robin, _) = ratio(&workload, instances, |_, _| {
            turn += 1;
            turn % instances
        });
        assert!(naive < robin, "{instances}: {naive} against {robin} in turn");
    }
}

#[test]
fn under_a_guard_the_prefix_hits_as_much_as_one_large_cache() {
    let workload = mooncake();
    for (instances, published) in [(4, 0.176), (8, 0.256)] {
        let (got, factor) = guarded(&workload, instances);
        assert!(
            (got - published).abs() < 0.0015,
            "{instances}: {got}, published {published}"
        );
        assert!(factor < 1.1, "{instances}: {factor}");
    }
}
