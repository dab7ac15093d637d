use super::*;
use crate::rng::Rng;

/// A line of samples that came by themselves.
fn line(samples: &[(u64, f64, f64)]) -> Line {
    let mut line = Line::default();
    for (second, tokens, seconds) in samples {
        line.add(at(*second), *tokens, *seconds);
    }
    line
}

/// Seconds at no tokens and of each, without a pool.
fn alone(line: &Line, now: Time) -> Option<(f64, f64)> {
    line.with(now, &Line::default())
}

#[track_caller]
fn assert_near(found: Option<(f64, f64)>, expected: (f64, f64)) {
    let (fixed, each) = found.expect("something was measured");
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1e-6);
    assert!(
        near(fixed, expected.0) && near(each, expected.1),
        "{:?} is not {expected:?}",
        (fixed, each)
    );
}

/// 50 ms and 0.2 ms a token.
fn exact(tokens: f64) -> f64 {
    0.05 + 0.0002 * tokens
}

#[test]
fn exact_samples_give_their_line_however_old_they_are() {
    let times_and_tokens = [(0, 100.0), (7, 1000.0), (31, 4000.0), (64, 250.0), (65, 1.0)];
    let line = line(&times_and_tokens.map(|(second, tokens)| (second, tokens, exact(tokens))));
    for later in [65, 95, 665, 3665] {
        assert_near(alone(&line, at(later)), (0.05, 0.0002));
    }
}

#[test]
fn older_samples_count_less() {
    // At 30 s the first two count half. Means by weight: 1,500 tokens, and (0.5 · 0.1 + 0.5 · 0.3 + 0.3 + 0.5) / 3 = 1/3 s.
    // Products of what lies off them: 0.5 · 116.67 - 0.5 · 16.67 + 16.67 + 83.33 = 150; squares: 3 · 500² = 750,000.
    let line = line(&[
        (0, 1000.0, 0.1),
        (0, 2000.0, 0.3),
        (30, 1000.0, 0.3),
        (30, 2000.0, 0.5),
    ]);
    assert_near(alone(&line, at(30)), (1.0 / 3.0 - 0.3, 0.0002));
}

#[test]
fn one_sample_and_samples_of_one_length_are_all_tokens() {
    assert_eq!(alone(&Line::default(), at(0)), None);
    assert_near(alone(&line(&[(5, 1000.0, 0.2)]), at(9)), (0.0, 0.0002));
    // (0.5 · 0.1 + 0.4) / 1.5 = 0.3 s for 1,000.
    let same = line(&[(0, 1000.0, 0.1), (30, 1000.0, 0.4)]);
    assert_near(alone(&same, at(30)), (0.0, 0.0003));
    // 0.1 + 0.2 are not quite 0.3, and 8,191 is no power of two: what rounding leaves is not taken for a spread.
    let mut same = Line::default();
    for turn in 0..1_000_000u64 {
        let seconds = [0.1, 0.2, 0.3][turn as usize % 3];
        same.add(after_millis(turn), 8191.0, seconds);
    }
    let (fixed, each) = alone(&same, after_millis(1_000_000)).unwrap();
    assert!(fixed < 1e-9, "{fixed}");
    assert!((each * 8191.0 / 0.2 - 1.0).abs() < 1e-4, "{each}");
}

#[test]
fn nothing_is_told_of_samples_without_tokens_or_time() {
    assert_eq!(alone(&line(&[(0, 0.0, 0.05), (1, 0.0, 0.05)]), at(1)), None);
    assert_eq!(alone(&line(&[(0, 700.0, 0.0)]), at(1)), None);
    // What is cached takes 50 ms, so that is what a prompt takes besides.
    let cached = line(&[(0, 0.0, 0.05), (0, 0.0, 0.05), (0, 1000.0, 0.25)]);
    assert_near(alone(&cached, at(0)), (0.05, 0.0002));
}

#[test]
fn an_outlier_counts_as_what_it_is_and_is_gone_in_minutes() {
    let usual = [(0, 1000.0, 0.1), (0, 2000.0, 0.2), (0, 3000.0, 0.3)];
    let with = |tokens, seconds| line(&[&usual[..], &[(0, tokens, seconds)]].concat());
    // A usual prompt that took 10 s more: means 2,000 and 2.7 s; (1000 · 2.6 - 1000 · 2.4) / 2,000,000.
    assert_near(alone(&with(2000.0, 10.2), at(0)), (2.5, 0.0001));
    // A long one: the slope would be 12 ms a token and prompts without tokens take less than no time, so it is the tokens'.
    assert_near(alone(&with(3000.0, 30.4), at(0)), (0.0, 31.0 / 9000.0));
    // Ten minutes later 2^-20 of it is left beside as many others.
    let mut old = with(2000.0, 10.2);
    for tokens in [1000.0, 2000.0, 3000.0] {
        old.add(at(600), tokens, tokens / 10_000.0);
    }
    let (fixed, each) = alone(&old, at(600)).unwrap();
    assert!((fixed - 10.0 / 3.0 / 1_048_576.0).abs() < 1e-7, "{fixed}");
    assert!((each / 0.0001 - 1.0).abs() < 1e-9, "{each}");
}

#[test]
fn a_few_samples_of_the_pool_are_mixed_in() {
    let pool = line(&[(0, 1000.0, 0.1); 10]);
    assert_near(Line::default().with(at(0), &pool), (0.0, 0.0001));
    // Five of its own, five of the pool's: 0.15 s; when its own have lost half: (2.5 · 0.2 + 5 · 0.1) / 7.5.
    let own = line(&[(0, 1000.0, 0.2); 5]);
    assert_near(own.with(at(0), &pool), (0.0, 0.00015));
    assert_near(own.with(at(30), &pool), (0.0, 1.0 / 7500.0));
    // The pool's do not: its own line is what remains, in an hour and in a year.
    for later in [3_600, 31_536_000] {
        assert_near(own.with(at(later), &pool), (0.0, 0.0001));
    }
    assert_near(own.with(Time::NEVER, &pool), (0.0, 0.0001));
}

#[test]
fn a_clock_may_stand_still_or_jump() {
    let samples = [(100.0, 0.07), (1000.0, 0.25), (4000.0, 0.85)];
    let mut line = Line::default();
    for (tokens, seconds) in samples {
        line.add(at(10), tokens, seconds);
    }
    assert_near(alone(&line, at(10)), (0.05, 0.0002));
    // An hour ahead it forgets: the one sample that comes then is all there is, as far as one tells anything.
    let mut ahead = line;
    ahead.add(at(3_610), 1000.0, 0.5);
    let (fixed, each) = alone(&ahead, at(3_610)).unwrap();
    assert!(fixed >= 0.0 && (fixed + 1000.0 * each - 0.5).abs() < 1e-9);
    // An hour back nothing is forgotten, and nothing is learned twice.
    let mut back = ahead;
    for (tokens, seconds) in samples {
        back.add(at(10), tokens, seconds);
    }
    let (fixed, each) = alone(&back, at(10)).unwrap();
    let total: f64 = samples.iter().map(|(_, seconds)| seconds).sum();
    assert!((4.0 * fixed + 6100.0 * each - total - 0.5).abs() < 1e-9);
}

#[test]
fn a_million_samples_leave_no_error_that_counts() {
    for pause in [0, 1] {
        let mut line = Line::default();
        for turn in 0..1_000_000u64 {
            let tokens = (turn * 7919 % 8192) as f64;
            line.add(after_millis(turn * pause), tokens, exact(tokens));
        }
        let (fixed, each) = alone(&line, after_millis(1_000_000 * pause)).unwrap();
        assert!((fixed / 0.05 - 1.0).abs() < 1e-6, "{fixed}");
        assert!((each / 0.0002 - 1.0).abs() < 1e-9, "{each}");
    }
}

/// What a prompt of 1,000 tokens takes is known well, what each token takes cannot be told from lengths that hardly differ.
#[test]
fn lengths_that_hardly_differ_do_not_tell_tokens_from_the_rest() {
    let mut rng = Rng::new(3);
    for _ in 0..50 {
        let mut line = Line::default();
        for turn in 0..100 {
            let tokens = 1000.0 + rng.below(4) as f64;
            let noise = 1.0 + 0.5 * (rng.share() - 0.5);
            line.add(at(turn), tokens, 0.2 * noise);
        }
        let (_, each) = alone(&line, at(100)).unwrap();
        assert!((each / 0.0002 - 1.0).abs() < 0.1, "{each}");
    }
}

/// Prompts that are cached but for their end say what a prompt takes besides, not what its tokens take.
#[test]
fn many_cached_prompts_do_not_make_tokens_dear() {
    let mut line = Line::default();
    for _ in 0..99 {
        line.add(at(0), 1.0, 0.05);
    }
    line.add(at(0), 1000.0, 0.04);
    let (fixed, each) = alone(&line, at(0)).unwrap();
    assert!(fixed <= 0.05 && each <= 0.05, "{fixed} s and {each} s a token");
    let asked = fixed + each * 1000.0;
    assert!((0.04..0.5).contains(&asked), "{asked} s for what took 0.04 s");
}

/// Nor once nothing else has come for so long that the line of before is forgotten.
#[test]
fn prompts_that_are_cached_for_an_hour_do_not_make_tokens_dear() {
    let mut line = line(&[(0, 100.0, 0.03), (0, 1000.0, 0.12), (0, 4000.0, 0.42)]);
    for second in 1..3600 {
        line.add(at(second), 1.0, 0.02);
    }
    let (fixed, each) = alone(&line, at(3600)).unwrap();
    // It was 0.1 ms; a pass of 256 tokens in 20 ms is 0.08 ms for each.
    assert!((0.019..0.021).contains(&fixed), "{fixed}");
    assert!((0.5e-4..2e-4).contains(&each), "{each}");
}

proptest! {
    /// Whatever comes when: no negative time, no token much dearer than in the dearest sample, and no more besides tokens than the slowest took.
    #[test]
    fn a_line_is_none_or_within_what_was_measured(own in samples(), pool in samples(), later in 0u64..100_000) {
        let (mut line, mut means) = (Line::default(), Line::default());
        let (mut now, mut dearest, mut slowest) = (Time::ZERO, 0.0f64, 0.0f64);
        let both = own.into_iter().map(|sample| (true, sample));
        for (is_own, (at, tokens, seconds)) in both.chain(pool.into_iter().map(|sample| (false, sample))) {
            if is_own {
                line.add(at, tokens, seconds);
            }
            means.add(at, tokens, seconds);
            now = now.max(at);
            slowest = slowest.max(seconds);
            if tokens > 0.0 {
                dearest = dearest.max(seconds / tokens);
            }
            for now in [now, now.after(Duration::from_secs(later))] {
                for found in [line.with(now, &means), means.with(now, &line), alone(&line, now)] {
                    let Some((fixed, each)) = found else { continue };
                    prop_assert!(fixed.is_finite() && each.is_finite(), "{fixed} {each}");
                    prop_assert!(fixed >= 0.0 && each >= 0.0, "{fixed} {each}");
                    prop_assert!(each <= DEAREST * dearest * (1.0 + 1e-6), "{each} of {dearest}");
                    prop_assert!(fixed <= slowest * (1.0 + 1e-6), "{fixed} of {slowest}");
                }
            }
        }
    }
}
