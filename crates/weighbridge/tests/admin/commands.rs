//! The commands' own behaviour: what they print, and how they fail.

use super::{SOON, bad, begin_stream, binary, gateway, good, pool, run, run_alone, stdout};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::harness::{Gateway, GatewayOptions};

#[test]
fn status_prints_routes_and_endpoints() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = gateway(&ups);
    let mut stream = begin_stream(&gateway);
    let busy = stream.header("x-mock-name").unwrap().to_owned();
    good(&run(&gateway, &["drain", &format!("m/{busy}")]));
    let shown = good(&run(&gateway, &["status"]));
    for expect in [
        "ready, up ",
        "1 request running",
        "generation 0",
        "policy (auto)",
        "1/2",
        "drained by hand",
    ] {
        assert!(shown.contains(expect), "`{expect}` is not in\n{shown}");
    }
    let line = shown
        .lines()
        .find(|line| line.starts_with(&format!("m/{busy}")))
        .unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(
        words[1..4],
        ["draining", "1", "1"],
        "state, in flight, weight: {line}"
    );
    let seen: Value = serde_json::from_str(&good(&run(&gateway, &["status", "--json"]))).unwrap();
    assert_eq!(seen["status"]["phase"], "ready");
    assert_eq!(seen["routes"][0]["name"], "m");
    assert_eq!(seen["endpoints"].as_array().unwrap().len(), 2);
    stream.finish(SOON);
}

#[test]
fn status_watches_until_its_reader_leaves() {
    let ups = Upstream::start_all(["a"]);
    let gateway = gateway(&ups);
    let mut child = Command::new(binary())
        .args(["status", "--watch", "--json", "--admin", &gateway.admin_url("")])
        .env("WEIGHBRIDGE_ADMIN_TOKEN", gateway.admin_token())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let seen: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(seen["status"]["phase"], "ready");
    }
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_token_is_found_where_the_gateway_put_it() {
    let ups = Upstream::start_all(["a"]);
    let home = tempfile::tempdir().unwrap();
    let home = home.path().to_str().unwrap();
    let mut options = GatewayOptions::new(
        binary(),
        &(pool("m", &ups) + "admin: {listen: \"127.0.0.1:0\"}\n"),
    );
    options.env = vec![
        ("HOME".into(), home.into()),
        ("XDG_STATE_HOME".into(), home.into()),
    ];
    let gateway = Gateway::start_with(&options);
    let address = gateway.admin_url("");
    let address = address.strip_prefix("http://").unwrap();
    let status = |env: &[(&str, &str)], more: &[&str]| {
        run_alone(&[&["status", "--admin", address], more].concat(), env)
    };
    let shown = good(&status(&[("XDG_STATE_HOME", home)], &[]));
    assert!(shown.contains("ready"), "{shown}");

    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = [("HOME", elsewhere.path().to_str().unwrap())];
    let missing = [
        "wants its admin token",
        "--token",
        "WEIGHBRIDGE_ADMIN_TOKEN",
        ".token cannot be read",
    ];
    bad(&status(&elsewhere, &[]), 2, &missing);
    bad(
        &status(&elsewhere, &["--token", "wrong"]),
        2,
        &["refuses this admin token"],
    );
    bad(
        &status(&[("WEIGHBRIDGE_ADMIN_TOKEN", "wrong")], &[]),
        2,
        &["refuses this admin token"],
    );
    let files = std::fs::read_dir(format!("{home}/weighbridge")).unwrap();
    let file = files.into_iter().next().unwrap().unwrap().path();
    let token = std::fs::read_to_string(&file).unwrap();
    good(&status(&elsewhere, &["--token", &token]));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(!gateway.output().contains(&token), "the token is never logged");
}

#[test]
fn failures_say_what_to_do() {
    let ups = Upstream::start_all(["a"]);
    let gateway = gateway(&ups);
    let dead = Upstream::start("dead");
    let _refuses = dead.refuse_until();
    let address = format!("127.0.0.1:{}", dead.port());
    for args in [&["status"][..], &["drain", "m/a"], &["resume", "m/a"]] {
        let output = run_alone(&[args, &["--admin", &address]].concat(), &[]);
        bad(
            &output,
            1,
            &["no gateway listens on", &address, "--admin HOST:PORT"],
        );
    }
    let engine = Upstream::start("engine");
    let output = run_alone(&["status", "--admin", &engine.url(), "--token", "t"], &[]);
    bad(&output, 1, &["no admin API of Weighbridge"]);
    // The gateway's own port for clients, which is the easy mistake.
    let request = std::env::temp_dir().join(format!("weighbridge-{}-request.json", std::process::id()));
    std::fs::write(&request, r#"{"model": "m", "messages": []}"#).unwrap();
    let explain = |flag| ["explain", "--request", request.to_str().unwrap(), flag];
    // `--against` is what `explain` called it once.
    for args in [
        &["status", "--admin"][..],
        &explain("--admin"),
        &explain("--against"),
    ] {
        let output = run_alone(&[args, &[gateway.url("").as_str(), "--token", "t"]].concat(), &[]);
        bad(&output, 1, &["no admin API of Weighbridge", "admin.listen"]);
    }
    std::fs::remove_file(&request).unwrap();
    bad(
        &run(&gateway, &["drain", "m/b"]),
        2,
        &["there is no endpoint `m/b`", "m/a"],
    );
    bad(
        &run(&gateway, &["drain", "m/a", "--wait", "5"]),
        2,
        &["no unit", "5s"],
    );
    for wrong in ["https://127.0.0.1:1", "8801"] {
        bad(&run_alone(&["status", "--admin", wrong], &[]), 2, &["HOST:PORT"]);
    }
}

#[test]
fn every_command_has_an_example_and_later_ones_are_refused_by_name() {
    for command in ["status", "drain", "resume", "explain", "calibrate", "simulate"] {
        let help = good(&run_alone(&[command, "--help"], &[]));
        // One name for where the gateway is.
        assert_eq!(
            help.contains("--admin <ADDR>"),
            command != "simulate",
            "{command}: {help}"
        );
        assert!(!help.contains("--against"), "{help}");
        assert!(
            help.contains("Example") && help.contains(&format!("weighbridge {command} ")),
            "{help}"
        );
    }
    for command in ["train", "experts", "import"] {
        for rest in [&[][..], &["--help"], &["plan", "--trace", "f", "x"]] {
            let output = run_alone(&[&[command], rest].concat(), &[]);
            bad(&output, 2, &[&format!("`{command}` is not supported yet")]);
            assert_eq!(stdout(&output), "");
        }
    }
}
