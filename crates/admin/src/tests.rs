//! The whole table against a gateway that does not listen.

use crate::table::{Access, NOT_YET, ROUTES, Verb};
use crate::{Admin, Served, openapi, router};
use axum::Router;
use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use std::collections::BTreeSet;
use tower::ServiceExt;
use weighbridge_gateway::Gateway;
use weighbridge_gateway::gateway::Setup;

const CONFIG: &str = r#"
admin: {listen: "127.0.0.1:8801", token: canary-admin-token}
auth: keys
keys: [{name: team, key: canary-client-key}]
pools:
  - name: org/model
    kind: openai
    api_keys: [canary-upstream-1, canary-upstream-2]
    endpoints:
      - {name: a/b, url: "http://127.0.0.1:9/base?key=canary-query"}
      - http://127.0.0.1:9/plain?code=canary-code
  - {name: org, endpoints: [{name: model/a/b, url: "http://127.0.0.1:9"}]}
routes:
  - {name: wide, targets: [{pool: org/model, weight: 1}, {pool: org, weight: 0.5}]}
"#;

fn service(listen: &str) -> Router {
    let loaded = weighbridge_config::load_str("test", CONFIG, &|_| None).unwrap();
    let gateway = Gateway::unstarted(Setup {
        config: loaded.config,
        request_log: Box::new(std::io::sink()),
        event_log: None,
        clients_max: 1,
    });
    let admin = Admin {
        gateway: gateway.unwrap(),
        reloader: None,
        token: "token-of-the-start".into(),
    };
    router::router(Served {
        admin,
        listen: listen.parse().unwrap(),
    })
}

const LOOPBACK: &str = "127.0.0.1:8801";
const TOKEN: (&str, &str) = ("authorization", "Bearer canary-admin-token");
const OWN: (&str, &str) = ("host", LOOPBACK);

/// Sends a request and gives the answer with its body.
async fn ask(
    service: &Router,
    (method, path): (Method, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> (Response<()>, String) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let (parts, body) = service.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (
        Response::from_parts(parts, ()),
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

async fn status(service: &Router, call: (Method, &str), headers: &[(&str, &str)]) -> u16 {
    let (response, text) = ask(service, call, headers, "").await;
    assert!(
        response.headers().get("access-control-allow-origin").is_none(),
        "no other site may read an answer"
    );
    if !response.status().is_success() && !text.is_empty() {
        let error: Value = serde_json::from_str(&text).unwrap();
        let draining = error["status"] == "draining";
        assert!(draining || error["error"]["message"].is_string(), "{text}");
    }
    response.status().as_u16()
}

/// A path that fits a path of the table.
fn example(path: &str) -> String {
    path.replace("{name}", "wide").replace("{pool}", "org%2Fmodel")
}

/// Every call of the table, and what the table says is not there yet.
fn calls() -> Vec<(Method, String, Access)> {
    let served = ROUTES
        .iter()
        .map(|route| (route.verb.method(), example(route.path), route.access));
    let later = NOT_YET.iter().map(|(path, method)| {
        let method = method.clone().unwrap_or(Method::GET);
        (method, path.replace("{*rest}", "x"), Access::Token)
    });
    served.chain(later).collect()
}

#[tokio::test]
async fn every_call_refuses_without_the_token_unless_it_is_public() {
    for (listen, on_loopback) in [(LOOPBACK, true), ("0.0.0.0:8801", false)] {
        let service = service(listen);
        let mut public = BTreeSet::new();
        for (method, path, access) in calls() {
            let open = match access {
                Access::Token => false,
                Access::Public => true,
                Access::PublicOnLoopback => on_loopback,
            };
            let wrong = [
                vec![OWN],
                vec![OWN, ("authorization", "Bearer canary-admin-tokem")],
                vec![OWN, ("authorization", "Bearer token-of-the-start")],
                vec![OWN, ("authorization", "Bearer ")],
                vec![OWN, ("authorization", "Basic canary-admin-token")],
                vec![OWN, ("x-api-key", "canary-admin-token")],
            ];
            for headers in wrong {
                let status = status(&service, (method.clone(), &path), &headers).await;
                assert_eq!(
                    status != 401,
                    open,
                    "{method} {path} on {listen} with {headers:?}: {status}"
                );
            }
            if open {
                public.insert(path);
            } else {
                let status = status(&service, (method.clone(), &path), &[OWN, TOKEN]).await;
                assert!(![401, 403].contains(&status), "{method} {path}: {status}");
            }
        }
        let expect: &[&str] = match on_loopback {
            true => &["/health", "/metrics", "/ready"],
            false => &["/health", "/ready"],
        };
        assert!(public.iter().eq(expect), "{public:?}");
    }
}

#[tokio::test]
async fn what_is_not_there_needs_the_token_too() {
    let service = service(LOOPBACK);
    for path in [
        "/",
        "/api",
        "/api/nothing",
        "/api/routes/",
        "//health",
        "/health/",
    ] {
        assert_eq!(status(&service, (Method::GET, path), &[OWN]).await, 401, "{path}");
        assert_eq!(
            status(&service, (Method::GET, path), &[OWN, TOKEN]).await,
            404,
            "{path}"
        );
    }
    assert_eq!(status(&service, (Method::POST, "/health"), &[OWN]).await, 401);
    assert_eq!(status(&service, (Method::HEAD, "/health"), &[OWN]).await, 200);
    let (response, text) = ask(&service, (Method::DELETE, "/api/config"), &[OWN, TOKEN], "").await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(response.headers()["allow"].to_str().unwrap().contains("GET"));
    assert!(text.contains("takes GET, not DELETE"), "{text}");
    let (_, text) = ask(&service, (Method::GET, "/api/rotues"), &[OWN, TOKEN], "").await;
    assert!(text.contains("did you mean `/api/routes`?"), "{text}");
}

#[tokio::test]
async fn without_a_file_there_is_nothing_to_reload() {
    let service = service(LOOPBACK);
    let call = (Method::POST, "/api/config/reload");
    let (response, text) = ask(&service, call, &[OWN, TOKEN], "").await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert!(text.contains("--config FILE"), "{text}");
}

#[tokio::test]
async fn other_sites_and_rebound_names_are_refused_everywhere() {
    let service = service(LOOPBACK);
    let refused: [&[(&str, &str)]; 7] = [
        &[("host", "evil.example:8801")],
        &[
            ("host", "evil.example:8801"),
            ("origin", "http://evil.example:8801"),
        ],
        &[OWN, ("origin", "http://evil.example")],
        &[OWN, ("origin", "null")],
        &[OWN, ("origin", "http://127.0.0.1:9999")],
        &[OWN, ("origin", "http://localhost:8801")],
        &[OWN, OWN],
    ];
    for (method, path, _) in calls() {
        for headers in refused {
            let headers = [headers, &[TOKEN]].concat();
            let status = status(&service, (method.clone(), &path), &headers).await;
            assert!(
                [400, 403].contains(&status),
                "{method} {path} {headers:?}: {status}"
            );
        }
        assert_eq!(
            status(&service, (method.clone(), &path), &[TOKEN]).await,
            400,
            "no Host"
        );
    }
    let absolute = (Method::GET, "http://evil.example/api/status");
    assert_eq!(status(&service, absolute, &[OWN, TOKEN]).await, 403);
    let own = [OWN, TOKEN, ("origin", "http://127.0.0.1:8801")];
    assert_eq!(status(&service, (Method::GET, "/api/status"), &own).await, 200);
}

#[tokio::test]
async fn the_document_describes_exactly_what_is_served() {
    let service = service(LOOPBACK);
    let (_, text) = ask(&service, (Method::GET, "/api/openapi.json"), &[OWN, TOKEN], "").await;
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document, openapi::document());
    let all = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ];
    let mut described = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in &all {
            let operation = &operations[method.as_str().to_ascii_lowercase()];
            let called = (method.clone(), &*example(path));
            let (response, text) = ask(&service, called, &[OWN, TOKEN], "").await;
            let served = ![405, 501].contains(&response.status().as_u16()) && !text.contains("there is no /");
            assert_eq!(operation.is_object(), served, "{method} {path}: {text}");
            described += usize::from(served);
            for needed in ["summary", "operationId"] {
                assert!(!served || operation[needed].as_str().is_some_and(|text| !text.is_empty()));
            }
        }
    }
    assert_eq!(described, ROUTES.len());
    let references = text.split("\"#/components/schemas/").skip(1);
    for name in references.filter_map(|rest| rest.split('"').next()) {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
    for field in ["state", "reason", "until", "inflight"] {
        let endpoint = &document["components"]["schemas"]["EndpointShown"];
        assert!(endpoint["properties"][field].is_object(), "{field}");
    }
}

#[tokio::test]
async fn no_answer_holds_a_secret() {
    let service = service(LOOPBACK);
    let mut seen = 0;
    for route in ROUTES.iter().filter(|route| route.verb == Verb::Get) {
        let (response, text) = ask(&service, (Method::GET, &example(route.path)), &[OWN, TOKEN], "").await;
        assert_eq!(response.status(), 200, "{}", route.path);
        assert!(!text.contains("canary"), "{}: {text}", route.path);
        seen += usize::from(text.contains("org/model"));
    }
    assert!(seen >= 5, "the answers are about the config: {seen}");
    let bad = CONFIG.to_owned() + "nonsense: canary-value\n";
    for body in [CONFIG, &bad, "admin: [canary-admin-token"] {
        let call = (Method::POST, "/api/config/check");
        let (response, text) = ask(&service, call, &[OWN, TOKEN], body).await;
        assert_eq!(response.status(), 200);
        assert!(!text.contains("canary"), "{text}");
    }
}

#[tokio::test]
async fn endpoints_with_slashes_are_found_by_encoding_them() {
    let service = service(LOOPBACK);
    let patch = |path: &'static str| {
        let service = service.clone();
        async move {
            let call = (Method::PATCH, path);
            ask(&service, call, &[OWN, TOKEN], r#"{"drain": true}"#).await
        }
    };
    let (response, text) = patch("/api/endpoints/org/model/a/b").await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert!(
        text.contains("endpoint `a/b` of pool `org/model`") && text.contains("%2F"),
        "{text}"
    );
    for (path, pool, name) in [
        ("/api/endpoints/org%2Fmodel/a/b", "org/model", "a/b"),
        ("/api/endpoints/org/model%2Fa%2Fb", "org", "model/a/b"),
        (
            "/api/endpoints/org%2Fmodel/127.0.0.1%3A9/plain%3F***",
            "org/model",
            "127.0.0.1:9/plain?***",
        ),
    ] {
        let (response, text) = patch(path).await;
        assert_eq!(response.status(), StatusCode::OK, "{text}");
        let shown: Value = serde_json::from_str(&text).unwrap();
        let endpoint = &shown["endpoint"];
        assert_eq!(
            (&endpoint["pool"], &endpoint["name"]),
            (&pool.into(), &name.into())
        );
        assert_eq!(endpoint["state"], "draining");
    }
    let (response, text) = patch("/api/endpoints/org%2Fmodel/a/c").await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert!(text.contains("did you mean `org/model/a/b`?"), "{text}");
}

#[tokio::test]
async fn bodies_and_queries_are_bounded() {
    let service = service(LOOPBACK);
    let large = "a".repeat((1 << 20) + 1);
    let (response, _) = ask(&service, (Method::POST, "/api/explain"), &[OWN, TOKEN], &large).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    for (path, why) in [
        ("/api/decisions?limit=0", "whole number from 1 to 1000"),
        ("/api/decisions?limit=x", "whole number"),
        ("/api/decisions?limit=5&limit=6", "twice"),
        ("/api/decisions?rout=wide", "this path takes route, limit"),
        ("/api/status?x=1", "this path takes none"),
        ("/api/decisions?route=%ff", "UTF-8"),
    ] {
        let (response, text) = ask(&service, (Method::GET, path), &[OWN, TOKEN], "").await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{path}");
        assert!(text.contains(why), "{path}: {text}");
    }
    let (response, text) = ask(
        &service,
        (Method::GET, "/api/decisions?route=wid"),
        &[OWN, TOKEN],
        "",
    )
    .await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert!(text.contains("did you mean `wide`?"), "{text}");
}
