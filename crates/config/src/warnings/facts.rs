//! Policies that lack what they look at.

use crate::read::Reader;
use crate::resolve::Resolved;
use crate::resolve::choice::differ;
use crate::yaml::{NodeId, Tree};
use weighbridge_core::gpus;
use weighbridge_core::policies::Policies;
use weighbridge_core::spec::{Picker, RouteSpec};

/// Warns of policies of a route whose facts no pool and no target tells, and of one that must not choose alone.
pub(super) fn route(reader: &mut Reader<'_>, node: NodeId, spec: &RouteSpec, pools: &[Resolved]) {
    let policies = &spec.policies;
    let used = || spec.targets.iter().filter_map(|target| pools.get(target.pool));
    let cases = [
        (
            "cost",
            policies.cost.is_some() && used().all(|pool| pool.spec.price.is_none()),
            "no pool of this route has a `price`",
            "give the pools their `price: {input: 0.1, output: 0.4}`",
        ),
        (
            "capability",
            policies.capability.is_some() && used().all(|pool| pool.spec.strengths.is_empty()),
            "no pool of this route has `strengths`",
            "give the pools their `strengths: [chat, code]`",
        ),
        (
            "prompt_length",
            policies.prompt_length.is_some()
                && spec.targets.iter().all(|target| target.serves_tokens.is_none()),
            "no target of this route has `serves_tokens`",
            "give the targets their `serves_tokens: {up_to: 5000}`",
        ),
    ];
    let blind = cases.iter().any(|(_, lacks, ..)| *lacks);
    for (name, lacks, message, hint) in cases {
        if lacks {
            let place = policy(reader, node, name);
            reader.warn(place, format!("{message}, so `{name}` decides nothing"), hint);
        }
    }
    if reader.child(node, "policies").is_some() {
        mixes(reader, node, spec);
        // Policies that lack their facts leave it to chance, which does not heap requests.
        if !blind && super::first_candidates(spec, pools) > 1 {
            without_load(reader, node, spec);
        }
    }
}

/// Policies whose scores do not change with the load.
const NO_LOAD: &[&str] = &[
    "cost",
    "zone",
    "capability",
    "prompt_length",
    "lora_affinity",
    "prefix_cache",
    "session_affinity",
];

/// Whether the scores of any of these change with the load.
pub(super) fn sees_load(policies: &Policies) -> bool {
    policies.configs().any(|policy| !NO_LOAD.contains(&policy.name()))
}

/// Warns of a route none of whose policies sees load, so that what it prefers gets everything, however busy it is.
fn without_load(reader: &mut Reader<'_>, node: NodeId, spec: &RouteSpec) {
    let policies = &spec.policies;
    let names: Vec<&str> = policies.configs().map(|policy| policy.name()).collect();
    let told = policies.session_affinity.is_some() || names == ["prefix_cache"];
    if told || names.is_empty() || spec.picker != Picker::Max || sees_load(policies) {
        return;
    }
    let place = reader.child(node, "policies").unwrap_or(node);
    let named: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let (verb, ones) = match names.len() {
        1 => ("does", "the endpoint that it prefers gets"),
        _ => ("do", "the endpoint that they prefer gets"),
    };
    reader.warn(
        place,
        format!(
            "{} {verb} not see load, so {ones} every request, however busy it is",
            named.join(" and ")
        ),
        "add a policy that sees it: `least_inflight: {}`, or `least_work: {}`",
    );
}

/// Warns of policies that a route has written which must not choose alone, or not together.
fn mixes(reader: &mut Reader<'_>, node: NodeId, spec: &RouteSpec) {
    let policies = &spec.policies;
    let alone = policies.configs().count() == 1;
    if policies.gpu_load.is_some() && alone && spec.picker == Picker::Max {
        let place = policy(reader, node, "gpu_load");
        reader.warn(
            place,
            "`gpu_load` alone sends every request to one engine until its weights change, 10 s later",
            "add `least_inflight: {}`, or write `weight: auto` in the pool and leave `gpu_load` out",
        );
    }
    if policies.prefix_cache.is_some() && alone {
        let place = policy(reader, node, "prefix_cache");
        reader.warn(
            place,
            "`prefix_cache` alone knows nothing of queues, and where no engine has anything of a prompt, chance decides",
            "add `least_work: {}` or `least_inflight: {}`, or write `preset: auto` in the place of `policies`",
        );
    }
    if policies.batch_packing.is_some() && policies.least_inflight.is_some() {
        let place = policy(reader, node, "batch_packing");
        reader.warn(
            place,
            "`batch_packing` fills one engine before the next and `least_inflight` evens them out, so each undoes the other",
            "keep one of them",
        );
    }
}

/// Warns of weights of endpoints at which no route over their pool looks.
pub(crate) fn unread_weights(reader: &mut Reader<'_>, routes: &[RouteSpec], pools: &[Resolved]) {
    for (index, pool) in pools.iter().enumerate() {
        if !(pool.weighs() || differ(&pool.spec)) || RouteSpec::any_looks_at_weights(routes, index) {
            continue;
        }
        let keys = ["weight", "calibrate", "endpoints", "discovery"];
        let place = keys.iter().find_map(|key| reader.child(pool.node, key));
        reader.warn(
            place.unwrap_or(pool.node),
            format!(
                "the weights of the endpoints of the pool `{}` decide nothing: its routes choose by policies, which do not look at them",
                pool.spec.name
            ),
            "write `route_by: round_robin` to take turns by these weights, or leave them out",
        );
    }
}

/// Warns of weights that are to follow what never comes, or labels that cannot be read.
pub(crate) fn weights(reader: &mut Reader<'_>, pools: &[Resolved]) {
    for Resolved { node, spec, pool, .. } in pools {
        let signals = pool.scrape.is_some() || pool.endpoints.iter().any(|endpoint| endpoint.gpus.is_some());
        if spec.auto_weight && !signals {
            let place = reader.child(*node, "weight").unwrap_or(*node);
            let name = &spec.name;
            reader.warn(
                place,
                format!("nothing tells of the load in the pool `{name}`, as its metrics are not read, so its weights stay what they are"),
                "let `scrape` read the engines' metrics, or leave `weight: auto` out",
            );
        }
        if spec.auto_weight || spec.label_weight {
            let endpoints = reader.child(*node, "endpoints");
            for endpoint in endpoints.map(|list| reader.children(list)).unwrap_or_default() {
                gpu_labels(reader, endpoint);
            }
        }
    }
}

/// Warns of labels of an endpoint from which no weight follows.
fn gpu_labels(reader: &mut Reader<'_>, endpoint: NodeId) {
    let Some(labels) = reader.child(endpoint, "labels") else {
        return;
    };
    if let Some(place) = reader.child(labels, "gpu") {
        let word = reader.written(place);
        if gpus::bandwidth(&word).is_none() && !word.contains("${") {
            reader.warn(
                place,
                format!(
                    "`{word}` is no GPU type that is known, so no type counts for the weights in this pool"
                ),
                "name one such as `A100` or `NVIDIA L40S`, or give the endpoints their `weight`",
            );
        }
    }
    if let Some(place) = reader.child(labels, "gpus") {
        let word = reader.written(place);
        if gpus::count(&word).is_none() && !word.contains("${") {
            reader.warn(
                place,
                format!("`{word}` is no number of GPUs, so it counts as 1"),
                "write a whole number from 1 to 1024",
            );
        }
    }
}

/// Warns of routes that look at zones where the gateway's own is not known.
pub(crate) fn zones(reader: &mut Reader<'_>, known: bool) {
    let Some(routes) = reader.child(Tree::ROOT, "routes").filter(|_| !known) else {
        return;
    };
    for route in reader.children(routes) {
        let policies = reader.child(route, "policies");
        if let Some(place) = policies.and_then(|policies| reader.child(policies, "zone")) {
            reader.warn(
                place,
                "the gateway does not know its own zone, so `zone` decides nothing",
                "add `zone: az1` under `server`",
            );
        }
    }
}

/// Where a policy of a route is written.
fn policy(reader: &Reader<'_>, node: NodeId, name: &str) -> NodeId {
    let policies = reader.child(node, "policies");
    let place = policies.and_then(|policies| reader.child(policies, name));
    place.or(policies).unwrap_or(node)
}
