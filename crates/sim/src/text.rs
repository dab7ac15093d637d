//! Text as the simulated engines see it: an approximate tokenizer that hashes blocks, and repeatable pseudo text.

mod pseudo;
mod tokens;

pub use pseudo::{Generated, draw_output_tokens, embed, generate};
pub use tokens::{Tokenizer, count_tokens};

/// One step of SplitMix64 (Steele, Lea and Flood 2014): a bijection that spreads every input bit over the output.
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
