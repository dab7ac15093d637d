//! Filters that ask for labels which no endpoint has.

use crate::discovery::Discovery;
use crate::read::Reader;
use crate::resolve::Resolved;
use crate::yaml::NodeId;
use std::collections::BTreeSet;
use weighbridge_core::spec::RouteSpec;

/// Names and values of all labels of a route's endpoints.
type Known<'a> = BTreeSet<(&'a str, &'a str)>;

/// Warns of labels in the filters of a route that none of its endpoints has.
pub(super) fn route(reader: &mut Reader<'_>, node: NodeId, spec: &RouteSpec, pools: &[Resolved]) {
    let used = || spec.targets.iter().filter_map(|target| pools.get(target.pool));
    // Of DNS the config says all labels itself.
    let lists = |pool: &&Resolved| matches!(pool.pool.discovery, Some(Discovery::File(_)));
    // What a file lists may have other labels tomorrow; of one that lists nothing no label is known at all.
    let unknown = used().filter(lists).any(|pool| pool.spec.endpoints.is_empty());
    let Some(filters) = reader.child(node, "filters").filter(|_| !unknown) else {
        return;
    };
    let when = match used().any(|pool| lists(&pool)) {
        true => " as its sources are now",
        false => "",
    };
    let mut known = Known::new();
    for pool in used() {
        let endpoints = pool.spec.endpoints.iter().flat_map(|endpoint| &*endpoint.labels);
        known.extend(endpoints.map(|(name, value)| (&**name, &**value)));
        if let Some(Discovery::Dns(dns)) = &pool.pool.discovery {
            known.extend(dns.labels.iter().map(|(name, value)| (&**name, &**value)));
        }
    }
    let rules = reader.child(filters, "rules").map(|list| reader.children(list));
    for place in std::iter::once(filters).chain(rules.unwrap_or_default()) {
        rule(reader, place, (&known, when));
    }
    let names = reader
        .child(filters, "by_header")
        .map(|list| reader.children(list));
    for place in names.unwrap_or_default() {
        let name = reader.written(place);
        if unnamed(&known, &name) {
            reader.warn(
                place,
                format!("no endpoint of this route has the label `{name}`{when}, so nothing serves a request that asks for it"),
                format!("give endpoints their `labels: {{{name}: …}}`"),
            );
        }
    }
}

/// Warns of the labels of one rule.
fn rule(reader: &mut Reader<'_>, place: NodeId, (known, when): (&Known<'_>, &str)) {
    for (key, effect) in [
        ("labels", "so nothing serves what this is about"),
        ("not_labels", "so this drops nothing"),
    ] {
        let Some(list) = reader.child(place, key) else {
            continue;
        };
        for (name, place) in reader.keyed(list) {
            if unnamed(known, &name) {
                reader.warn(
                    place,
                    format!("no endpoint of this route has the label `{name}`{when}, {effect}"),
                    format!("give endpoints their `labels: {{{name}: …}}`"),
                );
                continue;
            }
            let values = reader.children(place);
            let values = if values.is_empty() { vec![place] } else { values };
            let written: Vec<String> = values.iter().map(|value| reader.written(*value)).collect();
            let there = |value: &String| known.contains(&(&*name, &**value)) || value.contains(['$', '…']);
            if !written.iter().any(there) {
                let has: Vec<&str> = known
                    .iter()
                    .filter(|(label, _)| *label == name)
                    .map(|(_, value)| *value)
                    .collect();
                reader.warn(
                    place,
                    format!("no endpoint of this route has such a label `{name}`{when}, {effect}"),
                    format!("they have {}", has.join(", ")),
                );
            }
        }
    }
}

/// Whether no label is of this name; one with a variable in it is not known here.
fn unnamed(known: &Known<'_>, name: &str) -> bool {
    !name.contains('$') && known.iter().all(|(label, _)| *label != name)
}
