//! The product's own prefix routing on the first half of Mooncake's conversation trace, at 2,000 blocks of 512 tokens an engine.
//!
//! Published with the data: hits of .176 on four and .256 on eight instances, as one cache of all the blocks would have.
//!
//! In caches without engines, where every request ends at once, so that nothing is ever in flight and only the prefix policy
//! has something to say; and on engines that take their time, with the policies that a route has beside it.

use crate::conversation;
use crate::fleet::{fleet, largest_share, mean};
use crate::hit_ratios::mooncake;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::event::{Arrival, Ended, Outcome};
use weighbridge_core::policies::{Policies, least_inflight, prefix_cache};
use weighbridge_core::prefix::BlockHash;
use weighbridge_core::signals::Reading;
use weighbridge_core::spec::{EndpointSpec, FleetSpec, PoolSpec, RouteSpec, TargetSpec};
use weighbridge_core::work::Work;
use weighbridge_core::{Action, EndpointId, Event, RequestId, RouteId, Scheduler, Time};
use weighbridge_sim::cache::{PrefixCache, hit_tokens};
use weighbridge_sim::drive::{Chooser, Setup, run};
use weighbridge_sim::engine::Settings;
use weighbridge_sim::outcome::{Fate, Run};
use weighbridge_sim::workload::{Request, Workload};

const BLOCKS: u32 = 2000;
const BLOCK: u32 = 512;

/// What a route of conversations looks at.
fn policies() -> Policies {
    Policies {
        prefix_cache: Some(prefix_cache::Config::default()),
        least_inflight: Some(least_inflight::Config::default()),
        ..Policies::default()
    }
}

/// A scheduler over engines that were read.
struct Gateway {
    scheduler: Scheduler,
    ids: Vec<EndpointId>,
    sent: u64,
}

impl Gateway {
    fn new(engines: usize, seed: u64) -> Self {
        let mut route = RouteSpec::new("r", vec![TargetSpec::new("t", 0)]);
        route.policies = policies();
        let endpoints = (0..engines).map(|at| EndpointSpec::new(format!("e{at}"), format!("e{at}")));
        let spec = FleetSpec {
            pools: vec![PoolSpec::new("p", endpoints.collect())],
            routes: vec![route],
            ..FleetSpec::default()
        };
        let mut scheduler = Scheduler::new(seed);
        let mut actions = Vec::new();
        scheduler.step(Time::ZERO, Event::Configure(Arc::new(spec)), &mut actions);
        let Some(Action::Configured(bindings)) = actions.pop() else {
            panic!("it is configured");
        };
        let ids = bindings.endpoints.concat();
        for endpoint in &ids {
            let reading = Box::new(Reading {
                cache_tokens: Some(u64::from(BLOCKS * BLOCK)),
                ..Reading::default()
            });
            let endpoint = *endpoint;
            scheduler.step(Time::ZERO, Event::Scraped { endpoint, reading }, &mut actions);
        }
        Self {
            scheduler,
            ids,
            sent: 0,
        }
    }

    /// Where a request goes, which ends at once.
    fn send(&mut self, request: &Request) -> usize {
        self.sent += 1;
        let now = Time::from_origin(request.at);
        let arrival = Arrival {
            work: Some(Arc::new(Work {
                prompt_tokens: request.prompt_tokens,
                blocks: request
                    .prompt_blocks(BLOCK)
                    .iter()
                    .map(|block| BlockHash(*block))
                    .collect(),
                block_tokens: BLOCK,
                ..Work::default()
            })),
            ..Arrival::new(RequestId(self.sent), RouteId(0))
        };
        let mut actions = Vec::new();
        self.scheduler.step(now, Event::Arrive(arrival), &mut actions);
        let dispatch = actions.iter().find_map(|action| match action {
            Action::Dispatch(dispatch) => Some(dispatch),
            _ => None,
        });
        let dispatch = dispatch.expect("it is sent");
        let place = self.ids.iter().position(|id| *id == dispatch.endpoint).unwrap();
        let ended = Ended {
            request: RequestId(self.sent),
            attempt: dispatch.attempt,
            outcome: Outcome::Complete,
            committed: true,
            too_long: false,
            spent: None,
        };
        self.scheduler.step(now, Event::Ended(ended), &mut actions);
        place
    }
}

/// Hit ratio by tokens, and uncached tokens of the busiest as a multiple of the mean, where `choose` places requests.
fn caches(workload: &Workload, engines: usize, mut choose: impl FnMut(&Request) -> usize) -> (f64, f64) {
    let mut caches: Vec<_> = (0..engines)
        .map(|_| PrefixCache::with_capacity(BLOCKS as usize))
        .collect();
    let mut uncached = vec![0_u64; engines];
    let (mut hits, mut tokens) = (0, 0);
    for request in &workload.requests {
        let engine = choose(request);
        let hit = hit_tokens(
            caches[engine].leading(&request.blocks),
            BLOCK,
            request.prompt_tokens,
        );
        caches[engine].insert(&request.blocks);
        uncached[engine] += u64::from(request.prompt_tokens - hit);
        hits += u64::from(hit);
        tokens += u64::from(request.prompt_tokens);
    }
    let all: u64 = uncached.iter().sum();
    let busiest = *uncached.iter().max().unwrap() as f64 * engines as f64 / all as f64;
    (hits as f64 / tokens as f64, busiest)
}

#[test]
fn in_caches_alone_it_hits_as_the_guard_does() {
    let workload = mooncake();
    for (engines, least) in [(4, 0.17), (8, 0.25)] {
        for seed in 0..3 {
            let mut gateway = Gateway::new(engines, seed);
            let (hits, busiest) = caches(&workload, engines, |request| gateway.send(request));
            assert!(hits >= least, "{engines} engines: {hits}, at least {least}");
            assert!(
                busiest <= 1.25,
                "{engines} engines: the busiest has {busiest} of the mean"
            );
        }
    }
}

fn busiest(run: &Run) -> f64 {
    let uncached: Vec<f64> = run
        .endpoints
        .iter()
        .map(|endpoint| endpoint.uncached_tokens as f64)
        .collect();
    uncached.iter().copied().fold(0.0, f64::max) / mean(&uncached)
}

fn on_engines(workload: &Workload, engines: usize, replicas: u32) -> Run {
    let settings = Settings {
        kv_blocks: BLOCKS * BLOCK / Settings::default().block_size,
        ..Settings::default()
    };
    let mut setup = fleet(engines, &settings, Duration::from_secs(1));
    setup.replicas = replicas;
    by_the_product(setup, workload)
}

fn by_the_product(mut setup: Setup, workload: &Workload) -> Run {
    let mut spec = FleetSpec::clone(&setup.fleet.spec);
    spec.pools[0].scrape = Some(Duration::from_secs(1));
    spec.routes[0].policies = policies();
    setup.fleet.spec = Arc::new(spec);
    let run = run(&setup, workload, Chooser::Scheduler, &mut |_| {}).unwrap();
    assert!(run.records.iter().all(|record| record.fate == Fate::Answered));
    run
}

#[test]
fn a_hot_spot_is_spread() {
    for (clients, most) in [(16, 1.10), (128, 1.04)] {
        let (setup, workload) = crate::hot_spot::scene(clients);
        let share = largest_share(&by_the_product(setup, &workload));
        assert!(share <= most, "{clients} clients: {share}");
    }
}

/// Four engines bear half the rate: at all of it what runs there leaves the caches too little.
#[test]
fn on_engines_it_hits_as_much_and_nobody_is_buried() {
    for (engines, speed, least) in [(8, 1.0, 0.25), (4, 0.5, 0.17)] {
        let workload = conversation::workload(5606, speed);
        let run = on_engines(&workload, engines, 1);
        let (hits, busiest) = (run.hit_ratio(), busiest(&run));
        assert!(hits >= least, "{engines} engines: {hits}, at least {least}");
        assert!(
            busiest <= 1.25,
            "{engines} engines: the busiest has {busiest} of the mean"
        );
    }
}

#[test]
fn two_gateways_that_know_half_each_hit_most_of_it() {
    let run = on_engines(&conversation::workload(5606, 1.0), 8, 2);
    let (hits, busiest) = (run.hit_ratio(), busiest(&run));
    assert!(hits >= 0.15, "{hits}");
    assert!(busiest <= 1.25, "the busiest has {busiest} of the mean");
}
