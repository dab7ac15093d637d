use super::*;
use proptest::prelude::*;

fn at(seconds: u64) -> Time {
    Time::from_origin(Duration::from_secs(seconds))
}

#[test]
fn weights_halve_every_thirty_seconds() {
    let mut average = Average::default();
    assert_eq!(average.mean(), None);
    average.add(at(100), 1.0);
    assert_eq!(average.mean(), Some(1.0));
    // The first sample counts half as much as the second: (0.5 · 1 + 4) / 1.5.
    average.add(at(130), 4.0);
    assert_eq!(average.mean(), Some(3.0));
    // 1.5 / 4 = 0.375 of weight is left: (0.375 · 3 + 14) / 1.375 = 11.
    average.add(at(190), 14.0);
    assert!((average.mean().unwrap() - 11.0).abs() < 1e-12);
    average.add(at(1_000_000), 2.0);
    assert_eq!(average.mean(), Some(2.0), "what is old enough is gone");
}

#[test]
fn a_share_is_mixed_with_its_pools() {
    let (mut own, mut pool) = (Share::default(), Share::default());
    assert_eq!(own.with(at(0), &pool), 1.0, "nothing was told");
    pool.add(at(0), 100.0, 50.0);
    assert_eq!(own.with(at(0), &pool), 0.5, "the pool's");
    own.add(at(0), 500.0, 0.0);
    // Five samples of the pool's mean of 100 tokens, of which 50 held, beside 500 of which none did.
    assert_eq!(own.with(at(0), &pool), 250.0 / 1000.0);
    // Half of the own ones are forgotten.
    assert!((own.with(at(30), &pool) - 250.0 / 750.0).abs() < 1e-12);
    own.add(at(30), 250.0, 250.0);
    assert!((own.with(at(30), &pool) - 0.5).abs() < 1e-12);
}

#[test]
fn a_rate_is_a_quotient_of_sums() {
    let mut rate = Rate::default();
    assert_eq!((rate.per_second(), rate.toward(2000.0, 1.0)), (None, 2000.0));
    rate.add(at(0), 10.0, 0.09);
    rate.add(at(0), 990.0, 0.11);
    assert_eq!(rate.per_second(), Some(5000.0), "not the mean of 111 and 9000");
    assert_eq!(rate.toward(2000.0, fade(at(30), rate.newest())), 3500.0);
    assert_eq!(rate.toward(1000.0, fade(at(90), rate.newest())), 1500.0);
    // What came first counts half: (500 + 1000) / (0.1 + 0.4).
    rate.add(at(30), 1000.0, 0.4);
    assert!((rate.per_second().unwrap() - 3000.0).abs() < 1e-9);
}

#[test]
fn a_fade_is_a_power_of_two_and_never_grows() {
    let fade = |millis| fade(Time::from_origin(Duration::from_millis(millis)), Time::ZERO);
    assert_eq!([0, 30_000, 90_000].map(fade), [1.0, 0.5, 0.125]);
    for millis in 0..200_000 {
        let exact = (-(millis as f64) / 30_000.0).exp2();
        assert!((fade(millis) / exact - 1.0).abs() < 1e-10, "{millis} ms");
        assert!(fade(millis + 1) < fade(millis), "{millis} ms");
    }
    assert_eq!(fade(u64::MAX / 1_000_000), 0.0);
    assert_eq!(
        super::fade(Time::ZERO, at(5)),
        1.0,
        "what comes later has all its weight"
    );
}

mod frequency;
mod line;

#[test]
fn a_rate_is_not_lost_while_nothing_comes_or_no_time_passes() {
    let mut rate = Rate::default();
    rate.add(at(0), 0.0, 0.05);
    rate.add(at(0), 0.0, 0.0);
    assert_eq!(rate.per_second(), None, "nothing was computed yet");
    rate.add(at(0), 100.0, 0.05);
    assert_eq!(rate.per_second(), Some(1000.0), "100 tokens in 2 · 0.05 s");
    // By a clock that stands still there is no time to add: that counts with the next, half of 100, 300 and 50 in half of 0.1 s and 0.05 s.
    rate.add(at(30), 300.0, 0.0);
    assert_eq!(rate.per_second(), Some(1000.0));
    rate.add(at(30), 50.0, 0.05);
    assert_eq!(rate.per_second(), Some(4000.0));
    // An hour later 2^-120 of that is left, and in a year nothing.
    rate.add(at(3_630), 500.0, 0.25);
    assert_eq!(rate.per_second(), Some(2000.0));
    assert_eq!(rate.toward(900.0, fade(at(31_536_000), rate.newest())), 900.0);
}

#[test]
fn a_sample_of_no_tokens_or_no_time_says_nothing_of_a_rate_that_has_faded() {
    for (tokens, seconds) in [(0.0, 0.05), (1000.0, 0.0)] {
        let mut rate = Rate::default();
        rate.add(at(0), 1000.0, 0.5);
        rate.add(at(3_600), tokens, seconds);
        assert_eq!(rate.per_second(), Some(2000.0), "{tokens} tokens in {seconds} s");
    }
}

#[test]
fn a_rate_of_a_million_samples_is_that_of_each() {
    let mut rate = Rate::default();
    for turn in 0..1_000_000 {
        rate.add(after_millis(turn), 700.0, 0.1);
    }
    assert!((rate.per_second().unwrap() / 7000.0 - 1.0).abs() < 1e-9);
}

proptest! {
    /// Whatever comes when.
    #[test]
    fn a_rate_is_none_or_positive_and_finite(samples in samples(), later in 0u64..100_000) {
        let mut rate = Rate::default();
        for (now, tokens, seconds) in samples {
            rate.add(now, tokens, seconds);
            if let Some(measured) = rate.per_second() {
                prop_assert!(measured.is_finite() && measured > 0.0, "{measured}");
                let toward = rate.toward(2000.0, fade(now.after(Duration::from_secs(later)), rate.newest()));
                prop_assert!(toward.is_finite() && toward > 0.0, "{toward}");
            }
        }
    }
}

fn after_millis(millis: u64) -> Time {
    Time::from_origin(Duration::from_millis(millis))
}

/// Times, tokens and seconds: at once and days apart, some without tokens and some without time.
fn samples() -> impl Strategy<Value = Vec<(Time, f64, f64)>> {
    let pause = prop_oneof![Just(0), 0u64..2_000, 0u64..4_000_000, 0u64..400_000_000];
    let tokens = prop_oneof![Just(0), 1u32..16, 1u32..1_000_000].prop_map(f64::from);
    let millis = prop_oneof![Just(0), 1u32..200, 1u32..3_600_000];
    let seconds = millis.prop_map(|millis| f64::from(millis) / 1e3);
    prop::collection::vec((pause, tokens, seconds), 0..60).prop_map(|samples| {
        let mut now = 0;
        let timed = samples.into_iter().map(|(pause, tokens, seconds)| {
            now += pause;
            (after_millis(now), tokens, seconds)
        });
        timed.collect()
    })
}
