//! What a reload changes, in words for the log, and what it cannot change.

use crate::mask::masked;
use crate::resolved::Config;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use std::collections::BTreeMap;

/// Most changes that are listed.
const LISTED_MAX: usize = 50;
/// Longest value that is quoted, characters.
const SHOWN_MAX: usize = 60;

/// What differs between two configs, one line each, such as `pools[a].max_inflight: 8 → 16`. Secrets are not shown, only
/// that they differ.
#[must_use]
pub fn diff(old: &Config, new: &Config) -> Vec<String> {
    let mut changes = Vec::new();
    compare("", &masked(old), &masked(new), &mut changes);
    secrets(old, new, &mut changes);
    let more = changes.len().saturating_sub(LISTED_MAX);
    if more > 0 {
        changes.truncate(LISTED_MAX);
        changes.push(format!("and {more} more"));
    }
    changes
}

/// Why a running gateway cannot go from `old` to `new`; `None` if it can. Both listeners stay where they are.
#[must_use]
pub fn refuses_reload(old: &Config, new: &Config) -> Option<String> {
    if old.server.listen != new.server.listen {
        return Some(format!(
            "`server.listen` changes from {} to {}, which needs a restart",
            old.server.listen, new.server.listen
        ));
    }
    if old.admin.listen != new.admin.listen {
        let shown = |listen: Option<std::net::SocketAddr>| {
            listen.map_or("off".to_owned(), |listen| listen.to_string())
        };
        return Some(format!(
            "`admin.listen` changes from {} to {}, which needs a restart",
            shown(old.admin.listen),
            shown(new.admin.listen)
        ));
    }
    None
}

fn compare(path: &str, old: &Value, new: &Value, changes: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                compare(&path, value, new.get(key).unwrap_or(&Value::Null), changes);
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                compare(&path, &Value::Null, value, changes);
            }
        }
        (Value::Array(old), Value::Array(new)) if named(old).is_some() && named(new).is_some() => {
            let (old, new) = (named(old).unwrap_or_default(), named(new).unwrap_or_default());
            for (name, value) in &old {
                match new.get(name) {
                    Some(other) => compare(&format!("{path}[{name}]"), value, other, changes),
                    None => changes.push(format!("{path}[{name}]: removed")),
                }
            }
            changes.extend(
                new.keys()
                    .filter(|name| !old.contains_key(*name))
                    .map(|name| format!("{path}[{name}]: added")),
            );
        }
        (old, new) if old != new => changes.push(format!("{path}: {} → {}", shown(old), shown(new))),
        _ => {}
    }
}

/// The entries of a list by their names, if all have one of their own.
fn named(list: &[Value]) -> Option<BTreeMap<&str, &Value>> {
    let names: BTreeMap<&str, &Value> = list
        .iter()
        .filter_map(|entry| Some((entry.get("name")?.as_str()?, entry)))
        .collect();
    (names.len() == list.len()).then_some(names)
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => return "not set".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Changes that masking hides.
fn secrets(old: &Config, new: &Config, changes: &mut Vec<String>) {
    let exposed =
        |secret: &Option<SecretString>| secret.as_ref().map(|secret| secret.expose_secret().to_owned());
    if old.admin.token.is_some()
        && new.admin.token.is_some()
        && exposed(&old.admin.token) != exposed(&new.admin.token)
    {
        changes.push("admin.token: changed".to_owned());
    }
    let digests = |config: &Config| config.keys.iter().map(|key| key.sha256).collect::<Vec<_>>();
    if digests(old) != digests(new) {
        changes.push("keys: the keys themselves changed".to_owned());
    }
    if let (Some(old), Some(new)) = (&old.server.tls, &new.server.tls)
        && old.identity != new.identity
    {
        changes.push("server.tls: the certificates changed".to_owned());
    }
    for (pool, spec) in new.pools.iter().zip(&new.fleet.pools) {
        let Some(index) = old.pools.iter().position(|other| other.name == pool.name) else {
            continue;
        };
        let (other, other_spec) = (&old.pools[index], &old.fleet.pools[index]);
        let keys = |keys: &[SecretString]| {
            keys.iter()
                .map(|key| key.expose_secret().to_owned())
                .collect::<Vec<_>>()
        };
        if other.api_keys.len() == pool.api_keys.len() && keys(&other.api_keys) != keys(&pool.api_keys) {
            changes.push(format!("pools[{}].api_keys: changed", pool.name));
        }
        if pool.discovery.is_some() {
            continue;
        }
        for endpoint in &spec.endpoints {
            let before = other_spec
                .endpoints
                .iter()
                .find(|other| other.name == endpoint.name);
            let visible = |address: &str| address.split('?').next().map(str::to_owned);
            if before.is_some_and(|before| {
                before.address != endpoint.address && visible(&before.address) == visible(&endpoint.address)
            }) {
                changes.push(format!(
                    "pools[{}].endpoints[{}].url: the query changed",
                    pool.name, endpoint.name
                ));
            }
        }
    }
}
