use super::*;

type Seen = (EventKind, Option<String>, Vec<u8>);

fn scan<'a>(scanner: &mut Scanner, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Seen> {
    let mut seen = Vec::new();
    for chunk in chunks {
        scanner.feed(chunk, |event| {
            seen.push((event.kind, event.name.map(str::to_owned), event.data.to_vec()))
        });
    }
    seen
}

fn data(name: Option<&str>, data: &str) -> Seen {
    (EventKind::Data, name.map(str::to_owned), data.as_bytes().to_vec())
}

fn comment() -> Seen {
    (EventKind::Comment, None, Vec::new())
}

/// The stream gives these events whole, a byte at a time and cut in two anywhere.
fn check(stream: &str, expect: &[Seen]) {
    let bytes = stream.as_bytes();
    assert_eq!(scan(&mut Scanner::new(), [bytes]), expect, "{stream:?}");
    assert_eq!(
        scan(&mut Scanner::new(), bytes.chunks(1)),
        expect,
        "{stream:?} by bytes"
    );
    for at in 0..bytes.len() {
        assert_eq!(
            scan(&mut Scanner::new(), [&bytes[..at], &bytes[at..]]),
            expect,
            "{stream:?} cut at {at}"
        );
    }
}

#[test]
fn line_ends_of_all_three_kinds() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = "event: a|data: 1||data:2||".replace('|', end);
        check(&stream, &[data(Some("a"), "1"), data(None, "2")]);
    }
    check(
        "data: 1\r\n\rdata: 2\n\r\ndata: 3\r\r",
        &[data(None, "1"), data(None, "2"), data(None, "3")],
    );
}

#[test]
fn fields_as_the_standard_reads_them() {
    check("data:x\n\n", &[data(None, "x")]);
    check("data:  x \n\n", &[data(None, " x ")]);
    check("data\n\n", &[data(None, "")]);
    check("data\ndata\n\n", &[data(None, "\n")]);
    check("data: {\"a\":\ndata: 1}\n\n", &[data(None, "{\"a\":\n1}")]);
    check("id: 7\nretry: 10\ndata: x\nfoo: y\nbar\n\n", &[data(None, "x")]);
    check(
        "event: a\nevent: b\ndata: x\n\ndata: y\n\n",
        &[data(Some("b"), "x"), data(None, "y")],
    );
    check("event:\ndata: x\n\n", &[data(None, "x")]);
    check("Data: x\n data: y\n\n", &[comment()]);
    check("\n\n\ndata: x\n\n\n", &[data(None, "x")]);
}

#[test]
fn comments_are_told_apart() {
    check(
        ": ping\n\ndata: x\n\n:\n\n",
        &[comment(), data(None, "x"), comment()],
    );
    check(": one\n: two\ndata: x\n: three\n\n", &[data(None, "x")]);
    check(":data: x\n\n", &[comment()]);
    check("id: 3\n\n", &[comment()]);
}

#[test]
fn byte_order_marks_and_unicode() {
    check("\u{feff}data: x\n\n", &[data(None, "x")]);
    check("\u{feff}\u{feff}data: x\n\n", &[comment()]);
    check(
        "data: a\u{2028}b\u{2029}c\u{85}d\n\n",
        &[data(None, "a\u{2028}b\u{2029}c\u{85}d")],
    );
    check(
        "data: h\u{e9}llo 你好 🙂\n\n",
        &[data(None, "h\u{e9}llo 你好 🙂")],
    );
    let looks_like_a_mark = [b"\xef\xbbdata: x\n\ndata: y\n\n".as_slice()];
    assert_eq!(
        scan(&mut Scanner::new(), looks_like_a_mark),
        [comment(), data(None, "y")]
    );
}

#[test]
fn boundaries() {
    let check = |stream: &[u8], expect: bool| {
        let mut scanner = Scanner::new();
        scan(&mut scanner, [stream]);
        assert_eq!(
            scanner.at_boundary(),
            expect,
            "{:?}",
            String::from_utf8_lossy(stream)
        );
        let mut scanner = Scanner::new();
        scan(&mut scanner, stream.chunks(1));
        assert_eq!(
            scanner.at_boundary(),
            expect,
            "{:?} by bytes",
            String::from_utf8_lossy(stream)
        );
    };
    check(b"", true);
    check(b"data: x", false);
    check(b"data: x\n", false);
    check(b"data: x\n\n", true);
    check(b"data: x\r\n\r", true);
    check(b"data: x\r\n\r\n", true);
    check(b"data: x\r\r", true);
    check(b"data: x\n\nd", false);
    check(b": ping\n", false);
    check(b": ping\n\n", true);
    check(b"\xef\xbb", false);
    check(b"\xef\xbb\xbf", true);
    check(b"\n", true);
}

#[test]
fn an_unfinished_event_comes_at_the_end() {
    for stream in ["data: [DONE]", "data: [DONE]\n", "data: [DONE]\r"] {
        let mut scanner = Scanner::new();
        assert_eq!(scan(&mut scanner, [stream.as_bytes()]), []);
        let mut seen = Vec::new();
        scanner.finish(|event| seen.push(event.data.to_vec()));
        assert_eq!(seen, [b"[DONE]"]);
        assert!(scanner.at_boundary());
        scanner.finish(|event| panic!("{event:?} after the end"));
    }
}

#[test]
fn memory_is_bounded_and_the_next_event_is_found() {
    let big = "x".repeat(100);
    let stream = format!(
        "event: big\ndata: {big}\nevent: late\n\ndata: small\n\n: {big}\n: {big}\ndata: y\n\ndata: {half}\ndata: {half}\n\n",
        half = &big[..40],
    );
    let expect = [
        (EventKind::Oversized, Some("big".to_owned()), Vec::new()),
        data(None, "small"),
        data(None, "y"),
        (EventKind::Oversized, None, Vec::new()),
    ];
    for size in 1..stream.len() {
        let mut scanner = Scanner::with_event_bytes_max(64);
        let mut seen = Vec::new();
        for chunk in stream.as_bytes().chunks(size) {
            seen.extend(scan(&mut scanner, [chunk]));
            assert!(scanner.line.capacity() <= 256 && scanner.block.data.capacity() <= 256);
        }
        assert_eq!(seen, expect, "in chunks of {size}");
    }
}

#[test]
fn whole_events_are_passed_in_place() {
    let chunk = b"event: a\ndata: {\"x\":1}\n\ndata: [DONE]\n\n".as_slice();
    let range = chunk.as_ptr_range();
    let mut seen = 0;
    Scanner::new().feed(chunk, |event| {
        assert!(range.contains(&event.data.as_ptr()));
        seen += 1;
    });
    assert_eq!(seen, 2);
}
