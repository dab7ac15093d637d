//! What cannot be generated, said all at once.

use super::spread::WHOLE_MAX;
use super::{Arrivals, Choice, Component, Process, Quantity, Shared, Spec, Spread};
use std::fmt;

/// Lowest rate per second that is not none.
const RATE_MIN: f64 = 1e-6;
/// Highest rate per second.
const RATE_MAX: f64 = 1e6;
/// Most groups or prompts of a shared beginning that goes in turn.
const CYCLE_MAX: u64 = 10_000_000;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, as in `components[0].output`.
    pub path: String,
    /// What, and what is wanted.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// Why a spec gives no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It contradicts itself, or misses something.
    #[error("the workload cannot be generated:{}", list(.0))]
    Problems(Vec<Problem>),
    /// More than can be counted through.
    #[error("the workload has more than {0} requests; lower `requests`, `duration` or the rate")]
    TooManyRequests(usize),
    /// It would not fit into memory.
    #[error(
        "the workload has too many block hashes; ask for fewer requests, or for larger blocks: `block_tokens: 512`"
    )]
    TooManyBlocks,
    /// The number of requests is not reached in the longest time that is looked at.
    #[error("`requests` are not reached within a year; raise the rate, or give a `duration`")]
    TooSlow,
    /// Nothing arrives.
    #[error("the workload has no requests: the rate is too low for its duration")]
    Empty,
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}

/// Gathers problems under a path.
struct Check<'a> {
    path: String,
    problems: &'a mut Vec<Problem>,
}

impl Check<'_> {
    fn at(&mut self, field: &str) -> Check<'_> {
        let path = match self.path.as_str() {
            "" => field.to_owned(),
            path => format!("{path}.{field}"),
        };
        Check {
            path,
            problems: self.problems,
        }
    }

    fn wrong(&mut self, what: impl Into<String>) {
        self.problems.push(Problem {
            path: self.path.clone(),
            what: what.into(),
        });
    }

    fn wants(&mut self, field: &str, holds: bool, what: &str) {
        if !holds {
            self.at(field).wrong(what);
        }
    }

    fn spread<T: Quantity>(&mut self, field: &str, spread: &Spread<T>) {
        if let Some(problem) = spread.problem() {
            self.at(field).wrong(problem);
        }
    }

    fn tokens(&mut self, field: &str, spread: &Spread<u32>, least: f64) {
        self.spread(field, spread);
        let (low, high) = spread.written();
        self.wants(field, low >= least, &format!("must be at least {least}"));
        self.wants(
            field,
            high <= f64::from(WHOLE_MAX),
            &format!("must be at most {WHOLE_MAX}"),
        );
    }
}

impl Spec {
    /// Everything that is wrong with it; empty: it can be generated.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut check = Check {
            path: String::new(),
            problems: &mut problems,
        };
        check.wants("block_tokens", self.block_tokens > 0, "must be at least 1");
        check.wants("requests", self.requests != Some(0), "must be at least 1");
        check.wants(
            "max_concurrency",
            self.max_concurrency != Some(0),
            "must be at least 1",
        );
        check.wants(
            "components",
            !self.components.is_empty(),
            "at least one is wanted",
        );
        if let Some(tenants) = &self.tenants {
            let mut check = check.at("tenants");
            check.wants("count", tenants.count > 0, "must be at least 1");
            check.wants("skew", skew(tenants.skew), "must be from 0 to 100");
        }
        self.check_ends(&mut check);
        for (place, component) in self.components.iter().enumerate() {
            let mut check = check.at(&format!("components[{place}]"));
            let twice = self.components[..place]
                .iter()
                .any(|other| other.name == component.name);
            check.wants("name", !twice, "another component has this name");
            check.wants("name", !component.name.is_empty(), "must not be empty");
            self.check_component(&mut check, component);
        }
        problems
    }

    /// Who takes the common arrivals, and whether all arrivals end.
    fn check_ends(&self, check: &mut Check<'_>) {
        let shares = |component: &Component| component.arrivals.is_none() && component.closed_loop.is_none();
        match &self.arrivals {
            Some(arrivals) => {
                check_arrivals(&mut check.at("arrivals"), arrivals);
                let taken = self.components.is_empty() || self.components.iter().any(shares);
                check.wants("arrivals", taken, "no component takes them: each has its own");
                let weights: f64 = self
                    .components
                    .iter()
                    .filter(|c| shares(c))
                    .map(|c| c.weight.unwrap_or(1.0))
                    .sum();
                check.wants(
                    "components",
                    !taken || self.components.is_empty() || weights > 0.0,
                    "no `weight` is above 0",
                );
            }
            None => {
                let missing = self.components.iter().any(shares);
                check.wants(
                    "arrivals",
                    !missing,
                    "missing: give common arrivals, or each component `arrivals` or `closed_loop` of its own",
                );
            }
        }
        let own = self
            .components
            .iter()
            .filter_map(|component| component.arrivals.as_ref());
        let endless = self
            .arrivals
            .iter()
            .chain(own)
            .any(|arrivals| arrivals.stages.is_empty());
        if endless && self.requests.is_none() && self.duration.is_none() {
            check.wrong_at_top("`requests` or `duration` is missing: the arrivals have no end");
        }
    }

    fn check_component(&self, check: &mut Check<'_>, component: &Component) {
        check.tokens("question", &component.question, 1.0);
        check.tokens("output", &component.output, 0.0);
        let own = component.arrivals.is_some() || component.closed_loop.is_some();
        check.wants(
            "weight",
            component.weight.is_none() || !own,
            "only for components that share the common arrivals",
        );
        let weight = component.weight.unwrap_or(1.0);
        check.wants(
            "weight",
            (0.0..=RATE_MAX).contains(&weight),
            "must be from 0 to 1000000",
        );
        if let Some(arrivals) = &component.arrivals {
            check_arrivals(&mut check.at("arrivals"), arrivals);
            check.wants(
                "closed_loop",
                component.closed_loop.is_none(),
                "give either `arrivals` or `closed_loop`",
            );
        }
        if let Some(closed_loop) = &component.closed_loop {
            let mut check = check.at("closed_loop");
            check.wants("users", closed_loop.users > 0, "must be at least 1");
            check.wants("requests", closed_loop.requests > 0, "must be at least 1");
            check.spread("think", &closed_loop.think);
        }
        for (place, shared) in component.shared.iter().enumerate() {
            let mut check = check.at(&format!("shared[{place}]"));
            let last = place + 1 == component.shared.len();
            check.wants(
                "prompts",
                last || shared.prompts.is_none(),
                "only for the last of the shared beginnings",
            );
            check.wants(
                "prompts",
                component.sessions.is_none() || shared.prompts.is_none(),
                "questions of conversations do not come again",
            );
            let tenants = shared.choice != Choice::Tenant || self.tenants.is_some();
            check.wants(
                "choice",
                tenants,
                "`tenant` wants `tenants` at the top of the spec",
            );
            check_shared(&mut check, shared);
        }
        if let Some(sessions) = &component.sessions {
            let mut check = check.at("sessions");
            check.tokens("turns", &sessions.turns, 1.0);
            check.spread("think", &sessions.think);
            if let Some(opening) = &sessions.opening {
                check.tokens("opening", opening, 1.0);
            }
        }
    }
}

impl Check<'_> {
    fn wrong_at_top(&mut self, what: &str) {
        self.problems.push(Problem {
            path: "spec".to_owned(),
            what: what.to_owned(),
        });
    }
}

fn skew(skew: f64) -> bool {
    (0.0..=100.0).contains(&skew)
}

fn check_shared(check: &mut Check<'_>, shared: &Shared) {
    check.tokens("tokens", &shared.tokens, 0.0);
    check.wants("groups", shared.groups > 0, "must be at least 1");
    check.wants("prompts", shared.prompts != Some(0), "must be at least 1");
    let all = u64::from(shared.groups) * u64::from(shared.prompts.unwrap_or(1));
    check.wants(
        "groups",
        shared.choice != Choice::Cycle || all <= CYCLE_MAX,
        &format!("in turn there may be {CYCLE_MAX} prompts at most"),
    );
    let wanted = shared.choice == Choice::Zipf || shared.skew.is_none();
    check.wants("skew", wanted, "only with `choice: zipf`");
    check.wants("skew", skew(shared.skew.unwrap_or(1.0)), "must be from 0 to 100");
}

fn check_arrivals(check: &mut Check<'_>, arrivals: &Arrivals) {
    let gamma = arrivals.process == Process::Gamma;
    check.wants(
        "cv",
        gamma == arrivals.cv.is_some(),
        "goes with `process: gamma`, which wants it",
    );
    let cv = arrivals.cv.unwrap_or(1.0);
    check.wants("cv", (0.01..=100.0).contains(&cv), "must be from 0.01 to 100");
    let one = arrivals.rate.is_some() == arrivals.stages.is_empty();
    check.wants("rate", one, "give either `rate` or `stages`");
    let rate = arrivals.rate.unwrap_or(1.0);
    check.wants(
        "rate",
        (RATE_MIN..=RATE_MAX).contains(&rate),
        "must be from 0.000001 to 1000000 per second",
    );
    for (place, stage) in arrivals.stages.iter().enumerate() {
        let mut check = check.at(&format!("stages[{place}]"));
        check.wants(
            "rate",
            (0.0..=RATE_MAX).contains(&stage.rate),
            "must be from 0 to 1000000 per second",
        );
        check.wants("duration", stage.duration.nanos() > 0, "must be above 0");
    }
    for (place, burst) in arrivals.bursts.iter().enumerate() {
        let mut check = check.at(&format!("bursts[{place}]"));
        check.wants(
            "factor",
            (0.0..=1e4).contains(&burst.factor),
            "must be from 0 to 10000",
        );
        check.wants("lasts", burst.lasts.nanos() > 0, "must be above 0");
        if let Some(every) = burst.every {
            check.wants("every", every > burst.lasts, "must be longer than `lasts`");
            check.wants(
                "every",
                every >= super::Span::millis(100),
                "must be at least 100ms",
            );
        }
    }
    if let Some(diurnal) = &arrivals.diurnal {
        let mut check = check.at("diurnal");
        check.wants(
            "peak_ratio",
            (1.0..=1e4).contains(&diurnal.peak_ratio),
            "must be from 1 to 10000",
        );
        check.wants(
            "period",
            diurnal.period >= super::Span::seconds(60),
            "must be at least 1m",
        );
    }
}
