//! Where secrets stand in a config: everywhere that its schema says.

use crate::forms::Canary;
use crate::shared::as_written;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::harness::{Gateway, GatewayOptions};

pub(crate) const CLIENT: &str = "canary-client\"\\/+=key-4711";
pub(crate) const WRONG: &str = "canary-wrong\"\\/+=key-4712";
pub(crate) const ADMIN: &str = "canary-admin\"\\/+=token-4713";
pub(crate) const WRONG_ADMIN: &str = "canary-wrong-admin\"\\/+=token-4714";
pub(crate) const FIRST: &str = "canary-upstream-one\"\\/+=<&key-4715";
pub(crate) const SECOND: &str = "canary-upstream-two\"\\/+=key-4716";
pub(crate) const SOLE: &str = "canary-anthropic\"\\/+=key-4717";
/// As it stands in the URL, and as an engine reads it there.
pub(crate) const IN_URL: (&str, &str) = ("canary-query%2F%22%2Bkey-4718", "canary-query/\"+key-4718");
pub(crate) const DIGEST: &str = "8e02ed13b9f8a2a3c1aa46d5e5b8c6c0ad31a3c1c0fc7ad6c9f54ee2b2c9b7d1";
pub(crate) const PROMPT: &str = "canary-prompt of a client-4720";
/// A variable with a secret that is used where none belongs.
pub(crate) const MISUSED: (&str, &str) = ("CANARY_MISUSED", "canary-misused\"\\/+=value-4721");

/// All that must not come out.
fn canaries() -> &'static [Canary] {
    static CANARIES: OnceLock<Vec<Canary>> = OnceLock::new();
    CANARIES.get_or_init(|| {
        let secrets = [
            ("the client's key", CLIENT),
            ("a wrong client key", WRONG),
            ("the admin token", ADMIN),
            ("a wrong admin token", WRONG_ADMIN),
            ("the first upstream key", FIRST),
            ("the second upstream key", SECOND),
            ("a pool's only key", SOLE),
            ("a key in a URL", IN_URL.0),
            ("a key in a URL, decoded", IN_URL.1),
            ("the digest of a client key", DIGEST),
            ("a variable", MISUSED.1),
        ];
        secrets.map(|(name, secret)| Canary::new(name, secret)).into()
    })
}

/// Fails if a secret stands in `bytes`.
pub(crate) fn clean(what: &str, bytes: impl AsRef<[u8]>) {
    for canary in canaries() {
        if let Some(form) = canary.found(bytes.as_ref()) {
            let shown = String::from_utf8_lossy(bytes.as_ref());
            panic!("{what} holds {} as {form}: {shown}", canary.name);
        }
    }
}

fn environment() -> Vec<(String, String)> {
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    [
        ("CANARY_FIRST", FIRST),
        ("CANARY_ADMIN", ADMIN),
        ("CANARY_CLIENT", CLIENT),
        MISUSED,
    ]
    .map(pair)
    .into()
}

/// Secrets from the environment, from files and as they are, in every place that takes one.
pub(crate) fn planted(a: &Upstream, dir: &Path) -> Value {
    for (name, secret) in [("second.key", SECOND), ("sole.key", SOLE)] {
        std::fs::write(dir.join(name), format!("{secret}\n")).unwrap();
    }
    let timeouts = json!({"first_byte": "400ms", "idle": "400ms", "total": "400ms"});
    let pool = |name: &str, url: &str| {
        json!({
            "name": name, "kind": "vllm", "health": {"interval": "300ms", "timeout": "100ms"}, "breaker": false,
            "cooldown": {"default": "0s", "max": "0s"}, "timeouts": timeouts,
            "endpoints": [{"name": "e", "url": url}],
        })
    };
    let mut rotated = pool("rotated", &a.url());
    rotated["api_keys"] = json!(["${CANARY_FIRST}", "file:second.key"]);
    let mut sole = pool("sole", &a.url());
    sole["api_key"] = json!("file:sole.key");
    let url = pool("url", &format!("{}/base?key={}", a.url(), IN_URL.0));
    json!({
        "server": {"listen": "127.0.0.1:0", "headers": "full"},
        "admin": {"listen": "127.0.0.1:0", "token": "${CANARY_ADMIN}"},
        "auth": "keys",
        "cors": {"origins": ["https://app.example"]},
        "log": {"level": "trace"},
        "keys": [
            {"name": "k", "key": "${CANARY_CLIENT}"},
            {"name": "d", "key_sha256": DIGEST},
        ],
        "pools": [rotated, sole, url],
        "routes": [
            {"name": "rotated", "targets": ["rotated"], "usage": "inject",
             "policies": {"session_affinity": {"keys": ["api_key", {"header": "x-session"}]}, "least_inflight": {}}},
            {"name": "back", "targets": ["sole"]},
        ],
    })
}

/// A gateway on a planted config that writes all it can.
pub(crate) struct Planted {
    pub(crate) gateway: Gateway,
    pub(crate) dir: tempfile::TempDir,
}

impl Planted {
    pub(crate) fn start(a: &Upstream) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("weighbridge.yaml");
        std::fs::write(&file, planted(a, dir.path()).to_string()).unwrap();
        let mut options: GatewayOptions = as_written(&file);
        let log = dir.path().join("events");
        options
            .args
            .extend(["--event-log".to_owned(), log.display().to_string()]);
        options.env = environment();
        let gateway = Gateway::start_with(&options);
        Self { gateway, dir }
    }

    /// A command against it, with the token that it needs.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weighbridge"));
        command.current_dir(self.dir.path()).args(args);
        command.envs(environment()).env("WEIGHBRIDGE_ADMIN_TOKEN", ADMIN);
        command.output().unwrap()
    }
}

pub(crate) fn schema() -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weighbridge"));
    serde_json::from_slice(&command.arg("schema").output().unwrap().stdout).unwrap()
}

/// Every leaf of the schema with its path: keys, and `[]` for the items of a list.
pub(crate) fn leaves(root: &Value, part: &Value, path: &[String], found: &mut Vec<(Vec<String>, Value)>) {
    if path.len() > 12 {
        return;
    }
    if let Some(reference) = part["$ref"].as_str() {
        return leaves(root, root.pointer(&reference[1..]).unwrap(), path, found);
    }
    let deeper = |step: &str| [path, &[step.to_owned()]].concat();
    let choices = ["anyOf", "oneOf", "allOf"]
        .iter()
        .filter_map(|word| part[word].as_array());
    let mut inner = false;
    for choice in choices.flatten() {
        inner = true;
        leaves(root, choice, path, found);
    }
    if part["items"].is_object() {
        inner = true;
        leaves(root, &part["items"], &deeper("[]"), found);
    }
    for (key, value) in part["properties"].as_object().into_iter().flatten() {
        inner = true;
        leaves(root, value, &deeper(key), found);
    }
    if !inner {
        found.push((path.to_vec(), part.clone()));
    }
}

/// All values of `config` at a path.
fn at<'a>(config: &'a Value, path: &[String]) -> Vec<&'a Value> {
    let Some((step, rest)) = path.split_first() else {
        return vec![config];
    };
    let next: Vec<&Value> = match step.as_str() {
        "[]" => config.as_array().into_iter().flatten().collect(),
        key => config.get(key).into_iter().collect(),
    };
    next.into_iter().flat_map(|value| at(value, rest)).collect()
}

/// A config that holds `value` at a path and what else it must.
pub(crate) fn with(path: &[String], value: &Value) -> Value {
    let built = path
        .iter()
        .rev()
        .fold(value.clone(), |value, step| match step.as_str() {
            "[]" => json!([value]),
            key => json!({key: value}),
        });
    let mut config = built;
    for (key, needed) in [
        ("pools", json!({"name": "p", "endpoints": ["http://h:1"]})),
        ("routes", json!({"name": "r", "targets": ["p"]})),
        ("keys", json!({"name": "k"})),
    ] {
        let Some(entry) = config
            .get_mut(key)
            .and_then(|list| list.get_mut(0))
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        for (key, value) in needed.as_object().unwrap() {
            entry.entry(key).or_insert(value.clone());
        }
    }
    if config.get("pools").is_none() {
        config["pools"] = json!([{"name": "p", "endpoints": ["http://h:1"]}]);
    }
    config
}

fn check(config: &str, arguments: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("weighbridge.yaml"), config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weighbridge"));
    command
        .current_dir(dir.path())
        .arg("check")
        .args(arguments)
        .envs(environment());
    command.output().unwrap()
}

#[test]
fn sec1_every_place_of_a_secret_is_planted() {
    let [a] = Upstream::start_all(["A"]);
    let dir = tempfile::tempdir().unwrap();
    let config = planted(&a, dir.path());
    let root = schema();
    let mut found = Vec::new();
    leaves(&root, &root, &[], &mut found);
    let secrets: BTreeSet<_> = found
        .iter()
        .filter(|(_, leaf)| leaf["title"] == "secret")
        .map(|(path, _)| path)
        .collect();
    assert!(secrets.len() >= 4, "{secrets:?}");
    for path in secrets {
        assert!(
            !at(&config, path).is_empty(),
            "the config of the canary holds no secret at {path:?}: plant one"
        );
    }
}

/// What is written in a place where it is wrong is quoted as it is written: never what a variable stands for.
#[test]
fn sec1_a_refused_config_shows_no_secret_wherever_it_stands() {
    let root = schema();
    let mut found = Vec::new();
    leaves(&root, &root, &[], &mut found);
    let mut refused = 0;
    for (path, leaf) in found {
        let secret = leaf["title"] == "secret";
        let variable = format!("${{{}}}", MISUSED.0);
        let mut values = vec![json!(variable), json!([variable]), json!({"a": variable})];
        if secret {
            values.extend([
                json!([CLIENT]),
                json!(format!("{CLIENT} x")),
                json!({"a": CLIENT}),
                json!({CLIENT: 1}),
            ]);
        }
        for value in values {
            let config = with(&path, &value).to_string();
            let ways: &[&[&str]] = if secret {
                &[&[], &["--json"]]
            } else {
                &[&["--json"]]
            };
            for arguments in ways {
                let output = check(&config, arguments);
                let what = format!("check of {config}");
                // Where it is accepted it is a value like any other, such as a name.
                if output.status.code() != Some(0) || secret {
                    refused += 1;
                    clean(&what, &output.stdout);
                }
                clean(&what, &output.stderr);
            }
        }
    }
    assert!(refused > 150, "{refused}");
}
