//! Labels and weights that come to nothing, exactly as it is told.

use crate::common::warnings;
use crate::warnings::check;

#[test]
fn labels_that_no_endpoint_has_are_told() {
    let with = |filters: &str| {
        format!(
            "pools: [{{name: a, endpoints: [{{url: 'http://h:1', labels: {{gpu: T4, zone: '${{KEY}}'}}}}, http://h:2]}}]\nroutes: [{{name: r, targets: [a], filters: {{{filters}}}}}]"
        )
    };
    check(
        &with(
            "labels: {gpus: A100, gpu: [A100, H100]}, not_labels: {spot: 'true'}, rules: [{labels: {tier: gold}}], by_header: [gpu, tear]",
        ),
        &[
            "routes[0].filters.labels.gpus: no endpoint of this route has the label `gpus`, so nothing serves what this is about | give endpoints their `labels: {gpus: …}`",
            "routes[0].filters.labels.gpu: no endpoint of this route has such a label `gpu`, so nothing serves what this is about | they have T4",
            "routes[0].filters.not_labels.spot: no endpoint of this route has the label `spot`, so this drops nothing | give endpoints their `labels: {spot: …}`",
            "routes[0].filters.rules[0].labels.tier: no endpoint of this route has the label `tier`, so nothing serves what this is about | give endpoints their `labels: {tier: …}`",
            "routes[0].filters.by_header[1]: no endpoint of this route has the label `tear`, so nothing serves a request that asks for it | give endpoints their `labels: {tear: …}`",
        ],
    );
    for quiet in [
        "labels: {gpu: [A100, T4]}, by_header: [gpu, zone]",
        "labels: {zone: '${PORT}'}",
        "not_labels: {gpu: T4}",
    ] {
        check(&with(quiet), &[]);
    }
    // Of DNS the config says all labels.
    let found = |source: &str, label: &str| {
        format!(
            "pools: [{{name: a, discovery: {source}}}]\nroutes: [{{name: r, targets: [a], filters: {{labels: {{{label}: x}}}}}}]"
        )
    };
    check(&found("{dns: {name: h, port: 1, labels: {gpu: x}}}", "gpu"), &[]);
    assert_eq!(warnings(&found("{dns: 'h:1'}", "gpu")).len(), 1);
    let told = warnings(&found("{file: none.yaml}", "gpu"));
    assert!(!told.iter().any(|line| line.contains("label")), "{told:?}");
}

#[test]
fn labels_that_no_listed_endpoint_has_are_told_as_the_list_is_now() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.yaml");
    let told = |list: &str, filters: &str| {
        std::fs::write(directory.path().join("e.yaml"), list).unwrap();
        let text = format!(
            "pools: [{{name: a, model: m, discovery: {{file: e.yaml}}}}, {{name: b, model: m, endpoints: [{{url: 'http://h:9', labels: {{zone: x}}}}]}}]\nroutes: [{{name: r, targets: [a, b], filters: {{{filters}}}}}]"
        );
        std::fs::write(&path, text).unwrap();
        let loaded = weighbridge_config::load(&path, &|_| None).unwrap();
        let labels = loaded
            .warnings
            .iter()
            .filter(|warning| warning.message.contains("label"));
        labels
            .map(|warning| format!("{}: {}", warning.path, warning.message))
            .collect::<Vec<_>>()
    };
    let list = "[{url: 'http://h:1', labels: {gpu: T4}}]";
    assert_eq!(
        told(list, "labels: {gpu: H100}, by_header: [gpu, tier, zone]"),
        [
            "routes[0].filters.labels.gpu: no endpoint of this route has such a label `gpu` as its sources are now, so nothing serves what this is about",
            "routes[0].filters.by_header[1]: no endpoint of this route has the label `tier` as its sources are now, so nothing serves a request that asks for it",
        ]
    );
    // Nobody knows of a list that is empty what it will hold.
    assert_eq!(told("[]", "labels: {gpu: H100}"), Vec::<String>::new());
}

#[test]
fn weights_of_endpoints_at_which_nothing_looks_are_told() {
    let with = |pool: &str, route: &str| {
        format!(
            "pools: [{{name: a, endpoints: [{{url: 'http://h:1', weight: 2}}, http://h:2]{pool}}}, {{name: b, endpoints: [http://h:3]}}]\n{route}"
        )
    };
    let told = "the weights of the endpoints of the pool `a` decide nothing: its routes choose by policies, which do not look at them | write `route_by: round_robin` to take turns by these weights, or leave them out";
    check(
        &with(", preset: chat", ""),
        &[&format!("pools[0].endpoints: {told}")],
    );
    check(
        &with(", weight: auto, kind: vllm, preset: chat", ""),
        &[&format!("pools[0].weight: {told}")],
    );
    check(
        &with("", "routes: [{name: r, targets: [a, b], preset: auto}]"),
        &[&format!("pools[0].endpoints: {told}")],
    );
    for (pool, route) in [
        ("", ""),
        (", route_by: round_robin", ""),
        (
            "",
            "routes: [{name: r, targets: [a], policies: {gpu_load: {}, least_inflight: {}}}]",
        ),
        (
            "",
            "routes: [{name: r, targets: [a], preset: chat}, {name: s, targets: [a, b]}]",
        ),
    ] {
        check(&with(pool, route), &[]);
    }
}

#[test]
fn weights_that_follow_nothing() {
    let silent = "nothing tells of the load in the pool `a`, as its metrics are not read, so its weights stay what they are | let `scrape` read the engines' metrics, or leave `weight: auto` out";
    let silent = format!("pools[0].weight: {silent}");
    let with = |keys: &str| format!("pools: [{{name: a, weight: auto, {keys}}}]");
    check(&with("kind: vllm, endpoints: [http://h]"), &[]);
    check(
        &with("kind: generic, scrape: {path: /metrics}, endpoints: [http://h]"),
        &[],
    );
    check(
        &with("kind: vllm, scrape: false, endpoints: [http://h]"),
        &[&silent],
    );
    check(&with("kind: generic, endpoints: [http://h]"), &[&silent]);
    check(
        &with("kind: openai, api_key: x, endpoints: [https://h]"),
        &[&silent],
    );
}

#[test]
fn labels_that_weigh_nothing() {
    let labels = |weight: &str, labels: &str| {
        format!(
            "pools: [{{name: a, kind: vllm{weight}, endpoints: [{{url: http://h, labels: {{{labels}}}}}]}}]"
        )
    };
    let unread = [
        "pools[0].endpoints[0].labels.gpu: `Abacus` is no GPU type that is known, so no type counts for the weights in this pool | name one such as `A100` or `NVIDIA L40S`, or give the endpoints their `weight`",
        "pools[0].endpoints[0].labels.gpus: `eight` is no number of GPUs, so it counts as 1 | write a whole number from 1 to 1024",
    ];
    check(&labels(", weight: labels", "gpu: Abacus, gpus: eight"), &unread);
    check(&labels(", weight: auto", "gpu: Abacus, gpus: eight"), &unread);
    check(&labels(", weight: labels", "gpu: NVIDIA H100, gpus: \"8\""), &[]);
    check(&labels("", "gpu: Abacus, gpus: eight"), &[]);
}
