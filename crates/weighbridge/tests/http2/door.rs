//! Gateways, and the ways to them.

use crate::support::Api;
use std::path::Path;
use tempfile::TempDir;
use weighbridge_test_engine::certificates::{Authority, Certificate, Trust};
use weighbridge_test_engine::client::{Failure, Http, Request, Session};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, par};

/// How a client reaches the gateway, and how that reaches its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) http: Http,
    pub(crate) tls: bool,
    engine: Http,
}

const fn way(http: Http, tls: bool) -> Way {
    let engine = Http::One;
    Way { http, tls, engine }
}

impl Way {
    const fn to_http2(self) -> Way {
        let engine = Http::Two;
        Way { engine, ..self }
    }

    /// A pool `m` of one endpoint that is reached this way, with `settings` in YAML's flow form.
    pub(crate) fn pool(self, upstream: &Upstream, settings: &str) -> String {
        let comma = if settings.is_empty() { "" } else { ", " };
        one_pool(&upstream.url(), &format!("{}{comma}{settings}", self.setting()))
    }

    /// The pool's setting for it.
    pub(crate) fn setting(self) -> &'static str {
        match self.engine {
            Http::One => "http: 1",
            Http::Two => "http: 2",
        }
    }
}

pub(crate) const H1: Way = way(Http::One, false);
pub(crate) const H2: Way = way(Http::Two, false);
pub(crate) const H1_TLS: Way = way(Http::One, true);
pub(crate) const H2_TLS: Way = way(Http::Two, true);
/// Every way to the gateway, and from there over both versions to engines.
pub(crate) const WAYS: [Way; 6] = [H1, H2, H1_TLS, H2_TLS, H1.to_http2(), H2.to_http2()];

/// Runs `test` over every way, side by side.
pub(crate) fn over_all(test: impl Fn(Way) + Sync) {
    par(WAYS.len(), |i| test(WAYS[i]));
}

/// A gateway and the way to it.
pub(crate) struct Door {
    pub(crate) gateway: Gateway,
    pub(crate) way: Way,
    pub(crate) authority: Authority,
    pub(crate) trust: Trust,
    pub(crate) files: TempDir,
}

impl Door {
    /// A gateway with this config, to whose `server` the certificate is added and these further keys.
    pub(crate) fn new(way: Way, (server, parts): (&str, &str)) -> Door {
        let authority = Authority::new("the tests' authority");
        let files = tempfile::tempdir().unwrap();
        let tls = if way.tls {
            let (cert, key) = authority.server().write(files.path());
            format!("tls: {{cert: '{}', key: '{}'}}, ", cert.display(), key.display())
        } else {
            String::new()
        };
        let yaml = format!("server: {{{tls}{server}}}\n{parts}");
        let gateway = Gateway::start(Path::new(env!("CARGO_BIN_EXE_weighbridge")), &yaml);
        let trust = authority.trusted(None);
        Door {
            gateway,
            way,
            authority,
            trust,
            files,
        }
    }

    /// A gateway with one pool `m` of one endpoint, with `settings` of the pool in YAML's flow form.
    pub(crate) fn to(way: Way, upstream: &Upstream, settings: &str) -> Door {
        Door::new(way, ("", &way.pool(upstream, settings)))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let url = self.gateway.url(path);
        if self.way.tls {
            url.replacen("http://", "https://", 1)
        } else {
            url
        }
    }

    /// The request, sent this way.
    pub(crate) fn this_way(&self, request: Request) -> Request {
        request.over(self.way.http).trusting(&self.trust)
    }

    pub(crate) fn stream(&self, api: Api, mode: &str) -> Request {
        self.this_way(api.stream(&self.url(""), mode))
    }

    pub(crate) fn whole(&self, api: Api, mode: &str) -> Request {
        self.this_way(api.whole(&self.url(""), mode))
    }

    pub(crate) fn get(&self, path: &str) -> Request {
        self.this_way(Request::get(&self.url(path)))
    }

    /// An HTTP/2 connection for several requests.
    pub(crate) fn session(&self) -> Session {
        self.try_session().expect("an HTTP/2 connection")
    }

    pub(crate) fn try_session(&self) -> Result<Session, Failure> {
        Session::to(&self.url(""), Some(&self.trust))
    }

    /// Puts another certificate in the place of the gateway's.
    pub(crate) fn replace(&self, certificate: &Certificate) {
        certificate.write(self.files.path());
    }
}

/// A pool `m` of one endpoint, with `settings` in YAML's flow form.
pub(crate) fn one_pool(url: &str, settings: &str) -> String {
    let comma = if settings.is_empty() { "" } else { ", " };
    format!("pools: [{{name: m, kind: generic, endpoints: [{{name: a, url: '{url}'}}]{comma}{settings}}}]")
}
