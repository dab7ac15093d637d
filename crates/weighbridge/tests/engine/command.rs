//! Arguments, exit codes and signals.

use super::client::{EngineProcess, binary, eventually};
use super::{ask, fast};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = binary().arg("engine").args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn bad_arguments_are_refused_with_their_name() {
    for (arguments, words) in [
        (&["--speed", "0"][..], "--speed"),
        (&["--speed", "NaN"], "--speed"),
        (&["--max-num-seqs", "0"], "--max-num-seqs"),
        (&["--kv-blocks", "10", "--kv-tokens", "10"], "--kv-tokens"),
        (&["--model", " "], "--model"),
        (&["--listen", "nowhere"], "--listen"),
    ] {
        let (code, message) = refused(arguments);
        assert_eq!(code, Some(2), "{arguments:?}");
        assert!(message.contains(words), "{words} is missing in {message}");
    }
}

#[test]
fn a_taken_port_is_named() {
    let engine = fast();
    let (code, message) = refused(&["--listen", &engine.address]);
    assert_eq!(code, Some(1));
    assert!(message.contains(&engine.address), "{message}");
}

#[test]
fn help_shows_an_example() {
    let output = binary().args(["engine", "--help"]).output().unwrap();
    assert!(output.status.success());
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("weighbridge engine --listen")
    );
}

#[test]
fn json_says_where_it_listens() {
    let mut child = binary()
        .args(["engine", "--listen", "127.0.0.1:0", "--json", "--model", "m"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    assert!(
        said["listening"]
            .as_str()
            .unwrap()
            .starts_with("http://127.0.0.1:")
    );
    assert_eq!(
        (&said["models"], &said["simulated"]),
        (&json!(["m"]), &json!(true))
    );
}

#[test]
fn signals_end_it_cleanly_even_under_load() {
    for signal in ["-TERM", "-INT"] {
        let mut engine = EngineProcess::start(&[]);
        let body = ask(
            "x",
            json!({"max_tokens": 20_000, "ignore_eos": true, "stream": true}),
        )
        .to_string();
        let mut stream = engine.open("POST", "/v1/chat/completions", &body);
        assert!(stream.chunk());
        let sent = Command::new("kill")
            .args([signal, &engine.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        let status = eventually("the process ends", || engine.child.try_wait().unwrap());
        assert_eq!(status.code(), Some(0), "{signal}");
    }
}
