//! What an engine that tells nothing is taken to have: what its peers tell, corrected by what this gateway knows of both.
//!
//! What an engine tells and what the gateway counts are two things: the engine knows of other gateways' requests, and the
//! gateway does not know which of its own the engine has admitted. So one in the place of the other makes an engine whose
//! metrics are old look fuller, or emptier, than it is. The difference between its own count and that of its peers is the
//! same in both.

use super::Candidates;
use crate::engine::Engine;

impl Candidates<'_> {
    /// Writes a number of each candidate's engine into `numbers` (same length): what it `told`; where it told nothing, the
    /// mean of those that did, plus how much its `own` count is above their mean, never below 0; where none told anything,
    /// its own count.
    pub fn as_told(
        &self,
        numbers: &mut [f64],
        told: impl Fn(&Engine) -> Option<f64>,
        own: impl Fn(&Engine) -> f64,
    ) {
        let (mut count, mut difference) = (0.0, 0.0);
        for (number, candidate) in numbers.iter_mut().zip(self.iter()) {
            *number = told(candidate.engine).unwrap_or(f64::NAN);
            if !number.is_nan() {
                count += 1.0;
                difference += *number - own(candidate.engine);
            }
        }
        if count == self.len() as f64 {
            return;
        }
        let difference = if count > 0.0 { difference / count } else { 0.0 };
        for (number, candidate) in numbers.iter_mut().zip(self.iter()) {
            if number.is_nan() {
                *number = (own(candidate.engine) + difference).max(0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::policies::queue_depth::Config;
    use crate::policies::stage::Stage;
    use crate::signals::Reading;

    fn stage() -> Stage {
        Stage::new(3, |policies| policies.queue_depth = Some(Config::default()))
    }

    fn waiting(count: u32) -> Reading {
        Reading {
            waiting: Some(count),
            ..Reading::default()
        }
    }

    #[test]
    fn who_tells_nothing_has_what_its_peers_have() {
        let mut stage = stage();
        for place in 0..3 {
            stage.busy(place, 4);
        }
        stage.read(0, waiting(1));
        stage.read(1, waiting(3));
        // 4 of its own as they have, so 2 wait: the mean of 1 and 3.
        assert_eq!(stage.scores("queue_depth"), [0.5, 0.25, 1.0 / 3.0]);
        stage.busy(2, 2);
        assert_eq!(
            stage.scores("queue_depth")[2],
            0.2,
            "two more of its own, two more wait"
        );
    }

    #[test]
    fn it_is_never_taken_to_have_less_than_nothing() {
        let mut stage = stage();
        for place in 0..2 {
            stage.busy(place, 4);
        }
        stage.read(0, waiting(0));
        stage.read(1, waiting(0));
        assert_eq!(stage.scores("queue_depth"), [1.0, 1.0, 1.0]);
    }

    #[test]
    fn where_nobody_tells_anything_own_counts_decide() {
        let mut stage = stage();
        stage.busy(1, 3);
        assert_eq!(stage.scores("queue_depth"), [1.0, 0.25, 1.0]);
    }

    #[test]
    fn an_idle_one_without_a_word_is_not_idle_where_its_peers_have_queues_of_others() {
        let mut stage = stage();
        stage.read(0, waiting(7));
        stage.read(1, waiting(7));
        assert_eq!(stage.scores("queue_depth"), [0.125, 0.125, 0.125]);
    }
}
