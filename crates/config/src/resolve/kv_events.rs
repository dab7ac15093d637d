//! `pools[].endpoints[].kv_events` and `pools[].tokenizer`.

use crate::kv_events::{KvEvents, Place, Source, Tokenizer};
use crate::model::kv_events as model;
use crate::read::{At, Reader};
use crate::resolved::Endpoint;
use crate::yaml::NodeId;
use std::net::IpAddr;

/// Reads where the events of an engine with `ranks` ranks come from.
pub(super) fn kv_events(
    reader: &mut Reader<'_>,
    given: Option<At<model::KvEvents>>,
    ranks: u32,
) -> Option<KvEvents> {
    let At { node, value: given } = given?;
    let replay = given.replay.map(|replay| {
        everywhere(reader, replay.node, &replay.value.0);
        every_rank(reader, replay.node, (&replay.value.0, ranks));
        replay.value.0
    });
    let source = match (given.bind, given.connect) {
        (Some(bind), _) => {
            let place = bind.value.0;
            if place.host != "*" && place.host.parse::<std::net::IpAddr>().is_err() {
                reader.problem(
                    bind.node,
                    format!("`{place}` names a host, but one listens on an address"),
                    "write `tcp://127.0.0.1:5557`, or `tcp://*:5557` for all interfaces",
                );
            }
            every_rank(reader, bind.node, (&place, ranks));
            listen(reader, bind.node, (&place, ranks));
            Source::Bind(place)
        }
        (None, Some(connect)) => {
            everywhere(reader, connect.node, &connect.value.0);
            every_rank(reader, connect.node, (&connect.value.0, ranks));
            Source::Connect(connect.value.0)
        }
        // Reported where the map was read.
        (None, None) => return None,
    };
    if replay.is_none() {
        reader.warn(
            node,
            "without `replay`, every event that gets lost and every lost connection makes the gateway forget what this engine holds",
            "start the engine with a `replay_endpoint`, and name it here",
        );
    }
    Some(KvEvents { source, replay })
}

/// All interfaces are no place to connect to.
fn everywhere(reader: &mut Reader<'_>, node: NodeId, place: &Place) {
    if place.host == "*" {
        reader.problem(
            node,
            format!("`{place}` is where an engine listens, not where it can be reached"),
            format!("write the engine's host: `tcp://gpu1:{}`", place.port),
        );
    }
}

/// Rank *i* has the port that is *i* above the one written.
fn every_rank(reader: &mut Reader<'_>, node: NodeId, (place, ranks): (&Place, u32)) {
    if last_port(place, ranks) > u32::from(u16::MAX) {
        let first = u32::from(u16::MAX) + 1 - ranks;
        reader.problem(
            node,
            format!("`{place}` leaves no ports for all of the {ranks} ranks: the last one would have port {}, and ports end at 65535", last_port(place, ranks)),
            format!("give the engine a port up to {first}, and write it here"),
        );
    }
}

/// The port of the last of so many ranks.
fn last_port(place: &Place, ranks: u32) -> u32 {
    u32::from(place.port) + ranks.saturating_sub(1)
}

/// Two sockets cannot listen on one port.
fn listen(reader: &mut Reader<'_>, node: NodeId, (place, ranks): (&Place, u32)) {
    let last = last_port(place, ranks);
    let meets = |(_, other, count): &&(NodeId, Place, u32)| {
        let ports = u32::from(other.port) <= last && u32::from(place.port) <= last_port(other, *count);
        ports && overlap(&other.host, &place.host)
    };
    if let Some((first, other, _)) = reader.kv_listeners.iter().find(meets) {
        let met = Place {
            host: other.host.clone(),
            port: other.port.max(place.port),
        };
        let message = format!("{} also listens on `{met}`", reader.tree.path(*first));
        let hint = match reader.kv_listeners.iter().any(|(_, _, count)| *count > 1) || ranks > 1 {
            true => "give every engine ports of its own, one for each rank",
            false => "give every engine a port of its own",
        };
        reader.problem(node, message, hint);
    }
    let own = (reader.own_listeners.iter()).find(|(_, own)| {
        let port = u32::from(own.port());
        (u32::from(place.port)..=last).contains(&port) && overlap(&own.ip().to_string(), &place.host)
    });
    if let Some((key, own)) = own {
        let message = format!("the gateway itself listens on `{own}`, see `{key}`");
        reader.problem(node, message, "give the engine's events a port of their own");
    }
    reader.kv_listeners.push((node, place.clone(), ranks));
}

/// Whether sockets that listen on these hosts get in each other's way. All interfaces in IPv6 are those in IPv4 too.
fn overlap(a: &str, b: &str) -> bool {
    let address = |host: &str| host.parse::<IpAddr>().map(|address| address.to_canonical());
    match (address(a), address(b)) {
        (Ok(a), Ok(b)) => {
            let covers = |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
            a == b || covers(a, b) || covers(b, a)
        }
        _ => a == b || a == "*" || b == "*",
    }
}

/// Engines' events are about tokens, requests mostly of text.
fn warn_of_text(reader: &mut Reader<'_>, pool: NodeId, endpoints: &[Endpoint]) {
    if endpoints.iter().any(|endpoint| endpoint.kv_events.is_some()) {
        reader.warn(
            pool,
            "the engines of this pool tell what they hold, but without `tokenizer` only prompts of token ids are matched with that",
            "add `tokenizer: {path: tokenizer.json, chat_template: tokenizer_config.json}`",
        );
    }
}

pub(super) fn tokenizer(
    reader: &mut Reader<'_>,
    given: Option<At<model::Tokenizer>>,
    (pool, endpoints): (NodeId, &[Endpoint]),
) -> Option<Tokenizer> {
    let Some(At { value: given, .. }) = given else {
        warn_of_text(reader, pool, endpoints);
        return None;
    };
    let place = |text: At<crate::leaf::Text>| {
        let path = text.value.0;
        reader
            .directory
            .map_or_else(|| (&path).into(), |directory| directory.join(&path))
    };
    Some(Tokenizer {
        path: place(given.path?),
        chat_template: given.chat_template.map(place),
    })
}
