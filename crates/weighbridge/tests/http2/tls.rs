//! `server.tls`: who may come in, and certificates that change.

use crate::door::{Door, H1_TLS, H2_TLS, WAYS, one_pool};
use crate::support::{Api, PATIENCE, SOON, expect_whole};
use std::path::Path;
use std::time::Duration;
use weighbridge_test_engine::certificates::Authority;
use weighbridge_test_engine::client::{Connection, Failure, Request, raw};
use weighbridge_test_engine::harness::{Gateway, GatewayOptions, Signal};
use weighbridge_test_engine::{Upstream, eventually};

/// The certificate that the gateway shows to a new client.
fn shown(door: &Door) -> Option<Vec<u8>> {
    let connection = Connection::trusting(&door.url(""), Some(&door.trust)).ok()?;
    connection.peer_certificate()
}

fn reload_failed(door: &Door) -> bool {
    door.gateway
        .metrics()
        .value("weighbridge_config_reload_success", &[])
        == 0.0
}

#[test]
fn certificates_are_read_again_when_they_change() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2_TLS, &upstream, "");
    let session = door.session();
    let kept = Connection::trusting(&door.url(""), Some(&door.trust)).unwrap();
    let running = session
        .begin(&door.stream(Api::Chat, "gap=0.3,chunks=15"))
        .unwrap();
    let mut running = running.head(PATIENCE).unwrap();
    let first = shown(&door).expect("a certificate");
    let second = door.authority.server();
    assert_ne!(second.der(), first);
    door.replace(&second);
    assert!(
        eventually(PATIENCE, || shown(&door) == Some(second.der())),
        "{}",
        door.gateway.stderr()
    );
    // Whoever is there stays, and is served.
    expect_whole(Api::Chat, &mut running);
    let again = session.begin(&door.whole(Api::Chat, "")).unwrap();
    assert_eq!(again.response(PATIENCE).unwrap().status, 200);
    assert_eq!(kept.send(&door.whole(Api::Chat, "")).unwrap().0.status, 200);
    let status = door.gateway.api("/api/status");
    assert!(status.to_string().contains("certificates changed"), "{status}");
    // Written over in place, and behind a symbolic link.
    let third = door.authority.server();
    std::fs::write(door.files.path().join("key.pem"), &third.key).unwrap();
    std::fs::write(door.files.path().join("cert.pem"), &third.cert).unwrap();
    assert!(eventually(PATIENCE, || shown(&door) == Some(third.der())));
    let fourth = door.authority.server();
    let elsewhere = tempfile::tempdir().unwrap();
    let (cert, key) = fourth.write(elsewhere.path());
    for (target, name) in [(cert, "cert.pem"), (key, "key.pem")] {
        let link = door.files.path().join("link");
        std::os::unix::fs::symlink(target, &link).unwrap();
        std::fs::rename(link, door.files.path().join(name)).unwrap();
    }
    assert!(eventually(PATIENCE, || shown(&door) == Some(fourth.der())));
    assert!(!reload_failed(&door));
}

#[test]
fn bad_certificates_change_nothing_and_are_reported() {
    let upstream = Upstream::start("a");
    let door = Door::to(H1_TLS, &upstream, "");
    let first = shown(&door).expect("a certificate");
    let other = door.authority.server();
    let cert = door.files.path().join("cert.pem");
    let good = std::fs::read_to_string(&cert).unwrap();
    for (content, said) in [
        (other.cert.as_str(), "this key does not belong to the certificate"),
        ("nothing", "there is no certificate in the file"),
    ] {
        std::fs::write(&cert, content).unwrap();
        assert!(eventually(PATIENCE, || reload_failed(&door)), "{said}");
        let told = || {
            let status = door.gateway.api("/api/status").to_string();
            status.contains(said) && door.gateway.stderr().contains(said)
        };
        assert!(eventually(SOON, told), "{said}: {}", door.gateway.stderr());
        assert_eq!(shown(&door), Some(first.clone()));
        assert_eq!(door.whole(Api::Chat, "").send().status, 200);
        std::fs::write(&cert, &good).unwrap();
        assert!(eventually(PATIENCE, || !reload_failed(&door)));
    }
    std::fs::remove_file(&cert).unwrap();
    assert!(eventually(PATIENCE, || reload_failed(&door)));
    door.gateway.signal(Signal::HUP);
    assert_eq!(shown(&door), Some(first));
}

#[test]
fn clients_without_a_certificate_are_kept_out_where_one_is_asked_for() {
    let upstream = Upstream::start("a");
    let authority = Authority::new("of clients");
    let files = tempfile::tempdir().unwrap();
    let (cert, key) = authority.server().write(files.path());
    let ca = files.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let gateway = Gateway::start(
        Path::new(env!("CARGO_BIN_EXE_weighbridge")),
        &format!(
            "server: {{tls: {{cert: '{}', key: '{}', client_ca: '{}'}}}}\nlog: {{level: debug}}\n{}",
            cert.display(),
            key.display(),
            ca.display(),
            one_pool(&upstream.url(), "")
        ),
    );
    let url = gateway.url("").replacen("http://", "https://", 1);
    let stranger = Authority::new("of strangers").client("a stranger");
    for way in WAYS.iter().filter(|way| way.tls) {
        let ask = |identity| {
            let trust = authority.trusted(identity);
            Api::Chat
                .whole(&url, "")
                .over(way.http)
                .trusting(&trust)
                .try_send()
        };
        let known = authority.client("a client");
        assert_eq!(ask(Some(&known)).expect("an answer").status, 200);
        for refused in [ask(None), ask(Some(&stranger))] {
            let failure = refused.expect_err("kept out");
            assert!(
                matches!(failure, Failure::Tls | Failure::Closed | Failure::Reset),
                "{failure}"
            );
        }
    }
    let told = || gateway.stderr().matches("TLS handshake failed").count();
    assert!(eventually(SOON, || told() >= 4), "{}", gateway.stderr());
    let why = || gateway.stderr().contains("peer sent no certificates");
    assert!(eventually(SOON, why), "{}", gateway.stderr());
    assert_eq!(upstream.posts().len(), 2);
}

#[test]
fn who_does_not_shake_hands_is_let_go() {
    let upstream = Upstream::start("a");
    let door = Door::to(H1_TLS, &upstream, "");
    let address = crate::support::address(&door.gateway);
    // What is neither TLS nor HTTP gets no plain answer; who says nothing is waited for, but not for ever.
    for first in ["\u{0}\u{1}", "\n", "12"] {
        let mut other = raw(address);
        other.write(first.repeat(64)).unwrap();
        other.half_close();
        let _ = other.read_to_end(PATIENCE);
        assert!(!other.text().contains("HTTP/"), "{}", other.text());
    }
    let mut silent = raw(address);
    assert!(silent.read_to_end(Duration::from_secs(30)).is_ok(), "still open");
    assert_eq!(door.get("/health").send().status, 200);
    let connections = || door.gateway.metrics().value("weighbridge_connections", &[]);
    assert!(eventually(PATIENCE, || connections() == 0.0));
}

#[test]
fn plain_http_is_told_that_the_port_speaks_tls() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2_TLS, &upstream, "");
    let address = crate::support::address(&door.gateway);
    let large = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 4000000\r\n\r\n{}",
        "x".repeat(4_000_000)
    );
    for said in [
        "GET /health HTTP/1.1\r\nhost: x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "g",
        &large,
    ] {
        let mut plain = raw(address);
        plain.write(said).unwrap();
        plain.half_close();
        plain.read_to_end(PATIENCE).unwrap();
        let text = plain.text();
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        assert!(head.starts_with("HTTP/1.1 400 "), "{text}");
        assert!(head.contains("connection: close"), "{text}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let message = body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("TLS") && message.contains("https://"),
            "{message}"
        );
    }
    assert_eq!(door.get("/health").send().status, 200);
    assert_eq!(upstream.posts().len(), 0);
}

#[test]
fn the_protocol_is_chosen_by_alpn() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2_TLS, &upstream, "");
    let over = |request: Request| request.trusting(&door.trust).send();
    let request = Api::Chat.whole(&door.url(""), "");
    assert_eq!(over(request.clone()).status, 200);
    assert_eq!(
        over(request.over(weighbridge_test_engine::client::Http::Two)).status,
        200
    );
}

#[test]
fn wrong_files_are_told_with_their_place() {
    let authority = Authority::new("a");
    let files = tempfile::tempdir().unwrap();
    let (cert, key) = authority.server().write(files.path());
    let other = files.path().join("other.pem");
    std::fs::write(&other, authority.server().key).unwrap();
    let secret = std::fs::read_to_string(&key).unwrap();
    let (cert, key) = (cert.display(), key.display());
    let cases = [
        (
            format!("cert: nowhere.pem, key: '{key}'"),
            "server.tls.cert",
            "there is no such file",
        ),
        (
            format!("cert: '{key}', key: '{key}'"),
            "server.tls.cert",
            "there is no certificate in the file",
        ),
        (
            format!("cert: '{cert}', key: '{cert}'"),
            "server.tls.key",
            "there is no private key in the file",
        ),
        (
            format!("cert: '{cert}', key: '{}'", other.display()),
            "server.tls.key",
            "does not belong to the certificate",
        ),
        (
            format!("cert: '{cert}', key: '{key}', client_ca: '{key}'"),
            "server.tls.client_ca",
            "there is no certificate",
        ),
        (format!("cert: '{cert}'"), "server.tls", "key"),
    ];
    for (tls, place, said) in cases {
        let yaml = format!(
            "server: {{tls: {{{tls}}}}}\n{}",
            one_pool("http://127.0.0.1:9", "")
        );
        let options = GatewayOptions::new(Path::new(env!("CARGO_BIN_EXE_weighbridge")), &yaml);
        let failure = match Gateway::try_start(&options) {
            Ok(gateway) => panic!("it started: {}", gateway.output()),
            Err(failure) => failure,
        };
        assert_eq!(failure.code, Some(2), "{}", failure.output);
        let line = failure.output.lines().find(|line| line.contains(place));
        assert!(
            line.is_some_and(|line| line.contains(":1:")) && failure.output.contains(said),
            "{}",
            failure.output
        );
        let secret = secret.lines().nth(1).unwrap();
        assert!(!failure.output.contains(secret), "{}", failure.output);
    }
}
