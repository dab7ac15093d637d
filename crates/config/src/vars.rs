//! Variables in strings: `${NAME}`, `${NAME:-default}` and `$$` for a dollar.

/// Text in which variables are replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expanded {
    /// The result.
    pub(crate) text: String,
    /// Whether a variable was in it.
    pub(crate) any: bool,
}

/// What is wrong with the variables of a string: message and hint. Holds names, never values.
pub(crate) type VarError = (String, String);

/// Replaces the variables in `raw`. The values are taken as they are: nothing in them is a variable or YAML again.
///
/// A variable that is set but empty counts as unset where there is a default, as in a shell.
pub(crate) fn expand(raw: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Expanded, VarError> {
    let mut text = String::with_capacity(raw.len());
    let mut any = false;
    let mut rest = raw;
    while let Some(dollar) = rest.find('$') {
        text.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            text.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let Some(end) = after.find('}') else {
                return Err((
                    "a variable begins with `${` and has no `}`".to_owned(),
                    "close it, or write `$$` for a dollar sign".to_owned(),
                ));
            };
            text.push_str(&value_of(&after[..end], env)?);
            any = true;
            rest = &after[end + 1..];
        } else {
            text.push('$');
        }
    }
    text.push_str(rest);
    Ok(Expanded { text, any })
}

fn value_of(inside: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, VarError> {
    let length = inside
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        .count();
    let (name, after) = inside.split_at(length);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err((
            "a variable needs a name of letters, digits and `_` after `${`".to_owned(),
            "write `${NAME}` or `${NAME:-default}`, or `$$` for a dollar sign".to_owned(),
        ));
    }
    let default = match after {
        "" => None,
        _ => match after.strip_prefix(":-") {
            Some(default) if !default.contains("${") => Some(default),
            _ => {
                return Err((
                    format!("after the variable's name `{name}` only `:-` and a plain default may stand"),
                    format!("write `${{{name}}}` or `${{{name}:-default}}`; variables do not nest"),
                ));
            }
        },
    };
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err((
            format!("the environment variable `{name}` is not set"),
            format!("set it, or give a default: `${{{name}:-default}}`; a literal `${{` is written `$${{`"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, expect: Result<&str, &str>) {
        let env = |name: &str| match name {
            "A" => Some("one".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRICKY" => Some("${A}\nb: $$".to_owned()),
            _ => None,
        };
        let got = expand(raw, &env)
            .map(|done| done.text)
            .map_err(|(message, _)| message);
        assert_eq!(got.as_deref().map_err(String::as_str), expect, "{raw}");
    }

    #[test]
    fn variables_are_replaced_once_and_taken_literally() {
        check("${A}", Ok("one"));
        check("x-${A}${A}-y", Ok("x-oneone-y"));
        check("$A costs $5", Ok("$A costs $5"));
        check("$${A}", Ok("${A}"));
        check("$$${A}", Ok("$one"));
        check("${TRICKY}", Ok("${A}\nb: $$"));
        check("${EMPTY}", Ok(""));
        check("${EMPTY:-two}", Ok("two"));
        check("${NONE:-}", Ok(""));
        check("${NONE:-http://h:1}", Ok("http://h:1"));
        check("ends in $", Ok("ends in $"));
    }

    #[test]
    fn what_is_no_variable_is_refused() {
        check("${NONE}", Err("the environment variable `NONE` is not set"));
        check("${A", Err("a variable begins with `${` and has no `}`"));
        check(
            "${}",
            Err("a variable needs a name of letters, digits and `_` after `${`"),
        );
        check(
            "${1}",
            Err("a variable needs a name of letters, digits and `_` after `${`"),
        );
        check(
            "${A:?no}",
            Err("after the variable's name `A` only `:-` and a plain default may stand"),
        );
        check(
            "${A:-${B}}",
            Err("after the variable's name `A` only `:-` and a plain default may stand"),
        );
    }
}
