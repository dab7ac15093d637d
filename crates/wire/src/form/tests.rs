use super::*;
use proptest::prelude::*;

fn scan(body: &[u8], cuts: &[usize]) -> Result<FormScanner, FormError> {
    let mut scanner = FormScanner::new("b0");
    let mut from = 0;
    for cut in cuts.iter().copied().chain([body.len()]) {
        scanner.feed(&body[from..cut])?;
        from = cut;
    }
    scanner.finish()?;
    Ok(scanner)
}

fn part(name: &str, value: &str) -> String {
    format!("--b0\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
}

fn form(parts: &[(&str, &str)]) -> String {
    let parts: String = parts.iter().map(|(name, value)| part(name, value)).collect();
    format!("{parts}--b0--\r\n")
}

type Facts = Result<(Option<FormModel>, bool, Option<usize>), FormError>;

fn facts(body: &[u8], cuts: &[usize]) -> Facts {
    scan(body, cuts).map(|scanner| (scanner.model.clone(), scanner.stream, scanner.first))
}

#[test]
fn the_model_is_found_wherever_it_stands() {
    let file = "\r\n--b\r\n--b\r--b0 --b0\r\n\r--b0\r\n-\r\n--\n--b0";
    for parts in [
        [("model", "m/1"), ("file", file), ("stream", "true")],
        [("file", file), ("stream", "True"), ("model", "m/1")],
        [("stream", "true"), ("model", "m/1"), ("file", file)],
    ] {
        let body = form(&parts);
        let scanner = scan(body.as_bytes(), &[]).unwrap();
        let model = scanner.model().unwrap();
        assert_eq!((model.name.as_str(), &body[model.place.clone()]), ("m/1", "m/1"));
        assert!(scanner.stream());
    }
}

#[test]
fn of_several_streams_the_last_counts() {
    let long = "x".repeat(STREAM_MAX + 1);
    for (last, expect) in [("true", true), ("false", false), ("", false), (&*long, false)] {
        for first in ["true", "false", &*long] {
            let body = form(&[("stream", first), ("stream", last)]);
            let scanner = scan(body.as_bytes(), &[]).unwrap();
            assert_eq!(scanner.stream(), expect, "{first}, {last}");
        }
    }
}

#[test]
fn every_cut_gives_the_same() {
    let bodies = [
        form(&[
            ("file", "\r\n--b\r\r\n--b1\r\n-"),
            ("model", "m"),
            ("stream", "true"),
        ]),
        format!(
            "before\r\n{}after\r\n--b0\r\nx",
            form(&[("model", "mm"), ("x", "")])
        ),
        form(&[("model", "m"), ("model", "m")]),
        form(&[("a", "\r\n--b0x")]),
        "--b0\r\n\r\nx\r\n--b0--".to_owned(),
        "--b0\r\nContent-Disposition: form-data; name=a\r\n\r\n--b0--".to_owned(),
        form(&[("model", "m")]).replace("--b0--", "--b0-"),
    ];
    for body in &bodies {
        let whole = facts(body.as_bytes(), &[]);
        for one in 0..=body.len() {
            assert_eq!(facts(body.as_bytes(), &[one]), whole, "cut at {one} of {body:?}");
            for two in one..=body.len() {
                assert_eq!(
                    facts(body.as_bytes(), &[one, two]),
                    whole,
                    "cut at {one}, {two} of {body:?}"
                );
            }
        }
        let bytes: Vec<usize> = (0..body.len()).collect();
        assert_eq!(facts(body.as_bytes(), &bytes), whole, "byte by byte: {body:?}");
    }
}

#[test]
fn a_model_can_be_put_in_before_all_parts() {
    for before in ["", "\r\n", "a preamble\r\n"] {
        let body = format!("{before}{}", form(&[("file", "x")]));
        let (at, part) = scan(body.as_bytes(), &[]).unwrap().model_part("new").unwrap();
        let mut with = body.clone();
        with.insert_str(at, &part);
        let scanner = scan(with.as_bytes(), &[]).unwrap();
        assert_eq!(scanner.model().unwrap().name, "new", "{with:?}");
        assert!(
            with.ends_with(&body[before.len()..]) && with.starts_with(before),
            "{with:?}"
        );
    }
}

#[test]
fn what_readers_would_take_differently_is_refused() {
    let with_head = |head: &str| format!("--b0\r\n{head}\r\n\r\nm\r\n--b0--");
    let check = |body: &str, expect: FormError| {
        assert_eq!(facts(body.as_bytes(), &[]), Err(expect), "{body:?}");
    };
    check(
        &form(&[("model", "a"), ("model", "a")]),
        FormError::DuplicateModel,
    );
    check(&form(&[("a", "x\r\n--b0x\r\n")]), FormError::BrokenBoundary);
    check(
        &form(&[("a", "b")]).replace("\r\n", "\n"),
        FormError::BrokenBoundary,
    );
    check(
        "--b0\r\nContent-Disposition: form-data; name=a\r\n\r\n--b0--",
        FormError::BrokenBoundary,
    );
    check("", FormError::Unclosed);
    check("no form at all", FormError::Unclosed);
    check(
        &form(&[("model", " ")]),
        FormError::BadModel("is empty: write the name of a model into it"),
    );
    check(
        &form(&[("model", &"x".repeat(MODEL_MAX + 1))]),
        FormError::BadModel("is too long for the name of a model"),
    );
    for head in [
        "X: 1",
        "Content-Disposition: form-data",
        "Content-Disposition: form-data; name=model; name=other",
        "Content-Disposition: form-data; name=other; name*=utf-8''model",
        "Content-Disposition: form-data; name=\"model",
        "Content-Disposition: form-data; name=\"model\" x",
        "Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=model",
        "Content-Disposition: form-data;\r\n name=model",
        "Content-Disposition : form-data; name=model",
        "Content-Disposition: form-data; name=a\nContent-Disposition: form-data; name=model",
        "--b0: form-data\r\nContent-Disposition: form-data; name=a",
    ] {
        let got = facts(with_head(head).as_bytes(), &[]);
        assert!(matches!(got, Err(FormError::BadHead(_))), "{head:?}: {got:?}");
    }
    for head in [
        "Content-Disposition: form-data; name=model; filename=a",
        "Content-Disposition: form-data; name=model\r\nContent-Transfer-Encoding: base64",
    ] {
        let got = facts(with_head(head).as_bytes(), &[]);
        assert!(matches!(got, Err(FormError::BadModel(_))), "{head:?}: {got:?}");
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let mut scanner = FormScanner::new("b0");
    scanner.feed(b"--b0\r\nX: ").unwrap();
    let long = vec![b'x'; HEAD_MAX];
    assert_eq!(scanner.feed(&long), Err(FormError::BadHead("is too large")));
    let mut scanner = FormScanner::new("b0");
    let empty = part("a", "");
    let fed = (0..=PARTS_MAX).try_for_each(|_| scanner.feed(empty.as_bytes()));
    assert_eq!(fed, Err(FormError::TooManyParts));
    let mut scanner = FormScanner::new("b0");
    scanner
        .feed(part("stream", &"x".repeat(100_000)).as_bytes())
        .unwrap();
    assert!(scanner.kept.capacity() < 64 * 1024);
}

#[test]
fn heads_are_read_as_clients_write_them() {
    for head in [
        "Content-Disposition: form-data; name=\"model\"",
        "content-disposition:form-data;name=model",
        "Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; NAME=\"model\"\r\nContent-Length: 1",
        "Content-Disposition: form-data; name=\"model\"\r\nContent-Transfer-Encoding: 8bit",
    ] {
        let body = format!("--b0\r\n{head}\r\n\r\nm\r\n--b0--");
        assert_eq!(
            scan(body.as_bytes(), &[]).unwrap().model().unwrap().name,
            "m",
            "{head}"
        );
    }
    let file = r#"Content-Disposition: form-data; name="file"; filename="C:\a\"b;name=model.wav""#;
    let body = format!("--b0\r\n{file}\r\n\r\nm\r\n--b0--");
    assert_eq!(scan(body.as_bytes(), &[]).unwrap().model(), None);
}

#[test]
fn boundaries_come_from_the_content_type() {
    let check = |text: &str, expect: Result<Option<&str>, FormError>| {
        let got = boundary(text.as_bytes());
        assert_eq!(got, expect.map(|found| found.map(str::to_owned)), "{text}");
    };
    check("multipart/form-data; boundary=abc", Ok(Some("abc")));
    check(
        "Multipart/Form-Data;charset=utf-8; Boundary=\"a b;c\"",
        Ok(Some("a b;c")),
    );
    check("application/json", Ok(None));
    check("multipart/mixed; boundary=a", Ok(None));
    for bad in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=\"a",
        "multipart/form-data; boundary=\"a \"",
        "multipart/form-data; boundary=\"\u{e9}\"",
    ] {
        check(bad, Err(FormError::NoBoundary));
    }
    for twice in [
        "multipart/form-data; boundary=a; boundary=b",
        "multipart/form-data; boundary=XX; Boundary=XX",
        "multipart/form-data; boundary=; boundary=b",
    ] {
        check(twice, Err(FormError::TwoBoundaries));
    }
    assert!(FormError::TwoBoundaries.to_string().contains("more than once"));
}

proptest! {
    /// Whatever comes, cut anywhere: no panic, and the same as in one piece.
    #[test]
    fn any_bytes_cut_anywhere(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "\r", "\n", "\r\n", "-", "--", "--b0", "\r\n--b0", "\r\n--b0\r\n", "--b0--", "b0", " ", "x", ":", ";",
            "Content-Disposition: form-data; name=\"model\"\r\n\r\n", "name=model", "\r\n\r\n", "true", "\u{e9}",
        ]), 0..24),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let body = format!("--b0\r\n{}", pieces.concat());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = facts(body.as_bytes(), &[]);
        prop_assert_eq!(&facts(body.as_bytes(), &cuts), &whole);
        if let Ok((Some(model), ..)) = whole {
            prop_assert_eq!(&body[model.place], &model.name);
        }
    }

    #[test]
    fn any_content_is_passed_over(content in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assume!(memchr::memmem::find(&content, b"\r\n--b0").is_none() && !content.starts_with(b"--b0"));
        let mut body = b"--b0\r\nContent-Disposition: form-data; name=file; filename=f\r\n\r\n".to_vec();
        body.extend_from_slice(&content);
        body.extend_from_slice(b"\r\n");
        let model_at = body.len();
        body.extend_from_slice(form(&[("model", "m")]).as_bytes());
        let found = scan(&body, &[]).unwrap();
        prop_assert!(found.model().unwrap().place.start > model_at);
    }
}
