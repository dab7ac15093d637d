//! What to write in the place of what stands there: keys of other sections, and words of other keys.

use weighbridge_core::policies::Policies;
use weighbridge_core::presets::Preset;

/// What to write where a word of one of the keys that say how a route chooses stands under another of them: `word` under `key`,
/// which is one of `preset`, `policies`, `route_by` and `picker`.
pub(crate) fn elsewhere(key: &str, word: &str) -> Option<String> {
    const KEYS: &[&str] = &["preset", "policies", "route_by", "picker"];
    if !KEYS.contains(&key) {
        return None;
    }
    let word = word.to_lowercase().replace(['-', ' '], "_");
    let word = word.as_str();
    if key != "preset" && Preset::ALL.iter().any(|preset| preset.as_str() == word) {
        return Some(format!("`{word}` is a preset: write `preset: {word}`"));
    }
    if key != "route_by" && word == "round_robin" {
        return Some("targets take turns where it says `route_by: round_robin`".to_owned());
    }
    if key != "policies" && Policies::NAMES.contains(&word) {
        return Some(format!(
            "`{word}` is a policy: write `policies: {{{word}: {{}}}}` in a route"
        ));
    }
    if key != "picker" && matches!(word, "max" | "power_of_two" | "weighted_random") {
        return Some(format!(
            "`{word}` is a picker: write `picker: {word}` beside `policies`"
        ));
    }
    None
}

/// Most places that are named for a key that stands in the wrong one.
const HOMES_MAX: usize = 3;

/// Where a key of this name belongs, if anywhere.
pub(crate) fn belongs(key: &str) -> Option<String> {
    let homes = crate::schema::homes(key);
    let named: Vec<String> = homes
        .iter()
        .take(HOMES_MAX)
        .map(|home| match home.as_str() {
            "" => "the top level".to_owned(),
            home => format!("`{home}`"),
        })
        .collect();
    let more = if homes.len() > HOMES_MAX { " or others" } else { "" };
    (!named.is_empty()).then(|| format!("`{key}` belongs to {}{more}", named.join(" or ")))
}

/// What to write where a map is wanted and people write something shorter.
pub(crate) fn example(path: &str) -> Option<&'static str> {
    Some(match path {
        "server.tls" => "write `tls: {cert: cert.pem, key: key.pem}`, the paths of two PEM files",
        path if path.ends_with("].tls") => {
            "write `tls: {ca: ca.pem}`; for the authorities of the system, leave `tls` out and write https:// URLs"
        }
        path if path.ends_with("].discovery") => {
            "write `discovery: {file: endpoints.yaml}` or `discovery: {dns: engines.example:8000}`"
        }
        _ => return None,
    })
}
