//! Heads: whose request it is, in which version, how large.

use crate::support::{CHAT, PATIENCE, Scene, chat, request, statuses};

/// The head `line` with `headers`, and a chat body.
fn with(line: &str, headers: &str) -> String {
    let body = chat("outer");
    format!(
        "{line}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends each and compares the status and whether the upstream got it.
fn check(cases: &[(String, u16, bool)]) {
    let scene = Scene::new("");
    let mut wrong = Vec::new();
    for (bytes, status, reaches) in cases {
        let text = scene.talk(bytes);
        let (got, reached) = (statuses(&text), scene.prompts());
        if got != [*status] || reached.len() != usize::from(*reaches) {
            wrong.push(format!("{bytes:?}: {got:?}, reached {reached:?}"));
        }
        scene.serves();
        scene.upstream.reset();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_request_line_is_read_strictly() {
    let host = "host: x\r\n";
    let line = |line: &str, status, reaches| (with(line, host), status, reaches);
    check(&[
        line(&format!("POST  {CHAT} HTTP/1.1"), 400, false),
        line(&format!("POST\t{CHAT} HTTP/1.1"), 400, false),
        line(&format!("POST {CHAT} HTTP/1.1 x"), 400, false),
        line(&format!("POST {CHAT} http/1.1"), 400, false),
        line(&format!("POST {CHAT} HTTP/1.2"), 400, false),
        line(&format!("POST {CHAT} HTTP/2.0"), 400, false),
        line(&format!("POST {CHAT} HTTP/0.9"), 400, false),
        line(&format!("POST {CHAT}"), 400, false),
        line(&format!("P OST {CHAT} HTTP/1.1"), 400, false),
        line(&format!("POST {CHAT}\0 HTTP/1.1"), 400, false),
        line("POST HTTP/1.1", 400, false),
        line(&format!("post {CHAT} HTTP/1.1"), 405, false),
        line(&format!("POST {CHAT}/../models HTTP/1.1"), 404, false),
        line(&format!("POST /{CHAT} HTTP/1.1"), 404, false),
        line("POST /v1/chat%2Fcompletions HTTP/1.1", 404, false),
        line(&format!("POST {CHAT}?a=b&model=x HTTP/1.1"), 200, true),
    ]);
}

#[test]
fn the_host_says_nothing_about_where_a_request_goes() {
    let line = format!("POST {CHAT} HTTP/1.1");
    let scene = Scene::new("");
    for (line, hosts) in [
        (line.clone(), "host: x\r\nhost: y\r\n"),
        (line.clone(), ""),
        (line.clone(), "host: 169.254.169.254\r\n"),
        (
            format!("POST http://169.254.169.254{CHAT} HTTP/1.1"),
            "host: x\r\n",
        ),
    ] {
        let text = scene.talk(with(&line, hosts));
        assert_eq!(statuses(&text), [200], "{line} {hosts}: {text}");
        let posts = scene.upstream.posts();
        let host = format!("127.0.0.1:{}", scene.upstream.port());
        assert_eq!(posts[0].header("host"), Some(host.as_str()));
        assert_eq!(
            (posts[0].header_count("host"), posts[0].target.as_str()),
            (1, CHAT)
        );
        scene.upstream.reset();
    }
    scene.serves();
}

#[test]
fn nothing_is_tunnelled_and_nothing_is_upgraded() {
    let upgrade = |to: &str| {
        with(
            &format!("POST {CHAT} HTTP/1.1"),
            &format!("host: x\r\nupgrade: {to}\r\n"),
        )
    };
    check(&[
        (
            with("CONNECT 169.254.169.254:80 HTTP/1.1", "host: x\r\n"),
            404,
            false,
        ),
        (with("TRACE / HTTP/1.1", "host: x\r\n"), 404, false),
        (with("OPTIONS * HTTP/1.1", "host: x\r\n"), 404, false),
        (upgrade("websocket"), 200, true),
        (upgrade("h2c"), 200, true),
    ]);
    // The preface of HTTP/2 without TLS or prior agreement is no request of HTTP/1.
    let scene = Scene::new("");
    scene.talk(with(
        &format!("POST {CHAT} HTTP/1.1"),
        "host: x\r\nupgrade: websocket\r\nhttp2-settings: x\r\n",
    ));
    let post = &scene.upstream.posts()[0];
    assert_eq!((post.header("upgrade"), post.header("connection")), (None, None));
}

#[test]
fn old_http_is_served_and_its_connection_kept_where_asked() {
    let scene = Scene::new("");
    let body = chat("old");
    let old = |headers: &str| {
        format!(
            "POST {CHAT} HTTP/1.0\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let text = scene.talk(old(""));
    assert_eq!(statuses(&text), [200], "{text}");
    assert!(!text.contains("transfer-encoding"), "{text}");
    let mut client = scene.connect();
    for round in 1..=3 {
        client.write(old("connection: keep-alive\r\n")).unwrap();
        let all = weighbridge_test_engine::eventually(PATIENCE, || {
            let _ = client.read(std::time::Duration::from_millis(20));
            statuses(&client.text()).len() == round && client.text().ends_with('}')
        });
        assert!(all, "{}", client.text());
    }
    assert_eq!(scene.prompts().len(), 4);
    scene.serves();
}

#[test]
fn heads_have_a_size_and_a_number_of_lines() {
    let scene = Scene::new("");
    let own = |text: &str| text.contains("\"error\"") && text.contains("header");
    // Up to 64 KiB in up to 100 lines pass; somewhat more is told in the client's protocol, much more by the codec.
    for (headers, status, told) in [
        (format!("x: {}\r\n", "y".repeat(60_000)), 200, false),
        (format!("x: {}\r\n", "y".repeat(70_000)), 431, true),
        (format!("x: {}\r\n", "y".repeat(1_000_000)), 431, false),
        ("x: y\r\n".repeat(90), 200, false),
        ("x: y\r\n".repeat(150), 431, true),
        ("x: y\r\n".repeat(5_000), 431, false),
        (format!("{}: y\r\n", "x".repeat(70_000)), 431, false),
    ] {
        let text = scene.talk(request("outer", &format!("{headers}connection: close\r\n")));
        assert_eq!(statuses(&text), [status], "{} bytes: {text:.300}", headers.len());
        assert!(!told || own(&text), "{text}");
    }
    let text = scene.talk(format!(
        "GET /{} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        "y".repeat(70_000)
    ));
    assert!(matches!(statuses(&text)[..], [404 | 414 | 431]), "{text:.300}");
    assert_eq!(scene.prompts().len(), 2);
    scene.serves();
}
