//! The engines, what happens to them, and to the gateway's config.

use crate::dice::Dice;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, client, eventually};

/// How an engine asks for a pause. Never carried by a request, which would take it from engine to engine until all pause.
const PAUSES: [&str; 5] = [
    "status=503",
    "status=503,retry_after=1",
    "status=429",
    "status=429,retry_after=1",
    "status=529",
];

/// What else an engine does to a request instead of answering it well.
pub(crate) const FAULTS: [&str; 39] = [
    "status=500",
    "status=502,body=html",
    "status=400",
    "status=404,body=detail",
    "status=422,body=text",
    "status=500,body=empty",
    "status=500,body=badjson",
    "redirect=http://127.0.0.1:9/",
    "ok_error",
    "drop",
    "drop=rst",
    "hang=headers",
    "hang=body",
    "hang=2",
    "cut=1",
    "cut=3",
    "cut=3,cut_kind=rst",
    "cut=2,cut_kind=clean",
    "error_event=0,error_code=500",
    "error_event=0,error_code=400",
    "error_event=2",
    "nodone",
    "no_terminal",
    "notjson_stream",
    "both",
    "short=50",
    "early",
    "proto10",
    "close_delimited",
    "conn_close",
    "gzip=force",
    "split=1",
    "split=7,crlf",
    "coalesce,usage=always",
    "comments=3,comment_gap=0.05",
    "delay=0.3,jitter=0.2",
    "delay_body=0.3",
    "big=300000",
    "gap=0.05,chunks=20",
];

/// When an engine was out of service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    /// Number of the engine.
    pub(crate) engine: usize,
    /// From the moment before it went …
    pub(crate) from: Instant,
    /// … to the one after it came back.
    pub(crate) to: Instant,
}

/// Everything that has happened to engines.
pub(crate) type Outages = Vec<Outage>;

/// The engines: three of one model and one of a smaller, which is spoken to over HTTP/2.
pub(crate) struct Fleet {
    engines: Vec<Upstream>,
    /// Engines that were scripted, or drained, at some time and for how long: they could not be relied on.
    outages: Mutex<Outages>,
}

/// A route of the gateway's config.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: &'static str,
    /// Engines that may serve it.
    pub(crate) engines: &'static [usize],
    /// Statuses that send a request elsewhere.
    pub(crate) retries: &'static [u16],
    /// Whether a request that was delivered may be delivered again elsewhere.
    pub(crate) again: bool,
    /// Whether one that an idle connection swallowed may be sent to the same engine again.
    pub(crate) resend: bool,
}

/// Most attempts of a request.
pub(crate) const ATTEMPTS: usize = 3;

pub(crate) const ROUTES: [Route; 4] = [
    Route {
        name: "main",
        engines: &[0, 1, 2],
        retries: &[429, 503, 529],
        again: false,
        resend: true,
    },
    Route {
        name: "guarded",
        engines: &[0, 1, 2, 3],
        retries: &[429, 503, 529],
        again: false,
        resend: false,
    },
    Route {
        name: "eager",
        engines: &[0, 1, 2],
        retries: &[429, 500, 502, 503, 529],
        again: true,
        resend: true,
    },
    Route {
        name: "only",
        engines: &[3],
        retries: &[429, 503, 529],
        again: false,
        resend: false,
    },
];

impl Fleet {
    pub(crate) fn start() -> Fleet {
        Fleet {
            engines: Upstream::start_all(["a", "b", "c", "d"]).into(),
            outages: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn upstreams(&self) -> &[Upstream] {
        &self.engines
    }

    /// The gateway's config.
    pub(crate) fn config(&self) -> String {
        let endpoint = |index: usize| {
            let engine = &self.engines[index];
            format!("{{name: {}, url: '{}'}}", engine.name(), engine.url())
        };
        let settings = "kind: generic, timeouts: {connect: 1s, first_byte: 2s, idle: 2s, total: 3s}, \
            breaker: {error_rate: 0.5, consecutive: 8, open_for: 1s}, cooldown: {default: 300ms, max: 1s}, \
            health: {type: http, path: /health, interval: 500ms, timeout: 1s}";
        format!(
            "server: {{drain_timeout: 5s}}\n\
             log: {{level: error}}\n\
             pools:\n\
             \x20 - {{name: large, endpoints: [{}, {}, {}], {settings}}}\n\
             \x20 - {{name: small, http: 2, endpoints: [{}], {settings}}}\n\
             routes:\n\
             \x20 - {{name: main, targets: [large], heartbeat: 300ms, policies: {{least_inflight: {{}}, session_affinity: {{}}}}}}\n\
             \x20 - {{name: guarded, targets: [large], retry: {{resend: false}}, fallback: [{{route: only, on: [unavailable]}}]}}\n\
             \x20 - {{name: eager, targets: [{{pool: large, weight: 1}}], on_disconnect: finish, \
                     retry: {{on: [connect, reset, timeout, '429', '500', '502', '503', '529'], budget: {{ratio: 1}}}}}}\n\
             \x20 - {{name: only, targets: [small], retry: {{resend: false}}}}\n",
            endpoint(0),
            endpoint(1),
            endpoint(2),
            endpoint(3),
        )
    }

    /// Does something to an engine or to the gateway, again and again.
    pub(crate) fn torment(&self, gateway: &Gateway, dice: &Dice, time: Duration) -> Outages {
        let until = Instant::now() + time;
        while Instant::now() < until {
            std::thread::sleep(dice.millis(50, 800));
            let engine = dice.below(self.engines.len());
            let from = Instant::now();
            match dice.below(10) {
                0..=1 => self.die(engine, dice.millis(100, 1500)),
                2 => {
                    drop(self.engines[engine].refuse_until());
                    self.note(engine, from);
                }
                3..=5 => self.script(engine, dice),
                6 => self.sicken(engine, dice.millis(500, 2500)),
                7 => self.drain(gateway, engine, dice.millis(100, 800)),
                _ => gateway.write_config(&format!("{}# {}\n", self.config(), dice.below(1 << 30))),
            }
        }
        self.outages.lock().unwrap().clone()
    }

    fn note(&self, engine: usize, from: Instant) {
        let to = Instant::now();
        self.outages.lock().unwrap().push(Outage { engine, from, to });
    }

    fn die(&self, engine: usize, time: Duration) {
        let from = Instant::now();
        self.engines[engine].kill();
        std::thread::sleep(time);
        self.engines[engine].revive();
        self.note(engine, from);
    }

    /// The next few requests get faults, whoever sent them. One script at a time, so that none is left in the end.
    fn script(&self, engine: usize, dice: &Dice) {
        let faults = (0..=dice.below(4)).map(|_| match dice.below(4) {
            0 => *dice.one(&PAUSES),
            _ => *dice.one(&FAULTS),
        });
        let from = Instant::now();
        self.engines[engine].script(faults);
        std::thread::sleep(dice.millis(50, 300));
        self.engines[engine].script([""; 0]);
        self.note(engine, from);
    }

    fn sicken(&self, engine: usize, time: Duration) {
        let from = Instant::now();
        self.engines[engine].set_health(500);
        std::thread::sleep(time);
        self.engines[engine].set_health(200);
        self.note(engine, from);
    }

    fn drain(&self, gateway: &Gateway, engine: usize, time: Duration) {
        let pool = if engine == 3 { "small" } else { "large" };
        let path = format!("/api/endpoints/{pool}/{}", self.engines[engine].name());
        let from = Instant::now();
        let drained = gateway.api_send("PATCH", &path, &serde_json::json!({"drain": true}));
        assert_eq!(drained.status, 200, "{}", drained.text());
        std::thread::sleep(time);
        let resumed = gateway.api_send("PATCH", &path, &serde_json::json!({"resume": true}));
        assert_eq!(resumed.status, 200, "{}", resumed.text());
        self.note(engine, from);
    }

    /// Puts everything in order again and waits until the gateway has seen it.
    pub(crate) fn heal(&self, gateway: &Gateway) {
        gateway.write_config(&self.config());
        let all_live = || {
            // A breaker closes by a request that it lets through.
            for route in &ROUTES {
                let body = client::chat(route.name, "well again");
                let _ = client::Request::post(&gateway.url("/v1/chat/completions"), body).try_send();
            }
            let endpoints = gateway.api("/api/endpoints");
            let states: Vec<_> = endpoints["endpoints"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|endpoint| endpoint["state"].clone())
                .collect();
            states.len() == self.engines.len() && states.iter().all(|state| state == "live")
        };
        let healed = eventually(crate::PATIENCE, all_live);
        assert!(
            healed,
            "engines are well and not used: {}",
            gateway.api("/api/endpoints")
        );
    }

    /// Whether some engine of `route` served from `from` to `to` with nothing done to it.
    pub(crate) fn could_serve(outages: &Outages, route: &Route, (from, to): (Instant, Instant)) -> bool {
        // A moment more on both sides: breakers, probes and cooling look back.
        let margin = Duration::from_millis(2500);
        let disturbed = |engine: &usize| {
            outages
                .iter()
                .any(|outage| outage.engine == *engine && outage.from <= to && outage.to + margin >= from)
        };
        !route.engines.iter().all(disturbed)
    }
}
