//! Bad files and exactly what is said of them.

use crate::common::{bad, check_places, check_problems as check, load, pool, pool_with, route};

#[test]
fn all_problems_of_a_file_are_told_at_once_in_its_order() {
    check_places(
        "\
server: {listen: 8800, max_body: 32}
pools:
  - name: a
    kidn: vllm
    endpoints:
      - http://gpu1:8000
      - {url: gpu2:8000, wieght: 1}
    timeouts: {idle: 30}
routes:
  - name: r
    targets: [a, b]
    policies: {session_afinity: {}}
",
        &[
            ":1:18: server.listen: an address and a port are expected here, but this is a number | write `127.0.0.1:8800`",
            ":1:34: server.max_body: `32` has no unit | write `32MiB`; units are B, kB, KB, MB, GB, KiB, MiB, GiB",
            ":4:5: pools[0].kidn: unknown key `kidn` | did you mean `kind`? known: name, …",
            ":7:15: pools[0].endpoints[1].url: the URL has no scheme | write `http://host:port` or `https://host`",
            ":7:26: pools[0].endpoints[1].wieght: unknown key `wieght` | did you mean `weight`? known: name, …",
            ":8:22: pools[0].timeouts.idle: `30` has no unit | write `30s`; units are us, ms, s, m, h, d",
            ":11:18: routes[0].targets[1]: there is no pool `b` | pools: a",
            ":12:16: routes[0].policies.session_afinity: unknown policy `session_afinity` | did you mean `session_affinity`? known: session_affinity, …",
        ],
    );
}

#[test]
fn what_is_no_config_is_refused() {
    check(
        "",
        &[
            "the file is empty | the smallest config is a list `pools` with one pool: a name and its endpoints",
        ],
    );
    check(
        "# only a comment\n",
        &[
            "the file is empty | the smallest config is a list `pools` with one pool: a name and its endpoints",
        ],
    );
    let told = bad("pools");
    assert_eq!(told[0].message, "a map is expected here, but this is text");
    check("{}", &["the key `pools` is missing | add `pools: …`"]);
    check(
        "pools: []",
        &[
            "pools: there is no pool, so there is nothing to send requests to | add a pool with a name and its endpoints",
        ],
    );
    check(
        "pools:",
        &["pools: a list is expected here, but nothing is given | give a value, or remove the key"],
    );
    check(
        &format!("{}---\n{}", pool(""), pool("")),
        &["a second document begins here | remove the line `---` and what follows it"],
    );
    check(
        &pool("version: 2"),
        &[
            "version: this program reads version 1 of the format, not `2` | write `version: 1`, or leave it out",
        ],
    );
    assert!(
        bad("pools: [{")
            .iter()
            .all(|problem| problem.message.starts_with("not valid YAML: ") && problem.line > 0)
    );
    assert!(
        bad("a:\n\tb: 1")
            .iter()
            .all(|problem| problem.message.starts_with("not valid YAML: ") && problem.line == 2)
    );
}

#[test]
fn duplicate_keys_are_told_with_their_first_place() {
    check_places(
        "pools:\n  - name: a\n    endpoints: [http://h:1]\n    name: b\n    fail_open: true\n    fail_open: true\n",
        &[
            ":4:5: pools[0].name: the key `name` is here twice, first on line 2 | keep one of them",
            ":6:5: pools[0].fail_open: the key `fail_open` is here twice, first on line 5 | keep one of them",
        ],
    );
}

#[test]
fn what_comes_later_is_refused_by_name() {
    for (text, path, name) in [
        (pool("otlp: {endpoint: http://h}"), "otlp", "otlp"),
        (pool("storage: {path: x}"), "storage", "storage"),
        (pool("quota_groups: {}"), "quota_groups", "quota_groups"),
        (pool("services: []"), "services", "services"),
        (pool("classes: []"), "classes", "classes"),
        (pool("state: {backend: redis}"), "state.backend", "backend: redis"),
        (
            pool("keys: [{name: a, key: b, limits: {}}]"),
            "keys[0].limits",
            "limits",
        ),
        (
            pool("keys: [{name: a, key: b, priority: P0}]"),
            "keys[0].priority",
            "priority",
        ),
        (
            pool("keys: [{name: a, key: b, max_priority: P0}]"),
            "keys[0].max_priority",
            "max_priority",
        ),
        (
            "pools: [{name: a, discovery: {kubernetes: {}}}]".into(),
            "pools[0].discovery.kubernetes",
            "kubernetes",
        ),
        (pool_with("quota_group: x"), "pools[0].quota_group", "quota_group"),
        (route("targets: [a], choose: {}"), "routes[0].choose", "choose"),
        (route("targets: [a], hedge: {}"), "routes[0].hedge", "hedge"),
        (route("targets: [a], queue: {}"), "routes[0].queue", "queue"),
        (route("targets: [a], cache: {}"), "routes[0].cache", "cache"),
        (
            route("targets: [a], policies: {decision_service: {}}"),
            "routes[0].policies.decision_service",
            "decision_service",
        ),
    ] {
        let problems = bad(&text);
        let found: Vec<(&str, &str)> = problems
            .iter()
            .map(|problem| (problem.path.as_str(), problem.message.as_str()))
            .collect();
        let message = format!("`{name}` is not supported yet");
        assert!(found.contains(&(path, message.as_str())), "{text}: {found:?}");
    }
    // What stands in the place of a required key is all that is told.
    check(
        &route("targets: [a], fallback: [{cached: true}]"),
        &[
            "routes[0].fallback[0].cached: `cached` is not supported yet | remove it; a later version takes it",
        ],
    );
    check(
        "pools: [{name: a, discovery: {kubernetes: {}}}]",
        &[
            "pools[0].discovery.kubernetes: `kubernetes` is not supported yet | remove it; a later version takes it",
        ],
    );
}

#[test]
fn wrong_types_and_ranges_say_what_is_wanted() {
    check(
        &pool("server: []"),
        &[
            "server: a map is expected here, but this is a list | write a map of settings; known: listen, tls, max_body, body_memory, max_connections, drain_delay, drain_timeout, trusted_proxies, headers, passthrough, zone",
        ],
    );
    check(
        &pool("server: {max_connections: 0}"),
        &["server.max_connections: `0` is not a whole number from 1 to 1000000"],
    );
    check(
        &pool("server: {max_connections: many}"),
        &[
            "server.max_connections: a whole number from 1 to 1000000 is expected here, but this is the text `many` | write a number without quotes and units",
        ],
    );
    check(
        &pool(
            "server: {passthrough: [tokenize, /a/../b, '/*', /v1/files, /v1/models/x, '/v1/*', '/a b', /%41, /health]}",
        ),
        &[
            "server.passthrough[0]: the path `tokenize` does not begin with `/` | write a path such as `/tokenize`, or `/classify/*` for all below it",
            "server.passthrough[1]: the path `/a/../b` has an empty segment, or one of dots alone | write a path such as `/tokenize`, or `/classify/*` for all below it",
            "server.passthrough[2]: the path `/*` stands for everything | write a path such as `/tokenize`, or `/classify/*` for all below it",
            "server.passthrough[3]: `/v1/files` is not supported yet | remove it; a later version takes it",
            "server.passthrough[4]: `/v1/models/x` would hide `/v1/models`, which the gateway serves by itself | name only paths that it does not serve",
            "server.passthrough[5]: `/v1/*` would hide `/v1/audio/speech`, which the gateway serves by itself | name only paths that it does not serve",
            "server.passthrough[6]: the path `/a b` holds characters other than letters, digits and `/ - . _ ~ : @` | write a path such as `/tokenize`, or `/classify/*` for all below it",
            "server.passthrough[7]: the path `/%41` holds characters other than letters, digits and `/ - . _ ~ : @` | write a path such as `/tokenize`, or `/classify/*` for all below it",
            "server.passthrough[8]: the gateway serves `/health` by itself | name only paths that it does not serve",
        ],
    );
    check(
        &pool("server: {trusted_proxies: [10.0.0.0/33]}"),
        &[
            "server.trusted_proxies[0]: `10.0.0.0/33` is not an address range | write `10.0.0.0/8`, `fd00::/8` or one address",
        ],
    );
    check(
        &pool("server: {listen: \":8800\"}"),
        &[
            "server.listen: `:8800` is not an IP address with a port | write `0.0.0.0:8800` for all interfaces",
        ],
    );
    check(
        &pool("server: {drain_timeout: 5}"),
        &["server.drain_timeout: `5` has no unit | write `5s`; units are us, ms, s, m, h, d"],
    );
    check(
        &pool("admin: true"),
        &[
            "admin: `true` says nothing that the defaults do not | leave it out for the defaults, write a map of settings, or `false`",
        ],
    );
    check(
        &pool("admin: off"),
        &["admin: `off` is text | write `false` to switch it off"],
    );
    check(
        &pool("auth: key"),
        &["auth: unknown word `key` | did you mean `keys`? known: keys, none"],
    );
    check(
        &pool("log: {requests: 1.5}"),
        &["log.requests: `1.5` is not a number from 0 to 1"],
    );
    check(
        &pool_with("fail_open: yes"),
        &["pools[0].fail_open: `yes` is neither true nor false | write `true` or `false`, without quotes"],
    );
    check(
        &pool_with("model: 4"),
        &["pools[0].model: text that names it is expected here, but this is a number | put it in quotes"],
    );
    check(
        &pool_with("kind: vlm"),
        &[
            "pools[0].kind: unknown word `vlm` | did you mean `vllm`? known: vllm, sglang, llamacpp, tgi, ollama, trtllm, mistralrs, lmdeploy, openai, anthropic, gemini, azure, generic",
        ],
    );
    check(
        &pool_with("timeouts: {connect: 0s}"),
        &["pools[0].timeouts.connect: this time must be longer than 0 | leave the key out for the default"],
    );
    check(
        &pool_with("breaker: {error_rate: 2}"),
        &["pools[0].breaker.error_rate: `2` is not a number from 0 to 1"],
    );
    check(
        &pool_with("cooldown: {default: 2m}"),
        &[
            "pools[0].cooldown: `default` is longer than `max` | `default` is 5s and `max` 60s where they are not given",
        ],
    );
    check(
        &pool_with("health: {type: tcp, path: /x}"),
        &[
            "pools[0].health: a TCP probe has neither `path` nor `expect` | write `type: http`, or remove them",
        ],
    );
    check(
        &pool_with("health: {path: health}"),
        &["pools[0].health.path: a path begins with `/` and holds no spaces | write `/health`"],
    );
    check(
        &pool_with("health: {expect: [199]}"),
        &["pools[0].health.expect[0]: `199` is not a status from 200 to 599"],
    );
    check(
        &pool_with("tls: {client_cert: missing.pem}"),
        &[
            "pools[0].tls.client_cert: a client certificate needs its key | add `client_key`",
            "pools[0].tls.client_cert: the file cannot be read: there is no such file | give the path of a PEM file, relative to this config file",
        ],
    );
    check(
        &pool_with("api_key: a, api_keys: [b]"),
        &[
            "pools[0].api_keys: `api_key` and `api_keys` are both given | keep `api_keys`, and put the other key into it",
        ],
    );
    check(
        "pools: [{name: a, endpoints: []}]",
        &["pools[0].endpoints: the pool has no endpoint | add the URL of one"],
    );
    check(
        "pools: [{name: ' a', endpoints: [http://h]}]",
        &[
            "pools[0].name: the name holds a control character, or a space at its ends | give a short name of visible characters",
        ],
    );
    check(
        "pools: [{name: a, endpoints: [7]}]",
        &[
            "pools[0].endpoints[0]: text (a URL), or a map with `url`, is expected here, but this is a number | put it in quotes",
        ],
    );
}

#[test]
fn keys_open_something_or_are_refused() {
    check(
        &pool("keys: [{name: a}]"),
        &["keys[0]: the key `key` is missing | add `key: ${NAME}` or `key_sha256: …`"],
    );
    check(
        &pool("keys: [{name: a, key: x, key_sha256: y}]"),
        &["keys[0].key_sha256: `key` and `key_sha256` are both given | keep one of them"],
    );
    check(
        &pool("keys: [{name: a, key_sha256: abc}]"),
        &[
            "keys[0].key_sha256: a SHA-256 is 64 hexadecimal digits | make one with `printf %s \"$KEY\" | sha256sum`",
        ],
    );
    check(
        &pool("keys: [{name: a, key: x}, {name: b, key: x}]"),
        &["keys[1]: this is the same key as keys[0] | give every entry its own key, or remove one"],
    );
    check(
        &pool("keys: [{name: a, key: x, expires: tomorrow}]"),
        &[
            "keys[0].expires: `tomorrow` is neither a date nor a time | write `2027-01-01` (start of that day, UTC) or `2027-01-01T12:00:00Z`",
        ],
    );
    check(
        &pool("keys: [{name: a, key: x, models: [\"g*t\"]}]"),
        &[
            "keys[0].models[0]: `*` stands for any rest and may only end a name | write `gpt-*`, or the whole name",
        ],
    );
    check(
        &pool("auth: keys"),
        &[
            "auth: `auth` is `keys`, but there is no key, so nobody could get in | add `keys`, or write `auth: none`",
        ],
    );
    check(
        &pool("server: {listen: 0.0.0.0:8800}"),
        &[
            "server.listen: 0.0.0.0:8800 can be reached from other machines, and no key is asked for | add `keys`, or write `auth: none` if everybody who reaches it may use it",
        ],
    );
    check(
        &pool("server: {listen: 127.0.0.1:8801}"),
        &[
            "the admin API and the data plane both listen on port 8801 | give `admin.listen` or `server.listen` another port",
        ],
    );
}

#[test]
fn variables_and_secrets_are_refused_without_their_values() {
    check(
        &pool_with("api_key: ${NOT_SET}"),
        &[
            "pools[0].api_key: the environment variable `NOT_SET` is not set | set it, or give a default: `${NOT_SET:-default}`; a literal `${` is written `$${`",
        ],
    );
    check(
        &pool("keys: [{name: a, key: ${EMPTY}}]"),
        &[
            "keys[0].key: the secret is empty | give a value, a variable that is set, or `file:/path/of/a/file`",
        ],
    );
    check(
        &pool("keys: [{name: a, key: file:none-here}]"),
        &[
            "keys[0].key: the secret's file `none-here` cannot be read: there is no such file | the file must hold the secret alone; a newline at its end is dropped",
        ],
    );
    check(
        &pool_with("api_key: ${SPACED}"),
        &[
            "pools[0].api_key: the secret holds a space, a control character or a letter outside ASCII, which a header cannot carry | check for a newline, or quotes inside quotes",
        ],
    );
    check(
        &pool_with("max_inflight: ${KEY}"),
        &["pools[0].max_inflight: `${KEY}` is not a whole number from 1 to 1000000"],
    );
    check(
        &pool_with("ramp: ${KEY}"),
        &[
            "pools[0].ramp: a time with its unit, such as `10s`, is expected here, but `${KEY}` stands for something else | write a number and a unit (us, ms, s, m, h, d), such as `30s`",
        ],
    );
    check(
        &pool_with("kind: ${KEY}"),
        &[
            "pools[0].kind: unknown word `${KEY}` | known: vllm, sglang, llamacpp, tgi, ollama, trtllm, mistralrs, lmdeploy, openai, anthropic, gemini, azure, generic",
        ],
    );
    // A secret in any place, with anything wrong around it, is never quoted.
    for text in [
        pool_with("api_key: [sk-hunter2]"),
        pool_with("api_keys: sk-hunter2"),
        pool_with("api_key: 'sk-hunter2 '"),
        pool_with("api_key: {key: sk-hunter2}"),
        "pools: [{name: a, endpoints: ['http://u:sk-hunter2@h']}]".to_owned(),
        "pools: [{name: a, endpoints: ['http://h/?key=sk-hunter2', 'http://h/?key=sk-hunter2']}]".to_owned(),
        "pools: [{name: a, endpoints: ['ftp://h/?key=sk-hunter2', 'http://h/?key=sk-hunter2#']}]".to_owned(),
        pool("admin: {token: 'sk-hunter2 x'}"),
        pool(
            "keys: [{name: a, key: sk-hunter2}, {name: b, key: sk-hunter2}, {name: c, key_sha256: sk-hunter2}]",
        ),
    ] {
        let told = load(&text).expect_err(&text);
        assert!(!told.to_string().contains("hunter2"), "{told}");
        assert!(
            !serde_json::to_string(&told).unwrap().contains("hunter2"),
            "{told}"
        );
    }
}

#[test]
fn anchors_and_merge_keys_work_and_cannot_explode() {
    check(
        "pools: &p [{name: a, endpoints: *p}]",
        &["the alias stands inside what it refers to | write the value out"],
    );
    check(
        "<<: 5\npools: []",
        &["`<<` takes a map or a list of maps | write `<<: *name`"],
    );
    check(
        &pool("log: !custom {}"),
        &["YAML tags (`!…`) are not supported | remove the tag; put text in quotes"],
    );
    let mut bomb = String::from("a: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        bomb.push_str(&format!(
            "b{level}: &a{level} [{}]\n",
            vec![format!("*a{}", level - 1); 10].join(", ")
        ));
    }
    let problems = bad(&bomb);
    assert!(
        problems[0]
            .message
            .starts_with("the file has more than 200000 values"),
        "{problems:?}"
    );
    let deep = format!("pools: {}{}", "[".repeat(500), "]".repeat(500));
    assert!(bad(&deep)[0].message.starts_with("not valid YAML"));
    let large = format!("pools: [] # {}", "x".repeat(5 << 20));
    assert_eq!(bad(&large)[0].message, "the file is larger than 4 MiB");
}

#[test]
fn a_long_list_of_problems_is_cut() {
    let text = format!("pools:\n{}", "  - {name: a, endpoints: [], x: 1}\n".repeat(200));
    let problems = bad(&text);
    assert_eq!(problems.len(), 101);
    assert!(problems[100].message.ends_with(" more problems"));
}

#[test]
fn the_gateway_is_not_its_own_engine() {
    let told = |index: usize, key: &str| {
        format!(
            "pools[0].endpoints[{index}]: this is `{key}`, the gateway's own address, so requests would go in circles | give the address of the engine"
        )
    };
    let check = |listeners: &str, urls: &str, expect: &[String]| {
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        check(
            &format!("{listeners}\npools: [{{name: a, endpoints: [{urls}]}}]"),
            &expect,
        );
    };
    check(
        "",
        "http://gpu1:8000, http://127.0.0.1:8800/v1, http://localhost:8801",
        &[told(1, "server.listen"), told(2, "admin.listen")],
    );
    check(
        "auth: none\nserver: {listen: '[::]:80'}\nadmin: false",
        "http://127.0.0.1, 'http://[::1]/a'",
        &[told(0, "server.listen"), told(1, "server.listen")],
    );
    let mine = |count: usize| -> Vec<_> { (0..count).map(|index| told(index, "server.listen")).collect() };
    check(
        "",
        "http://127.1:8800, http://2130706433:8800, http://0x7f.1:8800, http://0177.0.0.1:8800, 'http://[::ffff:127.0.0.1]:8800', http://0.0.0.0:8800",
        &mine(6),
    );
    let others = "pools: [{name: a, endpoints: [http://127.2:8800, http://256.1:8800, http://0x7g.1:8800, http://1.2.3.4.5:8800]}]";
    assert!(load(others).is_ok(), "{:?}", load(others).err());
    let apart =
        "pools: [{name: a, endpoints: [http://127.0.0.1:8802, http://127.0.0.2:8800, http://gpu1:8800]}]";
    assert!(load(apart).is_ok());
}

#[test]
fn a_list_without_brackets_is_told_how_to_write_it() {
    check(
        "pools: [{name: a, endpoints: http://h:1}]",
        &["pools[0].endpoints: a list is expected here, but this is text | put it in square brackets: `[…]`"],
    );
}
