//! Which headers pass, in both directions, and the request's id.

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderName, LOCATION,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SERVER, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue};
use memchr::memmem;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest request id taken from a client.
const REQUEST_ID_MAX: usize = 128;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("api-key");
const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const SET_COOKIE2: HeaderName = HeaderName::from_static("set-cookie2");

/// Headers about one connection only.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    [
        CONNECTION,
        TRANSFER_ENCODING,
        TE,
        TRAILER,
        UPGRADE,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
    ]
    .contains(name)
        || *name == KEEP_ALIVE
        || *name == PROXY_CONNECTION
}

/// Headers that carry somebody's credentials.
pub(crate) fn is_credential(name: &HeaderName) -> bool {
    *name == AUTHORIZATION || *name == X_API_KEY || *name == API_KEY || *name == X_GOOG_API_KEY
}

/// Names listed in `connection`, which are hop-by-hop too.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect()
}

/// The client's headers that go upstream. The caller adds its own `host`, credentials, id and length.
pub(crate) fn forwarded(client: &HeaderMap, keep_credentials: bool) -> HeaderMap {
    let named = named_by_connection(client);
    let mut upstream = HeaderMap::with_capacity(client.len() + 4);
    for (name, value) in client {
        let own = [HOST, CONTENT_LENGTH, EXPECT, COOKIE].contains(name) || *name == X_REQUEST_ID;
        let internal = is_internal(name);
        let secret = is_credential(name) && !keep_credentials;
        if !own && !internal && !secret && !is_hop_by_hop(name) && !named.contains(name) {
            upstream.append(name.clone(), value.clone());
        }
    }
    upstream
}

/// Headers that speak to the gateway and mean nothing upstream.
fn is_internal(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("x-weighbridge-") || name == "x-model" || name == "x-model-name"
}

/// Answers are asked for unencoded, so that events, errors and token counts can be read.
pub(crate) fn ask_for_identity(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// The upstream's headers that reach the client: none about the connection, no cookies, none that leads elsewhere, none
/// that could hold one of `secrets`.
pub(crate) fn returned(upstream: &HeaderMap, secrets: &[String]) -> HeaderMap {
    let named = named_by_connection(upstream);
    let mut client = HeaderMap::with_capacity(upstream.len() + 10);
    for (name, value) in upstream {
        let dropped = is_hop_by_hop(name)
            || is_credential(name)
            || [SET_COOKIE, LOCATION, SERVER].contains(name)
            || *name == SET_COOKIE2
            || *name == X_REQUEST_ID
            || is_ours(name.as_str())
            || named.contains(name)
            || holds_secret(value.as_bytes(), secrets);
        if !dropped {
            client.append(name.clone(), value.clone());
        }
    }
    client
}

/// Headers that say what only the gateway may say: of itself, and of the pages that may read its answers.
fn is_ours(name: &str) -> bool {
    name.starts_with("x-weighbridge-") || name.starts_with("access-control-")
}

/// Whether one of `secrets` stands in `bytes`.
pub(crate) fn holds_secret(bytes: &[u8], secrets: &[String]) -> bool {
    secrets.iter().any(|secret| {
        let secret = secret.as_bytes();
        bytes.len() >= secret.len() && memmem::find(bytes, secret).is_some()
    })
}

/// The text with every secret replaced.
pub(crate) fn without_secrets(text: &str, secrets: &[String]) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| {
        text.replace(secret.as_str(), "[masked]")
    })
}

/// The bytes with every secret written over, of the same length.
pub(crate) fn secrets_blanked(bytes: Bytes, secrets: &[String]) -> Bytes {
    if !holds_secret(&bytes, secrets) {
        return bytes;
    }
    let mut blanked = BytesMut::from(&*bytes);
    for secret in secrets.iter().map(String::as_bytes) {
        let mut at = 0;
        while let Some(found) = memmem::find(&blanked[at..], secret) {
            at += found;
            blanked[at..at + secret.len()].fill(b'*');
        }
    }
    blanked.freeze()
}

/// The client's own id if it is sane, else a new one.
pub(crate) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let sane = |id: &&str| {
        !id.is_empty()
            && id.len() <= REQUEST_ID_MAX
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
    };
    headers
        .get(X_REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(sane)
        .map_or_else(new_request_id, Arc::from)
}

/// 128 bits that no other process is likely to make, and none in this one: a keyed hash of a counter and the start.
fn new_request_id() -> Arc<str> {
    static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let keys = KEYS.get_or_init(|| [RandomState::new(), RandomState::new()]);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let [high, low] = [&keys[0], &keys[1]].map(|key| {
        let mut hasher = key.build_hasher();
        hasher.write_u64(count);
        hasher.finish()
    });
    hex(high, low)
}

fn hex(high: u64, low: u64) -> Arc<str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0_u8; 32];
    for (index, digit) in text.iter_mut().enumerate() {
        let half = if index < 16 { high } else { low };
        *digit = DIGITS[((half >> (60 - 4 * (index % 16))) & 15) as usize];
    }
    std::str::from_utf8(&text).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn credentials_cookies_and_hops_stay_here() {
        let client = map(&[
            ("authorization", "Bearer s"),
            ("x-api-key", "s"),
            ("api-key", "s"),
            ("cookie", "s"),
            ("connection", "close, x-drop"),
            ("x-drop", "1"),
            ("te", "trailers"),
            ("x-model", "m"),
            ("anthropic-version", "2023-06-01"),
            ("openai-organization", "o"),
        ]);
        let upstream = forwarded(&client, false);
        let names: Vec<_> = upstream.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["anthropic-version", "openai-organization"]);
        assert!(forwarded(&client, true).contains_key("authorization"));
    }

    #[test]
    fn answers_lose_what_could_leak() {
        let upstream = map(&[
            ("set-cookie", "a=b"),
            ("location", "http://elsewhere"),
            ("x-debug", "key=UPSECRET123;"),
            ("x-request-id", "up-1"),
            ("access-control-allow-origin", "*"),
            ("content-type", "application/json"),
        ]);
        let client = returned(&upstream, &["UPSECRET123".to_owned()]);
        let names: Vec<_> = client.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-type"]);
    }

    #[test]
    fn secrets_are_written_over_in_place() {
        let secrets = ["sk-long".to_owned(), "long".to_owned()];
        let blanked = |text: &'static str| secrets_blanked(Bytes::from_static(text.as_bytes()), &secrets);
        assert_eq!(blanked("a sk-long, long\"sk-long"), "a *******, ****\"*******");
        assert_eq!(blanked("sk-lon"), "sk-lon");
        assert_eq!(blanked(""), "");
    }

    #[test]
    fn ids_are_taken_if_sane_and_else_made() {
        assert_eq!(
            &*request_id(&map(&[("x-request-id", "abc-1.2_3:4")])),
            "abc-1.2_3:4"
        );
        for bad in ["", "a b", "a\"b"] {
            assert_eq!(request_id(&map(&[("x-request-id", bad)])).len(), 32);
        }
        assert_ne!(new_request_id(), new_request_id());
    }
}
