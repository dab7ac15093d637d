//! What good files resolve to: short and long forms, variables, secrets, defaults by kind.

use crate::common::{good, load, pool, pool_with, route};
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use std::io::Write as _;
use std::time::Duration;
use weighbridge_config::resolved::{Auth, Headers, HttpVersion, Kind, LogRequests, Probe, Usage};
use weighbridge_config::{diff, masked, refuses_reload};
use weighbridge_core::spec::{FallbackOn, Protocols, RouteBy, Weight};

#[test]
fn the_smallest_file_is_a_route_of_its_pool() {
    let config = good("pools:\n  - name: qwen3\n    endpoints: [http://gpu1:8000, http://gpu2:8000]\n");
    let route = &config.fleet.routes[0];
    assert_eq!(
        (
            &*route.name,
            route.targets.len(),
            route.targets[0].pool,
            config.routes[0].implied
        ),
        ("qwen3", 1, 0, true)
    );
    assert_eq!(route.route_by(), RouteBy::Policy);
    let names: Vec<&str> = config.pools[0]
        .endpoints
        .iter()
        .map(|endpoint| &*endpoint.name)
        .collect();
    assert_eq!(names, ["gpu1:8000", "gpu2:8000"]);
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8800");
    assert_eq!(config.admin.listen.unwrap().to_string(), "127.0.0.1:8801");
    assert_eq!((config.auth, config.server.headers), (Auth::None, Headers::Full));
    assert_eq!((config.fleet.pools[0].keys, config.pools[0].resend), (1, true));
}

#[test]
fn usage_is_asked_for_unless_a_route_says_otherwise() {
    for (more, usage) in [
        ("targets: [a]", Usage::Inject),
        ("targets: [a], usage: inject", Usage::Inject),
        ("targets: [a], usage: passive", Usage::Passive),
    ] {
        let config = good(&route(more));
        assert_eq!(config.routes[0].usage, usage, "{more}");
        let shown = masked(&config)["routes"][0]["usage"].clone();
        assert_eq!(shown == "passive", usage == Usage::Passive, "{more}: {shown}");
    }
    assert_eq!(good(&pool("")).routes[0].usage, Usage::Inject);
}

#[test]
fn heartbeats_are_on_unless_a_route_says_otherwise() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    for (given, every, shown) in [
        ("", seconds(15), "15s"),
        (", heartbeat: 20s", seconds(20), "20s"),
        (", heartbeat: 500ms", Some(Duration::from_millis(500)), "500ms"),
        (", heartbeat: 0", None, "off"),
        (", heartbeat: 0s", None, "off"),
        (", heartbeat: \"0\"", None, "off"),
        (", heartbeat: off", None, "off"),
        (", heartbeat: false", None, "off"),
    ] {
        let config = good(&route(&format!("targets: [a]{given}")));
        assert_eq!(config.routes[0].heartbeat, every, "{given}");
        assert_eq!(masked(&config)["routes"][0]["heartbeat"], shown, "{given}");
    }
    assert_eq!(good(&pool("")).routes[0].heartbeat, seconds(15));
}

#[test]
fn an_answer_is_finished_for_nobody_only_where_a_route_says_so() {
    for (given, finish) in [
        ("", false),
        (", on_disconnect: cancel", false),
        (", on_disconnect: finish", true),
    ] {
        let config = good(&route(&format!("targets: [a]{given}")));
        assert_eq!(config.routes[0].finish, finish, "{given}");
        let shown = masked(&config)["routes"][0]["on_disconnect"].clone();
        assert_eq!(shown == "finish", finish, "{given}: {shown}");
    }
}

#[test]
fn fallbacks_say_when() {
    let text = route(
        "targets: [a], fallback: [b, {route: c, on: [5xx, 429, timeout, context_length, unavailable]}]",
    );
    let config = good(&text);
    let steps = &config.fleet.routes[0].fallback;
    assert_eq!(steps[0].on, FallbackOn::UNAVAILABLE);
    assert_eq!(steps[1].on, FallbackOn(31));
    let shown = masked(&config)["routes"][0]["fallback"].clone();
    assert_eq!(
        shown[1]["on"],
        serde_json::json!(["unavailable", "5xx", "429", "timeout", "context_length"])
    );
}

#[test]
fn pools_and_endpoints_keep_one_order_in_both_halves() {
    let config = good(&route("targets: [c, {pool: a, order: 2, name: last}]"));
    assert_eq!(config.fleet.pools.len(), config.pools.len());
    for (spec, pool) in config.fleet.pools.iter().zip(&config.pools) {
        assert_eq!(spec.name, pool.name);
        let specs: Vec<_> = spec
            .endpoints
            .iter()
            .map(|endpoint| endpoint.name.clone())
            .collect();
        let endpoints: Vec<_> = pool
            .endpoints
            .iter()
            .map(|endpoint| endpoint.name.clone())
            .collect();
        assert_eq!(specs, endpoints);
    }
    // Pool b, which no route names, is a route of its name; a and c are not.
    let names: Vec<(&str, bool)> = config
        .routes
        .iter()
        .map(|route| (&*route.name, route.implied))
        .collect();
    assert_eq!(names, [("r", false), ("b", true)]);
    let targets: Vec<(&str, usize)> = config.routes[0]
        .targets
        .iter()
        .map(|(name, pool)| (&**name, *pool))
        .collect();
    assert_eq!(targets, [("c", 2), ("last", 0)]);
    let orders: Vec<u16> = config.fleet.routes[0]
        .targets
        .iter()
        .map(|target| target.order)
        .collect();
    assert_eq!(orders, [1, 2]);
}

#[test]
fn short_and_long_forms_mean_the_same() {
    let short = good(
        "pools: [{name: a, endpoints: [http://h:1]}, {name: b, endpoints: [http://i:1]}]\nroutes: [{name: r, targets: [a], fallback: [b]}]",
    );
    let long = good(
        "pools: [{name: a, endpoints: [{url: http://h:1, name: 'h:1', weight: 1, labels: {}}]}, {name: b, endpoints: [http://i:1]}]
routes: [{name: r, targets: [{pool: a, name: a, order: 1}], fallback: [{route: b, on: [unavailable]}]}]",
    );
    assert_eq!(masked(&short), masked(&long));
    assert!(diff(&short, &long).is_empty());
}

#[test]
fn switches_are_off_with_false() {
    let config = good(&format!(
        "{}admin: false\n",
        pool_with("health: false, breaker: false")
    ));
    assert!(config.admin.listen.is_none());
    assert!(
        config.fleet.pools[0].breaker.is_none()
            && config.fleet.pools[0].probe.is_none()
            && config.pools[0].health.is_none()
    );
    let retry = good(&route("targets: [a], retry: false")).fleet.routes[0]
        .retry
        .clone();
    assert_eq!(retry.max_attempts, 1);
    assert_eq!(
        good(&pool("auth: none\nserver: {listen: 0.0.0.0:8800}")).auth,
        Auth::None
    );
    assert_eq!(
        good(&pool("auth: none\nserver: {listen: 0.0.0.0:8800}"))
            .server
            .headers,
        Headers::Minimal
    );
    assert_eq!(
        good(&pool(
            "keys: [{name: a, key: b}]\nserver: {listen: '[::]:8800', headers: full}"
        ))
        .server
        .headers,
        Headers::Full
    );
}

#[test]
fn kinds_bring_protocols_and_probes() {
    let http = |path: &str| {
        Some(Probe::Http {
            path: path.to_owned(),
            expect: vec![],
        })
    };
    for (word, kind, protocols, probe) in [
        ("vllm", Kind::Vllm, Protocols::ANY, http("/health")),
        ("sglang", Kind::Sglang, Protocols::ANY, http("/health")),
        ("llamacpp", Kind::LlamaCpp, Protocols::ANY, http("/health")),
        ("tgi", Kind::Tgi, Protocols::OPENAI, http("/health")),
        ("ollama", Kind::Ollama, Protocols::OPENAI, http("/")),
        ("trtllm", Kind::TrtLlm, Protocols::OPENAI, http("/health")),
        ("mistralrs", Kind::MistralRs, Protocols::OPENAI, http("/health")),
        ("lmdeploy", Kind::LmDeploy, Protocols::OPENAI, http("/health")),
        ("openai", Kind::OpenAi, Protocols::OPENAI, None),
        ("azure", Kind::Azure, Protocols::OPENAI, None),
        ("anthropic", Kind::Anthropic, Protocols::ANTHROPIC, None),
        ("gemini", Kind::Gemini, Protocols::NONE, None),
        ("generic", Kind::Generic, Protocols::ANY, Some(Probe::Tcp)),
    ] {
        let config = good(&pool_with(&format!("kind: {word}")));
        assert_eq!(
            (config.pools[0].kind, config.fleet.pools[0].protocols),
            (kind, protocols),
            "{word}"
        );
        assert_eq!(
            config.pools[0].health.as_ref().map(|health| health.probe.clone()),
            probe,
            "{word}"
        );
        assert_eq!(config.fleet.pools[0].probe.is_some(), probe.is_some(), "{word}");
    }
    assert_eq!(good(&pool_with("fail_open: true")).pools[0].kind, Kind::Generic);
}

#[test]
fn health_settings_override_the_kind() {
    let probe = |more: &str| {
        good(&pool_with(more)).pools[0]
            .health
            .clone()
            .map(|health| health.probe)
    };
    let http = |path: &str, expect: &[u16]| {
        Some(Probe::Http {
            path: path.to_owned(),
            expect: expect.to_vec(),
        })
    };
    assert_eq!(probe("kind: vllm, health: {interval: 1s}"), http("/health", &[]));
    assert_eq!(probe("kind: vllm, health: {type: tcp}"), Some(Probe::Tcp));
    assert_eq!(probe("health: {interval: 1s}"), Some(Probe::Tcp));
    assert_eq!(probe("health: {path: /ok, expect: 204}"), http("/ok", &[204]));
    assert_eq!(
        probe("kind: openai, health: {path: /v1/models, expect: [200, \"401\"]}"),
        http("/v1/models", &[200, 401])
    );
    assert_eq!(probe("kind: ollama, health: {type: http}"), http("/", &[]));
    let config = good(&pool_with(
        "health: {interval: 1s, timeout: 250ms, unhealthy_after: 1, healthy_after: 4}",
    ));
    let spec = config.fleet.pools[0].probe.clone().unwrap();
    assert_eq!(
        (spec.interval, spec.unhealthy_after, spec.healthy_after),
        (Duration::from_secs(1), 1, 4)
    );
    assert_eq!(
        config.pools[0].health.as_ref().unwrap().timeout,
        Duration::from_millis(250)
    );
}

#[test]
fn settings_arrive_where_they_belong() {
    let config = good(
        "server: {max_body: 1KiB, max_connections: 7, drain_delay: 1s, trusted_proxies: [10.1.2.3/8, 192.0.2.7, 'fd00::1/8'], passthrough: [/tokenize, '/classify/*'], zone: z}
log: {level: debug, requests: 0.25, slow: 2s}
pools:
  - name: a
    endpoints: [{url: http://h:1, weight: 0.005, labels: {gpu: T4}}, http://h:2]
    max_inflight: 3
    breaker: {consecutive: 2, error_rate: 0.5}
    cooldown: {max: 90s}
    fail_open: false
    ramp: 0s
    keepalive: 1s
    stall_after: 5m
    timeouts: {first_byte: 500ms, stream_total: 1h, ping: 3s}
    forward_client_key: true
    model: M
    http: 2
routes:
  - name: r
    targets: [{pool: a, weight: 0.005}]
    spill: false
    retry: {max_attempts: 2, on: [timeout, 500, \"429\", 429], resend: false, move_on_after: 1s, budget: {ratio: 0}}
",
    );
    let server = &config.server;
    assert_eq!(
        (server.max_body, server.max_connections, server.drain_delay),
        (1024, 7, Duration::from_secs(1))
    );
    let proxies: Vec<String> = server
        .trusted_proxies
        .iter()
        .map(|net| format!("{}/{}", net.base, net.prefix))
        .collect();
    assert_eq!(proxies, ["10.0.0.0/8", "192.0.2.7/32", "fd00::/8"]);
    let passed: Vec<String> = server.passthrough.iter().map(ToString::to_string).collect();
    assert_eq!(passed, ["/tokenize", "/classify/*"]);
    assert_eq!(
        (config.log.level.as_str(), config.log.requests, config.log.slow),
        ("debug", LogRequests::Share(0.25), Some(Duration::from_secs(2)))
    );
    let (spec, pool) = (&config.fleet.pools[0], &config.pools[0]);
    assert_eq!(
        (spec.endpoints[0].weight, spec.endpoints[1].weight),
        (Weight(5000), Weight::ONE)
    );
    assert_eq!(
        (spec.max_inflight, spec.fail_open, spec.ramp),
        (Some(3), false, Duration::ZERO)
    );
    assert_eq!(
        spec.breaker
            .as_ref()
            .map(|breaker| (breaker.consecutive, breaker.min_requests)),
        Some((2, 10))
    );
    assert_eq!(
        (spec.cooldown.default, spec.cooldown.max),
        (Duration::from_secs(5), Duration::from_secs(90))
    );
    assert_eq!(spec.stall_after, Some(Duration::from_secs(300)));
    assert_eq!(
        (
            pool.timeouts.first_byte,
            pool.timeouts.idle,
            pool.timeouts.stream_total
        ),
        (
            Duration::from_millis(500),
            Duration::from_secs(60),
            Some(Duration::from_secs(3600))
        )
    );
    assert_eq!(
        (pool.model.as_deref(), pool.forward_client_key, pool.keepalive),
        (Some("M"), true, Duration::from_secs(1))
    );
    assert_eq!(
        (pool.http, pool.timeouts.ping),
        (HttpVersion::Two, Duration::from_secs(3))
    );
    assert_eq!(pool.endpoints[0].labels, [("gpu".to_owned(), "T4".to_owned())]);
    let route = &config.fleet.routes[0];
    assert_eq!(
        (route.route_by(), route.spill, route.targets[0].weight),
        (RouteBy::Weight, false, Some(Weight(5000)))
    );
    let retry = &route.retry;
    assert_eq!(
        (
            retry.max_attempts,
            retry.on_connect,
            retry.on_reset,
            retry.on_timeout
        ),
        (2, false, false, true)
    );
    assert_eq!(
        (
            retry.on_status.as_slice(),
            retry.move_on_after,
            config.routes[0].resend
        ),
        ([429, 500].as_slice(), Some(Duration::from_secs(1)), Some(false))
    );
    assert!(retry.budget.ratio == 0.0 && (retry.budget.floor_per_second - 10.0).abs() < 1e-9);
}

#[test]
fn variables_are_text_and_never_yaml() {
    // Unquoted in the braces of YAML too, as the interface shows it.
    let config = good(&pool_with(
        "description: \"${YAML}\", model: m-${PORT}, max_inflight: ${PORT}, api_key: ${KEY}",
    ));
    assert_eq!(
        config.pools[0].description.as_deref(),
        Some("x\nadmin: {listen: 0.0.0.0:1}")
    );
    assert_eq!(config.admin.listen.unwrap().to_string(), "127.0.0.1:8801");
    assert_eq!(
        (
            config.pools[0].model.as_deref(),
            config.fleet.pools[0].max_inflight
        ),
        (Some("m-9001"), Some(9001))
    );
    assert_eq!(config.pools[0].api_keys[0].expose_secret(), "sk-from-env");
    let config = good(
        "pools: [{name: '$${a}', endpoints: [http://${HOST:-h}:${PORT}/${NONE:-}]}]\nadmin: {listen: 127.0.0.1:1, token: ${EMPTY:-}}",
    );
    assert_eq!(
        (&*config.pools[0].name, &*config.pools[0].endpoints[0].name),
        ("${a}", "h:9001")
    );
    assert!(config.admin.token.is_none());
    // A variable that is not text's business stays as it is: comments and keys are not looked at.
    good("# ${NOT_SET}\npools: [{name: a, endpoints: [{url: http://h, labels: {'${NOT_SET}': x}}]}]");
}

#[test]
fn secrets_come_from_files_and_stay_hidden() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        std::fs::File::create(directory.path().join(name))
            .unwrap()
            .write_all(text)
            .unwrap()
    };
    write("key", b"sk-in-a-file\n");
    let authority = rcgen::generate_simple_self_signed(["h".to_owned()]).unwrap();
    write("ca.pem", authority.cert.pem().as_bytes());
    write("weighbridge.yaml", b"keys: [{name: a, key: file:key}]\nadmin: {token: file:key}\npools: [{name: p, endpoints: ['https://h?k=sk-in-url'], api_keys: ['file:key'], tls: {ca: ca.pem}}]\n");
    let path = directory.path().join("weighbridge.yaml");
    let loaded = weighbridge_config::load(&path, &crate::common::env).unwrap();
    let config = &loaded.config;
    assert_eq!(
        config.keys[0].sha256,
        <[u8; 32]>::from(Sha256::digest(b"sk-in-a-file"))
    );
    assert_eq!(
        config.admin.token.as_ref().unwrap().expose_secret(),
        "sk-in-a-file"
    );
    assert_eq!(config.pools[0].api_keys[0].expose_secret(), "sk-in-a-file");
    assert_eq!(
        config.pools[0].tls.ca.as_deref(),
        Some(directory.path().join("ca.pem").as_path())
    );
    assert_eq!(config.auth, Auth::Keys);
    for shown in [
        format!("{loaded:?}"),
        masked(config).to_string(),
        format!("{:?}", config.fleet),
    ] {
        assert!(!shown.contains("sk-in"), "{shown}");
    }
    for (name, text, expect) in [
        ("empty", b"\n".as_slice(), "the secret's file `empty` is empty"),
        ("binary", b"\xff\xfe", "the secret's file `binary` is not text"),
        (
            "large",
            &[b'x'; 20_000],
            "the secret's file `large` is larger than 16 KiB",
        ),
        (
            "two",
            b"sk-one\nsk-two\n",
            "the secret holds a space, a control character or a letter outside ASCII, which a header cannot carry",
        ),
    ] {
        write(name, text);
        write(
            "weighbridge.yaml",
            format!("pools: [{{name: p, endpoints: [http://h], api_key: 'file:{name}'}}]").as_bytes(),
        );
        let problems = weighbridge_config::load(&path, &crate::common::env).unwrap_err();
        assert_eq!(
            problems
                .iter()
                .map(|problem| problem.message.as_str())
                .collect::<Vec<_>>(),
            [expect]
        );
    }
}

#[test]
fn keys_carry_what_they_open_and_until_when() {
    let config = good(&pool(
        "keys: [{name: a, key: x, expires: 2099-01-01, tenant: t, tier: paid, models: [a, 'b*']}, {name: a, key_sha256: 9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08, expires: '2099-01-01T12:00:00+01:00'}]",
    ));
    let [first, second] = config.keys.as_slice() else {
        panic!("two keys")
    };
    assert_eq!(
        (first.expires, second.expires),
        (Some(4_070_908_800), Some(4_070_948_400))
    );
    assert_eq!(
        (first.tenant.as_deref(), first.tier.as_deref()),
        (Some("t"), Some("paid"))
    );
    assert_eq!(first.models.as_ref().map(Vec::len), Some(2));
    assert_eq!(second.sha256, <[u8; 32]>::from(Sha256::digest(b"test")));
    assert!(second.models.is_none());
}

#[test]
fn anchors_and_merge_keys_share_settings() {
    let config = good(
        "pools:
  - &base {name: a, endpoints: [http://h:1], max_inflight: 4, timeouts: &t {idle: 5s}}
  - {<<: *base, name: b, timeouts: {<<: *t, total: 7s}}
",
    );
    assert_eq!(
        (&*config.pools[1].name, config.fleet.pools[1].max_inflight),
        ("b", Some(4))
    );
    assert_eq!(config.pools[1].timeouts.idle, Duration::from_secs(5));
    assert_eq!(config.pools[1].timeouts.total, Duration::from_secs(7));
}

#[test]
fn the_shown_config_loads_to_itself() {
    let full =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/full.yaml")).unwrap();
    let mut config = good(&full);
    // All masked keys look alike, so one must do.
    config.keys.truncate(1);
    let shown = masked(&config);
    assert_eq!(masked(&good(&shown.to_string())), shown);
    assert!(shown.to_string().contains("\"key\":\"***\""));
}

#[test]
fn the_hash_is_that_of_the_text() {
    let hash = |text: &str| load(text).unwrap().text_hash;
    assert_eq!(hash(&pool("")), hash(&pool("")));
    assert_ne!(hash(&pool("")), hash(&pool("# x")));
}

#[test]
fn a_reload_is_told_in_words() {
    let old = good(&route("targets: [{pool: a, weight: 10}, {pool: b, weight: 1}]"));
    let new = good(&format!(
        "log: {{level: debug}}\n{}",
        route("targets: [{pool: a, weight: 2}, {pool: b, weight: 1}], fallback: [c]")
            .replace("http://a2:1", "http://a3:1")
    ));
    assert_eq!(
        diff(&old, &new),
        [
            "log.level: info → debug",
            "pools[a].endpoints[a2:1]: removed",
            "pools[a].endpoints[a3:1]: added",
            "routes[r].targets[a].weight: 10 → 2",
            "routes[r].fallback: not set → [{\"on\":[\"unavailable\"],\"route\":\"c\"}]",
        ]
    );
    assert!(refuses_reload(&old, &new).is_none());
}

#[test]
fn a_reload_tells_changed_secrets_without_them() {
    let text = |secret: &str| {
        format!(
            "admin: {{token: {secret}}}\nkeys: [{{name: k, key: {secret}}}]\npools: [{{name: a, api_key: {secret}, endpoints: ['http://h?k={secret}']}}]"
        )
    };
    let (old, new) = (good(&text("hunter2")), good(&text("hunter3")));
    let changes = diff(&old, &new);
    assert_eq!(
        changes,
        [
            "admin.token: changed",
            "keys: the keys themselves changed",
            "pools[a].api_keys: changed",
            "pools[a].endpoints[h:80?***].url: the query changed"
        ]
    );
    assert!(diff(&old, &old).is_empty());
}

#[test]
fn listeners_do_not_move_on_reload() {
    let at = |text: &str| good(&pool(text));
    let base = at("");
    assert_eq!(
        refuses_reload(&base, &at("server: {listen: 127.0.0.1:1}")).unwrap(),
        "`server.listen` changes from 127.0.0.1:8800 to 127.0.0.1:1, which needs a restart"
    );
    assert_eq!(
        refuses_reload(&base, &at("admin: false")).unwrap(),
        "`admin.listen` changes from 127.0.0.1:8801 to off, which needs a restart"
    );
}
