use super::super::{each_field, each_item};
use proptest::prelude::*;
use serde::Deserializer as _;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Field by field and item by item as `serde_json` reads them; keys are empty in an array.
struct Parts<'a>(Vec<(&'a str, &'a str)>);

impl<'de> Visitor<'de> for &mut Parts<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<&RawValue>()? {
            let value = map.next_value::<&RawValue>()?;
            self.0.push((key.get(), value.get()));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(item) = seq.next_element::<&RawValue>()? {
            self.0.push(("", item.get()));
        }
        Ok(())
    }
}

fn check(json: &str) {
    let (mut ours, mut theirs) = (Vec::new(), Parts(Vec::new()));
    let mut reader = serde_json::Deserializer::from_str(json);
    let (here, there) = if json.trim_ascii_start().starts_with('[') {
        let there = reader.deserialize_seq(&mut theirs);
        (each_item(json, |item| ours.push(("", item))), there)
    } else {
        let there = reader.deserialize_map(&mut theirs);
        (each_field(json, |key, value| ours.push((key, value))), there)
    };
    let there = there.and_then(|()| reader.end());
    assert_eq!(here.is_ok(), there.is_ok(), "{json:?}: {there:?}");
    assert_eq!(ours, theirs.0, "{json:?}");
}

const SAMPLE: &str = concat!(
    r#"{"id":"chat\n\u00e9\\","a" : [1, -0.5e+3,[],{ },[[{"b":[null,true ,false]}]]] ,"text":"some lönger téxt with "#,
    "\u{2028}",
    r#" in it, \"quoted\" \ud83d\ude00 \ud800","n":0,"m":1E-2 , "":{"":""}} "#
);

#[test]
fn whole_texts_are_read_as_serde_json_reads_them() {
    check(SAMPLE);
    check(&format!("[{SAMPLE}, 7,\n{SAMPLE}]"));
    for end in 0..SAMPLE.len() {
        if let Some(part) = SAMPLE.get(..end) {
            check(part);
        }
    }
    for json in [
        "",
        " ",
        "{",
        "[",
        "[]",
        "{}",
        "[ ]",
        "{ }x",
        "[1 2]",
        "[1,]",
        "{,}",
        "[,1]",
        "{\"a\":}",
        "{\"a\" 1}",
        "[01]",
        "[-]",
        "[1.]",
        "[.5]",
        "[1e]",
        "[1e+]",
        "[-0]",
        "[nul]",
        "[nullx]",
        "[truefalse]",
        "[\"\\u12g4\"]",
        "[\"\\u12",
        "[\"\\x\"]",
        "[\"\t\"]",
        "[\"\u{0}\"]",
        "[{]}",
        "[[}",
        "{\"a\":1]",
        "[\"a]",
        "[1}",
        "\u{feff}[]",
        "[\u{a0}]",
    ] {
        check(json);
    }
}

#[test]
fn nesting_is_followed_to_any_depth() {
    for depth in [1, 62, 63, 64, 65, 127, 128, 129, 200, 5000] {
        let open = |i: usize| if i.is_multiple_of(3) { "{\"k\":" } else { "[" };
        let close = |i: usize| if i.is_multiple_of(3) { "}" } else { "]" };
        let opened: String = (0..depth).map(open).collect();
        let closed: String = (0..depth).rev().map(close).collect();
        check(&format!("[{opened}1{closed},2]"));
        check(&format!("[{opened}1{}", closed.replacen('}', "]", 1)));
        check(&format!("[{opened}1{},2]", &closed[1..]));
    }
}

proptest! {
    #[test]
    fn broken_texts_are_refused_where_serde_json_refuses_them(
        edits in prop::collection::vec((0..SAMPLE.len(), 0..8_usize, "[\\[\\]{}\",:\\\\ u0-9eE.\\-tn\n\u{0}é]{0,4}"), 1..5)
    ) {
        let mut text = SAMPLE.to_owned();
        for (place, removed, inserted) in edits {
            let start = text.floor_char_boundary(place);
            let end = text.ceil_char_boundary((start + removed).min(text.len()));
            text.replace_range(start..end, &inserted);
        }
        check(&text);
        check(&format!("[{text}]"));
    }

    #[test]
    fn any_text_is_read_as_serde_json_reads_it(text in "[\\[{]{0,3}[\\[\\]{}\",:\\\\ u0-9eE.+\\-truefalsn]{0,24}") {
        check(&text);
    }
}

#[test]
fn texts_come_in_pieces_that_make_up_the_string() {
    let long = "a plain part that is longer than what is put together at a time, and goes on for as long as it takes ".repeat(3);
    let pieces = [
        "",
        "x",
        "\\n",
        "\\\"",
        "\\u00e9",
        "\\ud83d\\ude42",
        "é",
        long.as_str(),
        "\\t\\t",
    ];
    for first in pieces {
        for second in pieces {
            for third in pieces {
                let json = format!("\"{first}{second}{third}{}\", 1", "\\\\yz".repeat(40));
                let mut reader = super::Reader::new(&json);
                let mut text = Vec::new();
                reader
                    .text(|piece| {
                        assert!(!piece.is_empty());
                        text.extend_from_slice(piece);
                    })
                    .unwrap();
                let string = json.strip_suffix(", 1").unwrap();
                let expected: String = serde_json::from_str(string).unwrap();
                assert_eq!(String::from_utf8(text).unwrap(), expected);
                assert_eq!(reader.rest(), ", 1");
            }
        }
    }
    for bad in ["\"a", "\"\\", "\"\\u12", "\"\\x\"", "\"a\nb\"", "a", ""] {
        let mut reader = super::Reader::new(bad);
        assert!(reader.text(|_| ()).is_err(), "{bad:?}");
        assert!(reader.rest().len() <= bad.len());
    }
}
