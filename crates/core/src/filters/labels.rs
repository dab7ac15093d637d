//! Drops endpoints that do not carry the labels that rules or the request ask for.

use super::{Filter, FilterConfig, says};
use crate::explain::Dropped;
use crate::policies::{Candidates, Request};
use crate::work::{Needs, Work};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// When it is right and when it is wrong, for the reference.
pub const GUIDE: &str = "\
Compares `labels` of the endpoints with what is asked for, by three means: `labels` and `not_labels` for every request of
the route; `rules`, which ask only where `when` holds and `unless` does not (`prompt_tokens`, `priority`); and `by_header`, the
names of the labels that a client may ask for in `x-weighbridge-labels: gpu=H100, tier=gold`. An endpoint must carry every
label asked for, with one of the values given; one that lacks the label is dropped. What no endpoint of the route carries is
refused with 400; what one carries that is not in service, with 503. What the header asks for and `by_header` does not list counts
for nothing; explanations say so.

**Right** for tiers that must not mix: long prompts to the big GPUs, spot machines only for work that may be lost, tenants that
bought a zone. **Wrong** as a preference: a filter refuses rather than serves elsewhere. Use `prompt_length`, `zone` or `order`.

Example: rules `{when: {prompt_tokens: {over: 8000}}, labels: {gpu: H100}}` and `{unless: {priority: [P2, P3]}, not_labels: {spot:
\"true\"}}`. A prompt of 9,000 tokens of class P3 may go to every H100, spot or not; the same of class P0 only to those that are
not spot.
";

/// Settings of `labels`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// All of them must be content.
    pub rules: Vec<Rule>,
    /// Names of labels that a request may ask for itself.
    pub by_header: Vec<Arc<str>>,
}

/// What endpoints must and must not carry, and for which requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Only for requests that meet this; none: for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// Not for requests that meet this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unless: Option<Condition>,
    /// Labels that must be there, with one of the values.
    pub labels: Vec<(Arc<str>, Vec<Arc<str>>)>,
    /// Labels that must not be there with one of the values.
    pub not_labels: Vec<(Arc<str>, Vec<Arc<str>>)>,
}

/// What a request is like. All that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// Least and most prompt tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<(u32, u32)>,
    /// Its priority is one of these; empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub priority: Vec<u8>,
}

impl Condition {
    fn holds(&self, work: &Work) -> bool {
        let (least, most) = self.prompt_tokens.unwrap_or((0, u32::MAX));
        (least..=most).contains(&work.prompt_tokens)
            && (self.priority.is_empty() || self.priority.contains(&work.priority))
    }
}

impl Rule {
    fn applies(&self, work: &Work) -> bool {
        self.when.as_ref().is_none_or(|when| when.holds(work))
            && !self.unless.as_ref().is_some_and(|unless| unless.holds(work))
    }

    fn accepts(&self, carried: &[(Arc<str>, Arc<str>)]) -> bool {
        let carries = |(name, values): &(Arc<str>, Vec<Arc<str>>)| {
            value_of(carried, name).is_some_and(|value| values.iter().any(|wanted| **wanted == *value))
        };
        self.labels.iter().all(carries) && !self.not_labels.iter().any(carries)
    }

    fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.when.iter().chain(&self.unless)
    }
}

/// The value of a label, of labels that are sorted by name.
pub(crate) fn value_of<'a>(labels: &'a [(Arc<str>, Arc<str>)], name: &str) -> Option<&'a str> {
    let place = labels.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
    Some(&*labels[place].1)
}

impl FilterConfig for Config {
    fn name(&self) -> &'static str {
        "labels"
    }

    fn needs(&self) -> Needs {
        let conditions = || self.rules.iter().flat_map(Rule::conditions);
        let counts = conditions().any(|condition| condition.prompt_tokens.is_some());
        // A priority comes with whatever else is told of the request's work.
        let asks = !self.by_header.is_empty() || conditions().next().is_some();
        let needs = |needed: bool, what| if needed { what } else { Needs::NONE };
        needs(counts, Needs::TOKENS).and(needs(asks, Needs::LABELS))
    }

    fn build(&self) -> Box<dyn Filter> {
        Box::new(Labels(self.clone()))
    }
}

struct Labels(Config);

impl Filter for Labels {
    fn filter(&self, request: &Request<'_>, candidates: &Candidates<'_>, dropped: &mut [Option<Dropped>]) {
        let Self(config) = self;
        let unknown = Work::default();
        let work = request.work.unwrap_or(&unknown);
        let asked = |(name, _): &&(Arc<str>, Arc<str>)| config.by_header.contains(name);
        for (reason, candidate) in dropped.iter_mut().zip(candidates.iter()) {
            let carried = candidate.labels;
            let by_rules = || (config.rules.iter()).all(|rule| !rule.applies(work) || rule.accepts(carried));
            let by_request = || {
                (work.labels.iter().filter(asked))
                    .all(|(name, value)| value_of(carried, name) == Some(&**value))
            };
            if says(*reason) && !(by_rules() && by_request()) {
                *reason = Some(Dropped::Labels);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Unfit, Verdict};
    use crate::policies::stage::Stage;
    use crate::spec::{EndpointSpec, PoolSpec};

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn labelled(name: &str, labels: Pairs<'_>) -> EndpointSpec {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        EndpointSpec {
            labels: labels.collect(),
            ..EndpointSpec::new(name, name)
        }
    }

    fn values(labels: Pairs<'_>) -> Vec<(Arc<str>, Vec<Arc<str>>)> {
        let pairs = labels.iter();
        pairs
            .map(|(name, all)| ((*name).into(), all.split('|').map(Into::into).collect()))
            .collect()
    }

    /// Endpoints: `h` H100, `s` H100 on spot, `a` A100, `n` nothing known.
    fn stage(config: Config) -> Stage {
        let endpoints = vec![
            labelled("h", &[("gpu", "H100")]),
            labelled("s", &[("gpu", "H100"), ("spot", "true")]),
            labelled("a", &[("gpu", "A100")]),
            labelled("n", &[]),
        ];
        Stage::over(vec![PoolSpec::new("p", endpoints)], |route| {
            route.filters.labels = Some(config);
        })
    }

    /// The endpoints that are left.
    fn left(stage: &Stage) -> String {
        let dropped = stage.dropped();
        let names = dropped.iter().zip("hsan".chars());
        names
            .filter(|(why, _)| why.is_none())
            .map(|(_, name)| name)
            .collect()
    }

    fn work(stage: &mut Stage, change: impl FnOnce(&mut Work)) {
        let mut work = Work::default();
        change(&mut work);
        stage.work = Some(Arc::new(work));
    }

    #[test]
    fn labels_for_every_request() {
        let rule = |labels, not_labels| {
            stage(Config {
                rules: vec![Rule {
                    labels: values(labels),
                    not_labels: values(not_labels),
                    ..Rule::default()
                }],
                by_header: Vec::new(),
            })
        };
        assert_eq!(left(&rule(&[("gpu", "H100")], &[])), "hs");
        assert_eq!(left(&rule(&[("gpu", "A100|H100")], &[])), "hsa");
        assert_eq!(left(&rule(&[], &[("spot", "true")])), "han");
        assert_eq!(left(&rule(&[("gpu", "H100")], &[("spot", "true")])), "h");
    }

    /// Long prompts to the big GPUs, spot only for P2 and P3.
    #[test]
    fn tiers_by_length_and_priority() {
        let mut stage = stage(Config {
            rules: vec![
                Rule {
                    when: Some(Condition {
                        prompt_tokens: Some((8001, u32::MAX)),
                        ..Condition::default()
                    }),
                    labels: values(&[("gpu", "H100")]),
                    ..Rule::default()
                },
                Rule {
                    unless: Some(Condition {
                        priority: vec![2, 3],
                        ..Condition::default()
                    }),
                    not_labels: values(&[("spot", "true")]),
                    ..Rule::default()
                },
            ],
            by_header: Vec::new(),
        });
        for (prompt_tokens, priority, expect) in [
            (8000, 0, "han"),
            (8001, 0, "h"),
            (8001, 3, "hs"),
            (100, 2, "hsan"),
            (100, 1, "han"),
        ] {
            work(&mut stage, |work| {
                work.prompt_tokens = prompt_tokens;
                work.priority = priority;
            });
            assert_eq!(left(&stage), expect, "{prompt_tokens} tokens of P{priority}");
        }
        stage.work = None;
        assert_eq!(
            left(&stage),
            "han",
            "of what nothing is known is urgent and short"
        );
    }

    #[test]
    fn a_request_asks_for_labels_that_it_may_ask_for() {
        let mut stage = stage(Config {
            rules: Vec::new(),
            by_header: vec!["gpu".into()],
        });
        let asks = |stage: &mut Stage, name: &str, value: &str| {
            work(stage, |work| work.labels = [(name.into(), value.into())].into());
        };
        asks(&mut stage, "gpu", "A100");
        assert_eq!(left(&stage), "a");
        asks(&mut stage, "spot", "true");
        assert_eq!(left(&stage), "hsan", "not one of those it may ask for");
        asks(&mut stage, "gpu", "B200");
        let unfit = Unfit {
            labels: true,
            ..Unfit::default()
        };
        assert_eq!(stage.refusal(), Verdict::Unfit(unfit));
    }

    #[test]
    fn only_what_is_asked_for_is_found_out() {
        let of = |when: Option<Condition>, by_header: bool| {
            let rule = Rule {
                when,
                ..Rule::default()
            };
            let config = Config {
                rules: vec![rule],
                by_header: if by_header { vec!["gpu".into()] } else { Vec::new() },
            };
            config.needs()
        };
        assert_eq!(of(None, false), Needs::NONE);
        assert_eq!(of(None, true), Needs::LABELS);
        let long = Condition {
            prompt_tokens: Some((1, 2)),
            ..Condition::default()
        };
        assert_eq!(of(Some(long), false), Needs::TOKENS.and(Needs::LABELS));
    }
}
