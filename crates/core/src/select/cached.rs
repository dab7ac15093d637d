//! How much of the prompt each live candidate is believed to have in its cache.

use super::{Query, Scratch};
use crate::policies::Cached;
use crate::prefix::BlockHash;
use crate::work::{Needs, Work};

/// Fills `cached` where the route looks at it.
pub(super) fn look_up(query: &Query<'_>, scratch: &mut Scratch) {
    let Some(work) = query.facts.work.filter(|_| query.plan.needs.meets(Needs::BLOCKS)) else {
        return;
    };
    scratch.cached.resize(scratch.live.len(), Cached::default());
    seek(query, scratch, (work, &work.blocks, work.block_tokens));
    if !work.exact.is_empty() {
        seek(query, scratch, (work, &work.exact, work.exact_tokens));
    }
}

/// Notes who has the beginning of `chain`, where that is more than is known already.
fn seek(query: &Query<'_>, scratch: &mut Scratch, (work, chain, tokens): (&Work, &[BlockHash], u32)) {
    query.prefixes.matches(chain, &mut scratch.matches);
    if scratch.matches.as_slice().is_empty() {
        return;
    }
    let of = u32::try_from(chain.len()).unwrap_or(u32::MAX);
    let last = work.prompt_tokens.saturating_sub(1);
    for (place, cached) in scratch.live.iter().zip(&mut scratch.cached) {
        let slot = query.plan.candidates[*place].endpoint.slot;
        let blocks = scratch.matches.blocks(slot);
        let tokens = blocks.saturating_mul(tokens).min(last);
        if tokens > cached.tokens {
            *cached = Cached { blocks, of, tokens };
        }
    }
}
