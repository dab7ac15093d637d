//! Names in paths and messages.

use percent_encoding::percent_decode_str;

/// Longest text of a client that is quoted in a message, characters.
const QUOTED_MAX: usize = 80;

/// `text` as it may stand in a message: short, and without control characters.
pub(crate) fn shorten(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(QUOTED_MAX)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(QUOTED_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// A part of a path with its percent-encoding undone; none: it is not UTF-8 then.
pub(crate) fn decode(part: &str) -> Option<String> {
    percent_decode_str(part).decode_utf8().ok().map(Into::into)
}

/// Every way to read `rest`, a raw path, as a pool and an endpoint of it. Both names may hold slashes; those that are
/// percent-encoded do not divide.
pub(crate) fn splits(rest: &str) -> Vec<(String, String)> {
    rest.match_indices('/')
        .filter_map(|(at, _)| Some((decode(&rest[..at])?, decode(&rest[at + 1..])?)))
        .filter(|(pool, endpoint)| !pool.is_empty() && !endpoint.is_empty())
        .collect()
}

/// `; did you mean …?` with the known name that is nearest to `wanted`, else what there is.
pub(crate) fn hint<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    const LISTED_MAX: usize = 10;
    let known: Vec<&str> = known.into_iter().collect();
    let similar = |name: &&&str| strsim::normalized_damerau_levenshtein(wanted, name);
    let nearest = known.iter().max_by(|a, b| similar(a).total_cmp(&similar(b)));
    match nearest {
        None => "; there are none".to_owned(),
        Some(name) if similar(&name) >= 0.6 => format!("; did you mean `{name}`?"),
        Some(_) => {
            let more = if known.len() > LISTED_MAX { ", …" } else { "" };
            let listed = &known[..known.len().min(LISTED_MAX)];
            format!("; there are: {}{more}", listed.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_at_every_slash_that_is_not_encoded() {
        let check = |rest: &str, expect: &[(&str, &str)]| {
            let owned: Vec<_> = expect
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect();
            assert_eq!(splits(rest), owned, "{rest}");
        };
        check("p/e", &[("p", "e")]);
        check("p/h:80/x", &[("p", "h:80/x"), ("p/h:80", "x")]);
        check("org%2Fm/h%3A80", &[("org/m", "h:80")]);
        check("p", &[]);
        check("/e", &[]);
        check("p/%ff", &[]);
    }

    #[test]
    fn the_nearest_name_is_told() {
        assert_eq!(hint("qwem3", ["llama", "qwen3"]), "; did you mean `qwen3`?");
        assert_eq!(hint("x", ["llama", "qwen3"]), "; there are: llama, qwen3");
        assert_eq!(hint("x", []), "; there are none");
    }
}
