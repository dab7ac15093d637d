//! How routes choose that say much, little or nothing of it.

use crate::common::{check_problems as check, good, route};
use weighbridge_config::masked;
use weighbridge_config::resolved::Chosen;
use weighbridge_core::presets::Preset;
use weighbridge_core::spec::RouteBy;

/// Pools of these endpoints and settings, the first called `a`, and routes.
fn config(pools: &[(&str, &str)], routes: &str) -> String {
    let names = ["a", "b", "c"];
    let pools = pools.iter().zip(names).map(|((endpoints, more), name)| {
        let source = match *endpoints {
            "dns" => "discovery: {dns: \"engines.example:8000\"}".to_owned(),
            list => format!("endpoints: [{list}]"),
        };
        format!("  - {{name: {name}, {source}{more}}}\n")
    });
    format!("pools:\n{}{routes}", pools.collect::<String>())
}

/// How the last route chooses. Its policies must be those of its preset, or none.
fn chosen(text: &str) -> (RouteBy, Chosen) {
    let config = good(text);
    let (spec, route) = (config.fleet.routes.last().unwrap(), config.routes.last().unwrap());
    if let Some(preset) = route.chosen.preset() {
        assert_eq!(spec.policies, preset.policies(), "{text}");
    }
    (spec.route_by(), route.chosen)
}

const ONE: &str = "http://h1:1";
const TWO: &str = "http://h1:1, http://h2:1";

#[test]
fn a_pool_of_several_candidates_is_routed_by_auto_unless_it_says_otherwise() {
    let auto = (RouteBy::Policy, Chosen::Implied);
    let turns = |chosen| (RouteBy::RoundRobin, chosen);
    for (endpoints, more, expect) in [
        (ONE, "", turns(Chosen::Alone)),
        (TWO, "", auto),
        // Each rank is a candidate.
        (ONE, ", ranks: 2", auto),
        ("{url: \"http://h:1\", ranks: 2}", "", auto),
        // How many a source names is not known before it is asked, and may change.
        ("dns", "", auto),
        (TWO, ", route_by: round_robin", turns(Chosen::Asked)),
        (ONE, ", route_by: round_robin", turns(Chosen::Asked)),
        (
            TWO,
            ", route_by: policy",
            (RouteBy::Policy, Chosen::Preset(Preset::Auto)),
        ),
        (
            ONE,
            ", preset: chat",
            (RouteBy::Policy, Chosen::Preset(Preset::Chat)),
        ),
        (
            TWO,
            ", preset: agents, route_by: policy",
            (RouteBy::Policy, Chosen::Preset(Preset::Agents)),
        ),
        // Weights that differ, or what makes such, say how the endpoints share.
        (
            "{url: \"http://h:1\", weight: 2}, http://h:2",
            "",
            turns(Chosen::EndpointWeights),
        ),
        (
            "{url: \"http://h:1\", weight: 2}, http://h:2",
            ", preset: auto",
            (RouteBy::Policy, Chosen::Preset(Preset::Auto)),
        ),
        (TWO, ", weight: auto", turns(Chosen::EndpointWeights)),
        (TWO, ", weight: labels", turns(Chosen::EndpointWeights)),
        (
            TWO,
            ", calibrate: {at: \"04:00\"}",
            turns(Chosen::EndpointWeights),
        ),
        (TWO, ", calibrate: {tokens: 64}", auto),
        ("dns", ", weight: auto", turns(Chosen::EndpointWeights)),
        // Equal weights say nothing of shares, and neither does one that is being drained.
        (
            "{url: \"http://h:1\", weight: 2}, {url: \"http://h:2\", weight: 2}",
            "",
            auto,
        ),
        (
            "{url: \"http://h:1\", weight: 0}, http://h:2, http://h:3",
            "",
            auto,
        ),
    ] {
        assert_eq!(
            chosen(&config(&[(endpoints, more)], "")),
            expect,
            "{endpoints}{more}"
        );
    }
}

#[test]
fn a_route_of_several_candidates_is_routed_by_auto_unless_it_says_otherwise() {
    let pools = [
        (ONE, ""),
        (ONE, ""),
        ("{url: \"http://h:1\", weight: 2}, http://h:2", ""),
    ];
    let auto = (RouteBy::Policy, Chosen::Implied);
    let asked = |by| (by, Chosen::Asked);
    for (more, expect) in [
        ("targets: [a]", (RouteBy::RoundRobin, Chosen::Alone)),
        ("targets: [a, b]", auto),
        ("targets: [a, {pool: b, order: 2}]", auto),
        ("targets: [a, b], picker: power_of_two", auto),
        ("targets: [a, b], policies: {}", auto),
        (
            "targets: [a, b], route_by: round_robin",
            asked(RouteBy::RoundRobin),
        ),
        ("targets: [a], route_by: round_robin", asked(RouteBy::RoundRobin)),
        (
            "targets: [a, b], route_by: round_robin, policies: {}",
            asked(RouteBy::RoundRobin),
        ),
        (
            "targets: [{pool: a, weight: 1}, {pool: b, weight: 3}]",
            asked(RouteBy::Weight),
        ),
        (
            "targets: [{pool: a, weight: 1}, {pool: b, weight: 3}], route_by: weight",
            asked(RouteBy::Weight),
        ),
        (
            "targets: [a, b], policies: {least_inflight: {}}",
            asked(RouteBy::Policy),
        ),
        (
            "targets: [a, b], policies: {least_inflight: {}}, route_by: policy",
            asked(RouteBy::Policy),
        ),
        (
            "targets: [a, b], route_by: policy",
            (RouteBy::Policy, Chosen::Preset(Preset::Auto)),
        ),
        (
            "targets: [a, b], preset: batch",
            (RouteBy::Policy, Chosen::Preset(Preset::Batch)),
        ),
        ("targets: [a, c]", (RouteBy::RoundRobin, Chosen::EndpointWeights)),
        (
            "targets: [a, c], preset: auto",
            (RouteBy::Policy, Chosen::Preset(Preset::Auto)),
        ),
    ] {
        let text = config(&pools, &format!("routes: [{{name: r, {more}}}]"));
        let config = good(&text);
        let at = config
            .routes
            .iter()
            .position(|route| &*route.name == "r")
            .unwrap();
        let got = (config.fleet.routes[at].route_by(), config.routes[at].chosen);
        assert_eq!(got, expect, "{more}");
    }
}

#[test]
fn what_a_source_names_changes_nothing_of_how_a_route_chooses() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.yaml");
    std::fs::write(&path, "pools: [{name: a, discovery: {file: e.yaml}}]").unwrap();
    for endpoints in [
        "[]",
        "[http://h:1]",
        "[http://h:1, http://h:2]",
        "[{url: 'http://h:1', weight: 2}, http://h:2]",
    ] {
        std::fs::write(directory.path().join("e.yaml"), endpoints).unwrap();
        let loaded = weighbridge_config::load(&path, &|_| None).unwrap();
        assert_eq!(loaded.config.routes[0].chosen, Chosen::Implied, "{endpoints}");
        let told = loaded
            .warnings
            .iter()
            .any(|warning| warning.message.contains("weights"));
        assert_eq!(
            told,
            endpoints.contains("weight"),
            "{endpoints}: {:?}",
            loaded.warnings
        );
    }
}

#[test]
fn what_is_asked_for_by_name_and_contradicted_is_refused_with_both_ways_to_mend_it() {
    for (more, expect) in [
        (
            "targets: [{pool: a, weight: 1}], route_by: round_robin",
            "routes[0].route_by: the route `r` asks for `round_robin`, and its targets have weights | remove `route_by` to choose by the weights, or remove the weights to take turns",
        ),
        (
            "targets: [a], route_by: round_robin, policies: {least_inflight: {}}",
            "routes[0].route_by: the route `r` asks for `round_robin`, and has `policies` | remove `route_by` to choose by policies, or remove `policies` to take turns",
        ),
        (
            "targets: [a], route_by: round_robin, preset: chat",
            "routes[0].route_by: the route `r` asks for `round_robin`, and has `preset` | remove `route_by` to choose by policies, or remove `preset` to take turns",
        ),
        (
            "targets: [a], route_by: weight",
            "routes[0].route_by: the route `r` is to go by weights, and its targets have none | give every target its `weight`; weights of endpoints are looked at under `route_by: round_robin`",
        ),
        (
            "targets: [a], route_by: weight, preset: chat",
            "routes[0].route_by: the route `r` is to go by weights, and has `preset` | remove `route_by` to choose by policies, or give every target a `weight` and remove `preset`",
        ),
        (
            "targets: [{pool: a, weight: 1}], route_by: policy",
            "routes[0].route_by: the route `r` is to go by policies, and its targets have weights | remove `route_by` to choose by the weights, or remove the weights to choose by policies",
        ),
        (
            "targets: [{pool: a, weight: 1}, b], route_by: weight",
            "routes[0].targets: the route `r` has a weight on some of its targets and none on `b` | give every target a weight (0 takes nothing), or remove all weights",
        ),
        (
            "targets: [a], route_by: rr",
            "routes[0].route_by: unknown word `rr` | known: round_robin, weight, policy",
        ),
        (
            "targets: [a], policies: {overload: {}}",
            "routes[0].policies.overload: `overload` changes what policies give, and this route has none | add `least_inflight: {}` or another policy; without `policies` the preset `auto` brings it along",
        ),
        (
            "targets: [a], policies: {least_inflight: {weight: 1000001}}",
            "routes[0].policies.least_inflight.weight: the weight of a policy is at most 1000000, and this is 1000001 | weights count by their ratios: give the others less",
        ),
        (
            "targets: [a], policies: {zone: {weight: 1e308}}",
            "routes[0].policies.zone.weight: the weight of a policy is at most 1000000, and this is 1e308 | weights count by their ratios: give the others less",
        ),
        (
            "targets: [a], policies: {session_affinity: {bound: 1e308}}",
            "routes[0].policies.session_affinity.bound: 1e308 is above 1000000 | one above the number of endpoints bounds nothing: leave it out",
        ),
    ] {
        check(&route(more), &[expect]);
    }
    for (more, expect) in [
        (
            "route_by: round_robin, preset: chat",
            "pools[0].route_by: the pool asks for `round_robin` and for a `preset` | remove `route_by` to choose by the preset, or remove `preset` to take turns",
        ),
        (
            "route_by: weight",
            "pools[0].route_by: unknown word `weight` | known: round_robin, policy",
        ),
    ] {
        check(&crate::common::pool_with(more), &[expect]);
    }
    assert_eq!(
        good(&route(
            "targets: [a], policies: {least_inflight: {weight: 1000000}}"
        ))
        .routes
        .len(),
        3
    );
}

#[test]
fn a_pool_that_a_route_names_says_in_vain_how_its_own_route_chooses() {
    let text = config(
        &[(TWO, ", route_by: policy, preset: chat")],
        "routes: [{name: r, targets: [a]}]",
    );
    let told = crate::common::warnings(&text);
    assert_eq!(told.len(), 2, "{told:?}");
    for (line, key) in told.iter().zip(["preset", "route_by"]) {
        let says = format!(
            "`{key}` has no effect here: it is for the route that a pool is by itself, and `a` is none, as a route names it as a target"
        );
        let says = told
            .iter()
            .any(|line| line.contains(&says) && line.contains("write it in that route"));
        assert!(says, "{key}: {line}");
    }
    assert_eq!(chosen(&text), (RouteBy::Policy, Chosen::Implied));
}

/// The config that is shown can be taken for a file, and is the same then, however the routes came to choose.
#[test]
fn the_effective_config_chooses_alike_when_it_is_loaded() {
    let weighted = "{url: \"http://h:1\", weight: 2}, http://h:2";
    for pools in [
        [(ONE, "")],
        [(TWO, "")],
        [(weighted, "")],
        [(TWO, ", preset: chat")],
        [(TWO, ", route_by: round_robin")],
    ] {
        let first = good(&config(&pools, ""));
        let shown = masked(&first);
        let again = good(&serde_json::to_string(&shown).unwrap());
        assert_eq!(again.fleet, first.fleet, "{pools:?}");
        assert_eq!(masked(&again), shown, "{pools:?}");
        assert_eq!(
            shown["routes"][0]["route_by"],
            first.fleet.routes[0].route_by().as_str()
        );
    }
}
