//! Fleets read off an input: every rule of pools and routes varies.

use crate::input::Input;
use serde_json::{Value, json};
use std::time::Duration;
use weighbridge_core::filters::Filters;
use weighbridge_core::policies::{Policies, least_inflight};
use weighbridge_core::spec::{
    BreakerSpec, BudgetSpec, CooldownSpec, EndpointSpec, FallbackOn, FallbackSpec, FleetSpec, Picker,
    PoolSpec, Price, ProbeSpec, Protocols, RetrySpec, RouteSpec, TargetSpec, Weight,
};
use weighbridge_core::work::Abilities;

const SPANS: [u64; 6] = [0, 1, 100, 1_000, 5_000, 60_000];

fn span(input: &mut Input<'_>) -> Duration {
    Duration::from_millis(SPANS[input.below(SPANS.len())])
}

pub(super) fn read(input: &mut Input<'_>) -> FleetSpec {
    let seed = u64::from(input.byte());
    let pools: Vec<_> = (0..=input.below(3)).map(|index| pool(index, input)).collect();
    let routes = 1 + input.below(3);
    let routes = (0..routes)
        .map(|index| route((index, routes), pools.len(), input))
        .collect();
    FleetSpec {
        pools,
        routes,
        seed,
        zone: input.flag().then(|| "a".into()),
    }
}

fn pool(index: usize, input: &mut Input<'_>) -> PoolSpec {
    let flags = input.byte();
    let endpoint = |place: usize, input: &mut Input<'_>| {
        let how = input.byte();
        // Two endpoints of a pool may be ranks of one engine.
        let rank = (flags & 1 == 0 && how >> 4 & 1 == 1).then_some(place % 2);
        EndpointSpec {
            name: match rank {
                Some(rank) => format!("e{}#{rank}", place / 2).into(),
                None => format!("e{place}").into(),
            },
            // A new address makes a new endpoint of the same name.
            address: format!("http://{index}-{place}-{}", how >> 7).into(),
            weight: [Weight::ONE, Weight::ONE, Weight(2_500_000), Weight::ZERO][usize::from(how % 4)],
            labels: [
                ("gpu".into(), ["T4", "A100"][usize::from(how >> 2 & 1)].into()),
                ("zone".into(), ["a", "b"][usize::from(how >> 3 & 1)].into()),
            ]
            .into(),
            rank: rank.and_then(|rank| u32::try_from(rank).ok()),
        }
    };
    PoolSpec {
        name: format!("p{index}").into(),
        endpoints: (0..input.below(5)).map(|place| endpoint(place, input)).collect(),
        keys: 1 + u16::from(flags & 1) * 2,
        protocols: Protocols(if flags & 2 == 0 { 3 } else { input.byte() & 3 }),
        max_inflight: (flags & 4 != 0).then(|| 1 + u32::from(input.byte() % 3)),
        breaker: (flags & 8 == 0).then(|| BreakerSpec {
            window: span(input),
            min_requests: u32::from(input.byte() % 4),
            error_rate: f64::from(input.byte()) / 255.0,
            consecutive: 1 + u32::from(input.byte() % 4),
            open_for: span(input),
        }),
        cooldown: CooldownSpec {
            default: span(input),
            max: span(input),
        },
        fail_open: flags & 16 == 0,
        ramp: span(input),
        probe: (flags & 32 != 0).then(|| ProbeSpec {
            interval: span(input).max(Duration::from_millis(1)),
            unhealthy_after: u32::from(input.byte() % 3),
            healthy_after: u32::from(input.byte() % 3),
        }),
        stall_after: (flags & 64 != 0).then(|| span(input)),
        scrape: (flags & 128 == 0).then(|| span(input)),
        context_length: input.flag().then(|| u32::from(input.short())),
        price: input.flag().then(|| Price {
            input: f64::from(input.byte()),
            output: f64::from(input.byte()) / 16.0,
        }),
        strengths: if input.flag() {
            vec!["chat".into(), "code".into()]
        } else {
            Vec::new()
        },
        abilities: Abilities(input.byte() | input.byte()),
        auto_weight: input.byte() < 64,
        label_weight: input.byte() < 32,
    }
}

fn route((index, routes): (usize, usize), pools: usize, input: &mut Input<'_>) -> RouteSpec {
    let flags = input.byte();
    let weighted = flags & 1 != 0;
    let target = |place: usize, input: &mut Input<'_>| TargetSpec {
        name: format!("t{place}").into(),
        pool: input.below(pools),
        weight: weighted.then(|| Weight(u64::from(input.byte() % 4) * 1_000_000)),
        order: 1 + u16::from(input.byte() % 3) / 2,
        serves_tokens: input
            .flag()
            .then(|| (u32::from(input.byte()), 256 + u32::from(input.short()))),
    };
    let name = |index: usize| format!("r{index}").into();
    RouteSpec {
        name: name(index),
        targets: (0..=input.below(3)).map(|place| target(place, input)).collect(),
        policies: if weighted {
            Policies::default()
        } else {
            policies(flags, input)
        },
        filters: filters(input),
        picker: match input.byte() % 8 {
            0 => Picker::PowerOfTwo,
            1 => Picker::WeightedRandom { temperature: None },
            2 => Picker::WeightedRandom {
                temperature: Some(f64::from(input.byte()) / 64.0 + 1e-6),
            },
            _ => Picker::Max,
        },
        spill: flags & 8 == 0,
        retry: RetrySpec {
            max_attempts: 1 + u32::from(input.byte() % 4),
            on_connect: flags & 16 == 0,
            on_reset: flags & 32 != 0,
            on_timeout: flags & 64 != 0,
            on_status: vec![429, 500, 503, 529],
            move_on_after: None,
            budget: BudgetSpec {
                ratio: f64::from(input.byte()) / 100.0,
                floor_per_second: f64::from(input.byte()) / 10.0,
                window: span(input),
            },
        },
        // Back to itself too, which must not go round for ever.
        fallback: (0..input.below(3))
            .map(|_| FallbackSpec {
                route: name(input.below(routes)),
                on: FallbackOn(input.byte()),
            })
            .collect(),
    }
}

/// Any of the catalogue, with the settings that they have by themselves.
fn policies(flags: u8, input: &mut Input<'_>) -> Policies {
    let mut bits = u32::from(input.short()) | u32::from(input.byte()) << 16;
    // Few at a time, so that each decides now and then.
    bits &= u32::from(input.short()) | u32::from(input.byte()) << 16;
    let chosen = |place: &usize| bits >> (place % 24) & 1 == 1;
    let places = (0..Policies::NAMES.len()).filter(chosen);
    let settings: serde_json::Map<String, Value> = places
        .map(|place| (Policies::NAMES[place].to_owned(), json!({})))
        .collect();
    let mut policies: Policies = serde_json::from_value(settings.into()).unwrap_or_default();
    if flags & 2 != 0 {
        policies.session_affinity = Some(Default::default());
    }
    if flags & 4 != 0 {
        policies.least_inflight = Some(least_inflight::Config { weight: 0.5 });
    }
    policies
}

fn filters(input: &mut Input<'_>) -> Filters {
    let bits = input.byte() & input.byte();
    let chosen = |place: &usize| bits >> (place % 8) & 1 == 1;
    let places = (0..Filters::NAMES.len()).filter(chosen);
    let settings: serde_json::Map<String, Value> = places
        .map(|place| (Filters::NAMES[place].to_owned(), json!({})))
        .collect();
    serde_json::from_value(settings.into()).unwrap_or_default()
}
