use super::*;
use crate::workload::write_mooncake;
use proptest::prelude::*;

fn read_text(text: &str) -> Read {
    read(text.as_bytes(), "test", None).unwrap()
}

fn bad(read: &Read) -> Vec<String> {
    read.bad.iter().map(ToString::to_string).collect()
}

const MOONCAKE: &str = r#"{"timestamp": 0, "input_length": 1000, "output_length": 52, "hash_ids": [0, 1]}"#;

#[test]
fn mooncake() {
    let read = read_text(&format!(
        "\u{feff}{MOONCAKE}\r\n\n{{\"timestamp\":3000.5,\"input_length\":7,\"output_length\":0}}\n"
    ));
    assert_eq!((read.format, read.bad_total), (Format::Mooncake, 0));
    assert_eq!(read.workload.block_tokens, 512);
    let [first, second] = &read.workload.requests[..] else {
        panic!("two requests")
    };
    assert_eq!(
        (first.prompt_tokens, first.output_tokens, &first.blocks[..]),
        (1000, 52, &[0, 1][..])
    );
    assert_eq!(
        (second.at, second.blocks.len()),
        (Duration::from_micros(3_000_500), 0)
    );
    assert!(read.workload.tenants.is_empty() && read.workload.classes.is_empty());
}

#[test]
fn every_bad_row_is_named() {
    let rows = [
        MOONCAKE,
        r#"{"timestamp": 0, "input_length": 1000"#,
        r#"{"timestamp": 0, "output_length": 5, "hash_ids": []}"#,
        r#"{"timestamp": -5, "input_length": 1000, "output_length": 5, "hash_ids": []}"#,
        r#"{"timestamp": 0, "input_length": 0, "output_length": 5, "hash_ids": []}"#,
        r#"{"timestamp": 0, "input_length": 12.5, "output_length": 5, "hash_ids": []}"#,
        r#"{"timestamp": 0, "input_length": 1, "output_length": 99999999999, "hash_ids": []}"#,
        r#"{"timestamp": 0, "input_length": 9, "output_length": 5, "hash_ids": ["a"]}"#,
        r#"{"timestamp": 0, "input_length": 9, "output_length": 5, "hash_ids": [1, 2, 3]}"#,
        r#"{"timestamp": 0, "input_length": 9, "output_length": 5, "after": 1}"#,
        "[1]",
        "hello",
    ];
    let read = read_text(&rows.join("\n"));
    assert_eq!((read.workload.requests.len(), read.bad_total), (1, 11));
    assert_eq!(
        bad(&read),
        [
            r#"line 2: not JSON (EOF while parsing an object at column 37): {"timestamp": 0, "input_length": 1000"#,
            r#"line 3: `input_length` is missing: {"timestamp": 0, "output_length": 5, "hash_ids": []}"#,
            "line 4: `timestamp` must be milliseconds from 0 to 3.2e12: -5",
            "line 5: `input_length` must be at least 1: 0",
            "line 6: `input_length` must be a whole number of tokens below 2^32: 12.5",
            "line 7: `output_length` must be a whole number of tokens below 2^32: 99999999999",
            r#"line 8: `hash_ids` must be a list of whole numbers from 0 on: ["a"]"#,
            "line 9: `hash_ids` has more blocks than the 1 of 512 tokens that prompt and answer fill: 3",
            "line 10: `after` must be the number, from 0, of a good row above: 1",
            "line 11: a JSON object is wanted: [1]",
            "line 12: not JSON (expected value at column 1): hello",
        ]
    );
}

#[test]
fn the_list_of_bad_rows_is_bounded_and_their_count_exact() {
    let text = format!("{MOONCAKE}\n{}", "{}\n".repeat(250));
    let read = read_text(&text);
    assert_eq!(
        (read.bad.len(), read.bad_total, read.bad[99].line),
        (100, 250, 101)
    );
}

#[test]
fn rows_out_of_order_are_sorted_and_noted() {
    let row = |at: u32, tokens: u32| {
        format!("{{\"timestamp\":{at},\"input_length\":{tokens},\"output_length\":1}}\n")
    };
    let text = [row(5, 1), row(3, 2), row(5, 3), row(3, 4)].concat();
    let read = read_text(&text);
    let order: Vec<_> = read.workload.requests.iter().map(|r| r.prompt_tokens).collect();
    assert_eq!((order, read.out_of_order), (vec![2, 4, 1, 3], 2));
    assert!(read.notes[0].ends_with("places: 2"), "{:?}", read.notes);
}

#[test]
fn azure_with_and_without_a_header_and_with_offsets() {
    let read = read_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n\
         2023-11-16 18:15:50.9951690,396,109\r\nyesterday,1,2\n2023-11-16 18:15:51,1\n2023-11-16 18:15:51,x,1\n",
    );
    assert_eq!(read.format, Format::Azure);
    let second = &read.workload.requests[1];
    assert_eq!(
        (second.at, second.prompt_tokens),
        (Duration::from_nanos(4_314_579_000), 396)
    );
    assert_eq!(
        bad(&read),
        [
            "line 4: `TIMESTAMP` must be a date as in 2023-11-16 18:15:46.6805900: yesterday",
            "line 5: `GeneratedTokens` is missing: the row has too few columns: 2023-11-16 18:15:51,1",
            "line 6: `ContextTokens` must be a whole number of tokens below 2^32: x",
        ]
    );
    let read = read_text("2024-05-10 00:00:00.5+00:00,10,20\n2024-05-10 02:00:01.5+02:00,1,2\n");
    assert_eq!(read.workload.requests[1].at, Duration::from_secs(1));
    let read = read_text("GeneratedTokens,TIMESTAMP,ContextTokens\n7,2024-05-10 00:00:00,10\n");
    assert_eq!(read.workload.requests[0].prompt_tokens, 10);
}

#[test]
fn llmservingsim() {
    let read = read_text(
        r#"{"arrival_ns": 46926808, "input_toks": 40, "output_toks": 20, "hash_ids": [0, 1, 2]}
           {"arrival_ns": 46926809, "input_toks": 40, "output_toks": 20}"#,
    );
    assert_eq!(
        (read.format, read.workload.block_tokens),
        (Format::LlmServingSim, 16)
    );
    assert_eq!(read.workload.requests[0].at, Duration::from_nanos(46_926_808));
    assert!(
        bad(&read)[0].starts_with("line 2: `hash_ids` is missing"),
        "{:?}",
        read.bad
    );
}

#[test]
fn the_gateways_log() {
    let read = read_text(concat!(
        r#"{"time":"2026-05-04T10:00:02.500Z","request_id":"b","trace_id":"1","key":"k1","tenant":"shop","prompt_tokens":10,"completion_tokens":5,"usage_estimated":true,"status":200,"outcome":"ok"}"#,
        "\n",
        r#"{"time":"2026-05-04T10:00:01Z","request_id":"a","key":"k1","prompt_tokens":3,"completion_tokens":0,"status":200}"#,
        "\n",
        r#"{"time":"2026-05-04T10:00:03Z","request_id":"c","status":503,"outcome":"unavailable"}"#,
        "\n",
        r#"{"time":"soon","request_id":"d"}"#,
    ));
    assert_eq!(read.format, Format::Gateway);
    let [first, second] = &read.workload.requests[..] else {
        panic!("two requests")
    };
    assert_eq!((first.at, first.prompt_tokens), (Duration::ZERO, 3));
    assert_eq!(second.at, Duration::from_millis(1500));
    assert_eq!(first.session, second.session);
    let tenant = |place: u16| &*read.workload.tenants[usize::from(place)];
    assert_eq!((tenant(first.tenant), tenant(second.tenant)), ("k1", "shop"));
    assert_eq!(
        bad(&read),
        [
            "line 3: no token counts, so its size is not known: status 503, outcome unavailable",
            "line 4: `time` must be a date as in 2026-05-04T10:00:00Z: soon",
        ]
    );
    assert!(
        read.notes
            .iter()
            .any(|note| note.ends_with("the gateway estimated: 1"))
    );
}

#[test]
fn what_cannot_be_read_says_which_formats_exist() {
    let fails = |text: &str, format| read(text.as_bytes(), "test", format).unwrap_err().to_string();
    for error in [
        fails("a,b\n1,2\n", None),
        fails("", None),
        fails("{}\n", Some(Format::Mooncake)),
        fails("TIMESTAMP,ContextTokens,GeneratedTokens\n", None),
        fails("TIMESTAMP,Tokens\n", Some(Format::Azure)),
    ] {
        assert!(
            Format::ALL.iter().all(|format| error.contains(format.name())),
            "{error}"
        );
    }
    assert!("mooncake".parse::<Format>().is_ok());
    assert!(
        "moon"
            .parse::<Format>()
            .unwrap_err()
            .contains("there are mooncake, azure")
    );
}

#[test]
fn a_first_line_that_is_broken_does_not_hide_the_format() {
    let read = read_text(&format!("garbage\n{MOONCAKE}\n"));
    assert_eq!(
        (read.format, read.bad_total, read.workload.requests.len()),
        (Format::Mooncake, 1, 1)
    );
}

#[test]
fn lines_that_are_no_text_or_endless_are_bad_rows() {
    let mut bytes = format!("{MOONCAKE}\n").into_bytes();
    bytes.extend_from_slice(b"\xff\xfe\n");
    bytes.extend(std::iter::repeat_n(b'x', 17 << 20));
    bytes.extend_from_slice(format!("\n{MOONCAKE}\n").as_bytes());
    let read = read(&bytes[..], "test", None).unwrap();
    assert_eq!((read.workload.requests.len(), read.bad_total), (2, 2));
    assert!(bad(&read)[0].starts_with("line 2: not UTF-8"));
    assert!(bad(&read)[1].starts_with("line 3: a line longer than 16 MiB: xxx"));
}

#[test]
fn what_is_written_reads_back_the_same() {
    let text = concat!(
        r#"{"timestamp":10,"input_length":40,"output_length":8,"hash_ids":[0,1,2],"block_tokens":16,"session":7,"tenant":"a","class":"chat","slo":{"ttft_ms":1000},"max_concurrency":4}"#,
        "\n",
        r#"{"timestamp":12.000001,"input_length":99,"output_length":8,"hash_ids":[0,3],"block_tokens":16,"session":7,"tenant":"b","class":"batch","slo":{"tpot_ms":50,"e2e_ms":2500.5}}"#,
        "\n",
        r#"{"timestamp":2010,"input_length":60,"output_length":8,"hash_ids":[0,1,2,4],"block_tokens":16,"session":7,"tenant":"a","class":"chat","after":0,"think_ms":2000}"#,
        "\n",
    );
    let read = read_text(text);
    assert_eq!(bad(&read), [""; 0]);
    assert_eq!(read.workload.requests[2].after, Some(0));
    assert_eq!(read.workload.requests[2].at, Duration::from_secs(2));
    assert_eq!(
        read.workload.classes[1].slo.per_token,
        Some(Duration::from_millis(50))
    );
    let mut written = Vec::new();
    write_mooncake(&read.workload, &mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), text);
}

#[test]
fn a_source_that_fails_says_where() {
    struct Failing(bool);
    impl std::io::Read for Failing {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                return Err(std::io::Error::other("the disk is gone"));
            }
            let row = format!("{MOONCAKE}\n");
            into[..row.len()].copy_from_slice(row.as_bytes());
            Ok(row.len())
        }
    }
    let source = std::io::BufReader::new(Failing(false));
    let error = read(source, "test", None).unwrap_err().to_string();
    assert_eq!(error, "reading stopped at line 2: the disk is gone");
}

/// A first line with a byte order mark and nothing else is blank.
#[test]
fn a_lone_byte_order_mark_is_no_row() {
    let row = r#"{"timestamp":0,"input_length":5,"output_length":1,"hash_ids":[]}"#;
    let found = read(format!("\u{feff}\n{row}\n").as_bytes(), "any", None).unwrap();
    assert_eq!((found.workload.requests.len(), found.bad_total), (1, 0));
}

/// A row of some format, whole or not.
fn some_row() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        "[0-9]{1,12}",
        "-?[0-9]{1,3}\\.[0-9]",
        "null",
        "\"[a-z]{0,3}\"",
        "[0-9]e[0-9]{1,3}"
    ];
    let list = prop::collection::vec(0_u64..9, 0..5);
    prop_oneof![
        (number.clone(), number.clone(), number.clone(), list.clone()).prop_map(|(at, input, output, ids)| format!(
            r#"{{"timestamp":{at},"input_length":{input},"output_length":{output},"hash_ids":{ids:?},"after":{}}}"#,
            ids.first().map_or("null".to_owned(), u64::to_string),
        )),
        (number.clone(), number.clone(), list).prop_map(|(at, input, ids)| format!(
            r#"{{"arrival_ns":{at},"input_toks":{input},"output_toks":7,"hash_ids":{ids:?}}}"#
        )),
        (number.clone(), number).prop_map(|(input, output)| format!(
            r#"{{"time":"2026-05-04T10:00:00Z","request_id":"1","prompt_tokens":{input},"completion_tokens":{output}}}"#
        )),
        "2023-11-16 18:15:4[0-9],[0-9x]{1,5},[0-9]{0,3}",
        "[^\n]{1,20}",
    ]
}

proptest! {
    /// Whatever is in a file: every row is a request or a bad row, and requests keep the promises of their type.
    #[test]
    fn nothing_is_lost_and_nothing_panics(
        rows in prop::collection::vec(some_row(), 1..12),
        format in prop::option::of(prop::sample::select(Format::ALL.to_vec())),
    ) {
        let text = rows.join("\n");
        // A byte order mark at the start of a file is no part of its first row.
        let rows = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let lines = rows.lines().filter(|line| !line.trim_ascii().is_empty()).count() as u64;
        match read(text.as_bytes(), "any", format) {
            Ok(read) => {
                let requests = &read.workload.requests;
                prop_assert_eq!(requests.len() as u64 + read.bad_total, lines);
                prop_assert_eq!(read.bad.len() as u64, read.bad_total);
                for (place, request) in requests.iter().enumerate() {
                    prop_assert!(request.prompt_tokens > 0);
                    prop_assert!(request.after.is_none_or(|before| (before as usize) < place));
                }
                let free = requests.iter().filter(|request| request.after.is_none());
                prop_assert!(free.is_sorted_by_key(|request| request.at));
            }
            Err(ReadError::Nothing { rows, .. }) => prop_assert_eq!(rows, lines),
            Err(error) => prop_assert!(matches!(error, ReadError::Unknown(_) | ReadError::Empty), "{}", error),
        }
    }
}
