//! `pools[].discovery`: its forms, what is wrong with them, files of endpoints.

use crate::common::check_problems as check;
use std::path::Path;
use std::time::Duration;
use weighbridge_config::discovery::{Discovery, Dns, ENDPOINTS_MAX, List, Records, read_endpoints};
use weighbridge_config::{Config, Loaded, load, load_str};

fn loaded(discovery: &str) -> Loaded {
    let text = format!("pools: [{{name: a, discovery: {discovery}}}]");
    load_str("t.yaml", &text, &|_| None).unwrap_or_else(|problems| panic!("{problems}"))
}

fn source(config: &Config) -> Discovery {
    config.pools[0].discovery.clone().unwrap()
}

fn dns(discovery: &str) -> Dns {
    match source(&loaded(discovery).config) {
        Discovery::Dns(dns) => dns,
        other => panic!("{other:?}"),
    }
}

#[test]
fn dns_has_short_and_long_forms() {
    let short = dns("{dns: Engines.Example:8000}");
    assert_eq!(
        short,
        Dns {
            name: "engines.example".into(),
            records: Records::Address { port: 8000 },
            https: false,
            prefix: String::new(),
            ttl_min: Duration::from_secs(1),
            ttl_max: Duration::from_secs(60),
            empty_after: Duration::from_secs(300),
            labels: vec![],
            resolver: vec![],
        }
    );
    assert_eq!(dns("{dns: {name: engines.example, port: 8000}}"), short);
    assert_eq!(dns("{dns: _http._tcp.e.example}").records, Records::Service);
    assert_eq!(
        dns("{dns: {name: e.example, type: srv}}").records,
        Records::Service
    );
    let long = dns(
        "{dns: {name: e.example., port: 1, scheme: https, path: /llm/v1, ttl_min: 2s, ttl_max: 3s, empty_after: 0s, \
         resolver: [127.0.0.1, \"[::1]:5353\"]}}",
    );
    assert_eq!((long.name.as_str(), long.host()), ("e.example.", "e.example"));
    assert!(long.https);
    assert_eq!(long.prefix, "/llm");
    assert_eq!(
        long.resolver,
        ["127.0.0.1:53".parse().unwrap(), "[::1]:5353".parse().unwrap()]
    );
}

#[test]
fn what_dns_names_becomes_an_endpoint() {
    let found =
        dns("{dns: {name: e.example, port: 8000, path: /llm}}").at_address("[::1]:8000".parse().unwrap());
    assert_eq!(&*found.spec.name, "[::1]:8000/llm");
    assert_eq!(found.endpoint.url.authority, "e.example:8000");
    assert_eq!(&*found.spec.address, "http://e.example:8000/llm [::1]:8000");
    let service = dns("{dns: {name: _x._tcp.e, scheme: https}}");
    let at = |port: u16, address: &str| {
        let addresses = vec![address.parse().unwrap()];
        service.at_target(("pod-0.e", port), addresses, weighbridge_core::spec::Weight::ONE)
    };
    assert_eq!(&*at(443, "10.0.0.1:443").spec.name, "pod-0.e:443");
    assert_eq!(at(443, "10.0.0.1:443").endpoint.url.authority, "pod-0.e");
    assert_eq!(at(443, "10.0.0.1:443"), at(443, "10.0.0.1:443"));
    assert_ne!(at(443, "10.0.0.1:443"), at(443, "10.0.0.2:443"));
}

#[test]
fn wrong_sources_are_refused_where_they_stand() {
    let pool = |discovery: &str| format!("pools: [{{name: a, discovery: {discovery}}}]");
    for (discovery, expect) in [
        (
            "{dns: e.example}",
            "pools[0].discovery.dns: addresses in DNS have no port, and none is given | write `dns: engines.example:8000`, or add `port: 8000`",
        ),
        (
            "{dns: \"_http._tcp.e:80\"}",
            "pools[0].discovery.dns: SRV records bring their own port | remove the port, or write `type: a`",
        ),
        (
            "{dns: \"http://e:80\"}",
            "pools[0].discovery.dns: this is a URL, but a name with a port is expected here | write `dns: engines.example:8000`, or the map {name: …, port: …, scheme: …, path: …}",
        ),
        (
            "{dns: \"e:x\"}",
            "pools[0].discovery.dns: what follows the colon is not a port from 1 to 65535 | write `engines.example:8000`",
        ),
        (
            "{dns: {name: a..b, port: 1}}",
            "pools[0].discovery.dns.name: the name has a part that is empty or longer than 63 characters | use letters, digits, `-`, `_` and dots, other letters in their `xn--` form",
        ),
        (
            "{dns: {name: e, port: 1, ttl_min: 5s, ttl_max: 2s}}",
            "pools[0].discovery.dns.ttl_max: `ttl_max` is less than `ttl_min` | raise `ttl_max`, or lower `ttl_min`",
        ),
        (
            "{dns: {name: e, port: 1, ttl_min: 0s}}",
            "pools[0].discovery.dns.ttl_min: an answer is kept for at least 100 ms | name servers are not asked more often",
        ),
        (
            "{dns: {name: e, port: 1, resolver: dns.example}}",
            "pools[0].discovery.dns.resolver: `dns.example` is not the address of a name server | write `127.0.0.1:53`, `10.0.0.10` or `[::1]:53`",
        ),
        (
            "{dns: {name: e, port: 1, path: llm}}",
            "pools[0].discovery.dns.path: the path does not begin with `/` | write `/llm`",
        ),
        (
            "{dns: e:1, file: x}",
            "pools[0].discovery.file: `dns` and `file` are both given | keep one of them",
        ),
        (
            "{}",
            "pools[0].discovery: the key `dns` is missing | add `dns: …` or `file: …`",
        ),
    ] {
        check(&pool(discovery), &[expect]);
    }
    check(
        "pools: [{name: a, endpoints: [http://h], discovery: {dns: e:1}}]",
        &["pools[0].discovery: `endpoints` and `discovery` are both given | keep one of them"],
    );
    check(
        "pools: [{name: a}]",
        &["pools[0]: the key `endpoints` is missing | add `endpoints: …` or `discovery: …`"],
    );
}

#[test]
fn what_surprises_is_warned_of() {
    let warnings = |loaded: &Loaded| -> Vec<String> {
        loaded
            .warnings
            .iter()
            .map(|warning| format!("{}: {}", warning.path, warning.message))
            .collect()
    };
    assert_eq!(
        warnings(&loaded("{dns: \"10.0.0.1:8000\"}")),
        ["pools[0].discovery.dns: this is an address and not a name, so there is nothing to follow"]
    );
    assert_eq!(
        warnings(&loaded("{file: /nowhere/endpoints.yaml}")),
        ["pools[0].discovery.file: there is no such file, so the pool has no endpoint until there is"]
    );
    let twice = "pools: [{name: a, discovery: {dns: e:1}}, {name: b, discovery: {dns: e:1}}]";
    assert_eq!(
        warnings(&load_str("t.yaml", twice, &|_| None).unwrap()),
        [
            "pools[1].discovery: the pool `a` follows the same source, and neither sees the other's requests in flight"
        ]
    );
    let tls = "{dns: e:1}, tls: {server_name: x}";
    assert!(warnings(&loaded(tls))[0].starts_with("pools[0].tls: `tls` has no effect"));
    assert_eq!(
        warnings(&loaded(
            "{dns: {name: e, port: 1, scheme: https}}, tls: {server_name: x}"
        )),
        Vec::<String>::new()
    );
}

fn read(text: &str) -> Result<Vec<String>, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("endpoints.yaml");
    std::fs::write(&path, text).unwrap();
    let shown = dir.path().display().to_string();
    let list = List { path, ranks: 1 };
    match read_endpoints(&list, &|name| (name == "HOST").then(|| "h".to_owned())) {
        Ok((found, warnings)) => Ok(found
            .iter()
            .map(|found| {
                format!(
                    "{} {} {}",
                    found.spec.name,
                    found.spec.address,
                    found.spec.weight.as_f64()
                )
            })
            .chain(warnings.iter().map(|warning| warning.message.clone()))
            .collect()),
        Err(problems) => Err(problems.to_string().replace(&shown, "DIR")),
    }
}

#[test]
fn a_file_of_endpoints_has_the_form_of_endpoints() {
    let good = ["h:1 http://h:1 1", "b http://h:2 2.5"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(
        read("- http://${HOST}:1\n- {name: b, url: \"http://h:2\", weight: 2.5}\n"),
        Ok(good.clone())
    );
    assert_eq!(
        read(r#"["http://h:1", {"name": "b", "url": "http://h:2", "weight": 2.5}]"#),
        Ok(good)
    );
    assert_eq!(read("[]"), Ok(vec![]));
    assert_eq!(
        read("- {name: a, url: http://h:1}\n- {name: b, url: http://h:1}\n")
            .unwrap()
            .last()
            .map(String::as_str),
        Some("`b` has the URL of `a`")
    );
}

#[test]
fn a_bad_file_of_endpoints_is_told_with_its_line() {
    for (text, expect) in [
        ("", "DIR/endpoints.yaml"),
        ("- http://h:1\n- {url: ", "DIR/endpoints.yaml:2"),
        (
            "- http://h:1\n- h:2\n",
            "DIR/endpoints.yaml:2:3: [1]: the URL has no scheme",
        ),
        (
            "- http://h:1\n- http://h:1\n",
            "DIR/endpoints.yaml:2:3: [1]: [0] is also named `h:1`",
        ),
        (
            "endpoints: [http://h:1]\n",
            "DIR/endpoints.yaml:1:1: a list is expected here, but this is a map",
        ),
    ] {
        let told = read(text).unwrap_err();
        assert!(told.starts_with(expect), "{text:?}: {told}");
    }
    let many: String = (0..=ENDPOINTS_MAX)
        .map(|i| format!("- http://h{i}:1\n"))
        .collect();
    assert!(
        read(&many)
            .unwrap_err()
            .contains("lists 1025 endpoints, more than 1024")
    );
}

#[test]
fn a_config_holds_what_its_file_of_endpoints_says() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("w.yaml");
    std::fs::write(&config, "pools: [{name: a, discovery: {file: e.yaml}}]").unwrap();
    let load = |path: &Path| load(path, &|_| None);
    std::fs::write(dir.path().join("e.yaml"), "[http://h:1]").unwrap();
    let loaded = load(&config).unwrap();
    assert_eq!(loaded.config.endpoints_of(0).len(), 1);
    assert_eq!(
        source(&loaded.config),
        Discovery::File(List {
            path: dir.path().join("e.yaml"),
            ranks: 1
        })
    );
    assert_eq!(loaded.warnings, []);
    std::fs::write(dir.path().join("e.yaml"), "[http://h:1").unwrap();
    let problems = load(&config).unwrap_err().to_string();
    assert!(problems.contains("e.yaml:1"), "{problems}");
}
