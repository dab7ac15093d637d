//! Chaos: many clients, every fault at random, engines that die and come back, reloads, drains. Whatever happens, each
//! request has exactly one outcome, what the log says of it is what the client saw, nothing is done twice that may not be,
//! and afterwards every count is zero and the memory is back.
//!
//! `WEIGHBRIDGE_CHAOS_SECONDS` says how long (10 s if not set), `WEIGHBRIDGE_CHAOS_SEED` repeats a run's choices; the seed is
//! printed, with the measured availability of the requests that could be served.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test: a broken assumption ends it with a message, and what it measures is printed"
)]

mod clients;
mod dice;
mod faults;
mod ledger;
mod process;

use clients::Clients;
use dice::Dice;
use faults::Fleet;
use ledger::Ledger;
use std::path::Path;
use std::time::Duration;
use weighbridge_test_engine::eventually;
use weighbridge_test_engine::harness::Gateway;

/// For what is certain to come and may take a while.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clients that send one request after another.
const CLIENTS: usize = 16;

#[test]
fn chaos_every_request_has_one_outcome_and_nothing_is_left_behind() {
    let seconds = from_env("WEIGHBRIDGE_CHAOS_SECONDS").unwrap_or(10);
    let seed = from_env("WEIGHBRIDGE_CHAOS_SEED").unwrap_or(20_261_129);
    println!("chaos: {seconds} s, {CLIENTS} clients, WEIGHBRIDGE_CHAOS_SEED={seed}");
    let fleet = Fleet::start();
    let gateway = Gateway::start(Path::new(env!("CARGO_BIN_EXE_weighbridge")), &fleet.config());
    let ledger = Ledger::default();
    let clients = Clients {
        base: gateway.url(""),
        ledger: &ledger,
    };
    // Once through the ordinary, so that what is measured at the end has something to be compared with.
    clients.run(&Dice::new(seed, 0), CLIENTS, Duration::from_secs(2));
    let before = settled(&gateway, &fleet);
    let outages = std::thread::scope(|scope| {
        let faults =
            scope.spawn(|| fleet.torment(&gateway, &Dice::new(seed, 1), Duration::from_secs(seconds)));
        clients.run(&Dice::new(seed, 2), CLIENTS, Duration::from_secs(seconds));
        faults.join().unwrap()
    });
    fleet.heal(&gateway);
    let after = settled(&gateway, &fleet);
    ledger.check(&gateway, &fleet);
    ledger.report(&outages);
    process::compare(&before, &after);
    let stderr = gateway.stderr();
    for word in ["panicked", "fault of the gateway", "lost a request"] {
        assert!(!stderr.contains(word), "the gateway said {word:?}:\n{stderr}");
    }
}

/// Waits until nothing runs any more, anywhere, and looks at what the gateway holds then.
fn settled(gateway: &Gateway, fleet: &Fleet) -> process::Held {
    for upstream in fleet.upstreams() {
        upstream.wait_idle(PATIENCE);
    }
    let idle = eventually(PATIENCE, || {
        gateway.metrics().sum("weighbridge_inflight", &[]) == 0.0
    });
    assert!(idle, "slots are still taken: {}", gateway.metrics().text);
    let negative = |line: &str| line.starts_with("weighbridge_inflight{") && line.contains("} -");
    let text = gateway.metrics().text;
    assert!(!text.lines().any(negative), "a count is negative: {text}");
    process::held(gateway.pid(), PATIENCE)
}

fn from_env(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value:?} is no whole number")),
    )
}
