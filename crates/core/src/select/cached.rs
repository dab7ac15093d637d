//! How much of the prompt each live candidate is believed to have in its cache.

use super::{Query, Scratch};
use crate::policies::Cached;
use crate::prefix::{BlockHash, Matches};
use crate::work::{Needs, Work};

/// Fills `cached` where the route looks at it.
pub(super) fn look_up(query: &Query<'_>, scratch: &mut Scratch) {
    let Some(work) = query.facts.work.filter(|_| query.plan.needs.meets(Needs::BLOCKS)) else {
        return;
    };
    scratch.cached.resize(scratch.live.len(), Cached::default());
    let mut from = 0;
    for target in &query.plan.targets {
        let run = from + scratch.live[from..].partition_point(|place| *place < target.candidates.end);
        let Some(first) = scratch.live[from..run].first() else {
            continue;
        };
        let pool = &query.pools[query.pool_at(*first)];
        let mut seek = |index: &crate::prefix::PrefixIndex, (chain, tokens): (&[BlockHash], u32)| {
            scratch.matches.0.clear();
            index.matches(chain, &mut scratch.matches);
            let all = (work, chain.len(), tokens);
            for (place, cached) in scratch.live[from..run].iter().zip(&mut scratch.cached[from..run]) {
                let slot = query.plan.candidates[*place].endpoint.slot;
                note(&scratch.matches, (slot, all), cached);
            }
        };
        seek(&pool.learned, (&work.blocks, work.block_tokens));
        seek(&pool.exact, (&work.exact, work.exact_tokens));
        from = run;
    }
}

/// Notes what `slot` holds, if it is more than is known already.
fn note(matches: &Matches, (slot, (work, of, tokens)): (u32, (&Work, usize, u32)), cached: &mut Cached) {
    let held = matches.0.iter().find(|(holder, _)| *holder == slot);
    let Some((_, blocks)) = held else {
        return;
    };
    let tokens = blocks
        .saturating_mul(tokens)
        .min(work.prompt_tokens.saturating_sub(1));
    if tokens > cached.tokens {
        *cached = Cached {
            blocks: *blocks,
            of: u32::try_from(of).unwrap_or(u32::MAX),
            tokens,
        };
    }
}
