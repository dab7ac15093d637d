//! What presets stand for, as a route that says the same in policies.

use serde_json::{Map, Value, json};
use std::fmt::Write;
use weighbridge_core::policies::Policies;
use weighbridge_core::presets::Preset;

/// A table of the presets for `docs/choosing.md`.
pub(super) fn table() -> String {
    let mut text = String::from("\n\n| `preset` | is the same as `policies:` |\n|---|---|\n");
    for preset in Preset::ALL {
        let _ = writeln!(
            text,
            "| `{}` | `{}` |",
            preset.as_str(),
            written(&preset.policies())
        );
    }
    text.push('\n');
    text
}

/// The policies as a config has them, each with what is not its default.
fn written(policies: &Policies) -> String {
    let Ok(Value::Object(all)) = serde_json::to_value(policies) else {
        return String::new();
    };
    let each: Vec<String> = all
        .iter()
        .map(|(name, settings)| {
            let usual = usual(name);
            let fields = settings.as_object().into_iter().flatten();
            let fields: Vec<String> = fields
                .filter(|(key, value)| usual.get(*key) != Some(*value))
                .map(|(key, value)| format!("{key}: {value}"))
                .collect();
            format!("{name}: {{{}}}", fields.join(", "))
        })
        .collect();
    format!("{{{}}}", each.join(", "))
}

/// A policy's defaults.
fn usual(policy: &str) -> Map<String, Value> {
    let read: Result<Policies, _> = serde_json::from_value(json!({ policy: {} }));
    let read = read.and_then(serde_json::to_value).unwrap_or_default();
    read.get(policy)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_core::policies::{least_inflight, session_affinity};

    #[test]
    fn what_is_not_a_default_is_told() {
        let policies = Policies {
            session_affinity: Some(session_affinity::Config {
                bound: Some(1.25),
                ..session_affinity::Config::default()
            }),
            least_inflight: Some(least_inflight::Config { weight: 1.0 }),
            ..Policies::default()
        };
        assert_eq!(
            written(&policies),
            "{least_inflight: {}, session_affinity: {bound: 1.25}}"
        );
    }
}
