//! One configuration, compiled for the request path. Immutable; a request keeps the one it started with.

use crate::admin_view::Behind;
use crate::discovery::Bell;
use crate::scrape::{self, Board};
use crate::telemetry::metrics::{AttemptCounters, Metrics, TargetSeries};
use crate::tokens::{PromptBlocks, Told};
use crate::upstream::addresses::Addresses;
use crate::upstream::own::Own;
use crate::upstream::tls;
use http::HeaderValue;
use http::header::{AUTHORIZATION, HeaderName};
use secrecy::ExposeSecret;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use weighbridge_config::discovery::Discovery;
use weighbridge_config::resolved::{self, Config, Kind};
use weighbridge_core::action::Bindings;
use weighbridge_core::policies::session_affinity::{Config as Affinity, KeySource};
use weighbridge_core::spec::{FleetSpec, RetrySpec, RouteSpec};
use weighbridge_core::work::Needs;
use weighbridge_core::{EndpointId, RouteId};
use weighbridge_wire::BodyPath;
use weighbridge_wire::metrics::{GpuSelect, Names};

/// Everything the request path reads.
pub struct Snapshot {
    /// What it was made from.
    pub config: Arc<Config>,
    /// Counts up with every reload.
    pub generation: u64,
    routes: HashMap<Arc<str>, Arc<RouteEntry>>,
    routes_by_id: HashMap<RouteId, Arc<RouteEntry>>,
    upstreams: HashMap<EndpointId, Arc<Upstream>>,
    /// What clients are met with, if under TLS.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// In the order of the config.
    pools: Vec<Arc<PoolEntry>>,
    /// Body paths that any route's session keys may come from.
    pub(crate) body_paths: Vec<BodyPath>,
}

/// A route, as requests meet it.
pub struct RouteEntry {
    /// The scheduler's id.
    pub id: RouteId,
    /// Its name.
    pub name: Arc<str>,
    /// In the order of the spec.
    pub targets: Vec<TargetEntry>,
    /// `round_robin`, `weight` or `policy`.
    pub route_by: &'static str,
    /// The preset that stands behind its policies.
    pub behind: Option<Behind>,
    /// What has to be found out for it, and for the routes that it falls back to.
    pub(crate) needs: Needs,
    /// Whether every pool that it may send to names its model itself, whatever the client calls it.
    pub(crate) names_model: bool,
    /// How prompts become blocks by the names of engines' events, of its first pool that has such; none: of none.
    pub(crate) exact: Option<Arc<PromptBlocks>>,
    /// What that pool, or else the first one, calls the model; none: as the client does.
    model: Option<Arc<str>>,
    pub(crate) affinity: Option<SessionKeys>,
    pub(crate) retry: RetrySpec,
    /// What the route says of re-sending; none: as the pool.
    pub(crate) resend: Option<bool>,
    pub(crate) usage: resolved::Usage,
    /// See [`resolved::Route::heartbeat`].
    pub(crate) heartbeat: Option<Duration>,
    /// See [`resolved::Route::finish`].
    pub(crate) finish: bool,
    /// Series of requests that no target served.
    pub(crate) unserved: TargetSeries,
}

/// A target of a route.
pub struct TargetEntry {
    /// Its name.
    pub name: Arc<str>,
    /// Name of its pool.
    pub(crate) pool: Arc<str>,
    pub(crate) series: TargetSeries,
}

/// Where the session key comes from, split by what it needs.
pub(crate) struct SessionKeys {
    /// Sources that need no body, in order.
    pub(crate) head: Vec<KeySource>,
    /// Body sources: indices into [`Snapshot::body_paths`], in order.
    pub(crate) body: Vec<usize>,
    /// Ends of paths on which body sources count.
    pub(crate) paths: Vec<String>,
    /// Most bytes of the prompt that stand for a session where nothing else does.
    pub(crate) head_bytes: Option<u64>,
}

/// What all endpoints of a pool share.
pub(crate) struct PoolEntry {
    pub(crate) config: resolved::Pool,
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    /// Where no endpoint can be.
    pub(crate) own: Own,
    /// Header that carries each upstream key; empty: no key is sent.
    pub(crate) credentials: Vec<(HeaderName, HeaderValue)>,
    /// Texts that must never reach a client: its keys in every form, the longest first.
    pub(crate) secrets: Vec<String>,
    /// Rung when one of its endpoints cannot be connected to; none: the config names them.
    pub(crate) bell: Option<Bell>,
    /// How its prompts become blocks by the names of its engines' events.
    pub(crate) blocks: Arc<PromptBlocks>,
    /// Metrics to look for; none: its engines are not asked.
    pub(crate) names: Option<Arc<Names>>,
    /// In its place where pages of metrics are asked for; none: itself.
    pub(crate) for_pages: Option<Arc<PoolEntry>>,
    /// In its place where the exporters of its endpoints' GPUs are asked.
    pub(crate) for_exporters: Option<Arc<PoolEntry>>,
}

/// What a new snapshot takes over.
#[derive(Default)]
pub(crate) struct Carried {
    /// The one before it, where nothing but discovered endpoints has changed.
    pub(crate) previous: Option<Arc<Snapshot>>,
    /// Bells of sources, by pool.
    pub(crate) bells: BTreeMap<Arc<str>, Bell>,
    /// Where the gateway itself listens.
    pub(crate) own: Own,
}

/// A pool with the `host` header of each of its endpoints.
pub(crate) type CompiledPool = (Arc<PoolEntry>, Vec<HeaderValue>);

/// What of a config can still fail, loaded before anything changes.
pub(crate) struct Compiled {
    pools: Vec<CompiledPool>,
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Compiled {
    /// Loads certificates and header values. What of `running` still holds is taken over: TLS sessions that clients may
    /// resume.
    pub(crate) fn new(
        config: &Config,
        carried: &Carried,
        running: Option<&Snapshot>,
    ) -> Result<Self, String> {
        let wanted = config.server.tls.as_ref();
        let tls = match running.filter(|running| running.config.server.tls.as_ref() == wanted) {
            Some(running) => running.tls.clone(),
            None => wanted.map(crate::client::tls::server_config).transpose()?,
        };
        Ok(Self {
            pools: compile_pools(config, carried, running)?,
            tls,
        })
    }
}

/// Loads what of the pools can fail, before anything changes.
fn compile_pools(
    config: &Config,
    carried: &Carried,
    running: Option<&Snapshot>,
) -> Result<Vec<CompiledPool>, String> {
    let compile = |(index, pool): (usize, &resolved::Pool)| {
        let hosts: Result<Vec<_>, String> = pool
            .endpoints
            .iter()
            .map(|endpoint| {
                HeaderValue::try_from(endpoint.url.authority.as_str()).map_err(|_| {
                    format!(
                        "pool `{}`: the host of endpoint `{}` is not valid",
                        pool.name, endpoint.name
                    )
                })
            })
            .collect();
        let before = carried.previous.as_ref().and_then(|snapshot| {
            let entry = snapshot.pools.get(index)?;
            Some((
                entry,
                snapshot.config.endpoints_of(index) == config.endpoints_of(index),
            ))
        });
        let entry = match before {
            Some((entry, true)) => entry.clone(),
            Some((entry, false)) => {
                let loaded = (entry.tls.clone(), entry.blocks.clone());
                Arc::new(PoolEntry::compile(pool, carried, loaded)?)
            }
            None => {
                let same = running.and_then(|running| running.pool_named(&pool.name));
                let told = same.map_or_else(Arc::<Told>::default, |same| same.blocks.told.clone());
                let loaded = (None, Arc::new(PromptBlocks::load(pool, told)?));
                Arc::new(PoolEntry::compile(pool, carried, loaded)?)
            }
        };
        Ok((entry, hosts?))
    };
    config.pools.iter().enumerate().map(compile).collect()
}

/// One endpoint, as requests meet it.
pub struct Upstream {
    /// The scheduler's id.
    pub id: EndpointId,
    /// Its name.
    pub name: Arc<str>,
    /// Free-form labels.
    pub labels: Vec<(String, String)>,
    /// Which data-parallel rank of its URL it is; none: the URL holds no ranks.
    pub rank: Option<u32>,
    /// How many ranks its URL holds; 0: none.
    pub(crate) ranks: u32,
    pub(crate) pool: Arc<PoolEntry>,
    pub(crate) url: resolved::BaseUrl,
    pub(crate) host: HeaderValue,
    /// Where its host is.
    pub(crate) addresses: Addresses,
    /// Where its engine tells of its cache.
    pub(crate) kv_events: Option<weighbridge_config::kv_events::KvEvents>,
    /// Scheduler time in ns of the newest byte of any stream; the same in every snapshot.
    pub(crate) last_byte: Arc<AtomicU64>,
    /// The same in every snapshot.
    pub(crate) attempts: Arc<AttemptCounters>,
    /// What its engine and GPUs say of themselves; the same in every snapshot.
    pub(crate) signals: Arc<Board>,
    /// Who is asked for the engine's metrics in its place; none: itself.
    pub(crate) metrics_at: Option<Arc<Upstream>>,
    /// Who is asked about its GPUs, and which are its own.
    pub(crate) gpus_at: Option<Arc<Upstream>>,
    pub(crate) gpus: Option<GpuSelect>,
}

impl Upstream {
    /// Name of its pool.
    #[must_use]
    pub fn pool_name(&self) -> &Arc<str> {
        &self.pool.config.name
    }

    /// Whether `name` is its own, or that of the endpoint that it is a rank of.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        *self.name == *name || self.base_name().is_some_and(|base| base == name)
    }

    /// The endpoint that it is a rank of; none: it is no rank.
    #[must_use]
    pub fn base_name(&self) -> Option<&str> {
        self.rank?;
        self.name.rsplit_once('#').map(|(base, _)| base)
    }

    /// Whether its connections show a client certificate.
    pub(crate) fn shows_certificate(&self) -> bool {
        self.pool.config.tls.client_cert.is_some()
    }

    /// Its URL as people may see it: what a query holds is masked.
    #[must_use]
    pub fn shown_url(&self) -> String {
        let scheme = if self.url.https { "https" } else { "http" };
        let query = if self.url.query.is_some() { "?[masked]" } else { "" };
        format!("{scheme}://{}{}{query}", self.url.authority, self.url.prefix)
    }
}

impl Snapshot {
    /// Puts together what [`Compiled`] loaded and the ids that the scheduler answered with.
    pub(crate) fn compile(
        config: Arc<Config>,
        Compiled { pools, tls }: Compiled,
        bindings: &Bindings,
        (generation, metrics, before): (u64, &Metrics, Option<&Snapshot>),
    ) -> Self {
        let mut body_paths = Vec::new();
        let mut upstreams = HashMap::new();
        let mut entries = Vec::with_capacity(pools.len());
        for ((pool, hosts), ids) in pools.into_iter().zip(&bindings.endpoints) {
            for ((endpoint, host), &id) in pool.config.endpoints.iter().zip(hosts).zip(ids) {
                let same = before.and_then(|before| before.upstreams.get(&id));
                let mut upstream = Upstream::new(&pool, endpoint, (id, host, metrics));
                upstream.take_over(same.map(|same| &**same));
                upstream.find_metrics(endpoint);
                upstreams.insert(id, Arc::new(upstream));
            }
            entries.push(pool);
        }
        // Most configs look at nothing; in the others every route is compared with every other.
        let looks = (config.fleet.routes.iter()).any(|route| route.needs() != Needs::NONE);
        let mut routes = HashMap::new();
        let mut routes_by_id = HashMap::new();
        for (index, (route, &id)) in config.routes.iter().zip(&bindings.routes).enumerate() {
            let spec = &config.fleet.routes[index];
            let affinity = spec
                .policies
                .session_affinity
                .as_ref()
                .map(|keys| SessionKeys::compile(keys, &mut body_paths));
            let (exact, model) = exact(route, &entries);
            let entry = Arc::new(RouteEntry {
                id,
                name: route.name.clone(),
                route_by: spec.route_by().as_str(),
                behind: Behind::of(route.chosen),
                targets: targets(route, &config, metrics),
                needs: if looks {
                    needs(&config.fleet, spec)
                } else {
                    Needs::NONE
                },
                names_model: route
                    .targets
                    .iter()
                    .all(|(_, pool)| config.pools[*pool].model.is_some()),
                affinity,
                retry: spec.retry.clone(),
                resend: route.resend,
                usage: route.usage,
                heartbeat: route.heartbeat,
                finish: route.finish,
                unserved: metrics.target(&route.name, ""),
                exact,
                model,
            });
            routes.insert(route.name.clone(), entry.clone());
            routes_by_id.insert(id, entry);
        }
        Self {
            config,
            generation,
            routes,
            routes_by_id,
            upstreams,
            tls,
            pools: entries,
            body_paths,
        }
    }

    /// The route of this name.
    #[must_use]
    pub fn route(&self, name: &str) -> Option<&Arc<RouteEntry>> {
        self.routes.get(name)
    }

    /// Whether the config names `path` as one that goes to engines as it is.
    pub(crate) fn passes(&self, path: &str) -> bool {
        (self.config.server.passthrough.iter()).any(|passed| passed.holds(path))
    }

    /// The one route that `visible` lets through; none if there is none, or more.
    pub(crate) fn only_route(&self, visible: impl Fn(&str) -> bool) -> Option<&Arc<RouteEntry>> {
        let mut found = self.routes.values().filter(|route| visible(&route.name));
        found.next().filter(|_| found.next().is_none())
    }

    fn pool_named(&self, name: &str) -> Option<&Arc<PoolEntry>> {
        self.pools.iter().find(|pool| *pool.config.name == *name)
    }

    /// The endpoint of this name in the pool of that name.
    pub(crate) fn upstream_named(&self, pool: &str, endpoint: &str) -> Option<&Arc<Upstream>> {
        (self.upstreams.values())
            .find(|upstream| **upstream.pool_name() == *pool && *upstream.name == *endpoint)
    }

    /// The route of this id.
    #[must_use]
    pub fn route_by_id(&self, id: RouteId) -> Option<&Arc<RouteEntry>> {
        self.routes_by_id.get(&id)
    }

    /// The endpoint of this id.
    #[must_use]
    pub fn upstream(&self, id: EndpointId) -> Option<&Arc<Upstream>> {
        self.upstreams.get(&id)
    }

    /// All endpoints, in no order.
    pub fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.values()
    }
}

/// What `route` looks at, or a route that a request may go on to from there.
fn needs(fleet: &FleetSpec, route: &RouteSpec) -> Needs {
    let mut seen = vec![&route.name];
    let mut at = 0;
    let mut all = Needs::NONE;
    while let Some(name) = seen.get(at).copied() {
        at += 1;
        let Some(route) = fleet.routes.iter().find(|route| route.name == *name) else {
            continue;
        };
        all = all.and(fleet.needs(route));
        for step in &route.fallback {
            if !seen.contains(&&step.route) {
                seen.push(&step.route);
            }
        }
    }
    all
}

fn targets(route: &resolved::Route, config: &Config, metrics: &Metrics) -> Vec<TargetEntry> {
    let target = |(name, pool): &(Arc<str>, usize)| TargetEntry {
        name: name.clone(),
        pool: config.pools[*pool].name.clone(),
        series: metrics.target(&route.name, name.clone()),
    };
    route.targets.iter().map(target).collect()
}

/// How prompts become blocks by the names of engines' events, and what the engines call the model: of the first pool of the
/// route that has such events, the latter else of its first pool.
fn exact(route: &resolved::Route, pools: &[Arc<PoolEntry>]) -> (Option<Arc<PromptBlocks>>, Option<Arc<str>>) {
    let mut of_route = route.targets.iter().filter_map(|(_, pool)| pools.get(*pool));
    let tells = |pool: &&Arc<PoolEntry>| pool.config.endpoints.iter().any(|at| at.kv_events.is_some());
    let told = of_route.clone().find(tells);
    let model = told
        .or(of_route.next())
        .and_then(|pool| pool.config.model.clone());
    (told.map(|pool| pool.blocks.clone()), model)
}

impl RouteEntry {
    /// What engines call the model that the client calls `model`.
    pub(crate) fn upstream_model<'a>(&'a self, model: &'a str) -> &'a str {
        self.model.as_deref().unwrap_or(model)
    }
}

impl SessionKeys {
    fn compile(config: &Affinity, body_paths: &mut Vec<BodyPath>) -> Self {
        let mut keys = Self {
            head: Vec::new(),
            body: Vec::new(),
            paths: config.paths.clone(),
            head_bytes: config.head_bytes(),
        };
        for source in &config.keys {
            let path = match source {
                KeySource::Body(path) => path,
                KeySource::PromptHead(_) => continue,
                _ => {
                    keys.head.push(source.clone());
                    continue;
                }
            };
            // The config has checked the paths; one that is none finds nothing.
            let Ok(path) = BodyPath::parse(path) else { continue };
            let index = body_paths
                .iter()
                .position(|known| *known == path)
                .unwrap_or_else(|| {
                    body_paths.push(path);
                    body_paths.len() - 1
                });
            keys.body.push(index);
        }
        keys
    }
}

impl PoolEntry {
    /// `tls` and `blocks` are what is loaded already.
    fn compile(
        pool: &resolved::Pool,
        carried: &Carried,
        (tls, blocks): (Option<Arc<rustls::ClientConfig>>, Arc<PromptBlocks>),
    ) -> Result<Self, String> {
        // Loaded before the first endpoint is known, so that what is wrong with it is told at the start.
        let will_need = matches!(&pool.discovery, Some(Discovery::Dns(dns)) if dns.https);
        let tls = if tls.is_none() && (will_need || pool.endpoints.iter().any(|endpoint| endpoint.url.https))
        {
            let config = tls::client_config(&pool.tls, pool.http);
            Some(config.map_err(|error| format!("pool `{}`: {error}", pool.name))?)
        } else {
            tls
        };
        let mut credentials = Vec::new();
        let mut secrets = Vec::new();
        for key in &pool.api_keys {
            let key = key.expose_secret();
            let (name, value) = match pool.kind {
                Kind::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
                Kind::Azure => (HeaderName::from_static("api-key"), key.to_owned()),
                Kind::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
                _ => (AUTHORIZATION, format!("Bearer {key}")),
            };
            let mut value = HeaderValue::try_from(value).map_err(|_| {
                format!(
                    "pool `{}`: an api_key holds characters that no header can carry",
                    pool.name
                )
            })?;
            value.set_sensitive(true);
            credentials.push((name, value));
            secrets.push(key.to_owned());
        }
        for endpoint in &pool.endpoints {
            secrets.extend(
                endpoint
                    .url
                    .query
                    .as_ref()
                    .into_iter()
                    .flat_map(|query| query_secrets(query.expose_secret())),
            );
        }
        let mut entry = Self {
            config: pool.clone(),
            tls,
            credentials,
            secrets: crate::secrets::forms(secrets.iter().map(String::as_str)),
            bell: carried.bells.get(&pool.name).cloned(),
            own: carried.own.clone(),
            blocks,
            names: pool.scrape.as_ref().map(|scrape| Arc::new(scrape::names(scrape))),
            for_pages: None,
            for_exporters: None,
        };
        entry.prepare_pages()?;
        Ok(entry)
    }
}

/// The values of a query string, each of which may be a secret.
fn query_secrets(query: &str) -> Vec<String> {
    const KNOWN_PUBLIC: [&str; 4] = ["api-version", "version", "alt", "deployment"];
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or(("", pair)))
        .filter(|(name, _)| !KNOWN_PUBLIC.contains(name))
        .map(|(_, value)| value.to_owned())
        .collect()
}

impl Upstream {
    fn new(
        pool: &Arc<PoolEntry>,
        endpoint: &resolved::Endpoint,
        (id, host, metrics): (EndpointId, HeaderValue, &Metrics),
    ) -> Self {
        Self {
            id,
            name: endpoint.name.clone(),
            labels: endpoint.labels.clone(),
            rank: endpoint.rank,
            ranks: endpoint.rank.and(endpoint.ranks).unwrap_or(0),
            pool: pool.clone(),
            url: endpoint.url.clone(),
            host,
            addresses: Addresses::new(&endpoint.url, &endpoint.addresses),
            kv_events: endpoint.kv_events.clone(),
            last_byte: Arc::default(),
            attempts: Arc::new(metrics.attempts(&pool.config.name, &endpoint.name)),
            signals: Arc::default(),
            metrics_at: None,
            gpus_at: None,
            gpus: None,
        }
    }

    /// Goes on with what lasts longer than a snapshot.
    fn take_over(&mut self, same: Option<&Self>) {
        if let Some(same) = same {
            self.last_byte = same.last_byte.clone();
            self.attempts = same.attempts.clone();
            self.signals = same.signals.clone();
        }
    }
}
