//! Where a word belongs that stands in the place of another: how a route chooses is said by four keys, and a word of one of them
//! is easily written under the next.

use weighbridge_core::policies::Policies;
use weighbridge_core::presets::Preset;

/// What to write where `word` stands under the key `key` and belongs to another of `preset`, `policies`, `route_by` and `picker`.
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
