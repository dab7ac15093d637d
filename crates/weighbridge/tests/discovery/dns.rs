//! A8: engines are found again when they have moved, and name servers that fail take none away.

use crate::shared::ask;
use crate::shared::{SOON, count, gateway, send, send_all, served};
use crate::world::{NAME, by_name, engines, say, serving, shown, source, wait_said, wait_serving};
use std::collections::BTreeSet;
use weighbridge_test_engine::dns::{Entry, Said};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{DnsServer, eventually};

/// Who serves this many requests, sent one after the other.
fn who(gateway: &Gateway, requests: usize) -> Vec<String> {
    let answers = send_all(gateway, (0..requests).map(|_| ask(gateway, "r")));
    served(&answers).into_iter().map(str::to_owned).collect()
}

#[test]
fn a8_an_address_that_refuses_is_asked_about_at_once() {
    let engines = engines(2);
    let dns = DnsServer::start();
    say(&dns, 3600, &[1]);
    let config = by_name(&dns, engines[0].port(), (", ttl_max: 1h", ""));
    let gateway = gateway(&config);
    assert_eq!(
        who(&gateway, 2),
        ["E1", "E1"],
        "the first answer is awaited before the first request"
    );
    let asked = dns.asked(NAME);
    say(&dns, 3600, &[2]);
    engines[0].kill();
    // The request that meets the dead address may fail, having nowhere else to go.
    let moved = || {
        let answer = send(&gateway, "r");
        answer.status == 200 && answer.served_by() == Some("E2")
    };
    assert!(
        eventually(SOON, moved),
        "the time to live is an hour, so only the failure can tell"
    );
    assert!(dns.asked(NAME) > asked);
    wait_serving(&gateway, engines[0].port(), &[2]);
    assert!(who(&gateway, 4).iter().all(|name| name == "E2"));
}

#[test]
fn a8_an_address_that_was_replaced_is_left_when_its_time_is_over() {
    let engines = engines(3);
    let dns = DnsServer::start();
    say(&dns, 1, &[1, 2]);
    let gateway = gateway(&by_name(&dns, engines[0].port(), ("", ", route_by: round_robin")));
    wait_serving(&gateway, engines[0].port(), &[1, 2]);
    say(&dns, 1, &[2, 3]);
    wait_serving(&gateway, engines[0].port(), &[2, 3]);
    let names: BTreeSet<_> = who(&gateway, 6).into_iter().collect();
    assert_eq!(names, ["E2".to_owned(), "E3".to_owned()].into());
    wait_said(&gateway, "added=127.0.0.3");
    wait_said(&gateway, "removed=127.0.0.1");
}

#[test]
fn a8_a_name_server_that_fails_takes_nothing_away() {
    let engines = engines(2);
    let port = engines[0].port();
    let dns = DnsServer::start();
    say(&dns, 0, &[1, 2]);
    let gateway = gateway(&by_name(
        &dns,
        port,
        (", ttl_max: 200ms", ", route_by: round_robin"),
    ));
    wait_serving(&gateway, port, &[1, 2]);
    for (said, told) in [
        (Said::ServFail, "the name server says"),
        (Said::NoSuchName, "it has no endpoint; the pool is emptied if"),
        (
            Said::Records(vec![]),
            "it has no endpoint; the pool is emptied if",
        ),
        (Said::Silence, "no answer in time"),
    ] {
        let errors = source(&gateway, "errors_total");
        dns.say(NAME, said);
        assert!(
            eventually(SOON, || source(&gateway, "errors_total") >= errors + 2.0),
            "{told}"
        );
        let shown = shown(&gateway);
        assert_eq!(shown["failing"], true, "{shown}");
        assert!(shown["last_error"].as_str().unwrap().contains(told), "{shown}");
        assert_eq!(serving(&gateway).len(), 2);
        assert!(who(&gateway, 4).iter().any(|name| name == "E2"));
    }
    wait_said(&gateway, "discovery fails");
    assert!(source(&gateway, "age_seconds") > 0.2);
    say(&dns, 0, &[1]);
    wait_serving(&gateway, port, &[1]);
    assert!(eventually(SOON, || shown(&gateway)["failing"] == false));
    wait_said(&gateway, "discovery works again");
    assert_eq!(source(&gateway, "endpoints"), 1.0);
    assert_eq!(shown(&gateway)["source"], format!("dns {NAME}:{port}"));
}

#[test]
fn a8_that_there_are_none_is_believed_after_a_while() {
    let engines = engines(1);
    let dns = DnsServer::start();
    say(&dns, 0, &[1]);
    let gateway = gateway(&by_name(
        &dns,
        engines[0].port(),
        (", ttl_max: 200ms, empty_after: 300ms", ""),
    ));
    assert_eq!(send(&gateway, "r").status, 200);
    dns.say(NAME, Said::NoSuchName);
    assert!(eventually(SOON, || serving(&gateway).is_empty()));
    assert_eq!(send(&gateway, "r").status, 503);
    say(&dns, 0, &[1]);
    assert!(eventually(SOON, || send(&gateway, "r").status == 200));
}

#[test]
fn a_gateway_starts_without_an_answer_and_serves_with_the_first() {
    let engines = engines(1);
    let dns = DnsServer::start();
    dns.say(NAME, Said::Silence);
    let gateway = gateway(&by_name(&dns, engines[0].port(), ("", "")));
    assert_eq!(send(&gateway, "r").status, 503);
    say(&dns, 60, &[1]);
    assert!(eventually(SOON, || send(&gateway, "r").status == 200));
}

#[test]
fn services_bring_ports_weights_and_priorities() {
    let engines = engines(3);
    let dns = DnsServer::start();
    let name = "_http._tcp.engines.test";
    let service = |priority, weight, number: u8| {
        let target = format!("e{number}.test.");
        Entry::Service(0, (priority, weight), engines[0].port(), target)
    };
    for number in 1..=3 {
        dns.addresses(&format!("e{number}.test"), 0, &[&format!("127.0.0.{number}")]);
    }
    dns.say(
        name,
        Said::Records(vec![service(5, 30, 1), service(5, 10, 2), service(9, 50, 3)]),
    );
    let gateway = gateway(&format!(
        "pools:\n  - name: p\n    discovery: {{dns: {{name: {name}, resolver: \"{}\", ttl_min: 100ms}}}}\n    health: false\n    ramp: 0s\n    route_by: round_robin\n",
        dns.address()
    ));
    let port = engines[0].port();
    let named = [format!("e1.test:{port}"), format!("e2.test:{port}")];
    assert!(eventually(SOON, || serving(&gateway) == named));
    let answers = send_all(&gateway, (0..80).map(|_| ask(&gateway, "p")));
    let names = served(&answers);
    let shares = [count(&names, "E1"), count(&names, "E2"), count(&names, "E3")];
    assert!((59..=61).contains(&shares[0]), "{shares:?}");
    assert_eq!(shares[2], 0, "a later priority");
    assert_eq!(
        engines[0].posts()[0].header("host"),
        Some(&*named[0]),
        "requests carry the target's name"
    );
    // The first priority is gone: the next one serves.
    dns.say(name, Said::Records(vec![service(9, 50, 3)]));
    assert!(eventually(SOON, || serving(&gateway) == [format!("e3.test:{port}")]));
    assert_eq!(served(&[send(&gateway, "p")]), ["E3"]);
    // A target that moves is another engine under the same name.
    dns.addresses("e3.test", 0, &["127.0.0.1"]);
    assert!(eventually(SOON, || send(&gateway, "p").served_by() == Some("E1")));
}
