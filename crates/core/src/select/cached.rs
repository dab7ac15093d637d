//! How much of the prompt each live candidate is believed to have in its cache.

use super::{Query, Scratch};
use crate::policies::Cached;
use crate::prefix::BlockHash;
use crate::work::Needs;

/// Fills `cached` where the route looks at it: by what engines told, where they told all and the prompt's tokens are known;
/// else by what was sent there, or what part was told, whichever is more.
pub(super) fn look_up(query: &Query<'_>, scratch: &mut Scratch) {
    let Some(work) = query.facts.work.filter(|_| query.plan.needs.meets(Needs::BLOCKS)) else {
        return;
    };
    scratch.cached.resize(scratch.live.len(), Cached::default());
    let learned = Chain {
        blocks: &work.blocks,
        tokens: work.block_tokens,
        prompt: work.prompt_tokens,
        of_told: work.exact.is_empty(),
    };
    seek(query, scratch, &learned);
    if !work.exact.is_empty() {
        let told = Chain {
            blocks: &work.exact,
            tokens: work.exact_tokens,
            of_told: true,
            ..learned
        };
        seek(query, scratch, &told);
    }
}

/// The blocks of a prompt.
struct Chain<'a> {
    blocks: &'a [BlockHash],
    /// Tokens of a block.
    tokens: u32,
    /// Tokens of the prompt.
    prompt: u32,
    /// Whether it says something of engines that told all that they hold.
    of_told: bool,
}

/// Notes who has the beginning of `chain`, where that is more than is known already.
fn seek(query: &Query<'_>, scratch: &mut Scratch, chain: &Chain<'_>) {
    query.prefixes.matches(chain.blocks, &mut scratch.matches);
    if scratch.matches.as_slice().is_empty() {
        return;
    }
    let of = u32::try_from(chain.blocks.len()).unwrap_or(u32::MAX);
    let last = chain.prompt.saturating_sub(1);
    for (place, cached) in scratch.live.iter().zip(&mut scratch.cached) {
        let slot = query.plan.candidates[*place].endpoint.slot;
        let blocks = scratch.matches.blocks(slot);
        let tokens = blocks.saturating_mul(chain.tokens).min(last);
        if tokens > cached.tokens && (chain.of_told || !query.endpoints[slot as usize].cache_told) {
            *cached = Cached { blocks, of, tokens };
        }
    }
}
