//! What the tests share: loading text with a small environment.

use weighbridge_config::{Config, Loaded, Problem, Problems, load_str};

/// Variables that tests may use.
pub(crate) fn env(name: &str) -> Option<String> {
    match name {
        "KEY" => Some("sk-from-env".to_owned()),
        "PORT" => Some("9001".to_owned()),
        "UNEXPANDED" => Some("${REAL_KEY}".to_owned()),
        "EMPTY" => Some(String::new()),
        "YAML" => Some("x\nadmin: {listen: 0.0.0.0:1}".to_owned()),
        "SPACED" => Some("hunter2 hunter3".to_owned()),
        _ => None,
    }
}

/// Loads `text` under the name `t.yaml`.
pub(crate) fn load(text: &str) -> Result<Loaded, Problems> {
    load_str("t.yaml", text, &env)
}

/// The config of a text that must be good.
pub(crate) fn good(text: &str) -> Config {
    match load(text) {
        Ok(loaded) => loaded.config,
        Err(problems) => panic!("{problems}\nin\n{text}"),
    }
}

/// The problems of a text that must be bad.
pub(crate) fn bad(text: &str) -> Vec<Problem> {
    match load(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(problems) => problems.iter().cloned().collect(),
    }
}

/// The warnings of a text that must be good, without that of models' names, which most texts here would get: it has tests of
/// its own.
pub(crate) fn warnings(text: &str) -> Vec<String> {
    match load(text) {
        Ok(loaded) => (loaded.warnings.iter())
            .map(ToString::to_string)
            .filter(|warning| !warning.contains("are asked for the model"))
            .collect(),
        Err(problems) => panic!("{problems}\nin\n{text}"),
    }
}

/// One pool `a` with one endpoint, followed by `more`.
pub(crate) fn pool(more: &str) -> String {
    format!("pools: [{{name: a, endpoints: [http://h:1]}}]\n{more}")
}

/// One pool `a` with one endpoint and the settings `more`.
pub(crate) fn pool_with(more: &str) -> String {
    format!("pools: [{{name: a, endpoints: [http://h:1], {more}}}]\n")
}

/// Pools `a`, `b` and `c` of two endpoints each, and one route with the settings `more`.
pub(crate) fn route(more: &str) -> String {
    let pool =
        |name: &str| format!("  - {{name: {name}, endpoints: [http://{name}1:1, http://{name}2:1]}}\n");
    format!(
        "pools:\n{}{}{}routes:\n  - {{name: r, {more}}}\n",
        pool("a"),
        pool("b"),
        pool("c")
    )
}

/// Path, message and hint of every problem.
pub(crate) fn check_problems(text: &str, expect: &[&str]) {
    let line = |problem: &Problem| {
        assert!(problem.line > 0 && problem.column > 0, "{problem}");
        let path = if problem.path.is_empty() {
            String::new()
        } else {
            format!("{}: ", problem.path)
        };
        let hint = problem
            .hint
            .as_ref()
            .map(|hint| format!(" | {hint}"))
            .unwrap_or_default();
        format!("{path}{}{hint}", problem.message)
    };
    let got: Vec<String> = bad(text).iter().map(line).collect();
    assert_eq!(got, expect, "{text}");
}

/// Every problem as it is shown: place, path, message and hint.
pub(crate) fn check_places(text: &str, expect: &[&str]) {
    let got: Vec<String> = bad(text).iter().map(ToString::to_string).collect();
    let got: Vec<String> = got
        .iter()
        .map(|line| line.replace("t.yaml", "").replace("\n    ", " | "))
        .collect();
    // What ends in `…` is followed by a list that grows with the product.
    let shown = |(got, expect): (&String, &&str)| match expect.strip_suffix('…') {
        Some(begin) if got.len() > begin.len() && got.starts_with(begin) => (*expect).to_owned(),
        _ => got.clone(),
    };
    let extra = got.iter().skip(expect.len()).cloned();
    let got: Vec<String> = got.iter().zip(expect).map(shown).chain(extra).collect();
    assert_eq!(got, expect, "{text}");
}
