//! An approximate tokenizer.
//!
//! No vocabulary: a token is an optional space and up to seven ASCII letters, or up to three digits, or up to eight
//! white-space characters, or one other ASCII character, or other letters of up to four bytes. English comes out at
//! about 1.2 tokens a word, a little below what current models need; what matters here is that a longer text has more
//! tokens and that the tokens of a text do not depend on what follows, so that equal beginnings share blocks.

use super::mix;
use crate::engine::BlockHash;

const LETTERS_MAX: usize = 7;
const DIGITS_MAX: usize = 3;
const SPACES_MAX: usize = 8;
const OTHER_BYTES_MAX: usize = 4;

/// Bytes of the first token of `text`, which is not empty.
pub(super) fn first_token(text: &str) -> usize {
    let bytes = text.as_bytes();
    let run = |from: usize, max: usize, is: fn(&u8) -> bool| {
        bytes
            .iter()
            .skip(from)
            .take(max)
            .take_while(|byte| is(byte))
            .count()
    };
    let spaces = run(0, SPACES_MAX, u8::is_ascii_whitespace);
    let lead = usize::from(bytes.first() == Some(&b' ') && spaces == 1);
    let letters = run(lead, LETTERS_MAX, u8::is_ascii_alphabetic);
    if letters > 0 {
        return lead + letters;
    }
    if spaces > 0 {
        return spaces;
    }
    let digits = run(0, DIGITS_MAX, u8::is_ascii_digit);
    if digits > 0 {
        return digits;
    }
    let mut end = 0;
    for character in text.chars() {
        if end > 0 && (character.is_ascii() || end + character.len_utf8() > OTHER_BYTES_MAX) {
            break;
        }
        end += character.len_utf8();
        if character.is_ascii() {
            break;
        }
    }
    end
}

/// Tokens of a text on its own.
pub fn count_tokens(text: &str) -> u32 {
    let mut tokenizer = Tokenizer::new(1, 0);
    tokenizer.text(text);
    tokenizer.tokens()
}

/// Counts the tokens of a prompt that is fed to it piece by piece, and hashes its full blocks.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    block_size: u32,
    chain: u64,
    tokens: u32,
    blocks: Vec<BlockHash>,
}

impl Tokenizer {
    /// Prompts share blocks only under an equal `salt`.
    pub fn new(block_size: u32, salt: u64) -> Self {
        Self {
            block_size: block_size.max(1),
            chain: mix(salt),
            tokens: 0,
            blocks: Vec::new(),
        }
    }

    /// Adds text; a token never spans two calls.
    pub fn text(&mut self, mut text: &str) {
        while !text.is_empty() {
            let (token, rest) = text.split_at(first_token(text));
            let mut packed = [0; 8];
            for (to, from) in packed.iter_mut().zip(token.bytes()) {
                *to = from;
            }
            self.token(u64::from_le_bytes(packed));
            text = rest;
        }
    }

    /// Adds one token that no text contains, such as the mark of a role.
    pub fn special(&mut self, number: u8) {
        self.token(u64::from_le_bytes([0xff, number, 0, 0, 0, 0, 0, 0]));
    }

    /// Adds one token by its identity.
    pub fn token(&mut self, identity: u64) {
        self.chain = mix(self.chain ^ mix(identity));
        self.tokens = self.tokens.saturating_add(1);
        if self.tokens.is_multiple_of(self.block_size) {
            self.blocks.push(self.chain);
        }
    }

    /// Tokens so far.
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// A number that stands for everything added so far.
    pub fn fingerprint(&self) -> u64 {
        self.chain
    }

    /// Hashes of the full blocks so far.
    pub fn blocks(&self) -> &[BlockHash] {
        &self.blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(mut text: &str) -> Vec<&str> {
        let mut tokens = Vec::new();
        while !text.is_empty() {
            let (token, rest) = text.split_at(first_token(text));
            tokens.push(token);
            text = rest;
        }
        tokens
    }

    #[test]
    fn splits() {
        assert_eq!(
            split("Hello world, 12345"),
            ["Hello", " world", ",", " ", "123", "45"]
        );
        assert_eq!(split("internationally"), ["interna", "tionall", "y"]);
        assert_eq!(split("  a\n\nb"), ["  ", "a", "\n\n", "b"]);
        assert_eq!(split("日本 да"), ["日", "本", " ", "да"]);
        assert_eq!(count_tokens(""), 0);
    }

    proptest! {
        #[test]
        fn any_text_is_split_without_loss(text in any::<String>()) {
            let tokens = split(&text);
            prop_assert_eq!(tokens.concat(), text.as_str());
            prop_assert!(tokens.iter().all(|token| (1..=8).contains(&token.len())));
        }

        #[test]
        fn a_common_beginning_shares_its_full_blocks(head in "[a-z ]{0,300}", a in "[a-z]{1,40}", b in "[A-Z]{1,40}") {
            let hash = |tail: &str| {
                let mut tokenizer = Tokenizer::new(4, 1);
                tokenizer.text(&head);
                tokenizer.special(1);
                let shared = tokenizer.blocks().len();
                tokenizer.text(tail);
                tokenizer.text("the tail goes on for some more blocks");
                (shared, tokenizer)
            };
            let ((shared, first), (_, second)) = (hash(&a), hash(&b));
            prop_assert_eq!(&first.blocks()[..shared], &second.blocks()[..shared]);
            prop_assert!(first.blocks()[shared..].iter().all(|block| !second.blocks().contains(block)));
        }
    }

    #[test]
    fn another_salt_shares_nothing() {
        let blocks = |salt| {
            let mut tokenizer = Tokenizer::new(4, salt);
            tokenizer.text("one two three four five six seven eight");
            tokenizer.blocks().to_vec()
        };
        assert!(blocks(1).iter().zip(blocks(2)).all(|(a, b)| *a != b));
    }
}
