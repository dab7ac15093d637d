//! Bodies: what is no JSON is refused, what is strange JSON passes as it is, and names with anything in them find nothing.

use crate::support::{CHAT, Scene};
use serde_json::json;
use weighbridge_test_engine::client::{Request, Response};

fn post(scene: &Scene, body: impl AsRef<[u8]>) -> Response {
    Request::post(&scene.gateway.url(CHAT), body).send()
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    let scene = Scene::new("");
    for body in [
        &b"{\"model\":\"m\",\"x\":\"\xff\"}"[..],
        b"{\"model\":\"m\xc3\"}",
        b"{\"model\":\"m\",\"x\":\"\xed\xa0\x80\"}",
        b"{\"model\":\"m\",\"x\":\"a\0b\"}",
        b"\0",
        b"{\"model\":\"m\"}\0",
        b"{\"model\":\"m\"}{\"model\":\"m\"}",
        b"\xef\xbb\xbf{\"model\":\"m\"}",
        b"\xfe\xff\0{",
        b"{\"model\":\"m\",}",
        b"{'model':'m'}",
        b"{\"model\":\"m\",\"x\":NaN}",
        b"{\"model\":\"m\",\"x\":01}",
        b"[{\"model\":\"m\"}]",
        b"{\"model\":[\"m\"]}",
        b"{\"model\":\"\\ud800\"}",
        b"{\"model\":\"m\",\"mod\\u0065l\":\"m\"}",
        b"{\"model\":\"m\",\"stream\":\"yes\"}",
    ] {
        let answer = post(&scene, body);
        assert_eq!(answer.status, 400, "{body:?}: {}", answer.text());
        let error = answer.json()["error"].take();
        assert_eq!(error["type"], "invalid_request_error", "{error}");
        let message = error["message"].as_str().unwrap().to_owned();
        assert!(message.contains("line 1"), "{body:?}: {message}");
    }
    assert_eq!(scene.prompts().len(), 0);
    scene.serves();
}

#[test]
fn strange_json_passes_byte_for_byte() {
    let scene = Scene::new("");
    for extra in [
        r#""x":1e999999"#.to_owned(),
        r#""x":-0.000000000000000000000000000000000000000000000000001E-400"#.to_owned(),
        format!(r#""x":{}"#, "9".repeat(100_000)),
        r#""x":1,"x":2,"x":3"#.to_owned(),
        r#""x":"\ud800","\udfff":"\u0000""#.to_owned(),
        "\"x\" :\t[ ]\r\n ".to_owned(),
        format!(r#""x":{}{}"#, "[".repeat(100_000), "]".repeat(100_000)),
        format!(r#""x":{}1{}"#, r#"{"a":"#.repeat(30_000), "}".repeat(30_000)),
        format!(r#""{}":1"#, "k".repeat(100_000)),
        (0..10_000)
            .map(|i| format!("\"k{i}\":{i}"))
            .collect::<Vec<_>>()
            .join(","),
    ] {
        let body = format!("{{\"model\":\"m\",{extra},\"messages\":[]}}");
        let answer = post(&scene, &body);
        assert_eq!(answer.status, 200, "{extra:.80}: {}", answer.text());
        let posts = scene.upstream.posts();
        assert!(
            posts[0].body.as_deref() == Some(&body),
            "{extra:.80} came otherwise"
        );
        scene.upstream.reset();
    }
    scene.serves();
}

#[test]
fn deep_nesting_without_an_end_is_refused_quickly() {
    let scene = Scene::new("");
    for open in ["[", "{\"a\":", "[{\"a\":["] {
        let body = format!(
            "{{\"model\":\"m\",\"messages\":{}",
            open.repeat(2_000_000 / open.len())
        );
        let answer = post(&scene, &body);
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    scene.serves();
}

#[test]
fn names_with_anything_in_them_find_nothing_and_stay_where_they_are() {
    let scene = Scene::new("");
    for name in [
        "m\0",
        "m\r\nx-injected: 1",
        "../m",
        "m/../m",
        "M",
        " m",
        "m\u{202e}",
        "{{m}}",
        "${HOME}",
        "<script>",
        &"m".repeat(100_000),
        "",
    ] {
        let answer = post(&scene, json!({"model": name, "messages": []}).to_string());
        assert!(matches!(answer.status, 400 | 404), "{name:?}: {}", answer.status);
        assert!(answer.header("x-injected").is_none());
        assert!(answer.body.len() < 8 * 1024, "{} bytes back", answer.body.len());
        answer.json();
        // Labels come from the config.
        let metrics = scene.gateway.metrics().text;
        assert!(name.len() < 4 || !metrics.contains(name), "{name:?}");
    }
    // By header, which cannot hold a line end.
    for name in ["m%00", "../m", "m, m"] {
        let answer = Request::post(&scene.gateway.url(CHAT), r#"{"messages":[]}"#)
            .header("x-model", name)
            .send();
        assert_eq!(answer.status, 404, "{name}");
    }
    assert_eq!(scene.prompts().len(), 0);
    scene.serves();
}

#[test]
fn a_body_without_an_end_is_refused_at_the_limit() {
    let scene = Scene::new("server: {max_body: 1MiB}");
    let mut client = scene.connect();
    client
        .write(format!(
            "POST {CHAT} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        ))
        .unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    // Written until the gateway has had enough.
    let written = (0..2_000).take_while(|_| client.write(&chunk).is_ok()).count();
    let _ = client.read_to_end(crate::support::PATIENCE);
    assert!(
        client.text().starts_with("HTTP/1.1 413 "),
        "after {written} chunks: {}",
        client.text()
    );
    assert!(written < 2_000, "{written}");
    scene.serves();
}
