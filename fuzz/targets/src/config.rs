//! Config files: whatever the text, loading ends with a config that the scheduler can rely on and that shows no secret, or with
//! problems that have a place.

use secrecy::ExposeSecret as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use weighbridge_config::{
    Config, Loaded, Problems, check_blind, diff, load as load_file, load_str, masked, refuses_reload, schema,
};

/// Every secret of the seeds begins so.
const MARK: &str = "wbSECRET";

/// The text.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    check_file(data);
    match load(&text) {
        Ok(loaded) => check_loaded(&text, &loaded),
        Err(problems) => check_problems(&text, &problems),
    }
}

fn env(name: &str) -> Option<String> {
    match name {
        "KEY" => Some(format!("{MARK}-from-env")),
        "URL" => Some("http://h:1/?key=wbSECRET-in-url".to_owned()),
        "EMPTY" => Some(String::new()),
        "SPACED" => Some(format!("{MARK} two")),
        _ => None,
    }
}

fn load(text: &str) -> Result<Loaded, Problems> {
    load_str("fuzz.yaml", text, &env)
}

/// From a file it is the same, but for files that it names, which are looked for beside it.
fn check_file(data: &[u8]) {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    let file = FILE
        .get_or_init(|| std::env::temp_dir().join(format!("weighbridge-fuzz-{}.yaml", std::process::id())));
    std::fs::write(file, data).expect("a temporary file");
    let from_file = load_file(file, &env);
    let Ok(text) = std::str::from_utf8(data) else {
        let problems = from_file.expect_err("it is no text");
        assert!(problems.to_string().contains("not UTF-8"), "{problems}");
        return;
    };
    let blind = |running: &Config, env: &dyn Fn(&str) -> Option<String>| {
        let checked = check_blind(running, file, ("fuzz.yaml", text), env);
        assert!(
            !format!("{checked:?}").contains(MARK) || text.contains(MARK),
            "{checked:?}"
        );
        checked
    };
    if let Ok(Loaded { config, .. }) = from_file {
        let changes = blind(&config, &env).changes;
        assert!(changes.is_empty(), "{changes:?}");
    }
    // What the variables hold has no part in what is said.
    let others = |name: &str| env(name).map(|value| if value.is_empty() { value } else { "9".to_owned() });
    let said =
        [&env as &dyn Fn(&str) -> Option<String>, &others].map(|env| format!("{:?}", blind(other(), env)));
    assert_eq!(said[0], said[1]);
}

fn other() -> &'static Config {
    static OTHER: OnceLock<Config> = OnceLock::new();
    OTHER.get_or_init(|| load(OTHER_TEXT).expect("a good config").config)
}

/// Against another config, what changes is told, and both ways round.
fn check_changes(config: &Config) {
    let other = other();
    for (old, new) in [(config, other), (other, config)] {
        for change in diff(old, new) {
            assert!(
                !change.is_empty() && !change.contains("wbSECRET-other"),
                "{change}"
            );
        }
        if let Some(told) = refuses_reload(old, new) {
            assert!(told.contains("restart"), "{told}");
        }
    }
}

/// What configs are compared with.
const OTHER_TEXT: &str = "admin: {listen: 127.0.0.1:5, token: wbSECRET-other}
keys: [{name: k, key: wbSECRET-other-key}]
pools:
  - {name: a, kind: openai, api_key: wbSECRET-other, endpoints: [{name: x, url: 'http://h:1/?k=wbSECRET-other'}, {name: y, url: 'http://i:1'}]}
  - {name: z, endpoints: ['http://j:1']}
";

fn check_problems(text: &str, problems: &Problems) {
    assert!(problems.count() > 0);
    // In YAML a carriage return ends a line too.
    let lines = text.matches(['\n', '\r']).count() + 2;
    for problem in problems.iter() {
        assert!(!problem.message.is_empty() && problem.line <= lines, "{problem}");
        assert!(problem.line == 0 || problem.column > 0, "{problem}");
        assert!(problem.to_string().len() < 4000, "{problem}");
    }
    let told = problems.to_string();
    // A fuzzer learns what it is compared with, and may write it where names stand.
    assert!(
        text.contains("wbSECRET-f") || !told.contains("wbSECRET-from-env"),
        "{told}"
    );
}

fn check_loaded(text: &str, loaded: &Loaded) {
    let config = &loaded.config;
    assert_eq!(config.fleet.check(), Ok(()));
    assert_eq!(config.fleet.pools.len(), config.pools.len());
    assert_eq!(config.fleet.routes.len(), config.routes.len());
    assert!(diff(config, config).is_empty());
    let again = load(text).unwrap_or_else(|problems| panic!("good once, then {problems}"));
    assert!(diff(config, &again.config).is_empty() && again.text_hash == loaded.text_hash);
    for warning in &loaded.warnings {
        assert!(!warning.message.is_empty());
    }
    let shown = masked(config);
    check_changes(config);
    check_shape(&shown);
    // Where secrets stand only where secrets belong, nothing that is shown holds one.
    let marks = text.matches(MARK).count()
        + ["${KEY}", "${URL}", "${SPACED}"]
            .map(|name| text.matches(name).count())
            .iter()
            .sum::<usize>();
    if secrets(config) == marks {
        let warnings: String = loaded.warnings.iter().map(ToString::to_string).collect();
        for told in [shown.to_string(), format!("{config:?}"), warnings] {
            assert!(!told.contains(MARK), "{told}");
        }
    }
}

/// How many secrets of the seeds stand where secrets are kept. Keys of clients are kept as hashes only: those of the text
/// cannot be counted here.
fn secrets(config: &Config) -> usize {
    let count = |secret: &str| secret.matches(MARK).count();
    let upstream = config.pools.iter().flat_map(|pool| {
        let queries = pool
            .endpoints
            .iter()
            .filter_map(|endpoint| endpoint.url.query.as_ref());
        pool.api_keys.iter().chain(queries)
    });
    let token = config.admin.token.iter();
    upstream
        .chain(token)
        .map(|secret| count(secret.expose_secret()))
        .sum()
}

/// What is shown uses the keys of the schema, at the top and in pools and routes.
fn check_shape(shown: &serde_json::Value) {
    static SCHEMA: OnceLock<serde_json::Value> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| serde_json::to_value(schema()).expect("a schema is JSON"));
    let known = schema["properties"].as_object().expect("a schema of an object");
    for key in shown.as_object().expect("an object").keys() {
        assert!(known.contains_key(key), "{key} is no key of the schema");
    }
}
