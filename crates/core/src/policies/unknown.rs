//! Scores of candidates of which nothing is known.

use crate::explain::Abstained;

/// Gives candidates of which nothing is known, marked by NaN, the mean of the others: they are neither sought nor avoided.
///
/// # Errors
/// `why`, if nothing is known of any.
pub(super) fn fill_in(scores: &mut [f64], why: Abstained) -> Result<(), Abstained> {
    let (mut sum, mut known) = (0.0, 0.0);
    for score in scores.iter().filter(|score| !score.is_nan()) {
        sum += score;
        known += 1.0;
    }
    if known == 0.0 {
        return Err(why);
    }
    for score in scores.iter_mut().filter(|score| score.is_nan()) {
        *score = sum / known;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unknown_take_the_mean_of_the_known() {
        let mut scores = [1.0, f64::NAN, 0.5, f64::NAN];
        assert_eq!(fill_in(&mut scores, Abstained::NoSignal), Ok(()));
        assert_eq!(scores, [1.0, 0.75, 0.5, 0.75]);
        assert_eq!(
            fill_in(&mut [f64::NAN], Abstained::NoSignal),
            Err(Abstained::NoSignal)
        );
    }
}
