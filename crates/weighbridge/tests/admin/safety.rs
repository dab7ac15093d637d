//! Who is answered, and what no answer holds.

use super::{SOON, binary, eventually, gateway, pool};
use serde_json::{Value, json};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{self, Request, raw};
use weighbridge_test_engine::harness::{Gateway, GatewayOptions};

#[test]
fn the_api_needs_the_token() {
    let ups = Upstream::start_all(["a"]);
    let gateway = gateway(&ups);
    let get = |path: &str, headers: &[(&str, &str)]| client::get(&gateway.admin_url(path), headers);
    let document = gateway.api("/api/openapi.json");
    let mut closed = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let method = method.to_uppercase();
            let request = Request::new(&method, &gateway.admin_url(path)).body("{}");
            let needs = !operation["security"]
                .as_array()
                .unwrap()
                .iter()
                .any(|way| *way == json!({}));
            let needs = needs && operation["security"] != json!([]);
            closed += usize::from(needs);
            let refused = request.send().status == 401;
            assert_eq!(refused, needs, "{method} {path} without a token");
            let wrong = request.header("authorization", "Bearer wrong").send();
            assert_eq!(wrong.status == 401, needs, "{method} {path} with a wrong token");
            assert!(!needs || wrong.header("www-authenticate") == Some("Bearer"));
        }
    }
    assert!(closed >= 12, "{closed} calls need the token");
    assert_eq!(
        get("/api/status", &[("authorization", "Bearer test-admin-token")]).status,
        200
    );
    let answered = get("/metrics", &[]);
    assert_eq!(answered.header("cache-control"), Some("no-store"));
    assert_eq!(answered.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answered.header("access-control-allow-origin"), None);
}

#[test]
fn pages_of_other_sites_get_nothing() {
    let ups = Upstream::start_all(["a"]);
    let gateway = gateway(&ups);
    let token = format!("Bearer {}", gateway.admin_token());
    let rebound = [("host", "evil.example"), ("authorization", token.as_str())];
    let foreign = [
        ("origin", "http://evil.example"),
        ("authorization", token.as_str()),
    ];
    for path in ["/metrics", "/health", "/api/status", "/nothing"] {
        for headers in [rebound, foreign] {
            let answer = client::get(&gateway.admin_url(path), &headers);
            assert_eq!(answer.status, 403, "{path} {headers:?}: {}", answer.text());
            assert!(answer.header_all("access-control-allow-origin").is_empty());
        }
    }
    let preflight = Request::new("OPTIONS", &gateway.admin_url("/api/status"))
        .header("origin", "http://evil.example")
        .header("access-control-request-method", "PATCH")
        .send();
    assert_eq!(preflight.status, 403);
    let mut bare = raw(gateway
        .admin_url("")
        .strip_prefix("http://")
        .unwrap()
        .parse::<std::net::SocketAddr>()
        .unwrap());
    bare.write("GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let _ = bare.read_to_end(SOON);
    assert!(bare.text().contains(" 400 "), "no Host: {}", bare.text());
    let own = gateway.admin_url("");
    let answer = client::get(
        &gateway.admin_url("/api/status"),
        &[("origin", &own), ("authorization", &token)],
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_new_token_in_the_config_counts_at_once() {
    let ups = Upstream::start_all(["a"]);
    let config =
        |token: &str| pool("m", &ups) + &format!("admin: {{listen: \"127.0.0.1:0\", token: {token}}}\n");
    let gateway = Gateway::start(binary(), &config("token-one"));
    gateway.write_config(&config("token-two"));
    let status = |token: &str| {
        let token = format!("Bearer {token}");
        client::get(&gateway.admin_url("/api/status"), &[("authorization", &token)]).status
    };
    assert!(eventually(SOON, || status("token-two") == 200));
    assert_eq!(status("token-one"), 401);
}

#[test]
fn what_is_not_built_yet_says_so() {
    let ups = Upstream::start_all(["a"]);
    let gateway = gateway(&ups);
    for (method, path) in [
        ("GET", "/api/requests"),
        ("GET", "/api/keys"),
        ("POST", "/api/keys"),
        ("DELETE", "/api/keys/x"),
        ("GET", "/api/usage"),
        ("POST", "/api/simulate"),
        ("GET", "/api/live"),
        ("PUT", "/api/config"),
    ] {
        let answer = gateway.api_send(method, path, &json!({}));
        assert_eq!(answer.status, 501, "{method} {path}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(
            message.contains("not supported yet") && message.contains(path),
            "{message}"
        );
    }
}

/// Secrets in every place that can hold one, each with `canary` in it.
const SECRETS: &str = r#"
auth: keys
admin: {listen: "127.0.0.1:0", token: canary-admin}
keys:
  - {name: team, key: canary-client-key}
pools:
  - name: m
    health: false
    api_keys: ["${UPSTREAM_KEY}", canary-second-key]
    endpoints: [{name: a, url: "URL/?key=canary-query"}, "URL/base?key=canary-other"]
routes:
  - {name: m, targets: [m], policies: {session_affinity: {keys: [api_key]}, least_inflight: {}}}
"#;

#[test]
fn no_answer_holds_a_secret() {
    let up = Upstream::start("a");
    let mut options = GatewayOptions::new(binary(), &SECRETS.replace("URL", &up.url()));
    options.env = vec![("UPSTREAM_KEY".into(), "canary-from-environment".into())];
    let gateway = Gateway::start_with(&options);
    for _ in 0..4 {
        let headers = [("authorization", "Bearer canary-client-key")];
        let answer = client::post(
            &gateway.url("/v1/chat/completions"),
            &headers,
            client::chat("m", "x"),
        );
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let sent: Vec<String> = up.posts().iter().map(|post| format!("{post:?}")).collect();
    assert!(
        sent.iter().all(|post| post.contains("canary")),
        "the upstream does get them: {sent:?}"
    );
    let ask = json!({"headers": {"authorization": "Bearer canary-client-key"}, "body": {"model": "m"}});
    let mut answers: Vec<(String, String)> = [
        ("POST", "/api/explain", ask),
        ("POST", "/api/config/reload", json!({})),
        ("PATCH", "/api/endpoints/m/a", json!({"resume": true})),
    ]
    .iter()
    .map(|(method, path, body)| ((*path).to_owned(), gateway.api_send(method, path, body).text()))
    .collect();
    let document = gateway.api("/api/openapi.json");
    for (path, operations) in document["paths"].as_object().unwrap() {
        if operations["get"] != Value::Null {
            let path = path.replace("{name}", "m").replace("{pool}", "m");
            let answer = gateway.api_send("GET", &path, &json!({}));
            assert_eq!(answer.status, 200, "{path}");
            answers.push((path, answer.text()));
        }
    }
    let token = "Bearer canary-admin";
    for config in [
        "pools: [{name: \"${UPSTREAM_KEY}\", endpoints: [http://h:1]}]\nauth: none\n",
        "pools: [{name: m, endpoints: [http://h:1], max_inflight: \"${UPSTREAM_KEY}\"}]\n",
        "log: {level: \"${UPSTREAM_KEY}\"}\npools: []\n",
    ] {
        let request = Request::post(&gateway.admin_url("/api/config/check"), config);
        answers.push((
            config.to_owned(),
            request.header("authorization", token).send().text(),
        ));
    }
    assert!(answers.len() > 12);
    for (what, answer) in answers {
        assert!(!answer.contains("canary"), "{what}: {answer}");
    }
    assert!(!gateway.output().contains("canary"), "nor does a log line");
}

#[test]
fn strangers_cannot_take_the_file_descriptors() {
    let ups = Upstream::start_all(["a"]);
    let gateway = gateway(&ups);
    let open = || {
        std::fs::read_dir(format!("/proc/{}/fd", gateway.pid()))
            .unwrap()
            .count()
    };
    let before = open();
    let admin: std::net::SocketAddr = gateway
        .admin_url("")
        .trim_start_matches("http://")
        .parse()
        .unwrap();
    let begin = || {
        let mut client = raw(admin);
        client.write("GET /metrics HTTP/1.1\r\nx-slow: ").unwrap();
        client
    };
    let slow: Vec<_> = (0..300).map(|_| begin()).collect();
    assert!(eventually(SOON, || open() >= before + 60), "some are taken");
    // Requests of clients still pass, and no more connections are taken meanwhile.
    for _ in 0..20 {
        assert_eq!(client::get(&gateway.url("/health"), &[]).status, 200);
    }
    assert!(open() <= before + 80, "{} and then {} are open", before, open());
    drop(slow);
    assert_eq!(client::get(&gateway.admin_url("/metrics"), &[]).status, 200);
}
