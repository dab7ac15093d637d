//! Random shares for the `jitter` of delays. Nothing depends on their quality: they only spread arrival times.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) };
}

/// A number from 0 up to 1. Source: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (2003).
pub(crate) fn share() -> f64 {
    STATE.with(|state| {
        let mut x = state.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        state.set(x);
        (x >> 11) as f64 / (1u64 << 53) as f64
    })
}
