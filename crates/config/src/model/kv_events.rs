//! `pools[].endpoints[].kv_events` and `pools[].tokenizer`.

use crate::kv_events::Place;
use crate::leaf::{Text, schema};
use crate::read::{FromNode, Reader, section};
use crate::yaml::NodeId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

section! {
    /// Where an engine tells what its prefix cache holds (vLLM and SGLang, over ZeroMQ).
    KvEvents {
        /// Where to listen: for engines whose own `endpoint` is a concrete address, to which they connect.
        bind: ZmqPlace,
        /// Where to connect: for engines whose own `endpoint` is `tcp://*:port`, on which they listen.
        connect: ZmqPlace,
        /// The engine's `replay_endpoint`, asked for what got lost. Default: nothing can be asked for again.
        replay: ZmqPlace,
    }
    either [bind, connect]
}

section! {
    /// How the engines of this pool make tokens of text. Needs a build with the feature `tokenizers`.
    Tokenizer {
        /// The model's `tokenizer.json`, relative to this file.
        path: Text,
        /// The model's chat template (Jinja), or the `tokenizer_config.json` that holds it, relative to this file. Default:
        /// prompts of chats are not matched with the engines' events.
        chat_template: Text,
    }
    required [path]
}

/// An address of ZeroMQ, `tcp://host:port`.
pub(crate) struct ZmqPlace(pub(crate) Place);
schema!(ZmqPlace, "ZmqPlace", {"title": "ZeroMQ address", "type": "string", "examples": ["tcp://127.0.0.1:5557", "tcp://*:5557", "tcp://gpu1:5557"]});

impl FromNode for ZmqPlace {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let text = reader.text(node, "text such as `tcp://127.0.0.1:5557`")?;
        match Place::parse(&text) {
            Ok(place) => Some(Self(place)),
            Err(message) => {
                let meant = format!("tcp://{text}");
                let meant =
                    Place::parse(&meant).map_or("tcp://gpu1:5557".to_owned(), |place| place.to_string());
                reader.problem(node, message, format!("write `{meant}`"));
                None
            }
        }
    }
}
