//! The forms in which a secret may show up.

use memchr::memmem;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// What one secret is called and every text that would give it away.
pub(crate) struct Canary {
    pub(crate) name: &'static str,
    forms: BTreeSet<Vec<u8>>,
}

impl Canary {
    pub(crate) fn new(name: &'static str, secret: &str) -> Self {
        let mut forms = BTreeSet::from([
            secret.to_owned(),
            json(secret),
            json(secret).replace('/', "\\/"),
            json(&json(secret)),
            percent(secret, true),
            percent(secret, true).to_lowercase(),
            percent(secret, false),
            hex(secret.as_bytes()),
        ]);
        forms.extend(base64_anywhere(secret.as_bytes()));
        Self {
            name,
            forms: forms.into_iter().map(String::into_bytes).collect(),
        }
    }

    /// The form of it that stands in `bytes`.
    pub(crate) fn found(&self, bytes: &[u8]) -> Option<String> {
        let form = self
            .forms
            .iter()
            .find(|form| memmem::find(bytes, form).is_some())?;
        Some(String::from_utf8_lossy(form).into_owned())
    }
}

/// Between the quotes of a JSON string.
pub(crate) fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Everything but letters, digits and `-._~` encoded, and slashes if asked for.
pub(crate) fn percent(text: &str, slashes: bool) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (byte == b'/' && !slashes) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").unwrap();
        }
    }
    encoded
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 4648, section 4, without padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
        }
    }
    text
}

/// What stays the same of the secret's base64 whatever stands before and after it.
fn base64_anywhere(secret: &[u8]) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret);
        let whole = bytes.len() / 3 * 3;
        let text = base64(&bytes[..whole]);
        let core = &text[if before == 0 { 0 } else { 4 }..];
        forms.push(core.to_owned());
        forms.push(core.replace('+', "-").replace('/', "_"));
    }
    forms
}

#[test]
fn every_form_is_found() {
    let secret = "canary\"\\/+=key-0123";
    let canary = Canary::new("it", secret);
    for text in [
        format!("a{secret}b"),
        format!("{:?}", secret),
        serde_json::json!({"message": serde_json::json!({"key": secret}).to_string()}).to_string(),
        format!("?k={}&", percent(secret, true)),
        base64(format!("user:{secret}").as_bytes()),
        base64(format!("u:{secret}.").as_bytes()),
        base64(format!("us:{secret}..").as_bytes()),
    ] {
        assert!(canary.found(text.as_bytes()).is_some(), "{text}");
    }
    assert_eq!(canary.found(b"canary***"), None);
    assert_eq!(base64(b"Many hands"), "TWFueSBoYW5kcw");
}
