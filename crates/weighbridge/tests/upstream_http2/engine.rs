//! An engine that is spoken to in one of the ways there are.

use crate::support::{PATIENCE, gateway};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weighbridge_test_engine::certificates::Authority;
use weighbridge_test_engine::harness::{Gateway, GatewayOptions};
use weighbridge_test_engine::upstream::{TlsFront, TlsOptions};
use weighbridge_test_engine::{Upstream, eventually};

/// How the gateway speaks to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// HTTP/1.1 without TLS, as everywhere else.
    Http1,
    /// HTTP/2 without TLS, by prior knowledge.
    Http2,
    /// HTTP/1.1 over TLS, to an engine that offers nothing else.
    Http1Tls,
    /// HTTP/2 over TLS, which the engine offers and the gateway takes.
    Http2Tls,
}

impl Speaks {
    /// What the engine's records say of a request.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Http1 | Self::Http1Tls => "HTTP/1.1",
            Self::Http2 | Self::Http2Tls => "HTTP/2",
        }
    }
}

/// An engine, with TLS before it where it needs some.
pub(crate) struct Engine {
    pub(crate) upstream: Upstream,
    front: Option<TlsFront>,
    speaks: Speaks,
    ca: PathBuf,
    _dir: TempDir,
}

impl Engine {
    pub(crate) fn start(speaks: Speaks, name: &str) -> Self {
        let upstream = Upstream::start(name);
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("engines");
        let ca = authority.write(dir.path(), "ca");
        let alpn: &[&str] = match speaks {
            Speaks::Http1 | Speaks::Http2 => &[],
            Speaks::Http1Tls => &["http/1.1"],
            Speaks::Http2Tls => &["h2", "http/1.1"],
        };
        let front = (!alpn.is_empty()).then(|| {
            let options = TlsOptions {
                identity: &authority.issue(&["127.0.0.1"]),
                clients: None,
                alpn,
            };
            TlsFront::start(&upstream, &options)
        });
        Self {
            upstream,
            front,
            speaks,
            ca,
            _dir: dir,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.front
            .as_ref()
            .map_or_else(|| self.upstream.url(), TlsFront::url)
    }

    /// Closes its port: connections are refused from now on.
    pub(crate) fn refuse(&mut self) {
        self.front = None;
        self.upstream.kill();
    }

    /// What its pool is told, beside `more` keys in YAML's flow form.
    fn settings(&self, more: &str) -> String {
        let own = match self.speaks {
            Speaks::Http1 => String::new(),
            Speaks::Http2 => "http: 2, ".to_owned(),
            Speaks::Http1Tls | Speaks::Http2Tls => format!("tls: {{ca: '{}'}}, ", self.ca.display()),
        };
        format!("kind: generic, health: false, {own}{more}")
    }

    /// An entry of `pools`, of one endpoint `a`.
    pub(crate) fn pool(&self, name: &str, more: &str) -> String {
        let settings = self.settings(more);
        format!(
            "{{name: {name}, endpoints: [{{name: a, url: '{}'}}], {settings}}}",
            self.url()
        )
    }

    /// A gateway with one pool `m`, of one endpoint `a`.
    pub(crate) fn gateway(&self, more: &str) -> Gateway {
        gateway(&format!("pools: [{}]", self.pool("m", more)))
    }
}

/// A gateway of one thread, so that all its requests meet, with one pool `m`, of one endpoint `a` that is spoken to in
/// HTTP/2 by prior knowledge.
pub(crate) fn single(upstream: &Upstream, more: &str) -> Gateway {
    single_on(&format!(
        "pools: [{{name: m, kind: generic, health: false, http: 2, endpoints: [{{name: a, url: '{}'}}], {more}}}]",
        upstream.url()
    ))
}

/// A gateway of one thread.
pub(crate) fn single_on(yaml: &str) -> Gateway {
    let mut options = GatewayOptions::new(Path::new(env!("CARGO_BIN_EXE_weighbridge")), yaml);
    options.args = vec!["--workers".to_owned(), "1".to_owned()];
    Gateway::start_with(&options)
}

/// A gateway with a route `m` to `first`, and to `second` where `first` fails.
pub(crate) fn to_either(first: &Engine, second: &Engine, (retry, more): (&str, &str)) -> Gateway {
    gateway(&format!(
        "
        pools:
          - {}
          - {}
        routes:
          - name: m
            targets: [a, {{pool: b, order: 2}}]
            retry: {retry}
        ",
        first.pool("a", &format!("breaker: false, {more}")),
        second.pool("b", &format!("breaker: false, {more}")),
    ))
}

/// Waits until nothing more of its answers is taken from `upstream`, and gives how many bytes of each have been.
pub(crate) fn stands_still(upstream: &Upstream) -> Vec<u64> {
    let sent = || -> Vec<u64> { upstream.posts().iter().map(|post| post.bytes_sent).collect() };
    let (mut before, mut since) = (sent(), Instant::now());
    let still = eventually(PATIENCE * 2, || {
        let now = sent();
        if now != before {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(900)
    });
    assert!(still, "answers still flow: {before:?}");
    before
}

/// One test per way to speak to the engine, of a body that takes it.
macro_rules! in_every_way {
    ($($(#[$about:meta])* fn $name:ident($speaks:ident) $body:block)+) => {$(
        mod $name {
            #[allow(unused_imports, reason = "each body uses its own part")]
            use super::*;

            fn check($speaks: crate::engine::Speaks) $body

            #[test]
            fn http1() {
                check(crate::engine::Speaks::Http1);
            }

            #[test]
            fn http2() {
                check(crate::engine::Speaks::Http2);
            }

            #[test]
            fn http1_tls() {
                check(crate::engine::Speaks::Http1Tls);
            }

            #[test]
            fn http2_tls() {
                check(crate::engine::Speaks::Http2Tls);
            }
        }
    )+};
}

pub(crate) use in_every_way;
