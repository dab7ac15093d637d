//! From a [`Spec`] to its workload. The same spec and seed give the same requests.

mod chain;
mod clock;
mod component;
mod drafts;

use super::order::ordered;
use super::random::Stream;
use super::spec::{Component, Spec, SpecError};
use super::{BLOCKS_MAX, Class, Slo, Workload};
use clock::Clock;
use component::{Person, Source};
use drafts::Drafts;
use std::sync::Arc;
use std::time::Duration;

/// Generates what `spec` describes.
///
/// # Errors
/// If the spec is contradictory, gives no request, or more than fit into memory.
pub fn generate(spec: &Spec, seed: u64) -> Result<Workload, SpecError> {
    generate_within(spec, seed, BLOCKS_MAX)
}

fn generate_within(spec: &Spec, seed: u64, blocks_max: usize) -> Result<Workload, SpecError> {
    let problems = spec.problems();
    if !problems.is_empty() {
        return Err(SpecError::Problems(problems));
    }
    let mut draw = Draw::new(spec, (seed, blocks_max));
    draw.closed_loops()?;
    draw.arrivals(seed)?;
    let mut requests = ordered(draw.drafts.list);
    requests.truncate(spec.requests.map_or(usize::MAX, |most| most as usize));
    if requests.is_empty() {
        return Err(SpecError::Empty);
    }
    let tenants = 1..=spec.tenants.map_or(0, |tenants| tenants.count);
    Ok(Workload {
        name: spec.name.clone(),
        requests,
        block_tokens: spec.block_tokens,
        tenants: tenants.map(|number| format!("tenant-{number}").into()).collect(),
        classes: spec.components.iter().map(class).collect(),
        max_concurrency: spec.max_concurrency,
    })
}

fn class(component: &Component) -> Class {
    let time = |span: Option<super::spec::Span>| span.map(|span| span.0);
    Class {
        name: Arc::from(&*component.name),
        slo: Slo {
            first_token: time(component.slo.ttft),
            per_token: time(component.slo.tpot),
            end_to_end: time(component.slo.e2e),
        },
    }
}

/// Arrivals of one component, or of all that share the common ones.
struct Line<'a> {
    next: Option<Duration>,
    clock: Clock<'a>,
    /// Places of the components that it may go to, and the sums of weights up to each.
    components: Vec<(usize, f64)>,
    choice: Stream,
}

impl Line<'_> {
    fn component(&mut self) -> usize {
        let total = self.components.last().map_or(0.0, |(_, sum)| *sum);
        let drawn = self.choice.unit() * total;
        let found = self.components.iter().find(|(_, sum)| drawn < *sum);
        found.or(self.components.last()).map_or(0, |(place, _)| *place)
    }
}

struct Draw<'a> {
    spec: &'a Spec,
    sources: Vec<Source<'a>>,
    tenants: Stream,
    people: u64,
    drafts: Drafts,
}

impl<'a> Draw<'a> {
    fn new(spec: &'a Spec, (seed, blocks_max): (u64, usize)) -> Self {
        let source = |(place, component)| Source::new(spec, (place, component), seed);
        Self {
            spec,
            sources: spec.components.iter().enumerate().map(source).collect(),
            tenants: Stream::new(seed, "tenants"),
            people: 0,
            drafts: Drafts::new(blocks_max),
        }
    }

    fn person(&mut self) -> Person {
        self.people += 1;
        let tenant = self.spec.tenants.map_or(0, |tenants| {
            self.tenants.zipf(u64::from(tenants.count), tenants.skew)
        });
        Person {
            number: self.people,
            tenant: u16::try_from(tenant).unwrap_or(0),
        }
    }

    fn closed_loops(&mut self) -> Result<(), SpecError> {
        for (place, component) in self.spec.components.iter().enumerate() {
            let Some(closed_loop) = &component.closed_loop else {
                continue;
            };
            for user in 0..closed_loop.users {
                let person = self.person();
                let ramp = closed_loop.ramp.unwrap_or_default().0;
                let start = ramp.mul_f64(f64::from(user) / f64::from(closed_loop.users));
                self.sources[place].user(closed_loop, (person, start), &mut self.drafts)?;
            }
        }
        Ok(())
    }

    fn lines(&self, seed: u64) -> Vec<Line<'a>> {
        let end = self.spec.duration.map(|duration| duration.0);
        let line = |name: &str, arrivals: &'a _, components| Line {
            next: None,
            clock: Clock::new(arrivals, end, Stream::new(seed, &format!("arrivals {name}"))),
            components,
            choice: Stream::new(seed, &format!("components {name}")),
        };
        let mut lines = Vec::new();
        let mut sum = 0.0;
        let mut shares = Vec::new();
        for (place, component) in self.spec.components.iter().enumerate() {
            if let Some(arrivals) = &component.arrivals {
                lines.push(line(&component.name, arrivals, vec![(place, 1.0)]));
            } else if component.closed_loop.is_none() {
                sum += component.weight.unwrap_or(1.0);
                shares.push((place, sum));
            }
        }
        if let Some(arrivals) = &self.spec.arrivals {
            lines.push(line("", arrivals, shares));
        }
        for line in &mut lines {
            line.next = line.clock.next();
        }
        lines
    }

    /// All lines at once, in order of time, until they end or there are enough requests.
    fn arrivals(&mut self, seed: u64) -> Result<(), SpecError> {
        let wanted = self.spec.requests.map_or(usize::MAX, |most| most as usize);
        let mut lines = self.lines(seed);
        while self.drafts.list.len() < wanted {
            let earliest = lines
                .iter_mut()
                .filter_map(|line| Some((line.next?, line)))
                .min_by_key(|(at, _)| *at);
            let Some((at, line)) = earliest else {
                // Whoever asks for a number and gives no end gets the number, or hears that it takes too long.
                let endless = self.spec.duration.is_none() && lines.iter().any(|line| line.clock.endless());
                return if endless { Err(SpecError::TooSlow) } else { Ok(()) };
            };
            let component = line.component();
            line.next = line.clock.next();
            let person = self.person();
            self.sources[component].arrival((person, at), &mut self.drafts)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
