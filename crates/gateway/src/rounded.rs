//! Numbers that are measured, as the whole numbers that they are counted in.

/// The nearest whole number; what is below 0, or no number, is 0, and what is too large the largest.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast stops at the bounds"
)]
pub(crate) fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// The same, of what is counted in fewer digits.
pub(crate) fn small(number: f64) -> u32 {
    u32::try_from(whole(number)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_stops_at_the_bounds() {
        for (number, large, small_one) in [
            (0.49, 0, 0),
            (2.5, 3, 3),
            (-1.0, 0, 0),
            (f64::NAN, 0, 0),
            (4_294_967_296.0, 4_294_967_296, u32::MAX),
            (1e300, u64::MAX, u32::MAX),
        ] {
            assert_eq!((whole(number), small(number)), (large, small_one), "{number}");
        }
    }
}
