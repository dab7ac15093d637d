//! `cors`.

use crate::leaf::schema;
use crate::read::{At, FromNode, Reader, section};
use crate::resolved::Origin as Resolved;
use crate::yaml::NodeId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

section! {
    /// Web pages that may call the data plane from a browser.
    Cors {
        /// Origins of such pages, each as the browser sends it; `*`: pages of any origin.
        origins: Vec<At<Origin>>,
    }
    required [origins]
}

/// Scheme, host and port of a page, or `*`.
pub(crate) struct Origin(pub(crate) Resolved);
schema!(Origin, "Origin", {"title": "origin", "type": "string", "examples": ["https://app.example", "http://localhost:5173", "*"]});

impl FromNode for Origin {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let text = reader.text(node, "text such as `https://app.example`")?;
        match parse(&text) {
            Ok(origin) => Some(Self(origin)),
            Err((message, hint)) => {
                reader.problem(node, message, hint);
                None
            }
        }
    }
}

/// As browsers write it (RFC 6454, section 6.2): in lower case, without the scheme's own port.
fn parse(text: &str) -> Result<Resolved, (&'static str, &'static str)> {
    const EXAMPLE: &str =
        "write scheme, host and port as the browser sends them, such as `https://app.example`";
    if text == "*" {
        return Ok(Resolved::Any);
    }
    if text == "null" {
        return Err((
            "`null` is the origin of sandboxed frames and local files of anybody, so it is never allowed",
            "serve the page over HTTP and write its origin",
        ));
    }
    let Some((scheme, authority)) = text.split_once("://") else {
        return Err(("the origin has no scheme", EXAMPLE));
    };
    let scheme = scheme.to_ascii_lowercase();
    let letter = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(letter) {
        return Err(("the origin's scheme is none", EXAMPLE));
    }
    match authority.find(['/', '?', '#']) {
        Some(at) if &authority[at..] == "/" => {
            return Err((
                "an origin does not end with a slash, and no browser sends one",
                "remove the slash",
            ));
        }
        Some(_) => {
            return Err((
                "an origin has no path, query or fragment: it stands for all pages of its host",
                "keep scheme, host and port only",
            ));
        }
        None => {}
    }
    if authority.contains('@') {
        return Err(("an origin holds no user name or password", EXAMPLE));
    }
    if authority.contains('*') {
        return Err((
            "an origin is compared as a whole: `*` inside it stands for nothing",
            "write every origin, or `*` alone for all",
        ));
    }
    let authority = authority.to_ascii_lowercase();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority.as_str(), None),
    };
    let visible = |c: char| c.is_ascii_alphanumeric() || "-._~%[]:".contains(c);
    if host.is_empty() || !host.chars().all(visible) {
        return Err((
            "the origin's host is missing, or holds a character that no host has",
            "write hosts of other alphabets in their `xn--` form",
        ));
    }
    let number = port.map(str::parse::<u16>).transpose();
    let number = number.map_err(|_| ("the origin's port is no number from 1 to 65535", EXAMPLE))?;
    Ok(Resolved::Exact(match (number, scheme.as_str()) {
        (None, _) | (Some(80), "http") | (Some(443), "https") => format!("{scheme}://{host}"),
        (Some(port), _) => format!("{scheme}://{host}:{port}"),
    }))
}
