//! `weighbridge demo` as a process: what it says, how it ends, and that under mixed load with engines dying all the time
//! only requests fail that a dying engine had.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "this file holds tests only"
)]

mod chaos;
mod load;
mod process;

use process::{Demo, binary};
use std::net::TcpListener;
use std::time::Duration;
use weighbridge_test_engine::client::{chat, get, post};
use weighbridge_test_engine::harness::Signal;

#[test]
fn help_shows_an_example() {
    let output = binary().args(["demo", "--help"]).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("weighbridge demo --chaos 5"), "{text}");
}

#[test]
fn bad_arguments_are_refused_with_their_name() {
    for arguments in [
        ["--rate", "101"],
        ["--chaos", "0"],
        ["--speed", "x"],
        ["--duration", "inf"],
        ["--listen", "here"],
    ] {
        let output = binary().arg("demo").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(arguments[0]), "{arguments:?}: {message}");
    }
}

#[test]
fn it_says_that_it_simulates_where_everything_is_and_who_answered_why() {
    let mut demo = Demo::start(&["--duration", "6", "--rate", "10", "--speed", "10"]);
    assert_eq!(get(&demo.url("/ready"), &[]).status, 200);
    let models = get(&demo.url("/v1/models"), &[]).text();
    assert!(models.contains("llama-8b") && models.contains("mini"), "{models}");
    assert!(
        get(&demo.admin_url("/metrics"), &[])
            .text()
            .contains("weighbridge_requests_total")
    );
    assert_eq!(demo.wait_exit(), Some(0), "{}", demo.output());
    let said = demo.stdout();
    assert!(said.contains("THE ENGINES ARE SIMULATED"), "{said}");
    assert!(said.contains(&demo.url("/v1")), "{said}");
    for words in [
        "why llama-8b/",
        "session_affinity",
        "in flight",
        "served",
        "llama-8b/a",
        "mini/d",
        " 0 failed",
    ] {
        assert!(said.contains(words), "{words:?} is missing in {said}");
    }
}

#[test]
fn at_its_end_it_sums_up_for_machines() {
    let mut demo = Demo::start(&[
        "--duration",
        "2",
        "--rate",
        "20",
        "--speed",
        "20",
        "--json",
        "--quiet",
    ]);
    assert_eq!(demo.wait_exit(), Some(0), "{}", demo.output());
    let summary = demo.summary();
    assert_eq!(summary["simulated"], true);
    assert!(summary["ok"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!(
        (&summary["failed"]["total"], &summary["kills"]["total"]),
        (&0.into(), &0.into()),
        "{summary}"
    );
    assert!(
        summary["rss_bytes"]["end"].as_u64().unwrap() > 1 << 20,
        "{summary}"
    );
    assert_eq!(demo.stderr(), "");
}

#[test]
fn signals_end_it_cleanly_in_the_middle_of_traffic() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut demo = Demo::start(&["--rate", "50", "--chaos", "0.5", "--json"]);
        let answer = post(&demo.url("/v1/chat/completions"), &[], chat("mini", "Hello"));
        assert!(answer.status == 200 || answer.status == 502, "{}", answer.text());
        demo.signal(signal);
        assert_eq!(demo.wait_exit(), Some(0), "{}", demo.output());
        assert_eq!(demo.summary()["at_end"]["running"], 0);
    }
}

#[test]
fn without_traffic_of_its_own_it_only_serves_others() {
    let mut demo = Demo::start(&["--rate", "0", "--json", "--quiet"]);
    assert_eq!(
        post(&demo.url("/v1/chat/completions"), &[], chat("llama-8b", "Hello")).status,
        200
    );
    demo.signal(Signal::INT);
    assert_eq!(demo.wait_exit(), Some(0), "{}", demo.output());
    assert_eq!(demo.summary()["requests"], 1);
}

#[test]
fn taken_ports_are_replaced_unless_they_were_asked_for() {
    // Either takes the port or finds that another program has it, which does as well.
    let _taken = [8800, 8801].map(|port| TcpListener::bind(("127.0.0.1", port)));
    let mut demo = Demo::start_where_it_likes(&["--rate", "0"]);
    assert!(!demo.url("").ends_with(":8800") && !demo.admin_url("").ends_with(":8801"));
    demo.signal(Signal::INT);
    assert_eq!(demo.wait_exit(), Some(0));

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = binary().args(["demo", "--listen", &address]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains(&address));
}

/// Mixed load while engines are killed and revived every few seconds. `WEIGHBRIDGE_DEMO_SECONDS` and
/// `WEIGHBRIDGE_DEMO_SEED` change how long and in which order.
#[test]
fn under_chaos_only_what_a_dying_engine_had_may_fail() {
    let seconds = std::env::var("WEIGHBRIDGE_DEMO_SECONDS").map_or(60, |text| text.parse().unwrap());
    let seed = std::env::var("WEIGHBRIDGE_DEMO_SEED").unwrap_or_else(|_| "1".into());
    chaos::check(Duration::from_secs(seconds), &seed);
}
