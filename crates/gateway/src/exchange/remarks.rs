//! What is said of a request beside its candidates: that its route can never serve it, and what of it counts for nothing.

use super::run::{misfit, unserved};
use super::work;
use crate::snapshot::{RouteEntry, Snapshot};
use http::HeaderMap;
use std::sync::Arc;
use weighbridge_core::action::Verdict;
use weighbridge_core::spec::{FallbackOn, Protocols, RouteSpec};
use weighbridge_core::work::{Needs, Work};

/// A request that is asked about.
pub(super) struct Asked<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) route: &'a RouteEntry,
    /// The model by the name that the client uses.
    pub(super) model: &'a str,
    pub(super) path: &'a str,
    pub(super) protocols: Protocols,
    pub(super) work: Option<&'a Work>,
}

impl Asked<'_> {
    /// Why its route can never serve it, as the config is; none: it could.
    pub(super) fn never(&self, refused: Option<Verdict>) -> Option<String> {
        let spec = spec(self.snapshot, self.route)?;
        let (why, cause, when) = match refused {
            Some(verdict @ Verdict::Unserved) => {
                (unserved(self.model, self.path), verdict.cause(), "instead")
            }
            Some(verdict @ Verdict::Unfit(unfit)) => (misfit(self.model, unfit), verdict.cause(), "instead"),
            Some(_) => return None,
            None => (self.too_long(spec)?, FallbackOn::CONTEXT_LENGTH, "then"),
        };
        let step = spec.fallback.iter().find(|step| step.on.meets(cause));
        Some(match step {
            Some(step) => format!("{why}; the fallback `{}` is asked {when}", step.route),
            None => why,
        })
    }

    /// Where every pool says how long its context is, and none is long enough. An engine is asked all the same, as the count
    /// may be an estimate.
    fn too_long(&self, spec: &RouteSpec) -> Option<String> {
        let work = self.work.filter(|_| self.route.needs.meets(Needs::TOKENS))?;
        let pools =
            (spec.targets.iter()).filter_map(|target| self.snapshot.config.fleet.pools.get(target.pool));
        let contexts = pools
            .filter(|pool| pool.protocols.serves(self.protocols))
            .map(|pool| pool.context_length);
        let longest = contexts.collect::<Option<Vec<u32>>>()?.into_iter().max()?;
        let needed = work.most_tokens();
        let what = match work.max_tokens {
            Some(_) => "the prompt and `max_tokens` together",
            None => "the prompt",
        };
        (needed > u64::from(longest)).then(|| {
            format!("by an estimate {what} take {needed} tokens, and no engine of the route takes more than {longest}")
        })
    }
}

/// What of the request counts for nothing, though it asks for something; none: nothing does.
pub(super) fn notes(snapshot: &Snapshot, route: &RouteEntry, headers: &HeaderMap) -> Option<Arc<[String]>> {
    let asked = work::labels_asked(headers);
    let filter = spec(snapshot, route).and_then(|spec| spec.filters.labels.as_ref());
    let listed =
        |name: &str| filter.is_some_and(|labels| labels.by_header.iter().any(|known| **known == *name));
    let notes: Arc<[String]> = asked
        .iter()
        .filter(|name| !listed(name))
        .map(|name| {
            format!(
                "the label `{name}` of {} counts for nothing: `filters.by_header` of the route `{}` does not list it",
                work::LABELS,
                route.name
            )
        })
        .collect();
    (!notes.is_empty()).then_some(notes)
}

fn spec<'s>(snapshot: &'s Snapshot, route: &RouteEntry) -> Option<&'s RouteSpec> {
    let mut routes = snapshot.config.fleet.routes.iter();
    routes.find(|spec| spec.name == route.name)
}
