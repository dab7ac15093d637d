//! BRK-1: what clients do wrong does not open the breaker, and does not close it either.

use crate::shared::{SOON, gateway, in_order, send, state};
use weighbridge_test_engine::client::Response;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

const THREE: &str = "breaker: {consecutive: 3, open_for: 1500ms}";

fn only(more: &[&str]) -> (Upstream, Gateway) {
    let [a] = Upstream::start_all(["A"]);
    let keys: Vec<_> = [THREE].into_iter().chain(more.iter().copied()).collect();
    let gateway = gateway(&in_order(&[&a], &[], &keys));
    (a, gateway)
}

fn says(upstream: &Upstream, gateway: &Gateway, mode: &str) -> Response {
    upstream.script([mode]);
    send(gateway, "r")
}

#[test]
fn brk1_what_clients_do_wrong_passes_and_counts_for_nothing() {
    let (a, gateway) = only(&[]);
    let wrong: Vec<_> = [(400, 10), (404, 5), (422, 5)]
        .into_iter()
        .flat_map(|(status, times)| std::iter::repeat_n(status, times))
        .collect();
    for (sent, status) in (1..).zip(&wrong) {
        let answer = says(
            &a,
            &gateway,
            &format!("status={status},err_msg=the prompt is too long"),
        );
        assert_eq!(answer.status, *status);
        assert_eq!(answer.json()["error"]["message"], "the prompt is too long");
        assert_eq!(answer.json()["error"]["code"], status.to_string());
        assert_eq!((state(&gateway, "A").as_str(), a.posts().len()), ("live", sent));
    }
    assert_eq!(send(&gateway, "r").status, 200);
    assert_eq!(a.posts().len(), wrong.len() + 1, "nothing was tried again");
}

#[test]
fn brk1_a_400_neither_counts_nor_interrupts() {
    let (a, gateway) = only(&[]);
    for (mode, client, then) in [
        ("status=500", 502, "live"),
        ("status=400", 400, "live"),
        ("status=500", 502, "live"),
        ("status=400", 400, "live"),
        ("status=500", 502, "open"),
    ] {
        assert_eq!(says(&a, &gateway, mode).status, client);
        assert_eq!(state(&gateway, "A"), then, "after {mode}");
    }
}

#[test]
fn brk1_a_success_interrupts() {
    let (a, gateway) = only(&[]);
    for mode in ["status=500", "status=500", "", "status=500", "status=500", ""] {
        says(&a, &gateway, mode);
        assert_eq!(state(&gateway, "A"), "live");
    }
}

#[test]
fn brk1_half_open_a_400_closes_nothing_and_gives_its_slot_back() {
    let (a, gateway) = only(&["fail_open: false"]);
    for _ in 0..3 {
        says(&a, &gateway, "status=500");
    }
    let refused = send(&gateway, "r");
    assert_eq!(
        (refused.status, a.posts().len()),
        (503, 3),
        "nothing is sent while it is open"
    );
    assert!(refused.header("retry-after").is_some());
    a.set_mode("status=400");
    assert!(
        eventually(SOON, || send(&gateway, "r").status == 400),
        "half-open lets one through"
    );
    assert_eq!(state(&gateway, "A"), "open");
    assert_eq!(
        send(&gateway, "r").status,
        400,
        "and the next, which gets the slot"
    );
    assert_eq!(state(&gateway, "A"), "open", "a 400 closes nothing");
    a.set_mode("");
    assert_eq!(send(&gateway, "r").status, 200);
    assert_eq!(state(&gateway, "A"), "live", "a success does");
}

#[test]
fn brk1_half_open_a_failure_opens_it_again() {
    let (a, gateway) = only(&["fail_open: false"]);
    a.set_mode("status=500");
    for _ in 0..3 {
        send(&gateway, "r");
    }
    assert!(eventually(SOON, || send(&gateway, "r").status == 502));
    let answer = send(&gateway, "r");
    assert_eq!(
        (answer.status, a.posts().len()),
        (503, 4),
        "one probe request, then open again"
    );
}

#[test]
fn brk1_busy_engines_cool_and_do_not_open() {
    for mode in [
        "status=429,retry_after=0",
        "status=529,retry_after=0",
        "status=503,retry_after=0",
    ] {
        let (a, gateway) = only(&["cooldown: {default: 0s, max: 0s}"]);
        for sent in 1..=6 {
            says(&a, &gateway, mode);
            assert_eq!(state(&gateway, "A"), "live", "{mode}, sent {sent} times");
        }
    }
    let (a, gateway) = only(&[]);
    for _ in 0..3 {
        says(&a, &gateway, "status=503");
    }
    assert_eq!(
        state(&gateway, "A"),
        "open",
        "a 503 that names no time is a failure"
    );
}

#[test]
fn brk1_switched_off_it_never_opens() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &["breaker: false"]));
    a.set_mode("status=500");
    for _ in 0..20 {
        send(&gateway, "r");
        assert_eq!(state(&gateway, "A"), "live");
    }
}
