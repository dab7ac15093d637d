//! A route, compiled for deciding: candidates in one flat list, scorers built, keys of the hash laid out.

use crate::budget::Budget;
use crate::filters::Filter;
use crate::ids::{EndpointId, RouteId};
use crate::policies::{Modifier, Scorer};
use crate::select::shares::Shares;
use crate::spec::{
    FallbackSpec, Picker, PoolSpec, Protocols, RetrySpec, RouteBy, RouteSpec, TargetSpec, Weight,
};
use crate::time::Time;
use crate::work::Needs;
use std::ops::Range;
use std::sync::Arc;

/// Pools, each with the ids of its endpoints.
type Pools<'a> = &'a [(Arc<PoolSpec>, Vec<EndpointId>)];

/// What does not change between two reloads. Requests hold the one of their arrival.
pub(crate) struct Plan {
    pub(crate) id: RouteId,
    pub(crate) name: Arc<str>,
    pub(crate) route_by: RouteBy,
    pub(crate) spill: bool,
    pub(crate) retry: RetrySpec,
    pub(crate) fallback: Vec<FallbackSpec>,
    pub(crate) targets: Vec<Target>,
    /// In the order of the targets and their pools' endpoints.
    pub(crate) candidates: Vec<Candidate>,
    /// In the order of the catalogue.
    pub(crate) filters: Vec<Box<dyn Filter>>,
    pub(crate) picker: Picker,
    /// In the order of the catalogue.
    pub(crate) scorers: Vec<Weighted>,
    /// In the order of the catalogue.
    pub(crate) modifiers: Vec<Box<dyn Modifier>>,
    /// Zone of the gateway.
    pub(crate) zone: Option<Arc<str>>,
    /// What these look at.
    pub(crate) needs: Needs,
    /// Whether one of them has chance in it.
    pub(crate) draws: bool,
    /// Whether one of them has its pools learn to predict.
    pub(crate) predicts: bool,
}

/// A pool as one choice.
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    pub(crate) spec: TargetSpec,
    /// Rules of its pool.
    pub(crate) pool: Arc<PoolSpec>,
    pub(crate) order: u16,
    /// Its share; 1 where targets rotate.
    pub(crate) weight: u64,
    pub(crate) protocols: Protocols,
    pub(crate) fail_open: bool,
    /// Its candidates.
    pub(crate) candidates: Range<usize>,
}

/// A (target, endpoint) pair.
pub(crate) struct Candidate {
    pub(crate) endpoint: EndpointId,
    pub(crate) target: u16,
    /// Target name, a NUL byte, endpoint name.
    pub(crate) key: Box<[u8]>,
}

/// A policy with its weight in the sum.
pub(crate) struct Weighted {
    pub(crate) name: &'static str,
    pub(crate) weight: f64,
    pub(crate) scorer: Box<dyn Scorer>,
}

impl Plan {
    /// Compiles `spec`; `pools` holds each pool with the ids of its endpoints.
    pub(crate) fn new(id: RouteId, spec: &RouteSpec, (pools, zone): (Pools<'_>, Option<&Arc<str>>)) -> Self {
        let mut candidates = Vec::new();
        let mut targets = Vec::with_capacity(spec.targets.len());
        for (place, target) in (0u16..).zip(&spec.targets) {
            let Some((pool, ids)) = pools.get(target.pool) else {
                continue;
            };
            let first = candidates.len();
            candidates.extend(ids.iter().zip(&pool.endpoints).map(|(id, endpoint)| {
                Candidate {
                    endpoint: *id,
                    target: place,
                    key: [target.name.as_bytes(), &[0], endpoint.name.as_bytes()]
                        .concat()
                        .into(),
                }
            }));
            targets.push(Target {
                name: Arc::clone(&target.name),
                spec: target.clone(),
                pool: Arc::clone(pool),
                order: target.order,
                weight: target.weight.map_or(1, |Weight(millionths)| millionths),
                protocols: pool.protocols,
                fail_open: pool.fail_open,
                candidates: first..candidates.len(),
            });
        }
        Self {
            id,
            name: Arc::clone(&spec.name),
            route_by: spec.route_by(),
            spill: spec.spill || spec.route_by() != RouteBy::Weight,
            retry: spec.retry.clone(),
            fallback: spec.fallback.clone(),
            targets,
            candidates,
            modifiers: (spec.policies.modifiers()).map(|config| config.build()).collect(),
            zone: zone.cloned(),
            needs: spec.needs(),
            draws: spec.policies.configs().any(crate::policies::ScorerConfig::draws),
            predicts: spec
                .policies
                .configs()
                .any(crate::policies::ScorerConfig::predicts),
            filters: (spec.filters.configs()).map(|config| config.build()).collect(),
            picker: spec.picker,
            scorers: (spec.policies.configs())
                .map(|config| Weighted {
                    name: config.name(),
                    weight: config.weight(),
                    scorer: config.build(),
                })
                .collect(),
        }
    }

    /// Whether nothing differs but endpoints, so that a request may go on by `other`.
    pub(crate) fn same_rules(&self, other: &Self) -> bool {
        self.retry == other.retry
            && self.fallback == other.fallback
            && self.targets.len() == other.targets.len()
            && (self.targets.iter().zip(&other.targets)).all(|(a, b)| {
                (&a.name, &a.pool.name, a.order, a.weight, a.protocols, a.fail_open)
                    == (&b.name, &b.pool.name, b.order, b.weight, b.protocols, b.fail_open)
            })
    }

    /// Whether candidates and targets stand at the same places, so that what is kept per place stays true.
    fn same_layout(&self, other: &Self) -> bool {
        self.targets.len() == other.targets.len()
            && self.candidates.len() == other.candidates.len()
            && (self.targets.iter().zip(&other.targets))
                .all(|(a, b)| a.name == b.name && a.candidates == b.candidates)
            && (self.candidates.iter().zip(&other.candidates)).all(|(a, b)| a.endpoint == b.endpoint)
    }
}

/// What changes with every request.
pub(crate) struct Route {
    pub(crate) plan: Arc<Plan>,
    pub(crate) removed: bool,
    pub(crate) shares: Shares,
    pub(crate) budget: Budget,
    /// Requests between arrival and end that asked for this route.
    pub(crate) requests: u32,
    /// When a decision is next explained in full without being asked.
    pub(crate) sample_at: Time,
}

impl Route {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            shares: Shares::new(plan.targets.len()),
            budget: Budget::new(plan.retry.budget.clone()),
            plan: Arc::new(plan),
            removed: false,
            requests: 0,
            sample_at: Time::ZERO,
        }
    }

    /// Takes over a new plan; what is kept per place survives if the places do.
    pub(crate) fn reconfigure(&mut self, plan: Plan) {
        if !self.plan.same_layout(&plan) {
            self.shares = Shares::new(plan.targets.len());
        }
        self.budget.reconfigure(&plan.retry.budget);
        self.plan = Arc::new(plan);
        self.removed = false;
    }

    /// The shares, if `plan` is of their layout.
    pub(crate) fn shares_of(&self, plan: &Arc<Plan>) -> Option<&Shares> {
        (Arc::ptr_eq(&self.plan, plan) || self.plan.same_layout(plan)).then_some(&self.shares)
    }
}
