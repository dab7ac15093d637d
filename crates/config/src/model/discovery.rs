//! `pools[].discovery`.

use crate::forms::{FromText, OneOrMany, Short};
use crate::leaf::{Labels, Span, Text, Whole, schema};
use crate::read::{At, FromNode, Reader, section, words};
use crate::yaml::NodeId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// Longest name that DNS has.
const NAME_MAX: usize = 253;
/// Longest part of one, between two dots.
const LABEL_MAX: usize = 63;
/// Port on which name servers answer.
const DNS_PORT: u16 = 53;

section! {
    /// Who says what the endpoints of a pool are.
    Discovery {
        /// DNS: a name with a port, a service name such as `_http._tcp.engines.example`, or a map.
        dns: Short<Dns>,
        /// A file with a list in the form of `endpoints`, as YAML or JSON.
        file: Text,
    }
    either [dns, file]
    later [kubernetes]
}

section! {
    /// A name that DNS has endpoints for.
    Dns {
        /// The name to ask for. A dot at its end keeps the system's search domains out.
        name: HostName,
        /// Port of the endpoints; needed for addresses, and given by SRV records themselves.
        port: Whole<1, 65535>,
        /// Which records name endpoints. Default: `srv` for a name that begins with `_`, else `a`.
        r#type: RecordWord,
        /// How to talk to the endpoints; certificates are checked against the name that was asked for, or the SRV target.
        scheme: SchemeWord = "http",
        /// Path prefix of the endpoints' URLs; a trailing `/v1` is ignored.
        path: Text,
        /// Answers are kept at least this long, whatever their TTL.
        ttl_min: Span = "1s",
        /// Answers are kept at most this long, whatever their TTL.
        ttl_max: Span = "60s",
        /// How long DNS must say that there are none until the pool is emptied; failures to answer never empty it.
        empty_after: Span = "5m",
        /// Labels of all endpoints that it names.
        labels: Labels,
        /// Name servers to ask, port 53 where none is given. Default: the system's.
        resolver: OneOrMany<Server>,
    }
    required [name]
}

impl FromText for Dns {
    const WANTED: &'static str = "text such as `engines.example:8000`, or a map with `name`,";
    type Text = Place;

    fn from_text(place: At<Place>) -> Self {
        let At { node, value } = place;
        Self {
            name: Some(At {
                node,
                value: HostName(value.name),
            }),
            port: value.port.map(|port| At {
                node,
                value: Whole(u32::from(port)),
            }),
            ..Self::default()
        }
    }
}

words! {
    /// Which records name endpoints.
    RecordWord {
        /// Addresses, A and AAAA: each is an endpoint.
        Address = "a",
        /// Services: each target with its port is an endpoint.
        Service = "srv",
    }
}

words! {
    /// How to talk to endpoints.
    SchemeWord {
        /// Plain.
        Http = "http",
        /// With TLS.
        Https = "https",
    }
}

/// A name that DNS can be asked for.
pub(crate) struct HostName(pub(crate) String);
schema!(HostName, "HostName", {"title": "DNS name", "type": "string", "minLength": 1, "maxLength": NAME_MAX, "examples": ["_http._tcp.engines.example", "engines.example"]});

impl FromNode for HostName {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let text = reader.text(node, "text such as `engines.example`")?;
        name(reader, node, &text).map(Self)
    }
}

/// A name, and a port where one is given.
pub(crate) struct Place {
    name: String,
    port: Option<u16>,
}

impl FromNode for Place {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let text = reader.text(node, "text such as `engines.example:8000`")?;
        let Some((host, port)) = text.split_once(':') else {
            let name = name(reader, node, &text)?;
            return Some(Self { name, port: None });
        };
        if port.starts_with("//") {
            reader.problem(
                node,
                "this is a URL, but a name with a port is expected here",
                "write `dns: engines.example:8000`, or the map {name: …, port: …, scheme: …, path: …}",
            );
            return None;
        }
        match port.parse::<u16>() {
            Ok(port) if port > 0 => Some(Self {
                name: name(reader, node, host)?,
                port: Some(port),
            }),
            _ => {
                reader.problem(
                    node,
                    "what follows the colon is not a port from 1 to 65535",
                    "write `engines.example:8000`",
                );
                None
            }
        }
    }
}

impl JsonSchema for Place {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Place".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"title": "DNS name", "type": "string", "examples": ["engines.example:8000", "_http._tcp.engines.example"]})
    }
}

fn name(reader: &mut Reader<'_>, node: NodeId, text: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let labels = text.strip_suffix('.').unwrap_or(text).split('.');
    let fault = if text.len() > NAME_MAX {
        "the name is longer than 253 characters"
    } else if labels
        .clone()
        .any(|label| label.is_empty() || label.len() > LABEL_MAX)
    {
        "the name has a part that is empty or longer than 63 characters"
    } else if !labels.clone().all(|label| label.chars().all(allowed)) {
        "the name holds a character that names in DNS cannot have"
    } else {
        return Some(text.to_ascii_lowercase());
    };
    reader.problem(
        node,
        fault,
        "use letters, digits, `-`, `_` and dots, other letters in their `xn--` form",
    );
    None
}

/// A name server.
#[derive(Clone, Copy)]
pub(crate) struct Server(pub(crate) SocketAddr);
schema!(Server, "Server", {"title": "address", "type": "string", "examples": ["127.0.0.1:53", "10.0.0.10", "[::1]:53"]});

impl FromNode for Server {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let text = reader.text(node, "text such as `127.0.0.1:53`")?;
        let address = text.parse::<SocketAddr>().ok();
        let alone = || {
            let host = text.trim_start_matches('[').trim_end_matches(']');
            host.parse::<IpAddr>()
                .ok()
                .map(|host| SocketAddr::new(host, DNS_PORT))
        };
        if let Some(address) = address.or_else(alone).filter(|address| address.port() > 0) {
            return Some(Self(address));
        }
        let shown = reader.written(node);
        reader.problem(
            node,
            format!("`{shown}` is not the address of a name server"),
            "write `127.0.0.1:53`, `10.0.0.10` or `[::1]:53`",
        );
        None
    }
}
