//! Changes of sources, delivered by hand.

use super::watch::{Look, Watch};
use crate::gateway::{Gateway, Queues, Setup};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_config::discovery::{Discovered, Discovery};
use weighbridge_core::event::{Ended, Outcome};
use weighbridge_core::spec::Protocols;
use weighbridge_core::{Event, RequestId};

const CONFIG: &str = "pools: [{name: a, discovery: {dns: e.example:1}, health: {type: tcp}}]";

/// A gateway without threads, and its only watch.
fn gateway(config: &str) -> (Arc<Gateway>, Watch, Queues) {
    let loaded = weighbridge_config::load_str("t.yaml", config, &|_| None).unwrap();
    let setup = Setup {
        config: loaded.config,
        request_log: Box::new(std::io::sink()),
        event_log: None,
        clients_max: 10,
    };
    let (gateway, mut queues) = Gateway::with_queues(setup).unwrap();
    let watch = queues.watches.try_recv().unwrap();
    (gateway, watch, queues)
}

/// Says that the endpoints at 10.0.x.y of these numbers are there.
fn deliver(gateway: &Gateway, watch: &Watch, numbers: impl IntoIterator<Item = u32>) -> bool {
    let Discovery::Dns(dns) = &watch.discovery else {
        panic!("{:?}", watch.discovery)
    };
    let at = |number: u32| {
        let address = std::net::Ipv4Addr::from(0x0a00_0000 + number);
        dns.at_address((address, 1).into())
    };
    let found: Vec<Discovered> = numbers.into_iter().map(at).collect();
    let wanted = gateway.fleet.deliver(
        watch,
        Look {
            answered: true,
            found: Some(found.into()),
            error: None,
            again: Duration::ZERO,
        },
    );
    gateway.take_found();
    wanted
}

fn arrive(gateway: &Gateway, number: u64) -> weighbridge_core::action::Dispatch {
    let mut actions = Vec::new();
    let route = gateway.snapshot().route("a").unwrap().id;
    let arrival = weighbridge_core::event::Arrival {
        request: RequestId(number),
        route,
        protocols: Protocols::OPENAI,
        session: None,
        only: None,
        explain: false,
        work: None,
    };
    gateway.step(Event::Arrive(arrival), &mut actions);
    actions
        .into_iter()
        .find_map(|action| match action {
            weighbridge_core::Action::Dispatch(dispatch) => Some(*dispatch),
            _ => None,
        })
        .expect("it is sent")
}

fn end(gateway: &Gateway, number: u64) {
    let ended = Ended {
        request: RequestId(number),
        attempt: 1,
        outcome: Outcome::Complete,
        committed: true,
        too_long: false,
        ..Ended::new(RequestId(0), 0, Outcome::Complete)
    };
    gateway.step(Event::Ended(ended), &mut Vec::new());
}

#[test]
fn a_thousand_changes_leave_nothing_behind() {
    let (gateway, watch, _queues) = gateway(CONFIG);
    let lines = |gateway: &Gateway| gateway.metrics().encode().lines().count();
    let mut first = 0;
    for change in 0..1000 {
        // The addresses never come back, and each endpoint has served.
        assert!(deliver(&gateway, &watch, [2 * change, 2 * change + 1]));
        let number = u64::from(change);
        let dispatch = arrive(&gateway, number);
        let upstream = gateway.upstream(dispatch.endpoint).unwrap();
        assert!(dispatch.endpoint.slot < 8, "places are used again");
        // It leaves while it serves, and is known until the request has ended.
        assert!(deliver(&gateway, &watch, [2 * change + 1, 9000]));
        assert!(gateway.upstream(dispatch.endpoint).is_some());
        upstream.attempts.ended(crate::telemetry::outcome::Outcome::Ok);
        end(&gateway, number);
        gateway.forget_gone(&gateway.view());
        let serves = gateway.snapshot().upstream(dispatch.endpoint).is_some();
        assert_eq!(gateway.upstream(dispatch.endpoint).is_some(), serves);
        if change == 10 {
            first = lines(&gateway);
        }
    }
    // Which of two endpoints serves is up to chance, so the series of those that stay may be there or not, with their heads.
    assert!(
        lines(&gateway) <= first + 4,
        "{} and at first {first}",
        lines(&gateway)
    );
    assert_eq!(gateway.view().endpoints.len(), 2);
    assert_eq!(gateway.sources()["a"].changes, 2000);
}

#[test]
fn a_reload_and_a_source_do_not_undo_each_other() {
    let (gateway, watch, mut queues) = gateway(CONFIG);
    deliver(&gateway, &watch, [1, 2]);
    let ids = |gateway: &Gateway| -> Vec<_> { gateway.view().endpoints.iter().map(|e| e.id).collect() };
    let before = ids(&gateway);
    let load = |text: &str| {
        weighbridge_config::load_str("t.yaml", text, &|_| None)
            .unwrap()
            .config
    };
    let more = format!("{CONFIG}\nroutes: [{{name: r, targets: [a]}}]");
    gateway.reconfigure(load(&more)).unwrap();
    assert_eq!(ids(&gateway), before, "what was discovered stays");
    assert_eq!(gateway.snapshot().generation, 1);
    deliver(&gateway, &watch, [2]);
    assert_eq!(gateway.snapshot().generation, 1, "the config is the same");
    assert!(gateway.snapshot().route("r").is_some());
    assert_eq!(ids(&gateway), before[1..]);
    // The same question with another bound: what is known holds, and a new watch takes over.
    let slower = CONFIG.replace("e.example:1", "{name: e.example, port: 1, ttl_max: 2m}");
    gateway.reconfigure(load(&slower)).unwrap();
    assert_eq!(ids(&gateway), before[1..]);
    assert!(!deliver(&gateway, &watch, [3]), "nobody listens to the old one");
    let watch = queues.watches.try_recv().unwrap();
    assert!(deliver(&gateway, &watch, [3]));
    // A list in its place.
    gateway
        .reconfigure(load("pools: [{name: a, endpoints: [http://h:1]}]"))
        .unwrap();
    assert!(!deliver(&gateway, &watch, [4]));
    assert_eq!(&*gateway.view().endpoints[0].name, "h:1");
    assert!(gateway.sources().is_empty());
}

#[test]
fn the_gateway_itself_is_no_endpoint() {
    let config = "server: {listen: \"10.0.0.7:1\"}\nauth: none\n".to_owned() + CONFIG;
    let (gateway, watch, _queues) = gateway(&config);
    deliver(&gateway, &watch, [7, 8]);
    let names: Vec<_> = gateway
        .view()
        .endpoints
        .iter()
        .map(|e| e.name.to_string())
        .collect();
    assert_eq!(names, ["10.0.0.8:1"]);
}

#[test]
fn unchanged_endpoints_keep_what_their_streams_report_to() {
    let (gateway, watch, _queues) = gateway(CONFIG);
    deliver(&gateway, &watch, [1, 2]);
    let of = |gateway: &Gateway, name: &str| {
        let snapshot = gateway.snapshot_full();
        let found = snapshot
            .upstreams()
            .find(|upstream| &*upstream.name == name)
            .cloned();
        found.unwrap()
    };
    let before = of(&gateway, "10.0.0.1:1");
    deliver(&gateway, &watch, [1, 3]);
    let after = of(&gateway, "10.0.0.1:1");
    assert!(!Arc::ptr_eq(&before, &after));
    assert!(
        Arc::ptr_eq(&before.last_byte, &after.last_byte),
        "a stall would be seen where there is none"
    );
}
