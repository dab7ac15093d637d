//! What a simulated engine says: words that read like prose about nothing, the same for the same seed.

use super::tokens::first_token;
use super::{Tokenizer, mix};

/// Each is at most seven letters, so that with its space it is one token.
const WORDS: &[&str] = &[
    "a", "about", "across", "after", "again", "all", "along", "always", "and", "answer", "any", "as", "at",
    "autumn", "balance", "beam", "because", "before", "between", "bridge", "bright", "but", "by", "careful",
    "carries", "clear", "close", "cloud", "coast", "common", "could", "counts", "cross", "day", "depends",
    "drift", "each", "early", "enough", "even", "every", "exact", "few", "field", "finds", "first",
    "follows", "for", "found", "from", "gentle", "gives", "glass", "grain", "greater", "half", "harbour",
    "has", "heavy", "here", "hill", "holds", "hour", "if", "in", "into", "is", "island", "it", "keeps",
    "lantern", "large", "later", "leads", "letter", "level", "light", "like", "little", "long", "makes",
    "many", "market", "measure", "mill", "more", "morning", "most", "near", "never", "next", "no", "north",
    "not", "number", "of", "often", "old", "on", "once", "one", "only", "open", "or", "other", "over",
    "paper", "part", "passes", "path", "place", "plain", "point", "quiet", "rain", "reach", "rest",
    "returns", "river", "road", "round", "scale", "second", "seems", "shared", "short", "side", "simple",
    "slow", "small", "so", "some", "stands", "steady", "still", "stone", "summer", "takes", "than", "that",
    "the", "their", "then", "there", "they", "third", "this", "through", "time", "to", "toward", "under",
    "until", "value", "village", "wait", "water", "weight", "well", "when", "where", "which", "while",
    "white", "whole", "wind", "winter", "with", "within", "word", "work", "yard", "year", "yet",
];

const SENTENCE_WORDS_MIN: u64 = 5;
const SENTENCE_WORDS_SPREAD: u64 = 10;

/// A text and where its tokens end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    /// The whole text.
    pub text: String,
    /// The end of each token in `text`, in bytes.
    pub ends: Vec<usize>,
}

impl Generated {
    /// A text that is given, with its tokens by the count of [`Tokenizer`].
    pub fn from_text(text: String) -> Self {
        let (mut ends, mut end) = (Vec::new(), 0);
        while end < text.len() {
            end += first_token(&text[end..]);
            ends.push(end);
        }
        Self { text, ends }
    }

    /// The text that tokens `from..to` add; beyond the end nothing.
    pub fn piece(&self, from: usize, to: usize) -> &str {
        let end = |tokens: usize| match tokens {
            0 => 0,
            n => self.ends.get(n - 1).copied().unwrap_or(self.text.len()),
        };
        self.text.get(end(from)..end(to)).unwrap_or_default()
    }
}

/// Text of exactly `tokens` tokens by the count of [`Tokenizer`].
pub fn generate(seed: u64, tokens: u32) -> Generated {
    let mut generated = Generated {
        text: String::new(),
        ends: Vec::with_capacity(tokens as usize),
    };
    let mut state = mix(seed);
    let mut words_left = 0;
    for index in 0..tokens {
        state = mix(state);
        if words_left == 0 && index > 0 {
            generated.text.push('.');
            words_left = u64::MAX;
        } else {
            let starts = words_left == 0 || words_left == u64::MAX;
            let word = WORDS[(state % WORDS.len() as u64) as usize];
            if index > 0 {
                generated.text.push(' ');
            }
            let (head, tail) = word.split_at(1);
            generated.text.push_str(&if starts {
                head.to_ascii_uppercase()
            } else {
                head.to_owned()
            });
            generated.text.push_str(tail);
            words_left = if starts {
                SENTENCE_WORDS_MIN + (state >> 32) % SENTENCE_WORDS_SPREAD
            } else {
                words_left - 1
            };
        }
        generated.ends.push(generated.text.len());
    }
    generated
}

/// Median and spread of the log-normal that [`draw_output_tokens`] draws from: the conversation part of the Azure
/// inference trace of 2023 (median 129 tokens, mean 211).
const OUTPUT_TOKENS_MEDIAN: f64 = 129.0;
const OUTPUT_TOKENS_SIGMA: f64 = 0.99;

/// How long an answer gets when nothing but its end limits it: one draw by Box and Muller's method, at least one.
pub fn draw_output_tokens(seed: u64) -> u32 {
    let unit = |value: u64| ((value >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let first = mix(seed);
    let (radius, angle) = (unit(first), unit(mix(first)));
    let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
    (OUTPUT_TOKENS_MEDIAN * (OUTPUT_TOKENS_SIGMA * normal).exp())
        .round()
        .clamp(1.0, 1e6) as u32
}

/// A unit vector for a text: the sum of one pseudo-random direction per token (feature hashing, Weinberger et al.
/// 2009), so that texts with words in common lie closer together.
pub fn embed(text: &str, dimensions: usize) -> Vec<f32> {
    let mut sum = vec![0.0f64; dimensions];
    for word in text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        let mut tokenizer = Tokenizer::new(1, 0);
        tokenizer.text(&word.to_lowercase());
        let mut state = tokenizer.fingerprint();
        for part in &mut sum {
            state = mix(state);
            *part += (state as f64 / u64::MAX as f64) - 0.5;
        }
    }
    let length = sum.iter().map(|part| part * part).sum::<f64>().sqrt();
    if length == 0.0 {
        let mut unit = vec![0.0; dimensions];
        if let Some(first) = unit.first_mut() {
            *first = 1.0;
        }
        return unit;
    }
    sum.iter().map(|part| (part / length) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::count_tokens;

    #[test]
    fn a_text_has_the_tokens_it_was_asked_for() {
        for tokens in [0, 1, 2, 7, 8, 500] {
            let generated = generate(42, tokens);
            assert_eq!(count_tokens(&generated.text), tokens, "{}", generated.text);
            let pieces: Vec<_> = (0..tokens as usize).map(|i| generated.piece(i, i + 1)).collect();
            assert!(pieces.iter().all(|piece| count_tokens(piece) == 1));
            assert_eq!(pieces.concat(), generated.text);
        }
    }

    #[test]
    fn a_given_text_has_the_tokens_of_its_words() {
        let generated = generate(9, 60);
        assert_eq!(Generated::from_text(generated.text.clone()), generated);
    }

    #[test]
    fn the_seed_decides_and_a_longer_text_begins_like_a_shorter_one() {
        assert_ne!(generate(1, 50).text, generate(2, 50).text);
        assert!(generate(1, 80).text.starts_with(&generate(1, 50).text));
    }

    #[test]
    fn drawn_lengths_have_the_median_and_mean_of_the_trace() {
        let mut drawn: Vec<_> = (0..20_000).map(draw_output_tokens).collect();
        drawn.sort_unstable();
        let mean = drawn.iter().map(|&n| f64::from(n)).sum::<f64>() / drawn.len() as f64;
        assert!(
            (120..140).contains(&drawn[drawn.len() / 2]),
            "{}",
            drawn[drawn.len() / 2]
        );
        assert!((195.0..225.0).contains(&mean), "{mean}");
    }

    #[test]
    fn texts_with_words_in_common_are_closer() {
        let dot =
            |a: &str, b: &str| -> f32 { embed(a, 256).iter().zip(embed(b, 256)).map(|(x, y)| x * y).sum() };
        assert!((dot("a red boat", "a red boat") - 1.0).abs() < 1e-4);
        assert!(dot("a red boat", "the red boat sails") > dot("a red boat", "tax law changes") + 0.2);
        assert_eq!(embed("", 3), [1.0, 0.0, 0.0]);
    }
}
