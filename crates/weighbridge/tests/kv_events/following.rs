//! What an engine holds is known, whatever happens on the way.

use crate::world::World;

#[test]
fn an_engine_that_connects_is_followed_through_losses_and_restarts() {
    let mut world = World::new(false, 1000);
    world.work(20, |_| false);
    world.wait_equal();
    world.work(20, |step| step % 3 == 0);
    world.work(1, |_| false);
    world.wait_equal();
    assert!(world.shown()["replays"].as_u64() >= Some(2));
    world.publisher.repeat(0);
    world.work(1, |_| false);
    world.wait_equal();
    // Begun anew with an empty cache, and already at work.
    world.cache = weighbridge_test_engine::kv::Cache::new(crate::world::BLOCK, 40);
    world.publisher.restart();
    world.work(5, |step| step < 2);
    world.wait_equal();
    assert_eq!(world.shown()["restarts"], 1);
    assert_eq!(world.shown()["losses"], 0);
    let metrics = world.gateway.metrics();
    let labels = [("pool", "p"), ("endpoint", "e")];
    assert!(metrics.value("weighbridge_kv_batches_total", &labels) > 40.0);
    assert!(metrics.value("weighbridge_kv_blocks", &labels) > 0.0);
    assert_eq!(metrics.value("weighbridge_kv_connected", &labels), 1.0);
}

#[test]
fn an_engine_that_listens_is_found_again() {
    let mut world = World::new(true, 1000);
    world.work(10, |_| false);
    world.wait_equal();
    world.publisher.reconnect();
    world.work(10, |_| false);
    world.wait("connected again", |shown| shown["replays"].as_u64() > Some(1));
    world.wait_equal();
    assert_eq!(world.shown()["losses"], 0);
}

#[test]
fn the_last_batch_of_a_silent_engine_is_missed_in_time() {
    let mut world = World::new(false, 1000);
    world.work(5, |_| false);
    world.work(1, |_| true);
    // Nothing follows that would show the gap.
    world.wait_equal();
}

#[test]
fn what_cannot_be_had_again_is_forgotten() {
    let mut world = World::new(false, 0);
    world.work(10, |_| false);
    world.wait_equal();
    world.work(2, |step| step == 0);
    world.wait("forgotten", |shown| {
        shown["losses"] == 1 && shown["whole"] == false
    });
    // There is nowhere to ask.
    assert_eq!(world.shown()["replays"], 0);
    // Once the engine says that it is empty, all is known again.
    world.cache.clear();
    world.work(3, |_| false);
    world.wait_equal();
}

#[test]
fn a_reload_moves_and_ends_the_following() {
    let mut world = World::new(false, 1000);
    world.work(5, |_| false);
    world.wait_equal();
    let config = std::fs::read_to_string(world.gateway.config_path()).unwrap();
    let at = config.find(", kv_events:").unwrap();
    let end = at + config[at..].find('}').unwrap() + 1;
    world
        .gateway
        .write_config(&format!("{}{}", &config[..at], &config[end..]));
    world.gateway.signal(rustix::process::Signal::HUP);
    world.wait("not followed any more", serde_json::Value::is_null);
    world.gateway.write_config(&config);
    world.gateway.signal(rustix::process::Signal::HUP);
    world.wait("listens again", |shown| shown["connected"] == false);
    world.publisher.reconnect();
    world.wait_equal();
}
