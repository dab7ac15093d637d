//! Prompts whose tokens are known go to the engine whose events have them, whatever was sent there before.

use crate::shared::{SOON, gateway};
use crate::world::{BLOCK, port};
use serde_json::json;
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::kv::{Cache, Numbering, Place, Publisher, Style};
use weighbridge_test_engine::{Upstream, eventually};

/// An engine with a cache that it tells of.
struct Engine {
    upstream: Upstream,
    publisher: Publisher,
    address: String,
    cache: Cache,
}

impl Engine {
    fn start(name: &str) -> Engine {
        let address = format!("tcp://127.0.0.1:{}", port());
        let place = Place {
            address: address.clone(),
            bind: true,
            replay: true,
        };
        let numbering = Numbering::new(Style::Numbers, BLOCK, 1000);
        Engine {
            upstream: Upstream::start(name),
            publisher: Publisher::start(place, numbering),
            address,
            cache: Cache::new(BLOCK, 200),
        }
    }

    fn config(&self) -> String {
        format!(
            "{{name: {}, url: '{}', kv_events: {{connect: '{}', replay: '{}'}}}}",
            self.upstream.name(),
            self.upstream.url(),
            self.address,
            self.publisher.replay.as_ref().unwrap()
        )
    }

    fn tell(&mut self) {
        let events = self.cache.take_events();
        self.publisher.publish(events);
    }
}

fn wait(gateway: &Gateway, engines: &[&Engine]) {
    let known = || {
        let shown = gateway.api("/api/endpoints");
        engines.iter().enumerate().all(|(place, engine)| {
            let events = &shown["endpoints"][place]["kv_events"];
            events["blocks"] == engine.cache.prefixes().len() && events["whole"] == true
        })
    };
    assert!(eventually(SOON, known), "{}", gateway.api("/api/endpoints"));
}

fn served_by(gateway: &Gateway, prompt: &[u32]) -> String {
    let body = json!({"model": "r", "prompt": prompt, "max_tokens": 4});
    let answer = Request::post(&gateway.url("/v1/completions"), body.to_string()).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.served_by().unwrap().to_owned()
}

#[test]
fn a_prompt_of_tokens_goes_to_the_engine_that_holds_it() {
    let mut a = Engine::start("A");
    let mut b = Engine::start("B");
    let gateway = gateway(&format!(
        "pools: [{{name: p, endpoints: [{}, {}]}}]\nroutes: [{{name: r, targets: [p], policies: {{prefix_cache: {{}}}}}}]",
        a.config(),
        b.config()
    ));
    let prompt = |seed: u32| (0..81).map(|token| token * 7 + seed).collect::<Vec<u32>>();
    // Computed past this gateway.
    for seed in 0..8 {
        let engine = if seed % 2 == 0 { &mut a } else { &mut b };
        engine.cache.run(&prompt(seed), 1);
        engine.tell();
    }
    wait(&gateway, &[&a, &b]);
    for seed in 0..8 {
        let holder = if seed % 2 == 0 { "A" } else { "B" };
        assert_eq!(served_by(&gateway, &prompt(seed)), holder, "{seed}");
    }
    // What was sent to A is gone from there, and B has it.
    a.cache.clear();
    a.tell();
    b.cache.run(&prompt(0), 1);
    b.tell();
    wait(&gateway, &[&a, &b]);
    for _ in 0..3 {
        assert_eq!(served_by(&gateway, &prompt(0)), "B");
    }
}
