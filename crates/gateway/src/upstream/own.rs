//! Which connections would lead back to this gateway.
//!
//! What a URL leads to is known for certain only when it is connected: there are many ways to write an address, and
//! names besides. A request that the gateway sends to itself comes back as a new one, until no connection is left.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;

/// Where the gateway itself listens, once it does.
#[derive(Clone, Default)]
pub(crate) struct Own(Arc<OnceLock<SocketAddr>>);

impl Own {
    /// It listens at `address`, with the port that it got.
    pub(crate) fn listens(&self, address: SocketAddr) {
        // One gateway has one listener for as long as it runs.
        let _ = self.0.set(address);
    }

    /// Connects to `address` unless it turns out to be the gateway's own.
    pub(crate) async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        if let Some(listen) = self.0.get()
            && address.port() == listen.port()
            && is_own(stream.peer_addr()?.ip(), stream.local_addr()?.ip(), listen.ip())
        {
            return Err(io::Error::other(format!(
                "{address} is this gateway itself, so requests would go in circles"
            )));
        }
        Ok(stream)
    }
}

/// Whether a connection from `local` to `peer`, on the port of our listener at `listen`, leads to that listener.
fn is_own(peer: IpAddr, local: IpAddr, listen: IpAddr) -> bool {
    let (peer, local, host) = (peer.to_canonical(), local.to_canonical(), listen.to_canonical());
    if !host.is_unspecified() {
        return peer == host;
    }
    // All addresses of IPv4, or of both kinds.
    (peer == local || peer.is_loopback()) && (peer.is_ipv4() || listen.is_ipv6())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_told_from_those_of_others() {
        for (peer, local, listen, own) in [
            ("127.0.0.1", "127.0.0.1", "127.0.0.1", true),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.1", "::ffff:127.0.0.1", true),
            ("127.0.0.2", "127.0.0.1", "127.0.0.1", false),
            ("::1", "::1", "127.0.0.1", false),
            ("10.0.0.7", "10.0.0.7", "10.0.0.7", true),
            ("10.0.0.8", "10.0.0.7", "10.0.0.7", false),
            ("10.0.0.7", "10.0.0.7", "0.0.0.0", true),
            ("10.0.0.8", "10.0.0.7", "0.0.0.0", false),
            ("127.0.0.2", "127.0.0.1", "0.0.0.0", true),
            ("::1", "::1", "0.0.0.0", false),
            ("::1", "::1", "::", true),
            ("127.0.0.1", "127.0.0.1", "::", true),
            ("fd00::1", "fd00::2", "::", false),
        ] {
            let [a, b, c] = [peer, local, listen].map(|text| text.parse().unwrap());
            assert_eq!(is_own(a, b, c), own, "{local} to {peer}, listening at {listen}");
        }
    }
}
