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
