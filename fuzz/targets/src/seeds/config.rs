//! Seeds of the config: whole files, and settings that are put where they belong.

/// All of them.
pub(super) fn all() -> Vec<Vec<u8>> {
    const POOLS: &str =
        "pools: [{name: a, endpoints: ['http://h:1']}, {name: b, endpoints: ['http://i:1', 'http://j:1']}]\n";
    let mut texts: Vec<String> = WHOLE.iter().map(|text| (*text).to_owned()).collect();
    texts.extend(SECTIONS.iter().map(|section| format!("{POOLS}{section}\n")));
    let pool = |settings: &str| format!("pools: [{{name: a, endpoints: ['https://h:1'], {settings}}}]\n");
    texts.extend(POOL.iter().map(|settings| pool(settings)));
    let source = |source: &&str| format!("pools: [{{name: a, discovery: {source}}}]\n");
    texts.extend(SOURCES.iter().map(source));
    let listed = |list: &&str| format!("pools: [{{name: a, discovery: {{file: beside}}}}]\n%%%\n{list}");
    texts.extend(LISTS.iter().map(listed));
    let endpoint = |url: &&str| format!("pools: [{{name: a, endpoints: [{url}]}}]\n");
    texts.extend(ENDPOINTS.iter().map(endpoint));
    let route = |settings: &&str| {
        format!(
            "{POOLS}routes: [{{name: r, targets: [a, {{pool: b, order: 2}}], {settings}}}, {{name: s, targets: [b]}}]\n"
        )
    };
    texts.extend(ROUTE.iter().map(route));
    let targets = |targets: &&str| format!("{POOLS}routes: [{{name: r, targets: {targets}}}]\n");
    texts.extend(TARGETS.iter().map(targets));
    texts.extend(TIMES.iter().map(|time| (*time).to_owned()));
    let mut seeds: Vec<_> = texts.into_iter().map(String::into_bytes).collect();
    seeds.extend([b"a: \n\n\xff".to_vec(), long_list(), wide_map()]);
    seeds
}

/// More endpoints than a pool takes.
fn long_list() -> Vec<u8> {
    let list: String = (0..1100)
        .map(|place| format!("- http://h:{}\n", place + 1))
        .collect();
    format!("pools: [{{name: a, discovery: {{file: beside}}}}]\n%%%\n{list}").into_bytes()
}

/// More problems than are listed, and more changes.
fn wide_map() -> Vec<u8> {
    let keys: String = (0..200).map(|place| format!("k{place}: 1\n")).collect();
    keys.into_bytes()
}

const WHOLE: [&str; 10] = [
    "auth: none\ncors: {origins: [https://app.example, 'http://localhost:5173', 'https://[::1]:1']}\npools: [{name: a, endpoints: ['http://h:1']}]\n",
    "pools:\n  - {name: a, discovery: {dns: 'engines.example:8000'}}\n  - {name: b, discovery: {dns: _http._tcp.engines.example}}\n  - {name: c, discovery: {file: endpoints.yaml}}\n  - {name: d, discovery: {dns: {name: x.example., port: 1, scheme: https, path: /y/v1, resolver: ['127.0.0.1:53', '::1'], ttl_min: 1s, ttl_max: 2s, empty_after: 3s}}}\n",
    "pools: [{name: a, http: 2, endpoints: ['http://h:1']}]\nroutes: [{name: r, targets: [a], heartbeat: 5s, on_disconnect: finish, fallback: [{route: a, on: [5xx, 429, timeout, context_length, unavailable]}]}]\n",
    "pools: &p [{<<: {}, name: &n a, endpoints: [*n, 'http://[::1]:1/?q=${KEY}']}]\nroutes: [{name: r, targets: [{pool: *n, weight: 1e-3}]}]",
    "admin: {listen: 127.0.0.1:0, token: wbSECRET-admin}\npools:\n  - name: a\n    kind: openai\n    api_keys: [wbSECRET-one, '${KEY}']\n    endpoints: [{name: x, url: '${URL}', weight: 2, labels: {gpu: A100}}]\n    tls: {ca: ca.pem, server_name: h}\n",
    "auth: keys\nkeys:\n  - {name: k, key_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, expires: 2027-01-01, models: ['a*'], tenant: t, tier: x}\npools: [{name: a, endpoints: ['http://h:1']}]\n",
    "version: 1\nserver: {listen: 0.0.0.0:1, max_body: 1MiB, max_connections: 9, drain_delay: 1s, drain_timeout: 2m, trusted_proxies: [10.0.0.0/8, '::1'], headers: minimal, zone: z}\nauth: none\nlog: {level: debug, requests: 0.5, slow: 2s}\npools: [{name: a, endpoints: ['http://h:1'], max_inflight: 3, health: {type: http, path: /x, interval: 1s, timeout: 1s, unhealthy_after: 2, healthy_after: 1, expect: [200]}, breaker: false, cooldown: {default: 1s, max: 2s}, fail_open: false, ramp: 0s, keepalive: 1s, stall_after: 9s, timeouts: {connect: 1s, first_byte: 1s, idle: 1s, total: 1s, stream_total: 1h}}]\n",
    "pools: [{name: a, endpoints: ['http://h:1']}, {name: b, endpoints: ['http://i:1', 'http://i:1']}]\nroutes:\n  - name: r\n    targets: [a, {pool: b, order: 2, name: c}]\n    policies: {session_affinity: {weight: 2, keys: [header.x, body.user, ip]}, least_inflight: {}}\n    picker: max\n    spill: true\n    usage: inject\n    retry: {max_attempts: 2, on: [connect, reset, timeout, 429, '503'], budget: {ratio: 0.1, floor_per_second: 1, window: 5s}, move_on_after: 3s}\n    fallback: [{route: s, on: [unavailable]}]\n  - {name: s, targets: [{pool: a, weight: 1}, {pool: b, weight: 0}], retry: false}\n",
    "a: !x |\n  ${NONE:-x}$$\n? b\n: [1, 'it''s', \"\\u00e9\"] # c\n---\n...\n",
    "admin: {listen: 127.0.0.1:0, token: 'file:secret.txt'}\nserver: {tls: {cert: soon.pem, key: soon.key, client_ca: ca.pem}}\npools: [{name: a, kind: openai, discovery: {file: beside}}]\n%%%\n- http://h:1/?key=${KEY}\n- {name: b, url: 'http://h:1/?key=${KEY}', weight: 2}\n",
];

const SECTIONS: [&str; 37] = [
    "server: {tls: {cert: good.pem, key: good.key}}",
    "server: {tls: {cert: old.pem, key: old.key}}",
    "server: {tls: {cert: young.pem, key: young.key}}",
    "server: {tls: {cert: good.pem, key: ca.key, client_ca: empty.pem}}",
    "server: {tls: {cert: v1.pem, key: good.key, client_ca: good.pem}}",
    "server: {tls: {cert: empty.pem, key: sealed.key}}",
    "server: {tls: {cert: large.pem, key: empty.pem}}",
    "server: {tls: {cert: good.pem, client_ca: none.pem}}",
    "server: {tls: {key: good.key}}",
    "server: {tls: {cert: ., key: beside}}\n%%%\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    "server: {tls: {cert: beside, key: beside}}\n%%%\n-----BEGIN CERTIFICATE-----\nA!\n-----END CERTIFICATE-----\n",
    "server: {listen: 8800, max_body: 0, max_connections: 0}",
    "server: {listen: localhost, max_body: 10 mib, headers: none}",
    "server: {listen: ':1', max_body: 1e9GiB, passthrough: [/tokenize, '/classify/*', '/v1/models', x, '/a?b', '/a//b', '/%zz']}",
    "server: {listen: '[::]:1', passthrough: /x, body_memory: 1MiB, drain_delay: 2d, drain_timeout: 400d}",
    "server: {trusted_proxies: [10.0.0.1/8, 'x', '10.0.0.0/40', '::/0']}",
    "log: {level: loud, requests: some}",
    "log: {level: error, requests: errors, slow: off}",
    "log: {level: trace, requests: 2}",
    "log: {level: warn, requests: all}",
    "cors: {origins: '*'}",
    "cors: {origins: ['null', 'a.example', 'ftp://a', 'https://a/', 'https://a/b', 'https://u@a', 'https://*.a', 'https://', 'https://a:0', 'https://A b']}",
    "auth: {}",
    "auth: keys",
    "keys: [{name: a, key: b}, {name: a, key: b}, {name: '', key_sha256: x}, {name: c}, {name: d, key: 'file:large.txt', expires: x}]",
    "keys: [{name: a, key: 'file:secret.txt', tier: x}, {name: b, key: 'file:empty.pem'}, {name: c, key: 'file:none'}, {name: d, key: 'file:.'}]",
    "admin: {listen: off, token: 'a b'}",
    "admin: {listen: 0.0.0.0:1}",
    "admin: {token: '$KEY'}",
    "admin: {token: '$${KEY}', listen: 127.0.0.1:0}",
    "admin: {token: 'x${OPEN'}",
    "admin: {token: '${1x}'}",
    "admin: {token: '${KEY:?x}${NONE}${EMPTY:-y}${KEY:-z}'}",
    "version: 2",
    "routes: []",
    "models: x\nkubernetes: {}\nRoutes: []",
    "pools: []",
];

const POOL: [&str; 44] = [
    "route_by: round_robin",
    "preset: chat, route_by: policy",
    "route_by: weight",
    "kind: sglang, http: 2",
    "kind: llamacpp, http: 2",
    "kind: tgi",
    "kind: ollama",
    "kind: trtllm",
    "kind: mistralrs",
    "kind: anthropic, health: tcp",
    "kind: azure, api_key: x",
    "kind: openai, forward_client_key: true",
    "kind: vllm, health: {type: http, path: x, expect: [99, x]}",
    "kind: vlm",
    "http: 1",
    "http: 3",
    "tls: {ca: ca.pem, client_cert: good.pem, client_key: good.key, server_name: h}",
    "tls: {ca: v1.pem, client_cert: good.pem}",
    "tls: {ca: empty.pem, client_key: good.key, server_name: 'a b'}",
    "tls: {client_cert: old.pem, client_key: ca.key}",
    "tls: {client_cert: beside, client_key: sealed.key}\n%%%\n-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
    "tls: false",
    "health: false, breaker: {window: 1s, min_requests: 1, error_rate: 0.5, consecutive: 3, open_for: 1s}",
    "health: {type: tcp, path: /x}",
    "health: [1]",
    "breaker: {error_rate: 2}",
    "breaker: true",
    "cooldown: {default: 2s, max: 1s}",
    "max_inflight: 0",
    "max_inflight: 1.5",
    "max_inflight: many",
    "ramp: 1x",
    "ramp: 5",
    "ramp: -1s",
    "keepalive: 1 h",
    "keepalive: 1S",
    "timeouts: {connect: 0s, first_byte: 1h, idle: 1ms, total: 2h, stream_total: off}",
    "timeouts: 5s",
    "model: ''",
    "api_keys: []",
    "api_key: x, api_keys: [y, z]",
    "fail_open: maybe",
    "endpoint: x, healt: false",
    "name: b",
];

const SOURCES: [&str; 26] = [
    "{dns: e.example}",
    "{dns: '_http._tcp.e:80'}",
    "{dns: 'http://e:80'}",
    "{dns: 'e:x'}",
    "{dns: '1.2.3.4:80'}",
    "{dns: {name: a..b, port: 1}}",
    "{dns: {name: 'a b', port: 1}}",
    "{dns: {name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, port: 1}}",
    "{dns: {name: a.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, port: 1}}",
    "{dns: {name: e, port: 1, ttl_min: 5s, ttl_max: 2s}}",
    "{dns: {name: e, port: 1, ttl_min: 0s}}",
    "{dns: {name: e, port: 1, resolver: dns.example}}",
    "{dns: {name: e, port: 443, scheme: https, resolver: ['[::1]', '10.0.0.1:5353', 'x:0']}}",
    "{dns: {name: e, port: 1, path: llm}}",
    "{dns: {name: e, port: 1, path: '/a?b'}}",
    "{dns: {name: e, port: 1, path: /v1/chat/completions}}",
    "{dns: {name: e, port: 1, type: aaaa}}",
    "{dns: {name: _x._tcp.e, scheme: https, type: a, port: 1}}",
    "{dns: {name: _x._tcp.e, scheme: https, path: /a/}}",
    "{dns: 'e:1', file: x}",
    "{}",
    "{kubernetes: {}}",
    "{file: .}",
    "{file: large.pem}",
    "{file: secret.txt}",
    "{dns: {port: 1}}",
];

const LISTS: [&str; 11] = [
    "",
    "# nothing\n",
    "[]",
    "~",
    "endpoints: [http://h:1]",
    "- http://h:1\n- {name: x, url: http://h:1, labels: {gpu: a}}\n- http://i:1/v1/\n",
    "[\"http://h:1\", {\"name\": \"x\", \"url\": \"https://[::1]\", \"weight\": 0}]",
    "- ftp://h\n- 1\n- {name: ''}\n",
    "[http://h:1",
    "- {name: x, url: http://h:1}\n- {name: x, url: http://h:2}\n",
    "a\n- b: [}\n",
];

const ENDPOINTS: [&str; 24] = [
    "'http://h:1/v1/', 'https://h', 'http://i:80', 'http://i/a/b?c=d'",
    "'h:1'",
    "'ftp://h:1'",
    "'http://'",
    "'http://u:p@h:1'",
    "'http://h:0'",
    "'http://h:x'",
    "'http://h:99999'",
    "'http://[::1'",
    "'http://[::1%eth0]:1'",
    "'http://[::1]x'",
    "'http://::1:1'",
    "'http://h_a b'",
    "'http://h:1/v1/chat/completions'",
    "'http://h:1/#x'",
    "'http://h:1/?'",
    "'http://h:1/%zz'",
    "'http://h:1', 'http://h:1'",
    "{name: x, url: 'http://h:1', weight: -1}, {name: y, url: 'http://h:2', weight: 1e10}, {name: z, url: 'http://h:3', weight: 0.0000001}, {name: w, url: 'http://h:4', weight: .nan}",
    "{name: x, url: 'http://h:1', weight: x, labels: []}",
    "{name: x}, {url: 'http://h:1', labels: {a: 1, b: ~}}",
    "[], 5, true",
    "'HTTP://H:1'",
    "'http:/h'",
];

const ROUTE: [&str; 38] = [
    "heartbeat: off, on_disconnect: cancel, usage: passive",
    "heartbeat: 0",
    "heartbeat: 90s",
    "heartbeat: never",
    "usage: active",
    "spill: 1",
    "picker: weighted",
    "policies: {}",
    "policies: {overload: {}}",
    "route_by: round_robin",
    "route_by: weight",
    "route_by: policy, preset: agents",
    "route_by: round_robin, preset: auto",
    "policies: {session_affinity: {weight: 2, keys: [header.x, body.user, ip]}, least_inflight: {weight: 9}}",
    "policies: {session_affinity: {weight: 1}, least_inflight: {weight: 1.5}}",
    "policies: {session_affinity: {keys: [body., cookie.x]}, least_inflight: ~}",
    "policies: {sesion_affinity: {}, prefix: {a: [1, .inf, {b: ~}]}}",
    "policies: {least_inflight: {weight: [1], x: true}}",
    "policies: []",
    "retry: {max_attempts: 0, on: [5xx, 99, x, [1]]}",
    "retry: {max_attempts: 1}, fallback: [{route: s, on: [timeout, 5xx]}]",
    "retry: {on: []}, fallback: [{route: s, on: []}]",
    "retry: {budget: {ratio: 2, floor_per_second: -1, window: 0s}, move_on_after: 0s, resend: false}",
    "retry: true",
    "retry: {budget: false}",
    "fallback: [{route: s}, {route: s}]",
    "fallback: [{route: r}]",
    "fallback: [{route: t}]",
    "fallback: [s, {route: s, on: [context_length]}]",
    "fallback: s",
    "fallback: {route: s, on: all}",
    "models: [x]",
    "name: s",
    "queue: {}",
    "max_attempts: 3",
    "on_disconnect: finish, retry: {max_attempts: 9, on: ['429']}",
    "match: {}",
    "timeout: 5s",
];

const TARGETS: [&str; 18] = [
    "[]",
    "a",
    "[c]",
    "[{pool: a, weight: 1}, b]",
    "[{pool: a, weight: 1}], route_by: policy",
    "[{pool: a, weight: 0}, {pool: b, weight: 0}]",
    "[{pool: a, weight: 1}, {pool: b, weight: 2}], policies: {least_inflight: {}}",
    "[{pool: a, weight: 1.5}, {pool: a, weight: 1}]",
    "[{pool: a, order: 2}, {pool: b, order: 3}]",
    "[{pool: a, order: 0}]",
    "[{pool: a, name: x}, {pool: b, name: x}]",
    "[{name: x}]",
    "[{pool: a, order: 1}, {pool: b, order: 2, weight: 1}], spill: false",
    "a}, {name: q, targets: b, fallback: [{route: r}]}, {name: r2, targets: [b], fallback: [q]",
    "[a], fallback: [q]}, {name: q, targets: b, fallback: [{route: r}]",
    "[a, a]",
    "[a], policies: {least_inflight: {weight: 1}, session_affinity: {weight: 1.0000001}}",
    "[b], policies: {session_affinity: {weight: 1}, least_inflight: {weight: 0.5}}",
];

const TIMES: [&str; 13] = [
    "1500ms",
    "1.5h",
    "2d",
    "0s",
    "1us",
    "5",
    "s",
    "5 Sec",
    "1e3s",
    "500d",
    "-1s",
    "1.0000001s",
    "5m30s",
];
