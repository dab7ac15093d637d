//! Every seed holds in every test run, so that the targets stay true between two fuzzings.
#![allow(
    clippy::expect_used,
    reason = "a broken assumption ends the test with a message"
)]

use weighbridge_fuzz_targets::{TARGETS, seeds};

/// Threads for inputs that mostly wait for clocks; each has gateways of its own.
const WAITING: usize = 6;

/// Puts each input to the target, in `lanes` threads.
fn replay(name: &str, lanes: usize) {
    let target = TARGETS
        .iter()
        .find(|target| target.name == name)
        .expect("a target");
    let own = seeds::own(name);
    assert!(own.len() > 5, "{} seeds", own.len());
    // As it is, cut short, and with one byte changed.
    let mut inputs: Vec<_> = own
        .into_iter()
        .flat_map(|input| {
            let half = input[..input.len() / 2].to_vec();
            let mut changed = input.clone();
            if let Some(middle) = changed.len().checked_sub(1).map(|last| last / 2) {
                changed[middle] ^= 1;
            }
            [input, half, changed]
        })
        .collect();
    // Of the recordings, about a hundred.
    let recorded = seeds::recorded(name);
    let stride = 1 + recorded.len() / 100;
    inputs.extend(recorded.into_iter().step_by(stride));
    let inputs = &inputs;
    std::thread::scope(|scope| {
        for first in 0..lanes {
            scope.spawn(move || {
                inputs
                    .iter()
                    .skip(first)
                    .step_by(lanes)
                    .for_each(|input| (target.check)(input))
            });
        }
    });
}

#[test]
fn streams() {
    replay("stream", 1);
}

#[test]
fn bodies() {
    replay("body", 1);
}

#[test]
fn forms() {
    replay("form", 1);
}

#[test]
fn requests() {
    replay("http_request", WAITING);
}

#[test]
fn answers() {
    replay("http_answer", WAITING);
}

#[test]
fn engines_events() {
    replay("kv_events", 1);
}

#[test]
fn configs() {
    replay("config", 1);
}

#[test]
fn histories() {
    replay("scheduler", 1);
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
