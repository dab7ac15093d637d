//! Responses that an engine has stored are asked for where they are.

use crate::shared::{SOON, gateway, pool};
use serde_json::json;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Request, Response};
use weighbridge_test_engine::harness::Gateway;

const KEYS: &str = "auth: keys
keys:
  - {name: one, key: key-of-one, tenant: t}
  - {name: two, key: key-of-two, tenant: t}
  - {name: other, key: key-of-other}
  - {name: blind, key: key-of-blind, tenant: t, models: [none]}
";

fn serving(upstreams: &[&Upstream]) -> Gateway {
    // Each engine has a turn, so that each has made what is asked for.
    gateway(&format!(
        "pools:\n{}",
        pool("m", upstreams, &["route_by: round_robin"])
    ))
}

fn create(gateway: &Gateway, more: &str) -> Request {
    Request::post(
        &gateway.url("/v1/responses"),
        format!("{{\"model\":\"m\",\"input\":\"x\"{more}}}"),
    )
}

/// Makes a response and gives its engine's name and its id.
fn made(gateway: &Gateway, stream: bool) -> (String, String) {
    let answer = create(gateway, if stream { ",\"stream\":true" } else { "" }).send();
    let home = answer.served_by().unwrap().to_owned();
    let id = format!("resp_{home}");
    assert!(answer.text().contains(&id), "{}", answer.text());
    (home, id)
}

fn ask(gateway: &Gateway, method: &str, path: &str) -> Response {
    Request::new(method, &gateway.url(&format!("/v1/responses/{path}"))).send()
}

fn explained(gateway: &Gateway, question: &serde_json::Value) -> Response {
    gateway.api_send("POST", "/api/explain", question)
}

#[test]
fn explaining_goes_by_the_response_before() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = serving(&[&a, &b]);
    let (home, id) = made(&gateway, false);
    let next = |id: &str| json!({"path": "/v1/responses", "body": {"model": "m", "input": "x", "previous_response_id": id}});
    for _ in 0..3 {
        let told = explained(&gateway, &next(&id));
        assert_eq!(told.status, 200, "{}", told.text());
        assert_eq!(told.json()["endpoint"], home.as_str());
    }
    let told = explained(&gateway, &next("resp_unknown"));
    assert_eq!(told.status, 400, "{}", told.text());
    assert!(told.text().contains("resp_unknown"), "{}", told.text());
}

#[test]
fn explaining_asks_for_the_key_that_a_response_belongs_to() {
    let upstream = Upstream::start("A");
    let gateway = gateway(&format!("{KEYS}pools:\n{}", pool("m", &[&upstream], &[])));
    let key = "Bearer key-of-one";
    let (_, id) = {
        let answer = create(&gateway, "").header("authorization", key).send();
        (answer.status, answer.json()["id"].as_str().unwrap().to_owned())
    };
    for (key, status) in [
        ("Bearer key-of-two", 200),
        ("Bearer key-of-other", 400),
        ("", 400),
    ] {
        let question = json!({
            "path": "/v1/responses", "headers": {"authorization": key},
            "body": {"model": "m", "previous_response_id": id},
        });
        let told = explained(&gateway, &question);
        assert_eq!(told.status, status, "{key}: {}", told.text());
        assert_eq!(
            told.text().contains("goes by the key"),
            key.is_empty(),
            "{}",
            told.text()
        );
    }
}

#[test]
fn they_are_found_where_they_were_made() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let gateway = serving(&[&a, &b, &c]);
    let homes: Vec<_> = [false, true, false].map(|stream| made(&gateway, stream)).into();
    let names: std::collections::BTreeSet<_> = homes.iter().map(|(home, _)| home).collect();
    assert_eq!(names.len(), 3, "each engine has made one");
    for _ in 0..2 {
        for (home, id) in &homes {
            for (method, below) in [
                ("GET", ""),
                ("GET", "/input_items?limit=1"),
                ("POST", "/cancel"),
                ("GET", "?include[]=x"),
            ] {
                let answer = ask(&gateway, method, &format!("{id}{below}"));
                assert_eq!(
                    (answer.status, answer.served_by()),
                    (200, Some(home.as_str())),
                    "{below}"
                );
            }
        }
    }
    let (home, id) = &homes[1];
    let of_home = [&a, &b, &c]
        .into_iter()
        .find(|upstream| upstream.name() == home)
        .unwrap();
    let last = of_home.log().last().unwrap().clone();
    assert_eq!(last.target, format!("/v1/responses/{id}?include[]=x"));
    let line = gateway.wait_log(SOON, |line| line["api"] == "/v1/responses/{id}");
    assert_eq!((&line["outcome"], &line["route"]), (&json!("ok"), &json!("m")));
    assert_eq!(
        line["prompt_tokens"],
        json!(null),
        "what was counted before is not counted again"
    );
    let deleted = ask(&gateway, "DELETE", id);
    assert_eq!((deleted.status, &deleted.json()["deleted"]), (200, &json!(true)));
    assert_eq!(ask(&gateway, "GET", id).status, 404);
}

#[test]
fn the_next_turn_goes_to_the_engine_that_holds_the_last() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = serving(&[&a, &b]);
    let (home, id) = made(&gateway, false);
    for stream in ["", ",\"stream\":true"] {
        for _ in 0..3 {
            let next = create(&gateway, &format!(",\"previous_response_id\":\"{id}\"{stream}")).send();
            assert_eq!((next.status, next.served_by()), (200, Some(home.as_str())));
        }
    }
    let unknown = create(&gateway, ",\"previous_response_id\":\"resp_x\"").send();
    assert_eq!(unknown.status, 400);
    let error = &unknown.json()["error"];
    assert_eq!(error["code"], "previous_response_not_found");
    assert_eq!(error["param"], "previous_response_id");
    // A chat may have a field of that name; it means nothing there.
    let chat = Request::post(
        &gateway.url("/v1/chat/completions"),
        "{\"model\":\"m\",\"messages\":[],\"previous_response_id\":\"resp_x\"}",
    );
    assert_eq!(chat.send().status, 200);
}

#[test]
fn what_is_unknown_says_what_that_may_mean() {
    let a = Upstream::start("A");
    let gateway = serving(&[&a]);
    for (method, path) in [
        ("GET", "resp_x"),
        ("DELETE", "resp_x"),
        ("POST", "resp_x/cancel"),
        ("GET", "resp_x/input_items"),
    ] {
        let answer = ask(&gateway, method, path);
        assert_eq!(answer.status, 404);
        let error = &answer.json()["error"];
        assert_eq!(error["code"], "response_not_found");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("resp_x") && message.contains("expired") && message.contains("restarted"),
            "{message}"
        );
    }
    assert_eq!(ask(&gateway, "PUT", "resp_x").status, 405);
    assert_eq!(ask(&gateway, "GET", "a%2f..%2fb").status, 404);
    assert!(a.log().is_empty());
}

#[test]
fn only_its_tenant_finds_it() {
    let a = Upstream::start("A");
    let gateway = gateway(&format!("{KEYS}pools:\n{}", pool("m", &[&a], &[])));
    let with = |request: Request, key: &str| request.header("authorization", &format!("Bearer {key}")).send();
    let answer = with(create(&gateway, ""), "key-of-one");
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    let get = |key: &str| with(Request::get(&gateway.url(&format!("/v1/responses/{id}"))), key).status;
    assert_eq!((get("key-of-one"), get("key-of-two")), (200, 200));
    assert_eq!(get("key-of-other"), 404, "as if it did not exist");
    assert_eq!(get("key-of-blind"), 404, "it may not use the route");
    let previous = format!(",\"previous_response_id\":\"{id}\"");
    assert_eq!(with(create(&gateway, &previous), "key-of-two").status, 200);
    assert_eq!(with(create(&gateway, &previous), "key-of-other").status, 400);
    let delete = Request::new("DELETE", &gateway.url(&format!("/v1/responses/{id}")));
    assert_eq!(with(delete.clone(), "key-of-other").status, 404);
    assert_eq!(get("key-of-one"), 200);
    assert_eq!(with(delete, "key-of-two").status, 200);
    assert_eq!(get("key-of-one"), 404);
}

#[test]
fn a_home_out_of_service_is_said_and_not_replaced() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = serving(&[&a, &b]);
    let (home, id) = made(&gateway, false);
    let drain = |what: &str| {
        Request::new("PATCH", &gateway.admin_url(&format!("/api/endpoints/m/{home}")))
            .header("authorization", &format!("Bearer {}", gateway.admin_token()))
            .body(format!("{{\"{what}\":true}}"))
            .send()
            .status
    };
    assert_eq!(drain("drain"), 200);
    let previous = format!(",\"previous_response_id\":\"{id}\"");
    for answer in [ask(&gateway, "GET", &id), create(&gateway, &previous).send()] {
        assert_eq!(answer.status, 503, "{}", answer.text());
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("holds this response"), "{message}");
    }
    assert_eq!(
        create(&gateway, "").send().status,
        200,
        "others serve what is new"
    );
    assert_eq!(drain("resume"), 200);
    assert_eq!(ask(&gateway, "GET", &id).status, 200);
    let other = if home == "A" { &b } else { &a };
    gateway.write_config(&format!("pools:\n{}", pool("m", &[other], &[])));
    assert!(weighbridge_test_engine::eventually(SOON, || ask(
        &gateway, "GET", &id
    )
    .status
        == 404));
    assert_eq!(create(&gateway, &previous).send().status, 400);
}
