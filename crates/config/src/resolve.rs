//! From sections to the resolved config: defaults, names, rules that span keys.

pub(crate) mod choice;
mod cors;
mod discovery;
mod fallbacks;
mod filters;
mod keys;
mod kv_events;
mod pools;
mod retry;
mod routes;
mod scrape;
mod server;
mod tls;

use crate::model::File;
use crate::read::{At, Reader};
use crate::resolved::{Config, Endpoint};
use crate::warnings;
use crate::yaml::Tree;
pub(crate) use discovery::read_endpoints;
pub(crate) use pools::Resolved;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use weighbridge_core::spec::FleetSpec;

/// Resolves a file at the time `now` (Unix seconds, for keys that have ended). What is wrong is reported to the reader; the result counts only if nothing was.
pub(crate) fn resolve(reader: &mut Reader<'_>, file: File, now: i64) -> Config {
    let listen_node = file
        .server
        .as_ref()
        .and_then(|server| server.value.listen.as_ref())
        .map(|listen| listen.node);
    let server = server::server(reader, file.server.map(|at| at.value).unwrap_or_default());
    let admin = server::admin(reader, file.admin, server.listen);
    let log = server::log(file.log.map(|at| at.value).unwrap_or_default());
    let auth_node = file
        .auth
        .as_ref()
        .map(|auth| auth.node)
        .or(listen_node)
        .unwrap_or(Tree::ROOT);
    let key_nodes = file.keys.as_ref().map(|keys| keys.node);
    let given = file.keys.as_ref().is_some_and(|keys| !keys.value.is_empty());
    let keys = keys::keys(reader, file.keys.map(|at| at.value).unwrap_or_default());
    let auth = server::auth(
        reader,
        server::AuthFacts {
            auth: file.auth.map(|at| at.value),
            node: auth_node,
            keys: given,
            key_nodes,
            listen: server.listen,
        },
    );

    let cors = file.cors.and_then(|given| cors::cors(reader, given, auth));
    let pools_at = file.pools.as_ref().map_or(Tree::ROOT, |pools| pools.node);
    let empty = file.pools.as_ref().is_some_and(|pools| pools.value.is_empty());
    if empty && reader.problems.is_empty() {
        reader.problem(
            pools_at,
            "there is no pool, so there is nothing to send requests to",
            "add a pool with a name and its endpoints",
        );
    }
    reader.own_listeners = own_listeners(server.listen, admin.listen);
    let pools = pools::pools(reader, file.pools.map(|at| at.value).unwrap_or_default());
    let routes = routes::routes(
        reader,
        file.routes.map(|at: At<_>| at.value).unwrap_or_default(),
        &pools,
    );

    own_address(reader, &pools);
    warnings::providers(reader, &pools);
    warnings::same_source(reader, &pools);
    warnings::weights(reader, &pools);
    let (pool_specs, pools): (Vec<_>, Vec<_>) = pools.into_iter().map(|pool| (pool.spec, pool.pool)).unzip();
    let (route_specs, routes): (Vec<_>, Vec<_>) = routes.into_iter().unzip();
    warnings::keys(reader, &keys, &route_specs, now);
    warnings::literal_variables(reader);
    let zone = server.zone.as_deref().map(Arc::from);
    Config {
        server,
        admin,
        auth,
        cors,
        log,
        keys: keys.into_iter().map(|key| key.value).collect(),
        fleet: FleetSpec {
            pools: pool_specs,
            routes: route_specs,
            seed: 0,
            zone,
        },
        pools,
        routes,
        written: Arc::default(),
    }
}

/// Where the gateway itself listens, by the key that says so.
fn own_listeners(server: SocketAddr, admin: Option<SocketAddr>) -> Vec<(&'static str, SocketAddr)> {
    let admin = admin.map(|listen| ("admin.listen", listen));
    [("server.listen", server)].into_iter().chain(admin).collect()
}

/// Refuses endpoints that are the gateway itself: it would send every request to itself until no connection is left.
fn own_address(reader: &mut Reader<'_>, pools: &[Resolved]) {
    let own = reader.own_listeners.clone();
    for ((key, listen), pool) in (own.into_iter()).flat_map(|own| pools.iter().map(move |pool| (own, pool))) {
        let places = reader
            .child(pool.node, "endpoints")
            .map(|list| reader.children(list))
            .unwrap_or_default();
        for (endpoint, place) in pool.pool.endpoints.iter().zip(places) {
            if endpoint.reaches(listen) {
                reader.problem(
                    place,
                    format!("this is `{key}`, the gateway's own address, so requests would go in circles"),
                    "give the address of the engine",
                );
            }
        }
    }
}

impl Endpoint {
    /// Whether it certainly is a listener of this machine; other names of it are not looked up.
    #[must_use]
    pub fn reaches(&self, listen: SocketAddr) -> bool {
        let literal = address_of(&self.url.host).map(|host| SocketAddr::new(host, self.url.port));
        let own = listen.ip().to_canonical();
        literal.iter().chain(&self.addresses).any(|address| {
            // The system takes "any address" for its own.
            let host = match address.ip().to_canonical() {
                IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
                host => host,
            };
            let same = host == own || (own.is_unspecified() && host.is_loopback());
            same && address.port() == listen.port()
        })
    }
}

/// The address that `host` spells; none: a name.
fn address_of(host: &str) -> Option<IpAddr> {
    match host {
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        host => host.parse().ok().or_else(|| classic_ipv4(host).map(IpAddr::V4)),
    }
}

/// What the system's resolver takes for an IPv4 address beside four decimal numbers: one to four numbers in decimal, octal
/// or hexadecimal, of which the last fills all that is left (POSIX, `inet_addr`).
fn classic_ipv4(host: &str) -> Option<Ipv4Addr> {
    let number = |text: &str| {
        let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None if text.len() > 1 && text.starts_with('0') => (text, 8),
            None => (text, 10),
        };
        let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u32::from_str_radix(digits, radix).ok().filter(|_| plain)
    };
    let numbers: Option<Vec<u32>> = host.split('.').map(number).collect();
    let numbers = numbers?;
    let (last, heads) = numbers.split_last()?;
    if heads.len() > 3 || heads.iter().any(|head| *head > 255) {
        return None;
    }
    let room = 32 - 8 * heads.len();
    if u64::from(*last) >= 1 << room {
        return None;
    }
    let head = (heads.iter().zip([24, 16, 8])).fold(0, |sum, (head, shift)| sum | (head << shift));
    Some(Ipv4Addr::from(head | last))
}
