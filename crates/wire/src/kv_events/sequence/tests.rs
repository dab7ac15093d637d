use super::*;

/// Batch `number` of life `life`; a later life's clock is later.
fn item(life: u8, number: u64) -> Numbered<(u8, u64)> {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let seconds = f64::from(life) * 1000.0 + number as f64;
    Numbered {
        number,
        mark: u64::from(life) << 32 | number,
        seconds,
        bytes: 10,
        batch: (life, number),
    }
}

/// What came of an input, in short: `a0` applied batch 0 of the first life, `ask 3`, `lost`, `restarted`.
fn said(steps: &mut Vec<Step<(u8, u64)>>) -> String {
    let words: Vec<String> = steps
        .drain(..)
        .map(|step| match step {
            Step::Apply {
                batch: (life, number),
                ..
            } => format!("{}{number}", char::from(b'a' + life)),
            Step::Ask { from } => format!("ask {from}"),
            Step::Reset(Reset::Lost) => "lost".to_owned(),
            Step::Reset(Reset::Restarted) => "restarted".to_owned(),
        })
        .collect();
    words.join(" ")
}

/// Each line: an input and what must come of it. `c` connected, `p b3` published batch 3 of the second life, `r a1`
/// replayed, `e` the replay ended, `f` it failed.
fn check(script: &[(&str, &str)]) -> Sequence<(u8, u64)> {
    let mut sequence = Sequence::default();
    let mut steps = Vec::new();
    for (place, (input, expected)) in script.iter().enumerate() {
        let parsed = |text: &str| item(text.as_bytes()[0] - b'a', text[1..].parse().unwrap());
        match input.split_once(' ') {
            None if *input == "c" => sequence.connected(&mut steps),
            None if *input == "e" => sequence.replay_ended(&mut steps),
            None if *input == "f" => sequence.replay_failed(&mut steps),
            Some(("p", batch)) => sequence.published(parsed(batch), &mut steps),
            Some(("r", batch)) => sequence.replayed(parsed(batch), &mut steps),
            _ => panic!("{input}"),
        }
        assert_eq!(said(&mut steps), *expected, "line {place}: {input}");
    }
    sequence
}

#[test]
fn from_the_beginning_in_order() {
    let sequence = check(&[
        ("c", "ask 0"),
        ("e", ""),
        ("p a0", "a0"),
        ("p a1", "a1"),
        ("p a2", "a2"),
    ]);
    assert_eq!(
        (sequence.last(), sequence.asking(), sequence.waiting()),
        (Some(2), false, 0)
    );
}

#[test]
fn who_comes_late_gets_what_was_before() {
    check(&[
        ("c", "ask 0"),
        ("p a3", ""),
        ("r a0", "a0"),
        ("r a1", "a1"),
        ("r a2", "a2 a3"),
        ("r a3", ""),
        ("e", ""),
        ("p a4", "a4"),
    ]);
    // Of which only the newest are kept.
    check(&[
        ("c", "ask 0"),
        ("r a7", "a7"),
        ("r a8", "a8"),
        ("e", ""),
        ("p a9", "a9"),
    ]);
}

#[test]
fn a_gap_is_asked_for() {
    check(&[
        ("p a0", "a0"),
        ("p a3", "ask 0"),
        ("p a4", ""),
        ("r a0", ""),
        ("r a1", "a1"),
        ("r a2", "a2 a3 a4"),
        ("e", ""),
    ]);
}

#[test]
fn what_comes_late_by_itself_needs_no_replay() {
    let sequence = check(&[
        ("p a0", "a0"),
        ("p a2", "ask 0"),
        ("p a3", ""),
        ("p a1", "a1 a2 a3"),
        ("e", ""),
    ]);
    assert!(!sequence.asking());
}

#[test]
fn what_comes_twice_counts_once() {
    check(&[
        ("p a0", "a0"),
        ("p a1", "a1"),
        ("p a0", ""),
        ("p a1", ""),
        ("p a2", "a2"),
        ("p a1", ""),
    ]);
}

#[test]
fn a_gap_that_the_replay_does_not_fill_is_a_loss() {
    check(&[
        ("p a0", "a0"),
        ("p a5", "ask 0"),
        ("e", "ask 0"),
        ("r a4", ""),
        ("e", "ask 0"),
        ("e", "lost a4 a5"),
        ("p a6", "a6"),
    ]);
}

#[test]
fn a_replay_that_fails_is_a_loss() {
    check(&[
        ("p a0", "a0"),
        ("p a5", "ask 0"),
        ("p a7", ""),
        ("f", "lost a5 lost a7"),
        ("p a8", "a8"),
    ]);
    // Nothing is lost where nothing is missing.
    check(&[
        ("c", "ask 0"),
        ("f", ""),
        ("p a0", "a0"),
        ("f", ""),
        ("p a1", "a1"),
    ]);
}

#[test]
fn a_replay_that_loses_some_is_asked_again() {
    check(&[
        ("c", "ask 0"),
        ("r a0", "a0"),
        ("r a2", ""),
        ("r a3", ""),
        ("e", "ask 0"),
        ("r a0", ""),
        ("r a1", "a1 a2 a3"),
        ("e", ""),
    ]);
}

#[test]
fn a_publisher_that_begins_anew_is_known_by_its_numbers() {
    check(&[
        ("p a0", "a0"),
        ("p a1", "a1"),
        ("p b0", "restarted b0"),
        ("p b1", "b1"),
    ]);
    // Also where its first batches did not come.
    check(&[
        ("p a0", "a0"),
        ("p a1", "a1"),
        ("p a2", "a2"),
        ("p b1", "restarted ask 0"),
        ("r b0", "b0 b1"),
        ("e", ""),
    ]);
}

#[test]
fn a_publisher_that_begins_anew_is_known_at_the_next_connection() {
    // It has got further than the one before.
    check(&[
        ("p a0", "a0"),
        ("p a1", "a1"),
        ("c", "ask 1"),
        ("p b2", ""),
        ("r b1", "restarted"),
        ("r b2", ""),
        ("e", "ask 0"),
        ("r b0", "b0"),
        ("r b1", "b1"),
        ("r b2", "b2"),
        ("e", ""),
    ]);
    // It has not got as far.
    check(&[
        ("p a0", "a0"),
        ("p a1", "a1"),
        ("c", "ask 1"),
        ("e", "restarted ask 0"),
        ("r b0", "b0"),
        ("e", ""),
        ("p b1", "b1"),
    ]);
    // It has done nothing yet.
    check(&[
        ("p a0", "a0"),
        ("c", "ask 0"),
        ("e", "restarted ask 0"),
        ("e", ""),
        ("p b0", "b0"),
    ]);
}

#[test]
fn a_connection_that_was_lost_for_a_moment_costs_nothing() {
    check(&[
        ("p a0", "a0"),
        ("p a1", "a1"),
        ("c", "ask 1"),
        ("p a4", ""),
        ("r a1", ""),
        ("r a2", "a2"),
        ("r a3", "a3 a4"),
        ("r a4", ""),
        ("e", ""),
    ]);
}

/// Without a replay, whether it is the same publisher cannot be known.
#[test]
fn a_connection_that_was_lost_without_a_replay_is_a_loss() {
    check(&[
        ("p a0", "a0"),
        ("p a1", "a1"),
        ("c", "ask 1"),
        ("p b2", ""),
        ("f", "lost b2"),
        ("p b3", "b3"),
    ]);
}

#[test]
fn what_waited_for_an_earlier_life_is_not_taken_for_a_later_one() {
    check(&[
        ("p a0", "a0"),
        ("p a2", "ask 0"),
        ("c", "ask 0"),
        ("f", "lost"),
        ("p b1", "ask 0"),
        ("f", "b1"),
    ]);
}

#[test]
fn the_last_batch_is_not_in_the_buffer_any_more() {
    check(&[
        ("p a0", "a0"),
        ("c", "ask 0"),
        ("r a8", "lost"),
        ("r a9", ""),
        ("e", "ask 0"),
        ("r a8", "a8"),
        ("r a9", "a9"),
        ("e", ""),
    ]);
}

#[test]
fn too_many_that_wait_are_asked_for_again() {
    let mut sequence = Sequence::default();
    let mut steps = Vec::new();
    sequence.published(item(0, 0), &mut steps);
    let end = AHEAD_MAX as u64 + 20;
    for number in 2..end {
        sequence.published(item(0, number), &mut steps);
    }
    assert_eq!(said(&mut steps), "a0 ask 0");
    assert_eq!(sequence.waiting(), AHEAD_MAX);
    sequence.replayed(item(0, 1), &mut steps);
    assert_eq!(steps.drain(..).count(), AHEAD_MAX);
    sequence.replay_ended(&mut steps);
    let last = sequence.last().unwrap();
    assert_eq!(said(&mut steps), format!("ask {last}"));
    for number in last..end {
        sequence.replayed(item(0, number), &mut steps);
    }
    sequence.replay_ended(&mut steps);
    assert_eq!((sequence.last(), sequence.asking()), (Some(end - 1), false));
    // Where they cannot be asked for, the view begins behind them.
    steps.clear();
    sequence.published(item(0, end + 1), &mut steps);
    for number in 0..=AHEAD_MAX as u64 {
        sequence.published(item(0, end + 2 + number), &mut steps);
    }
    sequence.replay_failed(&mut steps);
    assert_eq!(said(&mut steps), format!("ask {} lost", end - 1));
    assert_eq!((sequence.last(), sequence.waiting()), (None, 0));
}
