//! The product's rules that are tried, and how their settings are varied.

use crate::trial::Rule;
use serde_json::{Map, Value};
use weighbridge_core::policies::{
    Policies, expected_wait, least_inflight, least_work, overload, prefill_batch, prefix_cache, queue_depth,
};
use weighbridge_core::presets::Preset;

/// The preset that a route gets which says nothing.
pub const AUTO: &str = Preset::Auto.as_str();
/// The same where engines tell of their caches.
pub const TOLD: &str = "auto, KV events";
/// What `auto` stood for before the lab.
pub const BEFORE: &str = "auto before the lab";
/// The family that `auto` must nowhere be behind.
pub const LEAST_INFLIGHT: &str = "least in-flight";
/// The family that it must be far ahead of where prompts share beginnings.
pub const ROUND_ROBIN: &str = "round robin";

/// The presets, single policies, `auto` where engines tell of their caches, and what `auto` was.
#[must_use]
pub fn product() -> Vec<Rule> {
    let presets = Preset::ALL.map(|preset| rule(preset.as_str(), preset.policies()));
    let single = singles().map(|(name, policies)| rule(name, policies));
    presets
        .into_iter()
        .chain(single)
        .chain([told(), before()])
        .collect()
}

/// These policies, under a name.
#[must_use]
pub fn rule(name: &str, policies: Policies) -> Rule {
    Rule::Policies {
        name: name.to_owned(),
        policies: Box::new(policies),
        kv_events: false,
    }
}

fn told() -> Rule {
    Rule::Policies {
        name: TOLD.to_owned(),
        policies: Box::new(Preset::Auto.policies()),
        kv_events: true,
    }
}

fn singles() -> [(&'static str, Policies); 6] {
    let none = Policies::default;
    [
        ("round_robin", none()),
        (
            "least_inflight",
            Policies {
                least_inflight: Some(least_inflight::Config::default()),
                ..none()
            },
        ),
        (
            "least_work",
            Policies {
                least_work: Some(least_work::Config::default()),
                ..none()
            },
        ),
        (
            "prefill_batch",
            Policies {
                prefill_batch: Some(prefill_batch::Config::default()),
                ..none()
            },
        ),
        (
            "expected_wait",
            Policies {
                expected_wait: Some(expected_wait::Config::default()),
                ..none()
            },
        ),
        (
            "prefix_cache",
            Policies {
                prefix_cache: Some(prefix_cache::Config::default()),
                ..none()
            },
        ),
    ]
}

fn before() -> Rule {
    let policies = Policies {
        least_work: Some(least_work::Config { weight: 1.0 }),
        prefix_cache: Some(prefix_cache::Config {
            weight: 1.0,
            ..prefix_cache::Config::default()
        }),
        queue_depth: Some(queue_depth::Config { weight: 0.5 }),
        overload: Some(overload::Config::default()),
        ..Policies::default()
    };
    rule(BEFORE, policies)
}

/// The same policies with one thing changed: each number of their settings a third, three times as large and zero, each switch
/// turned, each policy left out. What a policy refuses is left out, and so are settings that are texts.
#[must_use]
pub fn variants(policies: &Policies) -> Vec<(String, Policies)> {
    let Ok(Value::Object(all)) = serde_json::to_value(policies) else {
        return Vec::new();
    };
    let mut changed = Vec::new();
    for (policy, settings) in &all {
        let mut without = all.clone();
        without.remove(policy);
        changed.push((format!("without `{policy}`"), without));
        let mut places = Vec::new();
        leaves(settings, &mut Vec::new(), &mut places);
        for place in places {
            changed.extend(changes(&all, policy, &place));
        }
    }
    let alone = policies.configs().count() == 1;
    let read = |(name, settings): (String, Map<String, Value>)| {
        // The weight of a policy that is alone changes nothing.
        let idle = alone && name.contains(".weight`");
        let policies: Policies = serde_json::from_value(Value::Object(settings)).ok()?;
        let sound = policies.configs().all(|config| config.check().is_ok())
            && policies.modifiers().all(|config| config.check().is_ok());
        (sound && !idle && !policies.is_empty()).then_some((name, policies))
    };
    changed.into_iter().filter_map(read).collect()
}

/// Keys and places that lead to each number and each switch.
fn leaves(value: &Value, here: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let mut below = |key: String, value: &Value| {
        here.push(key);
        leaves(value, here, found);
        here.pop();
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| below(key.clone(), value)),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(place, value)| below(place.to_string(), value));
        }
        Value::Number(_) | Value::Bool(_) => found.push(here.clone()),
        Value::Null | Value::String(_) => {}
    }
}

/// What is tried in the place of one number or switch.
fn changes(all: &Map<String, Value>, policy: &str, place: &[String]) -> Vec<(String, Map<String, Value>)> {
    let pointer = format!("/{policy}/{}", place.join("/"));
    let whole = Value::Object(all.clone());
    let instead = match whole.pointer(&pointer) {
        Some(Value::Bool(on)) => vec![(if *on { "off" } else { "on" }, Value::Bool(!on))],
        Some(Value::Number(number)) => [("× 0.3", 0.3), ("× 3", 3.0), ("0", 0.0)]
            .into_iter()
            .map(|(says, factor)| (says, times(number, factor)))
            .filter(|(_, value)| value != &Value::Number(number.clone()))
            .collect(),
        _ => Vec::new(),
    };
    let with = |(says, value): (&str, Value)| {
        let mut whole = whole.clone();
        *whole.pointer_mut(&pointer)? = value;
        match whole {
            Value::Object(settings) => Some((format!("`{policy}.{}` {says}", place.join(".")), settings)),
            _ => None,
        }
    };
    instead.into_iter().filter_map(with).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "settings are small, and none is negative"
)]
fn times(number: &serde_json::Number, factor: f64) -> Value {
    match number.as_u64() {
        Some(whole) => Value::from((whole as f64 * factor).round() as u64),
        None => Value::from(number.as_f64().unwrap_or_default() * factor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rules_have_names_of_their_own() {
        let names: Vec<_> = product().iter().map(Rule::name).collect();
        let different: BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        assert_eq!(names[0], AUTO);
        assert!(names.iter().any(|name| name == BEFORE));
    }

    #[test]
    fn each_number_is_varied_and_each_policy_left_out() {
        let Rule::Policies { policies, .. } = before() else {
            panic!("it is made of policies");
        };
        let variants = variants(&policies);
        let names: Vec<_> = variants.iter().map(|(name, _)| name.as_str()).collect();
        for name in [
            "without `least_work`",
            "without `overload`",
            "`queue_depth.weight` × 0.3",
            "`overload.factor` × 0.3",
        ] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        // A weight of 0 is refused by the policy, so it is not tried.
        assert!(!names.contains(&"`queue_depth.weight` 0"), "{names:?}");
        let (_, third) = variants
            .iter()
            .find(|(name, _)| name == "`queue_depth.weight` × 0.3")
            .unwrap();
        assert_eq!(third.queue_depth, Some(queue_depth::Config { weight: 0.15 }));
        assert_eq!(third.least_work, policies.least_work);
        assert!(variants.iter().all(|(_, variant)| variant != &*policies));
    }

    #[test]
    fn a_policy_that_is_alone_has_no_weight_to_vary() {
        let (_, alone) = &singles()[1];
        assert_eq!(variants(alone), Vec::new());
    }
}
