//! How many engines a load needs, and how much load given engines bear.
//!
//! Both search for a border by trying: what holds is found out by simulating. They take it that more engines are never
//! worse and more load is never better; where chance makes that untrue near the border, the answer is one side of it,
//! and it is always one that was tried.

/// Finds the smallest number from 1 to `most` for which `holds`, or none. Tries 1, 2, 4 and so on, then halves the
/// interval: at most 2 · log₂(most) + 2 tries.
///
/// # Errors
/// The first that `holds` gives.
pub fn fewest<E>(most: u32, mut holds: impl FnMut(u32) -> Result<bool, E>) -> Result<Option<u32>, E> {
    // Does not hold at `low`, does at `high`.
    let (mut low, mut high) = (0, 1.min(most));
    loop {
        if high == 0 {
            return Ok(None);
        }
        if holds(high)? {
            break;
        }
        if high == most {
            return Ok(None);
        }
        low = high;
        high = high.saturating_mul(2).min(most);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(Some(high))
}

/// Finds how many times the load may grow: the largest factor for which `holds`, within `precision` (a share: .02 is
/// 2 %), between 1/1024 and 1024; none if it does not hold at 1/1024.
///
/// # Errors
/// The first that `holds` gives.
pub fn highest<E>(precision: f64, mut holds: impl FnMut(f64) -> Result<bool, E>) -> Result<Option<f64>, E> {
    const STEPS: i32 = 10;
    let precision = precision.max(1e-4);
    let (mut low, mut high) = (None, None);
    let mut power = 0;
    // Doubles or halves until the border lies in between.
    loop {
        let factor = 2_f64.powi(power);
        if holds(factor)? {
            low = Some(factor);
            power += 1;
        } else {
            high = Some(factor);
            power -= 1;
        }
        if (low.is_some() && high.is_some()) || power.abs() > STEPS {
            break;
        }
    }
    let (Some(mut low), Some(mut high)) = (low, high) else {
        return Ok(low);
    };
    while high / low > 1.0 + precision {
        let middle = (low * high).sqrt();
        if holds(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(most: u32, border: u32) -> (Option<u32>, u32) {
        let mut tries = 0;
        let found = fewest(most, |n| {
            tries += 1;
            Ok::<_, ()>(n >= border)
        });
        (found.unwrap(), tries)
    }

    #[test]
    fn the_fewest_are_found_in_few_tries() {
        for border in 1..=300 {
            let (found, tries) = counted(300, border);
            assert_eq!(found, Some(border));
            assert!(tries <= 20, "{tries}");
        }
        assert_eq!(counted(300, 301).0, None);
        assert_eq!(counted(0, 1), (None, 0));
        assert_eq!(fewest(8, |_| Err("no")), Err("no"));
    }

    #[test]
    fn the_highest_factor_is_found_within_its_precision() {
        for border in [0.002, 0.3, 1.0, 1.7, 90.0, 1000.0] {
            let found = highest(0.01, |factor| Ok::<_, ()>(factor <= border))
                .unwrap()
                .unwrap();
            assert!(
                found <= border && found * 1.0101 >= border,
                "{found} for {border}"
            );
        }
        assert_eq!(highest(0.01, |_| Ok::<_, ()>(false)), Ok(None));
        assert_eq!(highest(0.01, |_| Ok::<_, ()>(true)), Ok(Some(1024.0)));
    }
}
