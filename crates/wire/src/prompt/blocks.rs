//! Cutting a text that comes in pieces into hashed blocks, and estimating its tokens from a sample on the way.

use super::{BLOCK_BYTES_MIN, BLOCKS_MAX, Cut, Opening};
use crate::estimate::TextTokens;
use crate::fields::{Malformed, Reader};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes that stand in no text, since no UTF-8 has them: what follows is a message's role, its content, a field of its
/// own, the value of that, another item, a tool, token ids, or the hash of a medium.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum Mark {
    Role = 0xff,
    Content = 0xfe,
    Field = 0xfd,
    Value = 0xfc,
    Item = 0xfb,
    Tool = 0xfa,
    Ids = 0xf9,
    Medium = 0xf8,
}

pub(super) struct Blocks<'a> {
    /// The hashes so far.
    hashes: &'a mut Vec<u64>,
    /// What is not a whole block yet.
    pending: &'a mut Vec<u8>,
    /// The hash of all before [`Blocks::pending`].
    chain: u64,
    /// 0 where nothing is cut.
    size: usize,
    sample: Sample,
    /// Tokens that need no estimate.
    exact: u64,
    media: u32,
    /// Bytes of it all.
    bytes: u64,
}

/// Media that take as many blocks as they have tokens; further ones take their hash alone, so that many small ones in a body
/// are not a prompt of a hundred times its size.
const MEDIA_MAX: u32 = 64;

impl<'a> Blocks<'a> {
    pub(super) fn new(hashes: &'a mut Vec<u64>, pending: &'a mut Vec<u8>, cut: Option<Cut>) -> Self {
        Self {
            hashes,
            pending,
            chain: cut.map_or(0, |cut| cut.seed),
            size: cut.map_or(0, |cut| cut.block_bytes.max(BLOCK_BYTES_MIN)),
            sample: Sample::default(),
            exact: 0,
            media: 0,
            bytes: 0,
        }
    }

    /// Takes the strings, each a raw value, by which the client keeps prompts apart in the engine's cache.
    pub(super) fn salt(&mut self, salts: &[Option<&str>]) -> Result<(), Malformed> {
        for salt in salts.iter().flatten().filter(|salt| salt.starts_with('"')) {
            let mut chain = xxh3_64_with_seed(b"salt", self.chain);
            Reader::new(salt).text(|piece| {
                for part in piece.chunks(1) {
                    chain = xxh3_64_with_seed(part, chain);
                }
            })?;
            self.chain = chain;
        }
        Ok(())
    }

    /// Takes a piece of what a model reads.
    pub(super) fn text(&mut self, piece: &[u8]) {
        self.sample.take(piece);
        self.append(piece);
    }

    /// Takes what stands between two texts; no token spans it.
    pub(super) fn mark(&mut self, mark: Mark) {
        self.sample.counted.end_run();
        self.append(&[mark as u8]);
    }

    /// Takes one token by its id.
    pub(super) fn id(&mut self, id: u32) {
        self.exact += 1;
        self.append(&id.to_le_bytes());
    }

    /// Takes what a template puts between texts.
    pub(super) fn count(&mut self, tokens: u64) {
        self.exact += tokens;
    }

    /// Takes a medium by its hash, which stands for `tokens`.
    pub(super) fn medium(&mut self, hash: u64, tokens: u64) {
        self.exact += tokens;
        self.mark(Mark::Medium);
        self.media += 1;
        let times = if self.media > MEDIA_MAX { 1 } else { tokens / 2 };
        for _ in 0..times {
            self.append(&hash.to_le_bytes());
        }
    }

    /// Takes a piece that is hashed but not counted.
    pub(super) fn append(&mut self, mut piece: &[u8]) {
        self.bytes += piece.len() as u64;
        if self.size == 0 || self.hashes.len() >= BLOCKS_MAX {
            return;
        }
        if !self.pending.is_empty() {
            let missing = self.size - self.pending.len();
            let Some((head, rest)) = piece.split_at_checked(missing) else {
                self.pending.extend_from_slice(piece);
                return;
            };
            self.pending.extend_from_slice(head);
            self.chain = chained(self.chain, self.pending);
            self.hashes.push(self.chain);
            self.pending.clear();
            piece = rest;
        }
        let left = BLOCKS_MAX
            .saturating_sub(self.hashes.len())
            .saturating_mul(self.size);
        let whole = piece[..piece.len().min(left)].chunks_exact(self.size);
        self.pending.extend_from_slice(whole.remainder());
        for block in whole {
            self.chain = chained(self.chain, block);
            self.hashes.push(self.chain);
        }
    }

    /// All that was taken so far, as the opening of a conversation; none where nothing was, or nothing is cut.
    pub(super) fn so_far(&self) -> Option<Opening> {
        if self.hashes.is_empty() && self.pending.is_empty() {
            return None;
        }
        let hash = match self.pending.is_empty() {
            true => self.chain,
            false => chained(self.chain, self.pending),
        };
        Some(Opening {
            blocks: self.hashes.len(),
            hash,
        })
    }

    /// The tokens of all that was taken, and its bytes.
    pub(super) fn into_counts(mut self) -> (u64, u64) {
        self.sample.close();
        (self.exact + TextTokens::whole(self.sample.parts), self.bytes)
    }
}

/// The hash of a block behind all that `chain` stands for.
fn chained(chain: u64, block: &[u8]) -> u64 {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&chain.to_le_bytes());
    both[8..].copy_from_slice(&xxh3_64(block).to_le_bytes());
    xxh3_64(&both)
}

/// Bytes of text that are all counted, before it is sampled.
const COUNTED: u32 = 512;
/// Of each stretch behind them this many are counted and stand for the stretch.
const SAMPLED: u32 = 128;
/// The length of a stretch in a text of less than [`LONG`] bytes, and beyond.
const STRETCH: u32 = 1024;
const STRETCH_OF_LONG: u32 = 4096;
const LONG: u64 = 32 * 1024;

/// Counts the tokens of a few bytes in many. A sample goes on in the state in which the last one ended, so that words cut
/// at its two ends make up for each other.
struct Sample {
    counted: TextTokens,
    /// Parts of all stretches that are closed.
    parts: u64,
    /// Bytes of them.
    bytes: u64,
    /// Bytes taken of the stretch, of those that are counted in it, and of its end.
    at: u32,
    counted_len: u32,
    len: u32,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            counted: TextTokens::default(),
            parts: 0,
            bytes: 0,
            at: 0,
            counted_len: COUNTED,
            len: COUNTED,
        }
    }
}

impl Sample {
    fn take(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let counts = self.at < self.counted_len;
            let end = if counts { self.counted_len } else { self.len };
            let most = piece.len().min((end - self.at) as usize);
            let (now, rest) = piece.split_at(most);
            if counts {
                self.counted.add_bytes(now);
            }
            #[expect(clippy::cast_possible_truncation, reason = "no more than a stretch")]
            let taken = most as u32;
            self.at += taken;
            if self.at == self.len {
                self.close();
            }
            piece = rest;
        }
    }

    /// Ends the stretch: what was counted of it stands for all of it.
    fn close(&mut self) {
        let counted = self.counted.take_parts();
        let len = u64::from(self.at.min(self.counted_len)).max(1);
        self.parts += counted * u64::from(self.at) / len;
        self.bytes += u64::from(self.at);
        self.at = 0;
        self.counted_len = SAMPLED;
        self.len = if self.bytes < LONG {
            STRETCH
        } else {
            STRETCH_OF_LONG
        };
    }
}
