//! What goes wrong, and who joins and leaves.

use super::run::{Due, Loop};
use super::{DriveError, FaultKind};
use std::sync::Arc;
use weighbridge_core::event::Outcome;
use weighbridge_core::spec::{EndpointSpec, Weight};

impl Loop<'_> {
    pub(super) fn fault(&mut self, number: usize) -> Result<(), DriveError> {
        let fault = &self.setup.faults[number];
        if fault.kind == FaultKind::Add {
            return self.join(number);
        }
        let Some(place) = self.slots.find(&fault.endpoint) else {
            return Err(DriveError::NoEndpoint {
                at: fault.at,
                endpoint: format!(
                    "no endpoint {}/{}; there are {}",
                    fault.endpoint.0,
                    fault.endpoint.1,
                    self.slots.names()
                ),
            });
        };
        match fault.kind {
            FaultKind::Die { down } => {
                if let Some(down) = down {
                    self.plan(self.now + down, Due::Serves(place));
                }
                self.die(place)?;
            }
            FaultKind::Slow { factor, lasts } => {
                self.slots.slow(place, factor, self.now);
                if let Some(lasts) = lasts {
                    self.plan(self.now + lasts, Due::Recovers(place));
                }
            }
            FaultKind::StaleMetrics { lasts } => {
                self.slots.slots[place].frozen_until = self.now + lasts;
            }
            FaultKind::Remove => {
                self.slots.leave(place, self.now);
                self.respec(|spec, places| {
                    for (pool, places) in spec.pools.iter_mut().zip(places) {
                        if let Some(index) = places.iter().position(|of| *of == place) {
                            places.remove(index);
                            pool.endpoints.remove(index);
                        }
                    }
                })?;
            }
            FaultKind::Add => {}
        }
        Ok(())
    }

    /// All attempts of an engine break off.
    fn die(&mut self, place: usize) -> Result<(), DriveError> {
        self.slots.die(place, self.now);
        let there = |flight: &Option<super::run::Flight>| flight.is_some_and(|flight| flight.place == place);
        let broken: Vec<u32> = (0_u32..)
            .zip(&self.flights)
            .filter(|(_, flight)| there(flight))
            .map(|(index, _)| index)
            .collect();
        for index in broken {
            let begun = self.flights[index as usize].is_some_and(|flight| flight.first.is_some());
            let outcome = if begun { Outcome::Broken } else { Outcome::Reset };
            self.settle(index, outcome, false)?;
        }
        Ok(())
    }

    /// An endpoint is there, and joins its pool once it has loaded.
    fn join(&mut self, number: usize) -> Result<(), DriveError> {
        let fault = &self.setup.faults[number];
        let (pool_name, name) = &fault.endpoint;
        let pool = self.spec.pools.iter().position(|pool| pool.name == *pool_name);
        let taken = self.slots.find(&fault.endpoint).is_some();
        let Some(pool) = pool.filter(|_| !taken) else {
            let why = if taken {
                " is there already".to_owned()
            } else {
                let names: Vec<&str> = self.spec.pools.iter().map(|pool| &*pool.name).collect();
                format!(": no such pool; there are {}", names.join(", "))
            };
            return Err(DriveError::NoEndpoint {
                at: fault.at,
                endpoint: format!("{pool_name}/{name}{why}"),
            });
        };
        let engine = &self.engines[pool];
        let place = self.slots.add((pool, fault.endpoint.clone()), engine, self.now);
        self.slots.slots[place].up = false;
        let price = self.spec.pools[pool].price;
        self.slots.slots[place].run.price = price.map(|price| (price.input, price.output));
        self.plan(self.now + engine.start, Due::Joins(place));
        Ok(())
    }

    /// An endpoint that has loaded takes its place in the pool.
    pub(super) fn joins(&mut self, place: usize) -> Result<(), DriveError> {
        let slot = &mut self.slots.slots[place];
        slot.up = true;
        let (pool, name) = (slot.pool, slot.run.name.clone());
        if !self.slots.is_member(place) {
            return Ok(());
        }
        self.respec(|spec, places| {
            spec.pools[pool].endpoints.push(EndpointSpec {
                address: Arc::from(format!("{name}#{place}")),
                name,
                weight: Weight::ONE,
                ..EndpointSpec::new("", "")
            });
            places[pool].push(place);
        })?;
        self.slots.serves(place);
        Ok(())
    }

    /// Changes the spec and tells all schedulers.
    fn respec(
        &mut self,
        change: impl FnOnce(&mut weighbridge_core::spec::FleetSpec, &mut Vec<Vec<usize>>),
    ) -> Result<(), DriveError> {
        let mut spec = (*self.spec).clone();
        change(&mut spec, &mut self.places);
        self.spec = Arc::new(spec);
        self.configure()
    }

    pub(super) fn configure(&mut self) -> Result<(), DriveError> {
        for number in 0..self.routers.len() {
            let (spec, names) = (self.spec.clone(), (&self.places[..], self.route));
            let super::routers::Router::Scheduler(replica) = &mut self.routers[number] else {
                continue;
            };
            let actions = replica.configure(self.now, &spec, names);
            for action in actions {
                self.perform(number, action)?;
            }
        }
        Ok(())
    }
}
