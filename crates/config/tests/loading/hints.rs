//! What is said to mend a file.

use crate::common::{bad, pool, pool_with, route};

#[test]
fn what_is_short_of_a_map_or_a_word_is_told_with_what_to_write() {
    let only = |text: &str, part: &str| {
        let found = bad(text);
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 1, "{text}: {shown:#?}");
        assert!(
            shown[0].contains(part) && !shown[0].contains("in quotes"),
            "{text}: {shown:#?}"
        );
    };
    only(
        &pool("server: {tls: true}"),
        "tls: {cert: cert.pem, key: key.pem}",
    );
    only(
        "pools: [{name: a, discovery: eps.yaml}]",
        "discovery: {file: endpoints.yaml}",
    );
    only(
        "pools: [{name: a, endpoints: [https://h], tls: true}]",
        "tls: {ca: ca.pem}",
    );
    only(&pool_with("http: 3"), "known: auto, 1, 2");
    only(&route("targets: [a], usage: true"), "known: ");
    let fallback = "targets: [a], fallback: [{route: r2, on: [500]}]}\n  - {name: r2, targets: [b]";
    only(&route(fallback), "known: unavailable, 5xx, 429");
    only(
        &pool("cors: {origins: ['*'], headers: [x]}"),
        "the gateway knows which headers",
    );
    let dns = "pools: [{name: a, discovery: {dns: {name: h, port: 1, resolver: []}}}]";
    only(dns, "the list is empty");
    only(
        &pool("server: {passthrough: [/v1/files/x]}"),
        "`/v1/files` is not supported yet",
    );
}

#[test]
fn a_file_of_endpoints_that_is_none_is_told_where_the_config_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.yaml");
    std::fs::write(&path, "pools:\n  - name: a\n    discovery: {file: .}\n").unwrap();
    let shown = weighbridge_config::load(&path, &|_| None)
        .unwrap_err()
        .to_string();
    assert!(
        shown.contains("w.yaml:3:") && shown.contains("pools[0].discovery.file: "),
        "{shown}"
    );
    std::fs::write(&path, "pools:\n  - name: a\n    discovery: {file: e.yaml}\n").unwrap();
    std::fs::write(directory.path().join("e.yaml"), "").unwrap();
    let shown = weighbridge_config::load(&path, &|_| None)
        .unwrap_err()
        .to_string();
    assert!(shown.contains("write `[]` for no endpoint"), "{shown}");
}

#[test]
fn a_word_in_the_wrong_key_is_told_the_right_one() {
    for (more, part) in [
        ("preset: round_robin", "`route_by: round_robin`"),
        ("preset: least_inflight", "write `policies: {least_inflight: {}}`"),
        ("preset: power_of_two", "write `picker: power_of_two`"),
        (
            "route_by: least-inflight",
            "write `policies: {least_inflight: {}}`",
        ),
        ("route_by: auto", "`auto` is a preset: write `preset: auto`"),
        ("picker: round_robin", "`route_by: round_robin`"),
        ("policies: {auto: {}}", "`auto` is a preset: write `preset: auto`"),
        ("policies: {round_robin: {}}", "`route_by: round_robin`"),
        ("policies: agents", "`agents` is a preset: write `preset: agents`"),
        (
            "policies: [least_inflight, zone]",
            "`policies: {least_inflight: {}, zone: {}}`",
        ),
        ("policies: zone", "`policies: {zone: {}}`"),
        (
            "policies: {least_inflight: 2}",
            "write `least_inflight: {weight: 2}`",
        ),
        ("policies: {zone: yes}", "write `zone: {}`"),
        (
            "policies: {session_affinity: {keys: [{}]}}",
            "one of `{header: x-session-id}`",
        ),
        ("preset: ''", "no word is given"),
        ("preset: '`'", "unknown word \"`\""),
    ] {
        let found = bad(&route(&format!("targets: [a], {more}")));
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(shown.len() == 1 && shown[0].contains(part), "{more}: {shown:#?}");
    }
    let found = bad(&pool_with("policies: {least_inflight: {}}"));
    assert_eq!(found[0].hint.as_deref(), Some("`policies` belongs to `routes[]`"));
    let found = bad(&pool_with("route_by: least_inflight"));
    assert!(
        found[0].hint.as_deref().unwrap().contains("in a route"),
        "{found:?}"
    );
}

#[test]
fn a_map_or_a_list_where_a_word_is_wanted_is_told_as_a_word() {
    for (more, place, hint) in [
        ("picker: {max: {}}", "picker.max", "write `picker: max`"),
        ("picker: {maximum: {}}", "picker.maximum", "did you mean `max`?"),
        (
            "picker: {least_inflight: {}}",
            "picker.least_inflight",
            "write `policies: {least_inflight: {}}`",
        ),
        (
            "picker: {round_robin: {}}",
            "picker.round_robin",
            "`route_by: round_robin`",
        ),
        (
            "picker: {auto: {}}",
            "picker.auto",
            "`auto` is a preset: write `preset: auto`",
        ),
        (
            "picker: {temperature: 0.1}",
            "picker.temperature",
            "write `picker: {weighted_random: {temperature: 0.1}}`",
        ),
        ("picker: {}", "picker", "write `picker: max`"),
        (
            "picker: {weighted_random: }",
            "picker.weighted_random",
            "write `picker: weighted_random`, or `picker: {weighted_random: {temperature: 0.1}}`",
        ),
        (
            "picker: {weighted_random: 0.3}",
            "picker.weighted_random",
            "write `picker: {weighted_random: {temperature: 0.3}}`",
        ),
        ("picker: [max]", "picker", "write `picker: max`"),
        ("preset: {auto: {}}", "preset", "write `preset: auto`"),
        ("preset: [chat]", "preset", "write `preset: chat`"),
        (
            "preset: {least_inflight: {}}",
            "preset",
            "write `policies: {least_inflight: {}}`",
        ),
        ("route_by: {policy: {}}", "route_by", "write `route_by: policy`"),
        (
            "route_by: [agents]",
            "route_by",
            "`agents` is a preset: write `preset: agents`",
        ),
        ("usage: [passive]", "usage", "write `usage: passive`"),
        ("usage: {a: b}", "usage", "known: inject, passive"),
    ] {
        let found = bad(&route(&format!("targets: [a], {more}")));
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        let place = format!("routes[0].{place}: ");
        assert!(
            shown.len() == 1 && shown[0].contains(&place) && shown[0].contains(hint),
            "{more}: {shown:#?}"
        );
    }
}
