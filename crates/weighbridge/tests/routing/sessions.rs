//! LB-3: a session stays where it is while its engine is well, and lets go when it is not.

use crate::held::{hold, let_go, wait_held};
use crate::shared::{SOON, ask, count, gateway, pool, send_all, served};
use std::collections::BTreeMap;
use weighbridge_test_engine::client::{Request, chat, messages};
use weighbridge_test_engine::harness::{Gateway, Signal};
use weighbridge_test_engine::{Upstream, eventually, par};

const SESSIONS: usize = 60;

fn yaml(upstreams: &[&Upstream], affinity: &str) -> String {
    let pool = pool("p", upstreams, &["ramp: 0s"]);
    format!("pools:\n{pool}routes: [{{name: r, targets: [p], policies: {{session_affinity: {affinity}}}}}]\n")
}

fn of_session(gateway: &Gateway, session: &str) -> Request {
    ask(gateway, "r").header("x-session-id", session)
}

/// Where each session goes.
fn homes(gateway: &Gateway, sessions: usize) -> Vec<String> {
    let requests = (0..sessions).map(|n| of_session(gateway, &format!("session-{n}")));
    served(&send_all(gateway, requests))
        .into_iter()
        .map(str::to_owned)
        .collect()
}

#[test]
fn lb3_sixty_sessions_stay_and_spread() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let gateway = gateway(&yaml(&[&a, &b, &c], "{}"));
    let first = homes(&gateway, SESSIONS);
    for _ in 0..2 {
        assert_eq!(homes(&gateway, SESSIONS), first, "each session stays");
    }
    let names: Vec<_> = first.iter().map(String::as_str).collect();
    for name in ["A", "B", "C"] {
        assert!(count(&names, name) >= 8, "{name} has {}", count(&names, name));
    }
}

/// B fails in this way for as long as `failing` lives: only its sessions move, within their request, and they come home.
fn moves_only_its_own<G>(fail: impl Fn(&Upstream) -> G, heal: impl Fn(&Upstream, G)) {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let gateway = gateway(&yaml(&[&a, &b, &c], "{}"));
    let before = homes(&gateway, SESSIONS);
    let failing = fail(&b);
    let during = homes(&gateway, SESSIONS);
    for (home, now) in before.iter().zip(&during) {
        assert_ne!(now, "B");
        assert!(home == "B" || home == now, "a session of {home} went to {now}");
    }
    assert_eq!(
        homes(&gateway, SESSIONS),
        during,
        "those that moved stay where they went"
    );
    let moved = gateway.metrics().sum("weighbridge_session_moves_total", &[]);
    let own = before.iter().filter(|home| *home == "B").count();
    assert!(moved >= own as f64, "{moved} moves of {own} sessions");
    heal(&b, failing);
    assert!(
        eventually(SOON, || homes(&gateway, SESSIONS) == before),
        "they come home"
    );
}

#[test]
fn lb3_sessions_leave_an_engine_that_refuses() {
    moves_only_its_own(Upstream::refuse_until, |_, refusing| drop(refusing));
}

#[test]
fn lb3_sessions_leave_an_engine_that_cools() {
    let fail = |b: &Upstream| b.script(["status=429,retry_after=3"]);
    moves_only_its_own(fail, |b, ()| assert_eq!(b.stats().script_left, 0));
}

#[test]
fn lb3_a_new_engine_takes_its_share_and_no_more() {
    let [a, b, c, d] = Upstream::start_all(["A", "B", "C", "D"]);
    let gateway = gateway(&yaml(&[&a, &b, &c], "{}"));
    let before = homes(&gateway, 200);
    gateway.write_config(&yaml(&[&a, &b, &c, &d], "{}"));
    gateway.signal(Signal::HUP);
    assert!(eventually(SOON, || gateway.stderr().contains("config reloaded")));
    let after = homes(&gateway, 200);
    let moved: Vec<_> = before
        .iter()
        .zip(&after)
        .filter(|(old, new)| old != new)
        .collect();
    assert!(
        moved.iter().all(|(_, new)| *new == "D"),
        "nobody moves but to the new one"
    );
    assert!((20..=80).contains(&moved.len()), "{} of 200 moved", moved.len());
}

#[test]
fn lb3_two_gateways_choose_alike() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let gateways = [
        gateway(&yaml(&[&a, &b, &c], "{}")),
        gateway(&yaml(&[&c, &a, &b], "{}")),
    ];
    let homes = gateways.each_ref().map(|gateway| homes(gateway, SESSIONS));
    assert_eq!(homes[0], homes[1], "whatever the order in the file");
}

/// Resident memory of a process, KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn lb3_sessions_are_not_remembered() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&yaml(&[&a, &b], "{}"));
    let filler = "x".repeat(4000);
    let send = |from: usize, to: usize| {
        let answers = par(2, |half| {
            let requests = (from..to)
                .filter(|n| n % 2 == half)
                .map(|n| of_session(&gateway, &format!("{filler}-{n}")));
            served(&send_all(&gateway, requests)).len()
        });
        assert_eq!(answers.iter().sum::<usize>(), to - from);
        a.reset();
        b.reset();
    };
    send(0, 1_000);
    let early = resident_kib(gateway.pid());
    send(1_000, 5_000);
    let grown = resident_kib(gateway.pid()).saturating_sub(early);
    // 16 MB if they were kept; the allocator takes memory in steps of some MB.
    assert!(grown < 8_000, "{grown} KiB for 4000 sessions with keys of 4 KB");
}

#[test]
fn lb3_the_key_is_the_first_of_the_chain_that_is_there() {
    let upstreams = Upstream::start_all(["A", "B", "C", "D", "E", "F", "G", "H"]);
    let all: Vec<_> = upstreams.iter().collect();
    let keys = "[{header: session-id}, {cookie: sid}, {body: prompt_cache_key}, {body: metadata.user}]";
    let gateway = gateway(&yaml(&all, &format!("{{keys: {keys}}}")));
    let home = |session: &str| {
        let answer = ask(&gateway, "r").header("session-id", session).send();
        answer.served_by().unwrap().to_owned()
    };
    let (one, other) = (
        "alpha",
        (0..)
            .map(|n| format!("beta-{n}"))
            .find(|key| home(key) != home("alpha"))
            .unwrap(),
    );
    let responses = |extra: &str| {
        let body = format!("{{\"model\": \"r\", \"input\": \"x\", {extra}}}");
        Request::post(&gateway.url("/v1/responses"), body)
    };
    let in_messages = |extra: &str| {
        let body = messages("r", "x").replacen('{', &format!("{{{extra},"), 1);
        Request::post(&gateway.url("/v1/messages"), body)
    };
    let alpha = home(one);
    for (what, request) in [
        (
            "cookie",
            ask(&gateway, "r").header("cookie", "a=b; sid=alpha; c=d"),
        ),
        (
            "spaces around it",
            ask(&gateway, "r").header("session-id", "  alpha "),
        ),
        ("body of responses", responses("\"prompt_cache_key\": \"alpha\"")),
        ("body of messages", in_messages("\"prompt_cache_key\": \"alpha\"")),
        (
            "inside the body",
            responses("\"metadata\": {\"user\": \"alpha\"}"),
        ),
        (
            "head before body",
            responses(&format!("\"prompt_cache_key\": \"{other}\"")).header("cookie", "sid=alpha"),
        ),
        (
            "earlier header first",
            ask(&gateway, "r")
                .header("cookie", &format!("sid={other}"))
                .header("session-id", one),
        ),
        (
            "an empty header is none",
            ask(&gateway, "r")
                .header("session-id", " ")
                .header("cookie", "sid=alpha"),
        ),
    ] {
        let answers = send_all(&gateway, (0..6).map(|_| request.clone()));
        assert_eq!(count(&served(&answers), &alpha), 6, "{what}");
    }
    for (what, request) in [
        (
            "body keys do not count for chats",
            chat_with_key(&gateway, "\"prompt_cache_key\": \"alpha\""),
        ),
        ("a number is no key", responses("\"prompt_cache_key\": 5")),
        ("no key at all", ask(&gateway, "r")),
    ] {
        let answers = send_all(&gateway, (0..24).map(|_| request.clone()));
        let mut spread = BTreeMap::new();
        served(&answers)
            .into_iter()
            .for_each(|name| *spread.entry(name.to_owned()).or_insert(0) += 1);
        assert_eq!(spread.len(), 8, "{what}: {spread:?}");
    }
}

fn chat_with_key(gateway: &Gateway, extra: &str) -> Request {
    let body = chat("r", "x").replacen('{', &format!("{{{extra},"), 1);
    Request::post(&gateway.url("/v1/chat/completions"), body)
}

#[test]
fn lb3_a_bound_sends_a_hot_session_on() {
    let upstreams = Upstream::start_all(["A", "B", "C", "D"]);
    let all: Vec<_> = upstreams.iter().collect();
    let gateway = gateway(&yaml(&all, "{bound: 1.25}"));
    let session = [("x-session-id", "hot")];
    let mut held = Vec::new();
    let mut hold_one = |count: u64| {
        held.push(hold(&gateway, "r", &session));
        wait_held(&gateway, &upstreams, count);
        let mut spread = upstreams.each_ref().map(|upstream| upstream.stats().in_flight);
        let first = (count == 1).then(|| spread.iter().position(|inflight| *inflight == 1).unwrap());
        let place = first.unwrap_or_else(|| spread.iter().position(|inflight| *inflight == 2).unwrap_or(9));
        spread.sort_unstable();
        (place, spread)
    };
    let (home, spread) = hold_one(1);
    assert_eq!(spread, [0, 0, 0, 1]);
    assert_eq!(hold_one(2).1, [0, 0, 1, 1], "⌈1.25 · 2 / 4⌉ = 1 is full at home");
    assert_eq!(hold_one(3).1, [0, 1, 1, 1], "⌈1.25 · 3 / 4⌉ = 1 too");
    assert_eq!(
        hold_one(4),
        (home, [0, 1, 1, 2]),
        "⌈1.25 · 4 / 4⌉ = 2 leaves room at home"
    );
    let_go(&gateway, held);
}
