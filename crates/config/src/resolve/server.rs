//! `server`, `admin`, `auth` and `log`.

use crate::forms::Toggle;
use crate::leaf::or;
use crate::model::Auth as AuthWord;
use crate::model::server as model;
use crate::read::{At, Reader};
use crate::resolved::{Admin, Auth, Headers, Log, LogRequests, Server};
use crate::yaml::NodeId;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8800);
const ADMIN_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8801);

/// Share of slowest requests that are logged whatever `log.requests` says.
const SLOW_SHARE: f64 = 0.01;

pub(super) fn server(reader: &mut Reader<'_>, given: model::Server) -> Server {
    crate::warnings::zones(reader, given.zone.is_some());
    let listen = or(given.listen, |address| address.0, LISTEN);
    let headers = match given.headers.map(|at| at.value) {
        Some(model::Headers::Full) => Headers::Full,
        Some(model::Headers::Minimal) => Headers::Minimal,
        None if listen.ip().is_loopback() => Headers::Full,
        None => Headers::Minimal,
    };
    let max_body = match given.max_body {
        Some(size) if size.value.0 == 0 => {
            reader.problem(
                size.node,
                "no request fits into a body of 0 bytes",
                "write the largest body to accept, such as `32MiB`",
            );
            0
        }
        size => or(size, |size| size.0, 32 << 20),
    };
    let body_memory = given.body_memory.map(|At { node, value }| {
        if value.0 < max_body {
            reader.problem(
                node,
                "less than one body of `server.max_body` fits into this",
                "give at least as much as `server.max_body`, and room for several",
            );
        }
        usize::try_from(value.0).unwrap_or(usize::MAX)
    });
    Server {
        listen,
        tls: given.tls.and_then(|tls| super::tls::server(reader, tls.value)),
        max_body: usize::try_from(max_body).unwrap_or(usize::MAX),
        body_memory,
        max_connections: or(given.max_connections, |count| count.0 as usize, 20_000),
        drain_delay: or(given.drain_delay, |span| span.0, Duration::ZERO),
        drain_timeout: or(given.drain_timeout, |span| span.0, Duration::from_secs(30)),
        trusted_proxies: or(
            given.trusted_proxies,
            |list| list.into_iter().map(|range| range.value.0).collect(),
            Vec::new(),
        ),
        headers,
        passthrough: or(
            given.passthrough,
            |list| list.into_iter().map(|path| path.value).collect(),
            Vec::new(),
        ),
        zone: given.zone.map(|zone| zone.value.0),
    }
}

pub(super) fn admin(
    reader: &mut Reader<'_>,
    given: Option<At<Toggle<model::Admin>>>,
    data: SocketAddr,
) -> Admin {
    let (node, given) = match given {
        None => (None, model::Admin::default()),
        Some(At {
            value: Toggle::Off, ..
        }) => {
            return Admin {
                listen: None,
                token: None,
            };
        }
        Some(At {
            node,
            value: Toggle::On(admin),
        }) => (Some(node), admin),
    };
    let at = given
        .listen
        .as_ref()
        .map(|listen| listen.node)
        .or(node)
        .unwrap_or(crate::yaml::Tree::ROOT);
    let listen = or(given.listen, |address| address.0, ADMIN_LISTEN);
    if listen.port() == data.port()
        && listen.port() != 0
        && (listen.ip() == data.ip() || data.ip().is_unspecified() || listen.ip().is_unspecified())
    {
        reader.problem(
            at,
            format!(
                "the admin API and the data plane both listen on port {}",
                data.port()
            ),
            "give `admin.listen` or `server.listen` another port",
        );
    }
    Admin {
        listen: Some(listen),
        token: given.token.and_then(|token| token.value.0),
    }
}

/// What decides who may use the data plane.
pub(super) struct AuthFacts {
    pub(super) auth: Option<AuthWord>,
    /// Where `auth` stands, else `server.listen`, else the root.
    pub(super) node: NodeId,
    /// Whether a key is given, right or wrong.
    pub(super) keys: bool,
    pub(super) key_nodes: Option<NodeId>,
    pub(super) listen: SocketAddr,
}

pub(super) fn auth(reader: &mut Reader<'_>, facts: AuthFacts) -> Auth {
    match (facts.auth, facts.keys) {
        (Some(AuthWord::None), keys) => {
            if let (true, Some(node)) = (keys, facts.key_nodes) {
                reader.warn(
                    node,
                    "these keys have no effect, because `auth` is `none`",
                    "remove `auth: none` to ask clients for a key",
                );
            }
            Auth::None
        }
        (Some(AuthWord::Keys), false) => {
            reader.problem(
                facts.node,
                "`auth` is `keys`, but there is no key, so nobody could get in",
                "add `keys`, or write `auth: none`",
            );
            Auth::Keys
        }
        (_, true) => Auth::Keys,
        (None, false) if facts.listen.ip().is_loopback() => Auth::None,
        (None, false) => {
            reader.problem(
                facts.node,
                format!(
                    "{} can be reached from other machines, and no key is asked for",
                    facts.listen
                ),
                "add `keys`, or write `auth: none` if everybody who reaches it may use it",
            );
            Auth::Keys
        }
    }
}

pub(super) fn log(given: model::Log) -> Log {
    let level = match given.level.map(|at| at.value) {
        Some(model::Level::Error) => "error",
        Some(model::Level::Warn) => "warn",
        Some(model::Level::Info) | None => "info",
        Some(model::Level::Debug) => "debug",
        Some(model::Level::Trace) => "trace",
    };
    let requests = match given.requests.map(|at| at.value) {
        Some(model::Requests::All) | None => LogRequests::All,
        Some(model::Requests::Errors) => LogRequests::Errors,
        Some(model::Requests::Share(share)) => LogRequests::Share(share),
    };
    let (slow, slow_share) = match given.slow.map(|at| at.value) {
        None => (None, SLOW_SHARE),
        Some(model::Slow::PerCent(cent)) => (None, cent / 100.0),
        Some(model::Slow::Over(limit)) => (Some(limit), 0.0),
    };
    Log {
        level: level.to_owned(),
        requests,
        slow,
        slow_share,
    }
}
