//! What the commands of the program print.

use crate::config::{CLIENT, PROMPT, Planted, WRONG_ADMIN, clean};
use weighbridge_test_engine::Upstream;

/// The commands, as the program lists them.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = lines.take_while(|line| line.starts_with("  "));
    commands
        .filter(|line| !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

#[test]
fn sec1_no_command_prints_a_secret() {
    let [a] = Upstream::start_all(["A"]);
    let planted = Planted::start(&a);
    let run = |args: &[&str]| {
        let output = planted.run(args);
        let what = format!("{args:?}");
        clean(&what, &output.stdout);
        clean(&what, &output.stderr);
        String::from_utf8(output.stdout).unwrap()
    };
    let admin = planted.gateway.admin_url("");
    let bearer = format!("authorization: Bearer {CLIENT}");
    let body = serde_json::json!({"model": "rotated", "messages": [{"role": "user", "content": PROMPT}]})
        .to_string();
    let request = planted.dir.path().join("request.json");
    std::fs::write(&request, &body).unwrap();
    let request = request.display().to_string();
    let commands = listed(&run(&["--help"]));
    assert!(commands.len() >= 9, "{commands:?}");
    for command in commands
        .iter()
        .map(String::as_str)
        .filter(|command| *command != "help")
    {
        run(&[command, "--help"]);
        let calls: Vec<Vec<&str>> = match command {
            // It runs in every other test here; what follows ends at once.
            "serve" => vec![vec!["--config", "none.yaml"], vec!["--config", "second.key"]],
            // Without a config, and so without a secret.
            "demo" | "engine" => vec![],
            "check" => vec![vec![], vec!["--json"], vec!["second.key"]],
            "schema" => vec![vec![]],
            "status" => vec![vec!["--admin", &admin], vec!["--json", "--admin", &admin]],
            "drain" | "resume" => vec![
                vec!["rotated/e", "--admin", &admin],
                vec!["url/e", "--json", "--admin", &admin],
                vec!["none/e", "--admin", &admin],
            ],
            "calibrate" => vec![
                vec!["--pool", "rotated", "--timeout", "3s", "--admin", &admin],
                vec!["--pool", "url", "--timeout", "3s", "--json", "--admin", &admin],
                vec!["--pool", "none", "--admin", &admin],
            ],
            "explain" => vec![
                vec!["--admin", &admin, "--header", &bearer, "--request", &request],
                vec![
                    "--admin",
                    &admin,
                    "--json",
                    "--header",
                    &bearer,
                    "--request",
                    &request,
                ],
                vec![
                    "--config",
                    "weighbridge.yaml",
                    "--header",
                    &bearer,
                    "--request",
                    &request,
                ],
            ],
            "simulate" => simulations(),
            other => panic!("say how to run `{other}` here, so that what it prints is searched"),
        };
        for call in calls {
            run(&[&[command], &call[..]].concat());
            if call.contains(&"--admin") {
                run(&[&[command], &call[..], &["--token", WRONG_ADMIN]].concat());
            }
        }
    }
}

/// Ways to simulate with what stands beside the config, and with files that are none of what they are given as.
fn simulations() -> Vec<Vec<&'static str>> {
    vec![
        vec![
            "--config",
            "weighbridge.yaml",
            "--route",
            "rotated",
            "--first",
            "20",
        ],
        vec![
            "--config",
            "weighbridge.yaml",
            "--route",
            "rotated",
            "--first",
            "20",
            "--json",
        ],
        // One route of several is to be named.
        vec!["--config", "weighbridge.yaml"],
        vec!["--config", "second.key"],
        vec!["--trace", "second.key"],
        vec!["--workload", "./second.key"],
        vec!["--scenario", "second.key"],
        vec!["--engine", "weighbridge.yaml"],
        vec!["--replay", "second.key"],
    ]
}
