//! Starting without a config: engines that run on this machine are found, and served.

use crate::shared::{SOON, gateway, in_order, options, send};
use std::net::{IpAddr, Ipv4Addr};
use weighbridge_test_engine::client::{Request, chat, get, messages};
use weighbridge_test_engine::harness::{Gateway, GatewayOptions, StartFailure};
use weighbridge_test_engine::{Upstream, eventually};

struct Start {
    options: GatewayOptions,
    /// Where the made-up admin token goes.
    state: tempfile::TempDir,
}

/// A start without a config that looks on these ports.
fn without_config(ports: &[u16]) -> Start {
    let state = tempfile::tempdir().unwrap();
    let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let options = GatewayOptions {
        yaml: None,
        args: vec!["--find-on".to_owned(), ports.join(",")],
        env: vec![
            variable("WEIGHBRIDGE_LISTEN", "127.0.0.1:0"),
            variable("WEIGHBRIDGE_ADMIN_LISTEN", "127.0.0.1:0"),
            variable("XDG_STATE_HOME", &state.path().display().to_string()),
        ],
        ..options("")
    };
    Start { options, state }
}

fn engine(owned_by: &str, models: &[&str]) -> Upstream {
    let upstream = Upstream::start(owned_by);
    upstream.set_models(models);
    upstream
}

fn refused(start: &Start) -> StartFailure {
    Gateway::try_start(&start.options)
        .err()
        .expect("it does not start")
}

#[test]
fn three_engines_of_different_kinds_are_found_and_served() {
    let vllm = engine("vllm", &["qwen3"]);
    let llamacpp = engine("llamacpp", &["qwen3", "phi:4"]);
    let ollama = engine("library", &["gemma$3"]);
    let start = without_config(&[vllm.port(), llamacpp.port(), ollama.port()]);
    let gateway = Gateway::start_with(&start.options);
    let told = gateway.stderr();
    for (engine, kind, models) in [
        (&vllm, "vllm", "qwen3"),
        (&llamacpp, "llamacpp", "qwen3, phi:4"),
        (&ollama, "ollama", "gemma$3"),
    ] {
        let line = format!("127.0.0.1:{} ({kind}): {models}", engine.port());
        assert!(told.contains(&line), "{line} is told: {told}");
    }
    let models = get(&gateway.url("/v1/models"), &[]).json();
    let mut ids: Vec<_> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["gemma$3", "phi:4", "qwen3"], "one route for each model");
    assert_eq!(send(&gateway, "qwen3").status, 200);
    for engine in [&vllm, &llamacpp] {
        engine.reset();
        engine.script(["status=429,retry_after=60"]);
    }
    assert_eq!(send(&gateway, "qwen3").status, 429);
    assert_eq!(
        (vllm.posts().len(), llamacpp.posts().len()),
        (1, 1),
        "two engines with one model are one pool, so what one refuses the other is asked"
    );
    assert_eq!(send(&gateway, "phi:4").served_by(), Some("llamacpp"));
    assert_eq!(send(&gateway, "gemma$3").served_by(), Some("library"));
    let anthropic = |model: &str| {
        Request::post(&gateway.url("/v1/messages"), messages(model, "x"))
            .send()
            .status
    };
    assert_eq!(
        (anthropic("phi:4"), anthropic("gemma$3")),
        (200, 400),
        "each kind with its own protocols"
    );
    let token = std::fs::read_dir(start.state.path().join("weighbridge"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let token = std::fs::read_to_string(token.path()).unwrap();
    assert_eq!(token.len(), 64, "a token of 256 bits was made");
    assert!(!gateway.output().contains(&token), "and is told nobody");
}

#[test]
fn what_is_told_is_a_config_to_start_from() {
    let a = engine("vllm", &["m"]);
    let found = Gateway::start_with(&without_config(&[a.port()]).options);
    let told = found.stderr();
    let text = told.split_once("to start from:\n\n").unwrap().1;
    let text: Vec<_> = text
        .lines()
        .take_while(|line| !line.contains(" WARN ") && !line.contains(" INFO "))
        .collect();
    let gateway = gateway(&text.join("\n"));
    assert_eq!(send(&gateway, "m").served_by(), Some("vllm"));
}

#[test]
fn the_owner_of_the_models_tells_the_kind() {
    for (owned_by, kind) in [
        ("vllm", "vllm"),
        ("sglang", "sglang"),
        ("llamacpp", "llamacpp"),
        ("llama.cpp", "llamacpp"),
        ("library", "ollama"),
        ("mistral.rs", "mistralrs"),
        ("somebody", "generic"),
        ("", "generic"),
    ] {
        let a = engine(owned_by, &["m"]);
        let gateway = Gateway::start_with(&without_config(&[a.port()]).options);
        let told = gateway.stderr();
        assert!(
            told.contains(&format!("({kind}): m")),
            "{owned_by} is {kind}: {told}"
        );
        assert!(told.contains(&format!("kind: {kind}")), "{told}");
        assert_eq!(send(&gateway, "m").status, 200, "{owned_by}");
        let probe = match kind {
            "generic" => continue,
            "ollama" => "/",
            _ => "/health",
        };
        let probed = || {
            a.log()
                .iter()
                .any(|record| record.method == "GET" && record.target == probe)
        };
        assert!(eventually(SOON, probed), "{kind} is probed at {probe}");
    }
}

#[test]
fn nothing_found_says_what_to_do_next() {
    let a = engine("vllm", &["m"]);
    let empty = engine("vllm", &[]);
    let sick = engine("vllm", &["m"]);
    let port = sick.port();
    let refusing = sick.refuse_until();
    for ports in [vec![port], vec![port, empty.port()]] {
        let failure = refused(&without_config(&ports));
        assert_eq!(failure.code, Some(2), "{}", failure.output);
        for word in [
            "no engine answers",
            &port.to_string(),
            "vLLM",
            "weighbridge.yaml",
            "pools:",
            "weighbridge demo",
        ] {
            assert!(failure.output.contains(word), "{word}: {}", failure.output);
        }
    }
    let gateway = Gateway::start_with(&without_config(&[port, a.port()]).options);
    assert_eq!(send(&gateway, "m").status, 200, "one of two is enough");
    drop(refusing);
}

#[test]
fn another_gateway_is_no_engine() {
    let [a] = Upstream::start_all(["A"]);
    let first = gateway(&in_order(&[&a], &[], &[]));
    let port: u16 = first.url("").rsplit(':').next().unwrap().parse().unwrap();
    let failure = refused(&without_config(&[port]));
    assert_eq!(failure.code, Some(2), "{}", failure.output);
}

#[test]
fn addresses_from_the_environment_are_checked() {
    let a = engine("vllm", &["m"]);
    for name in ["WEIGHBRIDGE_LISTEN", "WEIGHBRIDGE_ADMIN_LISTEN"] {
        let mut start = without_config(&[a.port()]);
        start.options.env.push((name.to_owned(), "nowhere".to_owned()));
        let failure = refused(&start);
        assert_eq!(failure.code, Some(2), "{name}");
        assert!(
            failure.output.contains(&format!("{name}=nowhere")),
            "{}",
            failure.output
        );
    }
}

#[test]
fn the_gateway_listens_where_the_environment_says() {
    let a = engine("vllm", &["m"]);
    // A port that is free: somebody has it, and lets go of it.
    let socket = std::net::TcpListener::bind((IpAddr::from(Ipv4Addr::LOCALHOST), 0)).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    drop(socket);
    let mut start = without_config(&[a.port()]);
    start
        .options
        .env
        .push(("WEIGHBRIDGE_LISTEN".to_owned(), address.clone()));
    let gateway = Gateway::start_with(&start.options);
    let url = format!("http://{address}/v1/chat/completions");
    assert_eq!(gateway.url("/v1/chat/completions"), url);
    assert_eq!(Request::post(&url, chat("m", "x")).send().status, 200);
}

#[test]
fn a_file_of_the_usual_name_comes_before_the_search() {
    let [a] = Upstream::start_all(["A"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("weighbridge.yaml");
    std::fs::write(&file, in_order(&[&a], &[], &[])).unwrap();
    let mut start = without_config(&[1]);
    start
        .options
        .args
        .extend(["--config".to_owned(), file.display().to_string()]);
    let failure = refused(&start);
    assert_eq!(failure.code, Some(2), "a config and a search exclude each other");
    assert!(
        failure.output.contains("--find-on") && failure.output.contains("--config"),
        "{}",
        failure.output
    );
}
