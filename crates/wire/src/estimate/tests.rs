use super::*;

fn tokens(text: &str) -> u64 {
    let mut counted = TextTokens::default();
    counted.add(text);
    counted.tokens()
}

#[test]
fn every_class_has_its_length() {
    for (text, expect) in [
        ("", 0),
        ("the quick brown fox", 4),
        ("internationalisation", 3),
        ("it's déjà vu", 3),
        ("2026", 2),
        ("你好世界", 3),
        ("こんにちは", 4),
        ("привет", 2),
        ("});", 2),
        ("a\n\n    b", 4),
        ("🙂🙂", 4),
        ("a, b.", 4),
    ] {
        assert_eq!(tokens(text), expect, "{text:?}");
    }
}

#[test]
fn pieces_count_as_their_whole() {
    let text = "An answer, in 12345 pieces: 你好世界 привет {\"a\": [1.5]}\n\n🙂";
    for size in 1..8 {
        let mut counted = TextTokens::default();
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(size) {
            counted.add(&piece.iter().collect::<String>());
        }
        assert_eq!(counted.tokens(), tokens(text), "{size}");
    }
}

#[test]
fn prompts_of_every_dialect() {
    let text = tokens("the quick brown fox");
    for (body, expect) in [
        (
            r#"{"messages":[{"role":"user","content":"the quick brown fox"}]}"#,
            text + 4,
        ),
        (
            r#"{"system":"the quick brown fox","messages":[{"role":"user","content":[{"type":"text","text":"the quick brown fox"},{"type":"image","source":{"data":"AAAAAAAA"}}]}]}"#,
            2 * text + 4,
        ),
        (r#"{"prompt":"the quick brown fox"}"#, text),
        (
            r#"{"prompt":["the quick brown fox","the quick brown fox"]}"#,
            2 * text,
        ),
        (r#"{"prompt":[1,2,3,40000]}"#, 4),
        (
            r#"{"instructions":"the quick brown fox","input":"the quick brown fox"}"#,
            2 * text,
        ),
        (
            r#"{"input":[{"role":"user","content":"the quick brown fox"}],"model":"a b c"}"#,
            text + 4,
        ),
        (r#"{"prompt":"x","tools":[{"a":1}]}"#, 1 + tokens(r#"[{"a":1}]"#)),
        ("[]", 0),
        ("\u{1}", 0),
        ("{}", 0),
    ] {
        assert_eq!(prompt_tokens(body.as_bytes(), usize::MAX), expect, "{body}");
    }
    assert_eq!(prompt_tokens(b"\xff", 10), 0);
}

#[test]
fn a_sample_stands_for_a_long_prompt() {
    let words = "the quick brown fox jumps over the lazy dog\\n";
    for turns in [1, 10, 400] {
        let turn = format!(r#"{{"role":"user","content":"{}"}}"#, words.repeat(4000 / turns));
        let body = format!(r#"{{"messages":[{}]}}"#, vec![turn; turns].join(","));
        let whole = prompt_tokens(body.as_bytes(), usize::MAX);
        let sampled = prompt_tokens(body.as_bytes(), 16_000);
        assert!(
            sampled.abs_diff(whole) * 20 < whole,
            "{turns}: {sampled} for {whole}"
        );
    }
}
