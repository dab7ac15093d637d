//! The memory limit of the prefix index holds for the process, whatever comes and goes. In a binary of its own, since it
//! measures the memory of its process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

use std::time::Duration;
use weighbridge_core::Time;
use weighbridge_core::prefix::{BlockHash, Limits, Matches, PrefixIndex};

const LIMIT: usize = 16 << 20;
const HOLDERS: u64 = 128;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// A chain that shares its first `shared` blocks with all of the same `group`.
fn chain(buffer: &mut Vec<BlockHash>, (group, shared): (u64, usize), (own, len): (u64, usize)) {
    let mut hash = group.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    buffer.clear();
    for at in 0..len {
        hash = hash.rotate_left(23) ^ if at == shared { own } else { 7 };
        hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 31).wrapping_mul(0x94d0_49bb_1331_11eb);
        buffer.push(BlockHash(hash));
    }
}

#[test]
fn resident_memory_stays_within_the_limit_and_a_tenth() {
    let mut blocks = Vec::with_capacity(10_000);
    let mut found = Matches::default();
    let before = resident();
    let mut index = PrefixIndex::new(Limits {
        bytes_max: LIMIT,
        idle_max: None,
    });
    let mut most = 0;
    let mut number = 0;
    for round in 0..2 {
        // Blocks of a prompt, of these shared by a group, prompts in a group.
        for (len, shared, group) in [
            (258, 64, 100),
            (3, 1, 1000),
            (40, 0, 1),
            (258, 258, 128),
            (6250, 64, 10),
        ] {
            let prompts = (LIMIT / 10 / len).min(60_000);
            for prompt in 0..prompts as u64 {
                number += 1;
                let holder = u32::try_from(number % HOLDERS).unwrap();
                let group = ((round << 56) ^ ((len as u64) << 40) ^ (prompt / group), shared);
                chain(&mut blocks, group, (number, len));
                if prompt % 2 == round {
                    index.store(holder, &blocks, Time::from_origin(Duration::from_millis(number)));
                } else {
                    index.stored(holder, None, &blocks);
                    // Engines give up what they please.
                    if prompt % 16 < 8 {
                        index.removed(holder, &blocks[len / 3..len / 2]);
                    }
                }
                if prompt % 64 == 0 {
                    index.matches(&blocks, &mut found);
                    assert!(index.bytes() <= LIMIT);
                    most = most.max(resident());
                }
            }
        }
    }
    let grown = most - before;
    assert!(grown <= LIMIT + LIMIT / 10, "{grown} bytes more, of {LIMIT}");
    assert!(grown > LIMIT / 2, "it was filled: {grown}");
}
