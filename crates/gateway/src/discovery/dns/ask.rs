//! Questions to name servers.

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError, NoRecords};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, RecordType};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Longest wait for one answer; it is asked once more then.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time for a whole question, search domains and all.
const QUESTION_MAX: Duration = Duration::from_secs(6);
/// Life of what needs no question.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// Asks name servers.
pub(super) struct Asker(TokioResolver);

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    /// A.
    Four,
    /// AAAA.
    Six,
}

/// What was said of the addresses of a name.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// These, for this long.
    Records(BTreeSet<IpAddr>, Duration),
    /// There are none.
    Nothing,
    /// It is not known; for a person.
    Failed(String),
}

/// What was said of a service; no record: there is none.
#[derive(Default)]
pub(super) struct Service {
    pub(super) records: Vec<ServiceRecord>,
    pub(super) ttl: Duration,
}

/// An SRV record.
pub(super) struct ServiceRecord {
    pub(super) priority: u16,
    pub(super) weight: u16,
    pub(super) port: u16,
    /// Without the dot at its end.
    pub(super) target: String,
}

impl Asker {
    /// Of these name servers, or the system's as its files name them now.
    pub(super) fn new(servers: &[SocketAddr]) -> Result<Self, String> {
        let failed = |error: NetError| format!("the resolver cannot be set up: {error}");
        let mut builder = if servers.is_empty() {
            TokioResolver::builder_tokio().map_err(failed)?
        } else {
            let servers = servers.iter().map(server).collect();
            let mut options = ResolverOpts::default();
            options.use_hosts_file = ResolveHosts::Never;
            let config = ResolverConfig::from_parts(None, Vec::new(), servers);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()).with_options(options)
        };
        let options = builder.options_mut();
        options.cache_size = 0;
        options.timeout = TIMEOUT;
        options.attempts = 1;
        builder.build().map(Self).map_err(failed)
    }

    async fn ask(&self, name: &str, kind: RecordType) -> Result<Option<Lookup>, String> {
        let asked = tokio::time::timeout(QUESTION_MAX, self.0.lookup(name, kind));
        match asked.await {
            Ok(Ok(lookup)) => Ok(Some(lookup)),
            Ok(Err(error)) if says_there_is_none(&error) => Ok(None),
            Ok(Err(error)) => Err(format!("{kind} of {name}: {}", reason(&error))),
            Err(_) => Err(format!("{kind} of {name}: no answer in time")),
        }
    }

    pub(super) async fn addresses(&self, name: &str, family: Question) -> Answer {
        if let Ok(address) = name.parse::<IpAddr>() {
            return if address.is_ipv4() == (family == Question::Four) {
                Answer::Records([address].into(), FOR_EVER)
            } else {
                Answer::Nothing
            };
        }
        let kind = match family {
            Question::Four => RecordType::A,
            Question::Six => RecordType::AAAA,
        };
        let lookup = match self.ask(name, kind).await {
            Ok(Some(lookup)) => lookup,
            Ok(None) => return Answer::Nothing,
            Err(error) => return Answer::Failed(error),
        };
        let addresses = lookup.answers().iter().filter_map(|record| match record.data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        });
        let addresses: BTreeSet<_> = addresses.collect();
        if addresses.is_empty() {
            return Answer::Nothing;
        }
        Answer::Records(addresses, ttl(&lookup))
    }

    pub(super) async fn services(&self, name: &str) -> Result<Service, String> {
        let Some(lookup) = self.ask(name, RecordType::SRV).await? else {
            return Ok(Service::default());
        };
        let records = lookup.answers().iter().filter_map(|record| match &record.data {
            // A target of "." says that the service is not there.
            RData::SRV(record) if !record.target.is_root() && record.port > 0 => Some(ServiceRecord {
                priority: record.priority,
                weight: record.weight,
                port: record.port,
                target: record
                    .target
                    .to_ascii()
                    .trim_end_matches('.')
                    .to_ascii_lowercase(),
            }),
            _ => None,
        });
        Ok(Service {
            records: records.collect(),
            ttl: ttl(&lookup),
        })
    }
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let connection = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(connection);
    NameServerConfig::new(address.ip(), true, connections.into())
}

/// The shortest life of any record on the way to the answer.
fn ttl(lookup: &Lookup) -> Duration {
    let least = lookup.answers().iter().map(|record| record.ttl).min();
    Duration::from_secs(u64::from(least.unwrap_or(0)))
}

/// Whether the answer is that there is nothing, which is another thing than no answer.
fn says_there_is_none(error: &NetError) -> bool {
    matches!(
        error,
        NetError::Dns(DnsError::NoRecordsFound(NoRecords {
            response_code: ResponseCode::NXDomain | ResponseCode::NoError,
            ..
        }))
    )
}

fn reason(error: &NetError) -> String {
    match error {
        NetError::Dns(
            DnsError::ResponseCode(response_code) | DnsError::NoRecordsFound(NoRecords { response_code, .. }),
        ) => format!("the name server says {response_code}"),
        NetError::Timeout => "no answer in time".to_owned(),
        other => other.to_string(),
    }
}
