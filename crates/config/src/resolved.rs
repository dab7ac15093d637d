//! The resolved configuration: what the rest of the product reads. Valid by construction; defaults are filled in,
//! names are resolved, secrets are wrapped.

use crate::discovery::Discovery;
use crate::identity::{self, Identity};
use crate::paths::PassedPath;
use crate::scrape::{GpuMetrics, Scrape};
use crate::stand_ins::Written;
use secrecy::SecretString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::presets::Preset;
use weighbridge_core::spec::FleetSpec;

/// Everything a running gateway needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data plane's listener and limits.
    pub server: Server,
    /// The admin listener.
    pub admin: Admin,
    /// Who may use the data plane.
    pub auth: Auth,
    /// Pages that may call the data plane; none: no page of another origin may.
    pub cors: Option<Cors>,
    /// What is logged.
    pub log: Log,
    /// Client keys.
    pub keys: Vec<ClientKey>,
    /// What the scheduler needs; `fleet.pools[i]` belongs to `pools[i]`, `fleet.routes[i]` to `routes[i]`.
    pub fleet: FleetSpec,
    /// What relaying needs of each pool.
    pub pools: Vec<Pool>,
    /// What relaying needs of each route.
    pub routes: Vec<Route>,
    /// What it was made from.
    pub written: Arc<Written>,
}

/// `server`.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// TLS towards clients; none: they speak plainly.
    pub tls: Option<ServerTls>,
    /// Largest request body, bytes.
    pub max_body: usize,
    /// Most memory for the bodies of all requests, bytes; none: a share of what the process may have.
    pub body_memory: Option<usize>,
    /// Most client connections at once.
    pub max_connections: usize,
    /// How long new requests are still served after SIGTERM.
    pub drain_delay: Duration,
    /// How long running requests may go on after that.
    pub drain_timeout: Duration,
    /// Peers whose X-Forwarded-For counts.
    pub trusted_proxies: Vec<Network>,
    /// Which `x-weighbridge-*` headers clients get.
    pub headers: Headers,
    /// Further paths that go to engines as they are.
    pub passthrough: Vec<PassedPath>,
    /// The gateway's own zone.
    pub zone: Option<String>,
}

/// `server.tls`.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTls {
    /// PEM file of the certificate chain.
    pub cert: PathBuf,
    /// PEM file of its key.
    pub key: PathBuf,
    /// PEM file of the authorities of client certificates; none: clients need no certificate.
    pub client_ca: Option<PathBuf>,
    /// What the files held when they were loaded.
    pub identity: Identity,
}

impl ServerTls {
    /// SHA-256 of what the files hold now, in hexadecimal; compare it with [`Identity::hash`].
    #[must_use]
    pub fn hash_now(&self) -> String {
        let files = [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()];
        let read = files.map(|file| file.map(|path| identity::read(path).ok()));
        identity::hash(read.iter().flatten().map(Option::as_deref))
    }
}

/// An address range, `10.0.0.0/8` or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// First address.
    pub base: std::net::IpAddr,
    /// Leading bits that count.
    pub prefix: u8,
}

/// `server.headers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// All `x-weighbridge-*` headers.
    Full,
    /// Only `x-request-id`: nothing about the topology.
    Minimal,
}

/// `admin`.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Where the admin API listens; none: `admin: false`.
    pub listen: Option<SocketAddr>,
    /// The token; none: one is made at start and written to a file.
    pub token: Option<SecretString>,
}

/// `auth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// A key of `keys` is needed.
    Keys,
    /// Everybody may.
    None,
}

/// `cors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Origins of pages that may call the data plane; at least one.
    pub origins: Vec<Origin>,
}

/// Where a page comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Any origin but `null`.
    Any,
    /// This one, as browsers write it: `https://app.example`.
    Exact(String),
}

/// `log`.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// error, warn, info, debug or trace.
    pub level: String,
    /// Which requests get a line.
    pub requests: LogRequests,
    /// Time above which a request is always logged.
    pub slow: Option<Duration>,
    /// The share of slowest requests that is always logged, in [0, 1].
    pub slow_share: f64,
}

/// `log.requests`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LogRequests {
    /// Every request.
    All,
    /// Only what failed.
    Errors,
    /// This share of requests, in [0, 1]; failures always.
    Share(f64),
}

/// One entry of `keys`.
#[derive(Clone, Debug)]
pub struct ClientKey {
    /// For logs and metrics; two keys may share it while one is rotated out.
    pub name: Arc<str>,
    /// SHA-256 of the key; the key itself is not kept.
    pub sha256: [u8; 32],
    /// When it ends, Unix seconds (start of that day or instant, UTC).
    pub expires: Option<i64>,
    /// Whom it belongs to.
    pub tenant: Option<Arc<str>>,
    /// Free-form tier.
    pub tier: Option<Arc<str>>,
    /// Routes it may use, `*` at the end of a name matches any rest; none: all.
    pub models: Option<Vec<Arc<str>>>,
}

/// `pools[].kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the documentation")]
pub enum Kind {
    Vllm,
    Sglang,
    LlamaCpp,
    Tgi,
    Ollama,
    TrtLlm,
    MistralRs,
    LmDeploy,
    OpenAi,
    Anthropic,
    Gemini,
    Azure,
    Generic,
}

/// What relaying needs of a pool.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name.
    pub name: Arc<str>,
    /// What runs there.
    pub kind: Kind,
    /// Name sent upstream; none: the client's.
    pub model: Option<Arc<str>>,
    /// For people and decision services.
    pub description: Option<String>,
    /// In the order of the fleet spec. Where they are discovered: those known so far.
    pub endpoints: Vec<Endpoint>,
    /// Data-parallel ranks behind each URL whose endpoint does not say itself; 1: none.
    pub ranks: u32,
    /// Who says what the endpoints are; none: the config.
    pub discovery: Option<Discovery>,
    /// Upstream keys, rotated; empty: none is sent.
    pub api_keys: Vec<SecretString>,
    /// Whether the client's own key is passed on.
    pub forward_client_key: bool,
    /// Version of HTTP that its endpoints are spoken to in.
    pub http: HttpVersion,
    /// TLS towards its https endpoints.
    pub tls: PoolTls,
    /// Idle time after which a pooled connection is dropped.
    pub keepalive: Duration,
    /// Clocks.
    pub timeouts: Timeouts,
    /// Whether a request whose reused connection turned out dead is sent once more on a fresh one.
    pub resend: bool,
    /// How to probe; none: not.
    pub health: Option<Health>,
    /// Where its engines say how busy they are; none: they are not asked.
    pub scrape: Option<Scrape>,
    /// How its engines make tokens of text; none: not known.
    pub tokenizer: Option<crate::kv_events::Tokenizer>,
    /// How its endpoints are measured.
    pub calibrate: Calibrate,
}

/// `pools[].calibrate`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calibrate {
    /// When it is done unasked, every day: seconds since midnight, UTC.
    pub at: Option<u32>,
    /// How.
    pub rate: Rate,
}

/// What is asked of an endpoint to see how fast it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Most tokens of each answer.
    pub tokens: u32,
    /// Requests at once.
    pub requests: u32,
    /// Most requests in flight with which an endpoint is measured.
    pub max_inflight: u32,
    /// Longest measurement, and longest wait for an endpoint that is busy.
    pub timeout: Duration,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            tokens: 128,
            requests: 4,
            max_inflight: 2,
            timeout: Duration::from_secs(60),
        }
    }
}

/// One endpoint's address.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its name.
    pub name: Arc<str>,
    /// Where it is.
    pub url: BaseUrl,
    /// Where to connect instead of looking up the URL's host, in the order in which to try; empty: look it up.
    pub addresses: Vec<SocketAddr>,
    /// Free-form labels.
    pub labels: Vec<(String, String)>,
    /// Where an exporter says how busy its GPUs are.
    pub gpus: Option<GpuMetrics>,
    /// Where its engine tells what it holds; none: it does not.
    pub kv_events: Option<crate::kv_events::KvEvents>,
    /// Data-parallel ranks behind its URL, where it says so itself.
    pub ranks: Option<u32>,
    /// Which of these it is; none: the URL holds no ranks.
    pub rank: Option<u32>,
}

impl Endpoint {
    /// The name of the endpoint that it is a rank of; none: it is no rank.
    #[must_use]
    pub fn base_name(&self) -> Option<&str> {
        self.rank?;
        self.name.rsplit_once('#').map(|(base, _)| base)
    }
}

/// The base of an endpoint's URLs: scheme, host, port, path prefix, query.
#[derive(Clone, Debug)]
pub struct BaseUrl {
    /// Whether TLS is used.
    pub https: bool,
    /// Host name or address literal, IPv6 without brackets.
    pub host: String,
    /// Port, 80 or 443 where the URL names none.
    pub port: u16,
    /// Value of the `host` header: host (bracketed for IPv6) and port where it is not the scheme's own.
    pub authority: String,
    /// Path prefix without a trailing slash and without a trailing `/v1`; may be empty.
    pub prefix: String,
    /// Query that is appended to every request, without `?`; may hold a secret.
    pub query: Option<SecretString>,
}

/// `pools[].tls`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolTls {
    /// PEM file of trusted authorities instead of the system's.
    pub ca: Option<PathBuf>,
    /// PEM file of our certificate chain.
    pub client_cert: Option<PathBuf>,
    /// PEM file of its key.
    pub client_key: Option<PathBuf>,
    /// Name to verify and to send as SNI instead of the host.
    pub server_name: Option<String>,
}

/// `http`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// What the peer prefers of both over TLS, HTTP/1.1 without TLS.
    Auto,
    /// HTTP/1.1.
    One,
    /// HTTP/2.
    Two,
}

impl HttpVersion {
    /// The word of the config.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::One => "1",
            Self::Two => "2",
        }
    }
}

/// `timeouts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To make a connection.
    pub connect: Duration,
    /// Streams: to the first byte of the body.
    pub first_byte: Duration,
    /// Streams: between parts that are not comments or pings.
    pub idle: Duration,
    /// Answers in one piece: whole attempt.
    pub total: Duration,
    /// Streams: whole attempt; none: no limit.
    pub stream_total: Option<Duration>,
    /// HTTP/2: silence of a connection after which a PING is sent, and the wait for its answer.
    pub ping: Duration,
}

/// `health`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// How.
    pub probe: Probe,
    /// Longest wait for the answer.
    pub timeout: Duration,
}

/// The kind of probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// GET of a path.
    Http {
        /// Path on the endpoint's host.
        path: String,
        /// Statuses that are healthy; empty: any 2xx.
        expect: Vec<u16>,
    },
    /// A connection can be made.
    Tcp,
}

/// What relaying needs of a route.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name: what clients put into `model`.
    pub name: Arc<str>,
    /// Whether it was made from a pool that no route names.
    pub implied: bool,
    /// Why it chooses as it does.
    pub chosen: Chosen,
    /// Names of its targets, in the order of the fleet spec, with the pool of each.
    pub targets: Vec<(Arc<str>, usize)>,
    /// What its `retry.resend` says about sending once more where a reused connection turned out dead; none: the
    /// pool's [`Pool::resend`] decides.
    pub resend: Option<bool>,
    /// How token counts are learned.
    pub usage: Usage,
    /// Streams: time without a byte after which the client is sent a sign of life; none: never.
    pub heartbeat: Option<Duration>,
    /// Whether an answer whose client has left is read to its end.
    pub finish: bool,
}

/// Why a route chooses as it does; follows from the config alone, never from what discovery found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// It says so: weights of its targets, `policies` or `route_by`.
    Asked,
    /// It names this preset.
    Preset(Preset),
    /// It says nothing, and has more than one candidate: the preset `auto`.
    Implied,
    /// It says nothing, and its endpoints have weights of their own: in turn, by these.
    EndpointWeights,
    /// It says nothing, and has one candidate.
    Alone,
}

impl Chosen {
    /// The preset that stands behind its policies; none: they are its own, or it has none.
    #[must_use]
    pub const fn preset(self) -> Option<Preset> {
        match self {
            Self::Preset(preset) => Some(preset),
            Self::Implied => Some(Preset::Auto),
            Self::Asked | Self::EndpointWeights | Self::Alone => None,
        }
    }
}

/// `routes[].usage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Streams are asked for them.
    Inject,
    /// From answers that carry them.
    Passive,
}
