//! Addresses: of listeners, of ranges, of endpoints.

use crate::leaf::schema;
use crate::read::{FromNode, Reader};
use crate::resolved::{BaseUrl, Network};
use crate::yaml::{NodeId, Shape};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// An address and port to listen on.
pub(crate) struct Address(pub(crate) SocketAddr);
schema!(Address, "Address", {"title": "address and port", "type": "string", "examples": ["127.0.0.1:8800", "0.0.0.0:8800", "[::1]:8800"]});

impl FromNode for Address {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        if reader.tree.shape(node) == Shape::Number {
            let port = reader.written(node);
            reader.problem(
                node,
                "an address and a port are expected here, but this is a number",
                format!("write `127.0.0.1:{port}`"),
            );
            return None;
        }
        let text = reader.text(node, "text such as `127.0.0.1:8800`")?;
        let named = text
            .strip_prefix("localhost:")
            .map(|port| format!("127.0.0.1:{port}"));
        if let Ok(address) = named.as_deref().unwrap_or(&text).parse() {
            return Some(Self(address));
        }
        let shown = reader.written(node);
        let hint = match text.rsplit_once(':') {
            Some(("" | "*", port)) => format!("write `0.0.0.0:{port}` for all interfaces"),
            _ => "write `127.0.0.1:8800`, `0.0.0.0:8800` for all interfaces, or `[::1]:8800`".to_owned(),
        };
        reader.problem(node, format!("`{shown}` is not an IP address with a port"), hint);
        None
    }
}

/// A range of addresses, `10.0.0.0/8`, or one address.
pub(crate) struct Range(pub(crate) Network);
schema!(Range, "Network", {"title": "address range", "type": "string", "examples": ["10.0.0.0/8", "192.0.2.7", "fd00::/8"]});

impl FromNode for Range {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let text = reader.text(node, "text such as `10.0.0.0/8`")?;
        if let Some(network) = network(&text) {
            return Some(Self(network));
        }
        let shown = reader.written(node);
        reader.problem(
            node,
            format!("`{shown}` is not an address range"),
            "write `10.0.0.0/8`, `fd00::/8` or one address",
        );
        None
    }
}

fn network(text: &str) -> Option<Network> {
    let (base, prefix) = match text.split_once('/') {
        Some((base, prefix)) => (base, Some(prefix.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let base: IpAddr = base.parse().ok()?;
    let bits = if base.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.unwrap_or(bits);
    if prefix > bits {
        return None;
    }
    let host = u32::from(bits - prefix);
    let base = match base {
        IpAddr::V4(base) => IpAddr::V4(
            u32::from(base)
                .checked_shr(host)
                .and_then(|net| net.checked_shl(host))
                .unwrap_or(0)
                .into(),
        ),
        IpAddr::V6(base) => IpAddr::V6(
            u128::from(base)
                .checked_shr(host)
                .and_then(|net| net.checked_shl(host))
                .unwrap_or(0)
                .into(),
        ),
    };
    Some(Network { base, prefix })
}

/// The base URL of an endpoint.
pub(crate) struct Url(pub(crate) BaseUrl);
schema!(Url, "Url", {"title": "URL", "type": "string", "examples": ["http://gpu1:8000", "https://api.example.com"]});

impl FromNode for Url {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let text = reader.url(node, "text such as `http://gpu1:8000`")?;
        match BaseUrl::parse(&text) {
            Ok(url) => Some(Self(url)),
            Err((message, hint)) => {
                reader.problem(node, message, hint);
                None
            }
        }
    }
}
