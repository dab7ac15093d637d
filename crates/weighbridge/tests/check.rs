//! `weighbridge check` and `weighbridge schema` as processes: output, exit codes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests are exempt")]

use std::path::Path;
use std::process::{Command, Output};
use weighbridge_core::presets::Preset;

fn weighbridge(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weighbridge"))
        .current_dir(directory)
        .args(arguments)
        .env("WB_TEST_KEY", "sk-hunter2")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn check(config: &str, arguments: &[&str]) -> (i32, String, String) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("weighbridge.yaml"), config).unwrap();
    let output = weighbridge(directory.path(), &[&["check"], arguments].concat());
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn a_good_config_is_summed_up() {
    let config = "pools: [{name: a, model: m, api_key: ${WB_TEST_KEY}, endpoints: [http://h:1, http://h:2]}]\nroutes: [{name: r, targets: [a], policies: {session_affinity: {}}}]\n";
    let (code, out, err) = check(config, &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "warning: weighbridge.yaml:2:44: routes[0].policies: sessions of the route `r` stay on their endpoint however busy it is
    add `least_inflight: {}`, or a `bound` such as 1.25 to `session_affinity`
ok: 1 pool, 2 endpoints, 1 route
  listens on 127.0.0.1:8800 for everybody; admin API 127.0.0.1:8801
  route r: by policy {session_affinity: {}} over 1 target, 2 endpoints
"
    );
}

#[test]
fn what_a_preset_stands_for_is_printed() {
    let config = "pools: [{name: a, endpoints: [http://h:1, http://h:2]}]\nroutes: [{name: r, targets: [a], preset: chat}]\n";
    let (code, out, err) = check(config, &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let expect =
        "route r: by policy, preset chat over 1 target, 2 endpoints\n  preset chat stands for `policies: {";
    assert!(out.contains(expect) && !out.contains("implied"), "{out}");
    // What is printed can be written in the place of the preset, and is the same then.
    for preset in Preset::ALL {
        let route = |chooses: &str| {
            let pools = "pools: [{name: a, model: m, endpoints: [http://h:1, http://h:2]}]";
            format!("{pools}\nroutes: [{{name: r, targets: [a], {chooses}}}]\n")
        };
        let (_, out, _) = check(&route(&format!("preset: {}", preset.as_str())), &[]);
        let stands_for = out.split('`').nth(1).unwrap();
        let loaded = weighbridge_config::load_str("t.yaml", &route(stands_for), &|_| None).unwrap();
        assert_eq!(loaded.config.fleet.routes[0].policies, preset.policies(), "{out}");
    }
}

#[test]
fn what_is_implied_is_told_with_how_to_ask_for_something_else() {
    let two = "endpoints: [http://h:1, http://h:2]";
    let (code, out, _) = check(&format!("pools: [{{name: a, {two}}}]\n"), &[]);
    assert_eq!(code, 0);
    assert!(
        out.contains("\n  route a: by policy, implied preset auto over 1 target, 2 endpoints\n  preset auto stands for `policies: {"),
        "{out}"
    );
    assert!(
        out.contains("\n  `auto` is implied where nothing says how a route chooses.")
            && out.contains("`route_by: round_robin`"),
        "{out}"
    );
    let (_, out, _) = check(
        &format!("pools: [{{name: a, route_by: round_robin, {two}}}]\n"),
        &[],
    );
    assert!(
        out.ends_with("\n  route a: by round_robin over 1 target, 2 endpoints\n"),
        "{out}"
    );
    let weighted = "pools: [{name: a, endpoints: [{url: 'http://h:1', weight: 3}, http://h:2]}]\n";
    let (_, out, _) = check(weighted, &[]);
    assert!(
        out.contains(
            "\n  route a: by round_robin, 3 : 1, over 1 target, 2 endpoints\n  where nothing but weights of endpoints"
        ),
        "{out}"
    );
    let (_, out, _) = check(
        "pools: [{name: a, discovery: {dns: 'h.example:1'}}]\n",
        &["--json"],
    );
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        report["routes"],
        serde_json::json!([{"name": "a", "route_by": "policy", "preset": "auto", "preset_implied": true}])
    );
    let shares = "routes: [{name: r, targets: [{pool: a, weight: 9}, {pool: b, weight: 0.5}]}]";
    let (_, out, _) = check(
        &format!("pools: [{{name: a, {two}}}, {{name: b, {two}}}]\n{shares}\n"),
        &[],
    );
    assert!(
        out.contains("route r: by weight, 9 : 0.5, over 2 targets"),
        "{out}"
    );
    // What is printed of a policy is all that is not its default.
    let own = "policies: {session_affinity: {bound: 1.5}, least_inflight: {weight: 0.5}}";
    let (_, out, _) = check(
        &format!("pools: [{{name: a, {two}}}]\nroutes: [{{name: r, targets: [a], {own}}}]\n"),
        &[],
    );
    assert!(
        out.contains("by policy {least_inflight: {weight: 0.5}, session_affinity: {bound: 1.5}} over"),
        "{out}"
    );
}

#[test]
fn who_may_come_in_is_summed_up() {
    let files = tempfile::tempdir().unwrap();
    let authority = weighbridge_test_engine::certificates::Authority::new("a");
    authority.server().write(files.path());
    authority.write(files.path(), "ca");
    let at = files.path().display();
    let config = format!(
        "server: {{tls: {{cert: {at}/cert.pem, key: {at}/key.pem, client_ca: {at}/ca.pem}}}}\npools: [{{name: a, endpoints: [http://h:1]}}]\n"
    );
    let (code, out, err) = check(&config, &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(
        out.contains("127.0.0.1:8800 for clients with a certificate that `client_ca` has signed;"),
        "{out}"
    );
}

#[test]
fn a_bad_config_is_told_with_places_and_exit_code_2() {
    let (code, out, err) = check(
        "pools:\n  - name: a\n    endpoint: [http://h:1]\n    ramp: 10\n",
        &[],
    );
    assert_eq!(code, 2);
    assert!(
        out.contains(
            "weighbridge.yaml:3:5: pools[0].endpoint: unknown key `endpoint`\n    did you mean `endpoints`?"
        ),
        "{out}"
    );
    assert!(
        out.contains("weighbridge.yaml:4:11: pools[0].ramp: `10` has no unit\n"),
        "{out}"
    );
    assert_eq!(err, "weighbridge: weighbridge.yaml: 3 problems\n");
}

#[test]
fn json_is_for_machines_and_holds_no_secret() {
    let (code, out, _) = check(
        "pools: [{name: a, api_key: ${WB_TEST_KEY}, endpoints: ['http://h:1/?k=sk-hunter2']}]\n",
        &["--json"],
    );
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["ok"], &report["config"]["pools"][0]["name"]),
        (0, &true.into(), &"a".into())
    );
    assert!(!out.contains("hunter2"));
    let (code, out, _) = check("pools: 5\n", &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let problem = &report["problems"][0];
    assert_eq!(
        (
            code,
            &report["ok"],
            &problem["line"],
            &problem["column"],
            &problem["path"]
        ),
        (2, &false.into(), &1.into(), &8.into(), &"pools".into())
    );
}

#[test]
fn the_file_may_be_named_without_a_flag() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("other.yaml"),
        "pools: [{name: a, endpoints: [http://h:1]}]\n",
    )
    .unwrap();
    for arguments in [
        ["check", "other.yaml"].as_slice(),
        &["check", "--config", "other.yaml"],
    ] {
        let output = weighbridge(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stdout).starts_with("ok: 1 pool"));
    }
    let both = weighbridge(
        directory.path(),
        &["check", "other.yaml", "--config", "other.yaml"],
    );
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn warnings_are_told_beside_problems() {
    let config = "pools: [{name: a, endpoints: [http://h:1]}]\nauth: none\nkeys: [{name: k, key: secret}]\nroutes: [{name: r, targets: [b]}]\n";
    let (code, out, _) = check(config, &[]);
    assert_eq!(code, 2);
    assert!(out.contains("there is no pool `b`"), "{out}");
    assert!(
        out.contains("warning: weighbridge.yaml:3:") && out.contains("these keys have no effect"),
        "{out}"
    );
    let (_, out, _) = check(config, &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn a_file_that_is_missing_is_bad_input() {
    let directory = tempfile::tempdir().unwrap();
    let output = weighbridge(directory.path(), &["check", "--config", "none.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stdout),
        "none.yaml: the file cannot be read: there is no such file\n"
    );
}

#[test]
fn the_schema_is_json() {
    let directory = tempfile::tempdir().unwrap();
    let output = weighbridge(directory.path(), &["schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &schema["required"][0]),
        (Some(0), &"pools".into())
    );
}

#[test]
fn help_shows_an_example() {
    let directory = tempfile::tempdir().unwrap();
    for command in ["check", "schema"] {
        let output = weighbridge(directory.path(), &[command, "--help"]);
        assert!(text(&output.stdout).contains(&format!("Example:\n  weighbridge {command}")));
    }
}

#[test]
fn a_file_that_serve_is_given_by_itself_is_told_its_place() {
    let output = weighbridge(Path::new("."), &["serve", "my.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let err = text(&output.stderr);
    assert!(err.contains("weighbridge serve --config my.yaml"), "{err}");
}

#[test]
fn a_weight_of_a_pool_is_told_where_weights_stand() {
    let (code, out, _) = check("pools: [{name: a, weight: 2, endpoints: [http://h:1]}]\n", &[]);
    assert_eq!(code, 2);
    assert!(
        out.contains("`endpoints[].weight`") && out.contains("`targets[].weight`"),
        "{out}"
    );
}
