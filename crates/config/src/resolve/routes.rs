//! `routes`.

use super::choice;
use super::fallbacks::fallbacks;
use super::filters::filters;
use super::pools::Resolved;
use super::retry::retry;
use crate::forms::Short;
use crate::leaf::{Beat, or};
use crate::model::routes as model;
use crate::read::{At, Reader, nearest};
use crate::resolved::{Route, Usage};
use crate::warnings;
use crate::yaml::NodeId;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::spec::{FallbackOn, FallbackSpec, Picker, RouteSpec, TargetSpec};

/// Names of pools or routes, and their places.
pub(super) type Names<'a> = BTreeMap<&'a str, usize>;

/// A fallback that waits until all routes are known.
pub(super) struct Pending {
    /// Index of the route that falls back.
    pub(super) route: usize,
    pub(super) node: NodeId,
    pub(super) to: FallbackSpec,
}

pub(super) fn routes(
    reader: &mut Reader<'_>,
    given: Vec<At<model::Route>>,
    pools: &[Resolved],
) -> Vec<(RouteSpec, Route)> {
    let mut routes: Vec<(RouteSpec, Route)> = Vec::with_capacity(given.len() + pools.len());
    let mut seen: HashMap<Arc<str>, String> = HashMap::new();
    let mut pending = Vec::new();
    let mut places = Vec::new();
    let known: Names<'_> = pools
        .iter()
        .enumerate()
        .map(|(index, pool)| (&*pool.spec.name, index))
        .collect();
    // A route that could not be read may have named any pool, so nothing is said of pools that seem unused.
    let mut whole = reader.problems.is_empty();
    for At { node, value } in given {
        let name_node = value.name.as_ref().map_or(node, |name| name.node);
        let Some(name) = value
            .name
            .as_ref()
            .map(|name| Arc::<str>::from(name.value.0.as_str()))
        else {
            whole = false;
            continue;
        };
        if let Some(first) = seen.insert(name.clone(), reader.tree.path(node)) {
            reader.problem(
                name_node,
                format!("{first} is also named `{name}`"),
                "give every route its own name",
            );
        }
        let resolved = route(reader, At { node, value }, &name, (&known, pools));
        let index = routes.len();
        pending.extend(resolved.fallback.into_iter().map(|(node, to)| Pending {
            route: index,
            node,
            to,
        }));
        places.push(node);
        routes.push((resolved.spec, resolved.route));
    }
    let used: HashSet<usize> = routes
        .iter()
        .flat_map(|(spec, _)| &spec.targets)
        .map(|target| target.pool)
        .collect();
    for (index, pool) in pools.iter().enumerate() {
        if used.contains(&index) {
            pool.own.warn_unused(reader, &pool.spec.name);
            continue;
        }
        if seen.contains_key(&pool.spec.name) {
            if whole {
                warnings::hidden_pool(reader, pool);
            }
            continue;
        }
        routes.push(implied(index, pool));
    }
    fallbacks(reader, &mut routes, pending);
    let specs: Vec<RouteSpec> = routes.iter().map(|(spec, _)| spec.clone()).collect();
    for (spec, node) in specs.iter().zip(&places) {
        warnings::route(reader, *node, spec, pools);
    }
    warnings::reach(reader, &specs, &places, pools);
    warnings::unread_weights(reader, &specs, pools);
    warnings::events(reader, &specs, pools);
    warnings::upstream_names(reader, &specs, pools);
    routes
}

/// The route that a pool is when no route names it.
fn implied(index: usize, pool: &Resolved) -> (RouteSpec, Route) {
    let name = pool.spec.name.clone();
    let mut spec = RouteSpec::new(name.clone(), vec![TargetSpec::new(name.clone(), index)]);
    spec.filters = super::filters::usual(&pool.spec);
    let (policies, chosen) = pool.own.choose(pool);
    spec.policies = policies;
    (
        spec,
        Route {
            name: name.clone(),
            implied: true,
            chosen,
            targets: vec![(name, index)],
            resend: None,
            usage: Usage::Inject,
            heartbeat: Some(HEARTBEAT),
            finish: false,
        },
    )
}

/// Time between signs of life where a route says nothing of it.
const HEARTBEAT: Duration = Duration::from_secs(15);

struct ResolvedRoute {
    spec: RouteSpec,
    route: Route,
    fallback: Vec<(NodeId, FallbackSpec)>,
}

fn route(
    reader: &mut Reader<'_>,
    At { node, value: given }: At<model::Route>,
    name: &Arc<str>,
    (known, pools): (&Names<'_>, &[Resolved]),
) -> ResolvedRoute {
    let targets_node = given.targets.as_ref().map_or(node, |targets| targets.node);
    let targets = targets(
        reader,
        (targets_node, name),
        or(given.targets, |targets| targets, Vec::new()),
        known,
    );
    let said = choice::Said {
        route_by: given.route_by,
        preset: given.preset,
        policies: given.policies,
    };
    let (policies, chosen) = choice::choose(reader, (node, name), said, (&targets, pools));
    let filters = filters(reader, given.filters, (&targets, pools));
    let picker = picker(reader, given.picker, policies.is_empty());
    let weighted = targets.iter().any(|target| target.weight.is_some());
    if let (Some(spill), false) = (&given.spill, weighted) {
        reader.warn(
            spill.node,
            "`spill` has no effect, because the targets of this route have no weights",
            "remove it",
        );
    }
    let (retry, resend) = retry(reader, given.retry);
    let fallback = steps(reader, given.fallback);
    let route = Route {
        name: name.clone(),
        implied: false,
        chosen,
        targets: targets
            .iter()
            .map(|target| (target.name.clone(), target.pool))
            .collect(),
        resend,
        usage: or(given.usage, usage, Usage::Inject),
        heartbeat: heartbeat(reader, given.heartbeat),
        finish: or(
            given.on_disconnect,
            |word| word == model::OnDisconnect::Finish,
            false,
        ),
    };
    let spill = or(given.spill, |flag| flag.0, true);
    let spec = RouteSpec {
        name: name.clone(),
        targets,
        policies,
        picker,
        filters,
        spill,
        retry,
        fallback: Vec::new(),
    };
    ResolvedRoute {
        spec,
        route,
        fallback,
    }
}

fn picker(reader: &mut Reader<'_>, given: Option<At<model::Picker>>, unused: bool) -> Picker {
    let Some(At { node, value }) = given else {
        return Picker::Max;
    };
    let picker = match value {
        model::Picker::Word(model::PickerWord::Max) => Picker::Max,
        model::Picker::Word(model::PickerWord::PowerOfTwo) => Picker::PowerOfTwo,
        model::Picker::Word(model::PickerWord::WeightedRandom) => {
            Picker::WeightedRandom { temperature: None }
        }
        model::Picker::Map(map) => {
            let temperature = map.weighted_random.and_then(|random| random.value.temperature);
            if let Some(temperature) = temperature.as_ref().filter(|given| given.value.0 <= 0.0) {
                reader.problem(
                    temperature.node,
                    "a temperature of 0 leaves nothing to chance",
                    "write `picker: max`",
                );
            }
            Picker::WeightedRandom {
                temperature: temperature.map(|given| given.value.0),
            }
        }
    };
    if unused && picker != Picker::Max {
        reader.warn(
            node,
            format!(
                "`picker: {}` has no effect, because this route has no policies",
                picker.as_str()
            ),
            "remove it, or add `policies`",
        );
    }
    picker
}

fn usage(given: model::Usage) -> Usage {
    match given {
        model::Usage::Inject => Usage::Inject,
        model::Usage::Passive => Usage::Passive,
    }
}

fn heartbeat(reader: &mut Reader<'_>, given: Option<At<Beat>>) -> Option<Duration> {
    let Some(At {
        node,
        value: Beat(every),
    }) = given
    else {
        return Some(HEARTBEAT);
    };
    if every.is_some_and(|every| every >= Duration::from_secs(60)) {
        reader.warn(
            node,
            "many load balancers cut a connection that is silent for 60 seconds, so this heartbeat may come too late",
            "give less than 60s, or `off` where nothing in front cuts",
        );
    }
    every
}

/// The fallbacks of a route.
fn steps(
    reader: &mut Reader<'_>,
    given: Option<At<Vec<At<Short<model::Fallback>>>>>,
) -> Vec<(NodeId, FallbackSpec)> {
    let given = or(given, |steps| steps, Vec::new());
    let steps = given.into_iter();
    steps
        .filter_map(|At { node, value }| pending(reader, node, value.0))
        .collect()
}

/// Where a fallback stands and what it is.
fn pending(reader: &mut Reader<'_>, node: NodeId, step: model::Fallback) -> Option<(NodeId, FallbackSpec)> {
    let on = match step.on {
        None => FallbackOn::UNAVAILABLE,
        Some(on) => {
            if reader.is_empty_list(on.node) {
                reader.problem(
                    on.node,
                    "a fallback without a condition is never taken",
                    "write `on: [unavailable]`, which is the default",
                );
            }
            (on.value.iter()).fold(FallbackOn::NONE, |all, word| all.and(condition(word.value)))
        }
    };
    let route = step.route?.value.0.into();
    Some((node, FallbackSpec { route, on }))
}

fn condition(word: model::FallbackOn) -> FallbackOn {
    match word {
        model::FallbackOn::Unavailable => FallbackOn::UNAVAILABLE,
        model::FallbackOn::ServerError => FallbackOn::SERVER_ERROR,
        model::FallbackOn::RateLimit => FallbackOn::RATE_LIMIT,
        model::FallbackOn::Timeout => FallbackOn::TIMEOUT,
        model::FallbackOn::ContextLength => FallbackOn::CONTEXT_LENGTH,
    }
}

fn targets(
    reader: &mut Reader<'_>,
    (list, route): (NodeId, &str),
    given: Vec<At<Short<model::Target>>>,
    pools: &Names<'_>,
) -> Vec<TargetSpec> {
    if given.is_empty() && reader.is_empty_list(list) {
        reader.problem(list, format!("the route `{route}` has no target"), "name a pool");
    }
    let mut seen: HashMap<Arc<str>, String> = HashMap::new();
    let mut targets = Vec::with_capacity(given.len());
    for At {
        node,
        value: Short(given),
    } in given
    {
        let Some(pool) = given.pool else { continue };
        let Some(&index) = pools.get(pool.value.0.as_str()) else {
            unknown_name(reader, pool.node, ("pool", &pool.value.0), pools);
            continue;
        };
        let name: Arc<str> = or(given.name, |name| name.0.into(), pool.value.0.as_str().into());
        if let Some(first) = seen.insert(name.clone(), reader.tree.path(node)) {
            reader.problem(
                node,
                format!("{first} is also named `{name}`"),
                "give one of them a `name` of its own",
            );
        }
        targets.push(TargetSpec {
            name,
            pool: index,
            weight: given.weight.map(|weight| weight.value.0),
            order: or(given.order, |order| u16::try_from(order.0).unwrap_or(u16::MAX), 1),
            serves_tokens: given.serves_tokens.and_then(|range| tokens(reader, range)),
        });
    }
    targets
}

/// A range of prompt tokens, from and up to, both included; none: any number.
pub(super) fn tokens(reader: &mut Reader<'_>, At { node, value }: At<model::Tokens>) -> Option<(u32, u32)> {
    let over = or(value.over, |tokens| tokens.0, 0);
    let up_to = or(value.up_to, |tokens| tokens.0, u32::MAX);
    if over == 0 && up_to == u32::MAX {
        reader.warn(
            node,
            "the range has no end, so it holds prompts of any length",
            "write `{over: 5000}` or `{up_to: 5000}`",
        );
        return None;
    }
    if over >= up_to {
        reader.problem(
            node,
            format!("no prompt has more than {over} tokens and at most {up_to}"),
            "give `up_to` the larger number",
        );
        return None;
    }
    // What nobody has counted is not too short for a range without a lower end.
    Some((if over == 0 { 0 } else { over + 1 }, up_to))
}

/// Most names that are listed where one is unknown.
const LISTED_MAX: usize = 20;

pub(super) fn unknown_name(
    reader: &mut Reader<'_>,
    node: NodeId,
    (what, name): (&str, &str),
    known: &Names<'_>,
) {
    let near = nearest(name, known.keys().copied())
        .map(|near| format!("did you mean `{near}`? "))
        .unwrap_or_default();
    let mut list = known
        .keys()
        .copied()
        .take(LISTED_MAX)
        .collect::<Vec<_>>()
        .join(", ");
    if known.len() > LISTED_MAX {
        list.push_str(", …");
    }
    let shown = crate::yaml::shorten(name);
    reader.problem(
        node,
        format!("there is no {what} `{shown}`"),
        format!("{near}{what}s: {list}"),
    );
}
