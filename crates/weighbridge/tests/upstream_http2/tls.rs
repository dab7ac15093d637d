//! TLS towards engines: whom the gateway trusts, what it shows, and which version of HTTP comes of it.

use crate::engine::single_on;
use crate::support::{Api, PATIENCE, SOON};
use std::path::PathBuf;
use tempfile::TempDir;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::certificates::Authority;
use weighbridge_test_engine::client::Response;
use weighbridge_test_engine::eventually;
use weighbridge_test_engine::harness::{Gateway, Signal};
use weighbridge_test_engine::upstream::{TlsFront, TlsOptions};

/// An engine behind TLS, with the files of everybody's certificates.
struct Secure {
    upstream: Upstream,
    front: TlsFront,
    dir: TempDir,
    clients: Authority,
}

const BOTH: &[&str] = &["h2", "http/1.1"];

impl Secure {
    /// Its certificate is for `name`; clients must show one where it `asks`.
    fn start(name: &str, (asks, alpn): (bool, &[&str])) -> Self {
        let upstream = Upstream::start("A");
        let dir = tempfile::tempdir().unwrap();
        let (engines, clients) = (Authority::new("engines"), Authority::new("clients"));
        engines.write(dir.path(), "ca");
        Authority::new("others").write(dir.path(), "other-ca");
        clients.issue(&["gateway"]).write_as(dir.path(), "gateway");
        Authority::new("strangers")
            .issue(&["gateway"])
            .write_as(dir.path(), "stranger");
        let options = TlsOptions {
            identity: &engines.issue(&[name]),
            clients: asks.then_some(&clients),
            alpn,
        };
        Self {
            front: TlsFront::start(&upstream, &options),
            upstream,
            dir,
            clients,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A gateway whose pool trusts `ca` and has these further keys.
    fn gateway(&self, ca: &str, keys: (&str, &str)) -> Gateway {
        single_on(&self.config(ca, keys))
    }

    fn config(&self, ca: &str, (tls, more): (&str, &str)) -> String {
        format!(
            "pools: [{{name: m, kind: generic, health: false, endpoints: ['{}'], tls: {{ca: '{}'{tls}}}{more}}}]",
            self.front.url(),
            self.file(ca).display()
        )
    }

    /// `tls` keys that show the certificate of this name.
    fn shows(&self, name: &str) -> String {
        let (cert, key) = (
            self.file(&format!("{name}.pem")),
            self.file(&format!("{name}.key")),
        );
        format!(
            ", client_cert: '{}', client_key: '{}'",
            cert.display(),
            key.display()
        )
    }
}

fn ask(gateway: &Gateway) -> Response {
    Api::Chat.whole(&gateway.url(""), "").send()
}

/// Checks that the engine cannot be reached, and that the log says why with one of these words.
fn expect_refused(gateway: &Gateway, words: &[&str]) {
    let answer = ask(gateway);
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(!answer.text().contains("ertificate"), "{}", answer.text());
    let line = gateway.wait_log(SOON, |line| line["status"] == 503);
    let reason = line["reason"].as_str().unwrap();
    assert!(
        words.iter().any(|word| reason.contains(word)),
        "{reason}: {}",
        gateway.output()
    );
    assert_eq!(line["outcome"], "connect_error", "{line}");
    assert!(!gateway.output().contains("PRIVATE KEY"), "{}", gateway.output());
}

#[test]
fn the_better_version_that_both_speak_is_spoken() {
    for (http, offered, version) in [
        ("auto", BOTH, "HTTP/2"),
        ("auto", &["http/1.1"], "HTTP/1.1"),
        ("auto", &[], "HTTP/1.1"),
        ("auto", &["h2"], "HTTP/2"),
        ("1", BOTH, "HTTP/1.1"),
        ("2", BOTH, "HTTP/2"),
    ] {
        let secure = Secure::start("127.0.0.1", (false, offered));
        let gateway = secure.gateway("ca.pem", ("", &format!(", http: {http}")));
        for _ in 0..3 {
            let answer = ask(&gateway);
            assert_eq!(answer.status, 200, "{http} {offered:?}: {}", answer.text());
        }
        let posts = secure.upstream.posts();
        assert!(
            posts.iter().all(|post| post.version == version),
            "{http} {offered:?}: {posts:?}"
        );
    }
}

#[test]
fn an_engine_that_does_not_speak_the_pools_version_cannot_be_reached() {
    for (http, offered) in [("2", &["http/1.1"][..]), ("2", &[]), ("1", &["h2"])] {
        let secure = Secure::start("127.0.0.1", (false, offered));
        let gateway = secure.gateway("ca.pem", ("", &format!(", http: {http}")));
        expect_refused(&gateway, &["ALPN"]);
    }
}

#[test]
fn an_authority_that_the_pool_does_not_trust_is_refused() {
    let secure = Secure::start("127.0.0.1", (false, BOTH));
    for http in ["auto", "1", "2"] {
        let gateway = secure.gateway("other-ca.pem", ("", &format!(", http: {http}")));
        expect_refused(
            &gateway,
            &["TLS: no authority that is trusted here has signed the certificate"],
        );
    }
    assert!(secure.upstream.posts().is_empty());
}

#[test]
fn a_certificate_of_another_name_is_refused_unless_that_name_is_asked_for() {
    let secure = Secure::start("engine.example", (false, BOTH));
    let gateway = secure.gateway("ca.pem", ("", ""));
    expect_refused(
        &gateway,
        &["TLS: the certificate is for engine.example, not for 127.0.0.1"],
    );
    assert!(secure.upstream.posts().is_empty());
    let gateway = secure.gateway("ca.pem", (", server_name: engine.example", ""));
    assert_eq!(ask(&gateway).status, 200);
}

#[test]
fn a_client_certificate_is_shown() {
    let secure = Secure::start("127.0.0.1", (true, BOTH));
    assert!(secure.clients.pem().contains("CERTIFICATE"));
    for http in ["auto", "1"] {
        let more = format!(", http: {http}");
        let gateway = secure.gateway("ca.pem", (&secure.shows("gateway"), &more));
        assert_eq!(ask(&gateway).status, 200);
    }
    let before = secure.upstream.posts().len();
    // With TLS 1.3 the engine's refusal comes after the gateway's side of the handshake is done.
    for http in ["auto", "1", "2"] {
        for (shown, reason) in [
            (String::new(), "TLS: the engine asks for a client certificate"),
            (
                secure.shows("stranger"),
                "TLS: the engine refuses our client certificate (unknown ca)",
            ),
        ] {
            let gateway = secure.gateway("ca.pem", (&shown, &format!(", http: {http}")));
            expect_refused(&gateway, &[reason]);
        }
    }
    assert_eq!(secure.upstream.posts().len(), before);
}

#[test]
fn a_request_goes_elsewhere_where_an_engine_misses_a_client_certificate() {
    let secure = Secure::start("127.0.0.1", (true, BOTH));
    let other = Upstream::start("B");
    for http in ["auto", "1"] {
        let config = secure.config("ca.pem", ("", &format!(", http: {http}")));
        let both = format!("route_by: round_robin, endpoints: ['{}', ", other.url());
        let gateway = single_on(&config.replace("endpoints: [", &both));
        for _ in 0..4 {
            let answer = ask(&gateway);
            assert_eq!(answer.status, 200, "{http}: {}", answer.text());
        }
        assert!(gateway.metrics().sum("weighbridge_retries_total", &[]) >= 1.0);
    }
}

#[test]
fn a_reload_changes_whom_to_trust_for_connections_that_are_there_too() {
    let secure = Secure::start("127.0.0.1", (false, BOTH));
    for http in ["1", "2"] {
        let more = format!(", keepalive: 60s, http: {http}");
        let gateway = secure.gateway("ca.pem", ("", &more));
        assert_eq!(ask(&gateway).status, 200);
        gateway.write_config(&secure.config("other-ca.pem", ("", &more)));
        gateway.signal(Signal::HUP);
        let refused = eventually(PATIENCE, || ask(&gateway).status == 503);
        assert!(refused, "{http}: {}", gateway.output());
    }
}
