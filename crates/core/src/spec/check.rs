//! What a spec needs, and whether it is consistent.

use super::*;

impl FleetSpec {
    /// Facts of requests and engines that matter where `route` may send them: what it looks at itself, and what other
    /// routes over its pools learn from whoever uses them.
    #[must_use]
    pub fn needs(&self, route: &RouteSpec) -> Needs {
        let shares_pool = |other: &&RouteSpec| {
            let pools = || route.targets.iter().map(|target| target.pool);
            other
                .targets
                .iter()
                .any(|target| pools().any(|pool| pool == target.pool))
        };
        let learned = Needs::LIVE
            .and(Needs::BLOCKS)
            .and(Needs::TOKENS)
            .and(Needs::SIGNALS);
        let others = self.routes.iter().filter(shares_pool);
        let pools = route
            .targets
            .iter()
            .filter_map(|target| self.pools.get(target.pool));
        let own = match pools.into_iter().any(|pool| pool.auto_weight) {
            true => route.needs().and(Needs::SIGNALS),
            false => route.needs(),
        };
        others.fold(own, |needs, other| needs.and(Needs(other.needs().0 & learned.0)))
    }

    /// Whether the spec is consistent: what the scheduler relies on.
    ///
    /// # Errors
    /// The first contradiction found, with where it is.
    pub fn check(&self) -> Result<(), String> {
        unique(self.pools.iter().map(|pool| &pool.name), "pools")?;
        unique(self.routes.iter().map(|route| &route.name), "routes")?;
        for pool in &self.pools {
            pool.check().map_err(|why| format!("pool {}: {why}", pool.name))?;
        }
        for route in &self.routes {
            route
                .check(self.pools.len())
                .map_err(|why| format!("route {}: {why}", route.name))?;
            let unknown = |step: &&FallbackSpec| self.routes.iter().all(|other| other.name != step.route);
            if let Some(step) = route.fallback.iter().find(unknown) {
                return Err(format!(
                    "route {}: fallback {} is no route",
                    route.name, step.route
                ));
            }
        }
        Ok(())
    }
}

impl PoolSpec {
    /// A pool with the rules of a config that says nothing of them, but without probes.
    pub fn new(name: impl Into<Arc<str>>, endpoints: Vec<EndpointSpec>) -> Self {
        Self {
            name: name.into(),
            endpoints,
            keys: 1,
            protocols: Protocols::ANY,
            max_inflight: None,
            breaker: Some(BreakerSpec::default()),
            cooldown: CooldownSpec::default(),
            fail_open: true,
            ramp: Duration::from_secs(10),
            probe: None,
            stall_after: None,
            scrape: Some(Duration::from_secs(1)),
            context_length: None,
            price: None,
            strengths: Vec::new(),
            abilities: Abilities::ALL,
            auto_weight: false,
            label_weight: false,
        }
    }

    /// How old a reading of metrics may be before it counts as none: three intervals.
    #[must_use]
    pub fn fresh_for(&self) -> Duration {
        self.scrape
            .map_or(Duration::ZERO, |interval| interval.saturating_mul(3))
    }

    fn check(&self) -> Result<(), String> {
        unique(self.endpoints.iter().map(|endpoint| &endpoint.name), "endpoints")?;
        if self.keys == 0 {
            return Err("keys: at least 1".into());
        }
        if let Some(endpoint) = self.endpoints.iter().find(|e| e.weight > Weight::MAX) {
            return Err(format!("endpoint {}: weight above 1e9", endpoint.name));
        }
        match &self.breaker {
            Some(breaker) if !(0.0..=1.0).contains(&breaker.error_rate) => {
                Err("breaker.error_rate: not in [0, 1]".into())
            }
            Some(breaker) if breaker.consecutive == 0 => Err("breaker.consecutive: at least 1".into()),
            _ => match &self.probe {
                Some(probe) if probe.interval.is_zero() => Err("probe.interval: above 0".into()),
                _ => Ok(()),
            },
        }
    }
}

impl RouteSpec {
    fn check(&self, pools: usize) -> Result<(), String> {
        unique(self.targets.iter().map(|target| &target.name), "targets")?;
        if self.targets.is_empty() || self.targets.len() > usize::from(u16::MAX) {
            return Err("targets: 1 to 65535".into());
        }
        if let Some(target) = self.targets.iter().find(|target| target.pool >= pools) {
            return Err(format!("target {}: no pool {}", target.name, target.pool));
        }
        let weights = || self.targets.iter().filter_map(|target| target.weight);
        let weighted = weights().count();
        if weighted > 0 {
            if weighted < self.targets.len() {
                return Err("weights: on every target or on none".into());
            }
            if !self.policies.is_empty() {
                return Err("weights and policies exclude each other".into());
            }
            if weights().all(|weight| weight == Weight::ZERO) {
                return Err("weights: all 0".into());
            }
            if weights().any(|weight| weight > Weight::MAX) {
                return Err("weights: above 1e9".into());
            }
        }
        for policy in self.policies.configs() {
            policy
                .check()
                .map_err(|why| format!("policies.{}.{why}", policy.name()))?;
        }
        if let Picker::WeightedRandom {
            temperature: Some(temperature),
        } = self.picker
            && !(temperature.is_finite() && temperature > 0.0)
        {
            return Err("picker.weighted_random.temperature: above 0".into());
        }
        for modifier in self.policies.modifiers() {
            modifier
                .check()
                .map_err(|why| format!("policies.{}.{why}", modifier.name()))?;
        }
        let budget = &self.retry.budget;
        let is_rate = |rate: f64| rate.is_finite() && rate >= 0.0;
        if !is_rate(budget.ratio) || !is_rate(budget.floor_per_second) {
            return Err("retry.budget: ratio and floor_per_second are numbers of at least 0".into());
        }
        Ok(())
    }
}

/// Whether no name comes twice.
fn unique<'a>(names: impl Iterator<Item = &'a Arc<str>>, what: &str) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("{what}: {name} comes twice"));
        }
    }
    Ok(())
}
