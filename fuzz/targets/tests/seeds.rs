//! Every seed holds in every test run, so that the targets stay true between two fuzzings.
#![allow(
    clippy::expect_used,
    reason = "a broken assumption ends the test with a message"
)]

use weighbridge_fuzz_targets::{TARGETS, seeds};

fn replay(name: &str) {
    let target = TARGETS
        .iter()
        .find(|target| target.name == name)
        .expect("a target");
    let own = seeds::own(name);
    assert!(own.len() > 5, "{} seeds", own.len());
    for input in own {
        // As it is, cut short, and with one byte changed.
        (target.check)(&input);
        (target.check)(&input[..input.len() / 2]);
        let mut changed = input;
        if let Some(middle) = changed.len().checked_sub(1).map(|last| last / 2) {
            changed[middle] ^= 1;
        }
        (target.check)(&changed);
    }
    // Of the recordings, about a hundred.
    let recorded = seeds::recorded(name);
    for input in recorded.iter().step_by(1 + recorded.len() / 100) {
        (target.check)(input);
    }
}

#[test]
fn streams() {
    replay("stream");
}

#[test]
fn bodies() {
    replay("body");
}

#[test]
fn forms() {
    replay("form");
}

#[test]
fn requests() {
    replay("http_request");
}

#[test]
fn answers() {
    replay("http_answer");
}

#[test]
fn engines_events() {
    replay("kv_events");
}

#[test]
fn configs() {
    replay("config");
}

#[test]
fn histories() {
    replay("scheduler");
}

/// Histories that nobody wrote: what reads bytes as decisions finds its way from any.
#[test]
fn histories_of_chance() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..1_000 {
        let input: Vec<u8> = std::iter::repeat_with(|| {
            // Xorshift, G. Marsaglia, Journal of Statistical Software 8(14), 2003.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .take(4096)
        .collect();
        weighbridge_fuzz_targets::scheduler::check(&input);
    }
}
