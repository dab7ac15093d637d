use super::super::batch::tests::{V, ints, pack};
use super::super::chain;
use super::*;

fn batch(seconds: i64, events: Vec<V>) -> Vec<u8> {
    pack(&V::List(vec![V::Int(seconds), V::List(events)]))
}

fn stored(name: i64, tokens: [i64; 2]) -> V {
    V::Map(vec![
        ("type", V::Str("BlockStored")),
        ("block_hashes", ints([name])),
        ("token_ids", ints(tokens)),
        ("block_size", V::Int(2)),
    ])
}

fn message(number: u64, bytes: Vec<u8>) -> Vec<Vec<u8>> {
    vec![b"topic".to_vec(), number.to_be_bytes().to_vec(), bytes]
}

fn name(tokens: [u32; 2]) -> u64 {
    chain::block(chain::root(None), &tokens, 0)
}

#[test]
fn messages_become_changes() {
    let mut follower = Follower::new(100);
    let mut changes = Vec::new();
    assert_eq!(follower.connected(&mut changes), Some(Ask { from: 0 }));
    assert!(follower.asking());
    // The end of the replay, as old publishers say it and as new ones do.
    let end = vec![u64::MAX.to_be_bytes().to_vec(), vec![]];
    assert_eq!(follower.replayed(&end, &mut changes), Ok(None));
    assert!(!follower.asking() && !follower.whole());
    let first = message(0, batch(1, vec![stored(7, [1, 2])]));
    assert_eq!(follower.published(&first, &mut changes), Ok(None));
    assert_eq!(
        changes,
        [
            Change::Cleared,
            Change::Stored {
                parent: None,
                blocks: vec![name([1, 2])]
            }
        ]
    );
    assert!(follower.whole());
    assert_eq!(
        (follower.held(), follower.block_size(), follower.seconds()),
        (1, Some(2), 1.0)
    );
    assert_eq!(
        follower.published(&message(2, batch(3, vec![])), &mut changes),
        Ok(Some(Ask { from: 0 }))
    );
    let missing = [
        &b""[..],
        b"",
        &1_u64.to_be_bytes(),
        &batch(2, vec![stored(8, [3, 4])]),
    ];
    assert_eq!(follower.replayed(&missing, &mut changes), Ok(None));
    assert_eq!(follower.counts().batches, 3);
    assert_eq!(follower.held(), 2);
}

#[test]
fn a_batch_that_cannot_be_read_clears_the_view() {
    let mut follower = Follower::new(100);
    let mut changes = Vec::new();
    follower
        .published(&message(0, batch(1, vec![stored(7, [1, 2])])), &mut changes)
        .unwrap();
    follower
        .published(&message(1, b"\xc1".to_vec()), &mut changes)
        .unwrap();
    assert_eq!(changes.last(), Some(&Change::Lost));
    assert!(!follower.whole());
    // Until the engine says that it is empty, from which moment all is known again.
    let cleared = V::Map(vec![("type", V::Str("AllBlocksCleared"))]);
    follower
        .published(&message(2, batch(2, vec![cleared])), &mut changes)
        .unwrap();
    assert!(follower.whole());
    assert_eq!(follower.counts().broken, 1);
}

#[test]
fn other_messages_change_nothing() {
    let mut follower = Follower::new(100);
    let mut changes = Vec::new();
    assert_eq!(follower.published(&[b"x"], &mut changes), Err(Fault::Parts));
    assert_eq!(
        follower.published(&[b"x", b"y"], &mut changes),
        Err(Fault::Number)
    );
    assert_eq!(follower.published::<&[u8]>(&[], &mut changes), Err(Fault::Parts));
    assert_eq!(changes, []);
}
