//! Where a request comes from: the connection's address, or what trusted proxies say.

use super::flight::Flight;
use http::HeaderMap;
use std::net::IpAddr;
use weighbridge_config::resolved::Network;

/// The client's address: the connection's, or what trusted proxies say of it.
pub(super) fn client_ip(flight: &Flight, headers: &HeaderMap) -> IpAddr {
    let trusted = &flight.snapshot.config.server.trusted_proxies;
    let mut address = flight.client.peer.ip();
    let said: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    // From the nearest hop outwards: each trusted proxy vouches for the one before it.
    for hop in said.iter().rev() {
        if !trusted.iter().any(|network| contains(network, address)) {
            break;
        }
        match hop.trim().parse() {
            Ok(before) => address = before,
            Err(_) => break,
        }
    }
    address
}

fn contains(network: &Network, address: IpAddr) -> bool {
    let shift = |bits: u32| bits.saturating_sub(u32::from(network.prefix));
    match (network.base, address.to_canonical()) {
        (IpAddr::V4(base), IpAddr::V4(address)) => {
            (base.to_bits() ^ address.to_bits())
                .checked_shr(shift(32))
                .unwrap_or_default()
                == 0
        }
        (IpAddr::V6(base), IpAddr::V6(address)) => {
            (base.to_bits() ^ address.to_bits())
                .checked_shr(shift(128))
                .unwrap_or_default()
                == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_by_their_prefix() {
        let network = |base: &str, prefix| Network {
            base: base.parse().unwrap(),
            prefix,
        };
        let cases = [
            ("10.0.0.0", 8, "10.255.0.1", true),
            ("10.0.0.0", 8, "11.0.0.1", false),
            ("127.0.0.1", 32, "127.0.0.1", true),
            ("127.0.0.1", 32, "127.0.0.2", false),
            ("0.0.0.0", 0, "1.2.3.4", true),
            ("10.0.0.0", 8, "::ffff:10.1.2.3", true),
            ("fd00::", 8, "fd12::1", true),
            ("fd00::", 8, "fe80::1", false),
            ("::", 0, "fe80::1", true),
        ];
        for (base, prefix, address, inside) in cases {
            let found = contains(&network(base, prefix), address.parse().unwrap());
            assert_eq!(found, inside, "{address} in {base}/{prefix}");
        }
    }
}
