//! Who may ask: the Host and Origin of browsers, and the bearer token.
//!
//! A web page that a user of this machine looks at can make the browser send requests to a loopback address. What it
//! sends says where it comes from: `Origin` names the page's site, and a name that was rebound to a loopback address
//! stands in `Host`. Both are refused before anything else is looked at, public paths included. A page can know neither
//! the token nor, with these two checks, see an answer.

use crate::Served;
use crate::answer::{Failure, Result};
use crate::table::{Access, ROUTES};
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, StatusCode};
use std::net::{IpAddr, SocketAddr};

/// Refuses a request that may not be answered.
pub(crate) fn check(served: &Served, request: &Parts) -> Result<()> {
    same_site(request, served.listen)?;
    if is_public(served, request) {
        return Ok(());
    }
    let missing = "this needs the admin token: send `Authorization: Bearer TOKEN`; the token is `admin.token` of the \
                   config, or stands in the file that the gateway named at its start";
    let given = bearer(&request.headers).ok_or_else(|| Failure::new(StatusCode::UNAUTHORIZED, missing))?;
    if served.is_token(given) {
        return Ok(());
    }
    let wrong = "the admin token is wrong: it is `admin.token` of the config, or stands in the file that the gateway \
                 named at its start; one that was made at the start is new with each start";
    Err(Failure::new(StatusCode::UNAUTHORIZED, wrong))
}

/// Whether the table says that anybody may ask this. What the table does not know is not public.
fn is_public(served: &Served, request: &Parts) -> bool {
    let asked = ROUTES
        .iter()
        .find(|route| route.verb.takes(&request.method) && route.path == request.uri.path());
    asked.is_some_and(|route| match route.access {
        Access::Token => false,
        Access::Public => true,
        Access::PublicOnLoopback => served.listen.ip().to_canonical().is_loopback(),
    })
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}

fn same_site(request: &Parts, listen: SocketAddr) -> Result<()> {
    let forbidden = |message: String| Failure::new(StatusCode::FORBIDDEN, message);
    let mut hosts = request.headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => return Err(Failure::bad("the request must have one Host header")),
    };
    // A request target with a host of its own counts like a Host header.
    for host in request
        .uri
        .authority()
        .map(Authority::as_str)
        .into_iter()
        .chain([host])
    {
        if !is_own(host, listen) {
            return Err(forbidden(format!(
                "the Host `{}` is not one of this listener: call it by {}",
                crate::names::shorten(host),
                if listen.ip().to_canonical().is_loopback() {
                    "127.0.0.1, [::1] or localhost"
                } else {
                    "its IP address; behind a proxy, have that send the address as Host"
                }
            )));
        }
    }
    for origin in request.headers.get_all(ORIGIN) {
        let site = origin.to_str().unwrap_or_default();
        let of_host = ["http://", "https://"].iter().any(|scheme| {
            site.split_at_checked(scheme.len()).is_some_and(|(start, rest)| {
                start.eq_ignore_ascii_case(scheme) && rest.eq_ignore_ascii_case(host)
            })
        });
        if !of_host {
            return Err(forbidden(format!(
                "requests from pages of another site (`{}`) are refused",
                crate::names::shorten(site)
            )));
        }
    }
    Ok(())
}

/// Whether `host`, with or without a port, can only mean this listener: a name of the loopback interface, or an address.
/// No other name, because whoever owns a name decides what it points to; an address cannot be rebound. On a loopback
/// listener only loopback addresses; elsewhere any, since the same listener can be reached by several.
fn is_own(host: &str, listen: SocketAddr) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host();
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    let Ok(address) = bare.parse::<IpAddr>().map(|address| address.to_canonical()) else {
        return false;
    };
    let own = listen.ip().to_canonical();
    address.is_loopback() || address == own || !own.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_and_addresses_are_own() {
        let loopback: SocketAddr = "127.0.0.1:8801".parse().unwrap();
        let all: SocketAddr = "0.0.0.0:8801".parse().unwrap();
        let cases = [
            ("127.0.0.1:8801", true, true),
            ("127.0.0.1", true, true),
            ("127.8.8.8:1", true, true),
            ("localhost:9", true, true),
            ("LOCALHOST", true, true),
            ("[::1]:8801", true, true),
            ("[::ffff:127.0.0.1]", true, true),
            ("10.0.0.7:8801", false, true),
            ("[fd00::7]", false, true),
            ("evil.example:8801", false, false),
            ("localhost.evil.example", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("127.0.0.1@evil.example", false, false),
            ("evil.example@127.0.0.1", false, false),
            ("gateway", false, false),
            ("", false, false),
            ("a b", false, false),
        ];
        for (host, on_loopback, elsewhere) in cases {
            assert_eq!(is_own(host, loopback), on_loopback, "{host} on loopback");
            assert_eq!(is_own(host, all), elsewhere, "{host} elsewhere");
        }
    }

    #[test]
    fn the_token_follows_the_scheme() {
        let bearer = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            super::bearer(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!(bearer("Bearer t"), Some(b"t".to_vec()));
        assert_eq!(bearer("bearer  t "), Some(b"t".to_vec()));
        assert_eq!(bearer("Basic t"), None);
        assert_eq!(bearer("t"), None);
    }
}
