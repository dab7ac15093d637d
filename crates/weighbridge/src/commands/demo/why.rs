//! Why an endpoint was chosen, in one line for people.

use weighbridge_gateway::Gateway;
use weighbridge_gateway::admin_view::{DecisionShown, PartShown, taken};

/// Decisions looked through.
const LOOKED_AT: usize = 64;

/// The last decision about a request, whichever of the routes it ended on.
pub(super) fn decision_about(gateway: &Gateway, request_id: &str) -> Option<DecisionShown> {
    let snapshot = gateway.snapshot();
    let found = snapshot.config.routes.iter().filter_map(|route| {
        let entry = snapshot.route(&route.name)?;
        let latest = gateway.decisions().latest(&route.name, LOOKED_AT);
        let mine = latest
            .into_iter()
            .find(|taken| *taken.request_id == *request_id)?;
        Some((mine.attempt, taken(&snapshot, entry, &mine)))
    });
    found
        .max_by_key(|(attempt, _)| *attempt)
        .map(|(_, decision)| decision)
}

/// `session_affinity 0.571 + least_inflight 0.333 = 0.905, ahead of llama-8b/b with 0.619; 3 of 3 usable`.
pub(super) fn sentence(decision: &DecisionShown) -> String {
    if let Some(why) = decision.refused {
        return format!("nothing to choose from: {why}");
    }
    let mut said = Vec::new();
    if let Some(attempt) = decision.attempt.filter(|attempt| *attempt > 1) {
        said.push(format!("attempt {attempt}, the one before failed"));
    }
    if decision.failed_open {
        said.push("nothing was usable, so it was tried all the same".to_owned());
    } else if decision.parts.is_empty() {
        said.push("fewest in flight".to_owned());
    } else {
        said.push(format!("{} = {:.3}", sum(&decision.parts), decision.total));
    }
    if let Some(second) = &decision.runner_up {
        let word = if decision.tie {
            "drawn from equals with"
        } else {
            "ahead of"
        };
        said.push(format!(
            "{word} {}/{} at {:.3}",
            second.target, second.endpoint, second.total
        ));
    }
    if decision.session_moved {
        said.push("the session's first choice is too busy or away".to_owned());
    }
    format!(
        "{}; {} of {} usable",
        said.join(", "),
        decision.live,
        decision.candidates
    )
}

fn sum(parts: &[PartShown]) -> String {
    let parts: Vec<_> = parts
        .iter()
        .map(|part| format!("{} {:.3}", part.policy, part.weighted))
        .collect();
    parts.join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_gateway::admin_view::RunnerUpShown;

    fn part(policy: &str, weighted: f64) -> PartShown {
        PartShown {
            policy: policy.into(),
            raw: 1.0,
            seconds: None,
            share: weighted,
            weighted,
            from: None,
        }
    }

    fn decision() -> DecisionShown {
        DecisionShown {
            request_id: None,
            time: None,
            route: "m".into(),
            route_by: "policy",
            preset: None,
            preset_implied: None,
            attempt: Some(1),
            target: Some("m".into()),
            endpoint: Some("a".into()),
            refused: None,
            never: None,
            notes: None,
            order: 1,
            candidates: 3,
            live: 2,
            dropped: Default::default(),
            abstained: Default::default(),
            picker: "max",
            tie: false,
            failed_open: false,
            session_moved: false,
            total: 1.0,
            factor: 1.0,
            parts: vec![part("session_affinity", 0.6667), part("least_inflight", 0.3333)],
            runner_up: Some(RunnerUpShown {
                target: "m".into(),
                endpoint: "b".into(),
                total: 0.5,
                factor: 1.0,
                parts: Vec::new(),
            }),
            explanation: None,
        }
    }

    #[test]
    fn sums_and_the_second_best_are_shown() {
        let expect =
            "session_affinity 0.667 + least_inflight 0.333 = 1.000, ahead of m/b at 0.500; 2 of 3 usable";
        assert_eq!(sentence(&decision()), expect);
    }

    #[test]
    fn what_is_unusual_is_said() {
        let retried = DecisionShown {
            attempt: Some(2),
            failed_open: true,
            parts: Vec::new(),
            runner_up: None,
            live: 0,
            ..decision()
        };
        let expect = "attempt 2, the one before failed, nothing was usable, so it was tried all the same; 0 of 3 usable";
        assert_eq!(sentence(&retried), expect);
    }
}
