use super::super::batch::Stored;
use super::*;

/// Blocks of two tokens `t, t` each, named `names` by the engine.
fn stored(parent: Option<u64>, names: &[u64], tokens: &[u32]) -> Event {
    Event::Stored(Stored {
        names: names.to_vec(),
        parent,
        tokens: tokens.iter().flat_map(|token| [*token, *token]).collect(),
        block_size: 2,
        root: chain::root(None),
        whole: true,
        ..Stored::default()
    })
}

fn removed(names: &[u64]) -> Event {
    Event::Removed {
        names: names.to_vec(),
        group: None,
    }
}

fn apply(blocks: &mut Blocks, events: impl IntoIterator<Item = Event>) -> Vec<Change> {
    let mut changes = Vec::new();
    blocks.apply(
        Batch {
            events: events.into_iter().collect(),
            ..Batch::default()
        },
        &mut changes,
    );
    changes
}

/// The names that a prompt of these tokens, each twice, has here.
fn chained(tokens: &[u32]) -> Vec<u64> {
    let tokens: Vec<u32> = tokens.iter().flat_map(|token| [*token, *token]).collect();
    let mut names = Vec::new();
    chain::blocks(chain::root(None), &tokens, 2, &mut names);
    names
}

#[test]
fn a_block_has_the_name_that_the_prompt_gives_it() {
    let mut blocks = Blocks::new(100);
    let [a, b, c]: [u64; 3] = chained(&[1, 2, 3]).try_into().unwrap();
    let changes = apply(
        &mut blocks,
        [stored(None, &[71, 72], &[1, 2]), stored(Some(72), &[73], &[3])],
    );
    let first = Change::Stored {
        parent: None,
        blocks: vec![a, b],
    };
    assert_eq!(
        changes,
        [
            first,
            Change::Stored {
                parent: Some(b),
                blocks: vec![c]
            }
        ]
    );
    assert_eq!((blocks.len(), blocks.block_size()), (3, Some(2)));
    assert_eq!(
        apply(&mut blocks, [removed(&[73, 72])]),
        [Change::Removed { blocks: vec![c, b] }]
    );
    assert_eq!(apply(&mut blocks, [Event::Cleared]), [Change::Cleared]);
    assert!(blocks.is_empty());
}

#[test]
fn a_block_is_gone_with_its_last_copy() {
    let mut blocks = Blocks::new(100);
    apply(&mut blocks, [stored(None, &[71, 72], &[1, 2])]);
    // Computed twice at the same time, and one block more.
    let names = chained(&[1, 2, 3]);
    let changes = apply(&mut blocks, [stored(None, &[71, 72, 73], &[1, 2, 3])]);
    assert_eq!(
        changes,
        [Change::Stored {
            parent: Some(names[1]),
            blocks: vec![names[2]]
        }]
    );
    assert_eq!(apply(&mut blocks, [removed(&[72])]), []);
    assert_eq!(
        apply(&mut blocks, [removed(&[72])]),
        [Change::Removed {
            blocks: vec![names[1]]
        }]
    );
    assert_eq!(apply(&mut blocks, [removed(&[72])]), []);
    assert_eq!(blocks.placed().strangers, 1);
}

#[test]
fn what_stands_behind_an_unknown_block_is_left_out() {
    let mut blocks = Blocks::new(100);
    assert_eq!(
        apply(
            &mut blocks,
            [stored(Some(7), &[71, 72], &[1, 2]), stored(Some(72), &[73], &[3])]
        ),
        []
    );
    assert_eq!((blocks.len(), blocks.placed().orphans), (0, 3));
}

#[test]
fn blocks_of_one_name_are_never_confused() {
    let mut blocks = Blocks::new(100);
    // As SGLang once named blocks: by their own tokens alone.
    apply(&mut blocks, [stored(None, &[71, 79], &[1, 9])]);
    let changes = apply(&mut blocks, [stored(None, &[72, 79, 73], &[2, 9, 3])]);
    assert_eq!(
        changes,
        [Change::Stored {
            parent: None,
            blocks: vec![chained(&[2])[0]]
        }]
    );
    assert_eq!((blocks.placed().ambiguous, blocks.placed().orphans), (1, 1));
    // Behind which of the two is not known.
    assert_eq!(apply(&mut blocks, [stored(Some(79), &[74], &[4])]), []);
    assert_eq!(
        apply(&mut blocks, [removed(&[79])]),
        [Change::Removed {
            blocks: vec![chained(&[1, 9])[1]]
        }]
    );
}

#[test]
fn no_more_blocks_are_kept_than_allowed() {
    let mut blocks = Blocks::new(2);
    let changes = apply(&mut blocks, [stored(None, &[71, 72, 73, 74], &[1, 2, 3, 4])]);
    assert_eq!(
        changes,
        [Change::Stored {
            parent: None,
            blocks: chained(&[1, 2])
        }]
    );
    assert_eq!(
        (blocks.len(), blocks.placed().over, blocks.placed().orphans),
        (2, 1, 1)
    );
    apply(&mut blocks, [removed(&[72])]);
    let changes = apply(&mut blocks, [stored(Some(71), &[75], &[5])]);
    assert_eq!(
        changes,
        [Change::Stored {
            parent: Some(chained(&[1])[0]),
            blocks: vec![chained(&[1, 5])[1]]
        }]
    );
}

#[test]
fn layers_with_a_window_neither_store_nor_remove() {
    let mut blocks = Blocks::new(100);
    let Event::Stored(mut windowed) = stored(None, &[71], &[1]) else {
        unreachable!()
    };
    (windowed.group, windowed.whole) = (Some(1), false);
    let gone = |group| Event::Removed {
        names: vec![71],
        group: Some(group),
    };
    apply(
        &mut blocks,
        [stored(None, &[71], &[1]), Event::Stored(windowed), gone(1)],
    );
    assert_eq!(blocks.len(), 1);
    apply(&mut blocks, [gone(0)]);
    assert_eq!(blocks.len(), 0);
}

#[test]
fn blocks_of_another_size_are_left_out() {
    let mut blocks = Blocks::new(100);
    let Event::Stored(mut other) = stored(None, &[79], &[1, 2]) else {
        unreachable!()
    };
    (other.block_size, other.names) = (4, vec![79]);
    apply(&mut blocks, [stored(None, &[71], &[1]), Event::Stored(other)]);
    assert_eq!((blocks.len(), blocks.placed().other_size), (1, 1));
}
