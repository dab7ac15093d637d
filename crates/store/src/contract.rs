//! The tests that every form of a store must pass; called from each form's own tests with an empty store.
#![allow(clippy::panic, reason = "a failed assertion is how these checks report")]

use crate::{Home, Homes, KeyRecord, Keys, Owner, Usage, UsageTotal, hash_key};

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

/// Homes: found by id and owner, replaced, forgotten, expired; at least `room` of them are kept for at least a minute.
///
/// # Panics
/// If the store breaks the contract.
pub fn homes(store: &dyn Homes, room: usize) {
    let owner = |name: &str| Some(Owner::Tenant(name.into()));
    let home = |endpoint: &str, owner: &Option<Owner>| Home {
        route: "r".into(),
        pool: "p".into(),
        endpoint: endpoint.into(),
        upstream_key: 1,
        owner: owner.clone(),
    };
    let (one, two, none) = (owner("one"), owner("two"), None);
    assert_eq!(store.find("resp_1", one.as_ref(), 0), None);
    for (endpoint, owner) in [("a", &one), ("b", &two), ("c", &none)] {
        store.put("resp_1", home(endpoint, owner), 0);
    }
    for (endpoint, owner) in [("a", &one), ("b", &two), ("c", &none)] {
        let found = store.find("resp_1", owner.as_ref(), 59);
        assert_eq!(found, Some(home(endpoint, owner)), "each finds their own");
    }
    let key = Owner::Key("one".into());
    assert_eq!(store.find("resp_1", Some(&key), 0), None, "a key is no tenant");
    store.put("resp_1", home("d", &one), 0);
    assert_eq!(store.find("resp_1", one.as_ref(), 0), Some(home("d", &one)));
    store.forget("resp_1", one.as_ref());
    store.forget("never", one.as_ref());
    assert_eq!(store.find("resp_1", one.as_ref(), 0), None);
    assert_eq!(store.find("resp_1", two.as_ref(), 0), Some(home("b", &two)));
    assert_eq!(store.find("resp_1", two.as_ref(), i64::MAX), None, "all expire");
    for number in 0..room {
        store.put(&format!("resp_x{number}"), home("a", &one), 0);
    }
    for number in 0..room {
        let found = store.find(&format!("resp_x{number}"), one.as_ref(), 59);
        assert_eq!(found, Some(home("a", &one)), "{number} of {room}");
    }
}

/// Homes of several owners in a store that holds `room` of them: when it is full, the owner with the most loses its oldest.
///
/// # Panics
/// If the store breaks the contract.
pub fn fair_homes(store: &dyn Homes, room: usize) {
    let owner = |name: &str| Some(Owner::Key(name.into()));
    let put = |id: &str, owner: &Option<Owner>| {
        let home = Home {
            route: "r".into(),
            pool: "p".into(),
            endpoint: "e".into(),
            upstream_key: 0,
            owner: owner.clone(),
        };
        store.put(id, home, 0);
    };
    let kept = |id: String, owner: &Option<Owner>| store.find(&id, owner.as_ref(), 59).is_some();
    let (flood, small, nobody) = (owner("flood"), owner("small"), None);
    put("resp_0", &small);
    put("resp_0", &nobody);
    for number in 0..room + 10 {
        put(&format!("resp_{number}"), &flood);
    }
    for other in [&small, &nobody] {
        assert!(kept("resp_0".into(), other), "one owner pushed out another's");
    }
    assert!(!kept("resp_11".into(), &flood) && kept("resp_12".into(), &flood));
    // Whoever comes later gets a share all the same, and no more than one.
    for number in 1..room {
        put(&format!("resp_{number}"), &small);
    }
    let held = |owner: &Option<Owner>| {
        (0..room + 10)
            .filter(|number| kept(format!("resp_{number}"), owner))
            .count()
    };
    let (flooded, smalls) = (held(&flood), held(&small));
    assert!(flooded.abs_diff(smalls) <= 1, "{flooded} and {smalls}");
    assert_eq!(flooded + smalls + 1, room);
    assert!(kept(format!("resp_{}", room + 9), &flood), "the oldest go first");
    assert!(
        kept("resp_0".into(), &nobody),
        "a small owner lost to greater ones"
    );
}
