//! Paths that the config opens beside those that the gateway serves by itself.

use crate::leaf::schema;
use crate::read::{FromNode, Reader};
use crate::yaml::NodeId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// Longest path, bytes.
const LENGTH_MAX: usize = 256;

/// The gateway's own paths; what stands below the last four is its own too.
pub const OWN_PATHS: [&str; 23] = [
    "/health",
    "/ready",
    "/rerank",
    "/score",
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/images/edits",
    "/v1/images/generations",
    "/v1/images/variations",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/moderations",
    "/v1/rerank",
    "/v1/score",
    "/v2/rerank",
    "/v1/batches",
    "/v1/files",
    "/v1/models",
    "/v1/responses",
];
/// Those of a later version.
const LATER: [&str; 2] = ["/v1/batches", "/v1/files"];
const TREES: [&str; 4] = ["/v1/batches", "/v1/files", "/v1/models", "/v1/responses"];

/// A path that is passed through: one, or with `/*` at its end all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedPath {
    /// The path, without `/*`.
    pub path: String,
    /// Whether it stands for all paths below it, rather than for itself.
    pub below: bool,
}

schema!(PassedPath, "Path", {"title": "path", "type": "string", "pattern": "^/", "maxLength": LENGTH_MAX, "examples": ["/tokenize", "/classify/*"]});

impl PassedPath {
    /// Whether a request's path, without its query, is one of these. What would have to be decoded, or could mean
    /// another path to the engine, is none.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        match path.strip_prefix(&self.path) {
            Some("") => !self.below,
            Some(rest) if self.below => rest.len() > 1 && fault_of(path).is_none(),
            _ => false,
        }
    }
}

impl std::fmt::Display for PassedPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.path, if self.below { "/*" } else { "" })
    }
}

/// Why `path` does not mean exactly what is written.
fn fault_of(path: &str) -> Option<&'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~:@".contains(&byte);
    let Some(segments) = path.strip_prefix('/') else {
        return Some("does not begin with `/`");
    };
    if path.len() > LENGTH_MAX {
        return Some("is longer than 256 bytes");
    }
    if !path.bytes().all(plain) {
        return Some("holds characters other than letters, digits and `/ - . _ ~ : @`");
    }
    segments
        .split('/')
        .any(|segment| matches!(segment, "" | "." | ".."))
        .then_some("has an empty segment, or one of dots alone")
}

impl FromNode for PassedPath {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let text = reader.text(node, "text such as `/tokenize`")?;
        let (path, below) = match text.strip_suffix("/*") {
            Some(path) => (path.to_owned(), true),
            None => (text, false),
        };
        let shown = reader.written(node);
        let fault = if below && path.is_empty() {
            Some("stands for everything")
        } else {
            fault_of(&path)
        };
        if let Some(fault) = fault {
            reader.problem(
                node,
                format!("the path `{shown}` {fault}"),
                "write a path such as `/tokenize`, or `/classify/*` for all below it",
            );
            return None;
        }
        let inside = |own: &str, of: &str| own.strip_prefix(of).is_some_and(|rest| rest.starts_with('/'));
        let shadowed = (OWN_PATHS.into_iter())
            .find(|own| (!below && *own == path) || (below && inside(own, &path)))
            .or_else(|| {
                TREES
                    .into_iter()
                    .find(|tree| path == *tree || inside(&path, tree))
            });
        if let Some(later) = LATER
            .into_iter()
            .find(|tree| path == *tree || inside(&path, tree))
        {
            reader.not_yet(node, later);
            return None;
        }
        if let Some(own) = shadowed {
            let message = match shown == own {
                true => format!("the gateway serves `{own}` by itself"),
                false => format!("`{shown}` would hide `{own}`, which the gateway serves by itself"),
            };
            reader.problem(node, message, "name only paths that it does not serve");
            return None;
        }
        Some(Self { path, below })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_written_is_held() {
        let one = PassedPath {
            path: "/tokenize".into(),
            below: false,
        };
        let all = PassedPath {
            path: "/x".into(),
            below: true,
        };
        assert!(one.holds("/tokenize"));
        for other in [
            "/tokenize/",
            "/tokenizer",
            "/Tokenize",
            "/%74okenize",
            "/tokenize/a",
            "//tokenize",
        ] {
            assert!(!one.holds(other), "{other}");
        }
        for inside in ["/x/a", "/x/a/b.c", "/x/a:b"] {
            assert!(all.holds(inside), "{inside}");
        }
        for other in [
            "/x",
            "/x/",
            "/x//a",
            "/x/..",
            "/x/../a",
            "/x/./a",
            "/x/a/..",
            "/x/%2e%2e/a",
            "/x/a%2fb",
            "/x/a\\b",
            "/xa",
            "/x/a;b",
            "/x/a//",
        ] {
            assert!(!all.holds(other), "{other}");
        }
    }
}
