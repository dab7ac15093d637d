//! Names of blocks that a request's tokens and an engine's events both give: a hash chained over blocks of tokens.
//!
//! Engines name blocks by hashes of their own, which differ by engine, version and process, so they mean nothing to
//! anybody else. What both sides know are the tokens: a block's name here is the XXH3 hash of its tokens under the name
//! of the block before it, so that equal names mean equal prefixes (but for one chance in 2^64 a pair). What an engine
//! adds to tokens to keep prefixes apart (an adapter, a salt, images) changes the names in the same way.

use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Seed of everything hashed here, so that names are not those of another use of the same function.
const ROOT: u64 = 0x7765_6967_6862_6b76;
/// Seed of what is added to tokens.
const ADDED: u64 = 0x6164_6465_6420_6b76;

/// The name before a prompt's first block: that of an adapter, or of the model itself.
#[must_use]
pub fn root(adapter: Option<&str>) -> u64 {
    match adapter {
        None => ROOT,
        Some(name) => xxh3_64_with_seed(name.as_bytes(), ROOT),
    }
}

/// The name of the block with `tokens` behind the block named `parent` (or behind a [`root`]). `added` is 0 where the
/// engine adds nothing to the tokens of this block, else what [`add`] made of it.
#[must_use]
pub fn block(parent: u64, tokens: &[u32], added: u64) -> u64 {
    let mut bytes: SmallVec<[u8; 512]> = SmallVec::with_capacity(tokens.len() * 4);
    for token in tokens {
        bytes.extend_from_slice(&token.to_le_bytes());
    }
    xxh3_64_with_seed(&bytes, parent.rotate_left(23) ^ added)
}

/// What is added to a block's tokens, one thing after the other; begins with 0. A salt (`cache_salt`) is added to the
/// first block of a prompt as its text.
#[must_use]
pub fn add(before: u64, thing: &[u8]) -> u64 {
    // Never 0, which is for nothing.
    xxh3_64_with_seed(thing, ADDED ^ before.rotate_left(11)) | 1
}

/// The names of a prompt's full blocks, in order; what is left over at its end has none. A `block_size` of 0 gives none.
pub fn blocks(root: u64, tokens: &[u32], block_size: usize, names: &mut Vec<u64>) {
    salted_blocks((root, 0), tokens, block_size, names);
}

/// As [`blocks`], with something added to the first block.
pub fn salted_blocks((root, added): (u64, u64), tokens: &[u32], block_size: usize, names: &mut Vec<u64>) {
    names.clear();
    if block_size == 0 {
        return;
    }
    names.reserve(tokens.len() / block_size);
    let (mut parent, mut added) = (root, added);
    for tokens in tokens.chunks_exact(block_size) {
        parent = block(parent, tokens, added);
        added = 0;
        names.push(parent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are compared between processes and versions of the gateway, so they do not change by accident.
    #[test]
    fn names_are_these() {
        let mut names = Vec::new();
        blocks(root(None), &[1, 2, 3, 4, 5], 2, &mut names);
        assert_eq!(names.len(), 2);
        assert_eq!(names[0], block(ROOT, &[1, 2], 0));
        assert_eq!(names[1], block(names[0], &[3, 4], 0));
        assert_eq!(names, [16_600_345_490_289_930_980, 12_055_589_524_019_146_506]);
    }

    #[test]
    fn what_differs_is_named_differently() {
        let mut seen = std::collections::HashSet::new();
        for root in [root(None), root(Some("")), root(Some("a")), root(Some("b"))] {
            for tokens in [&[1_u32, 2][..], &[2, 1], &[1], &[1, 2, 0]] {
                for added in [
                    0,
                    add(0, b"x"),
                    add(0, b"y"),
                    add(add(0, b"x"), b"y"),
                    add(add(0, b"y"), b"x"),
                ] {
                    assert!(seen.insert(block(root, tokens, added)));
                }
            }
        }
    }

    #[test]
    fn equal_prefixes_are_named_equally_and_nothing_behind_a_difference() {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut tokens: Vec<u32> = (0..100).collect();
        blocks(root(None), &tokens, 16, &mut a);
        tokens[40] = 7;
        blocks(root(None), &tokens, 16, &mut b);
        assert_eq!((a.len(), b.len()), (6, 6));
        assert_eq!(a[..2], b[..2]);
        assert!(a[2..].iter().zip(&b[2..]).all(|(a, b)| a != b));
    }

    #[test]
    fn blocks_of_no_size_are_none() {
        let mut names = vec![1];
        blocks(root(None), &[1, 2], 0, &mut names);
        assert!(names.is_empty());
    }
}
