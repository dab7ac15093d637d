//! `routes[].fallback`, once all routes are known.

use super::routes::{Names, Pending, unknown_name};
use crate::read::Reader;
use crate::resolved::Route;
use crate::yaml::NodeId;
use std::sync::Arc;
use weighbridge_core::spec::RouteSpec;

pub(super) fn fallbacks(reader: &mut Reader<'_>, routes: &mut [(RouteSpec, Route)], pending: Vec<Pending>) {
    let all: Vec<Arc<str>> = routes.iter().map(|(spec, _)| spec.name.clone()).collect();
    let names: Names<'_> = all
        .iter()
        .enumerate()
        .map(|(index, name)| (&**name, index))
        .collect();
    let mut steps = Vec::with_capacity(pending.len());
    for Pending { route, node, to } in pending {
        let place = reader.child(node, "route").unwrap_or(node);
        let name = &to.route;
        if all.get(route) == Some(name) {
            reader.problem(
                place,
                format!("the route `{name}` falls back to itself"),
                "retries already try the other endpoints of the route; name another route, or give later targets an `order` of 2",
            );
        } else if !names.contains_key(&**name) {
            unknown_name(reader, place, ("route", name), &names);
        } else if let Some((spec, _)) = routes.get_mut(route) {
            if spec.fallback.iter().any(|step| step.route == *name) {
                reader.problem(
                    place,
                    format!("the fallback to `{name}` is here twice"),
                    "remove one",
                );
            }
            spec.fallback.push(to);
            steps.push((route, place));
        }
    }
    loops(reader, routes, &steps);
}

/// Warns of fallbacks that lead round in a circle, each once, at the step that closes it. No request goes round: the
/// scheduler sends none back to a route that it has left for good. `steps` are the routes and
/// the places of all steps, in the order of the routes' lists.
fn loops(reader: &mut Reader<'_>, routes: &[(RouteSpec, Route)], steps: &[(usize, NodeId)]) {
    let mut search = Search {
        routes,
        names: routes
            .iter()
            .enumerate()
            .map(|(index, (spec, _))| (&*spec.name, index))
            .collect(),
        done: vec![false; routes.len()],
        path: Vec::new(),
        found: Vec::new(),
    };
    (0..routes.len()).for_each(|route| search.visit(route));
    for (path, step) in search.found {
        let (Some(&from), Some(first)) = (path.last(), path.first()) else {
            continue;
        };
        let place = steps.iter().filter(|(route, _)| *route == from).nth(step);
        let Some(&(_, place)) = place else { continue };
        let shown: Vec<&str> = (path.iter().chain([first]))
            .filter_map(|route| routes.get(*route))
            .map(|(spec, _)| &*spec.name)
            .collect();
        reader.warn(
            place,
            format!("the fallbacks lead round in a circle: {}", shown.join(" → ")),
            "routes may back each other up: a request goes to each of them once, and never back to one that it was sent on from; remove this step if that is not meant",
        );
    }
}

/// A depth-first search for circles.
struct Search<'a> {
    routes: &'a [(RouteSpec, Route)],
    names: Names<'a>,
    /// Routes from which no circle is left to find.
    done: Vec<bool>,
    /// From the route where the search began to the one that is looked at.
    path: Vec<usize>,
    /// The routes of each circle, and which step of the last one closes it.
    found: Vec<(Vec<usize>, usize)>,
}

impl Search<'_> {
    fn visit(&mut self, route: usize) {
        if self.done.get(route).is_none_or(|done| *done) {
            return;
        }
        self.path.push(route);
        let routes = self.routes;
        let steps = routes.get(route).map_or(&[][..], |(spec, _)| &spec.fallback);
        for (index, step) in steps.iter().enumerate() {
            let Some(&next) = self.names.get(&*step.route) else {
                continue;
            };
            match self.path.iter().position(|visited| *visited == next) {
                Some(start) => self.found.push((self.path[start..].to_vec(), index)),
                None => self.visit(next),
            }
        }
        self.path.pop();
        if let Some(done) = self.done.get_mut(route) {
            *done = true;
        }
    }
}
