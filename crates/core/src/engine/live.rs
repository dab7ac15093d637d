//! What the answers of an engine show: how long they took, whether they came, and how fast it computes.

use super::decay::{Average, Line, Rate, Share, seconds};
use super::forecast::Facts;
use super::latency::Latency;
use crate::event::{Outcome, Spent};
use crate::health::verdict::Verdict;
use crate::pool::Means;
use crate::time::Time;

/// A failure counts as this many times the pool's mean, or as the time that it took if that is more.
const FAILURE: f64 = 4.0;

/// Figures of one endpoint, from the requests of routes that look at them.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Seconds to the first token.
    pub first_token: Latency,
    /// Seconds per token after the first.
    pub per_token: Latency,
    /// Seconds from sending to the last token.
    pub total: Latency,
    /// Share of failures among answers and failures.
    pub failures: Average,
    /// When a first token last came.
    began: Time,
}

/// How fast an engine computes, by its answers. Apart from the rest, since every candidate is asked for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Speed {
    /// Prompt tokens that were computed and the time that the engine took for them: their quotient, and a line.
    pub prefill: Line,
    /// Tokens after the first of each answer, over the time from its first to its last.
    pub decode: Rate,
    /// Of the prompt tokens that were believed cached, those that the engine says were.
    pub held: Share,
}

/// An own request, from sending to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Time,
    pub(super) first: Option<Time>,
    /// Prompt tokens to be computed.
    pub(super) prefill: u32,
    /// Prompt tokens that are believed cached, and all that were known.
    pub(super) cached: u32,
    pub(super) prompt: u32,
    pub(super) facts: Option<Facts>,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) spent: Option<&'a Spent>,
}

impl Over<'_> {
    /// An end of which the upstream told nothing.
    pub(crate) const fn untold(outcome: Outcome) -> Self {
        Self { outcome, spent: None }
    }
}

impl Live {
    /// Its first token came. Prompts are computed one after another: it took the engine the time since the request was
    /// sent, or since the first token of the one before.
    pub(super) fn began(&mut self, now: Time, (sent, speed): (&Sent, &mut Speed), means: &mut Means) {
        let waited = seconds(now.since(sent.at));
        if let Some(facts) = &sent.facts {
            let mean = means.first_token.mean().unwrap_or(waited);
            means.forecast().first_token_came(facts, (waited, mean));
        }
        self.first_token.add(now, waited);
        means.first_token.add(now, waited);
        let computed = seconds(now.since(sent.at.max(self.began)));
        self.began = now;
        speed.prefill.add(now, f64::from(sent.prefill), computed);
        means.prefill.add(now, f64::from(sent.prefill), computed);
    }

    /// It is over.
    pub(super) fn ended(
        &mut self,
        now: Time,
        (sent, over): (&Sent, Over<'_>),
        known: (&mut Speed, &mut Means),
    ) {
        let (speed, means) = known;
        match (over.outcome, Verdict::of(over.outcome)) {
            (_, Verdict::Success) => self.answered(now, (sent, over.spent), (speed, means)),
            (_, Verdict::Failure) => self.failed(now, sent, means),
            (Outcome::Abandoned, Verdict::Neither) => self.given_up(now, sent, means),
            (_, Verdict::Neither) => {}
        }
    }

    fn answered(
        &mut self,
        now: Time,
        (sent, spent): (&Sent, Option<&Spent>),
        (speed, means): (&mut Speed, &mut Means),
    ) {
        self.failures.add(now, 0.0);
        means.untold.add(now, f64::from(u8::from(sent.first.is_none())));
        let took = seconds(now.since(sent.at));
        self.total.add(now, took);
        means.total.add(now, took);
        let Some(spent) = spent else {
            return;
        };
        means.output.add(now, f64::from(spent.output));
        if let (Some(cached), 1..) = (spent.cached, sent.cached) {
            // The engine may count more tokens in a prompt than were estimated, or fewer.
            let scale = f64::from(sent.prompt) / f64::from(spent.prompt.max(1));
            let believed = f64::from(sent.cached);
            let held = (f64::from(cached) * scale).min(believed);
            speed.held.add(now, believed, held);
            means.held.add(now, believed, held);
        }
        let cached = spent.cached.unwrap_or(sent.cached).min(spent.prompt);
        means.prompt.add(now, f64::from(spent.prompt - cached));
        let (Some(first), 2..) = (sent.first, spent.output) else {
            return;
        };
        let (tokens, took) = (f64::from(spent.output - 1), seconds(now.since(first)));
        let each = took / tokens;
        if let Some(facts) = &sent.facts {
            let mean = means.per_token.mean().unwrap_or(each);
            means.forecast().answered(facts, (each, mean));
        }
        self.per_token.add(now, each);
        means.per_token.add(now, each);
        speed.decode.add(now, tokens, took);
        means.decode.add(now, tokens, took);
    }

    /// Fails count as slow in everything, however quickly they came. They do not make the pool slow.
    fn failed(&mut self, now: Time, sent: &Sent, means: &Means) {
        self.failures.add(now, 1.0);
        let took = seconds(now.since(sent.at));
        let slow = |pool: &Average, usual: f64| pool.mean().map_or(usual, |mean| FAILURE * mean);
        self.first_token
            .add(now, took.max(slow(&means.first_token, 10.0)));
        self.total.add(now, took.max(slow(&means.total, 10.0)));
        self.per_token.add(now, slow(&means.per_token, 1.0));
    }

    /// The client left before the end: what it waited for took longer than this, which is known only if that is long.
    fn given_up(&mut self, now: Time, sent: &Sent, means: &Means) {
        let took = seconds(now.since(sent.at));
        let is_slow = |of: &Latency, pool: &Average| {
            let usual = of.mean(now, pool).or(pool.mean());
            usual.is_some_and(|usual| took > usual)
        };
        if sent.first.is_none() && is_slow(&self.first_token, &means.first_token) {
            self.first_token.add(now, took);
        }
        if is_slow(&self.total, &means.total) {
            self.total.add(now, took);
        }
    }
}
