//! `routes[].filters`, and what is on without being asked for.

use crate::forms::OneOrMany;
use crate::leaf::or;
use crate::model::filters as model;
use crate::read::{At, Reader};
use crate::resolve::Resolved;
use crate::yaml::NodeId;
use std::sync::Arc;
use weighbridge_core::filters::labels::{Condition, Config as Labels, Rule};
use weighbridge_core::filters::{Filters, context_length, kv_fits, modality};
use weighbridge_core::spec::{PoolSpec, TargetSpec};
use weighbridge_core::work::Abilities;

/// Resolves the filters of a route over these targets.
pub(super) fn filters(
    reader: &mut Reader<'_>,
    given: Option<At<model::Filters>>,
    (targets, pools): (&[TargetSpec], &[Resolved]),
) -> Filters {
    let used = || targets.iter().filter_map(|target| pools.get(target.pool));
    let tells_abilities = used().any(|pool| pool.spec.abilities != Abilities::ALL);
    let tells_length = used().any(|pool| pool.spec.context_length.is_some());
    let given = given.map(|at| at.value).unwrap_or_default();
    let asked = [
        (&given.modality, tells_abilities, "abilities"),
        (&given.context_length, tells_length, "context_length"),
    ];
    for (flag, tells, key) in asked {
        if let Some(flag) = flag.as_ref().filter(|flag| flag.value.0 && !tells) {
            reader.warn(
                flag.node,
                format!("no pool of this route has `{key}`, so the filter drops nothing"),
                format!("give the pools their `{key}`"),
            );
        }
    }
    Filters {
        modality: or(given.modality, |flag| flag.0, tells_abilities).then(modality::Config::default),
        context_length: or(given.context_length, |flag| flag.0, tells_length)
            .then(context_length::Config::default),
        kv_fits: or(given.kv_fits, |flag| flag.0, false).then(kv_fits::Config::default),
        labels: labels(
            reader,
            (given.labels, given.not_labels),
            (given.rules, given.by_header),
        ),
    }
}

/// The filters of a route over this pool that says nothing of them.
pub(super) fn usual(pool: &PoolSpec) -> Filters {
    Filters {
        modality: (pool.abilities != Abilities::ALL).then(modality::Config::default),
        context_length: pool.context_length.map(|_| context_length::Config::default()),
        ..Filters::default()
    }
}

type Values = Option<At<model::LabelValues>>;
type List<T> = Option<At<Vec<At<T>>>>;

fn labels(
    reader: &mut Reader<'_>,
    (labels, not_labels): (Values, Values),
    (rules, by_header): (List<model::Rule>, List<crate::leaf::Name>),
) -> Option<Labels> {
    let mut config = Labels::default();
    if labels.is_some() || not_labels.is_some() {
        config.rules.push(Rule {
            labels: pairs(labels),
            not_labels: pairs(not_labels),
            ..Rule::default()
        });
    }
    for At { node, value } in or(rules, |rules| rules, Vec::new()) {
        config.rules.extend(rule(reader, node, value));
    }
    let names = or(by_header, |names| names, Vec::new());
    config.by_header = names.into_iter().map(|name| name.value.0.into()).collect();
    (config != Labels::default()).then_some(config)
}

fn rule(reader: &mut Reader<'_>, node: NodeId, given: model::Rule) -> Option<Rule> {
    if given.labels.is_none() && given.not_labels.is_none() {
        reader.warn(
            node,
            "the rule asks for nothing",
            "add `labels: {gpu: H100}`, or `not_labels: {spot: \"true\"}`",
        );
        return None;
    }
    Some(Rule {
        when: given.when.and_then(|when| condition(reader, when)),
        unless: given.unless.and_then(|unless| condition(reader, unless)),
        labels: pairs(given.labels),
        not_labels: pairs(given.not_labels),
    })
}

fn condition(reader: &mut Reader<'_>, At { node, value }: At<model::Condition>) -> Option<Condition> {
    if reader.is_empty_map(node) {
        reader.problem(
            node,
            "the condition says nothing, so every request meets it",
            "write `{prompt_tokens: {over: 8000}}` or `{priority: [P2, P3]}`",
        );
        return None;
    }
    Some(Condition {
        prompt_tokens: value
            .prompt_tokens
            .and_then(|range| super::routes::tokens(reader, range)),
        priority: or(
            value.priority,
            |OneOrMany(classes)| classes.iter().map(|class| class.value as u8).collect(),
            Vec::new(),
        ),
    })
}

fn pairs(given: Values) -> Vec<(Arc<str>, Vec<Arc<str>>)> {
    let pairs = given.map(|at| at.value.0).unwrap_or_default();
    let pairs = pairs.into_iter().map(|(name, values)| {
        let values = values.into_iter().map(Into::into);
        (name.into(), values.collect())
    });
    pairs.collect()
}
