//! The text form: lines, labels, values.

use memchr::{memchr, memchr_iter, memchr2, memchr3};
use std::borrow::Cow;

/// One line of the page: a name, its labels, a value.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// As written.
    pub name: &'a [u8],
    /// What stands between the braces.
    pub labels: Labels<'a>,
    /// NaN where it is no number.
    pub value: f64,
}

/// The labels of a sample, read when asked for.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a>(&'a [u8]);

/// The samples of a page whose name `wanted` knows, each with what `wanted` said of it. Comments, lines that are not
/// samples and a last line without its end are left out.
pub fn samples<'a, W: 'a>(
    page: &'a [u8],
    wanted: impl Fn(&'a [u8]) -> Option<W> + 'a,
) -> impl Iterator<Item = (W, Sample<'a>)> + 'a {
    let mut start = 0;
    memchr_iter(b'\n', page).filter_map(move |end| {
        let line = page.get(start..end).unwrap_or_default().trim_ascii();
        start = end + 1;
        if line.first().is_none_or(|first| *first == b'#') {
            return None;
        }
        let (name, rest) = line.split_at_checked(memchr3(b'{', b' ', b'\t', line)?)?;
        let wanted = wanted(name)?;
        let (labels, value) = after_name(rest.trim_ascii_start())?;
        Some((wanted, Sample { name, labels, value }))
    })
}

/// The labels and the value; a timestamp and an exemplar may follow.
fn after_name(rest: &[u8]) -> Option<(Labels<'_>, f64)> {
    let (labels, rest) = match rest.strip_prefix(b"{") {
        Some(inside) => {
            let (labels, after) = inside.split_at_checked(closing_brace(inside)?)?;
            (labels, after.get(1..)?)
        }
        None => (&b""[..], rest),
    };
    let rest = rest.trim_ascii_start();
    let word = rest
        .get(..memchr2(b' ', b'\t', rest).unwrap_or(rest.len()))
        .unwrap_or_default();
    let value = str::from_utf8(word).ok()?.parse().unwrap_or(f64::NAN);
    Some((Labels(labels), value))
}

/// Where the labels end: at the first brace outside quotes.
fn closing_brace(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let here = at + memchr2(b'"', b'}', text.get(at..)?)?;
        if text.get(here) == Some(&b'}') {
            return Some(here);
        }
        at = here + 1 + closing_quote(text.get(here + 1..)?)? + 1;
    }
}

/// Where the quoted text that starts here ends.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let here = at + memchr2(b'"', b'\\', text.get(at..)?)?;
        if text.get(here) == Some(&b'"') {
            return Some(here);
        }
        at = here + 2;
    }
}

impl<'a> Labels<'a> {
    /// The value of the label of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        self.iter()
            .find(|(label, _)| *label == name.as_bytes())
            .map(|(_, value)| unescaped(value))
    }

    /// Name and value of each, the value still as written.
    fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let equals = memchr(b'=', rest)?;
            let name = rest.get(..equals)?.trim_ascii_start();
            let name = name.strip_prefix(b",").unwrap_or(name).trim_ascii();
            let quoted = rest.get(equals + 1..)?.trim_ascii_start().strip_prefix(b"\"")?;
            let end = closing_quote(quoted)?;
            rest = quoted.get(end + 1..)?;
            Some((name, quoted.get(..end)?))
        })
    }
}

fn unescaped(value: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(value);
    if !text.contains('\\') {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        match (next, chars.as_str().chars().next()) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some(quoted @ ('\\' | '"'))) => plain.push(quoted),
            (other, _) => {
                plain.push(other);
                continue;
            }
        }
        chars.next();
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Line = (String, Vec<(String, String)>, f64);

    fn all(page: &str) -> Vec<Line> {
        samples(page.as_bytes(), |_| Some(()))
            .map(|((), sample)| {
                let labels = sample
                    .labels
                    .iter()
                    .map(|(name, value)| {
                        (
                            String::from_utf8_lossy(name).into_owned(),
                            unescaped(value).into_owned(),
                        )
                    })
                    .collect();
                (
                    String::from_utf8_lossy(sample.name).into_owned(),
                    labels,
                    sample.value,
                )
            })
            .collect()
    }

    fn one(line: &str) -> Line {
        let mut found = all(&format!("{line}\n"));
        assert_eq!(found.len(), 1, "{line}");
        found.remove(0)
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_line_is_a_name_labels_and_a_value() {
        assert_eq!(one("up 1"), ("up".to_owned(), vec![], 1.0));
        assert_eq!(one("up{} 1.5e3"), ("up".to_owned(), vec![], 1500.0));
        assert_eq!(
            one(r#"a:b{gpu="0", UUID="GPU-1",x="",} -1"#),
            (
                "a:b".to_owned(),
                vec![pair("gpu", "0"), pair("UUID", "GPU-1"), pair("x", "")],
                -1.0
            )
        );
        assert_eq!(one("  up\t{ a = \"b\" }\t2\r").1, [pair("a", "b")]);
    }

    #[test]
    fn quotes_escapes_and_braces_stay_in_their_label() {
        let (_, labels, value) = one(r#"m{path="C:\\{x}",quote="say \"hi\", ok=\"\"",line="a\nb"} 7"#);
        assert_eq!(
            labels,
            [
                pair("path", r"C:\{x}"),
                pair("quote", r#"say "hi", ok="""#),
                pair("line", "a\nb")
            ]
        );
        assert_eq!(value, 7.0);
        assert_eq!(one(r#"m{a="\x"} 1"#).1, [pair("a", r"\x")]);
    }

    #[test]
    fn timestamps_and_exemplars_are_not_the_value() {
        assert_eq!(one("up 3 1700000000000").2, 3.0);
        assert_eq!(
            one(r#"x_bucket{le="1"} 9 1700000000 # {trace_id="a} 5"} 0.5 1.0"#).2,
            9.0
        );
        assert!(one("up NaN").2.is_nan());
        assert_eq!(one("up +Inf").2, f64::INFINITY);
        assert!(one("up many").2.is_nan());
    }

    #[test]
    fn what_is_no_sample_is_left_out() {
        let page = "# HELP up Is it { up?\n# TYPE up gauge\n\n   \nalone\nup{a=\"b 1\nup{a=\"b\\\" 2\nup 4\n# EOF\nup 12";
        assert_eq!(all(page), [("up".to_owned(), vec![], 4.0)]);
        assert_eq!(all("").len(), 0);
        assert_eq!(all("up 1").len(), 0, "a last line without its end may be cut off");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(page in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = samples(&page, Some).map(|(_, sample)| sample.labels.iter().count()).sum::<usize>();
        }

        #[test]
        fn odd_lines_are_read_without_a_panic(page in r#"([a-z{}"\\=, #\t\n\r0-9.]{0,12}){0,20}"#) {
            let _ = all(&page);
        }

        #[test]
        fn what_was_written_is_read(value in any::<f64>().prop_filter("a number", |x| x.is_finite()),
                                    label in r#"[a-z"\\{},= ]{0,12}"#) {
            let escaped = label.replace('\\', r"\\").replace('"', "\\\"");
            let (name, labels, read) = one(&format!("m{{first=\"\",l=\"{escaped}\"}} {value:?}"));
            prop_assert_eq!(name, "m");
            prop_assert_eq!(&labels[1], &pair("l", &label));
            prop_assert_eq!(read, value);
        }
    }
}
