//! A gateway that follows engines, and what it says of them.

use crate::shared::{SOON, gateway};
use serde_json::Value;
use std::net::TcpListener;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::kv::{Cache, Dice, Numbering, Place, Publisher, Style};
use weighbridge_test_engine::{Upstream, eventually};

pub(crate) const BLOCK: usize = 4;

/// A port on which nobody listens.
pub(crate) fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// An engine that publishes, followed by a gateway.
pub(crate) struct World {
    pub(crate) gateway: Gateway,
    pub(crate) publisher: Publisher,
    pub(crate) cache: Cache,
    dice: Dice,
    _upstream: Upstream,
}

impl World {
    /// The publisher listens (`bind`) or connects, and keeps `kept` batches; 0: it cannot be asked.
    pub(crate) fn new(bind: bool, kept: usize) -> World {
        let upstream = Upstream::start("E1");
        let address = format!("tcp://127.0.0.1:{}", port());
        let numbering = Numbering::new(Style::Maps, BLOCK, kept);
        let place = Place {
            address: address.clone(),
            bind,
            replay: kept > 0,
        };
        // One that connects waits for the gateway to listen.
        let publisher = Publisher::start(place, numbering);
        let way = if bind { "connect" } else { "bind" };
        let replay = publisher
            .replay
            .as_ref()
            .map_or_else(String::new, |at| format!(", replay: '{at}'"));
        let gateway = gateway(&format!(
            "pools: [{{name: p, endpoints: [{{name: e, url: '{}', kv_events: {{{way}: '{address}'{replay}}}}}]}}]\n\
             routes: [{{name: r, targets: [p]}}]",
            upstream.url()
        ));
        let world = World {
            gateway,
            publisher,
            cache: Cache::new(BLOCK, 40),
            dice: Dice::new(7),
            _upstream: upstream,
        };
        world.wait("connected", |shown| shown["connected"] == true);
        world
    }

    /// The engine works for `steps` steps, each told of in a batch; `lost` says which get lost.
    pub(crate) fn work(&mut self, steps: usize, lost: impl Fn(usize) -> bool) {
        for step in 0..steps {
            let prompt = self.dice.prompt(BLOCK);
            self.cache.run(&prompt, 1);
            let events = self.cache.take_events();
            if lost(step) {
                self.publisher.lose(events);
            } else {
                self.publisher.publish(events);
            }
        }
    }

    /// What the admin API says of the engine's cache.
    pub(crate) fn shown(&self) -> Value {
        self.gateway.api("/api/endpoints")["endpoints"][0]["kv_events"].clone()
    }

    pub(crate) fn wait(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        let arrived = eventually(SOON * 3, || holds(&self.shown()));
        assert!(arrived, "{what}: {}\n{}", self.shown(), self.gateway.stderr());
    }

    /// Waits until the gateway knows of exactly the blocks that the engine holds.
    pub(crate) fn wait_equal(&self) {
        let held = self.cache.prefixes().len();
        self.wait("as many blocks as the engine holds", |shown| {
            shown["blocks"] == held && shown["whole"] == true && shown["waiting"] == 0
        });
    }
}
