use super::*;

fn tokens(text: &str) -> u64 {
    let mut counted = TextTokens::default();
    counted.add(text);
    counted.tokens()
}

/// A text of `texts/`, and its tokens by o200k, by Qwen's vocabulary, and by DeepSeek V3's.
struct Sample(&'static str, &'static str, [u32; 3]);

/// Measured with tiktoken 0.14 and tokenizers 0.23.
const SAMPLES: [Sample; 13] = [
    Sample("English", include_str!("texts/english.txt"), [108, 108, 108]),
    Sample("English", include_str!("texts/question.txt"), [86, 90, 88]),
    Sample("English", include_str!("texts/markdown.txt"), [111, 111, 115]),
    Sample("Chinese", include_str!("texts/chinese.txt"), [108, 84, 78]),
    Sample("Chinese", include_str!("texts/chinese_chat.txt"), [94, 75, 66]),
    Sample(
        "Chinese",
        include_str!("texts/chinese_technical.txt"),
        [94, 80, 73],
    ),
    Sample("code", include_str!("texts/rust.txt"), [106, 106, 116]),
    Sample("code", include_str!("texts/python.txt"), [137, 136, 143]),
    Sample("JSON", include_str!("texts/schema.txt"), [102, 98, 104]),
    Sample("JSON", include_str!("texts/records.txt"), [161, 186, 164]),
    Sample("Russian", include_str!("texts/russian.txt"), [79, 101, 94]),
    Sample("Japanese", include_str!("texts/japanese.txt"), [97, 80, 87]),
    Sample("German", include_str!("texts/german.txt"), [66, 87, 80]),
];

impl Sample {
    /// What the three count on average.
    fn real(&self) -> f64 {
        f64::from(self.2.iter().sum::<u32>()) / 3.0
    }

    fn error(&self, estimate: f64) -> f64 {
        (estimate / self.real() - 1.0).abs()
    }
}

fn median(mut errors: Vec<f64>) -> f64 {
    errors.sort_by(f64::total_cmp);
    errors[errors.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "texts are short")]
fn as_float(count: u64) -> f64 {
    count as f64
}

#[test]
fn estimates_are_near_what_vocabularies_count() {
    for sample in &SAMPLES {
        let estimate = tokens(sample.1);
        let error = sample.error(as_float(estimate));
        assert!(error < 0.2, "{}: {estimate} for {}", sample.0, sample.real());
        for (vocabulary, real) in ["o200k", "Qwen", "DeepSeek V3"].iter().zip(sample.2) {
            let error = (as_float(estimate) / f64::from(real) - 1.0).abs();
            assert!(error < 0.3, "{} by {vocabulary}: {estimate} for {real}", sample.0);
        }
    }
    for kind in ["English", "Chinese", "code", "JSON"] {
        let of_kind = SAMPLES.iter().filter(|sample| sample.0 == kind);
        let errors = of_kind
            .map(|sample| sample.error(as_float(tokens(sample.1))))
            .collect();
        let median = median(errors);
        assert!(median <= 0.15, "{kind}: {median:.3}");
    }
}

/// One number of characters a token, whatever it is, is far off on some of them; so is one number of bytes a token, though
/// by less.
#[test]
fn no_constant_of_characters_per_token_would_do() {
    let ours = SAMPLES
        .iter()
        .map(|sample| sample.error(as_float(tokens(sample.1))));
    let ours = ours.fold(0.0, f64::max);
    for tenths in 8..80 {
        let constant = f64::from(tenths) / 10.0;
        let worst = |len: fn(&str) -> usize| {
            let errors = SAMPLES.iter().map(|sample| {
                let len = u32::try_from(len(sample.1)).unwrap();
                sample.error(f64::from(len) / constant)
            });
            errors.fold(0.0, f64::max)
        };
        let characters = worst(|text| text.chars().count());
        assert!(characters > 0.5, "{constant} characters a token: {characters:.2}");
        let bytes = worst(str::len);
        assert!(
            bytes > 1.3 * ours,
            "{constant} bytes a token: {bytes:.2}, ours {ours:.2}"
        );
    }
}

#[test]
fn runs_cost_what_they_are() {
    for (text, expect) in [
        ("", 0),
        ("the quick brown fox", 4),
        ("internationalisation", 3),
        ("getUserNameById", 6),
        ("HTTP_PROXY", 4),
        ("it's what we've got", 6),
        ("déjà vu", 4),
        ("2026", 3),
        ("in 1999 and 2000", 8),
        ("你好世界", 3),
        ("こんにちは", 3),
        ("привет", 2),
        ("안녕하세요", 4),
        ("});", 1),
        ("a\n\n    b", 4),
        ("🙂🙂", 4),
        ("a, b.", 3),
    ] {
        assert_eq!(tokens(text), expect, "{text:?}");
    }
}

#[test]
fn pieces_count_as_their_whole() {
    for sample in &SAMPLES {
        let whole = tokens(sample.1);
        for size in 1..8 {
            let mut counted = TextTokens::default();
            for piece in sample.1.as_bytes().chunks(size) {
                counted.add_bytes(piece);
            }
            assert_eq!(counted.tokens(), whole, "{size}");
        }
    }
}

#[test]
fn no_byte_costs_more_than_two_tokens() {
    for first in 0..=u8::MAX {
        for second in 0..=u8::MAX {
            let mut counted = TextTokens::default();
            counted.add_bytes(&[first, second, first, second]);
            assert!(counted.tokens() <= 8, "{first:#x} {second:#x}");
        }
    }
}

#[test]
fn the_table_leads_to_states_that_it_has() {
    for state in 0..costs::STATES {
        for byte in 0..=u8::MAX {
            let class = usize::from(costs::CLASSES[usize::from(byte)]);
            let [_, next] = costs::STEPS[usize::from(state) * costs::ROW + class].to_le_bytes();
            assert!(next < costs::STATES, "{state} {byte:#x}");
        }
    }
}

#[test]
fn texts_of_answers_count_and_their_ids_do_not() {
    let answer = br#"{"id":"x","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"the quick brown fox"}}]}"#;
    let usage = estimated_usage(Api::ChatCompletions, answer, || 3).unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (3, 4));
}
