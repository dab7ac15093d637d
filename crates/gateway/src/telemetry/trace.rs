//! Trace context of a request: read from the client, passed on to the engine (W3C Trace Context, level 1).
//!
//! The gateway takes part in the client's trace: the engine's span becomes a child of the gateway's, which is a child of
//! the client's. A client that sends none, or none that is valid, begins a trace here. What a client calls its request is
//! never made into an id of a trace: such names are short, repeat, and mean something to somebody.

use http::{HeaderMap, HeaderName, HeaderValue};
use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Mcg128Xsl64;
use serde::{Serialize, Serializer};
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};

pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Length of a header of version 00: `vv-tttttttttttttttttttttttttttttttt-pppppppppppppppp-ff`.
const LEN: usize = 55;
/// Flag: whoever began the trace may have recorded it.
const SAMPLED: u8 = 1;

/// Where a request stands in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) id: TraceId,
    /// The span of the gateway, which is the parent of the engine's.
    pub(crate) span: u64,
    /// The client's span; none: the trace begins here.
    pub(crate) parent: Option<u64>,
    pub(crate) flags: u8,
}

/// Never zero; shown as 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(pub(crate) u128);

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut digits = [0; 32];
        write_hex(&mut digits, self.0);
        serializer.serialize_str(std::str::from_utf8(&digits).unwrap_or_default())
    }
}

impl Trace {
    /// The client's trace with a span of our own, or a new trace where it sends none that is valid.
    ///
    /// A new one is marked as sampled: engines decide by this flag whether they record their part, and record it where
    /// nobody sends a context at all.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        match sole(headers).and_then(parse) {
            Some((id, parent, flags)) => Self {
                id,
                span: random_span(),
                parent: Some(parent),
                flags,
            },
            None => Self {
                id: random_trace(),
                span: random_span(),
                parent: None,
                flags: SAMPLED,
            },
        }
    }

    /// Makes `headers`, which are the client's, those of a request to an engine. A `tracestate` belongs to the
    /// `traceparent` it came with, so it goes no further than that.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&mut text[3..35], self.id.0);
        write_hex(&mut text[36..52], self.span.into());
        write_hex(&mut text[53..], self.flags.into());
        if let Ok(value) = HeaderValue::from_bytes(&text) {
            headers.insert(TRACEPARENT, value);
        }
        if self.parent.is_none() {
            headers.remove(TRACESTATE);
        }
    }
}

/// The value of `traceparent`, if it is sent once.
fn sole(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let first = values.next()?;
    values.next().is_none().then(|| first.as_bytes())
}

/// Trace, parent and flags. A version higher than ours is read by the fields that it shares with ours, and of its flags
/// only `sampled` is known.
fn parse(value: &[u8]) -> Option<(TraceId, u64, u8)> {
    let head = value.get(..LEN)?;
    if [head[2], head[35], head[52]] != *b"---" {
        return None;
    }
    let version = hex(&head[..2])?;
    let fits = match version {
        0 => value.len() == LEN,
        0xff => false,
        _ => value.get(LEN).is_none_or(|next| *next == b'-'),
    };
    let id = hex(&head[3..35])?;
    let parent = u64::try_from(hex(&head[36..52])?).ok()?;
    let flags = u8::try_from(hex(&head[53..])?).ok()?;
    (fits && id != 0 && parent != 0).then_some((TraceId(id), parent, flags & SAMPLED))
}

/// The number that lower-case digits stand for.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some((number << 4) | u128::from(digit))
    })
}

/// Fills `digits` with the lowest digits of `number`.
fn write_hex(digits: &mut [u8], mut number: u128) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(number & 15) as usize];
        number >>= 4;
    }
}

thread_local! {
    /// Seeded by the system once for each thread, so that no request asks it. Ids of traces are no secrets.
    static RANDOM: RefCell<Mcg128Xsl64> = RefCell::new(Mcg128Xsl64::from_seed(seed()));
}

fn seed() -> [u8; 16] {
    let half = |part: u64| RandomState::new().hash_one(part);
    ((u128::from(half(0)) << 64) | u128::from(half(1))).to_le_bytes()
}

fn random() -> u64 {
    RANDOM.with_borrow_mut(|random| random.next_u64())
}

fn random_span() -> u64 {
    random().max(1)
}

fn random_trace() -> TraceId {
    TraceId(((u128::from(random()) << 64) | u128::from(random())).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn map(values: &[&str]) -> HeaderMap {
        let pair = |value: &&str| (TRACEPARENT, HeaderValue::from_str(value).unwrap());
        values.iter().map(pair).collect()
    }

    /// What the client's `values` make of the header that the engine gets.
    fn sent(values: &[&str]) -> String {
        let mut headers = map(values);
        Trace::of(&headers).put(&mut headers);
        let sent: Vec<_> = headers.get_all(TRACEPARENT).iter().collect();
        assert_eq!(sent.len(), 1);
        sent[0].to_str().unwrap().to_owned()
    }

    #[test]
    fn a_valid_context_is_continued() {
        let sent = sent(&[GIVEN]);
        assert_eq!((&sent[..36], &sent[52..]), (&GIVEN[..36], "-01"));
        assert_ne!(sent[36..52], GIVEN[36..52]);
    }

    #[test]
    fn flags_are_kept_as_far_as_they_are_known() {
        for (given, sent_on) in [("00", "00"), ("01", "01"), ("fe", "00"), ("ff", "01")] {
            let sent = sent(&[&format!("{}{given}", &GIVEN[..53])]);
            assert_eq!(&sent[53..], sent_on, "{given}");
        }
    }

    #[test]
    fn a_higher_version_is_read_by_its_first_fields() {
        for value in [
            GIVEN.replacen("00", "cc", 1),
            GIVEN.replacen("00", "01", 1) + "-what-else",
        ] {
            let sent = sent(&[&value]);
            assert_eq!((&sent[..3], &sent[3..35]), ("00-", &GIVEN[3..35]), "{value}");
        }
    }

    #[test]
    fn what_is_invalid_begins_a_trace() {
        let bad = [
            String::new(),
            GIVEN[..54].to_owned(),
            GIVEN.to_uppercase(),
            GIVEN.replacen("00", "ff", 1),
            GIVEN.replacen("00", "0g", 1),
            format!("{GIVEN}-more"),
            GIVEN.replacen("00", "01", 1) + "more",
            GIVEN.replace('-', "_"),
            GIVEN.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            GIVEN.replace("00f067aa0ba902b7", &"0".repeat(16)),
            format!("{GIVEN},{GIVEN}"),
        ];
        for value in &bad {
            let trace = Trace::of(&map(&[value]));
            assert_eq!((trace.parent, trace.flags), (None, SAMPLED), "{value}");
            assert!(parse(sent(&[value]).as_bytes()).is_some());
        }
        assert_eq!(Trace::of(&map(&[GIVEN, GIVEN])).parent, None);
        assert_ne!(Trace::of(&HeaderMap::new()).id, Trace::of(&HeaderMap::new()).id);
    }

    #[test]
    fn a_state_goes_no_further_than_its_parent() {
        for (given, kept) in [(GIVEN, true), ("nonsense", false)] {
            let mut headers = map(&[given]);
            headers.insert(TRACESTATE, HeaderValue::from_static("vendor=1"));
            Trace::of(&headers).put(&mut headers);
            assert_eq!(headers.contains_key(TRACESTATE), kept, "{given}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_comes_in_what_goes_out_is_valid(value in "[ -~]{0,80}|[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.{0,9})?") {
            let Ok(header) = HeaderValue::from_str(&value) else { return Ok(()) };
            let mut headers = HeaderMap::new();
            headers.insert(TRACEPARENT, header);
            let trace = Trace::of(&headers);
            trace.put(&mut headers);
            let sent = headers[TRACEPARENT].as_bytes();
            prop_assert_eq!(parse(sent), Some((trace.id, trace.span, trace.flags)));
            if let Some((id, parent, _)) = parse(value.as_bytes()) {
                prop_assert_eq!((trace.id, trace.parent), (id, Some(parent)));
                prop_assert_ne!(trace.span, parent);
            }
        }

        #[test]
        fn valid_contexts_are_read(id in 1_u128.., parent in 1_u64.., flags: u8, version in 0_u8..255) {
            let value = format!("{version:02x}-{id:032x}-{parent:016x}-{flags:02x}");
            prop_assert_eq!(parse(value.as_bytes()), Some((TraceId(id), parent, flags & SAMPLED)));
        }
    }
}
