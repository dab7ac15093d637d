//! The fleet is now another: what kept its name keeps its state.

use super::Scheduler;
use super::by_hand::{Identity, identity};
use crate::action::{Action, Bindings};
use crate::endpoint::Endpoint;
use crate::ids::{EndpointId, RouteId};
use crate::pool::Pool;
use crate::rng::{Rng, splitmix};
use crate::route::{Plan, Route};
use crate::spec::{FleetSpec, PoolSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Scheduler {
    /// A spec that contradicts itself changes nothing; the config crate makes none.
    pub(super) fn configure(&mut self, spec: &FleetSpec, actions: &mut Vec<Action>) {
        let checked = spec.check();
        debug_assert_eq!(checked, Ok(()), "the config crate resolves to valid specs");
        if checked.is_err() {
            actions.push(Action::Configured(Bindings::default()));
            return;
        }
        if spec.seed != self.spec_seed {
            self.spec_seed = spec.seed;
            self.rng = Rng::new(self.seed ^ splitmix(spec.seed));
        }
        self.limit_caches(spec);
        let pools = self.configure_endpoints(spec);
        let routes = self.configure_routes(spec, &pools);
        actions.push(Action::Configured(Bindings {
            routes,
            endpoints: pools.into_iter().map(|(_, ids)| ids).collect(),
        }));
    }

    fn configure_endpoints(&mut self, spec: &FleetSpec) -> Vec<(Arc<PoolSpec>, Vec<EndpointId>)> {
        let serving: BTreeSet<Arc<str>> = (self.listed.iter())
            .map(|slot| Arc::clone(&self.endpoints[*slot as usize].pool.name))
            .collect();
        let mut before: BTreeMap<Identity, u32> = (self.listed.drain(..).chain(self.lingering.drain(..)))
            .map(|slot| (identity(&self.endpoints[slot as usize]), slot))
            .collect();
        let mut pools = Vec::with_capacity(spec.pools.len());
        for pool in &spec.pools {
            let mut pool = pool.clone();
            if pool.label_weight || pool.auto_weight {
                pool.weigh_by_labels();
            }
            let pool = Arc::new(pool);
            let pool_at = self.pool_of(&pool.name);
            let ramps = serving.contains(&pool.name);
            let ids: Vec<EndpointId> = (0..pool.endpoints.len())
                .map(|place| {
                    let endpoint = &pool.endpoints[place];
                    let identity = (
                        Arc::clone(&pool.name),
                        Arc::clone(&endpoint.name),
                        Arc::clone(&endpoint.address),
                    );
                    let found = before.remove(&identity);
                    let id = self.place(found, (&pool, place), ramps);
                    self.endpoints[id.slot as usize].pool_at = pool_at;
                    id
                })
                .collect();
            self.introduce_siblings(&pool, &ids);
            pools.push((pool, ids));
        }
        for slot in before.into_values() {
            self.remove(slot);
        }
        pools
    }

    /// Place of the state of the pool with this name.
    fn pool_of(&mut self, name: &Arc<str>) -> usize {
        let found = self.pools.iter().position(|pool| pool.name == *name);
        found.unwrap_or_else(|| {
            self.pools.push(Pool::new(name));
            self.pools.len() - 1
        })
    }

    /// Keeps the endpoint in slot `found`, or makes a new one; `ramps`: its pool already serves.
    fn place(
        &mut self,
        found: Option<u32>,
        (pool, place): (&Arc<PoolSpec>, usize),
        ramps: bool,
    ) -> EndpointId {
        let now = self.now;
        let spec = &pool.endpoints[place];
        let slot = found.unwrap_or_else(|| self.new_slot(spec, pool));
        let endpoint = &mut self.endpoints[slot as usize];
        let joins = found.is_none() || endpoint.removed;
        endpoint.removed = false;
        endpoint.reconfigure(spec, pool, now);
        if found.is_none() {
            self.by_hand.give_back(endpoint, now);
        }
        if joins && ramps {
            endpoint.ramp.start(now, pool.ramp);
            self.start_even(slot, &pool.name);
        }
        let endpoint = &mut self.endpoints[slot as usize];
        endpoint.start_probing(now, &mut self.rng);
        let id = endpoint.id;
        self.listed.push(slot);
        self.touched.push(slot);
        id
    }

    fn new_slot(&mut self, spec: &crate::spec::EndpointSpec, pool: &Arc<PoolSpec>) -> u32 {
        if let Some(slot) = self.free.pop() {
            let place = &mut self.endpoints[slot as usize];
            let id = EndpointId {
                slot,
                generation: place.id.generation.wrapping_add(1),
            };
            *place = Endpoint::new(id, spec, pool);
            return slot;
        }
        let slot = u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX);
        let id = EndpointId { slot, generation: 0 };
        self.endpoints.push(Endpoint::new(id, spec, pool));
        slot
    }

    /// Takes an endpoint out; it lingers while it has requests.
    fn remove(&mut self, slot: u32) {
        let endpoint = &mut self.endpoints[slot as usize];
        endpoint.removed = true;
        endpoint.probes = None;
        endpoint.engine.regret = 0.0;
        self.prefixes.cleared(slot);
        self.under_way.cleared(slot);
        self.prefixes.set_capacity(slot, None);
        endpoint.siblings = Arc::default();
        if endpoint.inflight == 0 {
            self.by_hand.keep(endpoint, self.now);
            self.free.push(slot);
        } else {
            self.lingering.push(slot);
        }
        self.touched.push(slot);
    }

    fn configure_routes(
        &mut self,
        spec: &FleetSpec,
        pools: &[(Arc<PoolSpec>, Vec<EndpointId>)],
    ) -> Vec<RouteId> {
        let mut before = std::mem::take(&mut self.route_names);
        for route in &spec.routes {
            let next = u32::try_from(self.routes.len()).unwrap_or(u32::MAX);
            let found = before.remove(&route.name);
            let id = found.unwrap_or(RouteId(next));
            let plan = Plan::new(id, route, (pools, spec.zone.as_ref()));
            match self.routes.get_mut(id.0 as usize) {
                Some(known) => known.reconfigure(plan),
                None => self.routes.push(Route::new(plan)),
            }
            self.route_names.insert(Arc::clone(&route.name), id);
        }
        for id in before.into_values() {
            if let Some(route) = self.routes.get_mut(id.0 as usize) {
                route.removed = true;
            }
        }
        self.route_order = (spec.routes.iter())
            .filter_map(|route| self.route_names.get(&route.name).copied())
            .collect();
        self.route_order.clone()
    }
}
