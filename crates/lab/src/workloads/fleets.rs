//! Engines of the cases, and what goes wrong with them.

use super::{CaseError, Trouble};
use std::time::Duration;
use weighbridge_core::spec::{EndpointSpec, PoolSpec, RouteSpec, TargetSpec};
use weighbridge_sim::catalogue;
use weighbridge_sim::drive::{EngineSpec, Fault, FaultKind, Setup};

/// Which engines serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fleets {
    /// Eight of Llama-3.1-8B on one RTX PRO 6000 each: the engine whose speed is measured.
    Eight,
    /// Four of Llama-3.1-70B on four H100 each, with the cache of llm-d's report.
    FourLarge,
    /// Llama-3.1-8B on four A100 and on two H100.
    TwoTypes,
}

/// Tokens of cache of an engine of llm-d's report.
const LARGE_CACHE: u32 = 461_376;

impl Fleets {
    /// The fleet behind one route.
    pub(super) fn setup(self) -> Result<Setup, CaseError> {
        let pools = match self {
            Self::Eight => vec![("gpus", 8, small()?)],
            Self::FourLarge => vec![("gpus", 4, large()?)],
            Self::TwoTypes => {
                vec![
                    ("h100", 2, engine("llama-3.1-8b@h100")?),
                    ("a100", 4, engine("llama-3.1-8b@a100")?),
                ]
            }
        };
        let route = RouteSpec::new(
            "model",
            pools
                .iter()
                .enumerate()
                .map(|(place, (name, ..))| TargetSpec::new(*name, place))
                .collect(),
        );
        let pool = |(name, count, engine): (&str, usize, EngineSpec)| {
            let endpoints = (1..=count).map(|number| {
                let name = format!("{name}-{number}");
                EndpointSpec::new(name.as_str(), name.as_str())
            });
            (PoolSpec::new(name, endpoints.collect()), engine)
        };
        Ok(Setup::new(pools.into_iter().map(pool).collect(), route))
    }
}

fn small() -> Result<EngineSpec, CaseError> {
    engine("llama-3.1-8b@rtx-pro-6000")
}

fn large() -> Result<EngineSpec, CaseError> {
    let mut engine = engine("llama-3.1-70b@h100x4")?;
    engine.settings.kv_blocks = LARGE_CACHE / engine.settings.block_size.max(1);
    Ok(engine)
}

fn engine(name: &str) -> Result<EngineSpec, CaseError> {
    let found = catalogue::engine(name).map_err(|error| CaseError::Description(error.to_string()))?;
    Ok(EngineSpec {
        first_byte: None,
        ..found.spec
    })
}

/// How much longer the slow engine takes.
const SLOW: f64 = 4.0;
/// How long the engine that dies is gone.
const GONE: Duration = Duration::from_secs(60);
/// Every so often metrics stand still, for half of that time.
const STALE_EVERY: Duration = Duration::from_secs(60);

/// What goes wrong in a run of this length.
pub(super) fn faults(trouble: Trouble, setup: &Setup, end: Duration) -> Vec<Fault> {
    let Some(pool) = setup.fleet.spec.pools.first() else {
        return Vec::new();
    };
    let fault = |at, endpoint: &EndpointSpec, kind| Fault {
        at,
        endpoint: (pool.name.clone(), endpoint.name.clone()),
        kind,
    };
    let Some(first) = pool.endpoints.first() else {
        return Vec::new();
    };
    match trouble {
        Trouble::None => Vec::new(),
        Trouble::SlowEngine => {
            let kind = FaultKind::Slow {
                factor: SLOW,
                lasts: None,
            };
            vec![fault(Duration::ZERO, first, kind)]
        }
        Trouble::Death => {
            let kind = FaultKind::Die {
                down: Some(GONE.min(end / 4)),
            };
            vec![fault(end / 2, first, kind)]
        }
        Trouble::Stale => {
            let lasts = STALE_EVERY / 2;
            let mut faults = Vec::new();
            let mut at = lasts;
            while at < end {
                let stands = |endpoint| fault(at, endpoint, FaultKind::StaleMetrics { lasts });
                faults.extend(pool.endpoints.iter().map(stands));
                at += STALE_EVERY;
            }
            faults
        }
    }
}
