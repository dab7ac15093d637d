//! Averages that forget: every sample's weight halves every 30 s, with the time as an argument.

use crate::time::Time;
use std::time::Duration;

/// Time in which what was learned loses half its weight.
pub const HALF_LIFE: Duration = Duration::from_secs(30);

/// Weight that is left at `now` of a sample that came at `then`, in [0, 1].
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 ns are 104 days, of which nothing is left"
)]
pub fn fade(now: Time, then: Time) -> f64 {
    let age = now.nanos().saturating_sub(then.nanos());
    halved(i64::try_from(age).unwrap_or(i64::MAX) as f64 / 30e9)
}

/// 2^-x for x ≥ 0, within 1e-10. The same on every machine, as a function of the system's would not be, and in a fraction of
/// the time, since every candidate asks for it.
fn halved(x: f64) -> f64 {
    // Added to a small number it leaves the nearest whole one in the last bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    if x > 1000.0 {
        return 0.0;
    }
    let rounded = x + ROUND;
    let whole = rounded.to_bits() & 0xffff;
    let power = f64::from_bits((1023 - whole) << 52);
    // e^y by its series, |y| ≤ ln(2) / 2.
    let y = (rounded - ROUND - x) * std::f64::consts::LN_2;
    let (y2, y4) = (y * y, y * y * y * y);
    let low = 1.0 + y + y2 * (1.0 / 2.0 + y * (1.0 / 6.0));
    let high = (1.0 / 24.0 + y * (1.0 / 120.0)) + y2 * (1.0 / 720.0 + y * (1.0 / 5040.0));
    let last = 1.0 / 40320.0 + y * (1.0 / 362_880.0);
    power * (low + y4 * (high + y4 * last))
}

/// What an endpoint's own figure is worth while `kept` of its weight is left: it decays to that of its pool.
#[must_use]
pub fn toward(own: f64, pool: f64, kept: f64) -> f64 {
    pool + (own - pool) * kept
}

/// A duration in seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 ns are 104 days, and rounding after that is below a ns"
)]
pub(crate) fn seconds(duration: Duration) -> f64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX) as f64 / 1e9
}

/// Mean of samples by their weight. Stays what it was while none comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Average {
    mean: f64,
    weight: f64,
    at: Time,
}

impl Average {
    /// A sample came.
    pub fn add(&mut self, now: Time, value: f64) {
        self.weight = self.weight * fade(now, self.at) + 1.0;
        self.mean += (value - self.mean) / self.weight;
        self.at = now;
    }

    /// The mean; none: no sample came yet.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then_some(self.mean)
    }
}

/// Tokens over the seconds that they took. A quotient of sums, so that large samples, which say most, count most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    tokens: f64,
    seconds: f64,
    at: Time,
    /// 0: nothing was measured yet.
    quotient: f64,
}

impl Rate {
    /// So many tokens took so many seconds.
    pub fn add(&mut self, now: Time, tokens: f64, seconds: f64) {
        self.add_kept(now, (tokens, seconds), fade(now, self.at));
    }

    /// The same, while `kept` of the weight of what came before is left.
    fn add_kept(&mut self, now: Time, (tokens, seconds): (f64, f64), kept: f64) {
        self.tokens = self.tokens * kept + tokens;
        self.seconds = self.seconds * kept + seconds;
        self.at = now;
        // Beside what has faded, a sample that lacks one of both would make it next to nothing, or boundless.
        if tokens > 0.0 && seconds > 0.0 {
            self.quotient = self.tokens / self.seconds;
        }
    }

    /// Tokens per second; none: nothing was measured yet.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        (self.quotient > 0.0).then_some(self.quotient)
    }

    /// When something was last measured.
    #[must_use]
    pub fn newest(&self) -> Time {
        self.at
    }

    /// Tokens per second, decayed to `pool` while `kept` of its weight is left.
    #[must_use]
    pub fn toward(&self, pool: f64, kept: f64) -> f64 {
        if self.quotient > 0.0 {
            toward(self.quotient, pool, kept)
        } else {
            pool
        }
    }
}

/// How often something happens, of late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frequency {
    weight: f64,
    /// Share of all weight that time since it first happened has, at `at`: 1 in the end.
    seen: f64,
    at: Time,
}

/// Weight of all seconds up to now: what happens once in each weighs this in the end.
const FULL: f64 = HALF_LIFE.as_secs_f64() / std::f64::consts::LN_2;

impl Frequency {
    /// It happened.
    pub fn add(&mut self, now: Time) {
        if self.weight > 0.0 {
            let kept = fade(now, self.at);
            self.weight *= kept;
            self.seen = 1.0 - (1.0 - self.seen) * kept;
        }
        self.weight += 1.0;
        self.at = now;
    }

    /// Times a second.
    #[must_use]
    pub fn per_second(&self, now: Time) -> f64 {
        let kept = fade(now, self.at);
        let seen = FULL * (1.0 - (1.0 - self.seen) * kept);
        self.weight * kept / seen.max(1.0)
    }
}

/// Share of what was believed that turned out to hold, by weight: of late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    held: f64,
    believed: f64,
    samples: f64,
    at: Time,
}

impl Share {
    /// Of so much that was believed, which is more than nothing, so much held.
    pub fn add(&mut self, now: Time, believed: f64, held: f64) {
        let kept = fade(now, self.at);
        self.held = self.held * kept + held;
        self.believed = self.believed * kept + believed;
        self.samples = self.samples * kept + 1.0;
        self.at = now;
    }

    /// The share, 0 to 1, with a few samples of the pool's beside its own; 1: nothing was told in its pool.
    #[must_use]
    pub fn with(&self, now: Time, pool: &Self) -> f64 {
        if pool.samples <= 0.0 {
            return 1.0;
        }
        let kept = fade(now, self.at);
        let part = POOLED / pool.samples;
        (self.held * kept + pool.held * part) / (self.believed * kept + pool.believed * part)
    }
}

/// Samples of its pool that an engine's own line is mixed with.
const POOLED: f64 = 5.0;
/// Variance of tokens, as a share of their mean square, up to which they are all the same: they lie within 3 % of each other, and
/// what they took differs by more for other reasons.
const SPREAD_MIN: f64 = 1e-3;

/// How many times as dear as by the line through the origin, in which samples of few tokens hardly count, a token is taken to be at most
/// where the samples do not tell. More than once: where waiting and computing cannot be told apart, tokens that are too cheap let queues grow.
const DEAREST: f64 = 4.0;

/// Tokens that a pass of an engine computes in about the time that it takes for one: what samples of fewer took says nothing of
/// so many times as many. Where all of a prompt but a token is cached again and again, that one would cost as much as a pass.
const PASS: f64 = 256.0;

/// Seconds as a straight line over tokens, fitted by least squares to samples that forget.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    /// Sums of tokens and seconds.
    pub rate: Rate,
    weight: f64,
    /// Sums of squares and products about the origin.
    squares: f64,
    products: f64,
}

impl Line {
    /// So many tokens took so many seconds.
    pub fn add(&mut self, now: Time, tokens: f64, seconds: f64) {
        let kept = fade(now, self.rate.at);
        self.rate.add_kept(now, (tokens, seconds), kept);
        self.weight = self.weight * kept + 1.0;
        self.squares = self.squares * kept + tokens * tokens;
        self.products = self.products * kept + tokens * seconds;
    }

    /// Seconds at no tokens, and of each token, with a few samples of the pool's beside its own; none: nothing was measured.
    /// Where samples do not tell one from the other, as much as can be is taken to be the tokens'.
    #[must_use]
    pub fn with(&self, now: Time, pool: &Self) -> Option<(f64, f64)> {
        // Alone they all fade alike.
        let (kept, part) = if pool.weight > 0.0 {
            (fade(now, self.rate.at), POOLED / pool.weight)
        } else {
            (1.0, 0.0)
        };
        let sum = |own: f64, pool: f64| own * kept + pool * part;
        let weight = sum(self.weight, pool.weight);
        let tokens = sum(self.rate.tokens, pool.rate.tokens);
        let seconds = sum(self.rate.seconds, pool.rate.seconds);
        let squares = sum(self.squares, pool.squares);
        let products = sum(self.products, pool.products);
        if tokens <= 0.0 || seconds <= 0.0 {
            return None;
        }
        // Both times the weight: of many divisions, each of which waits for the one before, two are left.
        let spread = weight * squares - tokens * tokens;
        let joint = weight * products - tokens * seconds;
        // Where longer prompts did not take longer all of it, unless that is what samples of few tokens took besides.
        let (over, under, most) = if spread <= SPREAD_MIN * weight * squares || joint <= 0.0 {
            (DEAREST * products, squares, tokens.max(PASS * weight))
        } else {
            (joint, spread, tokens)
        };
        // Never more than all of it.
        let each = if over * most <= seconds * under {
            over / under
        } else {
            seconds / most
        };
        Some((((seconds - each * tokens) / weight).max(0.0), each))
    }
}

#[cfg(test)]
mod tests;
