//! What the API shows.

use super::{binary, chat, gateway, pool, served_by, wait_api};
use serde_json::{Value, json};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{self, Request};
use weighbridge_test_engine::harness::Gateway;

#[test]
fn status_counts_and_follows_reloads() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = gateway(&ups);
    let status = gateway.api("/api/status");
    assert_eq!(status["phase"], "ready");
    assert_eq!(
        (&status["generation"], &status["routes"], &status["pools"]),
        (&json!(0), &json!(1), &json!(1))
    );
    assert_eq!(status["endpoints"], json!({"total": 2, "by_state": {"live": 2}}));
    assert_eq!(status["last_reload"], Value::Null);
    assert_eq!(status["config_file"], json!(gateway.config_path()));
    assert_eq!(status["pid"], json!(gateway.pid()));
    assert!(status["uptime_seconds"].as_f64().unwrap() > 0.0 && status["version"].is_string());

    std::fs::write(
        gateway.config_path(),
        "pools: [{name: m, endpoints: [http://h:1], wieght: 1}]\n",
    )
    .unwrap();
    let refused = gateway.api_send("POST", "/api/config/reload", &json!({}));
    assert_eq!(refused.status, 422);
    let error = &refused.json()["error"];
    assert!(error["message"].as_str().unwrap().contains("wieght"), "{error}");
    assert_eq!(error["problems"][0]["line"], 1);
    let status = gateway.api("/api/status");
    let last = &status["last_reload"];
    assert_eq!((&last["ok"], &status["generation"]), (&json!(false), &json!(0)));
    assert!(
        last["error"].as_str().unwrap().contains("wieght") && last["time"].is_string(),
        "{last}"
    );
    assert_eq!(last["problems"], error["problems"]);
    assert_eq!(
        served_by(&gateway, "m").len(),
        1,
        "the running config stays in force"
    );

    gateway.write_config(&pool("m", &ups[..1]));
    let taken = gateway.api_send("POST", "/api/config/reload", &json!({}));
    assert_eq!(taken.status, 200, "{}", taken.text());
    let status = wait_api(&gateway, "/api/status", |status| {
        status["last_reload"]["ok"] == true
    });
    assert!(status["generation"].as_u64().unwrap() >= 1);
    assert_eq!(status["endpoints"]["total"], 1);
}

#[test]
fn a_config_is_checked_without_being_taken() {
    let ups = Upstream::start_all(["a"]);
    let gateway = gateway(&ups);
    let check = |yaml: &str| {
        let url = gateway.admin_url("/api/config/check");
        let token = format!("Bearer {}", gateway.admin_token());
        let response = Request::post(&url, yaml).header("authorization", &token).send();
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    };
    let running = std::fs::read_to_string(gateway.config_path()).unwrap();
    let same = check(&running);
    assert_eq!(
        (&same["ok"], &same["changes"]),
        (&json!(true), &json!([])),
        "{same}"
    );
    let more = check(&running.replace("health: false", "health: false, max_inflight: 7"));
    let changes = more["changes"].to_string();
    assert!(more["ok"] == true && changes.contains("max_inflight"), "{more}");
    let moved = check(&running.replacen(
        "server: {listen: 127.0.0.1:0}",
        "server: {listen: 127.0.0.1:1}",
        1,
    ));
    assert_eq!(moved["ok"], false);
    assert!(
        moved["problems"][0]["message"]
            .as_str()
            .unwrap()
            .contains("restart"),
        "{moved}"
    );
    let wrong = check("pools: [{name: m, endpoints: [http://h:1], max_inflght: 2}]");
    assert_eq!(wrong["ok"], false);
    let problem = &wrong["problems"][0];
    assert_eq!(
        (&problem["file"], &problem["line"]),
        (&json!("request body"), &json!(1))
    );
    assert!(
        wrong.to_string().contains("max_inflight"),
        "names the nearest key: {wrong}"
    );
    assert_eq!(gateway.api("/api/status")["generation"], 0);
}

const ROUTES: &str = "
routes:
  - {name: bare, targets: [m]}
  - {name: agents, targets: [m], preset: agents}
  - name: org/wide@v1
    targets: [{pool: m, weight: 0.25}, {pool: m, name: again, weight: 0.75, order: 2}]
    retry: {max_attempts: 2, on: [connect], budget: {ratio: 0, floor_per_second: 7, window: 10s}}
  - name: by-policy
    targets: [m]
    policies: {session_affinity: {weight: 2}, least_inflight: {}}
    fallback: [{route: org/wide@v1, on: [unavailable]}]
";

#[test]
fn routes_show_the_preset_that_stands_behind_their_policies() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = Gateway::start(binary(), &(pool("m", &ups) + ROUTES));
    for (name, preset, implied) in [("bare", "auto", true), ("agents", "agents", false)] {
        let route = gateway.api(&format!("/api/routes/{name}"));
        assert_eq!(
            (&route["route_by"], &route["preset"], &route["preset_implied"]),
            (&json!("policy"), &json!(preset), &json!(implied))
        );
        assert!(route["policies"].is_object(), "what it stands for: {route}");
    }
}

#[test]
fn routes_show_how_they_choose() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = Gateway::start(binary(), &(pool("m", &ups) + ROUTES));
    for path in ["/api/routes/org/wide@v1", "/api/routes/org%2Fwide%40v1"] {
        let route = gateway.api(path);
        assert_eq!(
            (&route["name"], &route["route_by"]),
            (&json!("org/wide@v1"), &json!("weight"))
        );
        assert_eq!(
            route["targets"],
            json!([
                {"name": "m", "pool": "m", "weight": 0.25, "order": 1, "endpoints": 2, "live": 2},
                {"name": "again", "pool": "m", "weight": 0.75, "order": 2, "endpoints": 2, "live": 2},
            ])
        );
        assert_eq!(route["retry"]["max_attempts"], 2);
        assert_eq!(route["retry_budget"], json!({"used": 0, "allowed": 70}));
        assert_eq!(route["policies"], Value::Null);
    }
    let route = gateway.api("/api/routes/by-policy");
    assert_eq!(route["route_by"], "policy");
    assert_eq!(
        (&route["preset"], &route["preset_implied"]),
        (&Value::Null, &json!(false))
    );
    assert_eq!(route["policies"]["session_affinity"]["weight"], 2.0);
    assert_eq!(route["policies"]["least_inflight"]["weight"], 1.0);
    assert!(
        route["policies"]["session_affinity"]["keys"]
            .as_array()
            .unwrap()
            .len()
            > 2
    );
    assert_eq!(route["fallback"][0]["route"], "org/wide@v1");
    let all = gateway.api("/api/routes");
    let names: Vec<_> = all["routes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|route| &route["name"])
        .collect();
    assert_eq!(names, ["bare", "agents", "org/wide@v1", "by-policy"]);
    let missing = gateway.api_send("GET", "/api/routes/by-polcy", &json!({}));
    assert_eq!(missing.status, 404);
    assert!(
        missing.text().contains("did you mean `by-policy`?"),
        "{}",
        missing.text()
    );

    let pools = gateway.api("/api/pools");
    let shown = &pools["pools"][0];
    assert_eq!((&shown["name"], &shown["kind"]), (&json!("m"), &json!("generic")));
    assert_eq!(
        shown["routes"],
        json!(["bare", "agents", "org/wide@v1", "by-policy"])
    );
    assert_eq!(shown["settings"]["health"], false);
    assert_eq!(shown["settings"]["timeouts"]["connect"], "2s");
    let states = shown["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|endpoint| &endpoint["state"]);
    assert!(states.eq(["live", "live"]), "{shown}");
}

#[test]
fn decisions_are_told_newest_first_with_the_requests_id() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = Gateway::start(binary(), &(pool("m", &ups) + ROUTES));
    let mut sent = Vec::new();
    for model in [
        "by-policy",
        "org/wide@v1",
        "by-policy",
        "org/wide@v1",
        "by-policy",
    ] {
        let response = chat(&gateway, model);
        let header = |name: &str| response.header(name).unwrap().to_owned();
        sent.push((model, header("x-request-id"), header("x-weighbridge-endpoint")));
    }
    sent.reverse();
    let told = |path: &str| {
        let told = gateway.api(path)["decisions"].take();
        let told = told.as_array().unwrap().clone();
        let text = |decision: &Value, key: &str| decision[key].as_str().unwrap().to_owned();
        told.iter()
            .map(|decision| {
                (
                    text(decision, "route"),
                    text(decision, "request_id"),
                    text(decision, "endpoint"),
                )
            })
            .collect::<Vec<_>>()
    };
    let expect = |wanted: Option<&str>, most: usize| {
        let of_route = sent
            .iter()
            .filter(|(route, ..)| wanted.is_none_or(|wanted| wanted == *route));
        of_route
            .take(most)
            .map(|(route, id, endpoint)| ((*route).to_owned(), id.clone(), endpoint.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(told("/api/decisions"), expect(None, 9));
    assert_eq!(told("/api/decisions?limit=2"), expect(None, 2));
    assert_eq!(
        told("/api/decisions?route=by-policy"),
        expect(Some("by-policy"), 9)
    );
    assert_eq!(
        told("/api/decisions?route=org%2Fwide%40v1&limit=1"),
        expect(Some("org/wide@v1"), 1)
    );
    let latest = gateway.api("/api/decisions?route=by-policy&limit=1")["decisions"][0].take();
    assert_eq!(
        (&latest["candidates"], &latest["live"], &latest["attempt"]),
        (&json!(2), &json!(2), &json!(1))
    );
    assert_eq!(latest["abstained"], json!({"session_affinity": "no_key"}));
    assert_eq!(latest["parts"][0]["policy"], "least_inflight");
    let missing = gateway.api_send("GET", "/api/decisions?route=none", &json!({}));
    assert_eq!(missing.status, 404, "{}", missing.text());
}

#[test]
fn metrics_health_and_readiness_need_no_token_on_loopback() {
    let ups = Upstream::start_all(["a"]);
    let gateway = gateway(&ups);
    let metrics = client::get(&gateway.admin_url("/metrics"), &[]);
    assert_eq!(metrics.status, 200);
    assert_eq!(
        metrics.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(metrics.text().ends_with("# EOF\n"));
    for (path, word) in [("/health", "alive"), ("/ready", "ready")] {
        let response = client::get(&gateway.admin_url(path), &[]);
        assert_eq!((response.status, &response.json()["status"]), (200, &json!(word)));
    }
}

#[test]
fn draining_of_the_gateway_is_shown() {
    let ups = Upstream::start_all(["a"]);
    let config = pool("m", &ups) + "server: {drain_delay: 60s}\n";
    let mut gateway = Gateway::start(binary(), &config);
    gateway.sigterm();
    let status = wait_api(&gateway, "/api/status", |status| status["phase"] == "draining");
    assert_eq!(status["endpoints"]["total"], 1);
    let ready = client::get(&gateway.admin_url("/ready"), &[]);
    assert_eq!((ready.status, &ready.json()["status"]), (503, &json!("draining")));
    assert_eq!(client::get(&gateway.admin_url("/health"), &[]).status, 200);
    gateway.sigterm();
    assert_eq!(gateway.wait_exit(super::SOON), Some(0));
}
