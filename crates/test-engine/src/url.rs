//! The little of URLs that tests on loopback need.

use std::net::{SocketAddr, ToSocketAddrs};

/// An `http://` or `https://` URL whose host has been looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Where to connect.
    pub addr: SocketAddr,
    /// Host and port as written, for the `host` header.
    pub authority: String,
    /// Path and query, at least `/`.
    pub path: String,
    /// Whether it is `https`.
    pub tls: bool,
}

impl Url {
    /// Reads a URL of the form `http://HOST[:PORT][/PATH]`, or with `https`.
    ///
    /// # Errors
    /// A text that says what is wrong with the URL.
    pub fn parse(text: &str) -> Result<Url, String> {
        let (tls, rest) = text
            .strip_prefix("http://")
            .map(|rest| (false, rest))
            .or_else(|| text.strip_prefix("https://").map(|rest| (true, rest)))
            .ok_or_else(|| format!("{text}: expected a URL http://HOST:PORT/PATH"))?;
        let (authority, path) = match rest.find(['/', '?']) {
            Some(i) if rest[i..].starts_with('/') => (&rest[..i], rest[i..].to_owned()),
            Some(i) => (&rest[..i], format!("/{}", &rest[i..])),
            None => (rest, "/".to_owned()),
        };
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, p)| !p.is_empty() && p.parse::<u16>().is_ok());
        let full = if has_port {
            authority.to_owned()
        } else {
            format!("{authority}:{}", if tls { 443 } else { 80 })
        };
        // Listeners of tests are on 127.0.0.1; the name would also stand for ::1.
        let lookup = full.replacen("localhost:", "127.0.0.1:", 1);
        let addr = lookup
            .to_socket_addrs()
            .map_err(|e| format!("{text}: cannot look up {authority}: {e}"))?
            .next();
        let addr = addr.ok_or_else(|| format!("{text}: {authority} has no address"))?;
        Ok(Url {
            addr,
            authority: authority.to_owned(),
            path,
            tls,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_host_port_and_path() {
        let url = Url::parse("http://127.0.0.1:81/v1/x?y=1").unwrap();
        assert_eq!(
            (url.addr.to_string().as_str(), url.path.as_str()),
            ("127.0.0.1:81", "/v1/x?y=1")
        );
        assert_eq!(
            Url::parse("http://[::1]:82").unwrap().addr.to_string(),
            "[::1]:82"
        );
        assert_eq!(Url::parse("http://localhost?q").unwrap().path, "/?q");
        assert_eq!(Url::parse("http://[::1]").unwrap().addr.port(), 80);
        let secure = Url::parse("https://[::1]").unwrap();
        assert!(secure.tls && secure.addr.port() == 443);
        assert!(
            Url::parse("ftp://127.0.0.1")
                .unwrap_err()
                .contains("expected a URL http://")
        );
    }
}
