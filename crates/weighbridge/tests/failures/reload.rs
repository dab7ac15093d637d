//! CFG-1: a bad file changes nothing, a good file changes everything.

use crate::shared::{SOON, as_written, ask, gateway, pool, refusal, send, state};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{Connection, Request, chat, chat_stream, stream};
use weighbridge_test_engine::harness::{ADMIN_TOKEN, Gateway, Signal};
use weighbridge_test_engine::{Upstream, eventually};

/// How often stderr says this.
fn said(gateway: &Gateway, what: &str) -> usize {
    gateway.stderr().matches(what).count()
}

const REFUSED: &str = "config refused, the running one stays in force";
const TAKEN: &str = "config reloaded";

fn keys(key: &str) -> String {
    format!("auth: keys\nkeys: [{{name: k, key: {key}}}]\n")
}

/// Pool `A` with routes of these names.
fn routes(upstreams: &[&Upstream], names: &[&str]) -> String {
    let mut text = format!("pools:\n{}routes:\n", pool("A", upstreams, &[]));
    for name in names {
        text += &format!("  - {{name: {name}, targets: [A]}}\n");
    }
    text
}

fn with_key(gateway: &Gateway, key: &str, model: &str) -> u16 {
    ask(gateway, model).header("x-api-key", key).send().status
}

#[test]
fn cfg1a_a_bad_file_changes_nothing_and_is_told_with_its_line() {
    let [a] = Upstream::start_all(["A"]);
    let good = routes(&[&a], &["r1", "r2"]);
    let gateway = gateway(&good);
    let mut events = stream(
        &gateway.url("/v1/chat/completions"),
        &[],
        chat_stream("r2", "[[mock:gap=0.2,chunks=30]]"),
    );
    assert!(events.wait_events(2, SOON));
    let file = gateway.config_path();
    let half = &good[..good.len() / 2];
    let bad = [
        ("pools: [\n  - {name: A", "weighbridge.yaml:"),
        ("pools:\n  - name: A\n    endpoint: [x]\n", "weighbridge.yaml:3"),
        (half, "weighbridge.yaml:"),
        ("", "weighbridge.yaml"),
    ];
    for (refused, (text, place)) in (1..).zip(bad) {
        std::fs::write(&file, text).unwrap();
        assert!(
            eventually(SOON, || said(&gateway, REFUSED) == refused),
            "{text:?} is refused"
        );
        let told = gateway.stderr();
        let told = &told[told.rfind(REFUSED).unwrap()..];
        assert!(told.contains(place), "{told}");
        assert_eq!(
            gateway.metrics().value("weighbridge_config_reload_success", &[]),
            0.0
        );
        assert_eq!(
            (send(&gateway, "r1").status, send(&gateway, "r2").status),
            (200, 200)
        );
    }
    let last = gateway.api("/api/status")["last_reload"].clone();
    assert_eq!(last["ok"], false, "the admin API shows it: {last}");
    assert!(!last["error"].as_str().unwrap().is_empty(), "{last}");
    std::fs::remove_file(&file).unwrap();
    assert!(
        eventually(SOON, || said(&gateway, REFUSED) == 5),
        "a file that is gone is told too"
    );
    assert_eq!(send(&gateway, "r1").status, 200);
    gateway.write_config(&good);
    assert!(
        eventually(SOON, || said(&gateway, TAKEN) == 1),
        "good edits count after bad ones"
    );
    assert_eq!(
        gateway.metrics().value("weighbridge_config_reload_success", &[]),
        1.0
    );
    assert!(events.read_all().is_whole(), "the stream saw nothing of it");
    assert_eq!(events.data().last().map(String::as_str), Some("[DONE]"));
}

#[test]
fn cfg1a_a_file_that_is_being_written_is_not_told() {
    let [a] = Upstream::start_all(["A"]);
    let good = routes(&[&a], &["r1", "r2"]);
    let gateway = gateway(&good);
    let file = gateway.config_path();
    // No two looks of the watcher find the same half.
    let began = Instant::now();
    for round in 0_u32.. {
        std::fs::write(&file, format!("# {round}\npools: [")).unwrap();
        if began.elapsed() > Duration::from_secs(3) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    gateway.write_config(&routes(&[&a], &["r1", "r3"]));
    assert!(eventually(SOON, || said(&gateway, TAKEN) == 1));
    assert_eq!(said(&gateway, REFUSED), 0, "{}", gateway.stderr());
    assert_eq!(send(&gateway, "r3").status, 200);
}

#[test]
fn cfg1b_the_level_of_messages_changes_with_the_file() {
    let [a] = Upstream::start_all(["A"]);
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = deaf.local_addr().unwrap();
    let failed = Arc::new(AtomicUsize::new(0));
    let counted = failed.clone();
    std::thread::spawn(move || {
        for _ in deaf.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let config = |level: &str| {
        let dead = format!(
            "  - {{name: dead, endpoints: ['http://{address}'], health: {{path: /health, interval: 100ms}}}}\n"
        );
        let text = routes(&[&a], &["r1"]).replace("routes:", &format!("{dead}routes:"));
        format!("log: {{level: {level}}}\n{text}")
    };
    let gateway = gateway(&config("info"));
    let debug = || said(&gateway, "DEBUG");
    gateway.write_config(&config("debug"));
    assert!(eventually(SOON, || said(&gateway, TAKEN) == 1 && debug() > 2));
    gateway.write_config(&config("info"));
    assert!(eventually(SOON, || said(&gateway, TAKEN) == 2));
    let told = debug();
    let before = failed.load(Ordering::SeqCst);
    assert!(eventually(SOON, || failed.load(Ordering::SeqCst) > before + 4));
    assert!(debug() <= told + 1, "{}", gateway.stderr());
}

#[test]
fn cfg1b_a_good_file_changes_everything_but_what_runs() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&(routes(&[&a, &b], &["r1", "r2"]) + &keys("first-key-0001")));
    let url = gateway.url("/v1/chat/completions");
    let long = chat_stream("r2", "[[mock:gap=0.2,chunks=20]]");
    let mut events = stream(&url, &[("x-api-key", "first-key-0001")], long);
    assert!(events.wait_events(2, SOON));
    let busy = events.header("x-mock-name").unwrap().to_owned();
    // The other one cools for longer than this test takes.
    let idle = if busy == "A" { &b } else { &a };
    idle.script(["status=429,retry_after=50"]);
    assert_eq!(with_key(&gateway, "first-key-0001", "r1"), 200);
    assert_eq!(state(&gateway, idle.name()), "cooling");
    gateway.write_config(&(routes(&[&a, &b], &["r1", "r3"]) + &keys("second-key-0002")));
    assert!(eventually(SOON, || said(&gateway, TAKEN) == 1));
    assert_eq!(
        with_key(&gateway, "first-key-0001", "r1"),
        401,
        "the old key is out"
    );
    assert_eq!(with_key(&gateway, "second-key-0002", "r2"), 404, "r2 is gone");
    assert_eq!(with_key(&gateway, "second-key-0002", "r3"), 200, "r3 is there");
    assert_eq!(
        state(&gateway, idle.name()),
        "cooling",
        "what is known of engines that stay is kept"
    );
    let posts = idle.posts().len();
    for _ in 0..4 {
        assert_eq!(with_key(&gateway, "second-key-0002", "r1"), 200);
    }
    assert_eq!(idle.posts().len(), posts);
    let inflight = |name: &str| {
        gateway
            .metrics()
            .value("weighbridge_inflight", &[("pool", "A"), ("endpoint", name)])
    };
    assert_eq!(inflight(&busy), 1.0, "the stream still counts");
    assert!(events.read_all().is_whole());
    assert_eq!(events.data().last().map(String::as_str), Some("[DONE]"));
    assert!(eventually(SOON, || inflight(&busy) == 0.0));
}

#[test]
fn cfg1b_the_file_is_seen_within_two_seconds_however_it_is_changed() {
    let [a] = Upstream::start_all(["A"]);
    let text = |name: &str| {
        let listen = "server: {listen: \"127.0.0.1:0\"}\nauth: none\n";
        format!(
            "{listen}admin: {{listen: \"127.0.0.1:0\", token: {ADMIN_TOKEN}}}\n{}",
            routes(&[&a], &[name])
        )
    };
    let dir = tempfile::tempdir().unwrap();
    let put = |place: &str, name: &str| {
        std::fs::create_dir_all(dir.path().join(place)).unwrap();
        std::fs::write(dir.path().join(place).join("weighbridge.yaml"), text(name)).unwrap();
    };
    let point = |to: &str| {
        let fresh = dir.path().join("fresh");
        std::os::unix::fs::symlink(to, &fresh).unwrap();
        std::fs::rename(fresh, dir.path().join("current")).unwrap();
    };
    put("one", "r1");
    point("one");
    let file = dir.path().join("current/weighbridge.yaml");
    let gateway = Gateway::start_with(&as_written(&file));
    // Polled twice a second: two seconds, and what a busy machine takes.
    let seen = |name: &str| eventually(Duration::from_secs(6), || send(&gateway, name).status == 200);
    assert!(seen("r1"));
    put("two", "r2");
    point("two");
    assert!(seen("r2"), "a directory above the file was swapped");
    assert_eq!(send(&gateway, "r1").status, 404);
    std::fs::write(&file, text("r3")).unwrap();
    assert!(seen("r3"), "it was written over");
    let beside = dir.path().join("two/beside");
    std::fs::write(&beside, text("r4")).unwrap();
    std::fs::rename(beside, dir.path().join("two/weighbridge.yaml")).unwrap();
    assert!(seen("r4"), "another was renamed over it");
}

#[test]
fn cfg1_sighup_reloads_at_once() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&routes(&[&a], &["r1"]));
    gateway.signal(Signal::HUP);
    assert!(
        eventually(SOON, || said(&gateway, TAKEN) == 1),
        "even where nothing has changed"
    );
    gateway.write_config("pools: 5\n");
    gateway.signal(Signal::HUP);
    assert!(eventually(SOON, || said(&gateway, REFUSED) >= 1));
    assert_eq!(send(&gateway, "r1").status, 200);
}

#[test]
fn cfg1_a_listener_that_moves_is_refused() {
    let [a] = Upstream::start_all(["A"]);
    let good = routes(&[&a], &["r1"]);
    let gateway = gateway(&good);
    let moved = [
        (
            "server: {listen: \"127.0.0.1:1\"}\n".to_owned(),
            "`server.listen` changes from 127.0.0.1:0 to 127.0.0.1:1",
        ),
        (
            format!("admin: {{listen: \"127.0.0.1:2\", token: {ADMIN_TOKEN}}}\n"),
            "`admin.listen` changes",
        ),
    ];
    for (refused, (line, reason)) in (1..).zip(moved) {
        gateway.write_config(&(routes(&[&a], &["r2"]) + &line));
        assert!(eventually(SOON, || said(&gateway, REFUSED) == refused));
        assert!(gateway.stderr().contains(reason), "{}", gateway.stderr());
        assert_eq!(
            (send(&gateway, "r1").status, send(&gateway, "r2").status),
            (200, 404)
        );
    }
}

/// Reloads between these two configs for a number of times, while clients send requests all the time to `r`, stream and
/// not; every one of them must be answered.
fn under_load(gateway: &Gateway, configs: [&str; 2], reloads: usize) {
    let over = AtomicBool::new(false);
    let answered = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let over = &over;
                scope.spawn(move || one_client(gateway, client % 2 == 0, over))
            })
            .collect();
        for reload in 1..=reloads {
            gateway.write_config(configs[reload % 2]);
            gateway.signal(Signal::HUP);
            let taken = eventually(SOON, || said(gateway, TAKEN) >= reload);
            over.store(!taken, Ordering::Relaxed);
            assert!(taken, "reload {reload}");
        }
        over.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum::<usize>()
    });
    assert!(answered > reloads, "{answered} requests only");
    assert_eq!(said(gateway, REFUSED), 0);
}

fn one_client(gateway: &Gateway, streams: bool, over: &AtomicBool) -> usize {
    let body = if streams {
        chat_stream("r", "x")
    } else {
        chat("r", "x")
    };
    let request = Request::post(&gateway.url("/v1/chat/completions"), body);
    let mut connection = None;
    let mut answered = 0;
    while !over.load(Ordering::Relaxed) {
        let at_hand = connection
            .take()
            .unwrap_or_else(|| Connection::to(&gateway.url("/")).unwrap());
        let (answer, kept) = at_hand.send(&request).unwrap();
        assert_eq!(answer.status, 200, "request {answered}: {}", answer.text());
        assert!(answer.end.is_whole());
        assert!(!streams || answer.text().contains("[DONE]"));
        answered += 1;
        connection = kept;
    }
    answered
}

#[test]
fn cfg1_fifty_reloads_under_load_fail_nothing() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let weights = |first: u32| {
        let pools = pool("A", &[&a], &[]) + &pool("B", &[&b], &[]);
        let targets = format!("[{{pool: A, weight: {first}}}, {{pool: B, weight: 1}}]");
        format!("pools:\n{pools}routes:\n  - {{name: r, targets: {targets}}}\n")
    };
    let gateway = gateway(&weights(1));
    under_load(&gateway, [&weights(1), &weights(3)], 50);
}

#[test]
fn cfg1_every_engine_may_be_replaced_under_load() {
    let [a, b, c, d] = Upstream::start_all(["A", "B", "C", "D"]);
    let gateway = gateway(&routes(&[&a, &b], &["r"]));
    let configs = [routes(&[&a, &b], &["r"]), routes(&[&c, &d], &["r"])];
    under_load(&gateway, [&configs[0], &configs[1]], 50);
    let connect_errors = gateway
        .metrics()
        .sum("weighbridge_attempts_total", &[("outcome", "connect_error")]);
    assert_eq!(
        connect_errors, 0.0,
        "no request was sent to an engine that the gateway did not know yet"
    );
    for upstream in [&a, &b, &c, &d] {
        assert!(!upstream.posts().is_empty(), "{}", upstream.name());
    }
}

#[test]
fn cfg1_an_engine_that_moved_is_a_new_one() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let named = |upstream: &Upstream| {
        routes(&[upstream], &["r"]).replace(&format!("name: {},", upstream.name()), "name: one,")
    };
    let gateway = gateway(&named(&a).replace("- name: one", "- name: A"));
    a.script(["status=429,retry_after=50"]);
    assert_eq!(send(&gateway, "r").status, 429);
    gateway.write_config(&named(&b).replace("- name: one", "- name: A"));
    assert!(eventually(SOON, || said(&gateway, TAKEN) == 1));
    assert_eq!(
        send(&gateway, "r").served_by(),
        Some("B"),
        "what cooled was another machine"
    );
}

#[test]
fn cfg1_start_check_reload_and_api_refuse_with_the_same_words() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&routes(&[&a], &["r1"]));
    let bad = "pools:\n  - name: A\n    endpoints: [\"http://127.0.0.1:1\"]\n    breaker: {error_rat: 0.5}\n";
    gateway.write_config(bad);
    assert!(eventually(SOON, || said(&gateway, REFUSED) == 1));
    let (code, output) = refusal(&std::fs::read_to_string(gateway.config_path()).unwrap());
    assert_eq!(code, Some(2));
    let checked = Command::new(env!("CARGO_BIN_EXE_weighbridge"))
        .arg("check")
        .arg("--config")
        .arg(gateway.config_path())
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(2));
    let checked = String::from_utf8(checked.stdout).unwrap() + &String::from_utf8(checked.stderr).unwrap();
    let problem = output
        .lines()
        .find(|line| line.contains("weighbridge.yaml:4:"))
        .unwrap();
    let words = problem.split_once("weighbridge.yaml").unwrap().1;
    assert!(words.contains("error_rat"), "{words}");
    let told = [
        gateway.stderr(),
        checked,
        gateway.api("/api/status")["last_reload"]["error"].to_string(),
    ];
    for told in told {
        assert!(told.contains(words), "{words}: {told}");
    }
}
