//! Prefers endpoints where the request adds the least delay, to itself and to all others: 1 / (0.001 + seconds).
//!
//! A greedy step of minimising the sum of all delays: what is compared is by how much a request raises it here or there, as in
//! routing by marginal delay (R. Gallager, IEEE Transactions on Communications 25(1), 1977), not only how long it waits itself.

use super::reckoned::{By, figures};
use super::{Candidate, Candidates, Home, PromptLine, Request, Scorer, ScorerConfig, unseen};
use crate::explain::{Abstained, Reckoned};
use crate::work::Needs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
Reckons, in seconds, by how much the request would raise the delays of all if it went to the endpoint, and takes the endpoint where
that is least. There is nothing to tune: every figure in it is measured.

- What it waits itself: the prompt tokens ahead of it, and those of its own that are not believed cached there, at the seconds
  that a token was measured to take there, and what each prompt takes besides.
- What computing them costs those being answered there: the same seconds once more where the endpoint has as many requests running
  as the mean of the candidates, twice where it has twice as many (`recompute`).
- What it costs those who come: they are as many as arrive, of late, while the tokens ahead and its own are computed (`arrivals`).
- What one more answer costs: a quarter of a token's time for each request that runs there (`answers`).
- What it displaces from the cache there: as many tokens as it computes, of which as many will be computed again as were
  of those that this cache lost before for want of room (`evictions`). So a fast engine does not lose over and over
  what a slow one has room for.

So a cached prefix is worth what computing it again would cost everybody: little while engines idle, much when they are busy. It
watches both prices of a choice, what affinity costs in waiting and what spreading costs in recomputation, and pays the smaller.
Two requests with the same new prefix go to one endpoint, unless so many wait there that computing it twice is cheaper.

**Right** as the one policy of a route; preset `auto` is this one with `overload`. It needs nothing of the engines but their answers: where their
metrics tell of requests of others, these count; where nobody has any of a prompt, or prompts are not known, it is least
work; where nothing was measured yet, all engines are taken to be equally fast. Answers in one piece tell of no first token: they
teach it no speeds, and those still to come count as in `least_work`.
**Wrong** where the first token does not matter, as for batches overnight (`batch_packing`), and where requests are
to stay by a rule and not by what it saves (`session_affinity`).

Where an engine says how many tokens it found cached, beliefs are corrected by as much as they were wrong of late.

Several gateways each know what they sent. Where engines tell that others send to them too, the owner of a prompt's head (by rendezvous,
the same on all) is taken to have as much of the prompt as others send of the load. Where all engines tell what they cache, that is so of what none
of them has told to have: others may have it under way.

Example: at 1,000 tokens a second, 300 tokens wait at one endpoint, which has all but 100 of a prompt of 1,000 tokens; nothing waits at
the other, which has none of it. Both run two requests. Its own delay is 0.4 s against 1 s, that of those being answered 0.1 s against 1 s;
with one arrival a second on either, that of those who come is 0.4 · 0.1 = 0.04 s against 1 · 1 = 1 s. So 0.54 s against 3 s, and the first wins.

The raw score is 1 / (0.001 + seconds), so 1.85 against 0.333; explanations say the seconds beside it, and what they are from
([explaining.md](explaining.md#the-default)).
";

/// Settings of `added_delay`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Weight in the sum, > 0.
    pub weight: f64,
    /// How much the delay counts that computing a prompt means for those being answered, 0 to 100.
    pub recompute: f64,
    /// How much the delay counts that it means for those who come, 0 to 100.
    pub arrivals: f64,
    /// Token times that a request counts for which runs there, 0 to 100.
    pub answers: f64,
    /// How much it counts that what the prompt displaces from the cache is to be computed again, 0 to 100.
    pub evictions: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            weight: 1.0,
            recompute: 1.0,
            arrivals: 1.0,
            answers: 0.25,
            evictions: 1.0,
        }
    }
}

impl ScorerConfig for Config {
    fn name(&self) -> &'static str {
        "added_delay"
    }

    fn weight(&self) -> f64 {
        self.weight
    }

    fn check(&self) -> Result<(), String> {
        super::check_weight(self.weight)?;
        let factors = [
            ("recompute", self.recompute),
            ("arrivals", self.arrivals),
            ("answers", self.answers),
            ("evictions", self.evictions),
        ];
        match factors.iter().find(|(_, factor)| !(0.0..=100.0).contains(factor)) {
            Some((name, factor)) => Err(format!("{name}: {factor} is not from 0 to 100")),
            None => Ok(()),
        }
    }

    fn needs(&self) -> Needs {
        super::WORK_AND_COURSE.and(Needs::HEAD)
    }

    fn build(&self) -> Box<dyn Scorer> {
        Box::new(AddedDelay(self.clone()))
    }
}

struct AddedDelay(Config);

/// What all candidates are measured by.
struct Usual {
    /// Requests that run at an endpoint, at least 1.
    running: f64,
    /// Requests that arrive at an endpoint in a second, those of other gateways too.
    arrivals: f64,
    /// Seconds of a prompt token.
    each: f64,
    /// What a pool of which nothing was measured yet is taken for: the fastest of the others, so that it is tried.
    untried: (f64, f64),
    /// Who is believed to have what others sent there.
    home: Option<Owner>,
}

/// The candidate that a prompt belongs to by its head, whoever sends it.
struct Owner {
    place: usize,
    /// Probability that others sent what begins like it.
    share: f64,
    /// Tokens of the prompt that some candidate is told to have; none: what others leave in caches is not told.
    told: Option<f64>,
}

impl Owner {
    /// Tokens of its own that a prompt has to compute at a candidate, where `own` are by what is known. Two requests of late decide: the owner
    /// has it unless both were our own. What is known holds unless neither was; where it is told, what is left are prompts that others have under
    /// way, of which no engine has told yet.
    fn corrected(&self, own: f64, (place, prompt): (usize, f64)) -> f64 {
        let others = 1.0 - (1.0 - self.share) * (1.0 - self.share);
        match (place == self.place, self.told) {
            (true, None) => own - others * own,
            (true, Some(told)) => own - others * own.min(prompt - told),
            (false, None) => own + self.share * self.share * (prompt - own),
            (false, Some(_)) => own,
        }
    }
}

impl Usual {
    /// Fills `lines` with those of the candidates.
    fn of(request: &Request<'_>, candidates: &Candidates<'_>, lines: &mut Vec<PromptLine>) -> Self {
        let now = candidates.now();
        let (mut running, mut arrivals, mut each, mut measured) = (0.0, 0.0, 0.0, 0.0);
        let mut untried = (f64::INFINITY, f64::INFINITY);
        lines.clear();
        for endpoint in candidates.endpoints() {
            let engine = &endpoint.engine;
            running += engine.running(now);
            arrivals += engine.arrivals(now);
            let line = engine.prompt_line(now, &candidates.pools[endpoint.pool_at].means);
            lines.push(line);
            if let Some(line) = line {
                each += line.1;
                measured += 1.0;
                untried = (line.0.min(untried.0), line.1.min(untried.1));
            }
        }
        if measured == 0.0 {
            (each, measured, untried) = (EACH, 1.0, (0.0, EACH));
        }
        #[expect(clippy::cast_precision_loss, reason = "candidates are few")]
        let count = candidates.len().max(1) as f64;
        let others = unseen::others(candidates);
        let share = others.share.min(UNSEEN_MAX);
        let home = unseen::owner(request, candidates, share);
        Self {
            running: (running / count).max(1.0),
            arrivals: arrivals / count / (1.0 - share),
            each: each / measured,
            untried,
            home: home.map(|place| Owner {
                place,
                share,
                told: (others.unseen <= 0.0).then(|| most_cached(candidates)),
            }),
        }
    }
}

/// Tokens of the prompt that the candidate with the most of it has.
fn most_cached(candidates: &Candidates<'_>) -> f64 {
    let all = (0..candidates.len()).map(|place| candidates.get(place).cached.tokens);
    all.max().map_or(0.0, f64::from)
}

/// Seconds of a prompt token where nothing was measured at all: what they are is the same everywhere then.
const EACH: f64 = 1.0 / 2000.0;
/// Most of the load that is taken to be others'.
const UNSEEN_MAX: f64 = 0.98;

impl AddedDelay {
    /// Seconds that the request adds at a candidate.
    fn seconds(
        &self,
        request: &Request<'_>,
        (place, candidate, line): (usize, &Candidate<'_>, PromptLine),
        (candidates, usual): (&Candidates<'_>, &Usual),
    ) -> f64 {
        let now = candidates.now();
        let (engine, means) = (candidate.engine, candidate.learned.means());
        let (fixed, each) = line.unwrap_or(usual.untried);
        let mut own = engine.uncached(now, (request.work, candidate.cached), means);
        if let (Some(home), Some(work)) = (&usual.home, request.work) {
            own = home.corrected(own, (place, f64::from(work.prompt_tokens)));
        }
        let running = engine.running(now);
        let tokens = engine.prefill_ahead(now, means) + own;
        let wait = fixed * (1.0 + engine.unbegun()) + each * tokens + engine.untold(now, means);
        let computed = each * own;
        let answering = self.0.recompute * running / usual.running;
        // Of what came without first tokens nobody knows how long those who come would wait.
        let told = 1.0 - means.untold.mean().unwrap_or(0.0);
        let arrivals = self.0.arrivals * usual.arrivals * told;
        let coming = arrivals * usual.each * tokens;
        let answers = self.0.answers * running * engine.token_time(now, means);
        // Displacing what is asked for again is paid by whoever computes it then, and by those being answered there.
        let again = 1.0 + self.0.recompute + arrivals * usual.each * own;
        let displaced = self.0.evictions * engine.regret * usual.each * own * again;
        wait + computed * (answering + coming) + answers + displaced
    }
}

impl Scorer for AddedDelay {
    fn score(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let mut lines = candidates.lines.map(std::cell::Cell::take).unwrap_or_default();
        let usual = Usual::of(request, candidates, &mut lines);
        for (place, score) in scores.iter_mut().enumerate() {
            let candidate = candidates.get(place);
            let seconds = self.seconds(request, (place, &candidate, lines[place]), (candidates, &usual));
            // Slots of an endpoint that has just come back are counted as filled, see `state`.
            *score = 1.0 / (LEAST + seconds + candidate.penalty * RAMPED);
        }
        if let Some(kept) = candidates.lines {
            kept.set(lines);
        }
        Ok(None)
    }

    fn reckoned(&self, request: &Request<'_>, candidates: &Candidates<'_>, place: usize) -> Option<Reckoned> {
        Some(figures(By::Line, request, (candidates, place)))
    }
}

/// Seconds that are added to all, so that none is infinitely better than others.
pub(crate) const LEAST: f64 = 0.001;
/// Seconds that a request stands for which an endpoint is spared while it ramps up.
const RAMPED: f64 = 0.1;

#[cfg(test)]
mod tests;
