//! A gateway in this process, between a raw connection and an upstream that reads strictly and answers to order.

mod client;
mod upstream;

pub(crate) use upstream::{End, Script, Upstream, is_form, number};

use client::Client;
use std::cell::Cell;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weighbridge_gateway::Gateway;
use weighbridge_gateway::gateway::Setup;
use weighbridge_gateway::lifecycle::Phase;
use weighbridge_gateway::server;

/// For what is certain to come, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The key with which the gateway goes to its upstream; no answer may hold it.
pub(crate) const UPSTREAM_KEY: &str = "wbSECRETupstream";
/// Most gateways that a thread ends: their own threads stay to the end of the process.
const ENDED_MAX: u32 = 40;

/// A running gateway with its upstream.
pub(crate) struct Edge {
    gateway: Arc<Gateway>,
    address: SocketAddr,
    tls: bool,
    upstream_address: SocketAddr,
    pub(crate) upstream: Arc<Upstream>,
}

/// How a gateway is set up.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) auth: &'static str,
    /// Further settings of `server`, each with a comma before it.
    pub(crate) server: &'static str,
    pub(crate) timeouts: &'static str,
    /// Of the upstream's URL.
    pub(crate) query: &'static str,
    /// Routes, and further parts of the config.
    pub(crate) routes: &'static str,
}

/// Clocks that nothing runs into.
pub(crate) const PATIENT: &str = "{first_byte: 5s, idle: 5s, total: 5s}";

/// What the client does when all is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It closes its sending half and reads to the end.
    Listens,
    /// It closes.
    Leaves,
    /// It closes its sending half, and all once an answer has begun.
    LeavesMidway,
}

impl Edge {
    /// Starts a gateway whose only pool is the upstream.
    pub(crate) fn start(settings: &Settings) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let upstream_address = listener.local_addr().expect("an address");
        let url = format!("http://{upstream_address}");
        let upstream = Upstream::listen(listener);
        let Settings {
            auth,
            server,
            timeouts,
            query,
            routes,
        } = settings;
        let yaml = format!(
            "auth: {auth}
admin: false
server: {{listen: 127.0.0.1:0, max_body: 64KiB, trusted_proxies: [127.0.0.0/8, 'fd00::/8']{server}}}
keys: [{{name: k, key: wb-client-key, models: ['m*']}}, {{name: old, key: wb-old-key, expires: 2020-01-01}}]
pools:
  - name: m
    kind: generic
    health: false
    breaker: false
    api_key: {UPSTREAM_KEY}
    endpoints: ['{url}/{query}']
    timeouts: {timeouts}
    cooldown: {{default: 1ms, max: 1ms}}
  - {{name: dead, health: false, breaker: false, endpoints: ['http://127.0.0.1:9']}}
{routes}"
        );
        let beside = crate::config::beside::folder().join("fuzz.yaml");
        let loaded = weighbridge_config::load_beside(&beside, ("fuzz.yaml", &yaml), &|_| None);
        let config = loaded.unwrap_or_else(|problems| panic!("{problems}")).config;
        let listener = server::bind(config.server.listen).expect("a port");
        let setup = Setup {
            config,
            request_log: Box::new(std::io::sink()),
            event_log: None,
            clients_max: 1000,
        };
        let running = server::start(setup, listener, 1).expect("it starts");
        Self {
            gateway: running.gateway.clone(),
            address: running.listen,
            tls: server.contains("tls:"),
            upstream_address,
            upstream,
        }
    }

    /// One that may be ended; none where this thread has ended too many.
    pub(crate) fn to_be_ended(settings: &Settings) -> Option<Self> {
        thread_local!(static ENDED: Cell<u32> = const { Cell::new(0) });
        let ended = ENDED.replace(ENDED.get() + 1);
        (ended < ENDED_MAX).then(|| Self::start(settings))
    }

    /// Goes on to the next phase of its life, whichever it is told.
    pub(crate) fn enter(&self, phase: Phase) {
        self.gateway.lifecycle.enter(phase);
    }

    /// Writes the pieces to a new connection, tells after which of them, and gives everything that comes back.
    pub(crate) fn converse(&self, pieces: &[&[u8]], manner: Manner, mut after: impl FnMut(usize)) -> Vec<u8> {
        let mut client = Client::connect(self.address, self.tls);
        for (index, piece) in pieces.iter().enumerate() {
            // The gateway may have closed already.
            if client.write_all(piece).is_err() {
                break;
            }
            std::thread::yield_now();
            after(index);
        }
        if manner == Manner::Leaves {
            drop(client);
            // Whoever connects later is accepted later.
            self.ask_for_health();
            return Vec::new();
        }
        client.finish();
        let mut received = Vec::new();
        let ended = if manner == Manner::LeavesMidway {
            uninterrupted(|| client.read(&mut [0; 100])).map(|_| 0)
        } else {
            client.read_to_end(&mut received)
        };
        let ended = ended.err();
        let kind = ended.as_ref().map(std::io::Error::kind);
        // What the gateway closes while bytes of ours are on their way ends in a reset.
        let left = manner == Manner::LeavesMidway
            && matches!(kind, Some(ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof));
        assert!(
            kind.is_none() || left,
            "the gateway neither answered nor closed ({ended:?}); it said {:?}",
            String::from_utf8_lossy(&received)
        );
        received
    }

    fn ask_for_health(&self) {
        let mut client = Client::connect(self.address, self.tls);
        let asked = client.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let mut told = Vec::new();
        asked
            .and_then(|()| client.read_to_end(&mut told))
            .expect("it answers");
        assert!(told.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }

    /// What must hold between two conversations.
    pub(crate) fn settled(&self) {
        let until = Instant::now() + PATIENCE;
        // Connections that the gateway has made and given up are met before this one.
        let last = TcpStream::connect(self.upstream_address).expect("the upstream listens");
        let last_address = last.local_addr().expect("an address");
        let met = Cell::new(false);
        let busy = || {
            met.set(met.get() || self.upstream.has_met(last_address));
            let view = self.gateway.view();
            !met.get()
                || self.upstream.is_busy()
                || self.gateway.lifecycle.running() > 0
                || self.gateway.connections() > 0
                || view.endpoints.iter().any(|endpoint| endpoint.inflight > 0)
        };
        while busy() {
            assert!(Instant::now() < until, "a slot was not given back");
            std::thread::yield_now();
        }
        let faults = self.upstream.take_faults();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

/// Reads again where a signal came between: a fuzzer has a clock that rings.
fn uninterrupted(mut read: impl FnMut() -> std::io::Result<usize>) -> std::io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
