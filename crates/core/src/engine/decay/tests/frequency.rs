use super::*;
use crate::rng::Rng;

/// Seconds over which a frequency is taken, in the end: 30 / ln 2.
const FULL: f64 = 43.28;

#[test]
fn a_steady_frequency_is_found_at_once_and_stays() {
    let mut frequency = Frequency::default();
    assert_eq!(frequency.per_second(at(9)), 0.0, "nothing happened yet");
    for turn in 0..100_000u64 {
        let now = after_millis(3_600_000 + turn * 100);
        frequency.add(now);
        let found = frequency.per_second(now);
        // The first is counted, and the time before it is not: 1 + 1 / turns too many.
        let most = 10.0 * (1.0 + 1.0 / turn.max(1) as f64) + 0.2;
        if turn >= 10 {
            assert!((9.9..most).contains(&found), "{found} after {turn}");
        }
    }
}

#[test]
fn weights_are_as_computed_by_hand() {
    let mut frequency = Frequency::default();
    frequency.add(at(100));
    assert_eq!(
        frequency.per_second(at(100)),
        1.0,
        "at least a second is taken to be seen"
    );
    frequency.add(at(130));
    // 1.5 of weight, over 43.28 s of which half are seen; 30 s later 0.75 over three quarters.
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-3;
    assert!(near(frequency.per_second(at(130)), 1.5 / (FULL * 0.5)));
    assert!(near(frequency.per_second(at(160)), 0.75 / (FULL * 0.75)));
}

#[test]
fn a_poisson_rate_is_found_within_its_variance() {
    let mut rng = Rng::new(11);
    for rate in [0.05, 1.0, 40.0] {
        // Readings ten half-lives apart do not depend on each other. The weight of a Poisson process that forgets with time
        // constant T has mean rate · T and variance rate · T / 2 (Campbell).
        let (mut now, mut next, mut readings) = (0.0, 300.0, Vec::new());
        let mut frequency = Frequency::default();
        while readings.len() < 200 {
            now += -(1.0 - rng.share()).ln() / rate;
            while next <= now && readings.len() < 200 {
                readings.push(frequency.per_second(after_millis((next * 1e3) as u64)));
                next += 300.0;
            }
            frequency.add(Time::from_origin(Duration::from_secs_f64(now)));
        }
        let count = readings.len() as f64;
        let mean = readings.iter().sum::<f64>() / count;
        let deviation = (rate / (2.0 * FULL)).sqrt();
        assert!(
            (mean - rate).abs() < 5.0 * deviation / count.sqrt(),
            "{mean} of {rate}"
        );
        let squares = readings.iter().map(|found| (found - rate).powi(2)).sum::<f64>();
        let measured = (squares / count).sqrt();
        assert!(
            (0.75..1.33).contains(&(measured / deviation)),
            "{measured} of {deviation}"
        );
    }
}

#[test]
fn silence_halves_it_every_thirty_seconds() {
    let mut frequency = Frequency::default();
    for turn in 0..6_000 {
        frequency.add(after_millis(turn * 100));
    }
    let (before, mut last) = (frequency.per_second(at(600)), f64::INFINITY);
    for halves in 0..120 {
        let found = frequency.per_second(at(600 + 30 * halves));
        let expected = before * (-(halves as f64)).exp2();
        assert!((found / expected - 1.0).abs() < 1e-5, "{found} of {expected}");
        assert!(found < last);
        last = found;
    }
    assert!(last < 1e-30);
    assert_eq!(frequency.per_second(at(31_536_000)), 0.0, "a year of it");
    assert_eq!(frequency.per_second(Time::NEVER), 0.0);
}

#[test]
fn a_clock_that_stands_still_counts_all_in_its_first_second() {
    let mut frequency = Frequency::default();
    for _ in 0..1_000_000 {
        frequency.add(at(7));
    }
    assert_eq!(frequency.per_second(at(7)), 1e6);
    frequency.add(at(3_607));
    let found = frequency.per_second(at(3_607));
    assert!((found - 1.0 / FULL).abs() < 1e-4, "{found} an hour later");
}

proptest! {
    /// Never below nothing, and never above all that happened, each counted for a second.
    #[test]
    fn a_frequency_is_finite_and_not_negative(samples in samples(), later in 0u64..100_000) {
        let mut frequency = Frequency::default();
        for (count, (now, ..)) in (1u32..).zip(samples) {
            frequency.add(now);
            for now in [Time::ZERO, now, now.after(Duration::from_secs(later)), Time::NEVER] {
                let found = frequency.per_second(now);
                prop_assert!(found.is_finite() && found >= 0.0 && found <= f64::from(count), "{found}");
            }
        }
    }
}
