//! The tests that every form of a store must pass; called from each form's own tests with an empty store.
#![allow(clippy::panic, reason = "a failed assertion is how these checks report")]

use crate::{KeyRecord, Keys, Usage, UsageTotal, hash_key};

fn record(name: &str, key: &str) -> KeyRecord {
    KeyRecord {
        name: name.into(),
        sha256: hash_key(key.as_bytes()),
        expires: None,
        tenant: None,
        models: None,
    }
}

/// Keys: found by hash alone, replaced as a whole, names may repeat.
///
/// # Panics
/// If the store breaks the contract.
pub fn keys(store: &dyn Keys) {
    assert!(store.is_empty());
    assert_eq!(store.find(&hash_key(b"one")), None);
    store.replace(vec![record("team", "one"), record("team", "two")]);
    assert_eq!(
        store.len(),
        2,
        "two keys may share a name while one is rotated out"
    );
    let found = store.find(&hash_key(b"two"));
    assert_eq!(found.as_deref(), Some(&record("team", "two")));
    store.replace(vec![KeyRecord {
        expires: Some(100),
        models: Some(vec!["chat".into(), "gpt-*".into()]),
        ..record("other", "three")
    }]);
    assert_eq!(store.find(&hash_key(b"one")), None, "a replaced key is gone");
    let Some(key) = store.find(&hash_key(b"three")) else {
        panic!("the new key is there")
    };
    assert!(!key.expired(99) && key.expired(100));
    assert!(key.allows("chat") && key.allows("gpt-4o") && !key.allows("chat2") && !key.allows("llama"));
}

/// Usage: sums per key, unknown keys are zero.
///
/// # Panics
/// If the store breaks the contract.
pub fn usage(store: &dyn Usage) {
    assert_eq!(store.total("nobody"), UsageTotal::default());
    let one = UsageTotal {
        requests: 1,
        prompt_tokens: 11,
        completion_tokens: 7,
    };
    store.add("b", one);
    store.add("b", one);
    store.add("a", one);
    assert_eq!(
        store.total("b"),
        UsageTotal {
            requests: 2,
            prompt_tokens: 22,
            completion_tokens: 14
        }
    );
    let all = store.all();
    let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["a", "b"]);
    store.add(
        "a",
        UsageTotal {
            prompt_tokens: u64::MAX,
            ..one
        },
    );
    assert_eq!(store.total("a").prompt_tokens, u64::MAX, "counts saturate");
}
