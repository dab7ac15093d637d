//! Sources of endpoints: what they are called, and what they find is taken in as it is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use weighbridge_config::Config;
use weighbridge_config::discovery::{Discovered, Discovery, Dns, Records, read_endpoints};
use weighbridge_core::spec::Weight;

const SYSTEMS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// Every source of a config that is good.
pub(super) fn check(config: &Config) {
    check_tls(config);
    let sources: Vec<_> = config.pools.iter().map(|pool| pool.discovery.as_ref()).collect();
    for (index, source) in sources.iter().enumerate() {
        let listed = config.endpoints_of(index);
        assert_eq!(listed.len(), config.pools[index].endpoints.len());
        let Some(source) = source else { continue };
        assert!(!source.shown().is_empty() && source.asks_the_same(source));
        for other in sources.iter().flatten() {
            assert_eq!(source.asks_the_same(other), other.asks_the_same(source));
        }
        let found = match source {
            Discovery::Dns(dns) => {
                assert!(listed.is_empty());
                found(dns)
            }
            Discovery::File(path) => match read_endpoints(path, &super::env) {
                Ok((found, _)) => {
                    assert!(found == listed, "{found:?} became {listed:?}");
                    found
                }
                // A config may be good before its file is there.
                Err(problems) => {
                    assert!(problems.count() > 0 && listed.is_empty());
                    continue;
                }
            },
        };
        let mut changed = config.clone();
        changed.set_endpoints(index, &found);
        assert_eq!(changed.fleet.check(), Ok(()));
        assert!(changed.endpoints_of(index) == found);
        assert!(changed.endpoints_of(config.pools.len()).is_empty());
    }
}

/// What DNS may say of a name.
fn found(dns: &Dns) -> Vec<Discovered> {
    let addresses = |port: u16| SYSTEMS.map(|system| SocketAddr::new(system, port)).to_vec();
    let found: Vec<_> = match dns.records {
        Records::Address { port } => addresses(port).into_iter().map(|at| dns.at_address(at)).collect(),
        Records::Service => [80, 443, 8000]
            .map(|port| dns.at_target(("a.example", port), addresses(port), Weight::ONE))
            .into(),
    };
    for found in &found {
        let url = &found.endpoint.url;
        assert_eq!(url.https, dns.https);
        assert!(!url.host.is_empty() && url.authority.starts_with(&url.host) && !url.host.ends_with('.'));
        assert!(found.spec.name.ends_with(&dns.prefix) && !found.endpoint.addresses.is_empty());
    }
    found
}

/// What the files hold now is what they held a moment ago.
fn check_tls(config: &Config) {
    let Some(tls) = &config.server.tls else { return };
    assert_eq!(tls.identity.hash(), tls.hash_now());
    assert!(!tls.identity.certified().cert.is_empty());
    assert_eq!(tls.identity.client_roots().is_some(), tls.client_ca.is_some());
}
