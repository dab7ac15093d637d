//! The user's file as sections: what may be written, before anything is resolved.

pub(crate) mod cors;
pub(crate) mod discovery;
pub(crate) mod filters;
pub(crate) mod keys;
pub(crate) mod kv_events;
pub(crate) mod policies;
pub(crate) mod pools;
pub(crate) mod routes;
pub(crate) mod scrape;
pub(crate) mod server;

use crate::forms::Toggle;
use crate::read::{At, FromNode, Reader, section, words};
use crate::yaml::NodeId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

section! {
    /// Configuration of Weighbridge.
    File {
        /// Version of this format.
        version: Version = 1,
        /// The data plane: where clients connect, and its limits.
        server: server::Server,
        /// The admin API, the console and the metrics; `false`: none.
        admin: Toggle<server::Admin>,
        /// Who may use the data plane. Default: `keys` where keys are given, else `none` on a loopback address; off
        /// loopback one of the two must be written.
        auth: Auth,
        /// Web pages that may call the data plane from a browser. Default: none.
        cors: cors::Cors,
        /// What is logged.
        log: server::Log,
        /// Where state is kept that several gateways could share.
        state: State,
        /// Keys of clients.
        keys: Vec<At<keys::Key>>,
        /// Groups of endpoints that serve the same model.
        pools: Vec<At<pools::Pool>>,
        /// Model names that clients use. A pool that no route names is itself a route of its name.
        routes: Vec<At<routes::Route>>,
    }
    required [pools]
    later [otlp, storage, quota_groups, services, classes]
}

/// The version of the format, always 1.
pub(crate) struct Version;

impl FromNode for Version {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let written = reader.written(node);
        if written == "1" {
            return Some(Self);
        }
        reader.problem(
            node,
            format!("this program reads version 1 of the format, not `{written}`"),
            "write `version: 1`, or leave it out",
        );
        None
    }
}

impl JsonSchema for Version {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"const": 1})
    }
}

words! {
    /// Who may use the data plane.
    Auth {
        /// Who shows a key of `keys`.
        Keys = "keys",
        /// Everybody who reaches it.
        None = "none",
    }
}

section! {
    /// Where state is kept.
    State {
        /// The store.
        backend: Backend = "memory",
    }
    later [url, on_failure, timeout]
}

words! {
    /// A store of state.
    Backend {
        /// Memory of the process.
        Memory = "memory",
    }
    later ["redis"]
}
