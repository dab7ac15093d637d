//! Base URLs of endpoints: what is accepted, what an endpoint is called, and what may be shown of it.

use crate::resolved::BaseUrl;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// What is wrong with a URL: message and hint. Never quotes the URL, which may hold a secret.
pub(crate) type UrlError = (String, String);

fn fault<T>(message: &str, hint: &str) -> Result<T, UrlError> {
    Err((message.to_owned(), hint.to_owned()))
}

impl BaseUrl {
    /// Parses the base URL of an endpoint, such as `http://gpu1:8000` or `https://host/prefix?api-version=1`.
    ///
    /// A trailing `/v1` is dropped, because the client's path brings its own.
    ///
    /// # Errors
    /// Message and hint, neither of which quotes the URL.
    pub(crate) fn parse(text: &str) -> Result<Self, UrlError> {
        if text.chars().any(|c| !c.is_ascii_graphic()) {
            return fault(
                "the URL holds a space, a control character or a letter outside ASCII",
                "write such characters percent-encoded, and such hosts in their `xn--` form",
            );
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return fault(
                "the URL has no scheme",
                "write `http://host:port` or `https://host`",
            );
        };
        let https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => {
                return fault(
                    "only http:// and https:// URLs are supported",
                    "write `http://host:port` or `https://host`",
                );
            }
        };
        if rest.contains('#') {
            return fault(
                "the URL has a fragment (`#…`), which is never sent to a server",
                "remove it",
            );
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) if !query.is_empty() => (rest, Some(SecretString::from(query.to_owned()))),
            Some((rest, _)) => (rest, None),
            None => (rest, None),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return fault(
                "the URL holds a user name or password before the host",
                "put the key into the pool's `api_key`, which is sent as a header",
            );
        }
        let (host, port, bracketed) = host_and_port(authority, https)?;
        let default = if https { 443 } else { 80 };
        let shown = if bracketed {
            format!("[{host}]")
        } else {
            host.clone()
        };
        let authority = if port == default {
            shown
        } else {
            format!("{shown}:{port}")
        };
        Ok(Self {
            https,
            host,
            port,
            authority,
            prefix: prefix(path)?,
            query,
        })
    }

    fn host_port(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The name of an endpoint that was given none: host:port, the path prefix, and a mark in the place of a query.
    #[must_use]
    pub fn default_name(&self) -> String {
        let query = if self.query.is_some() { "?***" } else { "" };
        format!("{}{}{query}", self.host_port(), self.prefix)
    }

    /// The URL as it may be shown: a query, which may hold a key, is masked.
    #[must_use]
    pub fn shown(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        let query = if self.query.is_some() { "?***" } else { "" };
        format!("{scheme}://{}{}{query}", self.authority, self.prefix)
    }

    /// The same host at another port.
    #[must_use]
    pub fn at_port(&self, port: u16) -> Self {
        let mut other = Self { port, ..self.clone() };
        other.authority = other.host_port();
        other
    }

    /// What tells this URL from any other without telling its query.
    #[must_use]
    pub fn digest(&self) -> Arc<str> {
        self.identity()
    }

    /// What tells this address from any other: the shown URL with a digest in the place of the query.
    pub(crate) fn identity(&self) -> Arc<str> {
        let mut identity = self.shown();
        if let Some(query) = &self.query {
            for byte in &Sha256::digest(query.expose_secret().as_bytes())[..8] {
                identity.push_str(&format!("{byte:02x}"));
            }
        }
        identity.into()
    }
}

fn host_and_port(authority: &str, https: bool) -> Result<(String, u16, bool), UrlError> {
    let default = if https { 443 } else { 80 };
    let (host, port, bracketed) = if let Some(rest) = authority.strip_prefix('[') {
        let Some((host, port)) = rest.split_once(']') else {
            return fault(
                "the URL's IPv6 address has no closing bracket",
                "write `http://[::1]:8000`",
            );
        };
        let Ok(address) = host.parse::<Ipv6Addr>() else {
            return fault(
                "what stands in brackets is not an IPv6 address",
                "write `http://[::1]:8000`; zones (`%eth0`) are not supported",
            );
        };
        (address.to_string(), port, true)
    } else {
        let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
        if port.matches(':').count() > 1 {
            return fault(
                "the URL's host has several colons",
                "put an IPv6 address in brackets: `http://[::1]:8000`",
            );
        }
        (host.to_ascii_lowercase(), port, false)
    };
    if host.is_empty() {
        return fault("the URL has no host", "write `http://host:port`");
    }
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if !bracketed && !host.chars().all(named) {
        return fault(
            "the URL's host holds a character that host names cannot have",
            "use letters, digits, `-`, `.` and `_`",
        );
    }
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok((host, default, bracketed)),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse::<u16>() {
            Ok(port) if port > 0 => Ok((host, port, bracketed)),
            _ => fault(
                "the URL's port is not a number from 1 to 65535",
                "write `http://host:8000`",
            ),
        },
        _ => fault(
            "the URL's port is not a number from 1 to 65535",
            "write `http://host:8000`",
        ),
    }
}

/// API paths that users paste from examples; the client's request brings them.
const PASTED: &[&str] = &[
    "/chat/completions",
    "/completions",
    "/embeddings",
    "/responses",
    "/messages",
    "/models",
];

pub(crate) fn prefix(path: &str) -> Result<String, UrlError> {
    let path = path.trim_end_matches('/');
    if let Some(end) = PASTED.iter().find(|end| path.ends_with(*end)) {
        let hint = "give the base URL only; the request's own path is appended to it";
        return Err((format!("the URL ends in `{end}`"), hint.to_owned()));
    }
    Ok(path
        .strip_suffix("/v1")
        .unwrap_or(path)
        .trim_end_matches('/')
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(url: &str) -> String {
        BaseUrl::parse(url).map_or_else(|(message, _)| message, |url| url.default_name())
    }

    #[test]
    fn endpoints_are_named_after_host_and_port() {
        assert_eq!(name("http://gpu1:8000"), "gpu1:8000");
        assert_eq!(name("http://GPU1"), "gpu1:80");
        assert_eq!(name("https://api.example.com/v1"), "api.example.com:443");
        assert_eq!(name("https://api.example.com/v1/"), "api.example.com:443");
        assert_eq!(name("http://h:1/llm/a/"), "h:1/llm/a");
        assert_eq!(name("http://h:1/llm/v1"), "h:1/llm");
        assert_eq!(name("http://h:1/?key=secret"), "h:1?***");
        assert_eq!(name("http://[::1]:9001"), "[::1]:9001");
        assert_eq!(name("http://[0:0:0:0:0:0:0:1]"), "[::1]:80");
    }

    #[test]
    fn parts_are_what_a_client_needs() {
        let url = BaseUrl::parse("http://[::1]:9001/a/v1?x=1").unwrap();
        assert_eq!(
            (
                url.host.as_str(),
                url.authority.as_str(),
                url.port,
                url.prefix.as_str()
            ),
            ("::1", "[::1]:9001", 9001, "/a")
        );
        assert_eq!(url.query.as_ref().map(|query| query.expose_secret()), Some("x=1"));
        assert_eq!(BaseUrl::parse("https://h:443").unwrap().authority, "h");
        assert_eq!(BaseUrl::parse("http://h:443").unwrap().authority, "h:443");
        assert!(!format!("{url:?}").contains("x=1"));
        assert_ne!(
            url.identity(),
            BaseUrl::parse("http://[::1]:9001/a/v1?x=2").unwrap().identity()
        );
        assert_eq!(url.shown(), "http://[::1]:9001/a?***");
    }

    #[test]
    fn other_urls_are_refused_without_quoting_them() {
        for (url, expect) in [
            ("gpu1:8000", "the URL has no scheme"),
            ("grpc://gpu1:8000", "only http:// and https:// URLs are supported"),
            (
                "http://user:hunter2@h",
                "the URL holds a user name or password before the host",
            ),
            (
                "http://h/#x",
                "the URL has a fragment (`#…`), which is never sent to a server",
            ),
            ("http://", "the URL has no host"),
            ("http://:80", "the URL has no host"),
            ("http://h:0", "the URL's port is not a number from 1 to 65535"),
            ("http://h:+80", "the URL's port is not a number from 1 to 65535"),
            ("http://h:99999", "the URL's port is not a number from 1 to 65535"),
            ("http://h:", "the URL's port is not a number from 1 to 65535"),
            ("http://::1:80", "the URL's host has several colons"),
            ("http://[::1", "the URL's IPv6 address has no closing bracket"),
            ("http://[gpu]:1", "what stands in brackets is not an IPv6 address"),
            (
                "http://h h:1",
                "the URL holds a space, a control character or a letter outside ASCII",
            ),
            (
                "http://h(1):1",
                "the URL's host holds a character that host names cannot have",
            ),
            (
                "http://h:1/v1/chat/completions",
                "the URL ends in `/chat/completions`",
            ),
        ] {
            assert_eq!(name(url), expect);
        }
    }
}
