//! The effective config for people to see: defaults filled in, secrets and URL queries masked.

use crate::discovery::{Discovery, Records};
use crate::kv_events::{KvEvents, Place, Source};
use crate::resolved::{
    Auth, Calibrate, ClientKey, Config, Cors, Headers, Log, LogRequests, Origin, Pool, Probe, Route,
    ServerTls, Timeouts, Usage,
};
use crate::scrape::Scrape;
use crate::units::{show_daytime, show_duration, show_size};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::filters::Filters;
use weighbridge_core::filters::labels::{Condition, Rule};
use weighbridge_core::spec::{FallbackOn, Picker, PoolSpec, RetrySpec, RouteSpec, Weight};
use weighbridge_core::work::Abilities;

/// What stands in the place of a secret.
const MASK: &str = "***";

/// The effective config under the keys of the file. Secrets are masked; what is not set is left out.
#[must_use]
pub fn masked(config: &Config) -> Value {
    let server = &config.server;
    let proxies: Vec<String> = server
        .trusted_proxies
        .iter()
        .map(|net| format!("{}/{}", net.base, net.prefix))
        .collect();
    let passed: Vec<String> = server.passthrough.iter().map(ToString::to_string).collect();
    let admin = config.admin.listen.map_or(json!(false), |listen| {
        object([
            ("listen", json!(listen)),
            ("token", json!(config.admin.token.as_ref().map(|_| MASK))),
        ])
    });
    let pools: Vec<Value> = config
        .fleet
        .pools
        .iter()
        .zip(&config.pools)
        .map(|(spec, pool)| show_pool(spec, pool))
        .collect();
    let routes: Vec<Value> = config
        .fleet
        .routes
        .iter()
        .zip(&config.routes)
        .map(|(spec, route)| show_route(config, spec, route))
        .collect();
    object([
        ("version", json!(1)),
        (
            "server",
            object([
                ("listen", json!(server.listen)),
                ("tls", show_server_tls(server.tls.as_ref())),
                ("max_body", json!(show_size(server.max_body as u64))),
                (
                    "body_memory",
                    json!(server.body_memory.map(|size| show_size(size as u64))),
                ),
                ("max_connections", json!(server.max_connections)),
                ("drain_delay", time(server.drain_delay)),
                ("drain_timeout", time(server.drain_timeout)),
                ("trusted_proxies", json!(proxies)),
                ("passthrough", json!(passed)),
                (
                    "headers",
                    json!(if server.headers == Headers::Full {
                        "full"
                    } else {
                        "minimal"
                    }),
                ),
                ("zone", json!(server.zone)),
            ]),
        ),
        ("admin", admin),
        (
            "auth",
            json!(if config.auth == Auth::Keys { "keys" } else { "none" }),
        ),
        ("cors", config.cors.as_ref().map_or(Value::Null, show_cors)),
        ("log", show_log(&config.log)),
        ("keys", config.keys.iter().map(show_key).collect()),
        ("pools", json!(pools)),
        ("routes", json!(routes)),
    ])
}

/// An object of what is set.
fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    let set = entries.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(
        set.map(|(key, value)| (key.to_owned(), value))
            .collect::<Map<_, _>>(),
    )
}

fn time(duration: Duration) -> Value {
    json!(show_duration(duration))
}

fn share(weight: Weight) -> Value {
    if weight.0.is_multiple_of(1_000_000) {
        json!(weight.0 / 1_000_000)
    } else {
        json!(weight.as_f64())
    }
}

fn show_cors(cors: &Cors) -> Value {
    let origins = cors.origins.iter().map(|origin| match origin {
        Origin::Any => "*",
        Origin::Exact(origin) => origin,
    });
    json!({"origins": origins.collect::<Vec<_>>()})
}

fn show_log(log: &Log) -> Value {
    let requests = match log.requests {
        LogRequests::All => json!("all"),
        LogRequests::Errors => json!("errors"),
        LogRequests::Share(share) => json!(share),
    };
    let slow = log.slow.map_or(json!(log.slow_share * 100.0), time);
    object([
        ("level", json!(log.level)),
        ("requests", requests),
        ("slow", slow),
    ])
}

fn show_key(key: &ClientKey) -> Value {
    let expires = key
        .expires
        .and_then(|expires| jiff::Timestamp::from_second(expires).ok())
        .map(|moment| moment.to_string());
    object([
        ("name", json!(key.name)),
        ("key", json!(MASK)),
        ("expires", json!(expires)),
        ("tenant", json!(key.tenant)),
        ("tier", json!(key.tier)),
        ("models", json!(key.models)),
    ])
}

fn show_pool(spec: &PoolSpec, pool: &Pool) -> Value {
    let keys: Vec<&str> = pool.api_keys.iter().map(|_| MASK).collect();
    object([
        ("name", json!(pool.name)),
        ("kind", json!(pool.kind.as_str())),
        ("model", json!(pool.model)),
        ("description", json!(pool.description)),
        (
            "endpoints",
            // What a source outside of the file says is no part of it.
            match pool.discovery {
                Some(_) => Value::Null,
                None => show_endpoints(spec, pool),
            },
        ),
        (
            "discovery",
            pool.discovery.as_ref().map_or(Value::Null, show_discovery),
        ),
        (
            "api_keys",
            if keys.is_empty() { Value::Null } else { json!(keys) },
        ),
        ("forward_client_key", json!(pool.forward_client_key)),
        ("http", json!(pool.http.as_str())),
        ("tls", show_tls(pool)),
        ("ranks", json!(pool.ranks)),
        ("max_inflight", json!(spec.max_inflight)),
        ("health", show_health(spec, pool)),
        ("breaker", show_breaker(spec)),
        (
            "cooldown",
            object([
                ("default", time(spec.cooldown.default)),
                ("max", time(spec.cooldown.max)),
            ]),
        ),
        ("weight", json!(pool_weight(spec))),
        ("calibrate", show_calibrate(&pool.calibrate)),
        ("context_length", json!(spec.context_length)),
        ("price", json!(spec.price)),
        (
            "strengths",
            json!((!spec.strengths.is_empty()).then_some(&spec.strengths)),
        ),
        (
            "abilities",
            json!((spec.abilities != Abilities::ALL).then(|| abilities(spec.abilities))),
        ),
        ("fail_open", json!(spec.fail_open)),
        ("ramp", time(spec.ramp)),
        ("tokenizer", show_tokenizer(pool)),
        ("keepalive", time(pool.keepalive)),
        ("stall_after", spec.stall_after.map_or(Value::Null, time)),
        ("timeouts", show_timeouts(&pool.timeouts)),
        ("scrape", show_scrape(pool.scrape.as_ref())),
    ])
}

fn show_tokenizer(pool: &Pool) -> Value {
    pool.tokenizer.as_ref().map_or(Value::Null, |tokenizer| {
        object([
            ("path", json!(tokenizer.path)),
            ("chat_template", json!(tokenizer.chat_template)),
        ])
    })
}

fn show_timeouts(timeouts: &Timeouts) -> Value {
    object([
        ("connect", time(timeouts.connect)),
        ("first_byte", time(timeouts.first_byte)),
        ("idle", time(timeouts.idle)),
        ("total", time(timeouts.total)),
        ("stream_total", timeouts.stream_total.map_or(Value::Null, time)),
        ("ping", time(timeouts.ping)),
    ])
}

fn show_breaker(spec: &PoolSpec) -> Value {
    spec.breaker.as_ref().map_or(json!(false), |breaker| {
        object([
            ("window", time(breaker.window)),
            ("min_requests", json!(breaker.min_requests)),
            ("error_rate", json!(breaker.error_rate)),
            ("consecutive", json!(breaker.consecutive)),
            ("open_for", time(breaker.open_for)),
        ])
    })
}

/// A list, unless there is nothing in it.
fn given<T: serde::Serialize>(list: Option<&[T]>) -> Value {
    list.filter(|list| !list.is_empty())
        .map_or(Value::Null, |list| json!(list))
}

fn show_scrape(scrape: Option<&Scrape>) -> Value {
    let Some(scrape) = scrape else { return json!(false) };
    let names: Map<String, Value> = (scrape.names.iter())
        .map(|(signal, metric)| ((*signal).to_owned(), json!(metric.to_string())))
        .collect();
    object([
        ("path", json!(scrape.path)),
        ("port", json!(scrape.port)),
        ("interval", time(scrape.interval)),
        (
            "names",
            if names.is_empty() {
                Value::Null
            } else {
                names.into()
            },
        ),
    ])
}

fn pool_weight(spec: &PoolSpec) -> Option<&'static str> {
    match (spec.auto_weight, spec.label_weight) {
        (true, _) => Some("auto"),
        (false, true) => Some("labels"),
        (false, false) => None,
    }
}

fn show_calibrate(calibrate: &Calibrate) -> Value {
    object([
        ("at", json!(calibrate.at.map(show_daytime))),
        ("tokens", json!(calibrate.rate.tokens)),
        ("requests", json!(calibrate.rate.requests)),
        ("max_inflight", json!(calibrate.rate.max_inflight)),
        ("timeout", time(calibrate.rate.timeout)),
    ])
}

fn show_endpoints(spec: &PoolSpec, pool: &Pool) -> Value {
    spec.endpoints
        .iter()
        .zip(&pool.endpoints)
        // Ranks are written as one.
        .filter(|(spec, _)| spec.rank.is_none_or(|rank| rank == 0))
        .map(|(spec, endpoint)| {
            object([
                ("name", json!(spec.base_name())),
                ("url", json!(endpoint.url.shown())),
                ("weight", share(spec.weight)),
                ("labels", show_labels(&endpoint.labels)),
                (
                    "gpu_metrics",
                    endpoint
                        .gpus
                        .as_ref()
                        .map_or(Value::Null, |gpus| json!(gpus.url.shown())),
                ),
                (
                    "gpu_index",
                    given(endpoint.gpus.as_ref().map(|gpus| &*gpus.indexes)),
                ),
                ("gpu_uuid", given(endpoint.gpus.as_ref().map(|gpus| &*gpus.uuids))),
                (
                    "kv_events",
                    endpoint.kv_events.as_ref().map_or(Value::Null, show_kv_events),
                ),
                ("ranks", json!(endpoint.ranks)),
            ])
        })
        .collect()
}

fn show_kv_events(events: &KvEvents) -> Value {
    let (bind, connect) = match &events.source {
        Source::Bind(place) => (Some(place), None),
        Source::Connect(place) => (None, Some(place)),
    };
    let place = |place: Option<&Place>| json!(place.map(ToString::to_string));
    object([
        ("bind", place(bind)),
        ("connect", place(connect)),
        ("replay", place(events.replay.as_ref())),
    ])
}

fn show_labels(labels: &[(String, String)]) -> Value {
    if labels.is_empty() {
        return Value::Null;
    }
    let pairs = labels.iter().map(|(key, value)| (key.clone(), json!(value)));
    Value::Object(pairs.collect())
}

fn show_server_tls(tls: Option<&ServerTls>) -> Value {
    tls.map_or(Value::Null, |tls| {
        object([
            ("cert", json!(tls.cert)),
            ("key", json!(tls.key)),
            ("client_ca", json!(tls.client_ca)),
        ])
    })
}

fn show_discovery(discovery: &Discovery) -> Value {
    let dns = match discovery {
        Discovery::File(list) => return json!({"file": list.path}),
        Discovery::Dns(dns) => dns,
    };
    let (kind, port) = match dns.records {
        Records::Address { port } => ("a", json!(port)),
        Records::Service => ("srv", Value::Null),
    };
    let dns = object([
        ("name", json!(dns.name)),
        ("type", json!(kind)),
        ("port", port),
        ("scheme", json!(if dns.https { "https" } else { "http" })),
        ("path", json!((!dns.prefix.is_empty()).then_some(&dns.prefix))),
        ("labels", show_labels(&dns.labels)),
        ("ttl_min", time(dns.ttl_min)),
        ("ttl_max", time(dns.ttl_max)),
        ("empty_after", time(dns.empty_after)),
        (
            "resolver",
            json!((!dns.resolver.is_empty()).then_some(&dns.resolver)),
        ),
    ]);
    json!({"dns": dns})
}

fn show_tls(pool: &Pool) -> Value {
    let tls = &pool.tls;
    if *tls == crate::resolved::PoolTls::default() {
        return Value::Null;
    }
    object([
        ("ca", json!(tls.ca)),
        ("client_cert", json!(tls.client_cert)),
        ("client_key", json!(tls.client_key)),
        ("server_name", json!(tls.server_name)),
    ])
}

fn show_health(spec: &PoolSpec, pool: &Pool) -> Value {
    let (Some(probe), Some(health)) = (&spec.probe, &pool.health) else {
        return json!(false);
    };
    let (kind, path, expect) = match &health.probe {
        Probe::Http { path, expect } if expect.is_empty() => ("http", json!(path), Value::Null),
        Probe::Http { path, expect } => ("http", json!(path), json!(expect)),
        Probe::Tcp => ("tcp", Value::Null, Value::Null),
    };
    object([
        ("type", json!(kind)),
        ("path", path),
        ("expect", expect),
        ("interval", time(probe.interval)),
        ("timeout", time(health.timeout)),
        ("unhealthy_after", json!(probe.unhealthy_after)),
        ("healthy_after", json!(probe.healthy_after)),
    ])
}

fn show_route(config: &Config, spec: &RouteSpec, route: &Route) -> Value {
    let targets: Vec<Value> = spec
        .targets
        .iter()
        .map(|target| {
            let pool = config.fleet.pools.get(target.pool).map(|pool| &pool.name);
            object([
                ("pool", json!(pool)),
                ("name", json!(target.name)),
                ("weight", target.weight.map_or(Value::Null, share)),
                ("order", json!(target.order)),
                (
                    "serves_tokens",
                    target.serves_tokens.map_or(Value::Null, show_tokens),
                ),
            ])
        })
        .collect();
    let policies = if spec.policies.is_empty() {
        Value::Null
    } else {
        json!(spec.policies)
    };
    let fallback: Vec<Value> = spec
        .fallback
        .iter()
        .map(|step| json!({"route": step.route, "on": conditions(step.on)}))
        .collect();
    let weighted = spec.targets.iter().any(|target| target.weight.is_some());
    object([
        ("name", json!(spec.name)),
        ("targets", json!(targets)),
        ("route_by", json!(spec.route_by().as_str())),
        ("policies", policies),
        ("picker", show_picker(spec.picker)),
        ("filters", show_filters(&spec.filters)),
        ("spill", if weighted { json!(spec.spill) } else { Value::Null }),
        ("retry", show_retry(&spec.retry, route.resend)),
        (
            "fallback",
            if fallback.is_empty() {
                Value::Null
            } else {
                json!(fallback)
            },
        ),
        (
            "usage",
            json!(match route.usage {
                Usage::Inject => "inject",
                Usage::Passive => "passive",
            }),
        ),
        ("heartbeat", route.heartbeat.map_or(json!("off"), time)),
        (
            "on_disconnect",
            json!(if route.finish { "finish" } else { "cancel" }),
        ),
    ])
}

fn show_picker(picker: Picker) -> Value {
    match picker {
        Picker::WeightedRandom {
            temperature: Some(temperature),
        } => json!({"weighted_random": {"temperature": temperature}}),
        other => json!(other.as_str()),
    }
}

/// The filters that are on.
fn show_filters(filters: &Filters) -> Value {
    if filters.is_empty() {
        return Value::Null;
    }
    let labels = filters.labels.clone().unwrap_or_default();
    let rules: Vec<Value> = labels.rules.iter().map(show_rule).collect();
    object([
        ("modality", json!(filters.modality.map(|_| true))),
        ("rules", json!((!rules.is_empty()).then_some(rules))),
        (
            "by_header",
            json!((!labels.by_header.is_empty()).then_some(labels.by_header)),
        ),
        ("context_length", json!(filters.context_length.map(|_| true))),
        ("kv_fits", json!(filters.kv_fits.map(|_| true))),
    ])
}

fn show_rule(rule: &Rule) -> Value {
    let values = |labels: &[(Arc<str>, Vec<Arc<str>>)]| {
        let pairs = labels
            .iter()
            .map(|(name, values)| (name.to_string(), json!(values)));
        let map: Map<String, Value> = pairs.collect();
        json!((!map.is_empty()).then_some(map))
    };
    let condition = |given: &Option<Condition>| {
        given.as_ref().map_or(Value::Null, |condition| {
            let classes: Vec<String> = condition
                .priority
                .iter()
                .map(|class| format!("P{class}"))
                .collect();
            object([
                (
                    "prompt_tokens",
                    condition.prompt_tokens.map_or(Value::Null, show_tokens),
                ),
                ("priority", json!((!classes.is_empty()).then_some(classes))),
            ])
        })
    };
    object([
        ("when", condition(&rule.when)),
        ("unless", condition(&rule.unless)),
        ("labels", values(&rule.labels)),
        ("not_labels", values(&rule.not_labels)),
    ])
}

fn show_tokens((from, up_to): (u32, u32)) -> Value {
    object([
        ("over", json!((from > 0).then(|| from - 1))),
        ("up_to", json!((up_to < u32::MAX).then_some(up_to))),
    ])
}

/// The words of `abilities`.
fn abilities(set: Abilities) -> Vec<&'static str> {
    Abilities::WORDS
        .iter()
        .filter(|(one, _)| set.covers(*one))
        .map(|(_, word)| *word)
        .collect()
}

fn conditions(on: FallbackOn) -> Vec<&'static str> {
    [
        ("unavailable", FallbackOn::UNAVAILABLE),
        ("5xx", FallbackOn::SERVER_ERROR),
        ("429", FallbackOn::RATE_LIMIT),
        ("timeout", FallbackOn::TIMEOUT),
        ("context_length", FallbackOn::CONTEXT_LENGTH),
    ]
    .into_iter()
    .filter(|(_, reason)| on.meets(*reason))
    .map(|(word, _)| word)
    .collect()
}

fn show_retry(retry: &RetrySpec, resend: Option<bool>) -> Value {
    let words = [
        ("connect", retry.on_connect),
        ("reset", retry.on_reset),
        ("timeout", retry.on_timeout),
    ];
    let mut on: Vec<String> = words
        .iter()
        .filter(|(_, set)| *set)
        .map(|(word, _)| (*word).to_owned())
        .collect();
    on.extend(retry.on_status.iter().map(u16::to_string));
    object([
        ("max_attempts", json!(retry.max_attempts)),
        ("on", json!(on)),
        (
            "budget",
            object([
                ("ratio", json!(retry.budget.ratio)),
                ("floor_per_second", json!(retry.budget.floor_per_second)),
                ("window", time(retry.budget.window)),
            ]),
        ),
        ("resend", json!(resend)),
        ("move_on_after", retry.move_on_after.map_or(Value::Null, time)),
    ])
}
