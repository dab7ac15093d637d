//! What engines tell and requests ask, read off an input: any numbers, the impossible ones among them.

use crate::input::Input;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::event::Spent;
use weighbridge_core::prefix::BlockHash;
use weighbridge_core::signals::{CacheChange, Reading};
use weighbridge_core::work::{Abilities, Objective, Opening, Work};

/// A share that an engine may tell, or a broken one.
fn share(input: &mut Input<'_>) -> Option<f64> {
    const ODD: [f64; 8] = [
        0.0,
        1.0,
        -1.0,
        1e308,
        f64::MIN_POSITIVE,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    match input.byte() {
        byte @ 0..=199 => Some(f64::from(byte) / 199.0),
        byte @ 200..=223 => Some(ODD[usize::from(byte % 8)]),
        _ => None,
    }
}

/// A count that an engine may tell; now and then all there are.
fn count(input: &mut Input<'_>) -> Option<u64> {
    match input.byte() {
        byte @ 0..=99 => Some(u64::from(byte)),
        byte @ 100..=180 => Some(u64::from(byte) << input.below(40)),
        181 => Some(u64::MAX),
        _ => None,
    }
}

fn small(input: &mut Input<'_>) -> Option<u32> {
    count(input).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

pub(super) fn reading(input: &mut Input<'_>) -> Reading {
    Reading {
        waiting: small(input),
        running: small(input),
        kv_usage: share(input),
        gpu_memory: share(input),
        gpu_utilisation: share(input),
        block_tokens: small(input),
        cache_tokens: count(input),
        max_sequences: small(input),
        prefix_queries: count(input),
        prefix_hits: count(input),
        preemptions: count(input),
        prompt_tokens: count(input),
        generated_tokens: count(input),
        adapters: input.flag().then(|| vec![adapter(input)]),
        max_adapters: small(input),
        ..Reading::default()
    }
}

fn adapter(input: &mut Input<'_>) -> Arc<str> {
    ["sql", "de"][input.below(2)].into()
}

/// One of few prompts, cut off somewhere, so that beginnings are shared.
fn chain(input: &mut Input<'_>) -> Box<[BlockHash]> {
    let (prompt, length) = (u64::from(input.byte() % 4), input.below(40));
    let branch = input.below(40);
    (0..length)
        .map(|place| {
            let own = if place >= branch { u64::from(u8::MAX) } else { 0 };
            BlockHash((prompt << 32 | (place as u64) << 8 | own).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        })
        .collect()
}

pub(super) fn work(input: &mut Input<'_>) -> Work {
    let has_exact = input.flag();
    Work {
        prompt_tokens: small(input).unwrap_or(0),
        max_tokens: small(input),
        expected_tokens: small(input),
        blocks: chain(input),
        block_tokens: u32::from(input.byte()),
        block_bytes: u32::from(input.byte()),
        opening: input.flag().then(|| Opening {
            blocks: u32::from(input.byte()),
            hash: BlockHash(u64::from(input.byte())),
        }),
        exact: if has_exact { chain(input) } else { Box::default() },
        exact_tokens: if has_exact { u32::from(input.byte()) } else { 0 },
        wants: Abilities(input.byte() & input.byte() & Abilities::ALL.0),
        adapter: input.flag().then(|| adapter(input)),
        labels: if input.byte() < 32 {
            [("gpu".into(), ["T4", "A100", "B300"][input.below(3)].into())].into()
        } else {
            Box::default()
        },
        class: input
            .flag()
            .then(|| ["chat", "code", "law"][input.below(3)].into()),
        priority: input.byte() % 4,
        objective: Objective {
            first_token: input
                .flag()
                .then(|| Duration::from_millis(u64::from(input.short()))),
            per_token: input
                .flag()
                .then(|| Duration::from_millis(u64::from(input.byte()))),
        },
    }
}

pub(super) fn spent(input: &mut Input<'_>) -> Option<Spent> {
    input.flag().then(|| Spent {
        prompt: small(input).unwrap_or(0),
        cached: small(input),
        output: small(input).unwrap_or(0),
    })
}

pub(super) fn changes(input: &mut Input<'_>) -> Vec<CacheChange> {
    (0..=input.byte() % 3).map(|_| change(input)).collect()
}

fn change(input: &mut Input<'_>) -> CacheChange {
    match input.byte() % 8 {
        0 => CacheChange::Cleared,
        1 => CacheChange::Lost,
        2 | 3 => CacheChange::Removed {
            blocks: chain(input).into_vec(),
        },
        how => {
            let chain = chain(input);
            let from = if how < 6 { 0 } else { chain.len() / 2 };
            CacheChange::Stored {
                parent: chain[..from].last().copied(),
                blocks: chain[from..].to_vec(),
            }
        }
    }
}
