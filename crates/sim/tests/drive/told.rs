//! Engines that tell the gateways of their caches.

use crate::fleet::*;
use std::sync::Arc;
use weighbridge_core::policies::{Policies, least_inflight, prefix_cache};
use weighbridge_core::presets::Preset;
use weighbridge_sim::drive::{FaultKind, Setup};
use weighbridge_sim::workload::{Request, Workload};

/// Tokens of a block.
const BLOCK: u32 = 16;
/// Blocks of a prompt.
const BLOCKS: u64 = 50;

fn policies() -> Policies {
    Policies {
        prefix_cache: Some(prefix_cache::Config::default()),
        least_inflight: Some(least_inflight::Config { weight: 0.1 }),
        ..Policies::default()
    }
}

/// Eight prompts, each of them `times`; one a second.
fn asked(times: u64) -> Workload {
    let one = |number: u64| {
        let prompt = number % 8;
        Request {
            blocks: Arc::from_iter((0..BLOCKS).map(|block| 1000 * prompt + block)),
            ..request(number as f64, BLOCKS as u32 * BLOCK + 1, 5)
        }
    };
    Workload {
        name: "asked again".into(),
        requests: (0..8 * times).map(one).collect(),
        block_tokens: BLOCK,
        ..Workload::default()
    }
}

fn setup(replicas: u32, kv_events: bool) -> Setup {
    let mut setup = Setup {
        replicas,
        ..crate::fleet::setup(pool("p", 4), route(policies()))
    };
    setup.fleet.engines[0].kv_events = kv_events;
    setup
}

/// Three gateways ask in turn for eight prompts, so each prompt comes past all of them, three rounds long.
#[test]
fn every_gateway_knows_what_others_left_in_caches() {
    let hits = |kv_events| driven(&setup(3, kv_events), &asked(4)).unwrap().hit_ratio();
    // All but the first of four times; of a prompt all but its last block's end can be found.
    let most = 0.75 * f64::from(BLOCKS as u32 * BLOCK) / f64::from(BLOCKS as u32 * BLOCK + 1);
    // A prompt that is among the first that a gateway sees may seem to be what all have in common.
    assert!(hits(true) > 0.9 * most, "{} of {most}", hits(true));
    assert!(hits(false) < 0.6 * most, "{} without events", hits(false));
}

/// After 16 s all prompts were asked for twice, and all engines die with what they have: the first prompt's third time is past, that of
/// the others finds nothing, and from then on it is known who has them instead.
#[test]
fn an_engine_that_comes_back_has_nothing() {
    let mut setup = setup(1, true);
    let die = |endpoint| {
        fault(
            16.5,
            endpoint,
            FaultKind::Die {
                down: Some(seconds(0.2)),
            },
        )
    };
    setup.faults = ["e1", "e2", "e3", "e4"].map(die).to_vec();
    let workload = asked(4);
    let run = driven(&setup, &workload).unwrap();
    let cached: Vec<u32> = run.records.iter().map(|record| record.cached_tokens).collect();
    let all = BLOCKS as u32 * BLOCK;
    let found =
        |numbers: std::ops::Range<usize>| cached[numbers].iter().filter(|cached| **cached == all).count();
    assert_eq!(
        (found(0..8), found(8..16), found(25..32)),
        (0, 8, 7),
        "{cached:?}"
    );
    assert_eq!(cached[17..24].iter().sum::<u32>(), 0, "{cached:?}");
}

/// Eight at once with one new beginning, every two seconds: the first token of the first is far away when the last comes.
#[test]
fn those_that_begin_alike_go_together_before_the_engine_has_told() {
    let one = |number: u64| {
        let task = number / 8;
        Request {
            blocks: Arc::from_iter((0..500).map(|block| 1000 * task + block)),
            ..request(task as f64 * 2.0 + (number % 8) as f64 * 0.01, 500 * BLOCK + 1, 5)
        }
    };
    let workload = Workload {
        name: "bursts".into(),
        requests: (0..160).map(one).collect(),
        block_tokens: BLOCK,
        ..Workload::default()
    };
    let hits = |kv_events| {
        let mut setup = crate::fleet::setup(pool("p", 4), route(Preset::Auto.policies()));
        setup.fleet.engines[0].kv_events = kv_events;
        driven(&setup, &workload).unwrap().hit_ratio()
    };
    let (told, guessed) = (hits(true), hits(false));
    assert!(
        told > 0.8 && told > guessed - 0.02,
        "{told} told, {guessed} guessed"
    );
}
