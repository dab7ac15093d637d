//! Adds to a configuration what every process test needs, unless it is there.

/// The admin token the harness writes.
pub const ADMIN_TOKEN: &str = "test-admin-token";

const LISTEN: &str = "127.0.0.1:0";

/// Adds `server.listen`, `admin` and `auth: none`. Works on the text, so that what a test writes reaches the
/// gateway as written, mistakes included.
pub(super) fn complete(yaml: &str) -> String {
    let mut lines: Vec<String> = dedent(yaml);
    match top_level(&lines, "server") {
        None => lines.push(format!("server: {{listen: {LISTEN}}}")),
        Some(at) => add_listen(&mut lines, at),
    }
    if top_level(&lines, "admin").is_none() {
        lines.push(format!("admin: {{listen: {LISTEN}, token: {ADMIN_TOKEN}}}"));
    }
    if top_level(&lines, "auth").is_none() {
        lines.push("auth: none".to_owned());
    }
    lines.join("\n") + "\n"
}

/// The token of the `admin` part, if it is written there as it is.
pub(super) fn admin_token(yaml: &str) -> Option<String> {
    let lines: Vec<String> = yaml.lines().map(str::to_owned).collect();
    let at = top_level(&lines, "admin")?;
    let block = std::iter::once(&lines[at]).chain(lines[at + 1..].iter().take_while(|l| in_block(l)));
    let value = block
        .filter_map(|l| l.split_once("token:"))
        .map(|(_, v)| v)
        .next()?;
    let value = value
        .split([',', '}', '#'])
        .next()?
        .trim()
        .trim_matches(['"', '\'']);
    Some(value.to_owned())
}

/// Takes away the indentation that all lines share: tests write their YAML inside indented code.
fn dedent(yaml: &str) -> Vec<String> {
    let indent = |l: &str| l.len() - l.trim_start_matches(' ').len();
    let common = yaml
        .lines()
        .filter(|l| !l.trim().is_empty())
        .map(indent)
        .min()
        .unwrap_or(0);
    yaml.lines()
        .map(|l| l.get(common..).unwrap_or("").to_owned())
        .collect()
}

fn top_level(lines: &[String], key: &str) -> Option<usize> {
    lines
        .iter()
        .position(|l| l.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))
}

fn in_block(line: &str) -> bool {
    line.starts_with([' ', '#']) || line.trim().is_empty()
}

fn add_listen(lines: &mut Vec<String>, at: usize) {
    if let Some((before, after)) = lines[at].clone().split_once('{') {
        if !after.contains("listen:") {
            let comma = if after.trim_start().starts_with('}') {
                ""
            } else {
                ", "
            };
            lines[at] = format!("{before}{{listen: {LISTEN}{comma}{after}");
        }
        return;
    }
    let block: Vec<&String> = lines[at + 1..].iter().take_while(|l| in_block(l)).collect();
    if block.iter().any(|l| l.trim_start().starts_with("listen:")) {
        return;
    }
    let first = block
        .iter()
        .find(|l| !l.trim().is_empty() && !l.trim().starts_with('#'));
    let indent = first.map_or(2, |l| l.len() - l.trim_start().len());
    lines.insert(at + 1, format!("{}listen: {LISTEN}", " ".repeat(indent)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str, expect: &str) {
        assert_eq!(complete(yaml), expect);
    }

    #[test]
    fn adds_only_what_is_missing() {
        let admin = "admin: {listen: 127.0.0.1:0, token: test-admin-token}\n";
        let server = "server: {listen: 127.0.0.1:0}\n";
        check("pools: []", &format!("pools: []\n{server}{admin}auth: none\n"));
        check(
            "\n    pools:\n      - a",
            &format!("\npools:\n  - a\n{server}{admin}auth: none\n"),
        );
        let block = "server:\n    max_body: 1MiB\nauth: keys\n";
        check(
            block,
            &format!("server:\n    listen: 127.0.0.1:0\n    max_body: 1MiB\nauth: keys\n{admin}"),
        );
        let flow = "server: {zone: a}\nauth: keys\n";
        check(
            flow,
            &format!("server: {{listen: 127.0.0.1:0, zone: a}}\nauth: keys\n{admin}"),
        );
        let full = "server:\n  listen: 127.0.0.1:1\nadmin:\n  token: \"x\"\nauth: none\n";
        check(full, full);
    }

    #[test]
    fn finds_the_token_of_the_test() {
        assert_eq!(
            admin_token("admin: {listen: a, token: t1}\n").as_deref(),
            Some("t1")
        );
        assert_eq!(
            admin_token("admin:\n  listen: a\n  token: \"t2\" # x\nkeys: []\n").as_deref(),
            Some("t2")
        );
        assert_eq!(admin_token("admin:\n  listen: a\nother:\n  token: t3\n"), None);
    }
}
