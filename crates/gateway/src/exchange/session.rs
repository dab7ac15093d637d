//! The session key of a request: the first source of the route's chain that gives one.

use crate::snapshot::{RouteEntry, SessionKeys};
use http::HeaderMap;
use http::header::COOKIE;
use std::borrow::Cow;
use std::net::IpAddr;
use weighbridge_core::policies::session_affinity::{KeySource, SessionKey};
use weighbridge_core::work::Work;
use weighbridge_wire::{Api, Peek};

/// Everything of a request that a session key may come from.
pub(crate) struct Sources<'a> {
    pub(crate) api: Api,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) peek: &'a Peek,
    pub(crate) client_ip: IpAddr,
    pub(crate) presented_key: Option<&'a str>,
    /// What it asks of an engine, where routes look at it.
    pub(crate) work: Option<&'a Work>,
}

/// The key for `route`, hashed. Sources that need no body come first, the prompt's head last.
pub(crate) fn key(route: &RouteEntry, sources: &Sources<'_>) -> Option<SessionKey> {
    let keys = route.affinity.as_ref()?;
    let from_head = keys.head.iter().find_map(|source| from_head(source, sources));
    match from_head.or_else(|| from_body(keys, sources)) {
        Some(value) => Some(SessionKey::new(value.as_bytes())),
        None => Some(SessionKey::of_head(sources.work?.head(keys.head_bytes?)?)),
    }
}

fn from_head<'a>(source: &KeySource, sources: &Sources<'a>) -> Option<Cow<'a, str>> {
    let value = match source {
        KeySource::Header(name) => Cow::Borrowed(sources.headers.get(name.as_str())?.to_str().ok()?),
        KeySource::Cookie(name) => Cow::Borrowed(cookie(sources.headers, name)?),
        KeySource::ClientIp => Cow::Owned(sources.client_ip.to_string()),
        KeySource::ApiKey => Cow::Borrowed(sources.presented_key?),
        KeySource::Body(_) | KeySource::PromptHead(_) => return None,
    };
    let trimmed = value.trim();
    match trimmed.is_empty() {
        true => None,
        false if trimmed.len() == value.len() => Some(value),
        false => Some(Cow::Owned(trimmed.to_owned())),
    }
}

fn from_body<'a>(keys: &SessionKeys, sources: &Sources<'a>) -> Option<Cow<'a, str>> {
    if !keys
        .paths
        .iter()
        .any(|end| sources.api.path().ends_with(end.as_str()))
    {
        return None;
    }
    keys.body
        .iter()
        .find_map(|&index| sources.peek.found.get(index)?.as_deref())
        .map(Cow::Borrowed)
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(key, value)| (key.trim() == name).then(|| value.trim()))
}
