//! Labels that filters ask for and none of the endpoints has that sources name.

use crate::Config;
use std::collections::BTreeSet;
use std::sync::Arc;
use weighbridge_core::spec::RouteSpec;

impl Config {
    /// Routes over sources of endpoints, each with a label that its filters ask for and none of its endpoints has: `gpu`, or
    /// `gpu=H100` where it has other values. Of a route with a pool that has no endpoint nothing is said: they may come with
    /// anything.
    #[must_use]
    pub fn labels_missing(&self) -> BTreeSet<(Arc<str>, String)> {
        let mut missing = BTreeSet::new();
        for route in &self.fleet.routes {
            for label in self.missing_of(route) {
                missing.insert((route.name.clone(), label));
            }
        }
        missing
    }

    fn missing_of(&self, route: &RouteSpec) -> Vec<String> {
        let Some(filter) = &route.filters.labels else {
            return Vec::new();
        };
        let at = || route.targets.iter().map(|target| target.pool);
        let specs = || at().filter_map(|at| self.fleet.pools.get(at));
        let mut pools = at().filter_map(|at| self.pools.get(at));
        if !pools.any(|pool| pool.discovery.is_some()) || specs().any(|pool| pool.endpoints.is_empty()) {
            return Vec::new();
        }
        let known: BTreeSet<(&str, &str)> = specs()
            .flat_map(|pool| &pool.endpoints)
            .flat_map(|endpoint| endpoint.labels.iter())
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let named = |name: &str| known.iter().any(|(known, _)| *known == name);
        let rules = filter.rules.iter().flat_map(|rule| &rule.labels);
        let of_rules = rules
            .filter(|(name, values)| !values.iter().any(|value| known.contains(&(&**name, &**value))))
            .map(|(name, values)| match named(name) {
                true => format!("{name}={}", values.join("|")),
                false => name.to_string(),
            });
        let of_headers = (filter.by_header.iter())
            .filter(|name| !named(name))
            .map(|name| name.to_string());
        of_rules.chain(of_headers).collect()
    }
}
