//! The forms in which a secret may come back: an upstream that quotes its key in an error escapes or encodes it as the
//! place asks for that it quotes it in.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Shortest value that is taken for a secret, bytes: a shorter one is found in anything, and guessed.
const SECRET_MIN: usize = 6;
/// Shortest part of a secret's base64 that is looked for.
const BASE64_MIN: usize = 12;
/// What no encoder of URLs encodes.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Nor in a path.
const PATH: &AsciiSet = &PLAIN.remove(b'/');

/// Every text that would give one of `secrets` away, the longest first.
pub(crate) fn forms<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Vec<String> {
    let mut forms: Vec<String> = Vec::new();
    for secret in secrets {
        if secret.len() < SECRET_MIN {
            continue;
        }
        let decoded = percent_decode_str(secret).decode_utf8_lossy();
        for secret in [secret, &*decoded] {
            in_json(secret, &mut forms);
            in_urls(secret, &mut forms);
            forms.push(in_html(secret));
            in_base64(secret.as_bytes(), &mut forms);
        }
    }
    forms.retain(|form| form.len() >= SECRET_MIN);
    forms.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    forms.dedup();
    forms
}

/// Between quotes, as the usual encoders write it, and once more for an error that is quoted in an error.
fn in_json(secret: &str, forms: &mut Vec<String>) {
    let quoted = |text: &str| {
        let quoted = serde_json::to_string(text).unwrap_or_default();
        quoted.trim_start_matches('"').to_owned()
    };
    let once = quoted(secret);
    let once = once.strip_suffix('"').unwrap_or(&once).to_owned();
    let twice = quoted(&once);
    let twice = twice.strip_suffix('"').unwrap_or(&twice).to_owned();
    for text in [secret.to_owned(), once, twice] {
        forms.push(text.replace('/', "\\/"));
        let mut html_safe = text.clone();
        for (letter, escape) in [('&', "\\u0026"), ('<', "\\u003c"), ('>', "\\u003e")] {
            html_safe = html_safe.replace(letter, escape);
        }
        forms.push(html_safe);
        forms.push(text);
    }
}

fn in_urls(secret: &str, forms: &mut Vec<String>) {
    for set in [PLAIN, PATH] {
        let encoded = utf8_percent_encode(secret, set).to_string();
        forms.push(lower_case_escapes(&encoded));
        forms.push(encoded);
    }
}

fn lower_case_escapes(encoded: &str) -> String {
    let mut escape = 0_u8;
    let lower = |letter: char| {
        if letter == '%' {
            escape = 2;
        } else if escape > 0 {
            escape -= 1;
            return letter.to_ascii_lowercase();
        }
        letter
    };
    encoded.chars().map(lower).collect()
}

fn in_html(secret: &str) -> String {
    let mut text = secret.replace('&', "&amp;");
    for (letter, escape) in [('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;")] {
        text = text.replace(letter, escape);
    }
    text
}

/// What stays the same of the secret's base64 (RFC 4648, sections 4 and 5) whatever stands before and after it.
fn in_base64(secret: &[u8], forms: &mut Vec<String>) {
    const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for skipped in 0..3 {
        let mut text = String::new();
        for chunk in secret.get(skipped..).unwrap_or_default().chunks_exact(3) {
            let bits = chunk
                .iter()
                .fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte));
            text.extend([18, 12, 6, 0].map(|shift| char::from(STANDARD[(bits >> shift) as usize & 63])));
        }
        if text.len() >= BASE64_MIN {
            forms.push(text.replace('+', "-").replace('/', "_"));
            forms.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_key_has_few_forms() {
        let found = forms(["sk-abcdefghijkl", "short"]);
        assert_eq!(found[0], "c2stYWJjZGVmZ2hpamts");
        assert!(
            found.contains(&"sk-abcdefghijkl".to_owned()) && found.len() == 4,
            "{found:?}"
        );
    }

    #[test]
    fn what_encoders_make_of_a_key_is_known() {
        let found = forms(["a\"b\\c/d+e&f"]);
        for form in [
            r#"a"b\c/d+e&f"#,
            r#"a\"b\\c/d+e&f"#,
            r#"a\"b\\c\/d+e&f"#,
            r#"a\"b\\c/d+e\u0026f"#,
            r#"a\\\"b\\\\c/d+e&f"#,
            "a%22b%5Cc%2Fd%2Be%26f",
            "a%22b%5cc%2fd%2be%26f",
            "a%22b%5Cc/d%2Be%26f",
            "a&quot;b\\c/d+e&amp;f",
        ] {
            assert!(found.contains(&form.to_owned()), "{form}: {found:?}");
        }
        assert!(forms(["k%2Fey%22xy"]).contains(&"k/ey\"xy".to_owned()));
    }

    #[test]
    fn the_longest_stands_first_so_that_none_is_left_in_part() {
        let found = forms(["key-key-key", "key-key-key-and-more"]);
        assert!(found.is_sorted_by_key(|form| std::cmp::Reverse(form.len())));
    }
}
