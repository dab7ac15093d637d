//! The shapes in which the admin API, headers and the command line show what is going on.

use crate::clock::rfc3339;
use crate::gateway::Gateway;
use crate::rounded::whole;
use crate::snapshot::{RouteEntry, Snapshot};
use crate::telemetry::decisions::Taken;
use crate::telemetry::signals::{self, SignalsShown};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use weighbridge_config::resolved::Chosen;
use weighbridge_core::EndpointId;
use weighbridge_core::action::Verdict;
use weighbridge_core::explain::{Decision, Dropped, Explanation, Pace, Part, PolicyName, Reckoned};
use weighbridge_core::view::{EndpointView, FleetView, StateKind};

/// What one policy gave.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PartShown {
    /// The policy.
    pub policy: String,
    /// Its score before normalisation.
    pub raw: f64,
    /// The seconds that `raw` stands for, where the policy compares candidates by seconds: the fewer, the better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Its share of the sum over the live candidates.
    pub share: f64,
    /// weight · share.
    pub weighted: f64,
    /// What it went by, where every candidate is told of and the policy reckons with prompts and queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<FromShown>,
}

/// What a policy went by.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FromShown {
    /// Tokens of the prompt; null: not known.
    pub prompt_tokens: Option<u32>,
    /// Of these, those that are believed cached there.
    pub cached_tokens: u32,
    /// Of these, those that are taken to be computed there: more than are not cached where fewer were held than believed of late.
    pub to_compute_tokens: u64,
    /// Prompt tokens of others that are to be computed there before.
    pub tokens_ahead: u64,
    /// Requests there without a first token.
    pub waiting: u64,
    /// Requests being answered there.
    pub running: u64,
    /// Seconds that 1,000 prompt tokens take there; null: not measured yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_per_1000_tokens: Option<Option<f64>>,
    /// Where that was measured: `here`, `pool` (at others of its pool) or `not_yet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<&'static str>,
}

/// The preset that stands behind a route's policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Its word.
    pub preset: &'static str,
    /// Whether it is what routes get that do not say how they choose.
    pub implied: bool,
}

impl Behind {
    /// What stands behind a route that is chosen so; none: its policies are its own, or it has none.
    #[must_use]
    pub fn of(chosen: Chosen) -> Option<Self> {
        let preset = chosen.preset()?.as_str();
        let implied = chosen == Chosen::Implied;
        Some(Self { preset, implied })
    }
}

/// One decision.
#[derive(Debug, JsonSchema, Serialize)]
#[expect(missing_docs, reason = "the names are those of the interface document")]
pub struct DecisionShown {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    pub route: String,
    pub route_by: &'static str,
    /// The preset that the route's policies are, such as `auto`; left out: they are its own, or it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<&'static str>,
    /// With a preset: whether it is what routes get that do not say how they choose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset_implied: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    pub target: Option<String>,
    pub endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<&'static str>,
    /// Why the route can never serve such a request, by its config; left out: it could. Said where a request is only asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never: Option<String>,
    /// What the request asks for and does not get, because the config does not let it ask; left out: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Arc<[String]>>,
    pub order: u16,
    pub candidates: u32,
    pub live: u32,
    pub dropped: BTreeMap<String, u32>,
    pub abstained: BTreeMap<String, &'static str>,
    pub picker: &'static str,
    pub tie: bool,
    pub failed_open: bool,
    pub session_moved: bool,
    pub total: f64,
    #[serde(skip_serializing_if = "is_one")]
    pub factor: f64,
    pub parts: Vec<PartShown>,
    pub runner_up: Option<RunnerUpShown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Vec<CandidateShown>>,
}

/// The best of those that did not win.
#[derive(Debug, JsonSchema, Serialize)]
#[expect(missing_docs, reason = "the names are those of the interface document")]
pub struct RunnerUpShown {
    pub target: String,
    pub endpoint: String,
    pub total: f64,
    #[serde(skip_serializing_if = "is_one")]
    pub factor: f64,
    pub parts: Vec<PartShown>,
}

/// One candidate of an explanation.
#[derive(Debug, JsonSchema, Serialize)]
#[expect(missing_docs, reason = "the names are those of the interface document")]
pub struct CandidateShown {
    pub target: String,
    pub endpoint: String,
    pub chosen: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<String>,
    pub inflight: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub penalty: f64,
    pub total: f64,
    #[serde(skip_serializing_if = "is_one")]
    pub factor: f64,
    pub parts: Vec<PartShown>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_one(number: &f64) -> bool {
    *number == 1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// An explanation with names.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ExplanationShown {
    /// The decision in short.
    #[serde(flatten)]
    pub decision: DecisionShown,
    /// Whether the candidates are left out, as of a header that would be too long; left out where they are not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl ExplanationShown {
    /// The explanation as JSON of at most `most` bytes: without its candidates where it is longer, and empty but for saying so
    /// where that is not enough.
    pub(crate) fn within(mut self, most: usize) -> String {
        let json = |shown: &Self| {
            serde_json::to_string(shown)
                .ok()
                .filter(|text| text.len() <= most)
        };
        if let Some(whole) = json(&self) {
            return whole;
        }
        self.decision.explanation = None;
        self.truncated = true;
        json(&self).unwrap_or_else(|| "{\"truncated\":true}".to_owned())
    }
}

/// Names what the ids of a decision stand for.
pub trait Names {
    /// The route.
    fn route(&self) -> String;
    /// A target of it, by its place.
    fn target(&self, index: u16) -> String;
    /// An endpoint.
    fn endpoint(&self, id: EndpointId) -> String;
    /// The preset behind the route's policies; none: there is none, or it is not known.
    fn behind(&self) -> Option<Behind> {
        None
    }
}

/// The names of a running gateway.
struct Running<'a> {
    snapshot: &'a Snapshot,
    route: &'a RouteEntry,
}

impl Names for Running<'_> {
    fn route(&self) -> String {
        self.route.name.to_string()
    }

    fn target(&self, index: u16) -> String {
        self.route
            .targets
            .get(usize::from(index))
            .map_or_else(String::new, |target| target.name.to_string())
    }

    fn endpoint(&self, id: EndpointId) -> String {
        self.snapshot
            .upstream(id)
            .map_or_else(|| "(removed)".to_owned(), |upstream| upstream.name.to_string())
    }

    fn behind(&self) -> Option<Behind> {
        self.route.behind
    }
}

fn parts<'a>(
    parts: impl IntoIterator<Item = &'a Part>,
    reckoned: &[(PolicyName, Reckoned)],
) -> Vec<PartShown> {
    parts
        .into_iter()
        .map(|part| PartShown {
            policy: part.policy.to_string(),
            raw: part.raw,
            seconds: part.seconds().map(micros),
            share: part.share,
            weighted: part.weighted,
            from: (reckoned.iter().find(|(policy, _)| *policy == part.policy))
                .map(|(_, from)| shown_from(from)),
        })
        .collect()
}

fn shown_from(from: &Reckoned) -> FromShown {
    FromShown {
        prompt_tokens: from.prompt_tokens,
        cached_tokens: from.cached_tokens,
        to_compute_tokens: whole(from.to_compute),
        tokens_ahead: whole(from.ahead),
        waiting: whole(from.waiting),
        running: whole(from.running),
        seconds_per_1000_tokens: from.pace.map(|_| from.seconds_per_thousand.map(micros)),
        measured: from.pace.map(Pace::as_str),
    }
}

/// Seconds to the microsecond: the score that they come from holds no more.
fn micros(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

fn dropped_word(dropped: Dropped) -> String {
    match dropped {
        Dropped::State(kind) => format!("state: {}", kind.as_str()),
        other => other.as_str().to_owned(),
    }
}

fn decision(names: &dyn Names, decision: &Decision) -> DecisionShown {
    DecisionShown {
        request_id: None,
        time: None,
        route: names.route(),
        route_by: decision.route_by.as_str(),
        preset: names.behind().map(|behind| behind.preset),
        preset_implied: names.behind().map(|behind| behind.implied),
        attempt: None,
        target: None,
        endpoint: None,
        refused: None,
        never: None,
        notes: None,
        order: decision.order,
        candidates: decision.candidates,
        live: decision.live,
        dropped: decision
            .dropped
            .iter()
            .map(|(why, count)| (dropped_word(*why), *count))
            .collect(),
        abstained: decision
            .abstained
            .iter()
            .map(|(policy, why)| (policy.to_string(), why.as_str()))
            .collect(),
        picker: decision.picker.as_str(),
        tie: decision.tie,
        failed_open: decision.failed_open,
        session_moved: decision.session_moved,
        total: decision.total,
        factor: decision.factor,
        parts: parts(&decision.parts, &[]),
        runner_up: decision.runner_up.as_ref().map(|second| RunnerUpShown {
            target: names.target(second.target),
            endpoint: names.endpoint(second.endpoint),
            total: second.total,
            factor: second.factor,
            parts: parts(&second.parts, &[]),
        }),
        explanation: None,
    }
}

fn candidates(names: &dyn Names, explanation: &Explanation) -> Vec<CandidateShown> {
    let shown = explanation
        .candidates
        .iter()
        .enumerate()
        .map(|(index, candidate)| CandidateShown {
            target: names.target(candidate.target),
            endpoint: names.endpoint(candidate.endpoint),
            chosen: explanation.winner == Some(index),
            dropped: candidate.dropped.map(dropped_word),
            inflight: candidate.inflight,
            penalty: candidate.penalty,
            total: candidate.total,
            factor: candidate.factor,
            parts: parts(&candidate.parts, &candidate.reckoned),
        });
    shown.collect()
}

/// A full explanation.
#[must_use]
pub fn explanation(snapshot: &Snapshot, route: &RouteEntry, explanation: &Explanation) -> ExplanationShown {
    explained(&Running { snapshot, route }, explanation)
}

/// A full explanation, named by `names`.
#[must_use]
pub fn explained(names: &dyn Names, explanation: &Explanation) -> ExplanationShown {
    let mut shown = decision(names, &explanation.decision);
    if let Some(winner) = explanation
        .winner
        .and_then(|index| explanation.candidates.get(index))
    {
        shown.target = Some(names.target(winner.target));
        shown.endpoint = Some(names.endpoint(winner.endpoint));
    }
    shown.refused = explanation.refused.and_then(Verdict::refused);
    shown.explanation = Some(candidates(names, explanation));
    ExplanationShown {
        decision: shown,
        truncated: false,
    }
}

/// A decision that was taken.
#[must_use]
pub fn taken(snapshot: &Snapshot, route: &RouteEntry, taken: &Taken) -> DecisionShown {
    let names = Running { snapshot, route };
    let mut shown = decision(&names, &taken.decision);
    shown.request_id = Some(taken.request_id.to_string());
    shown.time = Some(rfc3339(taken.time));
    shown.attempt = Some(taken.attempt);
    shown.target = taken.target.as_deref().map(str::to_owned);
    shown.endpoint = taken.endpoint.as_deref().map(str::to_owned);
    shown.refused = taken.refused;
    shown.notes.clone_from(&taken.notes);
    // The route may have another by now.
    shown.preset = taken.behind.map(|behind| behind.preset);
    shown.preset_implied = taken.behind.map(|behind| behind.implied);
    shown.explanation = taken
        .explanation
        .as_ref()
        .map(|explanation| candidates(&names, explanation));
    shown
}

/// One endpoint.
#[derive(Debug, JsonSchema, Serialize)]
#[expect(missing_docs, reason = "the names are those of the interface document")]
pub struct EndpointShown {
    pub pool: String,
    pub name: String,
    /// Where it is one of the data-parallel ranks of its URL: the name of them all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank_of: Option<String>,
    pub url: String,
    pub labels: BTreeMap<String, String>,
    pub state: StateKind,
    pub reason: String,
    pub until: Option<String>,
    pub seconds_left: Option<f64>,
    pub removed: bool,
    pub inflight: u32,
    pub weight: f64,
    pub weight_overridden: bool,
    pub weight_until: Option<String>,
    /// Whether a measured weight is known; one that is set by hand counts before it.
    pub weight_calibrated: bool,
    pub penalty: f64,
    pub dispatched: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub probe_failures: u32,
    pub keys_cooling: usize,
    /// What its engine and the exporter of its GPUs say, by page: `engine`, `gpu`.
    pub signals: BTreeMap<&'static str, SignalsShown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_events: Option<crate::kv_events::KvShown>,
}

/// All endpoints, in the order of the config.
#[must_use]
pub fn endpoints(gateway: &Gateway, snapshot: &Snapshot, view: &FleetView) -> Vec<EndpointShown> {
    view.endpoints
        .iter()
        .map(|endpoint| endpoint_shown(gateway, snapshot, (view, endpoint)))
        .collect()
}

fn endpoint_shown(
    gateway: &Gateway,
    snapshot: &Snapshot,
    (view, of): (&FleetView, &EndpointView),
) -> EndpointShown {
    let clock = &gateway.clock;
    let upstream = snapshot
        .upstream(of.id)
        .cloned()
        .or_else(|| gateway.upstream(of.id));
    let upstream = upstream.as_deref();
    let found = upstream.is_some_and(|upstream| upstream.pool.config.discovery.is_some());
    let until = of.state.until;
    EndpointShown {
        pool: of.pool.to_string(),
        name: of.name.to_string(),
        rank_of: upstream.and_then(|upstream| upstream.base_name().map(str::to_owned)),
        url: upstream.map_or_else(String::new, |upstream| upstream.shown_url()),
        labels: upstream
            .map(|upstream| upstream.labels.iter().cloned().collect())
            .unwrap_or_default(),
        state: of.state.kind,
        reason: if of.removed && found {
            "removed by discovery".to_owned()
        } else {
            of.state.reason.clone()
        },
        until: until.map(|until| rfc3339(clock.wall(until))),
        seconds_left: until.map(|until| until.since(view.now).as_secs_f64()),
        removed: of.removed,
        inflight: of.inflight,
        weight: of.weight.as_f64(),
        weight_overridden: of.weight_override.is_some(),
        weight_until: of
            .weight_override
            .flatten()
            .map(|until| rfc3339(clock.wall(until))),
        weight_calibrated: of.weight_calibrated.is_some(),
        penalty: of.penalty,
        dispatched: of.dispatched,
        succeeded: of.succeeded,
        failed: of.failed,
        probe_failures: of.probe_failures,
        keys_cooling: of.keys_cooling.len(),
        signals: upstream
            .map(|upstream| signals::shown(upstream, (view, of)))
            .unwrap_or_default(),
        kv_events: gateway.kv.shown(of.id),
    }
}
