//! Prefers endpoints that answered quickly of late: 1 / (0.001 + seconds).

use super::{Candidates, Home, Request, Scorer, ScorerConfig};
use crate::engine::Live;
use crate::engine::decay;
use crate::explain::Abstained;
use crate::pool::Means;
use crate::time::Time;
use crate::work::Needs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Seconds that are added to all, so that none is infinitely better than others.
pub(crate) const LEAST: f64 = 0.001;

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
Looks at how long an endpoint took of late: to the first token, per token after it, or from sending to the end. Either the mean of
its last 100 samples, of which the older weigh less (half after 30 s), or peak-EWMA (Finagle): as slow as the slowest of late. A
failure counts as four times the pool's mean, or the time that it took if that is more, so an endpoint that refuses quickly does
not look quick; a client that leaves while it waits makes the endpoint as slow as that, if it is slower than usual.

An endpoint that is not asked shows nothing new: its figure decays to the pool's mean with a half-life of 30 s, and 1 % of the choices
(`explore`) give the policy's whole share to the endpoint whose newest sample is oldest, one without any first.

**Right** for endpoints of which nothing else is known, such as other people's models, and against engines that are slow in a way
that no count shows. **Wrong** alone under load: what was quick a moment ago gets everything until it is slow. Pair it with
`least_inflight`. `total` compares answers of any length; it is fair only where requests are alike.

Example: two endpoints whose first tokens took 0.499 s and 0.099 s score 1/0.5 = 2 and 1/0.1 = 10, of which the shares are 1/6 and 5/6;
30 s later, with a pool's mean of 0.299 s, they are taken for 0.399 s and 0.199 s.
";

/// Settings of `latency`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Weight in the sum, above 0 and at most 1000000.
    pub weight: f64,
    /// What is compared: seconds to the first token, per token after it, or from sending to the end.
    pub metric: Metric,
    /// How samples are put together.
    pub average: Average,
    /// Share of choices that go to the endpoint of which nothing was heard for longest, 0 to 0.5.
    pub explore: f64,
}

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Time to the first token.
    #[default]
    Ttft,
    /// Time per token after the first.
    PerToken,
    /// Time from sending to the end.
    Total,
}

/// How samples are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Average {
    /// Mean of the last 100.
    #[default]
    Mean100,
    /// As slow as the slowest of late.
    PeakEwma,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            weight: 1.0,
            metric: Metric::default(),
            average: Average::default(),
            explore: 0.01,
        }
    }
}

impl ScorerConfig for Config {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn weight(&self) -> f64 {
        self.weight
    }

    fn check(&self) -> Result<(), String> {
        super::check_weight(self.weight)?;
        if (0.0..=0.5).contains(&self.explore) {
            Ok(())
        } else {
            Err(format!("explore: {} is not a share from 0 to 0.5", self.explore))
        }
    }

    fn needs(&self) -> Needs {
        Needs::LIVE
    }

    fn draws(&self) -> bool {
        self.explore > 0.0
    }

    fn build(&self) -> Box<dyn Scorer> {
        Box::new(Latency {
            metric: self.metric,
            average: self.average,
            explore: self.explore,
        })
    }
}

struct Latency {
    metric: Metric,
    average: Average,
    explore: f64,
}

impl Scorer for Latency {
    fn score(
        &self,
        _request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let now = candidates.now();
        let (mut sum, mut known) = (0.0, 0.0);
        for (place, score) in scores.iter_mut().enumerate() {
            let candidate = candidates.get(place);
            let seconds = self.seconds(now, (candidate.engine.live(), candidate.learned.means()));
            if let Some(seconds) = seconds {
                sum += seconds;
                known += 1.0;
            }
            *score = seconds.unwrap_or(f64::NAN);
        }
        if known == 0.0 {
            return Err(Abstained::NoSamples);
        }
        if candidates.draw() < self.explore {
            self.explore(candidates, scores);
            return Ok(None);
        }
        // Of a pool of which nothing is known, the mean of the others.
        let usual = sum / known;
        for score in scores.iter_mut() {
            let seconds = if score.is_nan() { usual } else { *score };
            *score = 1.0 / (LEAST + seconds);
        }
        Ok(None)
    }
}

impl Latency {
    /// What one of these is expected to take; none: nothing is known of its pool.
    fn seconds(&self, now: Time, (live, means): (Option<&Live>, &Means)) -> Option<f64> {
        let pool = self.of_pool(means);
        let own = live.map(|live| self.of(live)).and_then(|own| match self.average {
            Average::Mean100 => own.mean(now, pool),
            Average::PeakEwma => own.peak(now, pool),
        });
        own.or_else(|| pool.mean())
    }

    /// Gives everything to the candidate whose newest sample is oldest; which of those without any, the draw says.
    fn explore(&self, candidates: &Candidates<'_>, scores: &mut [f64]) {
        let newest = |place| {
            let live = candidates.get(place).engine.live();
            live.and_then(|live| self.of(live).newest())
        };
        let oldest = (0..candidates.len()).map(newest).min().unwrap_or(None);
        let equals = || (0..candidates.len()).filter(|place| newest(*place) == oldest);
        let count = f64::from(u32::try_from(equals().count()).unwrap_or(u32::MAX));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a count"
        )]
        let drawn = (candidates.draw() / self.explore * count) as usize;
        let chosen = equals().nth(drawn).or_else(|| equals().next());
        scores.fill(0.0);
        if let Some(score) = chosen.and_then(|place| scores.get_mut(place)) {
            *score = 1.0;
        }
    }

    fn of<'a>(&self, live: &'a Live) -> &'a crate::engine::latency::Latency {
        match self.metric {
            Metric::Ttft => &live.first_token,
            Metric::PerToken => &live.per_token,
            Metric::Total => &live.total,
        }
    }

    fn of_pool<'a>(&self, means: &'a Means) -> &'a decay::Average {
        match self.metric {
            Metric::Ttft => &means.first_token,
            Metric::PerToken => &means.per_token,
            Metric::Total => &means.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Outcome;
    use crate::policies::least_inflight;
    use crate::policies::stage::{Stage, near};

    fn stage(config: Config) -> Stage {
        Stage::new(2, |policies| policies.latency = Some(config))
    }

    fn steady() -> Config {
        Config {
            explore: 0.0,
            ..Config::default()
        }
    }

    fn seconds(stage: &Stage) -> Vec<f64> {
        let scores = stage.scores("latency");
        scores.into_iter().map(|score| 1.0 / score - 0.001).collect()
    }

    /// Two endpoints, the second of which was heard of just now.
    fn told(config: Config) -> Stage {
        let mut stage = stage(config);
        let slow = stage.busy(0, 1)[0];
        stage.pass(400);
        let quick = stage.busy(1, 1)[0];
        stage.pass(99);
        stage.first_token(slow);
        stage.first_token(quick);
        stage
    }

    #[test]
    fn one_over_a_thousandth_and_the_seconds() {
        let mut stage = told(steady());
        assert!(near(&stage.scores("latency"), &[2.0, 10.0]));
        assert_eq!(stage.winner(), 1);
        // The pool's mean is 0.299 s.
        stage.pass(30_000);
        assert!(near(&seconds(&stage), &[0.399, 0.199]));
        stage.pass(600_000);
        let [one, other] = seconds(&stage)[..] else {
            panic!("two candidates")
        };
        assert!((one - other).abs() < 1e-4);
    }

    #[test]
    fn it_changes_the_winner_against_counts() {
        let mut stage = Stage::new(2, |policies| {
            policies.latency = Some(steady());
            policies.least_inflight = Some(least_inflight::Config::default());
        });
        stage.served(0, (10, 2), (500, 1));
        stage.served(1, (10, 2), (20, 1));
        stage.busy(1, 1);
        // Counts: 2/3 and 1/3; latency: some 1/24 and 23/24.
        assert_eq!(stage.scores("least_inflight"), [1.0, 0.5]);
        assert_eq!(stage.winner(), 1);
    }

    #[test]
    fn metrics_are_told_apart() {
        let of = |metric| {
            let mut stage = stage(Config { metric, ..steady() });
            stage.served(0, (10, 11), (100, 80));
            stage.served(1, (10, 11), (300, 20));
            stage.winner()
        };
        assert_eq!(
            (of(Metric::Ttft), of(Metric::PerToken), of(Metric::Total)),
            (0, 1, 1)
        );
    }

    #[test]
    fn a_peak_is_remembered_where_a_mean_forgets_it() {
        let of = |average| {
            let mut stage = stage(Config { average, ..steady() });
            stage.served(0, (10, 2), (2000, 1));
            (0..10).for_each(|_| stage.served(0, (10, 2), (10, 1)));
            (0..11).for_each(|_| stage.served(1, (10, 2), (300, 1)));
            stage.winner()
        };
        assert_eq!((of(Average::Mean100), of(Average::PeakEwma)), (0, 1));
    }

    #[test]
    fn a_quick_failure_is_slow() {
        let mut stage = stage(steady());
        for place in [0, 1] {
            stage.served(place, (10, 2), (100, 1));
        }
        let failed = stage.busy(0, 1)[0];
        let code = 500;
        let retry_after = None;
        stage.end(failed, Outcome::Status { code, retry_after }, None);
        assert_eq!(stage.winner(), 1);
        let [failing, _] = seconds(&stage)[..] else {
            panic!("two candidates")
        };
        // The mean of one answer of 0.1 s and a failure of 0.4 s.
        assert!((0.24..0.26).contains(&failing), "{failing}");
        let refused = stage.busy(1, 1)[0];
        let code = 400;
        stage.end(refused, Outcome::Status { code, retry_after }, None);
        assert_eq!(
            stage.winner(),
            1,
            "the client's mistake says nothing of the endpoint"
        );
    }

    #[test]
    fn a_client_that_tired_of_waiting_tells_of_slowness_and_never_of_speed() {
        let mut stage = stage(steady());
        for place in [0, 1] {
            stage.served(place, (10, 2), (100, 1));
        }
        let before = seconds(&stage);
        let left = stage.busy(0, 1)[0];
        stage.end(left, Outcome::Abandoned, None);
        assert!(near(&seconds(&stage), &before));
        let left = stage.busy(0, 1)[0];
        stage.pass(5000);
        stage.end(left, Outcome::Abandoned, None);
        assert!(seconds(&stage)[0] > 2.0);
    }

    #[test]
    fn without_samples_it_abstains_and_a_newcomer_is_taken_for_the_pool() {
        let mut stage = stage(steady());
        assert_eq!(stage.abstained("latency"), Some(Abstained::NoSamples));
        stage.served(1, (10, 2), (100, 1));
        assert!(near(&seconds(&stage), &[0.1, 0.1]));
    }

    #[test]
    fn one_choice_in_a_hundred_asks_whoever_was_not_heard_of() {
        let mut stage = told(Config {
            explore: 0.25,
            ..Config::default()
        });
        let mut sent = [0_u32; 2];
        for _ in 0..400 {
            let (request, place) = stage.send();
            sent[place] += 1;
            stage.end(request, Outcome::Abandoned, None);
        }
        // Both were heard of at the same time, so half of the exploring choices go to the slow one.
        assert!((25..=80).contains(&sent[0]), "{sent:?}");
        stage.served(1, (10, 2), (10, 1));
        let before = sent[0];
        for _ in 0..400 {
            let (request, place) = stage.send();
            sent[place] += 1;
            stage.end(request, Outcome::Abandoned, None);
        }
        assert!((70..=130).contains(&(sent[0] - before)), "{sent:?}");
    }

    #[test]
    fn refuses_shares_that_mean_nothing() {
        for explore in [-0.1, 0.6, f64::NAN] {
            let config = Config {
                explore,
                ..Config::default()
            };
            assert!(config.check().is_err_and(|why| why.starts_with("explore: ")));
        }
        assert_eq!(Config::default().check(), Ok(()));
    }
}
