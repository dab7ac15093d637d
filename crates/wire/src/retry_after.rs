//! The `retry-after` header: how long an upstream asks to be left alone.

use std::time::{Duration, SystemTime};

/// Nobody waits longer than this; also keeps `now + wait` far from any overflow.
const WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// The wait that a `retry-after` value asks for, at most a year.
///
/// Takes seconds (RFC 9110 §10.2.3), also with decimals, which some engines send, and HTTP dates in the three
/// forms of RFC 9110 §5.6.7 (IMF-fixdate, RFC 850, asctime). A date already past is a wait of zero. None for
/// anything else: a sign, an empty value, words.
#[must_use]
pub fn parse(value: &[u8], now: SystemTime) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let wait = match seconds(text) {
        Some(wait) => wait,
        None => httpdate::parse_http_date(text)
            .ok()?
            .duration_since(now)
            .unwrap_or(Duration::ZERO),
    };
    Some(wait.min(WAIT_MAX))
}

/// `12` or `12.5`, nothing else: `f64::from_str` alone would also take `inf`, `1e9` and `-0`.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let seconds: f64 = text.parse().ok()?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1994-11-06 08:49:37 UTC, the date of RFC 9110's examples.
    const EXAMPLE: Duration = Duration::from_secs(784_111_777);

    fn check(value: &str, expect: Option<f64>) {
        let now = SystemTime::UNIX_EPOCH + EXAMPLE - Duration::from_secs(30);
        let got = parse(value.as_bytes(), now).map(|wait| wait.as_secs_f64());
        assert_eq!(got, expect, "{value:?}");
    }

    #[test]
    fn seconds_whole_and_with_decimals() {
        check("0", Some(0.0));
        check(" 120 ", Some(120.0));
        check("1.5", Some(1.5));
        check("99999999999999999999999999", Some(WAIT_MAX.as_secs_f64()));
        check(&"9".repeat(5000), Some(WAIT_MAX.as_secs_f64()));
    }

    #[test]
    fn dates_in_three_forms() {
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(30.0));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(30.0));
        check("Sun Nov  6 08:49:37 1994", Some(30.0));
        check("Sun, 06 Nov 1994 08:00:00 GMT", Some(0.0));
    }

    #[test]
    fn nonsense_is_no_wait() {
        for value in [
            "", "-1", "+1", "-0", "soon", "1e3", "inf", "NaN", ".5", "5.", "1.2.3", "1 2", "١٢",
        ] {
            check(value, None);
        }
        assert_eq!(parse(b"\xff", SystemTime::UNIX_EPOCH), None);
    }
}
