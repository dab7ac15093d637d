//! `pools`.

use super::choice::Own;
use crate::discovery::{Discovery, sorted};
use crate::forms::{OneOrMany, Short, Toggle};
use crate::leaf::{PoolWeight, or};
use crate::model::discovery::Discovery as Source;
use crate::model::pools as model;
use crate::ranks::{base_of, expand};
use crate::read::{At, Reader};
use crate::resolved::{Calibrate, Endpoint, Health, HttpVersion, Kind, Pool, PoolTls, Probe, Rate, Timeouts};
use crate::yaml::NodeId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::spec::{BreakerSpec, CooldownSpec, EndpointSpec, PoolSpec, Price, ProbeSpec, Weight};
use weighbridge_core::work::Abilities;

/// A pool, resolved for the scheduler and for relaying.
pub(crate) struct Resolved {
    /// Where it stands.
    pub(crate) node: NodeId,
    pub(crate) spec: PoolSpec,
    pub(crate) pool: Pool,
    /// How the route of its own chooses.
    pub(crate) own: Own,
}

pub(super) fn pools(reader: &mut Reader<'_>, given: Vec<At<model::Pool>>) -> Vec<Resolved> {
    let mut seen: HashMap<Arc<str>, String> = HashMap::new();
    let mut pools = Vec::with_capacity(given.len());
    for At { node, value } in given {
        let name_node = value.name.as_ref().map_or(node, |name| name.node);
        let Some(resolved) = pool(reader, node, value) else {
            continue;
        };
        let path = reader.tree.path(node);
        if let Some(first) = seen.insert(resolved.spec.name.clone(), path) {
            reader.problem(
                name_node,
                format!("{first} is also named `{}`", resolved.spec.name),
                "give every pool its own name",
            );
        }
        pools.push(resolved);
    }
    pools
}

/// Resolves one pool; without a name it stands for nothing, and that has been reported.
fn pool(reader: &mut Reader<'_>, node: NodeId, mut given: model::Pool) -> Option<Resolved> {
    let facts = facts(reader, &mut given);
    let own = Own::new(reader, given.route_by.take(), given.preset.take());
    let name: Arc<str> = given.name?.value.0.into();
    let kind = or(given.kind, kind, Kind::Generic);
    let ranks = or(given.ranks, |ranks| ranks.0, 1);
    let (discovery, listed) = whereabouts(reader, (given.discovery, given.endpoints), ranks);
    let (endpoint_specs, endpoints) = expand(listed, ranks);
    let api_keys = api_keys(reader, given.api_key, given.api_keys);
    let plain = match &discovery {
        Some(Discovery::Dns(dns)) => !dns.https,
        _ => !endpoints.is_empty() && endpoints.iter().all(|endpoint| !endpoint.url.https),
    };
    let tls = tls(reader, given.tls, plain);
    let http = http(reader, given.http, (kind, &endpoints));
    let scrape = super::scrape::scrape(reader, given.scrape, kind);
    let (probe, health) = health(reader, given.health, kind).unzip();
    let spec = PoolSpec {
        name: name.clone(),
        endpoints: endpoint_specs,
        keys: u16::try_from(api_keys.len().max(1)).unwrap_or(u16::MAX),
        protocols: kind.protocols(),
        max_inflight: given.max_inflight.map(|count| count.value.0),
        breaker: breaker(reader, given.breaker),
        cooldown: cooldown(reader, given.cooldown),
        fail_open: or(given.fail_open, |flag| flag.0, true),
        ramp: or(given.ramp, |span| span.0, Duration::from_secs(10)),
        probe,
        stall_after: given.stall_after.and_then(|span| positive(reader, span)),
        scrape: Some(
            scrape
                .as_ref()
                .map_or(super::scrape::INTERVAL, |scrape| scrape.interval),
        ),
        ..facts
    };
    let tokenizer = super::kv_events::tokenizer(reader, given.tokenizer, (node, &endpoints));
    let pool = Pool {
        name,
        kind,
        model: given.model.map(|model| model.value.0.into()),
        description: given.description.map(|text| text.value.0),
        endpoints,
        ranks,
        discovery,
        api_keys,
        forward_client_key: or(given.forward_client_key, |flag| flag.0, false),
        http,
        tls,
        keepalive: or(given.keepalive, |span| span.0, Duration::from_secs(4)),
        timeouts: timeouts(
            reader,
            or(given.timeouts, |timeouts| timeouts, model::Timeouts::default()),
        ),
        resend: true,
        health,
        scrape,
        tokenizer,
        calibrate: calibrate(reader, given.calibrate),
    };
    Some(Resolved {
        node,
        spec,
        pool,
        own,
    })
}

type Endpoints = Vec<At<Short<model::Endpoint>>>;

/// Who says where the pool runs, if not the config, and what is known of that, with `ranks` as one.
fn whereabouts(
    reader: &mut Reader<'_>,
    (discovery, list): (Option<At<Source>>, Option<At<Endpoints>>),
    ranks: u32,
) -> (Option<Discovery>, (Vec<EndpointSpec>, Vec<Endpoint>)) {
    match (discovery, list) {
        (Some(discovery), _) => super::discovery::discovery(reader, discovery, ranks),
        (None, Some(list)) => {
            if reader.is_empty_list(list.node) {
                reader.problem(list.node, "the pool has no endpoint", "add the URL of one");
            }
            (None, endpoints(reader, list.node, (list.value, ranks)))
        }
        (None, None) => (None, (Vec::new(), Vec::new())),
    }
}

/// The keys sent upstream, in turn.
fn api_keys(
    reader: &mut Reader<'_>,
    one: Option<At<crate::secret::MaybeSecret>>,
    several: Option<At<Vec<At<crate::secret::Secret>>>>,
) -> Vec<secrecy::SecretString> {
    match (one, several) {
        (Some(_), Some(keys)) => {
            reader.problem(
                keys.node,
                "`api_key` and `api_keys` are both given",
                "keep `api_keys`, and put the other key into it",
            );
            Vec::new()
        }
        (Some(key), None) => key.value.0.into_iter().collect(),
        (None, keys) => or(
            keys,
            |keys| keys.into_iter().map(|key| key.value.0).collect(),
            Vec::new(),
        ),
    }
}

/// What routing looks at of a pool's model; the rest is as in a pool of which nothing is said.
fn facts(reader: &mut Reader<'_>, given: &mut model::Pool) -> PoolSpec {
    let weight = given.weight.take().map(|weight| weight.value);
    PoolSpec {
        context_length: given.context_length.take().map(|tokens| tokens.value.0),
        price: given.price.take().and_then(|price| price_of(&price.value)),
        strengths: or(given.strengths.take(), strengths, Vec::new()),
        abilities: (given.abilities.take()).map_or(Abilities::ALL, |words| abilities(reader, words)),
        auto_weight: weight == Some(PoolWeight::Auto),
        label_weight: weight == Some(PoolWeight::Labels),
        ..PoolSpec::new("", Vec::new())
    }
}

fn price_of(given: &model::Price) -> Option<Price> {
    Some(Price {
        input: given.input.as_ref()?.value.0,
        output: given.output.as_ref()?.value.0,
    })
}

fn strengths(given: Vec<At<crate::leaf::Name>>) -> Vec<Arc<str>> {
    given.into_iter().map(|word| word.value.0.into()).collect()
}

fn abilities(reader: &mut Reader<'_>, given: At<Vec<At<model::AbilityWord>>>) -> Abilities {
    if reader.is_empty_list(given.node) {
        reader.warn(
            given.node,
            "the model can do nothing beyond text, so requests with tools, images or schemas are refused",
            "leave it if that is so; without the key nothing is refused",
        );
    }
    let words = given.value.iter().map(|word| ability(word.value));
    words.fold(Abilities::NONE, Abilities::and)
}

fn ability(word: model::AbilityWord) -> Abilities {
    use model::AbilityWord as Word;
    match word {
        Word::Image => Abilities::IMAGE,
        Word::Audio => Abilities::AUDIO,
        Word::File => Abilities::FILE,
        Word::Tools => Abilities::TOOLS,
        Word::JsonSchema => Abilities::JSON_SCHEMA,
    }
}

/// Resolves the list at `node`, in which endpoints have `usual` ranks where they do not say themselves.
pub(super) fn endpoints(
    reader: &mut Reader<'_>,
    node: NodeId,
    (given, usual): (Vec<At<Short<model::Endpoint>>>, u32),
) -> (Vec<EndpointSpec>, Vec<Endpoint>) {
    let mut seen: HashMap<Arc<str>, String> = HashMap::new();
    let mut specs = Vec::with_capacity(given.len());
    let mut endpoints = Vec::with_capacity(given.len());
    for At {
        node,
        value: Short(given),
    } in given
    {
        let Some(url) = given.url else { continue };
        let named = given.name.is_some();
        let url = url.value.0;
        let name: Arc<str> = or(given.name, |name| name.0.into(), url.default_name().into());
        if let Some(first) = seen.insert(name.clone(), reader.tree.path(node)) {
            let hint = if named {
                "give every endpoint of a pool its own name"
            } else {
                "give both a `name`: {name: a, url: …}"
            };
            reader.problem(node, format!("{first} is also named `{name}`"), hint);
        }
        let labels = or(given.labels, |labels| labels.0, Vec::new());
        specs.push(EndpointSpec {
            name: name.clone(),
            address: url.identity(),
            weight: or(given.weight, |weight| weight.0, Weight::ONE),
            labels: sorted(&labels),
            rank: None,
        });
        let ranks = given.ranks.map(|ranks| ranks.value.0);
        endpoints.push(Endpoint {
            name,
            url,
            addresses: Vec::new(),
            labels,
            gpus: super::scrape::gpus(reader, given.gpu_metrics, given.gpu_index, given.gpu_uuid),
            kv_events: super::kv_events::kv_events(reader, given.kv_events, ranks.unwrap_or(usual)),
            ranks,
            rank: None,
        });
    }
    super::scrape::shared_gpus(reader, node, &endpoints);
    for (spec, node) in specs.iter().zip(reader.children(node)) {
        if let Some(base) = base_of(&spec.name).filter(|base| seen.contains_key(*base)) {
            reader.problem(
                node,
                format!(
                    "`{}` is what a rank of the endpoint `{base}` is called",
                    spec.name
                ),
                "give it a name without `#` and a number",
            );
        }
    }
    warn_of_zeros(reader, node, &specs);
    (specs, endpoints)
}

/// Endpoints that get nothing may be meant so, or not.
fn warn_of_zeros(reader: &mut Reader<'_>, node: NodeId, specs: &[EndpointSpec]) {
    if !specs.is_empty() && specs.iter().all(|endpoint| endpoint.weight == Weight::ZERO) {
        reader.warn(
            node,
            "every endpoint of this pool has weight 0, so the pool serves nothing",
            "give one of them a weight above 0",
        );
    } else {
        for (endpoint, node) in specs.iter().zip(reader.children(node)) {
            if endpoint.weight == Weight::ZERO {
                reader.warn(
                    node,
                    format!(
                        "the endpoint `{}` has weight 0 and gets no requests, failover included",
                        endpoint.name
                    ),
                    "leave it if it is being drained",
                );
            }
        }
    }
}

fn http(
    reader: &mut Reader<'_>,
    given: Option<At<model::HttpWord>>,
    (kind, endpoints): (Kind, &[Endpoint]),
) -> HttpVersion {
    let Some(At { node, value }) = given else {
        return HttpVersion::Auto;
    };
    match value {
        model::HttpWord::Auto => HttpVersion::Auto,
        model::HttpWord::One => HttpVersion::One,
        model::HttpWord::Two => {
            let alone = matches!(kind, Kind::Vllm | Kind::LlamaCpp | Kind::Ollama);
            if alone && endpoints.iter().any(|endpoint| !endpoint.url.https) {
                reader.warn(
                    node,
                    "without TLS the server of this kind of engine speaks HTTP/1.1 only",
                    "leave `http` out, unless a proxy that speaks HTTP/2 stands before the engine",
                );
            }
            HttpVersion::Two
        }
    }
}

fn tls(reader: &mut Reader<'_>, given: Option<At<model::Tls>>, plain: bool) -> PoolTls {
    let Some(At { node, value: given }) = given else {
        return PoolTls::default();
    };
    if plain {
        reader.warn(
            node,
            "`tls` has no effect, because no endpoint's URL begins with https://",
            "write https:// URLs, or remove `tls`",
        );
    }
    super::tls::upstream(reader, given)
}

/// A duration that must not be zero.
fn positive(reader: &mut Reader<'_>, span: At<crate::leaf::Span>) -> Option<Duration> {
    if span.value.0.is_zero() {
        reader.problem(
            span.node,
            "this time must be longer than 0",
            "leave the key out for the default",
        );
        return None;
    }
    Some(span.value.0)
}

/// A duration that must not be zero, or its default in seconds.
fn seconds_or(reader: &mut Reader<'_>, given: Option<At<crate::leaf::Span>>, default: u64) -> Duration {
    given
        .and_then(|span| positive(reader, span))
        .unwrap_or(Duration::from_secs(default))
}

fn calibrate(reader: &mut Reader<'_>, given: Option<At<model::Calibrate>>) -> Calibrate {
    let given = or(given, |given| given, model::Calibrate::default());
    let usual = Rate::default();
    Calibrate {
        at: given.at.map(|at| at.value.0),
        rate: Rate {
            tokens: or(given.tokens, |count| count.0, usual.tokens),
            requests: or(given.requests, |count| count.0, usual.requests),
            max_inflight: or(given.max_inflight, |count| count.0, usual.max_inflight),
            timeout: given
                .timeout
                .and_then(|span| positive(reader, span))
                .unwrap_or(usual.timeout),
        },
    }
}

fn timeouts(reader: &mut Reader<'_>, given: model::Timeouts) -> Timeouts {
    Timeouts {
        connect: seconds_or(reader, given.connect, 2),
        first_byte: seconds_or(reader, given.first_byte, 120),
        idle: seconds_or(reader, given.idle, 60),
        total: seconds_or(reader, given.total, 600),
        stream_total: given.stream_total.and_then(|span| positive(reader, span)),
        ping: seconds_or(reader, given.ping, 20),
    }
}

fn breaker(reader: &mut Reader<'_>, given: Option<At<Toggle<model::Breaker>>>) -> Option<BreakerSpec> {
    let given = match given.map(|at| at.value) {
        Some(Toggle::Off) => return None,
        Some(Toggle::On(breaker)) => breaker,
        None => model::Breaker::default(),
    };
    Some(BreakerSpec {
        window: seconds_or(reader, given.window, 30),
        min_requests: or(given.min_requests, |count| count.0, 10),
        error_rate: or(given.error_rate, |rate| rate.0, 0.10),
        consecutive: or(given.consecutive, |count| count.0, 5),
        open_for: seconds_or(reader, given.open_for, 10),
    })
}

fn cooldown(reader: &mut Reader<'_>, given: Option<At<model::Cooldown>>) -> CooldownSpec {
    let At { node, value: given } = given.unwrap_or(At {
        node: crate::yaml::Tree::ROOT,
        value: model::Cooldown::default(),
    });
    let cooldown = CooldownSpec {
        default: or(given.default, |span| span.0, Duration::from_secs(5)),
        max: or(given.max, |span| span.0, Duration::from_secs(60)),
    };
    if cooldown.default > cooldown.max {
        reader.problem(
            node,
            "`default` is longer than `max`",
            "`default` is 5s and `max` 60s where they are not given",
        );
    }
    cooldown
}

fn health(
    reader: &mut Reader<'_>,
    given: Option<At<Toggle<model::Health>>>,
    kind: Kind,
) -> Option<(ProbeSpec, Health)> {
    let (node, given) = match given {
        Some(At {
            value: Toggle::Off, ..
        }) => return None,
        Some(At {
            node,
            value: Toggle::On(health),
        }) => (node, health),
        None => {
            let probe = kind.probe()?;
            return Some((
                probe_spec(reader, &model::Health::default()),
                Health {
                    probe,
                    timeout: Duration::from_secs(2),
                },
            ));
        }
    };
    let spec = probe_spec(reader, &given);
    let asks_http = given.path.is_some() || given.expect.is_some();
    let probe = match (given.r#type.map(|at| at.value), kind.probe()) {
        (Some(model::ProbeWord::Tcp), _) if asks_http => {
            reader.problem(
                node,
                "a TCP probe has neither `path` nor `expect`",
                "write `type: http`, or remove them",
            );
            return None;
        }
        (Some(model::ProbeWord::Tcp), _) => Probe::Tcp,
        (None, None | Some(Probe::Tcp)) if !asks_http => Probe::Tcp,
        (_, default) => {
            let usual = match default {
                Some(Probe::Http { path, .. }) => path,
                _ => "/health".to_owned(),
            };
            Probe::Http {
                path: path(reader, given.path).unwrap_or(usual),
                expect: or(given.expect, statuses, Vec::new()),
            }
        }
    };
    let timeout = seconds_or(reader, given.timeout, 2);
    Some((spec, Health { probe, timeout }))
}

fn probe_spec(reader: &mut Reader<'_>, given: &model::Health) -> ProbeSpec {
    let interval = given.interval.as_ref().map(|span| At {
        node: span.node,
        value: crate::leaf::Span(span.value.0),
    });
    ProbeSpec {
        interval: seconds_or(reader, interval, 5),
        unhealthy_after: given.unhealthy_after.as_ref().map_or(3, |count| count.value.0),
        healthy_after: given.healthy_after.as_ref().map_or(2, |count| count.value.0),
    }
}

fn statuses(given: OneOrMany<crate::forms::Status<200>>) -> Vec<u16> {
    given.0.into_iter().map(|status| status.value.0).collect()
}

pub(super) fn path(reader: &mut Reader<'_>, given: Option<At<crate::leaf::Text>>) -> Option<String> {
    let At { node, value } = given?;
    if !value.0.starts_with('/') || value.0.chars().any(|c| !c.is_ascii_graphic()) {
        reader.problem(
            node,
            "a path begins with `/` and holds no spaces",
            "write `/health`",
        );
    }
    Some(value.0)
}

fn kind(word: model::KindWord) -> Kind {
    use model::KindWord as Word;
    match word {
        Word::Vllm => Kind::Vllm,
        Word::Sglang => Kind::Sglang,
        Word::LlamaCpp => Kind::LlamaCpp,
        Word::Tgi => Kind::Tgi,
        Word::Ollama => Kind::Ollama,
        Word::TrtLlm => Kind::TrtLlm,
        Word::MistralRs => Kind::MistralRs,
        Word::LmDeploy => Kind::LmDeploy,
        Word::OpenAi => Kind::OpenAi,
        Word::Anthropic => Kind::Anthropic,
        Word::Gemini => Kind::Gemini,
        Word::Azure => Kind::Azure,
        Word::Generic => Kind::Generic,
    }
}
