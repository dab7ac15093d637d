//! Where engines tell what their prefix caches hold, and how their tokens are made.

use std::path::PathBuf;

/// An address of ZeroMQ over TCP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// A name, an address (IPv6 without brackets), or `*` for all interfaces.
    pub host: String,
    /// Never 0.
    pub port: u16,
}

impl Place {
    /// Reads `tcp://host:port`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(place) = text.strip_prefix("tcp://") else {
            return Err(
                "an address of ZeroMQ over TCP begins with `tcp://`; other transports are not supported",
            );
        };
        let (host, port) = place.rsplit_once(':').ok_or("the address has no port")?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let valid = match bracketed {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => host == "*" || (!host.is_empty() && host.chars().all(plain)),
        };
        if !valid {
            return Err("what stands before the port is no host name or address (IPv6 in brackets)");
        }
        match port.parse::<u16>() {
            Ok(port) if port > 0 => Ok(Self {
                host: bracketed.unwrap_or(host).to_owned(),
                port,
            }),
            _ => Err("what follows the colon is not a port from 1 to 65535"),
        }
    }

    /// As rank `rank` of a data-parallel engine has it: engines add the rank to the port.
    #[must_use]
    pub fn of_rank(&self, rank: u16) -> Option<Self> {
        let port = self.port.checked_add(rank)?;
        Some(Self {
            host: self.host.clone(),
            port,
        })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "tcp://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "tcp://{}:{}", self.host, self.port)
        }
    }
}

/// Where the events of one engine come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEvents {
    /// Where they are published.
    pub source: Source,
    /// Where what got lost can be asked for again; none: nowhere.
    pub replay: Option<Place>,
}

impl KvEvents {
    /// As rank `rank` of a data-parallel engine has them, see [`Place::of_rank`].
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> Option<Self> {
        let rank = u16::try_from(rank).ok()?;
        Some(Self {
            source: match &self.source {
                Source::Bind(place) => Source::Bind(place.of_rank(rank)?),
                Source::Connect(place) => Source::Connect(place.of_rank(rank)?),
            },
            replay: match &self.replay {
                Some(place) => Some(place.of_rank(rank)?),
                None => None,
            },
        })
    }
}

/// Who connects to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The engine connects to this address.
    Bind(Place),
    /// The engine listens at this address.
    Connect(Place),
}

/// How text becomes tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokenizer {
    /// `tokenizer.json`.
    pub path: PathBuf,
    /// A Jinja template, or a `tokenizer_config.json` that holds one; none: chats are not rendered.
    pub chat_template: Option<PathBuf>,
}
