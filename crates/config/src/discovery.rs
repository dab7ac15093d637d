//! Endpoints that the config does not list: who says what they are, and how the config takes them in.

use crate::problems::{Problem, Problems};
use crate::ranks::expand;
use crate::resolved::{BaseUrl, Config, Endpoint};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::spec::{EndpointSpec, Weight};

/// Most endpoints that a pool takes from its source.
pub const ENDPOINTS_MAX: usize = 1024;

/// Who says what the endpoints of a pool are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// Name servers.
    Dns(Dns),
    /// A file with a list of endpoints; the path as it is to be opened.
    File(List),
}

/// A name that DNS has endpoints for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// The name, in small letters; a dot at its end keeps search domains out.
    pub name: String,
    /// Which records name endpoints.
    pub records: Records,
    /// Whether TLS is used.
    pub https: bool,
    /// Path prefix of the endpoints' URLs, without a slash at its end; may be empty.
    pub prefix: String,
    /// Least time for which an answer is kept.
    pub ttl_min: Duration,
    /// Most time for which an answer is kept.
    pub ttl_max: Duration,
    /// How long name servers must say that there are none until that is believed.
    pub empty_after: Duration,
    /// Labels of all its endpoints, as they are written.
    pub labels: Vec<(String, String)>,
    /// Name servers to ask; empty: the system's.
    pub resolver: Vec<SocketAddr>,
}

/// Which records name endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// A and AAAA: every address, at this port.
    Address {
        /// Port of all endpoints.
        port: u16,
    },
    /// SRV: every target, at its own port.
    Service,
}

/// An endpoint that a source names.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// For the scheduler.
    pub spec: EndpointSpec,
    /// For relaying.
    pub endpoint: Endpoint,
}

impl PartialEq for Discovered {
    /// Whether nothing about it has changed. The identity stands for the URL, whose query is a secret.
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
            && self.endpoint.addresses == other.endpoint.addresses
            && self.endpoint.labels == other.endpoint.labels
            && self.endpoint.gpus == other.endpoint.gpus
            && self.endpoint.kv_events == other.endpoint.kv_events
            && self.endpoint.ranks == other.endpoint.ranks
    }
}

/// A file that lists endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// Where it is.
    pub path: PathBuf,
    /// Ranks of an endpoint that does not say itself how many it has.
    pub ranks: u32,
}

impl Discovery {
    /// The source in words: `dns engines.example:8000`, `file endpoints.yaml`.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Dns(Dns { name, records, .. }) => match records {
                Records::Address { port } => format!("dns {name}:{port}"),
                Records::Service => format!("dns {name} (srv)"),
            },
            Self::File(list) => format!("file {}", list.path.display()),
        }
    }

    /// Whether what `other` found holds for this source as well: only times may differ.
    #[must_use]
    pub fn asks_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(list), Self::File(other)) => list.path == other.path,
            (Self::Dns(dns), Self::Dns(other)) => {
                let timeless = |dns: &Dns| Dns {
                    ttl_min: Duration::ZERO,
                    ttl_max: Duration::ZERO,
                    empty_after: Duration::ZERO,
                    ..dns.clone()
                };
                timeless(dns) == timeless(other)
            }
            _ => false,
        }
    }
}

impl Dns {
    /// The name as hosts are called: without the dot at its end.
    #[must_use]
    pub fn host(&self) -> &str {
        self.name.strip_suffix('.').unwrap_or(&self.name)
    }

    /// The endpoint at one address of the name. It is called after the address; requests to it and its certificate
    /// carry the name.
    #[must_use]
    pub fn at_address(&self, address: SocketAddr) -> Discovered {
        let url = self.url(self.host(), address.port());
        self.endpoint(address.to_string(), (url, vec![address]), Weight::ONE)
    }

    /// The endpoint that an SRV record names: `target` at the port of `addresses`, all of which are its own.
    #[must_use]
    pub fn at_target(
        &self,
        (target, port): (&str, u16),
        addresses: Vec<SocketAddr>,
        weight: Weight,
    ) -> Discovered {
        let url = self.url(target, port);
        self.endpoint(format!("{target}:{port}"), (url, addresses), weight)
    }

    fn endpoint(
        &self,
        name: String,
        (url, addresses): (BaseUrl, Vec<SocketAddr>),
        weight: Weight,
    ) -> Discovered {
        let mut identity = url.identity().to_string();
        for address in &addresses {
            identity.push_str(&format!(" {address}"));
        }
        let name: Arc<str> = format!("{name}{}", self.prefix).into();
        Discovered {
            spec: EndpointSpec {
                name: name.clone(),
                address: identity.into(),
                weight,
                labels: sorted(&self.labels),
                rank: None,
            },
            endpoint: Endpoint {
                name,
                url,
                addresses,
                labels: self.labels.clone(),
                gpus: None,
                kv_events: None,
                ranks: None,
                rank: None,
            },
        }
    }

    fn url(&self, host: &str, port: u16) -> BaseUrl {
        let usual = if self.https { 443 } else { 80 };
        BaseUrl {
            https: self.https,
            host: host.to_owned(),
            port,
            authority: if port == usual {
                host.to_owned()
            } else {
                format!("{host}:{port}")
            },
            prefix: self.prefix.clone(),
            query: None,
        }
    }
}

/// Labels as the scheduler looks them up: by name.
pub(crate) fn sorted(labels: &[(String, String)]) -> Arc<[(Arc<str>, Arc<str>)]> {
    let mut labels: Vec<_> = labels
        .iter()
        .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
        .collect();
    labels.sort();
    labels.into()
}

/// Reads a file of endpoints; also gives what may surprise. `env` gives the values of variables.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read_endpoints(
    list: &List,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(Vec<Discovered>, Vec<Problem>), Problems> {
    let ((specs, endpoints), warnings) = crate::resolve::read_endpoints(list, env)?;
    let found = specs
        .into_iter()
        .zip(endpoints)
        .map(|(spec, endpoint)| Discovered { spec, endpoint });
    Ok((found.collect(), warnings))
}

impl Config {
    /// The endpoints of the pool at `index`, as sources name them.
    #[must_use]
    pub fn endpoints_of(&self, index: usize) -> Vec<Discovered> {
        let (Some(spec), Some(pool)) = (self.fleet.pools.get(index), self.pools.get(index)) else {
            return Vec::new();
        };
        let both = spec.endpoints.iter().zip(&pool.endpoints);
        both.map(|(spec, endpoint)| Discovered {
            spec: spec.clone(),
            endpoint: endpoint.clone(),
        })
        .collect()
    }

    /// Puts `found` in the place of the endpoints of the pool at `index`, each with its ranks.
    pub fn set_endpoints(&mut self, index: usize, found: &[Discovered]) {
        if let (Some(spec), Some(pool)) = (self.fleet.pools.get_mut(index), self.pools.get_mut(index)) {
            let specs = found.iter().map(|found| found.spec.clone()).collect();
            let endpoints = found.iter().map(|found| found.endpoint.clone()).collect();
            (spec.endpoints, pool.endpoints) = expand((specs, endpoints), pool.ranks);
        }
    }
}
