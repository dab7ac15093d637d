//! Endpoints from a file: every way of changing it is seen, and a bad one changes nothing.

use crate::shared::{SOON, as_written, gateway, send};
use crate::world::{serving, shown, source, wait_said};
use std::path::Path;
use std::process::Command;
use weighbridge_test_engine::harness::{ADMIN_TOKEN, Gateway};
use weighbridge_test_engine::{Upstream, eventually};

/// A gateway whose pool `p` follows the file at `path`.
fn following(path: &Path) -> Gateway {
    gateway(&format!(
        "pools:\n  - {{name: p, discovery: {{file: \"{}\"}}, health: false, ramp: 0s}}\n",
        path.display()
    ))
}

fn list(upstreams: &[&Upstream]) -> String {
    let line =
        |upstream: &&Upstream| format!("- {{name: {}, url: \"{}\"}}\n", upstream.name(), upstream.url());
    upstreams.iter().map(line).collect()
}

fn wait_for(gateway: &Gateway, names: &[&str]) {
    assert!(
        eventually(SOON, || serving(gateway) == names),
        "{:?} and not {names:?}",
        serving(gateway)
    );
}

#[test]
fn a_file_is_followed_however_it_is_changed() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("endpoints.yaml");
    let gateway = following(&file);
    assert_eq!(send(&gateway, "p").status, 503, "there is no file yet");
    std::fs::write(&file, list(&[&a])).unwrap();
    wait_for(&gateway, &["A"]);
    assert_eq!(send(&gateway, "p").served_by(), Some("A"));
    let new = dir.path().join("new");
    std::fs::write(&new, list(&[&a, &b])).unwrap();
    std::fs::rename(&new, &file).unwrap();
    wait_for(&gateway, &["A", "B"]);
    std::fs::write(&new, format!("[\"{}\"]", c.url())).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&new, &file).unwrap();
    wait_for(&gateway, &[&format!("127.0.0.1:{}", c.port())]);
    assert_eq!(send(&gateway, "p").served_by(), Some("C"));
    std::fs::write(&new, "[]").unwrap();
    wait_for(&gateway, &[]);
    assert_eq!(source(&gateway, "endpoints"), 0.0);
    assert_eq!(shown(&gateway)["kind"], "file");
}

#[test]
fn labels_that_no_discovered_endpoint_has_any_more_are_logged_once() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("endpoints.yaml");
    let labelled = |gpu: &str| format!("- {{name: A, url: \"{}\", labels: {{gpu: {gpu}}}}}\n", a.url());
    std::fs::write(&file, labelled("H100")).unwrap();
    let gateway = gateway(&format!(
        "pools:\n  - {{name: p, discovery: {{file: \"{}\"}}, health: false, ramp: 0s}}\n\
         routes:\n  - {{name: r, targets: [p], filters: {{labels: {{gpu: [H100, H200]}}, by_header: [gpu, tier]}}}}\n",
        file.display()
    ));
    let told = |label: &str| {
        let lines = gateway.stderr();
        let lines = lines
            .lines()
            .filter(|line| line.contains("none of its discovered endpoints has"));
        lines.filter(|line| line.contains(label)).count()
    };
    std::fs::write(&file, labelled("T4")).unwrap();
    assert!(
        eventually(SOON, || told("gpu=H100|H200") == 1),
        "{}",
        gateway.stderr()
    );
    // What was missing before is told where the config is read, and what goes on missing is no news.
    std::fs::write(&file, labelled("T4") + &list(&[&b])).unwrap();
    wait_for(&gateway, &["A", "B"]);
    assert_eq!(
        (told("gpu=H100|H200"), told("tier")),
        (1, 0),
        "{}",
        gateway.stderr()
    );
}

#[test]
fn an_endpoint_that_was_drained_is_still_drained_when_it_comes_back() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("endpoints.yaml");
    std::fs::write(&file, list(&[&a, &b])).unwrap();
    let gateway = following(&file);
    wait_for(&gateway, &["A", "B"]);
    let drained = gateway.api_send("PATCH", "/api/endpoints/p/A", &serde_json::json!({"drain": true}));
    assert_eq!(drained.status, 200);
    std::fs::write(&file, list(&[&b])).unwrap();
    wait_for(&gateway, &["B"]);
    std::fs::write(&file, list(&[&b, &a])).unwrap();
    wait_for(&gateway, &["A", "B"]);
    for _ in 0..4 {
        assert_eq!(send(&gateway, "p").served_by(), Some("B"));
    }
    let resumed = gateway.api_send(
        "PATCH",
        "/api/endpoints/p/A",
        &serde_json::json!({"resume": true}),
    );
    assert_eq!(resumed.status, 200);
    let served = || send(&gateway, "p").served_by() == Some("A");
    assert!(eventually(SOON, served), "it serves again");
}

fn status(gateway: &Gateway) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_weighbridge"))
        .args([
            "status",
            "--admin",
            gateway.admin_url("").trim_start_matches("http://"),
        ])
        .env("WEIGHBRIDGE_ADMIN_TOKEN", gateway.admin_token())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_bad_file_changes_nothing_and_is_told_with_its_line() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("endpoints.yaml");
    std::fs::write(&file, list(&[&a])).unwrap();
    let gateway = following(&file);
    wait_for(&gateway, &["A"]);
    let twice = list(&[&a, &a]);
    for (errors, (text, told)) in (1..).zip([
        (Some("- http://h:1\n- {url: "), "endpoints.yaml:2"),
        (Some(""), "endpoints.yaml"),
        (Some(&*twice), "endpoints.yaml:2"),
        (None, "there is no such file"),
    ]) {
        match text {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        assert!(
            eventually(SOON, || source(&gateway, "errors_total") == f64::from(errors)),
            "{text:?}"
        );
        let shown = shown(&gateway);
        assert!(shown["last_error"].as_str().unwrap().contains(told), "{shown}");
        wait_said(&gateway, told);
        let status = status(&gateway);
        assert!(
            status.contains("pool p: discovery (file ") && status.contains(told),
            "{status}"
        );
        assert_eq!(send(&gateway, "p").served_by(), Some("A"));
    }
    std::fs::write(&file, list(&[&b])).unwrap();
    wait_for(&gateway, &["B"]);
    assert!(eventually(SOON, || shown(&gateway)["failing"] == false));
    assert!(!status(&gateway).contains("discovery"));
    let log = gateway.stderr();
    for line in log.lines().filter(|line| !line.is_empty()) {
        assert!(line.starts_with("20"), "a message is one line: {line}\n{log}");
    }
    assert!(log.contains("added=B removed=A"), "{log}");
    assert!(!log.contains("added= ") && !log.contains("removed= "), "{log}");
}

#[test]
fn a_bad_file_is_told_by_check_and_refuses_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("weighbridge.yaml");
    let text = format!(
        "server: {{listen: \"127.0.0.1:0\"}}\nadmin: {{listen: \"127.0.0.1:0\", token: {ADMIN_TOKEN}}}\n\
         pools: [{{name: p, discovery: {{file: e.yaml}}}}]\n"
    );
    std::fs::write(&config, text).unwrap();
    let check = || {
        let done = Command::new(env!("CARGO_BIN_EXE_weighbridge"))
            .args(["check", "--config"])
            .arg(&config)
            .output()
            .unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap())
    };
    let (code, said) = check();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("there is no such file"), "{said}");
    std::fs::write(dir.path().join("e.yaml"), "- http://h:1\n- h:2\n").unwrap();
    let (code, said) = check();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("e.yaml:2:3"), "{said}");
    let refused = Gateway::try_start(&as_written(&config))
        .err()
        .expect("it does not start");
    assert!(refused.output.contains("e.yaml:2:3"), "{}", refused.output);
}

/// A name that stays while its URL changes is another engine: the old one finishes, the new one serves.
#[test]
fn a_name_that_moves_is_another_engine() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("endpoints.yaml");
    let at = |upstream: &Upstream| format!("- {{name: x, url: \"{}\"}}\n", upstream.url());
    std::fs::write(&file, at(&a)).unwrap();
    let gateway = following(&file);
    let url = gateway.url("/v1/chat/completions");
    let body = weighbridge_test_engine::client::chat_stream("p", "[[mock:gap=0.1,chunks=60]]");
    let mut events = weighbridge_test_engine::client::stream(&url, &[], body);
    assert!(events.wait_events(2, SOON));
    std::fs::write(&file, at(&b)).unwrap();
    assert!(eventually(SOON, || send(&gateway, "p").served_by() == Some("B")));
    let metrics = gateway.metrics();
    let labels = [("pool", "p"), ("endpoint", "x")];
    assert_eq!(
        metrics.value("weighbridge_inflight", &labels),
        1.0,
        "one series for both"
    );
    assert_eq!(
        metrics.sum(
            "weighbridge_endpoint_state",
            &[("endpoint", "x"), ("state", "live")]
        ),
        1.0,
        "the state of the one that serves"
    );
    assert!(events.read_all().is_whole());
}
