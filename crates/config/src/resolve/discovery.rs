//! `pools[].discovery`.

use super::pools::endpoints;
use crate::discovery::{Discovery, Dns, ENDPOINTS_MAX, List, Records};
use crate::forms::{OneOrMany, Short};
use crate::leaf::or;
use crate::load;
use crate::model::discovery as model;
use crate::model::pools::Endpoint as Given;
use crate::problems::{Problem, Problems};
use crate::read::{At, FromNode as _, Reader};
use crate::resolved::Endpoint;
use crate::stand_ins::StandIns;
use crate::urls;
use crate::yaml::{self, NodeId, Shape, Tree};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use weighbridge_core::spec::EndpointSpec;

/// Least `ttl_min`.
const TTL_MIN: Duration = Duration::from_millis(100);

/// Endpoints for the scheduler and for relaying, in the same order.
type Endpoints = (Vec<EndpointSpec>, Vec<Endpoint>);

/// Resolves `discovery`, with the endpoints that are known from it without asking anybody.
pub(super) fn discovery(
    reader: &mut Reader<'_>,
    given: At<model::Discovery>,
    ranks: u32,
) -> (Option<Discovery>, Endpoints) {
    let given = given.value;
    match (given.dns, given.file) {
        (
            Some(At {
                node,
                value: Short(dns),
            }),
            _,
        ) => (
            dns_source(reader, node, dns).map(Discovery::Dns),
            Endpoints::default(),
        ),
        (None, Some(At { node, value: path })) => file_source(reader, node, (&path.0, ranks)),
        // Reported where the map was read.
        (None, None) => (None, Endpoints::default()),
    }
}

fn file_source(
    reader: &mut Reader<'_>,
    node: NodeId,
    (path, ranks): (&str, u32),
) -> (Option<Discovery>, Endpoints) {
    let path = reader
        .directory
        .map_or_else(|| path.into(), |directory| directory.join(path));
    let list = List { path, ranks };
    let discovery = Some(Discovery::File(list.clone()));
    if matches!(std::fs::metadata(&list.path), Err(error) if error.kind() == std::io::ErrorKind::NotFound) {
        reader.warn(
            node,
            "there is no such file, so the pool has no endpoint until there is",
            "write the file, `[]` for no endpoint; its path is relative to this config file",
        );
        return (discovery, Endpoints::default());
    }
    // Of what it holds nothing is told where stand-ins are used, so it is read as it is.
    let env = reader.stand_ins.map_or(reader.env, StandIns::env);
    match read_endpoints(&list, env) {
        Ok((found, warnings)) => {
            if found.0.is_empty() {
                reader.warn(
                    node,
                    "the file lists no endpoint, so the pool serves nothing until it does",
                    "",
                );
            }
            if reader.stand_ins.is_some() {
                return (discovery, Endpoints::default());
            }
            reader.warnings.extend(warnings);
            (discovery, found)
        }
        Err(problems) => {
            // A problem without a line is one of the file as a whole, which the config is to be mended for.
            let (whole, inside): (Vec<_>, Vec<_>) =
                problems.iter().cloned().partition(|problem| problem.line == 0);
            for problem in whole {
                reader.problem(
                    node,
                    format!("{}: {}", problem.file, problem.message),
                    problem
                        .hint
                        .unwrap_or_else(|| "give the path of a YAML file that lists endpoints".to_owned()),
                );
            }
            match reader.stand_ins {
                None => reader.problems.extend(inside),
                // Its lines are not for somebody who may name any file of the machine.
                Some(_) if !inside.is_empty() => reader.problem(
                    node,
                    "the file is not the list of endpoints that it must be",
                    "have `weighbridge check` look at the file where the gateway runs",
                ),
                Some(_) => {}
            }
            (discovery, Endpoints::default())
        }
    }
}

/// Reads a file of endpoints; also gives what may surprise.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn read_endpoints(
    List { path, ranks }: &List,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(Endpoints, Vec<Problem>), Problems> {
    let name = path.display().to_string();
    let text = load::read_watched(path, &name)?;
    let (tree, mut faults) = yaml::parse(&name, &text);
    let Some(tree) = tree else {
        let said = |line: &str| !line.trim_start().is_empty() && !line.trim_start().starts_with('#');
        if !text.lines().any(said) {
            for fault in &mut faults {
                fault.hint = Some("write `[]` for no endpoint".to_owned());
            }
        }
        return Err(Problems::new(faults));
    };
    let mut reader = Reader::new(tree, &name, env);
    reader.directory = path.parent();
    reader.problems = faults;
    if reader.tree.shape(Tree::ROOT) == Shape::Nothing && reader.problems.is_empty() {
        reader.problem(
            Tree::ROOT,
            "a list is expected here, but the file is empty",
            "write `[]` for no endpoint",
        );
    }
    if reader.tree.shape(Tree::ROOT) == Shape::Map {
        reader.problem(
            Tree::ROOT,
            "a list is expected here, but this is a map",
            "write the list alone, as it would stand under `endpoints:`",
        );
    }
    let list = match reader.problems.is_empty() {
        true => Vec::<At<Short<Given>>>::from_node(&mut reader, Tree::ROOT),
        false => None,
    };
    let found = endpoints(&mut reader, Tree::ROOT, (list.unwrap_or_default(), *ranks));
    if found.0.len() > ENDPOINTS_MAX {
        reader.problem(
            Tree::ROOT,
            format!(
                "the file lists {} endpoints, more than {ENDPOINTS_MAX}",
                found.0.len()
            ),
            "split the pool",
        );
    }
    same_url(&mut reader, &found.0);
    if reader.problems.is_empty() {
        Ok((found, reader.warnings))
    } else {
        Err(Problems::new(reader.problems))
    }
}

/// Warns of one engine under two names: it would get two shares, each of which sees half of its requests.
fn same_url(reader: &mut Reader<'_>, specs: &[EndpointSpec]) {
    let mut seen = HashMap::new();
    for (spec, node) in specs.iter().zip(reader.children(Tree::ROOT)) {
        if let Some(first) = seen.insert(spec.address.clone(), spec.name.clone())
            && first != spec.name
        {
            reader.warn(
                node,
                format!("`{}` has the URL of `{first}`", spec.name),
                "list every engine once; for a larger share give it a `weight`",
            );
        }
    }
}

fn dns_source(reader: &mut Reader<'_>, node: NodeId, given: model::Dns) -> Option<Dns> {
    let ttl = bounds(reader, &given);
    let name = given.name?;
    let by_name = if name.value.0.starts_with('_') {
        model::RecordWord::Service
    } else {
        model::RecordWord::Address
    };
    let records = match (or(given.r#type, |word| word, by_name), given.port) {
        (model::RecordWord::Address, Some(port)) => Records::Address {
            port: u16::try_from(port.value.0).unwrap_or(u16::MAX),
        },
        (model::RecordWord::Address, None) => {
            reader.problem(
                node,
                "addresses in DNS have no port, and none is given",
                "write `dns: engines.example:8000`, or add `port: 8000`",
            );
            return None;
        }
        (model::RecordWord::Service, None) => Records::Service,
        (model::RecordWord::Service, Some(port)) => {
            reader.problem(
                port.node,
                "SRV records bring their own port",
                "remove the port, or write `type: a`",
            );
            return None;
        }
    };
    if name.value.0.parse::<IpAddr>().is_ok() {
        reader.warn(
            name.node,
            "this is an address and not a name, so there is nothing to follow",
            "write `endpoints: [http://…]`",
        );
    }
    let prefix = match given.path {
        Some(path) => prefix(reader, path)?,
        None => String::new(),
    };
    Some(Dns {
        name: name.value.0,
        records,
        https: or(given.scheme, |word| word == model::SchemeWord::Https, false),
        prefix,
        ttl_min: ttl.0,
        ttl_max: ttl.1,
        labels: or(given.labels, |labels| labels.0, Vec::new()),
        empty_after: or(given.empty_after, |span| span.0, Duration::from_secs(300)),
        resolver: or(
            given.resolver,
            |OneOrMany(servers)| servers.into_iter().map(|server| server.value.0).collect(),
            Vec::new(),
        ),
    })
}

fn prefix(reader: &mut Reader<'_>, path: At<crate::leaf::Text>) -> Option<String> {
    let At { node, value } = path;
    let fault = if !value.0.starts_with('/') {
        (
            "the path does not begin with `/`".to_owned(),
            "write `/llm`".to_owned(),
        )
    } else if value.0.contains(['?', '#']) || value.0.chars().any(|c| !c.is_ascii_graphic()) {
        (
            "the path holds a character that paths cannot have".to_owned(),
            "write it percent-encoded, without a query".to_owned(),
        )
    } else {
        match urls::prefix(&value.0) {
            Ok(prefix) => return Some(prefix),
            Err(fault) => fault,
        }
    };
    reader.problem(node, fault.0, fault.1);
    None
}

/// Shortest and longest time for which an answer is kept.
fn bounds(reader: &mut Reader<'_>, given: &model::Dns) -> (Duration, Duration) {
    let or_default =
        |span: &Option<At<crate::leaf::Span>>, default| span.as_ref().map_or(default, |span| span.value.0);
    let min = or_default(&given.ttl_min, Duration::from_secs(1));
    let max = or_default(&given.ttl_max, Duration::from_secs(60));
    let place = given.ttl_max.as_ref().or(given.ttl_min.as_ref());
    if let Some(place) = place {
        if min < TTL_MIN {
            let place = given.ttl_min.as_ref().unwrap_or(place);
            reader.problem(
                place.node,
                "an answer is kept for at least 100 ms",
                "name servers are not asked more often",
            );
        } else if min > max {
            reader.problem(
                place.node,
                "`ttl_max` is less than `ttl_min`",
                "raise `ttl_max`, or lower `ttl_min`",
            );
        }
    }
    (min, max)
}
