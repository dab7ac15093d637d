//! Decides `--iterations` times among `--candidates` endpoints, one request after the other: arrival, choice, reservation,
//! end. Prints nothing, for counting instructions (`valgrind --tool=callgrind`): with `--iterations 0` only the set-up
//! runs, so the difference of two runs is the cost of the decisions. With `--clock` it prints what a decision takes.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "the scheduler has no clock; this measures what it takes, and tells"
)]

mod fleet;

use fleet::Setting;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::event::{Arrival, Ended, Outcome, Spent};
use weighbridge_core::ids::RequestId;
use weighbridge_core::policies::session_affinity::SessionKey;
use weighbridge_core::spec::Protocols;
use weighbridge_core::{Action, Event, RouteId, Scheduler, Time};

const USAGE: &str = "\
decision [--iterations N] [--candidates N] [--policies a,b,… | --preset NAME] [--prompt-tokens N] [--block-tokens N]
         [--prompts N] [--inflight N] [--takes MICROSECONDS] [--readings] [--clock]";

/// Time between two requests.
const GAP: Duration = Duration::from_micros(100);
/// Requests between two readings of an engine.
const PER_READING: u64 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut setting = Setting::default();
    let (mut iterations, mut clock) = (1000, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--readings" => setting.readings = true,
            "--clock" => clock = true,
            _ => {
                let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
                match name.as_str() {
                    "--iterations" => iterations = value.parse()?,
                    "--candidates" => setting.candidates = value.parse()?,
                    "--policies" => setting.policies = fleet::policies(&value)?,
                    "--preset" => setting.policies = fleet::preset(&value)?,
                    "--takes" => setting.takes = Duration::from_micros(value.parse()?),
                    "--prompt-tokens" => setting.prompt_tokens = value.parse()?,
                    "--block-tokens" => setting.block_tokens = value.parse()?,
                    "--prompts" => setting.prompts = value.parse()?,
                    "--inflight" => setting.inflight = value.parse()?,
                    _ => return Err(format!("{name}: unknown. {USAGE}").into()),
                }
            }
        }
    }
    let mut bench = Bench::new(setting);
    if clock {
        bench.warm_up();
        println!("{}", bench.timed(iterations));
    } else {
        for _ in 0..iterations {
            bench.decide();
        }
    }
    Ok(())
}

struct Bench {
    setting: Setting,
    scheduler: Scheduler,
    actions: Vec<Action>,
    /// Every prompt that is sent, in turn.
    prompts: Vec<Arc<weighbridge_core::work::Work>>,
    endpoints: Vec<weighbridge_core::EndpointId>,
    turn: u64,
}

impl Bench {
    /// The fleet, with as many requests in flight at each endpoint as the setting says.
    fn new(setting: Setting) -> Self {
        let mut scheduler = Scheduler::new(1);
        let mut actions = Vec::new();
        let spec = Event::Configure(Arc::new(setting.fleet()));
        scheduler.step(Time::ZERO, spec, &mut actions);
        let endpoints = actions.iter().find_map(|action| match action {
            Action::Configured(bindings) => Some(bindings.endpoints.concat()),
            _ => None,
        });
        let mut bench = Self {
            prompts: setting.works(),
            setting,
            scheduler,
            actions,
            endpoints: endpoints.unwrap_or_default(),
            turn: 0,
        };
        for _ in 0..bench.setting.inflight * bench.setting.candidates {
            let arrival = bench.arrival();
            let now = bench.now();
            bench
                .scheduler
                .step(now, Event::Arrive(arrival), &mut bench.actions);
        }
        bench
    }

    fn now(&self) -> Time {
        Time::from_origin(GAP * u32::try_from(self.turn).unwrap_or(u32::MAX))
    }

    fn arrival(&mut self) -> Arrival {
        self.turn += 1;
        if self.setting.readings && self.turn % PER_READING == 1 {
            self.read();
        }
        let session = SessionKey::new(&(self.turn % 1000).to_le_bytes());
        let prompt = usize::try_from(self.turn).unwrap_or(0) % self.prompts.len().max(1);
        Arrival {
            protocols: Protocols::OPENAI,
            session: Some(session),
            work: self.prompts.get(prompt).map(Arc::clone),
            ..Arrival::new(RequestId(self.turn), RouteId(0))
        }
    }

    /// All engines tell of themselves.
    fn read(&mut self) {
        let now = self.now();
        for (place, endpoint) in (0u32..).zip(&self.endpoints) {
            let reading = Box::new(fleet::reading(place));
            let endpoint = *endpoint;
            self.scheduler
                .step(now, Event::Scraped { endpoint, reading }, &mut self.actions);
        }
    }

    /// One request from arrival to end; how long its arrival took.
    fn decide(&mut self) -> Duration {
        let arrival = Event::Arrive(self.arrival());
        let now = self.now();
        self.actions.clear();
        let start = std::time::Instant::now();
        self.scheduler.step(now, arrival, &mut self.actions);
        let took = start.elapsed();
        if let Some(Action::Dispatch(dispatch)) = self.actions.last() {
            let takes = self.setting.takes;
            let (request, attempt) = (dispatch.request, dispatch.attempt);
            if self.setting.prompt_tokens > 0 {
                let event = Event::FirstToken { request, attempt };
                self.scheduler.step(now.after(takes), event, &mut self.actions);
            }
            let ended = Ended {
                committed: true,
                spent: (self.setting.prompt_tokens > 0).then_some(Spent {
                    prompt: self.setting.prompt_tokens,
                    cached: None,
                    output: 100,
                }),
                ..Ended::new(request, attempt, Outcome::Complete)
            };
            self.scheduler
                .step(now.after(takes * 2), Event::Ended(ended), &mut self.actions);
        }
        black_box(&self.actions);
        took
    }

    /// Until every prompt has been everywhere it will be.
    fn warm_up(&mut self) {
        let turns = 2 * self.setting.prompts.max(self.setting.candidates).max(500);
        for _ in 0..turns {
            self.decide();
        }
    }

    /// What the arrival of a request takes, in words.
    fn timed(&mut self, iterations: usize) -> String {
        let mut times: Vec<Duration> = (0..iterations).map(|_| self.decide()).collect();
        times.sort_unstable();
        let at = |share: usize| {
            let time = times.get(times.len() * share / 100).copied();
            time.unwrap_or_default().as_secs_f64() * 1e6
        };
        let (count, policies) = (self.setting.candidates, self.setting.policies.configs().count());
        let each = at(50) * 1e3 / (count * policies.max(1)) as f64;
        format!(
            "{count} endpoints, {policies} policies: p10 {:.2} µs, p50 {:.2} µs, p90 {:.2} µs; p50 per endpoint and policy {each:.1} ns",
            at(10),
            at(50),
            at(90),
        )
    }
}
