//! `pools[].endpoints[].kv_events` and `pools[].tokenizer`.

use crate::kv_events::{KvEvents, Place, Source, Tokenizer};
use crate::model::kv_events as model;
use crate::read::{At, Reader};
use crate::resolved::Endpoint;
use crate::yaml::NodeId;

pub(super) fn kv_events(reader: &mut Reader<'_>, given: Option<At<model::KvEvents>>) -> Option<KvEvents> {
    let At { node, value: given } = given?;
    let replay = given.replay.map(|replay| {
        everywhere(reader, replay.node, &replay.value.0);
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
            listen(reader, bind.node, &place);
            Source::Bind(place)
        }
        (None, Some(connect)) => {
            everywhere(reader, connect.node, &connect.value.0);
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

/// Two sockets cannot listen on one port.
fn listen(reader: &mut Reader<'_>, node: NodeId, place: &Place) {
    let meets = |other: &&(NodeId, Place)| {
        let hosts = [other.1.host.as_str(), place.host.as_str()];
        other.1.port == place.port && (hosts[0] == hosts[1] || hosts.contains(&"*"))
    };
    if let Some((first, other)) = reader.kv_listeners.iter().find(meets) {
        let message = format!("{} also listens on `{other}`", reader.tree.path(*first));
        reader.problem(node, message, "give every engine a port of its own");
    }
    reader.kv_listeners.push((node, place.clone()));
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
