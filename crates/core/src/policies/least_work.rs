//! Prefers endpoints with less work outstanding, in seconds: 1 / (1 + seconds).

use super::{Candidates, Home, Request, Scorer};
use crate::explain::Abstained;

/// Seconds that are added to all, so that none is infinitely better than others.
pub(crate) const LEAST: f64 = 1.0;

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
Adds up what an endpoint still has to do: prompt tokens without a first token that are not believed cached, and tokens of answers
still to come, each over the endpoint's measured speed. Prompts are computed one after another, so their speed is their tokens
over the time from one first token to the next. An answer is expected to be as long as is predicted, else as the pool's are, and
never longer than `max_tokens`; a quarter of what was expected is always taken to be still to come. Its speed is that of one
answer times the requests that are usual at a time in the pool, not those at the endpoint, since whoever has little to do would
look slow. Speeds decay to the pool's with a half-life of 30 s. Requests of others that the engine's metrics tell of count as the
pool's mean.

**Right** where requests differ much (a long document beside a greeting) and where endpoints differ in speed. **Wrong** where
nothing is told of first tokens and usage, as with answers in one piece: then every request counts as the pool's mean until its
end, which is `least_inflight`. It does not look at where a prompt is cached; pair it with `prefix_cache`.

Example: an endpoint that has computed 2,000 prompt tokens a second has 2 requests of 500 tokens waiting, another of the same speed
1 of 4,000; with 100 tokens of answer expected of each, at 50 a second, that is 0.5 + 4 = 4.5 s against 2 + 2 = 4 s: 1/5.5 against
1/5, and the second wins, though its prompt is the longer.
";

super::weight_only! {
    /// Settings of `least_work`.
    "least_work", super::WORK_AND_COURSE, LeastWork
}

struct LeastWork;

impl Scorer for LeastWork {
    fn score(
        &self,
        _request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let now = candidates.now();
        for (place, score) in scores.iter_mut().enumerate() {
            let candidate = candidates.get(place);
            *score = 1.0 / (LEAST + candidate.engine.outstanding(now, candidate.learned.means()));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Outcome;
    use crate::policies::least_inflight;
    use crate::policies::stage::{Stage, near, work};
    use crate::signals::Reading;

    /// Two endpoints that compute 2,000 prompt tokens a second, and 50 of an answer.
    fn stage() -> Stage {
        let mut stage = Stage::new(2, |policies| {
            policies.least_work = Some(Config::default());
        });
        for place in [0, 1] {
            stage.served(place, (2000, 51), (1000, 20));
        }
        stage
    }

    fn seconds(stage: &Stage) -> Vec<f64> {
        let scores = stage.scores("least_work");
        scores.into_iter().map(|score| 1.0 / score - 1.0).collect()
    }

    #[test]
    fn seconds_of_prompts_and_answers_decide_not_requests() {
        let mut stage = stage();
        assert!(near(&seconds(&stage), &[0.0, 0.0]));
        stage.work = work(500, 100);
        stage.busy(0, 2);
        stage.work = work(4000, 100);
        let long = stage.busy(1, 1)[0];
        assert!(near(&seconds(&stage), &[4.5, 4.0]));
        assert_eq!(stage.winner(), 1);
        stage.pass(2000);
        // Its prompt is computed: 2 s are left of its answer, then 1 s, then the quarter that is always left.
        stage.first_token(long);
        assert!(near(&seconds(&stage), &[4.5, 2.0]));
        stage.pass(1000);
        assert!(near(&seconds(&stage), &[4.5, 1.0]));
        stage.pass(60_000);
        assert!(near(&seconds(&stage), &[4.5, 0.5]));
        stage.end(long, Outcome::Complete, None);
        assert!(near(&seconds(&stage), &[4.5, 0.0]));
    }

    #[test]
    fn it_changes_the_winner_against_counts() {
        let mut stage = Stage::new(2, |policies| {
            policies.least_work = Some(Config { weight: 2.0 });
            policies.least_inflight = Some(least_inflight::Config::default());
        });
        stage.work = work(100, 10);
        stage.busy(0, 2);
        stage.work = work(60_000, 10);
        stage.busy(1, 1);
        assert_eq!(stage.scores("least_inflight"), [1.0 / 3.0, 0.5]);
        assert_eq!(stage.winner(), 0);
    }

    #[test]
    fn an_answer_is_as_long_as_predicted_else_as_usual_and_never_longer_than_asked() {
        let mut stage = stage();
        let cases = [
            (Some(10), None, 10.0),
            (None, None, 51.0),
            (None, Some(20), 20.0),
            (Some(90), Some(20), 20.0),
        ];
        for (expected, most, tokens) in cases {
            let mut asked = (*work(2000, 0).unwrap()).clone();
            (asked.expected_tokens, asked.max_tokens) = (expected, most);
            stage.work = Some(asked.into());
            let sent = stage.busy(0, 1);
            assert!(
                near(&seconds(&stage)[..1], &[1.0 + tokens / 50.0]),
                "{expected:?} {most:?}"
            );
            stage.end(sent[0], Outcome::Abandoned, None);
        }
    }

    #[test]
    fn a_slower_endpoint_has_more_seconds_of_the_same_work() {
        let mut stage = Stage::new(2, |policies| {
            policies.least_work = Some(Config::default());
        });
        stage.served(0, (2000, 51), (1000, 20));
        stage.served(1, (2000, 51), (4000, 80));
        stage.work = work(1000, 100);
        stage.busy(0, 1);
        stage.busy(1, 1);
        let [fast, slow] = seconds(&stage)[..] else {
            panic!("two candidates")
        };
        // Its own speeds have faded for 8 s towards those of the pool, which lie between the two.
        assert!(fast < 4.0 && slow > 2.0 * fast, "{fast} {slow}");
        stage.pass(3_600_000);
        let [fast, slow] = seconds(&stage)[..] else {
            panic!("two candidates")
        };
        assert!(
            (fast / slow - 1.0).abs() < 1e-9,
            "what is old says nothing of either"
        );
    }

    #[test]
    fn without_work_it_counts_requests() {
        let mut stage = Stage::new(3, |policies| {
            policies.least_work = Some(Config::default());
        });
        stage.busy(0, 2);
        stage.busy(1, 1);
        let seconds = seconds(&stage);
        // 1,024 prompt tokens at 2,000 a second, and 256 of answer at 50.
        let one = 1024.0 / 2000.0 + 256.0 / 50.0;
        assert!(near(&seconds, &[2.0 * one, one, 0.0]));
        assert_eq!(stage.winner(), 2);
    }

    #[test]
    fn what_others_send_counts_as_usual_and_own_requests_count_once() {
        let mut stage = stage();
        stage.work = work(2000, 51);
        stage.busy(0, 1);
        let own = 1.0 + 51.0 / 50.0;
        // The engine calls the own request running, though it has no first token yet, and tells of two others.
        let reading = |running, waiting| Reading {
            running: Some(running),
            waiting: Some(waiting),
            ..Reading::default()
        };
        stage.read(0, reading(1, 0));
        assert!(near(&seconds(&stage), &[own, 0.0]));
        stage.read(0, reading(2, 1));
        assert!(near(&seconds(&stage), &[own + 2.0 * 51.0 / 50.0, 0.0]));
        stage.read(0, reading(0, 2));
        assert!(near(&seconds(&stage), &[2.0 * own, 0.0]));
        stage.pass(3_001);
        assert!(
            near(&seconds(&stage), &[own, 0.0]),
            "an old reading counts as none"
        );
    }
}
