//! Fleets read off an input: every rule of pools and routes varies.

use crate::input::Input;
use std::time::Duration;
use weighbridge_core::policies::{Policies, least_inflight, session_affinity};
use weighbridge_core::spec::{
    BreakerSpec, BudgetSpec, CooldownSpec, EndpointSpec, FallbackOn, FallbackSpec, FleetSpec, PoolSpec,
    ProbeSpec, Protocols, RetrySpec, RouteSpec, TargetSpec, Weight,
};

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
        ..FleetSpec::default()
    }
}

fn pool(index: usize, input: &mut Input<'_>) -> PoolSpec {
    let flags = input.byte();
    let endpoint = |place: usize, input: &mut Input<'_>| {
        let how = input.byte();
        EndpointSpec {
            name: format!("e{place}").into(),
            // A new address makes a new endpoint of the same name.
            address: format!("http://{index}-{place}-{}", how >> 7).into(),
            weight: [Weight::ONE, Weight::ONE, Weight(2_500_000), Weight::ZERO][usize::from(how % 4)],
            ..EndpointSpec::new("", "")
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
        ..PoolSpec::new("", Vec::new())
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
        ..TargetSpec::new("", 0)
    };
    let name = |index: usize| format!("r{index}").into();
    RouteSpec {
        name: name(index),
        targets: (0..=input.below(3)).map(|place| target(place, input)).collect(),
        policies: Policies {
            session_affinity: (flags & 2 != 0 && !weighted).then(|| session_affinity::Config {
                weight: 1.0,
                ..Default::default()
            }),
            least_inflight: (flags & 4 != 0 && !weighted).then_some(least_inflight::Config { weight: 0.5 }),
            ..Policies::default()
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
        ..RouteSpec::new("", Vec::new())
    }
}
