//! How a route chooses: what it says of that, what contradicts it, and what it gets where it says nothing.

use crate::leaf::or;
use crate::model::policies::PolicySet;
use crate::model::pools::OwnRouteBy;
use crate::model::routes::{PresetWord, RouteByWord};
use crate::read::{At, Reader};
use crate::resolve::Resolved;
use crate::resolved::Chosen;
use crate::yaml::NodeId;
use std::collections::BTreeSet;
use weighbridge_core::policies::Policies;
use weighbridge_core::presets::Preset;
use weighbridge_core::spec::{PoolSpec, TargetSpec, Weight};

/// What a route says of how it chooses.
pub(super) struct Said {
    pub(super) route_by: Option<At<RouteByWord>>,
    pub(super) preset: Option<At<PresetWord>>,
    pub(super) policies: Option<At<PolicySet>>,
}

/// What a pool says of how the route of its own chooses.
#[derive(Clone, Default)]
pub(crate) struct Own {
    route_by: Option<At<OwnRouteBy>>,
    preset: Option<At<PresetWord>>,
}

impl Own {
    /// Notes what is given, and reports what contradicts itself.
    pub(super) fn new(
        reader: &mut Reader<'_>,
        route_by: Option<At<OwnRouteBy>>,
        preset: Option<At<PresetWord>>,
    ) -> Self {
        if let (
            Some(At {
                node,
                value: OwnRouteBy::RoundRobin,
            }),
            Some(_),
        ) = (&route_by, &preset)
        {
            reader.problem(
                *node,
                "the pool asks for `round_robin` and for a `preset`",
                "remove `route_by` to choose by the preset, or remove `preset` to take turns",
            );
        }
        Self { route_by, preset }
    }

    /// How the route over this pool alone chooses.
    pub(super) fn choose(&self, pool: &Resolved) -> (Policies, Chosen) {
        let preset = self.preset.as_ref().map(|preset| named(preset.value));
        let by = self.route_by.as_ref().map(|by| by.value);
        let chosen = match (by, preset) {
            (Some(OwnRouteBy::RoundRobin), _) => Chosen::Asked,
            (_, Some(preset)) => Chosen::Preset(preset),
            (Some(OwnRouteBy::Policy), None) => Chosen::Preset(Preset::Auto),
            (None, None) => usual(&[pool]),
        };
        (of_preset(chosen), chosen)
    }

    /// Warns that the pool has no route of its own, where it says how that chooses.
    pub(super) fn warn_unused(&self, reader: &mut Reader<'_>, pool: &str) {
        let by = self.route_by.as_ref().map(|at| (at.node, "route_by"));
        let preset = self.preset.as_ref().map(|at| (at.node, "preset"));
        for (node, key) in [by, preset].into_iter().flatten() {
            reader.warn(
                node,
                format!("`{key}` has no effect here: it is for the route that a pool is by itself, and `{pool}` is none, as a route names it as a target"),
                "write it in that route",
            );
        }
    }
}

/// The policies of the route at this node, and why they are these.
pub(super) fn choose(
    reader: &mut Reader<'_>,
    (node, route): (NodeId, &str),
    said: Said,
    (targets, pools): (&[TargetSpec], &[Resolved]),
) -> (Policies, Chosen) {
    let preset = said.preset.as_ref().map(|preset| named(preset.value));
    if let (Some(At { node, .. }), Some(_)) = (&said.preset, &said.policies) {
        reader.problem(
            *node,
            "`preset` and `policies` are both given",
            "keep one of them; `weighbridge check` prints the policies that a preset stands for",
        );
    }
    let weighted = targets.iter().any(|target| target.weight.is_some());
    let own = or(
        said.policies.map(|at| policies(reader, at)),
        |own| own,
        Policies::default(),
    );
    let word = match preset {
        Some(_) => Some("preset"),
        None => (!own.is_empty()).then_some("policies"),
    };
    let by = said.route_by.as_ref().map(|by| by.value);
    let agree = agrees(reader, (node, route), said.route_by, (weighted, word));
    if agree {
        weights(reader, (node, route), targets, word);
    }
    let chosen = match (by, preset) {
        (_, Some(preset)) => Chosen::Preset(preset),
        _ if weighted || !own.is_empty() => Chosen::Asked,
        (Some(RouteByWord::Policy), None) => Chosen::Preset(Preset::Auto),
        (Some(_), None) => Chosen::Asked,
        (None, None) => {
            let used: Vec<&Resolved> = (targets.iter())
                .filter_map(|target| pools.get(target.pool))
                .collect();
            usual(&used)
        }
    };
    if let Some(node) = reader.child(node, "policies").filter(|_| own.is_empty()) {
        only_modifiers(reader, node, (&own, chosen));
    }
    match chosen.preset() {
        Some(_) if own.is_empty() => (of_preset(chosen), chosen),
        _ => (own, chosen),
    }
}

fn named(word: PresetWord) -> Preset {
    match word {
        PresetWord::Auto => Preset::Auto,
        PresetWord::Chat => Preset::Chat,
        PresetWord::Agents => Preset::Agents,
        PresetWord::Batch => Preset::Batch,
        PresetWord::Latency => Preset::Latency,
    }
}

fn of_preset(chosen: Chosen) -> Policies {
    chosen.preset().map(Preset::policies).unwrap_or_default()
}

/// What a route over these pools, one per target, gets that says nothing of how it chooses.
fn usual(pools: &[&Resolved]) -> Chosen {
    let several = |pool: &&Resolved| pool.pool.discovery.is_some();
    let endpoints: usize = pools.iter().map(|pool| pool.spec.endpoints.len()).sum();
    if endpoints < 2 && !pools.iter().any(several) {
        Chosen::Alone
    } else if pools.iter().any(|pool| pool.weighs()) {
        Chosen::EndpointWeights
    } else {
        Chosen::Implied
    }
}

impl Resolved {
    /// Whether the config gives its endpoints weights that differ, or says where such come from. What a source of endpoints says
    /// does not count: it may change at any time.
    pub(crate) fn weighs(&self) -> bool {
        let follows = self.spec.auto_weight || self.spec.label_weight || self.pool.calibrate.at.is_some();
        follows || (self.pool.discovery.is_none() && differ(&self.spec))
    }
}

/// Whether endpoints that take requests have weights that differ: one that is taken out by a weight of 0 does not say how the
/// others share.
pub(crate) fn differ(pool: &PoolSpec) -> bool {
    let weights = pool.endpoints.iter().map(|endpoint| endpoint.weight);
    let distinct: BTreeSet<Weight> = weights.filter(|weight| *weight != Weight::ZERO).collect();
    distinct.len() > 1
}

/// Whether `route_by` says what follows from the rest of the route; reports where it does not.
fn agrees(
    reader: &mut Reader<'_>,
    (_, route): (NodeId, &str),
    route_by: Option<At<RouteByWord>>,
    (weighted, word): (bool, Option<&str>),
) -> bool {
    let Some(At { node, value }) = route_by else {
        return true;
    };
    let (message, hint) = match (value, weighted, word) {
        (RouteByWord::RoundRobin, true, _) => (
            format!("the route `{route}` asks for `round_robin`, and its targets have weights"),
            "remove `route_by` to choose by the weights, or remove the weights to take turns".to_owned(),
        ),
        (RouteByWord::RoundRobin, false, Some(word)) => (
            format!("the route `{route}` asks for `round_robin`, and has `{word}`"),
            format!("remove `route_by` to choose by policies, or remove `{word}` to take turns"),
        ),
        (RouteByWord::Weight, false, Some(word)) => (
            format!("the route `{route}` is to go by weights, and has `{word}`"),
            format!("remove `route_by` to choose by policies, or give every target a `weight` and remove `{word}`"),
        ),
        (RouteByWord::Weight, false, None) => (
            format!("the route `{route}` is to go by weights, and its targets have none"),
            "give every target its `weight`; weights of endpoints are looked at under `route_by: round_robin`".to_owned(),
        ),
        (RouteByWord::Policy, true, None) => (
            format!("the route `{route}` is to go by policies, and its targets have weights"),
            "remove `route_by` to choose by the weights, or remove the weights to choose by policies".to_owned(),
        ),
        _ => return true,
    };
    reader.problem(node, message, hint);
    false
}

/// Weights are on all targets or on none, and not beside policies, which stand under the key `word`.
fn weights(
    reader: &mut Reader<'_>,
    (node, route): (NodeId, &str),
    targets: &[TargetSpec],
    word: Option<&str>,
) {
    let node = reader.child(node, "targets").unwrap_or(node);
    let with = targets.iter().filter(|target| target.weight.is_some()).count();
    if with == 0 {
        return;
    }
    if let Some(word) = word {
        reader.problem(
            node,
            format!("the route `{route}` has both weights on its targets and `{word}`"),
            match word {
                "preset" => {
                    "remove the weights to choose by the preset, or remove `preset` to share by the weights"
                        .to_owned()
                }
                _ => format!(
                    "remove the weights to choose by policies, or remove `{word}` to choose by weights"
                ),
            },
        );
    } else if let Some(without) = targets.iter().find(|target| target.weight.is_none()) {
        reader.problem(
            node,
            format!(
                "the route `{route}` has a weight on some of its targets and none on `{}`",
                without.name
            ),
            "give every target a weight (0 takes nothing), or remove all weights",
        );
    } else if targets.iter().all(|target| target.weight == Some(Weight::ZERO)) {
        reader.problem(
            node,
            format!("all weights of the route `{route}` are 0, so nothing would serve it"),
            "give one target a weight above 0",
        );
    }
}

/// Reports what changes the scores of policies where there are none; a warning where it does without all the same.
fn only_modifiers(reader: &mut Reader<'_>, node: NodeId, (own, chosen): (&Policies, Chosen)) {
    let Some(name) = own.modifiers().next().map(|modifier| modifier.name()) else {
        return;
    };
    let node = reader.child(node, name).unwrap_or(node);
    let message = format!("`{name}` changes what policies give, and this route has none");
    if chosen.preset().is_none() {
        reader.warn(node, message, "add `least_inflight: {}` or another policy");
    } else {
        reader.problem(
            node,
            message,
            "add `least_inflight: {}` or another policy; without `policies` the preset `auto` brings it along",
        );
    }
}

/// Reports what the settings of a policy are together; each by itself was looked at when it was read.
fn policies(reader: &mut Reader<'_>, At { node, value }: At<PolicySet>) -> At<Policies> {
    for (name, checked) in value.0.checks() {
        let node = reader.child(node, name).unwrap_or(node);
        if let Err(message) = checked {
            reader.problem(node, message, "");
        }
    }
    At { node, value: value.0 }
}
