//! How much of the prompt each live candidate is believed to have in its cache.

use super::{Query, Scratch};
use crate::policies::Cached;
use crate::pool::Pool;
use crate::prefix::{BlockHash, PrefixIndex};
use crate::work::Needs;

/// Fills `cached` where the route looks at it: by what engines told, where they told all and the prompt's tokens are known, and
/// what is under way to them; else by what was sent there, or what part was told, whichever is more.
pub(super) fn look_up(query: &Query<'_>, scratch: &mut Scratch) {
    let Some(work) = query.facts.work.filter(|_| query.plan.needs.meets(Needs::BLOCKS)) else {
        return;
    };
    scratch.cached.resize(scratch.live.len(), Cached::default());
    let learned = Chain {
        blocks: &work.blocks,
        tokens: work.block_tokens,
        prompt: work.prompt_tokens,
        exact: false,
        of_told: work.exact.is_empty(),
    };
    seek(query, scratch, (query.prefixes, &learned));
    if !work.exact.is_empty() {
        let told = Chain {
            blocks: &work.exact,
            tokens: work.exact_tokens,
            exact: true,
            of_told: true,
            ..learned
        };
        seek(query, scratch, (query.prefixes, &told));
        if query.under_way.blocks() > 0 {
            seek(query, scratch, (query.under_way, &told));
        }
    }
}

/// The blocks of a prompt.
struct Chain<'a> {
    blocks: &'a [BlockHash],
    /// Tokens of a block.
    tokens: u32,
    /// Tokens of the prompt.
    prompt: u32,
    /// Whether they are blocks of tokens.
    exact: bool,
    /// Whether it says something of engines that told all that they hold.
    of_told: bool,
}

impl Chain<'_> {
    /// How many of the blocks most prompts of the pool begin with.
    fn common(&self, pool: &Pool) -> u32 {
        let common = if self.exact {
            &pool.common_exact
        } else {
            &pool.common
        };
        common.blocks(self.blocks)
    }
}

/// Notes who has the beginning of `chain`, where that is more than is known already.
fn seek(query: &Query<'_>, scratch: &mut Scratch, (prefixes, chain): (&PrefixIndex, &Chain<'_>)) {
    prefixes.matches(chain.blocks, &mut scratch.matches);
    if scratch.matches.as_slice().is_empty() {
        return;
    }
    let of = u32::try_from(chain.blocks.len()).unwrap_or(u32::MAX);
    let mut common = (usize::MAX, 0);
    let last = chain.prompt.saturating_sub(1);
    for (place, cached) in scratch.live.iter().zip(&mut scratch.cached) {
        let slot = query.plan.candidates[*place].endpoint.slot;
        let blocks = scratch.matches.blocks(slot);
        let tokens = blocks.saturating_mul(chain.tokens).min(last);
        if tokens > cached.tokens && (chain.of_told || !query.endpoints[slot as usize].cache_told) {
            let at = query.endpoints[slot as usize].pool_at;
            if common.0 != at {
                common = (at, query.pools.get(at).map_or(0, |pool| chain.common(pool)));
            }
            *cached = Cached {
                blocks,
                of,
                tokens,
                common: common.1,
            };
        }
    }
}
