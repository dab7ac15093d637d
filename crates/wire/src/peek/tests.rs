use super::*;
use bytes::Bytes;

fn peek(body: &str, wanted: &[&str]) -> Result<Peek, PeekError> {
    let wanted: Vec<_> = wanted.iter().map(|path| BodyPath::parse(path).unwrap()).collect();
    Peek::new(body.as_bytes(), &wanted)
}

#[test]
fn the_facts_of_a_request() {
    let body = r#"{"model": "qwen3", "stream":true,"stream_options":{"include_usage":false},"max_tokens":7,
        "prompt_cache_key":" k ","metadata":{"user_id":"u","n":1},"messages":[{"role":"user","content":"hi"}]}"#;
    let peek = peek(
        body,
        &[
            "prompt_cache_key",
            "metadata.user_id",
            "metadata.n",
            "metadata.user_id.x",
            "user",
        ],
    )
    .unwrap();
    assert_eq!(peek.model.as_deref(), Some("qwen3"));
    assert_eq!(&body[peek.model_token().unwrap()], "\"qwen3\"");
    assert!(peek.stream);
    assert_eq!(peek.include_usage, Some(false));
    assert_eq!(peek.max_tokens, Some(7));
    assert_eq!(
        peek.found,
        [Some("k".to_owned()), Some("u".to_owned()), None, None, None]
    );
}

#[test]
fn absent_and_null_are_defaults() {
    for body in [
        "{}",
        r#"{"stream":null,"stream_options":null,"max_tokens":null}"#,
        " \r\n\t{ } ",
    ] {
        let peek = peek(body, &["a"]).unwrap();
        assert_eq!(
            (peek.model, peek.stream, peek.include_usage, peek.max_tokens),
            (None, false, None, None)
        );
        assert_eq!(peek.found, [None]);
    }
}

#[test]
fn output_limits_in_their_order() {
    let check = |body: &str, expect| assert_eq!(peek(body, &[]).unwrap().max_tokens, expect, "{body}");
    check(r#"{"max_tokens":1,"max_completion_tokens":2}"#, Some(2));
    check(r#"{"max_output_tokens":3}"#, Some(3));
    check(r#"{"max_tokens":null,"max_output_tokens":3}"#, Some(3));
    check(r#"{"max_tokens":-1}"#, None);
    check(r#"{"max_tokens":1.5}"#, None);
    check(r#"{"max_tokens":"9"}"#, None);
}

#[test]
fn escaped_keys_and_values() {
    let peek = peek(
        r#"{"mod\u0065l":"a\"b\u00e9","m\u0065tadata":{"\u0075ser":"x"}}"#,
        &["metadata.user"],
    )
    .unwrap();
    assert_eq!(peek.model.as_deref(), Some("a\"bé"));
    assert_eq!(peek.found, [Some("x".to_owned())]);
}

#[test]
fn strings_that_do_not_count() {
    let check =
        |body: &str, path: &str| assert_eq!(peek(body, &[path]).unwrap().found, [None], "{body} {path}");
    check(r#"{"a":""}"#, "a");
    check(r#"{"a":" \t\n"}"#, "a");
    check(r#"{"a":["x"]}"#, "a");
    check(r#"{"a":[{"b":"x"}]}"#, "a.b");
    check(r#"{"a":[{"b":"x"}]}"#, "a.0.b");
    check(r#"{"a":"\ud800"}"#, "a");
    check(r#"{"a":{"b":"x"},"a":{}}"#, "a.b");
    check(r#"{"a":"x","a":3}"#, "a");
}

#[test]
fn errors_say_what_and_where() {
    let check = |body: &[u8], kind: PeekErrorKind, line, column| {
        let error = Peek::new(body, &[]).unwrap_err();
        assert_eq!(
            error,
            PeekError { kind, line, column },
            "{}",
            String::from_utf8_lossy(body)
        );
    };
    check(b"", PeekErrorKind::Empty, 1, 1);
    check(b" \n", PeekErrorKind::Empty, 1, 1);
    check(b"\n [1]", PeekErrorKind::NotAnObject, 2, 2);
    check(b"\xef\xbb\xbf{}", PeekErrorKind::NotAnObject, 1, 1);
    check(b"{\"model\":\"\xff\"}", PeekErrorKind::NotUtf8, 1, 11);
    check(
        b"{\"model\":\"a\",\n\"model\":\"a\"}",
        PeekErrorKind::DuplicateModel,
        2,
        9,
    );
    check(
        br#"{"model":"a","mod\u0065l":"a"}"#,
        PeekErrorKind::DuplicateModel,
        1,
        27,
    );
    check(b"{\"model\":7}", PeekErrorKind::ModelNotAString, 1, 10);
    check(b"{\"model\":null}", PeekErrorKind::ModelNotAString, 1, 10);
    check(br#"{"model":"\ud800"}"#, PeekErrorKind::ModelNotAString, 1, 10);
    check(b"{\"stream\":\"true\"}", PeekErrorKind::StreamNotABoolean, 1, 11);
    check(b"{\"stream\":1}", PeekErrorKind::StreamNotABoolean, 1, 11);
    let syntax = |body: &str, what: &str, line, column| {
        check(
            body.as_bytes(),
            PeekErrorKind::Syntax(what.to_owned()),
            line,
            column,
        );
    };
    syntax("{\"a\":1}\n}", "trailing characters", 2, 1);
    syntax("{\"a\":", "EOF while parsing a value", 1, 5);
    syntax("{\"a\":1,}", "trailing comma", 1, 8);
    syntax("{\"a\":NaN}", "expected value", 1, 6);
    syntax("{\"a\":[1,2}", "expected `,` or `]`", 1, 10);
    let error = peek("{\"a\":1,}", &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the body is not valid JSON: trailing comma (line 1, column 8)"
    );
}

#[test]
fn depth_is_no_danger() {
    let deep = "[".repeat(1_000_000);
    assert_eq!(peek(&deep, &[]).unwrap_err().kind, PeekErrorKind::NotAnObject);
    let open = format!("{{\"a\":{deep}");
    assert!(matches!(
        peek(&open, &["a.b"]).unwrap_err().kind,
        PeekErrorKind::Syntax(_)
    ));
    let closed = format!("{{\"a\":{deep}{},\"model\":\"m\"}}", "]".repeat(1_000_000));
    assert_eq!(peek(&closed, &["a.b"]).unwrap().model.as_deref(), Some("m"));
    let objects = format!("{}1{}", "{\"a\":".repeat(300_000), "}".repeat(300_000));
    assert_eq!(peek(&objects, &["a.a.a.a.a.a.a.a"]).unwrap().found, [None]);
}

#[test]
fn only_the_model_is_rewritten() {
    let check = |body: &'static str, new: &str, expect: &str| {
        let bytes = Bytes::from_static(body.as_bytes());
        let peek = peek(body, &[]).unwrap();
        assert_eq!(rewrite_model(&bytes, &peek, new), expect.as_bytes());
    };
    check(
        "{ \"seed\":9007199254740993, \"x\":[1.0, 1e400,-0,1E-7,12345678901234567890123],\"mod\\u0065l\" :\t\"m\", \"z\":null}\n",
        "a/\"b\"",
        "{ \"seed\":9007199254740993, \"x\":[1.0, 1e400,-0,1E-7,12345678901234567890123],\"mod\\u0065l\" :\t\"a/\\\"b\\\"\", \"z\":null}\n",
    );
    check(r#"{"model":"m"}"#, "m", r#"{"model":"m"}"#);
    check(" {\"a\":1}", "m", " {\"model\":\"m\",\"a\":1}");
    check("{ }", "m", "{\"model\":\"m\" }");
}

#[test]
fn paths_are_checked() {
    assert_eq!(
        BodyPath::parse("metadata.user_id").unwrap().to_string(),
        "metadata.user_id"
    );
    for bad in ["", ".", "a.", ".a", "a..b", "a.b.c.d.e.f.g.h.i"] {
        assert!(BodyPath::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn usage_is_asked_for_where_it_is_not_yet() {
    for (body, expect) in [
        (
            r#" {"stream":true ,"model":"m"}"#,
            r#" {"stream_options":{"include_usage":true},"stream":true ,"model":"m"}"#,
        ),
        (
            r#"{"stream":true,"stream_options": null }"#,
            r#"{"stream":true,"stream_options": {"include_usage":true} }"#,
        ),
        (
            r#"{"stream":true,"stream_options": { }}"#,
            r#"{"stream":true,"stream_options": {"include_usage":true }}"#,
        ),
        (
            r#"{"stream_options":{"other" : 1e400},"stream":true}"#,
            r#"{"stream_options":{"include_usage":true,"other" : 1e400},"stream":true}"#,
        ),
        (
            r#"{"stream_options":{"other":1,"include_usage" : false },"stream":true}"#,
            r#"{"stream_options":{"other":1,"include_usage" : true },"stream":true}"#,
        ),
        (
            r#"{"stream_options":{"include_usage":null},"stream":true}"#,
            r#"{"stream_options":{"include_usage":true},"stream":true}"#,
        ),
        // The last of two counts.
        (
            r#"{"stream_options":{"include_usage":true,"include_usage":false},"stream":true}"#,
            r#"{"stream_options":{"include_usage":true,"include_usage":true},"stream":true}"#,
        ),
    ] {
        let bytes = Bytes::from_static(body.as_bytes());
        let peek = Peek::new(body.as_bytes(), &[]).unwrap();
        let model = peek.model.clone();
        assert!(peek.can_ask_for_usage(), "{body}");
        let got = rewrite(&bytes, &peek, (model.as_deref().unwrap_or("n"), true));
        let expect = match model {
            Some(_) => expect.to_owned(),
            None => expect.replacen('{', r#"{"model":"n","#, 1),
        };
        assert_eq!(got, expect);
        assert_eq!(Peek::new(&got, &[]).unwrap().include_usage, Some(true));
    }
}

#[test]
fn usage_is_not_asked_for_twice_nor_where_it_makes_no_sense() {
    for body in [
        r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        r#"{"stream":true,"stream_options":{"include_usage":"yes"}}"#,
        r#"{"stream":true,"stream_options":[]}"#,
        r#"{"stream":false}"#,
        r#"{"stream":null,"stream_options":{}}"#,
        "{}",
    ] {
        let bytes = Bytes::from_static(body.as_bytes());
        let peek = Peek::new(body.as_bytes(), &[]).unwrap();
        assert!(!peek.can_ask_for_usage(), "{body}");
        assert_eq!(
            rewrite(&bytes, &peek, ("m", true)),
            rewrite_model(&bytes, &peek, "m")
        );
    }
}

#[test]
fn model_and_usage_are_written_in_either_order() {
    for (body, expect) in [
        (
            r#"{"stream":true,"model":"a","stream_options":{}}"#,
            r#"{"stream":true,"model":"bb","stream_options":{"include_usage":true}}"#,
        ),
        (
            r#"{"stream":true,"stream_options":null,"model":"a","n":1}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true},"model":"bb","n":1}"#,
        ),
        (
            r#"{"model":"a","stream":true}"#,
            r#"{"stream_options":{"include_usage":true},"model":"bb","stream":true}"#,
        ),
    ] {
        let bytes = Bytes::from_static(body.as_bytes());
        let peek = Peek::new(body.as_bytes(), &[]).unwrap();
        assert_eq!(rewrite(&bytes, &peek, ("bb", true)), expect);
    }
}
