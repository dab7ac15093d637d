//! The mode language: `key=value,key=value`, which says how one request is answered.

/// A parsed mode. A key without `=` counts as `key=1`; `%2C` in a value is a comma; `h.NAME=VALUE` adds a
/// response header and may stand several times; of any other key given twice the last counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mode {
    keys: Vec<(String, String)>,
    headers: Vec<(String, String)>,
}

impl Mode {
    pub(crate) fn parse(text: &str) -> Mode {
        let mut mode = Mode::default();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key.trim(), unescape(value)),
                None => (part, "1".to_owned()),
            };
            match key.strip_prefix("h.") {
                Some(name) => mode.headers.push((name.to_owned(), value)),
                None => mode.keys.push((key.to_owned(), value)),
            }
        }
        mode
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.keys
            .iter()
            .rev()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    pub(crate) fn is(&self, key: &str, value: &str) -> bool {
        self.get(key) == Some(value)
    }

    /// A number; `default` when the key is absent or its value is no number.
    pub(crate) fn num(&self, key: &str, default: f64) -> f64 {
        self.get(key)
            .and_then(|v| v.parse().ok())
            .filter(|n: &f64| n.is_finite())
            .unwrap_or(default)
    }

    /// A whole number, cut towards zero.
    pub(crate) fn int(&self, key: &str, default: i64) -> i64 {
        self.num(key, default as f64) as i64
    }

    /// A count, or `None` when the key is absent; nonsense and negative values count as 0.
    pub(crate) fn count(&self, key: &str) -> Option<usize> {
        self.has(key)
            .then(|| usize::try_from(self.int(key, 0)).unwrap_or(0))
    }

    /// Adds the keys of `over`, which count before the present ones.
    pub(crate) fn extend(&mut self, over: Mode) {
        self.keys.extend(over.keys);
        self.headers.extend(over.headers);
    }

    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.headers
    }
}

/// Replaces `%XX`; what is no such escape stays.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = (bytes[i] == b'%').then(|| bytes.get(i + 1..i + 3)).flatten();
        let byte = hex
            .and_then(|h| std::str::from_utf8(h).ok())
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        match byte {
            Some(byte) => {
                out.push(byte);
                i += 3;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_keys_flags_headers_and_escapes() {
        let m = Mode::parse("status=429, echo ,h.x-a=1,h.x-a=2,text=a%2Cb%zz,gap=0.5,gap=x,,");
        assert_eq!(m.int("status", 200), 429);
        assert!(m.is("echo", "1") && !m.has("x"));
        assert_eq!(m.get("text"), Some("a,b%zz"));
        assert_eq!(m.num("gap", 0.25), 0.25);
        assert_eq!(
            m.headers(),
            [("x-a".into(), "1".into()), ("x-a".into(), "2".into())]
        );
        assert_eq!(
            (m.count("status"), m.count("echo"), m.count("cut")),
            (Some(429), Some(1), None)
        );
    }
}
