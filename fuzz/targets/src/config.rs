//! Config files: whatever the text, loading ends with a config that the scheduler can rely on and that shows no secret, or with
//! problems that have a place.

use secrecy::ExposeSecret as _;
use std::sync::OnceLock;
use weighbridge_config::{
    Config, Loaded, Problems, check_blind, diff, hash_file, load as load_file, load_beside, load_str, masked,
    parse_duration, refuses_reload, schema, show_duration, text_hash,
};

/// Every secret of the seeds begins so.
const MARK: &str = "wbSECRET";

pub(crate) mod beside;
mod discovered;
mod peer;

/// Parts the config from the text of the file `beside`, to which it may point. Without it there is no such file.
const PART: &str = "%%%\n";

/// The text of the config, and behind a mark that of a file beside it.
pub fn check(data: &[u8]) {
    let mark = memchr::memmem::find(data, PART.as_bytes());
    let (text, other) = match mark {
        Some(at) => (&data[..at], Some(&data[at + PART.len()..])),
        None => (data, None),
    };
    beside::put(other);
    check_file(text);
    if let Some(other) = other {
        peer::check(other);
    }
    let other = String::from_utf8_lossy(other.unwrap_or_default());
    let text = String::from_utf8_lossy(text);
    check_spans(&text);
    match load(&text) {
        Ok(loaded) => check_loaded((&text, &other), &loaded),
        Err(problems) => check_problems((&text, &other), &problems),
    }
    // Whose paths lead elsewhere.
    let _ = load_str("fuzz.yaml", &text, &env);
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

/// Loads a text as if it stood in the folder of the files that it may name.
fn load(text: &str) -> Result<Loaded, Problems> {
    load_beside(&beside::folder().join("fuzz.yaml"), ("fuzz.yaml", text), &env)
}

/// From a file it is the same.
fn check_file(data: &[u8]) {
    let file = beside::folder().join("from-file.yaml");
    std::fs::write(&file, data).expect("a temporary file");
    assert_eq!(hash_file(&file), Ok(text_hash(data)));
    let from_file = load_file(&file, &env);
    let Ok(text) = std::str::from_utf8(data) else {
        let problems = from_file.expect_err("it is no text");
        assert!(problems.to_string().contains("not UTF-8"), "{problems}");
        return;
    };
    let beside = load(text);
    assert_eq!(from_file.is_ok(), beside.is_ok());
    if let (Ok(one), Ok(other)) = (&from_file, beside) {
        assert!(diff(&one.config, &other.config).is_empty());
    }
    let blind = |running: &Config, env: &dyn Fn(&str) -> Option<String>| {
        let checked = check_blind(running, &file, ("fuzz.yaml", text), env);
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

/// A time on the command line is that of a config; as it is shown, it is the same time.
fn check_spans(text: &str) {
    match parse_duration(text) {
        Ok(span) => {
            let shown = show_duration(span);
            assert!(span.subsec_nanos().is_multiple_of(1000), "{span:?}");
            let in_micros = shown.ends_with("us");
            assert!(
                in_micros || parse_duration(&shown) == Ok(span),
                "{shown} for {span:?}"
            );
        }
        Err(told) => assert!(!told.is_empty()),
    }
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
  - {name: d, discovery: {dns: {name: x.example., port: 1, resolver: '127.0.0.1', ttl_max: 2s}}}
  - {name: f, discovery: {file: beside}}
";

fn check_problems((text, beside): (&str, &str), problems: &Problems) {
    assert!(problems.count() > 0);
    // In YAML a carriage return ends a line too. A problem may be one of the file beside.
    let lines = |text: &str| text.matches(['\n', '\r']).count() + 2;
    let lines = lines(text).max(lines(beside)).max(beside::LINES_MAX);
    for problem in problems.iter() {
        assert!(!problem.message.is_empty() && problem.line <= lines, "{problem}");
        assert!(problem.line == 0 || problem.column > 0, "{problem}");
        assert!(problem.to_string().len() < 4000, "{problem}");
    }
    let warned = problems.warnings().iter().map(ToString::to_string);
    let told = problems.to_string() + &warned.collect::<String>();
    assert!(!beside::shows_key((text, beside), &told), "{told}");
    // A fuzzer learns what it is compared with, and may write it where names stand.
    assert!(
        text.contains("wbSECRET-f") || !told.contains("wbSECRET-from-env"),
        "{told}"
    );
}

fn check_loaded((text, beside): (&str, &str), loaded: &Loaded) {
    let config = &loaded.config;
    discovered::check(config);
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
    let marks = |text: &str| -> usize {
        let all = [MARK, "${KEY}", "${URL}", "${SPACED}", beside::SECRET];
        all.map(|mark| text.matches(mark).count()).iter().sum()
    };
    let warnings: String = loaded.warnings.iter().map(ToString::to_string).collect();
    let all = [shown.to_string(), format!("{config:?}"), warnings];
    let counts = secrets(config) == marks(text) + marks(beside);
    for told in &all {
        assert!(!counts || !told.contains(MARK), "{told}");
        assert!(!beside::shows_key((text, beside), told), "{told}");
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
