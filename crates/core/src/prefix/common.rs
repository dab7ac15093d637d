//! The beginning that most prompts of late have in common, such as a system prompt.

use super::BlockHash;

/// Depths that are looked at, in blocks: each about a quarter more than the one before.
const DEPTHS: [u16; 37] = [
    1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 24, 30, 38, 48, 60, 75, 94, 118, 148, 185, 231, 289, 361, 451, 564,
    705, 881, 1101, 1376, 1720, 2150, 2688, 3360, 4200, 5250, 6562,
];
/// How much of the share a new prompt is.
const NEWEST: f32 = 1.0 / 32.0;
/// Most is this share.
const MOST: f32 = 0.5;
/// A share below this is given up for another beginning, which begins with it.
const GIVEN_UP: f32 = 0.25;

/// For each depth the beginning of that length which most prompts have, if there is one, and the share that has it: a vote in
/// which the old counts less (after Boyer and Moore).
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    seen: u16,
    depths: Vec<(BlockHash, f32)>,
}

impl Common {
    /// A prompt was sent.
    pub(crate) fn observe(&mut self, chain: &[BlockHash]) {
        // At first all prompts count alike.
        self.seen = self.seen.saturating_add(1);
        let newest = NEWEST.max(1.0 / f32::from(self.seen));
        for (at, depth) in DEPTHS.iter().enumerate() {
            let block = chain.get(usize::from(*depth) - 1);
            match (self.depths.get_mut(at), block) {
                (Some((common, share)), Some(block)) if *common == *block => {
                    *share += newest * (1.0 - *share)
                }
                (Some((common, share)), block) => {
                    *share *= 1.0 - newest;
                    if let Some(block) = block.filter(|_| *share < GIVEN_UP) {
                        (*common, *share) = (*block, GIVEN_UP);
                    }
                }
                (None, Some(block)) => self.depths.push((*block, newest)),
                (None, None) => return,
            }
        }
    }

    /// How many leading blocks of this prompt most others have too: at most a quarter too few.
    pub(crate) fn blocks(&self, chain: &[BlockHash]) -> u32 {
        let all = self.depths.iter().zip(DEPTHS);
        let has = |((common, share), depth): &(&(BlockHash, f32), u16)| {
            *share >= MOST && chain.get(usize::from(*depth) - 1) == Some(common)
        };
        let deepest = all.rev().find(has);
        deepest.map_or(0, |(_, depth)| u32::from(depth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many blocks of a system prompt, then as many of a text.
    fn chain(system: u64, shared: u64, (text, own): (u64, u64)) -> Vec<BlockHash> {
        let shared = (0..shared).map(|at| system << 20 | at);
        shared
            .chain((0..own).map(|at| 1 << 40 | text << 20 | at))
            .map(BlockHash)
            .collect()
    }

    #[test]
    fn a_system_prompt_is_common_and_what_follows_is_not() {
        let mut common = Common::default();
        for text in 0..100 {
            common.observe(&chain(1, 48, (text, 20)));
        }
        assert_eq!(common.blocks(&chain(1, 48, (7, 20))), 48);
        assert_eq!(common.blocks(&chain(1, 40, (7, 0))), 38);
        assert_eq!(common.blocks(&chain(2, 48, (7, 20))), 0);
        assert_eq!(common.blocks(&[]), 0);
    }

    #[test]
    fn one_of_many_system_prompts_is_not_common() {
        let mut common = Common::default();
        for text in 0..400 {
            common.observe(&chain(text * 7 % 11, 48, (text, 20)));
        }
        assert!((0..11).all(|system| common.blocks(&chain(system, 48, (1, 1))) == 0));
    }

    #[test]
    fn another_system_prompt_takes_over() {
        let mut common = Common::default();
        for text in 0..100 {
            common.observe(&chain(1, 10, (text, 3)));
        }
        for text in 0..100 {
            common.observe(&chain(2, 10, (text, 3)));
        }
        assert_eq!(common.blocks(&chain(1, 10, (7, 20))), 0);
        assert_eq!(common.blocks(&chain(2, 10, (7, 20))), 10);
    }
}
